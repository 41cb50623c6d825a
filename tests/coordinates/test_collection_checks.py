"""The checks of a collection: every rule beside every subject, a breach shown from then on."""

from __future__ import annotations

import pytest

from tallystick.coordinates.audit.collection_checks import (
    SUBJECT,
    CollectionChecks,
    checks_of_finding,
    is_optional,
    rows_with_checks,
)
from tallystick.coordinates.audit.cut import Cut
from tallystick.coordinates.results import (
    Check,
    Observation,
    ObservationCode,
    Outcome,
    SubjectCheck,
)
from tallystick.coordinates.rules.explanation import check_text
from tallystick.coordinates.rules.redo_log import REDO_RULES
from tests.support.results import checks, finding


def row(collection, ts, instance="a", channel=None, **values):
    return Cut(
        collection_id=f"c{collection}",
        instance_id=instance,
        scope="instance" if channel is None else "channel",
        channel=channel,
        ts=ts,
        **{"journal_gtid_set": "", **values},
    )


def rows_of(made, cuts, **more):
    return rows_with_checks(cuts, made.of(cuts, **more))


def outcome(cut, rule):
    return {check.rule: check.outcome for check in cut.checks}.get(rule)


def reason(cut, rule):
    return {check.rule: check.reason for check in cut.checks}[rule]


def test_rules_of_events_are_undecided_with_a_row_that_is():
    """A row whose coordinates never came has their checks all the same."""
    [kept] = rows_of(CollectionChecks(), [row(1, 1, reason="row_not_reached")])
    found = {check.rule: (check.outcome, check.reason) for check in kept.checks}
    for rule in ("gtid_logged_once", "redo_lsn_never_falls"):
        assert found[rule] == (Outcome.UNDECIDED, "row_not_reached")


def test_rules_of_events_hold_where_the_log_was_read():
    """Undecided without the log, silent where nobody answered or the rule is disabled."""
    made = CollectionChecks(frozenset({"gtid_mode_respected"}))
    read, unread, missing, channel, relay = rows_of(
        made,
        [
            row(1, 1, checks=checks(held="lsn_order")),
            row(1, 1, "b", journal_gtid_set=None),
            row(1, 1, "c", answer="missing"),
            row(1, 1, "a", "x", relay_log_file="r.000001"),
            row(1, 1, "a", "y", relay_log_file="r.1", journal_relay_log_file="r.1"),
        ],
    )
    assert outcome(read, "lsn_order") is outcome(read, "gtid_logged_once") is Outcome.HOLDS
    assert reason(unread, "gtid_logged_once") == "log_not_read"
    assert outcome(read, "gtid_mode_respected") is None
    assert missing.checks == ()
    assert reason(channel, "relay_source_pos_monotone") == "relay_log_not_read"
    assert outcome(relay, "relay_source_pos_monotone") is Outcome.HOLDS
    assert outcome(relay, "gtid_logged_once") is None
    assert outcome(read, "relay_source_pos_monotone") is None


@pytest.mark.parametrize(
    ("rule", "reason", "verdict", "expected"),
    [
        ("lsn_order", "not_read", "CONSISTENT", True),
        ("gtid_logged_once", "log_not_read", "CONSISTENT", True),
        ("gtid_logged_once", "journal_gap", "CONSISTENT", False),
        ("no_errant_gtids", "source_not_in_fleet", "CONSISTENT", False),
        ("a rule that is gone", "log_not_read", "CONSISTENT", True),
        ("a rule that is gone", "not_read", "CONSISTENT", False),
        ("lsn_order", "not_read", "UNDECIDED", False),
        ("gtid_logged_once", "log_not_read", "UNDECIDED", False),
        ("redo_lsn_never_falls", "redo_log_not_read", "UNDECIDED", True),
    ],
)
def test_what_an_undecided_check_leaves_open(rule, reason, verdict, expected):
    """What the audit cannot judge on a row that is consistent, not what was missed or waits."""
    assert is_optional(Check(rule, Outcome.UNDECIDED, reason), verdict) is expected


def test_a_server_whose_redo_log_nobody_reads_is_consistent():
    """Rules of its events are undecided, those of the binary log hold; the row stays as it is."""
    (cut,) = rows_of(CollectionChecks(), [row(1, 1, verdict="CONSISTENT")])
    redo = {rule.name for rule in REDO_RULES if rule.scope == "E"}
    assert redo
    undecided = [check for check in cut.checks if check.outcome is Outcome.UNDECIDED]
    assert {check.rule for check in undecided} == redo
    assert all(is_optional(check, cut.verdict) for check in undecided)


def test_a_breach_is_shown_by_its_collection_and_all_later_ones():
    """With the text and the witness of its finding, in place of the row's own check."""
    made = CollectionChecks()
    data = {"low_name": "LSN_checkpoint", "low": 9, "high_name": "LSN", "high": 8}
    data["statement"] = "log_status"
    wrong = finding(rule="lsn_order", case="out_of_order", data=data, ts=5, witness="w" * 999)
    made.absorb([wrong])
    (before,) = rows_of(made, [row(1, 4, checks=checks(held="lsn_order"))])
    assert outcome(before, "lsn_order") is Outcome.HOLDS
    assert made.waiting
    for ts in (5, 9):
        (cut,) = rows_of(made, [row(2, ts, checks=checks(broken="lsn_order"))])
        (check,) = [one for one in cut.checks if one.rule == "lsn_order"]
        assert check.data["witness"] == "w" * 999
        assert "is beyond LSN 8" in check_text(check)
    assert not made.waiting


