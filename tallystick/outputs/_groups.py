"""Findings of one rule, subject, cause and state as one: how often, how long, the whole set."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

from tallystick.coordinates.audit.incidents import IncidentKey, key_of
from tallystick.coordinates.results import Finding, IncidentState, Severity
from tallystick.coordinates.rules.catalogue import RULES
from tallystick.coordinates.rules.explanation import Explanation, explain, moment, shorten_gtids
from tallystick.coordinates.rules.registry import Rule
from tallystick.coordinates.values.errors import GtidSetParseError
from tallystick.coordinates.values.gtid import GtidSet
from tallystick.runs.result import RunResult

_POSITIONS_MAX = 3
_WITNESSES_MAX = 12


@dataclass(frozen=True)
class FindingGroup:
    """What a reader sees as one.

    Attributes:
        findings: Each contradiction once, the oldest first.
        repeats: Where else one of them was found.
        state: What has become of it; None: not known.
    """

    findings: tuple[Finding, ...]
    repeats: tuple[Finding, ...]
    state: IncidentState | None = None

    @property
    def first(self) -> Finding:
        """The oldest one."""
        return self.findings[0]

    @property
    def goes_on(self) -> bool:
        """Whether it counts now, as far as known."""
        return self.state in (None, IncidentState.OPEN)

    @property
    def count(self) -> int:
        """How often it was found."""
        return len(self.findings) + len(self.repeats)

    @property
    def last_ts(self) -> int:
        """When it was found last."""
        return max(one.ts for one in (*self.findings, *self.repeats))

    @property
    def instances(self) -> list[str]:
        """The instances that it is about, the one that it was found on first."""
        mine, rule = self.first.instance_id, RULES.get(self.first.rule)
        other = self.first.data.get("other") if rule is not None and rule.scope == "X" else None
        return [mine] if other in (None, mine) else [mine, str(other)]

    @property
    def period(self) -> str:
        """Since when, how often, and until when; and what has become of it, unless it goes on."""
        first, last = moment(self.first.ts), moment(self.last_ts)
        after = "" if self.state is None or self.goes_on else f", {self.state.value}"
        if self.count == 1:
            return f"{first}{after}"
        span = f"from {first} to {last}" if first != last else first
        return f"{self.count:,} times, {span}{after}"

    @cached_property
    def witness(self) -> str:
        """That of all: the whole set, or a list of which the end may be left out."""
        witnesses = list(dict.fromkeys(one.witness for one in self.findings))
        if len(witnesses) == 1:
            return self.texts.witness
        if self._gtids is not None:
            return str(self._gtids)
        more = len(witnesses) - _WITNESSES_MAX
        return ", ".join(witnesses[:_WITNESSES_MAX]) + (f" and {more:,} more" if more > 0 else "")

    @property
    def has_own_witness(self) -> bool:
        """Whether the witness is nothing that is shown anyway."""
        shown = (self.texts.sentence, self.texts.observed, self.texts.expected)
        # A set is not shown by a longer one that begins as it does.
        whole = re.compile(rf"(?<![\w:-]){re.escape(shorten_gtids(self.witness))}(?![\w:-])")
        return not any(map(whole.search, shown))

    @property
    def positions(self) -> str:
        """Where else it was found, empty when nowhere."""
        others = (*self.findings[1:], *self.repeats)
        named = [
            explain(one).at if one.instance_id == self.first.instance_id
            else f"{explain(one).at} on {one.instance_id}"
            for one in others[:_POSITIONS_MAX]
        ]  # fmt: skip
        more = len(others) - _POSITIONS_MAX
        return ", ".join(named + ([f"{more:,} more"] if more > 0 else []))

    @cached_property
    def texts(self) -> Explanation:
        """In words, with the statements for the whole set."""
        texts = explain(self.first)
        if self._gtids is None or len(self.findings) == 1:
            return texts
        whole = replace(
            self.first,
            witness=str(self._gtids),
            data={
                name: str(self._gtids) if value == self.first.witness else value
                for name, value in self.first.data.items()
            },
        )
        is_alike = len({_rest(one) for one in self.findings}) == 1
        of_all = explain(whole)
        return of_all if is_alike else texts._replace(verify=of_all.verify, cure=of_all.cure)

    @cached_property
    def _gtids(self) -> GtidSet | None:
        try:
            sets = [GtidSet.parse(one.witness) for one in self.findings]
        except GtidSetParseError:
            return None
        return GtidSet(chain.from_iterable(sets)) if all(sets) else None


@dataclass(frozen=True, slots=True)
class BrokenRule:
    """The findings of one rule, with the rule's entry in the registry."""

    name: str
    severity: Severity
    rule: Rule | None
    groups: tuple[FindingGroup, ...]

    @property
    def count(self) -> int:
        """Its findings, each contradiction once."""
        return sum(len(group.findings) for group in self.groups)

    def remedies(self, shown: int) -> list[str]:
        """What to do about the first groups, each advice once."""
        return [*dict.fromkeys(group.texts.remedy for group in self.groups[:shown])]


def broken_rules(result: RunResult) -> list[BrokenRule]:
    """Group findings by rule, the gravest first, then in the order of the registry."""
    by_rule: dict[str, list[FindingGroup]] = {}
    for group in groups_of(result, result.findings):
        by_rule.setdefault(group.first.rule, []).append(group)
    made = [
        BrokenRule(name, groups[0].first.severity, RULES.get(name), tuple(groups))
        for name, groups in by_rule.items()
    ]
    gravity = list(Severity)
    return sorted(
        made,
        key=lambda b: (
            gravity.index(b.severity),
            b.rule.number if b.rule is not None else 0,
            b.name,
        ),
    )


def groups_of(result: RunResult, findings: Iterable[Finding]) -> list[FindingGroup]:
    """Findings of a result, those of one rule, subject and cause together.

    What goes on comes first, apart from what is over: that says nothing of what is to be done.
    """
    alike: dict[tuple[IncidentKey, IncidentState | None], list[Finding]] = {}
    for finding in sorted(findings, key=lambda one: one.order):
        incident = result.incident_of(finding)
        state = None if incident is None else incident.state
        alike.setdefault((key_of(finding), state), []).append(finding)
    repeats_of = result.deduplicated.of
    groups = [
        FindingGroup(tuple(same), tuple(again for one in same for again in repeats_of(one)), state)
        for (_, state), same in alike.items()
    ]
    return sorted(groups, key=lambda group: not group.goes_on)


def _rest(finding: Finding) -> str:
    """The values beside the witness."""
    return repr([value for value in finding.data.values() if value != finding.witness])
