"""A node of Percona XtraDB Cluster: its XID in the InnoDB header, and the log file of a snapshot.

A node writes the XID of its last write set into the header with every InnoDB commit and with every
TOI operation, non-transactional ones included, so it is never stale. A state snapshot of a node
with GTIDs takes the last binary log file along: the joiner reads from it what has been executed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tallystick.producers.simulator.kernel.transactions import GroupKind, LoggedGroup
from tallystick.producers.simulator.server.binary_log import BinaryLog

if TYPE_CHECKING:
    from random import Random

    from tallystick.producers.simulator.kernel.gtid_intervals import GtidIntervals
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.transactions import Group
    from tallystick.producers.simulator.server.binary_log import BinlogFile

_TOI_KINDS = frozenset({GroupKind.NON_TRANSACTIONAL, GroupKind.DDL, GroupKind.ROLLED_BACK})
_TORN_CHANCE = 0.5


@dataclass(slots=True, eq=False)
class GaleraNode:
    """What makes a server a node.

    Attributes:
        seqno: Of the last write set that the node committed.
        header_seqno: That of the XID in the InnoDB header.
    """

    seqno: int = 0
    header_seqno: int = 0

    def note_commit(self, group: Group) -> None:
        """A write set is committed; a group that changes nothing is none."""
        if group.kind is GroupKind.EMPTY:
            return
        self.seqno += 1
        if group.redo_length or group.kind in _TOI_KINDS:
            self.header_seqno = self.seqno


@dataclass(frozen=True, slots=True)
class BinlogCopy:
    """The copy of a binary log file: what it held when the copy ended."""

    file: BinlogFile
    position: int
    """How much of it was copied."""

    def joiner_gtid_executed(self) -> GtidIntervals:
        """What a joiner reads from it: PREVIOUS_GTIDS and the groups that are complete."""
        return self.file.gtids(self.position)


def copy_last_file(instance: Instance, begun_at: int, rng: Random) -> BinlogCopy:
    """Read the last file up to its end.

    Args:
        instance: The node.
        begun_at: How long the file was when the reading began.
        rng: Where in a group that is being written the reading ends.
    """
    file = instance[BinaryLog].active
    last = file.entries[-1]
    if isinstance(last, LoggedGroup) and last.start >= begun_at and rng.random() < _TORN_CHANCE:
        ends = [last.start + last.gtid_length, *(s + n for _, _, s, n, _ in last.events())]
        return BinlogCopy(file, rng.choice(ends[:-1]))
    return BinlogCopy(file, file.end)
