"""Secrets in files: read only where others cannot read them."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

BYTES_MAX = 64 * 1024


def _at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def read_secret_file(path: Path, refuse: Callable[[str], Exception]) -> str:
    """The text of a file that nobody else can read or write.

    The group may read it: so a secret is handed to a process that is not its owner.

    Args:
        path: The file.
        refuse: Makes the error of a sentence without a subject's name before it.

    Raises:
        Exception: What ``refuse`` makes, if the file cannot be read or is open to others.
    """
    try:
        # A pipe that nobody writes would be waited for.
        with open(path, "rb", opener=_at_once) as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode):
                raise refuse(f"expected a regular file, found {str(path)!r}")
            if mode & (stat.S_IRWXO | stat.S_IWGRP):
                raise refuse(
                    f"{str(path)!r} is open to others (mode {stat.S_IMODE(mode):04o});"
                    " expected at most 0640: chmod 600"
                )
            content = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise refuse(f"{str(path)!r} cannot be read: {error.strerror}") from None
    if len(content) > BYTES_MAX:
        raise refuse(f"{str(path)!r} is longer than a secret can be")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise refuse(f"{str(path)!r} is no UTF-8") from None
