"""Rpl_info_table_access: system tables, and the reading and writing of their rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tallystick.producers.simulator.replication_info.rpl_info_fields import RplInfoFields

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.replication_info.rpl_info_fields import Columns
    from tallystick.producers.simulator.replication_info.rpl_info_file import InfoFile

INNODB = "InnoDB"
MYISAM = "MyISAM"
_TRANSACTIONAL_ENGINES = frozenset({INNODB})

Key = tuple[Any, ...]
"""Values of the primary key: Channel_name, with Id for workers (REQ-2: one row for each)."""


class SystemTable:
    """A table of schema mysql, in any storage engine (REQ-1).

    A row of a transactional engine is on disk when its transaction has committed; a row of another
    waits in caches until somebody syncs it.

    Attributes:
        name: Without its schema.
        columns: Names and types.
        engine: As servers print it.
        defaults: What ALTER TABLE … SET DEFAULT gave to columns.
        rows: By primary key.
    """

    def __init__(self, name: str, columns: Columns, engine: str = INNODB) -> None:
        self.name = name
        self.columns = columns
        self.engine = engine
        self.defaults: dict[str, Any] = {}
        self.rows: dict[Key, dict[str, Any]] = {}
        self._on_disk: dict[Key, dict[str, Any]] = {}

    @property
    def is_transactional(self) -> bool:
        """Whether its engine can commit and roll back."""
        return self.engine in _TRANSACTIONAL_ENGINES

    def alter_engine(self, engine: str) -> None:
        """ALTER TABLE … ENGINE: the privilege of a super user; rows stay, and are on disk."""
        self.engine = engine
        self.sync()

    def insert(self, key: Key, values: dict[str, Any]) -> None:
        """A super user inserts a row by hand: other columns have the defaults of the table.

        CHANGE REPLICATION SOURCE never uses these, it writes every column itself (REQ-1).
        """
        self.rows[key] = {
            name: values.get(name, self.defaults.get(name)) for name, _ in self.columns
        }
        self.sync()

    def sync(self) -> None:
        """Everything is on disk."""
        self._on_disk = dict(self.rows)

    def lose_power(self) -> None:
        """What was only cached is gone."""
        if not self.is_transactional:
            self.rows = dict(self._on_disk)


@dataclass(slots=True, eq=False)
class InfoRepositories:
    """Where an instance keeps replication info.

    Attributes:
        tables: System tables by name.
        files: Files by name.
    """

    tables: dict[str, SystemTable] = field(default_factory=dict)
    files: dict[str, InfoFile] = field(default_factory=dict)


def system_table(instance: Instance, name: str, columns: Columns) -> SystemTable:
    """A system table of the instance, created when it is first needed."""
    table = instance[InfoRepositories].tables.get(name)
    if table is None:
        table = instance[InfoRepositories].tables[name] = SystemTable(name, columns)
    return table


class RplInfoTableAccess:
    """Access to the row of one channel in one table."""

    def __init__(self, table: SystemTable, key: Key) -> None:
        self.table = table
        self.key = key

    def find_info_id(self) -> bool:
        """Whether the table has the row of the key."""
        return self.key in self.table.rows

    def load_info_fields(self) -> RplInfoFields:
        """The values of the row, which must be there."""
        return RplInfoFields(self.table.columns, dict(self.table.rows[self.key]))

    def store_info_fields(self, fields: RplInfoFields) -> None:
        """Insert or update the row; the unique key leaves one."""
        self.table.rows[self.key] = dict(fields.values)

    def delete_row(self) -> None:
        """Delete the row, if there is one; a change of the table itself is on disk at once."""
        if self.table.rows.pop(self.key, None) is not None:
            self.table.sync()
