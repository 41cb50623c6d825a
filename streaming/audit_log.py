"""The audits of some instances, held between micro-batches, and the log they are made again from.

An audit is a function of the blocks it has read, and these are a tenth of its state. So what is
written after each micro-batch are the blocks, for all instances at once, and now and then the whole
state of some audits. Whoever does not hold the audits of the last micro-batch (a process that is
new, or one that others did the work of) makes them from the newest state and the blocks since.

The log is a ring of segments. When what came into the newest takes a share of what all states take,
the oldest is emptied: audits that need what is in it are written anew. Before that the oldest are
written with each micro-batch, as many as its blocks make due, so that those of a fleet which began
at once are not written at once. So each micro-batch writes about twice the blocks that it read, and
blocks to be read again are no more than the states. Of an instance whose blocks are larger than its
state, the state is written.
"""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import chain, pairwise
from typing import TYPE_CHECKING, NamedTuple, Protocol

import pyarrow as pa

from tallystick.coordinates.audit.instance import AuditOutput, InstanceAudit, failure_text
from tallystick.coordinates.values.checksum import checksum
from tallystick.coordinates.values.errors import StateDamagedError, StateError
from tallystick.streaming.instance_step import (
    BlockRow,
    JournalKey,
    KeyResult,
    Messages,
    absorb_runs,
    absorb_singly,
    read,
)
from tallystick.streaming.schema import SEGMENTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tallystick.coordinates.events.journal import Block

SEGMENT_COST_MIN = 1 << 20
"""A segment holds at least blocks of this cost, in bytes."""
ROW_COST = 2048
"""What reading a block again costs beside its bytes: as much as so many bytes."""
STATE_COST = 32 * ROW_COST
"""What a state costs beside its bytes, which are few of an instance on which nothing happens."""

MOVED_AHEAD = 1.5
"""States are written so many times as often as the ring would need if all were as old."""
ENTRY_COST_MAX = 3 << 20
"""Blocks of this cost are an entry, and those that follow another one; less than a row's bytes
(``log_parts``)."""

_AUDIT, _MOVED, _ROWS, _FORGOTTEN = "audit", "moved", "rows", "forgotten"
_CRC_BYTES = 4
_ROW_SCHEMA = pa.schema(
    [("name", pa.int32()), ("value", pa.binary()), ("length", pa.int64()),
     ("headers", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()),
     ("sent_us", pa.int64())]
)  # fmt: skip


class Entry(NamedTuple):
    """One entry of the log.

    Attributes:
        number: One more than that of the entry before.
        kind: Whether ``data`` is the state of an audit (``moved``: written when the segment began),
            blocks of a micro-batch, or why instances may have been forgotten.
        names: Whose it is, as JSON: of an instance's log its journals, each a cluster and an
            instance; of a fleet's log its cluster.
        data: Ends with a checksum of its own, or has one in front.
        check: Checksum of the other columns.
    """

    number: int
    kind: str
    names: str
    data: bytes
    check: int


class Store(Protocol):
    """Where the log is kept; all that is done to it counts together, or not at all."""

    def read(self) -> Iterable[tuple[int, Entry]]:
        """All entries, each with the number of its segment, in any order."""
        ...

    def append(self, segment: int, entries: list[Entry]) -> None:
        """Add entries to a segment."""
        ...

    def clear(self, segment: int) -> None:
        """Remove a segment's entries."""
        ...


