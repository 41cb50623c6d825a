"""The end of a clone at its donor: commits in binary log order, external XA held back (WL#9211).

With ``binlog_order_commits=OFF``, or workers that do not preserve the commit order, groups commit
in any order after the flush stage. One binary log position can represent a set of transactions
only if they commit in the log's order, so a clone forces it. External XA statements never follow
that order: they wait for a moment.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tallystick.producers.simulator.kernel.transactions import GroupKind
from tallystick.producers.simulator.server.commit_queue import CommitQueue

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.transactions import Group
    from tallystick.producers.simulator.server.commit_queue import Pending

_XA_KINDS = frozenset(
    {
        GroupKind.XA_PREPARE,
        GroupKind.XA_COMMIT,
        GroupKind.XA_ROLLBACK,
        GroupKind.XA_ONE_PHASE,
    }
)


@dataclass(slots=True)
class CommitOrder:
    """What a donor forces on its commits while a clone ends."""

    is_forced: bool = False
    blocks_xa: bool = False
    unordered: list[Pending] = field(default_factory=list)
    """Groups that were prepared when the order was forced: they may still commit in any order."""

    def force(self, instance: Instance) -> None:
        """From now on groups commit in binary log order; what is prepared already is awaited."""
        self.is_forced = True
        self.unordered = list(instance[CommitQueue].in_commit)

    def committed(self, pending: Pending) -> bool:
        """A group has committed; True: it was the last one that was awaited."""
        if pending not in self.unordered:
            return False
        self.unordered.remove(pending)
        return not self.unordered

    def holds_back(self, group: Group) -> bool:
        """Whether a statement waits: external XA PREPARE, COMMIT, ROLLBACK."""
        return self.blocks_xa and (group.kind in _XA_KINDS or group.xa_of is not None)

    def orders(self, pending: Pending) -> bool:
        """Whether the commit of a group has to wait for those in front of it."""
        return self.is_forced and pending not in self.unordered
