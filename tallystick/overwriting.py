"""What a command reads, or has observed, is not written over: nobody could make it again."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tallystick.errors import MisuseError


def refuse_overwriting(target: str | Path, read: Iterable[str | Path]) -> None:
    """Refuse a file or directory to write that is one of those to read, whatever each is called.

    Raises:
        MisuseError: It is one of them.
    """
    for path in map(Path, read):
        try:
            is_same = path.samefile(target)
        except OSError:
            continue  # one of the two is not there
        # A terminal, or /dev/null, is read and written by many commands.
        if is_same and (path.is_file() or path.is_dir()):
            kind = "file" if path.is_file() else "directory"
            raise MisuseError(f"{str(target)!r} is read: expected another {kind} to write")


def refuse_existing(target: str) -> None:
    """Refuse a file to write that holds something already.

    Raises:
        MisuseError: It does.
    """
    path = Path(target)
    if path.is_file() and path.stat().st_size:
        raise MisuseError(f"{target!r} exists and is not empty: expected a new file, or -")
