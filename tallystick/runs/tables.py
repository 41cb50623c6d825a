"""The result of a run of the streaming job, read back from its tables.

Only the newest collections are read in detail; of those before there are sums of hours.
"""

from __future__ import annotations

import time
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from tallystick.coordinates.audit.collection_checks import (
    checks_of_finding,
    collections_of,
    rows_with_checks,
)
from tallystick.coordinates.results import Verdict, gravest
from tallystick.coordinates.rules.observations import (
    COLLECTIONS_OPEN,
    VALIDATION_FAILED,
    VALIDATION_UNDECIDED,
)
from tallystick.coordinates.values.errors import install_extra
from tallystick.errors import MisuseError
from tallystick.extras import missing_packages, require_extra
from tallystick.runs.history import History
from tallystick.runs.result import DATA_DOCS, TABLES, RunResult, doubt
from tallystick.runs.scenario import ScenarioResult

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
    collections: int | None = None,
    upto: int | None = None,
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
        collections: So many newest collections are read in detail; None: all.
        upto: The result as of that time, microseconds; None: of all.
    """
    from tallystick.streaming import table_reader as reader

    tables = directory / TABLES
    shown = reader.newest_collections(tables, collections, upto)
    # Before the rest: all of a collection was committed before its validation.
    validations = reader.read_validations(tables, shown)
    cuts = reader.read_cuts(tables, shown)
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
    found, checks = reader.read_findings(tables, upto), reader.read_checks(tables, shown)
    rows = reader.read_observations(tables, upto)
    of_all = _history(tables, rows, upto)
    is_all = shown.is_whole and len(shown.names) >= of_all.collections
    history = None if is_all else of_all
    if is_all and cuts and not (validations or shown.has_end):
        doubts.append(doubt(COLLECTIONS_OPEN, ts=max(cut.ts for cut in cuts)))
    if not is_all:
        rows = rows.filter(pc.greater_equal(rows["ts"], pa.scalar(shown.first_ts, rows["ts"].type)))
    validated = _shown(cuts, checks, found, validations)
    validation = validate(validated) if validate is not None and validated else None
    # After the validation, which may write them.
    docs = directory / DATA_DOCS / "site" / "index.html"
    return RunResult(
        command=command,
        title=title,
        begun_at=begun_at,
        elapsed_s=time.time() - begun_at.timestamp(),
        events=events,
        found=found,
        incidents=reader.read_incidents(tables, upto),
        observations=[*reader.observations_of(rows), *doubts, *observations],
        cuts=cuts,
        checks=checks,
        validations=validations,
        validation=validation,
        history=history,
        scenario=ScenarioResult.load(directory),
        paths={TABLES: tables} | ({DATA_DOCS: docs} if docs.exists() else {}),
    )


def _history(tables: Path, observations: pa.Table, upto: int | None) -> History:
    """Sums of the hours that had ended until then."""
    from tallystick.streaming.hours import HOUR_US, read_hours
    from tallystick.streaming.tables import plain

    hours = plain(read_hours(tables))
    if upto is not None:
        hours = hours.filter(pc.less_equal(hours["hour"], upto - HOUR_US))
    doubts = observations.filter(observations["is_undecided"])["ts"].cast(pa.int64()).to_numpy()
    return History(hours, len(observations), doubts)


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
        one._replace(collection_id=names[-1]) for each in found for one in checks_of_finding(each)
    )
    return rows_with_checks(rows, gravest([*of_collection, *breaches]))


def tables_of(directory: Path, what: str) -> Path:
    """The tables of a run, which can be read.

    Args:
        directory: The run's own.
        what: What reads them: ``tallystick report``.

    Raises:
        MisuseError: It has none.
        MissingExtraError: What reads them is not installed.
    """
    tables = directory / TABLES
    if not tables.is_dir():
        raise MisuseError(f"{str(tables)!r}: expected the tables of a run, there is no directory")
    require_extra("tables", what)
    return tables


def run_directory(directory: Path) -> Path:
    """The run in a directory: its own, or the audit's in a directory of state."""
    audit = directory / "audit"
    return audit if not (directory / TABLES).is_dir() and (audit / TABLES).is_dir() else directory


def report(
    directory: Path,
    notice: Callable[[str], None],
    *,
    collections: int | None = None,
    at: datetime | None = None,
    collection_id: str | None = None,
) -> RunResult:
    """The result of an earlier run, from its directory.

    Args:
        directory: The run's own.
        notice: Takes a line about what is missing.
        collections: So many newest collections are in it in detail; None: all.
        at: The result as of that time; None: of all.
        collection_id: The result as of that collection; None: of all.

    Raises:
        MisuseError: It has no tables, or not that collection.
        MissingExtraError: What reads them is not installed.
    """
    tables = tables_of(directory, "tallystick report")
    from tallystick.streaming.table_reader import collection_time

    upto = None if at is None else int(at.timestamp() * 1_000_000)
    if collection_id is not None:
        upto = collection_time(tables, collection_id)
        if upto is None:
            raise MisuseError(f"--collection {collection_id!r}: the tables have no row of it")
    missing = missing_packages("stream")
    validate = None
    if missing:
        notice(
            f"the page is without Great Expectations: {missing[0]} is not installed."
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
        collections=collections,
        upto=upto,
    )
