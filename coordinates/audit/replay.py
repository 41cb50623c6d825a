"""The whole audit in memory: every instance's journal and the fleet's, without Kafka and Spark."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tallystick.coordinates.audit.culprits import culprits, evidence_refused
from tallystick.coordinates.audit.fleet import FleetAudit, FleetOutput
from tallystick.coordinates.audit.fleet_events import FleetEventKind
from tallystick.coordinates.audit.homes import Homes
from tallystick.coordinates.audit.incidents import incidents_of_history
from tallystick.coordinates.audit.instance import InstanceAudit
from tallystick.coordinates.audit.missing_answers import missing_answers
from tallystick.coordinates.results import Verdict, gravest, verdict_of_run
from tallystick.coordinates.rules.catalogue import RULES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tallystick.coordinates.audit.cut import Cut
    from tallystick.coordinates.audit.fleet import Edge
    from tallystick.coordinates.audit.fleet_events import FleetEvent
    from tallystick.coordinates.audit.instance import AuditOutput
    from tallystick.coordinates.events.journal import Block
    from tallystick.coordinates.results import Finding, Incident, Observation, SubjectCheck


@dataclass(slots=True)
class AuditResult:
    """Everything an audit said, each list in journal order, each finding once."""

    findings: list[Finding] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)
    cuts: list[Cut] = field(default_factory=list)
    checks: list[SubjectCheck] = field(default_factory=list)
    """Of rules between instances; those of rules on a row are with its cut."""
    incidents: list[Incident] = field(default_factory=list)
    topology: list[Edge] = field(default_factory=list)
    instances: list[str] = field(default_factory=list)
    events: int = 0
    disabled: frozenset[str] = frozenset()
    """Names of rules that were not judged."""

    @property
    def verdict(self) -> Verdict:
        """Of findings, observations and rows taken together."""
        rows = (Verdict(cut.verdict) for cut in self.cuts)
        return verdict_of_run(self.findings, self.observations, rows)

    @property
    def evaluated(self) -> int:
        """How many times a rule was judged on a row."""
        return sum(cut.evaluated for cut in self.cuts)


def audit_history(
    blocks: Iterable[Block], disabled: frozenset[str] = frozenset(), *, goes_on: bool = False
) -> AuditResult:
    """Audit a history; unless it goes on, its end closes every journal.

    Args:
        blocks: Blocks of any number of instances, each instance's in order.
        disabled: Names of rules that are not judged.
        goes_on: Whether the end shows nothing: what waits for later records is undecided.

    Raises:
        JournalError: A record cannot be read.
        ValueError: A name is that of no rule.
    """
    unknown = sorted(disabled - RULES.keys())
    if unknown:
        raise ValueError(f"disabled: expected names of rules, found {unknown[0]!r}")
    result = AuditResult(disabled=disabled)
    instances: dict[tuple[str, str], InstanceAudit] = {}
    fleet_events: dict[str, list[FleetEvent]] = {}
    homes = Homes()
    findings: dict[str, Finding] = {}

    def take(output: AuditOutput | FleetOutput) -> None:
        for finding in output.findings:
            findings.setdefault(finding.finding_id, finding)
        result.observations += output.observations
        if isinstance(output, FleetOutput):
            result.checks += output.checks

    def take_instance(cluster: str, output: AuditOutput) -> None:
        take(output)
        result.cuts += output.cuts
        # One step at the end: so the order in which instances come makes no difference.
        fleet_events.setdefault(cluster, []).extend(output.fleet_events)

    for block in blocks:
        result.events += len(block)
        key = block.cluster, block.instance_id
        audit = instances.get(key)
        if audit is None:
            audit = instances[key] = InstanceAudit(block.instance_id, disabled)
        result.observations += homes.enter(block.instance_id, block.cluster)
        output, _ = audit.absorb_or_refuse(block)
        take_instance(block.cluster, output)
    for (cluster, _), audit in instances.items():
        take_instance(cluster, audit.finish_or_refuse())
    events = [event for of_cluster in fleet_events.values() for event in of_cluster]
    homes.identify_all(result.cuts, events)
    for cluster, of_cluster in sorted(fleet_events.items()):
        away = {name for name, home in homes.away().items() if home != cluster}
        fleet, of_fleet, refused = _compare(of_cluster, away, disabled, goes_on=goes_on)
        result.topology += fleet.topology()
        for each in of_fleet:
            take(each)
        result.observations += refused
    named = homes.name_sources(result.observations, result.checks)
    result.observations, result.checks = named
    starts = {e.instance_id: e.ts for e in reversed(events) if e.kind is FleetEventKind.BOOT}
    for cut, observation in list(missing_answers(result.cuts, starts)):
        result.cuts.append(cut)
        result.observations.append(observation)
    result.findings = sorted(findings.values(), key=lambda finding: finding.order)
    result.observations.sort(key=lambda o: (o.ts, o.instance_id, o.epoch, o.sequence))
    result.cuts.sort(key=lambda c: (c.ts, c.instance_id, c.scope != "instance", c.channel or ""))
    result.checks = gravest(result.checks)
    result.incidents = incidents_of_history(result.findings, result.cuts, result.checks, events)
    result.topology.sort(key=lambda edge: (edge.replica, edge.channel))
    result.instances = sorted(homes.of)
    return result


def _compare(
    fleet_events: list[FleetEvent], away: Iterable[str], disabled: frozenset[str], *, goes_on: bool
) -> tuple[FleetAudit, list[FleetOutput], list[Observation]]:
    """Compare the instances of a cluster, and leave those out whose evidence raises.

    Args:
        fleet_events: Of all of them, each one's in the order of its journal.
        away: Those whose journals went on in another cluster: here they have no end.
        disabled: Names of rules that are not judged.
        goes_on: Whether the end of the others shows nothing.
    """

    def compare(events: list[FleetEvent]) -> tuple[FleetAudit, list[FleetOutput]]:
        fleet = FleetAudit(disabled)
        outputs = [fleet.absorb(events)]
        for name in away:
            fleet.retire(name)
        return fleet, [*outputs, fleet.give_up() if goes_on else fleet.finish()]

    def of(names: Iterable[str]) -> list[FleetEvent]:
        wanted = set(names)
        return [event for event in fleet_events if event.instance_id in wanted]

    try:
        return *compare(fleet_events), []
    except Exception:  # noqa: BLE001  whose evidence it is, and what, is found out
        names = {event.instance_id for event in fleet_events}
        bad = culprits(names, lambda some: compare(of(some)))
    return *compare(of(names - bad.keys())), evidence_refused(bad, "its journal")
