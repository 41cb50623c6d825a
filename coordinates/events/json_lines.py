"""The journal as text, one JSON object a line: read strictly.

Line after line of several instances become blocks of one instance each; ``docs/journal.md`` is the
contract. A line that is no record is an error, or a gap if the caller wants to go on. Nothing here
opens a file.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.events._field_checks import (
    INT64_MAX,
    UINT32_MAX,
    FieldError,
    channel_name,
    instance_name,
    log_file,
    missing_key,
    nearest,
    text,
    unknown_key,
)
from tallystick.coordinates.events._record_checks import GROUP_TYPES, HEARTBEAT_TYPES
from tallystick.coordinates.events._record_fields import RECORD_SHAPES
from tallystick.coordinates.events.journal import (
    ABSENT,
    Block,
    BlockBuilder,
    QueryVerb,
    RecordType,
    RedoType,
    Stream,
)
from tallystick.coordinates.values.binlog import EventType
from tallystick.coordinates.values.errors import GtidSetParseError, JournalError
from tallystick.coordinates.values.gtid import Gtid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

BLOCK_SIZE = 4096

_ENVELOPE = ("kind", "instance", "ts", "epoch", "sequence", "cluster")


BAD_LINES_MAX = 20
_BYTE_ORDER_MARK = "\ufeff"
_without_strings = re.compile(r'"(?:\\.|[^"\\])*(?:"|\\?$)').sub
_BLANKS = " \t\r\n"


class JsonLinesError(JournalError):
    """A line that is no record of the journal.

    Attributes:
        line_number: From 1.
        key: The key in question (``variables.log_bin``), or None where it is the whole line.
        instance_id: Whose record it is meant to be, None if that cannot be read.
        others: The errors of further lines, up to ``BAD_LINES_MAX`` in all.
        is_cut_short: Whether the line has no end: it is the last one, and its writer was killed.
    """

    def __init__(
        self,
        line_number: int,
        key: str | None,
        problem: str,
        instance_id: str | None = None,
        others: tuple[JsonLinesError, ...] = (),
        *,
        is_cut_short: bool = False,
    ) -> None:
        where = f"line {line_number}" if key is None else f"line {line_number}, key {_shown(key)}"
        super().__init__("\n".join((f"{where}: {problem}", *map(str, others))))
        self.line_number = line_number
        self.key = key
        self.problem = problem
        self.instance_id = instance_id
        self.others = others
        self.is_cut_short = is_cut_short

    def with_others(self, others: Iterable[JsonLinesError]) -> JsonLinesError:
        """The same, and the errors of further lines."""
        return JsonLinesError(
            self.line_number,
            self.key,
            self.problem,
            self.instance_id,
            tuple(others),
            is_cut_short=self.is_cut_short,
        )


def blocks_from_lines(
    lines: Iterable[str | bytes],
    *,
    block_size: int = BLOCK_SIZE,
    end_heartbeats: bool = False,
    on_bad_line: Callable[[JsonLinesError], None] | None = None,
) -> Iterator[Block]:
    """Read records and yield them as blocks.

    Whenever one instance has ``block_size`` records, the pending records of *all* instances leave,
    in the order of their first lines. So the blocks keep each instance's order, and the order
    across instances is disturbed by no more than one such window of the file.

    Args:
        lines: With or without their line ends, as text or UTF-8; blank ones are counted and
            skipped.
        block_size: How many records of one instance make a window.
        end_heartbeats: Whether the end of the lines counts as a heartbeat of every instance, at
            the largest ``ts``: then what waits for an instance is decided. Not so where its
            observer has ended before: others have answered a later request, or have later records
            by the same clock.
        on_bad_line: Takes a line that is no record; the journal goes on after it, with a gap of
            its instance, or of all instances where that is not known. None: it is an error.

    Raises:
        JsonLinesError: Lines are no records of the journal. Blocks of windows before the first one
            were yielded.
    """
    if block_size < 1:
        raise ValueError(f"expected a block size of at least 1, got {block_size}")
    reader = _Reader()
    bad: list[JsonLinesError] = []
    for line_number, line in enumerate(lines, 1):
        if line.isspace() or not line:
            continue
        try:
            is_full = reader.add(line, line_number) >= block_size
        except JsonLinesError as error:
            if on_bad_line is None:
                bad.append(error)
                if len(bad) == BAD_LINES_MAX:
                    break
            else:
                on_bad_line(error)
                reader.lose(error.instance_id)
            continue
        if is_full:
            window = reader.take_window()
            if not bad:
                yield from window
    if bad:
        raise bad[0].with_others(bad[1:])
    reader.end_gaps()
    yield from reader.take_window()
    if end_heartbeats:
        reader.add_heartbeats()
        yield from reader.take_window()


@dataclass(slots=True)
class _Journal:
    """What is known of one instance while its lines are read."""

    builder: BlockBuilder
    ts: int = 0
    first_line: int = 0
    in_window: int = 0
    has_gap: bool = False
    """Whether lines could not be read since the last record."""
    clock: str = ""
    """That of its observer, who answers requests; empty where it names none."""
    has_ended: bool = False
    """Whether its observer says that the whole observation ends here."""
    answered: tuple[int, str] = (0, "")
    """The newest request that was answered: when it was made, 0 not known, and its collection."""
    gap_count: int = 0
    """Gaps put between the records of this epoch: sequence numbers of lines count without them."""

    @property
    def next_sequence(self) -> int:
        return self.builder.next_sequence + len(self.builder)

    def note_observer(self, record_type: RecordType, body: Mapping[str, Any]) -> None:
        """What a record shows of who writes the journal, and of which requests it has answered."""
        if record_type is RecordType.OBSERVER:
            self.clock, self.has_ended = body["clock"], False
        elif record_type is RecordType.HEARTBEAT:
            self.has_ended |= bool(body.get("ends"))
        elif record_type is RecordType.LOG_STATUS:
            asked = body.get("requested_at", self.answered[0]), body["collection_id"]
            self.answered = max(self.answered, asked)

    def end_gap(self, ts: int) -> None:
        """A record comes after lines that could not be read."""
        if self.has_gap:
            self.has_gap = False
            self.gap_count += 1
            self.builder.server_record(RecordType.GAP, {}, ts=ts)


@dataclass(slots=True)
class _Reader:
    journals: dict[str, _Journal] = field(default_factory=dict)
    finished: list[tuple[int, Block]] = field(default_factory=list)
    """Blocks of this window that a gap ended, each with the number of its first line."""
    ts: int = 0
    ts_max: int = 0
    has_gap: bool = False
    """Whether a line could not be read, and it is not known whose."""

    def add(self, line: str | bytes, line_number: int) -> int:
        """Take one line; the answer is how many records its instance has in this window."""
        record = _parse(line, line_number)
        instance_id = record.get("instance")
        owner = instance_id if type(instance_id) is str and instance_id else None
        try:
            return self._add(record, line_number)
        except RecursionError:
            problem = "expected values less deeply nested"
            raise JsonLinesError(line_number, None, problem, owner) from None
        except FieldError as error:
            found = f", found {_shown(error.value)}" if error.shown else ""
            problem = f"expected {error.expected}{found}"
            raise JsonLinesError(line_number, error.path, problem, owner) from None

    def lose(self, instance_id: str | None) -> None:
        """A line could not be read; it counts as one, for records without ``ts``."""
        self.ts += 1
        if instance_id is None:
            self.has_gap = True
            for journal in self.journals.values():
                journal.has_gap = True
            return
        try:
            journal = self.journals.get(instance_id) or self._open(instance_id)
        except FieldError:
            self.lose(None)
        else:
            journal.has_gap = True

    def end_gaps(self) -> None:
        """No record follows."""
        for journal in self.journals.values():
            journal.end_gap(journal.ts)

    def _add(self, record: dict[str, Any], line_number: int) -> int:
        kinds = f"one of {', '.join((*_STREAMS, *_RECORD_TYPES))}"
        kind = _take("kind", record, kinds)
        stream = _STREAMS.get(kind) if type(kind) is str else None
        record_type = _RECORD_TYPES.get(kind) if type(kind) is str else None
        if stream is None and record_type is None:
            raise FieldError(kinds, kind, "kind")
        instance_id = _take("instance", record, "our own name of the server")
        journal = self.journals.get(instance_id) if type(instance_id) is str else None
        if journal is None:
            journal = self._open(instance_id)
        ts = record.pop("ts", None)
        if ts is None:
            ts = self.ts + 1
        if type(ts) is not int or not 0 <= ts <= INT64_MAX:
            raise FieldError(f"an integer from 0 to {INT64_MAX}", ts, "ts")
        # A start has it as its own field, too.
        is_start = record_type is RecordType.START
        cluster = record.get("cluster") if is_start else record.pop("cluster", None)
        if cluster is not None:
            self._label(journal, cluster)
        if "sequence" in record or "epoch" in record:
            self._put(journal, record.pop("sequence", None), record.pop("epoch", None))
        if ts < journal.ts:
            raise FieldError(
                f"at least {journal.ts}, the ts of the record before of instance {instance_id!r}",
                ts,
                "ts",
            )
        if not len(journal.builder):
            journal.first_line = line_number
        if record_type is not None:
            body = RECORD_SHAPES[record_type](record)
            journal.end_gap(ts)
            journal.builder.server_record(record_type, body, ts=ts, channel=body.get("channel"))
            journal.note_observer(record_type, body)
        else:
            _append_event(journal, stream, record, ts)
        self.ts = ts
        if record_type is not RecordType.LOG_STATUS:
            # A row may come before the events that it refers to.
            journal.ts = ts
        self.ts_max = max(self.ts_max, ts)
        journal.in_window += 1
        return journal.in_window

    def _open(self, instance_id: Any) -> _Journal:
        try:
            journal = _Journal(BlockBuilder(instance_name(instance_id)), has_gap=self.has_gap)
        except FieldError as error:
            raise error.under("instance") from None
        self.journals[instance_id] = journal
        return journal

    def _label(self, journal: _Journal, value: Any) -> None:
        """The cluster of the records from here on, and of those that wait and have none."""
        try:
            cluster = instance_name(value)
        except FieldError as error:
            raise error.under("cluster") from None
        builder = journal.builder
        if builder.cluster not in ("", cluster) and len(builder):
            self.finished.append((journal.first_line, builder.build()))
        builder.cluster = cluster

    def _put(self, journal: _Journal, sequence: Any, epoch: Any) -> None:
        for key, value in (("sequence", sequence), ("epoch", epoch)):
            if value is not None and (type(value) is not int or not 0 <= value < INT64_MAX):
                raise FieldError(f"an integer from 0 to {INT64_MAX - 1}", value, key)
        old = journal.builder
        if epoch is None:
            epoch = old.epoch
        if epoch != old.epoch:
            journal.gap_count = 0
        if sequence is None:
            sequence = journal.next_sequence if epoch == old.epoch else 0
        else:
            sequence += journal.gap_count
        if (epoch, sequence) == (old.epoch, journal.next_sequence):
            return
        if len(old):
            self.finished.append((journal.first_line, old.build()))
        # What was lost, or comes again, shows nothing about the clock.
        journal.ts = 0
        journal.builder = BlockBuilder(
            old.instance_id, epoch=epoch, first_sequence=sequence, cluster=old.cluster
        )

    def add_heartbeats(self) -> None:
        """The end of the lines is that of each journal, unless its observer has ended before."""
        newest = max((journal.answered for journal in self.journals.values()), default=(0, ""))
        written_to: dict[str, int] = {}
        for journal in self.journals.values():
            written_to[journal.clock] = max(journal.ts, written_to.get(journal.clock, 0))
        for order, journal in enumerate(self.journals.values()):
            asked, collection = journal.answered
            answers = asked > 0 or journal.clock
            is_silent = answers and asked < newest[0] and collection != newest[1]
            is_whole = journal.has_ended or journal.ts >= written_to[journal.clock]
            is_cut_short = journal.clock and not is_whole
            ts = journal.ts if is_silent or is_cut_short else self.ts_max
            journal.builder.server_record(RecordType.HEARTBEAT, {}, ts=ts)
            journal.first_line = order

    def take_window(self) -> Iterator[Block]:
        window, self.finished = self.finished, []
        for journal in self.journals.values():
            journal.in_window = 0
            if len(journal.builder):
                window.append((journal.first_line, journal.builder.build()))
        window.sort(key=lambda item: item[0])
        return (block for _, block in window)


def _append_event(
    journal: _Journal, stream: Stream | None, record: dict[str, Any], ts: int
) -> None:
    if stream is Stream.REDO:
        redo_type, lsn = _read_redo_event(record)
        journal.end_gap(ts)
        journal.builder.redo_event(redo_type, lsn, ts=ts, **record)
    elif stream is not None:
        event_type, fields = _read_event(stream, record)
        journal.end_gap(ts)
        journal.builder.log_event(stream, event_type, ts=ts, **fields)


def _take(key: str, record: dict[str, Any], expected: str) -> Any:
    """Take a key out of a record that must have it."""
    if key not in record:
        raise missing_key(key, record, expected)
    return record.pop(key)


# One line


def _object_without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"key {_shown(twice)} occurs twice")
    return made


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


_decode = json.JSONDecoder(
    object_pairs_hook=_object_without_repeats, parse_constant=_no_constant
).decode


def _parse(line: str | bytes, line_number: int) -> dict[str, Any]:
    try:
        text = (line if isinstance(line, str) else line.decode()).removeprefix(_BYTE_ORDER_MARK)
    except UnicodeDecodeError as error:
        assert isinstance(line, bytes)
        if error.reason == "unexpected end of data":
            raise _cut_short(line_number, line.decode(errors="ignore")) from None
        problem = f"expected UTF-8 ({error.reason} at byte {error.start})"
        raise JsonLinesError(line_number, None, problem) from None
    try:
        record = _decode(text)
    except (ValueError, RecursionError) as error:
        reason: object = error
        if isinstance(error, json.JSONDecodeError):
            if not text.endswith("\n") and _is_open(text):
                raise _cut_short(line_number, text) from None
            # Its own message counts lines within this one; some of them end with "at" already.
            reason = f"{error.msg.removesuffix(' at')} at {error.pos}"
        elif isinstance(error, RecursionError):
            reason = "nested too deeply"
        elif str(error).startswith("Exceeds the limit"):
            reason = "a number of too many digits"  # Python's advice would be for programmers
        raise JsonLinesError(
            line_number,
            None,
            f"expected a JSON object ({reason}), found {_shown(text.rstrip(_BLANKS))}",
        ) from None
    if type(record) is not dict:
        raise JsonLinesError(
            line_number, None, f"expected a JSON object, found {_shown(text.rstrip(_BLANKS))}"
        )
    return {key: value for key, value in record.items() if value is not None}


def _cut_short(line_number: int, text: str) -> JsonLinesError:
    """The error of a line without an end, as what is killed while it writes leaves it."""
    problem = f"cut short: expected a JSON object, found {_shown(text)}"
    return JsonLinesError(line_number, None, problem, is_cut_short=True)


def _is_open(text: str) -> bool:
    """Whether an object in a text goes on after it."""
    outside = _without_strings("", text)
    return outside.count("{") > outside.count("}")


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else f"{shown[:80]}…"


# Events of logs

_STREAMS = {"binlog": Stream.BINLOG, "relay": Stream.RELAY, "redo": Stream.REDO}
_RECORD_TYPES = {record_type.name.lower(): record_type for record_type in RecordType}
_VERBS = {verb.name.replace("_", " "): verb for verb in QueryVerb if verb}
_ANY_TYPE = "a MySQL event type by name or code (0 to 255)"
_TYPE_CODES = {event_type.name: int(event_type) for event_type in EventType}

_read_printed_gtid = re.compile(
    r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?::[a-z_][a-z0-9_]{0,31})?):([1-9][0-9]{0,17})"
).fullmatch


def _read_gtid(value: Any, fields: dict[str, Any]) -> None:
    match = _read_printed_gtid(value) if type(value) is str else None
    if match is not None:
        fields["sid"], gno = match.groups()
        fields["gno"] = int(gno)
        return
    try:
        gtid = Gtid.parse(text(value))
    except GtidSetParseError:
        # It is what the server's log has; the audit reports it as malformed.
        fields["text"] = value
    else:
        fields["sid"], fields["gno"] = gtid.sid, gtid.gno


def _read_query(value: Any, fields: dict[str, Any]) -> None:
    verb = _VERBS.get(value) if type(value) is str else None
    if verb is None:
        raise FieldError(f"one of {', '.join(_VERBS)}", value)
    fields["query"] = verb


# A file has few names and channels, and each of its lines repeats them.
_known_file = lru_cache(maxsize=1024)(log_file)
_known_channel = lru_cache(maxsize=1024)(channel_name)


def _read_file(value: Any, fields: dict[str, Any]) -> None:
    fields["file"] = _known_file(value) if type(value) is str else log_file(value)


def _read_channel(value: Any, fields: dict[str, Any]) -> None:
    fields["channel"] = _known_channel(value) if type(value) is str else channel_name(value)


def _read_next_file(value: Any, fields: dict[str, Any]) -> None:
    fields["text"] = log_file(value)
    fields.setdefault("value", 4)


def _read_gtid_set(value: Any, fields: dict[str, Any]) -> None:
    fields["text"] = text(value)


@dataclass(frozen=True, slots=True)
class EventShape:
    """The keys of one event type: integers with column and range, others with their reader."""

    integers: Mapping[str, tuple[str, int, int]]
    others: Mapping[str, Callable[[Any, dict[str, Any]], None]]
    required: frozenset[str]
    absent: Mapping[str, Any]
    """Arguments of a record that has none of the position's keys."""


