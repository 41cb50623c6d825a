"""What a command reads, or has observed, is not written over: nobody could make it again."""

from __future__ import annotations

import os
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path

from tallystick.errors import MisuseError

OF_A_RUN = (
    "alerts.sqlite*",
    "artifacts",
    "before-rebuild-*",
    "broker",
    "checkpoint",
    "data_docs",
    "report.html",
    "report.json",
    "scenario.json",
    "spark.log*",
    "tables",
)
"""Names in a run's directory; outputs may be written beside them, again and again."""


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


def refuse_of_run(target: str, directory: Path, kept: str = "") -> None:
    """Refuse a file or directory to write that a run keeps for itself, there or to come.

    Args:
        target: What is to be written.
        directory: The run's own.
        kept: The name in it of what the run would write itself, and so may be written.

    Raises:
        MisuseError: It is one of them, or in one.
    """
    real, own = Path(os.path.realpath(target)), Path(os.path.realpath(directory))
    if real.is_relative_to(own):
        name = real.relative_to(own).parts
        if not name or (name != (kept,) and any(fnmatch(name[0], one) for one in OF_A_RUN)):
            raise MisuseError(f"{target!r} is the run's own: expected another name to write")
    # Tables may be on another disk, behind a link.
    kept_there = [path for one in OF_A_RUN if one != kept for path in directory.glob(one)]
    refuse_overwriting(target, kept_there)


def refuse_existing(target: str) -> None:
    """Refuse a file to write that holds something already.

    Raises:
        MisuseError: It does.
    """
    path = Path(target)
    if path.is_file() and path.stat().st_size:
        raise MisuseError(f"{target!r} exists and is not empty: expected a new file, or -")
