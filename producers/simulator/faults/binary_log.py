"""Faults of servers that write their binary log wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tallystick.coordinates.events.journal import QueryVerb, RecordType, Stream
from tallystick.coordinates.values.binlog import EventType, log_pos_field
from tallystick.producers.simulator.faults.fault import BaseHistory, Fault, FaultGroup
from tallystick.producers.simulator.faults.logs import rotate_when_due
from tallystick.producers.simulator.faults.row import Row, RowFault
from tallystick.producers.simulator.innodb import gtid_persistence
from tallystick.producers.simulator.kernel.transactions import Group, GroupKind, LoggedGroup
from tallystick.producers.simulator.server import binary_log, clients, lifecycle
from tallystick.producers.simulator.server.binary_log import BinaryLog
from tallystick.producers.simulator.server.channels import ChannelMap
from tallystick.producers.simulator.server.commit_queue import CommitQueue
from tallystick.producers.simulator.server.gtid_state import GtidState
from tallystick.producers.simulator.server.workload import make_group

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tallystick.producers.simulator.kernel.gtid_intervals import GtidIntervals
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.world import World
    from tallystick.producers.simulator.server.binary_log import BinlogFile

_LONGER: Final = 4_096
_RETRY_US: Final = 50_000


class ServerLogFault(Fault):
    """A server writes what no server writes, and goes on as if it were right."""

    group = FaultGroup.STREAM


class RotateWrittenTwice(ServerLogFault):
    """A second ROTATE right after the first."""

    number = 26
    name = "rotate_written_twice"
    text = "a binary log file ends with two ROTATE events that name one next file"
    must_fire = frozenset({"binlog_file_framing"})

    def on_fleet(self, fleet: World) -> None:
        """See to it that a file ends."""
        rotate_when_due(fleet, _unread(fleet))

    def on_rotate(self, fleet: World, instance: Instance, number: int) -> int:
        """Write a ROTATE before the one that is about to be written."""
        if self.is_due(fleet) and not instance[ChannelMap].subscribers:
            self.mark(fleet, instance)
            binary_log.write_rotate(fleet, instance, number)
        return number


class GroupSplit(ServerLogFault):
    """A file ends inside a group that nobody ever sees committed."""

    number = 33
    name = "group_split_by_rotate"
    text = "a binary log file ends inside a group, whose rest opens the next file"
    must_fire = frozenset({"binlog_group_wellformed"})
    base = BaseHistory.REPLICA
    heals = False

    def on_commit(self, fleet: World, instance: Instance, group: Group) -> Group | None:
        """Write half a group, rotate, and write the rest before the next group."""
        is_quiet = (
            not instance[CommitQueue].in_commit
            and not instance[ChannelMap].subscribers
            and instance[BinaryLog].is_open
        )
        if (
            not self.is_due(fleet)
            or not is_quiet
            or group.sid is None
            or not instance[ChannelMap].channels
        ):
            return group
        self.mark(fleet, instance)
        torn = make_group(fleet.rng, GroupKind.COMPRESSED, instance.server_id, fleet.now)
        torn = replace(torn, kind=GroupKind.INNODB, body=_plain_body(fleet))
        # Only the next GNO of its own: a hole below it would be a fault of its own.
        torn.sid, torn.gno = (
            instance.server_uuid,
            instance[GtidState].logged.next_free(instance.server_uuid),
        )
        half = len(torn.body) // 2
        old = instance[BinaryLog].active
        old.sequence_number += 1
        start = old.end
        gtid_length = binary_log.gtid_event_length(torn, torn.body_length, instance)
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
        _write_body(instance, instance[BinaryLog].active, torn, torn.body[half:])
        return group


class SequenceNumberJump(ServerLogFault):
    """The counter of a file goes up by two."""

    number = 35
    name = "sequence_number_jump"
    text = "a sequence number is left out, bytes are not"
    must_fire = frozenset({"sequence_numbers_valid"})
    heals = False

    def on_logged(self, fleet: World, instance: Instance, logged: LoggedGroup) -> None:
        """Leave out a number that is not the first of its file."""
        if not self.is_due(fleet) or logged.sequence_number < 2:
            return
        self.mark(fleet, instance)
        logged.sequence_number += 1
        instance[BinaryLog].active.sequence_number += 1


class ChangeNotLogged(ServerLogFault):
    """A change that cannot be rolled back does not fit into the binary log's cache."""

    number = 272
    name = "incident_logged"
    text = "a server logs INCIDENT instead of a change that its tables have"
    must_fire = frozenset({"binlog_group_wellformed"})
    heals = False
    _LENGTH: Final = 59

    def on_fleet(self, fleet: World) -> None:
        """Clients change a MyISAM table, on a source."""
        for instance in fleet.instances.values():
            if not instance[ChannelMap].channels:
                fleet.schedule(fleet.fault_at, instance, self._change, instance)

    def _change(self, fleet: World, instance: Instance) -> None:
        if self.injected:
            return
        if instance.is_running and instance[BinaryLog].is_open:
            clients.write(fleet, instance, GroupKind.NON_TRANSACTIONAL)
        fleet.schedule(fleet.now + _RETRY_US, instance, self._change, instance)

    def on_commit(self, fleet: World, instance: Instance, group: Group) -> Group | None:
        """Log INCIDENT instead of the rows, where nobody reads the log."""
        is_odd = group.kind is GroupKind.NON_TRANSACTIONAL and instance[BinaryLog].is_open
        if not self.is_due(fleet) or not is_odd or instance[ChannelMap].subscribers:
            return group
        self.mark(fleet, instance)
        incident = (EventType.INCIDENT, QueryVerb.NONE, self._LENGTH, fleet.rng.getrandbits(32))
        return replace(group, body=(incident,))


