"""Where results go: Kafka topics and Parquet files, and how they are read back without repeats.

Every write may be done again by a retried micro-batch, so each has a name that stays the same: a
finding's id in its topic, the micro-batch's number in Parquet.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from tallystick.coordinates.audit.cut import Cut
from tallystick.coordinates.results import Finding, Observation
from tallystick.coordinates.rules.explanation import finding_document
from tallystick.coordinates.values.topics import DEAD_LETTER_TOPIC, FINDINGS_TOPIC
from tallystick.streaming import schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

DEAD_LETTER_BYTES_MAX = 900_000
"""What is kept of a dead letter's value: with its headers it must still fit into a message."""
REASON_BYTES_MAX = 2_000

_MESSAGES = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field(
            "headers",
            pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])),
        ),
    ]
)


@dataclass(frozen=True, slots=True)
class DeadLetterRow:
    """A message that could not be read, as it leaves the auditor."""

    instance_id: str
    reason: str
    value: bytes | None
    headers: list[tuple[str, bytes]]
    partition: int
    offset: int


class KafkaSink:
    """Writes findings and dead letters with Spark's Kafka sink; at least once.

    Args:
        spark: The session.
        bootstrap_servers: The brokers.
        journal_topic: Named in dead letters as where they came from.
        findings_topic: Key ``finding_id``, value the finding as JSON.
        dead_letter_topic: The message as it was; the headers say why and from where.
    """

    def __init__(
        self,
        spark: SparkSession,
        bootstrap_servers: str,
        *,
        journal_topic: str,
        findings_topic: str = FINDINGS_TOPIC,
        dead_letter_topic: str = DEAD_LETTER_TOPIC,
    ) -> None:
        self._spark = spark
        self._bootstrap_servers = bootstrap_servers
        self._journal_topic = journal_topic
        self._findings_topic = findings_topic
        self._dead_letter_topic = dead_letter_topic

    def publish_findings(self, findings: Sequence[Finding]) -> None:
        """Write findings in the order given."""
        self._publish(
            self._findings_topic,
            [
                {
                    "key": finding.finding_id.encode(),
                    "value": json.dumps(finding_document(finding), separators=(",", ":")).encode(),
                    "headers": [],
                }
                for finding in findings
            ],
        )

    def publish_dead_letters(self, letters: Sequence[DeadLetterRow]) -> None:
        """Write dead letters: the old key, value and headers, and ours beside them."""
        self._publish(self._dead_letter_topic, [self._dead_letter(letter) for letter in letters])

    def _dead_letter(self, letter: DeadLetterRow) -> dict[str, Any]:
        value = letter.value
        ours = {
            "tallystick.reason": letter.reason.encode("utf-8", "replace")[:REASON_BYTES_MAX],
            "tallystick.topic": self._journal_topic.encode(),
            "tallystick.partition": b"%d" % letter.partition,
            "tallystick.offset": b"%d" % letter.offset,
        }
        if value is not None and len(value) > DEAD_LETTER_BYTES_MAX:
            ours["tallystick.bytes"] = b"%d" % len(value)
            value = value[:DEAD_LETTER_BYTES_MAX]
        headers = [*((k, v) for k, v in letter.headers if k not in ours), *ours.items()]
        return {
            "key": letter.instance_id.encode() or None,
            "value": value,
            "headers": [{"key": k, "value": v} for k, v in headers],
        }

    def _publish(self, topic: str, messages: list[dict[str, Any]]) -> None:
        if not messages:
            return
        frame = self._spark.createDataFrame(pa.Table.from_pylist(messages, schema=_MESSAGES))
        (
            frame.coalesce(1)
            .write.format("kafka")
            .option("kafka.bootstrap.servers", self._bootstrap_servers)
            .option("includeHeaders", "true")
            .option("topic", topic)
            .save()
        )


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
        observations: Sequence[Observation] = (),
        cuts: Sequence[Cut] = (),
        validations: Sequence[dict[str, Any]] = (),
    ) -> None:
        """Write the rows of one micro-batch; ``batch`` is its number, or ``end``."""
        self._write("findings", batch, schema.FINDINGS, list(map(schema.finding_row, findings)))
        seen = list(map(schema.observation_row, observations))
        self._write("observations", batch, schema.OBSERVATIONS, seen)
        self._write("cuts", batch, schema.CUTS, list(map(schema.cut_row, cuts)))
        self._write("validations", batch, schema.VALIDATIONS, list(validations))

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
            # JSON can spell half a surrogate pair, UTF-8 cannot; a hostile text stops nothing.
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
    found = {row["finding_id"]: schema.finding_of_row(row) for row in _rows(directory, "findings")}
    return sorted(found.values(), key=lambda finding: finding.order)


def read_observations(directory: Path) -> list[Observation]:
    """Every observation in a Parquet sink, once, in the order of its evidence."""
    rows = (schema.observation_of_row(row) for row in _rows(directory, "observations"))
    return sorted(
        dict.fromkeys(rows),
        key=lambda o: (o.ts, o.instance_id, o.epoch, o.sequence, o.code, o.channel or "", o.at),
    )


def read_cuts(directory: Path) -> list[Cut]:
    """The cut table; an answer replaces the row that says it is missing."""
    table: dict[tuple[str, str, str, str | None], Cut] = {}
    for row in _rows(directory, "cuts"):
        cut = schema.cut_of_row(row)
        key = (cut.collection_id, cut.instance_id, cut.scope, cut.channel)
        if key not in table or table[key].answer == "missing":
            table[key] = cut
    return sorted(table.values(), key=lambda c: (c.collection_id, c.instance_id, c.channel or ""))


def read_validations(directory: Path) -> list[dict[str, Any]]:
    """What the validator said of each collection, oldest first, late answers on their own."""
    return sorted(_rows(directory, "validations"), key=lambda row: (row["ts"], row["is_late"]))


def _rows(directory: Path, table: str) -> Iterable[dict[str, Any]]:
    for path in sorted((directory / table).glob("[!.]*.parquet")):
        yield from pq.read_table(path).to_pylist()
