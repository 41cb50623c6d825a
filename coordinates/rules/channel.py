"""Rules on one replication channel of a row: receiver, relay log and applier agree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules import columns as cells
from tallystick.coordinates.rules.columns import NOT_READ, has_fallen, same_family
from tallystick.coordinates.rules.families import Family, Lack
from tallystick.coordinates.rules.outcomes import (
    HOLDS,
    Broken,
    Reason,
    RowAnswer,
    Undecided,
)
from tallystick.coordinates.rules.registry import Case, reason, rule
from tallystick.coordinates.rules.statements import (
    LOG_STATUS,
    RECEIVED,
    REPLICA_STATUS,
    events_until,
    not_executed,
    sql,
)
from tallystick.coordinates.values.binlog import WRAP, LogCoordinates
from tallystick.coordinates.values.gtid import GtidSet

NO_RELAY = reason("no_relay", "no event of the channel's relay log was seen", Lack.RELAY_LOG)
NO_RESET_SEEN = reason(
    "no_reset_seen", "the channel has no relay log, but no RESET REPLICA was seen", Lack.RELAY_LOG
)
RELAY_OF_OTHER_NAME = reason(
    "relay_log_of_other_base_name",
    "the journal shows relay log files of {base_name!r}, not of {other!r}",
    Lack.RELAY_LOG,
)
GTID_ONLY = reason("gtid_only", "the channel does not persist positions (GTID_ONLY)", Lack.SETTING)
RELAY_MISSED = reason(
    "relay_missed", "part of the relay log was missed before the row", Lack.RELAY_LOG
)
FORMER_RELAY = reason(
    "relay_log_of_before",
    "until the receiver is connected, log_status may name the relay log file that CHANGE"
    " REPLICATION SOURCE has removed",
    Lack.NEXT_ROW,
)
FORMER_SOURCE = reason(
    "coordinates_of_former_source",
    "the coordinates may still belong to the source that the channel had before",
    Lack.NEXT_ROW,
)
SOURCE_FILE_KEPT = reason(
    "source_file_kept",
    "the applier is at {executed} of the source and shows {shown}: where a receiver stopped within"
    " a group and went on in another file, MySQL keeps the former file's name until the source's"
    " next ROTATE; do not start anything from these coordinates",
    Lack.NOTED,
)
BY_GTID_SET = reason(
    "by_gtid_set",
    "by GTID set a new connection begins at an earlier position, and no event of the channel's"
    " relay log was seen",
    Lack.RELAY_LOG,
)
POSITION_WRAPPED = reason(
    "position_wrapped",
    "the relay log names positions of the source modulo 2^32, and this one is beyond that",
    Lack.SETTING,
)
NOT_LOGGED_YET = reason(
    "not_logged_yet",
    "the replica does not log what it applies, and {late:gtids} may still enter gtid_executed",
    Lack.SETTING,
)
GIVEN_UP = reason(
    "given_up_unexecuted",
    "the channel was removed (RESET REPLICA ALL) before it had executed {missing:gtids}, and"
    " nothing has brought {missing:it|them} since",
    Lack.SETTING,
)
EXECUTED_NOT_ACCEPTED = reason(
    "executed_not_accepted", "gtid_executed is missing, or not accepted", Lack.OTHER_FINDING
)
HEAD_LACKS_EARLIER = reason(
    "head_lacks_earlier",
    "the head of the relay file lacks what the files before it hold",
    Lack.RELAY_LOG,
)

SOURCE_END_UNKNOWN = reason(
    "source_end_unknown", "the source position of the group is not known", Lack.RELAY_LOG
)
APPLIED_FORGOTTEN = reason(
    "applied_group_unknown",
    "no group that ends at the applied coordinates is remembered",
    Lack.RELAY_LOG,
)

EXECUTED_BEYOND_READ = reason(
    "executed_beyond_read",
    "the executed coordinate is beyond the one that was read",
    Lack.OTHER_FINDING,
)

_SHOWN = {"relay": "log_status, relay log coordinates", "executed": "Exec_Source_Log_Pos"}


class GroupEnd(NamedTuple):
    """A group, or the ROTATE to a file of the source, that ends at some relay coordinates.

    Attributes:
        source_end: Where it ends in the source's log, None not known.
        has_moved_on: Whether the applier may have gone on from there to the source coordinates
            beside them without a group.
    """

    source_end: LogCoordinates | None
    has_moved_on: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelEvidence:
    """What a row says of one channel, and what the relay log shows. None: not known.

    The fields after ``journal_retrieved`` are known to the audit alone.

    Attributes:
        relay: Relay coordinates of the last flush of the receiver's positions.
        relay_is_empty: File "" and position 0: the channel has no relay log.
        applied: Relay coordinates applied.
        read, executed: Source coordinates read, and executed.
        retrieved: Retrieved_Gtid_Set.
        other_log: Which other log of the server has files of the name in ``relay``.
        journal_relay: The last end of an event, or start of a file, of the relay log at or before
            ``relay``.
        journal_read: The highest source coordinates that an event of the relay log named.
        journal_retrieved: What the relay log has received, with the group that is arriving.
        gtid_executed: Of the row, where it was accepted.
        is_followed: Whether the relay log was observed.
        was_reset: Whether the relay log holds nothing of a source.
        doubt: Why the relay log does not decide on ``relay``.
        relay_end: Where the relay log ends.
        group: What ends at ``applied``, None not remembered.
        events_after: How many events end after ``relay``, and at or before ``applied``.
        passed: GTIDs of the remembered groups before ``applied`` that are not in the binary log,
            and were not reported.
        passed_unlogged: More of them, on a replica that does not log what it applies: those passed
            since the previous row that no XID ends. Their GTIDs enter gtid_executed after the
            coordinates have moved.
        auto_position: Whether the channel asks by GTID set.
        is_gtid_only: Whether it persists no positions.
        stored: Source coordinates last written to slave_master_info, None: no write was seen.
        sync_source_info: After how many events it is written.
        relay_read: The source coordinates that ``relay`` corresponds to.
        events_unstored: How many events up to ``relay`` are after ``stored``.
        lost: End, in the source's log, of the event after ``relay`` that ``stored`` has passed.
        inherited: What only the head of a relay file says to have been received, in files not seen.
        forgotten: What the head of the relay file lacks, though nothing was reset.
        cut: The same, where the server was only stopped in order and started again.
        received_before: What the relay log had received at the previous row.
        previous: Of the last accepted row of the channel, ``relay`` and ``executed``.
        fallen: Later ones, reported as fallen.
        executes_former: Whether the applier may be in what the source before has sent.
        may_execute_former: The same, where nothing of the present source is known to be executed:
            what is right is so of either.
        previous_may_be_former: Whether ``executed`` of the last accepted row may be of that one.
    """

    relay: LogCoordinates | None = None
    relay_is_empty: bool = False
    applied: LogCoordinates | None = None
    read: LogCoordinates | None = None
    executed: LogCoordinates | None = None
    retrieved: GtidSet | None = None
    other_log: str | None = None
    journal_relay: LogCoordinates | None = None
    journal_read: LogCoordinates | None = None
    journal_retrieved: GtidSet | None = None
    gtid_executed: GtidSet | None = None
    is_followed: bool = False
    was_reset: bool | None = None
    doubt: Undecided | None = None
    relay_end: LogCoordinates | None = None
    group: GroupEnd | None = None
    events_after: int | None = None
    passed: GtidSet | None = None
    passed_unlogged: GtidSet = GtidSet.EMPTY
    auto_position: bool | None = None
    is_gtid_only: bool = False
    stored: LogCoordinates | None = None
    sync_source_info: int | None = None
    relay_read: LogCoordinates | None = None
    events_unstored: int | None = None
    lost: LogCoordinates | None = None
    inherited: GtidSet = GtidSet.EMPTY
    forgotten: GtidSet = GtidSet.EMPTY
    cut: GtidSet = GtidSet.EMPTY
    received_before: GtidSet | None = None
    previous: Mapping[str, LogCoordinates] = field(default_factory=dict)
    fallen: Mapping[str, LogCoordinates] = field(default_factory=dict)
    executes_former: bool = False
    may_execute_former: bool = False
    previous_may_be_former: bool = False

    scope: ClassVar = "channel"

    @classmethod
    def from_columns(cls, columns: Mapping[str, Any]) -> ChannelEvidence:
        """The evidence that a row of the cut table holds."""
        return cls(
            relay=cells.coordinates(columns, "relay_log_file", "relay_log_position"),
            relay_is_empty=columns.get("relay_log_file") == ""
            and columns.get("relay_log_position") == 0,
            applied=cells.coordinates(
                columns, "applied_relay_log_file", "applied_relay_log_position"
            ),
            read=cells.coordinates(columns, "read_source_log_file", "read_source_log_pos"),
            executed=cells.coordinates(columns, "exec_source_log_file", "exec_source_log_pos"),
            retrieved=cells.gtid_set(columns, "retrieved_gtid_set"),
            journal_relay=cells.coordinates(
                columns, "journal_relay_log_file", "journal_relay_log_position"
            ),
            journal_read=cells.coordinates(
                columns, "journal_read_source_log_file", "journal_read_source_log_pos"
            ),
            journal_retrieved=cells.gtid_set(columns, "journal_retrieved_gtid_set"),
        )

    def not_executed(self) -> GtidSet:
        """What the applier has passed, and is neither executed nor logged."""
        if self.passed is None or self.gtid_executed is None:
            return GtidSet.EMPTY
        return self.passed - self.gtid_executed

    def monotone(self) -> dict[str, LogCoordinates]:
        """What may be compared with an earlier row, by name."""
        values = {"relay": self.relay, "executed": None if self.is_gtid_only else self.executed}
        return {name: value for name, value in values.items() if value is not None}


@rule(
    number=30,
    tier=2,
    scope="S",
    family=Family.CHANNEL_POSITIONS,
    severity=Severity.CRITICAL,
    heals="held",
    claim=("The executed source coordinate of a channel is not beyond the one that was read."),
    why=(
        "An event is read from the source, written to the relay log and only then applied; both"
        " coordinates name positions in the source's files and come from one row of SHOW REPLICA"
        " STATUS. Beyond the read position nothing can have been applied."
    ),
    undecided_when=(
        "one of the two was not read, old groups are still being applied after the receiver was"
        " pointed to another source, whose base name may differ, or may be where that can have"
        " happened before the journal began, or nothing was executed since that, or since a crash,"
        " the channel is gtid_only and keeps no positions, or the relay log was not observed, or"
        " not all of it, and the channel may ask by GTID set: a new connection begins further back"
        " than what is applied; or the executed one is beyond 4 GiB, modulo which a relay log names"
        " positions"
    ),
    sources=("WL#2775, Master_info and Relay_log_info",),
    remedy=(
        "Do not use the positions to move or restore the replica. Compare gtid_executed with"
        " the source's and point the channel anew with SOURCE_AUTO_POSITION=1."
    ),
    verify=(REPLICA_STATUS,),
    evidence=ChannelEvidence,
    columns=(
        "read_source_log_file",
        "read_source_log_pos",
        "exec_source_log_file",
        "exec_source_log_pos",
        "journal_read_source_log_file",
        "journal_read_source_log_pos",
    ),
    cases={
        "beyond_read": Case(
            "The applier has executed up to {executed} of the source, but the receiver has"
            " read only up to {read}.",
            "{executed}",
            "Exec_Source_Log_Pos",
            "at most {read}",
            "Read_Source_Log_Pos",
        ),
    },
)
def exec_source_pos_within_read(e: ChannelEvidence) -> RowAnswer:
    """After a new connection the receiver may read earlier positions than it had read."""
    if e.is_gtid_only:
        return Undecided(GTID_ONLY)
    if e.read is None or e.executed is None or not same_family(e.read, e.executed):
        return Undecided(NOT_READ)
    if e.executes_former:
        return Undecided(FORMER_SOURCE)
    if e.executed <= e.read:
        return HOLDS
    if e.may_execute_former:
        return Undecided(FORMER_SOURCE)
    if e.journal_read is not None and same_family(e.journal_read, e.executed):
        if e.executed <= e.journal_read:
            return HOLDS
        if e.executed.position >= WRAP:
            return Undecided(POSITION_WRAPPED)
    elif e.is_followed or e.journal_read is not None:
        return Undecided(NO_RELAY)
    elif e.auto_position is not False:
        return Undecided(BY_GTID_SET)
    return Broken("beyond_read", witness=e.executed, executed=e.executed, read=e.read)


@rule(
    number=148,
    tier=2,
    scope="S",
    family=Family.CHANNEL_POSITIONS,
    severity=Severity.CRITICAL,
    heals="held",
    claim=(
        "The applied relay coordinate and the executed source coordinate of a channel denote the"
        " end of one and the same group, or the source coordinate lies after it among events that"
        " the receiver ignores."
    ),
    why=(
        "The applier sets both under Relay_log_info::data_lock when a group is done, and SHOW"
        " REPLICA STATUS reads both under it. A replica that is moved, copied or promoted by the"
        " executed coordinate begins there: one that is not where the relay log is applied to"
        " repeats groups, or leaves them out."
    ),
    undecided_when=(
        "the replica status was not read, the channel is gtid_only, the relay log up to the applied"
        " coordinate was not observed or is no longer remembered, or no group ends there: at the"
        " beginning of a relay file nothing is executed in it. An executed coordinate beyond the"
        " one that was read is judged by exec_source_pos_within_read"
    ),
    sources=("WL#2775, Master_info and Relay_log_info", "MySQL manual: SHOW REPLICA STATUS"),
    remedy=(
        "Do not use the executed position to move, copy or promote the replica. Compare"
        " gtid_executed with the source's, and point the channel anew with SOURCE_AUTO_POSITION=1;"
        " without GTIDs take the source position from the relay event that ends at the applied"
        " coordinate."
    ),
    verify=(REPLICA_STATUS, events_until("relay")),
    evidence=ChannelEvidence,
    cases={
        "torn": Case(
            "The applier is at {relay} in the relay log and at {source} of the source, but what"
            " ends there in the relay log ends at {end} of the source.",
            "{relay} with {source}",
            "Relay_Log_Pos and Exec_Source_Log_Pos",
            "{relay} with {end}",
            "relay log",
        ),
    },
)
def applied_coordinates_paired(e: ChannelEvidence) -> RowAnswer:
    """Both move with the commit of a group."""
    if e.is_gtid_only:
        return Undecided(GTID_ONLY)
    if e.applied is None or e.executed is None:
        return Undecided(NOT_READ)
    if not e.is_followed:
        return Undecided(NO_RELAY)
    answer = judge_pair(e.group, e.applied, e.executed, APPLIED_FORGOTTEN)
    if not isinstance(answer, Broken) or e.read is None or not same_family(e.read, e.executed):
        return answer
    return Undecided(EXECUTED_BEYOND_READ) if e.executed > e.read else answer


def judge_pair(
    group: GroupEnd | None, relay: LogCoordinates, source: LogCoordinates, forgotten: Reason
) -> RowAnswer:
    """Whether relay and source coordinates that were set together denote one event."""
    if group is None:
        return Undecided(forgotten)
    end = group.source_end
    if end is None:
        return Undecided(SOURCE_END_UNKNOWN)
    if end == source or group.has_moved_on:
        return HOLDS
    return Broken("torn", witness=f"{source} instead of {end}", relay=relay, source=source, end=end)


@rule(
    number=31,
    tier=2,
    scope="S",
    family=Family.LOST_BY_RECEIVER,
    severity=Severity.CRITICAL,
    heals="executed",
    claim=(
        "Every group that the applier has passed, in the relay log or by its position in the"
        " source's binary log, is executed."
    ),
    why=(
        "The applied coordinate moves with the commit of a group, or when a group is skipped"
        " because it was executed before; a filtered group is committed empty under its GTID."
        " A passed group that does not count as executed is a change that the replica never made,"
        " or one that it has made and forgotten, as by RESET BINARY LOGS AND GTIDS. The"
        " source's log shows such groups where they were retrieved, or lie between executed"
        " ones, as after a channel that was begun at a wrong position."
    ),
    undecided_when=(
        "the replica status was not read, gtid_executed or the applied coordinate is not"
        " readable, or neither the relay log up to the coordinate nor the source was observed."
        " Where the status does not say how far the applier is, a group that the source has logged"
        " before an executed one, and that is not executed, leaves the run undecided, and so does a"
        " group without a GTID."
        " The last groups before it may still be in commit; the next row decides on them. On a"
        " replica that does not log what it applies, groups that no XID ends may come later;"
        " without its relay log a group that it lacks is undecided as long as it lacks it. So is a"
        " group that lies before a position which may be one of another source, or in a log of the"
        " source that may have begun after it"
    ),
    sources=("WL#2775, REQ-5", "MySQL manual: GTID Life Cycle"),
    remedy=(
        "Compare a row that one of the groups changed. Where the change is missing, stop the"
        " channel and RESET REPLICA: without its relay log a channel with auto-positioning asks"
        " again for every GTID that is not executed; if the source has purged it, rebuild the"
        " replica. Where it is there, as after RESET BINARY LOGS AND GTIDS, asking again would"
        " repeat it: add the GTIDs to gtid_purged instead."
    ),
    verify=(not_executed(), REPLICA_STATUS),
    evidence=ChannelEvidence,
    cases={
        "passed": Case(
            "The applier has passed {missing:gtids} in the relay log, but neither gtid_executed nor"
            " the binary log has {missing:it|them}.",
            "{gtid_executed:gtids}",
            "gtid_executed of log_status",
            "{missing:gtids}",
            "relay log before {applied}",
        ),
        "passed_in_source_log": Case(
            "The applier has passed {witness:gtids}, which instance {source} logged before"
            " {file}:{position}, but gtid_executed of the replica lacks {witness:it|them}.",
            "{executed:gtids}",
            "gtid_executed of the replica",
            "everything before the executed position",
            "binary log of instance {source} up to {file}:{position}",
        ),
        "own_lost": Case(
            "Instance {source} logged {witness:gtids} before {file}:{position}, which are this"
            " server's own, and neither its gtid_executed nor its binary log has {witness:it|them}."
            " The applier has passed {witness:it|them}: a receiver ignores what its own server_id"
            " wrote, so {witness:it does|they do} not come back.",
            "{executed:gtids}",
            "gtid_executed of the replica",
            "everything before the executed position",
            "binary log of instance {source} up to {file}:{position}",
            remedy=(
                "Keep clients off the server: it would give the numbers to other transactions."
                " Rebuild it by a clone or a backup of the server that still has what is lost, or"
                " let it replicate from there under another server_id until it has executed that."
            ),
        ),
    },
)
def applied_relay_gtids_executed(e: ChannelEvidence) -> RowAnswer:
    """The applied coordinate moves under the same lock as gtid_executed grows."""
    if e.passed is None:
        return Undecided(NOT_READ if e.is_followed else NO_RELAY)
    if e.gtid_executed is None:
        return Undecided(EXECUTED_NOT_ACCEPTED)
    missing = e.not_executed()
    if not missing:
        late = e.passed_unlogged - e.gtid_executed
        return Undecided(NOT_LOGGED_YET, late=late) if late else HOLDS
    return Broken(
        "passed",
        witness=missing,
        at=missing,
        missing=missing,
        applied=e.applied,
        gtid_executed=e.gtid_executed,
    )


@rule(
    number=32,
    tier=2,
    scope="S",
    family=Family.LOST_BY_RECEIVER,
    severity=Severity.ERROR,
    heals="held",
    claim=(
        "Retrieved_Gtid_Set is exactly what the relay logs show: PREVIOUS_GTIDS of the oldest"
        " file kept and the complete groups after it."
    ),
    why=(
        "The receiver adds a GTID when it has queued the group's last event, and at start the"
        " set is rebuilt from these same files. A reconnecting receiver asks the source for"
        " what is in neither this set nor gtid_executed: too large a set loses groups. The first"
        " start after a clone empties the set after a head that names what other files held:"
        " nothing that only a head names need be in it, but if a part is, all is."
    ),
    undecided_when=(
        "the replica status was not read, the relay logs were not observed from the oldest"
        " kept file on, a gap lies among them, or the row names none though no RESET REPLICA was"
        " seen"
    ),
    sources=(
        "WL#2775, REQ-4",
        "MySQL manual: SHOW REPLICA STATUS Statement; The Relay Log",
    ),
    remedy=(
        "Compare the set with the relay log (SHOW RELAYLOG EVENTS). Then stop the channel and"
        " RESET REPLICA: it keeps the configuration, and with auto-positioning all that is not"
        " executed is fetched anew."
    ),
    verify=(RECEIVED, sql("SHOW RELAYLOG EVENTS LIMIT 20 FOR CHANNEL {channel:sql};")),
    evidence=ChannelEvidence,
    columns=("retrieved_gtid_set", "journal_retrieved_gtid_set"),
    cases={
        "not_received": Case(
            "Retrieved_Gtid_Set names {wrong:gtids}, which no relay log of the channel holds.",
            "{retrieved:gtids}",
            "Retrieved_Gtid_Set",
            "{received:gtids}",
            "complete groups of the relay log",
        ),
        "lacks": Case(
            "Retrieved_Gtid_Set lacks {wrong:gtids}, which the relay log holds.",
            "{retrieved:gtids}",
            "Retrieved_Gtid_Set",
            "{received:gtids}",
            "complete groups of the relay log",
        ),
        "cut": Case(
            "The relay log held {wrong:gtids} when the server was stopped in order, and after its"
            " start neither the relay log nor Retrieved_Gtid_Set has {wrong:it|them}: a file was"
            " cut.",
            "{retrieved:gtids}",
            "Retrieved_Gtid_Set",
            "{wrong:gtids} as well",
            "complete groups of the relay log before the restart",
            heals="executed",
        ),
    },
)
def retrieved_matches_relay(e: ChannelEvidence) -> RowAnswer:
    """What came in between the reading of the status and the row may be missing from the status.

    The receiver counts a group with its last event, before the journal shows where that event ends.
    """
    if e.retrieved is None:
        return Undecided(NOT_READ)
    if e.journal_retrieved is None:
        return Undecided(NO_RELAY)
    if e.relay_is_empty and e.was_reset is False:
        return Undecided(NO_RESET_SEEN)
    lost = e.cut - e.retrieved
    if e.gtid_executed is not None and lost - e.gtid_executed:
        lost = lost - e.gtid_executed
        return Broken("cut", witness=lost, at=lost, wrong=lost, retrieved=e.retrieved)
    excess = e.retrieved - e.journal_retrieved
    due = e.received_before
    absent = GtidSet.EMPTY if due is None else due - e.retrieved
    if not e.inherited & e.retrieved:
        # The head was written before the relay log was given up: a start after a clone does so.
        absent = absent - e.inherited
    if not excess and not absent:
        return HOLDS
    if excess <= e.forgotten and not absent:
        return Undecided(HEAD_LACKS_EARLIER)
    wrong = excess or absent
    return Broken(
        "not_received" if excess else "lacks",
        witness=wrong,
        at=wrong,
        wrong=wrong,
        retrieved=e.retrieved,
        received=e.journal_retrieved,
    )


@rule(
    number=46,
    tier=3,
    scope="T",
    family=Family.CHANNEL_POSITIONS,
    severity=Severity.CRITICAL,
    heals="log",
    claim=(
        "In one channel lineage neither the flushed relay coordinate nor the executed source"
        " coordinate ever falls, but for the latter where the applier comes to a connection of"
        " the receiver that begins further back."
    ),
    why=(
        "The relay log only grows, and the receiver flushes its end; the applier moves its"
        " coordinate forward with each commit. Only RESET REPLICA, CHANGE REPLICATION SOURCE,"
        " relay log recovery and a clone begin anew. Auto-positioning may step back: the read"
        " coordinate is left out, and the executed one follows the ROTATE that such a"
        " connection begins with."
    ),
    undecided_when=(
        "a coordinate is not readable, the channel has no relay log, no row of this channel"
        " lineage was accepted before, or the base name changed (another source's files); or the"
        " executed one fell, the relay log was not observed, and the channel may ask by GTID set:"
        " a new connection begins further back; or it was perhaps of the source that the channel"
        " had before the journal began"
    ),
    sources=("WL#9452, F-2.5", "WL#2775, REQ-3"),
    remedy=(
        "Check for an old row published again. If the channel itself went back, it was set up"
        " anew unseen by the audit; without GTIDs stop it and look for groups applied"
        " twice."
    ),
    verify=(REPLICA_STATUS, LOG_STATUS),
    evidence=ChannelEvidence,
    cases={
        "fell": Case(
            "{name}: fell from {previous} to {value}.",
            "{value}",
            "{name}, this collection",
            "at least {previous}",
            "last accepted row of the channel",
        ),
    },
)
def channel_positions_monotone(e: ChannelEvidence) -> RowAnswer:
    """Coordinates of another source's files are not compared."""
    known = e.monotone()
    if not known:
        return Undecided(NOT_READ)
    for name, value in known.items():
        previous = e.previous.get(name)
        if same_family(previous, value) and has_fallen(value, previous, e.fallen.get(name)):
            if name == "executed" and not e.is_followed and e.auto_position is not False:
                return Undecided(BY_GTID_SET)
            if name == "executed" and e.previous_may_be_former:
                return Undecided(FORMER_SOURCE)
            return Broken("fell", witness=value, name=_SHOWN[name], value=value, previous=previous)
    return HOLDS
