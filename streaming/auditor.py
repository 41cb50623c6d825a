"""The auditor's stateful operator: the audits of the instances of a bucket, inside Spark.

Whole clusters are put into buckets, one a partition, so that what an instance costs is its audit,
and not a call of Spark's for each, and instances are compared where their audits are. The audits of
a bucket are held by the Python worker between micro-batches, and their logs are in the state store
(``audit_log``, ``fleet_log``).
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd
from pyspark import TaskContext
from pyspark.sql import functions as F  # noqa: N812  the name that all of Spark's guides use
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from tallystick.coordinates.audit.finding_collector import FleetOutput
from tallystick.coordinates.events._message_headers import headers_of_json
from tallystick.coordinates.state_codec import encode
from tallystick.coordinates.values.json_bytes import to_json
from tallystick.streaming.bucket import Bucket, Judging, Numbers
from tallystick.streaming.fleet_log import Span
from tallystick.streaming.instance_step import BlockRow, JournalKey, KeyResult
from tallystick.streaming.log_parts import entries_of, parts_of
from tallystick.streaming.message_steps import ByJournal, in_steps
from tallystick.streaming.orders import PROPERTY, Orders
from tallystick.streaming.schema import (
    AUDIT_ROWS,
    BUCKET,
    CLUSTER,
    DEAD_LETTER,
    DEAD_LETTER_BYTES_MAX,
    FLEET_NAME,
    LOG_NAMES,
    LOG_PART,
    LOG_VERSION,
    NOT_LISTED,
    QUIET,
    QUIET_COLUMNS,
    READ,
    RESULT,
    VERSION_NAME,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.stateful_processor import ListState, StatefulProcessorHandle

    from tallystick.streaming.audit_log import Entry

Version = tuple[int, int, int, str]
"""A row of ``schema.LOG_VERSION``."""
STEP_BYTES_MAX = 256 << 20
"""Of messages that are held at once: twice what a micro-batch should have (``message_limit``)."""
_EMPTY_ROW: dict[str, Any] = dict.fromkeys(AUDIT_ROWS.names)


class BlockAuditor(StatefulProcessor):
    """The step of a ``Bucket`` with the rows of a micro-batch.

    State is in list states alone: Spark 4.0.0 takes a value from Python in one read of its socket,
    which may return less than the value has; a list travels as an Arrow stream and is read whole.

    Args:
        judging: How everything is judged.
        step_bytes_max: A micro-batch is audited in steps of about so many bytes.
    """

    def __init__(
        self, judging: Judging | None = None, step_bytes_max: int = STEP_BYTES_MAX
    ) -> None:
        self._judging = judging or Judging()
        self._step_bytes_max = step_bytes_max

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Ask for the state. Spark calls this once more on the driver, so it does nothing else."""
        self._version = handle.getListState(VERSION_NAME, LOG_VERSION)
        self._store = _SparkStore([handle.getListState(name, LOG_PART) for name in LOG_NAMES])
        self._fleet = _SparkFleetStore(handle.getListState(FLEET_NAME, LOG_PART))

    def handleInputRows(  # noqa: N802  Spark's name
        self,
        key: tuple[int],
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Audit the rows of the instances of a bucket."""
        [bucket] = key
        version = next((version_of(row) for row in self._version.get()), None)
        held = _held.take(bucket, version)
        if held is None and version is not None:
            numbers = numbers_of(version)
            held = Bucket(self._judging, self._store.read(), self._fleet.read(), numbers)
        held = held or Bucket(self._judging)
        orders = _orders()
        arrived = (message for frame in rows for message in _rows_of(frame))
        for messages, is_last in in_steps(arrived, self._step_bytes_max):
            # What a comparison waits for may still come in this very micro-batch.
            known = orders if is_last else replace(orders, is_caught_up=False)
            yield self._step(bucket, held, messages, known)
        next_number, span = held.numbers
        version = next_number, *span, uuid.uuid4().hex
        self._version.put([version])
        _held.keep(bucket, version, held)

    def _step(self, bucket: int, held: Bucket, messages: ByJournal, orders: Orders) -> pd.DataFrame:
        """What messages bring, as rows of ``schema.AUDIT_ROWS``."""
        found = list(_read_rows(row for of_instance in messages.values() for row in of_instance))
        listed = self._judging.listed
        for journal in list(messages):
            if listed is not None and journal.instance_id and journal.instance_id not in listed:
                count = len(messages.pop(journal))
                stranger = {"kind": NOT_LISTED, "instance_id": journal.instance_id, "blocks": count}
                found.append(_EMPTY_ROW | stranger)
        results, outputs = held.step(messages, orders, self._store, self._fleet)
        found += rows_of_results(results)
        found += rows_of_clusters(bucket, outputs, held.fleet_bytes)
        # Objects, so that a missing integer stays missing and makes its column no floats.
        columns = {name: [row[name] for row in found] for name in AUDIT_ROWS.names}
        return pd.DataFrame(columns, dtype=object)

    def close(self) -> None:
        """Nothing is open between calls."""


class _SparkStore:
    """The log in list states, one a segment."""

    def __init__(self, segments: Sequence[ListState]) -> None:
        self._segments = segments

    def read(self) -> Iterator[tuple[int, Entry]]:
        for number, segment in enumerate(self._segments):
            for entry in _entries_in(segment):
                yield number, entry

    def append(self, segment: int, entries: list[Entry]) -> None:
        _append(self._segments[segment], entries)

    def clear(self, segment: int) -> None:
        self._segments[segment].clear()


class _SparkFleetStore:
    """The clusters' log in a list state."""

    def __init__(self, entries: ListState) -> None:
        self._entries = entries

    def read(self) -> Iterator[Entry]:
        return _entries_in(self._entries)

    def append(self, entries: list[Entry]) -> None:
        _append(self._entries, entries)

    def clear(self) -> None:
        self._entries.clear()


def _entries_in(rows: ListState) -> Iterator[Entry]:
    for [part] in rows.get():
        yield from entries_of(bytes(part))


def _append(rows: ListState, entries: list[Entry]) -> None:
    for part in parts_of(entries):
        rows.appendList([(part,)])


class _Held:
    """What this process holds of one partition's buckets, until another task takes its place."""

    def __init__(self) -> None:
        self._partition = -1
        self._buckets: dict[int, tuple[Version, Bucket]] = {}

    def take(self, bucket: int, version: Version | None) -> Bucket | None:
        """The audits of a bucket, if they are those of the state's version; they may now change."""
        context = TaskContext.get()
        partition = -1 if context is None else context.partitionId()
        if partition != self._partition:
            # The state of every partition that ever came here would be too much.
            self._partition, self._buckets = partition, {}
        held = self._buckets.pop(bucket, None)
        return None if held is None or held[0] != version else held[1]

    def keep(self, bucket: int, version: Version, held: Bucket) -> None:
        """Hold them until the next micro-batch."""
        self._buckets[bucket] = version, held


_held = _Held()


def _orders() -> Orders:
    context = TaskContext.get()
    text = None if context is None else context.getLocalProperty(PROPERTY)
    return Orders("") if text is None else Orders.of_text(text)


def version_of(row: Sequence[Any]) -> Version:
    """A row of ``schema.LOG_VERSION`` as a version."""
    next_number, first, end, token = row
    return int(next_number), int(first), int(end), str(token)


def numbers_of(version: Version) -> Numbers:
    """Which entries the logs have."""
    next_number, first, end, _ = version
    return Numbers(next_number, Span(first, end))


def _rows_of(frame: pd.DataFrame) -> Iterator[tuple[JournalKey, BlockRow]]:
    sent = frame["sent_us"]
    sent_us = [None if pd.isna(at) else int(at) for at in sent] if sent.hasnans else sent.tolist()
    names = ("value", "headers", "partition", "offset")
    before, after = ([frame[name].tolist() for name in of] for of in (names, ("bytes", "key")))
    rows = map(BlockRow, *before, sent_us, *after)
    return zip(map(JournalKey, frame["cluster"], frame["instance_id"]), rows, strict=True)


def _read_rows(messages: Iterable[BlockRow]) -> Iterator[dict[str, Any]]:
    """What was read of each partition: from which offset on, how many messages, of what size."""
    partitions: dict[int, list[BlockRow]] = {}
    for row in messages:
        partitions.setdefault(row.partition, []).append(row)
    for partition, rows in partitions.items():
        yield _EMPTY_ROW | {
            "kind": READ,
            "instance_id": "",
            "blocks": len(rows),
            "bytes": sum(len(row.value or b"") for row in rows),
            "partition": partition,
            "offset": min(row.offset for row in rows),
        }


def rows_of_clusters(
    bucket: int, outputs: Mapping[str, FleetOutput], fleet_bytes: int
) -> list[dict[str, Any]]:
    """What comparing the instances of clusters has brought, as rows of ``schema.AUDIT_ROWS``."""
    return [
        _EMPTY_ROW
        | {
            "kind": CLUSTER,
            "cluster": cluster,
            "instance_id": "",
            "bytes": fleet_bytes,
            "document": encode(FleetOutput, output),
            "partition": bucket,
        }
        for cluster, output in outputs.items()
    ]


def rows_of_results(results: Mapping[JournalKey, KeyResult]) -> list[dict[str, Any]]:
    """What the messages of journals brought, as rows of ``schema.AUDIT_ROWS``."""
    quiet: list[tuple[Any, ...]] = []
    rows: list[dict[str, Any]] = []
    for journal, result in results.items():
        if result.is_known:
            values = _values_of(journal, result)
            if result.document is None and result.events_document is None:
                quiet.append(values)
            else:
                rows.append(
                    _EMPTY_ROW
                    | dict(zip(QUIET_COLUMNS, values, strict=True))
                    | {
                        "kind": RESULT,
                        "document": result.document,
                        "fleet_events": result.events_document,
                    }
                )
        rows += _rows_of_letters(journal, result)
    if quiet:
        rows.append(_EMPTY_ROW | {"kind": QUIET, "instance_id": "", "document": to_json(quiet)})
    return rows


def _values_of(journal: JournalKey, result: KeyResult) -> tuple[Any, ...]:
    """Those of ``schema.QUIET_COLUMNS``."""
    counts = result.blocks, result.records, result.journal_bytes
    return (*journal, *result.newest, *counts, *(result.newest_event or (None, None, None)))


def _rows_of_letters(journal: JournalKey, result: KeyResult) -> list[dict[str, Any]]:
    return [
        _EMPTY_ROW
        | {
            "kind": DEAD_LETTER,
            "cluster": journal.cluster,
            "instance_id": journal.instance_id,
            "reason": letter.reason,
            "key": letter.row.key,
            "bytes": letter.row.length,
            # A part of a block is as good as nothing, and the driver gets the letters of all.
            "value": letter.row.value and letter.row.value[:DEAD_LETTER_BYTES_MAX],
            "headers": [
                {"key": k, "value": v} for k, v in headers_of_json(letter.row.headers or "[]")
            ],
            "partition": letter.row.partition,
            "offset": letter.row.offset,
        }
        for letter in result.dead_letters
    ]


def audit_blocks(blocks: DataFrame, processor: BlockAuditor | None = None) -> DataFrame:
    """Rows of ``schema.BLOCK_ROWS``, from wherever they come, to rows of ``schema.AUDIT_ROWS``."""
    spark = blocks.sparkSession
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    if partitions == 1:
        # One task reads all of the topic and audits it, instead of a shuffle between two stages,
        # which writes every block to a file and reads it again.
        blocks = blocks.coalesce(1)
    buckets = F.array(*map(F.lit, buckets_of(spark, partitions)))
    of_cluster = F.pmod(F.xxhash64("cluster"), F.lit(partitions)).cast("int")
    bucket = F.element_at(buckets, of_cluster + 1).alias(BUCKET)
    grouped = blocks.select(bucket, "*").groupBy(BUCKET)
    return grouped.transformWithStateInPandas(
        processor or BlockAuditor(),
        outputStructType=AUDIT_ROWS,
        outputMode="Append",
        timeMode="None",
    )


def buckets_of(spark: SparkSession, partitions: int) -> list[int]:
    """The number of each partition's bucket: Spark deals rows out by a hash of it."""
    if partitions == 1:
        return [0]
    found: dict[int, int] = {}
    first, count = 0, 32 * partitions
    while len(found) < partitions:
        bucket = F.col("id").cast("int")
        partition = F.pmod(F.hash(bucket), F.lit(partitions))
        numbers = spark.range(first, first + count, numPartitions=1).select(bucket, partition)
        for number, dealt_to in numbers.collect():
            found.setdefault(dealt_to, number)
        first += count
    return [found[partition] for partition in range(partitions)]
