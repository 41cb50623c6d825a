"""Faults of log_status rows: texts, keys, positions and gtid_executed."""

from __future__ import annotations

import copy
import re
from typing import TYPE_CHECKING, Any, Final

from tallystick.coordinates.values.binlog import EventType
from tallystick.coordinates.values.gtid import GtidSet
from tallystick.producers.simulator.faults.fault import BaseHistory
from tallystick.producers.simulator.faults.logs import (
    event_ends,
    groups_between,
    gtid_of,
    is_pure_source,
    union,
)
from tallystick.producers.simulator.faults.row import (
    Row,
    RowFault,
    newest_group,
    server_text,
)
from tallystick.producers.simulator.server import clients
from tallystick.producers.simulator.server.binary_log import BinaryLog
from tallystick.producers.simulator.server.gtid_state import GtidState

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.world import World

_INTERVAL = re.compile(r":(\d+)-(\d+)")
_AHEAD: Final = 1_000


class TextCorrupted(RowFault):
    """The last digit becomes a letter that ends no number."""

    number = 1
    name = "gtid_text_corrupted"
    text = "one character of gtid_executed is replaced so that no server could read it"
    must_fire = frozenset({"gtid_text_wellformed"})

    def tamper(self, fleet: World, row: Row, before: Row) -> bool:
        text = row.local["gtid_executed"]
        row.local["gtid_executed"] = text[:-1] + "x"
        return bool(text)


class TextUnmerged(RowFault):
    """``u:1-5`` is printed ``u:1-4:5``."""

    number = 2
    name = "gtid_text_unmerged"
    text = "gtid_executed prints one interval as two that touch"
    must_fire = frozenset({"gtid_text_canonical"})

    def tamper(self, fleet: World, row: Row, before: Row) -> bool:
        text = row.local["gtid_executed"]
        for found in _INTERVAL.finditer(text):
            first, last = int(found[1]), int(found[2])
            if last - first >= 2:
                pieces = f":{first}-{last - 1}:{last}"
                row.local["gtid_executed"] = text[: found.start()] + pieces + text[found.end() :]
                return True
        return False


class KeyDropped(RowFault):
    """The file's name without a position."""

    number = 3
    name = "snapshot_key_dropped"
    text = "a row has the binary log's file name and no position"
    must_fire = frozenset({"log_status_row_complete"})

    def tamper(self, fleet: World, row: Row, before: Row) -> bool:
        return row.local.pop("binary_log_position", None) is not None


class ChannelDoubled(RowFault):
    """A channel is listed again in capitals."""

    number = 4
    name = "channel_row_doubled"
    text = "a row lists one channel twice, once in capitals"
    must_fire = frozenset({"channel_rows_unique"})
    base = BaseHistory.REPLICA

    def tamper(self, fleet: World, row: Row, before: Row) -> bool:
        if not row.channels:
            return False
        twin = dict(row.channels[-1])
        twin["channel_name"] = twin["channel_name"].upper()
        row.channels.append(twin)
        return True


class SilentlyEmpty(RowFault):
    """Neither a row nor an error."""

    number = 5
    name = "snapshot_silently_empty"
    text = "a collection brings no row and no error"
    must_fire = frozenset({"snapshot_never_silently_empty"})

    def tamper(self, fleet: World, row: Row, before: Row) -> bool:
        kept = row.names()
        row.body.clear()
        row.body.update(kept)
        return True


class PositionBeyondFile(RowFault):
    """10 000 bytes beyond the end of the file."""

    number = 6
    name = "position_beyond_file"
    text = "the row's position is 10 000 bytes past the end of its file"
    must_fire = frozenset({"snapshot_position_within_file"})
    _DISTANCE: Final = 10_000

    def tamper(self, fleet: World, row: Row, before: Row) -> bool:
        if not row.has_position:
            return False
        file = row.instance[BinaryLog].file_of_number(row.position[0])
        if file is None or row.position[1] + self._DISTANCE <= file.end:
            return False
        row.local["binary_log_position"] += self._DISTANCE
        return True


class _InsideNewestGroup(RowFault):
    """The position inside the newest group, whose GTID is taken from gtid_executed."""

    def position_in(self, events: list[tuple[int, int]]) -> int | None:
        """The position to show, of the ends of the group's events after the GTID event."""
        raise NotImplementedError

    def tamper(self, fleet: World, row: Row, before: Row) -> bool:
        """Move the position into the newest group."""
        newest = newest_group(row) if _is_orderly(row, before) else None
        if newest is None:
            return False
        file, logged = newest
        own = gtid_of(logged)
        position = self.position_in(list(event_ends(logged)))
        is_new = before.position <= (file.number, logged.start) and not own <= before.executed
        if position is None or not own or not is_new:
            return False
        row.move_position(file, position)
        row.take_from_executed(own)
        return True


