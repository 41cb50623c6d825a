"""Findings, observations and fleet events of one instance, each with its journal position."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.audit.fleet_events import FleetEvent, FleetEventKind
from tallystick.coordinates.audit.observer_clock import WINDOW
from tallystick.coordinates.results import Finding, Observation, ObservationCode
from tallystick.coordinates.rules.observations import DURATION_UNCONFIRMED, OF_DROPPED_EVENTS
from tallystick.coordinates.rules.outcomes import Broken, json_values
from tallystick.coordinates.rules.registry import RULE_OF_ANOMALY, RULES
from tallystick.coordinates.rules.statements import with_versions
from tallystick.coordinates.state_codec import TRANSIENT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np
    import numpy.typing as npt

    from tallystick.coordinates.logs.anomaly import Anomaly, DroppedEvents
    from tallystick.coordinates.rules.outcomes import Reason
    from tallystick.coordinates.rules.registry import Rule

TEXT_MAX = 400
SET_BACK_US = 1_000_000
"""A pause that is too short by less may be so by an answer that came late."""
UNCONFIRMED_MAX = 64
"""Durations that wait for answers; where none come any more, the oldest stays unconfirmed."""


def shorten(text: str) -> str:
    """Findings quote values; a set of megabytes is cut with its length."""
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}… ({len(text)} characters)"


@dataclass(slots=True)
class Unconfirmed:
    """A finding of a duration: whether the clock was set meanwhile is known with later answers.

    Attributes:
        finding: What is found if it was not.
        excess_us: By how much the duration is beyond its limit; negative: too short.
        lag_us: The least time from a request to its answer, as it was known then.
        answers: How many later ones have shown a clock that was set ahead by more.
    """

    finding: Finding
    excess_us: int
    lag_us: int
    answers: int = 0


@dataclass(eq=False)
class Reporter:
    """Collects what the audit of one instance finds; ``disabled`` rules report nothing."""

    instance_id: str
    disabled: frozenset[str] = field(default=frozenset(), metadata=TRANSIENT)
    version: str | None = None
    """Of the server, as its last start in the journal names it."""
    is_mute: bool = False
    """Whether no finding can be trusted: the server's settings are not known any more."""
    is_timed: bool = False
    """Whether answers to requests show how a clock runs, or will: a journal by hand has none."""
    lag_us: int | None = None
    """The least time from a request to its answer, between the two clocks; None not known."""
    unconfirmed: list[Unconfirmed] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list, metadata=TRANSIENT)
    observations: list[Observation] = field(default_factory=list, metadata=TRANSIENT)
    fleet_events: list[FleetEvent] = field(default_factory=list, metadata=TRANSIENT)
    position: tuple[int, int, int] = field(default=(0, 0, 0), metadata=TRANSIENT)
    """Journal position of what is reported next: epoch, sequence, time."""
    tells_time: bool = False
    """Whether the last fleet event showed nothing but the time."""
    _held: list[Callable[[], None]] = field(default_factory=list, metadata=TRANSIENT)

    def broken(
        self,
        rule: Rule,
        broken: Broken,
        *,
        at: str = "",
        channel: str | None = None,
        collection_id: str | None = None,
        excess_us: int | None = None,
    ) -> None:
        """Write down a finding.

        Args:
            rule: What is broken.
            broken: How.
            at: Coordinates of the contradiction where ``broken`` names none.
            channel: Replication channel, None when none is concerned.
            collection_id: The collection that showed it.
            excess_us: Of a duration, by how much it is beyond its limit, negative if it is too
                short: then it is written down when the clock is known not to have been set.
        """
        if rule.name in self.disabled or self.is_mute:
            return
        epoch, sequence, ts = self.position
        finding = Finding(
            rule=rule.name,
            case=broken.case,
            severity=rule.severity,
            instance_id=self.instance_id,
            channel=channel,
            at=broken.at or at,
            witness=broken.witness,
            data=with_versions(rule, broken, {self.instance_id: self.version}),
            collection_id=collection_id,
            epoch=epoch,
            sequence=sequence,
            ts=ts,
        )
        if excess_us is None or not self.is_timed:
            self.findings.append(finding)
        elif self.lag_us is None:
            self._note_unconfirmed(finding)
        else:
            self.unconfirmed.append(Unconfirmed(finding, excess_us, self.lag_us))
            if len(self.unconfirmed) > UNCONFIRMED_MAX:
                self._note_unconfirmed(self.unconfirmed.pop(0).finding)

    def answered(self, received_us: int, lag_us: int) -> None:
        """Write down what an answer confirms.

        Args:
            received_us: When its request was received, by the time of the journal.
            lag_us: How long after the request that was, between the two clocks.
        """
        waiting, self.unconfirmed = self.unconfirmed, []
        for one in waiting:
            if one.finding.ts > received_us:
                self.unconfirmed.append(one)
            elif _is_left(one.excess_us, lag_us - one.lag_us):
                self.findings.append(one.finding)
            else:
                one.answers += 1
                if one.answers < WINDOW:
                    self.unconfirmed.append(one)
                else:
                    self._note_unconfirmed(one.finding)

    def time_anew(self) -> None:
        """The clock was set, or may have been: what is unconfirmed stays so."""
        waiting, self.unconfirmed = self.unconfirmed, []
        for one in waiting:
            self._note_unconfirmed(one.finding)

    def _note_unconfirmed(self, finding: Finding) -> None:
        self.note(
            ObservationCode.DURATION_UNCONFIRMED,
            DURATION_UNCONFIRMED,
            at=finding.at,
            rules=(RULES[finding.rule],),
            is_undecided=True,
            channel=finding.channel,
            collection_id=finding.collection_id,
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
        self.tells_time = kind is FleetEventKind.TIME
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
        self.tells_time = False
        self.findings, self.observations, self.fleet_events, self._held = [], [], [], []

    @property
    def has_told_time(self) -> bool:
        """Whether nothing came after the last fleet event, which showed nothing but the time."""
        return self.tells_time and not self._held

    def hold(self, emit: Callable[[], None]) -> None:
        """Call ``emit`` before the next fleet event: what it gathers until then is one event."""
        self._held.append(emit)

    def release(self) -> None:
        """Emit everything that is held."""
        if self._held:
            held, self._held = self._held, []
            for emit in held:
                emit()


def _is_left(excess_us: int, set_us: int) -> bool:
    """Whether a duration is beyond its limit although the clock was set ahead by so much."""
    return set_us < excess_us if excess_us > 0 else set_us - SET_BACK_US > excess_us
