"""The binary log: framing, groups, rotation, purge, reset, and the lengths of its events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick.coordinates.events.journal import QueryVerb, RecordType, Stream
from tallystick.coordinates.values.binlog import (
    FLAG_IN_USE,
    MAGIC_LENGTH,
    PREVIOUS_GTIDS_LENGTH_MIN,
    PREVIOUS_GTIDS_LENGTH_PER_INTERVAL,
    PREVIOUS_GTIDS_LENGTH_PER_SID,
    ROTATE_EVENT_LENGTH_MIN,
    STOP_EVENT_LENGTH,
    EventType,
    format_log_file_name,
    log_pos_field,
)
from tallystick.producers.simulator.clone import gtid_state
from tallystick.producers.simulator.model import BinlogFile, FramingEvent, LoggedGroup

if TYPE_CHECKING:
    from tallystick.producers.simulator.engine import Fleet
    from tallystick.producers.simulator.gtid_intervals import GtidIntervals
    from tallystick.producers.simulator.model import Group, Instance

_FORMAT_DESCRIPTION_LENGTH = 122
_FORMAT_DESCRIPTION_LENGTH_TAGS = 123
"""From 8.3: one more event type has its header length in it."""
_TAGS_SINCE = (8, 3)
FLAG_IGNORABLE = 0x80
GTID_LENGTH_REPLICATED = 7
"""A GTID event with an original commit time of its own is longer by this."""
_GTID_LENGTH_WITHOUT_LENGTH_FIELD = 76
_UUID_LENGTH = 36
_VERBS = tuple(QueryVerb)


def format_description_length(instance: Instance) -> int:
    """Length of the FORMAT_DESCRIPTION event that the version of a server writes."""
    major, minor, *_ = instance.version.split(".")
    if (int(major), int(minor)) >= _TAGS_SINCE:
        return _FORMAT_DESCRIPTION_LENGTH_TAGS
    return _FORMAT_DESCRIPTION_LENGTH


def gtid_event_length(group: Group, instance: Instance) -> int:
    """Length of the GTID event; the transaction's length in it is packed."""
    length = _GTID_LENGTH_WITHOUT_LENGTH_FIELD
    if group.server_id != instance.server_id:
        length += GTID_LENGTH_REPLICATED
    if group.sid is not None and len(group.sid) > _UUID_LENGTH:
        length += len(group.sid) - _UUID_LENGTH
    transaction_length = length + 3 + group.body_length
    if transaction_length - 2 < 251:
        return length + 1
    if transaction_length < 1 << 16:
        return length + 3
    return length + 4 if transaction_length + 1 < 1 << 24 else length + 9


def previous_gtids_length(gtids: GtidIntervals) -> int:
    """Length of the PREVIOUS_GTIDS event of a set, tags included."""
    sids, intervals = gtids.shape()
    tags = [sid[_UUID_LENGTH + 1 :] for sid, _, _ in gtids]
    length = (
        PREVIOUS_GTIDS_LENGTH_MIN
        + sids * PREVIOUS_GTIDS_LENGTH_PER_SID
        + intervals * PREVIOUS_GTIDS_LENGTH_PER_INTERVAL
    )
    if any(tags):
        length += sids + sum(map(len, {sid[_UUID_LENGTH + 1 :] for sid, _, _ in gtids if sid}))
    return length


def open_file(fleet: Fleet, instance: Instance, number: int, previous: GtidIntervals) -> None:
    """Begin the file of that number: FORMAT_DESCRIPTION, then PREVIOUS_GTIDS."""
    previous = fleet.hooks.on_previous_gtids(fleet, instance, previous)
    file = BinlogFile(instance.binlog.base_name, number, previous)
    instance.binlog.files.append(file)
    if instance.binlog.archive is not None:
        instance.binlog.archive.append((instance.binlog.lineage, file))
    _frame(
        fleet,
        instance,
        EventType.FORMAT_DESCRIPTION,
        format_description_length(instance),
        FLAG_IN_USE,
    )
    _frame(
        fleet,
        instance,
        EventType.PREVIOUS_GTIDS,
        previous_gtids_length(previous),
        FLAG_IGNORABLE,
        text=previous.text(),
    )


def rotate(fleet: Fleet, instance: Instance) -> None:
    """Close the active file with ROTATE and open the next; no group is between its stages."""
    file = instance.binlog.active
    number = fleet.hooks.on_rotate(fleet, instance, file.number + 1)
    write_rotate(fleet, instance, number)
    file.is_closed = True
    instance.rotation_is_due = False
    gtid_state.save_gtids_of_last_binlog_into_table(instance)
    open_file(fleet, instance, number, gtids_through(file))
    fleet.wake_subscribers(instance)


def gtids_through(file: BinlogFile) -> GtidIntervals:
    """PREVIOUS_GTIDS of the file after ``file``; GTIDs that only the table holds are not in it."""
    gtids = file.previous_gtids.copy()
    for logged in file.groups():
        if logged.group.sid is not None:
            gtids.add(logged.group.sid, logged.group.gno)
    return gtids


