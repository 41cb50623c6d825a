"""Things made of components, each found by its class: the owner knows none of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar

C = TypeVar("C")


@dataclass(slots=True, eq=False)
class Components:
    """What owns components, at most one of a class.

    A component keeps its own state; whoever needs it asks for it: ``instance[BinaryLog]``.
    """

    _components: dict[type, Any] = field(init=False, repr=False, default_factory=dict)

    def __getitem__(self, kind: type[C]) -> C:
        component: C = self._components[kind]
        return component

    def __setitem__(self, kind: type[C], component: C) -> None:
        self._components[kind] = component

    def get(self, kind: type[C]) -> C | None:
        """The component of that class, where there is one."""
        return self._components.get(kind)

    def add(self, *components: object) -> None:
        """Put in components that are there from the beginning."""
        for component in components:
            self._components[type(component)] = component

    def remove(self, kind: type[object]) -> None:
        """Take out a component, if it is there."""
        self._components.pop(kind, None)
