"""One finding for one transaction, however many pairs of logs show it.

Instances are compared pair by pair, because a pair can be judged as soon as both are known: a
transaction that took another's GTID is found once for each pair that disagrees. A report tells it
once, with all the servers. The findings of the pairs stay as they are in the topic and the tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from coordinates.invariants.fleet import GTID_ORIGIN_AGREEMENT
from coordinates.verdict import Finding

_AGAINST = " against "
_NAMES_MAX = 6


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
        if finding.invariant == GTID_ORIGIN_AGREEMENT.name:
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
        gtid = _gtid(finding) if finding.invariant == GTID_ORIGIN_AGREEMENT.name else ""
        if gtid not in told:
            result.append(finding)
        elif gtid not in seen:
            seen.add(gtid)
            result.append(told[gtid])
    return ToldOnce(result, instances)


def _gtid(finding: Finding) -> str:
    """The first GTID that the pair disagrees about: ``at`` begins with it."""
    return finding.at.partition(" ")[0]


def _claims(pairs: Sequence[Finding]) -> dict[str, set[str]]:
    """By origin of the transaction, in whose logs it is said."""
    claims: dict[str, set[str]] = {}
    for pair in pairs:
        said = [(pair.observed, pair.instance_id)]
        _, is_pair, other = pair.at.partition(_AGAINST)
        if is_pair:
            said.append((pair.expected, other))
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
    return replace(
        shown_by,
        at=gtid,
        sentence=f"{gtids} is one transaction {', and another '.join(logs)}.",
        observed="; ".join(f"{_listed(names)}: {origin}" for origin, names in sides),
        observed_in=f"logs that hold {gtid}",
        expected="one origin",
        expected_in="every log that holds it",
        witness=gtids,
    )


def _listed(names: Sequence[str]) -> str:
    if len(names) > _NAMES_MAX:
        return f"{', '.join(names[:_NAMES_MAX])} and {len(names) - _NAMES_MAX} more"
    return " and ".join([", ".join(names[:-1])] * (len(names) > 1) + [names[-1]])
