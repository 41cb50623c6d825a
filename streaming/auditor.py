"""The auditor's stateful operator: ``coordinates.audit.instance`` for each instance, inside Spark.

All reasoning is in the core. Here a key's blocks of one micro-batch are put in journal order, read
and absorbed, and what cannot be read is kept aside with its reason.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from tallystick.coordinates.audit.fleet_events import FleetEvent, encode_fleet_events
from tallystick.coordinates.audit.instance import AuditOutput, InstanceAudit, failure_text
from tallystick.coordinates.events.block_codec import BLOCK_BYTES_MAX, decode_block
from tallystick.coordinates.events.journal import concatenate
from tallystick.coordinates.values.errors import BlockError, StateDamagedError, StateError
from tallystick.streaming.schema import (
    AUDIT_ROWS,
    AUDIT_STATE,
    DEAD_LETTER,
    DEAD_LETTER_BYTES_MAX,
    NOT_LISTED,
    READ,
    RESULT,
    STATE_NAME,
    encode_document,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

    from tallystick.coordinates.audit.cut import Cut
    from tallystick.coordinates.events.journal import Block
    from tallystick.coordinates.results import Finding, Observation

RUN_RECORDS_MAX = 8192
"""Small blocks that follow each other are absorbed together, up to this many records: the audit
costs about as much for ten records as for a thousand."""

Headers = list[tuple[str, bytes]]
_EMPTY_ROW: dict[str, Any] = dict.fromkeys(AUDIT_ROWS.names)
_NOTHING = encode_document([], [], [])
_NO_EVENTS = encode_fleet_events([])


@dataclass(frozen=True, slots=True)
class BlockRow:
    """One message of the journal topic, as ``schema.BLOCK_ROWS`` has it."""

    value: bytes | None
    headers: Headers | None
    partition: int
    offset: int
    sent_us: int | None = None
    length: int = -1
    """Of the value, which is cut if it is too large to be read; -1: that of ``value``."""
    key: bytes | None = None

    def __post_init__(self) -> None:
        if self.length < 0:
            object.__setattr__(self, "length", len(self.value or b""))


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that cannot be read, and why."""

    row: BlockRow
    reason: str


@dataclass(slots=True)
class KeyResult:
    """What one instance's blocks of one micro-batch brought.

    ``is_known``: whether anything was ever read of it. ``document`` and ``events_document``: what
    ``encode`` makes of the lists.
    """

    is_known: bool = True
    blocks: int = 0
    records: int = 0
    journal_bytes: int = 0
    findings: list[Finding] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)
    cuts: list[Cut] = field(default_factory=list)
    fleet_events: list[FleetEvent] = field(default_factory=list)
    dead_letters: list[DeadLetter] = field(default_factory=list)
    document: bytes = _NOTHING
    events_document: bytes = _NO_EVENTS

    def encode(self) -> None:
        """Make bytes of what was brought, for the rows that leave the operator."""
        self.document = encode_document(self.findings, self.observations, self.cuts)
        self.events_document = encode_fleet_events(self.fleet_events)

    def refuse(self, row: BlockRow, reason: str) -> None:
        """Keep a message aside that cannot be read."""
        self.dead_letters.append(DeadLetter(row, reason))

    def add(self, output: AuditOutput) -> None:
        """Append the result of the audit of a run of records."""
        self.findings += output.findings
        self.observations += output.observations
        self.cuts += output.cuts
        self.fleet_events += output.fleet_events


