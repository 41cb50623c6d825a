"""Does a relay log mirror its source's binary log, and does a clone go on where it was made?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tallystick.coordinates.audit.comparison import Problem, Undecided, Waiting, brief
from tallystick.coordinates.audit.timeline_file import PlaceKind
from tallystick.coordinates.rules.comparing.judges import NOT_REACHED, place_of
from tallystick.coordinates.rules.fleet import (
    CLONE_COORDINATES_EQUAL_DONOR,
    CLONE_RESUME_EXACT,
    RELAY_MIRRORS_SOURCE,
)
from tallystick.coordinates.values.binlog import format_log_file_name, parse_log_file_name
from tallystick.coordinates.values.errors import CoordinateError
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from tallystick.coordinates.audit.comparison import (
        Answer,
        Case,
        CloneMade,
        GroupsQueued,
        Memory,
        QueuedRun,
    )
    from tallystick.coordinates.audit.instance_timeline import InstanceTimeline
    from tallystick.coordinates.audit.timeline_file import BinlogFile
    from tallystick.coordinates.audit.timeline_snapshot import Snapshot

    Mask = npt.NDArray[np.bool_]
    IntArray = npt.NDArray[np.int64]

Where = tuple[int, int]


def judge_mirror(queued: GroupsQueued, case: Case) -> Answer:
    """Rule 19: the groups of a channel are groups of the source, in its order, all of them."""
    source, memory = case.source, case.memory
    state = next(source.states.since(queued.place.ts), None)
    if state is None:
        return Waiting(NOT_REACHED)
    if memory.lineage != state.lineage:
        memory.lineage, memory.last, memory.high = state.lineage, None, None
    upstreams = case.fleet.upstreams([source], queued.place.ts)
    own = queued.server_uuid
    is_ring = own is not None and any(u.uuid_at(queued.place.ts) == own for u in upstreams)
    mirror = _Mirror(queued, source, state, memory, is_ring=is_ring)
    for run in queued.runs:
        mirror.follow(run)
    problems = mirror.problems()
    if mirror.reason is not None and not problems:
        return Undecided(mirror.reason)
    return problems


class _Mirror:
    """One walk along what a channel has queued."""

    def __init__(
        self,
        queued: GroupsQueued,
        source: InstanceTimeline,
        state: Snapshot,
        memory: Memory,
        *,
        is_ring: bool,
    ) -> None:
        self.queued = queued
        self.is_ring = is_ring
        self.source = source
        self.state = state
        self.memory = memory
        self.reason: str | None = None
        self.foreign: tuple[str, str] | None = None
        self.repeated: tuple[str, str] | None = None
        self.omitted = GtidSet.EMPTY
        self.omitted_at: str | None = None
        self.omitted_anonymous = False

    def follow(self, run: QueuedRun) -> None:
        """The next groups from one file."""
        memory = self.memory
        if run.connects or run.begins:
            memory.last = None
        if run.begins:
            memory.high = None
        file = self._file_of(run)
        if file is None:
            memory.last = memory.high = None
            return
        indices, is_known = self._match(run, file)
        if not is_known:
            memory.high = None
        if len(indices):
            self._follow_order(run.file_number, file, indices)
        if not is_known:
            memory.high = None

    def _file(self, number: int) -> tuple[BinlogFile | None, int]:
        """The source's file, with what a crash took back while the groups were queued."""
        return self.source.file_at(self.state, number, self.queued.since_ts)

    def _file_of(self, run: QueuedRun) -> BinlogFile | None:
        if run.base_name is None or not len(run.ends):
            self.reason = "the source file of queued groups is not known"
            return None
        if run.base_name != self.state.base_name:
            self.reason = f"the source has no binary log called {run.base_name} at that time"
            return None
        file, _ = self._file(run.file_number)
        if file is None:
            name = format_log_file_name(run.base_name, run.file_number)
            self.reason = f"{name} of the source was not observed or is not remembered"
        return file

    def _match(self, run: QueuedRun, file: BinlogFile) -> tuple[IntArray, bool]:
        """Index in the source's file of each group that is there; whether nothing stays open."""
        ends, groups = file.group_ends(), file.groups()
        limit = self._limit(run.file_number, file)
        table = np.array([*(self.source.sid_number(sid) for sid in run.sids), -1], dtype=np.int32)
        at = np.searchsorted(ends, run.ends)
        is_there = (at < len(ends)) & (run.ends <= limit)
        at = np.where(is_there, at, 0)
        if len(ends):
            is_there &= ends[at] == run.ends
            is_there &= (groups.sid[at] == table[run.sid]) & (groups.gno[at] == run.gno)
        if is_there.all():
            return at, True
        is_open = ~is_there & ~self._is_decidable(run, file, limit)
        if is_open.any():
            self.reason = "the source's groups around queued ones were not observed"
        wrong = np.flatnonzero(~is_there & ~is_open)
        if len(wrong) and self.foreign is None:
            name = _group_name(run, int(wrong[0]))
            self.foreign = f"{self._file_name(run.file_number)}:{run.ends[wrong[0]]}", name
        return at[is_there], not is_open.any()

    def _limit(self, number: int, file: BinlogFile) -> int:
        """How far the file reached, when it was longest while the groups were queued."""
        if number != self.state.file_number:
            return file.end
        left, _ = self.source.file_at(self.state, number)
        has_lost = left is None or left.end < file.end
        return file.end if has_lost else self.state.end

    def _is_decidable(self, run: QueuedRun, file: BinlogFile, limit: int) -> Mask:
        """Where the source's file is known so well that a group not found there is not there."""
        known = (run.ends >= 0) & (file.knows_groups(run.ends) | (run.ends > limit))
        if not self.state.is_complete:
            known &= run.ends <= limit
        began = self.state.lineage_ts
        if began is not None and began >= self.queued.since_ts:
            known[:] = False
        return known

    def _follow_order(self, number: int, file: BinlogFile, indices: IntArray) -> None:
        memory = self.memory
        ends = file.group_ends()
        floor = -1
        if memory.last is not None:
            if memory.last[0] > number:
                floor = len(ends)
            elif memory.last[0] == number:
                floor = int(np.searchsorted(ends, memory.last[1], side="right")) - 1
        highest = np.maximum.accumulate(np.concatenate(([floor], indices)))
        falls = indices <= highest[:-1]
        if falls.any():
            if self.repeated is None:
                self._note_repeat(number, file, int(indices[np.argmax(falls)]))
            indices = indices[~falls]
            if not len(indices):
                return
        last = number, int(ends[indices[-1]])
        memory.last = last
        if memory.high is not None and last <= memory.high:
            return
        self._find_omitted(number, file, indices)
        memory.high = last

    def _find_omitted(self, number: int, file: BinlogFile, indices: IntArray) -> None:
        """The source's groups between those queued, beyond the highest one queued before."""
        high = self.memory.high
        ends = file.group_ends()
        before = int(indices[0])
        if high is not None:
            before = -1
            if high[0] == number:
                before = int(np.searchsorted(ends, high[1], side="right")) - 1
            elif high[0] < number:
                self._omit_between(high, number)
        present = np.zeros(int(indices[-1]) + 1, dtype=np.bool_)
        present[indices] = True
        present[: before + 1] = True
        absent = np.flatnonzero(~present)
        self._omit(number, file, absent)

    def _omit_between(self, high: Where, number: int) -> None:
        """Whatever the source logged behind `high` in files before `number`."""
        for between in range(high[0], number):
            file, _ = self._file(between)
            if file is None or file.is_doubtful:
                self.reason = "a file of the source between queued groups is not remembered"
                continue
            ends = file.group_ends()
            first = 0
            if between == high[0]:
                first = int(np.searchsorted(ends, high[1], side="right"))
            self._omit(between, file, np.arange(first, len(ends)))

    def _omit(self, number: int, file: BinlogFile, absent: IntArray) -> None:
        if not len(absent) or self.queued.is_filtered:
            return
        groups = file.groups()
        # What the source lost it cannot send any more.
        absent = absent[absent < self._file(number)[1]]
        named = absent[groups.sid[absent] >= 0]
        gtids = GtidSet.from_groups(self.source.sids, groups.sid[named], groups.gno[named])
        for part in self.queued.executed:
            gtids = gtids - part
        if self.queued.server_uuid is not None:
            # Its own come back to it in a ring, maybe before they are executed: it ignores them.
            gtids = gtids.without_uuid(self.queued.server_uuid)
        anonymous = len(named) < len(absent) and not self.is_ring
        if not gtids and not anonymous:
            return
        self.omitted = self.omitted | gtids
        self.omitted_anonymous |= anonymous
        if self.omitted_at is None:
            self.omitted_at = f"{self._file_name(number)}:{file.group_ends()[absent[0]]}"

    def _note_repeat(self, number: int, file: BinlogFile, index: int) -> None:
        groups = file.groups()
        sid = int(groups.sid[index])
        name = f"{self.source.sids[sid]}:{groups.gno[index]}" if sid >= 0 else "an anonymous group"
        self.repeated = f"{self._file_name(number)}:{file.group_ends()[index]}", name

    def _file_name(self, number: int) -> str:
        return format_log_file_name(self.state.base_name or "?", number)

    def problems(self) -> list[Problem]:
        """What the walk has found."""
        source = self.source.instance_id
        found = []
        if self.foreign is not None:
            at, name = self.foreign
            found.append(
                self._problem(
                    at=f"{at} {name}",
                    sentence=f"The relay log holds {name} as the group that ends at {at} of"
                    f" instance {source}, where the source has no such group.",
                    observed=f"{name} up to {at}",
                    expected="a group of the source that ends there, with that GTID",
                    witness=name,
                )
            )
        if self.repeated is not None:
            at, name = self.repeated
            found.append(
                self._problem(
                    at=f"{at} again",
                    sentence=f"The relay log holds {name}, which ends at {at} of instance"
                    f" {source}, behind later groups, although the receiver did not connect anew.",
                    observed=f"{name} up to {at}",
                    expected="groups in the order of the source's file",
                    witness=name,
                )
            )
        if self.omitted_at is not None:
            found += self._omission()
        return found

    def _omission(self) -> list[Problem]:
        if not self.queued.is_row:
            self.reason = "no log_status row tells whether omitted groups have been executed"
            return []
        fresh = self.omitted - self.memory.reported
        if not fresh and not self.omitted_anonymous:
            return []
        self.memory.reported = self.memory.reported | fresh
        what = brief(fresh, 3) if fresh else "an anonymous group"
        return [
            self._problem(
                at=f"{self.omitted_at} omitted",
                sentence=f"The relay log goes on behind {self.omitted_at} of instance"
                f" {self.source.instance_id} without {what}, which the replica has not executed.",
                observed=f"no {what}",
                expected="every group that the replica has not executed",
                witness=brief(fresh) if fresh else str(self.omitted_at),
            )
        ]

    def _problem(
        self, *, at: str, sentence: str, observed: str, expected: str, witness: str
    ) -> Problem:
        return Problem(
            RELAY_MIRRORS_SOURCE,
            at=at,
            sentence=sentence,
            observed=observed,
            observed_in="relay log of the channel",
            expected=expected,
            expected_in=f"binary log of instance {self.source.instance_id}",
            witness=witness,
        )


