"""Faults that a simulated fleet can be given: the catalogue, and an injector of each.

``Scenario.fault`` names one; the engine then asks ``make_hooks`` for what injects it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tallystick.producers.simulator.faults.backup_safe_binlog import (
    BACKUP_SAFE_BINLOG_FAULTS,
    BACKUP_SAFE_BINLOG_INJECTORS,
)
from tallystick.producers.simulator.faults.catalogue import CATALOGUE
from tallystick.producers.simulator.faults.channel_faults import CHANNEL_INJECTORS
from tallystick.producers.simulator.faults.clone import CLONE_FAULTS, CLONE_INJECTORS
from tallystick.producers.simulator.faults.fault import BaseHistory, Fault, FaultGroup
from tallystick.producers.simulator.faults.fleet_faults import FLEET_INJECTORS
from tallystick.producers.simulator.faults.gtid_persistence import (
    GTID_PERSISTENCE_FAULTS,
    GTID_PERSISTENCE_INJECTORS,
)
from tallystick.producers.simulator.faults.injector import Injector
from tallystick.producers.simulator.faults.log_position_lock import (
    LOG_POSITION_LOCK_FAULTS,
    LOG_POSITION_LOCK_INJECTORS,
)
from tallystick.producers.simulator.faults.online_backup import (
    ONLINE_BACKUP_FAULTS,
    ONLINE_BACKUP_INJECTORS,
)
from tallystick.producers.simulator.faults.point_in_time_recovery import (
    RECOVERY_FAULTS,
    RECOVERY_INJECTORS,
)
from tallystick.producers.simulator.faults.protocol_faults import PROTOCOL_INJECTORS
from tallystick.producers.simulator.faults.replication_info import (
    REPLICATION_INFO_FAULTS,
    REPLICATION_INFO_INJECTORS,
)
from tallystick.producers.simulator.faults.repository_faults import REPOSITORY_INJECTORS
from tallystick.producers.simulator.faults.row_faults import ROW_INJECTORS
from tallystick.producers.simulator.faults.stream_faults import STREAM_INJECTORS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tallystick.producers.simulator.hooks import FaultHooks
    from tallystick.producers.simulator.scenario import Scenario

__all__ = [
    "FAULTS",
    "INJECTORS",
    "BaseHistory",
    "Fault",
    "FaultGroup",
    "Injector",
    "make_hooks",
    "make_injector",
]

FAULTS: Final[Mapping[str, Fault]] = {
    fault.name: fault
    for fault in (
        *CATALOGUE,
        *LOG_POSITION_LOCK_FAULTS,
        *CLONE_FAULTS,
        *BACKUP_SAFE_BINLOG_FAULTS,
        *ONLINE_BACKUP_FAULTS,
        *REPLICATION_INFO_FAULTS,
        *RECOVERY_FAULTS,
        *GTID_PERSISTENCE_FAULTS,
    )
}
"""Every fault that can be injected, by name, in the order of their numbers."""

INJECTORS: Final[Mapping[str, Callable[[], Injector]]] = {
    **ROW_INJECTORS,
    **STREAM_INJECTORS,
    **CHANNEL_INJECTORS,
    **REPOSITORY_INJECTORS,
    **FLEET_INJECTORS,
    **PROTOCOL_INJECTORS,
    **CLONE_INJECTORS,
    **LOG_POSITION_LOCK_INJECTORS,
    **GTID_PERSISTENCE_INJECTORS,
    **BACKUP_SAFE_BINLOG_INJECTORS,
    **ONLINE_BACKUP_INJECTORS,
    **REPLICATION_INFO_INJECTORS,
    **RECOVERY_INJECTORS,
}
"""How each fault is injected, by name."""


def make_injector(name: str) -> Injector:
    """A new injector of the fault of that name.

    Raises:
        ValueError: There is no such fault.
    """
    make = INJECTORS.get(name)
    if make is None:
        raise ValueError(f"expected the name of a fault ({', '.join(FAULTS)}), got {name!r}")
    injector = make()
    injector.name = name
    return injector


def make_hooks(scenario: Scenario) -> FaultHooks:
    """What injects the scenario's fault, which must name one.

    Raises:
        ValueError: There is no such fault.
    """
    return make_injector(scenario.fault or "")
