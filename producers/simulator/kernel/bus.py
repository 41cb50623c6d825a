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

    def call(self, listeners: Sequence[Callable[..., Any]], args: tuple[Any, ...]) -> R:
        """Call all listeners; what comes of it."""
        raise NotImplementedError


class Notice(Moment[P, None]):
    """It happens, and everybody is called."""

    def call(self, listeners: Sequence[Callable[..., Any]], args: tuple[Any, ...]) -> None:
        """Call all listeners."""
        for listener in listeners:
            listener(*args)


class Permit(Moment[P, bool]):
    """It happens unless somebody says False; who comes after them is not asked."""

    def call(self, listeners: Sequence[Callable[..., Any]], args: tuple[Any, ...]) -> bool:
        """Whether all agree."""
        for listener in listeners:  # noqa: SIM110 - a generator costs more than the listeners
            if not listener(*args):
                return False
        return True


class Change(Moment[P, R]):
    """Its last argument is a value that each listener may replace; None ends the round."""

    def call(self, listeners: Sequence[Callable[..., Any]], args: tuple[Any, ...]) -> R:
        """The value that comes out."""
        value: Any = args[-1]
        for listener in listeners:
            if value is not None:
                value = listener(*args[:-1], value)
        made: R = value
        return made


class Bus:
    """Who takes part in which moment of one simulation."""

    def __init__(self) -> None:
        self._listeners: dict[Moment[..., Any], list[Callable[..., Any]]] = {}

    def connect(self, moment: Moment[P, R], listener: Callable[P, R]) -> None:
        """Call ``listener`` at a moment, after those that are connected already."""
        self._listeners.setdefault(moment, []).append(listener)

    def disconnect(self, owner: object) -> None:
        """Call no method of ``owner`` any more."""
        for moment, listeners in self._listeners.items():
            kept = [one for one in listeners if getattr(one, "__self__", None) is not owner]
            self._listeners[moment] = kept

    def emit(self, moment: Moment[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """It happens now; its arguments are given by position."""
        assert not kwargs
        return moment.call(self._listeners.get(moment, ()), args)