def audit_rows(
    saved: bytes | None,
    instance_id: str,
    rows: Iterable[BlockRow],
    *,
    disabled: frozenset[str] = frozenset(),
) -> tuple[bytes | None, KeyResult]:
    """Absorb the messages of one key; whatever is raised stays with the messages that raise it.

    A state that cannot be read is dropped: the instance begins anew, and its rows are undecided
    until the journal has shown enough again.

    The order of a topic's partition is the order of the journal, and Spark promises none within a
    key after its shuffle, so rows are sorted by partition and offset. Blocks of one key in several
    partitions (partitions were added to the topic) can only be ordered by their own content.

    Args:
        saved: The instance's state before, None if it has none.
        instance_id: The key.
        rows: Its messages, in any order.
        disabled: Names of rules that are switched off.

    Returns:
        The state after, and what the messages brought. Messages of which none can be read leave no
        state where there was none: their key need not be an instance.
    """
    ordered = sorted(rows, key=lambda row: (row.partition, row.offset))
    read = [(row, _read(instance_id, row)) for row in ordered]
    if len({row.partition for row in ordered}) > 1:
        read.sort(key=lambda pair: _journal_position(pair[1]))
    state: bytes | None = None
    if saved is None and read and all(isinstance(block, str) for _, block in read):
        letters = [DeadLetter(row, str(reason)) for row, reason in read]
        result = KeyResult(is_known=False, dead_letters=letters)
    else:
        try:
            state, result = _absorb_runs(saved, instance_id, read, disabled)
        except Exception:  # noqa: BLE001  which message it is, and what, is found out one by one
            state, result = _absorb_singly(saved, instance_id, read, disabled)
    result.journal_bytes = sum(row.length for row in ordered)
    return state, result


def _absorb_runs(
    saved: bytes | None,
    instance_id: str,
    read: list[tuple[BlockRow, Block | str]],
    disabled: frozenset[str],
) -> tuple[bytes, KeyResult]:
    """Absorb blocks that follow each other together."""
    audit, result = _begin(saved, instance_id, read, disabled)
    run: list[Block] = []
    length = 0
    for row, block in read:
        if isinstance(block, str):
            _absorb(audit, run, result)
            run, length = [], 0
            result.refuse(row, block)
            result.add(audit.note_unreadable(block))
            continue
        if row.sent_us is not None:
            result.add(audit.sent(block, row.sent_us))
        follows = not run or (block.epoch, block.first_sequence) == (
            run[-1].epoch,
            run[-1].next_sequence,
        )
        if not follows or length + len(block) > RUN_RECORDS_MAX:
            _absorb(audit, run, result)
            run, length = [], 0
        run.append(block)
        length += len(block)
    _absorb(audit, run, result)
    result.encode()
    return audit.to_bytes(), result


def _absorb_singly(
    saved: bytes | None,
    instance_id: str,
    read: list[tuple[BlockRow, Block | str]],
    disabled: frozenset[str],
) -> tuple[bytes, KeyResult]:
    """Absorb each block alone, so that only those that raise are refused."""
    audit, result = _begin(saved, instance_id, read, disabled)

    def check(output: AuditOutput) -> None:
        alone = KeyResult()
        alone.add(output)
        alone.encode()
        audit.to_bytes()

    for row, block in read:
        if isinstance(block, str):
            result.refuse(row, block)
            result.add(audit.note_unreadable(block))
            continue
        if row.sent_us is not None:
            result.add(audit.sent(block, row.sent_us))
        output, reason = audit.absorb_or_refuse(block, check)
        result.add(output)
        if reason:
            result.refuse(row, reason)
        else:
            result.blocks += 1
            result.records += len(block)
    result.encode()
    return audit.to_bytes(), result


def _begin(
    saved: bytes | None,
    instance_id: str,
    read: list[tuple[BlockRow, Block | str]],
    disabled: frozenset[str],
) -> tuple[InstanceAudit, KeyResult]:
    first = next((block for _, block in read if not isinstance(block, str)), None)
    audit, begun = resumed(saved, instance_id, disabled, first)
    result = KeyResult()
    result.add(begun)
    return audit, result


def resumed(
    saved: bytes | None,
    instance_id: str,
    disabled: frozenset[str],
    first: Block | None = None,
) -> tuple[InstanceAudit, AuditOutput]:
    """An instance's audit as it was saved, or a new one, and the error if that cannot be read.

    Args:
        saved: The saved state, None if there is none.
        instance_id: The instance.
        disabled: Names of rules that are switched off.
        first: The first block that follows.
    """
    if saved is not None:
        try:
            return InstanceAudit.from_bytes(saved, instance_id), AuditOutput()
        except Exception as error:  # noqa: BLE001  whatever it is, other instances go on
            if not isinstance(error, StateError):
                error = StateDamagedError(failure_text(error))
            audit = InstanceAudit(instance_id, disabled=disabled)
            return audit, audit.lose_state(saved, error, first)
    return InstanceAudit(instance_id, disabled=disabled), AuditOutput()


