"""InnoDB's redo log as the journal shows it: writes, flushes, checkpoints, commits that returned.

Numbers are log sequence numbers. Long runs are judged in whole columns; any doubt sends a run
through the event-by-event path, which alone decides what is wrong. Both leave equal state.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tallystick.coordinates.events.journal import ABSENT, RedoType
from tallystick.coordinates.logs.anomaly import Anomaly, AnomalyKind
from tallystick.coordinates.state_codec import COLLABORATOR
from tallystick.coordinates.values.innodb import (
    BLOCK_HEADER_LENGTH,
    BLOCK_LENGTH,
    BLOCK_TRAILER_LENGTH,
    last_block,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from tallystick.coordinates.audit.reporter import Reporter
    from tallystick.coordinates.audit.server import Server
    from tallystick.coordinates.events.journal import Block
    from tallystick.coordinates.events.log_events import Event, EventColumns

    Array = npt.NDArray[Any]

REDO_FAST_MIN = 24
"""Below this many events of the redo log, single events are as quick as whole columns."""
_RUN_MAX = 1_024
"""An irregular run is tried again after a few events; this bounds what that costs."""
UNKNOWN = -1
_DATA_END = BLOCK_LENGTH - BLOCK_TRAILER_LENGTH
_WRITE, _FLUSH, _CHECKPOINT, _COMMIT = (int(redo_type) for redo_type in RedoType)
_STRICTER = ("", "2", "1")
"""innodb_flush_log_at_trx_commit, by what commits wait for: nothing that is judged comes first."""
_MAY_END_AT_BORDER = (_WRITE, _FLUSH)
_FLUSHED, _WRITTEN = "flushed", "written to the files"
_NAMES = {
    _WRITE: "written LSN",
    _FLUSH: "flushed LSN",
    _CHECKPOINT: "checkpoint",
    _COMMIT: "LSN of a commit",
}


@dataclass(eq=False)
class RedoLogReader:
    """The redo log of one instance, as far as its journal has it. ``UNKNOWN``: not seen.

    Attributes:
        written: Up to where redo is in the files.
        flushed: Up to where they are synced.
        checkpoint: Where recovery would begin.
        floor: After a start, until the first flush: the redo that must have survived.
        committed: The highest LSN of a commit since the last start that was durable as it is set.
        logged: Of these, the highest one before which the binary log got a group.
        has_logged: Whether it got one since the last commit.
        returned: After a crash, until the first write or flush: ``logged`` of the boot before, if
            the binary log has its commits.
        returned_at_most: As ``returned``, of ``committed``.
        in_doubt: Where redo went on after a crash, and ``returned_at_most``, if that is beyond and
            ``returned`` is not.
        capacity: What the files hold at most.
        shrinks_to: What they will hold as soon as the redo since the checkpoint is no more.
        policy: innodb_flush_log_at_trx_commit where commits are judged by it, else "".
        left_policy: What it was when commits began that may return only now, None: the same.
        has_written: Whether anything was written since it changed.
        overwritten_at: The checkpoint before which redo was reported as overwritten.
        has_headers: Whether a write since the last start had its block's header.
        has_commits: Whether a commit was seen since the last start.
        started_ts: Time of that start.
        ts: Time of the last event.
    """

    reporter: Reporter = field(metadata=COLLABORATOR)
    server: Server = field(metadata=COLLABORATOR)
    written: int = UNKNOWN
    flushed: int = UNKNOWN
    checkpoint: int = UNKNOWN
    floor: int = UNKNOWN
    committed: int = UNKNOWN
    logged: int = UNKNOWN
    has_logged: bool = False
    returned: int = UNKNOWN
    returned_at_most: int = UNKNOWN
    in_doubt: tuple[int, int] | None = None
    capacity: int = UNKNOWN
    shrinks_to: int = UNKNOWN
    overwritten_at: int = UNKNOWN
    policy: str = ""
    left_policy: str | None = None
    has_written: bool = False
    has_headers: bool = False
    has_commits: bool = False
    started_ts: int = -1
    ts: int = 0

    def __post_init__(self) -> None:
        self.settings_changed()

    # What else happens to the server

    def mark_gap(self) -> None:
        """Another redo log, of files that may have any size: nothing from before bounds it."""
        self.written = self.flushed = self.checkpoint = self.floor = UNKNOWN
        self.committed = self.logged = self.returned = self.returned_at_most = UNKNOWN
        self.has_logged, self.in_doubt = False, None
        self.capacity = self.shrinks_to = self.overwritten_at = UNKNOWN

    def server_started(self, ts: int, *, crashed: bool, has_logged: bool) -> None:
        """A boot: after a crash what was flushed is there, after a clean stop everything.

        Args:
            ts: When it was.
            crashed: Whether the boot before has crashed.
            has_logged: Whether the binary log has all that was committed, as it was recovered.
        """
        # Of the three the highest one that is known; what is missing is UNKNOWN, below all others.
        on_disk = self.floor, self.checkpoint, self.flushed
        self.floor = max(*on_disk, UNKNOWN if crashed else self.written)
        returned = max(self.returned, self.logged)
        at_most = max(self.returned_at_most, self.committed)
        if not (crashed and has_logged):
            returned = at_most = UNKNOWN
        self.returned, self.returned_at_most = returned, at_most
        self.written = self.flushed = self.committed = self.logged = UNKNOWN
        self.has_headers = self.has_commits = self.has_logged = False
        self.started_ts = ts
        self.settings_changed()
        self.left_policy = None

    def settings_changed(self) -> None:
        """Take over the capacity; files that are to shrink hold what they held until then.

        As they may be at a start, and where it is not known what they were before.
        """
        capacity = self.server.number("innodb_redo_log_capacity")
        if capacity is None:
            self.capacity = self.shrinks_to = UNKNOWN
        elif self.capacity == UNKNOWN or capacity < self.capacity:
            self.shrinks_to = capacity
        else:
            self.capacity, self.shrinks_to = capacity, UNKNOWN
        policy = self._commit_policy() or ""
        if _STRICTER.index(policy) > _STRICTER.index(self.policy):
            self.left_policy = self._policy_of_commits()
            self.has_written = False
        self.policy = policy

    def capacity_at(self, lsn: int | None, checkpoint: int | None) -> int | None:
        """What the files can hold at a row with these numbers, None not known.

        The row may show that files which were to shrink have shrunk.
        """
        if lsn is not None and checkpoint is not None:
            self._aged(lsn - checkpoint)
        return None if self.capacity == UNKNOWN else self.capacity

    def _aged(self, age: int) -> None:
        """The redo that recovery needs is so long: files that hold it may be as small now."""
        if self.shrinks_to != UNKNOWN and age <= self.shrinks_to:
            self.capacity, self.shrinks_to = self.shrinks_to, UNKNOWN

    @property
    def reached(self) -> int:
        """Up to where there is redo at the least."""
        return max(self.written, self.flushed, self.committed)

    def lacking(self) -> set[str]:
        """What was not seen of that which rules on the events need."""
        known = {
            "flush": self.flushed != UNKNOWN,
            "checkpoint": self.checkpoint != UNKNOWN,
            "block header": self.has_headers,
            "commit": self.has_commits,
            "capacity": self.capacity != UNKNOWN,
            "bound": bool(self.policy),
        }
        return {kind for kind, is_known in known.items() if not is_known}

    # Reading

    def read(self, block: Block, indices: Array, events: EventColumns, ends: Array) -> None:
        """Read the events of ``block`` at ``indices``, which are REDO records, in order.

        Args:
            block: The block.
            indices: Where they are.
            events: Its events as values.
            ends: Where groups of the binary log end among them.
        """
        before = np.searchsorted(ends, indices)
        at = seen = 0
        while at < len(indices):
            run, logged = indices[at : at + _RUN_MAX], before[at : at + _RUN_MAX] - seen
            if len(run) < REDO_FAST_MIN or not self._read_run(block.columns, run, logged):
                run = run[:REDO_FAST_MIN]
                for index, count in zip(
                    run.tolist(), before[at : at + len(run)].tolist(), strict=True
                ):
                    self.has_logged |= count > seen
                    seen = count
                    self.read_event(block, index, events.event(index))
            at += len(run)
            seen = int(before[at - 1])
        self.has_logged |= len(ends) > seen
        if len(indices):
            self.ts = int(block.columns["ts"][indices[-1]])

    def _read_run(self, columns: dict[str, Array], indices: Array, logged: Array) -> bool:
        """Take events that are regular in every respect; False: they may not be.

        Args:
            columns: Of the block.
            indices: Where the events are.
            logged: How many groups the binary log got before each of them, since what was read.
        """
        if UNKNOWN in (self.written, self.flushed, self.checkpoint):
            return False
        if self.shrinks_to != UNKNOWN or self.left_policy is not None:
            return False
        types, lsns = columns["type"][indices], columns["value"][indices]
        is_write = types == _WRITE
        is_checkpoint = types == _CHECKPOINT
        written = _so_far(is_write, lsns, self.written)
        flushed = _so_far(types == _FLUSH, lsns, self.flushed)
        checkpoint = _so_far(is_checkpoint, lsns, self.checkpoint)
        starts = columns["start"][indices][is_write]
        ends = lsns[is_write]
        offsets = lsns % BLOCK_LENGTH
        at_border = (offsets == 0) & (types <= _FLUSH)
        is_in_data = (offsets >= BLOCK_HEADER_LENGTH) & (offsets < _DATA_END)
        commits = lsns[types == _COMMIT]
        limit = self._commit_limit(written, flushed)
        # A number that fell is below the highest so far.
        least = np.where(types == _FLUSH, flushed, np.where(is_checkpoint, checkpoint, 0))
        is_regular = bool(
            (starts == np.concatenate(([self.written], ends))[:-1]).all()
            and (lsns >= least).all()
            and (flushed <= written).all()
            and (checkpoint <= flushed).all()
            and (is_in_data | at_border).all()
            and _headers_agree(columns, indices[is_write], ends)
            and (self.capacity == UNKNOWN or (written - checkpoint <= self.capacity).all())
            and (limit is None or (commits <= limit[types == _COMMIT]).all())
        )
        if is_regular:
            self.written = int(written[-1])
            self.flushed = int(flushed[-1])
            self.has_headers |= _has_headers(columns, indices[is_write])
            self._take_commits(commits, logged[types == _COMMIT], int(logged[-1]))
            if int(checkpoint[-1]) != self.checkpoint:
                self.checkpoint = int(checkpoint[-1])
                self.overwritten_at = UNKNOWN
        return is_regular

    def read_event(self, block: Block, index: int, event: Event) -> None:
        """Read one event on the event-by-event path; it is at ``index`` of the block."""
        self.ts = event.ts
        self.reporter.position = (block.epoch, block.first_sequence + index, event.ts)
        redo_type, lsn = event.type, event.value
        offset = lsn % BLOCK_LENGTH
        is_in_data = BLOCK_HEADER_LENGTH <= offset < _DATA_END
        if not is_in_data and (offset or redo_type not in _MAY_END_AT_BORDER):
            self._report(
                AnomalyKind.REDO_LSN_IN_FRAME, lsn, lsn, name=_NAMES[redo_type], offset=offset
            )
        if redo_type == _WRITE:
            self._check_header(event)
            self._write(event.start, lsn)
        elif redo_type == _FLUSH:
            self._flush(lsn)
        elif redo_type == _CHECKPOINT:
            self._write_checkpoint(lsn)
        else:
            self._commit(lsn)

    def _check_header(self, event: Event) -> None:
        number, length = last_block(event.value)
        given_number, given_length = event.sequence_number, event.last_committed
        self.has_headers |= (given_number, given_length) != (ABSENT, ABSENT)
        if given_number not in (ABSENT, number) or given_length not in (ABSENT, length):
            self._report(
                AnomalyKind.REDO_BLOCK_HEADER_DIFFERS,
                event.value,
                f"{given_number}, {given_length}",
                lsn=event.value,
                number=given_number,
                length=given_length,
                expected_number=number,
                expected_length=length,
            )

    def _write(self, start: int, lsn: int) -> None:
        self._goes_on(start)
        if self.written != UNKNOWN and start > self.written:
            self._report(AnomalyKind.REDO_HOLE, start, f"{self.written}-{start}", end=self.written)
        elif self.written != UNKNOWN and start < self.written:
            self._report(AnomalyKind.REDO_WRITE_FELL, start, start, end=self.written)
            # Which of the two goes on is not known: flushes and checkpoints begin anew.
            self.flushed = self.checkpoint = self.floor = UNKNOWN
        elif start < self.floor:
            self._lost_at_start(start)
        elif start < self.flushed:
            # The first write that is seen begins where the one before it ended.
            self._flushed_unwritten(self.flushed, start)
            self.flushed = self.checkpoint = UNKNOWN
        elif start < self.checkpoint:
            self._checkpoint_beyond(self.checkpoint, start, _WRITTEN)
            self.checkpoint = UNKNOWN
        self.written, self.has_written = lsn, True
        self._check_capacity()

    def _check_capacity(self) -> None:
        if UNKNOWN in (self.capacity, self.checkpoint) or self.checkpoint == self.overwritten_at:
            return
        age = self.written - self.checkpoint
        if age > self.capacity:
            self.overwritten_at = self.checkpoint
            self._report(
                AnomalyKind.REDO_OVERWRITTEN,
                self.written,
                f"{self.written} - {self.checkpoint} = {age}",
                checkpoint=self.checkpoint,
                written=self.written,
                age=age,
                capacity=self.capacity,
            )

    def _flush(self, lsn: int) -> None:
        self._goes_on(lsn)
        if self.flushed != UNKNOWN and lsn < self.flushed:
            self._report(AnomalyKind.REDO_FLUSH_FELL, lsn, lsn, previous=self.flushed)
        elif self.written != UNKNOWN and lsn > self.written:
            self._flushed_unwritten(lsn, self.written)
            lsn = self.written
        elif lsn < self.floor:
            self._lost_at_start(lsn)
        elif self.flushed == UNKNOWN and lsn < self.checkpoint:
            # The first flush that is seen: when the checkpoint was written it was no further.
            self._checkpoint_beyond(self.checkpoint, lsn, _FLUSHED)
            self.checkpoint = UNKNOWN
        self.flushed = max(self.flushed, lsn)
        self.floor = UNKNOWN
        if self.has_written:
            # What was under way when the setting changed is in what was written since.
            self.left_policy = None

    def _write_checkpoint(self, lsn: int) -> None:
        if self.checkpoint != UNKNOWN and lsn < self.checkpoint:
            self._report(AnomalyKind.REDO_CHECKPOINT_FELL, lsn, lsn, previous=self.checkpoint)
            return
        limit, done = self._flush_limit()
        if limit != UNKNOWN and lsn > limit:
            self._checkpoint_beyond(lsn, limit, done)
            return
        if lsn != self.checkpoint:
            self.checkpoint = lsn
            self.overwritten_at = UNKNOWN
        if self.written != UNKNOWN:
            self._aged(self.written - lsn)

    def _flush_limit(self) -> tuple[int, str]:
        """Up to where redo is flushed at the most; as long as no flush was seen, is written."""
        if self.flushed != UNKNOWN:
            return self.flushed, _FLUSHED
        return self.written, _WRITTEN

    def _goes_on(self, lsn: int) -> None:
        """After a crash: up to where redo has survived it, and whether commits were beyond."""
        if self.floor <= lsn < self.returned:
            self._report(AnomalyKind.COMMITS_LOST_AT_START, lsn, lsn, returned=self.returned)
        elif self.floor <= lsn < self.returned_at_most:
            self.in_doubt = lsn, self.returned_at_most
        self.returned = self.returned_at_most = UNKNOWN

    def loss_was_shown(self) -> None:
        """A row has shown before them what the first write and flush after a start would show."""
        if self.written == self.flushed == UNKNOWN:
            self.checkpoint = self.floor = self.returned = self.returned_at_most = UNKNOWN

    def _lost_at_start(self, lsn: int) -> None:
        self._report(AnomalyKind.REDO_LOST_AT_START, lsn, lsn, floor=self.floor)
        self.checkpoint = self.floor = UNKNOWN

    def _flushed_unwritten(self, lsn: int, written: int) -> None:
        self._report(AnomalyKind.REDO_FLUSHED_UNWRITTEN, lsn, lsn, written=written)

    def _checkpoint_beyond(self, lsn: int, limit: int, done: str) -> None:
        self._report(AnomalyKind.REDO_CHECKPOINT_UNFLUSHED, lsn, lsn, limit=limit, done=done)

    # Commits

    def _commit_policy(self) -> str | None:
        """innodb_flush_log_at_trx_commit where commits are judged by it."""
        if self.server.redo_is_disabled:
            return None
        policy = self.server.variables.get("innodb_flush_log_at_trx_commit")
        return str(policy) if str(policy) in ("1", "2") else None

    def _policy_of_commits(self) -> str:
        """By what a commit is judged that returns now: it may have begun before a change."""
        return self.policy if self.left_policy is None else self.left_policy

    def _commit_limit(self, written: Array, flushed: Array) -> Array | None:
        return {"": None, "1": flushed, "2": written}[self.policy]

    def _take_commits(self, lsns: Array, logged: Array, in_all: int) -> None:
        """Commits that are durable, and how many groups were logged before each, and in all."""
        self.has_commits |= bool(len(lsns))
        self.committed = int(np.maximum.reduce(lsns, initial=self.committed))
        is_logged = np.diff(logged, prepend=0) > 0
        is_logged[:1] |= self.has_logged
        self.logged = int(np.maximum.reduce(lsns[is_logged], initial=self.logged))
        if len(lsns):
            self.has_logged = in_all > int(logged[-1])
        else:
            self.has_logged |= in_all > 0

    def _commit(self, lsn: int) -> None:
        self.has_commits = True
        has_logged, self.has_logged = self.has_logged, False
        policy = self._policy_of_commits()
        limit, done = self._flush_limit() if policy == "1" else (self.written, _WRITTEN)
        if policy and limit != UNKNOWN and lsn > limit:
            self._report(
                AnomalyKind.COMMIT_NOT_DURABLE,
                lsn,
                lsn,
                limit=limit,
                done=done,
                policy=policy,
            )
        else:
            self.committed = max(self.committed, lsn)
            if has_logged:
                self.logged = max(self.logged, lsn)

    def _report(self, kind: AnomalyKind, lsn: int, witness: object, /, **data: Any) -> None:
        self.reporter.anomaly(Anomaly(kind, f"LSN {lsn}", str(witness), None, data))


def _so_far(is_one: Array, lsns: Array, before: int) -> Array:
    """The highest number of one kind up to each event."""
    return np.maximum.accumulate(np.maximum(np.where(is_one, lsns, before), before))


def _has_headers(columns: dict[str, Array], writes: Array) -> bool:
    names = ("sequence_number", "last_committed")
    return any(bool((columns[name][writes] != ABSENT).any()) for name in names)


def _headers_agree(columns: dict[str, Array], writes: Array, ends: Array) -> bool:
    numbers, lengths = columns["sequence_number"][writes], columns["last_committed"][writes]
    expected_numbers, expected_lengths = last_block(ends)
    agrees = (numbers == ABSENT) | (numbers == expected_numbers)
    agrees &= (lengths == ABSENT) | (lengths == expected_lengths)
    return bool(agrees.all())
