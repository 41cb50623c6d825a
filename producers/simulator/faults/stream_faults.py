"""Faults F25 to F41: the events of a binary log or relay log do not fit together."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tallystick.coordinates.events.journal import QueryVerb, RecordType, Stream
from tallystick.coordinates.values.binlog import EventType, log_pos_field
from tallystick.producers.simulator import administration, binary_log
from tallystick.producers.simulator.faults.injector import Injector, Row, RowFault, is_pure_source
from tallystick.producers.simulator.faults.tampered_journal import Event, JournalFault
from tallystick.producers.simulator.gtid_intervals import GtidIntervals
from tallystick.producers.simulator.model import Group, GroupKind, LoggedGroup
from tallystick.producers.simulator.workload import make_group

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tallystick.producers.simulator.engine import Fleet
    from tallystick.producers.simulator.model import BinlogFile, Channel, Instance

_START_EVENT_V3: Final = 1
"""How a binary log file began before MySQL 5.0."""
_HEADER_LENGTH: Final = 19
_GTID_EVENTS: Final = (EventType.GTID, EventType.ANONYMOUS_GTID, EventType.GTID_TAGGED)
_FRAMING: Final = (
    EventType.FORMAT_DESCRIPTION,
    EventType.PREVIOUS_GTIDS,
    EventType.ROTATE,
    EventType.STOP,
)


class FormatEventMissing(JournalFault):
    """F25: a file opens with the event of servers before 5.0."""

    def on_fleet(self, fleet: Fleet) -> None:
        """See to it that a file is opened."""
        super().on_fleet(fleet)
        _rotate_when_due(fleet, fleet.instances.values())

    def on_event(self, instance_id: str, event: Event) -> Iterable[Event]:
        """Give the next FORMAT_DESCRIPTION of a binary log another type."""
        is_first = event.stream is Stream.BINLOG and event.type == EventType.FORMAT_DESCRIPTION
        if not is_first or not self.is_due_in(instance_id):
            return (event,)
        self.mark_in(instance_id)
        return (replace(event, type=_START_EVENT_V3),)


class RotateWrittenTwice(Injector):
    """F26: a second ROTATE right behind the first."""

    def on_fleet(self, fleet: Fleet) -> None:
        """See to it that a file ends."""
        _rotate_when_due(fleet, _unread(fleet))

    def on_rotate(self, fleet: Fleet, instance: Instance, number: int) -> int:
        """Write a ROTATE before the one that is about to be written."""
        if self.is_due(fleet) and not instance.subscribers:
            self.mark(fleet, instance)
            binary_log.write_rotate(fleet, instance, number)
        return number


class GroupLost(JournalFault):
    """F27: an offset gap as long as one group of a binary log; another group shows it at once."""

    def __init__(self) -> None:
        super().__init__()
        self._lost: LoggedGroup | None = None
        self._file = ""

    def on_logged(self, fleet: Fleet, instance: Instance, logged: LoggedGroup) -> None:
        """Choose the group, and let a client write the next one."""
        if self.is_due(fleet) and is_pure_source(instance):
            self.mark(fleet, instance)
            fleet.clock.schedule(fleet.now, None, self._write_another, fleet, instance)
            self._lost = logged
            self._file = instance.binlog.active.name

    def _write_another(self, fleet: Fleet, instance: Instance) -> None:
        fleet.write(instance)

    def on_event(self, instance_id: str, event: Event) -> Iterable[Event]:
        """Leave out the group's events."""
        is_lost = (
            self._lost is not None
            and event.stream is Stream.BINLOG
            and instance_id == self.injected_in
            and event.fields["file"] == self._file
            and self._lost.start <= event.fields["start"] < self._lost.end
        )
        return () if is_lost else (event,)


class RelayGroupLost(JournalFault):
    """F28: an offset gap as long as one group of a relay log."""

    def __init__(self) -> None:
        super().__init__()
        self._channel: str | None = None
        self._chosen = ""

    def on_queue(self, fleet: Fleet, channel: Channel, logged: LoggedGroup) -> bool:
        """Choose a group behind which another is waiting, which will show the gap at once."""
        file = channel.source.binlog.file_of_number(channel.cursor_file)
        following = file.entries[channel.cursor_entry + 1 :] if file is not None else []
        if following and isinstance(following[0], LoggedGroup) and self.is_due(fleet):
            self._chosen = channel.replica.instance_id
        return True

    def on_event(self, instance_id: str, event: Event) -> Iterable[Event]:
        """Leave out the events from one GTID event to the next."""
        if event.stream is not Stream.RELAY:
            return (event,)
        channel = event.fields["channel"]
        is_gtid = event.type in _GTID_EVENTS
        if is_gtid and instance_id == self._chosen and self.is_due_in(instance_id):
            self.mark_in(instance_id)
            self._channel = channel
            return ()
        is_lost = instance_id == self.injected_in and channel == self._channel
        if is_lost and (is_gtid or event.type in _FRAMING):
            self._channel = None
            return (event,)
        return () if is_lost else (event,)


