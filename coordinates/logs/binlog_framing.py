"""One file of a binary log: its head and its end, its events' header fields, its groups' numbers.

What one event must be where it stands in its file is judged here; `binlog_reader` knows what the
files hold together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tallystick.coordinates.events.journal import ABSENT, FLAG_ARTIFICIAL
from tallystick.coordinates.logs.log_reader import LogReader
from tallystick.coordinates.rules.history import BINLOG_FILES_FORM_RANGE
from tallystick.coordinates.rules.log_stream import (
    BINLOG_FILE_FRAMING,
    BINLOG_LOG_POS_FIELD_AGREES,
    BINLOG_ROTATE_SUCCESSOR,
    GTID_MODE_RESPECTED,
    SEQUENCE_NUMBERS_VALID,
)
from tallystick.coordinates.values.binlog import EventType, parse_log_file_name
from tallystick.coordinates.values.errors import CoordinateError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from tallystick.coordinates.events.log_events import Event

    Array = npt.NDArray[Any]

FIRST_POSITION = 4
FILE_HEAD = (EventType.FORMAT_DESCRIPTION, EventType.PREVIOUS_GTIDS)
FIELD_MASK = 2**32 - 1
_ANONYMOUS_GTID = EventType.ANONYMOUS_GTID


@dataclass(eq=False)
class BinlogFileReader(LogReader):
    """The binary log, looked at file by file.

    Attributes:
        file_events: How many events of the present file were read.
        is_closed: Whether the present file ended with ROTATE or STOP.
        must_open_file: Whether the server started, so that the next event opens a file.
        last_sequence_number: Of the last group of the file, -1 not known.
    """

    log_name = "binary log"

    file_events: int = 0
    is_closed: bool = False
    must_open_file: bool = False
    last_sequence_number: int = 0

    def _judge_next_number(self, base_name: str, file_number: int) -> None:
        if file_number <= self.file_number + 1:
            return
        self.reporter.prose(
            BINLOG_FILES_FORM_RANGE,
            at=f"{base_name}#{file_number}",
            sentence=f"Binary log file number {file_number} follows number {self.file_number}.",
            observed=file_number,
            observed_in="number of the file that was opened",
            expected=self.file_number + 1,
            expected_in="number after the file before",
            witness=f"{base_name}#{self.file_number + 1}",
        )

    def _judge_appended(self, event: Event) -> None:
        self.must_open_file = False
        self.reporter.prose(
            BINLOG_FILES_FORM_RANGE,
            at=f"{self.file_name}:{event.start}",
            sentence=f"After a start the binary log goes on in the old file {self.file_name}; a "
            "start opens the next one.",
            observed=f"{self.file_name}:{event.start}",
            observed_in="first event after the start",
            expected=f"file number {self.file_number + 1}",
            expected_in="every start opens a file",
            witness=f"{self.file_name}:{event.start}",
        )

    def _judge_framing(self, event: Event) -> None:
        place = self.file_events
        if self.is_closed:
            expected = "nothing"
            where = "after ROTATE or STOP"
            self.is_closed = False
        elif place < len(FILE_HEAD) and event.type != FILE_HEAD[place]:
            expected = FILE_HEAD[place].name
            where = "first event of a file" if place == 0 else "second event of a file"
        else:
            return
        at = f"{self.file_name}:{event.start}"
        self.reporter.prose(
            BINLOG_FILE_FRAMING,
            at=at,
            sentence=f"The event at {at} has type {event.type} where {expected} belongs.",
            observed=f"event type {event.type}",
            observed_in=f"binary log at {at}",
            expected=expected,
            expected_in=where,
            witness=at,
        )

    def _judge_log_pos(self, event: Event, end: int) -> None:
        if event.log_pos == end & FIELD_MASK or self.offsets_doubtful:
            return
        if event.log_pos in (0, ABSENT) or event.flags & FLAG_ARTIFICIAL:
            return
        at = f"{self.file_name}:{event.start}"
        self.reporter.prose(
            BINLOG_LOG_POS_FIELD_AGREES,
            at=at,
            sentence=f"The event at {at} ends at {end}, but its header says {event.log_pos}.",
            observed=event.log_pos,
            observed_in="field log_pos of the event's header",
            expected=end & FIELD_MASK,
            expected_in="end of the event modulo 2^32",
            witness=at,
        )

    def _judge_rotate(self, event: Event, next_file: str) -> None:
        if event.flags & FLAG_ARTIFICIAL:
            return
        try:
            base_name, number = parse_log_file_name(next_file)
        except CoordinateError:
            base_name, number = next_file, -1
        position = FIRST_POSITION if event.value == ABSENT else event.value
        expected = (self.base_name, self.file_number + 1, FIRST_POSITION)
        if (base_name, number, position) == expected:
            return
        at = f"{self.file_name}:{event.start}"
        self.reporter.prose(
            BINLOG_ROTATE_SUCCESSOR,
            at=at,
            sentence=f"The ROTATE at {at} does not name the next file at position 4.",
            observed=f"{next_file!r} position {position}",
            observed_in=f"ROTATE at {at}",
            expected=f"file number {self.file_number + 1} position {FIRST_POSITION}",
            expected_in="next file of the binary log",
            witness=at,
        )

    def _judge_sequence_number(self, event: Event) -> None:
        number, parent = event.sequence_number, event.last_committed
        if ABSENT in (number, parent) or (number, parent) == (0, 0):
            self.last_sequence_number = ABSENT
            return
        last, self.last_sequence_number = self.last_sequence_number, number
        is_next = last == ABSENT or number == last + 1
        if is_next and 0 <= parent < number:
            return
        at = f"{self.file_name}:{event.start}"
        if is_next:
            expected: object = f"from 0 to {number - 1}"
            observed: object = parent
            field = "last_committed"
        else:
            expected, observed, field = last + 1, number, "sequence_number"
        self.reporter.prose(
            SEQUENCE_NUMBERS_VALID,
            at=at,
            sentence=f"The group at {at} has {field} {observed} where {expected} belongs.",
            observed=observed,
            observed_in=f"{field} of the group at {at}",
            expected=expected,
            expected_in="sequence of the groups of the file",
            witness=at,
        )

    def _judge_gtid_mode(self, event: Event) -> None:
        mode = self.server.gtid_mode
        is_anonymous = event.type == _ANONYMOUS_GTID
        if mode != ("ON" if is_anonymous else "OFF"):
            return
        at = f"{self.file_name}:{event.start}"
        kind = "an anonymous group" if is_anonymous else "a group with a GTID"
        self.reporter.prose(
            GTID_MODE_RESPECTED,
            at=at,
            sentence=f"Under gtid_mode={mode} {kind} was logged at {at}.",
            observed=kind,
            observed_in=f"binary log at {at}",
            expected="a GTID" if is_anonymous else "no GTID",
            expected_in=f"gtid_mode={mode}",
            witness=at,
        )

    # Whole columns

    def _fits_the_file(self, run: Mapping[str, Array], openers: Array) -> bool:
        """Whether a run of events breaks none of these rules; ``openers`` indexes its groups'."""
        if self.is_closed or self.must_open_file or self.file_events < len(FILE_HEAD):
            return False
        fields = run["log_pos"]
        wrong = fields != (run["end"] & FIELD_MASK)
        if wrong.any():
            is_artificial = (run["flags"][wrong] & FLAG_ARTIFICIAL) != 0
            if not ((fields[wrong] <= 0) | is_artificial).all():
                return False
        if not len(openers):
            return True
        numbers = run["sequence_number"][openers]
        parents = run["last_committed"][openers]
        first = self.last_sequence_number + 1
        if self.last_sequence_number == ABSENT or not (
            np.array_equal(numbers, np.arange(first, first + len(openers)))
            and (parents >= 0).all()
            and (parents < numbers).all()
        ):
            return False
        anonymous = run["type"][openers] == _ANONYMOUS_GTID
        named = ~anonymous
        if (run["gno"][openers][named] < 1).any() or (run["sid"][openers][named] < 0).any():
            return False
        mode = self.server.gtid_mode
        return not ((mode == "ON" and anonymous.any()) or (mode == "OFF" and named.any()))

    def _count_in_file(self, run: Mapping[str, Array], openers: Array) -> None:
        """A run that fits the file was read."""
        if len(openers):
            self.last_sequence_number = int(run["sequence_number"][openers[-1]])
        self.file_events += len(run["start"])
