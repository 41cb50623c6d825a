"""Tier 3: the coordinates of a backup made with backup locks, against the data that it copied.

What a backup says of itself comes from `backup` records (docs/journal.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tallystick.coordinates.audit.baselines import ChannelBaselines
from tallystick.coordinates.logs.event_window import (
    GNO,
    MARK,
    SID,
    SOURCE_END,
    SOURCE_FILE,
    TYPE,
    Mark,
)
from tallystick.coordinates.results import ObservationCode, Severity
from tallystick.coordinates.rules.backup_locks import HEADER, LOG_STATUS, LockSession
from tallystick.coordinates.rules.families import Family, Lack
from tallystick.coordinates.rules.image_positions import EXECUTED, own_log_with
from tallystick.coordinates.rules.outcomes import HOLDS, Broken, RowAnswer, Undecided
from tallystick.coordinates.rules.registry import Case, Rule, reason, register, rule
from tallystick.coordinates.rules.statements import (
    APPLIER_STORED,
    BACKUP_LOCKS,
    events_from,
    events_until,
    groups,
)
from tallystick.coordinates.values.binlog import WRAP, EventType, LogCoordinates
from tallystick.coordinates.values.errors import CoordinateError, GtidSetParseError
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from tallystick.coordinates.audit.instance_state import InstanceState
    from tallystick.coordinates.logs.relay_reader import RelayReader
    from tallystick.coordinates.rules.outcomes import Reason

_COPY_END = "the end of its copy of the last log file"
_JOURNAL = "journal"
_NOT_JUDGED = "backup {backup} is not judged: "
HEADER_UNKNOWN = reason(
    "header_unknown", "the coordinates of the InnoDB header or of the lock are unknown", Lack.BACKUP
)
DATA_UNREADABLE = reason(
    "backup_data_unreadable", _NOT_JUDGED + "the GTIDs of the data cannot be read", Lack.BACKUP
)
DATA_UNKNOWN = reason(
    "backup_data_unknown", _NOT_JUDGED + "the GTIDs of the data are not known", Lack.BACKUP
)
DATA_UNKNOWN_UP_TO = reason(
    "backup_data_unknown_up_to",
    _NOT_JUDGED + "the GTIDs of the data up to {position} are not known",
    Lack.BACKUP,
)
LOGGED_UNKNOWN = reason(
    "backup_logged_unknown",
    _NOT_JUDGED + "the GTIDs logged up to {position} are not known",
    Lack.BACKUP,
)
FILE_UNSEEN = reason(
    "backup_file_unseen",
    _NOT_JUDGED + "the journal does not show the file of {position}",
    Lack.BACKUP,
)
POSITION_FORGOTTEN = reason(
    "backup_position_forgotten",
    _NOT_JUDGED + "{position} is older than the events remembered",
    Lack.BACKUP,
)
GROUP_UNSEEN = reason(
    "backup_group_unseen",
    _NOT_JUDGED + "the group around {position} was not seen whole",
    Lack.BACKUP,
)
CHANGE_UNKNOWN = reason(
    "backup_change_unknown",
    _NOT_JUDGED + "its data lack groups from before {position}, and whether these changed anything"
    " is not known",
    Lack.BACKUP,
)
MAY_BE_COMMITTING = reason(
    "backup_may_be_committing",
    _NOT_JUDGED + "its GTID set lacks groups from before {position}, which may have been committing"
    " when log_status was read",
    Lack.BACKUP,
)
PURGED_UNKNOWN = reason(
    "backup_purged_unknown",
    _NOT_JUDGED + "its data hold groups that were not logged, and gtid_purged is not known",
    Lack.BACKUP,
)
LOCK_UNKNOWN = reason(
    "backup_lock_unknown", _NOT_JUDGED + "where the table lock was taken is not known", Lack.BACKUP
)
CHANNEL_UNSEEN = reason(
    "backup_channel_unseen",
    _NOT_JUDGED + "the journal does not show what channel {channel!r} received",
    Lack.BACKUP,
)
CHANNEL_OF_OTHER_NAME = reason(
    "backup_channel_of_other_name",
    _NOT_JUDGED + "{position} is in none of the source's files that the relay log of channel"
    " {channel!r} names now",
    Lack.BACKUP,
)
CHANNEL_WRAPPED = reason(
    "backup_channel_wrapped",
    _NOT_JUDGED + "the relay log of channel {channel!r} names positions modulo 2^32, and {position}"
    " is beyond that",
    Lack.BACKUP,
)


def _position_cases(what: str) -> dict[str, Case]:
    """A position that is none of the log; ``what`` the backup reports it as."""
    reports = f"Backup {{backup}} reports {{position}} as {what}, "
    end_of_group = "{position}", "backup {backup}", "the end of a group", _JOURNAL
    return {
        "beyond_end_of_log": Case(
            reports + "but the log ends at {end}.",
            "{position}",
            "backup {backup}",
            "at most {end}",
            _JOURNAL,
        ),
        "inside_event": Case(reports + "which lies inside an event.", *end_of_group),
        "inside_group": Case(reports + "which lies inside a group.", *end_of_group),
    }


def _data_cases(what: str, log: str) -> dict[str, Case]:
    """Data that are not those of a position; ``what`` the backup reports it as."""
    hold, lack = "{beyond:gtids} from after it", "{missing:gtids} from before it"
    sides = "{position}", "backup {backup}", f"the position in the {log} that the data are of"
    return {
        case: Case(
            f"Backup {{backup}} reports {{position}} as {what}, but {why}.", *sides, _JOURNAL
        )
        for case, why in (
            ("data_hold_later", f"the data hold {hold}"),
            ("data_lack_earlier", f"the data lack {lack}"),
            ("data_hold_and_lack", f"the data hold {hold} and lack {lack}"),
        )
    }


def _own_cases(what: str) -> dict[str, Case]:
    """A position in the server's own log."""
    cases = _position_cases(what) | _data_cases(what, "binary log")
    return cases | {
        "data_hold_more": Case(
            f"Backup {{backup}} reports {{position}} as {what}, but the data hold {{extra:gtids}},"
            " neither logged nor purged.",
            "{extra:gtids}",
            "backup {backup}",
            "what was logged by then",
            _JOURNAL,
        )
    }


