"""The columns of a row of the cut table as values: how evidence is made of a row alone.

A value that cannot be read is no evidence: it becomes None, as if it were not there. The rules of
`coordinates.rules.readable` judge the texts themselves.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.rules.families import Lack
from tallystick.coordinates.rules.registry import reason
from tallystick.coordinates.values.binlog import LogCoordinates
from tallystick.coordinates.values.errors import CoordinateError, GtidSetParseError
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallystick.coordinates.logs.binlog_reader import BinlogReader
    from tallystick.coordinates.logs.relay_reader import RelayReader

NOT_READ = reason("not_read", "the value was not read, or could not be read", Lack.VALUE)
NOT_REMEMBERED = reason(
    "not_remembered", "the position is older than the events remembered", Lack.MEMORY
)


@lru_cache(maxsize=1024)
def _gtid_set(text: str) -> GtidSet | None:
    try:
        return GtidSet.parse(text)
    except GtidSetParseError:
        return None


@lru_cache(maxsize=256)
def _owned_set(text: str) -> GtidSet | None:
    try:
        return GtidSet.parse_owned(text)
    except GtidSetParseError:
        return None


def forget_texts() -> None:
    """Release the GTID sets that were read: one text is read for many rules."""
    _gtid_set.cache_clear()
    _owned_set.cache_clear()


def gtid_set(columns: Mapping[str, Any], name: str) -> GtidSet | None:
    """A column as a GTID set."""
    text = columns.get(name)
    return _gtid_set(text) if isinstance(text, str) else None


def owned_set(columns: Mapping[str, Any], name: str) -> GtidSet | None:
    """A column as ``@@gtid_owned``."""
    text = columns.get(name)
    return _owned_set(text) if isinstance(text, str) else None


def coordinates(columns: Mapping[str, Any], file: str, position: str) -> LogCoordinates | None:
    """Two columns as the coordinates of a log."""
    name, offset = columns.get(file), integer(columns, position)
    if not isinstance(name, str) or offset is None:
        return None
    try:
        return LogCoordinates.of_file(name, offset)
    except CoordinateError:
        return None


def integer(columns: Mapping[str, Any], name: str) -> int | None:
    """A column as an integer."""
    value = columns.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def flag(columns: Mapping[str, Any], name: str, *, default: bool) -> bool:
    """A column as a bool; ``default`` where it is not known."""
    value = columns.get(name)
    return default if value is None else bool(value)


def binlog_is_off(columns: Mapping[str, Any]) -> bool:
    """Whether a row is of a server without a binary log.

    It names no file, and the journal knows that nothing is logged: ``journal_gtid_set`` is empty. A
    row whose coordinates could not be read has no ``journal_gtid_set``.
    """
    return columns.get("binary_log_file") is None and columns.get("journal_gtid_set") == ""


def same_family(left: LogCoordinates | None, right: LogCoordinates | None) -> bool:
    """Whether two coordinates are both known and comparable."""
    return left is not None and right is not None and left.base_name == right.base_name


def log_with(base_name: str, binlog: BinlogReader, relays: Mapping[str, RelayReader]) -> str | None:
    """Which log of the server has files of a name: each channel has files of its own."""
    if binlog.base_name == base_name:
        return "the binary log"
    of_base = (name for name, relay in relays.items() if relay.base_name == base_name)
    return next((f"the relay log of channel {name!r}" for name in of_base), None)


def has_fallen(value: Any, previous: Any, fallen: Any) -> bool:
    """Whether a value that only grows fell against the last accepted one, for the first time.

    A fall is reported once: when the next value goes on from the fallen one, history has changed.

    Args:
        value: LSN, coordinates or GTID set; never None.
        previous: That of the last accepted row, None unknown.
        fallen: A later one, reported as fallen and therefore not accepted; else None.
    """
    if previous is None or previous <= value:
        return False
    return fallen is None or not fallen <= value