_COMMON = {
    "start": ("start", 0, INT64_MAX),
    "length": ("length", 1, INT64_MAX),
    "log_pos": ("log_pos", 0, UINT32_MAX),
    "flags": ("flags", 0, 2**16 - 1),
    "server_id": ("server_id", 0, UINT32_MAX),
    "checksum": ("checksum", 0, INT64_MAX),
}
_OF_GROUP = {
    key: (key, 0, INT64_MAX)
    for key in (
        "last_committed",
        "sequence_number",
        "transaction_length",
        "original_commit_timestamp",
    )
}


@lru_cache(maxsize=512)
def event_shape(stream: Stream, event_type: int) -> EventShape:
    """The keys of an event of a binary log or relay log."""
    integers = dict(_COMMON)
    others: dict[str, Callable[[Any, dict[str, Any]], None]] = {"file": _read_file}
    required = {"file", "start", "length"}
    absent: dict[str, Any] = {}
    if event_type in HEARTBEAT_TYPES:
        required = set()
        absent = {"file": None, "start": ABSENT, "length": ABSENT}
    if stream is Stream.RELAY:
        others["channel"] = _read_channel
        required.add("channel")
    if event_type in GROUP_TYPES:
        integers |= _OF_GROUP
    of_type = {
        EventType.GTID: ("gtid", _read_gtid),
        EventType.GTID_TAGGED: ("gtid", _read_gtid),
        EventType.QUERY: ("query", _read_query),
        EventType.PREVIOUS_GTIDS: ("gtid_set", _read_gtid_set),
        EventType.ROTATE: ("next_file", _read_next_file),
    }
    if event_type in of_type:
        key, read = of_type[EventType(event_type)]
        others[key] = read
        required.add(key)
    if event_type == EventType.ROTATE:
        integers["next_position"] = ("value", 0, INT64_MAX)
    return EventShape(integers, others, frozenset(required), absent)


