"""One instance's journal while it is written: a block builder that knows the virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tallystick.coordinates.events.journal import BlockBuilder, RecordType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallystick.producers.simulator.kernel.clock import Clock


class JournalWriter(BlockBuilder):
    """A block builder whose time stamps follow a clock and never fall."""

    def __init__(self, instance_id: str, clock: Clock) -> None:
        super().__init__(instance_id)
        self._clock = clock
        self.last_ts = clock.now

    def moment(self) -> int:
        """The time stamp of what is written now."""
        ts = max(self._clock.now, self.last_ts)
        self.last_ts = ts
        return ts

    def tick(self, microseconds: int) -> int:
        """Let time pass inside one act; the moment after it."""
        self.last_ts = self.moment() + microseconds
        return self.last_ts

    def record(
        self, record_type: RecordType, body: Mapping[str, Any], channel: str | None = None
    ) -> None:
        """Write a record about the server."""
        self.server_record(record_type, body, ts=self.moment(), channel=channel)
