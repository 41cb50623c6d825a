"""Judging what a backup says of itself: its coordinates against the data it copied (76 to 78)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tallystick.coordinates.logs.event_window import GNO, MARK, SID, SOURCE_END, SOURCE_FILE, Mark
from tallystick.coordinates.results import ObservationCode
from tallystick.coordinates.rules.backup_locks import (
    BACKUP_BINLOG_COPY_MATCHES_DATA,
    BACKUP_COORDINATES_MATCH_DATA,
    BACKUP_REPLICA_COORDINATES_MATCH_DATA,
    TRX_SYS_COORDS_FRESH_UNDER_LOCK,
)
from tallystick.coordinates.rules.judging.backup_locks import LockSession, coordinates_of, is_fresh
from tallystick.coordinates.rules.registry import UNDECIDED_PROSE
from tallystick.coordinates.values.binlog import LogCoordinates
from tallystick.coordinates.values.errors import CoordinateError, GtidSetParseError
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from tallystick.coordinates.audit.instance_state import InstanceState
    from tallystick.coordinates.rules.registry import Rule

HEADER = "innodb_header"
_WITNESS_GTIDS = 3
_PARALLEL_BY_DEFAULT = (8, 0, 27)


def judge_backup(body: Mapping[str, Any], audit: InstanceState) -> None:
    """Judge the coordinates of one ``image`` of a backup made with backup locks."""
    backup = _Backup(body, audit)
    place = _coordinates(body.get("binlog_file"), body.get("binlog_position"))
    if place is not None:
        backup.judge_place(BACKUP_COORDINATES_MATCH_DATA, place, "its coordinates")
        backup.judge_header(place)
    for position in body.get("channels", ()):
        backup.judge_channel(position)
    copy = body.get("binlog_copy")
    if copy is not None:
        end = _coordinates(copy["file"], copy["position"])
        assert end is not None
        backup.judge_place(
            BACKUP_BINLOG_COPY_MATCHES_DATA, end, "the end of its copy of the last log file"
        )


def _coordinates(file: str | None, position: int | None) -> LogCoordinates | None:
    if not file or position is None:
        return None
    try:
        return LogCoordinates.of_file(file, position)
    except CoordinateError:
        return None


class _Backup:
    """One backup beside the journal of its server."""

    def __init__(self, body: Mapping[str, Any], audit: InstanceState) -> None:
        self._body = body
        self._audit = audit
        self._id = str(body.get("backup_id"))
        self._at = f"backup {self._id}"
        self._data: GtidSet | None = None
        text = body.get("gtid_executed")
        if text is not None:
            try:
                self._data = GtidSet.parse(text, tags=audit.server.knows_tags)
            except GtidSetParseError:
                self._undecided("the GTIDs of the data cannot be read")
        known = audit.backup_locks.session(str(body.get("session", "")))
        self._session = LockSession() if known is None else known
        self._empty = audit.backup_locks.empty_groups

    def _undecided(self, reason: str, channel: str | None = None) -> None:
        self._audit.reporter.note(
            ObservationCode.BACKUP_UNDECIDED,
            UNDECIDED_PROSE,
            at=f"{self._at}: {reason}",
            text=f"Backup {self._id} is not judged: {reason}.",
            is_undecided=True,
            channel=channel,
        )

    # Coordinates of the server's own log

    def judge_place(self, rule: Rule, place: LogCoordinates, what: str) -> None:
        """Judge that a place is a group's end and that the data hold the groups up to it."""
        binlog = self._audit.binlog
        if binlog.base_name != place.base_name or binlog.end < 0 or binlog.offsets_doubtful:
            self._undecided(f"the journal does not show the file of {place}")
            return
        number, offset = place.file_number, place.position
        if (number, offset) > (binlog.file_number, binlog.end):
            self._broken(
                rule,
                f"Backup {self._id} reports {place} as {what}, but the log ends at "
                f"{binlog.file_name}:{binlog.end}.",
                observed=place,
                expected=f"at most {binlog.file_name}:{binlog.end}",
                witness=place,
            )
            return
        window = binlog.window
        found = window.find_end(number, offset)
        if found is None and (
            not window.covers(number, offset) or window.begins_at(number, offset)
        ):
            self._undecided(f"{place} is older than the events remembered")
            return
        mark = None if found is None else Mark(int(window.rows()[found, MARK]))
        if mark is Mark.UNKNOWN:
            self._undecided(f"the group around {place} was not seen whole")
            return
        if mark not in (Mark.GROUP, Mark.HEADER, Mark.FILE):
            self._broken(
                rule,
                f"Backup {self._id} reports {place} as {what}, which lies inside "
                + ("an event." if mark is None else "a group."),
                observed=place,
                expected="the end of a group",
                witness=place,
            )
            return
        logged = binlog.logged_at(number, offset)
        if logged is None or self._data is None:
            missing = "the GTIDs of the data" if self._data is None else "the GTIDs logged"
            self._undecided(f"{missing} up to {place} are not known")
            return
        self._compare(rule, place, logged, what)

    def _compare(self, rule: Rule, place: LogCoordinates, logged: GtidSet, what: str) -> None:
        assert self._data is not None
        later = self._audit.binlog.logged.freeze() - logged
        self._tell_difference(
            rule,
            place,
            beyond=(self._data & later) - self._empty,
            missing=logged - self._data - self._empty,
            what=what,
            log="binary log",
        )

    def _tell_difference(
        self,
        rule: Rule,
        place: LogCoordinates,
        *,
        beyond: GtidSet,
        missing: GtidSet,
        what: str,
        log: str,
        channel: str | None = None,
    ) -> None:
        halves = []
        if beyond:
            halves.append(f"the data hold {beyond.first(_WITNESS_GTIDS)} from behind it")
        if missing:
            halves.append(f"the data lack {missing.first(_WITNESS_GTIDS)} from before it")
        if not halves:
            return
        self._broken(
            rule,
            f"Backup {self._id} reports {place} as {what}, but {' and '.join(halves)}.",
            observed=place,
            expected=f"the place in the {log} that the copied data have reached",
            witness=(beyond or missing).first(10),
            channel=channel,
        )

    def judge_header(self, place: LogCoordinates) -> None:
        """Coordinates out of InnoDB's header are not behind the table lock."""
        if self._body.get("coordinates_from") != HEADER or not self._audit.server.is_backup_safe:
            return
        locked_at = self._session.tables_at
        if locked_at is None:
            self._undecided("where the table lock was taken is not known")
            return
        locked = coordinates_of(locked_at)
        if not is_fresh(place, locked):
            self._broken(
                TRX_SYS_COORDS_FRESH_UNDER_LOCK,
                f"Backup {self._id} found {place} in the InnoDB header, but its table lock was "
                f"taken at {locked}.",
                observed=place,
                expected=f"at least {locked}",
                witness=place,
            )

    # Positions of a replica

    def judge_channel(self, position: Mapping[str, Any]) -> None:
        """Judge that the data hold just what a channel had executed up to the position."""
        name = str(position.get("channel", ""))
        place = _coordinates(
            position.get("exec_source_log_file"), position.get("exec_source_log_pos")
        )
        relay = self._audit.relays.get(name)
        if place is None or relay is None or relay.source_base != place.base_name:
            self._undecided(f"the journal does not show what channel {name!r} received", name)
            return
        if self._data is None:
            self._undecided("the GTIDs of the data are not known", name)
            return
        rows = relay.window.rows()
        rows = rows[(rows[:, MARK] == Mark.GROUP) & (rows[:, SID] >= 0) & (rows[:, SOURCE_END] > 0)]
        number = rows[:, SOURCE_FILE]
        is_before = (number < place.file_number) | (
            (number == place.file_number) & (rows[:, SOURCE_END] <= place.position)
        )
        beyond = GtidSet.EMPTY
        if self._applies_serially:
            beyond = self._data & _gtids(relay.sids, rows[~is_before])
            beyond = beyond - self._session.executed - self._received_elsewhere(name)
        missing = _gtids(relay.sids, rows[is_before]) - self._data
        self._tell_difference(
            BACKUP_REPLICA_COORDINATES_MATCH_DATA,
            place,
            beyond=beyond - self._empty,
            missing=missing - self._empty,
            what=f"the position of channel {name!r}",
            log="source's log",
            channel=name,
        )

    @property
    def _applies_serially(self) -> bool:
        """Whether the position executed is more than a low-water mark."""
        server = self._audit.server
        workers = server.number("replica_parallel_workers")
        if workers is not None:
            return workers <= 1
        parts = (server.version or "").partition("-")[0].split(".")
        if len(parts) != len(_PARALLEL_BY_DEFAULT) or not all(part.isdigit() for part in parts):
            return False
        return tuple(map(int, parts)) < _PARALLEL_BY_DEFAULT

    def _received_elsewhere(self, name: str) -> GtidSet:
        """What other channels brought: it may be executed before this channel comes to it."""
        received = GtidSet.EMPTY
        for other, relay in self._audit.relays.items():
            if other != name:
                received = received | relay.received_ever.freeze()
        return received

    def _broken(
        self,
        rule: Rule,
        sentence: str,
        *,
        observed: object,
        expected: object,
        witness: object,
        channel: str | None = None,
    ) -> None:
        self._audit.reporter.prose(
            rule,
            at=self._at,
            channel=channel,
            sentence=sentence,
            observed=observed,
            observed_in=f"backup {self._id}",
            expected=expected,
            expected_in="journal",
            witness=witness,
        )


def _gtids(sids: tuple[str, ...] | list[str], rows: npt.NDArray[np.int64]) -> GtidSet:
    return GtidSet.from_groups(sids, rows[:, SID], rows[:, GNO])
