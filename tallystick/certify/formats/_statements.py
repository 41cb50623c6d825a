"""The statements in which tools write coordinates: CHANGE MASTER and SET GTID_PURGED."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tallystick.certify.backup import (
    ReplicaPosition,
    UnreadableBackupError,
    is_quotable,
    read_gtids,
    read_position,
)

if TYPE_CHECKING:
    from tallystick.coordinates.values.gtid import GtidSet

_STRING = r"'(?:[^'\\]|''|\\.)*'"
_change = re.compile(
    r"CHANGE\s+(?:MASTER|REPLICATION\s+SOURCE)\s+TO\s+(?P<options>.*?)"
    rf"(?:\s+FOR\s+CHANNEL\s+(?P<channel>{_STRING}))?\s*;?\s*",
    re.IGNORECASE | re.DOTALL,
).fullmatch
_option = re.compile(
    rf"\s*(?P<name>\w+)\s*=\s*(?P<value>{_STRING}|[0-9]+|ON|OFF)\s*(?:,|$)", re.IGNORECASE
)
_purged = re.compile(
    r"SET\s+(?:@@GLOBAL\s*\.\s*|GLOBAL\s+)GTID_PURGED\s*=\s*(?:/\*!\d+\s*'\+'\s*\*/\s*)?"
    rf"(?P<set>{_STRING})\s*;?\s*",
    re.IGNORECASE | re.DOTALL,
).fullmatch
_is_change = re.compile(r"CHANGE\s+(?:MASTER|REPLICATION\s+SOURCE)\b", re.IGNORECASE).match
_is_purged = re.compile(r"SET\s+(?:@@GLOBAL\s*\.\s*|GLOBAL\s+)GTID_PURGED\b", re.IGNORECASE).match


_statement = re.compile(rf"(?:{_STRING}|[^;'])+|'.*", re.DOTALL)
CHANGE_MAX = 16 * 1024
"""Characters of a CHANGE statement, at the most."""


def statements(text: str) -> list[str]:
    """The statements of a text; one that is cut short in a string is in pieces."""
    return [found for piece in _statement.findall(text) if (found := piece.strip())]


def is_change(statement: str) -> bool:
    """Whether it is a CHANGE MASTER or CHANGE REPLICATION SOURCE."""
    return _is_change(statement) is not None


def is_purged(statement: str) -> bool:
    """Whether it is a SET GTID_PURGED."""
    return _is_purged(statement) is not None


def read_change(file: str, where: str, statement: str) -> tuple[ReplicaPosition, bool]:
    """The position that a CHANGE MASTER names, and whether it names a host.

    Raises:
        UnreadableBackupError: It is none, or names neither a position nor GTIDs.
    """
    match = _change(statement) if len(statement) <= CHANGE_MAX else None
    options = None if match is None else _options(match["options"])
    expected = "CHANGE MASTER TO with a log file and position, or with AUTO_POSITION"
    if match is None or options is None:
        raise UnreadableBackupError(file, where, expected, statement)
    channel = "" if match["channel"] is None else unquoted(match["channel"])
    if not is_quotable(channel):
        raise UnreadableBackupError(file, where, "a channel name of printable characters", channel)
    has_host = "host" in options
    if options.get("auto_position") == "1":
        return ReplicaPosition(channel, None), has_host
    if "log_file" not in options or "log_pos" not in options:
        raise UnreadableBackupError(file, where, expected, statement)
    position = read_position(file, where, options["log_file"], options["log_pos"])
    return ReplicaPosition(channel, position), has_host


def _options(text: str) -> dict[str, str] | None:
    options: dict[str, str] = {}
    at = 0
    while at < len(text):
        match = _option.match(text, at)
        if match is None:
            return None
        name = re.sub("^(?:master|source)_", "", match["name"].lower())
        value = match["value"]
        options[name] = unquoted(value) if value.startswith("'") else value
        at = match.end()
    return options


def read_purged(file: str, where: str, statement: str) -> GtidSet:
    """The set that a SET GTID_PURGED names.

    Raises:
        UnreadableBackupError: It names none.
    """
    match = _purged(statement)
    if match is None:
        raise UnreadableBackupError(file, where, "SET @@GLOBAL.GTID_PURGED='…'", statement)
    return read_gtids(file, where, unquoted(match["set"]).removeprefix("+"))


_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}


def unquoted(literal: str) -> str:
    """The text of a string literal in single quotes."""
    return re.sub(
        r"''|\\(.)",
        lambda m: "'" if m[1] is None else _ESCAPED.get(m[1], m[1]),
        literal[1:-1],
        flags=re.DOTALL,
    )
