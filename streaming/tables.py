"""The tables of a run: their columns, and rows from values and back; docs/tables.md describes them.

Knows no Spark and no table format: ``table_sink`` writes them, ``table_reader`` reads them.
"""

from __future__ import annotations

import dataclasses
import json
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa

from tallystick.coordinates.audit.cut import Cut, cut_columns
from tallystick.coordinates.results import (
    Check,
    Finding,
    Incident,
    Observation,
    SubjectCheck,
    Verdict,
)
from tallystick.coordinates.values.errors import one_line
from tallystick.streaming.errors import TableError
from tallystick.streaming.to_fix import to_rebuild

SCHEMA_VERSION = 4
"""Of the columns of all tables. Raise it when a column is changed: a job writes and reads tables of
its own version only."""

PATH = b"path"
"""In what is known of rows that were read: the table's directory."""
TIMESTAMP = pa.timestamp("us", tz="UTC")
_ARROW = {str: pa.string(), int: pa.int64(), bool: pa.bool_()}
_NOT_TEXT = {"epoch": int, "sequence": int, "count": int, "is_undecided": bool}
_ESCAPE = re.compile("%[0-9A-Fa-f]{2}")
_SUBJECT = ("collection_id", "instance_id", "channel", "ts")
_CHECK = ("rule", "outcome", "reason", "data")


def require_place(directory: Path) -> None:
    """Return when tables can be in a directory.

    Raises:
        TableError: Their format's library takes part of its path for another one.
    """
    path = str(directory.resolve())
    escape = _ESCAPE.search(path)
    if escape is not None:
        raise TableError(
            f"{path!r} cannot hold tables: expected a path without {escape[0]!r}, which deltalake"
            " reads as another character. Rename the directory, or name another one."
        )


@dataclasses.dataclass(frozen=True, slots=True)
class TableKind:
    """A table of a run.

    Attributes:
        name: Its directory.
        text: What a row is.
        schema: Its own columns; those of ``WRITTEN`` follow.
        columns_of: The columns of values, at least one, with ``ts`` in microseconds; others than
            its own are ignored.
        of_columns: The values again, from its own columns.
        is_detail: It grows with every collection, so it is kept for a shorter time.
    """

    name: str
    text: str
    schema: pa.Schema
    columns_of: Callable[[Sequence[Any]], Mapping[str, Sequence[Any]]]
    of_columns: Callable[[Mapping[str, Sequence[Any]]], list[Any]]
    is_detail: bool = False


WRITTEN = (
    pa.field("run", pa.string()),
    pa.field("batch", pa.int64()),
    pa.field("written_at", TIMESTAMP),
)
"""The last columns of each table: who wrote a row, in which micro-batch, when. ``batch`` is null
for what was decided because the history ends; if it goes on after all, they are taken back."""


def _schema(names: Mapping[str, type] | tuple[str, ...]) -> pa.Schema:
    kinds = names if isinstance(names, Mapping) else {n: _NOT_TEXT.get(n, str) for n in names}
    return pa.schema(
        [
            (name, TIMESTAMP if name.rpartition("_")[2] == "ts" else _ARROW[kind])
            for name, kind in kinds.items()
        ]
    )


def _names(of: type[Finding | Incident | Observation]) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(of))


def _replaced(schema: pa.Schema, name: str, kind: pa.DataType) -> pa.Schema:
    return schema.set(schema.get_field_index(name), pa.field(name, kind))


def _with_text(values: dict[str, Any], *names: str) -> dict[str, Any]:
    return values | {name: json.dumps(values[name]) for name in names or ("data",)}


