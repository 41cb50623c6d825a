"""The journal: the ordered records of one instance, and the blocks that carry them.

A record is one event of a binary log, relay log or redo log, or one record about the server itself
(a start, a log_status row, a lock step). A block is a run of consecutive records of one instance in
columns; ``block_codec`` writes blocks as bytes, ``json_lines`` as text. ``docs/journal.md``
describes every field. Nothing here knows Kafka, Spark or a clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import TYPE_CHECKING, Any

import numpy as np

from tallystick.coordinates.values.binlog import WRAP
from tallystick.coordinates.values.errors import JournalError
from tallystick.coordinates.values.json_bytes import of_json, to_sorted_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy.typing as npt

SCHEMA_VERSION = 2
"""Version of a block's form; one of another version is refused, never guessed at."""

ABSENT = -1
"""What an integer column holds where the record has no such field."""


class Stream(IntEnum):
    """Which log, or the server itself, a record belongs to (column ``stream``)."""

    SERVER = 0
    BINLOG = 1
    RELAY = 2
    REDO = 3


class RedoType(IntEnum):
    """Column ``type`` of a REDO record: what InnoDB did; column ``value`` is up to which LSN."""

    WRITE = 1
    """Redo went from the log buffer to the files, from column ``start`` on."""
    FLUSH = 2
    """The files were synced."""
    CHECKPOINT = 3
    """Recovery would begin here."""
    COMMIT = 4
    """Commits returned to their sessions; what must be on disk by then ends here."""


class RecordType(IntEnum):
    """Column ``type`` of a SERVER record. BINLOG and RELAY records hold MySQL's event type code."""

    START = 1
    STOP = 2
    VARIABLES = 3
    LOG_STATUS = 4
    BINLOG_PURGE = 5
    BINLOG_RESET = 6
    CHANNEL = 7
    GTID_PURGED = 8
    COLLECTION = 9
    INFO_WRITE = 10
    ZONE = 11
    BACKUP_LOCK = 12
    ENGINE_LOCK = 13
    CLONE = 14
    GTID_PERSISTER = 15
    HEARTBEAT = 16
    GAP = 17
    STATEMENT = 18
    BACKUP = 19
    REDO_STATUS = 20
    OBSERVER = 21


class QueryVerb(IntEnum):
    """Column ``query``: what a QUERY event does to its group; NONE on every other event."""

    NONE = 0
    BEGIN = 1
    COMMIT = 2
    ROLLBACK = 3
    XA_START = 4
    XA_END = 5
    XA_COMMIT = 6
    XA_ROLLBACK = 7
    STATEMENT = 8
    """Any other statement: the whole group right after its GTID event (DDL), else a part of it."""


CLONE_STAGES = (
    "DROP DATA",
    "FILE COPY",
    "PAGE COPY",
    "REDO COPY",
    "FILE SYNC",
    "RESTART",
    "RECOVERY",
)
"""The stages of a clone in their order, as clone_progress names them."""

FLAG_IN_USE = 0x1
FLAG_ARTIFICIAL = 0x20
FLAG_RELAY_LOG = 0x40
"""LOG_EVENT_RELAY_LOG_F: the replica itself wrote this relay log event."""

COLUMNS: dict[str, np.dtype[Any]] = {
    "stream": np.dtype(np.uint8),
    "type": np.dtype(np.uint8),
    "flags": np.dtype(np.uint16),
    "query": np.dtype(np.uint8),
    "ts": np.dtype(np.int64),
    "channel": np.dtype(np.int32),
    "file": np.dtype(np.int32),
    "start": np.dtype(np.int64),
    "length": np.dtype(np.int64),
    "log_pos": np.dtype(np.int64),
    "server_id": np.dtype(np.int64),
    "checksum": np.dtype(np.int64),
    "sid": np.dtype(np.int32),
    "gno": np.dtype(np.int64),
    "last_committed": np.dtype(np.int64),
    "sequence_number": np.dtype(np.int64),
    "transaction_length": np.dtype(np.int64),
    "original_commit_timestamp": np.dtype(np.int64),
    "value": np.dtype(np.int64),
}
"""Numeric columns in order. ``channel``, ``file`` and ``sid`` are indices into the block's own
dictionaries (ABSENT: none); ``ts`` and ``original_commit_timestamp`` are microseconds; ``start``,
``length``, ``log_pos``, ``transaction_length`` bytes; ``value`` is a ROTATE's next position.
A REDO record has its LSN in ``value``; a WRITE also where it starts in ``start``, and of the header
of its last block the number in ``sequence_number``, the length in ``last_committed``."""

