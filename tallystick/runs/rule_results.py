"""What a run found of each rule on each instance: held, broken or undecided.

Rows name what they keep, break and leave undecided. Rules of single events and of pairs of servers
only show when they are broken; they held where what they judge was read and compared to its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tallystick.coordinates.audit.cut import Cut
from tallystick.coordinates.results import Finding, Observation, ObservationCode, Outcome, Verdict
from tallystick.coordinates.rules.catalogue import RULES
from tallystick.coordinates.rules.explanation import observation_text, reason_text
from tallystick.coordinates.rules.identity import gtid_origin_agreement, server_uuid_unique
from tallystick.coordinates.rules.log_stream import RELAY_SOURCE_POS_MONOTONE
from tallystick.coordinates.rules.relay_mirror import relay_mirrors_source
from tallystick.coordinates.rules.replicated_gtids import (
    no_errant_gtids,
    purged_not_needed,
    received_within_source_logged,
)
from tallystick.coordinates.rules.source_coordinates import source_coordinate_valid

_OF_CHANNELS = (
    received_within_source_logged,
    no_errant_gtids,
    source_coordinate_valid,
    purged_not_needed,
)
"""Judged on a replica whose source is audited too."""
_GAPS = {ObservationCode.JOURNAL_GAP, ObservationCode.BLOCK_UNREADABLE}
_UNREAD_SOURCE = "its source is not among the servers"
_UNREAD_RELAY = "its relay logs were not read"
_UNREAD_BINLOG = "its binary log was not read"


_Key = tuple[str, str | None]


@dataclass(frozen=True, slots=True)
class RuleResult:
    """What was found of one rule on one instance, or on one of its channels.

    Attributes:
        rule: Its name.
        channel: None: on the instance.
        verdict: CONSISTENT: it held; INCONSISTENT: it is broken.
        reason: Why it is undecided.
        findings: What broke it.
    """

    rule: str
    channel: str | None
    verdict: Verdict
    reason: str = ""
    findings: tuple[Finding, ...] = ()


@dataclass(slots=True)
class _Instance:
    held: set[_Key] = field(default_factory=set)
    undecided: dict[_Key, str] = field(default_factory=dict)
    broken: dict[_Key, list[Finding]] = field(default_factory=dict)
    is_binlog_read: bool = False
    is_relay_read: bool = False


def rule_results(
    cuts: Iterable[Cut],
    broken: Iterable[tuple[str, Finding]],
    observations: Sequence[Observation],
    sources: Mapping[str, Sequence[str]],
) -> dict[str, list[RuleResult]]:
    """Put together what a run found.

    Args:
        cuts: The rows, oldest first.
        broken: Findings, each with an instance that it is about.
        observations: What else was seen.
        sources: Of each replica, the instances that it replicates from.

    Returns:
        For each instance its results, in the order of the registry.
    """
    instances: dict[str, _Instance] = {}
    for cut in cuts:
        _take_row(instances.setdefault(cut.instance_id, _Instance()), cut)
    for name, finding in broken:
        # A comparison held on the whole instance or broke there: one case, whatever its channel.
        rule = RULES.get(finding.rule)
        channel = None if rule is not None and rule.scope == "X" else finding.channel
        instance = instances.setdefault(name, _Instance())
        instance.broken.setdefault((finding.rule, channel), []).append(finding)
    for name, instance in instances.items():
        _take_events(instance, [seen for seen in observations if _is_gap(seen, name)])
        doubts = [
            seen
            for seen in observations
            if seen.code is ObservationCode.COMPARISON_UNDECIDED
            and seen.is_undecided
            and seen.instance_id in {name, ""}
        ]
        _take_comparisons(instance, set(instances), sources.get(name, ()), doubts)
    return {name: _results(instance) for name, instance in sorted(instances.items())}


def _take_row(instance: _Instance, cut: Cut) -> None:
    logged = cut.journal_gtid_set, cut.journal_binary_log_file
    received = cut.journal_retrieved_gtid_set, cut.journal_relay_log_file
    instance.is_binlog_read |= logged != (None, None)
    instance.is_relay_read |= received != (None, None)
    instance.held.update((name, cut.channel) for name in cut.names(Outcome.HOLDS))
    for check in cut.undecided:
        # The newest row's reason is the one that still holds.
        instance.undecided[check.rule, cut.channel] = reason_text(check)


def _is_gap(seen: Observation, name: str) -> bool:
    """Whether part of an instance's journal was not read."""
    return seen.is_undecided and seen.instance_id == name and seen.code in _GAPS


def _take_events(instance: _Instance, gaps: Sequence[Observation]) -> None:
    for name, rule in RULES.items():
        if rule.scope != "E":
            continue
        if gaps:
            instance.undecided[name, None] = observation_text(gaps[0])
            continue
        is_of_relay = rule is RELAY_SOURCE_POS_MONOTONE
        if instance.is_relay_read if is_of_relay else instance.is_binlog_read:
            instance.held.add((name, None))
        elif not is_of_relay:
            instance.undecided.setdefault((name, None), _UNREAD_BINLOG)


def _take_comparisons(
    instance: _Instance,
    audited: set[str],
    sources: Sequence[str],
    doubts: Sequence[Observation],
) -> None:
    if len(audited) > 1:
        for rule in (server_uuid_unique, gtid_origin_agreement):
            _decide(instance, rule.name, doubts)
    if not sources:
        return
    for rule in (*_OF_CHANNELS, relay_mirrors_source):
        if not audited.issuperset(sources):
            instance.undecided[rule.name, None] = _UNREAD_SOURCE
        elif rule is relay_mirrors_source and not instance.is_relay_read:
            instance.undecided[rule.name, None] = _UNREAD_RELAY
        else:
            _decide(instance, rule.name, doubts)


def _decide(instance: _Instance, rule: str, doubts: Sequence[Observation]) -> None:
    doubt = next((seen for seen in doubts if rule in seen.rules), None)
    if doubt is None:
        instance.held.add((rule, None))
    else:
        instance.undecided[rule, None] = observation_text(doubt)


def _results(instance: _Instance) -> list[RuleResult]:
    found: dict[_Key, RuleResult] = {}
    for key, reason in instance.undecided.items():
        found[key] = RuleResult(*key, Verdict.UNDECIDED, reason)
    for key in instance.held:
        found[key] = RuleResult(*key, Verdict.CONSISTENT)
    for key, findings in instance.broken.items():
        found[key] = RuleResult(*key, Verdict.INCONSISTENT, findings=tuple(findings))
    return sorted(found.values(), key=_order)


def _order(result: RuleResult) -> tuple[int, str, str]:
    rule = RULES.get(result.rule)
    return 0 if rule is None else rule.number, result.rule, result.channel or ""
