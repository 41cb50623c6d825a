"""Rules on gtid_executed at a row: logged, not owned, growing, and the growth explained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules import columns as cells
from tallystick.coordinates.rules.columns import NOT_READ, has_fallen
from tallystick.coordinates.rules.families import Family, Lack
from tallystick.coordinates.rules.outcomes import (
    HOLDS,
    NOT_APPLICABLE,
    Broken,
    RowAnswer,
    Undecided,
)
from tallystick.coordinates.rules.registry import Case, reason, rule
from tallystick.coordinates.rules.statements import (
    GTID_SETS,
    RECEIVED_OF_ALL,
    groups,
    not_executed,
    not_purged,
)
from tallystick.coordinates.values.binlog import LogCoordinates
from tallystick.coordinates.values.gtid import GtidSet

LOGGED_UNKNOWN = reason(
    "logged_unknown", "what was logged up to the position is not known", Lack.BINARY_LOG
)
PURGED_NOT_READ = reason(
    "purged_not_read",
    "gtid_purged was not read, could not be read, or may be older than a RESET of the binary log",
    Lack.VALUE,
)
OWNED_NOT_READ = reason("owned_not_read", "gtid_owned was not read", Lack.VALUE)
RECEIVES_ANONYMOUS = reason(
    "receives_anonymous",
    "a channel brings groups without a GTID, to which the replica may assign any UUID",
    Lack.SETTING,
)
WRITER_UNKNOWN = reason(
    "writer_unknown", "the server id of a group, or of the server itself, is not known", Lack.VALUE
)
SENDER_UNSEEN = reason(
    "sender_unseen",
    "it logged a group that no channel of it has brought from that server before: a channel may"
    " have come and gone unseen",
    Lack.BINARY_LOG,
)
RELAYS_INCOMPLETE = reason(
    "relays_incomplete", "the relay logs of all channels were not seen completely", Lack.RELAY_LOG
)

COMMITS_IN_DOUBT = reason(
    "commits_in_doubt",
    "it was started after a crash, or a stop that was not seen, with"
    " innodb_flush_log_at_trx_commit={policy}: whether InnoDB still has the last commits, which the"
    " binary log and gtid_executed count, is not known",
    Lack.SETTING,
)
COMMITS_BEHIND_LSN = reason(
    "commits_behind_lsn",
    "it was started after a crash, or a stop that was not seen, with"
    " innodb_flush_log_at_trx_commit={policy}, and its LSN fell from {before} to {lsn}: whether the"
    " redo that is gone is of commits, which gtid_executed counts, is not known",
    Lack.SETTING,
)
COMMITS_UNLOGGED = reason(
    "commits_unlogged",
    "it was started after a crash, or a stop that was not seen, and its redo goes on at LSN {lsn},"
    " before that of commits which had returned, up to LSN {returned}: whether these were logged,"
    " or were made with sql_log_bin=0, is not known",
    Lack.BINARY_LOG,
)
CRASHED_WITHOUT_REDO = reason(
    "crashed_without_redo",
    "it was started after a crash, or a stop that was not seen, with its redo log disabled: after a"
    " crash InnoDB cannot recover what was changed meanwhile, which the binary log and"
    " gtid_executed count, and its files may be damaged",
    Lack.SETTING,
)
STOP_IN_DOUBT = reason(
    "stop_in_doubt",
    "the stop record says that the server's end was {stopped}, and the start record after it that"
    " it was started {started}: what a clean stop leaves was not asked for, and may be missing",
    Lack.JOURNAL,
)


class Growth(NamedTuple):
    """How GTIDs may have come into gtid_executed since the last accepted row.

    Attributes:
        brought: What was received, written here, assigned or reported before.
        uuids: Those under which the server itself, or its replication group, writes.
        has_anonymous: Whether a channel brings groups without a GTID.
        is_complete: Whether the server's UUID is known and every relay log was seen completely.
        doubtful: What the server logged without its being known who wrote it.
        received: What each channel has brought, ever.
        logged: What the binary log was seen to hold.
        writes_doubt: Why it is not known what else the server itself wrote.
    """

    brought: tuple[GtidSet, ...]
    uuids: tuple[str, ...]
    has_anonymous: bool
    is_complete: bool
    doubtful: GtidSet = GtidSet.EMPTY
    received: tuple[GtidSet, ...] = ()
    logged: GtidSet = GtidSet.EMPTY
    writes_doubt: Undecided | None = None

    def from_unseen_senders(self, gtids: GtidSet) -> GtidSet:
        """Those that were logged and are of servers of which no channel has brought any.

        Whoever observes a server asks for its channels now and then: one that was there in between
        left nothing but the groups in the binary log.
        """
        for received in self.received:
            for uuid in received.uuids():
                gtids = gtids.without_uuid(uuid)
        return gtids & self.logged


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutedEvidence:
    """gtid_executed of a row, and what bounds it. None: not known.

    The fields after ``previous_gtid_executed`` are known to the audit alone.

    Attributes:
        has_binlog: Whether the server writes a binary log.
        journal_gtid_set: What the binary log holds up to ``position``.
        logs_everything: Whether what a replica applies is logged too.
        previous_gtid_executed: Of the last accepted row of this history.
        fallen: A later one, reported as fallen.
        assigned: Added by SET gtid_purged since the last row.
        must_recover: What a start found in its logs and tables; None: no start since the last row.
        growth: Where new GTIDs may come from.
        read_before: What the same answer has read as executed before its row.
        log_was_off: Whether the binary log was off for a time: what was executed then is purged.
        log_changed: Whether it was switched off or on since the row before.
    """

    gtid_executed: GtidSet | None
    gtid_purged: GtidSet | None = None
    gtid_owned: GtidSet | None = None
    server_uuid: str | None = None
    position: LogCoordinates | None = None
    has_binlog: bool = True
    journal_gtid_set: GtidSet | None = None
    logs_everything: bool = True
    previous_gtid_executed: GtidSet | None = None
    fallen: GtidSet | None = None
    assigned: GtidSet = GtidSet.EMPTY
    must_recover: GtidSet | None = None
    growth: Growth | None = None
    read_before: GtidSet = GtidSet.EMPTY
    log_was_off: bool = False
    log_changed: bool = False

    scope: ClassVar = "instance"

    @classmethod
    def from_columns(cls, columns: Mapping[str, Any]) -> ExecutedEvidence:
        """The evidence that a row of the cut table holds."""
        return cls(
            gtid_executed=cells.gtid_set(columns, "gtid_executed"),
            gtid_purged=cells.gtid_set(columns, "gtid_purged"),
            gtid_owned=cells.owned_set(columns, "gtid_owned"),
            server_uuid=columns.get("server_uuid"),
            position=cells.coordinates(columns, "binary_log_file", "binary_log_position"),
            has_binlog=not cells.binlog_is_off(columns),
            journal_gtid_set=cells.gtid_set(columns, "journal_gtid_set"),
            logs_everything=cells.flag(columns, "logs_everything", default=True),
            previous_gtid_executed=cells.gtid_set(columns, "previous_gtid_executed"),
        )

    def unexplained(self) -> GtidSet:
        """What is new in gtid_executed, and nothing that was seen brought it."""
        if self.gtid_executed is None or self.previous_gtid_executed is None or self.growth is None:
            return GtidSet.EMPTY
        grown = self.gtid_executed - self.previous_gtid_executed
        for uuid in self.growth.uuids:
            grown = grown.without_uuid(uuid)
        for gtids in self.growth.brought:
            grown = grown - gtids
        return grown

    def named(self) -> GtidSet:
        """What SET gtid_purged has added since the row before without a record of it.

        Servers record none. What is logged, or was received, may count as purged without it.
        """
        if self.gtid_purged is None or self.previous_gtid_executed is None or self.growth is None:
            return GtidSet.EMPTY
        if not self.has_binlog or self.log_changed:
            return GtidSet.EMPTY
        if not (self.logs_everything or self.growth.is_complete):
            return GtidSet.EMPTY
        named = self.gtid_purged - self.previous_gtid_executed
        for gtids in (self.assigned, self.growth.logged, *self.growth.received):
            named = named - gtids
        return named


@rule(
    number=22,
    tier=2,
    scope="S",
    family=Family.ROW,
    severity=Severity.CRITICAL,
    heals="held",
    claim=(
        "Every executed GTID is either logged at or before the row's binary log coordinate or"
        " counts as purged."
    ),
    why=(
        "A group is written and the position moved in the flush stage; its GTID enters"
        " gtid_executed later, in the commit stage. The collection stops both, so the set can"
        " trail the position but never lead it. A set that leads makes a restored server skip"
        " groups that it lacks."
    ),
    undecided_when=(
        "set or coordinate is not readable, what was logged up to the coordinate is not known"
        " (a gap, before the first PREVIOUS_GTIDS), or gtid_purged was not read and the excess"
        " may be older than the audit. Without log_replica_updates only GTIDs of the server's"
        " own UUID are judged"
    ),
    sources=("WL#9452, F-2.1 and F-2.2", "MySQL manual: gtid_executed, gtid_purged"),
    remedy=(
        "Do not take position and set of this row as one point. Look for the named GTID in the"
        " binary log after the position; if it is in no file, compare the server's data with"
        " its replicas."
    ),
    verify=(not_purged("excess"), groups("excess")),
    evidence=ExecutedEvidence,
    columns=(
        "gtid_executed",
        "gtid_purged",
        "journal_gtid_set",
        "binary_log_file",
        "binary_log_position",
        "server_uuid",
        "logs_everything",
        "previous_gtid_executed",
    ),
    cases={
        "not_logged": Case(
            "{excess:gtids} {excess:is|are} executed, but neither logged up to {position} nor"
            " purged.",
            "{executed:gtids}",
            "gtid_executed of log_status",
            "{logged:gtids}",
            "binary log up to {position}",
        ),
    },
)
def executed_within_logged(e: ExecutedEvidence) -> RowAnswer:
    """Without gtid_purged an excess may be older than the log; growth since a row is not."""
    if e.gtid_executed is None:
        return Undecided(NOT_READ)
    if not e.has_binlog:
        return HOLDS
    if e.journal_gtid_set is None:
        return Undecided(LOGGED_UNKNOWN)
    excess = e.gtid_executed - e.journal_gtid_set - (e.gtid_purged or GtidSet.EMPTY) - e.assigned
    if not e.logs_everything:
        excess = GtidSet.EMPTY if e.server_uuid is None else excess.restrict(e.server_uuid)
    if excess and e.gtid_purged is None:
        previous = None if e.log_was_off else e.previous_gtid_executed
        excess = GtidSet.EMPTY if previous is None else excess - previous
        if not excess:
            return Undecided(PURGED_NOT_READ)
    if not excess:
        return HOLDS
    return Broken(
        "not_logged",
        witness=excess,
        excess=excess,
        position=e.position,
        executed=e.gtid_executed,
        logged=e.journal_gtid_set,
    )


@rule(
    number=27,
    tier=2,
    scope="S",
    family=Family.NOT_COMMITTED,
    severity=Severity.ERROR,
    heals="held",
    claim="No GTID is owned by a session and executed at the same time.",
    why=(
        "A commit puts the GTID into gtid_executed and takes it from gtid_owned under one lock,"
        " and an executed GTID cannot be owned again. An owned set read after the row can"
        " therefore hold nothing of the row's executed set."
    ),
    undecided_when=(
        "gtid_owned was not read, or gtid_executed is not readable. Read before the row instead"
        " of after it, gtid_owned overlaps on healthy servers and must be left out"
    ),
    sources=("MySQL manual: gtid_owned; GTID Life Cycle", "measured on MySQL 8.0.31"),
    remedy=(
        "Find the owning session (the number after # is its thread) and KILL it, which rolls"
        " it back and gives the GTID free. If no such session exists, restart the server at the"
        " next opportunity."
    ),
    verify=(GTID_SETS,),
    evidence=ExecutedEvidence,
    columns=("gtid_executed", "gtid_owned"),
    cases={
        "owned_and_executed": Case(
            "{both:gtids} {both:is|are} owned by a session and executed at the same time.",
            "{owned:gtids}",
            "@@gtid_owned",
            "nothing of {executed:gtids}",
            "gtid_executed of log_status",
        ),
    },
)
def owned_disjoint_from_executed(e: ExecutedEvidence) -> RowAnswer:
    """Both sets come from one answer, gtid_owned after the row."""
    if e.gtid_executed is None:
        return Undecided(NOT_READ)
    if e.gtid_owned is None:
        return Undecided(OWNED_NOT_READ)
    if e.gtid_owned.isdisjoint(e.gtid_executed):
        return HOLDS
    both = e.gtid_owned & e.gtid_executed
    return Broken(
        "owned_and_executed", witness=both, both=both, owned=e.gtid_owned, executed=e.gtid_executed
    )


@rule(
    number=42,
    tier=3,
    scope="T",
    family=Family.FORGOTTEN_BY_CRASH,
    severity=Severity.CRITICAL,
    heals="executed",
    claim=(
        "What was executed at one row is executed at every later row of the same binary log"
        " lineage, across restarts and crashes too."
    ),
    why=(
        "gtid_executed only gains GTIDs, and after a crash it is put together again from the"
        " recovered binary log, mysql.gtid_executed and the undo logs. With sync_binlog other"
        " than 1 a power failure can lose commits that others have already seen."
    ),
    undecided_when=(
        "gtid_executed is not readable, or no row of this lineage was accepted before; or RESET"
        " BINARY LOGS AND GTIDS on a replica took what its data have out of the set, no"
        " SET gtid_purged that names it is recorded or shown by a row, and its source sends it"
        " again: until other data replace those"
    ),
    sources=(
        "WL#9211, F-7",
        "MySQL manual: ER_SOURCE_FATAL_ERROR_READING_BINLOG (1236), sync_binlog",
    ),
    remedy=(
        "If the server crashed, keep clients off it and compare it with its replicas, which may"
        " have the lost transactions; rebuild the side that is wrong. Set sync_binlog=1 and"
        " innodb_flush_log_at_trx_commit=1."
    ),
    verify=(not_executed("lost"), groups("lost")),
    evidence=ExecutedEvidence,
    columns=("gtid_executed", "previous_gtid_executed"),
    cases={
        "lost": Case(
            "{lost:gtids} {lost:was|were} executed at an earlier row and {lost:is|are} not any"
            " more.",
            "{executed:gtids}",
            "gtid_executed of this collection",
            "{previous:gtids}",
            "gtid_executed of the last accepted row",
        ),
    },
)
def executed_monotone(e: ExecutedEvidence) -> RowAnswer:
    """Across restarts and crashes too."""
    if e.gtid_executed is None:
        return Undecided(NOT_READ)
    previous = e.previous_gtid_executed
    if previous is None:
        return NOT_APPLICABLE
    if not has_fallen(e.gtid_executed, previous, e.fallen):
        return HOLDS
    lost = previous - e.gtid_executed
    return Broken(
        "lost",
        witness=lost,
        at=lost,
        lost=lost,
        executed=e.gtid_executed,
        previous=previous,
    )


@rule(
    number=150,
    tier=3,
    scope="T",
    family=Family.FORGOTTEN_BY_CRASH,
    severity=Severity.CRITICAL,
    heals="held",
    claim=(
        "A row has executed all that the same answer had read as executed before it (gtid_executed,"
        " and Executed_Gtid_Set of SHOW REPLICA STATUS), and what SET gtid_purged added before it."
    ),
    why=(
        "The server shows one set under these names, and it only grows. A row that lacks what was"
        " executed a moment before is not of that server, or not of that moment: a replica set up"
        " by it would ask again for groups that its data have."
    ),
    undecided_when=(
        "gtid_executed is not readable, there is no binary log, which would show a RESET, or, of"
        " what was read before, no row of this lineage was accepted yet: a RESET may lie between"
    ),
    sources=("WL#9452, F-2.2", "MySQL manual: gtid_executed; SHOW REPLICA STATUS; gtid_purged"),
    remedy=(
        "Read gtid_executed, SHOW REPLICA STATUS and log_status by hand. If they agree, fix the"
        " collector: it has mixed answers of two moments or of two servers. If they do not, take"
        " no backup's or replica's coordinates from the row."
    ),
    verify=(not_executed("lost"), groups("lost")),
    evidence=ExecutedEvidence,
    cases={
        "lost_since_read": Case(
            "{lost:gtids} {lost:was|were} executed when the answer was begun and {lost:is|are} not"
            " in its row.",
            "{executed:gtids}",
            "gtid_executed of log_status",
            "{previous:gtids}",
            "@@gtid_executed and Executed_Gtid_Set, read before it",
        ),
        "not_assigned": Case(
            "SET gtid_purged has added {lost:gtids}, which {lost:is|are} not executed.",
            "{executed:gtids}",
            "gtid_executed of log_status",
            "{previous:gtids}",
            "SET gtid_purged since the last accepted row",
        ),
    },
)
def executed_as_shown_before(e: ExecutedEvidence) -> RowAnswer:
    """Without a binary log nothing shows a RESET."""
    executed = e.gtid_executed
    if executed is None:
        return Undecided(NOT_READ)
    before, read_before = e.previous_gtid_executed, e.read_before
    if not e.has_binlog:
        return NOT_APPLICABLE
    if before is None or has_fallen(executed, before, e.fallen):
        read_before = GtidSet.EMPTY
        if not e.assigned:
            return NOT_APPLICABLE
    for case, previous in (("lost_since_read", read_before), ("not_assigned", e.assigned)):
        lost = previous - executed
        if lost:
            return Broken(
                case,
                witness=lost,
                at=lost,
                lost=lost,
                executed=executed,
                previous=previous,
            )
    return HOLDS


@rule(
    number=45,
    tier=3,
    scope="T",
    family=Family.ERRANT,
    severity=Severity.CRITICAL,
    heals="data",
    claim=(
        "Each GTID that is new in gtid_executed was received in a relay log, written by the"
        " server itself, assigned to gtid_purged or handed out by its replication group."
    ),
    why=(
        "There is no other way in: appliers take groups from relay logs only, clients write"
        " under the server's own UUID or a GTID_NEXT that its binary log shows. A GTID that"
        " nothing brought represents changes that nobody made here, and stops them from ever"
        " coming."
    ),
    undecided_when=(
        "server_uuid is not known, the binary log was not seen up to the row, the relay logs of a"
        " channel were not seen completely (a gap, observation began later), it is not known under"
        " which server id a group was logged,"
        " it was logged and no channel has ever brought a group of that server (one may have come"
        " and gone unseen), a channel brings groups without a GTID, to which the"
        " replica may assign any UUID, or there is no accepted row to compare with"
    ),
    sources=("WL#2775, REQ-5", "WL#9211, F-1"),
    remedy=(
        "Find out who ran SET gtid_purged or GTID_NEXT. If nobody did, compare the data with"
        " the source: the replica counts a transaction as done that it lacks, and must be"
        " rebuilt if it does."
    ),
    verify=(groups("grown"), RECEIVED_OF_ALL),
    evidence=ExecutedEvidence,
    cases={
        "nothing_brought_it": Case(
            "{grown:gtids} became executed, but no relay log held {grown:it|them} and nothing here"
            " wrote {grown:it|them}.",
            "{grown:gtids}",
            "gtid_executed of this row without that of the last accepted row",
            "received, written here, or assigned to gtid_purged",
            "relay logs, server_uuid, gtid_purged",
        ),
    },
)
def executed_growth_explained(e: ExecutedEvidence) -> RowAnswer:
    """GTIDs of the server's own UUID and of its replication group come from here."""
    if e.gtid_executed is None:
        return Undecided(NOT_READ)
    grown = e.unexplained()
    if not grown or e.growth is None:
        return HOLDS
    if e.growth.has_anonymous:
        return Undecided(RECEIVES_ANONYMOUS)
    if not e.growth.is_complete:
        return Undecided(RELAYS_INCOMPLETE)
    grown = grown - e.growth.doubtful
    if not grown:
        return Undecided(WRITER_UNKNOWN)
    grown = grown - e.growth.from_unseen_senders(grown)
    if not grown:
        return Undecided(SENDER_UNSEEN)
    if e.growth.writes_doubt is not None:
        return e.growth.writes_doubt
    return Broken("nothing_brought_it", witness=grown, at=grown, grown=grown)


