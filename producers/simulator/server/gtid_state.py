"""The server's side of GTID persistence: Gtid_state and Gtid_table_persistor (WL#9211, I-1).

What InnoDB does not persist (non-transactional and empty groups) comes into the table with the
rotation or shutdown that closes its binary log file, or from the file at the next start.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tallystick.producers.simulator.kernel.gtid_intervals import GtidIntervals

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.instance import Instance


@dataclass(slots=True, eq=False)
class GtidState:
    """The GTID sets of an instance, and how it numbers what clients commit.

    Attributes:
        mode: Mirror of ``variables["gtid_mode"]``.
        automatic_sid: The sid that GTID_NEXT = AUTOMATIC numbers: own UUID, tagged UUID or group
            name.
        gno_block: First GNO of the block that Group Replication handed out; 1 without it.
        executed: gtid_executed.
        purged: gtid_purged.
        table: Rows of mysql.gtid_executed.
        table_only: GTIDs of the table that no binary log ever held.
        gtids_saved: GTIDs that the next rotation need not save into the table.
        logged: Every GTID in gtid_executed or waiting for its commit stage: where AUTOMATIC looks
            for the next.
    """

    mode: str
    automatic_sid: str
    gno_block: int = 1
    executed: GtidIntervals = field(default_factory=GtidIntervals)
    purged: GtidIntervals = field(default_factory=GtidIntervals)
    table: GtidIntervals = field(default_factory=GtidIntervals)
    table_only: GtidIntervals = field(default_factory=GtidIntervals)
    gtids_saved: GtidIntervals = field(default_factory=GtidIntervals)
    logged: GtidIntervals = field(default_factory=GtidIntervals)

    def begin_with(self, gtids: GtidIntervals) -> None:
        """The server begins anew: everything in ``gtids`` is executed, purged and in the table."""
        self.executed = gtids.copy()
        self.purged = gtids.copy()
        self.table = gtids.copy()
        self.table_only = gtids.copy()
        self.gtids_saved = gtids.copy()
        self.logged = gtids.copy()


def save(instance: Instance, gtids: GtidIntervals) -> None:
    """Gtid_table_persistor::save(): add a set to mysql.gtid_executed."""
    instance[GtidState].table.update(gtids)


def fetch_gtids(instance: Instance) -> GtidIntervals:
    """Gtid_table_persistor::fetch_gtids(): what the table holds."""
    return instance[GtidState].table.copy()


def update_prev_gtids(instance: Instance, written: GtidIntervals) -> None:
    """InnoDB has written these: the next rotation need not save them again."""
    instance[GtidState].gtids_saved.update(written)


def save_gtids_of_last_binlog_into_table(instance: Instance) -> GtidIntervals:
    """A file is closed: save what was executed and is not saved yet.

    Returns:
        What was saved.
    """
    unsaved = instance[GtidState].executed.minus(instance[GtidState].gtids_saved)
    save(instance, unsaved)
    update_prev_gtids(instance, unsaved)
    return unsaved


def init_gtid_sets(instance: Instance, last_binlog: GtidIntervals) -> None:
    """A start: gtid_executed is what the table and the last binary log file hold.

    GTIDs of the file that the table lacks are saved before the next file is opened.
    """
    executed = fetch_gtids(instance)
    executed.update(last_binlog)
    only_in_table = executed.minus(last_binlog).minus(instance[GtidState].purged)
    for gtids in (instance[GtidState].table_only, instance[GtidState].purged):
        gtids.update(only_in_table)
    instance[GtidState].executed = executed
    instance[GtidState].logged = executed.copy()
    instance[GtidState].gtids_saved = executed.copy()
    save(instance, executed)
