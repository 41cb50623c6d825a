"""A design's scenario beside what its run found: each claim with what was seen and audited of it.

What was seen comes from the simulated fleet, the counts from the run's own result.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from tallystick.coordinates.results import Outcome
from tallystick.coordinates.rules.catalogue import RULES
from tallystick.errors import MisuseError
from tallystick.names import suggestion

if TYPE_CHECKING:
    from tallystick.coordinates.results import Finding, SubjectCheck
    from tallystick.producers.simulator.kernel.scenario import Scenario
    from tallystick.producers.simulator.scenarios.design_scenario import DesignScenario, Showing

FILE = "scenario.json"


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of a requirement.

    Attributes:
        instance: Where.
        after_us: Virtual time since the fleet's first moment, microseconds.
        sentence: What, with its values.
    """

    instance: str
    after_us: int
    sentence: str


@dataclass(frozen=True, slots=True)
class RuleCount:
    """How often a rule was judged in the run, and how.

    Attributes:
        rule: Its name.
        held: At so many collections, on each instance or channel.
        broken: Findings.
        undecided: So often the evidence did not suffice.
        expected: How many of the findings the document expects.
        leaves_checks: Whether it is one on rows, which leaves a check each time it is judged; the
            others follow the records and leave findings only.
    """

    rule: str
    held: int
    broken: int
    undecided: int
    expected: int = 0
    leaves_checks: bool = True

    @property
    def is_as_expected(self) -> bool:
        """Whether it was judged, and held or was broken as the document expects."""
        is_judged = self.held or self.broken or not self.leaves_checks
        return self.broken == self.expected and bool(is_judged)

    def __str__(self) -> str:
        """What the audit found of the rule, as text."""
        parts = []
        if self.broken > self.expected:
            parts.append(f"broken {times(self.broken - self.expected)}")
        if self.held:
            parts.append(f"held {times(self.held)}")
        if self.expected:
            otherwise = "" if parts else ", else never"
            parts.append(f"broken {times(self.expected)} as expected{otherwise}")
        if self.undecided:
            parts.append(f"undecided {times(self.undecided)}")
        never = "not judged" if self.leaves_checks else "never broken"
        return f"{self.rule} {', '.join(parts) or never}"


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """A claim of the document: shown when it was seen and its rules were judged as expected.

    Attributes:
        requirement: As docs/designs.md labels it.
        text: The claim.
        seen: What was seen, in order of time; empty when it was not shown.
        rules: The rules that audit it.
    """

    requirement: str
    text: str
    seen: tuple[Seen, ...]
    rules: tuple[RuleCount, ...]

    @property
    def is_shown(self) -> bool:
        """Whether something was seen of it, and the audit of each of its rules agrees."""
        return bool(self.seen) and all(rule.is_as_expected for rule in self.rules)


