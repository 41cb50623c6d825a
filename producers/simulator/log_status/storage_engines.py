"""Storage engine plugins and their handlerton: who takes part in a collection, and how.

WL#9452, Steps 5 and 6: three functions of the handlerton lock the engine's log, show where it
is, and unlock it. Only an engine that has all three is wrapped.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tallystick.producers.simulator.innodb.redo_log import Innodb
from tallystick.producers.simulator.log_status import latches
from tallystick.producers.simulator.log_status.latches import Latches

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallystick.producers.simulator.kernel.instance import Instance


@dataclass(frozen=True, slots=True, eq=False)
class Handlerton:
    """A storage engine as the server knows it.

    Attributes:
        name: Key under STORAGE_ENGINES.
        lock_hton_log: Blocks the engine's log; called before collecting. False on success, as
            WL#9452, Step-6 has it.
        unlock_hton_log: Its inverse; called after collecting.
        collect_hton_log_info: Puts the engine's log information into the column's object.
    """

    name: str
    lock_hton_log: Callable[[Instance, int], bool] | None = None
    unlock_hton_log: Callable[[Instance, int], None] | None = None
    collect_hton_log_info: Callable[[Instance, dict[str, Any]], None] | None = None

    @property
    def takes_part(self) -> bool:
        """Whether the engine has all three functions."""
        return None not in (self.lock_hton_log, self.unlock_hton_log, self.collect_hton_log_info)


def _innobase_lock_hton_log(instance: Instance, session: int) -> bool:
    # In this order: a mini-transaction that waits for room in the log buffer needs a checkpoint
    # while it holds the buffer for reading.
    instance[Latches].take(latches.LOG_BUFFER, session)
    instance[Latches].take(latches.LOG_CHECKPOINTER, session)
    return False


def _innobase_unlock_hton_log(instance: Instance, session: int) -> None:
    instance[Latches].release(latches.LOG_CHECKPOINTER, session)
    instance[Latches].release(latches.LOG_BUFFER, session)


def _innobase_collect_hton_log_info(instance: Instance, json_engines: dict[str, Any]) -> None:
    json_engines["InnoDB"] = {
        "LSN": instance[Innodb].lsn,
        "LSN_checkpoint": instance[Innodb].checkpoint,
    }


MYISAM = Handlerton("MyISAM")
INNODB = Handlerton(
    "InnoDB", _innobase_lock_hton_log, _innobase_unlock_hton_log, _innobase_collect_hton_log_info
)


def _compiled_in() -> dict[str, Handlerton]:
    """The engines that every server has."""
    return {engine.name: engine for engine in (MYISAM, INNODB)}


@dataclass(slots=True, eq=False)
class StorageEngines:
    """Plugins of an instance.

    Attributes:
        installed: By name, in the order in which they are listed.
        initializing: Names of those that are installed and not ready yet.
    """

    installed: dict[str, Handlerton] = field(default_factory=_compiled_in)
    initializing: set[str] = field(default_factory=set)

    def ready(self) -> list[Handlerton]:
        """The plugins that may be called."""
        return [hton for name, hton in self.installed.items() if name not in self.initializing]
