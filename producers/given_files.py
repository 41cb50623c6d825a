"""Paths and files that people name: neither empty nor without an end."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator

BYTES_MAX = 8 * 2**20
"""Of settings and certificates: ten thousand servers take less."""


def _not_empty(value: Any) -> Any:
    # Python takes it for the current directory; it is a variable of a shell that was not set.
    if value == "":
        raise ValueError("expected a path")
    return value


GivenPath = Annotated[Path, BeforeValidator(_not_empty)]
"""A path among settings."""


def read_whole(path: Path) -> bytes:
    """What a file has, which may be a pipe.

    Raises:
        OSError: It cannot be read, or is longer than such a file can be, as a device is.
    """
    with path.open("rb") as file:
        content = file.read(BYTES_MAX + 1)
    if len(content) > BYTES_MAX:
        raise OSError(errno.EFBIG, f"it is longer than {BYTES_MAX >> 20} MiB")
    return content