@dataclass(frozen=True, slots=True)
class ExpectedFinding:
    """A finding that the document expects of the unsafe way.

    Attributes:
        instance: Where it is to be found.
        rule: What is broken there.
        why: Why the document warns of it.
        found: How many findings there are.
    """

    instance: str
    rule: str
    why: str
    found: int


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """What a scenario showed.

    Attributes:
        name: Of the scenario.
        design: The document.
        title: The document's title.
        claims: In the order of the document.
        expected: The findings that must be there.
        others: Every other finding: instance and rule.
        is_complete: Whether the audit read the whole journal.
    """

    name: str
    design: str
    title: str
    claims: tuple[ClaimResult, ...]
    expected: tuple[ExpectedFinding, ...] = ()
    others: tuple[tuple[str, str], ...] = ()
    is_complete: bool = True

    @property
    def is_shown(self) -> bool:
        """Every claim is shown, every expected finding is there, and no other."""
        return (
            self.is_complete
            and all(claim.is_shown for claim in self.claims)
            and all(finding.found for finding in self.expected)
            and not self.others
        )

    @property
    def counted(self) -> str:
        """How much of it was shown, as text."""
        return ", ".join(self._counts())

    def _counts(self) -> Iterator[str]:
        shown = sum(1 for claim in self.claims if claim.is_shown)
        yield f"{shown} of {len(self.claims)} claims shown"
        if self.expected:
            found = sum(1 for finding in self.expected if finding.found)
            yield f"{found} of {len(self.expected)} expected findings found"
        others = len(self.others)
        yield (
            f"{others} other {'finding' if others == 1 else 'findings'}"
            if others
            else "nothing else found"
        )
        if not self.is_complete:
            yield "the journal was not read to its end"

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {**asdict(self), "is_shown": self.is_shown}

    def save(self, directory: Path) -> None:
        """Keep it beside the run's tables, for reports that are rendered later.

        Raises:
            MisuseError: The directory cannot be written.
        """
        path = directory / FILE
        try:
            path.write_text(json.dumps(self.to_dict(), indent=1), "utf-8")
        except OSError as error:
            raise MisuseError(f"{str(path)!r} cannot be written: {error.strerror}") from error

    @classmethod
    def load(cls, directory: Path) -> ScenarioResult | None:
        """What a run showed; None when it had no scenario.

        Raises:
            MisuseError: The file is not one that ``save`` wrote.
        """
        path = directory / FILE
        try:
            return TypeAdapter(cls).validate_json(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise MisuseError(f"{str(path)!r} cannot be read: {reason}") from error


def complete_scenario(scenario: Scenario) -> Scenario:
    """The scenario with all that the demonstration it names needs.

    Raises:
        MisuseError: The demonstration is not known, or other acts or a fault are asked for too.
    """
    from tallystick.producers.simulator.scenarios.catalogue import DESIGN_SCENARIOS, with_options

    name = scenario.design_scenario
    if name is None:
        return scenario
    if name not in DESIGN_SCENARIOS:
        hint = suggestion(name, DESIGN_SCENARIOS) or f": expected {', '.join(DESIGN_SCENARIOS)}"
        raise MisuseError(f"no scenario has the name {name!r}{hint}")
    if scenario.fault is not None or scenario.negatives:
        raise MisuseError("--scenario has acts of its own: leave out --fault and --negative")
    return with_options(scenario)


def scenario_result(
    design: DesignScenario,
    shown: Sequence[Showing],
    *,
    findings: Sequence[Finding],
    checks: Sequence[SubjectCheck],
    is_complete: bool = True,
) -> ScenarioResult:
    """What a scenario showed.

    Args:
        design: What was to be shown.
        shown: What its scenario saw.
        findings: What was found, each contradiction once.
        checks: The table of checks.
        is_complete: Whether the audit read the whole journal.
    """
    counts = Counter((one.check.rule, one.check.outcome) for one in checks)
    found = Counter((finding.instance_id, finding.rule) for finding in findings)
    broken = Counter(finding.rule for finding in findings)
    warned = {(one.instance, one.rule) for one in design.expected}
    as_warned = Counter(f.rule for f in findings if (f.instance_id, f.rule) in warned)
    expected = [
        ExpectedFinding(one.instance, one.rule, one.why, found.pop((one.instance, one.rule), 0))
        for one in design.expected
    ]
    claims = [
        ClaimResult(
            requirement=claim.requirement,
            text=claim.text,
            seen=tuple(
                Seen(one.instance, one.after_us, one.sentence)
                for one in shown
                if one.requirement == claim.requirement
            ),
            rules=tuple(
                RuleCount(
                    name,
                    counts[name, Outcome.HOLDS],
                    broken[name],
                    counts[name, Outcome.UNDECIDED],
                    as_warned[name],
                    leaves_checks=RULES[name].evidence is not None,
                )
                for name in claim.rules
            ),
        )
        for claim in design.claims
    ]
    return ScenarioResult(
        name=design.name,
        design=design.design,
        title=design.title,
        claims=tuple(claims),
        expected=tuple(expected),
        others=tuple(sorted(found.elements())),
        is_complete=is_complete,
    )


def times(number: int) -> str:
    """How often, as text."""
    return "once" if number == 1 else f"{number:,} times"
