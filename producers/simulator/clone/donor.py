"""The donor of a clone: commits go on while it copies; at the end one moment is fixed (WL#9211).

When the redo copy begins, the donor brings data, GTIDs and binary log position together: commits
are forced into binary log order, groups that are prepared out of order are awaited, external XA
waits for a moment, GTIDs that no undo log holds are saved, and the TRX_SYS page gets the position.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.events.journal import RecordType
from tallystick.producers.simulator.backup.tables import TableData
from tallystick.producers.simulator.clone.commit_order import CommitOrder
from tallystick.producers.simulator.innodb import gtid_persistence, trx_sys, undo_recovery
from tallystick.producers.simulator.innodb.redo_log import Innodb
from tallystick.producers.simulator.kernel.bus import Permit
from tallystick.producers.simulator.kernel.world import WENT_DOWN
from tallystick.producers.simulator.server.commit_queue import ENGINE_COMMIT, EXECUTED, MAY_REORDER
from tallystick.producers.simulator.server.gtid_state import GtidState
from tallystick.producers.simulator.server.locks import MAY_COMMIT

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallystick.producers.simulator.clone.clone_status import CloneError
    from tallystick.producers.simulator.kernel.bus import Bus
    from tallystick.producers.simulator.kernel.gtid_intervals import GtidIntervals
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.transactions import Group
    from tallystick.producers.simulator.kernel.world import World
    from tallystick.producers.simulator.server.commit_queue import Pending

CLONE_STEP: Permit[[World, Instance, str]] = Permit(
    "a clone's donor or recipient has reached a step; False at version: it goes on"
)

BLOCKED_US = 5_000
"""How long external XA waits at the end of a clone."""
END_STEPS = ("order_forced", "prepared_awaited", "donor_blocked", "position_read")
"""What a donor does while a clone ends, in order: it may crash at each of them."""


@dataclass(slots=True)
class ClonedData:
    """The donor's data at the moment of the clone, as far as coordinates go.

    Attributes:
        innodb: Redo log, TRX_SYS page and undo logs, those of prepared XA transactions too.
        table: Rows of mysql.gtid_executed.
        undo: GTIDs that only undo log headers hold.
        tables: The content of tables, where it is kept account of.
    """

    innodb: Innodb
    table: GtidIntervals
    undo: GtidIntervals
    tables: TableData | None


@dataclass(slots=True, eq=False)
class Donation:
    """A clone as its donor sees it.

    Attributes:
        fleet: The fleet.
        donor: The instance that is cloned.
        recipient_id: Whom it is for.
        on_data: Is called with the data once the moment is fixed.
        on_step: Is called with each step of the end.
        on_lost: Is called when the donor goes down.
        blocked_us: How long external XA waits.
    """

    fleet: World
    donor: Instance
    recipient_id: str
    on_data: Callable[[ClonedData], None]
    on_step: Callable[[str], None]
    on_lost: Callable[[], None]
    blocked_us: int = BLOCKED_US
    order: CommitOrder = field(default_factory=CommitOrder)

    @property
    def is_current(self) -> bool:
        """Whether the donor still runs and donates: it has not crashed since."""
        return self.donor.get(Donation) is self

    def begin(self) -> None:
        """The recipient has connected: from now on commits write their coordinates into TRX_SYS."""
        self.donor[Donation] = self
        self.record("begin")

    def end(self, error: CloneError | None = None) -> None:
        """The recipient has what it needs, or has gone."""
        self.donor.remove(Donation)
        body = {} if error is None else {"error": error.number, "message": error.message}
        self.record("end", **body)

    def donor_went_down(self) -> None:
        """The donor has crashed or was shut down: the recipient loses its connection."""
        self.donor.remove(Donation)
        self.on_lost()

    def synchronize(self) -> None:
        """Bring data, GTIDs and position together; ``on_data`` is called at the end."""
        self.order.force(self.donor)
        if not self._reach("order_forced"):
            return
        if not self.order.unordered:
            self._prepared_awaited(self.fleet)

    def committed(self, pending: Pending) -> None:
        """A group of the donor has passed its commit stage."""
        if not self.order.is_forced:
            return
        if pending.logged.group.redo_length and not self.order.unordered:
            file, position = self.donor[Innodb].trx_sys
            lsn = self.donor[Innodb].lsn
            self.record("commit", binlog_file=file, binlog_position=position, lsn=lsn)
        if self.order.committed(pending):
            self.fleet.schedule(self.fleet.now, self.donor, self._prepared_awaited)

    def _prepared_awaited(self, _fleet: World) -> None:
        """Everything that might have committed out of order has committed."""
        if not self.is_current or not self._reach("prepared_awaited"):
            return
        self.order.blocks_xa = True
        if not self._reach("donor_blocked", blocks="xa"):
            return
        # A clone triggers the persister, so that recovery finds little in undo logs.
        gtid_persistence.wait_flush(self.donor)
        self.fleet.schedule(self.fleet.now + self.blocked_us, self.donor, self._fix)

    def _fix(self, _fleet: World) -> None:
        """The moment of the clone: the copy of the redo log ends here."""
        donor = self.donor
        if not self.is_current:
            return
        undo = undo_recovery.scan_undo_logs(donor[Innodb].transactions).gtids()
        # Groups that touch no InnoDB table have no undo log: save_gtids_of_last_binlog_into_table.
        donor[GtidState].table.update(donor[GtidState].executed.minus(undo))
        trx_sys.update_binlog_position(donor)
        page = donor[Innodb]
        data = ClonedData(
            Innodb(page.lsn, page.written, page.flushed, page.checkpoint, page.trx_sys,
                   page.transactions.copy()),
            donor[GtidState].table.copy(),
            undo,
            donor[TableData].copy() if donor.get(TableData) is not None else None,
        )  # fmt: skip
        file, position = page.trx_sys
        moment = {"binlog_file": file, "binlog_position": position, "lsn": page.lsn}
        if not self._reach("position_read", **moment):
            return
        self.order.blocks_xa = False
        self.record("donor_released", blocks="xa")
        self.order.is_forced = False
        self.record("order_released")
        self.on_data(data)

    def _reach(self, step: str, **fields: Any) -> bool:
        """Tell a step; False: the donor has crashed at it."""
        self.record(step, **fields)
        self.fleet.bus.emit(CLONE_STEP, self.fleet, self.donor, step)
        self.on_step(step)
        return self.is_current

    def record(self, step: str, **fields: Any) -> None:
        """Write a ``clone`` record into the donor's journal."""
        body = {"step": step, "role": "donor", "peer": self.recipient_id, **fields}
        self.donor.journal.record(RecordType.CLONE, body)


