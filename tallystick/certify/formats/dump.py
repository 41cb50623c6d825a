"""The header of a dump by mysqldump or mariadb-dump: ``CHANGE MASTER`` and ``SET GTID_PURGED``.

Sources: MySQL's manual, mysqldump, options ``--source-data``, ``--dump-replica`` and
``--set-gtid-purged``, each also commented; the headers that mysqldump and mariadb-dump write.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tallystick.certify.backup import Backup, ReplicaPosition, Said, UnreadableBackupError
from tallystick.certify.formats._statements import (
    is_change,
    is_purged,
    read_change,
    read_purged,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tallystick.coordinates.values.binlog import LogCoordinates
    from tallystick.coordinates.values.gtid import GtidSet

TITLE = "dump"
FILES = ("*.sql",)
_WHOSE_UNKNOWN = (
    "the dump has no comments: whether its position is the server's own (--source-data) or its"
    " source's (--dump-replica) cannot be told"
)
_NO_HEADER = (
    "CHANGE MASTER TO, CHANGE REPLICATION SOURCE TO or SET @@GLOBAL.GTID_PURGED before the first"
    " table (was it made with --source-data?)"
)


def read(files: Mapping[str, str], /) -> Backup:
    """The coordinates in the header of a dump."""
    if len(files) != 1:
        raise UnreadableBackupError(
            ", ".join(sorted(files)), "the directory", "one dump; name its file"
        )
    file, text = next(iter(files.items()))
    gtids: GtidSet | None = None
    own: LogCoordinates | None = None
    replica: list[ReplicaPosition] = []
    doubts: list[str] = []
    title = ""
    for number, statement in _header(text):
        where = f"line {number}"
        if statement.startswith("-- "):
            title += f"{statement}\n"
            continue
        if is_purged(statement):
            gtids = read_purged(file, where, statement)
        elif is_change(statement):
            found, has_host = read_change(file, where, statement)
            if _is_of_source(title):
                replica.append(found)
            elif _is_own(title) and not has_host:
                own = found.position
            else:
                doubts.append(_WHOSE_UNKNOWN)
        title = ""
    if gtids is None and own is None and not replica and not doubts:
        raise UnreadableBackupError(file, "header", _NO_HEADER)
    return Backup(TITLE, (Said(file, own, gtids, tuple(replica)),), doubts=tuple(doubts))


_is_of_source = re.compile(
    r"\((?:the )?(?:master|source) of this (?:slave|replica)\)|from SHOW (?:SLAVE|REPLICA) STATUS"
).search
_is_own = re.compile(r"Position to start replication|from SHOW MASTER STATUS").search
_header_line = re.compile(
    r"(?:/\*[!M]|/\* SET @@GLOBAL|SET\b|STOP\b|CHANGE\b|RESET\b)", re.IGNORECASE
).match
_commented = re.compile(
    r"/\*\s*(SET @@GLOBAL\.GTID_PURGED\b.*?;?)\s*(?:\*/)?", re.IGNORECASE | re.DOTALL
).fullmatch


def _header(text: str) -> Iterator[tuple[int, str]]:
    """Statements before the first table, each with its line; commented coordinates without dashes.

    What is beyond may look like a statement and be data.
    """
    lines = iter(enumerate(text.split("\n"), 1))
    for number, raw in lines:
        line = raw.strip()
        if line.startswith("--"):
            bare = line[2:].strip()
            if is_change(bare):
                yield number, bare
            elif bare:
                yield number, f"-- {bare}"
            continue
        if not line:
            continue
        if not _header_line(line):
            return
        statement, ends = line, ("*/",) if line.startswith("/* ") else (";", "*/")
        while not statement.rstrip().endswith(ends):
            _, more = next(lines, (0, None))
            if more is None:
                break  # it is cut short: whoever reads it says so
            statement += "\n" + more
        statement = statement.rstrip()
        match = _commented(statement)
        yield number, statement if match is None else match[1]
