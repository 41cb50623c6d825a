"""What the files of a backup say of replication, as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tallystick.coordinates.values.binlog import LogCoordinates, strip_directory
from tallystick.coordinates.values.errors import CoordinateError, GtidSetParseError
from tallystick.coordinates.values.gtid import GtidSet
from tallystick.errors import MisuseError

if TYPE_CHECKING:
    from collections.abc import Iterator

_QUOTED_MAX = 80


class UnreadableBackupError(MisuseError):
    """A file of a backup is not in its form.

    Args:
        file: Its name.
        where: The line, key or column.
        expected: What belongs there.
        found: What is there, None: nothing is.
    """

    def __init__(self, file: str, where: str, expected: str, found: str | None = None) -> None:
        shown = "nothing" if found is None else repr(shortened(found))
        super().__init__(f"{file!r}, {where}: expected {expected}, found {shown}")


def shortened(text: str) -> str:
    """A text for a message."""
    return text if len(text) <= _QUOTED_MAX else text[:_QUOTED_MAX] + "…"


@dataclass(frozen=True, slots=True)
class ReplicaPosition:
    """Where the server that was backed up was in its source's binary log.

    Attributes:
        channel: Name of the replication channel.
        position: The executed source coordinates; None: replication goes on by GTID.
    """

    channel: str
    position: LogCoordinates | None


@dataclass(frozen=True, slots=True)
class RedoRange:
    """LSNs of a physical backup; None: the file does not have it.

    Attributes:
        from_lsn: Where an incremental backup begins, 0 of a full one.
        to_lsn: The checkpoint that the copy of the data is of.
        last_lsn: Where the copy of the redo log ends.
    """

    from_lsn: int | None
    to_lsn: int | None
    last_lsn: int | None


@dataclass(frozen=True, slots=True)
class Said:
    """What one file of a backup says. None: it says nothing of that."""

    file: str
    position: LogCoordinates | None = None
    gtids: GtidSet | None = None
    replica: tuple[ReplicaPosition, ...] = ()
    redo: RedoRange | None = None
    server_uuid: str | None = None


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup's coordinates.

    Attributes:
        form: The form that it was recognised as.
        said: What each of its files says.
        set_may_trail: Whether its position and GTID set were read while transactions committed, so
            that the set may lack the last ones.
        doubts: Why the coordinates cannot be relied on, as the tool itself says.
    """

    form: str
    said: tuple[Said, ...]
    set_may_trail: bool = False
    doubts: tuple[str, ...] = field(default=())

    @property
    def position(self) -> LogCoordinates | None:
        """Binary log coordinates of the server that was backed up."""
        return next((said.position for said in self.said if said.position is not None), None)

    @property
    def gtids(self) -> GtidSet | None:
        """What that server had executed."""
        return next((said.gtids for said in self.said if said.gtids is not None), None)

    @property
    def replica(self) -> tuple[ReplicaPosition, ...]:
        """Where it was in the logs of its sources."""
        return tuple(position for said in self.said for position in said.replica)

    @property
    def redo(self) -> RedoRange | None:
        """Which part of the redo log the backup has."""
        return next((said.redo for said in self.said if said.redo is not None), None)

    @property
    def server_uuid(self) -> str | None:
        """Of that server, where a file names it."""
        return next((said.server_uuid for said in self.said if said.server_uuid is not None), None)

    def contradictions(self) -> Iterator[str]:
        """Where two files differ."""
        for name in ("position", "gtids"):
            values = [(s.file, getattr(s, name)) for s in self.said if getattr(s, name) is not None]
            for file, value in values[1:]:
                if value != values[0][1]:
                    yield f"{values[0][0]} has {values[0][1]}, and {file} {value}"


def is_quotable(text: str) -> bool:
    """Whether a name means the same in a statement, whatever the SQL mode."""
    return text.isprintable() and "\\" not in text


def read_position(file: str, where: str, name: str, offset: str | int) -> LogCoordinates:
    """Coordinates from a file of a backup.

    Raises:
        UnreadableBackupError: They are none.
    """
    if not is_quotable(name):
        raise UnreadableBackupError(file, where, "a file name of printable characters", name)
    if isinstance(offset, str) and not (offset.isascii() and offset.isdigit()):
        raise UnreadableBackupError(file, where, "a position as a number", offset)
    try:
        return LogCoordinates.of_file(strip_directory(name), int(offset))
    except (CoordinateError, ValueError) as error:
        raise UnreadableBackupError(
            file, where, f"a binary log file and a position ({error})", f"{name} {offset}"
        ) from None


def read_gtids(file: str, where: str, text: str) -> GtidSet:
    """A GTID set from a file of a backup, over several lines or not.

    Raises:
        UnreadableBackupError: It is none of MySQL's.
    """
    reason = "it is of no GTID"
    try:
        gtids = GtidSet.parse(text.replace("\\n", "\n"))
    except GtidSetParseError as error:
        reason = str(error)
    else:
        # The server's grammar has empty intervals; a tool writes none, unless it is cut short.
        if gtids or not text.strip():
            return gtids
    raise UnreadableBackupError(file, where, f"a GTID set as UUID:1-5 ({reason})", text.strip())


def read_number(file: str, where: str, text: str) -> int:
    """A number from a file of a backup.

    Raises:
        UnreadableBackupError: It is none.
    """
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(2**64)):
        raise UnreadableBackupError(file, where, "a number", text)
    return int(text)
