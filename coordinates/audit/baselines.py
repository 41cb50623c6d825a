"""What the audit remembers of an instance's accepted rows: the baselines of tier 3."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from tallystick.coordinates.values.binlog import LogCoordinates
from tallystick.coordinates.values.gtid import GtidSet

UNSETTLED_MAX = 64


class MasterInfoWrite(NamedTuple):
    """The last write of a channel to slave_master_info, while the journal has all of them.

    Attributes:
        coordinates: Source coordinates that were stored.
        steps_back: How often the receiver had begun at earlier coordinates by then.
    """

    coordinates: LogCoordinates
    steps_back: int


class GivenUp(NamedTuple):
    """What a channel had still to execute when it was removed, and no row has shown since.

    ``is_missing``: whether a row has come since.
    """

    gtids: GtidSet
    is_missing: bool = False


@dataclass(slots=True)
class ChannelBaselines:
    """Accepted values of one channel in its present lineage."""

    lineage: int = 0
    relay: LogCoordinates | None = None
    executed: LogCoordinates | None = None
    applied: LogCoordinates | None = None
    received: GtidSet | None = None
    """Q at the previous row."""
    reset_at: LogCoordinates | None = None
    """Where the relay log ended when RESET let the server forget what it had executed."""
    applied_lost: GtidSet = GtidSet.EMPTY
    """Reported as passed by the applier but never executed."""
    fallen: dict[str, LogCoordinates] = field(default_factory=dict)
    is_left: bool = False
    """Whether the channel got another source since the last row."""
    left_at: LogCoordinates | None = None
    """The flushed relay log coordinates before that, None not known: whether the relay log has
    begun anew is seen by them."""
    former_until: LogCoordinates | None = None
    """Until the applier has passed these relay log coordinates, Exec_Source_Log_Pos may be of the
    source that the channel had before; None: it is not."""
    began_at: LogCoordinates | None = None
    """The flushed relay log coordinates of the first row, None before it; after a change of the
    source, of the first row after it."""
    passed_with: LogCoordinates | None = None
    """Exec_Source_Log_Pos when the applier was first seen at ``began_at`` or after it."""
    may_execute_former: bool = True
    """Whether Exec_Source_Log_Pos may be of a source that the channel had before: nothing that was
    received after ``began_at`` is known to be executed."""
    executed_may_be_former: bool = False
    """The same of ``executed``."""
    kept_name: str | None = None
    """The former file that the last row named instead of the one that the applier was in."""
    source_uuid: str | None = None
    auto_position: bool | None = None
    is_filtered: bool = False
    """Whether it leaves groups of its source out, or may: it stays, as what was left out does."""
    filters_are_shown: bool = False
    """Whether that was read, of a record or of a row."""
    ignores_servers: bool | None = False
    """Whether its receiver does, so that these are executed under no GTID either; None: it may."""
    source_instance: str | None = None
    receiver_stopped_at: int | None = None
    """Moment of the last STOP; None: the receiver runs, or was not seen to stop."""
    begun_ts: int = -1
    """When a record began the lineage; -1: none did."""
    stopped: list[str] = field(default_factory=list)
    """Threads that the previous row showed as stopped without an error."""
    master_info: MasterInfoWrite | None = None
    workers: dict[str, str] | None = None
    """What each worker of the applier had stored at the previous row, by its number; None: of a
    relay log before, or not read."""
    left_out_of: str | None = None
    """The previous row's collection, where that row did not list it and the status had it."""

    def without_values(self) -> ChannelBaselines:
        """What was configured, and no value of a row."""
        return ChannelBaselines(
            source_uuid=self.source_uuid,
            auto_position=self.auto_position,
            is_filtered=self.is_filtered,
            filters_are_shown=self.filters_are_shown,
            ignores_servers=self.ignores_servers,
            source_instance=self.source_instance,
            is_left=self.is_left,
            former_until=self.former_until,
        )

    @property
    def leaves_out(self) -> bool | None:
        """Whether it leaves groups of its source out, or has done so; None: that was not read."""
        return self.is_filtered if self.filters_are_shown else None

    def configure_filters(self, *, is_filtered: bool, ignores_servers: bool) -> None:
        """What the record of the channel's source says of its filters."""
        self.is_filtered, self.filters_are_shown = is_filtered or ignores_servers, True
        self.ignores_servers = ignores_servers or (None if is_filtered else False)

    def read_filters(self, is_filtered: bool | None, ignores_servers: bool | None) -> None:
        """What a row shows of them, as they are changed without a record; None: nothing."""
        if is_filtered is not None:
            self.is_filtered = is_filtered or (self.is_filtered and self.filters_are_shown)
            self.filters_are_shown = True
        if ignores_servers is not None:
            self.ignores_servers = ignores_servers or bool(self.ignores_servers)


