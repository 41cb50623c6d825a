"""Sentences and statements made of a finding's data."""

from __future__ import annotations

from tallystick.coordinates.rules.catalogue import RULES
from tallystick.coordinates.rules.explanation import explain, fill, finding_document
from tests.support.results import finding

UUID = "aaaaaaaa-0000-0000-0000-000000000001"


def test_a_finding_names_the_statements_that_show_it():
    """Ready to copy: whole sets, and the instance that each is for."""
    found = finding(
        rule="no_errant_gtids", case="not_of_source", witness=f"{UUID}:1-5", data={"sources": ["s"]}
    )
    statements = [
        ("a", f"SELECT GTID_SUBSET('{UUID}:1-5', @@GLOBAL.gtid_executed);"),
        ("s", f"SELECT GTID_SUBTRACT('{UUID}:1-5', @@GLOBAL.gtid_executed);"),
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


def test_statements_quote_every_value():
    """A plain value in a statement would be code."""
    for rule in RULES.values():
        for statement in rule.verify:
            assert all(spec in ("sql", "sh", "d") for spec in statement.specs()), rule.name
