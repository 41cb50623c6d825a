"""A query that goes on: when it is started again, what is reported, what ends it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException

from tallystick.streaming import restarts
from tallystick.streaming.errors import QueryError
from tallystick.streaming.failures import failure_of
from tallystick.streaming.restarts import (
    ASKED_S,
    PASSING_MAX,
    PAUSE_MAX_S,
    LastingQuery,
    Outages,
    drain,
)

AWAY = "org.apache.kafka.common.errors.TimeoutException: Timed out"
WORKER = "org.apache.spark.SparkException: Python worker exited unexpectedly"


class Query:
    """What the runner asks of one of Spark's, as the test sets it."""

    def __init__(self) -> None:
        self.error: str | None = None
        self.isActive = True
        self.lastProgress: object = None
        self.status = {"message": "Initializing sources", "isTriggerActive": False}

    def stop(self) -> None:
        self.isActive = False

    def fail(self, text: str) -> None:
        self.error, self.isActive = text, False

    def awaitTermination(self) -> None:  # noqa: N802
        if self.error is not None:
            raise StreamingQueryException(self.error)


class World:
    """A clock, the queries that were started, and what was reported."""

    def __init__(self) -> None:
        self.now = 0.0
        self.started: list[Query] = []
        self.reported: list[str | None] = []
        self.outages = Outages(self.reported.append)

    def query(self, name: str = "auditor") -> LastingQuery:
        def start() -> Query:
            self.started.append(Query())
            return self.started[-1]

        return LastingQuery(
            name,
            start,
            failure_of=lambda error: failure_of(str(error), "b:1", Path("checkpoint")),
            in_vain="A source does not answer.",
            outages=self.outages,
            clock=lambda: self.now,
        )


def test_an_outage_is_reported_once_and_the_pauses_grow():
    """Each start that fails doubles the pause, up to a limit; it is over when a poll ends."""
    world = World()
    query = world.query()
    pauses = []
    for number in range(1, 9):
        world.started[-1].fail(AWAY)
        assert query.goes_on()
        begun = world.now
        while len(world.started) == number:
            world.now += 0.5
            assert query.goes_on()
        pauses.append(world.now - begun)
    assert [1, 2, 4, 8, 16, PAUSE_MAX_S, PAUSE_MAX_S, PAUSE_MAX_S] == pauses
    assert ["The broker at 'b:1' does not answer."] == world.reported
    world.started[-1].status["message"] = "Waiting for data to arrive"
    assert query.goes_on()
    assert ["The broker at 'b:1' does not answer.", None] == world.reported
    world.started[-1].fail(AWAY)
    query.goes_on()
    world.now += 1
    query.goes_on()
    assert (10, 2) == (len(world.started), world.outages.count)


def test_a_source_that_does_not_answer_is_known_before_the_query_ends():
    """What it ends by is said then; sources that answer take turns, however slow they are."""
    world = World()
    query = world.query()
    first = world.started[0]

    def pass_s(seconds: float, *messages: str) -> None:
        for tenth in range(round(10 * seconds)):
            first.status["message"] = messages[tenth % len(messages)]
            world.now += 0.1
            assert query.goes_on()

    pass_s(60, "Getting offsets from a")
    pass_s(1, "Waiting for data to arrive")
    pass_s(60, *["Getting offsets from a"] * 90, *["Getting offsets from b"] * 90)
    pass_s(60, "Processing new data")
    pass_s(ASKED_S, "Getting offsets from a")
    assert [] == world.reported
    pass_s(1, "Getting offsets from a")
    assert ["A source does not answer."] == world.reported
    pass_s(1, "Waiting for data to arrive")
    assert ["A source does not answer.", None] == world.reported
    pass_s(ASKED_S + 1, "Getting offsets from a")
    pass_s(1, "Terminated with exception: why")
    first.fail(AWAY)
    assert query.goes_on()
    assert ["A source does not answer.", "The broker at 'b:1' does not answer."] == world.reported[
        2:
    ]
    assert 2 == world.outages.count
    world.now += 1
    assert query.goes_on()
    world.started[1].lastProgress = {"batchId": 4}
    assert query.goes_on()
    assert world.reported[4:] == [None]


def test_two_queries_have_one_outage():
    """It is over when both run as they should."""
    world = World()
    queries = [world.query("auditor"), world.query("collector")]
    for started in list(world.started):
        started.fail(AWAY)
    for _ in range(2):
        assert {True} == {query.goes_on() for query in queries}
        world.now += 1
    assert 1 == len(world.reported)
    for started in world.started[2:]:
        assert 1 == len(world.reported)
        started.lastProgress = {"batchId": 4}
        assert {True} == {query.goes_on() for query in queries}
    assert [True, False] == [one is not None for one in world.reported]


