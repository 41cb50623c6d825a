"""The page of rules, and how one entry reads."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from string import Formatter
from types import ModuleType

import pytest

from tallystick.coordinates import rules
from tallystick.coordinates.rules.catalogue import RULES
from tallystick.coordinates.rules.describe import WIDTH, describe, page
from tallystick.coordinates.rules.registry import Rule

PAGE = Path(__file__).parents[2] / "docs" / "rules.md"
REGENERATE = "python -m tests.support.catalogue_pages"
# What Markdown would take for a heading, a list, a quotation or a table at the start of a line.
MARKUP = re.compile(r"(?:#|[-+*]\s|\d+[.)]\s|>|\||={2,}|-{2,}|`{3})")
entries = pytest.mark.parametrize("rule", RULES.values(), ids=lambda one: one.name)


def test_the_page_is_what_the_registry_says():
    """docs/rules.md holds every entry as the registry has it now."""
    written = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    expected = page()
    if written != expected:
        differing = [one.name for one in RULES.values() if describe(one) not in written]
        pytest.fail(
            f"docs/rules.md and the registry differ in {differing or 'introduction or order'};"
            f" to write the page anew: {REGENERATE}"
        )


def test_the_page_has_every_rule_once_in_number_order():
    """Each rule has one heading. A number that was retired is not given to another rule."""
    headings = re.findall(r"^## (\d+) (\w+)$", page(), flags=re.MULTILINE)
    assert [(str(rule.number), name) for name, rule in RULES.items()] == headings


def test_every_entry_of_the_index_leads_to_its_heading():
    """A link's anchor is the heading as a page makes it: lower case, blanks to hyphens."""
    links = re.findall(r"^\| \d+ \| \[(\w+)\]\(#([\w-]+)\)", page(), flags=re.MULTILINE)
    assert [(one.name, f"{one.number}-{one.name}") for one in RULES.values()] == links


@entries
def test_an_entry_says_everything(rule):
    """No field of the registry is left out of the description, and none is changed."""
    text = " ".join(describe(rule).split())
    for prose in (
        f"## {rule.number} {rule.name} ",
        f"**Claim:** {rule.claim}",
        f"**Why it holds:** {rule.why}",
        f"**Undecided when:** {rule.undecided_when}.",
        f"**Remedy:** {rule.remedy}",
        f"Tier {rule.tier} ",
        f"severity {rule.severity.value}.",
        *rule.sources,
    ):
        assert prose.strip() in text


@entries
def test_an_entry_reads_as_prose(rule):
    """Sentences end, fragments do not, and no line turns into markup or runs off the screen."""
    for text in (rule.claim, rule.why, rule.remedy):
        assert text.endswith(".")
        assert text[0].isupper() or text.startswith(("server_uuid", "clone_status", "gtid_"))
    assert not rule.undecided_when.endswith(".")
    assert rule.undecided_when[0].islower() or rule.undecided_when.startswith("server_")
    assert "  " not in f"{rule.claim}{rule.why}{rule.undecided_when}"
    lines = [line for line in describe(rule).splitlines()[1:] if not line.startswith("    ")]
    assert all(len(line) <= WIDTH for line in lines)
    assert [line for line in lines if MARKUP.match(line)] == []


@entries
def test_an_entry_lists_the_statements_that_show_a_breach(rule):
    """Each statement once, with its literal text, and a place in angles for each of its values."""
    listed = [line.strip() for line in describe(rule).splitlines() if line.startswith("    ")]
    assert len(listed) == len(rule.verify)
    for line, statement in zip(listed, rule.verify, strict=True):
        on, _, text = line.partition(": ")
        assert on.removeprefix("on ") == re.sub(r"\{(\w+)[^}]*\}", r"<\1>", statement.on)
        literals = [literal for literal, *_ in Formatter().parse(statement.text)]
        assert all(literal.replace("'", "") in text.replace("'", "") for literal in literals)
        assert "{" not in text.replace("{{", "")
        named = {name for _, name, *_ in Formatter().parse(statement.text) if name}
        assert all(re.search(rf"<[^>]*\b{name}>", text) for name in named)


@entries
def test_a_claim_is_one_sentence(rule):
    """The claim can be quoted in a report."""
    assert re.search(r"[.!?]\s", rule.claim) is None


@entries
def test_an_entry_cites_documents_by_name(rule):
    """A source is a design document, the manual, a bug report or a measurement."""
    for source in rule.sources:
        assert source.startswith(
            (
                "WL#",
                "MySQL manual: ",
                "MySQL source documentation: ",
                "Percona ",
                "server bug",
                "Vitess issue ",
                "Flink CDC issue ",
                "Kafka documentation: ",
                "measured on MySQL ",
            )
        )


def test_each_rule_has_its_name_in_the_module_of_its_family():
    """A predicate under ``@rule`` has the rule's name, a constant the name in capitals."""
    modules = [value for value in vars(rules).values() if isinstance(value, ModuleType)]
    held = {
        name.lower(): value
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, Rule)
    }
    assert {one.name: one for one in RULES.values()} == held


def test_a_changed_entry_changes_its_text():
    """The comparison with the page would see another word in any field."""
    known = RULES["lsn_order"]
    for change in ({"why": "Another reason."}, {"remedy": "Do nothing."}, {"sources": ("WL#1",)}):
        assert describe(replace(known, **change)) != describe(known)
