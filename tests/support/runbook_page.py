"""The parts of docs/runbook.md that are made from the registry.

They stand between marks in the page, which is written by hand else.
"""

from __future__ import annotations

import re
import textwrap
from itertools import pairwise
from typing import TYPE_CHECKING

from tallystick.coordinates.rules.catalogue import REASONS, RULES
from tallystick.coordinates.rules.describe import template
from tallystick.coordinates.rules.families import Family, Lack
from tallystick.producers.mysql_lab.faults import FAULTS as LAB_FAULTS
from tallystick.producers.simulator.faults import FAULTS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tallystick.coordinates.rules.registry import Rule

OF_TESTS = frozenset({"given_by_a_test"})
"""Reasons that tests define for themselves (``tests.support.results``)."""

_CODE = " " * 4

_block = re.compile(
    r"(<!-- made: (index|rules|verify|faults|reasons)(?: ([\w-]+))? -->\n).*?(<!-- end -->)",
    re.DOTALL,
).sub


def filled(page: str) -> str:
    """The page with each of its blocks made anew."""
    return _block(lambda found: f"{found[1]}{_made(found[2], found[3])}{found[4]}", page)


def advised(page: str, family: Family) -> list[list[str]]:
    """The blocks of statements below "Do." in the entry of a family."""
    entry = page.split(f"\n### {family.value}\n")[1]
    do = entry.split("\n**Do.**")[1].split("\n**Do not**")[0]
    blocks: list[list[str]] = []
    for before, line in pairwise(do.splitlines()):
        if line.startswith(_CODE):
            if not before.startswith(_CODE):
                blocks.append([])
            blocks[-1].append(line.strip())
    return blocks


def _made(what: str, anchor: str | None) -> str:
    if what == "index":
        return _index()
    if what == "reasons":
        return _reasons(next(one for one in Lack if one.anchor == anchor))
    rules = _rules_of(next(one for one in Family if one.anchor == anchor))
    return {"rules": _names, "verify": _verify, "faults": _faults}[what](rules)


def _rules_of(family: Family) -> list[Rule]:
    return [one for one in RULES.values() if one.family is family]


def _index() -> str:
    lines = ["| a finding of | entry |", "|---|---|"]
    lines += [
        f"| `{one.name}` | [{one.family.value}](#{one.family.anchor}) |"
        for one in sorted(RULES.values(), key=lambda one: one.name)
    ]
    return "\n".join(lines) + "\n"


def _names(rules: Iterable[Rule]) -> str:
    links = (f"[{one.name}](rules.md#{one.number}-{one.name})" for one in rules)
    return "Rules: " + ",\n".join(links) + ".\n"


def _verify(rules: Iterable[Rule]) -> str:
    """The statements of all the rules, each once, below where they are run."""
    by_place: dict[str, list[str]] = {}
    for statement in dict.fromkeys(one for rule in rules for one in rule.verify):
        texts = by_place.setdefault(template(statement.on), [])
        text = template(statement.text)
        texts += [text] if text not in texts else []
    lines = [line for place, texts in by_place.items() for line in (f"# on {place}", *texts)]
    return "".join(f"    {line}\n" for line in lines)


def _faults(rules: Iterable[Rule]) -> str:
    """What makes the findings, on the lab's servers and in simulated ones."""
    names = {one.name for one in rules}
    real = [one.name for one in LAB_FAULTS.values() if names & set(one.expected)]
    made = [one.name for one in FAULTS.values() if names & one.must_fire]
    on_servers = f"`tallystick lab fault` {_listed(real)}" if real else "no fault of the lab"
    text = f"Made on real servers by {on_servers}; played by the simulator as {_listed(made)}."
    lines = textwrap.wrap(text, 120, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines) + "\n"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _reasons(lack: Lack) -> str:
    lines = ["| what it says | code |", "|---|---|"]
    lines += [
        f"| {_readable(one.text)} | `{one.code}` |"
        for _, one in sorted(REASONS.items())
        if one.lack is lack and one.code not in OF_TESTS
    ]
    return "\n".join(lines) + "\n"


def _readable(text: str) -> str:
    """A template with `<name>` for each of its values, in a cell of a table."""
    return template(text).replace("<", "\\<").replace("|", "\\|")
