"""Rpl_info_table: the repository that is a system table.

There is no optimistic write to a table: before the period ends nothing is written at all (REQ-3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick.producers.simulator.replication_info.rpl_info_handler import (
    Repository,
    RplInfoHandler,
    Written,
)
from tallystick.producers.simulator.replication_info.rpl_info_table_access import RplInfoTableAccess

if TYPE_CHECKING:
    from tallystick.producers.simulator.replication_info.rpl_info_fields import RplInfoFields
    from tallystick.producers.simulator.replication_info.rpl_info_table_access import (
        Key,
        SystemTable,
    )


class RplInfoTable(RplInfoHandler):
    """A row of a system table."""

    kind = Repository.TABLE

    def __init__(self, table: SystemTable, key: Key) -> None:
        super().__init__()
        self.access = RplInfoTableAccess(table, key)

    @property
    def is_transactional(self) -> bool:
        """Whether the table's engine is."""
        return self.access.table.is_transactional

    def check_info(self) -> bool:
        """Whether the row exists."""
        return self.access.find_info_id()

    def init_info(self) -> RplInfoFields | None:
        """The row."""
        return self.access.load_info_fields() if self.access.find_info_id() else None

    def flush_info(
        self, fields: RplInfoFields, *, force: bool, sync_period: int, count: int = 1
    ) -> Written | None:
        """Write the row, or nothing."""
        if not force and self.is_skipped(sync_period, count):
            return None
        self.sync_counter = 0
        self.access.store_info_fields(fields)
        return Written(is_durable=self.is_transactional)

    def is_skipped(self, sync_period: int, count: int) -> bool:
        """Before the period ends nothing is written."""
        counted = self.sync_counter + count
        if sync_period and counted >= sync_period:
            return False
        self.sync_counter = counted
        return True

    def reset_info(self) -> None:
        """Delete the row."""
        self.access.delete_row()

    def end_info(self) -> None:
        """Close the table."""
        self.access.table.sync()