def _group_name(run: QueuedRun, index: int) -> str:
    sid = int(run.sid[index])
    return "an anonymous group" if sid < 0 else f"{run.sids[sid]}:{run.gno[index]}"


def judge_clone_coordinates(clone: CloneMade, case: Case) -> Answer:
    """Rule 60: a clone's coordinates and its GTID set are one state of the donor."""
    donor = case.source
    found = _donor_file(clone, donor)
    if not isinstance(found, tuple):
        return found
    state, file = found
    name, position = clone.coordinates
    at = f"{name}:{position}"
    kind = place_of(donor, state, clone.coordinates, since=clone.clone_ts)
    if isinstance(kind, str):
        return Undecided(kind)
    text = f"{at}, {brief(clone.executed)}"
    if kind not in (PlaceKind.GROUP_END, PlaceKind.OUTSIDE):
        what = f"that position is {kind.value}"
        return [
            _clone_problem(donor, at, what, observed=text, expected="a group's end", witness=at)
        ]
    if file.previous is None or file.observed_from > 4:
        return Undecided(f"{name} of the donor was not observed from its beginning")
    groups, ends = file.groups(), file.group_ends()
    named = groups.sid >= 0
    before = named & (ends <= position)
    logged = file.previous | GtidSet.from_groups(donor.sids, groups.sid[before], groups.gno[before])
    missing = logged - clone.executed
    extra = clone.executed - logged
    if extra:
        extra = extra - (donor.beyond - _logged_from(donor, state.lineage, file.file_number))
    if not missing and not extra:
        return []
    wrong = brief(missing or extra)
    what = f"the set lacks {wrong}" if missing else f"the set holds {wrong} from behind it"
    expected = f"{at}, {brief(logged)}"
    return [_clone_problem(donor, at, what, observed=text, expected=expected, witness=wrong)]


