"""Tier 3: does the summary of a backup image name one state (WL#3576, requirements 1 to 3)?

The steps come from `backup` and `zone` records (docs/journal.md). The positions of a replica in the
summary are judged in `image_positions`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.audit.baselines import ChannelBaselines
from tallystick.coordinates.events.log_status import GROUP_REPLICATION
from tallystick.coordinates.logs.event_window import MARK, Mark
from tallystick.coordinates.results import ObservationCode, Severity
from tallystick.coordinates.rules.families import Family, Lack
from tallystick.coordinates.rules.image_positions import (
    BACKUP_REPLICA_POSITIONS_AGREE,
    EXECUTED,
    NO_REPLICATION_STATE,
    READ,
    coordinates_of,
    judge_positions,
    own_log_with,
)
from tallystick.coordinates.rules.outcomes import HOLDS, Answer, Broken, Undecided
from tallystick.coordinates.rules.protocol_steps import (
    BACKUPS_OVERLAP,
    begin_run,
    note_forgotten,
)
from tallystick.coordinates.rules.registry import Case, Rule, reason, register
from tallystick.coordinates.rules.statements import events_from, groups
from tallystick.coordinates.state_codec import COLLABORATOR
from tallystick.coordinates.values.binlog import FIRST_POSITION, LogCoordinates
from tallystick.coordinates.values.errors import GtidSetParseError, JournalError
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallystick.coordinates.audit.baselines import Baselines
    from tallystick.coordinates.audit.reporter import Reporter
    from tallystick.coordinates.audit.server import Server
    from tallystick.coordinates.logs.binlog_reader import BinlogReader
    from tallystick.coordinates.logs.relay_reader import RelayReader

NO_POSITION = reason(
    "image_no_position", "image {backup}: its summary has no binary log position", Lack.BACKUP
)
LOG_MISSING = reason(
    "image_log_missing", "image {backup}: part of the journal is missing before it", Lack.BACKUP
)
OTHER_FILES = reason(
    "image_other_files", "image {backup}: the journal shows files of {base_name!r}", Lack.BACKUP
)
POSITION_FORGOTTEN = reason(
    "image_position_forgotten",
    "image {backup}: the position is older than the events remembered",
    Lack.BACKUP,
)
GROUP_UNSEEN = reason(
    "image_group_unseen",
    "image {backup}: the group around the position was not seen whole",
    Lack.BACKUP,
)
SET_UNKNOWN = reason(
    "image_set_unknown", "image {backup}: the GTID set or what was logged is not known", Lack.BACKUP
)
PURGED_UNKNOWN = reason(
    "image_purged_unknown",
    "image {backup}: gtid_purged is not known, so its GTID set may hold more",
    Lack.BACKUP,
)

BACKUP_IMAGE_NAMES_ONE_STATE = register(
    Rule(
        number=84,
        name="backup_image_names_one_state",
        tier=3,
        scope="T",
        family=Family.BACKUP_COORDINATES,
        severity=Severity.CRITICAL,
        heals="never",
        claim=(
            "The binary log position in an image's summary is the end of a group, lies where the"
            " log was at the validity point, and the image's GTID set is what the log holds up to"
            " it."
        ),
        why=(
            "At the validity point no thread is between writing the binary log and making its"
            " change visible, so data, GTID set and position are one state. A position that leads"
            " the data loses groups in the recovery, one that trails it executes them twice."
        ),
        undecided_when=(
            "the binary log around the position was not seen or is no longer remembered, the image"
            " has no position or no GTID set, or the server executes groups that it does not log."
            " Without the steps of the commit zone the position of the validity point is not"
            " judged; where two backups went on at once, another position is undecided"
        ),
        sources=("WL#3576, requirements 1 and 3; Solution with a critical zone",),
        remedy=(
            "Do not recover from this image and start no replica at its position. Take the backup"
            " again with the commit zone closed until position and data are stored."
        ),
        verify=(events_from("position"), groups("missing"), groups("early"), groups("extra")),
        cases={
            "image_beyond_log": Case(
                "The summary of image {backup} names {position}, but the log ends at {end}.",
                "{position}",
                "summary of the image",
                "at most {end}",
                "binary log",
            ),
            "image_inside_event": Case(
                "The summary of image {backup} names {position}, but that is no event end.",
                "{position}",
                "summary of the image",
                "the end of a group",
                "binary log",
            ),
            "image_inside_group": Case(
                "The summary of image {backup} names {position}, but that is inside a group.",
                "{position}",
                "summary of the image",
                "the end of a group",
                "binary log",
            ),
            "image_without_validity_point": Case(
                (
                    "The summary of image {backup} names {position}, but the commit zone was"
                    " closed and its validity point not reached."
                ),
                "{position}",
                "summary of the image",
                "the position of the validity point",
                "binary log",
            ),
            "image_not_at_validity_point": Case(
                (
                    "The summary of image {backup} names {position}, but the validity point was"
                    " taken at {taken}."
                ),
                "{position}",
                "summary of the image",
                "from {taken} to {opened}",
                "binary log",
            ),
            "image_gtids_lack": Case(
                (
                    "The summary of image {backup} names {position}, but its GTID set lacks"
                    " {missing:gtids}, logged before that."
                ),
                "{executed:gtids}",
                "summary of the image",
                "at least {logged:gtids}",
                "binary log",
            ),
            "image_gtids_hold_later": Case(
                (
                    "The summary of image {backup} names {position}, but its GTID set holds"
                    " {early:gtids}, logged after that."
                ),
                "{executed:gtids}",
                "summary of the image",
                "{logged:gtids}",
                "binary log",
            ),
            "image_gtids_hold_more": Case(
                (
                    "The summary of image {backup} names {position}, but its GTID set holds"
                    " {extra:gtids}, neither logged nor purged."
                ),
                "{executed:gtids}",
                "summary of the image",
                "{logged:gtids}",
                "binary log",
            ),
        },
    )
)

_BACKUPS_MAX = 64
_BOUNDARIES = (Mark.GROUP, Mark.HEADER, Mark.FILE)


@dataclass(slots=True)
class _Zone:
    """One zone of the server since the backup began.

    Attributes:
        has_tables: Whether it was closed for tables that are backed up.
        is_closed: Whether it was closed, and maybe opened again.
        is_reached: Whether a validity point followed its last closing.
        validity_point: End of the binary log at it, None not known.
        opened_at: End of the binary log when the zone opened after it.
    """

    has_tables: bool = False
    is_closed: bool = False
    is_reached: bool = False
    validity_point: LogCoordinates | None = None
    opened_at: LogCoordinates | None = None


@dataclass(slots=True)
class _Backup:
    """A backup that has begun and has no image yet.

    Attributes:
        since: When it began.
        is_alone: Whether no other went on at any moment of it: the zones are its own.
        zones: Those of the server since then, by name; one without a name is the only one, or the
            first.
    """

    since: int
    is_alone: bool
    zones: dict[str, _Zone] = field(default_factory=dict)

    def zone_stepped(self, body: Mapping[str, Any], end: LogCoordinates | None) -> None:
        """Take one ``zone`` record; ``end`` is that of the binary log."""
        step, name = body["step"], body.get("zone", "")
        zone = self.zones.setdefault(name, _Zone())
        if step == "close":
            has_tables = zone.has_tables or "tables" in body
            self.zones[name] = _Zone(has_tables=has_tables, is_closed=True)
        elif step == "validity_point":
            zone.validity_point, zone.opened_at = end, None
            zone.is_reached = True
        elif zone.is_reached and zone.opened_at is None:
            zone.opened_at = end


@dataclass(eq=False)
class BackupImages:
    """The images that are taken of one instance.

    Args:
        reporter: Where findings go.
        server: What is known of the instance.
        binlog: Its binary log as far as read.
        baselines: Its accepted rows.
        relays: The relay log of each of its channels.
    """

    _reporter: Reporter = field(metadata=COLLABORATOR)
    _server: Server = field(metadata=COLLABORATOR)
    _binlog: BinlogReader = field(metadata=COLLABORATOR)
    _baselines: Baselines = field(metadata=COLLABORATOR)
    _relays: Mapping[str, RelayReader] = field(metadata=COLLABORATOR)
    _begun: dict[str, _Backup] = field(default_factory=dict)
    """Backups that have begun and have no image yet, by their ids."""
    _has_forgotten: bool = False
    """Whether there were too many of them."""

    def zone(self, body: Mapping[str, Any]) -> None:
        """Take one ``zone`` record."""
        if body["step"] in ("close", "validity_point", "open"):
            for backup in self._begun.values():
                backup.zone_stepped(body, self._end())

    def step(self, body: Mapping[str, Any], ts: int) -> None:
        """Take one ``backup`` record.

        Raises:
            JournalError: A GTID set cannot be read.
        """
        step = body["step"]
        for key in ("gtid_executed", "excluded", "stop_gtid"):
            if body.get(key) is not None:
                self._read_set(body[key], key)
        if step == "begin":
            self._begin(body["backup_id"], ts)
        elif step == "image":
            text = body.get("gtid_executed")
            executed = None if text is None else self._read_set(text, "gtid_executed")
            self._judge_image(body, executed)
            self._judge_channels(body, executed)
        if step in ("image", "end"):
            self._begun.pop(body["backup_id"], None)

    def _begin(self, backup_id: str, ts: int) -> None:
        is_alone = not (self._begun or self._has_forgotten)
        for other in self._begun.values():
            other.is_alone = False
        forgotten = begin_run(self._begun, backup_id, _Backup(ts, is_alone), _BACKUPS_MAX)
        self._has_forgotten |= forgotten is not None

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

    def _judge_channels(self, body: Mapping[str, Any], executed: GtidSet | None) -> None:
        """Judge each channel of the image, and each that the server has beside them."""
        rule, backup_id, stored = BACKUP_REPLICA_POSITIONS_AGREE, body["backup_id"], []
        for status in body.get("channels") or ():
            stored.append(status["channel"])
            self._judge_channel(backup_id, status, executed)
        for name in self._baselines.channels:
            # Those of a group begin anew where a member joins; none is administered.
            if name in stored or name.startswith(GROUP_REPLICATION):
                continue
            relay = self._relays.get(name)
            answer: Answer = Undecided(NO_REPLICATION_STATE)
            # Behind a gap a channel is known for its settings, and may be gone.
            is_stored = body.get("channels") is not None
            if is_stored and relay is not None and relay.base_name is not None:
                answer = Broken("image_lacks_channel", witness=repr(name), stored=stored)
            self._take(rule, backup_id, answer, name)

    def _judge_channel(
        self, backup_id: str, status: Mapping[str, Any], executed: GtidSet | None
    ) -> None:
        rule, name = BACKUP_REPLICA_POSITIONS_AGREE, status["channel"]
        relay = self._relays.get(name)
        baselines = self._baselines.channels.get(name) or ChannelBaselines()
        answer: Answer = HOLDS
        for pair in (READ, EXECUTED):
            at = coordinates_of(status, *pair)
            log = own_log_with(at, name, baselines, self._binlog, self._relays)
            if log is not None:
                answer = Broken("image_source_position_of_own_log", witness=at, stored=at, log=log)
        if answer is HOLDS:
            answer = judge_positions(status, executed, self._server, relay, baselines)
        self._take(rule, backup_id, answer, name)

    def _judge_image(self, body: Mapping[str, Any], executed: GtidSet | None) -> None:
        rule, backup_id = BACKUP_IMAGE_NAMES_ONE_STATE, body["backup_id"]
        if body.get("binlog_file") is None or body.get("binlog_position") is None:
            if self._server.log_bin:
                self._take(rule, backup_id, Undecided(NO_POSITION))
            return
        position = LogCoordinates.of_file(body["binlog_file"], body["binlog_position"])
        answer = self._judge_position(position)
        if answer is HOLDS and backup_id in self._begun:
            answer = self._not_at_validity_point(position, self._begun[backup_id])
        elif answer is HOLDS and self._has_forgotten:
            note_forgotten(
                self._reporter,
                rule,
                what="backups",
                kept=_BACKUPS_MAX,
                at=f"image {backup_id}",
            )
        if answer is HOLDS:
            answer = self._judge_set(position, executed)
        self._take(rule, backup_id, answer, position=position)

    def _take(
        self,
        rule: Rule,
        backup_id: str,
        answer: Answer,
        channel: str | None = None,
        position: LogCoordinates | None = None,
    ) -> None:
        at = f"image {backup_id}"
        if isinstance(answer, Broken):
            known = {"backup": backup_id} | ({} if position is None else {"position": position})
            answer = Broken(answer.case, witness=answer.witness, at=at, **known, **answer.data)
            self._reporter.broken(rule, answer, channel=channel)
        elif isinstance(answer, Undecided) and rule.name not in self._reporter.disabled:
            self._reporter.note(
                ObservationCode.COMPARISON_UNDECIDED,
                answer.reason,
                at=at,
                rules=(rule,),
                is_undecided=True,
                channel=channel,
                backup=backup_id,
                **answer.data,
            )

    def _judge_position(self, position: LogCoordinates) -> Answer:
        """Whether the position is a boundary of the log."""
        binlog, end = self._binlog, self._end()
        if end is None or binlog.offsets_doubtful:
            return Undecided(LOG_MISSING)
        if end.base_name != position.base_name:
            return Undecided(OTHER_FILES, base_name=end.base_name)
        if position > end:
            return Broken("image_beyond_log", witness=position, end=end)
        if position.position <= FIRST_POSITION:
            return HOLDS
        key = position.file_number, position.position
        found = binlog.window.find_end(*key)
        if found is None:
            if not binlog.window.knows(*key):
                return Undecided(POSITION_FORGOTTEN)
            return Broken("image_inside_event", witness=position)
        mark = Mark(int(binlog.window.rows()[found, MARK]))
        if mark is Mark.UNKNOWN:
            return Undecided(GROUP_UNSEEN)
        if mark not in _BOUNDARIES:
            return Broken("image_inside_group", witness=position)
        return HOLDS

    def _not_at_validity_point(self, position: LogCoordinates, backup: _Backup) -> Answer:
        """Whether the log ended elsewhere while the zone was closed and empty.

        A server may have zones for other uses. Which one is the backup's is known by its validity
        point, its tables, or as it has no name; of several that may be, one is enough.
        """
        answers = [
            _stands_at(position, zone)
            for name, zone in backup.zones.items()
            if zone.is_reached or (zone.is_closed and (zone.has_tables or not name))
        ]
        if HOLDS in answers:
            return HOLDS
        undecided = [answer for answer in answers if isinstance(answer, Undecided)]
        answer = next(iter(undecided or answers), HOLDS)
        if isinstance(answer, Broken) and not backup.is_alone:
            return Undecided(BACKUPS_OVERLAP, step="image")
        return answer

    def _judge_set(self, position: LogCoordinates, executed: GtidSet | None) -> Answer:
        """Whether the set has what was logged up to the position, and nothing else."""
        binlog, baselines = self._binlog, self._baselines
        logged = binlog.logged_at(position.file_number, position.position)
        if executed is None or logged is None:
            return Undecided(SET_UNKNOWN)
        sets = {"executed": executed, "logged": logged}
        missing = logged - executed
        if missing:
            return Broken("image_gtids_lack", witness=executed, missing=missing, **sets)
        extra = executed - logged
        early = extra & binlog.grouped.freeze()
        if early:
            return Broken("image_gtids_hold_later", witness=executed, early=early, **sets)
        extra = baselines.without_known(self._server.must_have_logged(extra))
        if not extra:
            return HOLDS
        if not baselines.has_row_since_start:
            return Undecided(PURGED_UNKNOWN)
        return Broken("image_gtids_hold_more", witness=executed, extra=extra, **sets)

    def interrupted(self) -> None:
        """The server ended, or records are missing: no backup goes on."""
        self._begun, self._has_forgotten = {}, False


def _stands_at(position: LogCoordinates, zone: _Zone) -> Answer:
    """Whether the position is that of the zone's validity point."""
    if not zone.is_reached:
        return Broken("image_without_validity_point", witness=position)
    taken, opened = zone.validity_point, zone.opened_at
    if taken is None:
        return Undecided(LOG_MISSING)
    # All are of one base name: another one begins with a start, which ends the backup.
    if position >= taken and (opened is None or position <= opened):
        return HOLDS
    return Broken(
        "image_not_at_validity_point", witness=position, taken=taken, opened=opened or taken
    )
