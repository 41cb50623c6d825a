"""The server's side of GTID persistence: Gtid_state and Gtid_table_persistor (WL#9211, I-1).

What InnoDB does not persist (non-transactional and empty groups) comes into the table with the
rotation or shutdown that closes its binary log file, or from the file at the next start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tallystick.producers.simulator.gtid_intervals import GtidIntervals
    from tallystick.producers.simulator.model import Instance


def save(instance: Instance, gtids: GtidIntervals) -> None:
    """Gtid_table_persistor::save(): add a set to mysql.gtid_executed."""
    instance.table.update(gtids)


def fetch_gtids(instance: Instance) -> GtidIntervals:
    """Gtid_table_persistor::fetch_gtids(): what the table holds."""
    return instance.table.copy()


def update_prev_gtids(instance: Instance, written: GtidIntervals) -> None:
    """InnoDB has written these: the next rotation need not save them again."""
    instance.gtids_saved.update(written)


def save_gtids_of_last_binlog_into_table(instance: Instance) -> GtidIntervals:
    """A file is closed: save what was executed and is not saved yet.

    Returns:
        What was saved.
    """
    unsaved = instance.executed.minus(instance.gtids_saved)
    save(instance, unsaved)
    update_prev_gtids(instance, unsaved)
    return unsaved


def init_gtid_sets(instance: Instance, last_binlog: GtidIntervals) -> None:
    """A start: gtid_executed is what the table and the last binary log file hold.

    GTIDs of the file that the table lacks are saved before the next file is opened.
    """
    executed = fetch_gtids(instance)
    executed.update(last_binlog)
    only_in_table = executed.minus(last_binlog).minus(instance.purged)
    for gtids in (instance.table_only, instance.purged):
        gtids.update(only_in_table)
    instance.executed = executed
    instance.logged = executed.copy()
    instance.gtids_saved = executed.copy()
    save(instance, executed)