INDEX_COLUMNS = ("channel", "file", "sid")

Columns = dict[str, "npt.NDArray[Any]"]


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Consecutive records of one instance.

    Attributes:
        instance_id: Our own configuration key of the server.
        epoch: Which life of the producer wrote it; a higher one supersedes all lower ones.
        first_sequence: Sequence number of the first record within the epoch, from 0.
        columns: One array a column of ``COLUMNS``, all of one length.
        channels: Dictionary of column ``channel`` (channel names).
        files: Dictionary of column ``file`` (log file names without a directory).
        sids: Dictionary of column ``sid``: ``uuid`` or ``uuid:tag``, lower case.
        texts: Record index to text: a PREVIOUS_GTIDS event's set, a ROTATE's next file, a GTID that
            could not be read, a SERVER record's JSON body.
        cluster: The cluster that its producer counts the instance to; empty: none.
    """

    instance_id: str
    epoch: int
    first_sequence: int
    columns: Columns
    channels: tuple[str, ...]
    files: tuple[str, ...]
    sids: tuple[str, ...]
    texts: Mapping[int, str]
    cluster: str = ""

    def __len__(self) -> int:
        return len(self.columns["stream"])

    @property
    def dictionaries(self) -> dict[str, tuple[str, ...]]:
        """By index column what its indices mean."""
        return {"channel": self.channels, "file": self.files, "sid": self.sids}

    @property
    def next_sequence(self) -> int:
        """Sequence number of the record after the block."""
        return self.first_sequence + len(self)

    def body(self, index: int) -> dict[str, Any]:
        """The JSON body of the SERVER record at ``index``."""
        try:
            return parse_body(self.texts.get(index, "{}"))
        except JournalError as error:
            raise JournalError(
                f"record {self.first_sequence + index} of instance {self.instance_id!r}: {error}"
            ) from None

    def take(self, first: int, last: int) -> Block:
        """The records ``first`` to ``last`` (exclusive) as a block of their own."""
        texts = self.texts
        # Few records of a long journal, or few texts among many events.
        if last - first < len(texts):
            kept = {i - first: texts[i] for i in range(first, last) if i in texts}
        else:
            kept = {i - first: text for i, text in texts.items() if first <= i < last}
        return Block(
            instance_id=self.instance_id,
            epoch=self.epoch,
            first_sequence=self.first_sequence + first,
            columns={name: column[first:last] for name, column in self.columns.items()},
            channels=self.channels,
            files=self.files,
            sids=self.sids,
            texts=kept,
            cluster=self.cluster,
        )


def parse_body(text: str) -> dict[str, Any]:
    """Read the body of a SERVER record.

    Raises:
        JournalError: The text is no JSON object.
    """
    try:
        body = of_json(text)
    except ValueError as error:
        raise JournalError(f"its body is no JSON ({error}): {text[:80]!r}") from None
    except RecursionError:
        raise JournalError(f"its body is too deeply nested: {text[:80]!r}") from None
    if not isinstance(body, dict):
        raise JournalError(f"expected a JSON object as body, got {text[:80]!r}")
    return body


class _Dictionary:
    """Values in order of first use, and their indices."""

    __slots__ = ("index",)

    def __init__(self) -> None:
        self.index: dict[str, int] = {}

    def add(self, value: str | None) -> int:
        if value is None:
            return ABSENT
        return self.index.setdefault(value, len(self.index))


_ROW = Struct(f"{len(COLUMNS)}q")
_pack_row, _ROW_BYTES = _ROW.pack, _ROW.size
_SERVER = int(Stream.SERVER)
_pack_head = Struct("6q").pack
_pack_group_event = Struct("12q").pack
_GROUP_EVENT_TAIL = Struct("q").pack(ABSENT) * (len(COLUMNS) - 12)
"""Columns after `checksum`: the events after a group's GTID event have none of them."""
_SERVER_TAIL = Struct("q").pack(ABSENT) * (len(COLUMNS) - 6)
"""Columns after `channel`: a server record has none of them."""
_STREAM, _TS, _CHANNEL, _FILE, _SID = (
    list(COLUMNS).index(name) for name in ("stream", "ts", "channel", "file", "sid")
)


