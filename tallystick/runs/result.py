"""What a run has written, read back: tables, verdict, report."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.results import Observation, ObservationCode, Verdict
from tallystick.coordinates.rules.observations import (
    JOURNAL_NOT_READ,
    VALIDATION_FAILED,
    VALIDATION_UNDECIDED,
)
from tallystick.errors import MisuseError
from tallystick.outputs._view import Edge, ReportData, report_json
from tallystick.runs.deduplicate import tell_once, tell_states_once
from tallystick.runs.scenario_result import Demonstrated

if TYPE_CHECKING:
    from tallystick.coordinates.audit.cut import Cut
    from tallystick.coordinates.audit.replay import AuditResult
    from tallystick.coordinates.rules.outcomes import Reason
    from tallystick.expectations.validation import CollectionValidation

TABLES = "tables"
DATA_DOCS = "data_docs"
REPORT = "report.html"
REPORT_JSON = "report.json"
DEMONSTRATED = "demonstrated.json"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run has to say.

    Attributes:
        data: Everything that the report shows.
        verdict: Findings, cuts, observations and every collection's validation taken together.
        named: Of findings that are about several instances, by ``finding_id``, those instances.
    """

    data: ReportData
    verdict: Verdict
    named: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The report as JSON values, under the verdict of everything."""
        return {**report_json(self.data), "verdict": self.verdict.value}

    def with_demonstrated(self, demonstrated: Demonstrated) -> Outcome:
        """The outcome with what its run was to show."""
        return replace(self, data=replace(self.data, demonstrated=demonstrated))


def require_tables(tables: Path) -> None:
    """Refuse what is no run.

    Raises:
        MisuseError: There are no tables.
    """
    if not tables.is_dir():
        raise MisuseError(f"{str(tables)!r}: expected the tables of a run, there is no directory")


def outcome_of_tables(
    tables: Path,
    *,
    title: str,
    totals: Mapping[str, int] | None = None,
    validation: CollectionValidation | None = None,
    data_docs: str | None = None,
) -> Outcome:
    """Read the Parquet tables of a run.

    Args:
        tables: Where the run's sinks wrote them.
        title: What was audited.
        totals: Further counts worth telling.
        validation: Great Expectations' answer for the newest collection.
        data_docs: Where the Data Docs lie, relative to the report.
    """
    from tallystick.streaming import sinks

    cuts = sinks.read_cuts(tables)
    validations = sinks.read_validations(tables)
    doubts = [
        _doubt(
            VALIDATION_FAILED if row["reason"] else VALIDATION_UNDECIDED,
            row["collection_id"],
            row["ts"],
            error=row["reason"],
        )
        for row in validations
        if row["verdict"] == Verdict.UNDECIDED.value
    ]
    once = tell_once(tell_states_once(sinks.read_findings(tables), cuts), owners(cuts))
    data = ReportData(
        generated_at=datetime.now(timezone.utc),
        title=title,
        collections=by_collection(cuts),
        findings=once.findings,
        observations=[*sinks.read_observations(tables), *doubts],
        topology=edges(cuts),
        totals=totals or {},
        validation=validation,
        data_docs=data_docs,
    )
    said = (Verdict(row["verdict"]) for row in validations)
    return Outcome(data, Verdict.merge([data.verdict, *said]), once.instances)


def outcome_of_replay(result: AuditResult, title: str) -> Outcome:
    """Put the result of an audit in memory into the form of a report."""
    once = tell_once(tell_states_once(result.findings, result.cuts), owners(result.cuts))
    data = ReportData(
        generated_at=datetime.now(timezone.utc),
        title=title,
        collections=by_collection(result.cuts),
        findings=once.findings,
        observations=result.observations,
        topology=edges(result.cuts),
        # The heartbeat at the end of each journal is ours, not the file's.
        totals={"events": result.events - len(result.instances)},
    )
    return Outcome(data, result.verdict, once.instances)


def by_collection(cuts: Iterable[Cut]) -> list[list[Cut]]:
    """The cuts of each collection, oldest collection first."""
    grouped: dict[str, list[Cut]] = {}
    for cut in cuts:
        grouped.setdefault(cut.collection_id, []).append(cut)
    return sorted(grouped.values(), key=lambda rows: min(cut.ts for cut in rows))


def owners(cuts: Iterable[Cut]) -> dict[str, str]:
    """The instance of each ``server_uuid`` that rows tell; of two the first by name."""
    told = {(cut.server_uuid, cut.instance_id) for cut in cuts if cut.server_uuid is not None}
    return dict(sorted(told, reverse=True))


def edges(cuts: Sequence[Cut]) -> list[Edge]:
    """The fleet's channels, as the newest row of each tells them."""
    instances: dict[str, str] = {}
    channels: dict[tuple[str, str], Cut] = {}
    for cut in sorted(cuts, key=lambda cut: cut.ts):
        if cut.channel is not None and cut.source_uuid is not None:
            channels[cut.instance_id, cut.channel] = cut
        elif cut.server_uuid is not None:
            # Of two with one server_uuid, which is a finding of its own, the first stands.
            instances.setdefault(cut.server_uuid, cut.instance_id)
    return [
        Edge(instances.get(cut.source_uuid or "", cut.source_uuid or ""), replica, channel)
        for (replica, channel), cut in sorted(channels.items())
    ]


