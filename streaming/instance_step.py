"""The messages of one instance in one micro-batch: read in journal order, and absorbed.

All reasoning is in the core. What cannot be read, or raises, is kept aside with its reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from tallystick.coordinates.audit.fleet_events import (
    FleetEvent,
    FleetEventKind,
    encode_fleet_events,
)
from tallystick.coordinates.audit.instance import AuditOutput, InstanceAudit, is_ahead
from tallystick.coordinates.events.block_codec import BLOCK_BYTES_MAX, decode_blocks
from tallystick.coordinates.events.journal import concatenate
from tallystick.coordinates.values.errors import BlockError
from tallystick.streaming.schema import encode_document

if TYPE_CHECKING:
    from tallystick.coordinates.audit.cut import Cut
    from tallystick.coordinates.events.journal import Block
    from tallystick.coordinates.results import Finding, Observation

RUN_RECORDS_MAX = 8192
"""Small blocks that follow each other are absorbed together, up to this many records: the audit
costs about as much for ten records as for a thousand."""

_OF_ADMINISTRATION = frozenset(
    {FleetEventKind.BOOT, FleetEventKind.CHANNEL, FleetEventKind.CLONE, FleetEventKind.LINEAGE}
)


class JournalKey(NamedTuple):
    """Whose a message is: its cluster, empty without one, and its instance."""

    cluster: str
    instance_id: str


class BlockRow(NamedTuple):
    """One message of the journal topic, as ``schema.BLOCK_ROWS`` has it.

    Attributes:
        sent_bytes: Of the value, which is cut if it is too large to be read; -1: as it is.
    """

    value: bytes | None
    headers: str | None
    partition: int
    offset: int
    sent_us: int | None = None
    sent_bytes: int = -1
    key: bytes | None = None

    @property
    def length(self) -> int:
        """Of the value, in bytes, as it was sent."""
        return len(self.value or b"") if self.sent_bytes < 0 else self.sent_bytes


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that cannot be read, and why."""

    row: BlockRow
    reason: str


@dataclass(slots=True)
class KeyResult:
    """What one instance's blocks of one micro-batch brought.

    ``is_known``: whether anything was ever read of it. ``newest``: partition and offset of the last
    block that was read, (-1, -1) none. What ``encode`` makes of the lists: ``document``,
    ``events_document`` of the events of administration, each None of nothing, and ``newest_event``,
    epoch, sequence number and time up to which the journal is known.
    """

    is_known: bool = True
    newest: tuple[int, int] = (-1, -1)
    blocks: int = 0
    records: int = 0
    journal_bytes: int = 0
    findings: list[Finding] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)
    cuts: list[Cut] = field(default_factory=list)
    fleet_events: list[FleetEvent] = field(default_factory=list)
    dead_letters: list[DeadLetter] = field(default_factory=list)
    document: bytes | None = None
    events_document: bytes | None = None
    newest_event: tuple[int, int, int] | None = None

    def encode(self) -> None:
        """Make bytes of what was brought, for the rows that leave the operator."""
        if self.findings or self.observations or self.cuts:
            self.document = encode_document(self.findings, self.observations, self.cuts)
        if self.fleet_events:
            newest = max(self.fleet_events, key=lambda event: event.ts)
            self.newest_event = newest.epoch, newest.sequence, newest.ts
            of_administration = _of_administration(self.fleet_events)
            if of_administration:
                self.events_document = encode_fleet_events(of_administration)

    def note(self, rows: Sequence[BlockRow]) -> None:
        """Messages, in order, have blocks that were read."""
        self.newest = max(self.newest, (rows[-1].partition, rows[-1].offset))
        self.blocks += len(rows)

    def refuse(self, row: BlockRow, reason: str) -> None:
        """Keep a message aside that cannot be read."""
        self.dead_letters.append(DeadLetter(row, reason))

    def put_before(self, output: AuditOutput) -> None:
        """Put the result of what was before into front, and encode again."""
        if output.observations or output.fleet_events:
            self.findings = output.findings + self.findings
            self.observations = output.observations + self.observations
            self.cuts = output.cuts + self.cuts
            self.fleet_events = output.fleet_events + self.fleet_events
            self.encode()

    def add(self, output: AuditOutput) -> None:
        """Append the result of the audit of a run of records."""
        self.findings += output.findings
        self.observations += output.observations
        self.cuts += output.cuts
        self.fleet_events += output.fleet_events


Messages = Iterator[tuple[Sequence[BlockRow], "Block | str"]]
"""Of one instance, in the order of its journal: one and its block, several of one record each and
their block, or one and why it cannot be read."""