class BlockBuilder:
    """Collects records of one instance, one by one, into blocks.

    Args:
        instance_id: The instance that all records belong to.
        epoch: The producer's epoch.
        first_sequence: Sequence number of the next record.
        cluster: The cluster that the instance belongs to; empty: none.
    """

    def __init__(
        self, instance_id: str, *, epoch: int = 0, first_sequence: int = 0, cluster: str = ""
    ) -> None:
        self.instance_id = instance_id
        self.cluster = cluster
        self.epoch = epoch
        self.next_sequence = first_sequence
        self._clear()

    def _clear(self) -> None:
        self._tables: list[npt.NDArray[np.int64]] = []
        """What was added before the rows, of shape (columns, records)."""
        self._tabled = 0
        self._rows = bytearray()
        """What was added one by one since, `_ROW_BYTES` each."""
        self._texts: dict[int, str] = {}
        self._channels = _Dictionary()
        self._files = _Dictionary()
        self._sids = _Dictionary()

    def __len__(self) -> int:
        return self._tabled + len(self._rows) // _ROW_BYTES

    def log_event(
        self,
        stream: Stream,
        event_type: int,
        *,
        file: str | None,
        start: int,
        length: int,
        ts: int,
        channel: str | None = None,
        log_pos: int = ABSENT,
        flags: int = 0,
        server_id: int = ABSENT,
        checksum: int = ABSENT,
        query: QueryVerb = QueryVerb.NONE,
        sid: str | None = None,
        gno: int = ABSENT,
        last_committed: int = ABSENT,
        sequence_number: int = ABSENT,
        transaction_length: int = ABSENT,
        original_commit_timestamp: int = ABSENT,
        value: int = ABSENT,
        text: str | None = None,
    ) -> None:
        """Add one event of a binary log or relay log (fields as in ``COLUMNS``)."""
        files, sids = self._files.index, self._sids.index
        if text is not None:
            self._texts[len(self)] = text
        self._rows += _pack_row(
            stream,
            event_type,
            flags,
            query,
            ts,
            ABSENT if channel is None else self._channels.add(channel),
            ABSENT if file is None else files.setdefault(file, len(files)),
            start,
            length,
            log_pos,
            server_id,
            checksum,
            ABSENT if sid is None else sids.setdefault(sid, len(sids)),
            gno,
            last_committed,
            sequence_number,
            transaction_length,
            original_commit_timestamp,
            value,
        )

    def group_events(
        self,
        stream: Stream,
        events: Iterable[tuple[int, int, int, int]],
        *,
        file: str,
        start: int,
        ts: int,
        server_id: int,
        channel: str | None = None,
        shift: int = 0,
    ) -> None:
        """Add events of one group that follow each other, after its GTID event.

        Args:
            stream: Their log.
            events: Of each its type, ``QueryVerb``, length and checksum.
            file: Their file.
            start: Where the first one starts.
            ts: Their time, microseconds.
            server_id: Of the server where the group was first committed.
            channel: Of a relay log.
            shift: By how much they are further back in this file than in the source's.
        """
        rows, files = self._rows, self._files.index
        channel_number = ABSENT if channel is None else self._channels.add(channel)
        file_number = files.setdefault(file, len(files))
        for event_type, query, length, checksum in events:
            end = start + length
            rows += (
                _pack_group_event(
                    stream,
                    event_type,
                    0,
                    query,
                    ts,
                    channel_number,
                    file_number,
                    start,
                    length,
                    (end - shift) % WRAP,
                    server_id,
                    checksum,
                )
                + _GROUP_EVENT_TAIL
            )
            start = end

    def redo_event(
        self,
        redo_type: RedoType,
        lsn: int,
        *,
        ts: int,
        start_lsn: int = ABSENT,
        block_number: int = ABSENT,
        data_length: int = ABSENT,
    ) -> None:
        """Add one event of InnoDB's redo log (docs/journal.md)."""
        self.log_event(
            Stream.REDO,
            redo_type,
            file=None,
            start=start_lsn,
            length=ABSENT,
            ts=ts,
            last_committed=data_length,
            sequence_number=block_number,
            value=lsn,
        )

    def log_events(
        self,
        stream: Stream,
        events: npt.NDArray[np.int64],
        *,
        file: str | None,
        ts: int,
        sids: Sequence[str],
        channel: str | None = None,
    ) -> None:
        """Add events of one log file that have no text, as columns.

        Args:
            stream: Their log.
            events: A row for each of ``COLUMNS``, a column for each event. ``stream``, ``ts``,
                ``channel`` and ``file`` are filled in here; ``sid`` holds indices of `sids`, or
                ABSENT.
            file: Their file; None: they have none.
            ts: Their time, microseconds.
            sids: What the indices mean.
            channel: Of a relay log.
        """
        self._end_rows()
        table = events.copy()
        table[_STREAM], table[_TS] = stream, ts
        table[_CHANNEL], table[_FILE] = self._channels.add(channel), self._files.add(file)
        numbers = np.array([*map(self._sids.add, sids), ABSENT], dtype=np.int64)
        table[_SID] = numbers[table[_SID]]
        self._tables.append(table)
        self._tabled += table.shape[1]

    def _end_rows(self) -> None:
        if self._rows:
            table = np.frombuffer(self._rows, dtype=np.int64).reshape(-1, len(COLUMNS)).T
            self._tables.append(table)
            self._tabled += table.shape[1]
            self._rows = bytearray()

    def server_record(
        self,
        record_type: RecordType,
        body: Mapping[str, Any],
        *,
        ts: int,
        channel: str | None = None,
    ) -> None:
        """Add one server record; ``body`` must be JSON."""
        self._texts[len(self)] = to_sorted_json(body)
        number = ABSENT if channel is None else self._channels.add(channel)
        self._rows += _pack_head(_SERVER, record_type, 0, 0, ts, number) + _SERVER_TAIL

    def build(self) -> Block:
        """The block of all records added since the last call; the builder starts anew after it."""
        self._end_rows()
        tables, count = self._tables, self._tabled
        if not tables:
            tables = [np.empty((len(COLUMNS), 0), dtype=np.int64)]
        table = tables[0] if len(tables) == 1 else np.concatenate(tables, axis=1)
        block = Block(
            instance_id=self.instance_id,
            epoch=self.epoch,
            first_sequence=self.next_sequence,
            columns={
                name: table[i].astype(dtype) for i, (name, dtype) in enumerate(COLUMNS.items())
            },
            channels=tuple(self._channels.index),
            files=tuple(self._files.index),
            sids=tuple(self._sids.index),
            texts=self._texts,
            cluster=self.cluster,
        )
        self.next_sequence += count
        self._clear()
        return block


