"""What an audit results in: verdicts, checks, findings, observations. Data, without a rule."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import Enum
from functools import cache
from typing import Any, NamedTuple


class Verdict(str, Enum):
    """Three-valued: evidence for, evidence missing, evidence against."""

    CONSISTENT = "CONSISTENT"
    UNDECIDED = "UNDECIDED"
    INCONSISTENT = "INCONSISTENT"

    @staticmethod
    def merge(verdicts: Iterable[Verdict]) -> Verdict:
        """INCONSISTENT beats UNDECIDED beats CONSISTENT; nothing at all is UNDECIDED."""
        seen = set(verdicts)
        for verdict in (Verdict.INCONSISTENT, Verdict.UNDECIDED, Verdict.CONSISTENT):
            if verdict in seen:
                return verdict
        return Verdict.UNDECIDED


class Severity(str, Enum):
    """How grave a broken rule is (docs/rules.md, column severity)."""

    CRITICAL = "critical"
    ERROR = "error"
    WARNING = "warning"


class Outcome(str, Enum):
    """What a rule says of one subject."""

    HOLDS = "holds"
    BROKEN = "broken"
    UNDECIDED = "undecided"


_GRAVITY = {Outcome.HOLDS: 0, Outcome.UNDECIDED: 1, Outcome.BROKEN: 2}


@dataclass(frozen=True, slots=True)
class Check:
    """What one rule says of one subject at one collection.

    Attributes:
        rule: Name in the registry.
        outcome: Holds, broken or undecided.
        reason: Code of the reason why it is undecided, or of the case that is broken; else empty.
        data: The values that reason or case are about, as JSON values.
    """

    rule: str
    outcome: Outcome
    reason: str = ""
    data: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def is_graver(self, other: Check) -> bool:
        """Whether it counts more: broken does more than undecided, that more than holds."""
        return _GRAVITY[self.outcome] > _GRAVITY[other.outcome]

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "rule": self.rule,
            "outcome": self.outcome.value,
            "reason": self.reason,
            "data": dict(self.data),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Check:
        """Inverse of ``to_dict``."""
        return cls(**{**values, "outcome": Outcome(values["outcome"])})


@cache
def held(rule: str) -> Check:
    """The one check of a rule that holds: most checks are."""
    return Check(rule, Outcome.HOLDS)


class SubjectCheck(NamedTuple):
    """A check of a rule between instances, with its subject: an instance or channel.

    Several of one rule, subject and collection may come one after the other; the gravest counts.

    Attributes:
        instance_id: The instance whose row was compared.
        channel: Its replication channel, None when none is concerned.
        collection_id: The collection of that row.
        ts: Time of that row, microseconds of the observer's clock.
        check: What the rule says.
    """

    instance_id: str
    channel: str | None
    collection_id: str
    ts: int
    check: Check


def gravest(checks: Iterable[SubjectCheck]) -> list[SubjectCheck]:
    """One check for each rule, subject and collection: broken beats undecided beats holds."""
    kept: dict[tuple[str, str, str | None, str], SubjectCheck] = {}
    for one in checks:
        key = one.check.rule, one.instance_id, one.channel, one.collection_id
        known = kept.get(key)
        if known is None or one.check.is_graver(known.check):
            kept[key] = one
    return list(kept.values())


@dataclass(frozen=True, slots=True)
class Finding:
    """One broken rule with the smallest witness a person can check.

    Data only: ``coordinates.rules.explanation`` makes the sentences where a finding is shown.

    Attributes:
        rule: Name in the registry.
        case: Which of the rule's contradictions it is.
        severity: From the registry.
        instance_id: The instance that shows the contradiction.
        channel: Replication channel, None when none is concerned.
        at: Coordinates of the contradiction (``binlog.000003:4711``, ``c-000012``): with rule,
            instance and channel they identify the finding.
        witness: The smallest thing that shows it, whole: a GTID set, a coordinate, a number.
        data: Both sides of the contradiction, as JSON values; the case says what they are.
        collection_id: The collection that showed it, None for a finding of the journal itself.
        epoch: Of the journal record that shows it.
        sequence: Of that record.
        ts: Time of that record, microseconds of the observer's clock.
    """

    rule: str
    case: str
    severity: Severity
    instance_id: str
    channel: str | None
    at: str
    witness: str
    data: Mapping[str, Any] = field(hash=False)
    collection_id: str | None
    epoch: int
    sequence: int
    ts: int

    @property
    def finding_id(self) -> str:
        """Equal for the same contradiction however often, and in whatever blocks, it is seen."""
        key = "\x1f".join(
            (self.instance_id, self.rule, "" if self.channel is None else f"={self.channel}",
             self.at)
        )  # fmt: skip
        return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:24]

    def to_dict(self) -> dict[str, Any]:
        """JSON form, with the ``finding_id``."""
        return {
            "finding_id": self.finding_id,
            **asdict(self),
            "severity": self.severity.value,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Finding:
        """Inverse of ``to_dict``; unknown keys are ignored."""
        known = {field.name: values[field.name] for field in fields(cls)}
        known["severity"] = Severity(known["severity"])
        return cls(**known)

    @property
    def order(self) -> tuple[int, str, int, int, str, str, str]:
        """Sort key that does not depend on how the journal was cut into blocks."""
        return (
            self.ts,
            self.instance_id,
            self.epoch,
            self.sequence,
            self.rule,
            self.channel or "",
            self.at,
        )


class IncidentState(str, Enum):
    """What has become of an incident."""

    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    RESOLVED = "resolved"
    SUPERSEDED = "superseded"


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """Somebody knows of an incident: it does not count in the verdict now.

    Attributes:
        by: Who acknowledged it.
        why: The reason that was given.
        ts: When, microseconds.
        until_ts: When it runs out, microseconds; None: never.
    """

    by: str
    why: str
    ts: int
    until_ts: int | None = None


@dataclass(frozen=True, slots=True)
class Incident:
    """Findings of one rule, subject and cause, from the first one until the breach is over.

    Attributes:
        incident_id: The ``finding_id`` of the finding that opened it.
        rule: Name in the registry.
        case: The case of the first finding.
        severity: From the registry.
        instance_id: The instance that shows the contradiction.
        channel: Its replication channel, None when none is concerned.
        cause: Values of the finding that say what it is held against, by their names.
        state: What has become of it.
        opened_ts: Time of the first finding, microseconds of the observer's clock.
        last_seen_ts: When it was last seen: by a finding, or as still broken at a collection.
        closed_ts: When it was resolved or superseded, None while it is neither.
        count: How many findings it has.
        witness: The union of the findings' GTID sets; where they are none, the newest witness.
        finding: The first finding.
        acknowledgement: The one in force, None when there is none.
    """

    incident_id: str
    rule: str
    case: str
    severity: Severity
    instance_id: str
    channel: str | None
    cause: Mapping[str, str] = field(hash=False)
    state: IncidentState
    opened_ts: int
    last_seen_ts: int
    closed_ts: int | None
    count: int
    witness: str
    finding: Finding
    acknowledgement: Acknowledgement | None = None

    @property
    def is_open(self) -> bool:
        """Whether the breach is not over, acknowledged or not."""
        return self.state in (IncidentState.OPEN, IncidentState.ACKNOWLEDGED)

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            **asdict(self),
            "severity": self.severity.value,
            "state": self.state.value,
            "finding": self.finding.to_dict(),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Incident:
        """Inverse of ``to_dict``; unknown keys are ignored."""
        known = {field.name: values[field.name] for field in fields(cls)}
        known["severity"] = Severity(known["severity"])
        known["state"] = IncidentState(known["state"])
        known["finding"] = Finding.from_dict(known["finding"])
        if known["acknowledgement"] is not None:
            known["acknowledgement"] = Acknowledgement(**known["acknowledgement"])
        return cls(**known)


class IncidentChangeKind(str, Enum):
    """What happened to an incident.

    REOPENED: its acknowledgement was taken back or ran out, or what was over is broken again.
    """

    OPENED = "opened"
    GROWN = "grown"
    RESOLVED = "resolved"
    SUPERSEDED = "superseded"
    ACKNOWLEDGED = "acknowledged"
    REOPENED = "reopened"


@dataclass(frozen=True, slots=True)
class IncidentChange:
    """One step in the life of an incident.

    Attributes:
        kind: What happened.
        incident: As it is afterwards.
        ts: When, microseconds of the observer's clock.
    """

    kind: IncidentChangeKind
    incident: Incident
    ts: int

    @property
    def change_id(self) -> str:
        """Equal for the same change however often a micro-batch is done again."""
        key = f"{self.incident.incident_id} {self.kind.value} {self.incident.count} {self.ts}"
        return hashlib.sha256(key.encode()).hexdigest()[:24]

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "change_id": self.change_id,
            "kind": self.kind.value,
            "incident": self.incident.to_dict(),
            "ts": self.ts,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> IncidentChange:
        """Inverse of ``to_dict``; unknown keys are ignored."""
        incident = Incident.from_dict(values["incident"])
        return cls(IncidentChangeKind(values["kind"]), incident, values["ts"])


class ObservationCode(str, Enum):
    """What the audit saw that is no inconsistency of the server's logs."""

    JOURNAL_GAP = "JOURNAL_GAP"
    JOURNAL_REPEATED = "JOURNAL_REPEATED"
    JOURNAL_REUSED = "JOURNAL_REUSED"
    JOURNAL_STALE_EPOCH = "JOURNAL_STALE_EPOCH"
    BLOCK_UNREADABLE = "BLOCK_UNREADABLE"
    DEAD_LETTERS_LOST = "DEAD_LETTERS_LOST"
    STATE_UNREADABLE = "STATE_UNREADABLE"
    EVENT_REDELIVERED = "EVENT_REDELIVERED"
    HISTORY_RESET = "HISTORY_RESET"
    CLOCKS_DIFFER = "CLOCKS_DIFFER"
    TIME_IMPLAUSIBLE = "TIME_IMPLAUSIBLE"
    DURATION_UNCONFIRMED = "DURATION_UNCONFIRMED"
    GNO_FREE = "GNO_FREE"
    LOG_STATUS_TEAR = "LOG_STATUS_TEAR"
    LOG_STATUS_REFUSED = "LOG_STATUS_REFUSED"
    LOG_STATUS_FAILED = "LOG_STATUS_FAILED"
    LOG_STATUS_MISSING = "LOG_STATUS_MISSING"
    INSTANCE_NOT_LISTED = "INSTANCE_NOT_LISTED"
    LOG_STATUS_EARLY = "LOG_STATUS_EARLY"
    COMPARISON_UNDECIDED = "COMPARISON_UNDECIDED"
    BACKUP_UNDECIDED = "BACKUP_UNDECIDED"
    THREAD_STOPPED = "THREAD_STOPPED"
    SOURCE_FILE_KEPT = "SOURCE_FILE_KEPT"