def _is_fresh(header: LogCoordinates, locked: LogCoordinates) -> bool:
    """Whether a header is not before the lock; InnoDB commits move it further under the lock."""
    return header.base_name == locked.base_name and header >= locked


@dataclass(frozen=True, slots=True)
class HeaderUnderLock:
    """The InnoDB header of a row that was read under the table lock.

    Attributes:
        header: Its binary log coordinates, None when they were not read.
        locked: End of the binary log when the lock was taken, None when that is not known.
    """

    header: LogCoordinates | None
    locked: LogCoordinates | None

    scope: ClassVar = "instance"


@rule(
    number=59,
    tier=3,
    scope="S",
    family=Family.BACKUP_LOCKS,
    severity=Severity.CRITICAL,
    heals="never",
    claim=(
        "On a server with have_backup_safe_binlog_info the InnoDB system header is, while LOCK"
        " TABLES FOR BACKUP is held, not before the binary log coordinate of the time of the"
        " lock."
    ),
    why=(
        "InnoDB alone stores the coordinate at its own commits, so a non-transactional write"
        " leaves it stale. Such a server writes and redo-logs the current coordinate as part"
        " of the lock; InnoDB commits under the lock move it on. Elsewhere, and in MySQL 8.0"
        " unless a clone runs, a stale header is normal."
    ),
    undecided_when=(
        "the header was not read under the lock, the lock was not observed, or the coordinate"
        " at lock time is not known. Nothing is claimed of a server without the variable"
    ),
    sources=("Percona backup-safe binlog information, whiteboard",),
    remedy=(
        "Do not start a replica from coordinates that the backup read out of InnoDB: take the"
        " backup again with LOCK BINLOG FOR BACKUP (from 8.0 on, which has no such statement, at"
        " the coordinates of performance_schema.log_status), or use GTIDs."
    ),
    verify=(events_from("header"), BACKUP_LOCKS),
    evidence=HeaderUnderLock,
    cases={
        "header_behind_lock": Case(
            "Under LOCK TABLES FOR BACKUP the InnoDB header names {header}, but the lock was"
            " taken at {locked}.",
            "{header}",
            "TRX_SYS page",
            "at least {locked}",
            "binary log when the lock was taken",
        ),
        "backup_header_behind_lock": Case(
            "Backup {backup} found {header} in the InnoDB header, but its table lock was taken"
            " at {locked}.",
            "{header}",
            "backup {backup}",
            "at least {locked}",
            "journal",
        ),
    },
)
def trx_sys_coords_fresh_under_lock(e: HeaderUnderLock) -> RowAnswer:
    """InnoDB's commits under the lock move the header on."""
    if e.header is None or e.locked is None:
        return Undecided(HEADER_UNKNOWN)
    if _is_fresh(e.header, e.locked):
        return HOLDS
    return Broken("header_behind_lock", witness=e.header, header=e.header, locked=e.locked)


