"""The recipient of a clone: its stages, its restart, and what recovery makes of the copy (WL#9211).

The copy takes its time while the donor's commits go on. Up to the end of FILE SYNC a crash of
either server ends the clone as Failed, and it has to be issued again. From RESTART on the data are
complete: recovery may be cut off and begun again as often as it likes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.events.journal import RecordType
from tallystick.producers.simulator.backup.tables import TableData
from tallystick.producers.simulator.clone.clone_status import (
    DESTINATION,
    ER_CLONE_DISALLOWED,
    ER_CLONE_DONOR,
    ER_CLONE_DONOR_VERSION,
    ER_CLONE_IN_PROGRESS,
    ER_CLONE_PROTOCOL,
    ER_QUERY_INTERRUPTED,
    CloneError,
    CloneStatus,
)
from tallystick.producers.simulator.clone.donor import BLOCKED_US, CLONE_STEP, Donation
from tallystick.producers.simulator.innodb import gtid_persistence, redo_log
from tallystick.producers.simulator.innodb.redo_log import Innodb
from tallystick.producers.simulator.kernel.gtid_intervals import GtidIntervals
from tallystick.producers.simulator.kernel.world import BOOT, WENT_DOWN
from tallystick.producers.simulator.server import administration, binary_log, lifecycle
from tallystick.producers.simulator.server.binary_log import BinaryLog
from tallystick.producers.simulator.server.channels import ChannelMap, Receiver
from tallystick.producers.simulator.server.gtid_state import GtidState

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallystick.producers.simulator.clone.donor import ClonedData
    from tallystick.producers.simulator.kernel.bus import Bus
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.world import World

_STAGE_US = {
    "DROP DATA": (4_000, 12_000),
    "FILE COPY": (120_000, 260_000),
    "PAGE COPY": (30_000, 80_000),
    "REDO COPY": (8_000, 20_000),
    "FILE SYNC": (10_000, 30_000),
}
"""Least and most time that a stage takes."""
_HANDSHAKE_US = 3_000
_SESSION = 21


@dataclass(frozen=True, slots=True)
class CrashPoint:
    """Where a crash cuts a clone off.

    Attributes:
        role: Who crashes, ``donor`` or ``recipient``.
        step: A stage, or for a donor one of ``END_STEPS``.
    """

    role: str
    step: str


@dataclass(slots=True, eq=False)
class Clone:
    """CLONE INSTANCE on one recipient.

    Attributes:
        fleet: The fleet.
        recipient: Where the statement is executed.
        donor: The instance that it names.
        on_end: Is called when the clone has ended, well or not.
        crashes: Crash points that are still ahead; each is taken once.
        blocked_us: How long the donor holds external XA back.
        data: What the donor gave; None before.
        data_dropped: Whether the recipient's own data are gone.
        is_synced: Whether the copy is complete: the next start recovers it.
        stage: The stage that it is in; empty before the first and after the last.
    """

    fleet: World
    recipient: Instance
    donor: Instance
    on_end: Callable[[Clone], None]
    crashes: list[CrashPoint] = field(default_factory=list)
    blocked_us: int = BLOCKED_US
    data: ClonedData | None = None
    data_dropped: bool = False
    is_synced: bool = False
    stage: str = ""
    status: CloneStatus = field(init=False)
    donation: Donation = field(init=False)
    _rng: Random = field(init=False)

    def __post_init__(self) -> None:
        name = f"clone {self.fleet.scenario.seed} {self.recipient.instance_id} {self.fleet.now}"
        self._rng = Random(name)
        self.status = CloneStatus(self.donor.instance_id, _SESSION, self.fleet.now)
        self.donation = Donation(
            self.fleet,
            self.donor,
            self.recipient.instance_id,
            self._got_data,
            self.donor_reached,
            self.donor_went_down,
            self.blocked_us,
        )

    @property
    def is_running(self) -> bool:
        """Whether it has neither completed nor failed."""
        return self.recipient.get(Clone) is self

    # The stages, up to the restart

    def begin(self) -> CloneError | None:
        """CLONE INSTANCE FROM; an error: the statement is refused and leaves nothing."""
        refused = self._refusal()
        if refused is not None:
            self.record("refused", peer=self.donor.instance_id, **_as_fields(refused))
            return refused
        self.recipient[Clone] = self
        self.recipient[CloneStatus] = self.status
        self.record("begin", peer=self.donor.instance_id, destination=DESTINATION)
        self._after(_HANDSHAKE_US, self._connect)
        return None

    def _refusal(self) -> CloneError | None:
        if self.recipient.get(Clone) is not None:
            return CloneError(
                ER_CLONE_IN_PROGRESS,
                "Concurrent clone in progress. Please try after clone is complete.",
            )
        if any(
            name.startswith("group_replication_") and channel[Receiver].is_running
            for name, channel in self.recipient[ChannelMap].channels.items()
        ):
            return CloneError(
                ER_CLONE_DISALLOWED,
                "Clone Instance: the operation cannot be executed when Group Replication is "
                "running.",
            )
        return None

    def _connect(self, _fleet: World) -> None:
        """The donor answers: version first, data later."""
        if not self.is_running:
            return
        donor, recipient = self.donor, self.recipient
        if not donor.is_running:
            self._fail(_donor_error("the donor cannot be reached"))
            return
        if donor.get(Donation) is not None or donor.get(Clone) is not None:
            self._fail(_donor_error("the donor is busy with another clone"))
            return
        goes_on = self.fleet.bus.emit(CLONE_STEP, self.fleet, recipient, "version")
        error = None
        if donor.version != recipient.version and goes_on:
            error = CloneError(
                ER_CLONE_DONOR_VERSION,
                f"Clone Donor MySQL version: {donor.version} is different from Recipient MySQL "
                f"version {recipient.version}.",
            )
        self.record(
            "version",
            peer=donor.instance_id,
            donor_version=donor.version,
            recipient_version=recipient.version,
            **({} if error is None else _as_fields(error)),
        )
        if error is not None:
            self._fail(error)
            return
        self.donation.begin()
        self._enter("DROP DATA", self._file_copy)

    def _file_copy(self, _fleet: World) -> None:
        self._enter("FILE COPY", self._page_copy)

    def _page_copy(self, _fleet: World) -> None:
        self._enter("PAGE COPY", self._redo_copy)

    def _redo_copy(self, _fleet: World) -> None:
        if self._enter("REDO COPY", None):
            self.donation.synchronize()

    def _got_data(self, data: ClonedData) -> None:
        """The donor has fixed the moment; what is left is to copy its redo log up to there."""
        self.data = data
        self._after(self._rng.randrange(*_STAGE_US["REDO COPY"]), self._file_sync)

    def _file_sync(self, _fleet: World) -> None:
        if self.is_running and self.stage == "REDO COPY":
            self.donation.end()
            self._enter("FILE SYNC", self._restart)

    def _restart(self, _fleet: World) -> None:
        """The recipient restarts by itself, over the cloned data."""
        if not self.is_running or self.stage != "FILE SYNC":
            return
        self.is_synced = True
        if self._enter("RESTART", None):
            lifecycle.shut_down(self.fleet, self.recipient)

    def _enter(self, stage: str, following: Callable[[World], None] | None) -> bool:
        """Enter a stage; False: the clone did not live to see it."""
        if not self.is_running:
            return False
        self.stage = stage
        self.data_dropped = True
        self.status.enter(stage, self.recipient.journal.moment())
        self.record("stage", stage=stage)
        self.fleet.bus.emit(CLONE_STEP, self.fleet, self.recipient, stage)
        self._crash_at("donor", stage, self.donor)
        self._crash_at("recipient", stage, self.recipient)
        if self.recipient.get(Clone) is not self or not self.recipient.is_running:
            return False
        if following is not None:
            self._after(self._rng.randrange(*_STAGE_US[stage]), following)
        return True

    def donor_reached(self, step: str) -> None:
        """The donor has reached a step of the end of the clone."""
        if self.is_running:
            self._crash_at("donor", step, self.donor)

    def _crash_at(self, role: str, step: str, instance: Instance) -> None:
        point = CrashPoint(role, step)
        if point in self.crashes and instance.is_running:
            self.crashes.remove(point)
            lifecycle.crash(self.fleet, instance, torn=False)

    # Failure

    def donor_went_down(self) -> None:
        """The donor has crashed or was shut down before everything was copied."""
        if self.is_running and not self.is_synced:
            self._fail(_donor_error("the connection to the donor was lost"))

    def recipient_went_down(self) -> None:
        """The recipient goes down; before everything is in place that is the end of the clone."""
        if self.is_synced:
            return
        if self.donation.is_current:
            self.donation.end(
                CloneError(ER_CLONE_PROTOCOL, "Clone Protocol error: the recipient has gone.")
            )
        self._ends_with(
            CloneError(ER_QUERY_INTERRUPTED, "Query execution was interrupted"), is_reported=False
        )

    def _fail(self, error: CloneError) -> None:
        if self.donation.is_current:
            self.donation.end(error)
        self._ends_with(error, is_reported=True)

    def _ends_with(self, error: CloneError, *, is_reported: bool) -> None:
        """End as Failed; of a server that crashed clone_status says so after its start."""
        self.recipient.remove(Clone)
        self.status.fail(self.recipient.journal.moment(), error)
        if is_reported:
            self.record("end", peer=self.donor.instance_id, **_as_fields(error))
        self.fleet.schedule(self.fleet.now + 1, None, self._ended)

    def _ended(self, _fleet: World) -> None:
        self.on_end(self)

    # Restart and recovery

    def boot(self, *, crashed: bool) -> None:
        """The recipient starts over the cloned data: page, table and undo logs say where it is.

        Recovery writes what it found in undo logs into the table; cut off and begun again, it
        finds the same in the two together.
        """
        recipient, data = self.recipient, self.data
        assert data is not None
        self.stage = "RECOVERY"
        self.status.enter("RECOVERY", recipient.journal.moment())
        self.record("stage", stage="RECOVERY")
        point = CrashPoint("recipient", "RECOVERY")
        if point in self.crashes:
            self.crashes.remove(point)
            _recover_half(data)
            lifecycle.start_later(self.fleet, recipient, crashed=True)
            return
        executed = data.table.copy()
        executed.update(data.undo)
        if not self._take_over(data, executed, crashed=crashed):
            lifecycle.start_later(self.fleet, recipient, crashed=True)
            return
        self.fleet.bus.emit(CLONE_STEP, self.fleet, recipient, "RECOVERY")
        file, position = data.innodb.trx_sys
        self.status.binlog_file, self.status.binlog_position = file, position
        self.status.gtid_executed = executed.server_text()
        self.fleet.bus.emit(CLONE_STEP, self.fleet, recipient, "recovered")
        self.record(
            "recovered",
            peer=self.donor.instance_id,
            binlog_file=file,
            binlog_position=position,
            gtid_executed=executed.text(),
            lsn=recipient[Innodb].recovered,
        )
        recipient.remove(Clone)
        self.stage = ""
        self.status.complete(recipient.journal.moment())
        self.record("end", peer=self.donor.instance_id)
        self.fleet.schedule(self.fleet.now + 1, None, self._ended)

    def _take_over(self, data: ClonedData, executed: GtidIntervals, *, crashed: bool) -> bool:
        """The donor's data directory: own logs and channels begin anew, own UUID and names stay.

        Returns:
            Whether it came up; else it has crashed again.
        """
        fleet, recipient = self.fleet, self.recipient
        for channel in recipient[ChannelMap].channels.values():
            administration.clear_channel(channel)
        recipient[BinaryLog].rotation_is_due = False
        recipient[BinaryLog].files = []
        recipient[BinaryLog].lineage += 1
        recipient[GtidState].begin_with(executed)
        recipient[GtidState].table = data.table.copy()
        recipient[Innodb] = data.innodb
        redo_log.recover(recipient, fleet.rng)
        if data.tables is not None:
            recipient[TableData] = data.tables.copy()
        gtid_persistence.forget_memory(recipient)
        found = gtid_persistence.recover(fleet, recipient)
        if found is None:
            return False
        body = lifecycle.start_body(fleet, recipient, crashed=crashed)
        body["data_lineage"] = "cloned"
        body["repositories"] = []
        body["undo_gtids"] = found.text()
        recipient.is_running = True
        recipient.journal.record(RecordType.START, body)
        redo_log.started(recipient)
        gtid_persistence.record_recovery(recipient, found)
        if recipient[BinaryLog].is_open:
            binary_log.open_file(fleet, recipient, 1, GtidIntervals())
        return True

    def _after(self, delay_us: int, act: Callable[[World], None]) -> None:
        self.fleet.schedule(self.fleet.now + delay_us, self.recipient, act)

    def record(self, step: str, **fields: Any) -> None:
        """Write a ``clone`` record into the recipient's journal."""
        self.recipient.journal.record(
            RecordType.CLONE, {"step": step, "role": "recipient", **fields}
        )


def _recover_half(data: ClonedData) -> None:
    """Recovery is cut off when it has written a part of what undo logs hold."""
    for sid, first, last in list(data.undo)[:1]:
        data.table.add_range(sid, first, (first + last) // 2)


def _donor_error(message: str) -> CloneError:
    return CloneError(ER_CLONE_DONOR, f"Clone Donor Error: {message}.")


def _as_fields(error: CloneError) -> dict[str, Any]:
    return {"error": error.number, "message": error.message}


def join(bus: Bus) -> None:
    """A recipient may go down; over a complete copy it starts in its own way."""
    bus.connect(WENT_DOWN, _went_down)
    bus.connect(BOOT, _boot)


def _went_down(_fleet: World, instance: Instance) -> None:
    clone = instance.get(Clone)
    if clone is not None:
        clone.recipient_went_down()


def _boot(_fleet: World, instance: Instance, crashed: bool) -> bool:
    clone = instance.get(Clone)
    if clone is None:
        return True
    clone.boot(crashed=crashed)
    return False
