"""Percona XtraBackup: the ``xtrabackup_…`` files of a backup's directory.

Sources: Percona's manual, "Index of files created by Percona XtraBackup", "Working with binary
logs" and "How to create a new (or repair a broken) GTID-based replica"; the expectations on these
files in XtraBackup's own tests (``ib_slave_info.sh``, ``gtid.sh``).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tallystick.certify.backup import (
    Backup,
    RedoRange,
    ReplicaPosition,
    Said,
    UnreadableBackupError,
    read_gtids,
    read_number,
    read_position,
)
from tallystick.certify.formats._statements import (
    is_change,
    is_purged,
    read_change,
    read_purged,
    statements,
)
from tallystick.coordinates.values._gtid_text import is_uuid

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

TITLE = "XtraBackup"
_BINLOG, _SLAVE, _INFO = "xtrabackup_binlog_info", "xtrabackup_slave_info", "xtrabackup_info"
_CHECKPOINTS, _CONFIG = "xtrabackup_checkpoints", "backup-my.cnf"
FILES = (_BINLOG, _SLAVE, _INFO, _CHECKPOINTS, _CONFIG)

_binlog_pos = re.compile(
    r"filename '(?P<file>[^']*)', position '(?P<position>[^']*)'"
    r"(?:, GTID of the last change '(?P<gtids>[^']*)')?",
    re.DOTALL,
).fullmatch


def read(files: Mapping[str, str], /) -> Backup:
    """The coordinates of an XtraBackup."""
    readers: dict[str, Callable[[str, str], Said]] = {
        _BINLOG: _read_binlog_info,
        _INFO: _read_info,
        _SLAVE: _read_slave_info,
        _CHECKPOINTS: _read_checkpoints,
        _CONFIG: _read_config,
    }
    by_plain = {name.removesuffix(".gz"): name for name in files}
    said = tuple(
        reader(by_plain[plain], files[by_plain[plain]])
        for plain, reader in readers.items()
        if plain in by_plain
    )
    # It reads position and set of performance_schema.log_status, which blocks no commit stage.
    return Backup(TITLE, said, set_may_trail=True)


def _read_binlog_info(file: str, text: str) -> Said:
    """FILE TAB POSITION, and with GTIDs TAB SET, which goes on over lines."""
    name, _, rest = text.rstrip().partition("\t")
    offset, _, gtids = rest.partition("\t")
    if not offset:
        raise UnreadableBackupError(file, "line 1", "FILE, tab, POSITION", text.strip() or None)
    return Said(
        file,
        read_position(file, "line 1", name, offset.strip()),
        read_gtids(file, "column 3", gtids) if gtids.strip() else None,
    )


def _values(file: str, text: str) -> dict[str, str]:
    """``key = value`` lines; what is no such line goes on with the value before."""
    values: dict[str, str] = {}
    last = None
    for number, line in enumerate(text.splitlines(), 1):
        key, equals, value = line.partition("=")
        if equals and re.fullmatch(r"\s*[a-z_][a-z_ ]*", key):
            last = "_".join(key.split())
            values[last] = value.strip()
        elif last is not None and line.strip():
            values[last] += "\n" + line.strip()
        elif line.strip():
            raise UnreadableBackupError(file, f"line {number}", "key = value", line)
    return values


def _read_info(file: str, text: str) -> Said:
    values = _values(file, text)
    where = "key 'binlog_pos'"
    if not values.get("binlog_pos"):
        return Said(file)  # the server had no binary log
    match = _binlog_pos(values["binlog_pos"])
    if match is None:
        expected = "filename '…', position '…'[, GTID of the last change '…']"
        raise UnreadableBackupError(file, where, expected, values["binlog_pos"])
    return Said(
        file,
        read_position(file, where, match["file"], match["position"]),
        None if match["gtids"] is None else read_gtids(file, where, match["gtids"]),
    )


def _read_slave_info(file: str, text: str) -> Said:
    """One or more CHANGE statements, before them maybe RESET MASTER and SET GLOBAL gtid_purged."""
    gtids, replica = None, list[ReplicaPosition]()
    for number, statement in enumerate(statements(text), 1):
        where = f"statement {number}"
        if is_purged(statement):
            gtids = read_purged(file, where, statement)
        elif is_change(statement):
            replica.append(read_change(file, where, statement)[0])
        elif not re.match(r"(?:RESET|STOP|START)\s", statement, re.IGNORECASE):
            expected = "CHANGE MASTER TO or SET GLOBAL gtid_purged"
            raise UnreadableBackupError(file, where, expected, statement)
    if not replica and gtids is None and text.strip():
        raise UnreadableBackupError(file, "statement 1", "CHANGE MASTER TO", text.strip())
    return Said(file, gtids=gtids, replica=tuple(replica))


def _read_checkpoints(file: str, text: str) -> Said:
    values = _values(file, text)

    def number(key: str) -> int | None:
        found = values.get(key)
        return None if found is None else read_number(file, f"key {key!r}", found)

    redo = RedoRange(number("from_lsn"), number("to_lsn"), number("last_lsn"))
    if redo.to_lsn is None:
        raise UnreadableBackupError(file, "key 'to_lsn'", "the LSN of the backup's checkpoint")
    return Said(file, redo=redo)


def _read_config(file: str, text: str) -> Said:
    """Options of the server that InnoDB needs, with ``server_uuid``."""
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals and key.strip() == "server_uuid" and value.strip():
            if not is_uuid(value.strip()):
                raise UnreadableBackupError(file, "key 'server_uuid'", "a UUID", value.strip())
            return Said(file, server_uuid=value.strip().lower())
    return Said(file)