def _journal_position(block: Block | str) -> tuple[int, int]:
    return (-1, -1) if isinstance(block, str) else (block.epoch, block.first_sequence)


def _read(instance_id: str, row: BlockRow) -> Block | str:
    """The block of a message, or why it cannot be read."""
    if not instance_id:
        return "a message whose key is missing or no UTF-8: expected the instance as key"
    if row.value is None:
        return "a message without a value: expected a block"
    if row.length > BLOCK_BYTES_MAX:
        return f"a block of {row.length} bytes: expected at most {BLOCK_BYTES_MAX}"
    try:
        return decode_block(row.value, key=instance_id.encode(), headers=row.headers)
    except BlockError as error:
        return str(error)


def _absorb(audit: InstanceAudit, run: list[Block], result: KeyResult) -> None:
    if run:
        block = run[0] if len(run) == 1 else concatenate(run)
        result.blocks += len(run)
        result.records += len(block)
        result.add(audit.absorb(block))


class BlockAuditor(StatefulProcessor):
    """``audit_rows`` for each key, with the state as the one element of a list state.

    A value state would do, but Spark 4.0.0 takes a value from Python in one read of its socket,
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
        self._state = handle.getListState(STATE_NAME, AUDIT_STATE)

    def handleInputRows(  # noqa: N802  Spark's name
        self,
        key: tuple[str],
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Audit the rows of one instance."""
        instance_id = key[0]
        messages = [row for frame in rows for row in _rows_of(frame)]
        if not instance_id:
            # No instance, no journal: nothing to keep a state of.
            yield _frame(instance_id, audit_rows(None, instance_id, messages)[1], messages)
            return
        if self._listed is not None and instance_id not in self._listed:
            yield _as_frame(
                [
                    _EMPTY_ROW
                    | {"kind": NOT_LISTED, "instance_id": instance_id, "blocks": len(messages)},
                    *_read_rows(messages),
                ]
            )
            return
        saved = [bytes(element[0]) for element in self._state.get()]
        state, result = audit_rows(
            saved[0] if saved else None,
            instance_id,
            messages,
            disabled=self._disabled,
        )
        if state is not None:
            self._state.put([(state,)])
        yield _frame(instance_id, result, messages)

    def close(self) -> None:
        """Nothing is held between calls."""


def _rows_of(frame: pd.DataFrame) -> Iterator[BlockRow]:
    names = ("value", "headers", "partition", "offset", "sent_us", "bytes", "key")
    columns = (frame[name] for name in names)
    for value, headers, partition, offset, sent_us, length, key in zip(*columns, strict=True):
        yield BlockRow(
            value=value,
            headers=None if headers is None else [(h["key"], h["value"]) for h in headers],
            partition=int(partition),
            offset=int(offset),
            sent_us=None if pd.isna(sent_us) else int(sent_us),
            length=int(length),
            key=key,
        )


def _read_rows(messages: Sequence[BlockRow]) -> Iterator[dict[str, Any]]:
    """What was read of each partition: from which offset on, and how many messages."""
    partitions: dict[int, list[int]] = {}
    for row in messages:
        partitions.setdefault(row.partition, []).append(row.offset)
    for partition, offsets in partitions.items():
        yield _EMPTY_ROW | {
            "kind": READ,
            "instance_id": "",
            "blocks": len(offsets),
            "partition": partition,
            "offset": min(offsets),
        }


def _frame(instance_id: str, result: KeyResult, messages: Sequence[BlockRow] = ()) -> pd.DataFrame:
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
    return _as_frame([*rows, *_read_rows(messages)])


def _as_frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    # Objects, so that a missing integer stays missing and does not turn its column into floats.
    frame: pd.DataFrame = pd.DataFrame(rows, columns=AUDIT_ROWS.names, dtype=object)
    return frame


def audit_blocks(
    blocks: DataFrame,
    *,
    disabled: frozenset[str] = frozenset(),
    listed: frozenset[str] | None = None,
) -> DataFrame:
    """Rows of ``schema.BLOCK_ROWS``, from wherever they come, to rows of ``schema.AUDIT_ROWS``."""
    grouped = blocks.groupBy("instance_id")
    return grouped.transformWithStateInPandas(
        BlockAuditor(disabled, listed),
        outputStructType=AUDIT_ROWS,
        outputMode="Append",
        timeMode="None",
    )
