"""docs/runbook.md: an entry for each family of rules and each kind of UNDECIDED, and its links."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tallystick.coordinates.rules.catalogue import REASONS, RULES
from tallystick.coordinates.rules.families import RUNBOOK, Family, Lack
from tests.support.runbook_page import OF_TESTS, filled

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / RUNBOOK).read_text("utf-8")
PARTS = ("What happened.", "Verify by hand.", "Do.", "Do not", "How it ends.")
MARKS = ("rules", "verify", "faults")


def anchors(page: str) -> list[str]:
    """Those of its headings, as a page makes them."""
    titles = re.findall(r"^#+ (.+)$", page, flags=re.MULTILINE)
    return [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles]


def chapter(title: str) -> str:
    """What is between a heading of the second level and the next one."""
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def entries(title: str) -> dict[str, str]:
    """The entries of a chapter by their titles."""
    parts = re.split(r"^### (.+)$", chapter(title), flags=re.MULTILINE)[1:]
    assert len(set(parts[::2])) == len(parts[::2])
    return dict(zip(parts[::2], parts[1::2], strict=True))


FINDINGS = entries("Findings")
UNDECIDED = entries("Undecided")


def test_the_page_is_what_the_registry_says() -> None:
    """Names, statements, faults and reasons; anew: python -m tests.support.catalogue_pages."""
    assert filled(PAGE) == PAGE


def test_each_family_and_each_kind_of_undecided_has_one_entry() -> None:
    """In the order in which they are declared, and nothing else has one."""
    assert list(FINDINGS) == [one.value for one in Family]
    assert list(UNDECIDED) == [one.value for one in Lack]


@pytest.mark.parametrize("family", Family)
def test_an_entry_of_findings_is_whole(family: Family) -> None:
    """All of its parts, in order, and what is made of the registry."""
    entry = FINDINGS[family.value]
    found = [part for part in re.findall(r"^\*\*([^*]+)\*\*", entry, re.MULTILINE) if part in PARTS]
    assert found == list(PARTS)
    made = re.findall(r"^<!-- made: (\w+) ([\w-]+) -->$", entry, re.MULTILINE)
    assert made == [(mark, family.anchor) for mark in MARKS]


@pytest.mark.parametrize("lack", Lack)
def test_an_entry_of_undecided_is_whole(lack: Lack) -> None:
    """What decides it, and all reasons of its kind; an observation needs no decision."""
    entry = UNDECIDED[lack.value]
    assert ("**To have it decided:**" in entry) is (lack is not Lack.NOTED)
    assert re.findall(r"^<!-- made: (\w+ [\w-]+) -->$", entry, re.MULTILINE) == [
        f"reasons {lack.anchor}"
    ]


def test_each_rule_and_each_reason_is_in_one_entry() -> None:
    """A rule's name leads to its entry by the index as well."""
    named = [name for one in FINDINGS.values() for name in re.findall(r"\[(\w+)\]\(rules\.md", one)]
    assert sorted(named) == sorted(RULES)
    rows = re.findall(r"^\| `(\w+)` \| .*\(#([\w-]+)\) \|$", chapter("Index"), re.MULTILINE)
    assert dict(rows) == {name: rule.family.anchor for name, rule in RULES.items()}
    tables = "".join(UNDECIDED.values())
    codes = re.findall(r"\| `(\w+)` \|$", tables, re.MULTILINE)
    assert sorted(codes) == sorted(set(REASONS) - OF_TESTS)


def test_links_lead_to_headings() -> None:
    """Those within the page, and those into others."""
    own = anchors(PAGE)
    assert [one for one in re.findall(r"\]\(#([\w-]+)\)", PAGE) if own.count(one) != 1] == []
    for name, anchor in set(re.findall(r"\]\((\w+\.md)#([\w-]+)\)", PAGE)):
        assert anchor in anchors((ROOT / "docs" / name).read_text("utf-8")), (name, anchor)
    assert {one.anchor for one in (*Family, *Lack)} <= set(own)