def concatenate(blocks: Sequence[Block]) -> Block:
    """One block of all records of ``blocks``, which must follow each other without a gap.

    Raises:
        JournalError: The blocks are of several instances, clusters or epochs, or do not follow each
            other.
    """
    if not blocks:
        raise JournalError("expected at least one block, got none")
    first = blocks[0]
    meanings = first.dictionaries
    dictionaries: dict[str, _Dictionary] = {name: _Dictionary() for name in INDEX_COLUMNS}
    for name, values in meanings.items():
        for value in values:
            dictionaries[name].add(value)
    parts: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in COLUMNS}
    texts: dict[int, str] = {}
    expected = first.first_sequence
    for block in blocks:
        if (block.instance_id, block.cluster, block.epoch, block.first_sequence) != (
            first.instance_id,
            first.cluster,
            first.epoch,
            expected,
        ):
            raise JournalError(
                f"expected the block of instance {first.instance_id!r}, cluster {first.cluster!r}, "
                f"epoch {first.epoch}, sequence {expected}; got {block.instance_id!r}, "
                f"{block.cluster!r}, {block.epoch}, {block.first_sequence}"
            )
        texts.update((i + expected - first.first_sequence, t) for i, t in block.texts.items())
        columns = dict(block.columns)
        for name, values in block.dictionaries.items():
            # Most blocks of a journal that follow each other name the same, or nothing.
            if values and values != meanings[name]:
                numbers = [dictionaries[name].add(value) for value in values]
                columns[name] = np.array([*numbers, ABSENT], dtype=np.int32)[columns[name]]
        for name, column in columns.items():
            parts[name].append(column)
        expected = block.next_sequence
    return Block(
        instance_id=first.instance_id,
        epoch=first.epoch,
        first_sequence=first.first_sequence,
        columns={name: np.concatenate(arrays) for name, arrays in parts.items()},
        channels=tuple(dictionaries["channel"].index),
        files=tuple(dictionaries["file"].index),
        sids=tuple(dictionaries["sid"].index),
        texts=texts,
        cluster=first.cluster,
    )


def cut_into_blocks(block: Block, size: int) -> list[Block]:
    """``block`` as blocks of at most ``size`` records, for harnesses that vary the block size."""
    if size < 1:
        raise ValueError(f"expected a block size of at least 1, got {size}")
    return [block.take(i, min(i + size, len(block))) for i in range(0, len(block), size)]
