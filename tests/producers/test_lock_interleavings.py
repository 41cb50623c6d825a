"""Deadlock freedom and the frozen state of a collection (WL#9452, NF-1 and F-2), by exploration.

The locks of the collection are those that the simulator takes when it answers one; what the other
operations take is written down in ``tests.support.server_operations``.
"""

from __future__ import annotations

from itertools import combinations_with_replacement
from typing import TYPE_CHECKING

import pytest

from tallystick.producers.simulator.assemble import Fleet
from tallystick.producers.simulator.faults.hooks import FaultHooks
from tallystick.producers.simulator.kernel.scenario import Scenario
from tallystick.producers.simulator.log_status.latches import (
    CHANNEL_MAP,
    GLOBAL_SID_LOCK,
    LOCK_COLLECT_INSTANCE_LOG,
    LOCK_LOG,
    LOCK_PLUGIN,
    LOG_BUFFER,
    LOG_CHECKPOINTER,
    Latches,
    data_lock,
)
from tallystick.producers.simulator.log_status.log_status_query import (
    LogStatus,
    LogStatusQuery,
    OutOfMemory,
)
from tests.support.interleavings import (
    Do,
    Step,
    Thread,
    add,
    change,
    explore,
    release,
    share,
    take,
    wait_for,
    wait_for_none,
)
from tests.support.server_operations import (
    BINARY_LOG,
    CHANNEL_ADMINISTRATION,
    CHANNELS,
    FROZEN,
    GTID_EXECUTED,
    LSN,
    LSN_CHECKPOINT,
    RECEIVER_FLUSH,
    RELAY_LOG,
    collection,
    operations,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.log_status.log_resources import (
        InstanceLogResource,
        InstanceLogResourceFactory,
    )

RESOURCES = ("channel:a", "channel:b", "binlog", "gtid_state", "engine:InnoDB")


class _RecordingLatches(Latches):
    """Latches that write down in which order they were taken and released."""

    __slots__ = ("steps",)

    def __init__(self, steps: list[Step]) -> None:
        super().__init__()
        self.steps = steps

    def take(self, name: str, session: int) -> None:
        super().take(name, session)
        self.steps.append(take(name))

    def release(self, name: str, session: int) -> None:
        super().release(name, session)
        self.steps += release(name)


class _RecordingHooks(FaultHooks):
    """Writes down when a resource is collected."""

    def __init__(self, steps: list[Step]) -> None:
        self.steps = steps

    def on_collect_step(
        self, fleet: Fleet, instance: Instance, collection_id: str, step: str, resource: str | None
    ) -> bool:
        if instance.instance_id == "hub" and step == "collect" and resource is not None:
            self.steps.append(Step(Do.COLLECT, resource))
        return True


def recorded_plan(out_of_memory: OutOfMemory | None = None) -> tuple[Step, ...]:
    """What one collection of a replica with two channels does, as the simulator did it."""
    steps: list[Step] = []
    fleet = Fleet(Scenario(seed=1, topology="multi_source"), _RecordingHooks(steps))
    hub = fleet.instances["hub"]
    hub[Latches] = _RecordingLatches(steps)
    hub[LogStatus].out_of_memory = out_of_memory
    fleet.collect("c", 1)
    fleet.run(fleet.start_ts + 200_000)
    assert not hub[Latches].held
    return tuple(steps)


PLAN = recorded_plan()
OPERATIONS = operations(PLAN)


def test_the_plan_is_that_of_the_document() -> None:
    """High Level Specification 1) to 6): in this order, and back in reverse."""
    inner = [
        data_lock("a"),
        data_lock("b"),
        LOCK_LOG,
        GLOBAL_SID_LOCK,
        LOG_BUFFER,
        LOG_CHECKPOINTER,
    ]
    outer = [LOCK_COLLECT_INSTANCE_LOG, CHANNEL_MAP]
    assert (
        *map(take, outer),
        take(LOCK_PLUGIN),
        *release(LOCK_PLUGIN),
        *map(take, inner),
        *(Step(Do.COLLECT, resource) for resource in RESOURCES),
        *release(*reversed(inner), *reversed(outer)),
    ) == PLAN


@pytest.mark.parametrize("name", OPERATIONS)
def test_no_operation_deadlocks_with_a_collection(name: str) -> None:
    """Every interleaving with one operation ends, and nothing moves in the frozen state."""
    found = explore([collection("collection", PLAN), *OPERATIONS[name]])
    assert found.deadlock is None
    assert found.broken is None
    assert found.ends == 1
    assert found.frozen_states > 0


@pytest.mark.parametrize("name", OPERATIONS)
def test_no_pair_of_operations_deadlocks_with_a_collection(name: str) -> None:
    """Every interleaving with two operations, the same one twice included."""
    for first, second in combinations_with_replacement(OPERATIONS, 2):
        if first != name:
            continue
        threads = [collection("collection", PLAN), *OPERATIONS[first], *OPERATIONS[second]]
        found = explore(threads)
        assert found.deadlock is None, (first, second)
        assert found.broken is None, (first, second)
        assert found.ends == 1, (first, second)
        assert found.frozen_states > 0, (first, second)


def test_the_operations_change_all_that_must_stand_still() -> None:
    """None of F-2.1 to F-2.5 holds only because nothing tries."""
    changed = {what for threads in OPERATIONS.values() for what in explore(threads).changed}
    assert changed >= FROZEN


def test_relay_log_events_may_be_written_under_the_locks() -> None:
    """Only the flush of the positions waits: the row says flushed_relay_log_info (Step-1)."""
    greedy = Thread("collection", PLAN, frozenset({RELAY_LOG}))
    assert explore([greedy, *OPERATIONS["receiver"]]).broken is not None


@pytest.mark.parametrize("at", ["instantiate", "collect"])
@pytest.mark.parametrize("resource", RESOURCES)
def test_a_collection_that_fails_does_not_deadlock_either(at: str, resource: str) -> None:
    """Out of memory at any wrapper: the locks taken so far are released, whoever runs beside."""
    plan = recorded_plan(OutOfMemory(at, resource))
    assert [take(LOCK_COLLECT_INSTANCE_LOG), take(CHANNEL_MAP)] == list(plan[:2])
    assert not {Step(Do.COLLECT, later) for later in RESOURCES[RESOURCES.index(resource) :]} & {
        *plan
    }
    failing = Thread("failing collection", plan)
    for name, threads in OPERATIONS.items():
        found = explore([failing, collection("collection", PLAN), *threads])
        assert found.deadlock is None, name
        assert found.broken is None, name
        assert found.ends == 1, name


# What the checker must find: wrong orders, and locks left out.


def moved(lock: str, before: str) -> tuple[Step, ...]:
    """The plan with one lock taken before another one, and released after it."""
    locks = [s.what for s in PLAN if s.do is Do.TAKE and s.what not in {lock, LOCK_PLUGIN}]
    locks.insert(locks.index(before), lock)
    return (*map(take, locks), *release(*reversed(locks)))


@pytest.mark.parametrize(
    ("lock", "before", "operation"),
    [
        (data_lock("a"), CHANNEL_MAP, "FLUSH RELAY LOGS"),
        (data_lock("a"), CHANNEL_MAP, "START REPLICA"),
        (LOG_BUFFER, data_lock("a"), "receiver"),
        (LOG_BUFFER, CHANNEL_MAP, "creation of a channel"),
        (LOG_BUFFER, LOCK_LOG, "FLUSH BINARY LOGS"),
        (LOG_BUFFER, GLOBAL_SID_LOCK, "SET GTID_EXECUTED / GTID_PURGED"),
        (GLOBAL_SID_LOCK, LOCK_LOG, "commit"),
        (GLOBAL_SID_LOCK, LOCK_LOG, "RESET MASTER"),
        (LOG_CHECKPOINTER, LOG_BUFFER, "InnoDB workload"),
        (LOCK_LOG, LOCK_COLLECT_INSTANCE_LOG, "another collection"),
    ],
)
def test_an_inverted_order_is_found_to_deadlock(lock: str, before: str, operation: str) -> None:
    """The same checker, the same operation, one lock too early: some run gets stuck."""
    found = explore([collection("collection", moved(lock, before)), *OPERATIONS[operation]])
    assert found.deadlock is not None
    assert any(line.startswith("(stuck) collection: TAKE") for line in found.deadlock)


def test_a_simulator_that_locks_engines_first_is_found_to_deadlock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The plan is the simulator's own: turn its list of wrappers round, and the proof fails."""
    right = LogStatusQuery._wrap_all

    def turned(
        self: LogStatusQuery, factory: InstanceLogResourceFactory
    ) -> Iterator[InstanceLogResource]:
        return iter(reversed(list(right(self, factory))))

    monkeypatch.setattr(LogStatusQuery, "_wrap_all", turned)
    wrong = collection("collection", recorded_plan())
    stuck = {name for name, threads in OPERATIONS.items() if explore([wrong, *threads]).deadlock}
    assert stuck >= {"receiver", "commit", "FLUSH BINARY LOGS", "RESET MASTER"}


@pytest.mark.parametrize(
    ("lock", "moves", "operation"),
    [
        (CHANNEL_MAP, CHANNELS, "creation of a channel"),
        (CHANNEL_MAP, CHANNEL_ADMINISTRATION, "STOP REPLICA"),
        (data_lock("a"), RECEIVER_FLUSH, "receiver"),
        (LOCK_LOG, BINARY_LOG, "non-transactional change"),
        (GLOBAL_SID_LOCK, GTID_EXECUTED, "non-transactional change"),
        (LOG_BUFFER, LSN, "commit"),
        (LOG_CHECKPOINTER, LSN_CHECKPOINT, "InnoDB workload"),
    ],
)
def test_every_lock_is_needed(lock: str, moves: str, operation: str) -> None:
    """Without it something moves between the last lock and the first unlock."""
    plan = tuple(step for step in PLAN if step.what != lock)
    threads = [Thread("collection", plan, frozenset({moves})), *OPERATIONS[operation]]
    found = explore(threads)
    assert found.broken is not None
    assert found.broken[-1].endswith(f"CHANGE {moves}")


# The checker itself.


def test_independent_threads_reach_the_whole_product() -> None:
    """Nothing is left out: n and m steps give (n + 1) (m + 1) states."""
    first = Thread("first", (take("a"), change("x"), *release("a")))
    second = Thread("second", (take("b"), *release("b")))
    assert explore([first, second]).states == 4 * 3


def test_a_circle_of_three_is_found() -> None:
    """Each waits for the next one's lock; two of them alone would be fine."""
    ring = [
        Thread(a, (take(a), take(b), *release(b, a)))
        for a, b in (("a", "b"), ("b", "c"), ("c", "a"))
    ]
    found = explore(ring)
    assert found.deadlock is not None
    assert [
        "(stuck) a: TAKE b",
        "(stuck) b: TAKE c",
        "(stuck) c: TAKE a",
    ] == found.deadlock[-3:]
    assert explore(ring[:2]).deadlock is None


def test_shared_locks_do_not_exclude_each_other() -> None:
    """Readers pass each other in either order, as long as nobody wants to write."""
    readers = [
        Thread("1", (share("a"), share("b"), *release("a", "b"))),
        Thread("2", (share("b"), share("a"), *release("a", "b"))),
    ]
    assert explore(readers).deadlock is None
    writer = Thread("3", (take("a"), *release("a")))
    assert explore([*readers, writer]).deadlock is None
    # With a second writer each reader finds one between itself and its second lock.
    other = Thread("4", (take("b"), *release("b")))
    assert explore([*readers, writer, other]).deadlock is not None


def test_waiting_for_a_counter_is_waiting() -> None:
    """Who waits under a lock for somebody who needs it is stuck; without the lock it is not."""
    gives = Thread("gives", (take("a"), add("n"), *release("a")))
    assert explore([Thread("waits", (take("a"), wait_for("n"), *release("a"))), gives]).deadlock
    assert explore([Thread("waits", (wait_for("n"),)), gives]).deadlock is None
    leaves = Thread("leaves", (add("n"), take("a"), add("n", -1), *release("a")))
    waits = Thread("waits", (take("a"), wait_for_none("n"), *release("a")))
    assert explore([leaves, waits]).deadlock


def test_a_lock_that_is_kept_is_refused() -> None:
    """A thread must end with nothing held, and take nothing twice."""
    with pytest.raises(AssertionError, match="ends with"):
        explore([Thread("keeps", (take("a"),))])
    with pytest.raises(AssertionError, match="twice"):
        explore([Thread("takes", (take("a"), take("a")))])
