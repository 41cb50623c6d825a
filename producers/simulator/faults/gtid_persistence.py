"""Faults of GTID persistence (WL#9211): undo headers, persister, purge, recovery, the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tallystick.coordinates.events.journal import RecordType
from tallystick.coordinates.values.gtid import GtidSet
from tallystick.producers.simulator.faults.fault import Fault, FaultGroup
from tallystick.producers.simulator.faults.journal import JournalFault
from tallystick.producers.simulator.faults.logs import is_pure_source, pure_source
from tallystick.producers.simulator.faults.row import Row, RowFault, server_text
from tallystick.producers.simulator.innodb.gtid_persistence import GtidPersistence
from tallystick.producers.simulator.innodb.redo_log import Innodb
from tallystick.producers.simulator.innodb.undo_log import (
    TRX_UNDO_FLAG_GTID,
    TRX_UNDO_FLAGS,
    has_gtid,
)
from tallystick.producers.simulator.kernel.gtid_intervals import GtidIntervals
from tallystick.producers.simulator.kernel.transactions import Group, GroupKind
from tallystick.producers.simulator.server import administration, commit, lifecycle, workload
from tallystick.producers.simulator.server.binary_log import BinaryLog
from tallystick.producers.simulator.server.clients import Clients
from tallystick.producers.simulator.server.gtid_state import GtidState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallystick.producers.simulator.innodb.undo_log import UndoLogHeader
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.world import World

_FAR: Final = 1_000
_STEP_US: Final = 1_000
_RETRY_US: Final = 50_000
_ROOM: Final = 2_048
"""Bytes that are left in the binary log file for what is committed before the crash."""
_WRITES_BEFORE: Final = 2
"""So often a persister writes before an audit that begins here knows what was committed before."""


class GtidTableAhead(RowFault):
    """The table holds a GTID of the own UUID that was never given."""

    number = 76
    name = "gtid_table_ahead"
    text = "mysql.gtid_executed holds a GTID that is neither executed, owned nor prepared"
    must_fire = frozenset({"gtid_table_within_executed"})
    group = FaultGroup.PROTOCOL

    def tamper(self, fleet: World, row: Row, before: Row) -> bool:
        if "gtid_executed_table" not in row.body or row.instance[GtidState].mode != "ON":
            return False
        uuid = row.instance.server_uuid
        gno = row.instance[GtidState].logged.next_free(uuid) + _FAR
        table = GtidSet.parse(row.body["gtid_executed_table"]) | GtidSet([(uuid, gno, gno)])
        row.body["gtid_executed_table"] = server_text(table)
        return True


class _Watched(Fault):
    """The journals record what persisters do from when the fault is due."""

    def on_fleet(self, fleet: World) -> None:
        super().on_fleet(fleet)
        for instance in fleet.instances.values():
            fleet.clock.schedule(
                fleet.fault_at, None, setattr, *(instance[GtidPersistence], "is_recorded", True)
            )


class PurgeOvertakesPersister(_Watched):
    """Purge once looks at read views alone."""

    number = 77
    name = "purge_overtakes_persister"
    text = "undo is purged up to a transaction whose GTID is not stored yet"
    must_fire = frozenset({"purge_waits_for_gtid_persist"})

    def __init__(self) -> None:
        super().__init__()
        self._newest: dict[str, int] = {}

    def on_undo_durable(self, fleet: World, instance: Instance, header: UndoLogHeader) -> None:
        """Remember the newest transaction that the journal records."""
        if self.is_due(fleet) and instance[GtidPersistence].is_recorded and has_gtid(header):
            self._newest[instance.instance_id] = header.trx_no

    def on_undo_purge(self, fleet: World, instance: Instance, limit: int) -> int:
        """Let purge go as far as transactions have ended."""
        newest = self._newest.get(instance.instance_id, 0)
        is_free = (
            not instance[GtidPersistence].persister.is_writing
            and not instance[Innodb].transactions.read_views
        )
        if self.is_due(fleet) and newest >= limit and is_free:
            self.mark(fleet, instance)
            return instance[Innodb].transactions.oldest_active()
        return limit


class _Crash(_Watched):
    """An instance crashes with a GTID that only its undo log holds, and something goes wrong."""

    def __init__(self) -> None:
        super().__init__()
        self._victim: Instance | None = None

    def on_fleet(self, fleet: World) -> None:
        """Begin when the fault is due."""
        super().on_fleet(fleet)
        fleet.schedule(fleet.fault_at + _STEP_US, None, self._begin, pure_source(fleet))

    def _begin(self, fleet: World, instance: Instance) -> None:
        is_free = instance.is_running and fleet.now >= instance.blocked_until
        # A rotation would save the GTIDs into the table.
        room = instance[BinaryLog].max_size - instance[BinaryLog].active.end
        is_free = is_free and instance[Clients].writes and room > _ROOM
        if not is_free or instance[GtidPersistence].persister.is_writing:
            fleet.schedule(fleet.now + _RETRY_US, None, self._begin, instance)
            return
        commit.finish_all(fleet, instance)
        self._victim = instance
        self.mark(fleet, instance)
        self.leave_gtids(fleet, instance)
        lifecycle.crash(fleet, instance, torn=False)

    def leave_gtids(self, fleet: World, instance: Instance) -> None:
        """End transactions in the last moment before the crash."""
        self.write(fleet, instance)

    def write(
        self, fleet: World, instance: Instance, kind: GroupKind = GroupKind.INNODB, **more: Any
    ) -> Group | None:
        """One transaction, through both stages."""
        group = workload.make_group(fleet.rng, kind, instance.server_id, fleet.now, **more)
        commit.commit(fleet, instance, group)
        commit.finish_all(fleet, instance)
        return group


class UndoGtidMissing(_Crash):
    """The flag of the GTID is not set in one undo log header."""

    number = 126
    name = "undo_gtid_missing"
    text = "a crash comes before the persister, and the undo log header has no GTID"
    must_fire = frozenset({"undo_gtids_recovered"})

    def on_undo_durable(self, fleet: World, instance: Instance, header: UndoLogHeader) -> None:
        """Take the flag away from the transaction before the crash."""
        if instance is self._victim and has_gtid(header):
            header.content[TRX_UNDO_FLAGS] &= ~TRX_UNDO_FLAG_GTID
            self._victim = None


class RecoveryStopsTooEarly(_Crash):
    """Recovery takes a number from the page that is too great, so it skips what it needs."""

    number = 127
    name = "recovery_skips_undo"
    text = "after a crash recovery skips rollback segments that it needs"
    must_fire = frozenset({"undo_gtids_recovered"})

    def on_recovery(self, fleet: World, instance: Instance, trx_num_gtid: int) -> int:
        """Begin after the last transaction."""
        if instance is not self._victim:
            return trx_num_gtid
        self._victim = None
        return instance[Innodb].transactions.next_trx_no


class PreparedGtidOverwritten(_Crash):
    """XA COMMIT overwrites the GTID of XA PREPARE that nobody has saved."""

    number = 128
    name = "prepared_gtid_overwritten"
    text = "XA COMMIT overwrites the GTID of XA PREPARE in the undo log before it is saved"
    must_fire = frozenset({"undo_gtids_recovered"})

    def leave_gtids(self, fleet: World, instance: Instance) -> None:
        """Prepare and commit at once."""
        prepared = self.write(fleet, instance, GroupKind.XA_PREPARE)
        self.write(fleet, instance, GroupKind.XA_COMMIT, xa_of=prepared)

    def on_flush_prepare(self, fleet: World, instance: Instance) -> bool:
        """Do not wait for the persister."""
        return instance is not self._victim


class PreparedUndoPurged(_Crash):
    """Purge takes the undo log of a prepared transaction."""

    number = 129
    name = "prepared_undo_purged"
    text = "the undo log of a prepared XA transaction is purged"
    must_fire = frozenset({"undo_gtids_recovered"})

    def leave_gtids(self, fleet: World, instance: Instance) -> None:
        """Prepare, and lose the undo log; an end of the transaction will not come."""
        self.write(fleet, instance, GroupKind.XA_PREPARE)
        for segment in instance[Innodb].transactions.segments:
            segment.slots = []


class _RecordedWrong(_Watched, JournalFault):
    """What persisters do is recorded, and once it is recorded wrong."""

    group = FaultGroup.PROTOCOL

    def on_server_record(
        self, instance_id: str, record_type: RecordType, body: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        """Ask for each step of a persister."""
        if record_type is not RecordType.GTID_PERSISTER or self.fleet is None:
            return body
        return self.on_step(self.fleet, instance_id, body)

    def on_step(
        self, fleet: World, instance_id: str, body: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        """What the journal records of a step; None: nothing."""
        raise NotImplementedError


class NumberBeforeTable(_RecordedWrong):
    """TRX_SYS_TRX_NUM_GTID moves on before the list is in the table."""

    number = 130
    name = "number_before_table"
    text = "TRX_SYS_TRX_NUM_GTID moves on before the GTIDs are in the table"
    must_fire = frozenset({"purge_waits_for_gtid_persist"})

    def __init__(self) -> None:
        super().__init__()
        self._held: Mapping[str, Any] | None = None
        self._recorded: dict[str, int] = {}

    def on_step(
        self, fleet: World, instance_id: str, body: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        """Swap with the write before it."""
        step = body["step"]
        if step == "commit":
            self._recorded[instance_id] = body["trx_no"]
        is_mine = self._recorded.get(instance_id, 1 << 63) < body.get("oldest_trx_no", 0)
        if step == "write" and is_mine and self.is_due(fleet):
            self.mark(fleet, fleet.instances[instance_id])
            self._held = body
            return None
        if step == "number" and self._held is not None and instance_id == self.injected_in:
            held, self._held = self._held, None
            fleet.instances[instance_id].journal.record(RecordType.GTID_PERSISTER, body)
            return held
        return body


class GtidPersistedEarly(_RecordedWrong):
    """The persister writes the GTID of a transaction that is yet to come."""

    number = 131
    name = "gtid_persisted_early"
    text = "the persister writes the GTID of a transaction that is not committed yet"
    must_fire = frozenset({"gtid_persisted_after_commit"})

    def __init__(self) -> None:
        super().__init__()
        self._writes: dict[str, int] = {}

    def on_step(
        self, fleet: World, instance_id: str, body: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        """Add the next GTID, once the audit knows what was committed before."""
        if body["step"] != "write":
            return body
        writes = self._writes[instance_id] = self._writes.get(instance_id, 0) + 1
        instance = fleet.instances[instance_id]
        if writes <= _WRITES_BEFORE or not self.is_due(fleet) or not is_pure_source(instance):
            return body
        self.mark(fleet, instance)
        sid = instance[GtidState].automatic_sid
        early = GtidIntervals.of((sid, gno := instance[GtidState].logged.next_free(sid), gno))
        early.update(GtidIntervals.of(*GtidSet.parse(body["gtids"])))
        return {**body, "gtids": early.text()}


class _StepsLeftOut(_RecordedWrong):
    """From one moment on the persister of one server leaves steps out; purge waits for it."""

    left_out: frozenset[str]

    def __init__(self) -> None:
        super().__init__()
        self._numbered: set[str] = set()

    def on_step(
        self, fleet: World, instance_id: str, body: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        """Leave out every such step."""
        step = body["step"]
        is_first = self.is_due(fleet) and step in self.left_out and self.may_begin(instance_id)
        if is_first and is_pure_source(fleet.instances[instance_id]):
            self.mark(fleet, fleet.instances[instance_id])
        if step == "number":
            self._numbered.add(instance_id)
        is_left_out = step in self.left_out or step == "purge"
        return None if instance_id == self.injected_in and is_left_out else body

    def may_begin(self, instance_id: str) -> bool:
        """Whether the first step may be left out."""
        return True


class PersisterNeverWrites(_StepsLeftOut):
    """The thread has ended."""

    number = 174
    name = "persister_never_writes"
    text = "the persister writes nothing any more"
    stays_because = "the persister itself is broken: that takes another release of the server"
    must_fire = frozenset({"gtid_persisted_in_time"})
    left_out = frozenset({"write", "number"})


class NumberNeverFollows(_StepsLeftOut):
    """Writes go on, and TRX_SYS_TRX_NUM_GTID stays where it was."""

    number = 175
    name = "number_never_follows"
    text = "the persister writes GTIDs and never moves the number in the TRX_SYS page"
    must_fire = frozenset({"gtid_persister_steps_complete"})
    left_out = frozenset({"number"})

    def may_begin(self, instance_id: str) -> bool:
        """One number was recorded, so that others are known to be missing."""
        return instance_id in self._numbered


class PersisterWritesNothing(_RecordedWrong):
    """The list is emptied before it is written."""

    number = 176
    name = "persister_writes_nothing"
    text = "one write of the persister brings no GTID into the table"
    stays_because = "the persister itself is broken: that takes another release of the server"
    must_fire = frozenset({"gtid_persister_steps_complete", "purge_waits_for_gtid_persist"})

    def __init__(self) -> None:
        super().__init__()
        self._waiting: dict[str, set[str]] = {}

    def on_step(
        self, fleet: World, instance_id: str, body: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        """Empty one write of what the journal has seen committed."""
        instance = fleet.instances[instance_id]
        waiting = self._waiting.setdefault(instance_id, set())
        if body["step"] == "commit":
            waiting.add(body["gtid"])
        if body["step"] != "write":
            return body
        is_known = any(gtid in GtidSet.parse(body["gtids"]) for gtid in waiting)
        waiting.clear()
        if is_known and self.is_due(fleet) and is_pure_source(instance):
            self.mark(fleet, instance)
            return {**body, "gtids": ""}
        return body


class PurgeDoesNotAsk(_RecordedWrong):
    """Purge goes one transaction further than the persister's number."""

    number = 177
    name = "purge_does_not_ask"
    text = "undo is purged beyond the persister's number while no GTID waits"
    must_fire = frozenset({"undo_purge_steps_complete"})

    def __init__(self) -> None:
        super().__init__()
        self._number: dict[str, int] = {}
        self._waiting: dict[str, dict[str, int]] = {}
        """By instance, the transactions' numbers of GTIDs that are not in the table."""

    def on_step(
        self, fleet: World, instance_id: str, body: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        """Raise the limit of a purge that comes before the next commit."""
        step, waiting = body["step"], self._waiting.setdefault(instance_id, {})
        if step in ("commit", "prepare"):
            self._number.pop(instance_id, None)
            waiting[body["gtid"]] = body.get("trx_no", 0)
        elif step == "write":
            written = GtidSet.parse(body["gtids"])
            self._waiting[instance_id] = {g: n for g, n in waiting.items() if g not in written}
        elif step == "number":
            self._number[instance_id] = body["trx_num_gtid"]
        elif step == "purge" and instance_id in self._number and self.is_due(fleet):
            limit = self._number[instance_id] + 1
            if all(trx_no >= limit for trx_no in waiting.values()):
                self.mark(fleet, fleet.instances[instance_id])
                return {**body, "trx_no": limit}
        return body


class PersisterStalls(_Watched):
    """A persister does not wake up for twelve seconds."""

    number = 132
    name = "persister_stalls"
    text = "the persister does not wake up for twelve seconds"
    stays_because = "the persister itself is broken: that takes another release of the server"
    must_fire = frozenset({"gtid_persisted_in_time"})
    _STALL_US: Final = 12_000_000

    def on_persister_wait(self, fleet: World, instance: Instance, at: int) -> int:
        """Let it sleep with a GTID that the journal has recorded."""
        if not self.is_due(fleet) or not instance[GtidPersistence].is_recorded:
            return at
        self.mark(fleet, instance)
        return at + self._STALL_US


class TableMissesClosedFile(RowFault):
    """The table lacks a GTID of a binary log file that was closed before."""

    number = 133
    name = "gtid_table_misses_closed_file"
    text = "mysql.gtid_executed lacks a GTID of a binary log file that was closed before"
    must_fire = frozenset({"gtid_table_has_closed_files"})
    group = FaultGroup.PROTOCOL

    def on_fleet(self, fleet: World) -> None:
        """See to it that a file with groups is closed."""
        for instance in fleet.instances.values():
            act = administration.flush_binary_logs
            fleet.schedule(fleet.fault_at, instance, act, instance)

    def tamper(self, fleet: World, row: Row, before: Row) -> bool:
        if not (row.has_position and before.has_position and row.position >= before.position):
            return False
        file = row.instance[BinaryLog].file_of_number(before.position[0])
        own = row.instance.server_uuid
        shown = GtidSet.parse(row.body["gtid_executed_table"])
        closed = GtidSet.EMPTY if file is None else file.previous_gtids.to_gtid_set()
        last = max((end for sid, _, end in closed & shown if sid == own), default=0)
        if not last:
            return False
        row.body["gtid_executed_table"] = server_text(shown - GtidSet([(own, last, last)]))
        return True