class PositionInsideGroup(_InsideNewestGroup):
    """The end of a table map."""

    number = 7
    name = "position_inside_group"
    text = "the row's position is the end of a table map inside the newest group"
    must_fire = frozenset({"snapshot_position_on_group_boundary"})

    def position_in(self, events: list[tuple[int, int]]) -> int | None:
        """The end of the first table map."""
        return next((end for kind, end in events if kind == EventType.TABLE_MAP), None)


class PositionInsideEvent(_InsideNewestGroup):
    """Seven bytes into an event."""

    number = 8
    name = "position_inside_event"
    text = "the row's position is 7 bytes into an event of the newest group"
    must_fire = frozenset({"snapshot_position_on_group_boundary"})

    def position_in(self, events: list[tuple[int, int]]) -> int | None:
        """Seven bytes beyond the end of the first event."""
        return events[0][1] + 7 if len(events) > 1 else None


class ExecutedAhead(RowFault):
    """The position stops before a group that gtid_executed holds."""

    number = 9
    name = "executed_ahead_of_position"
    text = "gtid_executed holds a logged group that ends after the row's position"
    must_fire = frozenset({"executed_within_logged"})

    def tamper(self, fleet: World, row: Row, before: Row) -> bool:
        newest = newest_group(row) if _is_orderly(row, before) else None
        if newest is None:
            return False
        file, logged = newest
        own = gtid_of(logged)
        if not own or not own <= row.executed or (file.number, logged.start) < before.position:
            return False
        row.move_position(file, logged.start)
        return True


class ExecutedOfTwoMoments(RowFault):
    """A collector asks a proxy, and its first statement is answered by a server that is ahead."""

    number = 264
    name = "executed_of_two_moments"
    text = "what a row's collection read first as executed holds groups that the row has not"
    must_fire = frozenset({"executed_as_shown_before"})

    def tamper(self, fleet: World, row: Row, before: Row) -> bool:
        """Some numbers that the server gives out later."""
        del fleet, before
        own = row.instance.server_uuid
        if not row.has_position or "gtid_executed_first" not in row.body:
            return False
        free = row.instance[GtidState].logged.next_free(own) + _AHEAD
        first = GtidSet.parse(row.body["gtid_executed_first"])
        row.body["gtid_executed_first"] = server_text(first | GtidSet.parse(f"{own}:{free}"))
        return True


class PositionRegressed(RowFault):
    """An older group end than the row before showed, with a fresh gtid_executed."""

    number = 10
    name = "position_regressed"
    text = "the row's position is an older group end than the row before showed"
    must_fire = frozenset({"executed_within_logged", "snapshot_position_monotone"})

    def tamper(self, fleet: World, row: Row, before: Row) -> bool:
        if not _is_orderly(row, before):
            return False
        older = groups_between(row.instance, (0, 0), before.position)
        if len(older) < 2 or not gtid_of(older[-1][1]) <= row.executed:
            return False
        file, logged = older[-2]
        row.move_position(file, logged.end)
        return bool(gtid_of(older[-1][1]))


class CommitLagExcess(RowFault):
    """gtid_executed lacks one group more than can be in flight.

    The servers are small, and each gets a burst of writes that does not fit.
    """

    number = 11
    name = "commit_lag_excess"
    text = "gtid_executed trails the position by more groups than can be in flight"
    must_fire = frozenset({"commit_lag_bounded"})
    _LAG_MAX: Final = 16
    _BURST_EVERY_US: Final = 900_000
    _WRITE_EVERY_US: Final = 4_000

    def on_variables(self, instance_id: str, variables: dict[str, Any]) -> None:
        """Bound what may be in flight."""
        variables["commit_lag_max"] = self._LAG_MAX

    def on_fleet(self, fleet: World) -> None:
        """Begin the bursts when the fault is due."""
        for source in [i for i in fleet.instances.values() if is_pure_source(i)][:1]:
            fleet.schedule(fleet.fault_at, None, self._burst, source)

    def _burst(self, fleet: World, source: Instance) -> None:
        if self.injected:
            return
        for number in range(self._LAG_MAX + 2):
            moment = fleet.now + number * self._WRITE_EVERY_US
            fleet.schedule(moment, source, self._write, source)
        fleet.schedule(fleet.now + self._BURST_EVERY_US, None, self._burst, source)

    def _write(self, fleet: World, source: Instance) -> None:
        if source.is_running and not self.injected:
            clients.write(fleet, source)

    def tamper(self, fleet: World, row: Row, before: Row) -> bool:
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
    """One GTID in the middle of those of this row."""

    number = 12
    name = "executed_hole_transient"
    text = (
        "a GTID in the middle is missing from one row's gtid_executed, though commits are ordered"
    )
    must_fire = frozenset({"commit_lag_is_suffix"})

    def tamper(self, fleet: World, row: Row, before: Row) -> bool:
        hole = _middle(row, before) if _is_orderly(row, before) else None
        if hole is None:
            return False
        row.take_from_executed(hole)
        return True


