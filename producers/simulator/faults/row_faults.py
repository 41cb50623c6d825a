"""Faults F1 to F24: one log_status row, or what was read beside it, is wrong."""

from __future__ import annotations

import copy
import re
from typing import TYPE_CHECKING, Any, Final

from tallystick.coordinates.values.binlog import EventType
from tallystick.coordinates.values.gtid import GtidSet
from tallystick.producers.simulator import administration, binary_log
from tallystick.producers.simulator.faults.injector import (
    Injector,
    Row,
    RowFault,
    ends_in_xid,
    event_ends,
    groups_between,
    gtid_of,
    is_pure_source,
    newest_group,
    server_text,
    union,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tallystick.producers.simulator.engine import Fleet
    from tallystick.producers.simulator.model import Instance

_BLOCK_SIZE: Final = 512
_FIRST_DATA_OFFSET: Final = 12
_LAST_DATA_OFFSET: Final = 507
_TRAILER_OFFSET: Final = 510
_INTERVAL = re.compile(r":(\d+)-(\d+)")


class TextCorrupted(RowFault):
    """F1: the last digit becomes a letter that ends no number."""

    def tamper(self, fleet: Fleet, row: Row, before: Row) -> bool:
        """Break the text of X."""
        text = row.local["gtid_executed"]
        row.local["gtid_executed"] = text[:-1] + "x"
        return bool(text)


class TextUnmerged(RowFault):
    """F2: ``u:1-5`` is printed ``u:1-4:5``."""

    def tamper(self, fleet: Fleet, row: Row, before: Row) -> bool:
        """Spell X in another way."""
        text = row.local["gtid_executed"]
        for found in _INTERVAL.finditer(text):
            first, last = int(found[1]), int(found[2])
            if last - first >= 2:
                pieces = f":{first}-{last - 1}:{last}"
                row.local["gtid_executed"] = text[: found.start()] + pieces + text[found.end() :]
                return True
        return False


class KeyDropped(RowFault):
    """F3: the file's name without a position."""

    def tamper(self, fleet: Fleet, row: Row, before: Row) -> bool:
        """Remove the position."""
        return row.local.pop("binary_log_position", None) is not None


class ChannelDoubled(RowFault):
    """F4: a channel is listed again in capitals."""

    def tamper(self, fleet: Fleet, row: Row, before: Row) -> bool:
        """List the last channel twice."""
        if not row.channels:
            return False
        twin = dict(row.channels[-1])
        twin["channel_name"] = twin["channel_name"].upper()
        row.channels.append(twin)
        return True


class SilentlyEmpty(RowFault):
    """F5: neither a row nor an error."""

    def tamper(self, fleet: Fleet, row: Row, before: Row) -> bool:
        """Leave nothing but the collection's name."""
        kept = row.names()
        row.body.clear()
        row.body.update(kept)
        return True


class PositionBeyondFile(RowFault):
    """F6: 10 000 bytes beyond the end of the file."""

    _DISTANCE: Final = 10_000

    def tamper(self, fleet: Fleet, row: Row, before: Row) -> bool:
        """Move the position on."""
        if not row.has_position:
            return False
        file = row.instance.binlog.file_of_number(row.position[0])
        if file is None or row.position[1] + self._DISTANCE <= file.end:
            return False
        row.local["binary_log_position"] += self._DISTANCE
        return True


class _InsideNewestGroup(RowFault):
    """The position inside the newest group, whose GTID is taken from X: it is not committed."""

    def place(self, events: list[tuple[int, int]]) -> int | None:
        """The position to show, of the ends of the group's events after the GTID event."""
        raise NotImplementedError

    def tamper(self, fleet: Fleet, row: Row, before: Row) -> bool:
        """Move the position into the newest group."""
        newest = newest_group(row) if _is_orderly(row, before) else None
        if newest is None:
            return False
        file, logged = newest
        own = gtid_of(logged)
        place = self.place(list(event_ends(logged)))
        is_new = before.position <= (file.number, logged.start) and not own <= before.executed
        if place is None or not own or not is_new:
            return False
        row.move_position(file, place)
        row.take_from_executed(own)
        return True


class PositionInsideGroup(_InsideNewestGroup):
    """F7: the end of a table map."""

    def place(self, events: list[tuple[int, int]]) -> int | None:
        """The end of the first table map."""
        return next((end for kind, end in events if kind == EventType.TABLE_MAP), None)


class PositionInsideEvent(_InsideNewestGroup):
    """F8: seven bytes into an event."""

    def place(self, events: list[tuple[int, int]]) -> int | None:
        """Seven bytes beyond the end of the first event."""
        return events[0][1] + 7 if len(events) > 1 else None


class ExecutedAhead(RowFault):
    """F9: the position stops before a group that X holds."""

    def tamper(self, fleet: Fleet, row: Row, before: Row) -> bool:
        """Move the position to where the newest group starts."""
        newest = newest_group(row) if _is_orderly(row, before) else None
        if newest is None:
            return False
        file, logged = newest
        own = gtid_of(logged)
        if not own or not own <= row.executed or (file.number, logged.start) < before.position:
            return False
        row.move_position(file, logged.start)
        return True


class PositionRegressed(RowFault):
    """F10: an older group end than the row before showed, with a fresh X."""

    def tamper(self, fleet: Fleet, row: Row, before: Row) -> bool:
        """Move the position back behind the row before."""
        if not _is_orderly(row, before):
            return False
        older = groups_between(row.instance, (0, 0), before.position)
        if len(older) < 2 or not gtid_of(older[-1][1]) <= row.executed:
            return False
        file, logged = older[-2]
        row.move_position(file, logged.end)
        return bool(gtid_of(older[-1][1]))


class CommitLagExcess(RowFault):
    """F11: X is held back by one group more than can be in flight.

    The servers are small, and each gets a burst of writes that does not fit.
    """

    _LAG_MAX: Final = 16
    _BURST_EVERY_US: Final = 900_000
    _WRITE_EVERY_US: Final = 4_000

    def on_variables(self, instance_id: str, variables: dict[str, Any]) -> None:
        """Bound what may be in flight."""
        variables["commit_lag_max"] = self._LAG_MAX

    def on_fleet(self, fleet: Fleet) -> None:
        """Begin the bursts when the fault is due."""
        for source in [i for i in fleet.instances.values() if is_pure_source(i)][:1]:
            fleet.clock.schedule(fleet.fault_at, None, self._burst, fleet, source)

    def _burst(self, fleet: Fleet, source: Instance) -> None:
        if self.injected:
            return
        for number in range(self._LAG_MAX + 2):
            moment = fleet.now + number * self._WRITE_EVERY_US
            fleet.clock.schedule(moment, source, self._write, fleet, source)
        fleet.clock.schedule(fleet.now + self._BURST_EVERY_US, None, self._burst, fleet, source)

    def _write(self, fleet: Fleet, source: Instance) -> None:
        if source.is_running and not self.injected:
            fleet.write(source)

    def tamper(self, fleet: Fleet, row: Row, before: Row) -> bool:
        """Take the newest K + 1 groups from X."""
        if not _is_orderly(row, before):
            return False
        late = [logged for _, logged in groups_between(row.instance, before.position, row.position)]
        held_back = union(late[-(_commit_lag_max(row.instance) + 1) :])
        is_new = held_back.isdisjoint(before.executed)
        if held_back.count() <= _commit_lag_max(row.instance) or not is_new:
            return False
        row.take_from_executed(held_back)
        return True


class HoleTransient(RowFault):
    """F12: one GTID in the middle of those of this row."""

    def tamper(self, fleet: Fleet, row: Row, before: Row) -> bool:
        """Take one GTID from X that has others of this row before and behind it."""
        hole = _middle(row, before) if _is_orderly(row, before) else None
        if hole is None:
            return False
        row.take_from_executed(hole)
        return True


class HolePermanent(RowFault):
    """F13: no row ever shows one logged GTID."""

    def __init__(self) -> None:
        super().__init__()
        self._hole = GtidSet.EMPTY

    def tamper(self, fleet: Fleet, row: Row, before: Row) -> bool:
        """Choose a GTID that no row showed yet."""
        hole = _middle(row, before) if _is_orderly(row, before) else None
        if hole is None:
            return False
        self._hole = hole
        row.take_from_executed(hole)
        return True

    def on_row(
        self, fleet: Fleet, instance: Instance, body: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Take the GTID from every further row."""
        row = Row.of(instance, body)
        if self.injected and row is not None and instance.instance_id == self.injected_in:
            row = row.copy()
            row.take_from_executed(self._hole)
            return row.body
        return super().on_row(fleet, instance, body)


class ExecutedShrunk(RowFault):
    """F14: the last GTID of the row before is gone, and those logged since are not there yet."""

    def tamper(self, fleet: Fleet, row: Row, before: Row) -> bool:
        """Take the newest groups from X, back to one that the row before showed."""
        if not _is_orderly(row, before):
            return False
        shown = [
            (file, logged)
            for file, logged in groups_between(row.instance, (0, 0), before.position)
            if gtid_of(logged) <= before.executed and gtid_of(logged)
        ]
        if not shown:
            return False
        file, last = shown[-1]
        tail = groups_between(row.instance, (file.number, last.start), row.position)
        missing = union([logged for _, logged in tail])
        is_retained = missing.isdisjoint(row.purged)
        if missing.count() > _commit_lag_max(row.instance) or not is_retained:
            return False
        row.take_from_executed(missing)
        return True


class StaleRepublished(RowFault):
    """F15: a collection is answered with the row before the last one."""

    holds_checkpoint = True

    def __init__(self) -> None:
        super().__init__()
        self._older: dict[str, Row] = {}

    def tamper(self, fleet: Fleet, row: Row, before: Row) -> bool:
        """Publish the older row under the new collection's name."""
        older = self._older.get(row.instance.instance_id)
        self._older[row.instance.instance_id] = before
        if older is None or older.lineage != row.lineage or not is_pure_source(row.instance):
            return False
        has_grown = (
            older.position < before.position
            and older.executed < before.executed
            and older.innodb["LSN"] < before.innodb["LSN"]
        )
        is_still = (
            older.innodb["LSN_checkpoint"] == before.innodb["LSN_checkpoint"]
            and older.purged == row.purged
            and _oldest_file(older) == _oldest_file(row)
        )
        if not has_grown or not is_still:
            return False
        names = row.names()
        row.body.clear()
        row.body.update(copy.deepcopy(older.body), **names)
        return True


class PurgedOutsideExecuted(RowFault):
    """F16: U holds a GTID far beyond all that the server wrote."""

    _DISTANCE: Final = 1_000_000

    def tamper(self, fleet: Fleet, row: Row, before: Row) -> bool:
        """Add a GTID of the own UUID to U."""
        if "gtid_purged" not in row.body or row.instance.subscribers:
            return False
        own = row.executed.restrict(row.instance.server_uuid)
        gno = max([last for _, _, last in own], default=0) + self._DISTANCE
        added = GtidSet([(row.instance.server_uuid, gno, gno)])
        row.body["gtid_purged"] = server_text(row.purged | added)
        return True


class PurgedShrunk(RowFault):
    """F18: U lacks its newest GTID."""

    def on_fleet(self, fleet: Fleet) -> None:
        """See to it that servers which nobody reads from have purged something."""
        for instance in [i for i in fleet.instances.values() if not i.subscribers]:
            fleet.clock.schedule(fleet.fault_at, instance, _purge_all, fleet, instance)

    def tamper(self, fleet: Fleet, row: Row, before: Row) -> bool:
        """Take the last GTID from U of those that a purged file held."""
        if row.instance.subscribers or not row.instance.log_bin:
            return False
        held = row.instance.binlog.files[0].previous_gtids.to_gtid_set()
        intervals = list(before.purged & row.purged & held)
        if not intervals:
            return False
        sid, _, last = intervals[-1]
        row.body["gtid_purged"] = server_text(row.purged - GtidSet([(sid, last, last)]))
        return True


class OwnedAndExecuted(RowFault):
    """F19: the newest executed GTID is still owned by a session."""

    def tamper(self, fleet: Fleet, row: Row, before: Row) -> bool:
        """Add a GTID of X to O."""
        own = list(row.executed.restrict(row.instance.server_uuid) or row.executed)
        if not own or row.body.get("gtid_owned") != "":
            return False
        sid, _, last = own[-1]
        row.body["gtid_owned"] = f"{sid}:{last}#41"
        return True


class LsnRegressed(RowFault):
    """F20: the LSN of the row falls, and stays above the checkpoint."""

    holds_checkpoint = True

    def tamper(self, fleet: Fleet, row: Row, before: Row) -> bool:
        """Show an LSN below the one of the row before."""
        lsn = _legal_lsn_at_or_below(before.innodb["LSN"] - 1)
        if lsn < row.innodb["LSN_checkpoint"]:
            return False
        row.innodb["LSN"] = lsn
        return True


class LsnFrozen(RowFault):
    """F21: the LSN of the row before, in spite of commits."""

    holds_checkpoint = True

    def tamper(self, fleet: Fleet, row: Row, before: Row) -> bool:
        """Repeat the LSN."""
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
    """F22: the LSN in the last bytes of its block, where no record ever ends."""

    def tamper(self, fleet: Fleet, row: Row, before: Row) -> bool:
        """Move the LSN into the trailer of its block."""
        row.innodb["LSN"] += _TRAILER_OFFSET - row.innodb["LSN"] % _BLOCK_SIZE
        return True


class CheckpointBeyondLsn(RowFault):
    """F23: the checkpoint lies some blocks beyond the LSN."""

    def tamper(self, fleet: Fleet, row: Row, before: Row) -> bool:
        """Move the checkpoint on."""
        row.innodb["LSN_checkpoint"] = row.innodb["LSN"] + 4 * _BLOCK_SIZE
        return True


class CheckpointStalled(RowFault):
    """F24: the redo log grew by more than its capacity, and the checkpoint did not move."""

    def tamper(self, fleet: Fleet, row: Row, before: Row) -> bool:
        """Show an LSN further from the checkpoint than the redo log is large."""
        capacity = row.instance.variables.get("innodb_redo_log_capacity")
        if not isinstance(capacity, int) or capacity <= 0:
            return False
        # Whole blocks, so that the offset inside the block stays legal.
        row.innodb["LSN"] += (capacity // _BLOCK_SIZE + 1) * _BLOCK_SIZE
        return True


def _is_orderly(row: Row, before: Row) -> bool:
    """Tell whether X of the instance is a matter of its own log alone, in log order."""
    return (
        is_pure_source(row.instance)
        and bool(row.instance.variables.get("binlog_order_commits", True))
        and row.has_position
        and before.has_position
    )


def _middle(row: Row, before: Row) -> GtidSet | None:
    """A GTID of X that no row showed before, between two others of X in log order."""
    since = [logged for _, logged in groups_between(row.instance, before.position, row.position)]
    new = [gtid_of(logged) for logged in since]
    new = [gtid for gtid in new if gtid and gtid <= row.executed and not gtid <= before.executed]
    return new[len(new) // 2] if len(new) >= 3 else None


def _purge_all(fleet: Fleet, instance: Instance) -> None:
    """PURGE all files but a new one."""
    if instance.is_running and instance.log_bin:
        administration.flush_binary_logs(fleet, instance)
        binary_log.purge(fleet, instance, instance.binlog.active.number)


def _oldest_file(row: Row) -> str:
    return next((file["name"] for file in row.body.get("binary_logs", [])), "")


def _commit_lag_max(instance: Instance) -> int:
    variables = instance.variables
    default = variables.get("max_connections", 151) + variables.get("replica_parallel_workers", 4)
    return int(variables.get("commit_lag_max", default))


def _legal_lsn_at_or_below(lsn: int) -> int:
    """The last LSN up to ``lsn`` that lies in the data bytes of a redo block."""
    offset = lsn % _BLOCK_SIZE
    if offset < _FIRST_DATA_OFFSET:
        return lsn - offset - _BLOCK_SIZE + _LAST_DATA_OFFSET
    return lsn - offset + min(offset, _LAST_DATA_OFFSET)


ROW_INJECTORS: Final[Mapping[str, Callable[[], Injector]]] = {
    "gtid_text_corrupted": TextCorrupted,
    "gtid_text_unmerged": TextUnmerged,
    "snapshot_key_dropped": KeyDropped,
    "channel_row_doubled": ChannelDoubled,
    "snapshot_silently_empty": SilentlyEmpty,
    "position_beyond_file": PositionBeyondFile,
    "position_inside_group": PositionInsideGroup,
    "position_inside_event": PositionInsideEvent,
    "executed_ahead_of_position": ExecutedAhead,
    "position_regressed": PositionRegressed,
    "commit_lag_excess": CommitLagExcess,
    "executed_hole_transient": HoleTransient,
    "executed_hole_permanent": HolePermanent,
    "executed_shrunk": ExecutedShrunk,
    "stale_snapshot_republished": StaleRepublished,
    "purged_outside_executed": PurgedOutsideExecuted,
    "purged_shrunk": PurgedShrunk,
    "owned_and_executed": OwnedAndExecuted,
    "lsn_regressed": LsnRegressed,
    "lsn_frozen": LsnFrozen,
    "lsn_in_block_trailer": LsnInTrailer,
    "checkpoint_beyond_lsn": CheckpointBeyondLsn,
    "checkpoint_stalled": CheckpointStalled,
}
