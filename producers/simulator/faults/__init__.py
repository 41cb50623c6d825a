"""Faults that a simulated fleet can be given: one class each, one module a family.

A fault is registered by being defined in a module of this package.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Final

from tallystick.producers.simulator.faults.fault import BaseHistory, Fault, FaultGroup

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["FAULTS", "BaseHistory", "Fault", "FaultGroup", "make_fault"]

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

FAULTS: Final[Mapping[str, type[Fault]]] = {
    fault.name: fault for fault in sorted(Fault.registered, key=lambda fault: fault.number)
}
"""Every fault that can be injected, by name, in the order of their numbers."""


def make_fault(name: str) -> Fault:
    """A new injection of the fault of that name.

    Raises:
        ValueError: There is no such fault.
    """
    fault = FAULTS.get(name)
    if fault is None:
        raise ValueError(f"expected the name of a fault ({', '.join(FAULTS)}), got {name!r}")
    return fault()
