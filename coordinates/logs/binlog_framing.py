"""One file of a binary log: its head and its end, its events' header fields, its groups' numbers.

What one event must be at its position in the file is checked here; `binlog_reader` knows what the
files hold together.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tallystick.coordinates.events.journal import ABSENT, FLAG_ARTIFICIAL
from tallystick.coordinates.logs.anomaly import AnomalyKind
from tallystick.coordinates.logs.log_reader import LogReader
from tallystick.coordinates.state_codec import TRANSIENT
from tallystick.coordinates.values.binlog import (
    FIRST_POSITION,
    EventType,
    format_log_file_name,
    parse_log_file_name,
)
from tallystick.coordinates.values.errors import CoordinateError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from tallystick.coordinates.events.log_events import Event

    Array = npt.NDArray[Any]

FILE_HEAD = (EventType.FORMAT_DESCRIPTION, EventType.PREVIOUS_GTIDS)
_HEAD_DIFFERS = (AnomalyKind.FIRST_EVENT_DIFFERS, AnomalyKind.SECOND_EVENT_DIFFERS)
FIELD_MASK = 2**32 - 1
_ANONYMOUS_GTID = int(EventType.ANONYMOUS_GTID)


@dataclass(slots=True, eq=False)
class BinlogFileReader(LogReader):
    """The binary log, file by file.

    Attributes:
        file_events: How many events of the present file were read.
        is_closed: Whether the present file ended with ROTATE or STOP.
        has_stopped: Whether that was STOP.
        server_ended: Whether an event has shown that the server ended, and the audit has not noted
            it yet.
        must_open_file: Whether the server started, so that the next event opens a file.
        may_lack_files: Whether a start has left out numbers before the present file, and the
            journal does not show yet that there are no files of them.
        rotate_at: Where the ROTATE of the present file is, empty while there is none.
        next_number: The number that the next file takes: as ROTATE names it, or else one more than
            the highest that was seen.
        followed: The file before each whose number is not the next one, as its ROTATE named it.
        last_sequence_number: Of the last group of the file, -1 not known.
    """

    log_name = "binary log"
    begun_by = "RESET BINARY LOGS AND GTIDS"

    file_events: int = 0
    is_closed: bool = False
    has_stopped: bool = False
    server_ended: bool = field(default=False, metadata=TRANSIENT)
    must_open_file: bool = False
    may_lack_files: bool = False
    rotate_at: str = ""
    next_number: int = ABSENT
    followed: dict[str, str] = field(default_factory=dict)
    last_sequence_number: int = 0

    def _check_next_number(self, base_name: str, file_number: int) -> None:
        """Another file begins: the one that ROTATE names, if there was a ROTATE.

        The server leaves numbers out up to the highest in its directory, listed or not; a crash may
        have given some back.
        """
        if self.rotate_at and file_number > self.next_number:
            self.report_anomaly(
                AnomalyKind.FILE_NUMBER_SKIPPED,
                f"{base_name}#{file_number}",
                witness=f"{base_name}#{self.next_number}",
                number=file_number,
                previous=self.file_number,
                expected=self.next_number,
            )
        elif self.rotate_at and file_number < self.next_number:
            named = format_log_file_name(base_name, self.next_number)
            self._report_rotate(self.rotate_at, named, file_number)
        else:
            self._follow(base_name, file_number)

    def _follow(self, base_name: str, file_number: int) -> None:
        """Another file comes after the present one, maybe with numbers left out between them."""
        if file_number > self.file_number + 1:
            self.followed[format_log_file_name(base_name, file_number)] = self.file_name

    def _check_appended(self, event: Event) -> None:
        self.must_open_file = False
        self.report_anomaly(
            AnomalyKind.OLD_FILE_CONTINUED,
            f"{self.file_name}:{event.start}",
            file=self.file_name,
            expected=self.file_number + 1,
        )

    def _check_framing(self, event: Event) -> None:
        number = self.file_events
        if self.is_closed:
            kind = AnomalyKind.EVENT_AFTER_END_OF_FILE
            self.is_closed = False
        elif number < len(FILE_HEAD) and event.type != FILE_HEAD[number]:
            kind = _HEAD_DIFFERS[number]
        else:
            return
        self.report_anomaly(kind, f"{self.file_name}:{event.start}", type=event.type)

    def _check_log_pos(self, event: Event, end: int) -> None:
        if event.log_pos == end & FIELD_MASK or self.offsets_doubtful:
            return
        if event.log_pos in (0, ABSENT) or event.flags & FLAG_ARTIFICIAL:
            return
        self.report_anomaly(
            AnomalyKind.LOG_POS_DIFFERS,
            f"{self.file_name}:{event.start}",
            log_pos=event.log_pos,
            end=end,
            expected=end & FIELD_MASK,
        )

    def _check_rotate(self, event: Event, next_file: str) -> None:
        if event.flags & FLAG_ARTIFICIAL:
            return
        try:
            base_name, number = parse_log_file_name(next_file)
        except CoordinateError:
            base_name, number = next_file, -1
        position = FIRST_POSITION if event.value == ABSENT else event.value
        at = f"{self.file_name}:{event.start}"
        is_later = base_name == self.base_name and number > self.file_number
        if is_later and position == FIRST_POSITION:
            self.rotate_at, self.next_number = at, number
        else:
            self._report_rotate(at, next_file, self.file_number + 1, position)

    def _report_rotate(
        self, at: str, next_file: str, expected: int, position: int = FIRST_POSITION
    ) -> None:
        self.report_anomaly(
            AnomalyKind.ROTATE_DIFFERS,
            at,
            file=next_file,
            position=position,
            expected=expected,
            expected_position=FIRST_POSITION,
        )

    def _check_sequence_number(self, event: Event) -> None:
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
            self.report_anomaly(
                AnomalyKind.LAST_COMMITTED_OUT_OF_RANGE, at, number=parent, maximum=number - 1
            )
        else:
            self.report_anomaly(
                AnomalyKind.SEQUENCE_NUMBER_DIFFERS, at, number=number, expected=last + 1
            )

    def _check_gtid_mode(self, event: Event) -> None:
        mode = self.server.gtid_mode
        is_anonymous = event.type == _ANONYMOUS_GTID
        if mode != ("ON" if is_anonymous else "OFF"):
            return
        self.report_anomaly(
            AnomalyKind.ANONYMOUS_GROUP_UNDER_ON if is_anonymous else AnomalyKind.GTID_UNDER_OFF,
            f"{self.file_name}:{event.start}",
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
