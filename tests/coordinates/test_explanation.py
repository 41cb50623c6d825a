"""Sentences and statements made of a finding's data."""

from __future__ import annotations

import re
from dataclasses import replace
from string import Formatter
from typing import Any

import pytest

from tallystick.coordinates.results import Observation, ObservationCode
from tallystick.coordinates.rules.catalogue import REASONS, RULES
from tallystick.coordinates.rules.explanation import (
    explain,
    fill,
    finding_document,
    observation_text,
    shorten_gtids,
)
from tallystick.coordinates.rules.registry import Case
from tallystick.coordinates.rules.statements import WITHOUT_STATEMENT
from tallystick.coordinates.values.gtid import GtidSet
from tests.support.journals import audit
from tests.support.results import finding
from tests.support.rule_cases import all_cases

CASES = all_cases()
UUID = "aaaaaaaa-0000-0000-0000-000000000001"


SHOWN = {"sql", "gtids_sql", "name", "sh", "gtids_sh", "file", "position", "d"}
LSN_OF_ROW = (
    "SELECT STORAGE_ENGINES->>'$.InnoDB.LSN' AS lsn, STORAGE_ENGINES->>'$.InnoDB.LSN_checkpoint'"
    " AS lsn_checkpoint FROM performance_schema.log_status;"
)


def test_a_finding_names_the_statements_that_show_it():
    """Ready to copy: whole sets, and the instance that each is for."""
    found = finding(
        rule="purged_not_needed",
        case="purged_and_missing",
        witness=f"{UUID}:1-5",
        data={"source": "s", "purged": f"{UUID}:1-9", "has": f"{UUID}:6-9"},
    )
    statements = [
        ("s", f"SELECT GTID_SUBTRACT('{UUID}:1-5', @@GLOBAL.gtid_purged) AS not_purged;"),
        ("a", f"SELECT GTID_SUBTRACT('{UUID}:1-5', @@GLOBAL.gtid_executed) AS not_executed;"),
    ]
    assert list(explain(found).verify) == statements
    assert finding_document(found)["verify"] == [
        {"on": on, "statement": statement} for on, statement in statements
    ]


def test_a_position_is_no_gtid_set_in_a_statement():
    """The server would answer error 1772; what shows the files is asked for instead."""
    found = finding(
        rule="purged_not_needed",
        case="file_purged",
        channel="x",
        witness="binlog.000001:157",
        data={"source": "s", "file": "binlog.000001", "position": 157, "oldest": "binlog.000003"},
    )
    assert explain(found).verify == (
        ("s", "SHOW BINARY LOGS;"),
        ("a", "SHOW REPLICA STATUS FOR CHANNEL 'x';"),
    )


@pytest.mark.parametrize(
    ("name", "version", "statements"),
    [
        ("snapshot_position_within_file", "5.7.44", ["SHOW BINARY LOGS;", "SHOW MASTER STATUS;"]),
        ("lsn_order", "5.7.44", ["SHOW ENGINE INNODB STATUS;"]),
        ("lsn_order", "8.0.11", [LSN_OF_ROW, "SHOW ENGINE INNODB STATUS;"]),
    ],
)
def test_a_server_without_log_status_is_asked_for_what_it_has(name, version, statements):
    """Each statement once, though two have one older name."""
    journal = CASES[name].build(breaks=True)
    [start] = [one for one in journal.records if one["kind"] == "start"]
    start["version"] = version
    [found] = [one for one in audit(journal).findings if one.rule == name]
    assert explain(found).verify == tuple(("a", one) for one in statements)


def test_a_finding_names_the_statements_that_heal_it():
    """In their order, for where they are run; what a server's journal does not have is in <>."""
    found = finding(
        rule="no_errant_gtids",
        case="not_of_source",
        witness=f"{UUID}:1-5",
        data={"sources": ["s"]},
    )
    cure = explain(found).cure
    assert {"s"} == {on for on, _ in cure}
    first, start, wait, *_, last = (statement for _, statement in cure)
    assert "SOURCE_HOST = '<host of the replica>'" in first
    assert (start, wait) == (
        "START REPLICA FOR CHANNEL 'fetch';",
        f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{UUID}:1-5');",
    )
    assert last == "RESET REPLICA ALL FOR CHANNEL 'fetch';"
    assert finding_document(found)["cure"][1] == {"on": "s", "statement": start}
    assert explain(replace(found, case="not_of_sources", data={"sources": ["s", "t"]})).cure == ()


