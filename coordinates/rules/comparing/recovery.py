"""Comparing a point-in-time recovery with the log that it replayed (invariants 86 to 88, WL#3576).

The log may be the server's own, of before it was restored: then its old lineage is looked up.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.audit.comparison import (
    Coordinates,
    Problem,
    RecoveryMade,
    Undecided,
    Waiting,
    brief,
)
from tallystick.coordinates.audit.journal_position import Place
from tallystick.coordinates.rules.comparing.judges import wait_or_give_up
from tallystick.coordinates.rules.comparing.mirror import groups_behind
from tallystick.coordinates.rules.point_in_time_recovery import (
    RECOVERED_DATA_EQUAL_SOURCE,
    RECOVERY_REACHES_STOP_POINT,
    REPLAY_CONTINUES_IMAGE,
)
from tallystick.coordinates.values.binlog import parse_log_file_name
from tallystick.coordinates.values.errors import CoordinateError
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    import numpy.typing as npt

    from tallystick.coordinates.audit.comparison import Answer, Case
    from tallystick.coordinates.audit.instance_timeline import InstanceTimeline
    from tallystick.coordinates.audit.timeline_snapshot import Snapshot

Tables = list[dict[str, Any]]
"""Name, rows and checksum of each table, as the journal has them."""

ANONYMOUS = "an anonymous group"
REPLAYED_MAX = 2**16
"""Groups of one recovery that are remembered; beyond it the replay is not judged."""


@dataclass(slots=True)
class RunningRecovery:
    """What a restored server has told so far.

    Attributes:
        restored: The bodies of its records, by step.
        logged: GTIDs that it has logged since the last of them, "" anonymous.
        before: GTIDs that it had logged between ``restore`` and ``replay``.
        is_whole: Whether everything that it logged was seen.
    """

    restored: dict[str, dict[str, Any]]
    logged: list[str] = field(default_factory=list)
    before: list[str] = field(default_factory=list)
    is_whole: bool = True

    def log(self, sids: list[str], of_group: npt.NDArray[Any], gno: npt.NDArray[Any]) -> None:
        """Groups were logged; ``of_group`` indexes ``sids``, -1 anonymous."""
        for sid, number in zip(of_group.tolist(), gno.tolist(), strict=True):
            self.logged.append(f"{sids[sid]}:{number}" if sid >= 0 else "")
        if len(self.logged) > REPLAYED_MAX:
            self.lose()

    def lose(self) -> None:
        """What was logged is not known any more."""
        self.is_whole = False
        self.logged = []

    def begin_replay(self, body: dict[str, Any]) -> None:
        """What is logged from now on is replayed."""
        self.restored["replay"] = body
        self.before, self.logged = self.logged, []

    def end(self, place: Place, body: dict[str, Any], *, is_ordered: bool) -> RecoveryMade:
        """The replay has ended."""
        return RecoveryMade(
            place,
            {**self.restored, "replayed": body},
            tuple(self.logged) if self.is_whole else None,
            tuple(self.before),
            is_ordered,
        )


def judge_replay(made: RecoveryMade, case: Case) -> Answer:
    """Rule 86: a replay executes what is behind the image, all of it, in order, once."""
    found = _log(made, case)
    if not isinstance(found, tuple):
        return found
    source, state = found
    start = _start(made)
    if isinstance(start, Undecided):
        return start
    groups = _between(source, state, start, made.end)
    if isinstance(groups, Undecided):
        return groups
    if made.replayed is None:
        return Undecided("the restored server's binary log was not seen completely")
    skipped = made.gtids("restore") or GtidSet.EMPTY
    skipped = skipped | _set_of(made.before) | (made.gtids("replay", "excluded") or GtidSet.EMPTY)
    expected = [gtid for gtid in groups if not (gtid and gtid in skipped)]
    got = list(made.replayed)
    if not made.is_ordered and Counter(got) == Counter(expected):
        return []
    at = next(
        (n for n, (a, b) in enumerate(zip(got, expected, strict=False)) if a != b),
        min(len(got), len(expected)),
    )
    if at == len(got) == len(expected):
        return []
    seen = (got[at] or ANONYMOUS) if at < len(got) else "nothing more"
    wanted = (expected[at] or ANONYMOUS) if at < len(expected) else "nothing more"
    return [
        Problem(
            REPLAY_CONTINUES_IMAGE,
            at=f"recovery from image {made.backup_id}",
            sentence=f"The recovery from image {made.backup_id} executed {seen} where the binary"
            f" log of instance {source.instance_id} has {wanted}.",
            observed=f"{len(got)} groups, at number {at + 1} {seen}",
            observed_in="binary log of the restored server",
            expected=f"{len(expected)} groups, at number {at + 1} {wanted}",
            expected_in=f"binary log of instance {source.instance_id} from {start[0]}:{start[1]}"
            f" to {made.end[0]}:{made.end[1]}",
            witness=wanted if at < len(expected) else seen,
        )
    ]


def judge_stop_point(made: RecoveryMade, case: Case) -> Answer:
    """Rule 87: a recovery ends at its stop point, with the GTIDs that the source had there."""
    found = _log(made, case)
    if not isinstance(found, tuple):
        return found
    source, state = found
    logged = _logged_at(source, state, made.end)
    executed = made.gtids("replayed")
    if isinstance(logged, Undecided):
        return logged
    if executed is None:
        return Undecided("the restored server's gtid_executed was not read")
    missed = _missed_stop(made, source, state, logged)
    if isinstance(missed, Undecided):
        return missed
    if missed is not None:
        return [_stop_problem(made, source, missed[0], missed[1], missed[2])]
    excluded = made.gtids("replay", "excluded") or GtidSet.EMPTY
    missing = logged - excluded - executed
    if missing:
        what = f"it has not executed {brief(missing, 3)}"
        return [_stop_problem(made, source, what, brief(executed), f"at least {brief(logged)}")]
    image = source.images.get(made.backup_id) if made.image_of == made.source else None
    told = made.gtids("restore") if image is None else _parsed(image["gtid_executed"])
    extra = executed - logged - (told or GtidSet.EMPTY) - _set_of(made.before)
    if extra:
        what = f"it has executed {brief(extra, 3)}, which is neither in the image nor in that log"
        return [_stop_problem(made, source, what, brief(executed), brief(logged))]
    return []


def judge_data(made: RecoveryMade, case: Case) -> Answer:
    """Rule 88: restored tables are those of the image, recovered ones those of the source."""
    found = _log(made, case)
    if not isinstance(found, tuple):
        return found
    source, state = found
    image_of = case.sources[-1]
    image = image_of.images.get(made.backup_id)
    if image is not None:
        here = image["binlog_file"], image["binlog_position"]
        for step, theirs, whose in (
            (made.restored["restore"].get("tables"), image["tables"], "in the image"),
            (
                image["tables"],
                image_of.checksums_at(image["lineage"], here),
                f"on instance {image_of.instance_id} at {here[0]}:{here[1]}",
            ),
        ):
            problem = _differing(made, step, theirs, whose)
            if problem is not None:
                return [problem]
    mine = made.restored["replayed"].get("tables")
    if mine is None:
        return []
    if made.gtids("replay", "excluded"):
        return Undecided("groups were left out on purpose, so the source had other data")
    theirs = source.checksums_at(state.lineage, made.end)
    where = f"{made.end[0]}:{made.end[1]}"
    if theirs is None:
        return Undecided(f"instance {source.instance_id} told no checksums of {where}")
    problem = _differing(made, mine, theirs, f"on instance {source.instance_id} at {where}")
    return [] if problem is None else [problem]


# The log that was replayed


def _log(made: RecoveryMade, case: Case) -> tuple[InstanceTimeline, Snapshot] | Waiting | Undecided:
    """Whose log it is, and the log as it stood in the lineage that the image is of."""
    source, ts = case.source, made.place.ts
    for timeline in case.sources:
        if next(timeline.states.since(ts), None) is None:
            return wait_or_give_up(timeline, ts)
    state = next(source.states.since(ts))
    if made.source != made.image_of:
        return source, state
    image = source.images.get(made.backup_id)
    if image is None:
        if any(s.ts <= ts for s in source.states if s.lineage != state.lineage):
            return Undecided("the image was not seen to be taken, and the log began anew")
        return source, state
    if image["lineage"] == state.lineage:
        return source, state
    of_lineage = [s for s in source.states if s.lineage == image["lineage"]]
    if not of_lineage:
        return Undecided("the binary log that the image was taken of is not remembered")
    return source, of_lineage[-1]


def _start(made: RecoveryMade) -> Coordinates | Undecided:
    """Where the image stands in the log."""
    summary = made.restored["restore"]
    if made.source == made.image_of:
        if summary.get("binlog_file") is None or summary.get("binlog_position") is None:
            return Undecided("the image's summary has no binary log position")
        return summary["binlog_file"], summary["binlog_position"]
    for channel in summary.get("channels") or ():
        file, position = channel.get("exec_source_log_file"), channel.get("exec_source_log_pos")
        if channel.get("source_instance") == made.source and file and position is not None:
            return file, position
    return Undecided(f"the image does not tell how far it is on instance {made.source}")


def _file_number(state: Snapshot, coordinates: Coordinates) -> int | Undecided:
    try:
        base_name, number = parse_log_file_name(coordinates[0])
    except CoordinateError:
        return Undecided(f"{coordinates[0]!r} is no binary log file")
    if base_name != state.base_name:
        return Undecided(f"the source's binary log is called {state.base_name}, not {base_name}")
    return number


def _between(
    source: InstanceTimeline, state: Snapshot, start: Coordinates, end: Coordinates
) -> list[str] | Undecided:
    """The GTIDs of the groups between two places, "" anonymous."""
    first, last = _file_number(state, start), _file_number(state, end)
    if isinstance(first, Undecided):
        return first
    if isinstance(last, Undecided):
        return last
    if last > state.file_number or not state.is_complete:
        return Undecided(f"the source's journal does not show its binary log up to {end[0]}")
    groups: list[str] = []
    for place, gtid in groups_behind(source, state, first, start[1]):
        if place > (last, end[1]) and gtid is not None:
            break
        if gtid is None:
            if place[0] > last:
                break
            return Undecided("the groups of the source between image and stop point are not known")
        groups.append(gtid)
    return groups


def _logged_at(source: InstanceTimeline, state: Snapshot, end: Coordinates) -> GtidSet | Undecided:
    """What the source had logged at a place."""
    number = _file_number(state, end)
    if isinstance(number, Undecided):
        return number
    file, _ = source.file_at(state, number)
    if file is None or file.previous is None or number > state.file_number:
        return Undecided(f"the head of {end[0]} of the source was not seen")
    groups = _between(source, state, (end[0], 4), end)
    return groups if isinstance(groups, Undecided) else file.previous | _set_of(tuple(groups))


def _missed_stop(
    made: RecoveryMade, source: InstanceTimeline, state: Snapshot, logged: GtidSet
) -> tuple[str, str, str] | Undecided | None:
    """Whether the replay ended elsewhere than it was told to."""
    told = made.restored["replay"]
    gtid = told.get("stop_gtid")
    if gtid and not GtidSet.parse(gtid) <= logged:
        what = f"it was to go on up to {gtid}, which is behind that"
        return what, f"{made.end[0]}:{made.end[1]}", gtid
    file, position = told.get("stop_file"), told.get("stop_position")
    if file is None or position is None:
        return None
    stop = (file, position)
    groups = _between(source, state, *sorted((stop, made.end), key=_in_order))
    if isinstance(groups, Undecided):
        return groups
    if not groups:
        return None
    what = f"it was to end at {file}:{position}"
    return what, f"{made.end[0]}:{made.end[1]}", f"{file}:{position}"


def _in_order(coordinates: Coordinates) -> tuple[int, int]:
    try:
        return parse_log_file_name(coordinates[0])[1], coordinates[1]
    except CoordinateError:
        return 0, coordinates[1]


# Sets and tables


def _set_of(gtids: tuple[str, ...]) -> GtidSet:
    return GtidSet.parse(",".join(filter(None, gtids)), tags=True)


def _parsed(text: str | None) -> GtidSet | None:
    return None if text is None else GtidSet.parse(text)


def _stop_problem(
    made: RecoveryMade, source: InstanceTimeline, what: str, observed: str, expected: str
) -> Problem:
    where = f"{made.end[0]}:{made.end[1]}"
    return Problem(
        RECOVERY_REACHES_STOP_POINT,
        at=f"recovery from image {made.backup_id}",
        sentence=f"The recovery from image {made.backup_id} has ended at {where} of instance"
        f" {source.instance_id}, but {what}.",
        observed=observed,
        observed_in="restored server behind the replay",
        expected=expected,
        expected_in=f"binary log of instance {source.instance_id} up to {where}",
        witness=observed,
    )


def _differing(
    made: RecoveryMade, mine: Tables | None, theirs: Tables | None, whose: str
) -> Problem | None:
    """The first table that both tell with another content."""
    if mine is None or theirs is None:
        return None
    others = {table["name"]: table for table in theirs}
    for table in mine:
        other = others.get(table["name"])
        if other is None or _content(table) == _content(other):
            continue
        return Problem(
            RECOVERED_DATA_EQUAL_SOURCE,
            at=f"recovery from image {made.backup_id}",
            sentence=f"Recovering from image {made.backup_id} gave table {table['name']}"
            f" {_content(table)}; {whose} it has {_content(other)}.",
            observed=_content(table),
            observed_in=f"table {table['name']}, recovered or in the image",
            expected=_content(other),
            expected_in=f"table {table['name']} {whose}",
            witness=table["name"],
        )
    return None


def _content(table: dict[str, Any]) -> str:
    rows = table.get("rows")
    counted = "" if rows is None else f"{rows} rows, "
    return f"{counted}checksum {table.get('checksum')}"
