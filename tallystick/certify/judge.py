"""Are a backup's coordinates true? Each question is a check with its sentence.

Evidence that is missing makes a check undecided; none of them is ever true for want of evidence.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tallystick.certify.history import logs_with
from tallystick.coordinates.audit.timeline_file import PositionKind
from tallystick.coordinates.results import Outcome
from tallystick.coordinates.values.binlog import FIRST_POSITION, LogCoordinates
from tallystick.coordinates.values.gtid import GtidSet
from tallystick.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tallystick.certify.backup import Backup, RedoRange, ReplicaPosition
    from tallystick.certify.history import BinaryLog, Channel, Groups, History

_SHOWN_GTIDS = 200


class Truth(str, Enum):
    """Whether a backup's coordinates are true."""

    TRUE = "TRUE"
    FALSE = "FALSE"
    UNDECIDED = "UNDECIDED"

    @property
    def exit_code(self) -> ExitCode:
        """What it means to a script."""
        return {
            Truth.TRUE: ExitCode.CONSISTENT,
            Truth.FALSE: ExitCode.INCONSISTENT,
            Truth.UNDECIDED: ExitCode.UNDECIDED,
        }[self]


class Check(NamedTuple):
    """What one question brought.

    Attributes:
        name: The question.
        outcome: Holds, broken or undecided.
        sentence: Why.
    """

    name: str
    outcome: Outcome
    sentence: str


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is known of a backup's coordinates.

    Attributes:
        backup: The coordinates.
        instance_id: The server that they were judged against, None: which one is not known.
        checks: Every question and its answer.
        by_gtid: Whether replication from the backup may go on by GTID.
        server_version: Of the server, None not known.
    """

    backup: Backup
    instance_id: str | None
    checks: tuple[Check, ...]
    by_gtid: bool = False
    server_version: str | None = None

    @property
    def truth(self) -> Truth:
        """UNDECIDED also where no check is of a coordinate."""
        is_shown = any(check.name in _OF_COORDINATES for check in self.checks)
        truth = truth_of(self.checks)
        return Truth.UNDECIDED if truth is Truth.TRUE and not is_shown else truth


def truth_of(checks: Iterable[Check]) -> Truth:
    """FALSE with any broken check, UNDECIDED with any undecided one."""
    outcomes = {check.outcome for check in checks}
    if Outcome.BROKEN in outcomes:
        return Truth.FALSE
    return Truth.UNDECIDED if Outcome.UNDECIDED in outcomes else Truth.TRUE


_OF_COORDINATES = (
    "position_ends_a_group",
    "set_is_what_was_logged",
    "replica_position_ends_a_group",
)


def judge(backup: Backup, histories: Mapping[str, History], instance_id: str | None) -> Judgement:
    """Judge a backup's coordinates against journals.

    Args:
        backup: The coordinates.
        histories: The journal of each instance.
        instance_id: The server that it was taken from; None: the one that fits.
    """
    about_files = [
        *(Check("files_agree", Outcome.BROKEN, f"{text}.") for text in backup.contradictions()),
        *(Check("tool_is_sure", Outcome.UNDECIDED, f"{text}.") for text in backup.doubts),
        *_redo_order(backup.redo),
    ]
    if instance_id is not None:
        candidates = [histories[instance_id]]
    else:
        candidates = _candidates(backup, histories)
    judged = [_judge_against(backup, history, histories) for history in candidates]
    if instance_id is None and backup.server_uuid is None and not backup.gtids:
        judged = []  # every server may have had that position
    elif len(judged) > 1:
        # A set with the position that it belongs to is of one server.
        true = [one for one in judged if one.truth is Truth.TRUE]
        judged = true if backup.position and len(true) == 1 else []
    if judged:
        return replace(judged[0], checks=(*about_files, *judged[0].checks))
    names = ", ".join(sorted(histories)) or "none"
    text = "The backup does not show which server it is of"
    if backup.server_uuid is not None:
        several = "Several instances of the journal are" if candidates else "No instance is"
        text = f"{several} the server {backup.server_uuid} that the backup names"
    unknown = Check(
        "server_is_known", Outcome.UNDECIDED, f"{text}; name it with --instance. There: {names}."
    )
    return Judgement(backup, None, (*about_files, unknown))


def _candidates(backup: Backup, histories: Mapping[str, History]) -> list[History]:
    if backup.server_uuid is None:
        return list(histories.values())
    return [one for one in histories.values() if backup.server_uuid in one.server_uuids]


def _judge_against(backup: Backup, history: History, histories: Mapping[str, History]) -> Judgement:
    checks = list[Check]()
    uuid = backup.server_uuid
    if uuid is not None and uuid not in history.server_uuids:
        known = ", ".join(sorted(history.server_uuids)) or "not known"
        text = f"The backup is of server {uuid}; that of {history.instance_id} is {known}."
        outcome = Outcome.BROKEN if history.server_uuids else Outcome.UNDECIDED
        checks.append(Check("server_is_the_one_named", outcome, text))
    if backup.position is not None:
        checks += _of_position(backup, history, backup.position)
    elif backup.gtids is not None:
        checks.append(_of_set_alone(history, backup.gtids))
    for position in backup.replica:
        checks += _of_replica(position, backup, history, histories)
    log = history.newest
    by_gtid = backup.gtids is not None and log is not None and not history.has_anonymous(log)
    version = history.server.version
    return Judgement(backup, history.instance_id, tuple(checks), by_gtid, version)


# Positions


class _At(NamedTuple):
    """The checks of a position in one binary log."""

    log: BinaryLog
    checks: list[Check]

    @property
    def truth(self) -> Truth:
        return truth_of(self.checks)


def _of_position(backup: Backup, history: History, at: LogCoordinates) -> list[Check]:
    judged = [
        _At(log, [*_in_log(backup, history, log, at)])
        for log in logs_with(history, at.base_name, at.file_number)
    ]
    if not judged:
        return [Check("position_ends_a_group", Outcome.UNDECIDED, _not_covered(history, at))]
    last = judged[-1]
    others = {one.truth for one in judged[:-1]}
    if last.truth is Truth.FALSE and others - {Truth.FALSE}:
        text = (
            f"The binary log of {history.instance_id} has begun anew: {at} is of the log before or"
            " of the one after, and does not hold in the latter."
        )
        return [Check("log_is_the_same", Outcome.UNDECIDED, text)]
    if last.log.is_ended:
        text = (
            f"The binary log of {history.instance_id} has begun anew since: nothing can replicate"
            f" from {at} any more."
        )
        last.checks.append(Check("log_is_the_same", Outcome.UNDECIDED, text))
    return last.checks


def _in_log(
    backup: Backup, history: History, log: BinaryLog, at: LogCoordinates
) -> Iterator[Check]:
    boundary = _boundary("position_ends_a_group", history, log, at)
    yield boundary
    if boundary.outcome is not Outcome.HOLDS:
        return
    if backup.gtids is not None:
        yield _of_set(backup, history, log, at)
    if backup.redo is not None:
        yield from _of_lsn(backup.redo, history, log, at)


def _boundary(name: str, history: History, log: BinaryLog, at: LogCoordinates) -> Check:
    """Whether a group ends at a position."""
    kind = history.kind_at(log, at.file_number, at.position)
    of = f"the binary log of {history.instance_id}"
    if kind is PositionKind.BEYOND:
        end = LogCoordinates(at.base_name, at.file_number, log.files[at.file_number].end)
        return Check(name, Outcome.BROKEN, f"{at} is past the end of that file of {of}, {end}.")
    if kind is PositionKind.INSIDE_EVENT:
        return Check(name, Outcome.BROKEN, f"{at} is inside an event of {of}.")
    if kind is PositionKind.EVENT_END:
        return Check(name, Outcome.BROKEN, f"{at} is inside a group of {of}.")
    if kind is PositionKind.UNKNOWN:
        return Check(name, Outcome.UNDECIDED, _unknown(history, log, at))
    logged = history.logged_at(log, at.file_number, at.position)
    if history.may_be_lost(log, at.file_number, logged):
        text = f"The journal does not show whether {at} outlived a start or a gap that follows."
        return Check(name, Outcome.UNDECIDED, text)
    what = "the end of a group" if kind is PositionKind.GROUP_END else "the beginning of a file"
    return Check(name, Outcome.HOLDS, f"{at} is {what} in {of}.")


def _unknown(history: History, log: BinaryLog, at: LogCoordinates) -> str:
    file = log.files[at.file_number]
    end = LogCoordinates(at.base_name, at.file_number, file.end)
    if at.position > file.end:
        return f"The journal of {history.instance_id} has that file up to {end} only, not {at}."
    if any(first < at.position <= last for first, last in file.holes):
        return f"The journal of {history.instance_id} has a gap at {at}."
    return (
        f"The journal of {history.instance_id} does not show whether a group ends at {at}: it is"
        " after the last group of the file that is known whole."
    )


def _not_covered(history: History, at: LogCoordinates) -> str:
    known = [
        (log.base_name, number)
        for log in history.logs.values()
        if log.base_name is not None
        for number in log.files
    ]
    if not known:
        return f"The journal of {history.instance_id} has no binary log."
    names = [LogCoordinates(base, number, FIRST_POSITION).file_name for base, number in known]
    return (
        f"The journal of {history.instance_id} has nothing of {at.file_name}: it has"
        f" {names[0]} to {names[-1]}."
    )


# GTID sets

_SET = "set_is_what_was_logged"


def _of_set(backup: Backup, history: History, log: BinaryLog, at: LogCoordinates) -> Check:
    """Whether the set is what was logged up to the position, and what never was."""
    gtids = backup.gtids
    assert gtids is not None
    logged = history.logged_at(log, at.file_number, at.position)
    if logged is None:
        text = f"What was logged up to {at} is not known: the journal has a gap before it."
        return Check(_SET, Outcome.UNDECIDED, text)
    missing = logged - gtids
    if missing:
        text = f"The GTID set lacks {_shown(missing)}, logged up to {at}"
        if backup.set_may_trail and _may_be_in_flight(history, log, at, missing):
            text += "; it may have been committing when the coordinates were read."
            return Check(_SET, Outcome.UNDECIDED, text)
        return Check(_SET, Outcome.BROKEN, f"{text}.")
    later = (gtids - logged) & _groups_after(history, log, at)
    if later:
        text = f"The GTID set has {_shown(later)}, logged after {at}."
        return Check(_SET, Outcome.BROKEN, text)
    return _of_unlogged(history, log, at, gtids, gtids - logged)


def _of_unlogged(
    history: History, log: BinaryLog, where: LogCoordinates, gtids: GtidSet, extra: GtidSet
) -> Check:
    """What a set has beside what was logged must be in gtid_purged, and all that is there in it."""
    unlogged = history.unlogged_at(log, where.file_number, where.position)
    if unlogged is None:
        text = (
            f"What {history.instance_id} had executed without logging it is not known: no row of"
            f" the journal without a gap to {where} has gtid_purged."
        )
        return Check(_SET, Outcome.UNDECIDED, text)
    if unlogged - gtids:
        text = f"The GTID set lacks {_shown(unlogged - gtids)}, executed before {where} and purged."
        return Check(_SET, Outcome.BROKEN, text)
    if not log.logs_everything:
        text = f"{history.instance_id} executes groups that it does not log, or may."
        return Check(_SET, Outcome.UNDECIDED, text)
    if extra - unlogged:
        text = (
            f"The GTID set has {_shown(extra - unlogged)}, neither logged up to {where} nor purged."
        )
        return Check(_SET, Outcome.BROKEN, text)
    return Check(_SET, Outcome.HOLDS, f"The GTID set is what was executed up to {where}.")


def _groups_after(history: History, log: BinaryLog, at: LogCoordinates) -> GtidSet:
    found = GtidSet.EMPTY
    for number in log.files:
        if number >= at.file_number:
            groups = history.groups(log, number)
            if number == at.file_number:
                groups = groups.chosen(groups.end > at.position)
            found = found | history.gtids(groups)
    return found


def _may_be_in_flight(
    history: History, log: BinaryLog, at: LogCoordinates, missing: GtidSet
) -> bool:
    """Whether what is missing may have been between the binary log and gtid_executed."""
    server = history.server
    groups = _before(history, log, at, server.commit_lag_max)
    last = history.gtids(groups)
    if not missing <= last:
        return False
    if not server.commits_are_ordered:
        return True
    is_missing = _are_in(history, groups, missing)
    return bool(is_missing[int(is_missing.argmax()) :].all())


def _before(history: History, log: BinaryLog, at: LogCoordinates, count: int) -> Groups:
    """The last groups that end at or before a position."""
    parts: list[Groups] = []
    number: int = at.file_number
    while number in log.files and sum(len(part.end) for part in parts) < count:
        up_to = at.position if number == at.file_number else None
        parts.insert(0, history.groups(log, number, up_to))
        number -= 1
    joined = type(parts[0])(*map(np.concatenate, zip(*parts, strict=True)))
    return joined.chosen(slice(max(0, len(joined.end) - count), None))


def _are_in(
    history: History, groups: Groups, gtids: GtidSet
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    found = np.zeros(len(groups.end), dtype=np.bool_)
    for number in np.unique(groups.sid[groups.sid >= 0]).tolist():
        which = groups.sid == number
        found[which] = gtids.contains_gnos(history.sids[number], groups.gno[which])
    return found


def _of_set_alone(history: History, gtids: GtidSet) -> Check:
    """Whether there was a moment at which this was what the server had executed."""
    log = history.newest
    numbers = [] if log is None else _whole_files(history, log)
    if log is None or not numbers:
        text = f"The journal of {history.instance_id} has no binary log without a gap."
        return Check(_SET, Outcome.UNDECIDED, text)
    first, last = numbers[0], numbers[-1]
    end = log.files[last].end
    logged = history.logged_at(log, last, end)
    unlogged = history.unlogged_at(log, last, end)
    at_first = history.logged_at(log, first, FIRST_POSITION)
    if logged is None or unlogged is None or at_first is None or log.assigned:
        text = (
            f"What {history.instance_id} had executed is not known at every moment: gtid_purged was"
            " not read, or was set meanwhile."
        )
        return Check(_SET, Outcome.UNDECIDED, text)
    if not log.logs_everything or log.after_gap & {*numbers} or log.after_start & {*numbers}:
        text = f"The journal does not show all that {history.instance_id} executed, in its order."
        return Check(_SET, Outcome.UNDECIDED, text)
    if not (at_first | unlogged) <= gtids:
        text = (
            f"The GTID set lacks {_shown((at_first | unlogged) - gtids)}, which was executed before"
            " the journal begins: it is older, or wrong."
        )
        return Check(_SET, Outcome.UNDECIDED, text)
    extra = gtids - logged - unlogged
    groups = [history.groups(log, number) for number in numbers]
    joined = type(groups[0])(*map(np.concatenate, zip(*groups, strict=True)))
    joined = joined.chosen(joined.sid >= 0)
    has = _are_in(history, joined, gtids)
    count = int(has.sum())
    if extra:
        text = f"The GTID set has {_shown(extra)}, which the journal does not have"
        if has.all():
            return Check(_SET, Outcome.UNDECIDED, f"{text}: it is newer, or wrong.")
        missing = history.gtids(joined.chosen(~has))
        return Check(_SET, Outcome.UNDECIDED, f"{text}, and lacks {_shown(missing)}, which it has.")
    if has[:count].all():
        where = "the beginning of the journal"
        if count:
            number, position = int(joined.file_number[count - 1]), int(joined.end[count - 1])
            assert log.base_name is not None
            where = str(LogCoordinates(log.base_name, number, position))
        return Check(_SET, Outcome.HOLDS, f"The GTID set is what was executed up to {where}.")
    left_out = history.gtids(joined.chosen(np.flatnonzero(~has)[:1]))
    text = f"The GTID set lacks {left_out}, and has what was logged after it."
    is_ordered = history.server.commits_are_ordered
    return Check(_SET, Outcome.BROKEN if is_ordered else Outcome.UNDECIDED, text)


def _whole_files(history: History, log: BinaryLog) -> list[int]:
    """The newest files that follow each other without a gap."""
    numbers: list[int] = []
    for number in sorted(log.files, reverse=True):
        if numbers and numbers[0] != log.files[number].following:
            break
        if history.logged_at(log, number, log.files[number].end) is None:
            break
        numbers.insert(0, number)
    return numbers


def _shown(gtids: GtidSet) -> str:
    text = str(gtids)
    return text if len(text) <= _SHOWN_GTIDS else f"{gtids.count()} GTIDs, {text[:_SHOWN_GTIDS]}…"


# Replica positions


def _of_replica(
    found: ReplicaPosition, backup: Backup, history: History, histories: Mapping[str, History]
) -> Iterator[Check]:
    at = found.position
    if at is None:
        return
    name = "replica_position_ends_a_group"
    channel = history.channels.get(found.channel.lower())
    of = f"channel {found.channel!r} of {history.instance_id}"
    uuids = frozenset[str]() if channel is None else channel.source_uuids
    sources = [one for one in histories.values() if one.server_uuids & uuids]
    if channel is None or len(uuids) != 1 or len(sources) != 1:
        text = (
            f"The source of {of} is not known: the journal shows no one server of which it is."
            if len(uuids) != 1
            else f"The journal has nothing of the source of {of}, {next(iter(uuids))}."
        )
        yield Check(name, Outcome.UNDECIDED, text)
        return
    source = sources[0]
    logs = list(logs_with(source, at.base_name, at.file_number))
    if not logs:
        yield Check(name, Outcome.UNDECIDED, _not_covered(source, at))
        return
    boundary = _boundary(name, source, logs[-1], at)
    if boundary.outcome is Outcome.BROKEN and (len(logs) > 1 or channel.ignores_servers):
        why = "ignores events one by one" if channel.ignores_servers else "began at another log"
        text = f"{boundary.sentence[:-1]}; it may be that {of} {why}."
        boundary = Check(name, Outcome.UNDECIDED, text)
    elif boundary.outcome is Outcome.HOLDS and logs[-1].is_ended:
        text = f"The binary log of {source.instance_id} has begun anew since {at}."
        boundary = Check(name, Outcome.UNDECIDED, text)
    yield boundary
    if boundary.outcome is Outcome.HOLDS and backup.gtids is not None:
        yield _of_passed(at, backup.gtids, channel, source, logs[-1])


def _of_passed(
    at: LogCoordinates,
    gtids: GtidSet,
    channel: Channel,
    source: History,
    log: BinaryLog,
) -> Check:
    """Whether the set has what the source logged before the replica's position."""
    name = "set_has_what_replica_passed"
    logged = source.logged_at(log, at.file_number, at.position)
    of = f"the binary log of {source.instance_id}"
    if logged is None:
        return Check(name, Outcome.UNDECIDED, f"What {of} held up to {at} is not known.")
    if logged <= gtids:
        return Check(name, Outcome.HOLDS, f"The GTID set has all that {of} held up to {at}.")
    text = f"The GTID set lacks {_shown(logged - gtids)}, which {of} held up to {at}"
    if channel.auto_position and not channel.ignores_servers:
        return Check(name, Outcome.BROKEN, f"{text}.")
    text += "; the replica may have left it out, as it replicates by position or filters."
    return Check(name, Outcome.UNDECIDED, text)


