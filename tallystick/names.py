"""Names that a user gives: of a rule, a fault, a setting; those that are none are refused."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from tallystick.errors import MisuseError


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
        raise MisuseError(f"no {kind} has the name {name!r}{suggestion(name, known)}")


def suggestion(name: str, known: Mapping[str, Any]) -> str:
    """Ask about the nearest known name, if one is near; capitals are no difference."""
    names = {one.lower(): one for one in known}
    near = difflib.get_close_matches(name.lower(), names, n=1)
    return f"; did you mean {names[near[0]]!r}?" if near else ""
