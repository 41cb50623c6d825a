"""The registry: every rule's number, name and prose, kept beside the code that judges it.

A rule's module registers its entries when it is imported; `coordinates.rules` imports them
all. Reports, documentation and expectations read the registry, so that a name is spelt once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, final

from tallystick.coordinates.results import Severity

Scope = Literal["E", "S", "T", "X"]
"""What a rule looks at: an event, a log_status row, one instance over time, several instances."""

TIER_MAX = 4

_is_name = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)+").fullmatch


@final
@dataclass(frozen=True, slots=True)
class Rule:
    """A predicate with a name that healthy servers keep.

    Attributes:
        number: Its place in the catalogue; never given to another predicate.
        name: What findings, options and expectations call it.
        tier: 0 readable, 1 one event stream, 2 one row, 3 one instance over time, 4 the fleet.
        scope: What it looks at.
        severity: How grave a breach is.
        claim: What holds, in one sentence.
        why: Why a healthy server keeps it.
        undecided_when: When the evidence does not suffice.
        sources: Where it is written or measured: document and section.
        remedy: What an operator does about a breach.
    """

    number: int
    name: str
    tier: int
    scope: Scope
    severity: Severity
    claim: str
    why: str
    undecided_when: str
    sources: tuple[str, ...]
    remedy: str

    def __post_init__(self) -> None:
        if self.number < 1 or not 0 <= self.tier <= TIER_MAX or not _is_name(self.name):
            raise ValueError(
                f"expected a number from 1, a tier from 0 to {TIER_MAX} and a snake_case name of"
                f" several words, found {self.number!r}, {self.tier!r}, {self.name!r}"
            )
        prose = (self.claim, self.why, self.undecided_when, self.remedy, *self.sources)
        if not self.sources or not all(text.strip() for text in prose):
            raise ValueError(f"expected prose in every field of {self.name!r}")


@final
class _Registry(Mapping[str, Rule]):
    """Invariants by name, in the order of their numbers whatever the order of imports."""

    def __init__(self) -> None:
        self._by_name: dict[str, Rule] = {}

    def __getitem__(self, name: str) -> Rule:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._by_name, key=lambda name: self._by_name[name].number))

    def __len__(self) -> int:
        return len(self._by_name)

    def add(self, rule: Rule) -> None:
        for known in self._by_name.values():
            if rule.name == known.name or rule.number == known.number:
                raise ValueError(
                    f"rule {rule.number} {rule.name!r} clashes with {known.number} {known.name!r}"
                )
        self._by_name[rule.name] = rule


_registry = _Registry()

RULES: Mapping[str, Rule] = _registry
"""Every registered rule by its name, in number order."""


def register(rule: Rule) -> Rule:
    """Enter an rule into the registry and hand it back, to be named as a constant.

    Raises:
        ValueError: Its number or its name is taken.
    """
    _registry.add(rule)
    return rule
