"""Rounds: when a collection is complete, when it is closed without, and what it says then."""

from __future__ import annotations

import pytest

from tallystick.coordinates.audit.cut import Cut
from tallystick.coordinates.events.collect_request import CollectRequest
from tallystick.coordinates.results import ObservationCode
from tallystick.streaming.rounds import Deadline, Rounds

SECOND = 1_000_000


def cut(collection_id: str, instance_id: str, ts: int, channel: str | None = None) -> Cut:
    scope = "instance" if channel is None else "channel"
    return Cut(
        collection_id=collection_id, instance_id=instance_id, scope=scope, channel=channel, ts=ts
    )


def test_a_round_closes_when_every_seen_instance_has_answered():
    """An instance whose journal was seen is waited for, one that was never seen is not."""
    rounds = Rounds()
    assert rounds.absorb([cut("c1", "a", 1)], {"a": 1, "b": 1}) == ([], [])
    closed, observations = rounds.absorb([cut("c1", "b", 2)], {"b": 2})
    assert [["a", "b"]] == [[row.instance_id for row in each.cuts] for each in closed]
    assert ((), False, 2) == (closed[0].missing, closed[0].is_late, closed[0].ts)
    assert observations == []


def test_a_round_waits_for_the_instances_it_was_told_of():
    """The first collection is not complete only because one instance was the first to be seen."""
    rounds = Rounds(["a", "b"])
    assert rounds.absorb([cut("c1", "a", 1)], {"a": 1})[0] == []
    assert len(rounds.absorb([cut("c1", "b", 1)], {})[0]) == 1


def test_rows_come_by_instance_with_its_channels_behind_it():
    """The table's order does not depend on the order of arrival."""
    rows = [cut("c1", "b", 1), cut("c1", "a", 2, "x"), cut("c1", "a", 2), cut("c1", "a", 2, "")]
    [closed], _ = Rounds().absorb(rows, {})
    assert [("a", None), ("a", ""), ("a", "x"), ("b", None)] == [
        (row.instance_id, row.channel) for row in closed.cuts
    ]


@pytest.mark.parametrize(("later_us", "is_closed"), [(30 * SECOND - 1, False), (30 * SECOND, True)])
def test_the_deadline_is_measured_in_journal_time(later_us, is_closed):
    """Only a journal that moved on says that an answer is late; no clock is asked."""
    rounds = Rounds(["a", "b"], Deadline(after_us=30 * SECOND))
    rounds.absorb([cut("c1", "a", 100)], {"a": 100})
    closed, _ = rounds.absorb([], {"b": 100 + later_us})
    assert is_closed == bool(closed)


def test_later_collections_close_an_older_one():
    """A silent instance does not pile up open rounds."""
    rounds = Rounds(["a", "b"], Deadline(after_us=10**12, after_collections=2))
    assert rounds.absorb([cut("c1", "a", 1), cut("c2", "a", 2)], {})[0] == []
    closed, _ = rounds.absorb([cut("c3", "a", 3)], {})
    assert ["c1"] == [each.collection_id for each in closed]


def test_no_deadline_passes_while_a_backlog_is_read():
    """An answer that still waits in Kafka is not missing, however far other journals are."""
    rounds = Rounds(["a", "b"], Deadline(after_us=SECOND, after_collections=1))
    ahead = [cut(f"c{n}", "a", n * 60 * SECOND) for n in range(5)]
    assert rounds.absorb(ahead, {}, is_caught_up=False) == ([], [])
    closed, observations = rounds.absorb([cut("c0", "b", 0)], {}, is_caught_up=False)
    assert [("c0", ())] == [(each.collection_id, each.missing) for each in closed]
    assert observations == []
    overdue, _ = rounds.absorb([], {}, is_caught_up=True)
    assert ["c1", "c2", "c3"] == [each.collection_id for each in overdue]


def ask(collection_id: str, at_s: float, *instances: str) -> CollectRequest:
    return CollectRequest(collection_id, round(at_s * SECOND), frozenset(instances) or None)


