"""No GTID is lost, whatever the order of committers, persister and purge, wherever a crash falls.

Every state of every interleaving is visited (WL#9211, F-7 and key points 1 to 4); in each of them
the server crashes, starts, crashes at each step of the start, and starts again.
"""

from __future__ import annotations

from functools import partial

import pytest

from tallystick.producers.simulator.innodb import undo_recovery
from tallystick.producers.simulator.kernel.gtid_intervals import GtidIntervals
from tallystick.producers.simulator.kernel.transactions import GroupKind
from tests.support.persistence_world import Step, World, explore, world

PERSISTER = (World.switch, World.write, World.number) * 2
PURGE = (World.purge, World.purge)
TWO = (GroupKind.INNODB, GroupKind.INNODB)


def committer(gno: int) -> tuple[Step, ...]:
    """What one transaction does at its end."""
    return tuple(partial(act, gno=gno) for act in (World.serialise, World.write_undo, World.add))


def xa_session() -> tuple[Step, ...]:
    """XA PREPARE, then its end, the second group, which saves the GTID that it overwrites."""
    prepare = (partial(World.write_prepare, gno=1), partial(World.add, gno=1))
    return (*prepare, World.wait_flush, *committer(2))


def table_and_undo_hold_all(state: World) -> None:
    """Nothing that is durable is missing after a start, and nothing else is in the table."""
    assert state.gnos(state.table) <= state.durable, "a GTID before its transaction"
    for steps in (1, 2, 3):
        started = state.crashed().recover(steps).crashed().recover()
        assert started.gnos(started.table) == state.durable
    assert len(started.trx_sys.prepared()) == len(state.trx_sys.prepared())


def test_two_committers_a_persister_and_purge() -> None:
    """Each in a rollback segment of its own: numbers are given and written in any order."""
    states = explore(
        world(*TWO), (committer(1), committer(2), PERSISTER, PURGE), table_and_undo_hold_all
    )
    assert states > 900


def test_committers_of_one_rollback_segment() -> None:
    """The segment's latch makes number and undo log one act; history stays in order."""
    threads = [
        (lambda w, n=n: (w.serialise(n), w.write_undo(n)), partial(World.add, gno=n))
        for n in (1, 2)
    ]
    assert explore(world(*TWO, segments=1), (*threads, PERSISTER, PURGE), table_and_undo_hold_all)


@pytest.mark.parametrize("kind", [GroupKind.XA_COMMIT, GroupKind.XA_ROLLBACK])
def test_a_prepared_transaction_and_its_end(kind: GroupKind) -> None:
    """Both GTIDs are found whenever the server crashes, and a prepared transaction stays."""
    start = world(GroupKind.XA_PREPARE, kind, GroupKind.INNODB)
    threads = (xa_session(), committer(3), PERSISTER, (World.purge,))
    assert explore(start, threads, table_and_undo_hold_all) > 900


def test_reset_while_the_persister_writes() -> None:
    """RESET lets the persister write first: nothing from before comes back into the empty table."""

    def committed() -> World:
        start = world(*TWO)
        for gno in (1, 2):
            for step in committer(gno):
                step(start)
        return start

    def clear(state: World) -> None:
        state.table, state.durable = GtidIntervals(), set()

    def reset(state: World) -> None:
        state.wait_flush()
        clear(state)

    assert explore(committed(), ((reset,), PERSISTER, PURGE), table_and_undo_hold_all)
    with pytest.raises(AssertionError):
        explore(committed(), ((clear,), PERSISTER, PURGE), table_and_undo_hold_all)


def _wrong_committer(gno: int) -> tuple[Step, ...]:
    order = (World.serialise, World.add_early, World.write_undo, World.add)
    return tuple(partial(act, gno=gno) for act in order)


@pytest.mark.parametrize(
    ("committers", "persister", "purge"),
    [
        pytest.param(
            (_wrong_committer(1), committer(2)), PERSISTER, PURGE, id="added before it is durable"
        ),
        pytest.param(
            (committer(1), committer(2)),
            (World.switch, World.number_early, World.write, World.number),
            PURGE,
            id="number before the table",
        ),
        pytest.param(
            (committer(1), committer(2)),
            (World.switch, World.write, World.collect_late, World.number),
            PURGE,
            id="oldest number collected after the switch",
        ),
        pytest.param(
            (committer(1), committer(2)),
            PERSISTER,
            (World.purge_all,),
            id="purge does not ask the persister",
        ),
    ],
)
def test_each_rule_of_the_design_is_needed(
    committers: tuple[tuple[Step, ...], ...],
    persister: tuple[Step, ...],
    purge: tuple[Step, ...],
) -> None:
    """Without any one of them some order loses a GTID, or has one too many."""
    with pytest.raises(AssertionError):
        explore(world(*TWO), (*committers, persister, purge), table_and_undo_hold_all)


def test_an_overwritten_prepare_must_be_saved_first() -> None:
    """Without waiting for the persister XA COMMIT takes the GTID of XA PREPARE out of the world."""
    session = tuple(step for step in xa_session() if step is not World.wait_flush)
    with pytest.raises(AssertionError):
        explore(
            world(GroupKind.XA_PREPARE, GroupKind.XA_COMMIT),
            (session, PERSISTER),
            table_and_undo_hold_all,
        )


def test_a_segment_with_the_stored_number_is_not_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its greatest number has to be lower: the transaction of that number may be unsaved."""
    threads = (committer(1), committer(2), PERSISTER)
    monkeypatch.setattr(
        undo_recovery, "is_skipped", lambda segment, number: segment.max_trx_no <= number
    )
    with pytest.raises(AssertionError):
        explore(world(*TWO), threads, table_and_undo_hold_all)
