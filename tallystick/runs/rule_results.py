"""What an audit answered on each instance, rule by rule: held, broken or undecided.

Rows say what they keep, break and leave undecided. Rules of single events and of pairs of servers
say only what is broken; they held where what they judge was read and compared to its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tallystick.coordinates.audit.cut import Cut
from tallystick.coordinates.results import Finding, Observation, ObservationCode, Outcome, Verdict
from tallystick.coordinates.rules.catalogue import RULES
from tallystick.coordinates.rules.explanation import observation_text, reason_text
from tallystick.coordinates.rules.fleet import (
    GTID_ORIGIN_AGREEMENT,
    NO_ERRANT_GTIDS,
    PURGED_NOT_NEEDED,
    RECEIVED_WITHIN_SOURCE_LOGGED,
    RELAY_MIRRORS_SOURCE,
    SERVER_UUID_UNIQUE,
    SOURCE_COORDINATE_VALID,
)
from tallystick.coordinates.rules.log_stream import RELAY_SOURCE_POS_MONOTONE
from tallystick.outputs._view import ReportData

_OF_CHANNELS = (
    RECEIVED_WITHIN_SOURCE_LOGGED,
    NO_ERRANT_GTIDS,
    SOURCE_COORDINATE_VALID,
    PURGED_NOT_NEEDED,
)
"""Judged on a replica whose source is audited too."""
_UNREAD_SOURCE = "its source is not among the servers"
_UNREAD_RELAY = "its relay logs were not read"
_NOTHING_LOGGED = "its binary log was not read"


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of one rule on one instance, or on one of its channels.

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
    held: set[tuple[str, str | None]] = field(default_factory=set)
    undecided: dict[tuple[str, str | None], str] = field(default_factory=dict)
    broken: dict[tuple[str, str | None], list[Finding]] = field(default_factory=dict)


def answers_of(
    data: ReportData,
    *,
    binlogs: Iterable[str],
    relay_logs: Iterable[str],
    named: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, list[Answer]]:
    """Put an audit's answers together.

    Args:
        data: What the audit said.
        binlogs: Instances whose binary log was read.
        relay_logs: Instances whose relay logs were read.
        named: Of findings that are about several instances, by ``finding_id``, those instances.

    Returns:
        For each instance its answers, in the order of the registry.
    """
    instances: dict[str, _Instance] = {}
    for cuts in data.collections:
        for cut in cuts:
            _take_row(instances.setdefault(cut.instance_id, _Instance()), cut)
    for finding in data.findings:
        # A comparison held on the whole instance or broke there: one case, whatever its channel.
        channel = None if RULES[finding.rule].scope == "X" else finding.channel
        for name in (named or {}).get(finding.finding_id, (finding.instance_id,)):
            instance = instances.setdefault(name, _Instance())
            instance.broken.setdefault((finding.rule, channel), []).append(finding)
    for name, instance in instances.items():
        _take_events(instance, name in set(binlogs), name in set(relay_logs))
        _take_comparisons(instance, name, data, set(instances), name in set(relay_logs))
    return {name: _answers(instance) for name, instance in sorted(instances.items())}


def _take_row(instance: _Instance, cut: Cut) -> None:
    instance.held.update((name, cut.channel) for name in cut.names(Outcome.HOLDS))
    for check in cut.undecided:
        # The newest row's reason is the one that still holds.
        instance.undecided[check.rule, cut.channel] = reason_text(check)


def _take_events(instance: _Instance, is_binlog_read: bool, is_relay_read: bool) -> None:
    for name, rule in RULES.items():
        if rule.scope != "E":
            continue
        is_of_relay = rule is RELAY_SOURCE_POS_MONOTONE
        if is_relay_read if is_of_relay else is_binlog_read:
            instance.held.add((name, None))
        elif not is_of_relay:
            instance.undecided.setdefault((name, None), _NOTHING_LOGGED)


def _take_comparisons(
    instance: _Instance, name: str, data: ReportData, audited: set[str], is_relay_read: bool
) -> None:
    doubts = [
        seen
        for seen in data.observations
        if seen.code is ObservationCode.COMPARISON_UNDECIDED
        and seen.is_undecided
        and seen.instance_id in {name, ""}
    ]
    if len(audited) > 1:
        for rule in (SERVER_UUID_UNIQUE, GTID_ORIGIN_AGREEMENT):
            _decide(instance, rule.name, doubts)
    sources = [edge.source for edge in data.topology if edge.replica == name]
    if not sources:
        return
    for rule in (*_OF_CHANNELS, RELAY_MIRRORS_SOURCE):
        if not audited.issuperset(sources):
            instance.undecided[rule.name, None] = _UNREAD_SOURCE
        elif rule is RELAY_MIRRORS_SOURCE and not is_relay_read:
            instance.undecided[rule.name, None] = _UNREAD_RELAY
        else:
            _decide(instance, rule.name, doubts)


def _decide(instance: _Instance, rule: str, doubts: Sequence[Observation]) -> None:
    doubt = next((seen for seen in doubts if rule in seen.rules), None)
    if doubt is None:
        instance.held.add((rule, None))
    else:
        instance.undecided[rule, None] = observation_text(doubt)


def _answers(instance: _Instance) -> list[Answer]:
    found: dict[tuple[str, str | None], Answer] = {}
    for key, reason in instance.undecided.items():
        found[key] = Answer(*key, Verdict.UNDECIDED, reason)
    for key in instance.held:
        found[key] = Answer(*key, Verdict.CONSISTENT)
    for key, findings in instance.broken.items():
        found[key] = Answer(*key, Verdict.INCONSISTENT, findings=tuple(findings))
    return sorted(found.values(), key=_order)


def _order(answer: Answer) -> tuple[int, str, str]:
    return RULES[answer.rule].number, answer.rule, answer.channel or ""
