"""What a run has written, read back: tables, verdict, report."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coordinates.verdict import Verdict
from expectations.report import Edge, ReportData, report_json
from tallystick.errors import MisuseError

if TYPE_CHECKING:
    from coordinates.cut import Cut
    from coordinates.replay import AuditResult
    from expectations.validation import CollectionValidation

TABLES = "tables"
DATA_DOCS = "data_docs"
REPORT = "report.html"
REPORT_JSON = "report.json"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run has to say.

    Attributes:
        data: Everything that the report shows.
        verdict: Findings, cuts, observations and every collection's validation taken together.
    """

    data: ReportData
    verdict: Verdict

    def to_json(self) -> dict[str, Any]:
        """The report as JSON values, under the verdict of everything."""
        return {**report_json(self.data), "verdict": self.verdict.value}


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
    from streaming import sinks

    cuts = sinks.read_cuts(tables)
    validations = sinks.read_validations(tables)
    data = ReportData(
        generated_at=datetime.now(timezone.utc),
        title=title,
        collections=by_collection(cuts),
        findings=sinks.read_findings(tables),
        observations=sinks.read_observations(tables),
        topology=edges(cuts),
        totals=totals or {},
        validation=validation,
        data_docs=data_docs,
    )
    said = (Verdict(row["verdict"]) for row in validations if row["reason"] != "no validator")
    return Outcome(data, _merge(data.verdict, said))


def outcome_of_replay(result: AuditResult, title: str) -> Outcome:
    """Put the result of an audit in memory into the form of a report."""
    data = ReportData(
        generated_at=datetime.now(timezone.utc),
        title=title,
        collections=by_collection(result.cuts),
        findings=result.findings,
        observations=result.observations,
        topology=edges(result.cuts),
        # The heartbeat at the end of each journal is ours, not the file's.
        totals={"events": result.events - len(result.instances)},
    )
    return Outcome(data, result.verdict)


def by_collection(cuts: Iterable[Cut]) -> list[list[Cut]]:
    """The cuts of each collection, oldest collection first."""
    grouped: dict[str, list[Cut]] = {}
    for cut in cuts:
        grouped.setdefault(cut.collection_id, []).append(cut)
    return sorted(grouped.values(), key=lambda rows: min(cut.ts for cut in rows))


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
    from expectations.report_page import render_report

    page = directory / REPORT
    try:
        directory.mkdir(parents=True, exist_ok=True)
        # What UTF-8 cannot spell (half a surrogate pair, which JSON can) is shown as an escape.
        page.write_text(render_report(outcome.data), "utf-8", "backslashreplace")
        (directory / REPORT_JSON).write_text(json.dumps(outcome.to_json(), indent=1), "utf-8")
    except OSError as error:
        raise MisuseError(f"{str(page)!r} cannot be written: {error.strerror}") from error
    return page


def doubted(outcome: Outcome) -> Outcome:
    """The outcome of a run that did not read all there was: it cannot be CONSISTENT."""
    return Outcome(outcome.data, _merge(outcome.verdict, [Verdict.UNDECIDED]))


def _merge(verdict: Verdict, others: Iterable[Verdict]) -> Verdict:
    return Verdict.merge([verdict, *others])
