"""Judging the summary of a backup image (invariants 84 and 85: WL#3576, requirements 1 to 3)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.audit.baselines import ChannelBaselines
from tallystick.coordinates.logs.event_window import MARK, Mark
from tallystick.coordinates.results import ObservationCode
from tallystick.coordinates.rules.judging.image_positions import judge_positions
from tallystick.coordinates.rules.judging.step_judge import StepJudge
from tallystick.coordinates.rules.point_in_time_recovery import (
    BACKUP_IMAGE_NAMES_ONE_STATE,
    BACKUP_REPLICA_POSITIONS_AGREE,
)
from tallystick.coordinates.rules.registry import UNDECIDED_PROSE
from tallystick.coordinates.state_codec import COLLABORATOR
from tallystick.coordinates.values.binlog import LogCoordinates
from tallystick.coordinates.values.errors import GtidSetParseError, JournalError
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallystick.coordinates.audit.baselines import Baselines
    from tallystick.coordinates.audit.server import Server
    from tallystick.coordinates.logs.binlog_reader import BinlogReader
    from tallystick.coordinates.logs.relay_reader import RelayReader
    from tallystick.coordinates.rules.registry import Rule

FIRST_POSITION = 4
_BOUNDARIES = (Mark.GROUP, Mark.HEADER, Mark.FILE)


@dataclass(eq=False)
class BackupImages(StepJudge):
    """The images that are taken of one instance.

    Args:
        reporter: Where findings go.
        server: What is known of the instance.
        binlog: Its binary log as far as read.
        baselines: Its accepted rows.
        relays: The relay log of each of its channels.
    """

    _server: Server = field(metadata=COLLABORATOR)
    _binlog: BinlogReader = field(metadata=COLLABORATOR)
    _baselines: Baselines = field(metadata=COLLABORATOR)
    _relays: Mapping[str, RelayReader] = field(metadata=COLLABORATOR)
    _backup_id: str | None = None
    """Of the backup that has begun and has no image yet."""
    _closed_since_begin: bool = False
    _validity_point: LogCoordinates | None = None
    """End of the binary log at the last validity point since then."""
    _opened_at: LogCoordinates | None = None
    """End of the binary log when the zone opened behind it."""

    def zone(self, step: object) -> None:
        """Take the step of a ``zone`` record."""
        if self._backup_id is None:
            return
        if step == "close":
            self._closed_since_begin = True
            self._validity_point = self._opened_at = None
        elif step == "validity_point":
            self._validity_point = self._end()
        elif step == "open" and self._opened_at is None:
            self._opened_at = self._end()

    def step(self, body: Mapping[str, Any]) -> None:
        """Take one ``backup`` record.

        Raises:
            JournalError: A GTID set cannot be read.
        """
        step = body["step"]
        for key in ("gtid_executed", "excluded", "stop_gtid"):
            if body.get(key) is not None:
                self._read_set(body[key], key)
        if step == "begin":
            self._backup_id = str(body["backup_id"])
            self._closed_since_begin = False
            self._validity_point = self._opened_at = None
        elif step == "image":
            text = body.get("gtid_executed")
            executed = None if text is None else self._read_set(text, "gtid_executed")
            self._judge_image(body, executed)
            for channel in body.get("channels") or ():
                self._judge_channel(str(body["backup_id"]), channel, executed)
            self._backup_id = None
        elif step == "end" and body["backup_id"] == self._backup_id:
            self._backup_id = None

    def _read_set(self, text: str, key: str) -> GtidSet:
        try:
            return GtidSet.parse(text, tags=self._server.knows_tags)
        except GtidSetParseError as error:
            raise JournalError(f"key {key!r}: {error}") from None

    def _end(self) -> LogCoordinates | None:
        binlog = self._binlog
        if binlog.base_name is None or binlog.end < 0:
            return None
        return LogCoordinates(binlog.base_name, binlog.file_number, binlog.end)

    def _judge_channel(
        self, backup_id: str, told: Mapping[str, Any], executed: GtidSet | None
    ) -> None:
        rule, name = BACKUP_REPLICA_POSITIONS_AGREE, str(told["channel"])
        relay = self._relays.get(name)
        baselines = self._baselines.channels.get(name) or ChannelBaselines()
        wrong = judge_positions(told, executed, self._server, relay, baselines)
        if isinstance(wrong, str):
            self._undecided(rule, backup_id, wrong, name)
        elif wrong is not None:
            what, observed, expected = wrong
            self._reporter.prose(
                rule,
                at=f"image {backup_id}",
                channel=name,
                sentence=f"The image {backup_id} tells of channel {name!r} what does not agree: "
                f"{what}.",
                observed=observed,
                observed_in="summary of the image",
                expected=expected,
                expected_in="relay log of the channel, and the summary itself",
                witness=observed,
            )

    def _judge_image(self, body: Mapping[str, Any], executed: GtidSet | None) -> None:
        backup_id = str(body["backup_id"])
        if body.get("binlog_file") is None or body.get("binlog_position") is None:
            if self._server.log_bin:
                self._undecided(
                    BACKUP_IMAGE_NAMES_ONE_STATE,
                    backup_id,
                    "its summary has no binary log position",
                )
            return
        position = LogCoordinates.of_file(body["binlog_file"], int(body["binlog_position"]))
        wrong = self._wrong_place(position)
        if isinstance(wrong, str):
            self._undecided(BACKUP_IMAGE_NAMES_ONE_STATE, backup_id, wrong)
            return
        if wrong is None and backup_id == self._backup_id:
            wrong = self._not_at_validity_point(position)
        if wrong is None:
            wrong = self._wrong_set(backup_id, position, executed)
        if wrong is None:
            return
        what, observed, expected = wrong
        self.report(
            BACKUP_IMAGE_NAMES_ONE_STATE,
            f"image {backup_id}",
            f"The image {backup_id} is said to be of {position}, but {what}.",
            observed,
            expected,
            "binary log",
        )

    def _undecided(
        self, rule: Rule, backup_id: str, reason: str, channel: str | None = None
    ) -> None:
        if rule.name not in self._reporter.disabled:
            self._reporter.note(
                ObservationCode.COMPARISON_UNDECIDED,
                UNDECIDED_PROSE,
                at=f"image {backup_id}",
                rules=(rule,),
                text=f"image {backup_id}: {reason}",
                is_undecided=True,
                channel=channel,
            )

    def _wrong_place(self, position: LogCoordinates) -> tuple[str, str, str] | str | None:
        """What is wrong with the place itself, or as text why that is not known."""
        binlog, end = self._binlog, self._end()
        if end is None or binlog.offsets_doubtful:
            return "part of the journal is missing before it"
        if end.base_name != position.base_name:
            return f"the journal shows files of {end.base_name!r}"
        if position > end:
            return f"the log ends at {end}", str(position), f"at most {end}"
        if position.position <= FIRST_POSITION:
            return None
        place = position.file_number, position.position
        found = binlog.window.find_end(*place)
        if found is None:
            if not binlog.window.covers(*place) or binlog.window.begins_at(*place):
                return "the position is older than the events remembered"
            return "that is no event end", str(position), "the end of a group"
        mark = Mark(int(binlog.window.rows()[found, MARK]))
        if mark is Mark.UNKNOWN:
            return "the group around the position was not seen whole"
        if mark not in _BOUNDARIES:
            return "that is inside a group", str(position), "the end of a group"
        return None

    def _not_at_validity_point(self, position: LogCoordinates) -> tuple[str, str, str] | None:
        """Whether the log stood elsewhere while the zone was closed and empty."""
        taken = self._validity_point
        if taken is None:
            if not self._closed_since_begin:
                return None
            what = "the commit zone was closed and its validity point not reached"
            return what, str(position), "the position of the validity point"
        if taken.base_name != position.base_name:
            return None
        last = self._opened_at
        if position < taken or (last is not None and last < position):
            what = f"the validity point was taken at {taken}"
            expected = str(taken) if last in (None, taken) else f"from {taken} to {last}"
            return what, str(position), expected
        return None

    def _wrong_set(
        self, backup_id: str, position: LogCoordinates, executed: GtidSet | None
    ) -> tuple[str, str, str] | None:
        """Whether the set lacks what was logged up to the position, or holds what was not."""
        binlog, baselines = self._binlog, self._baselines
        logged = binlog.logged_at(position.file_number, position.position)
        if executed is None or logged is None:
            self._undecided(
                BACKUP_IMAGE_NAMES_ONE_STATE,
                backup_id,
                "the GTID set or what was logged is not known",
            )
            return None
        missing = logged - executed
        if missing:
            what = f"its GTID set lacks {missing.first(3)}, which was logged before"
            return what, str(executed), f"at least {logged}"
        extra = executed - logged
        if not self._server.logs_everything and self._server.server_uuid is not None:
            extra = extra.restrict(self._server.server_uuid)
        early = extra & binlog.grouped.freeze()
        if early:
            what = f"its GTID set holds {early.first(3)}, which was logged behind it"
            return what, str(executed), str(logged)
        for known in (baselines.purged, baselines.executed):
            extra = extra if known is None else extra - known
        extra = extra - baselines.assigned
        if extra and not baselines.has_row:
            self._undecided(
                BACKUP_IMAGE_NAMES_ONE_STATE,
                backup_id,
                "gtid_purged is not known, so its GTID set may hold more",
            )
        elif extra:
            what = f"its GTID set holds {extra.first(3)}, which is neither logged nor purged"
            return what, str(executed), str(logged)
        return None

    def interrupted(self) -> None:
        """The server ended, or records are missing: no backup goes on."""
        self._backup_id = None
