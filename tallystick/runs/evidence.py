"""Evidence for answers: a job's tables, a journal, or real servers that are asked now."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tallystick.coordinates.answers.diff import ERRANT_RULE
from tallystick.coordinates.answers.evidence import Evidence
from tallystick.coordinates.answers.group_log import GroupLog
from tallystick.coordinates.answers.newest import newest_of
from tallystick.runs.tables import run_directory, tables_of

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from tallystick.coordinates.audit.cut import Cut
    from tallystick.coordinates.results import SubjectCheck
    from tallystick.runs.result import RunResult
    from tallystick.servers.discovery import DiscoveredServer


def of_job(directory: Path, what: str) -> Evidence:
    """The newest row of each instance in a job's tables.

    Args:
        directory: The run's own, or that of the state of runs, whose audit it is then.
        what: What asks, for an error.

    Raises:
        MisuseError: There are no tables.
        MissingExtraError: What reads them is not installed.
        TableError: They are damaged, or of another version.
    """
    tables = tables_of(run_directory(directory), what)
    from tallystick.streaming.answers import ANSWER_US
    from tallystick.streaming.newest_rows import read_newest, read_newest_checks, read_open
    from tallystick.streaming.table_reader import read_incidents

    cuts, written = read_newest(tables)
    now_us = _now_us()
    overdue = [one for one in read_open(tables, written) if written[one] + ANSWER_US < now_us]
    # Incidents last: none that a row belongs to is missed.
    return Evidence(
        kind="job",
        source=str(tables.parent),
        now_us=now_us,
        instances=newest_of(cuts, written, overdue),
        checks=_by_subject(read_newest_checks(tables, ERRANT_RULE)),
        incidents=read_incidents(tables),
    )


def rows_of_job(directory: Path, instance_id: str) -> list[Cut]:
    """All rows of an instance in a job's tables, in the order of its journal."""
    from tallystick.streaming.newest_rows import read_positions

    return read_positions(run_directory(directory) / "tables", instance_id)


def of_journal(files: Sequence[str]) -> Evidence:
    """Journals as JSON Lines, replayed.

    Raises:
        MisuseError: One cannot be read.
    """
    from tallystick.runs.replay import replay

    log = GroupLog()
    result = replay(files, frozenset(), history_goes_on=True, tap=log.absorb)
    return _of_result(result, "journal", log)


def of_servers(
    servers: Sequence[DiscoveredServer],
    *,
    notice: Callable[[str], None],
    interrupted: threading.Event,
    progress: Callable[[str], None],
) -> Evidence | None:
    """Real servers, asked twice: what a source had purged is known before its replicas answer.

    Returns:
        None if it was interrupted.

    Raises:
        AuditError: A tail ended by an error.
    """
    from tallystick.runs.check import FleetCheck

    log = GroupLog()
    result = FleetCheck(servers, notice=notice, tap=log.absorb).run(
        collections=2, interval_s=0.5, interrupted=interrupted, progress=progress
    )
    return None if result is None else _of_result(result, "servers", log)


def _of_result(result: RunResult, kind: str, log: GroupLog) -> Evidence:
    return Evidence(
        kind=kind,
        source=result.title,
        now_us=_now_us(),
        instances=newest_of(result.cuts, {}),
        checks=_by_subject(one for one in result.checks if one.check.rule == ERRANT_RULE),
        incidents=result.incidents,
        group_log=log,
    )


def _by_subject(checks: Iterable[SubjectCheck]) -> dict[tuple[str, str], SubjectCheck]:
    """The newest check of each rule on each instance."""
    found: dict[tuple[str, str], SubjectCheck] = {}
    for one in checks:
        key = one.instance_id, one.check.rule
        if key not in found or found[key].ts <= one.ts:
            found[key] = one
    return found


def _now_us() -> int:
    return time.time_ns() // 1_000
