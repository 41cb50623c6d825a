"""Positions in binary and relay logs, and the constants of their files.

A file is known by its number and not by its name: after `.999999` comes `.1000000`, which is
smaller as text. Offsets have 64 bits, though the field in an event's header has 32.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache, total_ordering

from tallystick.coordinates.values.errors import CoordinateError

MAGIC = b"\xfebin"
ENCRYPTED_MAGIC = b"\xfdbin"
"""In its place where `binlog_encryption` was on when the file was opened."""
MAGIC_LENGTH = 4
"""The first event of a file starts here."""
ENCRYPTION_HEADER_LENGTH = 512
"""How much longer the file of an encrypted binary log is than its events."""
EVENT_HEADER_LENGTH = 19
CHECKSUM_LENGTH = 4
STOP_EVENT_LENGTH = EVENT_HEADER_LENGTH + CHECKSUM_LENGTH
ROTATE_EVENT_LENGTH_MIN = EVENT_HEADER_LENGTH + 8 + CHECKSUM_LENGTH
"""The length of a ROTATE event without the name of the next file."""
PREVIOUS_GTIDS_LENGTH_MIN = EVENT_HEADER_LENGTH + 8 + CHECKSUM_LENGTH
"""The length of a PREVIOUS_GTIDS event of the empty set; each sid and interval adds to it."""
PREVIOUS_GTIDS_LENGTH_PER_SID = 16 + 8
PREVIOUS_GTIDS_LENGTH_PER_INTERVAL = 16
WRAP = 2**32
"""The header names an event's end modulo this: in a relay log, of the source's file."""
FLAG_IN_USE = 0x1
"""Set in the FORMAT_DESCRIPTION event of an open file, and left there by a crash."""

FIRST_POSITION = MAGIC_LENGTH
"""Where the first event of a log file starts, after its magic number."""
FILE_NUMBER_DIGITS_MIN = 6
POSITION_MAX = 2**63 - 1

_match_file_name = re.compile(r"(?P<base>[^/\\\0]+)\.(?P<number>[0-9]{6,18})").fullmatch


class EventType(IntEnum):
    """Type codes of events, as in byte 4 of their header."""

    UNKNOWN = 0
    QUERY = 2
    STOP = 3
    ROTATE = 4
    INTVAR = 5
    APPEND_BLOCK = 9
    DELETE_FILE = 11
    RAND = 13
    USER_VAR = 14
    FORMAT_DESCRIPTION = 15
    XID = 16
    BEGIN_LOAD_QUERY = 17
    EXECUTE_LOAD_QUERY = 18
    TABLE_MAP = 19
    INCIDENT = 26
    HEARTBEAT = 27
    IGNORABLE = 28
    ROWS_QUERY = 29
    WRITE_ROWS = 30
    UPDATE_ROWS = 31
    DELETE_ROWS = 32
    GTID = 33
    ANONYMOUS_GTID = 34
    PREVIOUS_GTIDS = 35
    TRANSACTION_CONTEXT = 36
    VIEW_CHANGE = 37
    XA_PREPARE = 38
    PARTIAL_UPDATE_ROWS = 39
    TRANSACTION_PAYLOAD = 40
    HEARTBEAT_V2 = 41
    GTID_TAGGED = 42


@total_ordering
@dataclass(frozen=True, slots=True)
class LogCoordinates:
    """A byte position in one family of log files, ordered by file number, then position.

    Equality takes any two coordinates. Order takes those of one base name: the numbers of two
    families count different things.
    """

    base_name: str
    file_number: int
    position: int

    def __post_init__(self) -> None:
        format_log_file_name(self.base_name, self.file_number)
        if not 0 <= self.position <= POSITION_MAX:
            raise CoordinateError(
                f"expected a position from 0 to {POSITION_MAX} in {self.file_name!r},"
                f" found {self.position!r}"
            )

    @classmethod
    def of_file(cls, file_name: str, position: int) -> LogCoordinates:
        """Combine the name of a file and a position in it."""
        base_name, file_number = parse_log_file_name(file_name)
        return cls(base_name, file_number, position)

    @property
    def file_name(self) -> str:
        """The name of the file, without a directory."""
        return format_log_file_name(self.base_name, self.file_number)

    def __str__(self) -> str:
        return f"{self.file_name}:{self.position}"

    def __lt__(self, other: LogCoordinates) -> bool:
        if not isinstance(other, LogCoordinates):
            return NotImplemented
        if self.base_name != other.base_name:
            raise CoordinateError(
                f"cannot compare {str(self)!r} with {str(other)!r}: expected one base name"
            )
        return (self.file_number, self.position) < (other.file_number, other.position)


def parse_log_file_name(file_name: str) -> tuple[str, int]:
    """Split `binlog.000123` into base name and number; the base name may hold dots.

    Raises:
        CoordinateError: The name has a directory, no base, or no number of at least six digits.
    """
    if len(file_name) <= _SHORT_NAME:
        return _split_short(file_name)
    return _split(file_name)


def _split(file_name: str) -> tuple[str, int]:
    match = _match_file_name(file_name)
    number = int(match["number"]) if match else 0
    # A wider number has no leading zero: one file has one name.
    if match is None or not number or file_name != format_log_file_name(match["base"], number):
        raise CoordinateError(
            f"malformed log file name {_quote(file_name)}: expected BASE.NUMBER, no directory,"
            f" the number from 1 with at least {FILE_NUMBER_DIGITS_MIN} digits"
        )
    return match["base"], number


# A log has few files, and every row and server record names one of the newest (below as well).
_SHORT_NAME = 128
_split_short = lru_cache(maxsize=2048)(_split)


@lru_cache(maxsize=2048)
def format_log_file_name(base_name: str, file_number: int) -> str:
    """Join base name and number as the server does.

    Raises:
        CoordinateError: The base name is empty or has a directory, or the number is below 1.
    """
    if not base_name or "/" in base_name or "\\" in base_name or "\0" in base_name:
        raise CoordinateError(
            f"expected a log base name without a directory, found {_quote(base_name)}"
        )
    if file_number < 1:
        raise CoordinateError(f"expected a file number from 1, found {file_number!r}")
    return f"{base_name}.{file_number:0{FILE_NUMBER_DIGITS_MIN}}"


def strip_directory(path: str) -> str:
    """Take the file name off a path: info tables and index files have `./relay-bin.000001`."""
    return path.replace("\\", "/").rpartition("/")[2]


def log_pos_field(end: int) -> int:
    """Return what the 32-bit field of an event's header shows for the end of the event."""
    return end % 2**32


def _quote(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:80] + "…")
