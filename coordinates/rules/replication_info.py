"""Rules on the replication info repositories of a channel at a row (WL#2775)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.channel import (
    GTID_ONLY,
    NO_RELAY,
    POSITION_WRAPPED,
    RELAY_OF_OTHER_NAME,
    GroupEnd,
    judge_pair,
)
from tallystick.coordinates.rules.columns import NOT_READ, same_family
from tallystick.coordinates.rules.families import Family, Lack
from tallystick.coordinates.rules.outcomes import HOLDS, Broken, RowAnswer, Undecided
from tallystick.coordinates.rules.registry import Case, reason, rule
from tallystick.coordinates.rules.statements import (
    APPLIER_STORED,
    RECEIVER_STORED,
    REPLICA_STATUS,
    events_until,
)
from tallystick.coordinates.values.binlog import WRAP, LogCoordinates

MAY_HAVE_SKIPPED = reason(
    "may_have_skipped", "the receiver may have skipped groups beyond the relay log", Lack.RELAY_LOG
)
GROUP_FORGOTTEN = reason(
    "group_forgotten", "the group at the stored position is not remembered", Lack.MEMORY
)
COMMITS_FORGOTTEN = reason(
    "commits_forgotten",
    "which groups between the stored and the applied position were committed is not remembered",
    Lack.MEMORY,
)
STORED_MAY_BE_OLD = reason(
    "stored_may_be_old",
    "which groups between {stored}, the stored position, and {applied}, the applied one, were"
    " committed before the table was read is not known",
    Lack.NEXT_ROW,
)
COMMITS_UNLOGGED = reason(
    "commits_not_logged",
    "the applier has passed {count:n group} after the stored position that the replica has not"
    " logged: what sql_replica_skip_counter passes does not move it",
    Lack.SETTING,
)
ROW_MISSING = reason(
    "info_row_missing",
    "{table} has rows of other channels and none of this one: a start would not know where to go"
    " on",
    Lack.VALUE,
)
TABLE_UNUSED = reason(
    "info_table_unused",
    "{table} was read and has no row: positions may be kept in a file, or have been reset",
    Lack.SETTING,
)
SOURCE_OF_OTHER_NAME = reason(
    "source_files_of_other_base_name",
    "the relay log names files of {base_name!r} of the source, not of {other!r}",
    Lack.RELAY_LOG,
)
NOT_TRANSACTIONAL = reason(
    "not_transactional", "the relay log info repository is not transactional", Lack.SETTING
)
RECEIVER_NOT_STOPPED = reason(
    "receiver_not_stopped", "the receiver was not stopped since the channel began", Lack.NEXT_ROW
)
STOPPED_MEANWHILE = reason(
    "stopped_meanwhile", "the receiver was stopped while the answer was read", Lack.NEXT_ROW
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvidence:
    """The stored positions of one channel, and what the relay log shows. None: not known.

    The cut table has none of them, so only the audit makes it.

    Attributes:
        is_gtid_only: Whether the channel persists no positions.
        is_transactional: Whether the relay log info repository commits with the transaction.
        is_followed: Whether the relay log was observed.
        left_out_of: The tables that have rows of other channels, and none of this one.
        unused: The tables that were read and have no row.
        stored_read: Source coordinates in the master info repository.
        stored_applied, stored_executed: Relay and source coordinates in the relay log info row.
        read, applied: Coordinates of SHOW REPLICA STATUS.
        relay_read: The highest source coordinates that an event of the relay log named.
        relay_base: Base name of the relay log that was observed.
        other_log: Which other log of the server has files of the name in ``stored_applied``.
        group: What ends at ``stored_applied``, None not remembered.
        previous_applied: Of the last accepted row, where a commit lies between the stored
            coordinates and it.
        committed: End of a group after ``stored_applied`` that was committed before the row.
        is_compared: Whether something shows that no commit between ``stored_applied`` and
            ``applied`` is older than the row: the row before, gtid_executed, or the relay log,
            which has none there.
        is_next_group: Whether ``stored_applied`` ends the one group after ``applied``, and this is
            one that moves the row.
        unlogged: How many groups without a GTID were passed there, and are not known to be logged.
        has_forgotten: Whether commits of groups that are not remembered were looked for, and none
            was found among the others.
        stopped_at: When the receiver stopped, None: it runs, or was not seen to stop.
        receiver_runs: Of SHOW REPLICA STATUS.
        requested_at: When the row was asked for.
    """

    is_gtid_only: bool = False
    is_transactional: bool = True
    is_followed: bool = False
    left_out_of: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    stored_read: LogCoordinates | None = None
    stored_applied: LogCoordinates | None = None
    stored_executed: LogCoordinates | None = None
    read: LogCoordinates | None = None
    applied: LogCoordinates | None = None
    relay_read: LogCoordinates | None = None
    relay_base: str | None = None
    other_log: str | None = None
    group: GroupEnd | None = None
    previous_applied: LogCoordinates | None = None
    committed: LogCoordinates | None = None
    is_compared: bool = False
    is_next_group: bool = False
    unlogged: int = 0
    has_forgotten: bool = False
    stopped_at: int | None = None
    receiver_runs: bool | None = None
    requested_at: int | None = None

    scope: ClassVar = "channel"


def _not_stored(e: StoredEvidence, table: str) -> Undecided:
    if table in e.left_out_of:
        return Undecided(ROW_MISSING, table=table)
    return Undecided(TABLE_UNUSED, table=table) if table in e.unused else Undecided(NOT_READ)


@rule(
    number=33,
    tier=2,
    scope="S",
    family=Family.INFO_TABLES,
    severity=Severity.CRITICAL,
    heals="held",
    claim=(
        "The source coordinate stored for the receiver is not beyond the source position of the"
        " last event in the relay log."
    ),
    why=(
        "The receiver writes the event first and stores the position after it, so a crash"
        " between the two repeats events. The other order would lose them: the receiver would"
        " go on after an event that no relay log holds."
    ),
    undecided_when=(
        "the repository (slave_master_info) was not read or lacks the channel, it is gtid_only, the"
        " end of the relay log is not known (not observed, a gap, no source file or another base"
        " name named in it, events without log_pos), the receiver may have passed groups that it"
        " need not queue, or the stored one is beyond 4 GiB, modulo which a relay log names"
        " positions"
    ),
    sources=("WL#9452, Step-1", "WL#2775, REQ-3"),
    remedy=(
        "Do not start the receiver from the stored position. Begin at the executed position"
        " (relay_log_recovery=ON) or use auto-positioning."
    ),
    verify=(RECEIVER_STORED, REPLICA_STATUS),
    evidence=StoredEvidence,
    cases={
        "ahead": Case(
            "The master info repository says {stored} of the source, but the relay log ends at"
            " {end}: after a restart the events between them would be skipped.",
            "{stored}",
            "slave_master_info, Master_log_name and Master_log_pos",
            "at most {end}",
            "source position of the last relay log event",
        ),
    },
)
def master_info_not_ahead_of_relay(e: StoredEvidence) -> RowAnswer:
    """Skipped groups move the receiver without leaving relay events."""
    if e.is_gtid_only:
        return Undecided(GTID_ONLY)
    if e.stored_read is None:
        return _not_stored(e, "slave_master_info")
    if e.relay_read is None:
        return Undecided(NO_RELAY)
    if not same_family(e.relay_read, e.stored_read):
        names = {"base_name": e.relay_read.base_name, "other": e.stored_read.base_name}
        return Undecided(SOURCE_OF_OTHER_NAME, **names)
    if e.stored_read > e.relay_read and e.stored_read.position >= WRAP:
        return Undecided(POSITION_WRAPPED)
    if e.stored_read <= e.relay_read:
        return HOLDS
    if e.read is None or not same_family(e.read, e.stored_read) or e.stored_read <= e.read:
        return Undecided(MAY_HAVE_SKIPPED)
    return Broken("ahead", witness=e.stored_read, stored=e.stored_read, end=e.relay_read)


@rule(
    number=34,
    tier=2,
    scope="S",
    family=Family.INFO_TABLES,
    severity=Severity.ERROR,
    heals="held",
    claim=(
        "The two halves of a relay log info row, a position in the channel's own relay log and a"
        " source position, denote one and the same event, or the source position lies after it"
        " among events that the receiver ignores."
    ),
    why=(
        "Both are set under Relay_log_info::data_lock when a group is done and stored by one"
        " write. Within one relay file and one source file they differ by a constant, so that"
        " a torn pair shows. Whoever restores by one half and skips by the other repeats or"
        " loses groups. Ignored events, in a ring the replica's own, leave nothing in the relay"
        " log and move the source position up to the next event that is there."
    ),
    undecided_when=(
        "the repository was not read or lacks the channel, it is gtid_only or fresh, its relay log"
        " has another base name, or the relay events at the row's position were not observed or are"
        " no longer remembered"
    ),
    sources=("WL#2775, REQ-5", "Percona XtraBackup issue PXB-1737"),
    remedy=(
        "Trust gtid_executed instead of the row. Without GTIDs find the relay position's event"
        " with SHOW RELAYLOG EVENTS and take the source position from it."
    ),
    verify=(APPLIER_STORED, events_until("relay")),
    evidence=StoredEvidence,
    cases={
        "torn": Case(
            "The relay log info row pairs {relay} with {source} of the source, but what ends there"
            " ends at {end}.",
            "{relay} with {source}",
            "slave_relay_log_info",
            "{relay} with {end}",
            "relay log",
        ),
        "of_another_log": Case(
            "The relay log info row says {relay}, which is in a file of {log}.",
            "{relay}",
            "slave_relay_log_info, Relay_log_name and Relay_log_pos",
            "a file of the channel's own relay log",
            "logs of the server",
        ),
    },
)
def relay_info_coordinates_paired(e: StoredEvidence) -> RowAnswer:
    """A group, or the ROTATE to a file of the source, ends at the relay coordinates."""
    relay, source = e.stored_applied, e.stored_executed
    if e.is_gtid_only:
        return Undecided(GTID_ONLY)
    if relay is None or source is None:
        return _not_stored(e, "slave_relay_log_info")
    if e.other_log is not None:
        return Broken("of_another_log", witness=relay, relay=relay, log=e.other_log)
    if e.relay_base is None:
        return Undecided(NO_RELAY)
    if e.relay_base != relay.base_name:
        return Undecided(RELAY_OF_OTHER_NAME, base_name=e.relay_base, other=relay.base_name)
    return judge_pair(e.group, relay, source, GROUP_FORGOTTEN)


@rule(
    number=35,
    tier=2,
    scope="S",
    family=Family.INFO_TABLES,
    severity=Severity.CRITICAL,
    heals="held",
    claim=(
        "A transactional relay log info repository names the end of the last transaction that"
        " the applier committed; not an earlier one and not a later one."
    ),
    why=(
        "The applier updates the row inside the transaction that it applies, so data and"
        " position commit or vanish together, also in a crash. An older row repeats"
        " transactions after a restart, a newer one loses them. MySQL 8.0 does not write the"
        " row for groups that no InnoDB commit ends (MyISAM, ANALYZE, FLUSH, XA): after them"
        " it may stay. The row may be one group ahead of the applied coordinate: an atomic DDL"
        " writes it first, and a commit shows it before it has returned."
    ),
    undecided_when=(
        "the repository was not read or is not transactional, the channel is gtid_only, or the"
        " applied coordinate is not known. Several workers store positions at checkpoints only:"
        " then only a row beyond the applied coordinate, or before that of an earlier row, is a"
        " breach. So it is where the groups between the two are not remembered any more, or have no"
        " GTID and are not in the replica's binary log, and at a channel's first row, where nothing"
        " shows which of them were committed before the table was read"
    ),
    sources=("WL#2775, REQ-5", "MySQL manual: Replication Metadata Repositories"),
    remedy=(
        "Check that mysql.slave_relay_log_info is InnoDB. Before a restart of the replica"
        " compare the row with gtid_executed, and set relay_log_recovery=ON with"
        " auto-positioning."
    ),
    verify=(APPLIER_STORED, REPLICA_STATUS),
    evidence=StoredEvidence,
    cases={
        "too_old": Case(
            "The relay log info row says {stored}, but groups up to {committed} are committed.",
            "{stored}",
            "slave_relay_log_info, Relay_log_name and Relay_log_pos",
            "{committed}",
            "end of the last committed group",
        ),
        "beyond_applied": Case(
            "The relay log info row says {stored}, beyond {applied}, where the applier is.",
            "{stored}",
            "slave_relay_log_info, Relay_log_name and Relay_log_pos",
            "{applied}",
            "end of the last committed group",
        ),
    },
)
def relay_info_updated_with_commit(e: StoredEvidence) -> RowAnswer:
    """The relay log info row commits with the group: neither older nor newer.

    Groups that no XID ends need not move the row: statements that commit by themselves (ANALYZE,
    FLUSH, MyISAM, XA PREPARE, empty groups) leave it until the next commit or relay log file. The
    row is seen before the applied position moves: of an atomic DDL, which writes it first, and of
    a commit that still waits for its redo.
    """
    stored, applied = e.stored_applied, e.applied
    if e.is_gtid_only:
        return Undecided(GTID_ONLY)
    if not e.is_transactional:
        return Undecided(NOT_TRANSACTIONAL)
    if stored is None:
        return _not_stored(e, "slave_relay_log_info")
    if applied is None or not same_family(stored, applied):
        return Undecided(NOT_READ)
    if stored > applied and not e.is_next_group:
        return _beyond(e, stored, applied)
    if committed := e.committed or e.previous_applied:
        return Broken("too_old", witness=stored, stored=stored, committed=committed)
    if e.unlogged:
        return Undecided(COMMITS_UNLOGGED, count=e.unlogged)
    if e.has_forgotten:
        return Undecided(COMMITS_FORGOTTEN)
    if stored >= applied or e.is_compared:
        return HOLDS
    if not e.is_followed:
        return Undecided(NO_RELAY)
    return Undecided(STORED_MAY_BE_OLD, stored=stored, applied=applied)


def _beyond(e: StoredEvidence, stored: LogCoordinates, applied: LogCoordinates) -> RowAnswer:
    """The next group may be under way: the relay log would show it."""
    if not e.is_followed:
        return Undecided(NO_RELAY)
    if e.has_forgotten:
        return Undecided(COMMITS_FORGOTTEN)
    return Broken("beyond_applied", witness=stored, stored=stored, applied=applied)


@rule(
    number=36,
    tier=2,
    scope="T",
    family=Family.INFO_TABLES,
    severity=Severity.WARNING,
    heals="held",
    claim=(
        "While the receiver is stopped, the stored source coordinate is the one it had read"
        " when it stopped."
    ),
    why=(
        "A stop forces the receiver's positions into the repository. The other flush points of"
        " the design leave no moment at which both can be read at rest, and FLUSH RELAY LOGS"
        " does not write the row on 8.0.31, so only the stop is judged."
    ),
    undecided_when=(
        "the repository was not read, no stop of the receiver was observed since the channel"
        " began or it came while the answer was read, the read coordinate is not known, or the"
        " channel is gtid_only"
    ),
    sources=("WL#2775, REQ-3", "MySQL manual: sync_source_info"),
    remedy=(
        "Look into the error log for failed writes of the repository (a full disk, a lock on"
        " mysql.slave_master_info). Backups should use the row of log_status, not this table."
    ),
    verify=(RECEIVER_STORED, REPLICA_STATUS),
    evidence=StoredEvidence,
    cases={
        "not_stored": Case(
            "The master info repository says {stored}, although the receiver stopped at {read}.",
            "{stored}",
            "slave_master_info",
            "{read}",
            "Read_Source_Log_Pos when the receiver stopped",
        ),
    },
)
def master_info_flush_points(e: StoredEvidence) -> RowAnswer:
    """A stopped receiver has stored where it stopped."""
    if e.is_gtid_only:
        return Undecided(GTID_ONLY)
    if e.stored_read is None:
        return _not_stored(e, "slave_master_info")
    if e.stopped_at is None or e.receiver_runs is not False or e.read is None:
        return Undecided(RECEIVER_NOT_STOPPED)
    if e.requested_at is not None and e.stopped_at >= e.requested_at:
        return Undecided(STOPPED_MEANWHILE)
    if e.stored_read == e.read:
        return HOLDS
    return Broken("not_stored", witness=e.stored_read, stored=e.stored_read, read=e.read)
