"""Things made of components, each found by its class: the owner knows none of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

C = TypeVar("C")


class Components(dict[type, Any]):
    """What owns components, at most one of a class.

    A component keeps its own state; whoever needs it asks for it: ``instance[BinaryLog]``. A dict,
    as it is asked hundreds of times a simulated second; an owner equals itself alone.
    """

    __slots__ = ()
    __eq__ = object.__eq__
    __ne__ = object.__ne__
    __hash__ = object.__hash__  # type: ignore[assignment]

    if TYPE_CHECKING:

        def __getitem__(self, kind: type[C]) -> C: ...

        def get(self, kind: type[C]) -> C | None:  # type: ignore[override]
            """The component of that class, where there is one."""

    def add(self, *components: object) -> None:
        """Put in components that are there from the beginning."""
        for component in components:
            self[type(component)] = component

    def remove(self, kind: type[object]) -> None:
        """Take out a component, if it is there."""
        self.pop(kind, None)
