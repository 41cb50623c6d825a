"""Groups between the flush stage and the commit stage of a server: data only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tallystick.producers.simulator.kernel.bus import Notice, Permit

if TYPE_CHECKING:
    from tallystick.producers.simulator.backup.threads import Thread
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.transactions import Group, LoggedGroup
    from tallystick.producers.simulator.kernel.world import World
    from tallystick.producers.simulator.server.binary_log import BinlogFile
    from tallystick.producers.simulator.server.channels import Channel, QueuedGroup

ENGINE_COMMIT: Notice[[Instance, Pending]] = Notice(
    "InnoDB has flushed the commit of a logged group; also where it has no part in it"
)
VISIBLE: Notice[[Instance, Group]] = Notice("what a group changed is visible")
EXECUTED: Notice[[Instance, Pending]] = Notice("a logged group is in gtid_executed")
COMMITS_ENDED: Notice[[World, Instance]] = Notice("groups have left the commit stage")
MAY_REORDER: Permit[[Instance, Pending]] = Permit(
    "a group is to be committed before others that were logged earlier"
)


@dataclass(slots=True, eq=False)
class Pending:
    """A group in the binary log between flush stage and commit stage (``gtid_owned``)."""

    logged: LoggedGroup
    file: BinlogFile
    channel: Channel | None
    queued: QueuedGroup | None
    thread: Thread | None = None
    """Who executes the critical sequence, where the server has a critical zone."""
    redo_lsn: int = 0
    """Where the redo of its prepare ends; 0: it has none."""


@dataclass(slots=True, eq=False)
class CommitQueue:
    """The commit queue of an instance.

    Attributes:
        in_commit: Groups between flush and commit stage, in log order.
        prepared_xa: External XA transactions after XA PREPARE.
        last_commit_ts: Commit timestamp of the last group that a client wrote here.
        super_read_only: Commits of clients fail, whoever sends them: a source that was demoted.
        generation: Raised by crash and RESET: scheduled commit stages become void.
    """

    in_commit: list[Pending] = field(default_factory=list)
    prepared_xa: list[Group] = field(default_factory=list)
    last_commit_ts: int = 0
    super_read_only: bool = False
    generation: int = 0