@dataclass(frozen=True, slots=True)
class Observation:
    """One thing worth reporting that breaks no rule.

    Data only: ``coordinates.rules.explanation`` makes the sentence where one is shown.

    Attributes:
        code: From the closed list.
        instance_id: The instance concerned.
        channel: Replication channel, None when none is concerned.
        at: Coordinates, as in ``Finding.at``.
        reason: Code of the text that says what it is.
        data: The values that text names, as JSON values.
        rules: The rules that stay undecided because of it, where it is about rules.
        is_undecided: True when a check has to answer UNDECIDED because of it.
        collection_id: The collection concerned, if any.
        epoch: Of its position in the journal.
        sequence: Of its position in the journal.
        ts: Microseconds of the observer's clock.
    """

    code: ObservationCode
    instance_id: str
    channel: str | None
    at: str
    reason: str
    data: Mapping[str, Any] = field(hash=False)
    rules: tuple[str, ...]
    is_undecided: bool
    collection_id: str | None
    epoch: int
    sequence: int
    ts: int

    @classmethod
    def of_no_record(
        cls,
        code: ObservationCode,
        at: str,
        reason: str,
        data: Mapping[str, Any] | None = None,
        *,
        instance_id: str = "",
        is_undecided: bool = True,
        collection_id: str | None = None,
        ts: int = 0,
    ) -> Observation:
        """What no record of a journal shows, of an instance or, without one, of the whole run."""
        return cls(
            code=code,
            instance_id=instance_id,
            channel=None,
            at=at,
            reason=reason,
            data={} if data is None else data,
            rules=(),
            is_undecided=is_undecided,
            collection_id=collection_id,
            epoch=0,
            sequence=0,
            ts=ts,
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {**asdict(self), "code": self.code.value, "rules": list(self.rules)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Observation:
        """Inverse of ``to_dict``; unknown keys are ignored."""
        known = {field.name: values[field.name] for field in fields(cls)}
        known["code"] = ObservationCode(known["code"])
        known["rules"] = tuple(known["rules"])
        return cls(**known)


def verdict_now(
    incidents: Iterable[Incident],
    observations: Iterable[Observation],
    rows: Iterable[Verdict],
    validations: Iterable[Verdict] = (),
) -> Verdict:
    """The verdict on the newest collection.

    INCONSISTENT with any open incident that nobody has acknowledged; UNDECIDED when evidence is
    missing in the newest collection, and when there is none; else CONSISTENT.

    Args:
        incidents: All that are known.
        observations: What was seen since the collection before.
        rows: The verdict on each row of the newest collection.
        validations: The verdict of its validation.
    """
    if any(one.state is IncidentState.OPEN for one in incidents):
        return Verdict.INCONSISTENT
    # What a row contradicts is an incident that is over, or that somebody knows of.
    known = [verdict for verdict in (*rows, *validations) if verdict is Verdict.UNDECIDED]
    doubts = [Verdict.UNDECIDED for seen in observations if seen.is_undecided]
    return Verdict.UNDECIDED if known or doubts else Verdict.CONSISTENT


def verdict_of_run(
    findings: Collection[Finding],
    observations: Iterable[Observation],
    rows: Iterable[Verdict],
    validations: Iterable[Verdict] = (),
) -> Verdict:
    """The verdict of a whole run.

    INCONSISTENT with any finding; UNDECIDED when a row, an observation or a validation is, and
    when no row was collected at all.

    Args:
        findings: What was found.
        observations: What else was seen.
        rows: The verdict on each row of the cut table.
        validations: The verdict of each collection's validation.
    """
    if findings:
        return Verdict.INCONSISTENT
    doubts = (Verdict.UNDECIDED for seen in observations if seen.is_undecided)
    return Verdict.merge((Verdict.merge(rows), *validations, *doubts))