class OffsetTruncated(JournalFault):
    """F29: behind 4 GiB the last event of a group is reported where the wrapped field points."""

    _ROWS_EVENTS: Final = 5
    _ROWS_LENGTH: Final = 900 << 20

    def __init__(self) -> None:
        super().__init__()
        self._is_written = False

    def on_commit(self, fleet: Fleet, instance: Instance, group: Group) -> Group | None:
        """Make the next transaction of a source larger than 4 GiB."""
        is_own = group.sid is not None and group.server_id == instance.server_id
        if self._is_written or not self.is_due(fleet) or not is_own or not instance.log_bin:
            return group
        if group.kind is not GroupKind.INNODB:
            return group
        self._is_written = True
        begin, *_, xid = group.body
        table_map = (int(EventType.TABLE_MAP), int(QueryVerb.NONE), 60, fleet.rng.getrandbits(32))
        rows = [
            (int(EventType.WRITE_ROWS), int(QueryVerb.NONE), self._ROWS_LENGTH, begin[3] ^ number)
            for number in range(self._ROWS_EVENTS)
        ]
        return replace(group, body=(begin, table_map, *rows, xid))

    def on_event(self, instance_id: str, event: Event) -> Iterable[Event]:
        """Report the start of one event modulo 2^32."""
        start = event.fields["start"]
        is_far = event.stream is Stream.BINLOG and start >= 1 << 32
        if not is_far or event.type != EventType.XID or not self.is_due_in(instance_id):
            return (event,)
        self.mark_in(instance_id)
        return (event.but(start=start % (1 << 32)),)


class ConflictingRedelivery(JournalFault):
    """F30: an event comes again with another checksum."""

    def on_event(self, instance_id: str, event: Event) -> Iterable[Event]:
        """Repeat the last event of a group."""
        is_last = event.stream is Stream.BINLOG and event.type == EventType.XID
        if not is_last or not self.is_due_in(instance_id):
            return (event,)
        self.mark_in(instance_id)
        return event, event.but(checksum=event.fields["checksum"] ^ 1)


class LogPosWrong(JournalFault):
    """F31: the header's field is short by a header."""

    def on_event(self, instance_id: str, event: Event) -> Iterable[Event]:
        """Change the field of one event."""
        is_usual = event.stream is Stream.BINLOG and event.type == EventType.XID
        if not is_usual or not self.is_due_in(instance_id):
            return (event,)
        self.mark_in(instance_id)
        return (event.but(log_pos=event.fields["log_pos"] - _HEADER_LENGTH),)


class RotateSkipsNumber(Injector):
    """F32: one number is left out."""

    def on_fleet(self, fleet: Fleet) -> None:
        """See to it that a file ends."""
        _rotate_when_due(fleet, _unread(fleet))

    def on_rotate(self, fleet: Fleet, instance: Instance, number: int) -> int:
        """Go on with the number after the next."""
        if not self.is_due(fleet) or instance.subscribers:
            return number
        self.mark(fleet, instance)
        return number + 1


class GroupSplit(Injector):
    """F33: a file ends inside a group that nobody ever sees committed."""

    def on_commit(self, fleet: Fleet, instance: Instance, group: Group) -> Group | None:
        """Write half a group, rotate, and write the rest before the next group."""
        is_quiet = not instance.in_commit and not instance.subscribers and instance.log_bin
        if not self.is_due(fleet) or not is_quiet or group.sid is None or not instance.channels:
            return group
        self.mark(fleet, instance)
        torn = make_group(fleet.rng, GroupKind.COMPRESSED, instance.server_id, fleet.now)
        torn = replace(torn, kind=GroupKind.INNODB, body=_plain_body(fleet))
        # Only the next GNO of its own: a hole below it would be a fault of its own.
        torn.sid, torn.gno = instance.server_uuid, instance.logged.next_free(instance.server_uuid)
        half = len(torn.body) // 2
        old = instance.binlog.active
        old.sequence_number += 1
        start = old.end
        gtid_length = binary_log.gtid_event_length(torn, instance)
        instance.journal.log_event(
            Stream.BINLOG,
            EventType.GTID,
            file=old.name,
            start=start,
            length=gtid_length,
            ts=instance.journal.moment(),
            log_pos=log_pos_field(start + gtid_length),
            server_id=instance.server_id,
            checksum=fleet.rng.getrandbits(32),
            sid=torn.sid,
            gno=torn.gno,
            last_committed=old.sequence_number - 1,
            sequence_number=old.sequence_number,
            transaction_length=gtid_length + torn.body_length,
            original_commit_timestamp=torn.original_commit_timestamp,
        )
        old.end = start + gtid_length
        _write_body(instance, old, torn, torn.body[:half])
        binary_log.rotate(fleet, instance)
        _write_body(instance, instance.binlog.active, torn, torn.body[half:])
        return group


