"""The binary log's mutex, where somebody holds it for longer than a moment (WL#3576, the mail).

A large transaction holds it while its cache is written; a backup that took it in ``prelock`` would
hold it as long as all engines need for theirs. Meanwhile nobody commits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from tallystick.producers.simulator.kernel.world import WENT_DOWN
from tallystick.producers.simulator.server import commit
from tallystick.producers.simulator.server.locks import MAY_COMMIT

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.bus import Bus
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.transactions import Group
    from tallystick.producers.simulator.kernel.world import World


@dataclass(frozen=True, slots=True, eq=False)
class BinlogMutex:
    """The mutex of one server, while it is held.

    Attributes:
        until: When it will be released; None: not known.
    """

    until: int | None = None


def flush_large(fleet: World, instance: Instance, group: Group, us: int) -> None:
    """A transaction's cache is written for so long; then it is logged and committed."""
    instance[BinlogMutex] = BinlogMutex(fleet.now + us)
    fleet.schedule(fleet.now + us, instance, partial(_end_flush, group=group), instance)


def _end_flush(fleet: World, instance: Instance, *, group: Group) -> None:
    instance.remove(BinlogMutex)
    commit.commit(fleet, instance, group)


def time_left(instance: Instance, now: int) -> int:
    """How long who wants the mutex has to wait, microseconds."""
    mutex = instance.get(BinlogMutex)
    return 0 if mutex is None or mutex.until is None else max(0, mutex.until - now)


def join(bus: Bus) -> None:
    """Commits wait for the mutex, which ends with the server."""
    bus.connect(MAY_COMMIT, lambda instance, _: instance.get(BinlogMutex) is None)
    bus.connect(WENT_DOWN, lambda _, instance: instance.remove(BinlogMutex))
