"""Every rule, on a row just inside and just outside, and on rows without evidence."""

from __future__ import annotations

import pytest
from cuts import SOURCE_UUID, channel_cut, instance_cut

from tallystick.coordinates.rules.catalogue import RULES as REGISTRY
from tallystick.expectations.judgement import Outcome, judge_cells
from tallystick.expectations.judges import RULES
from tallystick.expectations.validate import TABLE_COLUMNS, cell

HELD, BROKEN, UNDECIDED, NOT_APPLICABLE = (
    Outcome.HELD,
    Outcome.BROKEN,
    Outcome.UNDECIDED,
    Outcome.NOT_APPLICABLE,
)
U = SOURCE_UUID
# The healthy rows of collection 2: gtid_executed U:1-1020, position 110000, relay 60000.
X = f"{U}:1-1020"
OFF = {"binary_log_file": None, "binary_log_position": None, "journal_gtid_set": None}
NO_JOURNAL = {"journal_binary_log_file": None, "journal_binary_log_position": None}

CASES = [
    # What is executed must be in the log or purged.
    ("executed_logged", {}, HELD),
    ("executed_logged", {"gtid_executed": f"{U}:1-1021"}, BROKEN),
    ("executed_logged", {"gtid_executed": f"{U}:1-1019"}, HELD),
    ("executed_logged", {"journal_gtid_set": f"{U}:501-1020"}, HELD),
    ("executed_logged", {"journal_gtid_set": f"{U}:502-1020"}, BROKEN),
    ("executed_logged", {"gtid_purged": None}, HELD),
    ("executed_logged", {"gtid_purged": None, "journal_gtid_set": f"{U}:2-1020"}, UNDECIDED),
    ("executed_logged", {"journal_gtid_set": None}, UNDECIDED),
    ("executed_logged", {"gtid_executed": None}, UNDECIDED),
    ("executed_logged", {"gtid_executed": "?"}, UNDECIDED),
    ("executed_logged", {"journal_gtid_set": "?"}, UNDECIDED),
    ("executed_logged", {**OFF, "gtid_purged": X}, HELD),
    ("executed_logged", OFF, NOT_APPLICABLE),
    # What is purged was executed.
    ("purged_executed", {}, HELD),
    ("purged_executed", {"gtid_purged": f"{U}:1-1020"}, HELD),
    ("purged_executed", {"gtid_purged": f"{U}:1-1021"}, BROKEN),
    ("purged_executed", {"gtid_purged": None}, UNDECIDED),
    ("purged_executed", {"gtid_executed": None}, UNDECIDED),
    ("purged_executed", {"gtid_purged": "?"}, UNDECIDED),
    # What is owned is not executed.
    ("owned_disjoint", {}, HELD),
    ("owned_disjoint", {"gtid_owned": f"{U}:1021#44"}, HELD),
    ("owned_disjoint", {"gtid_owned": f"{U}:1020#44"}, BROKEN),
    ("owned_disjoint", {"gtid_owned": None}, UNDECIDED),
    ("owned_disjoint", {"gtid_owned": "?"}, UNDECIDED),
    # Lag within the bound.
    ("lag_bounded", {"gtid_executed": f"{U}:1-1012"}, HELD),
    ("lag_bounded", {"gtid_executed": f"{U}:1-1011"}, BROKEN),
    ("lag_bounded", {"commit_lag_max": None}, UNDECIDED),
    ("lag_bounded", {"journal_gtid_set": None}, UNDECIDED),
    ("lag_bounded", OFF, NOT_APPLICABLE),
    ("lag_bounded", {**OFF, "gtid_executed": None}, UNDECIDED),
    # Sets do not shrink.
    ("executed_kept", {}, HELD),
    ("executed_kept", {"gtid_executed": f"{U}:1-1009"}, BROKEN),
    ("executed_kept", {"gtid_executed": f"{U}:1-1010"}, HELD),
    ("executed_kept", {"previous_gtid_executed": None}, NOT_APPLICABLE),
    ("executed_kept", {"gtid_executed": None}, UNDECIDED),
    ("purged_kept", {}, HELD),
    ("purged_kept", {"gtid_purged": f"{U}:1-499"}, BROKEN),
    ("purged_kept", {"gtid_purged": None}, UNDECIDED),
    ("purged_kept", {"previous_gtid_purged": None}, NOT_APPLICABLE),
    # Binary log coordinates.
    ("coordinates_complete", {}, HELD),
    ("coordinates_complete", {"binary_log_position": 4}, HELD),
    ("coordinates_complete", {"binary_log_position": 3}, BROKEN),
    ("coordinates_complete", {"binary_log_position": None}, BROKEN),
    ("coordinates_complete", {"binary_log_file": None}, BROKEN),
    ("coordinates_complete", {"binary_log_file": "/var/lib/mysql/binlog.000003"}, BROKEN),
    ("coordinates_complete", OFF, NOT_APPLICABLE),
    ("coordinates_complete", {"answer": "missing"}, UNDECIDED),
    ("position_on_boundary", {}, HELD),
    ("position_on_boundary", {"binary_log_position": 110_001}, BROKEN),
    ("position_on_boundary", {"binary_log_file": "binlog.000004"}, BROKEN),
    ("position_on_boundary", NO_JOURNAL, UNDECIDED),
    ("position_on_boundary", OFF, NOT_APPLICABLE),
    ("position_on_boundary", {**OFF, "gtid_executed": None}, UNDECIDED),
    ("position_on_boundary", {"binary_log_file": "binlog"}, UNDECIDED),
    ("position_kept", {}, HELD),
    ("position_kept", {"binary_log_position": 105_000}, HELD),
    ("position_kept", {"binary_log_position": 104_999}, BROKEN),
    ("position_kept", {"binary_log_file": "binlog.000004", "binary_log_position": 157}, HELD),
    # Number, not text: 1000000 follows 999999.
    (
        "position_kept",
        {"binary_log_file": "binlog.1000000", "previous_binary_log_file": "binlog.999999"},
        HELD,
    ),
    ("position_kept", {"binary_log_file": "other.000003"}, UNDECIDED),
    ("position_kept", {"binary_log_position": None}, UNDECIDED),
    (
        "position_kept",
        {"previous_binary_log_file": None, "previous_binary_log_position": None},
        NOT_APPLICABLE,
    ),
    ("position_kept", {"previous_binary_log_file": None}, UNDECIDED),
    # Redo log.
    ("lsn_ordered", {}, HELD),
    ("lsn_ordered", {"lsn": 8204, "lsn_checkpoint": 8204}, HELD),
    ("lsn_ordered", {"lsn": 8204, "lsn_checkpoint": 8205}, BROKEN),
    ("lsn_ordered", {"lsn": 8204, "lsn_checkpoint": 8191}, BROKEN),
    ("lsn_ordered", {"lsn_checkpoint": None}, UNDECIDED),
    ("lsn_in_block_data", {"lsn": 512 * 99 + 12, "lsn_checkpoint": 512 * 20 + 507}, HELD),
    ("lsn_in_block_data", {"lsn": 512 * 99 + 11}, BROKEN),
    ("lsn_in_block_data", {"lsn_checkpoint": 512 * 20 + 508}, BROKEN),
    ("lsn_in_block_data", {"lsn": None}, UNDECIDED),
    ("lsn_kept", {}, HELD),
    ("lsn_kept", {"lsn": 2**62 + 1, "previous_lsn": 2**62 + 1}, HELD),
    ("lsn_kept", {"lsn": 2**62, "previous_lsn": 2**62 + 1}, BROKEN),
    ("lsn_kept", {"lsn": None}, UNDECIDED),
    ("lsn_kept", {"previous_lsn": None}, NOT_APPLICABLE),
    # The collection.
    ("answered", {}, HELD),
    ("answered", {"answer": "empty"}, BROKEN),
    ("answered", {"answer": "refused", "error_code": 1227}, UNDECIDED),
    ("answered", {"answer": "missing"}, UNDECIDED),
    ("answered", {"answer": "yes"}, BROKEN),
    ("verdict_known", {"verdict": "UNDECIDED"}, HELD),
    ("verdict_known", {"verdict": "consistent"}, BROKEN),
    ("audit_consistent", {}, HELD),
    ("audit_consistent", {"verdict": "INCONSISTENT"}, BROKEN),
    ("audit_consistent", {"broken": "lsn_order"}, BROKEN),
    ("audit_consistent", {"verdict": "UNDECIDED"}, UNDECIDED),
    ("no_event_findings", {}, HELD),
    ("no_event_findings", {"event_findings": 1}, BROKEN),
    ("audit_agrees", {}, HELD),
    ("audit_agrees", {"gtid_executed": f"{U}:1-1021"}, BROKEN),
    (
        "audit_agrees",
        {
            "gtid_executed": f"{U}:1-1021",
            "verdict": "INCONSISTENT",
            "broken": "executed_within_logged",
        },
        HELD,
    ),
    (
        "audit_agrees",
        {"gtid_executed": f"{U}:1-1021", "undecided": "executed_within_logged: a gap"},
        HELD,
    ),
    ("audit_agrees", {"verdict": "INCONSISTENT", "broken": "lsn_order"}, BROKEN),
    ("audit_agrees", {"broken": "gtid_table_within_executed"}, BROKEN),
    (
        "audit_agrees",
        {"verdict": "INCONSISTENT", "broken": "gtid_table_within_executed"},
        HELD,
    ),
]