class TransactionLengthWrong(JournalFault):
    """F34: one byte too many."""

    def on_event(self, instance_id: str, event: Event) -> Iterable[Event]:
        """Change the length that one GTID event claims."""
        length = event.fields.get("transaction_length", 0)
        if event.stream is not Stream.BINLOG or length <= 0 or not self.is_due_in(instance_id):
            return (event,)
        self.mark_in(instance_id)
        return (event.but(transaction_length=length + 1),)


class SequenceNumberJump(Injector):
    """F35: the counter of a file goes up by two."""

    def on_logged(self, fleet: Fleet, instance: Instance, logged: LoggedGroup) -> None:
        """Leave out a number that is not the first of its file."""
        if not self.is_due(fleet) or logged.sequence_number < 2:
            return
        self.mark(fleet, instance)
        logged.sequence_number += 1
        instance.binlog.active.sequence_number += 1


class GtidLoggedTwice(Injector):
    """F36: a replica logs the newest group again before the next one."""

    def on_commit(self, fleet: Fleet, instance: Instance, group: Group) -> Group | None:
        """Write the group before this one a second time."""
        if not self.is_due(fleet) or instance.subscribers or not instance.log_bin:
            return group
        logged = instance.binlog.active.groups()
        if not logged or logged[-1].group.sid is None or instance.rotation_is_due:
            return group
        self.mark(fleet, instance)
        binary_log.write_group(fleet, instance, logged[-1].group)
        return group


class PreviousGtidsStale(Injector):
    """F37: the set of a new file lacks one GTID."""

    def __init__(self) -> None:
        super().__init__()
        self._rotating = ""

    def on_fleet(self, fleet: Fleet) -> None:
        """See to it that a file with groups ends."""
        _rotate_when_due(fleet, fleet.instances.values())

    def on_rotate(self, fleet: Fleet, instance: Instance, number: int) -> int:
        """Only a rotation will do: a start may add GTIDs of the table."""
        self._rotating = instance.instance_id
        return number

    def on_previous_gtids(
        self, fleet: Fleet, instance: Instance, gtids: GtidIntervals
    ) -> GtidIntervals:
        """Leave out the last group of the file before."""
        is_rotation = self._rotating == instance.instance_id
        self._rotating = ""
        groups = instance.binlog.files[-1].groups() if instance.binlog.files else []
        last = groups[-1].group if groups else None
        if not self.is_due(fleet) or not is_rotation or last is None or last.sid is None:
            return gtids
        self.mark(fleet, instance)
        stale = gtids.copy()
        stale.discard(last.sid, last.gno)
        return stale


class OwnGnoSkipped(Injector):
    """F38: AUTOMATIC passes over one free GNO."""

    def __init__(self) -> None:
        super().__init__()
        self._skipped: tuple[str, int] | None = None

    def on_commit(self, fleet: Fleet, instance: Instance, group: Group) -> Group | None:
        """Give the next free GNO but one, and never the one left out."""
        is_own = group.sid == instance.server_uuid and instance.writes
        if not is_own or group.sid is None:
            return group
        if self.is_due(fleet) and group.gno > 1 and (group.sid, group.gno - 1) in instance.logged:
            self.mark(fleet, instance)
            self._skipped = group.sid, group.gno
        if self._skipped == (group.sid, group.gno):
            taken = instance.logged.copy()
            taken.add(group.sid, group.gno)
            group.gno = taken.next_free(group.sid)
        return group


