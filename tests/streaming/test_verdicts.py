"""The verdicts of the running job: what changes them, and that a report of its tables agrees."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tallystick.coordinates.audit.cut import Cut
from tallystick.coordinates.results import IncidentState, ObservationCode, Verdict
from tallystick.coordinates.rules.observations import (
    TOPIC_MADE_ANEW,
    TOPIC_MESSAGES_GONE,
    TOPIC_PARTITION_GONE,
)
from tallystick.streaming.rounds import Round
from tallystick.streaming.verdicts import Verdicts

GOOD, DOUBT, BROKEN = Verdict.CONSISTENT, Verdict.UNDECIDED, Verdict.INCONSISTENT
OPEN = SimpleNamespace(state=IncidentState.OPEN)
KNOWN = SimpleNamespace(state=IncidentState.ACKNOWLEDGED)
SEEN = SimpleNamespace(is_undecided=True, code=ObservationCode.JOURNAL_GAP, reason="")


def closed(name: str, *rows: Verdict, is_late: bool = False, ts: int = 1) -> Round:
    cuts = [
        Cut(collection_id=name, instance_id=f"i{n}", scope="instance", channel=None, ts=n,
            verdict=verdict.value)
        for n, verdict in enumerate(rows)
    ]  # fmt: skip
    return Round(name, cuts, (), is_late=is_late, ts=ts)


def step(verdicts: Verdicts, *rows: Verdict, seen=(), found=(), validation=GOOD, is_late=False):
    one = closed("c", *rows, is_late=is_late)
    verdicts.absorb(found, seen, one.cuts, [one], [validation])


def test_nothing_collected_is_undecided():
    """A job that has seen nothing says so, also of journals without a collection."""
    verdicts = Verdicts()
    verdicts.absorb([], [], [], [], [])
    assert (DOUBT, DOUBT) == (verdicts.now([]), verdicts.period)


def test_now_is_of_what_is_open_and_the_period_of_everything():
    """A breach that is over stays in the period; one that somebody knows of is not of now."""
    verdicts = Verdicts()
    step(verdicts, GOOD, GOOD)
    verdicts.absorb([], [], [], [], [])
    assert (GOOD, GOOD) == (verdicts.now([]), verdicts.period)
    step(verdicts, BROKEN, GOOD, found=["a finding"], validation=BROKEN)
    assert (BROKEN, BROKEN) == (verdicts.now([OPEN]), verdicts.period)
    assert GOOD is verdicts.now([KNOWN])
    step(verdicts, GOOD)
    assert (GOOD, BROKEN) == (verdicts.now([]), verdicts.period)


@pytest.mark.parametrize(("rows", "validation"), [((GOOD, DOUBT), GOOD), ((GOOD,), DOUBT)])
def test_evidence_that_the_newest_collection_lacks(rows, validation):
    """It is undecided now, until a collection has it; answers that come late change nothing."""
    verdicts = Verdicts()
    step(verdicts, *rows, validation=validation)
    step(verdicts, GOOD, is_late=True)
    assert (DOUBT, DOUBT) == (verdicts.now([]), verdicts.period)
    step(verdicts, GOOD)
    assert (GOOD, DOUBT) == (verdicts.now([]), verdicts.period)


def test_a_doubt_counts_until_the_collection_after_the_next_one_is_closed():
    """As in a report: what was seen since the collection before the newest one counts."""
    verdicts = Verdicts()
    step(verdicts, GOOD)
    verdicts.absorb([], [SEEN], [], [], [])
    assert DOUBT is verdicts.now([])
    step(verdicts, GOOD)
    assert DOUBT is verdicts.now([])
    step(verdicts, GOOD)
    assert GOOD is verdicts.now([])


def test_an_older_collection_may_be_closed_after_a_newer_one():
    """At its deadline: it is not what is so now."""
    verdicts = Verdicts()
    for ts, row in ((7, GOOD), (5, DOUBT)):
        one = closed("c", row, ts=ts)
        verdicts.absorb([], [], one.cuts, [one], [row])
    assert (GOOD, DOUBT) == (verdicts.now([]), verdicts.period)


def test_a_finding_alone_makes_the_period_inconsistent():
    """It may be of a comparison, with no row that is broken, or with no row at all."""
    verdicts = Verdicts()
    verdicts.absorb(["a finding"], [], [], [], [])
    assert (DOUBT, BROKEN) == (verdicts.now([]), verdicts.period)
    step(verdicts, GOOD)
    assert (GOOD, BROKEN) == (verdicts.now([]), verdicts.period)


def test_a_doubt_alone_makes_the_period_undecided():
    """It is of no row and of no validation; what is seen and leaves nothing undecided is none."""
    verdicts = Verdicts()
    noted = SimpleNamespace(is_undecided=False, code=ObservationCode.JOURNAL_GAP, reason="")
    step(verdicts, GOOD, seen=[noted])
    assert (GOOD, GOOD) == (verdicts.now([]), verdicts.period)
    step(verdicts, GOOD, seen=[SEEN])
    assert (DOUBT, DOUBT) == (verdicts.now([]), verdicts.period)


def test_of_collections_that_are_closed_together_the_newest_counts():
    """Each has a validation of its own; one of the same time as the last one is newer."""
    for doubtful_ts, expected in ((5, GOOD), (7, DOUBT)):
        verdicts = Verdicts()
        rounds = [closed("c", GOOD, ts=ts) for ts in (5, 6, 7)]
        validations = [DOUBT if one.ts == doubtful_ts else GOOD for one in rounds]
        verdicts.absorb([], [], rounds[0].cuts, rounds, validations)
        assert expected is verdicts.now([])
        same = closed("d", GOOD, ts=7)
        verdicts.absorb([], [], same.cuts, [same], [GOOD])
        assert GOOD is verdicts.now([])


@pytest.mark.parametrize(
    ("code", "reason", "is_unread"),
    [
        (ObservationCode.BLOCK_UNREADABLE, "", True),
        (ObservationCode.JOURNAL_GAP, TOPIC_MESSAGES_GONE.code, True),
        (ObservationCode.JOURNAL_GAP, TOPIC_PARTITION_GONE.code, True),
        (ObservationCode.JOURNAL_GAP, TOPIC_MADE_ANEW.code, True),
        (ObservationCode.JOURNAL_GAP, "", False),
    ],
)
def test_what_may_have_been_the_end_of_any_journal_is_remembered(code, reason, is_unread):
    """Whatever comes after it."""
    verdicts = Verdicts()
    seen = SimpleNamespace(is_undecided=True, code=code, reason=reason)
    step(verdicts, GOOD, seen=[seen])
    step(verdicts, GOOD)
    assert is_unread == verdicts.has_unread


def test_they_outlive_the_job():
    """A job that begins anew knows what the period has seen."""
    verdicts, after = Verdicts(), Verdicts()
    step(verdicts, GOOD, found=["a finding"])
    after.restore(verdicts.to_bytes())
    assert vars(verdicts) == vars(after)
