"""What a negative case is: a legal history that looks wrong, as one class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallystick.producers.simulator.kernel.world import World


class Negative:
    """A healthy history that looks like a fault; a subclass that has a name is registered.

    Attributes:
        name: What a scenario calls it.
        text: What looks wrong, and why it is not.
        options: Fields of the scenario that it sets.
        excludes: Cases with which it would make a fault: servers do both, but not in good health.
    """

    registered: ClassVar[list[type[Negative]]] = []
    name: ClassVar[str]
    text: ClassVar[str]
    options: ClassVar[Mapping[str, Any]] = {}
    excludes: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls) -> None:
        if "name" in vars(cls):
            cls.registered.append(cls)

    def arrange(self, fleet: World) -> None:
        """Schedule the acts when the fleet has been built; by default the options are enough."""
