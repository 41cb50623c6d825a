"""Coordinates in a JSON object."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tallystick.certify.backup import UnreadableBackupError, read_gtids, read_position

if TYPE_CHECKING:
    from tallystick.coordinates.values.binlog import LogCoordinates
    from tallystick.coordinates.values.gtid import GtidSet


def read_object(file: str, text: str) -> dict[str, Any]:
    """The JSON object of a file, or of a list of one.

    Raises:
        UnreadableBackupError: It has none.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableBackupError(file, "the file", f"JSON ({error})", text) from None
    if isinstance(found, list) and len(found) == 1:
        found = found[0]
    if not isinstance(found, dict):
        raise UnreadableBackupError(file, "the file", "one JSON object", text)
    return found


def coordinates_of(
    file: str, values: dict[str, Any], names: tuple[str, str, str]
) -> tuple[LogCoordinates | None, GtidSet | None]:
    """Position and GTID set by the names of file, position and set; None where they are empty.

    Raises:
        UnreadableBackupError: They are none.
    """
    name, offset, gtids = (values.get(key) for key in names)
    position = None
    if name not in (None, ""):
        where = f"keys {names[0]!r} and {names[1]!r}"
        if not isinstance(name, str):
            raise UnreadableBackupError(file, where, "a file and a position", f"{name} {offset}")
        position = read_position(file, where, name, str(offset))
    if gtids in (None, ""):
        return position, None
    if not isinstance(gtids, str):
        raise UnreadableBackupError(file, f"key {names[2]!r}", "a GTID set", str(gtids))
    return position, read_gtids(file, f"key {names[2]!r}", gtids)
