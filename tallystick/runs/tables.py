"""The result of a run of the streaming job, read back from its tables."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from tallystick.coordinates.audit.collection_checks import CollectionChecks
from tallystick.coordinates.results import Verdict
from tallystick.coordinates.rules.observations import VALIDATION_FAILED, VALIDATION_UNDECIDED
from tallystick.coordinates.values.errors import install_extra
from tallystick.errors import MisuseError
from tallystick.extras import missing_of_stream
from tallystick.runs.result import DATA_DOCS, TABLES, RunResult, doubt
from tallystick.runs.scenario import ScenarioResult
from tallystick.streaming.tables import (
    read_cuts,
    read_findings,
    read_observations,
    read_validations,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tallystick.coordinates.audit.cut import Cut
    from tallystick.coordinates.results import Finding, Observation
    from tallystick.expectations.validation import CollectionValidation


def read_run(
    directory: Path,
    *,
    command: str,
    title: str,
    begun_at: datetime,
    events: int | None = None,
    observations: Sequence[Observation] = (),
    validate: Callable[[Sequence[Cut]], CollectionValidation] | None = None,
) -> RunResult:
    """Read a run's directory.

    Args:
        directory: The run's own.
        command: Which kind of run.
        title: What was audited.
        begun_at: When it began.
        events: How many journal records were audited; None: not known any more.
        observations: What was seen beside what the tables have.
        validate: Validates the collection that shows most again, for its whole answer.
    """
    tables = directory / TABLES
    cuts, validations = read_cuts(tables), read_validations(tables)
    doubts = [
        doubt(
            VALIDATION_FAILED if row["reason"] else VALIDATION_UNDECIDED,
            collection_id=row["collection_id"],
            ts=row["ts"],
            error=row["reason"],
        )
        for row in validations
        if row["verdict"] == Verdict.UNDECIDED.value
    ]
    # The gravest, the newest of equals.
    gravest = Verdict.merge(Verdict(row["verdict"]) for row in validations)
    names = [r["collection_id"] for r in validations if r["verdict"] == gravest.value]
    found, seen = read_findings(tables), read_observations(tables)
    shown = _with_checks(names[-1], cuts, found, seen) if names else []
    docs = directory / DATA_DOCS / "site" / "index.html"
    return RunResult(
        command=command,
        title=title,
        begun_at=begun_at,
        elapsed_s=time.time() - begun_at.timestamp(),
        events=events,
        found=found,
        observations=[*seen, *doubts, *observations],
        cuts=cuts,
        validations=validations,
        validation=validate(shown) if validate is not None and shown else None,
        scenario=ScenarioResult.load(directory),
        paths={TABLES: tables} | ({DATA_DOCS: docs} if docs.exists() else {}),
    )


def _with_checks(
    collection_id: str, cuts: Sequence[Cut], found: Sequence[Finding], seen: Sequence[Observation]
) -> list[Cut]:
    """The rows of a collection, each with the checks of all rules on its subject."""
    rows = [cut for cut in cuts if cut.collection_id == collection_id]
    ts = max((cut.ts for cut in rows), default=0)
    earlier = max((cut.ts for cut in cuts if cut.ts < min(row.ts for row in rows)), default=-1)
    checks = CollectionChecks()
    checks.absorb(found, (one for one in seen if one.ts > earlier))
    return checks.of(rows, is_last=all(cut.ts <= ts for cut in cuts))


def require_tables(directory: Path) -> None:
    """Return when a directory is that of a run.

    Raises:
        MisuseError: It has no tables.
    """
    tables = directory / TABLES
    if not tables.is_dir():
        raise MisuseError(f"{str(tables)!r}: expected the tables of a run, there is no directory")


def report(directory: Path, notice: Callable[[str], None]) -> RunResult:
    """The result of an earlier run, from its directory.

    Args:
        directory: The run's own.
        notice: Takes a line about what is missing.
    """
    missing = missing_of_stream()
    if missing is not None:
        notice(
            f"the page is without Great Expectations: {missing} is not installed."
            f" {install_extra('stream')}"
        )
    return read_run(
        directory,
        command="report",
        title=str(directory),
        begun_at=datetime.now(timezone.utc),
        validate=None if missing is not None else validator(),
    )


def validator() -> Callable[[Sequence[Cut]], CollectionValidation]:
    """Great Expectations, without Data Docs."""
    from tallystick.expectations.validate import CollectionValidator

    return CollectionValidator().validate
