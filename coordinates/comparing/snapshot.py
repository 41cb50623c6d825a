"""States of before: one instance's journal as it stood at a time, and what it has lost since."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from coordinates.comparing.binlog_file import BinlogGroups
    from coordinates.gtid import GtidSet

    IntArray = npt.NDArray[np.int64]


class Identity(NamedTuple):
    """From `ts` the instance reports this `server_uuid`; the last fact under it is of `until`."""

    server_uuid: str
    ts: int
    until: int
    epoch: int
    sequence: int
    collection_id: str | None


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """The journal as it stood at `ts`.

    Attributes:
        ts: Time of the fact that it was taken at; that fact is part of it.
        losses: How many times something had been taken back.
        lineage, lineage_ts: The binlog lineage, and when it began, None if before the journal.
        base_name, file_number, end: End of the binary log, base name None before its first event.
        logged: L, the GTIDs that the present lineage has logged.
        is_complete: Whether `logged` misses nothing.
        declared: Executed without a group of this lineage, as far as told since the last loss.
        beyond: Everything else ever known to have been executed, logged or purged.
        row_ts: Time of the last log_status row since the last loss, None if there was none.
        has_row: Whether there was ever a row since the last gap.
        purged: gtid_purged of the last row.
        logs_everything: What is executed is also logged.
        server_id: As last reported.
        sources: Keys of the sources that the last row named.
        is_told: Whether a row since the last loss says what is executed without having been
            logged; `row_ts` counts accepted rows only.
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
    is_told: bool = False

    @property
    def known(self) -> GtidSet:
        """Everything ever known to have been executed, logged or purged."""
        return self.logged | self.beyond


@dataclass(frozen=True, slots=True, eq=False)
class Loss:
    """Events at the end of a file that a crash took back at `ts`.

    Attributes:
        number: States with as many losses, or more, were taken behind it.
        event_ends, groups: What was taken back; groups index `event_ends`.
    """

    ts: int
    number: int
    lineage: int
    file_number: int
    event_ends: IntArray
    groups: BinlogGroups
