"""The TRX_SYS page of InnoDB: where the binary log was at the last commit (WL#9211, PHY).

A server writes the coordinates into the page while it donates a clone; MySQL 8.0 leaves them as
they are at other times. For servers that write them always see ``innodb_header``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick.producers.simulator.innodb.redo_log import Innodb
from tallystick.producers.simulator.server.binary_log import BinaryLog
from tallystick.producers.simulator.server.commit_queue import CommitQueue

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.instance import Instance


def update_binlog_position(instance: Instance) -> None:
    """Let the page name the end of what is committed, where no InnoDB commit has done so.

    All commits are in the order of the binary log by now: everything in front of the first group
    that is between its stages is committed.
    """
    if not instance[BinaryLog].is_open:
        instance[Innodb].trx_sys = ("", 0)
        return
    if instance[CommitQueue].in_commit:
        first = instance[CommitQueue].in_commit[0]
        instance[Innodb].trx_sys = (first.file.name, first.logged.start)
    else:
        instance[Innodb].trx_sys = instance[BinaryLog].position