class AnonymousGroup(Injector):
    """F39: a group without a GTID."""

    def on_commit(self, fleet: Fleet, instance: Instance, group: Group) -> Group | None:
        """Write an anonymous group before this one."""
        is_on = instance.gtid_mode == "ON" and instance.log_bin
        if not self.is_due(fleet) or instance.subscribers or not is_on:
            return group
        self.mark(fleet, instance)
        anonymous = make_group(fleet.rng, GroupKind.INNODB, instance.server_id, fleet.now)
        binary_log.write_group(fleet, instance, anonymous)
        return group


class MiddleFileMissing(RowFault):
    """F40: SHOW BINARY LOGS lacks a file that is neither the first nor the last."""

    def on_fleet(self, fleet: Fleet) -> None:
        """See to it that there are three files."""
        for delay_us in (0, 200_000, 400_000):
            _rotate_when_due(fleet, fleet.instances.values(), delay_us)

    def tamper(self, fleet: Fleet, row: Row, before: Row) -> bool:
        """Take a file from the lists."""
        files = row.body.get("binary_logs", [])
        if len(files) < 3:
            return False
        missing = files[len(files) // 2]["name"]
        for name in ("binary_logs", "binary_logs_again"):
            if name in row.body:
                row.body[name] = [file for file in row.body[name] if file["name"] != missing]
        return True


class RestartAppends(Injector):
    """F41: a start that opens no file, of a server that was killed between two transactions."""

    def on_commit(self, fleet: Fleet, instance: Instance, group: Group) -> Group | None:
        """Announce the start before the next transaction of a source."""
        is_quiet = not instance.in_commit and not instance.channels and instance.log_bin
        file = instance.binlog.active
        if not self.is_due(fleet) or not is_quiet or not file.groups():
            return group
        self.mark(fleet, instance)
        instance.journal.fact(RecordType.STOP, {"clean": False})
        recovered = {"file": file.name, "position": file.end}
        body = fleet.start_body(instance, crashed=True, recovered=recovered)
        instance.journal.fact(RecordType.START, body)
        return group


def _unread(fleet: Fleet) -> list[Instance]:
    """The instances whose binary log nobody reads: what is odd about it stays there."""
    return [instance for instance in fleet.instances.values() if not instance.subscribers]


def _rotate_when_due(fleet: Fleet, instances: Iterable[Instance], delay_us: int = 0) -> None:
    """FLUSH BINARY LOGS as soon as the fault is due."""
    for instance in instances:
        fleet.clock.schedule(
            fleet.fault_at + delay_us, instance, administration.flush_binary_logs, fleet, instance
        )


def _plain_body(fleet: Fleet) -> tuple[tuple[int, int, int, int], ...]:
    lengths = (
        (EventType.QUERY, QueryVerb.BEGIN, 75),
        (EventType.TABLE_MAP, QueryVerb.NONE, 55),
        (EventType.WRITE_ROWS, QueryVerb.NONE, 120),
        (EventType.XID, QueryVerb.NONE, 31),
    )
    return tuple((int(t), int(q), n, fleet.rng.getrandbits(32)) for t, q, n in lengths)


def _write_body(
    instance: Instance, file: BinlogFile, group: Group, body: Iterable[tuple[int, int, int, int]]
) -> None:
    for event_type, query, length, checksum in body:
        start = file.end
        file.end = start + length
        instance.journal.log_event(
            Stream.BINLOG,
            event_type,
            file=file.name,
            start=start,
            length=length,
            ts=instance.journal.moment(),
            log_pos=log_pos_field(file.end),
            server_id=group.server_id,
            checksum=checksum,
            query=QueryVerb(query),
        )


STREAM_INJECTORS: Final[Mapping[str, Callable[[], Injector]]] = {
    "format_event_missing": FormatEventMissing,
    "rotate_written_twice": RotateWrittenTwice,
    "group_lost_from_stream": GroupLost,
    "relay_group_lost_from_stream": RelayGroupLost,
    "offset_truncated_to_32_bits": OffsetTruncated,
    "conflicting_redelivery": ConflictingRedelivery,
    "log_pos_field_wrong": LogPosWrong,
    "rotate_skips_number": RotateSkipsNumber,
    "group_split_by_rotate": GroupSplit,
    "transaction_length_wrong": TransactionLengthWrong,
    "sequence_number_jump": SequenceNumberJump,
    "gtid_logged_twice": GtidLoggedTwice,
    "previous_gtids_stale": PreviousGtidsStale,
    "own_gno_skipped": OwnGnoSkipped,
    "anonymous_in_gtid_mode_on": AnonymousGroup,
    "middle_file_missing": MiddleFileMissing,
    "restart_appends_to_old_file": RestartAppends,
}
