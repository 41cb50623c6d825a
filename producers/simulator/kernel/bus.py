"""The bus: components of servers, and faults, take part in what happens elsewhere.

A *moment* is a value that the module declares where it happens, with the types of its arguments.
Whoever wants to take part connects a function to it; nobody needs to import who that is.
Functions are called in the order in which they were connected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

P = ParamSpec("P")
R = TypeVar("R")


class Moment(Generic[P, R]):
    """Something that happens."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.text!r})"

    def call_of(self, listeners: Sequence[Callable[..., Any]]) -> Callable[..., R]:
        """One function that calls all listeners; it gives what comes of it."""
        raise NotImplementedError


class Notice(Moment[P, None]):
    """It happens, and everybody is called."""

    def call_of(self, listeners: Sequence[Callable[..., Any]]) -> Callable[..., None]:
        """A function that calls all listeners."""
        if len(listeners) == 1:
            return listeners[0]

        def call(*args: Any) -> None:
            for listener in listeners:
                listener(*args)

        return call


class Permit(Moment[P, bool]):
    """It happens unless somebody says False; who comes after them is not asked."""

    def call_of(self, listeners: Sequence[Callable[..., Any]]) -> Callable[..., bool]:
        """A function that returns whether all agree."""
        if len(listeners) == 1:
            return listeners[0]

        def call(*args: Any) -> bool:
            for listener in listeners:  # noqa: SIM110 - a generator costs more than the listeners
                if not listener(*args):
                    return False
            return True

        return call


class Change(Moment[P, R]):
    """Its last argument is a value that each listener may replace; None ends the round."""

    def call_of(self, listeners: Sequence[Callable[..., Any]]) -> Callable[..., R]:
        """A function that gives the value that comes out."""

        def call(*args: Any) -> R:
            value: Any = args[-1]
            for listener in listeners:
                if value is not None:
                    value = listener(*args[:-1], value)
            made: R = value
            return made

        return call


class Bus:
    """Who takes part in which moment of one simulation."""

    def __init__(self) -> None:
        self._listeners: dict[Moment[..., Any], list[Callable[..., Any]]] = {}
        self._calls: dict[Moment[..., Any], Callable[..., Any]] = {}
        """Made when a moment first happens, and anew when who takes part has changed."""

    def connect(self, moment: Moment[P, R], listener: Callable[P, R]) -> None:
        """Call ``listener`` at a moment, after those that are connected already."""
        self._listeners.setdefault(moment, []).append(listener)
        self._calls.pop(moment, None)

    def disconnect(self, owner: object) -> None:
        """Call no method of ``owner`` any more."""
        for moment, listeners in self._listeners.items():
            kept = [one for one in listeners if getattr(one, "__self__", None) is not owner]
            self._listeners[moment] = kept
        self._calls.clear()

    if TYPE_CHECKING:

        def emit(self, moment: Moment[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
            """It happens now; its arguments are given by position."""

    else:

        def emit(self, moment: Moment[..., R], *args: Any) -> R:
            """It happens now; its arguments are given by position."""
            call = self._calls.get(moment)
            if call is None:
                call = self._calls[moment] = moment.call_of(self._listeners.get(moment, ()))
            return call(*args)
