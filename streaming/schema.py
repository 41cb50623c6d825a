"""Every schema that the job reads or writes; those of its tables are in ``tables``."""

from __future__ import annotations

from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

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
from tallystick.coordinates.results import Check, Finding, Observation, Outcome
from tallystick.coordinates.values.json_bytes import of_json, to_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HEADERS = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)
"""Kafka's headers as Spark's source delivers them and its sink takes them."""

BLOCK_ROWS = StructType(
    [
        StructField("cluster", StringType()),
        StructField("instance_id", StringType()),
        StructField("value", BinaryType()),
        StructField("headers", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("sent_us", LongType()),
        StructField("bytes", LongType()),
        StructField("key", BinaryType()),
    ]
)
"""What goes into the auditor: one row a block, ``cluster`` being the message's header of that name
(empty without one), ``instance_id`` its key as text (empty if it can be no instance's name);
``headers`` as JSON of ``HEADERS``, values in base64, as pandas makes objects of structs one by one;
NULL where they are not known; ``value`` cut if it is too large for a block, and then ``bytes`` is
what it was; the beginning of the ``key``; ``sent_us`` its time in Kafka, microseconds."""

KEY_BYTES_MAX = 1_000
HEADERS_BYTES_MAX = 100_000
DEAD_LETTER_BYTES_MAX = 900_000
"""What is kept of a message that cannot be read: its key, its headers as a whole, its value.
Together they fit into a message of the size that brokers and producers take as installed."""

BUCKET = "bucket"
VERSION_NAME = "version"
LOG_VERSION = StructType(
    [
        StructField("next_number", LongType()),
        StructField("fleet_first", LongType()),
        StructField("fleet_end", LongType()),
        StructField("token", StringType()),
    ]
)
"""Of a bucket: the number of the next entry of its instances' log, those of the first entry of its
clusters' log and after the last, and a text that is another after each step, by which whoever holds
its audits knows whether they are the newest."""
FLEET_NAME = "fleet"
SEGMENTS = 4
LOG_NAMES = tuple(f"log_{number}" for number in range(SEGMENTS))
LOG_PART = StructType([StructField("entries", BinaryType())])
"""Entries of the log that a bucket's audits are made from (``audit_log.Entry``, ``log_parts``), in
the list state of their segment, or that its clusters' audits are made from (``fleet_log``), in one
of their own."""

RESULT = "result"
QUIET = "quiet"
QUIET_COLUMNS = (
    "cluster", "instance_id", "partition", "offset", "blocks", "records", "bytes", "epoch",
    "sequence", "ts",
)  # fmt: skip
DEAD_LETTER = "dead_letter"
REQUEST = "request"
CONTROL = "control"
NOT_LISTED = "not_listed"
READ = "read"
CLUSTER = "cluster"

AUDIT_ROWS = StructType(
    [
        StructField("kind", StringType()),
        StructField("cluster", StringType()),
        StructField("instance_id", StringType()),
        StructField("blocks", LongType()),
        StructField("records", LongType()),
        StructField("bytes", LongType()),
        StructField("document", BinaryType()),
        StructField("fleet_events", BinaryType()),
        StructField("reason", StringType()),
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("headers", HEADERS),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("epoch", LongType()),
        StructField("sequence", LongType()),
        StructField("ts", LongType()),
    ]
)
"""What leaves the auditor. RESULT, at most one a key and micro-batch: how many blocks and records
were read, of how many bytes, ``document`` (JSON of findings, observations and cuts) and
``fleet_events`` (``coordinates.audit.fleet_events``: those of the administration), NULL if there
are none, ``epoch``, ``sequence`` and ``ts`` up to which the journal is known, ``partition`` and
``offset`` of its last block. QUIET, one a bucket: of all keys whose RESULT has neither
``document`` nor ``fleet_events`` that, in ``document``, as JSON rows of ``QUIET_COLUMNS``: of each
column of a row of its own Spark makes objects, Arrow, rows and Arrow again. CLUSTER, one a cluster:
``document`` is what comparing its instances has brought (``FleetOutput`` as the state codec encodes
it), ``partition`` the bucket, ``bytes`` those of its clusters' log. DEAD_LETTER, one a block that
cannot be read: ``reason`` and the message as it was, ``value`` cut if it had more ``bytes``.
REQUEST and CONTROL, one a message of the collect and of the control topic: ``value``. NOT_LISTED,
one an instance that is not listed: ``blocks``. READ, one a bucket and partition of the journal
topic: the first ``offset``, how many messages (``blocks``), and the ``bytes`` of their values as
they were read."""


def encode_document(
    findings: Sequence[Finding], observations: Sequence[Observation], cuts: Sequence[Cut]
) -> bytes:
    """Findings, observations and cuts of one instance as JSON bytes."""
    document = [
        [finding.to_dict() for finding in findings],
        [observation.to_dict() for observation in observations],
        [_row_of(cut) for cut in cuts],
    ]
    return to_json(document)


def _row_of(cut: Cut) -> list[Any]:
    """A cut and its checks without names: a collection of a large fleet has a million checks."""
    return [*_values_of(cut), list(map(_check_row, cut.checks))]


_values_of = attrgetter(*cut_columns())


def _check_row(one: Check) -> tuple[Any, ...]:
    bare = one.rule, one.outcome.value, one.reason
    return (*bare, dict(one.data)) if one.data else bare


def _cut_of(row: list[Any]) -> Cut:
    *values, rows = row
    checks = tuple(_check(*of_check) for of_check in rows)
    return Cut(**dict(zip(cut_columns(), values, strict=True)), checks=checks)


def _check(rule: str, outcome: str, reason: str, data: Mapping[str, Any] | None = None) -> Check:
    if data is None:
        return _bare_check(rule, outcome, reason)
    return Check(rule, _OUTCOMES[outcome], reason, data)


@lru_cache(maxsize=1 << 14)
def _bare_check(rule: str, outcome: str, reason: str) -> Check:
    """Of ten thousand rows most have the same."""
    return Check(rule, _OUTCOMES[outcome], reason)


_OUTCOMES = {outcome.value: outcome for outcome in Outcome}


def decode_document(data: bytes) -> tuple[list[Finding], list[Observation], list[Cut]]:
    """Inverse of ``encode_document``."""
    findings: list[dict[str, Any]]
    findings, observations, cuts = of_json(data)
    return (
        [Finding.from_dict(finding) for finding in findings],
        [Observation.from_dict(observation) for observation in observations],
        [_cut_of(cut) for cut in cuts],
    )