CHANNEL_CASES = [
    ("retrieved_received", {}, HELD),
    ("retrieved_received", {"retrieved_gtid_set": f"{U}:501-1021"}, BROKEN),
    ("retrieved_received", {"retrieved_gtid_set": f"{U}:501-1019"}, HELD),
    ("retrieved_received", {"retrieved_gtid_set": None}, UNDECIDED),
    ("retrieved_received", {"journal_retrieved_gtid_set": None}, UNDECIDED),
    ("retrieved_received", {"retrieved_gtid_set": "?"}, UNDECIDED),
    ("relay_position_on_boundary", {}, HELD),
    ("relay_position_on_boundary", {"relay_log_position": 60_001}, BROKEN),
    (
        "relay_position_on_boundary",
        {"relay_log_file": "", "relay_log_position": 0, "journal_relay_log_file": None},
        NOT_APPLICABLE,
    ),
    ("relay_position_on_boundary", {"relay_log_file": ""}, BROKEN),
    ("relay_position_on_boundary", {"relay_log_position": None}, UNDECIDED),
    ("relay_position_on_boundary", {"journal_relay_log_position": None}, UNDECIDED),
    ("relay_position_on_boundary", {"relay_log_file": "relay"}, UNDECIDED),
    ("exec_read", {}, HELD),
    ("exec_read", {"exec_source_log_pos": 110_001}, BROKEN),
    (
        "exec_read",
        {"exec_source_log_file": "binlog.1000000", "read_source_log_file": "binlog.999999"},
        BROKEN,
    ),
    (
        "exec_read",
        {"exec_source_log_file": "binlog.999999", "read_source_log_file": "binlog.1000000"},
        HELD,
    ),
    ("exec_read", {"read_source_log_file": ""}, NOT_APPLICABLE),
    ("exec_read", {"read_source_log_file": "other.000001"}, UNDECIDED),
    ("exec_read", {"exec_source_log_pos": None}, UNDECIDED),
    ("audit_agrees", {}, HELD),
    ("audit_agrees", {"relay_log_position": 60_001}, BROKEN),
]