def _clone_problem(
    donor: InstanceTimeline, at: str, what: str, *, observed: str, expected: str, witness: str
) -> Problem:
    return Problem(
        CLONE_COORDINATES_EQUAL_DONOR,
        at=at,
        sentence=f"The clone of instance {donor.instance_id} is said to be of {at}, but {what}.",
        observed=observed,
        observed_in="clone_status of the recipient",
        expected=expected,
        expected_in=f"binary log of instance {donor.instance_id}",
        witness=witness,
    )


def _logged_from(donor: InstanceTimeline, lineage: int, number: int) -> GtidSet:
    """The groups that the donor logged in a file and those behind it."""
    found = GtidSet.EMPTY
    for (of_lineage, of_number), file in donor.files.items():
        if of_lineage == lineage and of_number >= number:
            groups = file.groups()
            named = groups.sid >= 0
            found = found | GtidSet.from_groups(donor.sids, groups.sid[named], groups.gno[named])
    return found


def _donor_file(
    clone: CloneMade, donor: InstanceTimeline
) -> tuple[Snapshot, BinlogFile] | Waiting | Undecided:
    """The donor as it stood, and the file that the clone names."""
    state = next(donor.states.since(clone.place.ts), None)
    if state is None:
        return Waiting(NOT_REACHED)
    if state.lineage_ts is not None and clone.clone_ts <= state.lineage_ts:
        return Undecided("the donor has begun a new binary log since the clone")
    try:
        _, number = parse_log_file_name(clone.coordinates[0])
    except CoordinateError:
        return Undecided(f"{clone.coordinates[0]!r} is no binary log file")
    file, _ = donor.file_at(state, number)
    if file is None:
        return Undecided(f"{clone.coordinates[0]} of the donor is not remembered")
    return state, file


