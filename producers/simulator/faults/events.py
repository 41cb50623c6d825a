"""Faults of what the journal says of a log's events; the logs themselves are right."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tallystick.coordinates.events.journal import QueryVerb, Stream
from tallystick.coordinates.values.binlog import (
    EventType,
    format_log_file_name,
    parse_log_file_name,
)
from tallystick.producers.simulator.faults.fault import BaseHistory
from tallystick.producers.simulator.faults.journal import Event, JournalFault
from tallystick.producers.simulator.faults.logs import is_pure_source, rotate_when_due
from tallystick.producers.simulator.kernel.transactions import Group, GroupKind, LoggedGroup
from tallystick.producers.simulator.server import clients
from tallystick.producers.simulator.server.binary_log import BinaryLog
from tallystick.producers.simulator.server.channels import Receiver

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.world import World
    from tallystick.producers.simulator.server.channels import Channel

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
    """A file opens with the event of servers before 5.0."""

    number = 25
    name = "format_event_missing"
    text = "the event at offset 4 of a new binary log file is of another type"
    must_fire = frozenset({"binlog_file_framing"})

    def on_fleet(self, fleet: World) -> None:
        """See to it that a file is opened."""
        super().on_fleet(fleet)
        rotate_when_due(fleet, fleet.instances.values())

    def on_event(self, instance_id: str, event: Event) -> Iterable[Event]:
        """Give the next FORMAT_DESCRIPTION of a binary log another type."""
        is_first = event.stream is Stream.BINLOG and event.type == EventType.FORMAT_DESCRIPTION
        if not is_first or not self.is_due_in(instance_id):
            return (event,)
        self.mark_in(instance_id)
        return (event._replace(type=_START_EVENT_V3),)


class GroupLost(JournalFault):
    """An offset gap as long as one group of a binary log; another group shows it at once."""

    number = 27
    name = "group_lost_from_stream"
    text = "the events of one group never reach the binary log's journal"
    must_fire = frozenset({"log_events_contiguous"})
    heals = False

    def __init__(self) -> None:
        super().__init__()
        self._lost: LoggedGroup | None = None
        self._file = ""

    def on_logged(self, fleet: World, instance: Instance, logged: LoggedGroup) -> None:
        """Choose the group, and let a client write the next one."""
        if self.is_due(fleet) and is_pure_source(instance):
            self.mark(fleet, instance)
            fleet.schedule(fleet.now, None, self._write_another, instance)
            self._lost = logged
            self._file = instance[BinaryLog].active.name

    def _write_another(self, fleet: World, instance: Instance) -> None:
        clients.write(fleet, instance)

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
    """An offset gap as long as one group of a relay log."""

    number = 28
    name = "relay_group_lost_from_stream"
    text = "the events of one group never reach the relay log's journal"
    must_fire = frozenset({"log_events_contiguous"})
    base = BaseHistory.REPLICA
    heals = False

    def __init__(self) -> None:
        super().__init__()
        self._channel: str | None = None
        self._chosen = ""

    def on_queue(self, fleet: World, channel: Channel, logged: LoggedGroup) -> bool:
        """Choose a group after which another is waiting, which will show the gap at once."""
        file = channel.source[BinaryLog].file_of_number(channel[Receiver].cursor_file)
        following = file.entries[channel[Receiver].cursor_entry + 1 :] if file is not None else []
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
    """Behind 4 GiB the last event of a group is reported where the wrapped field points."""

    number = 29
    name = "offset_truncated_to_32_bits"
    text = "after 4 GiB of one binary log file an event's start is reported modulo 2^32"
    must_fire = frozenset({"log_events_contiguous"})
    _ROWS_EVENTS: Final = 5
    _ROWS_LENGTH: Final = 900 << 20

    def __init__(self) -> None:
        super().__init__()
        self._is_written = False

    def on_commit(self, fleet: World, instance: Instance, group: Group) -> Group | None:
        """Make the next transaction of a source larger than 4 GiB."""
        is_own = group.sid is not None and group.server_id == instance.server_id
        if (
            self._is_written
            or not self.is_due(fleet)
            or not is_own
            or not instance[BinaryLog].is_open
        ):
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
    """An event comes again with another checksum."""

    number = 30
    name = "conflicting_redelivery"
    text = "one event of the binary log is delivered again with another content"
    must_fire = frozenset({"log_redelivery_identical"})

    def on_event(self, instance_id: str, event: Event) -> Iterable[Event]:
        """Repeat the last event of a group."""
        is_last = event.stream is Stream.BINLOG and event.type == EventType.XID
        if not is_last or not self.is_due_in(instance_id):
            return (event,)
        self.mark_in(instance_id)
        return event, event.but(checksum=event.fields["checksum"] ^ 1)


class LogPosWrong(JournalFault):
    """The header's field is short by a header."""

    number = 31
    name = "log_pos_field_wrong"
    text = "the header field log_pos of one event is off by the size of a header"
    must_fire = frozenset({"binlog_log_pos_field_agrees"})

    def on_event(self, instance_id: str, event: Event) -> Iterable[Event]:
        """Change the field of one event."""
        is_usual = event.stream is Stream.BINLOG and event.type == EventType.XID
        if not is_usual or not self.is_due_in(instance_id):
            return (event,)
        self.mark_in(instance_id)
        return (event.but(log_pos=event.fields["log_pos"] - _HEADER_LENGTH),)


class RotateNamesOther(JournalFault):
    """ROTATE names one file, and another follows."""

    number = 32
    name = "rotate_names_other_file"
    text = "a binary log file's ROTATE names the one after the next, and the next one follows"
    must_fire = frozenset({"binlog_rotate_successor"})

    def on_fleet(self, fleet: World) -> None:
        """See to it that a file ends."""
        super().on_fleet(fleet)
        rotate_when_due(fleet, fleet.instances.values())

    def on_event(self, instance_id: str, event: Event) -> Iterable[Event]:
        """Change the name in the next ROTATE of a binary log."""
        is_end = event.stream is Stream.BINLOG and event.type == EventType.ROTATE
        if not is_end or not self.is_due_in(instance_id):
            return (event,)
        self.mark_in(instance_id)
        base_name, number = parse_log_file_name(event.fields["text"])
        return (event.but(text=format_log_file_name(base_name, number + 1)),)


class TransactionLengthWrong(JournalFault):
    """One byte too many."""

    number = 34
    name = "transaction_length_wrong"
    text = "the transaction_length of one GTID event is one too many"
    must_fire = frozenset({"transaction_length_agrees"})

    def on_event(self, instance_id: str, event: Event) -> Iterable[Event]:
        """Change the length that one GTID event claims."""
        length = event.fields.get("transaction_length", 0)
        if event.stream is not Stream.BINLOG or length <= 0 or not self.is_due_in(instance_id):
            return (event,)
        self.mark_in(instance_id)
        return (event.but(transaction_length=length + 1),)