def test_what_comes_to_light_late_belongs_to_the_next_collection():
    """After the last one it belongs to that; a subject without a row has one for its checks."""
    made = CollectionChecks()
    made.of([row(1, 10)])
    made.absorb([finding(rule="no_errant_gtids", instance_id="b", ts=3)])
    _, subject = rows_of(made, [row(2, 20)])
    assert (subject.instance_id, subject.scope) == ("b", SUBJECT)
    assert outcome(subject, "no_errant_gtids") is Outcome.BROKEN
    made.absorb([finding(rule="lsn_order", ts=99)])
    assert made.waiting
    last, _ = rows_of(made, [row(2, 20)], is_last=True)
    assert outcome(last, "lsn_order") is Outcome.BROKEN


def test_checks_between_instances_count_once_the_gravest_first():
    """One that is still broken keeps the witness of its finding; another holds at its time."""
    made = CollectionChecks()
    rule = "no_errant_gtids"

    def absorb(ts, *outcomes):
        made.absorb([], [], [SubjectCheck("a", None, "c", ts, Check(rule, o)) for o in outcomes])

    absorb(1, Outcome.HOLDS, Outcome.UNDECIDED)
    assert outcome(rows_of(made, [row(1, 1)])[0], rule) is Outcome.UNDECIDED
    absorb(2, Outcome.HOLDS)
    assert outcome(rows_of(made, [row(2, 2)])[0], rule) is Outcome.HOLDS
    assert outcome(rows_of(made, [row(3, 3)])[0], rule) is None
    made.absorb([finding(rule=rule, ts=4)])
    absorb(4, Outcome.BROKEN)
    made.of([row(4, 4)])
    absorb(5, Outcome.BROKEN)
    (check,) = [one for one in rows_of(made, [row(5, 5)])[0].checks if one.rule == rule]
    assert check.data["witness"] == "w"


@pytest.mark.parametrize(
    "code", ["JOURNAL_GAP", "JOURNAL_REPEATED", "JOURNAL_REUSED", "JOURNAL_STALE_EPOCH"]
)
def test_a_gap_leaves_the_rules_of_events_undecided(code):
    """For the instance whose journal it is, at the next collection only."""
    made = CollectionChecks()
    gap = Observation(
        code=ObservationCode(code),
        instance_id="a",
        channel=None,
        at="1:7",
        reason="journal_gap",
        data={},
        rules=(),
        is_undecided=True,
        collection_id=None,
        epoch=1,
        sequence=7,
        ts=1,
    )
    made.absorb([], [gap])
    first, other = rows_of(made, [row(1, 1), row(1, 1, "b")])
    assert outcome(first, "gtid_logged_once") is Outcome.UNDECIDED
    assert outcome(other, "gtid_logged_once") is Outcome.HOLDS
    (after,) = rows_of(made, [row(2, 2)])
    assert outcome(after, "gtid_logged_once") is Outcome.HOLDS


def test_nothing_is_shown_of_who_has_retired():
    """Neither what came to light before nor what a collection has shown."""
    made = CollectionChecks()
    for ts in (1, 9):
        made.absorb([finding(rule="lsn_order", instance_id=name, ts=ts) for name in "ab"])
        made.of([row(1, 1)])
    made.retire("b")
    found = made.of([row(2, 9)])
    broken = {one.instance_id for one in found if one.check.outcome is Outcome.BROKEN}
    assert broken == {"a"}


def test_the_state_comes_back_whole():
    """What waits and what is broken survives a restart."""
    made, again = CollectionChecks(), CollectionChecks()
    made.absorb([finding(ts=1), finding(rule="lsn_order", ts=9)])
    made.of([row(1, 1)])
    again.restore(made.to_bytes())
    assert (again.waiting, again.broken) == (made.waiting, made.broken)
    assert again.of([row(2, 9)]) == made.of([row(2, 9)])


@pytest.mark.parametrize("collection", ["c1", None])
def test_the_check_of_a_breach_is_of_the_collection_that_showed_it(collection):
    """One of a log is of none."""
    found = finding(channel="x", collection_id=collection, ts=7)
    [(*subject, check)] = checks_of_finding(found)
    assert ["a", "x", collection or "", 7] == subject
    assert (check.rule, check.outcome) == (found.rule, Outcome.BROKEN)


def test_a_check_has_what_the_texts_of_a_breach_name():
    """Where it is, beside the data of the finding."""
    found = finding(channel="x", collection_id="c1")
    [one] = checks_of_finding(found)
    assert one.check.data == {
        **found.data,
        "at": found.at,
        "instance": found.instance_id,
        "channel": "x",
        "collection": "c1",
        "witness": found.witness,
    }
