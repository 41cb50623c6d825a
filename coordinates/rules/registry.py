"""The registry: every rule with its prose, its predicate and the texts of its findings.

A rule's module registers its entries when it is imported; `coordinates.rules.catalogue` imports
them all. Reports, documentation and expectations read the registry, so that a name is spelt once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from string import Formatter
from typing import Any, Literal, NamedTuple, final, get_args

from tallystick.coordinates.logs.anomaly import AnomalyKind
from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.families import Family, Lack
from tallystick.coordinates.rules.outcomes import Answer, NotApplicable, Reason

Scope = Literal["E", "S", "T", "X"]
"""What a rule looks at: an event, a log_status row, one instance over time, several instances."""

Heals = Literal["held", "executed", "log", "data", "never"]
"""What ends a breach: the rule holds at a later collection; a later row has executed the GTIDs
that were missing; the log that shows it begins anew (RESET); other data replace the instance's (a
clone, a restore), as they also end all of these; or nothing, as a step that was left out."""

TIER_MAX = 4

_is_name = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)+").fullmatch
_is_code = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*").fullmatch


class Case(NamedTuple):
    """One way in which a rule is broken, in words: templates that name values of ``Broken.data``.

    They may also name ``witness``, ``at``, ``instance``, ``channel`` and ``collection``; how values
    are formatted is described in ``coordinates.rules.explanation``.
    """

    sentence: str
    observed: str
    observed_in: str
    expected: str
    expected_in: str
    remedy: str = ""
    """What an operator does about it, where that is not the remedy of the rule."""
    heals: Heals | Literal[""] = ""
    """What ends the breach, where that is not what ends others of the rule."""
    cure: tuple[Statement, ...] = ()
    """What an operator runs to do what the remedy advises first, in this order."""

    def names(self) -> set[str]:
        """The values that its texts name."""
        return _names(text for text in self if isinstance(text, str))


class Statement(NamedTuple):
    """What an operator runs: templates in the manner of ``Case``.

    One whose values a finding does not have is not shown with it.
    """

    on: str
    """The instance that it is run on, or that the log files are of: mostly ``{instance}``."""
    text: str
    """SQL, or a command line of MySQL's own tools, with values in a format of statements."""
    needs: tuple[str, ...] = ()
    """Values beside those that it names, without which it is not shown."""

    def names(self) -> set[str]:
        """The values that it takes."""
        return _names((self.on, self.text)) | set(self.needs)

    def specs(self) -> set[str]:
        """How the values of its text are formatted."""
        return {spec or "" for _, name, spec, _ in Formatter().parse(self.text) if name}


def _names(templates: Iterable[str]) -> set[str]:
    parsed = (Formatter().parse(text) for text in templates)
    return {name for parts in parsed for _, name, _, _ in parts if name}


