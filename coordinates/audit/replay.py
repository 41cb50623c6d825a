"""The whole audit in memory: every instance's journal and the fleet's, without Kafka and Spark."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tallystick.coordinates.audit.culprits import culprits, evidence_refused
from tallystick.coordinates.audit.fleet import FleetAudit, FleetOutput
from tallystick.coordinates.audit.fleet_events import FleetEventKind
from tallystick.coordinates.audit.incidents import incidents_of_history
from tallystick.coordinates.audit.instance import InstanceAudit, failure_text
from tallystick.coordinates.audit.missing_answers import missing_answers
from tallystick.coordinates.results import Verdict, gravest, verdict_of_run

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
        """How many times an invariant was judged on a row."""
        return sum(cut.evaluated for cut in self.cuts)


def audit_history(
    blocks: Iterable[Block], disabled: frozenset[str] = frozenset(), *, goes_on: bool = False
) -> AuditResult:
    """Audit a history; unless it goes on, its end closes every journal.

    Args:
        blocks: Blocks of any number of instances, each instance's in order.
        disabled: Names of invariants that are not judged.
        goes_on: Whether the end shows nothing: what waits for later records is undecided.

    Raises:
        JournalError: A record cannot be read.
    """
    result = AuditResult(disabled=disabled)
    instances: dict[str, InstanceAudit] = {}
    fleet_events: list[FleetEvent] = []
    findings: dict[str, Finding] = {}

    def take(output: AuditOutput | FleetOutput) -> None:
        for finding in output.findings:
            findings.setdefault(finding.finding_id, finding)
        result.observations += output.observations
        if isinstance(output, FleetOutput):
            result.checks += output.checks

    def take_instance(output: AuditOutput) -> None:
        take(output)
        result.cuts += output.cuts
        # One step at the end: so the order in which instances come makes no difference.
        fleet_events.extend(output.fleet_events)

    for block in blocks:
        result.events += len(block)
        audit = instances.get(block.instance_id)
        if audit is None:
            audit = instances[block.instance_id] = InstanceAudit(block.instance_id, disabled)
        output, _ = audit.absorb_or_refuse(block)
        take_instance(output)
    for audit in instances.values():
        take_instance(audit.finish_or_refuse())
    fleet, of_fleet, refused = _compare(fleet_events, disabled, goes_on=goes_on)
    for each in of_fleet:
        take(each)
    result.observations += refused
    starts = {e.instance_id: e.ts for e in reversed(fleet_events) if e.kind is FleetEventKind.BOOT}
    for cut, observation in list(missing_answers(result.cuts, starts)):
        result.cuts.append(cut)
        result.observations.append(observation)
    result.findings = sorted(findings.values(), key=lambda finding: finding.order)
    result.observations.sort(key=lambda o: (o.ts, o.instance_id, o.epoch, o.sequence))
    result.cuts.sort(key=lambda c: (c.ts, c.instance_id, c.scope != "instance", c.channel or ""))
    result.checks = gravest(result.checks)
    result.incidents = incidents_of_history(
        result.findings, result.cuts, result.checks, fleet_events
    )
    result.topology = fleet.topology()
    result.instances = sorted(instances)
    return result


def _compare(
    fleet_events: list[FleetEvent], disabled: frozenset[str], *, goes_on: bool
) -> tuple[FleetAudit, list[FleetOutput], list[Observation]]:
    """Compare all instances, and leave those out whose evidence raises."""

    def compare(events: list[FleetEvent]) -> tuple[FleetAudit, list[FleetOutput]]:
        fleet = FleetAudit(disabled)
        return fleet, [fleet.absorb(events), fleet.give_up() if goes_on else fleet.finish()]

    def of(names: Iterable[str]) -> list[FleetEvent]:
        wanted = set(names)
        return [event for event in fleet_events if event.instance_id in wanted]

    def fails(names: Iterable[str]) -> str:
        try:
            compare(of(names))
        except Exception as error:  # noqa: BLE001  whatever it is, the others are compared
            return failure_text(error)
        return ""

    try:
        return *compare(fleet_events), []
    except Exception:  # noqa: BLE001  whose evidence it is, and what, is found out
        names = sorted({event.instance_id for event in fleet_events})
        bad = culprits(names, fails)
    if reason := fails(set(names) - bad.keys()):
        bad = dict.fromkeys(names, reason)
    return *compare(of(set(names) - bad.keys())), evidence_refused(bad, "its journal")