class GtidLoggedTwice(ServerLogFault):
    """A replica logs the newest group again before the next one."""

    number = 36
    name = "gtid_logged_twice"
    text = "one GTID opens two groups of one binary log"
    must_fire = frozenset({"gtid_logged_once"})
    heals = False

    def on_commit(self, fleet: World, instance: Instance, group: Group) -> Group | None:
        """Write the group before this one a second time."""
        if (
            not self.is_due(fleet)
            or instance[ChannelMap].subscribers
            or not instance[BinaryLog].is_open
        ):
            return group
        logged = instance[BinaryLog].active.groups()
        if not logged or logged[-1].group.sid is None or instance[BinaryLog].rotation_is_due:
            return group
        self.mark(fleet, instance)
        binary_log.write_group(fleet, instance, logged[-1].group)
        return group


class PreviousGtidsStale(ServerLogFault):
    """The set of a new file lacks one GTID."""

    number = 37
    name = "previous_gtids_stale"
    text = "a new file's PREVIOUS_GTIDS lacks the last group of the file before"
    must_fire = frozenset({"previous_gtids_continuity"})

    def __init__(self) -> None:
        super().__init__()
        self._rotating = ""

    def on_fleet(self, fleet: World) -> None:
        """See to it that a file with groups ends."""
        rotate_when_due(fleet, fleet.instances.values())

    def on_rotate(self, fleet: World, instance: Instance, number: int) -> int:
        """Only a rotation will do: a start may add GTIDs of the table."""
        self._rotating = instance.instance_id
        return number

    def on_previous_gtids(
        self, fleet: World, instance: Instance, gtids: GtidIntervals
    ) -> GtidIntervals:
        """Leave out the last group of the file before."""
        is_rotation = self._rotating == instance.instance_id
        self._rotating = ""
        groups = instance[BinaryLog].files[-1].groups() if instance[BinaryLog].files else []
        last = groups[-1].group if groups else None
        if not self.is_due(fleet) or not is_rotation or last is None or last.sid is None:
            return gtids
        self.mark(fleet, instance)
        stale = gtids.copy()
        stale.discard(last.sid, last.gno)
        return stale


class AnonymousGroup(ServerLogFault):
    """A group without a GTID."""

    number = 39
    name = "anonymous_in_gtid_mode_on"
    text = "one anonymous group is logged under gtid_mode=ON"
    must_fire = frozenset({"gtid_mode_respected"})
    heals = False

    def on_commit(self, fleet: World, instance: Instance, group: Group) -> Group | None:
        """Write an anonymous group before this one."""
        is_on = instance[GtidState].mode == "ON" and instance[BinaryLog].is_open
        if not self.is_due(fleet) or instance[ChannelMap].subscribers or not is_on:
            return group
        self.mark(fleet, instance)
        anonymous = make_group(fleet.rng, GroupKind.INNODB, instance.server_id, fleet.now)
        binary_log.write_group(fleet, instance, anonymous)
        return group


