"""Earlier states: one instance's journal as it was at a time, and what it has lost since."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from tallystick.coordinates.audit.packed_events import Events
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from collections.abc import Iterator

SNAPSHOTS_MAX = 512
_ts = attrgetter("ts")


class Identity(NamedTuple):
    """From `ts` the instance reports this `server_uuid`; the last event under it is of `until`."""

    server_uuid: str
    ts: int
    until: int
    epoch: int
    sequence: int
    collection_id: str | None


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """The journal as it was at `ts`.

    Attributes:
        ts: Time of the fleet event that it was taken at; that event is part of it.
        losses: How many times something had been taken back.
        lineage, lineage_ts: The binlog lineage, and when it began, None if before the journal.
        base_name, file_number, end: End of the binary log, base name None before its first event.
        logged: L, the GTIDs that the present lineage has logged.
        is_complete: Whether `logged` misses nothing.
        declared: Executed without a group of this lineage, as far as recorded since the last loss.
        beyond: Everything else ever known to have been executed, logged or purged.
        row_ts: Time of the last log_status row since the last loss, None if there was none.
        has_row: Whether there was ever a row since the last gap.
        purged: gtid_purged of the last row.
        logs_everything: What is executed is also logged.
        server_id: As last reported.
        sources: Keys of the sources that the last row named.
        shows_executed: Whether a row since the last loss shows what is executed without having been
            logged; `row_ts` counts accepted rows only.
        log_since_ts: Since when the binary log is known to be this one: when it was seen to begin,
            or when the journal began, or began anew after a gap in which a RESET may hide.
        oldest: Number of the oldest file after the last purge of this lineage, 0 not known.
        is_named_anew: Whether no log that has ended had files of this base name.
    """

    ts: int
    losses: int
    lineage: int
    lineage_ts: int | None
    base_name: str | None
    file_number: int
    end: int
    logged: GtidSet
    is_complete: bool
    declared: GtidSet
    beyond: GtidSet
    row_ts: int | None
    has_row: bool
    purged: GtidSet | None
    logs_everything: bool
    server_id: int | None
    sources: tuple[str, ...]
    shows_executed: bool
    log_since_ts: int
    oldest: int
    is_named_anew: bool

    @property
    def known(self) -> GtidSet:
        """Everything ever known to have been executed, logged or purged."""
        return self.logged | self.beyond


@dataclass(frozen=True, slots=True, eq=False)
class Loss:
    """Events at the end of a file that a crash took back at `ts`.

    Attributes:
        number: States with as many losses, or more, were taken after it.
        known_from: From where on all that was taken back was known.
        events: What was taken back.
    """

    ts: int
    number: int
    lineage: int
    file_number: int
    known_from: int
    events: Events


@dataclass(eq=False)
class States:
    """The snapshots of one journal, oldest first; beyond a number the oldest are forgotten."""

    _snapshots: list[Snapshot] = field(default_factory=list)
    _has_forgotten: bool = False

    def __iter__(self) -> Iterator[Snapshot]:
        return iter(self._snapshots)

    @property
    def last_ts(self) -> int:
        """Time of the last one, -1 if there is none."""
        return self._snapshots[-1].ts if self._snapshots else -1

    def add(self, snapshot: Snapshot) -> None:
        """Remember one that is no older than the last."""
        self._snapshots.append(snapshot)
        if len(self._snapshots) > SNAPSHOTS_MAX:
            del self._snapshots[: SNAPSHOTS_MAX // 4]
            self._has_forgotten = True

    def has_forgotten(self, ts: int) -> bool:
        """Whether the first state at or after `ts` may be forgotten: one that is known is later."""
        return self._has_forgotten and self.until(ts) is None

    def forget_last(self) -> None:
        """Take back the last `add`."""
        self._snapshots.pop()

    def first_since(self, ts: int) -> Snapshot | None:
        """The first snapshot at or after `ts`."""
        at = bisect_left(self._snapshots, ts, key=_ts)
        return self._snapshots[at] if at < len(self._snapshots) else None

    def since(self, ts: int) -> Iterator[Snapshot]:
        """The first snapshot at or after `ts`, and those after it up to the next loss."""
        at = bisect_left(self._snapshots, ts, key=_ts)
        if at == len(self._snapshots):
            return
        losses = self._snapshots[at].losses
        for snapshot in self._snapshots[at:]:
            if snapshot.losses != losses:
                return
            yield snapshot

    def knowing(self, ts: int) -> Snapshot | None:
        """The first state at or after `ts` that knows everything the instance had executed."""
        at = bisect_left(self._snapshots, ts, key=_ts)
        for state in self._snapshots[at:]:
            is_known = state.logs_everything or (state.row_ts is not None and state.row_ts >= ts)
            if state.is_complete and state.has_row and is_known:
                return state
        return None

    def until(self, ts: int) -> Snapshot | None:
        """The last snapshot at or before `ts`."""
        at = bisect_right(self._snapshots, ts, key=_ts)
        return self._snapshots[at - 1] if at else None
