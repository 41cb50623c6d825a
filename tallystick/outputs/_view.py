"""The report: one verdict, what it rests on, what broke and what to do; as data, text and a page.

It reads values only. The clock is an argument; what came from an instance is escaped where it is
shown, never before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

from tallystick.coordinates.audit.cut import Cut
from tallystick.coordinates.results import Finding, Observation, Severity, Verdict
from tallystick.coordinates.rules.catalogue import RULES
from tallystick.coordinates.rules.describe import written_in
from tallystick.coordinates.rules.explanation import (
    explain,
    finding_document,
    observation_document,
    reasons_of,
)
from tallystick.coordinates.rules.registry import Rule
from tallystick.expectations.neutral import printable
from tallystick.expectations.validation import CollectionValidation
from tallystick.runs.scenario_result import Demonstrated

SCHEMA_VERSION = 1
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_TEXT_FINDINGS_MAX = 20
_TEXT_LINE_MAX = 200


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


@dataclass(frozen=True, slots=True)
class ReportData:
    """Everything a report is made of.

    Attributes:
        generated_at: When it was made.
        title: What was audited.
        collections: The cuts of each collection, oldest first.
        findings: Broken invariants, oldest first.
        observations: What else was seen, oldest first.
        topology: The channels of the fleet.
        totals: Further counts worth telling, by their words: ``{"events audited": 120_000}``.
        validation: Great Expectations' answer for the newest collection, None when not asked.
        data_docs: Where the Data Docs lie, relative to the report; None when there are none.
        demonstrated: What was to be shown and what was; None when nothing was.
    """

    generated_at: datetime
    title: str
    collections: Sequence[Sequence[Cut]]
    findings: Sequence[Finding] = ()
    observations: Sequence[Observation] = ()
    topology: Sequence[Edge] = ()
    totals: Mapping[str, int] = field(default_factory=dict)
    validation: CollectionValidation | None = None
    data_docs: str | None = None
    demonstrated: Demonstrated | None = None

    @property
    def verdict(self) -> Verdict:
        """INCONSISTENT with any finding; CONSISTENT when every cut is and nothing is in doubt."""
        if self.findings:
            return Verdict.INCONSISTENT
        verdicts = [Verdict(cut.verdict) for cuts in self.collections for cut in cuts]
        verdicts += [Verdict.UNDECIDED for seen in self.observations if seen.is_undecided]
        if self.validation is not None:
            verdicts.append(self.validation.verdict)
        return Verdict.merge(verdicts)

    @property
    def since(self) -> int | None:
        """Since when the verdict holds, in microseconds; None when nothing was collected."""
        verdict = self.verdict
        times = [cut.ts for cuts in self.collections for cut in cuts if cut.verdict == verdict]
        times += [finding.ts for finding in self.findings]
        if verdict is Verdict.UNDECIDED:
            times += [seen.ts for seen in self.observations if seen.is_undecided]
        return min(times, default=None)


@dataclass(frozen=True, slots=True)
class CollectionSummary:
    """One collection in one line."""

    collection_id: str
    ts: int
    verdict: Verdict
    rows: int
    by_instance: Mapping[str, Verdict]
    """The verdict on each instance, its channels included."""
    by_channel: Mapping[tuple[str, str], Verdict]


@dataclass(frozen=True, slots=True)
class BrokenRule:
    """The findings of one invariant, with what the registry says about it."""

    name: str
    severity: Severity
    rule: Rule | None
    findings: tuple[Finding, ...]


def summaries(data: ReportData) -> list[CollectionSummary]:
    """Sum up each collection: its cuts, and the findings of the fleet that name it."""
    blamed = _blamed(data)
    made = []
    for cuts in data.collections:
        if not cuts:
            continue
        collection_id = cuts[0].collection_id
        instances: dict[str, list[Verdict]] = {}
        channels: dict[tuple[str, str], list[Verdict]] = {}
        for cut in cuts:
            verdict = Verdict(cut.verdict)
            instances.setdefault(cut.instance_id, []).append(verdict)
            if cut.channel is not None:
                channels.setdefault((cut.instance_id, cut.channel), []).append(verdict)
        for finding in blamed.get(collection_id, ()):
            instances.setdefault(finding.instance_id, []).append(Verdict.INCONSISTENT)
            if finding.channel is not None:
                key = (finding.instance_id, finding.channel)
                channels.setdefault(key, []).append(Verdict.INCONSISTENT)
        by_instance = {name: Verdict.merge(seen) for name, seen in instances.items()}
        made.append(
            CollectionSummary(
                collection_id,
                max(cut.ts for cut in cuts),
                Verdict.merge(by_instance.values()),
                len(cuts),
                by_instance,
                {key: Verdict.merge(seen) for key, seen in channels.items()},
            )
        )
    return made


def _blamed(data: ReportData) -> dict[str, list[Finding]]:
    """Findings by collection; one of the journal itself counts to the collection that follows."""
    ends = [
        (max(cut.ts for cut in cuts), cuts[0].collection_id) for cuts in data.collections if cuts
    ]
    blamed: dict[str, list[Finding]] = {}
    for finding in data.findings:
        collection_id = finding.collection_id
        if collection_id is None:
            later = [name for ts, name in ends if ts >= finding.ts]
            collection_id = later[0] if later else ends[-1][1] if ends else ""
        blamed.setdefault(collection_id, []).append(finding)
    return blamed


def broken_invariants(findings: Sequence[Finding]) -> list[BrokenRule]:
    """Group findings by invariant, the gravest first, then in the order of the registry."""
    grouped: dict[str, list[Finding]] = {}
    for finding in findings:
        grouped.setdefault(finding.rule, []).append(finding)
    made = [
        BrokenRule(name, group[0].severity, RULES.get(name), tuple(group))
        for name, group in grouped.items()
    ]
    gravity = list(Severity)
    return sorted(
        made,
        key=lambda b: (
            gravity.index(b.severity),
            b.rule.number if b.rule is not None else 0,
            b.name,
        ),
    )


def report_json(data: ReportData) -> dict[str, Any]:
    """Give the report as JSON values: the same contents, nothing cut short."""
    since = data.since
    return {
        "schema_version": SCHEMA_VERSION,
        "title": data.title,
        "generated_at": data.generated_at.isoformat(),
        "verdict": data.verdict.value,
        "since": None if since is None else moment(since),
        "totals": {**counts(data), **data.totals},
        "collections": [
            {
                "collection_id": summary.collection_id,
                "at": moment(summary.ts),
                "verdict": summary.verdict.value,
                "rows": summary.rows,
            }
            for summary in summaries(data)
        ],
        "findings": [_finding_json(finding) for finding in data.findings],
        "observations": [observation_document(seen) for seen in data.observations],
        "topology": [asdict(edge) for edge in data.topology],
        "newest_cuts": [asdict(cut) for cut in newest_cuts(data)],
        "validation": None if data.validation is None else data.validation.to_dict(),
        "data_docs": data.data_docs,
        "demonstrated": None if data.demonstrated is None else data.demonstrated.to_dict(),
    }


def _finding_json(finding: Finding) -> dict[str, Any]:
    """A finding with where it is written that healthy servers keep the invariant."""
    invariant = RULES.get(finding.rule)
    sources = [] if invariant is None else list(written_in(invariant))
    return {**finding_document(finding), "written_in": sources}


def report_text(data: ReportData) -> str:
    """Sum the report up for a terminal; no character in it can move the cursor."""
    numbers = counts(data)
    since = "" if data.since is None else f" since {moment(data.since)}"
    lines = [
        f"{data.verdict.value}{since}: {data.title}",
        ", ".join(f"{number:,} {words}" for words, number in {**numbers, **data.totals}.items()),
    ]
    shown = 0
    for group in broken_invariants(data.findings):
        if shown >= _TEXT_FINDINGS_MAX:
            break
        lines += ["", f"{group.severity.value.upper()} {group.name} ({len(group.findings)})"]
        for finding in group.findings[: _TEXT_FINDINGS_MAX - shown]:
            shown += 1
            texts = explain(finding)
            channel = (
                "" if finding.channel is None else f", channel {channel_name(finding.channel)},"
            )
            lines += [
                f"  {finding.instance_id}{channel} at {finding.at}: {texts.sentence}",
                f"    observed, {texts.observed_in}: {texts.observed}",
                f"    expected, {texts.expected_in}: {texts.expected}",
            ]
        if group.rule is not None:
            lines.append(f"  Written in: {'; '.join(written_in(group.rule))}")
            lines.append(f"  What to do: {group.rule.remedy}")
    if shown < len(data.findings):
        lines.append(f"  and {len(data.findings) - shown} more findings")
    told = Counter(observation.code.value for observation in data.observations)
    if told:
        lines += ["", "Observed: " + ", ".join(f"{n} {code}" for code, n in told.items())]
    open_rows = [cut for cut in newest_cuts(data) if cut.undecided or cut.reason]
    if open_rows:
        lines += ["", "Undecided in the newest collection:"]
        lines += [f"  {row_name(cut)}: {reasons_of(cut)}" for cut in open_rows]
    return "\n".join(_line(line) for line in lines) + "\n"


def counts(data: ReportData) -> dict[str, int]:
    """Count what the report shows, by the words to show it with."""
    cuts = [cut for collection in data.collections for cut in collection]
    return {
        "instances": len({cut.instance_id for cut in cuts}),
        "channels": len({(c.instance_id, c.channel) for c in cuts if c.channel is not None}),
        "collections": sum(1 for collection in data.collections if collection),
        "checks": sum(cut.evaluated for cut in cuts),
        "findings": len(data.findings),
        "observations": len(data.observations),
    }


def newest_cuts(data: ReportData) -> Sequence[Cut]:
    """Give the cuts of the newest collection that has any."""
    return next((cuts for cuts in reversed(data.collections) if cuts), ())


def row_name(cut: Cut) -> str:
    """Name a row of the cut table."""
    if cut.channel is None:
        return cut.instance_id
    return f"{cut.instance_id}, channel {channel_name(cut.channel)}"


def channel_name(channel: str) -> str:
    """Name a channel: the default one has no name of its own."""
    return channel or "(default)"


def moment(ts: int) -> str:
    """Write microseconds since 1970 in UTC; as a number where a calendar ends."""
    try:
        at = _EPOCH + timedelta(microseconds=ts)
    except OverflowError:
        return f"{ts} µs"
    return at.strftime("%Y-%m-%d %H:%M:%S") + " UTC"


def _line(text: str) -> str:
    cut = text if len(text) <= _TEXT_LINE_MAX else text[:_TEXT_LINE_MAX] + "…"
    return printable(cut)
