"""Everything that the audit of one instance remembers, and how its parts are made.

What is remembered is as small as interval lists and the last few events. The fields are the state,
in the order in which they are read: a part may need those before it. When records are missing,
every part begins anew, whatever it remembers: nothing from before bounds what follows.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final

from tallystick.coordinates.audit.baselines import Baselines
from tallystick.coordinates.audit.journal_clock import JournalClock
from tallystick.coordinates.audit.observer_clock import TOLERANCE_US
from tallystick.coordinates.audit.recent_records import RecentRecords
from tallystick.coordinates.audit.reporter import Reporter
from tallystick.coordinates.audit.server import Server
from tallystick.coordinates.events.log_status import Logging, ServerState, read_log_status
from tallystick.coordinates.logs.binlog_reader import BinlogReader
from tallystick.coordinates.logs.event_fields import EventFields
from tallystick.coordinates.logs.redo_log import RedoLogReader
from tallystick.coordinates.logs.relay_reader import RelayReader
from tallystick.coordinates.rules.applied_groups import AppliedGroups
from tallystick.coordinates.rules.backup_images import BackupImages
from tallystick.coordinates.rules.backup_lock_freeze import BackupLockFreeze
from tallystick.coordinates.rules.backup_lock_steps import BackupLockSteps
from tallystick.coordinates.rules.backup_locks import BackupLockProtocol
from tallystick.coordinates.rules.clone import CloneProtocol
from tallystick.coordinates.rules.clone_steps import CloneSteps
from tallystick.coordinates.rules.clone_tables import CloneTables
from tallystick.coordinates.rules.collection import CollectionProtocol
from tallystick.coordinates.rules.collection_steps import CollectionSteps
from tallystick.coordinates.rules.critical_zone import CriticalZoneProtocol
from tallystick.coordinates.rules.gtid_persistence import GtidPersistence
from tallystick.coordinates.rules.gtid_persister_steps import PersisterSteps
from tallystick.coordinates.rules.info_repositories import InfoRepositories
from tallystick.coordinates.rules.info_write_steps import InfoWriteSteps
from tallystick.coordinates.rules.online_backup import EngineLockProtocol
from tallystick.coordinates.rules.online_backup_steps import OnlineBackupSteps
from tallystick.coordinates.rules.recovery_steps import RecoverySteps
from tallystick.coordinates.rules.redo_positions import RedoPositions, RedoSeen
from tallystick.coordinates.state_codec import TRANSIENT
from tallystick.coordinates.values.binlog import LogCoordinates

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallystick.coordinates.audit.cut import Cut
    from tallystick.coordinates.rules.outcomes import Undecided
    from tallystick.coordinates.rules.protocol_steps import Unended
    from tallystick.coordinates.rules.registry import Rule

GOES_ON: Final = {"lost records": "goes on"}
"""Metadata of fields that are kept when records are missing; all others are made anew."""


@dataclass(slots=True, eq=False)
class WaitingRow:
    """One ``log_status`` record at its journal position, read once; it may wait for the journal."""

    body: dict[str, Any]
    epoch: int
    sequence: int
    ts: int
    tags: bool
    logging: Logging
    redo: RedoSeen
    log_before: LogCoordinates | None = None
    """Where the binary log ended when the row was asked for, or, where that is not known, at its
    position in the journal."""
    is_behind_reset: bool = False
    """Whether the binary log began anew since it was asked for."""
    begun_anew: tuple[str, ...] = ()
    """Channels that did so."""
    may_name_former: tuple[str, ...] = ()
    """Channels of which it may name the relay log from before CHANGE REPLICATION SOURCE."""
    state: ServerState | None = field(init=False, metadata=TRANSIENT)

    def __post_init__(self) -> None:
        has_row = self.body.get("row") is not None
        self.state = (
            read_log_status(self.body, tags=self.tags, logging=self.logging) if has_row else None
        )
        if self.state is None:
            return
        # What is read beside the row may be from before that.
        if self.is_behind_reset:
            self.state.purged = self.state.binary_logs = None
        channels = self.state.channels
        for name in channels.keys() & self.begun_anew:
            known = channels[name]
            went_on = self.state.channels_went_on
            channels[name] = known.without_tables() if went_on else known.of_row_alone()
        for name in channels.keys() & self.may_name_former:
            channels[name].may_name_former = True

    @property
    def surely_at(self) -> int | None:
        """A moment before which nothing of it was read, by any clock, if one is known."""
        asked_at: int | None = self.body["asked_at"]
        if asked_at is None or self.body["received_at"] is not None:
            return asked_at
        return asked_at - TOLERANCE_US  # it is by another clock, which may be ahead


@dataclass(slots=True, eq=False)
class InstanceState:
    """What was read of one instance's journal so far.

    Attributes:
        reporter: Takes what is found.
        server: What the server said of itself; it is saved apart.
        baselines: Accepted values of rows, and the sources of channels.
        binlog: The binary log.
        event_fields: Which fields its events carry.
        relays: The relay log of each channel.
        redo: InnoDB's redo log.
        redo_positions: LSNs of backups, clones, locks and samples.
        collections: Collections of log_status that are open.
        collection_steps: Whether each of them takes all its steps.
        zones: The critical zone of online backups.
        engine_locks: The locks of engines at a validity point.
        images: Backup images and the validity points that they are of.
        recovery_steps: Whether a recovery from one is recorded with all its steps.
        backup_lock_freeze: What LOCK TABLES FOR BACKUP and LOCK BINLOG FOR BACKUP freeze.
        backup_locks: The sessions that hold these locks.
        online_backup_steps, backup_lock_steps: Whether backups take all their steps.
        clones: Clones, as donor and as recipient.
        clone_steps: Whether they take all their steps.
        clone_tables: What clone_status and clone_progress say of them.
        persister_steps, persistence: How GTIDs come into mysql.gtid_executed.
        repositories, info_write_steps: What was written to the replication info repositories.
        applied: Which anonymous transactions were received, and which were executed.
        waiting: Rows whose coordinates the journal has not reached.
        cuts: Of the rows judged in this step.
        epoch, next_sequence: Where the journal goes on.
        clock: Its times, as far as they can be believed.
        shown_ts: The time that the present server record has.
        recent: The records that were read last.
        stale_epoch: The older epoch of which records were noted last, -1 none since this one began.
        answered: Of the last collections answered, the epoch of the row.
        ts: The latest time read.
        event_findings: How many findings the events after the last row brought.
        data_lineage: Grows when the data is replaced.
        stopped_clean: Whether the stop since the last start is said to be clean, None: no stop was
            seen.
        stopped_ts: When that stop was.
        reset_ts: Time of the last RESET of the binary log, -1 before the first.
        purged_ts: Time of its last purge, -1 before the first.
        answered_ts: Time of the last log_status row, -1 before the first.
        received_ts: When the observer had the request of the last row that says so, -1 before the
            first.
        has_lost_records: Whether records from before what was read are missing: logs are not new.
        first_lineage: Number of the first lineage of each log that is read from here on.
    """

    reporter: Reporter = field(metadata=GOES_ON)
    server: Server = field(default_factory=Server, metadata=TRANSIENT | GOES_ON)
    baselines: Baselines = field(default_factory=Baselines)
    binlog: BinlogReader = field(init=False)
    event_fields: EventFields = field(default_factory=EventFields)
    relays: dict[str, RelayReader] = field(default_factory=dict)
    redo: RedoLogReader = field(init=False)
    redo_positions: RedoPositions = field(init=False)
    collections: CollectionProtocol = field(init=False)
    collection_steps: CollectionSteps = field(init=False)
    zones: CriticalZoneProtocol = field(init=False)
    engine_locks: EngineLockProtocol = field(init=False)
    backup_lock_freeze: BackupLockFreeze = field(init=False)
    backup_locks: BackupLockProtocol = field(init=False)
    images: BackupImages = field(init=False)
    recovery_steps: RecoverySteps = field(init=False)
    online_backup_steps: OnlineBackupSteps = field(init=False)
    backup_lock_steps: BackupLockSteps = field(init=False)
    clones: CloneProtocol = field(init=False)
    clone_steps: CloneSteps = field(init=False)
    clone_tables: CloneTables = field(init=False)
    persister_steps: PersisterSteps = field(init=False)
    persistence: GtidPersistence = field(init=False)
    repositories: InfoRepositories = field(init=False)
    info_write_steps: InfoWriteSteps = field(init=False)
    applied: AppliedGroups = field(default_factory=AppliedGroups)
    waiting: list[WaitingRow] = field(default_factory=list)
    cuts: list[Cut] = field(default_factory=list, metadata=TRANSIENT | GOES_ON)
    epoch: int = field(default=-1, metadata=GOES_ON)
    next_sequence: int = field(default=0, metadata=GOES_ON)
    clock: JournalClock = field(default_factory=JournalClock, metadata=GOES_ON)
    shown_ts: int = field(default=0, metadata=TRANSIENT | GOES_ON)
    recent: RecentRecords = field(default_factory=RecentRecords, metadata=GOES_ON)
    stale_epoch: int = field(default=-1, metadata=GOES_ON)
    answered: dict[str, int] = field(default_factory=dict, metadata=GOES_ON)
    ts: int = field(default=0, metadata=GOES_ON)
    answered_ts: int = -1
    received_ts: int = -1
    reset_ts: int = -1
    purged_ts: int = -1
    event_findings: int = field(default=0, metadata=GOES_ON)
    data_lineage: int = field(default=0, metadata=GOES_ON)
    stopped_clean: bool | None = None
    stopped_ts: int = -1
    has_lost_records: bool = field(default=False, metadata=GOES_ON)
    first_lineage: int = field(default=0, metadata=GOES_ON)

    def __post_init__(self) -> None:
        reporter = self.reporter
        self.binlog = BinlogReader(reporter, self.server)
        self.redo = RedoLogReader(reporter, self.server)
        self.redo_positions = RedoPositions(reporter, self.redo, self.binlog)
        self.collections = CollectionProtocol(reporter)
        self.collection_steps = CollectionSteps(reporter)
        self.zones = CriticalZoneProtocol(reporter)
        self.engine_locks = EngineLockProtocol(reporter)
        self.backup_lock_freeze = BackupLockFreeze(reporter)
        self.backup_locks = BackupLockProtocol(reporter, self.backup_lock_freeze)
        self.images = BackupImages(reporter, self.server, self.binlog, self.baselines, self.relays)
        self.recovery_steps = RecoverySteps(reporter)
        self.online_backup_steps = OnlineBackupSteps(reporter, self.backup_locks)
        self.backup_lock_steps = BackupLockSteps(reporter)
        self.clones = CloneProtocol(reporter)
        self.clone_steps = CloneSteps(reporter)
        self.clone_tables = CloneTables(reporter)
        self.persister_steps = PersisterSteps(reporter)
        self.persistence = GtidPersistence(reporter, self.persister_steps)
        self.repositories = InfoRepositories(reporter)
        self.info_write_steps = InfoWriteSteps(reporter)

    def begin_anew(self, *, settings_are_known: bool) -> None:
        """Records are missing: forget everything but the fields that go on.

        Args:
            settings_are_known: Whether the settings of the server and the sources of its channels
                are still those that were read.
        """
        channels = self.baselines.channels
        self.reporter.time_anew()
        self.has_lost_records = True
        relay_lineages = [relay.lineage for relay in self.relays.values()]
        self.first_lineage = 1 + max(self.binlog.lineage, *relay_lineages, self.first_lineage)
        for part in fields(InstanceState):
            if part.init and part.metadata.get("lost records") != "goes on":
                make: Any = part.default_factory
                setattr(self, part.name, part.default if make is MISSING else make())
        if settings_are_known:
            for name, channel in channels.items():
                self.baselines.channels[name] = channel.without_values()
        else:
            self.server = Server()
            self.baselines.may_filter = True
        self.__post_init__()
        self.binlog.lineage = self.first_lineage
        self.binlog.mark_gap()
        for name in self.baselines.channels:
            self.relay(name)  # of which rows may name one that was removed meanwhile

    def time_anew(self, ts: int) -> None:
        """How much time has passed is not known: what is timed counts from now on."""
        self.reporter.time_anew()
        self.collections.time_anew(ts)
        self.collection_steps.time_anew(ts)
        self.engine_locks.time_anew()
        self.clones.time_anew()
        self.persistence.time_anew(ts)
        self.binlog.window.time_anew(ts)
        self.baselines.unsettled = [(ts, gtids) for _, gtids in self.baselines.unsettled]

    def forgotten_steps(self) -> Iterator[tuple[Rule, Undecided]]:
        """What protocols leave undecided, as a limit dropped what may yet break a rule."""
        for forgotten in (
            self.collections.forgotten,
            self.collection_steps.forgotten,
            self.zones.forgotten,
            self.zones.outside,
            self.engine_locks.forgotten,
            self.online_backup_steps.forgotten,
            self.online_backup_steps.forgotten_backups,
            self.backup_locks.forgotten,
            self.clone_steps.forgotten,
            self.persistence.forgotten,
            self.persistence.forgotten_gaps,
        ):
            yield from forgotten.undecided()

    def unended_steps(self) -> Iterator[Unended]:
        """What has begun and not ended."""
        yield from self.collection_steps.unended()
        yield from self.online_backup_steps.unended()
        yield from self.backup_locks.unended()
        yield from self.backup_lock_steps.unended()
        yield from self.clone_steps.unended()
        yield from self.recovery_steps.unended()

    @property
    def instance_id(self) -> str:
        """The instance."""
        return self.reporter.instance_id

    def relay(self, name: str) -> RelayReader:
        """The reader of a channel's relay log, begun when new."""
        relay = self.relays.get(name)
        if relay is None:
            relay = self.relays[name] = RelayReader(self.reporter, self.server, name)
            relay.lineage = self.first_lineage
            if self.has_lost_records:
                relay.mark_gap()
        return relay

    @property
    def has_run(self) -> bool:
        """Whether something was read that a server writes: a start that comes then is no first."""
        has_written = self.redo.written >= 0 or self.repositories.has_writes
        return has_written or self.binlog.base_name is not None or bool(self.relays)

    def end_of_binlog(self) -> LogCoordinates | None:
        """Where the binary log ends, None when that is not known."""
        if self.binlog.base_name is None or self.binlog.end < 0:
            return None
        return LogCoordinates(self.binlog.base_name, self.binlog.file_number, self.binlog.end)

    def is_known_up_to(self, row: WaitingRow) -> bool:
        """Whether the journal shows everything that the row names."""
        state = row.state
        if state is None:
            return True
        position, binlog = state.position, self.binlog
        if position is not None and binlog.base_name == position.base_name and binlog.end >= 0:
            here = binlog.file_number, binlog.end
            if here < (position.file_number, position.position):
                return False
        for name, channel in state.channels.items():
            relay = self.relays.get(name)
            flushed = channel.relay
            if relay is None or flushed is None or relay.end < 0 or channel.may_name_former:
                continue
            if relay.base_name == flushed.base_name and (relay.file_number, relay.end) < (
                flushed.file_number,
                flushed.position,
            ):
                return False
        return True
