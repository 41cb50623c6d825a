"""Every schema that this package reads or writes, in one place."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from tallystick.coordinates.audit.cut import Cut, cut_columns
from tallystick.coordinates.results import Finding, Observation

if TYPE_CHECKING:
    from collections.abc import Sequence

HEADERS = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)
"""Kafka's headers as Spark's source gives them and its sink takes them."""

BLOCK_ROWS = StructType(
    [
        StructField("instance_id", StringType()),
        StructField("value", BinaryType()),
        StructField("headers", HEADERS),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
    ]
)
"""What goes into the auditor: one row a block, ``instance_id`` being the message's key as text
(empty without one); ``headers`` NULL where they are not known."""

STATE_NAME = "audit"
STATE_FIELD = "audit"
AUDIT_STATE = StructType([StructField(STATE_FIELD, BinaryType())])
"""The whole state of one instance, as ``InstanceAudit.to_bytes`` gives it: one value, so that it
is read once and written once for each key and micro-batch."""

RESULT = "result"
DEAD_LETTER = "dead_letter"

AUDIT_ROWS = StructType(
    [
        StructField("kind", StringType()),
        StructField("instance_id", StringType()),
        StructField("blocks", LongType()),
        StructField("records", LongType()),
        StructField("document", BinaryType()),
        StructField("facts", BinaryType()),
        StructField("reason", StringType()),
        StructField("value", BinaryType()),
        StructField("headers", HEADERS),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
    ]
)
"""What leaves the auditor. RESULT, at most one a key and micro-batch: how many blocks and records
were read, ``document`` (JSON of findings, observations and cuts) and
``facts`` (``coordinates.audit.fleet_events``). DEAD_LETTER, one a block that cannot be read:
``reason`` and the message as it was."""

_ARROW = {str: pa.string(), int: pa.int64(), bool: pa.bool_()}


def _arrow_schema(columns: dict[str, type]) -> pa.Schema:
    return pa.schema([pa.field(name, _ARROW[kind]) for name, kind in columns.items()])


_RULES = pa.field("rules", pa.list_(pa.string()))
_TEXT_UNLESS = {"epoch": int, "sequence": int, "ts": int, "is_undecided": bool}

CHECKS = pa.list_(
    pa.struct([pa.field(name, pa.string()) for name in ("rule", "outcome", "reason", "data")])
)
"""The checks of a row; ``data`` as JSON."""
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
CUTS = _arrow_schema(cut_columns()).append(pa.field("checks", CHECKS))
VALIDATIONS = _arrow_schema(
    {"collection_id": str, "verdict": str, "reason": str, "instances": int, "missing": int,
     "is_late": bool, "ts": int}
)  # fmt: skip
"""One row a validated collection: the validator's answer and what it was given."""


def finding_row(finding: Finding) -> dict[str, Any]:
    """A row of FINDINGS; ``data`` is JSON text."""
    return finding.to_dict() | {"data": json.dumps(finding.data)}


def finding_of_row(row: dict[str, Any]) -> Finding:
    """Inverse of ``finding_row``."""
    return Finding.from_dict(row | {"data": json.loads(row["data"])})


def observation_row(seen: Observation) -> dict[str, Any]:
    """A row of OBSERVATIONS; ``data`` is JSON text."""
    return seen.to_dict() | {"data": json.dumps(seen.data)}


def observation_of_row(row: dict[str, Any]) -> Observation:
    """Inverse of ``observation_row``."""
    return Observation.from_dict(row | {"data": json.loads(row["data"])})


def cut_row(cut: Cut) -> dict[str, Any]:
    """A row of CUTS; ``data`` of each check is JSON text."""
    values = cut.to_dict()
    checks = [check | {"data": json.dumps(check["data"])} for check in values["checks"]]
    return values | {"checks": checks}


def cut_of_row(row: dict[str, Any]) -> Cut:
    """Inverse of ``cut_row``."""
    checks = [check | {"data": json.loads(check["data"])} for check in row["checks"]]
    return Cut.from_dict(row | {"checks": checks})


def encode_document(
    findings: Sequence[Finding], observations: Sequence[Observation], cuts: Sequence[Cut]
) -> bytes:
    """Findings, observations and cuts of one instance as JSON bytes."""
    document = [
        [finding.to_dict() for finding in findings],
        [observation.to_dict() for observation in observations],
        [cut.to_dict() for cut in cuts],
    ]
    return json.dumps(document, separators=(",", ":")).encode()


def decode_document(data: bytes) -> tuple[list[Finding], list[Observation], list[Cut]]:
    """Inverse of ``encode_document``."""
    findings: list[dict[str, Any]]
    findings, observations, cuts = json.loads(data)
    return (
        [Finding.from_dict(finding) for finding in findings],
        [Observation.from_dict(observation) for observation in observations],
        [Cut.from_dict(cut) for cut in cuts],
    )