def join(bus: Bus) -> None:
    """While a clone runs its donor orders commits, and may go down."""
    bus.connect(MAY_COMMIT, may_commit)
    bus.connect(MAY_REORDER, _may_reorder)
    bus.connect(ENGINE_COMMIT, note_commit)
    bus.connect(EXECUTED, _executed)
    bus.connect(WENT_DOWN, _went_down)


def may_commit(instance: Instance, group: Group) -> bool:
    """Whether the end of a clone does not hold a statement back."""
    donation = instance.get(Donation)
    return donation is None or not donation.order.holds_back(group)


def _may_reorder(instance: Instance, pending: Pending) -> bool:
    donation = instance.get(Donation)
    return donation is None or not donation.order.orders(pending)


def note_commit(instance: Instance, pending: Pending) -> None:
    """An InnoDB transaction commits at a donor: its position goes into the TRX_SYS page with it."""
    if instance.get(Donation) is not None and pending.logged.group.redo_length:
        instance[Innodb].trx_sys = (pending.file.name, pending.logged.end)


def _executed(instance: Instance, pending: Pending) -> None:
    donation = instance.get(Donation)
    if donation is not None:
        donation.committed(pending)


def _went_down(_fleet: World, instance: Instance) -> None:
    donation = instance.get(Donation)
    if donation is not None:
        donation.donor_went_down()
