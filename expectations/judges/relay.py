"""Rules about one replication channel: relay log coordinates, and the source's coordinates."""

from __future__ import annotations

from tallystick.expectations.judgement import (
    HELD,
    Judgement,
    Row,
    RowRule,
    broken,
    missing,
    not_applicable,
)
from tallystick.expectations.judges._reading import (
    NoEvidenceError,
    coordinates,
    is_before,
    no_evidence,
)

_RELAY = ("relay_log_file", "relay_log_position")
_JOURNAL = ("journal_relay_log_file", "journal_relay_log_position")
_READ = ("read_source_log_file", "read_source_log_pos")
_EXEC = ("exec_source_log_file", "exec_source_log_pos")


def _on_boundary(row: Row) -> Judgement:
    if unknown := missing(row, *_RELAY):
        return unknown
    file, position = (row[role] for role in _RELAY)
    if not file:
        if position:
            return broken("the row has a relay log position and no file", position)
        return not_applicable("the channel has no relay log: it was reset")
    if unknown := missing(row, *_JOURNAL):
        return unknown
    try:
        told, shown = coordinates(row, *_RELAY), coordinates(row, *_JOURNAL)
    except NoEvidenceError as error:
        return no_evidence(error)
    if told == shown:
        return HELD
    return broken(f"the last event end at or before {told} is {shown}", told)


def _exec_read(row: Row) -> Judgement:
    if unknown := missing(row, *_READ, *_EXEC):
        return unknown
    if not row[_READ[0]] or not row[_EXEC[0]]:
        return not_applicable("the channel names no file of its source yet")
    try:
        read, applied = coordinates(row, *_READ), coordinates(row, *_EXEC)
        is_beyond = is_before(read, applied)
    except NoEvidenceError as error:
        return no_evidence(error)
    if is_beyond:
        return broken(f"executed up to {applied} of the source, read only up to {read}", applied)
    return HELD


RULES = (
    RowRule(
        "relay_position_on_boundary",
        {_RELAY[0]: str, _RELAY[1]: int, _JOURNAL[0]: str, _JOURNAL[1]: int},
        _on_boundary,
        "channel",
        "relay_position_on_written_boundary",
    ),
    RowRule(
        "exec_read",
        {_READ[0]: str, _READ[1]: int, _EXEC[0]: str, _EXEC[1]: int},
        _exec_read,
        "channel",
        "exec_source_pos_within_read",
    ),
)
