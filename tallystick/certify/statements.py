"""The statements that start replication from a backup."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tallystick.certify.judge import Truth

if TYPE_CHECKING:
    from tallystick.certify.judge import Judgement
    from tallystick.coordinates.values.binlog import LogCoordinates

_RENAMED_CHANGE = (8, 0, 23)
_RENAMED_RESET = (8, 2, 0)


def start_statements(judgement: Judgement) -> list[str]:
    """What starts replication on a server that was restored; the source's address comes before.

    By GTID wherever the backup has a set, by position else: of the server that was backed up, or,
    of a replica that has no such position, of its sources. Coordinates that are not known to be
    true start nothing.
    """
    if judgement.truth is not Truth.TRUE:
        return []
    backup, version = judgement.backup, _version(judgement.server_version)
    if backup.gtids is not None and judgement.by_gtid:
        reset = "MASTER" if version < _RENAMED_RESET else "BINARY LOGS AND GTIDS"
        return [
            f"RESET {reset};",
            f"SET @@GLOBAL.gtid_purged = {_quoted(str(backup.gtids))};",
            f"{_change({'AUTO_POSITION': '1'}, version)};",
        ]
    if backup.position is not None:
        return [f"{_by_position(backup.position, version)};"]
    return [
        f"{_by_position(found.position, version)}"
        + (f" FOR CHANNEL {_quoted(found.channel)};" if found.channel else ";")
        for found in backup.replica
        if found.position is not None
    ]


def _by_position(position: LogCoordinates, version: tuple[int, ...]) -> str:
    options = {"LOG_FILE": _quoted(position.file_name), "LOG_POS": str(position.position)}
    return _change({"AUTO_POSITION": "0", **options}, version)


def _change(options: dict[str, str], version: tuple[int, ...]) -> str:
    is_old = version < _RENAMED_CHANGE
    statement, prefix = ("MASTER", "MASTER") if is_old else ("REPLICATION SOURCE", "SOURCE")
    listed = ", ".join(f"{prefix}_{name} = {value}" for name, value in options.items())
    return f"CHANGE {statement} TO {listed}"


def _version(text: str | None) -> tuple[int, ...]:
    match = re.match(r"(\d+)\.(\d+)\.(\d+)", text or "")
    return (8, 0, 31) if match is None else tuple(map(int, match.groups()))


def _quoted(text: str) -> str:
    """An SQL literal; names with a backslash or a control character are refused when read."""
    return "'" + text.replace("'", "''") + "'"
