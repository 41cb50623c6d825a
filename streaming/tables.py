"""The tables of a run: Parquet files, and how they are read back without repeats.

Every write may be done again by a retried micro-batch, so a file has the micro-batch's number.
Knows no Spark: a run's tables are written and read without it, too.
"""

from __future__ import annotations

import dataclasses
import json
import os
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from tallystick.coordinates.audit.cut import Cut, cut_columns
from tallystick.coordinates.results import Check, Finding, Incident, Observation, SubjectCheck

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

_ARROW = {str: pa.string(), int: pa.int64(), bool: pa.bool_()}


def _arrow_schema(columns: Mapping[str, type]) -> pa.Schema:
    return pa.schema([pa.field(name, _ARROW[kind]) for name, kind in columns.items()])


_RULES = pa.field("rules", pa.list_(pa.string()))
_TEXT_UNLESS = {"epoch": int, "sequence": int, "ts": int, "is_undecided": bool}

_SUBJECT = ("collection_id", "instance_id", "channel", "ts")
_CHECK = {"rule": str, "outcome": str, "reason": str, "data": str}
"""A check; ``data`` as JSON."""
CHECKS = _arrow_schema(dict(zip(_SUBJECT, (str, str, str, int), strict=True)) | _CHECK)
FINDINGS = _arrow_schema(
    {"finding_id": str}
    | {field.name: _TEXT_UNLESS.get(field.name, str) for field in dataclasses.fields(Finding)}
)
OBSERVATIONS = _arrow_schema(
    {
        field.name: _TEXT_UNLESS.get(field.name, str)
        for field in dataclasses.fields(Observation)
        if field.name != _RULES.name
    }
).append(_RULES)
_JSON_OF_INCIDENT = ("cause", "finding", "acknowledgement")
_TIMES = dict.fromkeys(("opened_ts", "last_seen_ts", "closed_ts", "count"), int)
INCIDENTS = _arrow_schema(
    {field.name: _TIMES.get(field.name, str) for field in dataclasses.fields(Incident)}
)
CUTS = _arrow_schema(cut_columns()).append(
    pa.field("checks", pa.list_(pa.struct(_arrow_schema(_CHECK))))
)
VALIDATIONS = _arrow_schema(
    {"collection_id": str, "verdict": str, "reason": str, "instances": int, "missing": int,
     "is_late": bool, "ts": int}
)  # fmt: skip
"""One row a validated collection: the validator's answer and its input."""


def finding_row(finding: Finding) -> dict[str, Any]:
    """A row of FINDINGS; ``data`` is JSON text."""
    return finding.to_dict() | {"data": json.dumps(finding.data)}


def finding_of_row(row: dict[str, Any]) -> Finding:
    """Inverse of ``finding_row``."""
    return Finding.from_dict(row | {"data": json.loads(row["data"])})


def incident_row(incident: Incident) -> dict[str, Any]:
    """A row of INCIDENTS; what is no single value is JSON text."""
    values = incident.to_dict()
    return values | {name: json.dumps(values[name]) for name in _JSON_OF_INCIDENT}


def incident_of_row(row: dict[str, Any]) -> Incident:
    """Inverse of ``incident_row``."""
    return Incident.from_dict(row | {name: json.loads(row[name]) for name in _JSON_OF_INCIDENT})


def observation_row(seen: Observation) -> dict[str, Any]:
    """A row of OBSERVATIONS; ``data`` is JSON text."""
    return seen.to_dict() | {"data": json.dumps(seen.data)}


def observation_of_row(row: dict[str, Any]) -> Observation:
    """Inverse of ``observation_row``."""
    return Observation.from_dict(row | {"data": json.loads(row["data"])})


def cut_row(cut: Cut) -> dict[str, Any]:
    """A row of CUTS; ``data`` of each check is JSON text."""
    values = cut.to_dict()
    return values | {"checks": [_check_row(check) for check in cut.checks]}


def cut_of_row(row: dict[str, Any]) -> Cut:
    """Inverse of ``cut_row``."""
    checks = [check | {"data": json.loads(check["data"])} for check in row["checks"]]
    return Cut.from_dict(row | {"checks": checks})


def check_row(one: SubjectCheck) -> dict[str, Any]:
    """A row of CHECKS: a check with its subject; ``data`` is JSON text."""
    subject = {name: getattr(one, name) for name in _SUBJECT}
    return subject | _check_row(one.check)


def check_of_row(row: Mapping[str, Any]) -> SubjectCheck:
    """Inverse of ``check_row``."""
    check = Check.from_dict(
        {name: row[name] for name in _CHECK} | {"data": json.loads(row["data"])}
    )
    return SubjectCheck(**{name: row[name] for name in _SUBJECT}, check=check)


def _check_row(check: Check) -> dict[str, Any]:
    return check.to_dict() | {"data": json.dumps(check.data)}