BACKUP_COORDINATES_MATCH_DATA = register(
    Rule(
        number=76,
        name="backup_coordinates_match_data",
        tier=3,
        scope="T",
        family=Family.BACKUP_COORDINATES,
        severity=Severity.CRITICAL,
        heals="never",
        claim=(
            "The binary log coordinates that a backup reports are the end of a group, and the data"
            " it copied hold the groups up to there and none from after it."
        ),
        why=(
            "Redo is finished, and the coordinates are read, while no commit happens: under LOCK"
            " BINLOG FOR BACKUP or FLUSH TABLES WITH READ LOCK; or both come out of the same redo:"
            " each InnoDB commit writes its coordinates into the InnoDB header, and LOCK TABLES FOR"
            " BACKUP those of what InnoDB did not commit; or both are of one row of log_status. A"
            " group without changes leaves no trace in the data."
        ),
        undecided_when=(
            "the backup does not report the GTIDs of its data (gtid_mode OFF), the groups up to the"
            " position are not known, the position is older than the events remembered, or whether"
            " a group that the data lack changed anything was not seen; with coordinates of"
            " log_status, where the set lacks no more groups than can be committing. What the data"
            " hold and the log does not is judged if a row since the start has gtid_purged, and the"
            " server logs all that it executes"
        ),
        sources=("Percona backup-safe binlog information, whiteboard: case 1",),
        remedy=(
            "Do not start a replica or a point-in-time recovery at these coordinates. Take the"
            " backup again with LOCK BINLOG FOR BACKUP, or on a server with"
            " have_backup_safe_binlog_info; from 8.0 on, which has neither, at the coordinates of"
            " performance_schema.log_status."
        ),
        verify=(events_from("position"), groups("beyond"), groups("missing"), groups("extra")),
        cases=_own_cases("its coordinates"),
    )
)