@pytest.mark.parametrize(("later_s", "is_closed"), [(29.9, False), (30, True)])
def test_a_request_that_nobody_answers_is_closed_by_later_requests(later_s, is_closed):
    """A dead collector writes nothing, so no journal's time goes on."""
    rounds = Rounds(["a"], Deadline(after_request_us=30 * SECOND))
    assert rounds.absorb([], {}, [ask("c1", 100)]) == ([], [])
    closed, observations = rounds.absorb([], {}, [ask("c2", 100 + later_s)])
    assert [("c1", ("a",))] * is_closed == [(each.collection_id, each.missing) for each in closed]
    assert ["c1"] * is_closed == [observation.collection_id for observation in observations]


def test_an_answer_may_come_before_its_request():
    """The two topics are read side by side; an answered collection is not opened again."""
    rounds = Rounds(["a"])
    closed, _ = rounds.absorb([cut("c1", "a", 1)], {"a": 1})
    assert len(closed) == 1
    assert rounds.absorb([], {}, [ask("c1", 0), ask("c2", 10**6)]) == ([], [])
    assert rounds.open_count == 1


def test_only_who_is_asked_has_to_answer():
    """A request may name the instances that it is for."""
    rounds = Rounds(["a", "b"])
    closed, observations = rounds.absorb([cut("c1", "a", 1)], {}, [ask("c1", 0, "a")])
    assert [("c1", ())] == [(each.collection_id, each.missing) for each in closed]
    assert observations == []


def test_requests_pass_no_deadline_while_nobody_is_known_or_a_backlog_is_read():
    """Nobody can have failed to answer yet."""
    rounds = Rounds((), Deadline(after_request_us=SECOND))
    assert rounds.absorb([], {}, [ask("c1", 0), ask("c2", 60)]) == ([], [])
    assert rounds.finish() == ([], [])
    rounds = Rounds(["a"], Deadline(after_request_us=SECOND))
    requests = [ask("c1", 0), ask("c2", 60)]
    assert rounds.absorb([], {}, requests, is_caught_up=False) == ([], [])
    assert ["c1", "c2"] == [each.collection_id for each in rounds.finish()[0]]


def test_a_missing_answer_is_undecided_never_silent():
    """Who did not answer has a row of its own, and an observation with the collection's id."""
    rounds = Rounds(["a", "b"])
    rounds.absorb([cut("c1", "a", 5)], {})
    [closed], [observation] = rounds.finish()
    row = closed.cuts[1]
    assert ("b", "missing", "UNDECIDED", "c1") == (
        row.instance_id, row.answer, row.verdict, row.collection_id,
    )  # fmt: skip
    assert ("b",) == closed.missing
    assert (ObservationCode.LOG_STATUS_MISSING, "b", "c1", True) == (
        observation.code, observation.instance_id, observation.at, observation.is_undecided,
    )  # fmt: skip


def test_an_answer_after_the_deadline_is_a_late_round_of_its_own():
    """It is judged too, and it does not open its collection again."""
    rounds = Rounds(["a", "b"])
    rounds.absorb([cut("c1", "a", 5)], {})
    rounds.finish()
    [late], observations = rounds.absorb([cut("c1", "b", 90 * SECOND)], {})
    assert ("c1", ["b"], True) == (
        late.collection_id, [row.instance_id for row in late.cuts], late.is_late,
    )  # fmt: skip
    assert (0, []) == (rounds.open_count, observations)


def test_state_survives_at_every_step():
    """A restart between any two micro-batches changes no round."""
    steps = [
        ([cut("c1", "a", 10), cut("c1", "a", 10, "x")], {"a": 10, "b": 9}),
        ([cut("c2", "a", 20)], {"a": 20}),
        ([cut("c2", "b", 21)], {"b": 21}),
        ([], {"a": 40 * SECOND}),
        ([cut("c1", "b", 41 * SECOND)], {"b": 41 * SECOND}),
    ]
    through, restarted = Rounds(["z"]), Rounds(["z"])
    for cuts, seen in steps:
        again = Rounds(["z"])
        again.restore(restarted.to_bytes())
        restarted = again
        assert through.absorb(cuts, seen) == restarted.absorb(cuts, seen)
    assert through.to_bytes() == restarted.to_bytes()
