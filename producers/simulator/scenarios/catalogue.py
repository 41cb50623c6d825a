"""The scenarios of the five documents, by name."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tallystick.producers.simulator.scenarios import (
    backup_safe_binlog,
    clone,
    log_position_lock,
    online_backup,
    replication_info,
)

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.scenario import Scenario
    from tallystick.producers.simulator.scenarios.design_scenario import DesignScenario

DESIGN_SCENARIOS: dict[str, DesignScenario] = {
    shown.name: shown
    for shown in (
        log_position_lock.SCENARIO,
        clone.SCENARIO,
        backup_safe_binlog.SCENARIO,
        replication_info.SCENARIO,
        online_backup.SCENARIO,
    )
}
"""All of them, in the order in which they are listed."""


def with_options(scenario: Scenario) -> Scenario:
    """The scenario with the options of its document's scenario.

    Raises:
        ValueError: There is no such scenario, or another act or fault is asked for beside it.
    """
    name = scenario.design_scenario
    if name is None:
        return scenario
    shown = DESIGN_SCENARIOS.get(name)
    if shown is None:
        raise ValueError(f"expected a scenario of {', '.join(DESIGN_SCENARIOS)}, got {name!r}")
    others = (*scenario.negatives, *(() if scenario.fault is None else (scenario.fault,)))
    if set(others) - set(shown.options.get("negatives", ())):
        raise ValueError(f"scenario {name!r} is played alone, got {', '.join(others)} with it")
    return replace(scenario, **shown.options)