@rule(
    number=50,
    tier=3,
    scope="T",
    family=Family.FORGOTTEN_BY_CRASH,
    severity=Severity.CRITICAL,
    heals="data",
    claim=(
        "The first row after a start has executed all that the recovered binary log, the table"
        " mysql.gtid_executed and the undo logs hold."
    ),
    why=(
        "Startup unites the three before any client or replication thread runs: the binary log"
        " has what was logged, undo headers carry the GTIDs of InnoDB commits not yet in the"
        " table. Nothing is in flight then, so no lag is allowed."
    ),
    undecided_when=(
        "the start did not report the recovered end or the sets found, the recovered files have a"
        " gap in the journal, or gtid_executed of the first row is not readable; where"
        " innodb_flush_log_at_trx_commit is other than 1, whether a crash took commits from InnoDB"
        " that the binary log has, unless commits of the redo log were observed; stop and start"
        " record differ in whether the server had crashed"
    ),
    sources=("WL#9211, F-7", "MySQL manual: GTID Format and Storage"),
    remedy=(
        "Do not let the server rejoin as a replica or serve as a source: it would fetch or give"
        " out the GTID again. Check the group's changes in the data and rebuild from a healthy"
        " server."
    ),
    verify=(not_executed("lost"), groups("lost")),
    evidence=ExecutedEvidence,
    cases={
        "not_recovered": Case(
            "The first row after the start lacks {lost:gtids}, which recovery had found.",
            "{executed:gtids}",
            "gtid_executed of the first row of the boot",
            "{lost:gtids}",
            "recovered binary log files, mysql.gtid_executed, undo logs",
        ),
    },
)
def recovered_gtids_complete(e: ExecutedEvidence) -> RowAnswer:
    """Only the first row after a start is bound by what recovery found."""
    if e.must_recover is None:
        return NOT_APPLICABLE
    if e.gtid_executed is None:
        return Undecided(NOT_READ)
    lost = e.must_recover - e.gtid_executed
    if not lost:
        return HOLDS
    return Broken("not_recovered", witness=lost, at=lost, lost=lost, executed=e.gtid_executed)
