"""Rules on rows, asked about a row of the cut table alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tallystick.coordinates.audit.cut import Cut, cut_columns
from tallystick.coordinates.results import Outcome
from tallystick.coordinates.rules import binlog_position, channel, relay_position
from tallystick.coordinates.rules.catalogue import RULES
from tallystick.coordinates.rules.outcomes import (
    Broken,
    Holds,
    NotApplicable,
    RowAnswer,
    Undecided,
)
from tallystick.coordinates.values.binlog import LogCoordinates
from tests.coordinates.test_judging_rules import ELSEWHERE
from tests.support.journals import UUID_A
from tests.support.rule_cases import all_cases, audited

if TYPE_CHECKING:
    from tallystick.coordinates.rules.registry import Rule

CASES = all_cases()
ON_ROWS = [rule for rule in RULES.values() if rule.evidence is not None]
ON_CUTS = [rule for rule in ON_ROWS if rule.columns]
OF_TEXTS = {"gtid_text_wellformed", "gtid_text_canonical", "log_status_row_complete"}
"""The audit leaves out of the table what it could not read."""
NOT_IN_THE_TABLE = {
    "lsn_order__status_variables": "LSNs of the status variables",
    "retrieved_matches_relay__cut": "what the relay log held before a restart",
    "retrieved_matches_relay__cut_and_executed": "what the relay log held before a restart",
    "retrieved_matches_relay__cut_and_received_again": "what the relay log held before a restart",
    "retrieved_matches_relay__given_up_unseen": "what the relay log held at the previous row",
    "snapshot_position_monotone__old_row": "what had been read of the log before the row",
    "retrieved_matches_relay__lacks": "what the relay log held at the previous row",
}
COMPARED = ("journal_", "previous_")
"""Columns of what a row is held against."""
on_cuts = pytest.mark.parametrize("rule", ON_CUTS, ids=lambda rule: rule.name)


def ask(rule: Rule, columns: dict[str, Any]) -> RowAnswer:
    """What a rule says of a row of the table."""
    assert rule.evidence is not None
    assert rule.judge is not None
    answer: RowAnswer = rule.judge(rule.evidence.from_columns(columns))
    return answer


def columns_of(cut: Cut) -> dict[str, Any]:
    """A row of the table."""
    return {name: getattr(cut, name) for name in cut_columns()}


def test_evidence_says_which_rows_it_is_about():
    """A rule on rows is about an instance's row or a channel's."""
    assert {rule.evidence.scope for rule in ON_ROWS if rule.evidence} == {"instance", "channel"}
    assert not [rule.name for rule in RULES.values() if rule.columns and rule not in ON_ROWS]


@on_cuts
def test_a_rule_reads_its_columns_alone(rule: Rule):
    """They are columns of the table, and without a value in any of them nothing is claimed."""
    assert set(rule.columns) <= set(cut_columns())
    assert not isinstance(ask(rule, {}), (Holds, Broken))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("breaks", [False, True])
def test_a_row_alone_says_nothing_that_the_audit_does_not(name: str, breaks: bool):
    """What the audit lets hold is not broken in its row, and what it breaks does not hold."""
    for cut in audited(name, breaks=breaks).cuts:
        outcomes = {check.rule: check.outcome for check in cut.checks}
        row = columns_of(cut)
        for rule in ON_CUTS:
            if rule.evidence is None or rule.evidence.scope != cut.scope:
                continue
            answer = ask(rule, {column: row[column] for column in rule.columns})
            assert type(answer) is type(ask(rule, row)), rule.name
            if isinstance(answer, Broken):
                assert outcomes[rule.name] is not Outcome.HOLDS, (rule.name, answer)
            elif isinstance(answer, Holds) and name not in NOT_IN_THE_TABLE:
                assert rule.name in OF_TEXTS or outcomes[rule.name] is not Outcome.BROKEN


@pytest.mark.parametrize("name", [rule.name for rule in ON_CUTS if rule.name not in OF_TEXTS])
def test_a_broken_row_is_broken_in_the_table(name: str):
    """The audit's own case of the rule is seen in its row alone."""
    cuts = audited(name, breaks=True).cuts
    assert any(isinstance(ask(RULES[name], columns_of(cut)), Broken) for cut in cuts)


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("gtid_text_wellformed", {"gtid_executed": "x"}),
        ("gtid_text_wellformed", {"gtid_executed": "", "gtid_owned": "y"}),
        ("gtid_text_canonical", {"gtid_executed": "3e11fa47-71ca-11e1-9e33-c80aa9429562:1:2"}),
        ("log_status_row_complete", {"answer": "row", "binary_log_file": "b.000001"}),
        ("log_status_row_complete", {"answer": "row", "binary_log_position": 4}),
        (
            "log_status_row_complete",
            {"answer": "row", "binary_log_file": "./b.000001", "binary_log_position": 4},
        ),
    ],
)
def test_a_text_of_another_table_is_judged(name: str, columns: dict[str, Any]):
    """A table that keeps the server's texts as they came shows what is wrong with them."""
    assert isinstance(ask(RULES[name], columns), Broken)