@pytest.mark.parametrize(
    ("version", "status", "reset", "option", "reset_binlog"),
    [
        ("8.0.21-12", "SHOW SLAVE", "RESET SLAVE", "MASTER_", "RESET MASTER"),
        ("8.0.22", "SHOW REPLICA", "RESET REPLICA", "MASTER_", "RESET MASTER"),
        ("8.0.23", "SHOW REPLICA", "RESET REPLICA", "SOURCE_", "RESET MASTER"),
        ("8.1.0", "SHOW REPLICA", "RESET REPLICA", "SOURCE_", "RESET MASTER"),
        ("8.2.0", "SHOW REPLICA", "RESET REPLICA", "SOURCE_", "RESET BINARY LOGS AND GTIDS"),
        (None, "SHOW REPLICA", "RESET REPLICA", "SOURCE_", "RESET BINARY LOGS AND GTIDS"),
    ],
)
def test_statements_have_the_names_of_the_version_in_the_journal(
    version, status, reset, option, reset_binlog
):
    """In the remedy, too; what a template names by a value stays as it is."""
    for name in ("applied_relay_gtids_executed", "applied_coordinates_paired"):
        journal = CASES[name].build(breaks=True)
        [start] = [one for one in journal.records if one["kind"] == "start"]
        start["version"] = version
        [found] = [one for one in audit(journal).findings if one.rule == name]
        found = replace(found, channel="SHOW REPLICA")
        texts = explain(found)
        assert ("a", f"{status} STATUS FOR CHANNEL 'SHOW REPLICA';") in texts.verify
        if name == "applied_coordinates_paired":
            assert f"{option}AUTO_POSITION=1" in texts.remedy
        else:
            assert f"stop the channel and {reset}:" in texts.remedy
            assert f"as after {reset_binlog}," in texts.remedy


def test_values_from_outside_stay_inside_their_quotes():
    """Names and texts come from servers; a statement is copied into a shell or a client."""
    value = "O'Brien\\; rm"
    assert fill("{x:sql}", {"x": value}) == r"'O''Brien\\; rm'"
    assert fill("{x:sh}", {"x": value}) == "'O'\"'\"'Brien\\; rm'"
    assert fill("{x:name}", {"x": "shop.a`b"}) == "`shop`.`a``b`"
    assert fill("{x:file} {x:position}", {"x": "./$(rm).000001:4"}) == "'$(rm).000001' 4"
    assert fill("{x:sql}", {"x": "a\nb"}) == r"'a\nb'"


@pytest.mark.parametrize(
    ("spec", "value"),
    [
        ("sh", ""),
        ("sh", "--help"),
        ("sh", "two\nlines"),
        ("file", "collection-0001"),
        ("file", "--result-file=x.000001:4"),
        ("position", "binlog.000001:4x"),
        ("sql", ["a list"]),
        ("gtids_sql", "binlog.000001:157"),
        ("gtids_sh", "binlog.000001:157"),
        ("gtids_sql", ""),
        ("gtids_sh", ""),
        ("d", "4"),
    ],
)
def test_what_cannot_be_quoted_is_in_no_statement(spec, value):
    """Not one option, second line or other value gets into a command."""
    with pytest.raises(ValueError, match=r"expected|coordinate|format code"):
        fill(f"{{x:{spec}}}", {"x": value})


def test_statements_quote_every_value():
    """A plain value in a statement would be code."""
    for rule in RULES.values():
        cures = (statement for case in rule.cases.values() for statement in case.cure)
        for statement in (*rule.verify, *cures):
            assert statement.specs() <= SHOWN, rule.name


def test_every_rule_has_statements():
    """One or two that an operator runs; without any only where no server shows its subject."""
    assert {rule.name for rule in RULES.values() if not rule.verify} == WITHOUT_STATEMENT


def test_times_in_coordinates_are_for_people():
    """Some findings are at a step of the journal; programs still find its number."""
    found = finding(
        rule="no_metadata_change_during_backup",
        case="ddl_under_instance_lock",
        at="statement at 1700000002000000",
        data={"session": "91", "engine": "innodb"},
    )
    assert explain(found).at == "statement, 2023-11-14 22:13:22 UTC"
    assert finding_document(found)["at"] == found.at
    assert explain(replace(found, at="LSN 1700000002000000")).at == "LSN 1700000002000000"
    assert explain(replace(found, at="statement at 123456")).at == (
        "statement, 0.123 s into the journal"
    )


_NOUN = "GTID|transaction|group|event|byte|row|ticket|round|interval|second|time|engine|step"
WRONG = re.compile(rf"(?<![\w.,:/-])(?:1 (?:{_NOUN})s|[02] (?:{_NOUN}))\b|µs")


def _values(texts: Case, number: int) -> dict[str, Any]:
    """A value of the right kind for each name, every number the same."""
    specs = {
        name: spec
        for text in texts
        if isinstance(text, str)
        for _, name, spec, _ in Formatter().parse(text)
        if name is not None and "|" not in (spec or "")
    }
    of_spec: dict[str, Any] = {
        "gtids": f"{UUID}:{number + 1}",
        "group": f"{UUID}:{number + 1}",
        "list": ["x"],
        "content": {"rows": number, "checksum": "c"},
        "origins": [{"server_id": number, "original_commit_timestamp": number}],
    }
    return {name: of_spec.get(spec or "", number) for name, spec in specs.items()}


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.name)
def test_numbers_have_the_right_noun(rule, number):
    """Neither "1 transactions" nor "2 GTID", nor microseconds, in any text of any case."""
    for code, texts in rule.cases.items():
        made = [fill(text, _values(texts, number)) for text in texts if isinstance(text, str)]
        assert [text for text in made if WRONG.search(text)] == [], code


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (f"{UUID}:1", "it"),
        (f"{UUID}:1-2", "them"),
        (f"{UUID}:1,{UUID}:7", "them"),
        ("", "them"),
        (GtidSet.parse(f"{UUID}:3"), "it"),
        (["s"], "it"),
        (["s", "t"], "them"),
        (1, "it"),
        (0, "them"),
    ],
)
def test_words_are_chosen_by_how_many_there_are(value, text):
    assert fill("{x:it|them}", {"x": value}) == text


