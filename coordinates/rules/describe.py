"""Rules in words: an entry of the registry as text that is also Markdown, and the page of all.

The only module that decides how an entry reads; it knows nothing of how one is judged.
"""

from __future__ import annotations

import textwrap
from string import Formatter
from typing import TYPE_CHECKING, Final

from tallystick.coordinates.rules.catalogue import RULES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallystick.coordinates.rules.registry import Heals, Rule, Scope

WIDTH = 96

TIERS: Final = (
    "readable data",
    "one log",
    "one log_status row",
    "one instance over time",
    "the fleet",
)
"""What each tier is about, by its number."""

SCOPES: Final[dict[Scope, str]] = {
    "E": "an event",
    "S": "a log_status row",
    "T": "one instance over time",
    "X": "several instances",
}

HEALED: Final[dict[Heals, str]] = {
    "held": "when the rule holds at a later collection",
    "executed": "when a later row has executed what was missing",
    "log": "when the log that shows it begins anew (RESET)",
    "data": "when other data replace the instance's (a clone, a restore)",
    "never": "not by itself: it has happened",
}
"""What ends a breach, in words."""

DESIGNS: Final = {
    "WL#9452": "Log Position Lock",
    "WL#2775": "System tables for master.info and relay_log.info",
    "WL#3576": "Online backup: point in time recovery",
    "WL#9211": "Clone replication coordinates",
}
"""Titles of the design documents that a source names by number alone."""

PERCONA: Final = "Percona backup-safe binlog information"
MYSQL: Final = "MySQL"


def design_of(rule: Rule) -> str:
    """The design document that a rule is from; ``MYSQL`` where no design document names it."""
    documents = [source.partition(",")[0] for source in rule.sources]
    for document in documents:
        if document in DESIGNS:
            return document
    return PERCONA if PERCONA in documents else MYSQL


_INTRODUCTION = """\
# Rules

What tallystick checks: {count} rules that healthy servers keep. Findings, expectations and
options use the names below; a number or a name never comes to mean anything else. `tallystick
rules NAME` prints one entry.

A finding comes with the statements that show it on the server, ready to copy. They are listed here
with `<name>` where a finding has its own value; one whose values a finding lacks is left out of it.

Tiers run in order. What failed an earlier tier is not used by a later one: a text that cannot be
read is given to no other check, and a value that broke a rule is no baseline for the rows
after it. Each check answers CONSISTENT, INCONSISTENT, or UNDECIDED when the evidence does not
suffice; each entry says when that is. Whatever is observed only later is decided later.

| tier | about |
|---|---|
{tiers}

| no. | rule | tier | looks at | severity |
|---|---|---|---|---|
{index}
"""


def describe(rule: Rule) -> str:
    """Everything the registry says of a rule, for a terminal and for a page."""
    paragraphs = (
        (
            f"Tier {rule.tier} ({TIERS[rule.tier]});"
            f" looks at {SCOPES[rule.scope]}; severity {rule.severity.value}."
        ),
        f"**Claim:** {rule.claim}",
        f"**Why it holds:** {rule.why}",
        f"**Undecided when:** {rule.undecided_when}.",
        f"**Sources:** {'; '.join(rule.sources)}.",
        f"**Remedy:** {rule.remedy}",
        f"**A breach ends:** {_ends(rule)}.",
        f"**Runbook:** [{rule.family.value}](runbook.md#{rule.family.anchor}).",
    )
    heading = f"## {rule.number} {rule.name}"
    verify = (f"    {line}" for line in verified_by(rule))
    code = ("**Verify:**", "\n".join(verify)) if rule.verify else ()
    return "\n\n".join((heading, *map(_wrap, paragraphs), *code)) + "\n"


def verified_by(rule: Rule) -> Iterator[str]:
    """The statements that show a breach, each with where it is run, ``<name>`` for each value."""
    for statement in rule.verify:
        yield f"on {template(statement.on)}: {template(statement.text)}"


def template(text: str) -> str:
    """A template of the registry with `<name>` for each of its values."""
    return "".join(
        literal + ("" if name is None else _place(name, spec or ""))
        for literal, name, spec, _ in Formatter().parse(text)
    )


def _place(name: str, spec: str) -> str:
    """A value; a text that depends on how many it has as for several."""
    _, is_choice, many = spec.partition("|")
    return many if is_choice else _PLACES.get(spec, "<{}>").format(name)


_PLACES: Final = {
    "sql": "'<{}>'",
    "name": "`<{}>`",
    "sh": "'<{}>'",
    "gtids_sql": "'<{}>'",
    "gtids_sh": "'<{}>'",
    "file": "'<file of {}>'",
    "position": "<position of {}>",
}
"""How a value of a statement is shown that is not known yet, by its format."""


def _ends(rule: Rule) -> str:
    """What ends a breach, and which cases differ."""
    others: dict[Heals, list[str]] = {}
    for code in rule.cases:
        if rule.healed_by(code) != rule.heals:
            others.setdefault(rule.healed_by(code), []).append(code)
    return "; ".join(
        (
            HEALED[rule.heals],
            *(f"{', '.join(codes)}: {HEALED[how]}" for how, codes in others.items()),
        )
    )


def written_in(rule: Rule) -> tuple[str, ...]:
    """Document and section of each source; a design document has its title."""
    return tuple(map(_with_title, rule.sources))


def _with_title(source: str) -> str:
    document, comma, section = source.partition(",")
    title = DESIGNS.get(document)
    return source if title is None else f"{document} ({title}){comma}{section}"


def page() -> str:
    """The page `docs/rules.md`: an index and every entry, in number order."""
    index = (
        f"| {one.number} | [{one.name}](#{one.number}-{one.name}) | {one.tier}"
        f" | {SCOPES[one.scope]} | {one.severity.value} |"
        for one in RULES.values()
    )
    tiers = (f"| {number} | {about} |" for number, about in enumerate(TIERS))
    introduction = _INTRODUCTION.format(
        count=len(RULES), tiers="\n".join(tiers), index="\n".join(index)
    )
    return "\n".join((introduction, *map(describe, RULES.values())))


def _wrap(paragraph: str) -> str:
    # Names with hyphens stay whole, so that a reader can search for them.
    return textwrap.fill(paragraph, WIDTH, break_long_words=False, break_on_hyphens=False)
