"""The TRX_SYS page of InnoDB: where the binary log stood at the last commit (WL#9211, PHY).

A server writes the coordinates into the page while it donates a clone; MySQL 8.0 leaves them as
they are at other times. For servers that write them always see ``innodb_header``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tallystick.producers.simulator.model import Instance, Pending


def note_commit(instance: Instance, pending: Pending) -> None:
    """An InnoDB transaction commits: its place goes into the page with it."""
    if instance.donation is not None:
        instance.innodb.trx_sys = (pending.file.name, pending.logged.end)


def update_binlog_position(instance: Instance) -> None:
    """Let the page name the end of what is committed, where no InnoDB commit has done so.

    All commits are in the order of the binary log by now: everything in front of the first group
    that is between its stages is committed.
    """
    if not instance.log_bin:
        instance.innodb.trx_sys = ("", 0)
        return
    if instance.in_commit:
        first = instance.in_commit[0]
        instance.innodb.trx_sys = (first.file.name, first.logged.start)
    else:
        instance.innodb.trx_sys = instance.binlog.position
