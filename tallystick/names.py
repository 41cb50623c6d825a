"""Names that a user gives: of a rule, a fault, a setting; those that are none are refused."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from tallystick.coordinates.events._field_checks import FieldError, instance_name
from tallystick.errors import MisuseError

_LISTED = {
    "rule": "tallystick rules lists them",
    "fault": "tallystick faults lists them",
    "negative case": "docs/negatives.md lists them",
}
_SHOWN_MAX = 20


def require_known(kind: str, name: str, known: Mapping[str, Any]) -> None:
    """Refuse a name that is none of those that are known.

    Args:
        kind: Of what it is the name: ``rule``.
        name: The name.
        known: All names.

    Raises:
        MisuseError: It is none of them.
    """
    if name not in known:
        hint = suggestion(name, known) or f"; {_LISTED[kind]}"
        raise MisuseError(f"no {kind} has the name {name!r}{hint}")


def require_instance(name: str, known: Iterable[str]) -> None:
    """Refuse the name of an instance that a journal has nothing of.

    Args:
        name: The name.
        known: The instances of the journal.

    Raises:
        MisuseError: It is none of them.
    """
    names = dict.fromkeys(sorted(known))
    if name in names:
        return
    shown = ", ".join([*names][:_SHOWN_MAX]) + (", …" if len(names) > _SHOWN_MAX else "")
    hint = suggestion(name, names) or (f": expected one of {shown}" if names else ": it has none")
    raise MisuseError(f"the journal has no instance {name!r}{hint}")


def require_fit(names: Iterable[str]) -> None:
    """Refuse names that no instance can have.

    Raises:
        MisuseError: One is such a name.
    """
    for name in names:
        try:
            instance_name(name)
        except FieldError as error:
            raise MisuseError(
                f"expected an instance's name, {error.expected}, found {name!r}"
            ) from None


def suggestion(name: str, known: Mapping[str, Any]) -> str:
    """Ask about the nearest known name, if one is near; capitals are no difference."""
    names = {one.lower(): one for one in known}
    near = difflib.get_close_matches(name.lower(), names, n=1)
    return f"; did you mean {names[near[0]]!r}?" if near else ""