def judge_clone_resume(clone: CloneMade, case: Case) -> Answer:
    """Rule 61: a clone receives first what is first behind its position and not in it."""
    donor = case.source
    if clone.first_queued is None or any(source is not donor for source in case.sources):
        return []
    found = _donor_file(clone, donor)
    if not isinstance(found, tuple):
        return found
    state, file = found
    _, number, end, gtid = clone.first_queued
    name, position = clone.coordinates
    for where, expected in groups_behind(donor, state, file.file_number, position):
        if expected is None:
            return Undecided("the donor's groups behind the clone's position are not all known")
        if expected and expected in clone.executed:
            continue
        if (where, expected) == ((number, end), gtid):
            return []
        got = gtid or "an anonymous group"
        return [
            Problem(
                CLONE_RESUME_EXACT,
                at=f"{name}:{position}",
                sentence=f"The clone of {name}:{position} received {got} first, but behind that"
                f" position instance {donor.instance_id} has {expected or 'an anonymous group'}.",
                observed=got,
                observed_in="first group in the relay log after the clone",
                expected=expected or "an anonymous group",
                expected_in=f"binary log of instance {donor.instance_id} behind {name}:{position}",
                witness=expected or f"{name}:{position}",
            )
        ]
    return Undecided("the donor's first group behind the clone's position is not known")


def groups_behind(
    donor: InstanceTimeline, state: Snapshot, number: int, position: int
) -> Iterator[tuple[Where, str | None]]:
    """The donor's groups behind a place, in order; None where they are not known."""
    for following in range(number, state.file_number + 1):
        file, _ = donor.file_at(state, following)
        if file is None or file.is_doubtful or file.observed_from > max(position, 4):
            yield (following, -1), None
            return
        groups, ends = file.groups(), file.group_ends()
        for index in range(int(np.searchsorted(ends, position, side="right")), len(ends)):
            sid = int(groups.sid[index])
            gtid = f"{donor.sids[sid]}:{groups.gno[index]}" if sid >= 0 else ""
            yield (following, int(ends[index])), gtid
        position = 0
