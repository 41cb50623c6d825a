"""The result of a run of the streaming job, read back from its tables."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.audit.collection_checks import (
    checks_of_finding,
    collections_of,
    rows_with_checks,
)
from tallystick.coordinates.results import Verdict, gravest
from tallystick.coordinates.rules.observations import VALIDATION_FAILED, VALIDATION_UNDECIDED
from tallystick.coordinates.values.errors import install_extra
from tallystick.errors import MisuseError
from tallystick.extras import missing_of_stream
from tallystick.runs.result import DATA_DOCS, TABLES, RunResult, doubt
from tallystick.runs.scenario import ScenarioResult
from tallystick.streaming.tables import (
    read_checks,
    read_cuts,
    read_findings,
    read_incidents,
    read_observations,
    read_validations,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tallystick.coordinates.audit.cut import Cut
    from tallystick.coordinates.results import Finding, Observation, SubjectCheck
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
    found, checks = read_findings(tables), read_checks(tables)
    shown = _shown(cuts, checks, found, validations)
    validation = validate(shown) if validate is not None and shown else None
    # After the validation, which may write them.
    docs = directory / DATA_DOCS / "site" / "index.html"
    return RunResult(
        command=command,
        title=title,
        begun_at=begun_at,
        elapsed_s=time.time() - begun_at.timestamp(),
        events=events,
        found=found,
        incidents=read_incidents(tables),
        observations=[*read_observations(tables), *doubts, *observations],
        cuts=cuts,
        checks=checks,
        validations=validations,
        validation=validation,
        scenario=ScenarioResult.load(directory),
        paths={TABLES: tables} | ({DATA_DOCS: docs} if docs.exists() else {}),
    )


def _shown(
    cuts: Sequence[Cut],
    checks: Sequence[SubjectCheck],
    found: Sequence[Finding],
    validations: Sequence[Mapping[str, Any]],
) -> list[Cut]:
    """The rows, with their checks, of the collection that shows most.

    With a finding it is the newest one, which has all of them; else the newest of the least
    certain.
    """
    rounds = {rows[0].collection_id: rows for rows in collections_of(cuts)}
    known = [row for row in validations if row["collection_id"] in rounds]
    if not known:
        return []
    worst = Verdict.merge(Verdict(row["verdict"]) for row in known).value
    names = [row["collection_id"] for row in known if found or row["verdict"] == worst]
    rows = rounds[names[-1]]
    of_collection = [one for one in checks if one.collection_id == names[-1]]
    breaches = (
        replace(one, collection_id=names[-1]) for each in found for one in checks_of_finding(each)
    )
    return rows_with_checks(rows, gravest([*of_collection, *breaches]))


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
    validate = None
    if missing is not None:
        notice(
            f"the page is without Great Expectations: {missing} is not installed."
            f" {install_extra('stream')}"
        )
    else:
        from tallystick.expectations.validate import CollectionValidator

        validate = CollectionValidator().validate
    return read_run(
        directory,
        command="report",
        title=str(directory),
        begun_at=datetime.now(timezone.utc),
        validate=validate,
    )