def read(key: JournalKey, rows: Iterable[BlockRow]) -> Messages:
    """Put messages of one key into the order of the journal, and decode them one by one.

    The order of a topic's partition is the order of the journal, and Spark promises none within a
    key after its shuffle, so rows are sorted by partition and offset. Blocks of one key in several
    partitions (partitions were added to the topic) can only be ordered by their own content. Few
    bytes may be many records, so blocks are not kept: those are then decoded twice.

    Args:
        key: Whose they are.
        rows: Its messages, in any order.
    """
    ordered = sorted(rows, key=lambda row: (row.partition, row.offset))
    if len({row.partition for row in ordered}) > 1:
        ordered.sort(key=lambda row: _journal_position(next(_decoded(key, [row]))[1]))
    return _decoded(key, ordered)


def _decoded(key: JournalKey, rows: Iterable[BlockRow]) -> Messages:
    for refusal, same in groupby(rows, partial(_refusal, key)):
        if refusal:
            yield from (([row], refusal) for row in same)
            continue
        taken = list(same)
        messages = ((row.value or b"", row.headers) for row in taken)
        at = 0
        for count, block in decode_blocks(messages, key=key.instance_id.encode()):
            of = taken[at : at + count]
            at += count
            if isinstance(block, BlockError):
                yield of, str(block)
            elif block.cluster != key.cluster:
                reason = f"a block of cluster {block.cluster!r} with a header of {key.cluster!r}"
                yield from (([row], reason) for row in of)
            else:
                yield of, block


def absorb_runs(audit: InstanceAudit, messages: Messages) -> KeyResult:
    """Absorb blocks that follow each other together."""
    result = KeyResult()
    run: list[Block] = []
    length = 0
    for rows, block in messages:
        if isinstance(block, str):
            _absorb(audit, run, result)
            run, length = [], 0
            result.refuse(rows[0], block)
            result.add(audit.note_unreadable(block))
            continue
        result.note(rows)
        _compare_times(audit, rows, block, result)
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
    return result


def _compare_times(
    audit: InstanceAudit, rows: Sequence[BlockRow], block: Block, result: KeyResult
) -> None:
    """Compare the times in a block with those of its messages."""
    sent = [row.sent_us for row in rows if row.sent_us is not None]
    if not sent:
        return
    if len(rows) == 1 or not is_ahead(block, min(sent)):
        result.add(audit.sent(block, min(sent)))
        return
    for row, record in _one_by_one(rows, block):
        if row.sent_us is not None:
            result.add(audit.sent(record, row.sent_us))


def absorb_singly(audit: InstanceAudit, messages: Messages) -> KeyResult:
    """Absorb each block alone, so that only those that raise are refused."""
    result = KeyResult()

    def check(output: AuditOutput) -> None:
        alone = KeyResult()
        alone.add(output)
        alone.encode()
        audit.to_bytes()

    for rows, joined in messages:
        if isinstance(joined, str):
            result.refuse(rows[0], joined)
            result.add(audit.note_unreadable(joined))
            continue
        for row, block in _one_by_one(rows, joined):
            if row.sent_us is not None:
                result.add(audit.sent(block, row.sent_us))
            output, reason = audit.absorb_or_refuse(block, check)
            result.add(output)
            if reason:
                result.refuse(row, reason)
            else:
                result.note([row])
                result.records += len(block)
    return result


def _one_by_one(rows: Sequence[BlockRow], block: Block) -> Iterator[tuple[BlockRow, Block]]:
    """Each message with its own block."""
    if len(rows) == 1:
        yield rows[0], block
        return
    for at, row in enumerate(rows):
        yield row, block.take(at, at + 1)


def _journal_position(block: Block | str) -> tuple[int, int]:
    return (-1, -1) if isinstance(block, str) else (block.epoch, block.first_sequence)


def _refusal(key: JournalKey, row: BlockRow) -> str:
    """Why a message has no block that could be decoded; empty: it may have one."""
    if not key.instance_id:
        return "a message whose key is missing or no UTF-8: expected the instance as key"
    if row.value is None:
        return "a message without a value: expected a block"
    if row.length > BLOCK_BYTES_MAX:
        return f"a block of {row.length} bytes: expected at most {BLOCK_BYTES_MAX}"
    return ""


def _of_administration(events: Sequence[FleetEvent]) -> list[FleetEvent]:
    """What incidents and membership follow from, without what only comparisons need."""
    kept = []
    for event in events:
        if event.kind in _OF_ADMINISTRATION:
            kept.append(event)
        elif event.kind is FleetEventKind.STATUS and not event.body["channels"]:
            kept.append(replace(event, body={"channels": []}, arrays={}))
    return kept


def _absorb(audit: InstanceAudit, run: list[Block], result: KeyResult) -> None:
    if run:
        block = run[0] if len(run) == 1 else concatenate(run)
        result.records += len(block)
        result.add(audit.absorb(block))
