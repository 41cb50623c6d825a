"""The registry of rules."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest

from tallystick.coordinates import rules
from tallystick.coordinates.logs.anomaly import AnomalyKind, DroppedEvents
from tallystick.coordinates.rules.catalogue import RULES
from tallystick.coordinates.rules.observations import OF_DROPPED_EVENTS
from tallystick.coordinates.rules.registry import RULE_OF_ANOMALY, _Registry, register

KNOWN = Path(__file__).with_name("rules.txt")


def test_every_rule_is_what_rules_txt_says():
    """What is kept by hand: no change of it goes unnoticed.

    Number, name, tier, scope, severity, what ends a breach (state that each row shows anew is
    held, what happened once never ends), and the cases that something else ends.
    """
    written = {tuple(line.split()) for line in KNOWN.read_text("utf-8").splitlines()}
    registered = {
        (
            *(str(one.number), one.name, "tier", str(one.tier), one.scope),
            *(one.severity.value, one.heals),
            *(f"{code}={case.heals}" for code, case in one.cases.items() if case.heals),
        )
        for one in RULES.values()
    }
    missing, gone = (
        [" ".join(one) for one in sorted(some)]
        for some in (registered - written, written - registered)
    )
    assert ([], []) == (missing, gone), f"write into {KNOWN.name}: {missing}; take out: {gone}"


def test_the_catalogue_imports_every_family():
    """A rule of a file that catalogue.py does not import would be asked here and missing there."""
    known = set(RULES)
    for module in iter_modules(rules.__path__):
        import_module(f"{rules.__name__}.{module.name}")
    assert set(RULES) == known


def test_names_come_in_number_order():
    """The order is that of the catalogue, not that of imports."""
    numbers = [RULES[name].number for name in RULES]
    assert numbers == sorted(numbers)
    assert list(RULES) == [rule.name for rule in RULES.values()]


def test_order_does_not_depend_on_registration():
    """A module imported late is sorted by number."""
    first, second = (RULES[name] for name in ("relay_mirrors_source", "no_errant_gtids"))
    registry = _Registry()
    registry.add(second)
    registry.add(first)
    assert list(registry) == [first.name, second.name]


@pytest.mark.parametrize("change", [{"number": 9999}, {"name": "some_other_name"}])
def test_a_taken_number_or_name_is_refused(change):
    """One number and one name mean one predicate for ever."""
    taken = replace(RULES["no_errant_gtids"], **change)
    with pytest.raises(ValueError, match="clashes with 67 'no_errant_gtids'"):
        register(taken)


@pytest.mark.parametrize(
    "change",
    [
        {"number": 0},
        {"tier": 5},
        {"tier": -1},
        {"name": "CamelCase"},
        {"name": "one"},
        {"claim": " "},
        {"why": ""},
        {"undecided_when": ""},
        {"remedy": ""},
        {"sources": ()},
        {"sources": ("",)},
    ],
)
def test_an_incomplete_entry_is_refused(change):
    """Every entry has a number, a tier, a name and all of its prose."""
    with pytest.raises(ValueError, match="expected"):
        replace(RULES["no_errant_gtids"], **change)


def test_every_kind_of_anomaly_breaks_one_rule():
    """The readers of logs name kinds of anomalies; the rules' cases have the same codes."""
    assert set(RULE_OF_ANOMALY) == set(AnomalyKind)


def test_every_kind_of_dropped_events_has_its_reason():
    """What a reader of a log drops is noted with the reason of the same code."""
    codes = {kind.value: reason.code for kind, (_, reason, _) in OF_DROPPED_EVENTS.items()}
    assert codes == {kind.value: kind.value for kind in DroppedEvents}


def test_an_anomaly_is_a_case_of_one_rule_only():
    """Of two rules with the case of an anomaly it would not be known which one is broken."""
    cases = RULES["binlog_log_pos_field_agrees"].cases
    rule = replace(RULES["no_errant_gtids"], number=9999, name="some_other_name", cases=cases)
    with pytest.raises(ValueError, match="both have the case 'log_pos_differs'"):
        register(rule)
    assert rule.name not in RULES
