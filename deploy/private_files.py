"""Files and directories that nobody else can read, whatever the umask."""

from __future__ import annotations

import os
from pathlib import Path


def write_private(path: Path, content: bytes) -> None:
    """Write a file with mode 0600; one that was there with another mode gets this one."""
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(number, "wb") as file:
        os.fchmod(number, 0o600)
        file.write(content)


def private_directory(path: Path) -> None:
    """Make a directory with mode 0700, or give this mode to one that is there."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.chmod(0o700)
