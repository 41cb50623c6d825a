"""Does a relay log mirror its source's binary log?"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tallystick.coordinates.audit.comparison import GroupsQueued
from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.between import (
    ANONYMOUS,
    LOG_UNKNOWN_THEN,
    NOT_REACHED,
    Against,
    Compared,
    between,
    forgotten,
)
from tallystick.coordinates.rules.families import Family, Lack
from tallystick.coordinates.rules.outcomes import HOLDS, Broken, Undecided, Waiting
from tallystick.coordinates.rules.registry import Case, reason
from tallystick.coordinates.rules.statements import file_until, not_executed
from tallystick.coordinates.values.binlog import WRAP, format_log_file_name
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    import numpy.typing as npt

    from tallystick.coordinates.audit.comparison import QueuedRun
    from tallystick.coordinates.audit.instance_timeline import InstanceTimeline
    from tallystick.coordinates.audit.packed_events import GroupColumns
    from tallystick.coordinates.audit.timeline_file import BinlogFile
    from tallystick.coordinates.audit.timeline_snapshot import Snapshot
    from tallystick.coordinates.rules.between import Memory

    Mask = npt.NDArray[np.bool_]
    IntArray = npt.NDArray[np.int64]

QUEUED_FILE_UNKNOWN = reason(
    "queued_file_unknown", "the source file of queued groups is not known", Lack.RELAY_LOG
)
QUEUED_FILE_OF_OTHER_LOG = reason(
    "queued_file_of_other_log",
    "the source has no binary log called {base_name} at that time",
    Lack.LINEAGE,
)
QUEUED_FILE_FORGOTTEN = reason(
    "queued_file_forgotten",
    "{file} of the source was not observed or is not remembered",
    Lack.MEMORY,
)
QUEUED_GROUPS_UNSEEN = reason(
    "queued_groups_unseen",
    "the source's groups around queued ones were not observed",
    Lack.BINARY_LOG,
)
QUEUED_BETWEEN_SOURCES = reason(
    "queued_between_sources",
    "groups were queued before the row that shows another source, and which of the two has sent"
    " them is not known",
    Lack.NEXT_ROW,
)
QUEUED_FROM_ANOTHER = reason(
    "queued_from_another",
    "groups were queued from a server of server_id {server_id}, and the channel's source is"
    " another one: it was changed while the relay log went on",
    Lack.SERVER,
)
FILE_BETWEEN_FORGOTTEN = reason(
    "file_between_forgotten",
    "a file of the source between queued groups is not remembered",
    Lack.MEMORY,
)
OMITTED_MAY_BE_EXECUTED = reason(
    "omitted_may_be_executed",
    "no log_status row shows whether omitted groups have been executed",
    Lack.NEXT_ROW,
)

Where = tuple[int, int]
"""Source file number and position."""

_RELAY_LOG = "relay log of the channel"
_BINARY_LOG = "binary log of instance {source}"
_OMITTED = (_RELAY_LOG, "every group that the replica has not executed", _BINARY_LOG)


@between(
    GroupsQueued,
    number=19,
    tier=1,
    family=Family.LOST_BY_RECEIVER,
    severity=Severity.CRITICAL,
    heals="data",
    claim=(
        "The groups that a receiver queues from one file of its source are groups of that file,"
        " in the file's order; a group that it leaves out between two connects, or before the"
        " first one when it begins anew, or its server starts, by auto-positioning, was executed"
        " before by the replica, is in a relay log that is still there, is filtered, or is the"
        " replica's own."
    ),
    why=(
        "The dump thread sends a binary log in its own order and skips only groups that the"
        " replica named in its GTID set when it connected; the receiver copies what it gets and"
        " drops only events of ignored server ids, and of its own, which come back in a ring"
        " maybe before they are executed. What was received is asked for again where the relay"
        " log is given up, or a crash took it. A skipped group that the replica never"
        " executed is lost; one queued again without a new connection is executed twice where"
        " GTIDs do not stop it."
    ),
    undecided_when=(
        "the source is not observed, or another server has sent the groups, as before the receiver"
        " alone was pointed elsewhere; its journal has a gap or has not reached the groups in"
        " question, or begins, or goes on after a gap or with another log, after they were queued,"
        " its events of that file are no longer remembered, relay events have no log_pos,"
        " or the file has more than 4 GiB, modulo which a relay log names positions"
    ),
    sources=(
        "WL#9452, F-3",
        "MySQL manual: Replication Source Connection with GTID Auto-Positioning",
        "Flink CDC issue FLINK-37065",
    ),
    remedy=(
        "Stop the applier before it passes the group that differs, compare the relay log with"
        " the source's binary log around the named position, and fetch the relay log anew"
        " (RESET REPLICA with auto-positioning) or rebuild the replica."
    ),
    verify=(file_until("file", "position", "{source}"), not_executed("gtids")),
    cases={
        "foreign": Case(
            "The relay log holds {gtid:group} as the group that ends at {file}:{position} of"
            " instance {source}, where the source has no such group.",
            "{gtid:group} up to {file}:{position}",
            _RELAY_LOG,
            "a group of the source that ends there, with that GTID",
            _BINARY_LOG,
        ),
        "repeated": Case(
            "The relay log holds {gtid:group}, which ends at {file}:{position} of instance"
            " {source}, after later groups, although the receiver did not connect anew.",
            "{gtid:group} up to {file}:{position}",
            _RELAY_LOG,
            "groups in the order of the source's file",
            _BINARY_LOG,
        ),
        "omitted": Case(
            "The relay log goes on after {file}:{position} of instance {source} without"
            " {gtids:gtids}, which the replica has not executed.",
            "no {gtids:gtids}",
            *_OMITTED,
            heals="executed",
        ),
        "omitted_anonymous": Case(
            "The relay log goes on after {file}:{position} of instance {source} without an"
            " anonymous group, which the replica has not executed.",
            "no anonymous group",
            *_OMITTED,
        ),
    },
)
def relay_mirrors_source(queued: GroupsQueued, against: Against) -> Compared:
    """The groups of a channel are groups of the source, in its order, all of them."""
    source, memory = against.source, against.memory
    state = source.states.first_since(queued.at.ts)
    if state is None:
        return Waiting(NOT_REACHED)
    if memory.lineage != state.lineage:
        memory = replace(memory, lineage=state.lineage, last=None, high=None)
    mirror = _Mirror(queued, against, state, memory)
    for run in queued.runs:
        mirror.follow(run)
    found = mirror.found()
    answer = found or mirror.undecided or HOLDS
    return against.remember(
        answer,
        reported=mirror.reported,
        lineage=memory.lineage,
        last=mirror.last,
        high=mirror.high,
    )


class _Mirror:
    """One walk along what a channel has queued."""

    def __init__(
        self, queued: GroupsQueued, against: Against, state: Snapshot, memory: Memory
    ) -> None:
        self.queued = queued
        self.fleet = against.fleet
        self.source = against.source
        self.state = state
        self.reported = memory.reported
        self.last = memory.last
        self.high = memory.high
        self.undecided: Undecided | None = None
        self.foreign: tuple[Where, str] | None = None
        self.repeated: tuple[Where, str] | None = None
        self.omitted = GtidSet.EMPTY
        self.omitted_at: Where | None = None
        self.omitted_anonymous = False
        self.asks_anew = False
        self.unproven = GtidSet.EMPTY
        self.has_unmatched = False

    def follow(self, run: QueuedRun) -> None:
        """The next groups from one file."""
        if run.connects or run.begins:
            self.last = None
        if run.begins:
            self.high = None
        if run.begins or run.asks_anew:
            self.asks_anew = run.asks_anew
        self.unproven = run.unproven
        if self._is_of_another(run):
            self.last = self.high = None
            self.asks_anew = False
            return
        doubtful = run.count_until(self.state.log_since_ts + self.queued.earlier_us)
        if doubtful:
            # Of the log that they were queued from nothing may be known: they are held against
            # this one only in so far as they are in it.
            self._doubt(run.part(0, doubtful))
            if doubtful >= len(run.ends):
                return
            run = run.part(doubtful, len(run.ends))
        file = self._file_of(run)
        if file is None:
            self.last = self.high = None
            return
        indices, is_known = self._match(run, file)
        if not is_known:
            self.high = None
        self.has_unmatched = not is_known
        if len(indices):
            self._follow_order(run.file_number, file, indices)
        if not is_known:
            self.high = None

    def _is_of_another(self, run: QueuedRun) -> bool:
        """Whether groups are not of this source; undecided if they are compared with no other."""
        if run.between:
            sender = self._sender_of(run)
            if sender is None:
                self.undecided = Undecided(QUEUED_BETWEEN_SOURCES)
            return sender is not self.source
        known = self.source.server_ids
        if run.sender is None or not known or run.sender in known:
            return False
        self.undecided = Undecided(QUEUED_FROM_ANOTHER, server_id=run.sender)
        return True

    def _sender_of(self, run: QueuedRun) -> InstanceTimeline | None:
        """Which of the sources that a channel had has sent groups, None not known."""
        ts = self.queued.at.ts
        each = [self.fleet.find(key, ts) for key in run.between]
        sources = {one.instance_id: one for found in each for one in found}
        senders = [one for one in sources.values() if run.sender in one.server_ids]
        is_known = all(len(found) == 1 and found[0].server_ids for found in each)
        return senders[0] if is_known and len(senders) == 1 else None

    def _doubt(self, run: QueuedRun) -> None:
        """Groups that may have been queued before the source's present log is known.

        Where all of them are in this log, by their GTIDs, what follows must go on after them.
        """
        file = self._file_of(run)
        self.last = self.high = None
        self.asks_anew = False
        if file is None:
            return
        indices, is_known = self._match(run, file, is_doubtful=True)
        self.has_unmatched = not is_known
        if is_known and (run.sid >= 0).all():
            self.high = run.file_number, int(run.ends.max())
            first = int(indices.min())
            present = np.zeros(int(indices.max()) + 1 - first, dtype=np.bool_)
            present[indices - first] = True
            if self._missing(run.file_number, file, first + np.flatnonzero(~present))[0]:
                self.undecided = Undecided(LOG_UNKNOWN_THEN)

    def _file(self, number: int) -> tuple[BinlogFile | None, int]:
        """The source's file, with what a crash took back while the groups were queued."""
        return self.source.file_at(self.state, number, self.queued.since_ts)

    def _file_of(self, run: QueuedRun) -> BinlogFile | None:
        if run.base_name is None or not len(run.ends):
            self.undecided = Undecided(QUEUED_FILE_UNKNOWN)
            return None
        if run.base_name != self.state.base_name:
            self.undecided = Undecided(QUEUED_FILE_OF_OTHER_LOG, base_name=run.base_name)
            return None
        file, _ = self._file(run.file_number)
        if file is None:
            name = format_log_file_name(run.base_name, run.file_number)
            where = run.file_number, int(run.ends[0])
            self.undecided = self._forgotten(where, Undecided(QUEUED_FILE_FORGOTTEN, file=name))
        return file

    def _forgotten(self, where: Where, otherwise: Undecided) -> Undecided:
        return forgotten(self.source, self.state, where, otherwise)

    def _match(
        self, run: QueuedRun, file: BinlogFile, *, is_doubtful: bool = False
    ) -> tuple[IntArray, bool]:
        """Index in the source's file of each group that is there; whether nothing stays open."""
        limit = self._limit(run.file_number, file)
        sid = self.source.sid_column(run.sids, run.sid)
        at = file.find_groups(run.ends)
        is_there = (at < file.group_count) & (run.ends <= limit)
        groups, which = file.groups_at(at[is_there]), is_there.copy()
        is_there[which] = (
            (groups.end == run.ends[which])
            & (groups.sid == sid[which])
            & (groups.gno == run.gno[which])
        )
        if is_there.all():
            return at, True
        is_open = ~is_there
        if is_doubtful:
            self.undecided = Undecided(LOG_UNKNOWN_THEN)
        else:
            is_open &= ~self._is_decidable(run, file, limit)
            if is_open.any():
                where = run.file_number, int(run.ends[is_open][0])
                self.undecided = self._forgotten(where, Undecided(QUEUED_GROUPS_UNSEEN))
        wrong = np.flatnonzero(~is_there & ~is_open)
        if len(wrong) and self.foreign is None:
            index = int(wrong[0])
            self.foreign = (run.file_number, int(run.ends[index])), _gtid(run, index)
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
        # A relay log names positions modulo 2^32: elsewhere in the file the group may be there.
        known &= file.end < WRAP
        if not self.state.is_complete:
            known &= run.ends <= limit
        return known

    def _follow_order(self, number: int, file: BinlogFile, indices: IntArray) -> None:
        floor = -1
        if self.last is not None:
            if self.last[0] > number:
                floor = file.group_count
            elif self.last[0] == number:
                floor = file.count_groups(self.last[1], "right") - 1
        highest = np.maximum.accumulate(np.concatenate(([floor], indices)))
        falls = indices <= highest[:-1]
        if falls.any():
            if self.repeated is None:
                self._note_repeat(number, file, int(indices[np.argmax(falls)]))
            indices = indices[~falls]
            if not len(indices):
                return
        last = number, int(file.groups_at(indices[-1:]).end[0])
        self.last = last
        if self.asks_anew:
            self._omit_before_first(number, file, indices)
        if self.high is not None and last <= self.high:
            return
        self._find_omitted(number, file, indices)
        self.high = last

    def _find_omitted(self, number: int, file: BinlogFile, indices: IntArray) -> None:
        """The source's groups between those queued, beyond the highest one queued before."""
        high = self.high
        before = int(indices[0])
        if high is not None:
            before = -1
            if high[0] == number:
                before = file.count_groups(high[1], "right") - 1
            elif high[0] < number:
                self._omit_between(high, number)
        first = before + 1
        present = np.zeros(max(int(indices[-1]) + 1 - first, 0), dtype=np.bool_)
        present[indices[indices >= first] - first] = True
        self._omit(number, file, first + np.flatnonzero(~present))

    def _omit_before_first(self, number: int, file: BinlogFile, indices: IntArray) -> None:
        """What came before the first group since the source was asked for all that is missing."""
        self.asks_anew = False
        self._omit_before(number, file, int(indices[0]))
        (end,) = file.groups_at(indices[:1]).end
        if self.high is not None and (number, int(end)) <= self.high:
            self.high = None  # what is sent again is looked at again, too

    def _omit_before(self, number: int, file: BinlogFile, first: int) -> None:
        """Whatever the source logged before the first group that a channel received of it anew.

        Anonymous groups there are no omission: auto-positioning does not send them.
        """
        lineage = self.state.lineage
        remembered = sorted(n for of, n in self.source.files if of == lineage and n < number)
        for earlier in remembered:
            known, _ = self._file(earlier)
            if known is not None:
                self._omit(earlier, known, np.arange(known.group_count), named_only=True)
        self._omit(number, file, np.arange(first), named_only=True)

    def _omit_between(self, high: Where, number: int) -> None:
        """Whatever the source logged after `high` in files before `number`."""
        number_between = high[0]
        while number_between < number:
            file, _ = self._file(number_between)
            if file is None or file.is_doubtful:
                unknown = Undecided(FILE_BETWEEN_FORGOTTEN)
                self.undecided = self._forgotten((number_between, 0), unknown)
            else:
                first = 0
                if number_between == high[0]:
                    first = file.count_groups(high[1], "right")
                self._omit(number_between, file, np.arange(first, file.group_count))
            number_between = number_between + 1 if file is None else file.following

    def _omit(
        self, number: int, file: BinlogFile, absent: IntArray, *, named_only: bool = False
    ) -> None:
        if not len(absent):
            return
        gtids, groups = self._missing(number, file, absent)
        named = groups.sid >= 0
        # An anonymous group that is not there may be one whose position is not known.
        anonymous = not (named_only or named.all() or self.has_unmatched or self._is_ring())
        if not gtids and not anonymous:
            return
        self.omitted = self.omitted | gtids
        self.omitted_anonymous |= anonymous
        if self.omitted_at is None:
            self.omitted_at = number, int(groups.end[named.argmax() if named_only else 0])

    def _is_ring(self) -> bool:
        """Whether the replica is a source of its source, directly or not."""
        own, ts = self.queued.server_uuid, self.queued.at.ts
        if own is None:
            return False
        return any(u.uuid_at(ts) == own for u in self.fleet.upstreams([self.source], ts))

    def _missing(
        self, number: int, file: BinlogFile, absent: IntArray
    ) -> tuple[GtidSet, GroupColumns]:
        """What the replica has not executed of groups that are not there, and these groups."""
        if self.queued.ignores_servers:
            absent = absent[:0]
        # What the source lost it cannot send any more.
        groups = file.groups_at(absent[absent < self._file(number)[1]])
        named = groups.sid >= 0
        gtids = GtidSet.from_groups(self.source.sids, groups.sid[named], groups.gno[named])
        unproven = gtids & self.unproven
        for part in self.queued.executed:
            gtids = gtids - part
        gtids = gtids | unproven
        if self.queued.server_uuid is not None:
            # Its own come back to it in a ring, maybe before they are executed: it ignores them.
            gtids = gtids.without_uuid(self.queued.server_uuid)
        return gtids, groups

    def _note_repeat(self, number: int, file: BinlogFile, index: int) -> None:
        (end,), (sid,), (gno,) = file.groups(index, index + 1)
        gtid = f"{self.source.sids[sid]}:{gno}" if sid >= 0 else ""
        self.repeated = (number, int(end)), gtid

    def _file_name(self, number: int) -> str:
        assert self.state.base_name is not None  # it is that of the groups' files
        return format_log_file_name(self.state.base_name, number)

    def found(self) -> tuple[Broken, ...]:
        """What the walk has found."""
        found = []
        if self.foreign is not None:
            where, gtid = self.foreign
            found.append(self._group("foreign", where, gtid, gtid or ANONYMOUS))
        if self.repeated is not None:
            found.append(self._group("repeated", *self.repeated, "again"))
        if self.omitted_at is not None:
            found += self._omission(self.omitted_at)
        return tuple(found)

    def _group(self, case: str, where: Where, gtid: str, what: str) -> Broken:
        file, position = self._file_name(where[0]), where[1]
        return Broken(
            case,
            witness=gtid or ANONYMOUS,
            at=f"{file}:{position} {what}",
            gtid=gtid,
            file=file,
            position=position,
            source=self.source.instance_id,
        )

    def _omission(self, where: Where) -> list[Broken]:
        if not self.queued.is_row:
            self.undecided = Undecided(OMITTED_MAY_BE_EXECUTED)
            return []
        fresh = self.omitted - self.reported
        if not fresh and not self.omitted_anonymous:
            return []
        self.reported = self.reported | fresh
        file, position = self._file_name(where[0]), where[1]
        return [
            Broken(
                "omitted" if fresh else "omitted_anonymous",
                witness=fresh or f"{file}:{position}",
                at=f"{file}:{position} omitted",
                gtids=fresh,
                file=file,
                position=position,
                source=self.source.instance_id,
            )
        ]


def _gtid(run: QueuedRun, index: int) -> str:
    """The GTID of a queued group, "" anonymous."""
    sid = int(run.sid[index])
    return "" if sid < 0 else f"{run.sids[sid]}:{run.gno[index]}"
