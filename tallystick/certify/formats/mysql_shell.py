"""MySQL Shell's dump utilities: the file ``@.json`` of a dump's directory.

Sources: MySQL Shell's manual, "Instance dump utility, schema dump utility, and table dump utility"
(consistency of a dump, what a load takes from it), and the keys that its dumper writes:
``binlogFile``, ``binlogPosition``, ``gtidExecuted``, ``gtidExecutedInconsistent``, ``consistent``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick.certify.backup import Backup, Said, UnreadableBackupError
from tallystick.certify.formats._json_row import coordinates_of, read_object

if TYPE_CHECKING:
    from collections.abc import Mapping

TITLE = "MySQL Shell"
FILES = ("@.json",)
_NAMES = ("binlogFile", "binlogPosition", "gtidExecuted")
_DOUBTS = {
    ("gtidExecutedInconsistent", True): (
        "MySQL Shell could not lock the server: its GTID set may not be that of the data"
    ),
    ("consistent", False): "The dump was made without a consistent snapshot",
}


def read(files: Mapping[str, str], /) -> Backup:
    """The coordinates in a dump's ``@.json``."""
    file, text = next(iter(files.items()))
    values = read_object(file, text)
    position, gtids = coordinates_of(file, values, _NAMES)
    if position is None and gtids is None:
        raise UnreadableBackupError(file, "the object", f"{' and '.join(_NAMES)} (binlog info)")
    doubts = tuple(text for (key, bad), text in _DOUBTS.items() if values.get(key) is bad)
    return Backup(TITLE, (Said(file, position, gtids),), doubts=doubts)