class HolePermanent(RowFault):
    """No row ever shows one logged GTID."""

    number = 13
    name = "executed_hole_permanent"
    text = "one logged GTID never enters gtid_executed"
    must_fire = frozenset({"commit_lag_is_suffix", "logged_eventually_executed"})
    heals = False
    bears_acts = False

    def __init__(self) -> None:
        super().__init__()
        self._hole = GtidSet.EMPTY

    def tamper(self, fleet: World, row: Row, before: Row) -> bool:
        hole = _middle(row, before) if _is_orderly(row, before) else None
        if hole is None:
            return False
        self._hole = hole
        row.take_from_executed(hole)
        return True

    def on_row(
        self, fleet: World, instance: Instance, body: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Take the GTID from every further row."""
        row = Row.of(instance, body)
        if self.injected and row is not None and instance.instance_id == self.injected_in:
            row = row.copy()
            row.take_from_executed(self._hole)
            return row.body
        return super().on_row(fleet, instance, body)


class ExecutedShrunk(RowFault):
    """The last GTID of the row before is gone, and those logged since are not there yet."""

    number = 14
    name = "executed_shrunk"
    text = "gtid_executed loses its last GTID for one row"
    must_fire = frozenset({"executed_monotone"})

    def tamper(self, fleet: World, row: Row, before: Row) -> bool:
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
    """A collection is answered with the row before the last one."""

    number = 15
    name = "stale_snapshot_republished"
    text = "an instance without channels answers one collection with the row of an older one"
    must_fire = frozenset(
        {
            "executed_monotone",
            "lsn_monotone",
            "row_lsn_as_collected",
            "snapshot_position_monotone",
        }
    )
    holds_checkpoint = True
    holds_files = True

    def __init__(self) -> None:
        super().__init__()
        self._older: dict[str, Row] = {}

    def tamper(self, fleet: World, row: Row, before: Row) -> bool:
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


_READ_ANEW = ("received_at", "gtid_executed_table")


class RowShownAgain(RowFault):
    """A cache in front of the server answers: with all that the row before it showed."""

    number = 267
    name = "row_shown_again"
    text = "an instance without channels answers one collection with the row of the one before"
    must_fire = frozenset({"row_lsn_as_collected", "snapshot_position_monotone"})
    holds_checkpoint = True
    holds_files = True

    def tamper(self, fleet: World, row: Row, before: Row) -> bool:
        if before.lineage != row.lineage or not is_pure_source(row.instance):
            return False
        has_grown = before.position < row.position and before.innodb["LSN"] < row.innodb["LSN"]
        is_still = before.innodb["LSN_checkpoint"] == row.innodb["LSN_checkpoint"]
        if not has_grown or not is_still or before.purged != row.purged:
            return False
        # Tables of the server are read anew.
        own = {key: row.body[key] for key in _READ_ANEW if key in row.body}
        names = row.names()
        row.body.clear()
        row.body.update(copy.deepcopy(before.body), **names, **own)
        return True


def _is_orderly(row: Row, before: Row) -> bool:
    """Whether gtid_executed is a matter of the instance's own log alone, in log order."""
    return (
        is_pure_source(row.instance)
        and bool(row.instance.variables.get("binlog_order_commits", True))
        and row.has_position
        and before.has_position
    )


def _middle(row: Row, before: Row) -> GtidSet | None:
    """A GTID that no row showed before, between two others in log order."""
    since = [logged for _, logged in groups_between(row.instance, before.position, row.position)]
    new = [gtid_of(logged) for logged in since]
    new = [gtid for gtid in new if gtid and gtid <= row.executed and not gtid <= before.executed]
    return new[len(new) // 2] if len(new) >= 3 else None


def _oldest_file(row: Row) -> str:
    return next((file["name"] for file in row.body.get("binary_logs", [])), "")


def _commit_lag_max(instance: Instance) -> int:
    variables = instance.variables
    default = variables.get("max_connections", 151) + variables.get("replica_parallel_workers", 4)
    return int(variables.get("commit_lag_max", default))
