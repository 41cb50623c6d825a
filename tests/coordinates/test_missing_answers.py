"""Servers that stop answering: their later collections are UNDECIDED."""

from __future__ import annotations

import pytest

from tallystick.coordinates.audit.cut import Cut
from tallystick.coordinates.audit.missing_answers import missing_answers
from tallystick.coordinates.audit.replay import audit_history
from tallystick.coordinates.results import ObservationCode, Verdict
from tallystick.producers.simulator.assemble import simulate
from tallystick.producers.simulator.kernel.scenario import Scenario


def rows(**answers: str) -> list[Cut]:
    """For each collection its answers, a letter an instance."""
    return [
        Cut(collection_id=name, instance_id=instance, scope="instance", ts=ts)
        for ts, (name, instances) in enumerate(answers.items())
        for instance in instances
    ]


@pytest.mark.parametrize(
    ("answers", "missing"),
    [
        ({"c1": "ab", "c2": "ab"}, []),
        ({"c1": "ab", "c2": "a", "c3": "ab"}, [("c2", "b")]),
        ({"c1": "a", "c2": "ab", "c3": "b"}, [("c3", "a")]),  # b came with c2
        ({"c1": "a", "c2": "b", "c3": "a"}, []),  # collections of their own
        ({"c1": "ab", "x": "c", "c2": "ab"}, []),
        ({"c1": "abc", "c2": "a"}, [("c2", "b"), ("c2", "c")]),
    ],
)
def test_who_answered_with_others_is_expected_to_go_on(answers, missing):
    """From the first collection on that several have answered."""
    found = list(missing_answers(rows(**answers), {}))
    assert [(cut.collection_id, cut.instance_id) for cut, _ in found] == missing
    for cut, observation in found:
        assert (cut.answer, Verdict(cut.verdict)) == ("missing", Verdict.UNDECIDED)
        assert (cut.epoch, cut.sequence) == (0, 0)  # of no record
        assert observation.is_undecided
        assert observation.collection_id == cut.collection_id


def test_when_who_is_silent_has_answered_last_is_named():
    """Of the collection before, or that it never has."""
    [(_, before)] = missing_answers(rows(c1="ab", c2="ab", c3="a"), {})
    assert (before.reason, before.ts, before.data) == ("not_answered", 2, {"last_ts": 1})
    [(_, never), *_] = missing_answers(rows(c1="a", c2="ab"), {"z": 0})
    assert (never.reason, never.ts, never.data) == ("never_answered", 1, {})


@pytest.mark.parametrize(
    ("starts", "missing"),
    [({"z": 0}, ["c2", "c3"]), ({"z": 1}, ["c3"]), ({"z": 5}, []), ({"a": 0, "b": 0}, [])],
)
def test_who_has_started_and_never_answers_is_expected(starts, missing):
    """From its start on, where several answer the same collections."""
    found = missing_answers(rows(c1="a", c2="ab", c3="ab"), starts)
    assert [cut.collection_id for cut, _ in found if cut.instance_id == "z"] == missing


@pytest.mark.parametrize(("start", "missing"), [(0, ["c2", "c3"]), (1, ["c3"]), (5, [])])
def test_who_never_answers_is_missing_beside_collections_of_others(start, missing):
    """Whose collections they were: nothing of it was compared."""
    found = missing_answers(rows(c1="a", c2="b", c3="a"), {"a": 0, "b": 0, "z": start})
    assert [cut.collection_id for cut, _ in found if cut.instance_id == "z"] == missing


@pytest.mark.parametrize("share", [0.02, 0.5])
def test_a_server_whose_journal_breaks_off_leaves_later_collections_undecided(share):
    """Its observer died: nothing says so but the silence."""
    history = simulate(Scenario(seed=4, topology="pair"))
    silent = next(name for name in history.journals if "replica" in name)
    whole = history.journals[silent]
    assert audit_history(history.journals.values()).verdict is Verdict.CONSISTENT
    journals = history.journals | {silent: whole.take(0, int(share * len(whole)))}
    result = audit_history(journals.values())
    assert result.verdict is Verdict.UNDECIDED
    assert {silent} == {
        seen.instance_id
        for seen in result.observations
        if seen.code is ObservationCode.LOG_STATUS_MISSING
    }
