"""Texts of a row as values of the domain; a text that cannot be read is no evidence."""

from __future__ import annotations

from functools import lru_cache

from tallystick.coordinates.values.binlog import LogCoordinates
from tallystick.coordinates.values.errors import CoordinateError, GtidSetParseError
from tallystick.coordinates.values.gtid import GtidSet
from tallystick.expectations.judgement import Judgement, Row, undecided

_WITNESS_GTIDS_MAX = 3


class NoEvidenceError(ValueError):
    """A value cannot be read; the message becomes the reason of UNDECIDED."""


@lru_cache(maxsize=1024)
def _parse(text: str) -> GtidSet | None:
    try:
        return GtidSet.parse(text)
    except GtidSetParseError:
        return None


@lru_cache(maxsize=256)
def _parse_owned(text: str) -> GtidSet | None:
    try:
        return GtidSet.parse_owned(text)
    except GtidSetParseError:
        return None


def forget_texts() -> None:
    """Let go of the GTID sets kept since the last call: one text is read by many rules."""
    _parse.cache_clear()
    _parse_owned.cache_clear()


def gtid_set(row: Row, role: str) -> GtidSet:
    """Read a role as a GTID set.

    Raises:
        NoEvidenceError: The text is malformed.
    """
    found = _parse(row[role])
    if found is None:
        raise NoEvidenceError(f"{role} cannot be read as a GTID set")
    return found


def owned_set(row: Row, role: str) -> GtidSet:
    """Read a role as ``@@gtid_owned``.

    Raises:
        NoEvidenceError: The text is malformed.
    """
    found = _parse_owned(row[role])
    if found is None:
        raise NoEvidenceError(f"{role} cannot be read as @@gtid_owned")
    return found


def coordinates(row: Row, file_role: str, position_role: str) -> LogCoordinates:
    """Read two roles as coordinates.

    Raises:
        NoEvidenceError: They are none.
    """
    try:
        return LogCoordinates.of_file(row[file_role], row[position_role])
    except CoordinateError as error:
        raise NoEvidenceError(f"{file_role}: {error}") from error


def is_before(one: LogCoordinates, other: LogCoordinates) -> bool:
    """Compare by file number, then position.

    Raises:
        NoEvidenceError: They belong to two families of files.
    """
    try:
        return one < other
    except CoordinateError as error:
        raise NoEvidenceError(str(error)) from error


def witness(gtids: GtidSet) -> str:
    """Give the first GTIDs of a set, few enough to check by hand."""
    return str(gtids.first(_WITNESS_GTIDS_MAX))


def no_evidence(error: NoEvidenceError) -> Judgement:
    """Turn an unreadable value into UNDECIDED."""
    return undecided(str(error))
