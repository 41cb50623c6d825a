"""InnoDB's GTID persistence by itself, step by step, and every order in which its threads may run.

A thread is a list of steps, each of them one atomic act on a `World`. `explore` visits every state
that any interleaving reaches; in each of them the server may crash, so a check looks at each.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from tallystick.producers.simulator.innodb import purge, transaction_end, undo_recovery
from tallystick.producers.simulator.innodb.gtid_persister import GtidPersister
from tallystick.producers.simulator.innodb.rollback_segments import RollbackSegment, TrxSys
from tallystick.producers.simulator.innodb.session_gtid import SessionGtid
from tallystick.producers.simulator.innodb.undo_log import trx_undo_gtid_read
from tallystick.producers.simulator.kernel.gtid_intervals import GtidIntervals
from tallystick.producers.simulator.kernel.transactions import Group, GroupKind
from tallystick.producers.simulator.server import workload

if TYPE_CHECKING:
    from tallystick.producers.simulator.innodb.transaction_end import TransactionEnd

UUID = "aaaaaaaa-0000-0000-0000-000000000001"

Step = Callable[["World"], None]


@dataclass
class World:
    """What one InnoDB keeps, and what the test knows of it."""

    trx_sys: TrxSys
    persister: GtidPersister = field(default_factory=GtidPersister)
    table: GtidIntervals = field(default_factory=GtidIntervals)
    groups: list[Group] = field(default_factory=list)
    ends: dict[int, TransactionEnd] = field(default_factory=dict)
    durable: set[int] = field(default_factory=set)
    """GNOs of transactions that are committed or prepared on disk."""

    def key(self) -> tuple[object, ...]:
        """Equal for worlds that go on in the same way."""
        trx_sys, persister = self.trx_sys, self.persister
        return (
            tuple(
                (
                    segment.max_trx_no,
                    tuple((h.trx_no, trx_undo_gtid_read(h)) for h in segment.history),
                    tuple((h.state, trx_undo_gtid_read(h)) for h, _ in segment.slots),
                )
                for segment in trx_sys.segments
            ),
            (trx_sys.trx_num_gtid, trx_sys.next_trx_no, tuple(trx_sys.serialisation_list)),
            (tuple(persister.active), tuple(persister.flushing)),
            (persister.collected, persister.oldest_trx_no),
            (self.table.text(), tuple(sorted(self.durable))),
        )

    def gnos(self, gtids: GtidIntervals) -> set[int]:
        """The GNOs of a set."""
        return {gno for _, first, last in gtids for gno in range(first, last + 1)}

    # What threads do

    def allocate(self, gno: int) -> None:
        """Find or allocate the undo log of a group."""
        self.ends[gno] = transaction_end.allocate_undo(
            self.trx_sys, SessionGtid(self.groups[gno - 1])
        )

    def write_prepare(self, gno: int) -> None:
        """XA PREPARE is durable."""
        self.allocate(gno)
        transaction_end.write_prepare(self.ends[gno])
        self.durable.add(gno)

    def serialise(self, gno: int) -> None:
        """The transaction gets its number."""
        self.allocate(gno)
        transaction_end.serialise(self.trx_sys, self.ends[gno])

    def write_undo(self, gno: int) -> None:
        """The transaction is durable."""
        transaction_end.write_serialisation_history(self.ends[gno])
        self.durable.add(gno)

    def add(self, gno: int) -> None:
        """The transaction ends in memory."""
        transaction_end.commit_in_memory(self.trx_sys, self.persister, self.ends[gno])

    def add_early(self, gno: int) -> None:
        """Wrong: the persister gets the GTID first."""
        desc = self.ends[gno].desc
        assert desc is not None
        with self.trx_sys.mutex:
            self.persister.add(self.trx_sys, desc)
        self.ends[gno].desc = None

    def switch(self) -> None:
        """The persister switches lists."""
        self.persister.switch(self.trx_sys)

    def write(self) -> None:
        """The persister writes the table."""
        self.table.update(self.persister.flush_list())

    def collect_late(self) -> None:
        """Wrong: the oldest number is looked for when the list has been written."""
        self.persister.collected = self.trx_sys.oldest_active()

    def number(self) -> None:
        """The persister moves its number on."""
        self.persister.update_oldest_trx_no(self.trx_sys)

    def number_early(self) -> None:
        """Wrong: the number goes into the page before the list is in the table."""
        self.trx_sys.trx_num_gtid = self.persister.oldest_trx_no = self.persister.collected

    def wait_flush(self) -> None:
        """Somebody lets the persister write everything now."""
        if self.persister.is_writing:
            self.write()
            self.number()
        self.switch()
        self.write()
        self.number()

    def purge(self) -> None:
        """Purge removes what it may."""
        purge.purge(self.trx_sys, purge.oldest_read_view(self.trx_sys, self.persister))

    def purge_all(self) -> None:
        """Wrong: purge does not ask the persister."""
        purge.purge(self.trx_sys, self.trx_sys.oldest_active())

    def copy(self) -> World:
        """Another one that is equal; pickled it takes a tenth of the time of copy.deepcopy."""
        made: World = pickle.loads(pickle.dumps(self, pickle.HIGHEST_PROTOCOL))  # noqa: S301
        return made

    # Crash and start

    def crashed(self) -> World:
        """The world of pages and table that a crash leaves."""
        after = self.copy()
        after.trx_sys.forget_memory()
        after.persister = GtidPersister()
        return after

    def recover(self, steps: int = 3) -> World:
        """A start takes its steps: scan, write, number; fewer if it crashes again."""
        scan = undo_recovery.scan_undo_logs(self.trx_sys)
        with self.trx_sys.mutex:
            for desc in scan.descs:
                self.persister.add(self.trx_sys, desc)
        self.switch()
        if steps > 1:
            self.write()
        if steps > 2:
            self.number()
        return self


def world(*kinds: GroupKind, segments: int = 4) -> World:
    """A world with one group of each kind; XA COMMIT and XA ROLLBACK end the group before."""
    rng = Random("world")
    groups: list[Group] = []
    for gno, kind in enumerate(kinds, 1):
        ends = kind in (GroupKind.XA_COMMIT, GroupKind.XA_ROLLBACK)
        group = workload.make_group(rng, kind, 1, 0, xa_of=groups[-1] if ends else None)
        group.sid, group.gno = UUID, gno
        groups.append(group)
    return World(TrxSys(tuple(RollbackSegment() for _ in range(segments))), groups=groups)


def explore(start: World, threads: Sequence[Sequence[Step]], check: Callable[[World], None]) -> int:
    """Check every state that any interleaving of the threads reaches.

    Returns:
        How many states there are.

    Raises:
        AssertionError: A check failed.
    """
    begin = (0,) * len(threads)
    seen = {(begin, start.key())}
    waiting = [(begin, start)]
    while waiting:
        positions, state = waiting.pop()
        check(state)
        for number, thread in enumerate(threads):
            if positions[number] == len(thread):
                continue
            after = state.copy()
            thread[positions[number]](after)
            there = (*positions[:number], positions[number] + 1, *positions[number + 1 :])
            if (there, after.key()) not in seen:
                seen.add((there, after.key()))
                waiting.append((there, after))
    return len(seen)
