"""The auditor's stateful operator: the audits of the instances of a bucket, inside Spark.

Instances are put into buckets, so that what an instance costs is its audit, and not a call of
Spark's for each. The audits of a bucket are held by the Python worker between micro-batches, and
their log is in the state store (``audit_log``).
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pandas as pd
from pyspark import TaskContext
from pyspark.sql import functions as F  # noqa: N812  the name that all of Spark's guides use
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from tallystick.streaming.audit_log import AuditLog, Entry
from tallystick.streaming.instance_step import BlockRow, KeyResult
from tallystick.streaming.schema import (
    AUDIT_ROWS,
    BUCKET,
    DEAD_LETTER,
    DEAD_LETTER_BYTES_MAX,
    LOG_ENTRY,
    LOG_NAMES,
    LOG_VERSION,
    NOT_LISTED,
    READ,
    RESULT,
    VERSION_NAME,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.stateful_processor import ListState, StatefulProcessorHandle

Version = tuple[int, str]
"""A row of ``schema.LOG_VERSION``."""
_EMPTY_ROW: dict[str, Any] = dict.fromkeys(AUDIT_ROWS.names)
BUCKETS_A_PARTITION = 8
"""Where there are several partitions: Spark deals buckets out by a hash of their numbers."""


class BlockAuditor(StatefulProcessor):
    """The step of a bucket's ``AuditLog`` with the rows of a micro-batch.

    State is in list states alone: Spark 4.0.0 takes a value from Python in one read of its socket,
    which may return less than the value has; a list travels as an Arrow stream and is read whole.

    Args:
        disabled: Names of rules that are switched off.
        listed: The only instances that are judged; None: all.
    """

    def __init__(
        self, disabled: frozenset[str] = frozenset(), listed: frozenset[str] | None = None
    ) -> None:
        self._disabled = disabled
        self._listed = listed

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Ask for the state. Spark calls this once more on the driver, so it does nothing else."""
        self._version = handle.getListState(VERSION_NAME, LOG_VERSION)
        self._store = _SparkStore([handle.getListState(name, LOG_ENTRY) for name in LOG_NAMES])

    def handleInputRows(  # noqa: N802  Spark's name
        self,
        key: tuple[int],
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Audit the rows of the instances of a bucket."""
        [bucket] = key
        messages: dict[str, list[BlockRow]] = defaultdict(list)
        for frame in rows:
            for instance_id, row in _rows_of(frame):
                messages[instance_id].append(row)
        found = list(_read_rows(row for of_instance in messages.values() for row in of_instance))
        if self._listed is not None:
            for name in messages.keys() - self._listed - {""}:
                count = len(messages.pop(name))
                stranger = {"kind": NOT_LISTED, "instance_id": name, "blocks": count}
                found.append(_EMPTY_ROW | stranger)
        version = next(((int(row[0]), str(row[1])) for row in self._version.get()), None)
        log = _held.take(bucket, version)
        if log is None and version is not None:
            log = AuditLog(self._disabled, self._store.read(), version[0])
        log = log or AuditLog(self._disabled)
        for name, result in log.step(messages, self._store).items():
            found += rows_of_result(name, result)
        version = log.next_number, uuid.uuid4().hex
        self._version.put([version])
        _held.keep(bucket, version, log)
        # Objects, so that a missing integer stays missing and makes its column no floats.
        yield pd.DataFrame(found, columns=AUDIT_ROWS.names, dtype=object)

    def close(self) -> None:
        """Nothing is open between calls."""


class _SparkStore:
    """The log in list states, one a segment."""

    def __init__(self, segments: Sequence[ListState]) -> None:
        self._segments = segments

    def read(self) -> Iterator[tuple[int, Entry]]:
        for number, segment in enumerate(self._segments):
            for row in segment.get():
                yield number, entry_of(row)

    def append(self, segment: int, entries: list[Entry]) -> None:
        self._segments[segment].appendList([*entries])

    def clear(self, segment: int) -> None:
        self._segments[segment].clear()


class _Held:
    """What this process holds of one partition's buckets, until another task takes its place."""

    def __init__(self) -> None:
        self._partition = -1
        self._logs: dict[int, tuple[Version, AuditLog]] = {}

    def take(self, bucket: int, version: Version | None) -> AuditLog | None:
        """The audits of a bucket, if they are those of the state's version; they may now change."""
        context = TaskContext.get()
        partition = -1 if context is None else context.partitionId()
        if partition != self._partition:
            # The state of every partition that ever came here would be too much.
            self._partition, self._logs = partition, {}
        held = self._logs.pop(bucket, None)
        return None if held is None or held[0] != version else held[1]

    def keep(self, bucket: int, version: Version, log: AuditLog) -> None:
        """Hold them until the next micro-batch."""
        self._logs[bucket] = version, log


_held = _Held()


def entry_of(row: Sequence[Any]) -> Entry:
    """A row of ``schema.LOG_ENTRY`` as an entry."""
    number, kind, names, data, check = row
    return Entry(int(number), kind, names, bytes(data), int(check))


def _rows_of(frame: pd.DataFrame) -> Iterator[tuple[str, BlockRow]]:
    names = ("instance_id", "value", "headers", "partition", "offset", "sent_us", "bytes", "key")
    columns = (frame[name] for name in names)
    for name, value, headers, partition, offset, sent_us, length, key in zip(*columns, strict=True):
        yield (
            name,
            BlockRow(
                value=value,
                headers=None if headers is None else [(h["key"], h["value"]) for h in headers],
                partition=int(partition),
                offset=int(offset),
                sent_us=None if pd.isna(sent_us) else int(sent_us),
                length=int(length),
                key=key,
            ),
        )


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


def rows_of_result(instance_id: str, result: KeyResult) -> list[dict[str, Any]]:
    """What an instance's messages brought, as rows of ``schema.AUDIT_ROWS``."""
    rows = [
        _EMPTY_ROW
        | {
            "kind": RESULT,
            "instance_id": instance_id,
            "blocks": result.blocks,
            "records": result.records,
            "bytes": result.journal_bytes,
            "document": result.document,
            "fleet_events": result.events_document,
        }
        for _ in range(result.is_known)
    ]
    rows += [
        _EMPTY_ROW
        | {
            "kind": DEAD_LETTER,
            "instance_id": instance_id,
            "reason": letter.reason,
            "key": letter.row.key,
            "bytes": letter.row.length,
            # A part of a block is as good as nothing, and the driver gets the letters of all.
            "value": letter.row.value and letter.row.value[:DEAD_LETTER_BYTES_MAX],
            "headers": [{"key": k, "value": v} for k, v in letter.row.headers or ()],
            "partition": letter.row.partition,
            "offset": letter.row.offset,
        }
        for letter in result.dead_letters
    ]
    return rows


def audit_blocks(blocks: DataFrame, processor: BlockAuditor | None = None) -> DataFrame:
    """Rows of ``schema.BLOCK_ROWS``, from wherever they come, to rows of ``schema.AUDIT_ROWS``."""
    partitions = int(blocks.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
    buckets = 1 if partitions == 1 else partitions * BUCKETS_A_PARTITION
    bucket = F.pmod(F.xxhash64("instance_id"), F.lit(buckets)).cast("int").alias(BUCKET)
    grouped = blocks.select(bucket, "*").groupBy(BUCKET)
    return grouped.transformWithStateInPandas(
        processor or BlockAuditor(),
        outputStructType=AUDIT_ROWS,
        outputMode="Append",
        timeMode="None",
    )