@final
@dataclass(frozen=True, slots=True)
class Rule:
    """A predicate with a name that healthy servers keep.

    Attributes:
        number: Its number in the catalogue; never given to another predicate.
        name: What findings, options and expectations call it.
        tier: 0 readable, 1 one event stream, 2 one row, 3 one instance over time, 4 the fleet.
        scope: What it looks at.
        family: What it is to an operator; docs/runbook.md has an entry of each family.
        severity: How grave a breach is.
        heals: What ends a breach: state that is judged anew, or what cannot be undone.
        claim: What holds, in one sentence.
        why: Why a healthy server keeps it.
        undecided_when: When the evidence does not suffice.
        sources: Where it is written or measured: document and section.
        remedy: What an operator does about a breach.
        verify: What an operator runs to see a breach with his own eyes.
        cases: The ways to break it, by their codes.
        judge: The predicate on evidence, None where a protocol or a log is followed step by step.
        evidence: What the predicate of a rule on rows reads; None for every other rule. The class
            says which rows it is about (``scope``, ``instance`` or ``channel``) and can be made of
            a row of the cut table (``from_columns``).
        columns: The columns of the cut table from which the rule can be decided; empty where only
            the audit itself has the evidence.
    """

    number: int
    name: str
    tier: int
    scope: Scope
    family: Family
    severity: Severity
    heals: Heals
    claim: str
    why: str
    undecided_when: str
    sources: tuple[str, ...]
    remedy: str
    verify: tuple[Statement, ...] = ()
    cases: Mapping[str, Case] = field(default_factory=dict, hash=False)
    judge: Callable[..., Any] | None = field(default=None, compare=False)
    evidence: type[Any] | None = field(default=None, compare=False)
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.number < 1 or not 0 <= self.tier <= TIER_MAX or not _is_name(self.name):
            raise ValueError(
                f"expected a number from 1, a tier from 0 to {TIER_MAX} and a snake_case name of"
                f" several words, found {self.number!r}, {self.tier!r}, {self.name!r}"
            )
        prose = (self.claim, self.why, self.undecided_when, self.remedy, *self.sources)
        if not self.sources or not all(text.strip() for text in prose):
            raise ValueError(f"expected prose in every field of {self.name!r}")
        if self.heals not in get_args(Heals):
            raise ValueError(f"expected what ends a breach of {self.name!r}, found {self.heals!r}")
        if wrong := [code for code in self.cases if not _is_code(code)]:
            raise ValueError(f"expected snake_case codes of cases of {self.name!r}, found {wrong}")

    def healed_by(self, case: str) -> Heals:
        """What ends a breach of one of its cases."""
        return (self.cases[case].heals if case in self.cases else "") or self.heals


@final
class _Registry(Mapping[str, Rule]):
    """Rules by name, in the order of their numbers whatever the order of imports."""

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
_kinds: Mapping[str, AnomalyKind] = {kind.value: kind for kind in AnomalyKind}

RULES: Mapping[str, Rule] = _registry
"""Every registered rule by its name, in number order."""

RULE_OF_ANOMALY: dict[AnomalyKind, Rule] = {}
"""The rule that each kind of anomaly of a log breaks: the one that has a case of that code."""


def register(rule: Rule) -> Rule:
    """Enter a rule into the registry and hand it back, to be named as a constant.

    Raises:
        ValueError: Its number or its name is taken, or a case is another rule's kind of anomaly.
    """
    kinds = [_kinds[code] for code in rule.cases if code in _kinds]
    for kind in kinds:
        if kind in RULE_OF_ANOMALY:
            other = RULE_OF_ANOMALY[kind].name
            raise ValueError(f"{rule.name!r} and {other!r} both have the case {kind.value!r}")
    _registry.add(rule)
    RULE_OF_ANOMALY.update(dict.fromkeys(kinds, rule))
    return rule


def rule(**attributes: Any) -> Callable[[Callable[..., Answer | NotApplicable]], Rule]:
    """Make a rule of a predicate: it has the function's name.

    Args:
        attributes: Those of ``Rule``, without ``name`` and ``judge``.
    """

    def decorate(judge: Callable[..., Answer | NotApplicable]) -> Rule:
        return register(Rule(name=judge.__name__, judge=judge, **attributes))

    return decorate


def rules_on(evidence: type[Any]) -> tuple[Rule, ...]:
    """The rules on rows that read this evidence, by tier, then number."""
    found = [one for one in RULES.values() if one.evidence is evidence]
    return tuple(sorted(found, key=lambda one: (one.tier, one.number)))


REASONS: dict[str, Reason] = {}
"""Every reason for being undecided by its code."""


def reason(code: str, text: str, lack: Lack) -> Reason:
    """Define why evidence may not suffice.

    Args:
        code: What checks carry; snake_case.
        text: A template in the manner of ``Case``.
        lack: What the evidence lacks.

    Raises:
        ValueError: The code is taken, or is none.
    """
    if code in REASONS or not _is_code(code):
        raise ValueError(f"expected a new code in snake_case, found {code!r}")
    REASONS[code] = Reason(code, text, lack)
    return REASONS[code]
