"""What makes anew what is damaged, as a command that can be pasted."""

from __future__ import annotations

import shlex
from pathlib import Path

COMMAND = "tallystick rebuild"


def to_rebuild(path: Path | str) -> str:
    """How a file of the state or of the tables of a run comes back.

    Args:
        path: The file, or a directory that it is in. An audit's own are in DIRECTORY/audit; what
            a demonstration or an output has written is made again by whoever made it.
    """
    path = Path(path).absolute()
    for audit in (path, *path.parents):
        if audit.name == "audit" and (audit / "checkpoint").is_dir():
            return f"{COMMAND} --directory {shlex.quote(str(audit.parent))}"
    return "make the run again"