def _with_data(row: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {**row, **{name: json.loads(row[name]) for name in names or ("data",)}}


def _check_of(row: Mapping[str, Any]) -> Check:
    return _check(*(row[name] for name in _CHECK))


@lru_cache(maxsize=1 << 14)
def _check(*values: str) -> Check:
    """Of a thousand instances most are the same."""
    return Check.from_dict(_with_data(dict(zip(_CHECK, values, strict=True))))


def _by_row(
    row_of: Callable[[Any], Mapping[str, Any]],
) -> Callable[[Sequence[Any]], Mapping[str, Sequence[Any]]]:
    """The columns of a table of which a micro-batch has few rows."""

    def columns_of(values: Sequence[Any]) -> Mapping[str, Sequence[Any]]:
        rows = list(map(row_of, values))
        return {name: [row[name] for row in rows] for name in rows[0]}

    return columns_of


def _of_rows(value_of: Callable[[dict[str, Any]], Any]) -> Callable[..., list[Any]]:
    """Inverse of ``_by_row``."""

    def values_of(columns: Mapping[str, Sequence[Any]]) -> list[Any]:
        rows = zip(*columns.values(), strict=True)
        return [value_of(dict(zip(columns, row, strict=True))) for row in rows]

    return values_of


def _check_row(one: Check) -> dict[str, Any]:
    if one.data:
        return _with_text(one.to_dict())
    return _bare_check_row(one.rule, one.outcome.value, one.reason)


@lru_cache(maxsize=1 << 14)
def _bare_check_row(*values: str) -> dict[str, Any]:
    """As ``_check``, of one that says nothing more; read only."""
    return dict(zip(_CHECK, (*values, "{}"), strict=True))


def _cut_columns(cuts: Sequence[Cut]) -> Mapping[str, Sequence[Any]]:
    columns = {name: list(map(attrgetter(name), cuts)) for name in cut_columns()}
    return columns | {"checks": [list(map(_check_row, cut.checks)) for cut in cuts]}


def _cut_of(row: dict[str, Any]) -> Cut:
    return Cut(
        **{**_with_verdict(row), "checks": tuple(map(_check_of, row["checks"]))},
    )


def _with_verdict(row: dict[str, Any]) -> dict[str, Any]:
    """A row as it is, whose verdict is one."""
    Verdict(row["verdict"])
    return row


def _subject_check_columns(checks: Sequence[SubjectCheck]) -> Mapping[str, Sequence[Any]]:
    columns = {name: list(map(attrgetter(name), checks)) for name in _SUBJECT}
    rows = [_check_row(one.check) for one in checks]
    return columns | {name: list(map(itemgetter(name), rows)) for name in _CHECK}


def _subject_checks_of(columns: Mapping[str, Sequence[Any]]) -> list[SubjectCheck]:
    """By columns: a collection of a large fleet has hundreds of thousands."""
    checks = map(_check, *(columns[name] for name in _CHECK))
    *subject, _ = SubjectCheck._fields
    return list(map(SubjectCheck, *(columns[name] for name in subject), checks))


_JSON_OF_INCIDENT = ("cause", "finding", "acknowledgement")
FINDINGS = TableKind(
    "findings",
    "A broken rule, as the audit reported it; `data` is JSON, what the case's texts name.",
    _schema(("finding_id", *_names(Finding))),
    _by_row(lambda finding: _with_text(finding.to_dict())),
    _of_rows(lambda row: Finding.from_dict(_with_data(row))),
)
INCIDENTS = TableKind(
    "incidents",
    "An incident as it is after a micro-batch; of one `incident_id` the newest row counts. `cause`,"
    " `finding` (the first) and `acknowledgement` are JSON.",
    _schema(_names(Incident)),
    _by_row(lambda incident: _with_text(incident.to_dict(), *_JSON_OF_INCIDENT)),
    _of_rows(lambda row: Incident.from_dict(_with_data(row, *_JSON_OF_INCIDENT))),
)
OBSERVATIONS = TableKind(
    "observations",
    "What else was seen; `data` is JSON, what the reason's text names.",
    _replaced(_schema(_names(Observation)), "rules", pa.list_(pa.string())),
    _by_row(lambda seen: _with_text(seen.to_dict())),
    _of_rows(lambda row: Observation.from_dict(_with_data(row))),
)
CUTS = TableKind(
    "cuts",
    "A row of `log_status` beside what its journal showed; `checks` are those of rules on a row.",
    _schema(cut_columns()).append(pa.field("checks", pa.list_(pa.struct(_schema(_CHECK))))),
    _cut_columns,
    _of_rows(_cut_of),
    is_detail=True,
)
CHECKS = TableKind(
    "checks",
    "The outcome of one rule on one instance or channel at one collection; `data` is JSON.",
    _schema((*_SUBJECT, *_CHECK)),
    _subject_check_columns,
    _subject_checks_of,
    is_detail=True,
)
VALIDATIONS = TableKind(
    "validations",
    "The validator's answer to one collection, and its input.",
    _schema(
        {"collection_id": str, "verdict": str, "reason": str, "instances": int, "missing": int,
         "is_late": bool, "ts": int}
    ),
    _by_row(dict),
    _of_rows(_with_verdict),
    is_detail=True,
)  # fmt: skip
COUNTS = (
    "collections", "consistent", "undecided", "inconsistent", "unanswered",
    "checks_held", "checks_undecided", "checks_broken",
)  # fmt: skip
HOURS = TableKind(
    "hours",
    "Sums of an hour, by instance and channel, of micro-batches up to `batch`: rows with the same"
    " key add up. Where `instance_id` is null they are of collections as a whole.",
    pa.schema(
        [
            ("hour", TIMESTAMP),
            ("instance_id", pa.string()),
            ("channel", pa.string()),
            *((name, pa.int64()) for name in COUNTS),
            ("first_ts", TIMESTAMP),
            ("last_ts", TIMESTAMP),
        ]
    ),
    _by_row(dict),
    _of_rows(dict),
)
TABLES = {
    kind.name: kind
    for kind in (FINDINGS, INCIDENTS, OBSERVATIONS, CUTS, CHECKS, VALIDATIONS, HOURS)
}
"""All tables, by name."""


def full_schema(kind: TableKind) -> pa.Schema:
    """The columns of a table as they are stored."""
    return pa.schema([*kind.schema, *WRITTEN])


def arrow_rows(kind: TableKind, values: list[Any]) -> pa.Table:
    """Values, at least one, as rows of a table, without ``WRITTEN``."""
    columns = kind.columns_of(values)
    try:
        return pa.Table.from_pydict(columns, schema=kind.schema)
    except UnicodeEncodeError:
        # JSON can spell a lone surrogate, UTF-8 cannot; a hostile text stops nothing.
        return pa.Table.from_pydict(_encodable(columns), schema=kind.schema)


def values_of(kind: TableKind, rows: pa.Table) -> list[Any]:
    """Inverse of ``arrow_rows``.

    Raises:
        TableError: A row has what no run writes, as where files without checksums were changed.
    """
    own = plain(rows.select(kind.schema.names))
    columns = {name: own[name].to_pylist() for name in own.column_names}
    try:
        return kind.of_columns(columns)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        path = (rows.schema.metadata or {}).get(PATH, kind.name.encode()).decode()
        raise TableError(
            f"{path!r} is damaged: a row has a value that no run writes: {one_line(error)}."
            f" To fix: {to_rebuild(path)}"
        ) from error


def plain(rows: pa.Table) -> pa.Table:
    """The rows with times as integers, in microseconds."""
    return rows.cast(
        pa.schema([field.with_type(pa.int64()) if field.type == TIMESTAMP else field
                   for field in rows.schema])
    )  # fmt: skip


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, list):
        return list(map(_encodable, value))
    if isinstance(value, dict):
        return {name: _encodable(item) for name, item in value.items()}
    return value


def page() -> str:
    """docs/tables.md from its line ``## Columns`` on."""
    lines = ["## Columns", "", f"Schema version {SCHEMA_VERSION}."]
    for kind in TABLES.values():
        kept = "keep_details_days" if kind.is_detail else "keep_history_days"
        text = textwrap.wrap(f"{kind.text} Kept for `{kept}`.", 120)
        lines += ["", f"### `{kind.name}`", "", *text, ""]
        lines += ["| column | type |", "|---|---|"]
        lines += [f"| `{field.name}` | {_type_name(field.type)} |" for field in kind.schema]
    lines += ["", "### In each table", "", "| column | type |", "|---|---|"]
    lines += [f"| `{field.name}` | {_type_name(field.type)} |" for field in WRITTEN]
    return "\n".join(lines) + "\n"


def _type_name(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"list of {_type_name(kind.value_type)}"
    if pa.types.is_struct(kind):
        return "(" + ", ".join(f"`{f.name}` {_type_name(f.type)}" for f in kind) + ")"
    names = {"bool": "boolean", "int64": "64-bit integer", str(TIMESTAMP): "timestamp, UTC, µs"}
    return names.get(str(kind), str(kind))