BACKUP_REPLICA_COORDINATES_MATCH_DATA = register(
    Rule(
        number=77,
        name="backup_replica_coordinates_match_data",
        tier=3,
        scope="T",
        family=Family.BACKUP_COORDINATES,
        severity=Severity.CRITICAL,
        heals="never",
        claim=(
            "The position on its source that a replica's backup reports is in the source's log, not"
            " in one of the replica's own, and the one that the copied data have reached: they hold"
            " what the channel brought up to it, and nothing from after it."
        ),
        why=(
            "SHOW REPLICA STATUS is read, and redo is finished, under LOCK BINLOG FOR BACKUP, which"
            " stops receiver and appliers as well. The InnoDB header says nothing of it."
        ),
        undecided_when=(
            "the GTIDs of the backup's data are not known, or the relay log was not observed, or it"
            " names other files of the source and may not have named all of them, or"
            " filters may have left nothing of a group that the data lack. On"
            " a multi-threaded replica the position is a low-water mark: what lies after it is not"
            " judged; neither is what another channel may have brought"
        ),
        sources=("Percona backup-safe binlog information, whiteboard: case 2",),
        remedy=(
            "Do not start replication of the restored copy at this position: groups would be"
            " repeated or lost. Take the backup again with LOCK BINLOG FOR BACKUP (from 8.0 on,"
            " which has no such statement, with the applier stopped), or let the copy replicate by"
            " GTID."
        ),
        verify=(groups("beyond"), groups("missing"), APPLIER_STORED),
        cases=_data_cases("the position of channel {channel!r}", "source's log")
        | {
            "of_own_log": Case(
                "Backup {backup} reports {position} as the position of channel {channel!r} in its"
                " source's log, but that is in a file of {log} of the replica itself.",
                "{position}",
                "backup {backup}",
                "a file of the source's binary log",
                "logs of the server",
            )
        },
    )
)

BACKUP_BINLOG_COPY_MATCHES_DATA = register(
    Rule(
        number=78,
        name="backup_binlog_copy_matches_data",
        tier=3,
        scope="T",
        family=Family.BACKUP_COORDINATES,
        severity=Severity.CRITICAL,
        heals="never",
        claim=(
            "The binary log file that a snapshot of a Galera node takes along ends with a whole"
            " group, and with the last group that the copied data hold."
        ),
        why=(
            "A joiner reads from that file which GTIDs its data hold. Under LOCK BINLOG FOR BACKUP"
            " the file does not grow between the end of the redo copy and the end of its own copy."
        ),
        undecided_when=(
            "the backup does not report the GTIDs of its data, or the end of the copy is older than"
            " the events remembered"
        ),
        sources=("Percona backup-safe binlog information, whiteboard: case 3",),
        remedy=(
            "Throw the joiner's data away and let it take a new snapshot, made with LOCK BINLOG FOR"
            " BACKUP (from 8.0 on, which has no such statement, at the coordinates of"
            " performance_schema.log_status); else it will skip groups that it does not hold."
        ),
        verify=(events_until("position"), groups("beyond"), groups("missing"), groups("extra")),
        cases=_own_cases(_COPY_END),
    )
)

_PARALLEL_BY_DEFAULT = (8, 0, 27)
_OPENERS = (EventType.GTID, EventType.GTID_TAGGED)


