"""Faults of log_status rows: gtid_purged, gtid_owned and the redo log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tallystick.coordinates.values.gtid import GtidSet
from tallystick.producers.simulator.faults.channels import leaf_channels
from tallystick.producers.simulator.faults.fault import BaseHistory, Fault, FaultGroup
from tallystick.producers.simulator.faults.logs import ends_in_xid, groups_between, gtid_of
from tallystick.producers.simulator.faults.row import Row, RowFault, server_text
from tallystick.producers.simulator.server import administration, binary_log, lifecycle
from tallystick.producers.simulator.server.binary_log import BinaryLog
from tallystick.producers.simulator.server.channels import ChannelMap
from tallystick.producers.simulator.server.gtid_state import GtidState

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.gtid_intervals import GtidIntervals
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.world import World

_RETRY_US: Final = 50_000
_BLOCK_SIZE: Final = 512
_FIRST_DATA_OFFSET: Final = 12
_LAST_DATA_OFFSET: Final = 507
_TRAILER_OFFSET: Final = 510


class PurgedNotAdvanced(Fault):
    """PURGE removes files and leaves gtid_purged as it is, until a row has shown it."""

    number = 17
    name = "purged_not_advanced"
    text = "binary log files are purged and gtid_purged stays as it was for one row"
    must_fire = frozenset({"purged_matches_oldest_file"})
    group = FaultGroup.SNAPSHOT
    _FILES: Final = 2

    def __init__(self) -> None:
        super().__init__()
        self._instance: Instance | None = None
        self._owed: GtidIntervals | None = None

    def on_fleet(self, fleet: World) -> None:
        """Begin when the fault is due."""
        fleet.schedule(fleet.fault_at, None, self._rotate, self._FILES)

    def _rotate(self, fleet: World, times: int) -> None:
        instance = next(i for i in fleet.instances.values() if not i[ChannelMap].subscribers)
        if not instance.is_running or not instance[BinaryLog].active.groups():
            fleet.schedule(fleet.now + _RETRY_US, None, self._rotate, times)
            return
        administration.flush_binary_logs(fleet, instance)
        act = self._rotate if times > 1 else self._purge
        rest = (times - 1,) if times > 1 else (instance,)
        fleet.schedule(fleet.now + 2 * _RETRY_US, instance, act, *rest)

    def _purge(self, fleet: World, instance: Instance) -> None:
        self._instance = instance
        binary_log.purge(fleet, instance, instance[BinaryLog].active.number)
        if not self.injected:  # an operator has purged the files since they were rotated
            fleet.schedule(fleet.now + _RETRY_US, None, self._rotate, self._FILES)

    def on_purge(self, fleet: World, instance: Instance, purged: GtidIntervals) -> bool:
        """Keep what gtid_purged should be."""
        if instance is not self._instance or purged == instance[GtidState].purged:
            return True
        if self.injected and self._owed is None:
            return True
        if not self.injected:
            self.mark(fleet, instance)
        self._owed = purged
        return False

    def on_row(
        self, fleet: World, instance: Instance, body: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Once a row has shown it, gtid_purged is as it should be."""
        if self._owed is not None and instance is self._instance and "row" in body:
            oldest = instance[BinaryLog].files[0].name
            lists = [body.get("binary_logs", []), body.get("binary_logs_again", [])]
            if all(files and files[0]["name"] == oldest for files in lists):
                instance[GtidState].purged.update(self._owed)
                self._owed = None
        return body


class PurgedOutsideExecuted(RowFault):
    """gtid_purged holds a GTID far beyond all that the server wrote."""

    number = 16
    name = "purged_outside_executed"
    text = "gtid_purged holds a GTID that is not in gtid_executed"
    must_fire = frozenset({"purged_matches_oldest_file", "purged_within_executed"})
    _DISTANCE: Final = 1_000_000

    def tamper(self, fleet: World, row: Row, before: Row) -> bool:
        if "gtid_purged" not in row.body or row.instance[ChannelMap].subscribers:
            return False
        own = row.executed.restrict(row.instance.server_uuid)
        gno = max([last for _, _, last in own], default=0) + self._DISTANCE
        added = GtidSet([(row.instance.server_uuid, gno, gno)])
        row.body["gtid_purged"] = server_text(row.purged | added)
        return True