class MiddleFileMissing(RowFault):
    """SHOW BINARY LOGS lacks a file that is neither the first nor the last."""

    number = 40
    name = "middle_file_missing"
    text = "a file in the middle of the binary logs vanishes from the index"
    must_fire = frozenset({"binlog_files_form_range"})
    group = FaultGroup.STREAM
    holds_files = True

    def on_fleet(self, fleet: World) -> None:
        """See to it that there are three files."""
        super().on_fleet(fleet)
        for delay_us in (0, 200_000, 400_000):
            rotate_when_due(fleet, fleet.instances.values(), delay_us)

    def tamper(self, fleet: World, row: Row, before: Row) -> bool:
        files = row.body.get("binary_logs", [])
        if len(files) < 3:
            return False
        missing = files[len(files) // 2]["name"]
        for name in ("binary_logs", "binary_logs_again"):
            if name in row.body:
                row.body[name] = [file for file in row.body[name] if file["name"] != missing]
        return True


class ClosedFileCut(RowFault):
    """A closed file is shorter than what was written to it."""

    number = 197
    name = "closed_file_cut"
    text = "the list of binary logs shows a closed file as shorter than its events"
    must_fire = frozenset({"closed_file_length_agrees"})
    group = FaultGroup.STREAM
    holds_files = True

    def on_fleet(self, fleet: World) -> None:
        """See to it that there are two files."""
        super().on_fleet(fleet)
        rotate_when_due(fleet, fleet.instances.values(), 0)

    def tamper(self, fleet: World, row: Row, before: Row) -> bool:
        files = row.body.get("binary_logs", [])
        if len(files) < 2:
            return False
        for name in ("binary_logs", "binary_logs_again"):
            for file in row.body.get(name, [])[-2:-1]:
                file["size"] -= 31
        return True


class OpenFileLonger(RowFault):
    """Somebody has written into the open file, or the list is another server's."""

    number = 265
    name = "open_file_longer"
    text = "the list of binary logs shows the open file as longer than it is at the row after it"
    must_fire = frozenset({"closed_file_length_agrees"})
    group = FaultGroup.STREAM

    def tamper(self, fleet: World, row: Row, before: Row) -> bool:
        """By more than what a transaction or a header would explain."""
        del fleet, before
        for name in ("binary_logs", "binary_logs_again"):
            for file in row.body.get(name, [])[-1:]:
                file["size"] += _LONGER
        return bool(row.body.get("binary_logs"))


class RestartAppends(ServerLogFault):
    """A start that opens no file, of a server that was killed between two transactions."""

    number = 41
    name = "restart_appends_to_old_file"
    text = "after a start the server goes on in the file that it closed"
    must_fire = frozenset({"binlog_files_form_range"})
    heals = False

    def on_commit(self, fleet: World, instance: Instance, group: Group) -> Group | None:
        """Announce the start before the next transaction of a source."""
        is_quiet = (
            not instance[CommitQueue].in_commit
            and not instance[ChannelMap].channels
            and instance[BinaryLog].is_open
        )
        file = instance[BinaryLog].active
        if not self.is_due(fleet) or not is_quiet or not file.groups():
            return group
        self.mark(fleet, instance)
        instance.journal.record(RecordType.STOP, {"clean": False})
        gtid_persistence.forget_memory(instance)
        found = gtid_persistence.recover(fleet, instance)
        assert found is not None
        recovered = {"file": file.name, "position": file.end}
        body = lifecycle.start_body(fleet, instance, crashed=True, recovered=recovered)
        instance.journal.record(RecordType.START, {**body, "undo_gtids": found.text()})
        gtid_persistence.record_recovery(instance, found)
        return group


def _unread(fleet: World) -> list[Instance]:
    """The instances whose binary log nobody reads: what is odd about it stays there."""
    return [
        instance for instance in fleet.instances.values() if not instance[ChannelMap].subscribers
    ]


def _plain_body(fleet: World) -> tuple[tuple[int, int, int, int], ...]:
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
