"""Measure the report of a year with a collection each minute, and what a micro-batch's tables cost.

The year is synthetic, written as the job leaves it: details of the days that are kept (the checks
that held are summed for these only), findings, observations and sums of hours of all. A source has
two replicas; rows break a rule for hours, and an instance does not answer for hours. Then one
micro-batch with a collection, committed to the tables and, in turn, written as Parquet files.

Run with: python -m benchmarks.report [--days N] [--directory PATH]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, Transaction, write_deltalake

from tallystick.coordinates.audit.cut import Cut
from tallystick.coordinates.results import (
    Check,
    Finding,
    Observation,
    ObservationCode,
    Outcome,
    Severity,
    SubjectCheck,
)
from tallystick.coordinates.rules.catalogue import RULES
from tallystick.outputs.html import write as write_page
from tallystick.outputs.json import write as write_json
from tallystick.runs.result import TABLES as DIRECTORY
from tallystick.runs.tables import read_run
from tallystick.settings import Settings
from tallystick.streaming.delta_table import made
from tallystick.streaming.hours import sums_of_hours
from tallystick.streaming.table_sink import TableSink
from tallystick.streaming.tables import (
    CHECKS,
    CUTS,
    FINDINGS,
    HOURS,
    OBSERVATIONS,
    TABLES,
    TIMESTAMP,
    VALIDATIONS,
    TableKind,
    arrow_rows,
    values_of,
)

MINUTE_US, OF_DAY = 60_000_000, 1440
UUIDS = {name: f"{n:08x}-71ca-11e1-9e33-c80aa9429562" for n, name in enumerate("abc")}
SUBJECTS = (("a", None), ("b", None), ("b", ""), ("c", None), ("c", ""))
RUN = "year"
T = TypeVar("T")


@dataclass(frozen=True)
class Trouble:
    """Something that is not as it should be from one minute of the year to another."""

    first: int
    last: int
    subject: int
    is_broken: bool


def troubles(days: int) -> list[Trouble]:
    """One or two a week, of minutes to hours."""
    rng = np.random.default_rng(7)
    starts = np.sort(rng.integers(0, days * OF_DAY, days // 5 + 1))
    return [
        Trouble(int(s), int(s + rng.integers(2, 400)), int(rng.integers(1, 5)), bool(n % 2))
        for n, s in enumerate(starts)
    ]


def row_of(subject: int) -> Cut:
    """A healthy row."""
    instance, channel = SUBJECTS[subject]
    gtids = f"{UUIDS['a']}:1-{10**7}"
    scope = "instance" if channel is None else "channel"
    rules = [
        rule.name
        for rule in RULES.values()
        if rule.evidence is not None and rule.evidence.scope in (scope, None)
    ]
    checks = tuple(Check(name, Outcome.HOLDS) for name in rules)
    common = {"instance_id": instance, "scope": scope, "channel": channel, "checks": checks}
    if channel is None:
        return Cut(
            collection_id="", verdict="CONSISTENT", server_uuid=UUIDS[instance],
            binary_log_file="binlog.000042", binary_log_position=4711, gtid_executed=gtids,
            gtid_purged="", gtid_owned="", lsn=2**40, lsn_checkpoint=2**40 - 512,
            journal_gtid_set=gtids, journal_binary_log_file="binlog.000042",
            journal_binary_log_position=4711, **common,
        )  # fmt: skip
    return Cut(
        collection_id="", verdict="CONSISTENT", source_uuid=UUIDS["a"],
        relay_log_file="relay.000007", relay_log_position=815, retrieved_gtid_set=gtids,
        read_source_log_file="binlog.000042", read_source_log_pos=4711, **common,
    )  # fmt: skip


def rows_of(kind: TableKind, values: list[object]) -> pa.Table:
    """Values as rows of a table; of a day there may be none."""
    return arrow_rows(kind, values) if values else kind.schema.empty_table()


def repeated(kind: TableKind, values: list[object], ids: pa.Array, times: np.ndarray) -> pa.Table:
    """The same rows at each of some collections."""
    rows = rows_of(kind, values)
    at = np.repeat(np.arange(len(ids)), len(rows))
    table = rows.take(np.tile(np.arange(len(rows)), len(ids)))
    for name, column in (
        ("collection_id", ids.take(at)),
        ("ts", pa.array(times[at]).cast(TIMESTAMP)),
    ):
        index = table.schema.get_field_index(name)
        table = table.set_column(index, kind.schema.field(name), column)
    return table


@dataclass(frozen=True)
class Day:
    """All rows of one day, by table."""

    tables: dict[TableKind, pa.Table]
    end_us: int


def errant(one: Trouble) -> dict[str, str]:
    """Both sides of a GTID that no log has."""
    executed = f"{UUIDS['b']}:{one.first}"
    return {
        "excess": executed, "executed": executed, "logged": "", "position": "binlog.000042:4711",
    }  # fmt: skip


def days_of(days: int, end_us: int, details_days: int) -> Iterator[Day]:
    """A history of some days until a time; checks only of the last ones."""
    all_troubles = troubles(days)
    subject_checks = [
        SubjectCheck(*SUBJECTS[0], "", 0, Check(name, Outcome.HOLDS)) for name in RULES
    ]
    checks = [
        one._replace(instance_id=instance, channel=channel)
        for one in subject_checks
        for instance, channel in SUBJECTS
    ]
    cuts = list(map(row_of, range(len(SUBJECTS))))
    for day in range(days):
        minutes = np.arange(day * OF_DAY, (day + 1) * OF_DAY)
        times = end_us - (days * OF_DAY - minutes) * MINUTE_US
        ids = pa.array([f"c-{minute:07d}" for minute in minutes])
        verdicts = np.full((OF_DAY, len(SUBJECTS)), "CONSISTENT", dtype=object)
        answers = np.full(verdicts.shape, "row", dtype=object)
        findings: list[Finding] = []
        observations: list[Observation] = []
        for one in all_troubles:
            instance, channel = SUBJECTS[one.subject]
            for minute in range(max(one.first, minutes[0]), min(one.last, minutes[-1] + 1)):
                at = minute - minutes[0]
                name, ts = f"c-{minute:07d}", int(times[at])
                if one.is_broken:
                    verdicts[at, one.subject] = "INCONSISTENT"
                    findings.append(
                        Finding(
                            *("executed_within_logged", "not_logged", Severity.CRITICAL),
                            *(instance, channel, name, f"{UUIDS['b']}:{one.first}"),
                            errant(one),
                            *(name, 1, minute, ts),
                        )
                    )
                else:
                    verdicts[at, one.subject] = "UNDECIDED"
                    answers[at, one.subject] = "missing"
                    observations.append(
                        Observation(
                            *(ObservationCode.LOG_STATUS_MISSING, instance, channel, name),
                            *("log_status_missing", {}, (), True, name, 1, minute, ts),
                        )
                    )
        of_cuts = repeated(CUTS, cuts, ids, times)
        for name, values in (("verdict", verdicts), ("answer", answers)):
            index = of_cuts.schema.get_field_index(name)
            of_cuts = of_cuts.set_column(index, name, pa.array(values.ravel(), pa.string()))
        worst = [
            next((v for v in ("INCONSISTENT", "UNDECIDED") if v in row), "CONSISTENT")
            for row in verdicts
        ]
        answer = {"collection_id": "", "verdict": "", "reason": "", "instances": 3, "missing": 0,
                  "is_late": False, "ts": 0}  # fmt: skip
        validations = repeated(VALIDATIONS, [answer], ids, times)
        yield Day(
            {
                CUTS: of_cuts,
                CHECKS: repeated(CHECKS, checks if day >= days - details_days else [], ids, times),
                VALIDATIONS: validations.set_column(1, "verdict", pa.array(worst)),
                FINDINGS: rows_of(FINDINGS, findings),
                OBSERVATIONS: rows_of(OBSERVATIONS, observations),
            },
            int(times[-1]),
        )


def make_history(directory: Path, days: int, details_days: int) -> None:
    """Write a history as the job leaves it."""
    end_us = time.time_ns() // 1000 // MINUTE_US * MINUTE_US
    kept: dict[TableKind, list[pa.Table]] = {}
    for number, day in enumerate(days_of(days, end_us, details_days)):
        is_detailed = number >= days - details_days
        tables = {
            kind: rows for kind, rows in day.tables.items() if is_detailed or not kind.is_detail
        }
        tables[HOURS] = sums_of_hours(*(day.tables[kind] for kind in (CUTS, CHECKS, VALIDATIONS)))
        for kind, rows in tables.items():
            columns = {name: rows[name] for name in rows.column_names}
            written = pa.table(
                {
                    **columns,
                    "run": pa.repeat(pa.scalar(RUN), len(rows)),
                    "batch": pa.repeat(pa.scalar(number), len(rows)),
                    "written_at": pa.repeat(pa.scalar(day.end_us, TIMESTAMP), len(rows)),
                }
            )
            if kind.is_detail:
                write(directory, kind, written, number)
            else:
                kept.setdefault(kind, []).append(written)
    for kind, all_rows in kept.items():
        write(directory, kind, pa.concat_tables(all_rows), days)


def write(directory: Path, kind: TableKind, rows: pa.Table, number: int) -> None:
    """Commit rows."""
    properties = CommitProperties(app_transactions=[Transaction(RUN, number)])
    write_deltalake(made(directory, kind), rows, mode="append", commit_properties=properties)


def size_of(directory: Path) -> float:
    """Megabytes."""
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file()) / 1e6


def measure_report(directory: Path) -> None:
    """Read the run, write the page and the document."""
    collections = Settings.model_fields["report_collections"].default
    result = measured(
        "read",
        lambda: read_run(
            directory, command="report", title="A year", begun_at=datetime.now(timezone.utc),
            collections=collections,
        ),
    )  # fmt: skip
    measured("page", lambda: write_page(result, str(directory / "report.html")))
    measured("document", lambda: write_json(result, str(directory / "report.json")))
    print("  ".join(f"{number:,} {noun}" for noun, number in result.counts.items()))
    for name in ("report.html", "report.json"):
        print(f"{name} {(directory / name).stat().st_size // 1000} kB")


def measured(name: str, act: Callable[[], T]) -> T:
    """Print how long it takes, and of how much processor time."""
    begun, cpu = time.perf_counter(), time.process_time()
    made = act()
    print(
        f"{name:<9} {time.perf_counter() - begun:6.2f} s, processor {time.process_time() - cpu:.2f}"
    )
    return made


def measure_micro_batches(directory: Path, count: int) -> None:
    """Commits to the tables and Parquet files, in turn: a collection's cuts, checks, validation."""
    [day] = days_of(1, 10**15, 1)
    of_one = {
        kind: day.tables[kind].slice(0, len(day.tables[kind]) // OF_DAY)
        for kind in (CUTS, CHECKS, VALIDATIONS)
    }
    values = {kind.name: values_of(kind, rows) for kind, rows in of_one.items()}
    sink = TableSink(directory, "measured")
    times: dict[str, list[tuple[float, float]]] = {"tables": [], "files": []}
    for number in range(count):
        begun, cpu = time.perf_counter(), time.process_time()
        sink.write(number, **values)
        committed, cpu_committed = time.perf_counter(), time.process_time()
        for name, of_table in values.items():
            rows = arrow_rows(TABLES[name], of_table)
            path = directory / f"{name}-{number}.parquet"
            pq.write_table(rows, path.with_suffix(".tmp"))
            path.with_suffix(".tmp").replace(path)
        times["tables"].append((committed - begun, cpu_committed - cpu))
        times["files"].append(
            (time.perf_counter() - committed, time.process_time() - cpu_committed)
        )
    for name, of_way in times.items():
        wall, processor = (statistics.median(of) * 1e3 for of in zip(*of_way[1:], strict=True))
        print(f"micro-batch as {name:<7} median {wall:6.1f} ms, processor {processor:6.1f} ms")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument(
        "--details-days", type=int, default=Settings.model_fields["keep_details_days"].default
    )
    parser.add_argument("--directory", type=Path, help="keep the run there")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        directory = arguments.directory or Path(temporary) / "run"
        if not (directory / DIRECTORY).exists():
            begun = time.perf_counter()
            make_history(directory / DIRECTORY, arguments.days, arguments.details_days)
            print(
                f"{arguments.days} days made in {time.perf_counter() - begun:.1f} s,"
                f" {size_of(directory):.0f} MB"
            )
        measure_report(directory)
        measure_micro_batches(Path(temporary) / "batches", 150)


if __name__ == "__main__":
    main()
