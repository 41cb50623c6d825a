"""TOML from files that people write: read, or refused with a reason."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tallystick.producers.given_files import read_whole

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_DEPTH_MAX = 20


def read_toml(path: Path) -> dict[str, Any]:
    """The document in a file.

    Raises:
        OSError: It cannot be read, or is too long.
        ValueError: It is no TOML, or has what no setting can be: a NUL character, which no path
            can have, or tables in tables without an end. The message shows no value, for one may
            be a secret.
    """
    try:
        document = tomllib.loads(read_whole(path).decode())
    except RecursionError:
        raise ValueError("nested too deeply") from None
    _check(document, 0)
    return document


def _check(value: Any, depth: int) -> None:
    if depth > _DEPTH_MAX:
        raise ValueError("nested too deeply")
    if isinstance(value, dict):
        for key, one in value.items():
            _check(key, depth + 1)
            _check(one, depth + 1)
    elif isinstance(value, list):
        for one in value:
            _check(one, depth + 1)
    elif isinstance(value, str) and "\0" in value:
        raise ValueError("a NUL character is in a text")