class ParquetSink:
    """One file for each table and micro-batch that has rows, written anew when it is retried.

    Args:
        directory: Has a directory for each table.
        run_id: Keeps apart the micro-batches of different checkpoint locations.
    """

    def __init__(self, directory: Path, run_id: str) -> None:
        self._directory = directory
        self._run_id = run_id

    def write(
        self,
        batch: str,
        *,
        findings: Sequence[Finding] = (),
        incidents: Sequence[Incident] = (),
        observations: Sequence[Observation] = (),
        cuts: Sequence[Cut] = (),
        checks: Sequence[SubjectCheck] = (),
        validations: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """Write the rows of one micro-batch; ``batch`` is its number, or ``end``."""
        self._write("findings", batch, FINDINGS, list(map(finding_row, findings)))
        self._write("incidents", batch, INCIDENTS, list(map(incident_row, incidents)))
        seen = list(map(observation_row, observations))
        self._write("observations", batch, OBSERVATIONS, seen)
        self._write("cuts", batch, CUTS, list(map(cut_row, cuts)))
        self._write("checks", batch, CHECKS, list(map(check_row, checks)))
        self._write("validations", batch, VALIDATIONS, [dict(v) for v in validations])

    def _write(
        self, table: str, batch: str, table_schema: pa.Schema, rows: list[dict[str, Any]]
    ) -> None:
        directory = self._directory / table
        path = directory / f"{self._run_id}-{batch}.parquet"
        if not rows:
            path.unlink(missing_ok=True)
            return
        directory.mkdir(parents=True, exist_ok=True)
        # Readers take *.parquet, so the file under its temporary name is not yet there for them.
        temporary = directory / f".{path.name}.{os.getpid()}.tmp"
        try:
            table_rows = pa.Table.from_pylist(rows, schema=table_schema)
        except UnicodeEncodeError:
            # JSON can spell a lone surrogate, UTF-8 cannot; a hostile text stops nothing.
            table_rows = pa.Table.from_pylist([_encodable(row) for row in rows], table_schema)
        pq.write_table(table_rows, temporary)
        temporary.replace(path)


def _encodable(row: dict[str, Any]) -> dict[str, Any]:
    return {name: _encodable_value(value) for name, value in row.items()}


def _encodable_value(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, list):
        return [_encodable(item) for item in value]
    return value


def batch_name(batch_id: int) -> str:
    """The name of a micro-batch in file names; names sort as numbers do."""
    return f"{batch_id:012d}"


END_BATCH = "end"
"""The batch name of what was decided because the history ends here."""


def read_findings(directory: Path) -> list[Finding]:
    """Every finding in a Parquet sink, once, in the order of its evidence."""
    found = {row["finding_id"]: finding_of_row(row) for row in _rows(directory, "findings")}
    return sorted(found.values(), key=lambda finding: finding.order)


def read_incidents(directory: Path) -> list[Incident]:
    """The newest state of every incident in a Parquet sink, the oldest incident first."""
    newest = {row["incident_id"]: row for row in _rows(directory, "incidents")}
    found = map(incident_of_row, newest.values())
    return sorted(found, key=lambda one: (one.opened_ts, one.incident_id))


def read_observations(directory: Path) -> list[Observation]:
    """Every observation in a Parquet sink, once, in the order of its evidence."""
    rows = (observation_of_row(row) for row in _rows(directory, "observations"))
    return sorted(
        dict.fromkeys(rows),
        key=lambda o: (o.ts, o.instance_id, o.epoch, o.sequence, o.code, o.channel or "", o.at),
    )


def read_cuts(directory: Path) -> list[Cut]:
    """The cut table; an answer replaces the row that marks it as missing."""
    table: dict[tuple[str, str, str, str | None], Cut] = {}
    for row in _rows(directory, "cuts"):
        cut = cut_of_row(row)
        key = (cut.collection_id, cut.instance_id, cut.scope, cut.channel)
        if key not in table or table[key].answer == "missing":
            table[key] = cut
    return sorted(table.values(), key=lambda c: (c.collection_id, c.instance_id, c.channel or ""))


def read_checks(directory: Path) -> list[SubjectCheck]:
    """The table of checks, oldest collection first; of two of one collection the later counts."""
    table: dict[tuple[str, ...], SubjectCheck] = {}
    for row in _rows(directory, "checks"):
        key = tuple(row[name] for name in (*_SUBJECT[:3], "rule"))
        table[key] = check_of_row(row)
    return sorted(table.values(), key=lambda one: one.ts)


def read_validations(directory: Path) -> list[dict[str, Any]]:
    """The validator's result of each collection, oldest first, late answers on their own."""
    return sorted(_rows(directory, "validations"), key=lambda row: (row["ts"], row["is_late"]))


def _rows(directory: Path, table: str) -> Iterable[dict[str, Any]]:
    for path in sorted((directory / table).glob("[!.]*.parquet")):
        yield from pq.read_table(path).to_pylist()