@pytest.mark.parametrize(("text", "times"), [("a rule failed", 0), (WORKER, PASSING_MAX)])
def test_what_asks_for_a_person_ends_it(text, times):
    """At once, or when a worker is lost again and again."""
    world = World()
    query = world.query()
    for _ in range(times):
        world.started[-1].fail(text)
        assert query.goes_on()
        world.now += PAUSE_MAX_S
        assert query.goes_on()
    world.started[-1].fail(text)
    with pytest.raises(QueryError, match="ended"):
        query.goes_on()


def test_a_query_that_ends_without_a_failure_is_not_started_again():
    """As one of what is there now; and one that waits for the broker can be stopped."""
    world = World()
    query = world.query()
    world.started[0].isActive = False
    assert not query.goes_on()
    world.started[0].fail(AWAY)
    query.goes_on()
    query.drain(1)
    query.stop()
    assert 1 == len(world.started)


def test_a_query_is_renewed_between_two_micro_batches():
    """Not while it waits to be started anyway; and one that has failed meanwhile waits."""
    world = World()
    query = world.query()
    query.renew(1)
    assert [False, True] == [one.isActive for one in world.started]
    assert query.goes_on()
    world.started[-1].fail(AWAY)
    query.renew(1)
    query.renew(1)
    assert 2 == len(world.started)
    world.now += PAUSE_MAX_S
    assert query.goes_on()
    assert 3 == len(world.started)


@pytest.mark.parametrize("before", [None, {"batchId": 7}])
@pytest.mark.parametrize("is_next_begun", [True, False])
@pytest.mark.parametrize(
    ("ends_s", "stopped_s"),
    [
        (0, 0),
        # When the micro-batch has ended, and maybe the next one has begun.
        (2, 2),
        (0.5, 0.5),
        # It takes longer than it may.
        (99, 5),
    ],
)
def test_a_query_is_stopped_between_two_micro_batches(
    monkeypatch, ends_s, stopped_s, is_next_begun, before
):
    """Or after the timeout: its work would be done again."""
    now, asleep = 100.0, 0

    def sleep(_seconds: float) -> None:
        nonlocal now, asleep
        now, asleep = now + 0.5, asleep + 1
        if now - 100 >= ends_s:
            query.lastProgress = {"batchId": 0 if before is None else 8}
            query.status["isTriggerActive"] = is_next_begun

    monkeypatch.setattr(restarts.time, "monotonic", lambda: now)
    monkeypatch.setattr(restarts.time, "sleep", sleep)
    query = Query()
    query.lastProgress = before
    query.status["isTriggerActive"] = ends_s > 0
    drain(query, 5)
    assert not query.isActive
    assert (stopped_s, 2 * stopped_s) == (now - 100, asleep)


def test_a_query_that_ends_while_it_is_drained_is_not_stopped(monkeypatch):
    """Its own end is why."""
    query = Query()
    query.status["isTriggerActive"] = True
    monkeypatch.setattr(restarts.time, "sleep", lambda _: query.fail("by itself"))
    monkeypatch.setattr(query, "stop", lambda: pytest.fail("stopped"))
    drain(query, 5)
    assert "by itself" == query.error


def test_a_query_that_runs_again_has_its_first_pause_again():
    """It is proven anew after each start, by the end of a micro-batch, and only then."""
    world = World()
    query = world.query()
    for _ in range(3):
        for pause_s in (1, 2):
            world.started[-1].fail(AWAY)
            query.goes_on()
            number = len(world.started)
            world.now += pause_s - 0.5
            query.goes_on()
            assert number == len(world.started)
            world.now += 0.5
            query.goes_on()
            assert number + 1 == len(world.started)
            query.goes_on()
        world.started[-1].lastProgress = {"batchId": 0}
        query.goes_on()
    assert 3 == world.outages.count
    assert 6 == len(world.reported)


def test_lost_workers_are_counted_until_a_micro_batch_ends():
    """Then the same rows were not what killed them."""
    world = World()
    query = world.query()
    for _ in range(3):
        for _ in range(PASSING_MAX):
            world.started[-1].fail(WORKER)
            query.goes_on()
            world.now += PAUSE_MAX_S
            query.goes_on()
        world.started[-1].lastProgress = {"batchId": 0}
        query.goes_on()


def test_a_query_that_cannot_be_started_is_tried_again():
    """As one whose broker is away at the start of the job."""
    world = World()
    fails = [True]

    def start() -> Query:
        if fails[0]:
            raise StreamingQueryException(AWAY)
        return Query()

    query = LastingQuery(
        "auditor",
        start,
        failure_of=lambda error: failure_of(str(error), "b:1", Path("checkpoint")),
        in_vain="",
        outages=world.outages,
        clock=lambda: world.now,
    )
    assert query.goes_on()
    fails[0] = False
    world.now += 1
    assert query.goes_on()
    assert 1 == world.outages.count


def test_a_query_that_is_stopped_twice_is_stopped_once(monkeypatch):
    """And one that has ended is not asked to."""
    world = World()
    query = world.query()
    query.stop()
    monkeypatch.setattr(world.started[0], "stop", lambda: pytest.fail("stopped"))
    query.stop()
