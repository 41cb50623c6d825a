"""The demonstrations of the designs, by name. A scenario names the one that it is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tallystick.producers.simulator.backup_safe_binlog import demonstration as backup_safe_binlog
from tallystick.producers.simulator.clone import demonstration as clone
from tallystick.producers.simulator.log_position_lock import demonstration as log_position_lock
from tallystick.producers.simulator.online_backup import demonstration as online_backup
from tallystick.producers.simulator.replication_info import demonstration as replication_info

if TYPE_CHECKING:
    from tallystick.producers.simulator.demonstration import Demonstration
    from tallystick.producers.simulator.scenario import Scenario

DEMONSTRATIONS: dict[str, Demonstration] = {
    demonstration.name: demonstration
    for demonstration in (
        log_position_lock.DEMONSTRATION,
        clone.DEMONSTRATION,
        backup_safe_binlog.DEMONSTRATION,
        replication_info.DEMONSTRATION,
        online_backup.DEMONSTRATION,
    )
}
"""All demonstrations, in the order in which they are listed."""


def with_options(scenario: Scenario) -> Scenario:
    """The scenario with the options that its demonstration needs.

    Raises:
        ValueError: The demonstration is not known, or another act or fault is asked for beside it.
    """
    name = scenario.demonstration
    if name is None:
        return scenario
    demonstration = DEMONSTRATIONS.get(name)
    if demonstration is None:
        raise ValueError(f"expected a demonstration of {', '.join(DEMONSTRATIONS)}, got {name!r}")
    others = (*scenario.negatives, *(() if scenario.fault is None else (scenario.fault,)))
    if set(others) - set(demonstration.options.get("negatives", ())):
        raise ValueError(f"demonstration {name!r} stands alone, got {', '.join(others)} beside it")
    return replace(scenario, **demonstration.options)
