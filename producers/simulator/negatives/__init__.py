"""Negative cases: legal histories that look wrong. A scenario names those that it exercises."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from tallystick.producers.simulator.negatives.negative import Negative

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallystick.producers.simulator.kernel.scenario import Scenario

__all__ = ["AT_LEAST", "NEGATIVES", "Negative", "with_options"]

_FAMILIES: Final = tuple(
    f"{__name__}.{family}"
    for family in (
        *("replication", "administration", "binary_log", "fleet", "transactions"),
        *("log_position_lock", "online_backup", "clone", "gtid_persistence"),
        *("backup_safe_binlog", "replication_info", "point_in_time_recovery", "redo_log"),
    )
)
"""The modules of this package that hold cases, in the order in which a campaign takes them."""

for _family in _FAMILIES:
    import_module(_family)

NEGATIVES: Final[Mapping[str, type[Negative]]] = {
    case.name: case
    for case in sorted(Negative.registered, key=lambda case: _FAMILIES.index(case.__module__))
}
"""All negative cases by name, in the order of their families and of their definition."""


AT_LEAST: Final = frozenset({"writes_per_second"})
"""Options of which several cases get the greatest that one of them needs."""


def with_options(scenario: Scenario) -> Scenario:
    """The scenario with the options that its negative cases need.

    Raises:
        ValueError: A case is not known, or cannot be together with another.
    """
    options: dict[str, Any] = {}
    for name in scenario.negatives:
        case = NEGATIVES.get(name)
        if case is None:
            raise ValueError(f"expected a negative case of {', '.join(NEGATIVES)}, got {name!r}")
        for other in case.excludes.intersection(scenario.negatives):
            raise ValueError(f"negative cases {name!r} and {other!r} together make a fault")
        for key, value in case.options.items():
            if key in AT_LEAST:
                options[key] = max(value, options.get(key, value))
            elif options.setdefault(key, value) != value:
                raise ValueError(
                    f"negative case {name!r} needs {key}={value!r}, another needs {options[key]!r}"
                )
    return replace(scenario, **options) if options else scenario
