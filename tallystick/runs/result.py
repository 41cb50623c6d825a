"""The result of a run, whatever kind of run it was: the one value that every output takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tallystick.coordinates.audit.collection_checks import (
    collections_of,
    undecided_by_collection,
)
from tallystick.coordinates.audit.cut import Cut
from tallystick.coordinates.audit.incidents import IncidentKey, key_of
from tallystick.coordinates.results import (
    Finding,
    Incident,
    Observation,
    ObservationCode,
    Outcome,
    SubjectCheck,
    Verdict,
    verdict_now,
    verdict_of_run,
)
from tallystick.coordinates.rules.identity import instances_of
from tallystick.errors import ExitCode
from tallystick.runs.deduplicate import Deduplicated, deduplicate
from tallystick.runs.history import History
from tallystick.runs.rule_results import Key, RuleResult, rule_results

if TYPE_CHECKING:
    from tallystick.coordinates.rules.outcomes import Reason
    from tallystick.expectations.validation import CollectionValidation
    from tallystick.runs.scenario import ScenarioResult

FailOn = Literal["ever", "now"]

TABLES = "tables"
DATA_DOCS = "data_docs"


@dataclass(frozen=True, slots=True)
class Edge:
    """A replication channel: who sends to whom.

    Attributes:
        source: The sending instance, or its server_uuid when the audit does not observe it.
        replica: The receiving instance.
        channel: The channel's name on the replica, ``""`` is the default channel.
    """

    source: str
    replica: str
    channel: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSummary:
    """What was learned of a real server beside its logs.

    Attributes:
        version: What it is; empty when it could not be asked.
        address: Where it listens.
        account: As whom it was asked.
        problem: Why it could not be asked, empty when it could.
        rows: How many rows of log_status it returned.
        binlog_events: How many events of its binary log were read.
        relay_events: How many of its relay logs.
        unread: What could not be read, by part, with the server's error.
        grants: Statements that would grant the rights that its account lacks.
    """

    version: str
    address: str
    account: str
    problem: str
    rows: int
    binlog_events: int
    relay_events: int
    unread: Mapping[str, str]
    grants: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """The result of a run.

    Attributes:
        command: Which kind of run: ``demo``, ``audit``, ``check``, ``replay`` or ``report``.
        title: What was audited.
        begun_at: When it began.
        elapsed_s: How long it took, seconds.
        events: How many journal records were audited; None: not known any more.
        found: Each finding as the audit reported it, in the order of its evidence.
        incidents: The findings by rule, subject and cause, with what has become of each.
        observations: What else was seen, in the order of its evidence; with a history, in the time
            of these collections.
        cuts: The cut table; with a history, of the newest collections.
        checks: The table of checks: the outcome of each rule on each instance and channel at each
            collection, oldest first; what is broken is broken at all later ones.
        validations: The validator's answer for each collection, as in the table of that name.
        validation: Its whole answer for the collection that shows most, None when not asked.
        history: Sums of the whole period, where there are more collections than these.
        servers: Of real servers, by name.
        scenario: What a scenario was to show, and what it did; None when there was none.
        paths: What the run wrote, by what it is.
        fail_on: Which verdict the exit status is of: of the whole period (``ever``) or ``now``.
    """

    command: str
    title: str
    begun_at: datetime
    elapsed_s: float
    events: int | None
    found: Sequence[Finding]
    observations: Sequence[Observation]
    cuts: Sequence[Cut]
    incidents: Sequence[Incident] = ()
    checks: Sequence[SubjectCheck] = ()
    validations: Sequence[Mapping[str, Any]] = ()
    validation: CollectionValidation | None = None
    history: History | None = None
    servers: Mapping[str, ServerSummary] = field(default_factory=dict)
    scenario: ScenarioResult | None = None
    paths: Mapping[str, Path] = field(default_factory=dict)
    fail_on: FailOn = "ever"

    @cached_property
    def verdict(self) -> Verdict:
        """Of the whole period: findings, observations, rows and validations taken together."""
        validations = [Verdict(row["verdict"]) for row in self.validations]
        if self.validation is not None:
            validations.append(self.validation.verdict)
        rows = [Verdict(cut.verdict) for cut in self.cuts]
        if self.history is not None:
            rows += self.history.verdicts
        return verdict_of_run(self.found, self.observations, rows, validations)

    @cached_property
    def verdict_now(self) -> Verdict:
        """Of what is open and not acknowledged, and of the newest collection's evidence."""
        if not self.newest_cuts or (self.found and not self.incidents):
            return self.verdict  # tables of an earlier version have no incidents
        name, newest, _ = self._newest_closed
        validations = [
            Verdict(row["verdict"]) for row in self.validations if row["collection_id"] == name
        ]
        return verdict_now(
            self.incidents,
            self.newest_observations,
            [
                *(Verdict(cut.verdict) for cut in newest),
                *(Verdict.UNDECIDED for _ in self.newest_doubts),
            ],
            validations,
        )

    @cached_property
    def _newest_closed(self) -> tuple[str, Sequence[Cut], int]:
        """The newest closed collection: its id, its cuts, the time of the newest row before.

        One that is still open shows nothing of those that have not answered yet.
        """
        names = [rows[0].collection_id for rows in self.collections]
        begun = dict(
            zip(names, (min(c.ts for c in rows) for rows in self.collections), strict=True)
        )
        closed = {row["collection_id"]: row["ts"] for row in self.validations} or begun
        if not closed:
            return "", (), 0
        name = max(closed, key=lambda name: begun.get(name, closed[name]))
        at = names.index(name) if name in begun else len(names)
        newest = self.collections[at] if name in begun else ()
        since = max((cut.ts for rows in self.collections[:at] for cut in rows), default=0)
        return name, newest, since

    @property
    def closed_cuts(self) -> Sequence[Cut]:
        """The cuts of the newest collection that is closed."""
        return self._newest_closed[1]

    @property
    def newest_observations(self) -> list[Observation]:
        """Those of the newest collection that is closed, and those since the one before."""
        name, _, since = self._newest_closed
        return [o for o in self.observations if o.collection_id == name or o.ts > since]

    @property
    def newest_doubts(self) -> Sequence[SubjectCheck]:
        """The checks that leave the newest collection that is closed undecided.

        A comparison that cannot be decided is observed once, at the first row: later rows have
        only the check.
        """
        return self.undecided_checks.get(self._newest_closed[0], ())

    @cached_property
    def undecided_checks(self) -> dict[str, list[SubjectCheck]]:
        """The checks that leave a collection undecided, by collection."""
        return undecided_by_collection(self.checks, self.cuts)

    def incident_of(self, finding: Finding) -> Incident | None:
        """The incident that a finding belongs to; None where none is known."""
        alike = self._incidents_by_key.get(key_of(finding), ())
        earlier = [one for one in alike if one.opened_ts <= finding.ts]
        return earlier[-1] if earlier else next(iter(alike), None)

    @cached_property
    def _incidents_by_key(self) -> dict[IncidentKey, list[Incident]]:
        by_key: dict[IncidentKey, list[Incident]] = {}
        for one in sorted(self.incidents, key=lambda one: one.opened_ts):
            by_key.setdefault(key_of(one.finding), []).append(one)
        return by_key

    @property
    def exit_code(self) -> ExitCode:
        """Of the verdict; of a scenario, whether it showed what it was to show."""
        if self.scenario is not None:
            return ExitCode.CONSISTENT if self.scenario.is_shown else ExitCode.INCONSISTENT
        return ExitCode.of(self.verdict if self.fail_on == "ever" else self.verdict_now)

    @property
    def ended_at(self) -> datetime:
        """When it ended."""
        return self.begun_at + timedelta(seconds=self.elapsed_s)

    @cached_property
    def deduplicated(self) -> Deduplicated:
        """The findings, each contradiction once, and where else each was found."""
        return deduplicate(self.found, self.cuts)

    @property
    def findings(self) -> list[Finding]:
        """The findings, each contradiction once."""
        return self.deduplicated.findings

    @cached_property
    def collections(self) -> list[list[Cut]]:
        """The cuts of each collection, oldest collection first."""
        return collections_of(self.cuts)

    @property
    def newest_cuts(self) -> Sequence[Cut]:
        """The cuts of the newest collection."""
        return self.collections[-1] if self.collections else ()

    @cached_property
    def topology(self) -> list[Edge]:
        """The fleet's channels, as the newest row of each has them."""
        instances: dict[str, str] = {}
        channels: dict[tuple[str, str], Cut] = {}
        for cut in sorted(self.cuts, key=lambda cut: cut.ts):
            if cut.channel is not None and cut.source_uuid is not None:
                channels[cut.instance_id, cut.channel] = cut
            elif cut.server_uuid is not None:
                # Of two with one server_uuid, which is a finding of its own, the first counts.
                instances.setdefault(cut.server_uuid, cut.instance_id)
        return [
            Edge(instances.get(cut.source_uuid or "", cut.source_uuid or ""), replica, channel)
            for (replica, channel), cut in sorted(channels.items())
        ]

    @cached_property
    def rule_results(self) -> dict[str, list[RuleResult]]:
        """What was found of each rule on each instance, in the order of the registry."""
        broken: dict[Key, dict[str, Finding]] = {}
        for finding in self.findings:
            for one in (finding, *self.deduplicated.of(finding)):
                for instance in instances_of(one):
                    of_rule = broken.setdefault((instance, one.channel, one.rule), {})
                    of_rule[finding.finding_id] = finding
        by_key = {key: list(found.values()) for key, found in broken.items()}
        return rule_results(self.checks, self.cuts, by_key)

    @property
    def counts(self) -> dict[str, int]:
        """What was audited and found, by the names to show it with."""
        known = {} if self.events is None else {"events": self.events}
        counts = {
            "instances": len({cut.instance_id for cut in self.cuts}),
            "channels": len(
                {(c.instance_id, c.channel) for c in self.cuts if c.channel is not None}
            ),
            "collections": len(self.collections),
            "checks": sum(c.check.outcome is not Outcome.UNDECIDED for c in self.checks),
            "findings": len(self.findings),
            "observations": len(self.observations),
        }
        return known | counts | ({} if self.history is None else self.history.counts)

    @property
    def since(self) -> int | None:
        """Since when the verdict holds, in microseconds; None when nothing was collected."""
        times = [cut.ts for cut in self.cuts if cut.verdict == self.verdict.value]
        times += [finding.ts for finding in self.found]
        # An hour's first row may be older than what was found in it.
        if self.history is not None and not (self.found and times):
            times += self.history.since(self.verdict)
        if self.verdict is Verdict.UNDECIDED:
            # What was seen before any row, as messages that are gone, has no time of a journal.
            begun = min((cut.ts for cut in self.cuts), default=0)
            times += [max(begun, seen.ts) for seen in self.observations if seen.is_undecided]
        return min(times, default=None)


def doubt(
    reason: Reason, *, collection_id: str | None = None, ts: int = 0, **data: str
) -> Observation:
    """What leaves the verdict of a run undecided without being about one instance."""
    return Observation.of_no_record(
        ObservationCode.COMPARISON_UNDECIDED,
        collection_id or "the end",
        reason.code,
        data,
        collection_id=collection_id,
        ts=ts,
    )