# The redo log


def _redo_order(redo: RedoRange | None) -> Iterator[Check]:
    if redo is None:
        return
    values = [("from_lsn", redo.from_lsn), ("to_lsn", redo.to_lsn), ("last_lsn", redo.last_lsn)]
    known = [(name, value) for name, value in values if value is not None]
    for (name, value), (after, limit) in pairwise(known):
        if value > limit:
            text = f"{name} {value} is above {after} {limit}."
            yield Check("lsns_ascend", Outcome.BROKEN, text)
            return
    yield Check("lsns_ascend", Outcome.HOLDS, "The LSNs of the backup ascend.")


def _of_lsn(
    redo: RedoRange, history: History, log: BinaryLog, at: LogCoordinates
) -> Iterable[Check]:
    """Whether the redo that was copied reaches the position, and was there by the journal's end."""
    name = "redo_reaches_position"
    last = redo.to_lsn if redo.last_lsn is None else redo.last_lsn
    if last is None:
        return
    before, after = history.lsns_at(log, at.file_number, at.position)
    if before is not None and before.lsn is not None and last < before.lsn:
        text = (
            f"The redo that was copied ends at {last}; before {at} the redo log was at"
            f" {before.lsn} already."
        )
        yield Check(name, Outcome.BROKEN, text)
        return
    reached = next((row for row in after if row.lsn is not None and row.lsn >= last), None)
    if before is None or reached is None:
        side = "before" if before is None else "that reaches it after"
        text = f"The LSN {last} cannot be compared: the journal has no row {side} {at}."
        yield Check(name, Outcome.UNDECIDED, text)
        return
    assert log.base_name is not None
    where = LogCoordinates(log.base_name, reached.file_number, reached.position)
    text = (
        f"The redo that was copied ends at {last}, between {before.lsn}, reached before {at}, and"
        f" {reached.lsn}, reached by {where}."
    )
    yield Check(name, Outcome.HOLDS, text)