NUMBER, NAME = "an integer from 0 to 2^63-1", "a file name base.NNNNNN without a directory"


@pytest.mark.parametrize(
    ("file", "position", "expected"),
    [
        ("b.000001", 4, None),
        ("b.000001", 0, None),
        ("b.000001", 2**63 - 1, None),
        (None, None, None),
        ("b.000001", -1, NUMBER),
        ("b.000001", 2**63, NUMBER),
        ("b.000001", "4", NUMBER),
        ("b.000001", True, NUMBER),
        ("/var/b.000001", 4, NAME),
        ("b", 4, NAME),
        ("b.000001", None, "binary_log_position as well"),
        (None, 4, "binary_log_file as well"),
    ],
)
def test_coordinates_of_a_table_are_complete_and_well_formed(
    file: Any, position: Any, expected: str | None
):
    """Both or none; what is expected instead is named."""
    columns = {"answer": "row", "gtid_executed": ""}
    columns |= {"binary_log_file": file, "binary_log_position": position}
    answer = ask(RULES["log_status_row_complete"], columns)
    found = answer.data["expected"] if isinstance(answer, Broken) else None
    assert (found, isinstance(answer, Holds)) == (expected, expected is None)
    if isinstance(answer, Broken):
        given = [value for value in (file, position) if value is not None]
        assert answer.witness == (f"{file}:{position}" if len(given) == 2 else repr(given[0]))


@pytest.mark.parametrize(
    ("file", "position", "is_judged"), [("", 0, False), ("", 4, True), (None, None, True)]
)
def test_a_channel_without_a_relay_log_has_no_flushed_position(
    file: str | None, position: int | None, is_judged: bool
):
    """As after RESET REPLICA; where a value is missing, that is undecided."""
    rule = RULES["relay_position_matches_master_info"]
    assert rule.evidence is not None
    assert rule.judge is not None
    columns = {"relay_log_file": file, "relay_log_position": position}
    answer = rule.judge(rule.evidence.from_columns(columns))
    assert isinstance(answer, Undecided if is_judged else NotApplicable)


@pytest.mark.parametrize(
    ("end", "outcome"), [(500, Holds), (499, Undecided), (501, Undecided), (None, Undecided)]
)
def test_a_position_in_a_file_that_is_not_remembered_is_right_at_the_end_that_was_seen(
    end: int | None, outcome: type[RowAnswer]
):
    columns = {"binary_log_file": "b.000001", "binary_log_position": 500}
    seen = {"journal_binary_log_file": "b.000001", "journal_binary_log_position": end}
    assert isinstance(ask(RULES["snapshot_position_within_file"], columns | seen), outcome)


