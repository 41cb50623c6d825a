"""Events of a log without what a journal does not want of them: what leaves a server's host.

Heads, checksums, GTIDs and names of files are kept. Of a statement there is left whether it begins
or ends a transaction, of rows nothing but their length. What is left out is zero, so an outline
has the offsets of its file, and ``binlog_events`` and ``event_runs`` read the same from it. The
last four bytes of each event are kept: its checksum, unless ``binlog_checksum`` is NONE.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from tallystick.coordinates.events.journal import QueryVerb
from tallystick.coordinates.values.binlog import (
    CHECKSUM_LENGTH,
    EVENT_HEADER_LENGTH,
    MAGIC_LENGTH,
    EventType,
)
from tallystick.producers.mysql.binlog_events import (
    QUERY_HEAD_LENGTH,
    QUERY_HEAD_MAX,
    query_statement_offset,
    query_verb,
)

if TYPE_CHECKING:
    from tallystick.producers.mysql.log_directory import LogFile

CHUNK_BYTES = 1 << 20
"""So much of a file is read in one step; an event may be longer."""
_WHOLE_TYPES = frozenset(
    {
        EventType.ANONYMOUS_GTID,
        EventType.FORMAT_DESCRIPTION,
        EventType.GTID,
        EventType.GTID_TAGGED,
        EventType.PREVIOUS_GTIDS,
        EventType.ROTATE,
    }
)
_IS_WHOLE = bytes(event_type in _WHOLE_TYPES for event_type in range(256))
_QUERY = int(EventType.QUERY)
_TYPE_AND_LENGTH = struct.Struct("<4xB4xI")
_ZEROS_MIN = 64
"""Fewer are sent as they are."""

Part = tuple[bytes, int]
"""Bytes, and how many zeros follow them."""


def outline(file: LogFile, position: int, length: int) -> list[Part]:
    """Read a part of a file.

    Args:
        file: It.
        position: 0, or the start of an event.
        length: At most so many bytes; more than ``CHUNK_BYTES`` brings one event at most.

    Raises:
        OSError: It cannot be read.
    """
    chunk = bytearray(file.read(position, min(length, CHUNK_BYTES)))
    events = min(MAGIC_LENGTH, len(chunk)) if position == 0 else 0
    if events == 0 and len(chunk) >= EVENT_HEADER_LENGTH:
        _, first = _TYPE_AND_LENGTH.unpack_from(chunk)
        if len(chunk) < first <= length:
            whole = _long_event(file, position, chunk, first)
            if whole is not None:
                return whole
    return _parts(chunk, _blank(chunk, events))


def _long_event(file: LogFile, position: int, chunk: bytearray, length: int) -> list[Part] | None:
    """One event that is longer than what was read of it; None: the file ends within it."""
    if _IS_WHOLE[chunk[4]]:
        whole = file.read(position, length)
        return [(whole, 0)] if len(whole) == length else None
    checksum = file.read(position + length - CHECKSUM_LENGTH, CHECKSUM_LENGTH)
    if len(checksum) < CHECKSUM_LENGTH:
        return None
    kept = _kept_of(chunk, 0, length)
    return [(kept, length - len(kept) - CHECKSUM_LENGTH), (checksum, 0)]


def _kept_of(chunk: bytearray, at: int, length: int) -> bytes:
    """The beginning of an event up to where nothing more of it is kept but its checksum."""
    body = at + EVENT_HEADER_LENGTH
    end = min(at + length, len(chunk))
    head_end = body + QUERY_HEAD_LENGTH
    if chunk[at + 4] != _QUERY or end < head_end:
        return bytes(chunk[at:body])
    head = bytes(chunk[at:head_end])
    statement = body + query_statement_offset(head[EVENT_HEADER_LENGTH:])
    text = bytes(chunk[statement : min(end, statement + QUERY_HEAD_MAX + CHECKSUM_LENGTH)])
    # Whether a checksum follows it, only the beginning of the file shows.
    is_verb = (
        query_verb(text[:-CHECKSUM_LENGTH]) != QueryVerb.STATEMENT
        or query_verb(text[:QUERY_HEAD_MAX]) != QueryVerb.STATEMENT
    )
    return head + bytes(statement - head_end) + text[:QUERY_HEAD_MAX] if is_verb else head


def _blank(chunk: bytearray, at: int) -> list[tuple[int, int]]:
    """Blank what is left out from an offset on.

    Returns:
        Where what is blank begins and ends, in order, but for a few bytes here and there.
    """
    gaps = []
    size = len(chunk)
    while size - at >= EVENT_HEADER_LENGTH:
        kind, length = _TYPE_AND_LENGTH.unpack_from(chunk, at)
        if length < EVENT_HEADER_LENGTH + CHECKSUM_LENGTH:
            break  # no event: whoever reads it reports that
        if not _IS_WHOLE[kind]:
            begin, end = at + EVENT_HEADER_LENGTH, min(at + length - CHECKSUM_LENGTH, size)
            if kind == _QUERY:
                kept = _kept_of(chunk, at, length)
                begin = at + len(kept)
                chunk[at:begin] = kept
            if end - begin >= _ZEROS_MIN:
                gaps.append((begin, end))
            elif begin < end:
                chunk[begin:end] = bytes(end - begin)
        at += length
    return gaps


def _parts(chunk: bytearray, gaps: list[tuple[int, int]]) -> list[Part]:
    found = []
    at = 0
    for begin, end in gaps:
        found.append((bytes(chunk[at:begin]), end - begin))
        at = end
    found.append((bytes(chunk[at:]), 0))
    return found