@dataclass(eq=False)
class Baselines:
    """Accepted values of one instance; each lineage clears its own."""

    position: LogCoordinates | None = None
    executed: GtidSet | None = None
    purged: GtidSet | None = None
    numbers: dict[str, int] = field(default_factory=dict)
    fallen: dict[str, LogCoordinates | GtidSet | int] = field(default_factory=dict)
    unsettled: list[tuple[int, GtidSet]] = field(default_factory=list)
    known_holes: GtidSet = GtidSet.EMPTY
    assigned: GtidSet = GtidSet.EMPTY
    """Added by SET gtid_purged since the previous row."""
    lost: GtidSet = GtidSet.EMPTY
    """Reported as logged but never executed."""
    free_gnos: GtidSet = GtidSet.EMPTY
    """Own numbers below the last one that were free at the row before."""
    unexplained: GtidSet = GtidSet.EMPTY
    """Reported as executed without receipt."""
    must_recover: GtidSet | None = None
    doubtful_lsn: tuple[int, str] | None = None
    """The LSN before a crash that may have taken redo of commits, until the next one; beside it
    innodb_flush_log_at_trx_commit."""
    unseen_channel_left: bool = False
    """A channel was removed since the previous row whose relay log was not seen completely."""
    log_bin_changed: bool = False
    log_bin_was_off: bool = False
    """Whether the binary log was seen to be switched off or on in its lineage."""
    redo_was_disabled: bool = False
    """Whether changes wrote no redo at some time since the row before."""
    logged_without_flush: bool = False
    """Whether groups may have been logged since the row before without a flush of the redo log."""
    logged_lsn: int | None = None
    """The LSN of the last row after which groups were logged: no crash takes what is before it."""
    had_binlog: bool | None = None
    """Whether the previous row named a binary log file."""
    oldest_file: str | None = None
    """The oldest binary log file at the previous row."""
    channels: dict[str, ChannelBaselines] = field(default_factory=dict)
    given_up: dict[str, GivenUp] = field(default_factory=dict)
    """By the names of channels that RESET REPLICA ALL has removed."""
    has_row: bool = False
    may_filter: bool = False
    """Whether channels may have filters that the journal did not show."""

    def remove_channel(self, name: str, waiting: GtidSet) -> None:
        """RESET REPLICA ALL: what the channel had still to execute is gone with its relay log."""
        del self.channels[name]
        before = self.given_up.pop(name, None)
        left = self.without_known(waiting if before is None else waiting | before.gtids)
        if left:
            self.given_up[name] = GivenUp(left)

    def still_given_up(self, executed: GtidSet) -> dict[str, GtidSet]:
        """What is given up and a second row lacks; another channel may bring it until then."""
        found = {}
        for name, given in list(self.given_up.items()):
            left = given.gtids - executed
            if left and not given.is_missing:
                self.given_up[name] = GivenUp(left, is_missing=True)
                continue
            del self.given_up[name]
            if left:
                found[name] = left
        return found

    def channel(self, name: str) -> ChannelBaselines:
        """The channel's history, begun when new."""
        history = self.channels.get(name)
        if history is None:
            history = self.channels[name] = ChannelBaselines(
                is_filtered=self.may_filter, ignores_servers=None if self.may_filter else False
            )
        return history

    @property
    def has_row_since_start(self) -> bool:
        """Whether a row has shown what the server has executed since it started.

        A crash may leave in the data what is no longer in the log.
        """
        return self.has_row and self.must_recover is None

    def without_known(self, gtids: GtidSet) -> GtidSet:
        """Those of the GTIDs that no accepted row and no SET gtid_purged has shown."""
        for known in (self.purged, self.executed, self.assigned):
            gtids = gtids if known is None else gtids - known
        return gtids

    def begin_binlog_lineage(self) -> None:
        """RESET, clone, restore: positions and sets begin anew."""
        self.position = None
        self.executed = None
        self.purged = None
        self.oldest_file = None
        self.log_bin_was_off = False
        for name in ("position", "executed", "purged"):
            self.fallen.pop(name, None)
        self.unsettled = []
        self.known_holes = GtidSet.EMPTY
        self.assigned = GtidSet.EMPTY
        self.lost = GtidSet.EMPTY
        self.free_gnos = GtidSet.EMPTY
        self.unexplained = GtidSet.EMPTY
        self.must_recover = None
        self.given_up = {}

    def begin_data_lineage(self) -> None:
        """Clone, restore: everything begins anew."""
        self.begin_binlog_lineage()
        self.numbers = {}
        self.doubtful_lsn = self.logged_lsn = None
        self.fallen = {}
        self.channels = {}

    def note_logged(self) -> None:
        """Groups were logged after the last row, and first the redo log was flushed."""
        if not self.logged_without_flush:
            self.logged_lsn = self.numbers.get("LSN", self.logged_lsn)

    def lose_redo(self) -> None:
        """A crash: redo that was not on disk yet is gone, only what was flushed stays a bound.

        Nor does Ex bound what comes: it is read back from a repository that groups without a
        transaction, or any group where the repository is a file, leave behind.
        """
        for channel in self.channels.values():
            channel.executed = channel.passed_with = None
            channel.may_execute_former = True
        on_disk = [self.numbers[n] for n in ("flushed", "LSN_checkpoint") if n in self.numbers]
        for name in ("LSN", "written", "current"):
            self.numbers.pop(name, None)
            self.fallen.pop(name, None)
        if self.logged_lsn is not None:
            on_disk.append(self.logged_lsn)
        if on_disk:
            self.numbers["LSN"] = max(on_disk)

    def forget_left_out(self) -> None:
        """A start: what became of a channel between two rows is not known."""
        for channel in self.channels.values():
            channel.left_out_of = None

    def forget_master_info(self) -> None:
        """A start, or another period of writing: what is not written yet is not known."""
        for channel in self.channels.values():
            channel.master_info = None

    def begin_channel_lineage(self, name: str, lineage: int) -> None:
        """RESET REPLICA, CHANGE SOURCE, relay log recovery."""
        channel = self.channel(name)
        channel.master_info = channel.left_out_of = None
        channel.lineage = lineage
        channel.relay = channel.began_at = channel.passed_with = None
        channel.executed = None
        channel.applied = channel.reset_at = channel.workers = None
        channel.received = None
        channel.applied_lost = GtidSet.EMPTY
        channel.fallen = {}