@pytest.mark.parametrize(
    ("answer", "complete", "silent"),
    [
        ("row", "", ""),
        ("refused", "log_status_refused", ""),
        ("failed", "log_status_failed", ""),
        ("missing", "log_status_missing", ""),
        ("empty", "log_status_empty", "silent"),
        (None, "not_read", "not_read"),
        ("other", "not_read", "not_read"),
    ],
)
def test_an_error_is_an_answer_and_no_row(answer: str | None, complete: str, silent: str):
    """Nothing at all is neither."""
    columns = {"answer": answer, "gtid_executed": "", "collection_id": "c1"}
    found = [
        ask(RULES[name], columns)
        for name in ("log_status_row_complete", "snapshot_never_silently_empty")
    ]
    codes = [
        one.reason.code if isinstance(one, Undecided) else getattr(one, "case", "") for one in found
    ]
    assert codes == [complete, silent]


@pytest.mark.parametrize("name", sorted(OF_TEXTS))
def test_a_row_without_its_set_is_not_read(name: str):
    """Though there is nothing in it that could not be read."""
    answer = ask(RULES[name], {"answer": "row"})
    assert isinstance(answer, Undecided)
    assert answer.reason.code == "not_read"


P, Q = LogCoordinates("b", 1, 500), LogCoordinates("b", 2, 700)


CASES_ON_EVIDENCE = [
    (
        binlog_position.snapshot_position_within_file,
        binlog_position.PositionEvidence(position=Q, log_end=P),
        "no_such_file",
    ),
    (
        binlog_position.snapshot_position_on_group_boundary,
        binlog_position.PositionEvidence(position=Q, file_end=Q, journal_position=P),
        "not_a_boundary",
    ),
    (
        relay_position.relay_position_on_written_boundary,
        channel.ChannelEvidence(relay=Q, journal_relay=P),
        "not_an_end",
    ),
]


@pytest.mark.parametrize(("rule", "evidence", "case"), CASES_ON_EVIDENCE)
def test_a_case_that_no_history_brings(rule: Rule, evidence: Any, case: str):
    """It is answered, and its texts name values that it has."""
    assert rule.judge is not None
    answer = rule.judge(evidence)
    assert isinstance(answer, Broken)
    assert case == answer.case
    assert rule.cases[case].names() <= {*answer.data, "witness"}


def test_every_case_of_a_rule_of_one_instance_is_produced():
    """A case without a history could be misspelt unnoticed."""
    findings = (one for name in CASES for one in audited(name, breaks=True).findings)
    found = {(one.rule, one.case) for one in findings}
    missing = {
        (rule.name, code)
        for rule in RULES.values()
        if rule.scope != "X" and rule.name not in ELSEWHERE
        for code in rule.cases
    } - found
    on_evidence = {(rule.name, code) for rule, _, code in CASES_ON_EVIDENCE}
    between_instances = {
        ("applied_relay_gtids_executed", case) for case in ("passed_in_source_log", "own_lost")
    }
    assert missing == on_evidence | between_instances


@pytest.mark.parametrize(("logged", "is_off"), [("", True), (None, False), (f"{UUID_A}:1", False)])
def test_a_row_without_a_file_is_of_a_server_without_a_log_if_none_was_seen(logged, is_off):
    """Else the file's name is what is missing."""
    columns = {"gtid_executed": f"{UUID_A}:1-3", "journal_gtid_set": logged}
    answer = ask(RULES["executed_within_logged"], columns)
    assert isinstance(answer, Holds) == is_off


@pytest.mark.parametrize("name", CASES)
def test_what_the_journal_has_not_shown_accuses_nobody(name: str):
    """A healthy row of which a comparison lacks a side: nothing of it is broken by the rest."""
    for cut in audited(name, breaks=False).cuts:
        columns = columns_of(cut)
        for rule in ON_CUTS:
            for lacking in (one for one in rule.columns if one.startswith(COMPARED)):
                assert not isinstance(ask(rule, columns | {lacking: None}), Broken), lacking


@pytest.mark.parametrize(("name", "is_readable"), [("gtid_owned", True), ("gtid_purged", False)])
def test_only_owned_gtids_have_the_threads_of_their_sessions(name: str, is_readable: bool):
    """As the server prints them."""
    columns = {"gtid_executed": f"{UUID_A}:1-3", name: f"{UUID_A}:4#17"}
    answer = ask(RULES["gtid_text_wellformed"], columns)
    assert isinstance(answer, Holds if is_readable else Broken)