SET_CASES = [
    ("gtid_set_wellformed", "", HELD),
    ("gtid_set_wellformed", f"{U}:1-5,\n{U}:7", HELD),
    ("gtid_set_wellformed", f"{U}:0", BROKEN),
    ("gtid_set_wellformed", None, UNDECIDED),
    ("gtid_set_canonical", f"{U}:1-5", HELD),
    ("gtid_set_canonical", f"{U}:1-5:6", BROKEN),
    ("gtid_set_canonical", f"{U.upper()}:1", BROKEN),
    ("gtid_set_canonical", "?", UNDECIDED),
    ("gtid_set_canonical", None, UNDECIDED),
    ("gtid_owned_wellformed", f"{U}:7#12:8#13", HELD),
    ("gtid_owned_wellformed", f"{U}:7#", BROKEN),
    ("gtid_owned_wellformed", None, UNDECIDED),
]


def judge(name, cut):
    rule = RULES[name]
    cells = [cell(cut, role) for role in rule.roles]
    scope = [cut.scope] if rule.scope is not None else []
    return judge_cells(rule, rule.scope, [*scope, *cells])


@pytest.mark.parametrize(("name", "changes", "expected"), CASES)
def test_rule_on_an_instance(name, changes, expected):
    """A rule holds just inside its boundary, breaks just outside, and does not guess."""
    assert expected is judge(name, instance_cut(2, **changes)).outcome


