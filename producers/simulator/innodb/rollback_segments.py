"""Rollback segments and the transaction system page of one InnoDB (WL#9211, Format-2 and Format-3).

What a page holds outlives a crash; the serialisation list, the mutex and the read views do not.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tallystick.producers.simulator.innodb.undo_log import trx_undo_gtid_read

if TYPE_CHECKING:
    from types import TracebackType

    from tallystick.producers.simulator.innodb.undo_log import UndoLogHeader
    from tallystick.producers.simulator.kernel.transactions import Group

TRX_SYS_N_RSEGS = 4
"""A server has 128; transactions are given to them in turn."""


@dataclass(slots=True, eq=False)
class RollbackSegment:
    """One rollback segment.

    Attributes:
        slots: Update undo logs of transactions that have not ended, and whose they are.
        history: Update undo logs of committed transactions, oldest first.
        max_trx_no: TRX_RSEG_MAX_TRX_NO, the greatest number ever added to the history.
    """

    slots: list[tuple[UndoLogHeader, Group]] = field(default_factory=list)
    history: deque[UndoLogHeader] = field(default_factory=deque)
    max_trx_no: int = 0

    def copy(self) -> RollbackSegment:
        """A segment of its own with the same undo logs; those in the history change no more."""
        slots = [(header.copy(), group) for header, group in self.slots]
        return RollbackSegment(slots, deque(self.history), self.max_trx_no)

    def add_to_history(self, header: UndoLogHeader) -> None:
        """Put the undo log of a committed transaction after all others."""
        number = header.trx_no
        assert number > self.max_trx_no, "history is in the order of trx_no"
        self.history.append(header)
        self.max_trx_no = number


class TrxSysMutex:
    """trx_sys_mutex: nobody takes it twice, and nobody waits for anything else under it."""

    __slots__ = ("is_held",)

    def __init__(self) -> None:
        self.is_held = False

    def __enter__(self) -> None:
        assert not self.is_held, "trx_sys_mutex is taken already"
        self.is_held = True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.is_held = False


def _segments() -> tuple[RollbackSegment, ...]:
    return tuple(RollbackSegment() for _ in range(TRX_SYS_N_RSEGS))


@dataclass(slots=True, eq=False)
class TrxSys:
    """The transaction system of one InnoDB.

    Attributes:
        segments: The rollback segments, in undo tablespaces.
        trx_num_gtid: TRX_SYS_TRX_NUM_GTID, in the TRX_SYS page: below it all GTIDs are in the
            table; 0 in an old database.
        next_trx_no: The number that the next transaction ends with.
        serialisation_list: Numbers of transactions whose end is in the undo log, or about to be,
            and not yet in memory.
        read_views: For each open read view, the number from which on it sees no transaction.
        next_segment: Index of the rollback segment that the next transaction gets.
        purge_is_due: Whether purge will look for undo logs.
    """

    segments: tuple[RollbackSegment, ...] = field(default_factory=_segments)
    trx_num_gtid: int = 0
    next_trx_no: int = 1
    serialisation_list: list[int] = field(default_factory=list)
    read_views: list[int] = field(default_factory=list)
    mutex: TrxSysMutex = field(default_factory=TrxSysMutex)
    next_segment: int = 0
    purge_is_due: bool = False

    def assign_segment(self) -> RollbackSegment:
        """The rollback segment of the next transaction."""
        segment = self.segments[self.next_segment]
        self.next_segment = (self.next_segment + 1) % len(self.segments)
        return segment

    def oldest_active(self) -> int:
        """Least number of a transaction that has not ended in memory; the next one if all have."""
        return min(self.serialisation_list, default=self.next_trx_no)

    def forget_memory(self) -> None:
        """A crash: what is in memory is gone; numbers go on after all that pages name."""
        self.serialisation_list = []
        self.read_views = []
        self.purge_is_due = False
        self.mutex = TrxSysMutex()
        greatest = max(segment.max_trx_no for segment in self.segments)
        self.next_trx_no = max(greatest + 1, self.trx_num_gtid)

    def copy(self) -> TrxSys:
        """Pages of their own with the same content; of memory only what numbers need."""
        segments = tuple(segment.copy() for segment in self.segments)
        return TrxSys(segments, self.trx_num_gtid, self.next_trx_no)

    def prepared(self) -> list[Group]:
        """The XA transactions that undo logs in state PREPARED belong to."""
        return [group for segment in self.segments for _, group in segment.slots]

    def lose(self, sid: str, gno: int) -> None:
        """A page that was never synchronised: the undo log with that GTID is not there."""
        for segment in self.segments:
            segment.history = deque(
                header
                for header in segment.history
                if (desc := trx_undo_gtid_read(header)) is None or desc.gtid() != (sid, gno)
            )

    def oldest_history(self) -> int:
        """Number of the oldest undo log that waits for purge; the next number without one."""
        heads = (s.history[0].trx_no for s in self.segments if s.history)
        return min(heads, default=self.next_trx_no)

    def history_length(self) -> int:
        """How many undo logs wait for purge."""
        return sum([len(segment.history) for segment in self.segments])
