"""Replication channels: what a receiver and an applier keep of a source, and their relay log.

Data only: ``relay_log``, ``receiver`` and ``applier`` change it, ``replication_info`` stores it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.events.journal import RecordType
from tallystick.coordinates.values.binlog import format_log_file_name
from tallystick.producers.simulator.kernel.components import Components
from tallystick.producers.simulator.kernel.gtid_intervals import GtidIntervals

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.transactions import LoggedGroup


@dataclass(slots=True, eq=False)
class QueuedGroup:
    """A group in a relay log."""

    logged: LoggedGroup
    """Where it is in the source's binary log."""
    source_file: str
    relay_file: RelayFile
    start: int
    events_received: int = 0
    """How many of its events are in the relay log; the GTID event is the first."""
    end: int = 0
    """Relay offset of the end of the last event received."""
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
    """The source coordinate that a ROTATE names."""
    is_within: bool = False
    """Whether it comes within a group that was left open."""


@dataclass(slots=True, eq=False)
class RelayLog:
    """The relay log of a channel.

    Attributes:
        base_name: Of its files.
        files: Retained files, oldest first; empty after RESET REPLICA.
        synced: Number of the file, and up to which offset it outlives a power cut.
        events_since_sync: Events written since then.
        beginnings: How often it was begun anew without its files.
        is_left_open: Whether its last group was left open when a connection was closed.
    """

    base_name: str
    files: list[RelayFile] = field(default_factory=list)
    synced: tuple[int, int] = (0, 0)
    events_since_sync: int = 0
    beginnings: int = 0
    is_left_open: bool = False


@dataclass(slots=True, eq=False)
class Receiver:
    """The receiver thread of a channel, and the dump that its source sends.

    Attributes:
        is_running: Whether the thread was started.
        is_connected: Whether it has a connection to the source.
        is_scheduled: Whether it will receive later.
        io_errno: Why it stopped by itself; 0 otherwise.
        read: (Master_Log_File, Read_Master_Log_Pos).
        flushed: The relay coordinate at the last flush of the master info object.
        retrieved: Retrieved_Gtid_Set.
        excluded: What it sent to the source as received, at the last connect with auto-position.
        cursor_file: Number of the source's binary log file that the dump thread reads.
        cursor_entry: Index of the next entry of that file.
        cursor_lineage: Lineage of the source's binary log that the cursor belongs to.
        ignore_server_ids: Servers whose groups are left out.
        semi_sync: Whether the source waits for its acknowledgement.
    """

    is_running: bool = False
    is_connected: bool = False
    is_scheduled: bool = False
    io_errno: int = 0
    read: tuple[str, int] = ("", 4)
    flushed: tuple[str, int] = ("", 0)
    retrieved: GtidIntervals = field(default_factory=GtidIntervals)
    excluded: GtidIntervals = field(default_factory=GtidIntervals)
    cursor_file: int = 0
    cursor_entry: int = 0
    cursor_lineage: int = 0
    ignore_server_ids: tuple[int, ...] = ()
    semi_sync: bool = False


@dataclass(slots=True, eq=False)
class Applier:
    """The applier of a channel, with its coordinator where several workers apply.

    Attributes:
        is_running: Whether it was started.
        is_scheduled: Whether it will apply later.
        sql_errno: Why it stopped; 0 while it runs and after a STOP.
        applied: (Relay_Log_File, Relay_Log_Pos).
        executed: (Relay_Master_Log_File, Exec_Master_Log_Pos).
        group_end: Relay and source coordinate after the last applied group, or where applying
            began.
        kept_file: The file of the source that it names because it was within a group when another
            one began; empty: it names the one that it is in.
        ignored_db: What a filter leaves out (replicate_ignore_db); empty: there is none.
        last_checkpoint: When a coordinator last moved its low-water mark.
        commit_awaited: Generation and time of an applier that waits for the commit of its group.
    """

    is_running: bool = False
    is_scheduled: bool = False
    sql_errno: int = 0
    applied: tuple[str, int] = ("", 0)
    executed: tuple[str, int] = ("", 0)
    group_end: tuple[str, int, str, int] = ("", 4, "", 0)
    kept_file: str = ""
    ignored_db: str = ""
    last_checkpoint: int = 0
    commit_awaited: tuple[int, int] | None = None


@dataclass(slots=True, eq=False)
class Channel(Components):
    """A replication channel; its components are relay log, receiver, applier and what is stored.

    Attributes:
        name: Lower case; ``""`` is the default channel.
        replica: The instance that owns the channel.
        source: The instance it reads from.
        number: Id of the channel's rows.
        auto_position: Whether it asks its source by GTID set, else by file and position.
        is_configured: Whether it is there, and its repositories could be initialised.
        init_error: Why a start did not bring the channel up.
        pending: Relay content not yet applied, oldest first (an incomplete last group included).
        generation: Raised by every act that makes scheduled work of the threads void.
        starts_at_boot: Whether replication ran when the replica went down.
    """

    name: str
    replica: Instance
    source: Instance
    number: int
    auto_position: bool = True
    is_configured: bool = True
    init_error: int = 0
    pending: list[QueuedGroup | QueuedFraming] = field(default_factory=list)
    generation: int = 0
    starts_at_boot: bool = False

    @property
    def partial_group(self) -> QueuedGroup | None:
        """The group inside which the receiver is; None between groups."""
        last = self.pending[-1] if self.pending else None
        return last if isinstance(last, QueuedGroup) and not last.is_complete else None

    def record(self, action: str, **about: Any) -> None:
        """Write a ``channel`` record: what was done to the channel, or what its threads did."""
        body = {"channel": self.name, "action": action, **about}
        self.replica.journal.record(RecordType.CHANNEL, body, self.name)


@dataclass(slots=True, eq=False)
class ChannelMap:
    """The channels of an instance, and of others that read its binary log.

    Attributes:
        channels: Its own, by name.
        subscribers: Channels of other instances that read from here.
        awaits_clone: Whether an operator keeps it out of replication until a clone has succeeded.
    """

    channels: dict[str, Channel] = field(default_factory=dict)
    subscribers: list[Channel] = field(default_factory=list)
    awaits_clone: bool = False

    @property
    def configured(self) -> list[Channel]:
        """Its own channels that are there, and whose repositories could be initialised."""
        return [channel for channel in self.channels.values() if channel.is_configured]
