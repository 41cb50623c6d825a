"""Everything that the audit of one instance remembers, and how it becomes bytes.

What is remembered is as small as interval lists and the last few events. A field that a later
version adds is read with a default that means "not known", so that a running job goes on from the
state that it has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from tallystick.coordinates.audit.baselines import Baselines
from tallystick.coordinates.audit.packing import pack, unpack
from tallystick.coordinates.audit.reporter import Reporter
from tallystick.coordinates.audit.server import Server
from tallystick.coordinates.events.log_status import ServerState, read_log_status
from tallystick.coordinates.logs.binlog_reader import BinlogReader
from tallystick.coordinates.logs.relay_reader import RelayReader
from tallystick.coordinates.rules.judging.applied_groups import AppliedGroups
from tallystick.coordinates.rules.judging.backup_image import BackupImages
from tallystick.coordinates.rules.judging.backup_locks import BackupLockProtocol
from tallystick.coordinates.rules.judging.clone_protocol import CloneProtocol
from tallystick.coordinates.rules.judging.clone_tables import CloneTables
from tallystick.coordinates.rules.judging.collection_protocol import CollectionProtocol
from tallystick.coordinates.rules.judging.critical_zone import CriticalZoneProtocol
from tallystick.coordinates.rules.judging.engine_locks import EngineLockProtocol
from tallystick.coordinates.rules.judging.gtid_persister import GtidPersistence
from tallystick.coordinates.rules.judging.info_repositories import InfoRepositories
from tallystick.coordinates.rules.judging.metadata_lock import MetadataLockProtocol
from tallystick.coordinates.values.binlog import LogCoordinates

if TYPE_CHECKING:
    from tallystick.coordinates.audit.cut import Cut

_MAGIC = b"TSIA"
_VERSION = 1
StateT = TypeVar("StateT", bound="InstanceState")


class WaitingRow:
    """One ``log_status`` record at its journal place, read once; it may wait for the journal."""

    __slots__ = ("body", "epoch", "sequence", "state", "tags", "ts")

    def __init__(
        self, body: dict[str, Any], epoch: int, sequence: int, ts: int, tags: bool
    ) -> None:
        self.body = body
        self.epoch = epoch
        self.sequence = sequence
        self.ts = ts
        self.tags = tags
        has_row = body.get("row") is not None
        self.state: ServerState | None = read_log_status(body, tags=tags) if has_row else None

    def dump(self) -> list[Any]:
        """For the state bytes."""
        return [self.body, self.epoch, self.sequence, self.ts, self.tags]

    @classmethod
    def load(cls, document: list[Any]) -> WaitingRow:
        """Inverse of ``dump``."""
        return cls(*document)


class InstanceState:
    """What was read of one instance's journal so far.

    Attributes:
        reporter: Takes what is found.
        server: What the server said of itself.
        history: The baselines of accepted rows.
        binlog: The binary log.
        relays: The relay log of each channel.
        collections: Collections of log_status that are open.
        zones: The critical zone of online backups.
        engine_locks: The locks of engines at a validity point.
        metadata_lock: The lock of a backup against DDL.
        images: Backup images and the validity points that they are of.
        backup_locks: LOCK TABLES FOR BACKUP, LOCK BINLOG FOR BACKUP.
        clones: Clones, as donor and as recipient.
        clone_tables: What clone_status and clone_progress say of them.
        persistence: How GTIDs come into mysql.gtid_executed.
        repositories: What was written to the replication info repositories.
        applied: Which anonymous transactions were received, and which were executed.
        waiting: Rows whose coordinates the journal has not reached.
        cuts: Of the rows judged in this step.
        epoch, next_sequence: Where the journal goes on.
        ts: The latest time read.
        event_findings: How many findings the events behind the last row brought.
        data_lineage: Grows when the data is replaced.
        has_stopped: Whether the server was shut down since its last start.
    """

    def __init__(self, instance_id: str, disabled: frozenset[str] = frozenset()) -> None:
        self.instance_id = instance_id
        self.reporter = Reporter(instance_id, disabled)
        self.server = Server()
        self.baselines = Baselines()
        self.binlog = BinlogReader(self.reporter, self.server)
        self.relays: dict[str, RelayReader] = {}
        self.collections = CollectionProtocol(self.reporter)
        self.zones = CriticalZoneProtocol(self.reporter)
        self.engine_locks = EngineLockProtocol(self.reporter)
        self.metadata_lock = MetadataLockProtocol(self.reporter)
        self.backup_locks = BackupLockProtocol(self.reporter)
        self.images = BackupImages(
            self.reporter, self.server, self.binlog, self.baselines, self.relays
        )
        self.clones = CloneProtocol(self.reporter)
        self.clone_tables = CloneTables(self.reporter)
        self.persistence = GtidPersistence(self.reporter)
        self.repositories = InfoRepositories(self.reporter)
        self.applied = AppliedGroups()
        self.waiting: list[WaitingRow] = []
        self.cuts: list[Cut] = []
        self.epoch = -1
        self.next_sequence = 0
        self.ts = 0
        self.event_findings = 0
        self.data_lineage = 0
        self.has_stopped = False

    def relay(self, name: str) -> RelayReader:
        """The reader of a channel's relay log, begun when new."""
        relay = self.relays.get(name)
        if relay is None:
            relay = self.relays[name] = RelayReader(self.reporter, self.server, name)
        return relay

    def end_of_binlog(self) -> LogCoordinates | None:
        """Where the binary log ends, None when that is not known."""
        if self.binlog.base_name is None or self.binlog.end < 0:
            return None
        return LogCoordinates(self.binlog.base_name, self.binlog.file_number, self.binlog.end)

    def has_reached(self, row: WaitingRow) -> bool:
        """Whether the journal shows everything that the row names."""
        state = row.state
        if state is None:
            return True
        here = self.end_of_binlog()
        position = state.position
        if (
            position is not None
            and here is not None
            and here.base_name == position.base_name
            and here < position
        ):
            return False
        for name, channel in state.channels.items():
            relay = self.relays.get(name)
            flushed = channel.relay
            if relay is None or flushed is None or relay.end < 0:
                continue
            if relay.base_name == flushed.base_name and (relay.file_number, relay.end) < (
                flushed.file_number,
                flushed.position,
            ):
                return False
        return True

    # Bytes

    def to_bytes(self) -> bytes:
        """The whole state, compact and versioned."""
        arrays: dict[str, Any] = {}
        binlog, more = self.binlog.dump("binlog")
        arrays |= more
        relays = []
        for number, (name, relay) in enumerate(self.relays.items()):
            document, more = relay.dump(f"relay{number}")
            relays.append([name, document])
            arrays |= more
        return pack(
            _MAGIC,
            _VERSION,
            {
                "instance_id": self.instance_id,
                "disabled": sorted(self.reporter.disabled),
                "epoch": self.epoch,
                "next_sequence": self.next_sequence,
                "ts": self.ts,
                "event_findings": self.event_findings,
                "data_lineage": self.data_lineage,
                "has_stopped": self.has_stopped,
                "server": self.server.dump(),
                "history": self.baselines.dump(),
                "binlog": binlog,
                "relays": relays,
                "collections": self.collections.dump(),
                "backups": {
                    **self.zones.dump(),
                    **self.engine_locks.dump(),
                    **self.metadata_lock.dump(),
                    **self.backup_locks.dump(),
                },
                "images": self.images.dump(),
                "clones": self.clones.dump(),
                "clone_tables": self.clone_tables.dump(),
                "gtid_persistence": self.persistence.dump(),
                "repositories": self.repositories.dump(),
                "applied": self.applied.dump(),
                "waiting": [row.dump() for row in self.waiting],
            },
            arrays,
        )

    @classmethod
    def from_bytes(cls: type[StateT], data: bytes) -> StateT:  # noqa: PYI019  not in Python 3.10
        """Inverse of ``to_bytes``.

        Raises:
            StateVersionError: The bytes are no state of this version.
        """
        document, arrays = unpack(_MAGIC, _VERSION, data)
        audit = cls(document["instance_id"], frozenset(document["disabled"]))
        audit.epoch = document["epoch"]
        audit.next_sequence = document["next_sequence"]
        audit.ts = document["ts"]
        audit.event_findings = document["event_findings"]
        audit.data_lineage = document["data_lineage"]
        audit.has_stopped = document["has_stopped"]
        audit.server.load(document["server"])
        audit.baselines.load(document["history"])
        audit.binlog.load(document["binlog"], arrays, "binlog")
        for number, (name, relay) in enumerate(document["relays"]):
            audit.relay(name).load(relay, arrays, f"relay{number}")
        audit.collections.load(document["collections"])
        for protocol in (
            audit.zones,
            audit.engine_locks,
            audit.metadata_lock,
            audit.backup_locks,
        ):
            protocol.load(document["backups"])
        audit.images.load(document.get("images", {}))
        audit.clones.load(document["clones"])
        audit.clone_tables.load(document.get("clone_tables", {}))
        # Before there was a part for it, it was in the clones' part.
        audit.persistence.load(document.get("gtid_persistence", document["clones"]))
        audit.repositories.load(document.get("repositories", []))
        audit.applied.load(document.get("applied", {}))
        audit.waiting = [WaitingRow.load(row) for row in document["waiting"]]
        return audit