_ONE_WORD = re.compile(
    r":gtids\},? (?:which |but )?(?:is|are|was|were|has|counts|count|it|they)\b"
    r"|\b(?:hold|holds|held|has|have|executed|found|lost|wrote) it\b"
    r"|:list\} (?:has|have|is|are|lack|lacks)\b"
)


def test_no_text_takes_a_set_for_one_gtid():
    """A verb or a pronoun that belongs to a set depends on how many GTIDs it has."""
    # These cases tell by their codes how many sources there are.
    known = {"not_of_source", "not_of_sources"}
    wrong = [
        (rule.name, code, text)
        for rule in RULES.values()
        for code, texts in rule.cases.items()
        for text in texts
        if isinstance(text, str) and ":gtids}" in text and _ONE_WORD.search(text)
        if code not in known
    ]
    wrong += [("", code, one.text) for code, one in REASONS.items() if _ONE_WORD.search(one.text)]
    assert wrong == []


def test_times_of_records_are_for_people():
    """Two that lie closer together than a second differ."""
    seen = {"shown": 1_700_000_000_000_001, "before": 1_700_000_000_000_250}
    text = fill(REASONS["time_implausible"].text, seen)
    assert "22:13:20.000001 UTC after one of 2023-11-14 22:13:20.000250 UTC" in text
    text = fill(REASONS["time_after_message"].text, {"shown": 5, "sent": 1_700_000_000_000_000})
    assert "0.000005 s into the journal" in text


def test_a_case_may_have_its_own_remedy():
    """What heals one contradiction of a rule may not heal another."""
    cases = {
        case: explain(finding(rule="purged_matches_oldest_file", case=case, data=data)).remedy
        for case, data in {
            "lost_from_log": {"lost": "", "purged": "", "logged": ""},
            "not_purged": {"absent": "", "file": "", "purged": "", "previous": ""},
        }.items()
    }
    assert "rm" not in cases["lost_from_log"].split()
    assert cases["not_purged"] == RULES["purged_matches_oldest_file"].remedy


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.name)
def test_a_remedy_that_does_not_end_the_incident_says_what_does(rule):
    """Where the rule does not hold again by itself, or the damage cannot be undone."""
    names = {"log": "begins anew", "data": "a clone, a restore", "never": "acknowledgement"}
    for code in rule.cases:
        data = _values(rule.cases[code], 1)
        shown = explain(finding(rule=rule.name, case=code, data=data)).remedy
        expected = names.get(rule.healed_by(code))
        assert (expected in shown) if expected else not shown.endswith("acknowledgement.")


@pytest.mark.parametrize("code", ["not_in_source_log", "other_transaction"])
def test_a_case_may_end_otherwise_than_its_rule(code):
    """What a source lacks may come to it; of another transaction only other data are free."""
    rule = RULES["received_within_source_logged"]
    shown = explain(finding(rule=rule.name, case=code, data=_values(rule.cases[code], 1)))
    assert ("other data replace" in shown.remedy) == (code == "other_transaction")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({}, "no_errant_gtids: not read"),
        ({"sources": []}, "no_errant_gtids of instance r: not read"),
        ({"sources": ["s", "t"]}, "no_errant_gtids of instance r against s and t: not read"),
        ({"later_rows": 1}, "no_errant_gtids: not read (and 1 later row)"),
    ],
)
def test_an_observation_names_what_it_is_about(data: dict[str, Any], text: str):
    seen = Observation(
        code=ObservationCode.COMPARISON_UNDECIDED,
        instance_id="r",
        channel=None,
        at="c1",
        reason="not read",
        data=data,
        rules=("no_errant_gtids",),
        is_undecided=True,
        collection_id="c1",
        epoch=0,
        sequence=0,
        ts=0,
    )
    assert observation_text(seen) == text
    assert observation_text(replace(seen, rules=(), data={})) == "not read"


def test_of_a_long_set_the_first_intervals_are_shown():
    """And how many intervals and GTIDs are left out: of 15 intervals the last three."""
    uuid = "aaaaaaaa-0000-0000-0000-000000000001"
    numbers = [str(10 * n) for n in range(1, 15)]
    shown = ":".join([uuid, *numbers[:12]])
    assert shorten_gtids(shown) == shown
    assert shorten_gtids(":".join([uuid, *numbers, "1000-1999"])) == (
        f"{shown} and 3 more intervals (1,002 of 1,014 GTIDs)"
    )
