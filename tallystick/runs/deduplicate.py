"""One finding for one transaction in whatever pairs, and for one state however often it is seen.

Instances are compared pair by pair, because a pair can be judged as soon as both are known: a
transaction that took another's GTID is found once for each pair that disagrees. A report tells it
once, with all the servers. A row that breaks a rule is found again by each collection as long as
nothing moves, as while replication stands still; a report tells it where it was seen first. The
single findings stay as they are in the topic and the tables.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from tallystick.coordinates.audit.cut import Cut
from tallystick.coordinates.results import Finding, Outcome
from tallystick.coordinates.rules.explanation import explain
from tallystick.coordinates.rules.fleet import GTID_ORIGIN_AGREEMENT
from tallystick.coordinates.rules.registry import PROSE_CASE

_AGAINST = " against "
_NAMES_MAX = 6

_Rule = tuple[str, str, str | None]
"""An invariant on an instance or on one of its channels."""


@dataclass(frozen=True, slots=True)
class ToldOnce:
    """Findings as a report tells them.

    Attributes:
        findings: Those of pairs about one transaction as one, in the place of the first of them.
        instances: Of each such one, by ``finding_id``, whom it names.
    """

    findings: list[Finding]
    instances: dict[str, tuple[str, ...]]


def tell_once(findings: Iterable[Finding], owners: Mapping[str, str] | None = None) -> ToldOnce:
    """Make one finding of those in which several pairs of instances disagree about one GTID.

    Args:
        findings: What the audit found, each once, in any order of arrival.
        owners: The instance that gives out GTIDs, by its ``server_uuid``, as far as known: of
            those that disagree with it one is named first.
    """
    kept = list(findings)
    pairs: dict[str, list[Finding]] = {}
    for finding in kept:
        if finding.rule == GTID_ORIGIN_AGREEMENT.name:
            pairs.setdefault(_gtid(finding), []).append(finding)
    told: dict[str, Finding] = {}
    instances: dict[str, tuple[str, ...]] = {}
    for gtid, of_gtid in pairs.items():
        if len(of_gtid) < 2:
            continue
        claims = _claims(of_gtid)
        one = _one(gtid, sorted(of_gtid, key=lambda f: f.order), claims, owners or {})
        told[gtid] = one
        instances[one.finding_id] = tuple(sorted(set().union(*claims.values())))
    result: list[Finding] = []
    seen: set[str] = set()
    for finding in kept:
        gtid = _gtid(finding) if finding.rule == GTID_ORIGIN_AGREEMENT.name else ""
        if gtid not in told:
            result.append(finding)
        elif gtid not in seen:
            seen.add(gtid)
            result.append(told[gtid])
    return ToldOnce(result, instances)


def tell_states_once(findings: Iterable[Finding], cuts: Iterable[Cut]) -> list[Finding]:
    """Make one finding of those that say the same of one row, collection after collection.

    They are the same in every word. One that comes after a row in which the rule held again, or
    that says something else, is another one.

    Args:
        findings: What the audit found, each once, in any order of arrival.
        cuts: The rows that it judged.
    """
    kept = list(findings)
    alike: dict[Finding, list[Finding]] = {}
    for finding in kept:
        # A finding of a row is at the row's collection.
        if finding.collection_id is not None and finding.at == finding.collection_id:
            alike.setdefault(_said(finding), []).append(finding)
    repeated = [sorted(same, key=lambda f: f.order) for same in alike.values() if len(same) > 1]
    if not repeated:
        return kept
    held = _held(cuts, {_rule(same[0]) for same in repeated})
    told: dict[str, Finding | None] = {}
    for same in repeated:
        for state in _states(same, held.get(_rule(same[0]), ())):
            told |= {finding.finding_id: None for finding in state}
            told[state[0].finding_id] = _with_repeats(state)
    result = (told.get(finding.finding_id, finding) for finding in kept)
    return [finding for finding in result if finding is not None]


def _said(finding: Finding) -> Finding:
    return replace(finding, at="", collection_id=None, epoch=0, sequence=0, ts=0)


def _rule(finding: Finding) -> _Rule:
    return finding.rule, finding.instance_id, finding.channel


def _held(cuts: Iterable[Cut], wanted: Collection[_Rule]) -> dict[_Rule, list[int]]:
    """When each of some rules held."""
    held: dict[_Rule, list[int]] = {}
    for cut in cuts:
        for name in cut.names(Outcome.HOLDS):
            rule = name, cut.instance_id, cut.channel
            if rule in wanted:
                held.setdefault(rule, []).append(cut.ts)
    return held


def _states(same: Sequence[Finding], held: Sequence[int]) -> list[list[Finding]]:
    """Parts between which the rule did not hold."""
    states = [[same[0]]]
    for before, finding in pairwise(same):
        if any(before.ts <= ts <= finding.ts for ts in held):
            states.append([])
        states[-1].append(finding)
    return states


def _with_repeats(state: Sequence[Finding]) -> Finding:
    first, more = state[0], len(state) - 1
    if not more:
        return first
    where = f"in {more} more rows, the last of" if more > 1 else "in one more row, of"
    stayed = f"{explain(first).sentence} So it stayed {where} {state[-1].collection_id}."
    return _with_prose(first, sentence=stayed)


def _with_prose(finding: Finding, **texts: str) -> Finding:
    data = {**explain(finding)._asdict(), **texts}
    return replace(finding, case=PROSE_CASE, data=data)


def _gtid(finding: Finding) -> str:
    """The first GTID that the pair disagrees about: ``at`` begins with it."""
    return finding.at.partition(" ")[0]


def _claims(pairs: Sequence[Finding]) -> dict[str, set[str]]:
    """By origin of the transaction, in whose logs it is said."""
    claims: dict[str, set[str]] = {}
    for pair in pairs:
        said = [(explain(pair).observed, pair.instance_id)]
        _, is_pair, other = pair.at.partition(_AGAINST)
        if is_pair:
            said.append((explain(pair).expected, other))
        for origins, instance in said:
            for origin in origins.split("; "):
                claims.setdefault(origin, set()).add(instance)
    return claims


def _one(
    gtid: str,
    pairs: Sequence[Finding],
    claims: Mapping[str, set[str]],
    owners: Mapping[str, str],
) -> Finding:
    owner = owners.get(gtid.partition(":")[0])
    of_owner = {name for names in claims.values() if owner in names for name in names}
    shown_by = min(pairs, key=lambda f: (f.instance_id in of_owner, f.instance_id, f.order))
    witnesses = {pair.witness for pair in pairs}
    gtids = witnesses.pop() if len(witnesses) == 1 else gtid
    sides = [(origin, sorted(names)) for origin, names in claims.items()]
    sides.sort(key=lambda side: (owner not in side[1], side[1], side[0]))
    logs = [f"in the logs of {_listed(names)}" for _, names in sides]
    return _with_prose(
        replace(shown_by, at=gtid, witness=gtids),
        sentence=f"{gtids} is one transaction {', and another '.join(logs)}.",
        observed="; ".join(f"{_listed(names)}: {origin}" for origin, names in sides),
        observed_in=f"logs that hold {gtid}",
        expected="one origin",
        expected_in="every log that holds it",
    )


def _listed(names: Sequence[str]) -> str:
    if len(names) > _NAMES_MAX:
        return f"{', '.join(names[:_NAMES_MAX])} and {len(names) - _NAMES_MAX} more"
    return " and ".join([", ".join(names[:-1])] * (len(names) > 1) + [names[-1]])
