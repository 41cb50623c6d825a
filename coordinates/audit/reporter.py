"""Findings, observations and fleet events of one instance, each with its journal position."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.audit.fleet_events import FleetEvent, FleetEventKind
from tallystick.coordinates.results import Finding, Observation, ObservationCode
from tallystick.coordinates.rules.observations import OF_DROPPED_EVENTS
from tallystick.coordinates.rules.outcomes import Broken, json_values
from tallystick.coordinates.rules.registry import RULE_OF_ANOMALY
from tallystick.coordinates.state_codec import TRANSIENT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np
    import numpy.typing as npt

    from tallystick.coordinates.logs.anomaly import Anomaly, DroppedEvents
    from tallystick.coordinates.rules.outcomes import Reason
    from tallystick.coordinates.rules.registry import Rule

TEXT_MAX = 400


def shorten(text: str) -> str:
    """Findings quote values; a set of megabytes is cut with its length."""
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}… ({len(text)} characters)"


@dataclass(eq=False)
class Reporter:
    """Collects what the audit of one instance finds; ``disabled`` rules report nothing."""

    instance_id: str
    disabled: frozenset[str] = frozenset()
    is_mute: bool = False
    """Whether no finding can be trusted: the server's settings are not known any more."""
    findings: list[Finding] = field(default_factory=list, metadata=TRANSIENT)
    observations: list[Observation] = field(default_factory=list, metadata=TRANSIENT)
    fleet_events: list[FleetEvent] = field(default_factory=list, metadata=TRANSIENT)
    position: tuple[int, int, int] = field(default=(0, 0, 0), metadata=TRANSIENT)
    """Journal position of what is reported next: epoch, sequence, time."""
    _held: list[Callable[[], None]] = field(default_factory=list, metadata=TRANSIENT)

    def broken(
        self,
        rule: Rule,
        broken: Broken,
        *,
        at: str = "",
        channel: str | None = None,
        collection_id: str | None = None,
    ) -> None:
        """Write down a finding.

        Args:
            rule: What is broken.
            broken: How.
            at: Coordinates of the contradiction where ``broken`` names none.
            channel: Replication channel, None when none is concerned.
            collection_id: The collection that showed it.
        """
        if rule.name in self.disabled or self.is_mute:
            return
        epoch, sequence, ts = self.position
        self.findings.append(
            Finding(
                rule=rule.name,
                case=broken.case,
                severity=rule.severity,
                instance_id=self.instance_id,
                channel=channel,
                at=broken.at or at,
                witness=broken.witness,
                data=broken.data,
                collection_id=collection_id,
                epoch=epoch,
                sequence=sequence,
                ts=ts,
            )
        )

    def anomaly(self, anomaly: Anomaly) -> None:
        """Write down a contradiction of a log with itself, as a finding of the rule of its kind."""
        kind, at, witness, channel, data = anomaly
        self.broken(
            RULE_OF_ANOMALY[kind],
            Broken(kind.value, witness=witness, at=at, **data),
            channel=channel,
        )

    def dropped(
        self, kind: DroppedEvents, *, at: str, channel: str | None = None, **data: Any
    ) -> None:
        """Note that a reader of a log dropped events."""
        code, reason, is_undecided = OF_DROPPED_EVENTS[kind]
        self.note(code, reason, at=at, is_undecided=is_undecided, channel=channel, **data)

    def note(
        self,
        code: ObservationCode,
        reason: Reason,
        *,
        at: str,
        rules: tuple[Rule, ...] = (),
        is_undecided: bool = False,
        channel: str | None = None,
        collection_id: str | None = None,
        **data: object,
    ) -> None:
        """Write down an observation.

        Args:
            code: From the closed list.
            reason: Its text, which names values of ``data``.
            at: Its coordinates.
            rules: The rules that it leaves undecided, where it is about rules.
            is_undecided: Whether a check has to answer UNDECIDED because of it.
            channel: Replication channel, None when none is concerned.
            collection_id: The collection concerned.
            data: What the text names beside instance, channel, collection and ``at``.
        """
        epoch, sequence, ts = self.position
        self.observations.append(
            Observation(
                code=code,
                instance_id=self.instance_id,
                channel=channel,
                at=at,
                reason=reason.code,
                data=json_values(data),
                rules=tuple(rule.name for rule in rules),
                is_undecided=is_undecided,
                collection_id=collection_id,
                epoch=epoch,
                sequence=sequence,
                ts=ts,
            )
        )

    def fleet_event(
        self,
        kind: FleetEventKind,
        body: dict[str, Any],
        arrays: Mapping[str, npt.NDArray[np.generic]] | None = None,
        journal_position: tuple[int, int, int] | None = None,
    ) -> None:
        """Emit a fleet event, after what was held until now.

        Args:
            kind: Of the event.
            body: Of the event.
            arrays: Of the event.
            journal_position: Epoch, sequence and time; None: where the journal is read.
        """
        self.release()
        epoch, sequence, ts = journal_position or self.position
        self.fleet_events.append(
            FleetEvent(
                kind,
                self.instance_id,
                epoch,
                sequence,
                ts,
                body,
                dict(arrays) if arrays else {},
            )
        )

    def clear(self) -> None:
        """Drop what was reported and not yet taken, and what is held."""
        self.findings, self.observations, self.fleet_events, self._held = [], [], [], []

    def hold(self, emit: Callable[[], None]) -> None:
        """Call ``emit`` before the next fleet event: what it gathers until then is one event."""
        self._held.append(emit)

    def release(self) -> None:
        """Emit everything that is held."""
        if self._held:
            held, self._held = self._held, []
            for emit in held:
                emit()