class PurgedShrunk(RowFault):
    """gtid_purged lacks its newest GTID."""

    number = 18
    name = "purged_shrunk"
    text = "gtid_purged loses its newest GTID for one row"
    must_fire = frozenset({"purged_matches_oldest_file", "purged_monotone"})

    def on_fleet(self, fleet: World) -> None:
        """See to it that servers which nobody reads from have purged something."""
        for instance in [i for i in fleet.instances.values() if not i[ChannelMap].subscribers]:
            fleet.schedule(fleet.fault_at, instance, _purge_all, instance)

    def tamper(self, fleet: World, row: Row, before: Row) -> bool:
        if row.instance[ChannelMap].subscribers or not row.instance[BinaryLog].is_open:
            return False
        held = row.instance[BinaryLog].files[0].previous_gtids.to_gtid_set()
        intervals = list(before.purged & row.purged & held)
        if not intervals:
            return False
        sid, _, last = intervals[-1]
        row.body["gtid_purged"] = server_text(row.purged - GtidSet([(sid, last, last)]))
        return True


class PurgedBehindWithoutLog(RowFault):
    """A server without a binary log gives a gtid_purged of its own."""

    number = 223
    name = "purged_behind_without_log"
    text = "a server with log_bin off shows executed GTIDs that do not count as purged, for one row"
    must_fire = frozenset({"purged_matches_oldest_file"})
    base = BaseHistory.REPLICA

    def on_fleet(self, fleet: World) -> None:
        """Have the replicas that nobody reads from run without a binary log."""
        fleet.schedule(fleet.fault_at, None, self._switch_off)

    def _switch_off(self, fleet: World) -> None:
        for replica in dict.fromkeys(channel.replica for channel in leaf_channels(fleet)):
            lifecycle.restart_without_log(fleet, replica)

    def tamper(self, fleet: World, row: Row, before: Row) -> bool:
        first = GtidSet.parse(row.body["gtid_executed_first"])
        is_off = not row.has_position and not before.has_position
        fresh = (first & row.purged) - before.purged
        if not is_off or not fresh:
            return False
        row.body["gtid_purged"] = server_text(row.purged - fresh)
        return True


class OwnedAndExecuted(RowFault):
    """The newest executed GTID is still owned by a session."""

    number = 19
    name = "owned_and_executed"
    text = "one GTID is in gtid_owned and in gtid_executed"
    must_fire = frozenset({"owned_disjoint_from_executed"})

    def tamper(self, fleet: World, row: Row, before: Row) -> bool:
        own = list(row.executed.restrict(row.instance.server_uuid) or row.executed)
        if not own or row.body.get("gtid_owned") != "":
            return False
        sid, _, last = own[-1]
        row.body["gtid_owned"] = f"{sid}:{last}#41"
        return True


class LsnRegressed(RowFault):
    """The LSN of the row falls, and stays above the checkpoint."""

    number = 20
    name = "lsn_regressed"
    text = "the row's LSN is lower than the row before showed, above the checkpoint"
    must_fire = frozenset({"lsn_monotone", "row_lsn_as_collected"})
    holds_checkpoint = True

    def tamper(self, fleet: World, row: Row, before: Row) -> bool:
        lsn = _legal_lsn_at_or_below(before.innodb["LSN"] - 1)
        if lsn < row.innodb["LSN_checkpoint"]:
            return False
        row.innodb["LSN"] = lsn
        return True


class DataOlderThanLog(LsnRegressed):
    """InnoDB's files are of an earlier snapshot than the binary log, and a crash is recovered from.

    Everything else that the row shows is of the binary log, which counts what the data lack.
    """

    number = 271
    name = "data_older_than_log"
    text = "after a crash the row's LSN is below that of a row after which groups were logged"

    def __init__(self) -> None:
        super().__init__()
        self._crashed: dict[str, int] = {}

    def on_fleet(self, fleet: World) -> None:
        """Servers crash when the fault is due and they have logged something since their row."""
        super().on_fleet(fleet)
        for instance in fleet.instances.values():
            fleet.schedule(fleet.fault_at, instance, self._crash, instance)

    def _crash(self, fleet: World, instance: Instance) -> None:
        before = self._before.get(instance.instance_id)
        if self.injected or not instance[BinaryLog].is_open:
            return
        if before is None or not (_is_above_checkpoint(before) and _has_commits_behind(before)):
            fleet.schedule(fleet.now + _RETRY_US, instance, self._crash, instance)
            return
        self._crashed[instance.instance_id] = fleet.now
        lifecycle.crash(fleet, instance)

    def tamper(self, fleet: World, row: Row, before: Row) -> bool:
        crashed_at = self._crashed.get(row.instance.instance_id, fleet.now)
        if not before.body["requested_at"] < crashed_at < row.body["requested_at"]:
            return False
        row.innodb["LSN_checkpoint"] = before.innodb["LSN_checkpoint"]
        return super().tamper(fleet, row, before)


