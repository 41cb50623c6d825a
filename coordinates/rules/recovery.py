"""Point-in-time recovery: a restored server beside the binary log that it replayed (WL#3576).

The log may be the server's own, from before it was restored: then its old lineage is looked up.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from tallystick.coordinates.audit.comparison import Coordinates, RecoveryMade
from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.between import (
    ANONYMOUS,
    NO_BINLOG_FILE,
    OTHER_BASE_NAME,
    Against,
    Compared,
    between,
    groups_after,
    wait_or_give_up,
)
from tallystick.coordinates.rules.families import Family, Lack
from tallystick.coordinates.rules.outcomes import HOLDS, Broken, Undecided, Waiting
from tallystick.coordinates.rules.registry import Case, reason
from tallystick.coordinates.rules.statements import (
    GTID_SETS,
    file_from,
    file_until,
    groups,
    not_executed,
)
from tallystick.coordinates.values.binlog import format_log_file_name, parse_log_file_name
from tallystick.coordinates.values.errors import CoordinateError
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from tallystick.coordinates.audit.instance_timeline import InstanceTimeline
    from tallystick.coordinates.audit.origins import Origins
    from tallystick.coordinates.audit.timeline_snapshot import Snapshot

IMAGE_UNSEEN = reason(
    "image_unseen", "the image was not seen to be taken, and the log began anew", Lack.BACKUP
)
IMAGE_LOG_FORGOTTEN = reason(
    "image_log_forgotten",
    "the binary log that the image was taken of is not remembered",
    Lack.BACKUP,
)
IMAGE_WITHOUT_POSITION = reason(
    "image_without_position", "the image's summary has no binary log position", Lack.BACKUP
)
IMAGE_WITHOUT_CHANNEL = reason(
    "image_without_channel",
    "the image does not show how far it is on instance {source}",
    Lack.BACKUP,
)
REPLAY_UNSEEN = reason(
    "replay_unseen", "which groups the restored server logged by it is not known", Lack.BACKUP
)
REPLAYED_LOG_NOT_REACHED = reason(
    "replayed_log_not_reached",
    "the source's journal does not show its binary log up to {file}",
    Lack.BACKUP,
)
REPLAYED_LOG_OF_WHICH = reason(
    "replayed_log_of_which",
    "the source's binary log has begun anew since the image was taken: whether {file} was replayed"
    " as it was before or after that is not known",
    Lack.BACKUP,
)
REPLAYED_GROUPS_UNKNOWN = reason(
    "replayed_groups_unknown",
    "the groups of the source between image and stop point are not known",
    Lack.BACKUP,
)
STOP_FILE_HEAD_UNSEEN = reason(
    "stop_file_head_unseen", "the head of {file} of the source was not seen", Lack.BACKUP
)
LEFT_OUT_BETWEEN = reason(
    "left_out_between",
    "the replay began after anonymous groups that follow {file}:{position}, where the one before"
    " it had ended; whether these were left out on purpose cannot be said",
    Lack.BACKUP,
)
RESTORED_SET_UNREAD = reason(
    "restored_set_unread", "the restored server's gtid_executed was not read", Lack.BACKUP
)


REPLAYED_UNLOGGED = reason(
    "replayed_unlogged",
    "the restored server does not log what it replays (log_bin or sql_log_bin is off): how often"
    " it executed which group is not known",
    Lack.BACKUP,
)
REPLAYED_AS_OWN = reason(
    "replayed_as_own",
    "the restored server has logged {count:n group} under GTIDs of its own (mysqlbinlog"
    " --skip-gtids), and the log of {source} has {wanted_count:n group} there: which ones these are"
    " is not known",
    Lack.BACKUP,
)

STOP_NAMED_IN_PART = reason(
    "stop_named_in_part",
    "the replay names {named} of where it was to end, and no {lacking}",
    Lack.BACKUP,
)
NO_STOP_NAMED = reason(
    "no_stop_named",
    "the replay named no stop point and ended at {file}:{position}, after which the log of"
    " {source} had {count:n group} more by the first that is known of it since the replay began:"
    " whether it was to go on is not known",
    Lack.BACKUP,
)
STOP_TIME_MAYBE_MISSED = reason(
    "stop_time_maybe_missed",
    "the replay was to go on up to {stop_time:moment}, and {gtid}, which follows, was committed at"
    " {committed:moment}: whether the log had it when the replay began is not known",
    Lack.BACKUP,
)
STOP_TIME_PASSED = reason(
    "stop_time_passed",
    "the replay was to end before {stop_time:moment}, and {gtid:group}, which it executed, was"
    " committed at {committed:moment}: what counts is when it was begun, and that is not known",
    Lack.BACKUP,
)
STOP_TIME_UNKNOWN = reason(
    "stop_time_unknown",
    "the replay was to end before {stop_time:moment}, and when {gtid:group} was committed is not"
    " known",
    Lack.BACKUP,
)


class Replayed(NamedTuple):
    """The log that was replayed: whose, and as it was in the lineage that the image is of."""

    source: InstanceTimeline
    state: Snapshot


@between(
    RecoveryMade,
    number=86,
    tier=4,
    family=Family.RESTORE,
    severity=Severity.CRITICAL,
    heals="data",
    claim=(
        "A point-in-time recovery executes every group of the binary log between the image's"
        " position and its stop point that the image does not hold, each once, in the order of"
        " the log."
    ),
    why=(
        "The image has everything up to its position and nothing after it, so a replay that"
        " begins exactly there neither loses nor repeats a change. With GTIDs the server skips"
        " what it has; without them the position alone decides."
    ),
    undecided_when=(
        "the log between image and stop point was not seen or is not remembered, or began anew"
        " since the image and has come as far again, the image has no position in that log, the"
        " restored server's log was not seen completely, or a later replay of several began after"
        " groups without GTIDs; or the restored server did not log what it replayed, or logged all"
        " of it under GTIDs of its own (mysqlbinlog --skip-gtids)"
    ),
    sources=(
        "WL#3576, requirement 1 and title: Point in time recovery",
        "MySQL manual: Point-in-Time (Incremental) Recovery",
    ),
    remedy=(
        "Discard the restored server. Restore the image again and replay from the position in"
        " its summary, all files in order, in one run."
    ),
    verify=(file_from("from_file", "from_position", "{source}"), GTID_SETS),
    cases={
        "left_out": Case(
            "The recovery from image {backup_id} executed {seen:group}, which was to be left out.",
            "{seen_count:n group}, at number {number} {seen:group}",
            "binary log of the restored server",
            "{wanted_count:n group}, without {seen:group}",
            "binary log of instance {source} from {from_file}:{from_position} to"
            " {to_file}:{to_position}, and `excluded` of the replay",
        ),
        "other_group": Case(
            "The recovery from image {backup_id} executed {seen:group} where the binary log of"
            " instance {source} has {wanted:group}.",
            "{seen_count:n group}, at number {number} {seen:group}",
            "binary log of the restored server",
            "{wanted_count:n group}, at number {number} {wanted:group}",
            "binary log of instance {source} from {from_file}:{from_position} to"
            " {to_file}:{to_position}",
        ),
        "ends_early": Case(
            "The recovery from image {backup_id} executed nothing more where the binary log of"
            " instance {source} has {wanted:group}.",
            "{seen_count:n group}",
            "binary log of the restored server",
            "{wanted_count:n group}, at number {number} {wanted:group}",
            "binary log of instance {source} from {from_file}:{from_position} to"
            " {to_file}:{to_position}",
        ),
        "goes_on": Case(
            "The recovery from image {backup_id} executed {seen:group} where the binary log of"
            " instance {source} has nothing more.",
            "{seen_count:n group}, at number {number} {seen:group}",
            "binary log of the restored server",
            "{wanted_count:n group}",
            "binary log of instance {source} from {from_file}:{from_position} to"
            " {to_file}:{to_position}",
        ),
    },
)
def replay_continues_image(made: RecoveryMade, against: Against) -> Compared:
    """A replay executes what is after the image, all of it, in order, once."""
    log = replayed_log(made, against)
    if not isinstance(log, Replayed):
        return log
    start = _start(made)
    if isinstance(start, Undecided):
        return start
    expected = _to_execute(made, log, start, made.end)
    if isinstance(expected, Undecided):
        return expected
    if made.replayed is None:
        return Undecided(REPLAY_UNSEEN)
    got = list(made.replayed)
    if not made.is_ordered and Counter(got) == Counter(expected):
        return HOLDS
    at = next(
        (n for n, (a, b) in enumerate(zip(got, expected, strict=False)) if a != b),
        min(len(got), len(expected)),
    )
    if at == len(got) == len(expected):
        return HOLDS
    if made.before is None:
        return Undecided(REPLAY_UNSEEN)
    if not made.server.has_binlog or _is_unlogged(made, expected):
        return Undecided(REPLAYED_UNLOGGED)
    if _is_under_own_gtids(made, expected):
        return _replayed_as_own(made, log, expected)
    if _is_left_out_between(made, log):
        return Undecided(LEFT_OUT_BETWEEN, file=start[0], position=start[1])
    seen = got[at] if at < len(got) else None
    wanted = expected[at] if at < len(expected) else None
    if seen and seen in (made.gtids("replay", "excluded") or GtidSet.EMPTY):
        case = "left_out"
    else:
        case = "ends_early" if seen is None else "goes_on" if wanted is None else "other_group"
    witness = wanted if wanted is not None else seen
    return broken_recovery(
        case,
        made,
        log,
        witness=witness or ANONYMOUS,
        seen=seen,
        wanted=wanted,
        seen_count=len(got),
        wanted_count=len(expected),
        number=at + 1,
        from_file=start[0],
        from_position=start[1],
    )


def _is_unlogged(made: RecoveryMade, expected: list[str]) -> bool:
    """Whether nothing of a replay was logged, and all of it is executed: by nothing else given."""
    executed = made.gtids("replayed")
    if made.replayed or executed is None or "" in expected:
        return False
    return _set_of(tuple(expected)) <= executed - made.server.given


def _is_under_own_gtids(made: RecoveryMade, expected: list[str]) -> bool:
    """Whether everything was logged under GTIDs of the server's own, and nothing under the log's.

    One that repeats a group under another GTID has others under those of the log. Where the
    server's UUID is not known, the only one that they have may be its own.
    """
    if not made.replayed or "" in (*made.replayed, *expected):
        return False
    own, server_uuid = _set_of(made.replayed), made.server.server_uuid
    is_own = len(own.uuids()) == 1 if server_uuid is None else not own.without_uuid(server_uuid)
    return is_own and own.isdisjoint(_set_of(tuple(expected)))


def _replayed_as_own(made: RecoveryMade, log: Replayed, expected: list[str]) -> Undecided:
    count = len(made.replayed or ())
    source = log.source.instance_id
    return Undecided(REPLAYED_AS_OWN, count=count, source=source, wanted_count=len(expected))


_ENDED = (
    "The recovery from image {backup_id} has ended at {to_file}:{to_position} of instance {source},"
    " but "
)
_RESTORED = "restored server after the replay"
_LOG = "binary log of instance {source} up to {to_file}:{to_position}"


@between(
    RecoveryMade,
    number=87,
    tier=4,
    family=Family.RESTORE,
    severity=Severity.CRITICAL,
    heals="data",
    claim=(
        "A point-in-time recovery ends where it was to end, and gtid_executed is then what the"
        " source had logged there, but for what the image held besides and what was left out on"
        " purpose."
    ),
    why=(
        "Image and replay together are the source's history up to the stop point. A GTID that"
        " is missing will be asked for again by a replica, or never come; one too many will"
        " never be executed."
    ),
    undecided_when=(
        "the head of the source's binary log file at the stop point was not seen, the restored"
        " server's gtid_executed was not read though the source has GTIDs, or all that was replayed"
        " is logged under GTIDs of the restored server's own; no stop was named, and the source had"
        " logged more when the replay began; a file without a position was named, or a position"
        " without a file; or it was to end before a time, and what it executed was committed at"
        " that time or later, or groups have no GTIDs or no commit time. Such a stop is missed"
        " where the next group was committed before that time"
    ),
    sources=(
        "WL#3576, title: Point in time recovery",
        "MySQL manual: Point-in-Time Recovery Using Event Positions; gtid_purged",
    ),
    remedy=(
        "If the image's set was not restored, set gtid_purged to it before replaying. Else"
        " restore again; do not let the server become a source or replica as it is."
    ),
    verify=(
        not_executed("missing"),
        groups("extra"),
        file_until("to_file", "to_position", "{source}"),
    ),
    cases={
        "stop_gtid_missed": Case(
            _ENDED + "it was to go on up to {stop_gtid}, which the log does not hold up to there.",
            "{to_file}:{to_position}",
            _RESTORED,
            "{stop_gtid}",
            _LOG,
        ),
        "stop_gtid_passed": Case(
            _ENDED + "it was to end with {stop_gtid}, and has {passed:group} from after that.",
            "{to_file}:{to_position}",
            _RESTORED,
            "{stop_gtid}",
            _LOG,
        ),
        "stop_position_missed": Case(
            _ENDED + "it was to end at {stop_file}:{stop_position}.",
            "{to_file}:{to_position}",
            _RESTORED,
            "{stop_file}:{stop_position}",
            _LOG,
        ),
        "stop_time_missed": Case(
            _ENDED + "it was to go on up to {stop_time:moment}: {gtid}, which follows, was"
            " committed at {committed:moment}.",
            "{to_file}:{to_position}",
            _RESTORED,
            "{gtid}",
            _LOG,
        ),
        "not_executed": Case(
            _ENDED + "it has not executed {missing:gtids}.",
            "{executed:gtids}",
            _RESTORED,
            "at least {logged:gtids}",
            _LOG,
        ),
        "executed_more": Case(
            _ENDED
            + "it has executed {extra:gtids}, which {extra:is|are} neither in the image nor in"
            " that log.",
            "{executed:gtids}",
            _RESTORED,
            "{logged:gtids}",
            _LOG,
        ),
    },
)
def recovery_reaches_stop_point(made: RecoveryMade, against: Against) -> Compared:
    """A recovery ends at its stop point, with the GTIDs that the source had there."""
    log = replayed_log(made, against)
    if not isinstance(log, Replayed):
        return log
    logged = _logged_at(log, made.end)
    executed = made.gtids("replayed")
    if isinstance(logged, Undecided):
        return logged
    missed = _missed_stop(made, log, logged, against.fleet.origins)
    if isinstance(missed, Broken):
        return missed
    if executed is None:
        # Where the source has no GTIDs, there is nothing to be compared.
        return Undecided(RESTORED_SET_UNREAD) if logged else missed or HOLDS
    sets = {"executed": executed, "logged": logged}
    missing = logged - made.excluded - executed
    if missing:
        start = _start(made)
        expected = (
            start if isinstance(start, Undecided) else _to_execute(made, log, start, made.end)
        )
        if (
            not isinstance(expected, Undecided)
            and missing <= _set_of(tuple(expected))
            and _is_under_own_gtids(made, expected)
        ):
            return _replayed_as_own(made, log, expected)
        return broken_recovery("not_executed", made, log, witness=executed, missing=missing, **sets)
    of_source = made.image_of == made.source
    image = log.source.image_for(made.restored["restore"]) if of_source else None
    restored = made.gtids("restore") if image is None else _parsed(image["gtid_executed"])
    extra = executed - logged - (restored or GtidSet.EMPTY) - (made.before or GtidSet.EMPTY)
    if extra and made.before is None:
        return Undecided(REPLAY_UNSEEN)
    if extra:
        return broken_recovery("executed_more", made, log, witness=executed, extra=extra, **sets)
    return missed or HOLDS


def _missed_stop(
    made: RecoveryMade, log: Replayed, logged: GtidSet, origins: Origins
) -> Broken | Undecided | None:
    """Whether the replay ended elsewhere than it was to."""
    body = made.restored["replay"]
    witness = f"{made.end[0]}:{made.end[1]}"
    gtid = body.get("stop_gtid")
    if gtid and not GtidSet.parse(gtid) <= logged:
        return broken_recovery("stop_gtid_missed", made, log, witness=witness, stop_gtid=gtid)
    if gtid:
        return _passed_stop(made, log, gtid)
    file, position, time = (body.get(f"stop_{name}") for name in ("file", "position", "time"))
    if (file is None) != (position is None):
        named = "stop_file", "stop_position"
        named = named if position is None else named[::-1]
        return Undecided(STOP_NAMED_IN_PART, named=named[0], lacking=named[1])
    is_short = time is not None
    if file is not None and position is not None:
        missed = _missed_position(made, log, (file, position))
        # Of two stops the one that comes first ends the replay.
        if time is None or (missed and _in_order(made.end) > _in_order((file, position))):
            return missed
        is_short = missed is not None
    if time is None:
        return _left_over(made, log)
    short = _short_of_time(made, log, time, origins) if is_short else None
    return short if isinstance(short, Broken) else _passed_time(made, log, time, origins) or short


def _missed_position(
    made: RecoveryMade, log: Replayed, stop: Coordinates
) -> Broken | Undecided | None:
    """Whether groups lie between a position and the end of the replay."""
    groups = _between(log, *sorted((stop, made.end), key=_in_order))
    if isinstance(groups, Undecided):
        return groups
    if not groups:
        return None
    witness, values = f"{made.end[0]}:{made.end[1]}", {"stop_file": stop[0]}
    return broken_recovery(
        "stop_position_missed", made, log, witness=witness, stop_position=stop[1], **values
    )


def _left_over(made: RecoveryMade, log: Replayed) -> Undecided | None:
    """What the log had after the end of a replay without a stop point, when it began."""
    rest = _rest(made, log)
    if isinstance(rest, Undecided):
        return rest
    count = sum(_is_missing(made, gtid) for gtid in rest.groups)
    (file, position), source = made.end, log.source.instance_id
    values = {"file": file, "position": position, "source": source}
    return Undecided(NO_STOP_NAMED, count=count, **values) if count else None


def _short_of_time(
    made: RecoveryMade, log: Replayed, time: int, origins: Origins
) -> Broken | Undecided | None:
    """Whether a group that was not replayed was committed before the time at which to stop.

    mysqlbinlog compares whole seconds, and stops at the first group that is too late.
    """
    rest = _rest(made, log)
    if isinstance(rest, Undecided):
        return rest
    for number, gtid in enumerate(rest.groups):
        committed = _commit_ts(origins, gtid)
        if committed is None:
            return Undecided(STOP_TIME_UNKNOWN, gtid=gtid, stop_time=time)
        if committed >= time - time % 1_000_000:
            break
        if _is_missing(made, gtid):
            values = {"gtid": gtid, "committed": committed, "stop_time": time}
            if number >= rest.count_then:
                return Undecided(STOP_TIME_MAYBE_MISSED, **values)
            witness = f"{made.end[0]}:{made.end[1]}"
            return broken_recovery("stop_time_missed", made, log, witness=witness, **values)
    return None


def _passed_time(
    made: RecoveryMade, log: Replayed, time: int, origins: Origins
) -> Undecided | None:
    """Whether a group that was replayed was committed too late.

    mysqlbinlog goes by the time at which a statement began: a long one may end later.
    """
    start = _start(made)
    groups = start if isinstance(start, Undecided) else _to_execute(made, log, start, made.end)
    for gtid in () if isinstance(groups, Undecided) else groups:
        committed = _commit_ts(origins, gtid)
        if committed is None:
            return Undecided(STOP_TIME_UNKNOWN, gtid=gtid, stop_time=time)
        if committed >= time:
            return Undecided(STOP_TIME_PASSED, gtid=gtid, stop_time=time, committed=committed)
    return groups if isinstance(groups, Undecided) else None


def _commit_ts(origins: Origins, gtid: str) -> int | None:
    """When a group was committed; None where it has no GTID, or that is not known."""
    sid, _, gno = gtid.rpartition(":")
    return origins.commit_ts(sid, int(gno)) if gtid else None


class _Rest(NamedTuple):
    """What the log had after the end of a replay, by the first that is known since it began.

    Attributes:
        groups: As of ``_between``.
        count_then: How many of them it had when the replay began, at the least.
    """

    groups: list[str]
    count_then: int


def _rest(made: RecoveryMade, log: Replayed) -> _Rest | Undecided:
    states, lineage = log.source.states, log.state.lineage
    found: list[list[str]] = []
    for then in (states.until(made.begun_ts), states.first_since(made.begun_ts)):
        # Of a server that was restored itself its own log from before that was replayed.
        state = log.state if then is not None and then.lineage > lineage else then
        groups: list[str] | Undecided = []
        if state is not None and state.lineage == lineage and state.base_name is not None:
            end = format_log_file_name(state.base_name, state.file_number), state.end
            groups = _between(log, made.end, end)
        if isinstance(groups, Undecided):
            return groups
        found.append(groups)
    return _Rest(found[1], len(found[0]))


def _is_missing(made: RecoveryMade, gtid: str) -> bool:
    """Whether the restored server has not executed a group, which was not left out on purpose."""
    executed = made.gtids("replayed")
    return not gtid or (executed is not None and gtid not in _skipped(made) | executed)


def _passed_stop(made: RecoveryMade, log: Replayed, gtid: str) -> Broken | Undecided | None:
    """Whether the replay went beyond the last of the groups with which it was to end."""
    start, stop = _start(made), GtidSet.parse(gtid)
    groups = start if isinstance(start, Undecided) else _to_execute(made, log, start, made.end)
    if isinstance(groups, Undecided):
        return groups
    last = max((n for n, group in enumerate(groups) if group and group in stop), default=-1)
    if last + 1 == len(groups):
        return None
    return broken_recovery(
        "stop_gtid_passed",
        made,
        log,
        witness=f"{made.end[0]}:{made.end[1]}",
        stop_gtid=gtid,
        passed=groups[last + 1],
    )


def broken_recovery(
    case: str, made: RecoveryMade, log: Replayed, *, witness: object, **values: object
) -> Broken:
    """A contradiction of a recovery, with what all texts of them name."""
    return Broken(
        case,
        witness=witness,
        at=f"recovery from image {made.backup_id}",
        backup_id=made.backup_id,
        source=log.source.instance_id,
        to_file=made.end[0],
        to_position=made.end[1],
        **values,
    )


# The log that was replayed


def replayed_log(made: RecoveryMade, against: Against) -> Replayed | Waiting | Undecided:
    """The log that was replayed, or why it is not known."""
    source, ts = against.source, made.at.ts
    for timeline in against.sources:
        if timeline.states.first_since(ts) is None:
            return wait_or_give_up(timeline, ts)
    state = next(source.states.since(ts))
    if made.source != made.image_of:
        return Replayed(source, state)
    image = source.image_for(made.restored["restore"])
    if image is None:
        if any(s.ts <= ts for s in source.states if s.lineage != state.lineage):
            return Undecided(IMAGE_UNSEEN)
        return Replayed(source, state)
    if image["lineage"] == state.lineage:
        return Replayed(source, state)
    # A RESET leaves a state of which it is not known what was logged just before it.
    named = (s for s in source.states if s.base_name is not None)
    of_lineage = [s for s in named if s.lineage == image["lineage"]]
    if not of_lineage:
        return Undecided(IMAGE_LOG_FORGOTTEN)
    last, end = of_lineage[-1], _in_order(made.end)
    if end > (last.file_number, last.end):
        return Undecided(REPLAYED_LOG_NOT_REACHED, file=made.end[0])
    # Of a server that was restored itself only the log from before that can be replayed.
    is_same_server = made.server.server_uuid == source.uuid_at(ts)
    if not is_same_server and end <= (state.file_number, state.end):
        return Undecided(REPLAYED_LOG_OF_WHICH, file=made.end[0])
    return Replayed(source, last)


def _start(made: RecoveryMade) -> Coordinates | Undecided:
    """Where the image is in the log, or where the replays before this one have come to."""
    if made.resumed is not None:
        return made.resumed
    summary = made.restored["restore"]
    if made.source == made.image_of:
        if summary.get("binlog_file") is None or summary.get("binlog_position") is None:
            return Undecided(IMAGE_WITHOUT_POSITION)
        return summary["binlog_file"], summary["binlog_position"]
    for channel in summary.get("channels") or ():
        file, position = channel.get("exec_source_log_file"), channel.get("exec_source_log_pos")
        if channel.get("source_instance") == made.source and file and position is not None:
            return file, position
    return Undecided(IMAGE_WITHOUT_CHANNEL, source=made.source)


def _file_number(state: Snapshot, coordinates: Coordinates) -> int | Undecided:
    try:
        base_name, number = parse_log_file_name(coordinates[0])
    except CoordinateError:
        return Undecided(NO_BINLOG_FILE, file=coordinates[0])
    if base_name != state.base_name:
        return Undecided(OTHER_BASE_NAME, base_name=state.base_name, other=base_name)
    return number


def _between(log: Replayed, start: Coordinates, end: Coordinates) -> list[str] | Undecided:
    """The GTIDs of the groups between two positions, "" anonymous."""
    first, last = _file_number(log.state, start), _file_number(log.state, end)
    if isinstance(first, Undecided):
        return first
    if isinstance(last, Undecided):
        return last
    if last > log.state.file_number or not log.state.is_complete:
        return Undecided(REPLAYED_LOG_NOT_REACHED, file=end[0])
    groups: list[str] = []
    for end_of_group, gtid in groups_after(log.source, log.state, first, start[1]):
        if end_of_group > (last, end[1]) and gtid is not None:
            break
        if gtid is None:
            if end_of_group[0] > last:
                break
            return Undecided(REPLAYED_GROUPS_UNKNOWN)
        groups.append(gtid)
    return groups


def _to_execute(
    made: RecoveryMade, log: Replayed, start: Coordinates, end: Coordinates
) -> list[str] | Undecided:
    """The groups between two positions that are neither executed before nor left out on purpose."""
    groups = _between(log, start, end)
    if isinstance(groups, Undecided):
        return groups
    skipped = _skipped(made)
    return [gtid for gtid in groups if not (gtid and gtid in skipped)]


def _skipped(made: RecoveryMade) -> GtidSet:
    """What is executed before a replay, or left out of it on purpose."""
    restored = made.gtids("restore") or GtidSet.EMPTY
    return made.excluded | restored | (made.before or GtidSet.EMPTY)


def _is_left_out_between(made: RecoveryMade, log: Replayed) -> bool:
    """Whether a later replay begins after groups without GTIDs: `excluded` cannot name these."""
    body = made.restored["replay"]
    file, position = body.get("from_file"), body.get("from_position")
    if made.resumed is None or file is None or position is None:
        return False
    groups = _between(log, made.resumed, (file, position))
    return not isinstance(groups, Undecided) and "" in groups


def _logged_at(log: Replayed, end: Coordinates) -> GtidSet | Undecided:
    """What the source had logged at a position."""
    number = _file_number(log.state, end)
    if isinstance(number, Undecided):
        return number
    file, _ = log.source.file_at(log.state, number)
    if file is None or file.previous is None:
        return Undecided(STOP_FILE_HEAD_UNSEEN, file=end[0])
    groups = _between(log, (end[0], 4), end)
    return groups if isinstance(groups, Undecided) else file.previous | _set_of(tuple(groups))


def _in_order(coordinates: Coordinates) -> tuple[int, int]:
    try:
        return parse_log_file_name(coordinates[0])[1], coordinates[1]
    except CoordinateError:
        return 0, coordinates[1]


def _set_of(gtids: tuple[str, ...]) -> GtidSet:
    return GtidSet.parse(",".join(filter(None, gtids)))


def _parsed(text: str | None) -> GtidSet | None:
    return None if text is None else GtidSet.parse(text)
