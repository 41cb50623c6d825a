"""Collects what comparisons have brought: findings, checks, and what stays undecided."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from tallystick.coordinates.audit.journal_position import JournalPosition
from tallystick.coordinates.results import (
    Check,
    Finding,
    Observation,
    ObservationCode,
    Outcome,
    SubjectCheck,
    gravest,
)
from tallystick.coordinates.rules.outcomes import json_values
from tallystick.coordinates.rules.statements import with_versions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tallystick.coordinates.rules.outcomes import Broken, Reason, Undecided, Waiting
    from tallystick.coordinates.rules.registry import Rule


@dataclass(slots=True)
class FleetOutput:
    """What one step of the fleet's audit brought.

    Attributes:
        findings: In the order of their evidence.
        observations: What stays undecided.
        checks: What each rule says of an instance or channel at a collection, each once.
        waiting: What is not compared yet after it, of all that was shown: of each instance or
            channel at a collection one rule.
    """

    findings: list[Finding] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)
    checks: list[SubjectCheck] = field(default_factory=list)
    waiting: list[SubjectCheck] = field(default_factory=list)


class Subject(NamedTuple):
    """What evidence is about: an instance or one of its channels, at a position of its journal."""

    instance_id: str
    channel: str | None
    at: JournalPosition


class FindingCollector:
    """Collects what one step brings."""

    def __init__(self) -> None:
        self._output = FleetOutput()

    def give(self) -> FleetOutput:
        """Everything since the last call."""
        output, self._output = self._output, FleetOutput()
        output.findings.sort(key=lambda finding: finding.order)
        output.checks = gravest(output.checks)
        return output

    def broken(
        self, rule: Rule, broken: Broken, subject: Subject, versions: Mapping[str, str | None]
    ) -> None:
        """A rule is broken; with the versions of the servers that the finding names."""
        at = subject.at
        self._output.findings.append(
            Finding(
                rule=rule.name,
                case=broken.case,
                severity=rule.severity,
                instance_id=subject.instance_id,
                channel=subject.channel,
                at=broken.at or "",
                witness=broken.witness,
                data=with_versions(rule, broken, versions),
                collection_id=at.collection_id,
                epoch=at.epoch,
                sequence=at.sequence,
                ts=at.ts,
            )
        )
        self.check(subject, Check(rule.name, Outcome.BROKEN, broken.case))

    def undecided(
        self,
        rule: Rule,
        answer: Undecided | Waiting,
        subject: Subject,
        sources: Iterable[str],
        later_rows: int = 0,
    ) -> None:
        """A comparison cannot be decided, nor that of some later rows."""
        later = {"later_rows": later_rows} if later_rows else {}
        self.observe(subject, [rule], answer.reason, **answer.data, sources=list(sources), **later)

    def observe(
        self, subject: Subject, rules: Iterable[Rule], reason: Reason, **data: object
    ) -> None:
        """Rules stay undecided."""
        self.note(subject, ObservationCode.COMPARISON_UNDECIDED, reason, rules, **data)

    def note(
        self,
        subject: Subject,
        code: ObservationCode,
        reason: Reason,
        rules: Iterable[Rule] = (),
        **data: object,
    ) -> None:
        """Something is worth reporting; with rules, these stay undecided."""
        at, names = subject.at, tuple(rule.name for rule in rules)
        self._output.observations.append(
            Observation(
                code=code,
                instance_id=subject.instance_id,
                channel=subject.channel,
                at=at.collection_id or f"{at.epoch}:{at.sequence}",
                reason=reason.code,
                data=json_values(data),
                rules=names,
                is_undecided=bool(names),
                collection_id=at.collection_id,
                epoch=at.epoch,
                sequence=at.sequence,
                ts=at.ts,
            )
        )

    def check(self, subject: Subject, check: Check) -> None:
        """What a rule says of a subject at the collection of its row, if it is of a row."""
        at = subject.at
        if at.collection_id is not None:
            self._output.checks.append(
                SubjectCheck(subject.instance_id, subject.channel, at.collection_id, at.ts, check)
            )
