"""One instance's journal while it is written: a block builder that knows the virtual time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tallystick.coordinates.events.journal import BlockBuilder, RecordType

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from tallystick.coordinates.events.journal import Block, RedoType
    from tallystick.producers.simulator.kernel.clock import Clock


@dataclass(frozen=True, slots=True)
class WrongClock:
    """An observer's clock that does not show the virtual time.

    Attributes:
        set_at: When it was set, µs of virtual time.
        ahead_us: By how much too late it was set; negative: too early.
        drift: By what share of the time since then it gains.
    """

    set_at: int
    ahead_us: int
    drift: float

    def shown(self, ts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """What it shows at some times; it never goes back."""
        return ts + self.ahead_us + ((ts - self.set_at) * self.drift).astype(np.int64)


class JournalWriter(BlockBuilder):
    """A block builder whose time stamps follow a clock and never fall.

    Attributes:
        observer: The clock of who writes the journal, None: it shows the virtual time.
        has_redo_events: Whether it has the events of the redo log.
    """

    has_redo_events = True

    def __init__(self, instance_id: str, clock: Clock) -> None:
        super().__init__(instance_id)
        self._clock = clock
        self.last_ts = clock.now
        self.observer: WrongClock | None = None

    def moment(self) -> int:
        """The time stamp of what is written now."""
        now = self._clock.now
        if now <= self.last_ts:
            return self.last_ts
        self.last_ts = now
        return now

    def tick(self, microseconds: int) -> int:
        """Let time pass inside one act; the moment after it."""
        self.last_ts = self.moment() + microseconds
        return self.last_ts

    def record(
        self, record_type: RecordType, body: Mapping[str, Any], channel: str | None = None
    ) -> None:
        """Write a record about the server."""
        self.server_record(record_type, body, ts=self.moment(), channel=channel)

    def redo_event(self, redo_type: RedoType, lsn: int, *, ts: int, **block: int) -> None:
        """Add an event of the redo log, if the journal has these."""
        if self.has_redo_events:
            super().redo_event(redo_type, lsn, ts=ts, **block)

    def shown(self, ts: int) -> int:
        """What the observer's clock shows at a time."""
        return ts if self.observer is None else int(self.observer.shown(np.array([ts]))[0])

    def hand_over(self, clock: WrongClock) -> None:
        """Another observer writes the journal, by a clock that no other has."""
        self.observer = clock
        self.record(RecordType.OBSERVER, {"clock": f"that of {self.instance_id}"})

    def build(self) -> Block:
        """The block of all records since the last call, at the times that the observer sees."""
        block = super().build()
        if self.observer is not None:
            columns = {**block.columns, "ts": self.observer.shown(block.columns["ts"])}
            block = replace(block, columns=columns)
        return block