def write_rotate(fleet: Fleet, instance: Instance, number: int) -> None:
    """The ROTATE event that names the file of that number."""
    name = format_log_file_name(instance.binlog.base_name, number)
    _frame(
        fleet,
        instance,
        EventType.ROTATE,
        ROTATE_EVENT_LENGTH_MIN + len(name),
        0,
        next_file=name,
    )


def close_with_stop(fleet: Fleet, instance: Instance) -> None:
    """A clean shutdown ends the active file with STOP."""
    _frame(fleet, instance, EventType.STOP, STOP_EVENT_LENGTH, 0)
    instance.binlog.active.is_closed = True
    gtid_state.save_gtids_of_last_binlog_into_table(instance)


def purge(fleet: Fleet, instance: Instance, to_number: int) -> None:
    """Remove the files before ``to_number``: PURGE BINARY LOGS TO."""
    files = instance.binlog.files
    kept = [file for file in files if file.number >= to_number]
    if not kept or len(kept) == len(files):
        return
    purged = instance.purged.copy()
    purged.update(kept[0].previous_gtids)
    instance.binlog.files = kept
    if fleet.hooks.on_purge(fleet, instance, purged):
        instance.purged = purged
    instance.journal.fact(RecordType.BINLOG_PURGE, {"to_file": kept[0].name})


def purge_limit(instance: Instance) -> int:
    """The oldest file number that a connected replica still reads or will have to ask for."""
    limit = instance.binlog.active.number
    for channel in instance.subscribers:
        if channel.replica.awaits_clone:
            # Nobody knows yet where the clone will begin to read: its operator keeps all files.
            return instance.binlog.files[0].number
        if channel.cursor_lineage != instance.binlog.lineage or not channel.is_configured:
            continue
        limit = min(limit, channel.cursor_file)
    return limit


def write_group(fleet: Fleet, instance: Instance, group: Group) -> LoggedGroup:
    """Flush stage: write a group behind the end of the active file."""
    file = instance.binlog.active
    file.sequence_number += 1
    start = file.end
    gtid_length = gtid_event_length(group, instance)
    length = gtid_length + group.body_length
    logged = LoggedGroup(
        group=group,
        start=start,
        gtid_length=gtid_length,
        end=start + length,
        last_committed=max(0, file.sequence_number - 1 - fleet.rng.randrange(3)),
        sequence_number=file.sequence_number,
        gtid_checksum=fleet.rng.getrandbits(32),
        transaction_length=length,
    )
    fleet.hooks.on_logged(fleet, instance, logged)
    journal_group(instance, file, logged, logged.end)
    file.entries.append(logged)
    file.end = logged.end
    if file.end >= instance.max_binlog_size:
        instance.rotation_is_due = True
    return logged


def journal_group(instance: Instance, file: BinlogFile, logged: LoggedGroup, to: int) -> None:
    """Put the events of a group that end at or before offset ``to`` into the journal."""
    journal = instance.journal
    group = logged.group
    ts = journal.moment()
    name = file.name
    log_event = journal.log_event
    body_start = logged.start + logged.gtid_length
    if body_start > to:
        return
    log_event(
        Stream.BINLOG,
        gtid_event_type(group),
        file=name,
        start=logged.start,
        length=logged.gtid_length,
        ts=ts,
        log_pos=log_pos_field(body_start),
        server_id=group.server_id,
        checksum=logged.gtid_checksum,
        sid=group.sid,
        gno=group.gno,
        last_committed=logged.last_committed,
        sequence_number=logged.sequence_number,
        transaction_length=logged.transaction_length,
        original_commit_timestamp=group.original_commit_timestamp,
    )
    for event_type, query, start, length, checksum in logged.events():
        end = start + length
        if end > to:
            return
        log_event(
            Stream.BINLOG,
            event_type,
            file=name,
            start=start,
            length=length,
            ts=ts,
            log_pos=log_pos_field(end),
            server_id=group.server_id,
            checksum=checksum,
            query=_VERBS[query],
        )


def gtid_event_type(group: Group) -> EventType:
    """The event that opens a group."""
    if group.sid is None:
        return EventType.ANONYMOUS_GTID
    return EventType.GTID_TAGGED if len(group.sid) > _UUID_LENGTH else EventType.GTID


def _frame(
    fleet: Fleet,
    instance: Instance,
    event_type: EventType,
    length: int,
    flags: int,
    *,
    text: str | None = None,
    next_file: str | None = None,
) -> None:
    file = instance.binlog.active
    event = FramingEvent(
        type=event_type,
        start=file.end,
        length=length,
        checksum=fleet.rng.getrandbits(32),
        next_file=next_file,
        next_position=MAGIC_LENGTH if next_file else -1,
    )
    journal = instance.journal
    journal.log_event(
        Stream.BINLOG,
        event_type,
        file=file.name,
        start=event.start,
        length=length,
        ts=journal.moment(),
        log_pos=log_pos_field(event.end),
        flags=flags,
        server_id=instance.server_id,
        checksum=event.checksum,
        value=event.next_position,
        text=next_file or text,
    )
    file.entries.append(event)
    file.end = event.end