def judge_backup(body: Mapping[str, Any], audit: InstanceState) -> None:
    """Judge the coordinates of one ``image`` of a backup made under locks."""
    backup = _Backup(body, audit)
    position = _coordinates(body.get("binlog_file"), body.get("binlog_position"))
    if position is not None:
        backup.judge_position(BACKUP_COORDINATES_MATCH_DATA, position)
        backup.judge_header(position)
    for channel in body.get("channels", ()):
        backup.judge_channel(channel)
    copy = body.get("binlog_copy")
    if copy is not None:
        end = _coordinates(copy["file"], copy["position"])
        assert end is not None
        backup.judge_position(BACKUP_BINLOG_COPY_MATCHES_DATA, end)


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
        self._id = body["backup_id"]
        self._at = f"backup {self._id}"
        self._data: GtidSet | None = None
        text = body.get("gtid_executed")
        if text is not None:
            try:
                self._data = GtidSet.parse(text, tags=audit.server.knows_tags)
            except GtidSetParseError:
                self._undecided(DATA_UNREADABLE)
        known = audit.backup_locks.session(str(body.get("session", "")))
        self._session = LockSession() if known is None else known

    def _undecided(
        self, reason: Reason, channel: str | None = None, position: LogCoordinates | None = None
    ) -> None:
        where = f" {position}" if position is not None else ""
        self._audit.reporter.note(
            ObservationCode.BACKUP_UNDECIDED,
            reason,
            at=f"{self._at}: {reason.code}{where}",
            is_undecided=True,
            channel=channel,
            backup=self._id,
            position=position,
        )

    # Coordinates of the server's own log

    def judge_position(self, rule: Rule, position: LogCoordinates) -> None:
        """Judge that a position is a group's end and that the data hold the groups up to it."""
        binlog = self._audit.binlog
        if binlog.base_name != position.base_name or binlog.end < 0 or binlog.offsets_doubtful:
            self._undecided(FILE_UNSEEN, position=position)
            return
        number, offset = position.file_number, position.position
        if (number, offset) > (binlog.file_number, binlog.end):
            end = f"{binlog.file_name}:{binlog.end}"
            self._broken(rule, "beyond_end_of_log", position, position=position, end=end)
            return
        window = binlog.window
        found = window.find_end(number, offset)
        if not window.knows(number, offset):
            self._undecided(POSITION_FORGOTTEN, position=position)
            return
        mark = None if found is None else Mark(int(window.rows()[found, MARK]))
        if mark is Mark.UNKNOWN:
            self._undecided(GROUP_UNSEEN, position=position)
            return
        if mark not in (Mark.GROUP, Mark.HEADER, Mark.FILE):
            case = "inside_event" if mark is None else "inside_group"
            self._broken(rule, case, position, position=position)
            return
        logged = binlog.logged_at(number, offset)
        if logged is None or self._data is None:
            reason = DATA_UNKNOWN_UP_TO if self._data is None else LOGGED_UNKNOWN
            self._undecided(reason, position=position)
            return
        later = binlog.logged.freeze() - logged
        held, missing = self._data & later, logged - self._data
        beyond, lacks = binlog.changing(held), binlog.changing(missing)
        if lacks and not beyond and self._may_be_committing(lacks):
            self._undecided(MAY_BE_COMMITTING, position=position)
        elif not self._agree(rule, position, beyond, lacks):
            return
        elif missing - binlog.empty.freeze():
            self._undecided(CHANGE_UNKNOWN, position=position)
        self._judge_more(rule, position, self._data - binlog.logged.freeze())

    def _may_be_committing(self, missing: GtidSet) -> bool:
        """Whether the set may lack them because the row shows the binary log ahead of commits."""
        server = self._audit.server
        may_trail = self._body.get("coordinates_from") == LOG_STATUS
        is_within = missing.count() <= server.commit_lag_max or not server.knows_commit_lag_max
        return may_trail and is_within

    def _judge_more(self, rule: Rule, position: LogCoordinates, extra: GtidSet) -> None:
        """Data cannot hold what is not logged yet."""
        server, baselines = self._audit.server, self._audit.baselines
        extra = baselines.without_known(server.must_have_logged(extra))
        if extra and baselines.has_row_since_start:
            self._broken(rule, "data_hold_more", extra, position=position, extra=extra)
        elif extra:
            self._undecided(PURGED_UNKNOWN, position=position)

    def _agree(
        self,
        rule: Rule,
        position: LogCoordinates,
        beyond: GtidSet,
        missing: GtidSet,
        channel: str | None = None,
    ) -> bool:
        """Report data that hold changes from after the position, or lack some from before it."""
        if beyond and missing:
            case = "data_hold_and_lack"
        elif beyond:
            case = "data_hold_later"
        elif missing:
            case = "data_lack_earlier"
        else:
            return True
        witness = beyond or missing
        self._broken(
            rule,
            case,
            witness,
            channel=channel,
            position=position,
            beyond=beyond,
            missing=missing,
        )
        return False

    def judge_header(self, position: LogCoordinates) -> None:
        """Coordinates out of InnoDB's header are not before the table lock."""
        if self._body.get("coordinates_from") != HEADER or not self._audit.server.is_backup_safe:
            return
        locked = self._session.tables_at
        if locked is None:
            self._undecided(LOCK_UNKNOWN)
            return
        if not _is_fresh(position, locked):
            self._broken(
                trx_sys_coords_fresh_under_lock,
                "backup_header_behind_lock",
                position,
                header=position,
                locked=locked,
            )

    # Positions of a replica

    def judge_channel(self, status: Mapping[str, Any]) -> None:
        """Judge that the data hold just what a channel had executed up to the position."""
        name = status["channel"]
        position = _coordinates(*map(status.get, EXECUTED))
        relay = self._audit.relays.get(name)
        if position is None or relay is None or relay.source_base is None:
            self._undecided(CHANNEL_UNSEEN, name)
            return
        if relay.source_base != position.base_name:
            self._judge_other_name(name, position)
            return
        if self._data is None:
            self._undecided(DATA_UNKNOWN, name)
            return
        rows = relay.window.rows()
        rows = rows[(rows[:, MARK] == Mark.GROUP) & (rows[:, SID] >= 0) & (rows[:, SOURCE_END] > 0)]
        number = rows[:, SOURCE_FILE]
        in_file = rows[number == position.file_number, SOURCE_END]
        if position.position >= WRAP and len(in_file) and position.position not in in_file:
            self._undecided(CHANNEL_WRAPPED, name, position)
            return
        is_before = (number < position.file_number) | (
            (number == position.file_number) & (rows[:, SOURCE_END] <= position.position)
        )
        beyond = GtidSet.EMPTY
        if self._applies_serially:
            beyond = self._data & _gtids(relay.sids, rows[~is_before])
            beyond = beyond - self._session.executed - self._received_elsewhere(name)
        missing = _gtids(relay.sids, rows[is_before]) - self._data
        rule = BACKUP_REPLICA_COORDINATES_MATCH_DATA
        lacks = self._changing(missing, name, relay)
        empty = self._audit.binlog.empty.freeze() | _empty_groups(relay)
        beyond = self._changing(beyond, name, relay)
        if self._agree(rule, position, beyond, lacks, name) and missing - empty:
            self._undecided(CHANGE_UNKNOWN, name, position)

    def _judge_other_name(self, name: str, position: LogCoordinates) -> None:
        """Coordinates in files that are not called like those of the channel's source."""
        audit = self._audit
        baselines = audit.baselines.channels.get(name) or ChannelBaselines()
        log = own_log_with(position, name, baselines, audit.binlog, audit.relays)
        if log is None:
            self._undecided(CHANNEL_OF_OTHER_NAME, name, position)
            return
        rule, case = BACKUP_REPLICA_COORDINATES_MATCH_DATA, "of_own_log"
        self._broken(rule, case, position, channel=name, position=position, log=log)

    def _changing(self, gtids: GtidSet, name: str, relay: RelayReader) -> GtidSet:
        """Those of the GTIDs of a channel whose groups are known to have changed something here."""
        baselines, binlog = self._audit.baselines, self._audit.binlog
        history = baselines.channels.get(name)
        is_filtered = baselines.may_filter if history is None else history.is_filtered
        unlogged = gtids - binlog.grouped.freeze() - _empty_groups(relay)
        return binlog.changing(gtids) | (GtidSet.EMPTY if is_filtered else unlogged)

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
        self, rule: Rule, case: str, witness: object, channel: str | None = None, **data: object
    ) -> None:
        broken = Broken(case, witness=witness, at=self._at, backup=self._id, **data)
        self._audit.reporter.broken(rule, broken, channel=channel)


def _gtids(sids: tuple[str, ...] | list[str], rows: npt.NDArray[np.int64]) -> GtidSet:
    return GtidSet.from_groups(sids, rows[:, SID], rows[:, GNO])


def _empty_groups(relay: RelayReader) -> GtidSet:
    """The remembered groups that are a GTID, BEGIN and COMMIT, or ROLLBACK."""
    rows = relay.window.rows()
    is_end = (rows[2:, MARK] == Mark.GROUP) & (rows[2:, SID] >= 0)
    is_query = (rows[2:, TYPE] == EventType.QUERY) & (rows[1:-1, TYPE] == EventType.QUERY)
    return _gtids(relay.sids, rows[2:][is_end & is_query & np.isin(rows[:-2, TYPE], _OPENERS)])
