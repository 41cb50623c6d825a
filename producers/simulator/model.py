"""The state of simulated servers: binary logs, relay logs, channels, InnoDB.

Data only: ``binary_log``, ``relay_log``, ``receiver``, ``applier``, ``commit`` and ``innodb`` are
what changes it. All offsets are 64-bit byte counts; all times are microseconds of virtual time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.values.binlog import (
    CHECKSUM_LENGTH,
    EVENT_HEADER_LENGTH,
    format_log_file_name,
)
from tallystick.producers.simulator.backup_safe_binlog.lock_state import BackupLocks, HeaderUpdates
from tallystick.producers.simulator.clone.gtid_persister import GtidPersister
from tallystick.producers.simulator.clone.rollback_segments import TrxSys
from tallystick.producers.simulator.gtid_intervals import GtidIntervals
from tallystick.producers.simulator.log_position_lock.latches import Latches
from tallystick.producers.simulator.log_position_lock.outer_locks import OuterLocks
from tallystick.producers.simulator.log_position_lock.storage_engines import Handlerton, compiled_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallystick.producers.simulator.backup_safe_binlog.galera_node import GaleraNode
    from tallystick.producers.simulator.clone.clone_status import CloneStatus
    from tallystick.producers.simulator.clone.donor import Donation
    from tallystick.producers.simulator.clone.gtid_persistence import CrashPoint
    from tallystick.producers.simulator.clone.recipient import Clone
    from tallystick.producers.simulator.journal_writer import JournalWriter
    from tallystick.producers.simulator.log_position_lock.log_status_query import LogStatusQuery
    from tallystick.producers.simulator.log_position_lock.restore import LogCopy
    from tallystick.producers.simulator.online_backup.backup_protocol import Backup
    from tallystick.producers.simulator.online_backup.backup_synchronization import (
        BackupSynchronization,
        Thread,
    )
    from tallystick.producers.simulator.online_backup.tables import TableData
    from tallystick.producers.simulator.replication_info.crash_points import CrashPlan
    from tallystick.producers.simulator.replication_info.master_info import MasterInfo
    from tallystick.producers.simulator.replication_info.relay_log_info import RelayLogInfo
    from tallystick.producers.simulator.replication_info.rpl_info_file import InfoFile
    from tallystick.producers.simulator.replication_info.rpl_info_table_access import SystemTable
    from tallystick.producers.simulator.replication_info.worker_info import Worker

BodyEvent = tuple[int, int, int, int]
"""An event inside a group: type code, ``QueryVerb``, length, checksum."""

PlacedEvent = tuple[int, int, int, int, int]
"""An event of a group at its place in one log: type, ``QueryVerb``, start, length, checksum."""


class GroupKind(Enum):
    """How a group changes data, and so how it is written."""

    INNODB = "innodb"
    """GTID, BEGIN, rows, XID."""
    NON_TRANSACTIONAL = "non_transactional"
    """GTID, BEGIN, rows, QUERY COMMIT; no redo."""
    DDL = "ddl"
    """GTID and one statement."""
    EMPTY = "empty"
    """GTID, BEGIN, COMMIT: an injected or filtered transaction."""
    XA_PREPARE = "xa_prepare"
    """GTID, XA START, rows, XA END, XA_PREPARE; its rows stay locked until XA_COMMIT."""
    XA_COMMIT = "xa_commit"
    """GTID and the statement XA COMMIT."""
    XA_ROLLBACK = "xa_rollback"
    """GTID and the statement XA ROLLBACK: of a prepared transaction it is logged as well."""
    XA_ONE_PHASE = "xa_one_phase"
    """XA COMMIT ... ONE PHASE: written as XA_PREPARE, and committed at once."""
    COMPRESSED = "compressed"
    """GTID and one TRANSACTION_PAYLOAD."""
    MIXED = "mixed"
    """GTID, BEGIN, rows of InnoDB and of MyISAM, XID."""
    ROLLED_BACK = "rolled_back"
    """GTID, BEGIN, rows of MyISAM, QUERY ROLLBACK: what could not be rolled back is logged."""


@dataclass(slots=True, eq=False)
class Group:
    """One logged transaction, the same object in every log that holds it.

    Attributes:
        sid: ``uuid`` or ``uuid:tag``; None for an anonymous group.
        gno: -1 for an anonymous group.
        server_id: Of the server where it was first committed.
        original_commit_timestamp: When it was first committed.
        kind: How it is written.
        body: Its events after the GTID event.
        redo_length: Bytes of redo its commit writes; 0 when InnoDB is not touched.
        xa_of: The group that an XA_COMMIT or XA_ROLLBACK ends.
        is_anonymous: Committed without a GTID: nobody gives it one later.
    """

    sid: str | None
    gno: int
    server_id: int
    original_commit_timestamp: int
    kind: GroupKind
    body: tuple[BodyEvent, ...]
    redo_length: int
    xa_of: Group | None = None
    is_anonymous: bool = False

    @property
    def body_length(self) -> int:
        """Bytes of all events after the GTID event."""
        return sum(event[2] for event in self.body)


@dataclass(slots=True, eq=False)
class LoggedGroup:
    """A group at its place in one binary log file."""

    group: Group
    start: int
    gtid_length: int
    """Bytes of the GTID event: 79 on the origin, 86 where it was replicated, +n for a tag."""
    end: int
    last_committed: int
    sequence_number: int
    gtid_checksum: int
    transaction_length: int
    """What the GTID event claims; the bytes of the whole group."""

    def events(self) -> Iterator[PlacedEvent]:
        """The events after the GTID event, each with its place."""
        start = self.start + self.gtid_length
        for event_type, query, length, checksum in self.group.body:
            yield event_type, query, start, length, checksum
            start += length


@dataclass(slots=True, eq=False)
class FramingEvent:
    """An event of a log file that belongs to no group."""

    type: int
    start: int
    length: int
    checksum: int
    next_file: str | None = None
    next_position: int = -1

    @property
    def end(self) -> int:
        """Offset behind the event."""
        return self.start + self.length


@dataclass(slots=True, eq=False)
class BinlogFile:
    """One binary log file and everything written to it."""

    base_name: str
    number: int
    previous_gtids: GtidIntervals
    entries: list[LoggedGroup | FramingEvent] = field(default_factory=list)
    end: int = 4
    sequence_number: int = 0
    """Of the last group."""
    is_closed: bool = False
    name: str = field(init=False)
    """File name without a directory."""

    def __post_init__(self) -> None:
        self.name = format_log_file_name(self.base_name, self.number)

    def groups(self) -> list[LoggedGroup]:
        """The groups in log order."""
        return [entry for entry in self.entries if isinstance(entry, LoggedGroup)]


@dataclass(slots=True, eq=False)
class BinaryLog:
    """The binary log of one instance: its retained files and the set of each."""

    base_name: str
    files: list[BinlogFile] = field(default_factory=list)
    lineage: int = 0
    """How many times RESET, clone or restore began the log anew."""
    archive: list[tuple[int, BinlogFile]] | None = None
    """Every file with its lineage, purged or not, kept elsewhere; None: nobody does that."""

    @property
    def active(self) -> BinlogFile:
        """The file that is written."""
        return self.files[-1]

    @property
    def position(self) -> tuple[str, int]:
        """Binary log coordinate P: active file and its end."""
        return self.files[-1].name, self.files[-1].end

    def file_of_number(self, number: int) -> BinlogFile | None:
        """The retained file of that number."""
        return next((file for file in reversed(self.files) if file.number == number), None)


@dataclass(slots=True, eq=False)
class Innodb:
    """Log sequence numbers of the redo log, and the coordinates in the TRX_SYS page."""

    lsn: int
    written: int
    flushed: int
    checkpoint: int
    trx_sys: tuple[str, int] = ("", 0)
    """Binary log coordinates last written into the TRX_SYS page."""
    transactions: TrxSys = field(default_factory=TrxSys)
    """Transaction numbers, rollback segments and their undo logs."""


@dataclass(slots=True, eq=False)
class QueuedGroup:
    """A group in a relay log."""

    logged: LoggedGroup
    """Where it stands in the source's binary log."""
    source_file: str
    relay_file: RelayFile
    start: int
    events_received: int = 0
    """How many of its events are in the relay log; the GTID event is the first."""
    end: int = 0
    """Relay offset behind the last event received."""
    is_applied: bool = False

    @property
    def is_complete(self) -> bool:
        """Whether all its events are in the relay log."""
        return self.events_received == len(self.logged.group.body) + 1