class AuditLog:
    """The audits of some instances as they are after the last step.

    Args:
        disabled: Names of rules that are switched off.
        entries: The log, as ``Store.read`` returns it.
        next_number: What ``next_number`` was when it was written; None: not known.

    Attributes:
        next_number: One more than that of the newest entry.
    """

    def __init__(
        self,
        disabled: frozenset[str] = frozenset(),
        entries: Iterable[tuple[int, Entry]] = (),
        next_number: int | None = None,
    ) -> None:
        self._disabled = disabled
        self._audits: dict[JournalKey, InstanceAudit] = {}
        # Of those that are not made yet: their states, and the messages of each step since.
        self._states: dict[JournalKey, bytes] = {}
        self._rows: dict[JournalKey, list[list[BlockRow]]] = defaultdict(list)
        # Of those that cannot be made: why.
        self._lost: dict[JournalKey, str] = {}
        # Why instances may have been forgotten, and the entry that says so.
        self._forgotten, self._forgotten_at = "", -1
        self._is_damaged = False
        # By journal: the entry from which on it is made, the oldest first; what its state costs.
        self._since: dict[JournalKey, int] = {}
        self._sizes: dict[JournalKey, int] = {}
        # By segment that is not empty, its first entry; of the newest, what came into it; what
        # states may cost that are written before they must be.
        self._begins = {0: 0}
        self._segment, self._cost, self.next_number = 0, 0, 0
        self._due = 0.0
        self._load(sorted(entries, key=lambda pair: pair[1].number), next_number)

    # Reading the log

    def _load(self, entries: Sequence[tuple[int, Entry]], next_number: int | None) -> None:
        damage = ""
        for at, (segment, entry) in enumerate(entries):
            if at == 0:
                self._begins.clear()
            if at == 0 or segment != self._segment:
                self._segment, self._begins[segment], self._cost = segment, entry.number, 0
            if at and entry.number != self.next_number:
                damage = damage or f"entry {self.next_number} of the log of states is missing"
            self.next_number = entry.number + 1
            if head_checksum(*entry[:3]) != entry.check:
                damage = damage or f"entry {entry.number} of the log of states is damaged"
            elif entry.kind == _FORGOTTEN:
                self._forgotten, self._forgotten_at = (
                    entry.data.decode("utf-8", "replace"),
                    entry.number,
                )
            elif entry.kind in {_AUDIT, _MOVED}:
                [name] = _journals(entry)
                cost = len(entry.data) + STATE_COST
                self._cost += cost if entry.kind == _AUDIT else 0
                self._states[name] = entry.data
                self._note_state(name, cost, entry.number)
                self._rows.pop(name, None)
                self._lost.pop(name, None)
            else:
                self._load_rows(entry)
        if next_number is not None and self.next_number != next_number:
            damage = damage or f"the log of states ends before entry {next_number}"
            self.next_number = next_number
        if damage:
            # An entry that is missed may be of anybody.
            self._is_damaged, self._forgotten = True, damage
            self._lost = dict.fromkeys(self._since, damage)

    def _load_rows(self, entry: Entry) -> None:
        names = _journals(entry)
        for name in names:
            self._since.setdefault(name, entry.number)
        try:
            found = _decode_rows(entry.data)
        except (StateDamagedError, pa.ArrowInvalid) as error:
            reason = f"entry {entry.number} of the log of states cannot be read: {error}"
            self._lost |= dict.fromkeys(names, reason)
            return
        for number, rows in found.items():
            self._rows[names[number]].append(rows)
            self._cost += _cost(rows)

    # Audits

    def _audit(self, name: JournalKey, first: Block | None) -> tuple[InstanceAudit, AuditOutput]:
        """An instance's audit, and if it was lost, what that brings.

        Args:
            name: Its journal.
            first: The first block that follows.
        """
        held = self._audits.get(name)
        if held is not None:
            return held, AuditOutput()
        saved, steps = self._states.pop(name, None), self._rows.pop(name, [])
        lost = self._lost.pop(name, "")
        if name not in self._since and first is not None and first.first_sequence > 0:
            lost = self._forgotten
        error: StateError = StateDamagedError(lost)
        if not lost:
            try:
                audit = (
                    self._begun(name)
                    if saved is None
                    else InstanceAudit.from_bytes(saved, name.instance_id, self._disabled)
                )
                for rows in steps:
                    absorb_runs(audit, read(name, rows))
            except Exception as raised:  # noqa: BLE001  whatever it is, other instances go on
                error = StateDamagedError(failure_text(raised))
                if isinstance(raised, StateError):
                    error = raised
            else:
                return audit, AuditOutput()
        audit = self._begun(name)
        # What was read since may have changed the server's settings.
        settings = b"" if saved is None or steps or lost else saved
        return audit, audit.lose_state(settings, error, first)

    def _begun(self, name: JournalKey) -> InstanceAudit:
        return InstanceAudit(name.instance_id, disabled=self._disabled)

    def finish(self) -> dict[JournalKey, list[AuditOutput]]:
        """The history of all instances ends here: what each audit decides."""
        outputs: dict[JournalKey, list[AuditOutput]] = {}
        for name in sorted(self._since):
            audit, begun = self._audit(name, None)
            outputs[name] = [begun, audit.finish_or_refuse()]
        return outputs

    # Steps

    def step(
        self, rows: Mapping[JournalKey, Sequence[BlockRow]], store: Store
    ) -> dict[JournalKey, KeyResult]:
        """Absorb the messages of a micro-batch; whatever is raised stays with what raises it.

        An instance of which nothing can be made begins anew, and its rows are undecided until the
        journal has shown enough again.

        Args:
            rows: By journal its messages, in any order.
            store: Has the log as it was before, and takes what is added.

        Returns:
            What each instance has brought. Messages of which none can be read make nothing known
            where nothing was: their key need not be an instance.
        """
        results: dict[JournalKey, KeyResult] = {}
        logged: dict[JournalKey, list[BlockRow]] = {}
        saved: list[JournalKey] = []
        for name in sorted(rows):
            messages = read(name, rows[name])
            before, first = _first_block(messages)
            if name not in self._since and first is None:
                result = KeyResult(is_known=False)
                for [row], reason in before:
                    result.refuse(row, str(reason))
            else:
                after = chain(before, messages)
                result, is_same_again = self._step(name, rows[name], first, after, store)
                is_smaller = _cost(rows[name]) <= self._sizes.get(name, SEGMENT_COST_MIN)
                if is_same_again and is_smaller and not result.dead_letters:
                    logged[name] = list(rows[name])
                else:
                    saved.append(name)
            result.journal_bytes = sum(row.length for row in rows[name])
            results[name] = result
        if logged or saved:
            self._write(logged, saved, results, store)
        return results

    def _step(
        self,
        name: JournalKey,
        rows: Sequence[BlockRow],
        first: Block | None,
        messages: Messages,
        store: Store,
    ) -> tuple[KeyResult, bool]:
        """One instance's step; and whether whoever reads its messages again finds the same audit.

        Args:
            name: Its journal.
            rows: Its messages.
            first: The first block in them.
            messages: They, decoded.
            store: Has the log as it was before.
        """
        audit, begun = self._audit(name, first)
        is_same_again = not begun.observations
        try:
            result = absorb_runs(audit, messages)
            result.encode()
        except Exception:  # noqa: BLE001  which message it is, and what, is found out one by one
            self._audits.pop(name, None)
            before = AuditLog(self._disabled, store.read())
            audit, begun = before._audit(name, first)
            result, is_same_again = absorb_singly(audit, read(name, rows)), False
            result.encode()
        result.put_before(begun)
        self._audits[name] = audit
        return result, is_same_again

    # Writing the log

    def _write(
        self,
        logged: dict[JournalKey, list[BlockRow]],
        saved: list[JournalKey],
        results: dict[JournalKey, KeyResult],
        store: Store,
    ) -> None:
        """Add messages to the log, and the states of some audits.

        Args:
            logged: Messages, by journal.
            saved: Journals whose states are written instead.
            results: Takes what comes to light of instances that had no messages.
            store: Takes the entries.
        """
        unwritten = len(self._since) - len(self._sizes)
        of_states = sum(self._sizes.values()) + unwritten * STATE_COST
        segment_cost = max(SEGMENT_COST_MIN, of_states // SEGMENTS)
        is_full = self._cost > segment_cost
        if self._is_damaged:
            for segment in range(SEGMENTS):
                self._clear(segment, store)
            self._begin_segment(0)
        elif is_full:
            number = (self._segment + 1) % SEGMENTS
            self._clear(number, store)
            self._begin_segment(number)
        kept = min(self._begins.values())
        entries = []
        if (self._forgotten and self._forgotten_at < kept) or self._is_damaged:
            self._forgotten_at = self.next_number
            entries.append(self._entry(_FORGOTTEN, [], self._forgotten.encode()))
        self._is_damaged = False
        written = dict.fromkeys(saved, _AUDIT)
        of_ring = sum(map(_cost, logged.values())) / (SEGMENTS * segment_cost)
        self._due += MOVED_AHEAD * of_ring * of_states
        self._move(written, kept)
        for name, kind in written.items():
            logged.pop(name, None)
            data, lost = self._state(name)
            if lost.observations:
                results.setdefault(name, KeyResult()).put_before(lost)
            cost = len(data) + STATE_COST
            self._note_state(name, cost, self.next_number)
            self._cost += cost if kind == _AUDIT else 0
            entries.append(self._entry(kind, [name], data))
        for part in _parts(logged):
            for name in part:
                self._since.setdefault(name, self.next_number)
            self._cost += sum(map(_cost, part.values()))
            entries.append(self._entry(_ROWS, list(part), _encode_rows(part)))
        store.append(self._segment, entries)
        if is_full:
            self._clear_unneeded(store)

    def _note_state(self, name: JournalKey, cost: int, number: int) -> None:
        self._sizes[name] = cost
        self._since.pop(name, None)
        self._since[name] = number

    def _move(self, written: dict[JournalKey, str], kept: int) -> None:
        """Add the journals whose states must be written, and of the others the oldest that are due.

        Args:
            written: Those whose states are written anyway.
            kept: The first entry that stays.
        """
        for name, at in self._since.items():
            cost = self._sizes.get(name, STATE_COST)
            if at >= kept and self._due < cost:
                return
            if name not in written:
                written[name] = _MOVED
                self._due = max(0.0, self._due - cost)

    def _state(self, name: JournalKey) -> tuple[bytes, AuditOutput]:
        """An instance's state as bytes; and if it was lost, or there are none, what that brings."""
        self._audits[name], lost = self._audit(name, None)
        try:
            return self._audits[name].to_bytes(), lost
        except Exception as raised:  # noqa: BLE001  whatever it is, other instances go on
            audit = self._audits[name] = self._begun(name)
            lost = audit.lose_state(b"", StateDamagedError(failure_text(raised)), None)
            return audit.to_bytes(), lost

    def _clear_unneeded(self, store: Store) -> None:
        """Remove the oldest segments, as far as all in them has been written again since."""
        needed = min(self._since.values(), default=0)
        if self._forgotten:
            needed = min(needed, self._forgotten_at)
        begins = sorted((first, segment) for segment, first in self._begins.items())
        for (_, segment), (end, _) in pairwise(begins):
            if end > needed:
                break
            self._clear(segment, store)

    def _clear(self, segment: int, store: Store) -> None:
        if self._begins.pop(segment, None) is not None:
            store.clear(segment)

    def _begin_segment(self, number: int) -> None:
        self._segment, self._cost = number, 0
        self._begins[number] = self.next_number

    def _entry(self, kind: str, names: list[JournalKey], data: bytes) -> Entry:
        number, text = self.next_number, json.dumps(names)
        self.next_number += 1
        return Entry(number, kind, text, data, head_checksum(number, kind, text))


def _first_block(
    messages: Messages,
) -> tuple[list[tuple[Sequence[BlockRow], Block | str]], Block | None]:
    """The messages up to the first that is a block, which are taken out, and that block."""
    taken = []
    for rows, block in messages:
        taken.append((rows, block))
        if not isinstance(block, str):
            return taken, block
    return taken, None


def _journals(entry: Entry) -> list[JournalKey]:
    return [JournalKey(*names) for names in json.loads(entry.names)]


def head_checksum(number: int, kind: str, names: str) -> int:
    """Of the columns of an entry but its data."""
    return checksum(f"{number} {kind} {names}".encode())


def _cost(rows: Sequence[BlockRow]) -> int:
    return sum(len(row.value or b"") + ROW_COST for row in rows)


def _parts(
    rows: Mapping[JournalKey, Sequence[BlockRow]],
) -> Iterator[dict[JournalKey, Sequence[BlockRow]]]:
    """The rows of instances in parts that are no larger than an entry should be."""
    part: dict[JournalKey, Sequence[BlockRow]] = {}
    cost = 0
    for name, of in rows.items():
        if part and cost + _cost(of) > ENTRY_COST_MAX:
            yield part
            part, cost = {}, 0
        part[name] = of
        cost += _cost(of)
    if part:
        yield part


def _encode_rows(rows: Mapping[JournalKey, Sequence[BlockRow]]) -> bytes:
    """The rows of instances, by the instances' numbers, with a checksum after them."""
    numbered = [(number, row) for number, of in enumerate(rows.values()) for row in of]
    columns = (
        [number for number, _ in numbered],
        [row.value for _, row in numbered],
        [row.length for _, row in numbered],
        [row.headers for _, row in numbered],
        [row.partition for _, row in numbered],
        [row.offset for _, row in numbered],
        [row.sent_us for _, row in numbered],
    )
    arrays = [pa.array(c, field.type) for c, field in zip(columns, _ROW_SCHEMA, strict=True)]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, _ROW_SCHEMA) as writer:
        writer.write_batch(pa.record_batch(arrays, schema=_ROW_SCHEMA))
    data: bytes = sink.getvalue().to_pybytes()
    return data + checksum(data).to_bytes(_CRC_BYTES, "little")


def _decode_rows(data: bytes) -> dict[int, list[BlockRow]]:
    """Inverse of ``_encode_rows``.

    Raises:
        StateDamagedError: The bytes are cut short, or changed.
    """
    body = memoryview(data)[:-_CRC_BYTES]
    if checksum(body).to_bytes(_CRC_BYTES, "little") != data[-_CRC_BYTES:]:
        raise StateDamagedError("its checksum does not match")
    columns = pa.ipc.open_stream(pa.py_buffer(body)).read_all().to_pydict()
    found: dict[int, list[BlockRow]] = defaultdict(list)
    for name, value, length, headers, partition, offset, sent_us in zip(
        *columns.values(), strict=True
    ):
        found[name].append(BlockRow(value, headers, partition, offset, sent_us, length))
    return found
