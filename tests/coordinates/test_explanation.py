"""Sentences and statements made of a finding's data."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tallystick.coordinates.rules.catalogue import RULES
from tallystick.coordinates.rules.explanation import explain, fill, finding_document
from tallystick.coordinates.rules.statements import WITHOUT_STATEMENT
from tests.support.results import finding

UUID = "aaaaaaaa-0000-0000-0000-000000000001"


SHOWN = {"sql", "name", "sh", "file", "position", "d"}


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
        ("a", f"SELECT GTID_SUBTRACT('{UUID}:1-5', @@GLOBAL.gtid_executed) AS missing;"),
    ]
    assert list(explain(found).verify) == statements
    assert finding_document(found)["verify"] == [
        {"on": on, "statement": statement} for on, statement in statements
    ]


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
        ("file", "--result-file=x:4"),
        ("position", "binlog.000001:4x"),
        ("sql", ["a list"]),
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
        for statement in rule.verify:
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
    assert explain(found).at == "statement at 2023-11-14 22:13:22 UTC"
    assert finding_document(found)["at"] == found.at
    assert explain(replace(found, at="statement at 123456")).at == (
        "statement at 0.123 s into the journal"
    )
