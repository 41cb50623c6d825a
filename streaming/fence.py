"""The fence: a file at the URL of Spark's checkpoints that names the one directory they belong to.

``DIRECTORY`` has the same id, and its lock keeps a second job out of it. So whoever comes from
another directory is refused here, and from the same one does not get the lock.
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

from tallystick.coordinates.values.checksum import seal_document, unseal_document
from tallystick.streaming.errors import CheckpointError

if TYPE_CHECKING:
    from pathlib import Path

    from tallystick.streaming.spark_files import HadoopFiles

FENCE = "fence.json"


def make_fence(files: HadoopFiles, owner: str, directory: Path) -> bool:
    """Make the fence where there is none; whether there was none.

    Args:
        files: Below the URL.
        owner: The id of the checkpoint location that it is made for.
        directory: That location, for whoever is refused.

    Raises:
        CheckpointError: It cannot be written.
    """
    made_by = {"directory": os.fspath(directory), "host": socket.gethostname()}
    try:
        files.create(FENCE, seal_document({"owner": owner, **made_by}))
    except FileExistsError:
        return False
    return True


def compare_fence(files: HadoopFiles, owner: str) -> bool:
    """Whether there is a fence, which then is this checkpoint location's.

    Raises:
        CheckpointError: It is of another one, or cannot be read.
    """
    where = files.location(FENCE)
    try:
        found = unseal_document(files.read(FENCE))
        theirs = found["owner"], found["directory"], found["host"]
    except FileNotFoundError:
        return False
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(
            f"{where!r} is damaged, or is being written: {error}. To fix: if no other audit uses"
            f" this URL, delete the file and start the job again; if one does, set"
            f" spark_checkpoint to another URL."
        ) from error
    if theirs[0] != owner:
        raise CheckpointError(
            f"{where!r} names another audit, of the directory {theirs[1]!r} on {theirs[2]!r}: its"
            f" checkpoints are at this URL. To fix: start the job with that directory, or set"
            f" spark_checkpoint to another URL. If that directory, or its state, is gone for good,"
            f" delete the file."
        )
    return True
