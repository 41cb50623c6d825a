"""The fleet's audit, with a log of what it takes: this is written, and now and then its state.

The audit is a pure function of what it has taken, and what one micro-batch adds is small beside the
state of all instances, which would be made into bytes each time (docs/decisions/0028).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from tallystick.coordinates.audit.fleet import FleetAudit
from tallystick.coordinates.audit.fleet_events import FleetEvent
from tallystick.coordinates.audit.instance import failure_text
from tallystick.coordinates.state_codec import Bytes, decode, encode
from tallystick.coordinates.values.errors import StateDamagedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tallystick.coordinates.audit.fleet import FleetOutput

LOG_BYTES_MIN = 1 << 16
"""A state is not written for a log that is smaller."""
LOG_OF_STATE = 4
"""A state is written when the log since the last one has so many times its bytes."""
LOG_ENTRIES_MAX = 256
"""A start reads no more than so many."""


@dataclass(frozen=True, slots=True)
class _Taken:
    """One call of ``FleetAudit``: the one of its arguments that is not None says which."""

    events: list[FleetEvent] | None = None
    expired: dict[str, int] | None = None
    retired: str | None = None


@final
class FleetLog:
    """The audit of all instances together; ``entry`` and ``state`` are what it is made again from.

    Args:
        disabled: Names of rules that are switched off.
        state: The bytes of a state; None: as it is before everything.
        entries: The log since.
        is_anew: Nothing of what was written is of this audit: its state is written at once.

    Raises:
        StateError: The bytes are damaged, or another version of tallystick has written them.
    """

    def __init__(
        self,
        disabled: frozenset[str] = frozenset(),
        state: bytes | None = None,
        entries: Iterable[Bytes] = (),
        *,
        is_anew: bool = False,
    ) -> None:
        self.audit = FleetAudit(disabled)
        self._state_bytes = self._log_bytes = self._log_entries = 0
        self._is_due = is_anew
        if state is not None:
            self.audit = FleetAudit.from_bytes(state, disabled)
            self._state_bytes = len(state)
        for entry in entries:
            for one in decode(list[_Taken], entry, "the fleet's log"):
                try:
                    self._take(one)
                except Exception as error:
                    raise StateDamagedError(failure_text(error)) from error
            self._note(entry)
        self._taken: list[_Taken] = []

    def absorb(self, events: Sequence[FleetEvent]) -> FleetOutput:
        """As of ``FleetAudit``."""
        self._taken.append(_Taken(events=list(events)))
        return self.audit.absorb(events)

    def expire(self, before_ts: Mapping[str, int]) -> FleetOutput:
        """As of ``FleetAudit``."""
        self._taken.append(_Taken(expired=dict(before_ts)))
        return self.audit.expire(before_ts)

    def retire(self, instance_id: str) -> None:
        """As of ``FleetAudit``."""
        self._taken.append(_Taken(retired=instance_id))
        self.audit.retire(instance_id)

    def _take(self, one: _Taken) -> None:
        if one.events is not None:
            self.audit.absorb(one.events)
        elif one.expired is not None:
            self.audit.expire(one.expired)
        elif one.retired is not None:
            self.audit.retire(one.retired)

    def entry(self) -> bytes:
        """What was taken since the last call, as the log's next entry."""
        data = encode(list[_Taken], self._taken)
        self._taken = []
        self._note(data)
        return data

    def _note(self, entry: Bytes) -> None:
        self._log_bytes += len(entry)
        self._log_entries += 1

    @property
    def kept_bytes(self) -> int:
        """The size of the state that was written last, and of the log since."""
        return self._state_bytes + self._log_bytes

    def state(self) -> bytes | None:
        """The state, if it is time to write it: then the log so far is not needed any more.

        So little more is written than what was taken, however large the state is.
        """
        self._is_due |= self._log_bytes > max(LOG_BYTES_MIN, LOG_OF_STATE * self._state_bytes)
        if not self._is_due and self._log_entries < LOG_ENTRIES_MAX:
            return None
        self._is_due = False
        state = self.audit.to_bytes()
        self._state_bytes, self._log_bytes, self._log_entries = len(state), 0, 0
        return state