def _read_event(stream: Stream, record: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    name = _take("type", record, _ANY_TYPE)
    event_type = _TYPE_CODES.get(name) if type(name) is str else name
    if type(event_type) is not int or not 0 <= event_type <= 255:
        # mysqlbinlog and SHOW BINLOG EVENTS write names in other ways: Gtid, Format_desc.
        hint = nearest(name.upper(), _TYPE_CODES) if type(name) is str else ""
        raise FieldError(f"{_ANY_TYPE}{hint}", name, "type")
    shape = event_shape(stream, event_type)
    if not shape.required <= record.keys():
        raise missing_key(min(shape.required - record.keys()), record)
    fields = dict(shape.absent)
    integers = shape.integers
    for key, value in record.items():
        rule = integers.get(key)
        if rule is not None:
            column, least, most = rule
            if type(value) is not int or not least <= value <= most:
                raise FieldError(f"an integer from {least} to {most}", value, key)
            fields[column] = value
            continue
        read = shape.others.get(key)
        if read is None:
            raise unknown_key(key, (*integers, *shape.others, "type", *_ENVELOPE))
        try:
            read(value, fields)
        except FieldError as error:
            raise error.under(key) from None
    if fields["start"] + fields["length"] > INT64_MAX:
        raise FieldError(f"an event that ends at most at {INT64_MAX}", fields["start"], "start")
    return event_type, fields


# Events of the redo log

_REDO_TYPES = {redo_type.name: redo_type for redo_type in RedoType}
_ANY_REDO_TYPE = f"one of {', '.join(_REDO_TYPES)}"
REDO_FIELDS = ("lsn", "start_lsn", "block_number", "data_length")


def _read_redo_event(record: dict[str, Any]) -> tuple[RedoType, int]:
    """Type and LSN; what the record still holds are the fields of a WRITE."""
    name = _take("type", record, _ANY_REDO_TYPE)
    redo_type = _REDO_TYPES.get(name) if type(name) is str else None
    if redo_type is None:
        raise FieldError(_ANY_REDO_TYPE, name, "type")
    is_write = redo_type is RedoType.WRITE
    required = REDO_FIELDS[:2] if is_write else REDO_FIELDS[:1]
    for key in required:
        if key not in record:
            raise missing_key(key, record)
    for key, value in record.items():
        if key not in (REDO_FIELDS if is_write else required):
            raise unknown_key(key, (*REDO_FIELDS, "type", *_ENVELOPE))
        if type(value) is not int or not 0 <= value <= INT64_MAX:
            raise FieldError(f"an integer from 0 to {INT64_MAX}", value, key)
    lsn: int = record.pop("lsn")
    if is_write and record["start_lsn"] >= lsn:
        raise FieldError(f"an LSN below {lsn}", record["start_lsn"], "start_lsn")
    return redo_type, lsn