class LsnFrozen(RowFault):
    """The LSN of the row before, in spite of commits."""

    number = 21
    name = "lsn_frozen"
    text = "the row repeats the LSN of the row before although transactions were committed between"
    must_fire = frozenset({"lsn_grows_with_commits", "row_lsn_as_collected"})
    holds_checkpoint = True

    def tamper(self, fleet: World, row: Row, before: Row) -> bool:
        lsn = before.innodb["LSN"]
        is_above = row.innodb["LSN_checkpoint"] <= lsn < row.innodb["LSN"]
        if not row.has_position or not before.has_position or not is_above:
            return False
        since = groups_between(row.instance, before.position, row.position)
        if not any(ends_in_xid(logged) and gtid_of(logged) <= row.executed for _, logged in since):
            return False
        row.innodb["LSN"] = lsn
        return True


class LsnInTrailer(RowFault):
    """The LSN in the last bytes of its block, where no record ever ends."""

    number = 22
    name = "lsn_in_block_trailer"
    text = "the row's LSN is in the trailer of a redo block"
    must_fire = frozenset({"lsn_block_offset", "row_lsn_as_collected"})

    def tamper(self, fleet: World, row: Row, before: Row) -> bool:
        row.innodb["LSN"] += _TRAILER_OFFSET - row.innodb["LSN"] % _BLOCK_SIZE
        return True


class CheckpointBeyondLsn(RowFault):
    """The checkpoint is some blocks beyond the LSN."""

    number = 23
    name = "checkpoint_beyond_lsn"
    text = "the row's checkpoint is beyond its LSN"
    must_fire = frozenset({"lsn_order"})

    def tamper(self, fleet: World, row: Row, before: Row) -> bool:
        row.innodb["LSN_checkpoint"] = row.innodb["LSN"] + 4 * _BLOCK_SIZE
        return True


class CheckpointStalled(RowFault):
    """The redo log grew by more than its capacity, and the checkpoint did not move."""

    number = 24
    name = "checkpoint_stalled"
    text = "the checkpoint lags by more than the redo log can hold"
    must_fire = frozenset({"checkpoint_age_within_capacity", "row_lsn_as_collected"})

    def tamper(self, fleet: World, row: Row, before: Row) -> bool:
        capacity = row.instance.variables.get("innodb_redo_log_capacity")
        if not isinstance(capacity, int) or capacity <= 0:
            return False
        # Whole blocks, so that the offset inside the block stays legal.
        row.innodb["LSN"] += (capacity // _BLOCK_SIZE + 1) * _BLOCK_SIZE
        return True


def _purge_all(fleet: World, instance: Instance) -> None:
    """PURGE all files but a new one."""
    if instance.is_running and instance[BinaryLog].is_open:
        administration.flush_binary_logs(fleet, instance)
        binary_log.purge(fleet, instance, instance[BinaryLog].active.number)


def _is_above_checkpoint(row: Row) -> bool:
    lsn, checkpoint = row.innodb["LSN"], row.innodb["LSN_checkpoint"]
    return bool(_legal_lsn_at_or_below(lsn - 1) >= checkpoint)


def _has_commits_behind(row: Row) -> bool:
    """Whether InnoDB has committed what was logged after a row."""
    if not row.has_position:
        return False
    last = row.instance[BinaryLog].files[-1]
    since = groups_between(row.instance, row.position, (last.number, last.end))
    return any(ends_in_xid(logged) for _, logged in since)


def _legal_lsn_at_or_below(lsn: int) -> int:
    """The last LSN up to ``lsn`` in the data bytes of a redo block."""
    offset = lsn % _BLOCK_SIZE
    if offset < _FIRST_DATA_OFFSET:
        return lsn - offset - _BLOCK_SIZE + _LAST_DATA_OFFSET
    return lsn - offset + min(offset, _LAST_DATA_OFFSET)
