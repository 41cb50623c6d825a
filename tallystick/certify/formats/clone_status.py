"""A clone: the row of ``performance_schema.clone_status`` of the recipient, in a file.

``clone_status.json`` has it as a JSON object, ``clone_status.tsv`` as the client prints it:

    mysql -B -e 'SELECT * FROM performance_schema.clone_status' > clone_status.tsv

Source: MySQL's manual, "The clone_status Table": BINLOG_FILE, BINLOG_POSITION, GTID_EXECUTED, of
the donor at the moment of the clone; STATE, ERROR_NO.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tallystick.certify.backup import Backup, Said, UnreadableBackupError
from tallystick.certify.formats._json_row import coordinates_of, read_object

if TYPE_CHECKING:
    from collections.abc import Mapping

TITLE = "clone"
FILES = ("clone_status.json", "clone_status.tsv")
_NAMES = ("binlog_file", "binlog_position", "gtid_executed")
_ESCAPES = {"n": "\n", "t": "\t", "0": "\0", "\\": "\\"}


def read(files: Mapping[str, str], /) -> Backup:
    """The coordinates of the donor that a recipient has."""
    if len(files) != 1:
        raise UnreadableBackupError(", ".join(sorted(files)), "the directory", "one of the two")
    file, text = next(iter(files.items()))
    row = _table(file, text) if ".tsv" in file else read_object(file, text)
    values = {key.lower(): value for key, value in row.items()}
    state, error = values.get("state"), str(values.get("error_no") or 0)
    if state not in (None, "Completed") or error != "0":
        found = f"STATE {state}, ERROR_NO {error}"
        raise UnreadableBackupError(file, "the row", "STATE Completed, ERROR_NO 0", found)
    position, gtids = coordinates_of(file, values, _NAMES)
    if position is None and gtids is None:
        raise UnreadableBackupError(file, "the row", "BINLOG_FILE, BINLOG_POSITION, GTID_EXECUTED")
    return Backup(TITLE, (Said(file, position, gtids),))


def _table(file: str, text: str) -> dict[str, Any]:
    """Names of columns, then one row."""
    lines = text.rstrip("\n").split("\n")
    cells = [line.split("\t") for line in lines]
    if len(cells) != 2 or len(cells[0]) != len(cells[1]):
        raise UnreadableBackupError(file, "the file", "a line of names and one row", text)
    return dict(zip(cells[0], map(_unescaped, cells[1]), strict=True))


def _unescaped(cell: str) -> str | None:
    if cell == "NULL":
        return None
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), cell)
