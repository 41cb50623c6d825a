"""Tables and their content: so that "the same data" can be verified (WL#3576).

Every group changes one row of one table. A row remembers in which order its changes came, a table
sums up its rows. So a group that is lost, repeated or put after another change of the same row
leaves another digest, while groups of different rows may be exchanged.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from tallystick.producers.simulator.kernel.transactions import GroupKind
from tallystick.producers.simulator.server import workload
from tallystick.producers.simulator.server.channels import ChannelMap, QueuedGroup
from tallystick.producers.simulator.server.commit_queue import (
    MAY_REORDER,
    VISIBLE,
    CommitQueue,
    Pending,
)
from tallystick.producers.simulator.server.locks import MAY_COMMIT

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from random import Random

    from tallystick.producers.simulator.kernel.bus import Bus
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.transactions import Group

_SCRATCH_SHARE = 20
"""Percent of the groups that change a table which is not backed up."""
_ROWS = 8
_MASK = (1 << 64) - 1
_PRIME = 0x100000001B3


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    Attributes:
        name: With its schema.
        engine: As servers print it.
        is_backed_up: Whether a backup takes it.
    """

    name: str
    engine: str
    is_backed_up: bool = True


MYISAM = "MyISAM"
_TRANSACTIONAL = (Table("shop.orders", "InnoDB"), Table("shop.items", "InnoDB"))
_NON_TRANSACTIONAL = (Table("shop.visits", MYISAM),)
_SCRATCH = {
    "InnoDB": Table("scratch.imports", "InnoDB", is_backed_up=False),
    MYISAM: Table("scratch.counters", MYISAM, is_backed_up=False),
}
BACKED_UP = tuple(sorted((*_TRANSACTIONAL, *_NON_TRANSACTIONAL), key=lambda table: table.name))
"""The tables that a backup takes, in order of their names."""


def table_of(group: Group) -> Table | None:
    """The table that a group changes; None if it changes none."""
    if group.kind is GroupKind.EMPTY:
        return None
    fingerprint = _fingerprint(group)
    is_transactional = group.kind not in (GroupKind.NON_TRANSACTIONAL, GroupKind.ROLLED_BACK)
    if fingerprint % 100 < _SCRATCH_SHARE:
        return _SCRATCH["InnoDB" if is_transactional else MYISAM]
    tables = _TRANSACTIONAL if is_transactional else _NON_TRANSACTIONAL
    return tables[fingerprint // 100 % len(tables)]


def row_of(group: Group) -> int:
    """The row of its table that a group changes, from 0."""
    return _fingerprint(group) // 1000 % _ROWS


def _fingerprint(group: Group) -> int:
    """What identifies a change: an XA transaction's is that of its first group."""
    return (group if group.xa_of is None else group.xa_of).body[0][3]


class TableData:
    """The content of one server's tables.

    Attributes:
        rows: Versions of the rows of each table, 0 for a row that no group has changed.
    """

    def __init__(self) -> None:
        self.rows: dict[str, list[int]] = {}

    def change(self, group: Group) -> None:
        """A group becomes visible; prepared XA transactions do when they are committed."""
        table = table_of(group)
        if table is None or group.kind is GroupKind.XA_PREPARE:
            return
        rows = self.rows.setdefault(table.name, [0] * _ROWS)
        fingerprint = _fingerprint(group)
        row = row_of(group)
        rows[row] = ((rows[row] ^ fingerprint) * _PRIME + row + 1) & _MASK

    def copy(self, names: Collection[str] | None = None) -> TableData:
        """The content of some tables, or of all, for another server or an image."""
        copy = TableData()
        copy.rows = {
            name: list(rows) for name, rows in self.rows.items() if names is None or name in names
        }
        return copy

    def checksums(self, tables: Iterable[Table] = BACKED_UP) -> list[dict[str, Any]]:
        """CHECKSUM TABLE and a count of the rows, as the journal has them."""
        found = []
        for table in tables:
            rows = self.rows.get(table.name, [])
            found.append(
                {
                    "name": table.name,
                    "engine": table.engine,
                    "rows": sum(version != 0 for version in rows),
                    "checksum": f"{sum(rows) & _MASK:016x}",
                }
            )
        return found


def make_change(
    rng: Random, kind: GroupKind, server_id: int, commit_ts: int, like: Group | None = None
) -> Group:
    """A transaction that changes a table which is backed up.

    Args:
        rng: Decides which table and row.
        kind: How it is written.
        server_id: Of the server that commits it first.
        commit_ts: When it does.
        like: A group whose row it changes again; None: any row.
    """
    while True:
        group = workload.make_group(rng, kind, server_id, commit_ts)
        table = table_of(group)
        if table is None or not table.is_backed_up:
            continue
        if like is None or (table, row_of(group)) == (table_of(like), row_of(like)):
            return group


def make_outsider(rng: Random, server_id: int, commit_ts: int) -> Group:
    """A transaction that changes a table which is not backed up."""
    while True:
        group = workload.make_group(rng, GroupKind.INNODB, server_id, commit_ts)
        table = table_of(group)
        if table is not None and not table.is_backed_up:
            return group


def install(instances: Iterable[Instance]) -> None:
    """From now on these servers, which have written nothing yet, keep track of their content."""
    for instance in instances:
        if instance.get(TableData) is None:
            instance[TableData] = TableData()


def join(bus: Bus) -> None:
    """Somebody may look at the content of tables; changes of one row then wait for each other."""
    bus.connect(VISIBLE, _change)
    bus.connect(MAY_REORDER, _may_reorder)
    bus.connect(MAY_COMMIT, _may_execute)


def _may_reorder(instance: Instance, pending: Pending) -> bool:
    """Whether no group that was logged earlier holds the lock of the row that a group changes."""
    if instance.get(TableData) is None:
        return True
    earlier = takewhile(lambda other: other is not pending, instance[CommitQueue].in_commit)
    return not any(_same_row(other.logged.group, pending.logged.group) for other in earlier)


def _may_execute(instance: Instance, group: Group) -> bool:
    """Whether no group that a channel received earlier is to change the same row before."""
    if instance.get(TableData) is None:
        return True
    for channel in instance[ChannelMap].channels.values():
        queued = [item for item in channel.pending if isinstance(item, QueuedGroup)]
        if any(item.logged.group is group for item in queued):
            earlier = takewhile(lambda item: item.logged.group is not group, queued)
            return not any(
                _same_row(item.logged.group, group) for item in earlier if not item.is_applied
            )
    return True


def _same_row(one: Group, other: Group) -> bool:
    table = table_of(one)
    return table is not None and table == table_of(other) and row_of(one) == row_of(other)


def _change(instance: Instance, group: Group) -> None:
    tables = instance.get(TableData)
    if tables is not None:
        tables.change(group)