@pytest.mark.parametrize(("name", "changes", "expected"), CHANNEL_CASES)
def test_rule_on_a_channel(name, changes, expected):
    """The same for the rows of channels."""
    assert expected is judge(name, channel_cut(2, **changes)).outcome


@pytest.mark.parametrize(("name", "text", "expected"), SET_CASES)
def test_rule_on_a_text(name, text, expected):
    """The same for the text of one set."""
    assert expected is judge_cells(RULES[name], None, [text]).outcome


def test_every_rule_has_cases_of_every_kind():
    """No rule without a case that it breaks and one that it keeps."""
    for outcome in (HELD, BROKEN):
        seen = {name for name, _, found in (*CASES, *CHANNEL_CASES, *SET_CASES) if found is outcome}
        assert set(RULES) == seen


def test_rules_are_about_rows_of_their_scope():
    """A rule about instances says nothing about a channel's row, nor the reverse."""
    for rule in RULES.values():
        if rule.scope is not None:
            other = channel_cut(2) if rule.scope == "instance" else instance_cut(2)
            assert NOT_APPLICABLE is judge(rule.name, other).outcome


@pytest.mark.parametrize("cut", [instance_cut(2), channel_cut(2)])
def test_no_rule_succeeds_without_evidence(cut):
    """A row in which nothing is known keeps no rule and breaks none."""
    for rule in RULES.values():
        if "gtid_set" in rule.roles:  # reads a column of the caller's choice: see SET_CASES
            continue
        scope = [cut.scope] if rule.scope is not None else []
        known = [cut.scope if role == "scope" else None for role in rule.roles]
        outcome = judge_cells(rule, rule.scope, [*scope, *known]).outcome
        assert outcome in (UNDECIDED, NOT_APPLICABLE), rule.name
        if rule.scope in (None, cut.scope) and not rule.name.endswith("_kept"):
            assert outcome is UNDECIDED, rule.name


def test_roles_are_columns_of_the_cut_table_with_their_types():
    """The rules that read the cut table name columns that are there, with the right type."""
    for rule in RULES.values():
        if "gtid_set" not in rule.roles:
            assert {role: TABLE_COLUMNS[role] for role in rule.roles} == dict(rule.roles), rule.name


def test_mirrored_invariants_are_in_the_registry():
    """A rule names its invariant as the registry spells it."""
    named = {rule.invariant for rule in RULES.values() if rule.invariant is not None}
    assert len(named) == 16
    assert named <= set(REGISTRY)


def test_a_broken_rule_shows_a_witness_that_can_be_checked_by_hand():
    """The witness is the set that should not be there, cut to a few GTIDs."""
    judged = judge("executed_logged", instance_cut(2, gtid_executed=f"{U}:1-2000"))
    assert judged.witness == f"{U}:1021-1023"
    assert "980 GTIDs" in judged.sentence


def test_what_the_audit_could_not_decide_is_not_held_against_a_row():
    """After a gap the journal's half may be stale: a difference is then UNDECIDED."""
    cut = instance_cut(2, binary_log_position=110_001)
    rule = RULES["position_on_boundary"]
    cells = [getattr(cut, role) for role in rule.roles]
    reason = "snapshot_position_on_group_boundary: part of the journal is missing; lsn_order"
    found = judge_cells(rule, "instance", ["instance", reason, *cells], heeds_undecided=True)
    assert found.outcome is UNDECIDED
    assert "part of the journal is missing" in found.sentence
    found = judge_cells(rule, "instance", ["instance", "lsn_order", *cells], heeds_undecided=True)
    assert found.outcome is BROKEN