@dataclass(slots=True, eq=False)
class RelayFile:
    """One relay log file."""

    base_name: str
    number: int
    previous_gtids: GtidIntervals
    end: int = 4
    event_ends: list[int] = field(default_factory=list)
    groups: list[QueuedGroup] = field(default_factory=list)
    framings: list[QueuedFraming] = field(default_factory=list)
    name: str = field(init=False)
    """File name without a directory."""

    def __post_init__(self) -> None:
        self.name = format_log_file_name(self.base_name, self.number)


@dataclass(slots=True, eq=False)
class QueuedFraming:
    """An event of a relay log that is no part of a group and moves the applier's positions."""

    relay_file: RelayFile
    end: int
    source: tuple[str, int] | None
    """The source coordinate that a ROTATE tells."""


@dataclass(slots=True, eq=False)
class Channel:
    """A replication channel: receiver, relay log, applier and their accounts of where they are.

    Attributes:
        name: Lower case; ``""`` is the default channel.
        replica: The instance that owns the channel.
        source: The instance it reads from.
        relay_files: Retained relay log files, oldest first; empty after RESET REPLICA.
        read: Rd_c, (Master_Log_File, Read_Master_Log_Pos).
        flushed: F_c, the relay coordinate at the last flush of the master info object.
        retrieved: Retrieved_Gtid_Set.
        applied: A_c, (Relay_Log_File, Relay_Log_Pos).
        executed: Ex_c, (Relay_Master_Log_File, Exec_Master_Log_Pos).
        mi: Master_info: what is stored of the receiver, and where.
        rli: Relay_log_info: what is stored of the applier, and where.
        pending: Relay content not yet applied, oldest first (an incomplete last group included).
    """

    name: str
    replica: Instance
    source: Instance
    relay_base_name: str
    auto_position: bool = True
    relay_files: list[RelayFile] = field(default_factory=list)
    receiver_runs: bool = False
    applier_runs: bool = False
    is_connected: bool = False
    is_configured: bool = True
    io_errno: int = 0
    sql_errno: int = 0
    """Why the applier stopped; 0 while it runs and behind a STOP."""
    read: tuple[str, int] = ("", 4)
    flushed: tuple[str, int] = ("", 0)
    retrieved: GtidIntervals = field(default_factory=GtidIntervals)
    applied: tuple[str, int] = ("", 0)
    executed: tuple[str, int] = ("", 0)
    mi: MasterInfo = field(init=False)
    rli: RelayLogInfo = field(init=False)
    workers: list[Worker] = field(default_factory=list)
    """Workers of the applier; none while one thread applies."""
    next_worker: int = 0
    """Index of the worker whose turn is next."""
    init_error: int = 0
    """Why a start did not bring the channel up: its repositories could not be initialised."""
    relay_synced: tuple[int, int] = (0, 0)
    """Number of the relay file, and up to where it outlives a power cut."""
    relay_events_since_sync: int = 0
    group_end: tuple[str, int, str, int] = ("", 4, "", 0)
    """Relay and source coordinate after the last applied group, or where applying began."""
    last_checkpoint: int = 0
    """When the coordinator of a multi-threaded applier last moved its low-water mark."""
    pending: list[QueuedGroup | QueuedFraming] = field(default_factory=list)
    excluded: GtidIntervals = field(default_factory=GtidIntervals)
    """What the receiver told the source it has, at the last connect with auto-position."""
    cursor_file: int = 0
    """Number of the source's binary log file that the dump thread reads."""
    cursor_entry: int = 0
    """Index of the next entry of that file."""
    cursor_lineage: int = 0
    """Lineage of the source's binary log that the cursor belongs to."""
    receive_is_scheduled: bool = False
    apply_is_scheduled: bool = False
    commit_awaited: tuple[int, int] | None = None
    """Generation and time of an applier that waits for the commit stage of its group."""
    generation: int = 0
    """Raised by every act that makes scheduled work of the threads void."""
    ignore_server_ids: tuple[int, ...] = ()
    semi_sync: bool = False
    starts_at_boot: bool = False
    """Whether replication ran when the replica went down."""
    number: int = 0
    """Id of the channel's rows."""


