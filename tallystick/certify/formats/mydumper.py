"""mydumper: the file ``metadata`` of a dump's directory, in both of its forms.

Source: mydumper's manual, "Output files" and "Replication options": indented keys below SHOW MASTER
STATUS and SHOW SLAVE STATUS until 0.14.1, then sections ``[master]`` or ``[source]`` and
``[replication]`` with keys that may be commented out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tallystick.certify.backup import (
    Backup,
    ReplicaPosition,
    Said,
    UnreadableBackupError,
    is_quotable,
    read_gtids,
    read_position,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallystick.coordinates.values.binlog import LogCoordinates
    from tallystick.coordinates.values.gtid import GtidSet

TITLE = "mydumper"
_PARTIAL = "metadata.partial"
FILES = ("metadata", _PARTIAL)

_FILE_KEYS = ("file", "log", "source_log_file", "master_log_file")
_POSITION_KEYS = ("position", "pos", "source_log_pos", "master_log_pos")
_GTID_KEYS = ("executed_gtid_set", "gtid")
_OF_REPLICA = {"relay_master_log_file": "log", "relay_source_log_file": "log",
               "exec_master_log_pos": "pos", "exec_source_log_pos": "pos"}  # fmt: skip
_section = re.compile(r"\[(?P<name>master|source|replication)(?:\.(?P<channel>.*))?\]").fullmatch
_any_section = re.compile(r"\[.*\]").fullmatch
_title = re.compile(r"SHOW (?P<name>MASTER|SLAVE) STATUS:").fullmatch
_old_line = re.compile(
    r"\s+(?P<key>Log|Pos|GTID|Host|Connection name)\s*:\s*(?P<value>.*)"
).fullmatch
_new_line = re.compile(r"(?:#\s*)?(?P<key>\w+)\s*=\s*(?P<value>.*)").fullmatch
_is_finished = re.compile(r"^(?:# )?Finished dump at:", re.MULTILINE).search


class _Part:
    """What is below one title, by lower-case keys; the first of a key counts."""

    def __init__(self, name: str, channel: str, line: int) -> None:
        self.name, self.channel, self.line = name, channel, line
        self.values: dict[str, str] = {}
        self.last = ""

    def add(self, key: str, value: str) -> None:
        key = key.lower()
        if self.name == "replication":
            key = _OF_REPLICA.get(key, key)
        value = value.strip()
        if len(value) >= 2 and value[0] in "'\"" and value[0] == value[-1]:
            value = value[1:-1]
        self.last = key
        self.values.setdefault(key, value)

    def one_of(self, keys: tuple[str, ...]) -> str | None:
        return next((self.values[key] for key in keys if self.values.get(key)), None)


def read(files: Mapping[str, str], /) -> Backup:
    """The coordinates in the metadata of a dump."""
    names = {name.removesuffix(".gz"): name for name in files}
    if "metadata" not in names:
        raise UnreadableBackupError(names[_PARTIAL], "its name", "metadata of a finished dump")
    file = names["metadata"]
    text = files[file]
    if not _is_finished(text):
        raise UnreadableBackupError(file, "its end", "Finished dump at: (the dump is not whole)")
    parts = _parts(text)
    own = [part for part in parts if part.name in ("master", "source")]
    if len(own) > 1:
        raise UnreadableBackupError(file, f"line {own[1].line}", "one position of the server")
    said = Said(file)
    if own and own[0].one_of(_FILE_KEYS) is not None:
        where = f"below line {own[0].line}"
        said = Said(
            file,
            _position(file, own[0]),
            _gtids(file, where, own[0].one_of(_GTID_KEYS)),
        )
    replica = tuple(
        ReplicaPosition(_channel(file, part), _position(file, part))
        for part in parts
        if part.name == "replication" and part.one_of(_FILE_KEYS) is not None
    )
    if said.position is None and not replica:
        raise UnreadableBackupError(file, "the file", "SHOW MASTER STATUS, [master] or [source]")
    return Backup(TITLE, (Said(file, said.position, said.gtids, replica),))


def _parts(text: str) -> list[_Part]:
    parts: list[_Part] = []
    part: _Part | None = None
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.rstrip()
        title, section = _title(line), _section(line)
        if title is not None or section is not None:
            old = {"MASTER": "master", "SLAVE": "replication"}
            name = old[title["name"]] if title is not None else str(section and section["name"])
            part = _Part(name, (section and section["channel"]) or "", number)
            parts.append(part)
        elif _any_section(line) or not line:
            # Of a table, or the end of a title's keys.
            part = None if _any_section(line) else part
        elif part is not None:
            _take(part, line)
    return parts


def _take(part: _Part, line: str) -> None:
    old, new = _old_line(line), _new_line(line)
    if old is not None:
        if old["key"] == "Connection name":
            part.channel = old["value"].strip()
        part.add(old["key"], old["value"])
    elif new is not None:
        part.add(new["key"], new["value"])
    elif part.last in _GTID_KEYS and part.values[part.last].endswith(","):
        part.values[part.last] += line.strip()
    else:
        part.last = ""


def _position(file: str, part: _Part) -> LogCoordinates:
    name, offset = part.one_of(_FILE_KEYS), part.one_of(_POSITION_KEYS)
    where = f"below line {part.line}"
    if name is None or offset is None:
        raise UnreadableBackupError(file, where, "a position beside the binary log file", name)
    return read_position(file, where, name, offset)


def _gtids(file: str, where: str, text: str | None) -> GtidSet | None:
    return None if text is None else read_gtids(file, where, text)


def _channel(file: str, part: _Part) -> str:
    if not is_quotable(part.channel):
        where = f"line {part.line}"
        raise UnreadableBackupError(file, where, "a channel name that can be quoted", part.channel)
    return part.channel
