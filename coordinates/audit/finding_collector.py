"""Saying what comparisons have brought: findings, and observations of what stays undecided."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tallystick.coordinates.audit.comparison import Problem, brief
from tallystick.coordinates.audit.comparison_queues import KINDS
from tallystick.coordinates.audit.journal_position import Place
from tallystick.coordinates.audit.topology import describe_source
from tallystick.coordinates.results import Finding, Observation, ObservationCode
from tallystick.coordinates.rules.fleet import GTID_ORIGIN_AGREEMENT, SERVER_UUID_UNIQUE
from tallystick.coordinates.rules.outcomes import json_values
from tallystick.coordinates.rules.registry import PROSE_CASE, UNDECIDED_PROSE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tallystick.coordinates.audit.comparison_queues import QueueKey
    from tallystick.coordinates.audit.instance_timeline import InstanceTimeline
    from tallystick.coordinates.audit.origins import Contradiction, Origins
    from tallystick.coordinates.rules.outcomes import Reason
    from tallystick.coordinates.rules.registry import Rule


@dataclass(slots=True)
class FleetOutput:
    """What one step of the fleet's audit brought."""

    findings: list[Finding] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)


class FindingCollector:
    """Collects what one step brings."""

    def __init__(self) -> None:
        self._output = FleetOutput()

    def give(self) -> FleetOutput:
        """Everything since the last call, findings in the order of their evidence."""
        output, self._output = self._output, FleetOutput()
        output.findings.sort(key=lambda finding: finding.order)
        return output

    def clash(self, server_uuid: str, first: str, second: InstanceTimeline) -> None:
        """Two instances report one `server_uuid` at one time."""
        shown = next(i for i in second.identities if i.server_uuid == server_uuid)
        problem = Problem(
            SERVER_UUID_UNIQUE,
            at=f"{server_uuid} of {first}",
            sentence=f"Instances {first} and {second.instance_id} both report the server_uuid"
            f" {server_uuid}.",
            observed=server_uuid,
            observed_in=f"instance {second.instance_id}",
            expected="another server_uuid",
            expected_in=f"beside instance {first}",
            witness=server_uuid,
        )
        place = Place(shown.ts, shown.epoch, shown.sequence, shown.collection_id)
        self.broken(problem, second.instance_id, None, place)

    def contradiction(self, found: Contradiction, origins: Origins) -> None:
        """Logs of one time give one GTID to two transactions."""
        sid, gno, _ = next(iter(found.gtids))
        if found.first == found.second:
            self._contradicts_itself(found, origins)
            return
        other = found.first if found.shown_by == found.second else found.second
        mine = origins.origins_in(found.shown_by, sid, gno, found.ts)
        theirs = origins.origins_in(other, sid, gno, found.ts)
        problem = Problem(
            GTID_ORIGIN_AGREEMENT,
            at=f"{sid}:{gno} against {other}",
            sentence=f"{brief(found.gtids, 3)} is one transaction in the logs of instance"
            f" {found.shown_by} and another in those of instance {other}.",
            observed="; ".join(str(origin) for origin in mine),
            observed_in=f"logs of instance {found.shown_by}, {sid}:{gno}",
            expected="; ".join(str(origin) for origin in theirs),
            expected_in=f"logs of instance {other}, {sid}:{gno}",
            witness=brief(found.gtids),
        )
        self.broken(problem, found.shown_by, None, found.place)

    def _contradicts_itself(self, found: Contradiction, origins: Origins) -> None:
        """Two logs of one instance, as its relay log and its binary log."""
        sid, gno, _ = next(iter(found.gtids))
        own = origins.origins_in(found.first, sid, gno, found.ts)
        problem = Problem(
            GTID_ORIGIN_AGREEMENT,
            at=f"{sid}:{gno} in its own logs",
            sentence=f"{brief(found.gtids, 3)} is one transaction in one log of instance"
            f" {found.first} and another in another log of it.",
            observed="; ".join(str(origin) for origin in own),
            observed_in=f"logs of instance {found.first}, {sid}:{gno}",
            expected="one origin",
            expected_in="every log that holds it",
            witness=brief(found.gtids),
        )
        self.broken(problem, found.first, None, found.place)

    def broken(self, problem: Problem, instance_id: str, channel: str | None, place: Place) -> None:
        """A rule is broken."""
        self._output.findings.append(
            Finding(
                rule=problem.rule.name,
                severity=problem.rule.severity,
                instance_id=instance_id,
                channel=channel,
                at=problem.at,
                case=PROSE_CASE,
                witness=problem.witness,
                data={
                    "sentence": problem.sentence,
                    "observed": problem.observed,
                    "observed_in": problem.observed_in,
                    "expected": problem.expected,
                    "expected_in": problem.expected_in,
                },
                collection_id=place.collection_id,
                epoch=place.epoch,
                sequence=place.sequence,
                ts=place.ts,
            )
        )

    def undecided(self, key: QueueKey, place: Place, reason: str) -> None:
        """A comparison cannot be decided."""
        self.observe(
            key.instance_id,
            key.channel,
            place,
            [KINDS[key.kind].rule],
            UNDECIDED_PROSE,
            text=reason,
            sources=[describe_source(source) for source in key.sources],
        )

    def observe(
        self,
        instance_id: str,
        channel: str | None,
        place: Place,
        rules: Iterable[Rule],
        reason: Reason,
        **data: object,
    ) -> None:
        """Rules stay undecided."""
        self._output.observations.append(
            Observation(
                code=ObservationCode.COMPARISON_UNDECIDED,
                instance_id=instance_id,
                channel=channel,
                at=place.collection_id or f"{place.epoch}:{place.sequence}",
                reason=reason.code,
                data=json_values(data),
                rules=tuple(rule.name for rule in rules),
                is_undecided=True,
                collection_id=place.collection_id,
                epoch=place.epoch,
                sequence=place.sequence,
                ts=place.ts,
            )
        )