def write_report(outcome: Outcome, directory: Path) -> Path:
    """Write the page and its JSON twin; give the page.

    Raises:
        MisuseError: The directory cannot be written.
    """
    from tallystick.outputs.html import render_report

    page = directory / REPORT
    try:
        directory.mkdir(parents=True, exist_ok=True)
        # What UTF-8 cannot spell (half a surrogate pair, which JSON can) is shown as an escape.
        page.write_text(render_report(outcome.data), "utf-8", "backslashreplace")
        (directory / REPORT_JSON).write_text(json.dumps(outcome.to_json(), indent=1), "utf-8")
    except OSError as error:
        raise MisuseError(f"{str(page)!r} cannot be written: {error.strerror}") from error
    return page


def write_demonstrated(demonstrated: Demonstrated, directory: Path) -> None:
    """Keep what a run showed beside its tables, for reports that are rendered later.

    Raises:
        MisuseError: The directory cannot be written.
    """
    path = directory / DEMONSTRATED
    try:
        path.write_text(json.dumps(demonstrated.to_dict(), indent=1), "utf-8")
    except OSError as error:
        raise MisuseError(f"{str(path)!r} cannot be written: {error.strerror}") from error


def read_demonstrated(directory: Path) -> Demonstrated | None:
    """What a run showed; None when it was no demonstration.

    Raises:
        MisuseError: The file is not one that ``write_demonstrated`` wrote.
    """
    path = directory / DEMONSTRATED
    try:
        return Demonstrated.from_dict(json.loads(path.read_text("utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise MisuseError(f"{str(path)!r} cannot be read: {error}") from error


def doubted(outcome: Outcome) -> Outcome:
    """The outcome of a run that did not read all there was: it cannot be CONSISTENT."""
    seen = outcome.data.observations
    doubt = _doubt(JOURNAL_NOT_READ, None, 0)
    data = replace(outcome.data, observations=[*seen, doubt])
    verdict = Verdict.merge([outcome.verdict, Verdict.UNDECIDED])
    return replace(outcome, data=data, verdict=verdict)


def most_telling(
    known: CollectionValidation | None, new: CollectionValidation
) -> CollectionValidation:
    """The validation that a report shows: the gravest, the newest of equals."""
    if known is None or Verdict.merge([known.verdict, new.verdict]) is new.verdict:
        return new
    return known


def collection_to_show(tables: Path) -> str | None:
    """The collection whose validation a report shows, by the verdicts of the run."""
    from tallystick.streaming import sinks

    telling: dict[str, Any] | None = None
    for row in sinks.read_validations(tables):
        if telling is None or Verdict.merge(
            Verdict(each["verdict"]) for each in (telling, row)
        ) is Verdict(row["verdict"]):
            telling = row
    return None if telling is None else str(telling["collection_id"])


def _doubt(reason: Reason, collection_id: str | None, ts: int, **data: str) -> Observation:
    return Observation(
        code=ObservationCode.COMPARISON_UNDECIDED,
        instance_id="",
        channel=None,
        at=collection_id or "the end",
        reason=reason.code,
        data=data,
        rules=(),
        is_undecided=True,
        collection_id=collection_id,
        epoch=0,
        sequence=0,
        ts=ts,
    )
