"""Each contradiction once, however often it was found.

A row that breaks a rule is found again by each collection as long as nothing moves, as while
replication is stopped. Two transactions under one GTID are found for each pair of instances that
disagree, because a pair can be compared as soon as both are known. A report has the first of these
findings, and where else it was found; the topic and the tables keep all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tallystick.coordinates.audit.cut import Cut
from tallystick.coordinates.results import Finding, Outcome
from tallystick.coordinates.rules.identity import gtid_origin_agreement, instances_of

_Subject = tuple[str, str, str | None]
"""A rule, an instance, and the channel; None: on the instance."""


@dataclass(frozen=True, slots=True)
class Deduplicated:
    """Findings as a report has them.

    Attributes:
        findings: The first of each contradiction, in the original order.
        repeats: Where else each was found, by the ``finding_id`` of the first.
    """

    findings: list[Finding]
    repeats: dict[str, list[Finding]]

    def of(self, finding: Finding) -> Sequence[Finding]:
        """Where else a finding was found."""
        return self.repeats.get(finding.finding_id, ())

    def instances(self, finding: Finding) -> set[str]:
        """The instances that a finding is about, wherever it was found."""
        return set().union(*map(instances_of, (finding, *self.of(finding))))


def deduplicate(findings: Iterable[Finding], cuts: Iterable[Cut]) -> Deduplicated:
    """Put findings of one contradiction together: by rule and subject.

    A finding of a row after one in which the rule held again is another one.

    Args:
        findings: What the audit found, each once, in any order of arrival.
        cuts: The rows that it judged.
    """
    kept = list(findings)
    alike: dict[tuple[str, ...], list[Finding]] = {}
    for finding in kept:
        alike.setdefault(_contradiction(finding), []).append(finding)
    repeated = [sorted(same, key=lambda f: f.order) for same in alike.values() if len(same) > 1]
    held = _held(cuts, {_on(same[0]) for same in repeated})
    repeats: dict[str, list[Finding]] = {}
    for same in repeated:
        for state in _states(same, held):
            if len(state) > 1:
                repeats[state[0].finding_id] = state[1:]
    left_out = {finding.finding_id for found in repeats.values() for finding in found}
    return Deduplicated([f for f in kept if f.finding_id not in left_out], repeats)


def _contradiction(finding: Finding) -> tuple[str, ...]:
    """What findings of one contradiction have in common."""
    if finding.rule == gtid_origin_agreement.name:
        return finding.rule, finding.witness
    channel = "" if finding.channel is None else f"={finding.channel}"
    # A finding of a row is at the row's collection; any other is where it is.
    is_of_row = finding.at == finding.collection_id
    at = "" if is_of_row else f"={finding.at}"
    return finding.rule, finding.case, finding.instance_id, channel, at, finding.witness


def _on(finding: Finding) -> _Subject:
    return finding.rule, finding.instance_id, finding.channel


def _held(cuts: Iterable[Cut], wanted: Collection[_Subject]) -> dict[_Subject, list[int]]:
    """When each of some rules held."""
    held: dict[_Subject, list[int]] = {}
    for cut in cuts if wanted else ():
        for rule in cut.names(Outcome.HOLDS):
            on = rule, cut.instance_id, cut.channel
            if on in wanted:
                held.setdefault(on, []).append(cut.ts)
    return held


def _states(same: Sequence[Finding], held: dict[_Subject, list[int]]) -> list[list[Finding]]:
    """Parts between which the rule did not hold."""
    states = [[same[0]]]
    for previous, finding in pairwise(same):
        if any(previous.ts <= ts <= finding.ts for ts in held.get(_on(finding), ())):
            states.append([])
        states[-1].append(finding)
    return states