@dataclass(slots=True, eq=False)
class Pending:
    """A group in the binary log between flush stage and commit stage (``gtid_owned``)."""

    logged: LoggedGroup
    file: BinlogFile
    channel: Channel | None
    queued: QueuedGroup | None
    thread: Thread | None = None
    """Who executes the critical sequence, where the server has a critical zone."""


@dataclass(frozen=True, slots=True)
class OutOfMemory:
    """Where one collection fails with 3722."""

    at: str
    """``instantiate``: before anything but the map is locked; ``collect``: with all locks held."""
    resource: str
    """As in the journal's lock steps."""


@dataclass(slots=True, eq=False)
class Instance:
    """One running server.

    Attributes:
        instance_id: Our own key.
        executed: X, gtid_executed.
        purged: U, gtid_purged.
        table: Rows of mysql.gtid_executed.
        table_only: GTIDs of the table that no binary log ever held.
        gtids_saved: GTIDs that the next rotation need not save into the table.
        logged: Every GTID in X or waiting for its commit stage: where AUTOMATIC looks for the next.
        in_commit: Groups between flush and commit stage, in log order.
        blocked_until: No engine act touches the instance before this moment.
    """

    instance_id: str
    server_uuid: str
    server_id: int
    version: str
    journal: JournalWriter
    binlog: BinaryLog
    innodb: Innodb
    variables: dict[str, Any]
    channels: dict[str, Channel] = field(default_factory=dict)
    executed: GtidIntervals = field(default_factory=GtidIntervals)
    purged: GtidIntervals = field(default_factory=GtidIntervals)
    table: GtidIntervals = field(default_factory=GtidIntervals)
    table_only: GtidIntervals = field(default_factory=GtidIntervals)
    gtids_saved: GtidIntervals = field(default_factory=GtidIntervals)
    logged: GtidIntervals = field(default_factory=GtidIntervals)
    in_commit: list[Pending] = field(default_factory=list)
    prepared_xa: list[Group] = field(default_factory=list)
    subscribers: list[Channel] = field(default_factory=list)
    """Channels of other instances that read this binary log."""
    is_running: bool = True
    last_commit_ts: int = 0
    """Commit timestamp of the last group that a client wrote here."""
    rotation_is_due: bool = False
    """A group crossed ``max_binlog_size``."""
    writes: bool = False
    """Whether clients write here (the role of a source)."""
    super_read_only: bool = False
    """Statements of clients fail, whoever sends them: a source that was demoted."""
    blocked_until: int = 0
    commit_generation: int = 0
    """Raised by crash and RESET: scheduled commit stages become void."""
    privileges: str = "all"
    """``all``, ``no_select`` (1142), ``no_backup_admin`` (1227)."""
    restored_from: LogCopy | None = None
    """What the next start finds instead of the server's own data."""
    outer_locks: OuterLocks | None = None
    """What a backup holds around its collection."""
    backup_locks: BackupLocks = field(default_factory=BackupLocks)
    backups_begun: int = 0
    galera: GaleraNode | None = None
    header_updates: HeaderUpdates = HeaderUpdates.NEVER
    """When binary log coordinates are written into the header of InnoDB."""
    tables: TableData | None = None
    """Content of the tables, where a scenario asks for it."""
    backup_synchronization: BackupSynchronization | None = None
    """The critical zone, where a scenario asks for it."""
    backup: Backup | None = None
    """The backup that runs, on a server that has a critical zone."""
    clone: Clone | None = None
    """The clone that this instance is the recipient of, while it runs."""
    clone_status: CloneStatus | None = None
    """Of the last clone that was made here."""
    donation: Donation | None = None
    """The clone that this instance is the donor of, while it copies."""
    awaits_clone: bool = False
    """Whether an operator keeps it out of replication until a clone has succeeded."""
    persister: GtidPersister = field(default_factory=GtidPersister)
    """Memory of InnoDB's GTID persister."""
    tells_gtid_persister: bool = False
    """Whether the journal tells what the persister and purge do."""
    crash_at: CrashPoint | None = None
    """The step of GTID persistence before which the server will crash."""
    is_collecting: bool = False
    """Whether a collector reads here: it asks one instance one collection after the other."""
    out_of_memory: OutOfMemory | None = None
    """Where the next collection gets no memory."""
    latches: Latches = field(default_factory=Latches)
    """What a collection holds."""
    waiting_queries: list[LogStatusQuery] = field(default_factory=list)
    """Sessions that wait for LOCK_collect_instance_log, oldest first."""
    storage_engines: dict[str, Handlerton] = field(default_factory=compiled_in)
    """Installed and ready plugins, in the order in which they are listed."""
    info_tables: dict[str, SystemTable] = field(default_factory=dict)
    """Replication info tables by name."""
    info_files: dict[str, InfoFile] = field(default_factory=dict)
    """Replication info files by name."""
    crash_plan: CrashPlan | None = None
    """The step of replication at which the instance is to die."""
    max_binlog_size: int = 1 << 30
    log_bin: bool = True
    """Mirror of ``variables["log_bin"]`` for the hot path."""
    gtid_mode: str = "ON"
    """Mirror of ``variables["gtid_mode"]``."""
    automatic_sid: str = field(init=False)
    """The sid that GTID_NEXT = AUTOMATIC numbers: own UUID, tagged UUID or group name."""
    gno_block: int = 1
    """First GNO of the block that Group Replication handed out; 1 without it."""

    def __post_init__(self) -> None:
        self.automatic_sid = self.server_uuid

    def __repr__(self) -> str:
        return f"Instance({self.instance_id!r})"


def event_length(payload: int) -> int:
    """Length of an event with a body of ``payload`` bytes."""
    return EVENT_HEADER_LENGTH + payload + CHECKSUM_LENGTH
