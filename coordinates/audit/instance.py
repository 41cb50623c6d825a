"""The audit of one instance: from state and block to state, findings, cuts and fleet events.

`InstanceAudit` reads an instance's journal in order. Events go to the readers of their log; server
records change what is expected; a log_status row is judged against everything read so far, at the
position where the journal has reached the row's coordinates. No clock, no I/O: the same blocks
yield the same results wherever and however they are cut.
"""

from __future__ import annotations

import contextlib
import traceback
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tallystick.coordinates.audit.fleet_events import FleetEventKind
from tallystick.coordinates.audit.instance_state import WaitingRow
from tallystick.coordinates.audit.journal_clock import (
    AHEAD_MAX_US,
    STEP_MAX_US,
    JournalClock,
    later,
)
from tallystick.coordinates.audit.reporter import shorten
from tallystick.coordinates.audit.row import judge_answer
from tallystick.coordinates.audit.row_rules import note_given_up
from tallystick.coordinates.audit.server import Server
from tallystick.coordinates.audit.server_records import (
    LINEAGE_ACTIONS,
    Handlers,
    ServerRecordReader,
)
from tallystick.coordinates.events._record_fields import read_server_record
from tallystick.coordinates.events.journal import RecordType, Stream
from tallystick.coordinates.events.log_events import MAY_END_GROUP, MAY_END_GROUP_ROWS, EventColumns
from tallystick.coordinates.logs import log_reader
from tallystick.coordinates.logs.redo_log import UNKNOWN
from tallystick.coordinates.results import ObservationCode
from tallystick.coordinates.rules import observations
from tallystick.coordinates.rules.columns import same_family
from tallystick.coordinates.rules.protocol_steps import NOT_ENDED
from tallystick.coordinates.rules.redo_positions import RedoSeen
from tallystick.coordinates.state_codec import decode, encode, restore, split
from tallystick.coordinates.values.binlog import LogCoordinates
from tallystick.coordinates.values.errors import JournalError, StateError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tallystick.coordinates.audit.cut import Cut
    from tallystick.coordinates.audit.fleet_events import FleetEvent
    from tallystick.coordinates.audit.journal_clock import Break
    from tallystick.coordinates.events.journal import Block
    from tallystick.coordinates.events.log_events import Event
    from tallystick.coordinates.results import Finding, Observation

WAITING_MAX = 32
ANSWERED_MAX = 256
"""Collections whose rows are known when another epoch sends them again."""
_SERVER, _BINLOG, _RELAY, _REDO = map(int, Stream)
_GAP, _HEARTBEAT = int(RecordType.GAP), int(RecordType.HEARTBEAT)
_EMPTY = "{}"


def failure_text(error: Exception) -> str:
    """What was raised, and where: for somebody who looks for the mistake in the code."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    file = frame.filename.rpartition("/")[2]
    return f"{type(error).__name__}: {shorten(str(error))} ({file}:{frame.lineno})"


def is_ahead(block: Block, sent_us: int) -> bool:
    """Whether a record is later than its message, which Kafka has of a time, microseconds."""
    return _latest(block) > sent_us + AHEAD_MAX_US


def _passed_heartbeats(block: Block, indices: list[int], types: list[int]) -> set[int]:
    """Heartbeats that the next record, another one, makes needless: what is known is the time.

    Args:
        block: The records.
        indices: Of the server records.
        types: Theirs.
    """
    heartbeats = [
        index
        for index, record_type in zip(indices, types, strict=True)
        if record_type == _HEARTBEAT and block.texts.get(index, _EMPTY) == _EMPTY
    ]
    return {index for index, following in pairwise(heartbeats) if following == index + 1}


def _ends_log(record_type: int, body: Mapping[str, Any]) -> bool:
    """Whether the files of a log, or of a channel's relay log, are given up with a record."""
    if record_type == RecordType.CHANNEL:
        return body.get("action") in LINEAGE_ACTIONS
    return record_type == RecordType.BINLOG_RESET


def _latest(block: Block) -> int:
    return int(np.maximum.reduce(block.columns["ts"], initial=0))


@dataclass(slots=True)
class AuditOutput:
    """What one step of an instance's audit brought, in journal order."""

    findings: list[Finding] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)
    cuts: list[Cut] = field(default_factory=list)
    fleet_events: list[FleetEvent] = field(default_factory=list)


class InstanceAudit(ServerRecordReader):
    """The audit of one instance: its state, and the step that changes it.

    Args:
        instance_id: The instance.
        disabled: Names of rules that are not applied.
    """

    # The state

    def to_bytes(self) -> bytes:
        """The whole state; the server's settings apart, as they cannot be found out again."""
        return encode(InstanceAudit, self, before=encode(Server, self.server))

    @classmethod
    def from_bytes(
        cls, data: bytes, instance_id: str = "", disabled: frozenset[str] = frozenset()
    ) -> InstanceAudit:
        """Inverse of ``to_bytes``.

        Args:
            data: The bytes.
            instance_id: For messages alone.
            disabled: Names of rules that are not applied from now on.

        Raises:
            StateVersionError: Another version of tallystick has written the bytes.
            StateDamagedError: They are cut short, or have changed.
        """
        of = f"instance {instance_id!r}"
        settings, rest = split(data, of)
        audit = cls(instance_id)
        audit.server = decode(Server, settings, of)
        restore(audit, rest, of)
        audit.reporter.disabled = disabled
        return audit

    def lose_state(self, saved: bytes, reason: StateError, first: Block | None) -> AuditOutput:
        """The saved state cannot be read: what follows is as after a gap.

        Of a state that another version has saved, or that is damaged in part, the server's
        settings may still be read; else nothing is found until a start has them.

        Args:
            saved: The state, of which this new audit knows nothing.
            reason: Why it cannot be read.
            first: The first block that follows, None if none can be read.
        """
        of = f"instance {self.instance_id!r}"
        if first is not None and len(first):
            self.reporter.position = (first.epoch, first.first_sequence, self.clock.first(first))
        try:
            vars(self.server).update(vars(decode(Server, split(saved, of)[0], of)))
            why = observations.STATE_UNREADABLE
        except StateError:
            self.reporter.is_mute = True
            why = observations.SETTINGS_UNREADABLE
        self.reporter.note(
            ObservationCode.STATE_UNREADABLE,
            why,
            at="{}:{}".format(*self.reporter.position),
            error=str(reason),
            is_undecided=True,
        )
        self.reporter.fleet_event(FleetEventKind.BEGUN_ANEW, {})
        self._lose_records(settings_are_known=True)
        return self._output()

    # The step

    def absorb(self, block: Block) -> AuditOutput:
        """Read the next block of the journal; repeated and missing records are noticed here.

        A server record that cannot be read is reported and counts as missing, unless it answers
        a collection, which changes nothing that comes after it.

        Raises:
            JournalError: The block is of another instance.
        """
        if block.instance_id != self.instance_id:
            raise JournalError(
                f"expected a block of instance {self.instance_id!r}, got {block.instance_id!r}"
            )
        if len(block):
            self.server.journal_cluster = block.cluster or None
            fresh = self._admit(block)
            if fresh is not None:
                self._read(fresh)
        return self._output()

    def absorb_or_refuse(
        self, block: Block, check: Callable[[AuditOutput], object] | None = None
    ) -> tuple[AuditOutput, str]:
        """As ``absorb``, but whatever is raised stays with the block: it counts as lost.

        Nothing may raise, and a value that nobody has thought of may nevertheless. What was half
        read is forgotten, so the answer is that of a gap: undecided, and nothing found.

        Args:
            block: The next block of the journal.
            check: Called with what the step brought; what it raises refuses the block, too.

        Returns:
            What the step brought, and why the block was refused; empty if it was not.
        """
        waiting = list(self.waiting)
        try:
            output = self.absorb(block)
            if check is not None:
                check(output)
        except Exception as error:  # noqa: BLE001  whatever it is, the others go on
            reason = failure_text(error)
        else:
            return output, ""
        self._forget_half_read(waiting)
        self.reporter.position = (block.epoch, block.first_sequence, self.ts)
        self.reporter.note(
            ObservationCode.BLOCK_UNREADABLE,
            observations.BLOCK_REFUSED,
            at=f"{block.epoch}:{block.first_sequence}",
            first=block.first_sequence,
            last=block.next_sequence - 1,
            error=reason,
            is_undecided=True,
        )
        return self._output(), reason

    def _forget_half_read(self, waiting: list[WaitingRow]) -> None:
        """A step raised: nothing of it counts, and what was known before may be changed by it."""
        self.reporter.clear()
        self._learned, self.cuts = 0, []
        for row in waiting:
            # They came before, and what they were to be judged against is forgotten.
            self.begin_anew(settings_are_known=False)
            self.waiting = [row]
            with contextlib.suppress(Exception):
                self._settle_rows(force=True)
        self.begin_anew(settings_are_known=False)

    def note_unreadable(self, reason: str, ts: int | None = None) -> AuditOutput:
        """A block of this instance could not be read: what it held counts as a gap."""
        self.reporter.position = (self.epoch, self.next_sequence, self.ts if ts is None else ts)
        self.reporter.note(
            ObservationCode.BLOCK_UNREADABLE,
            observations.BLOCK_UNREADABLE,
            at=f"{self.epoch}:{self.next_sequence}",
            error=shorten(reason),
            is_undecided=True,
        )
        self._lose_records()
        return self._output()

    def sent(self, block: Block, sent_us: int) -> AuditOutput:
        """A block came in a message that Kafka has of a time, microseconds: nothing is later."""
        was_ahead, self.clock.is_ahead = self.clock.is_ahead, is_ahead(block, sent_us)
        if was_ahead or not self.clock.is_ahead:
            return AuditOutput()
        self.reporter.position = (block.epoch, block.first_sequence, self.ts)
        self.reporter.note(
            ObservationCode.TIME_IMPLAUSIBLE,
            observations.TIME_AFTER_MESSAGE,
            at=f"{block.epoch}:{block.first_sequence}",
            shown=_latest(block),
            sent=sent_us,
        )
        return self._output()

    def finish(self) -> AuditOutput:
        """The end of a finished journal: rows that still wait are undecided."""
        self._settle_rows(force=True)
        self.reporter.position = (self.epoch, self.next_sequence - 1, self.ts)
        self.reporter.time_anew()
        for name, given in self.baselines.given_up.items():
            left = given.gtids - self.binlog.logged.freeze()
            if given.is_missing and left:
                note_given_up(self.reporter, name, left)
        for one in self.unended_steps():
            self.reporter.note(
                ObservationCode.COMPARISON_UNDECIDED,
                NOT_ENDED,
                at=f"{one.what} since {one.since}",
                rules=(one.rule,),
                is_undecided=True,
                what=one.what,
            )
        return self._output()

    def finish_or_refuse(self) -> AuditOutput:
        """As ``finish``, but what is raised leaves the instance undecided, and nothing else."""
        waiting = list(self.waiting)
        try:
            return self.finish()
        except Exception as error:  # noqa: BLE001  whatever it is, the others go on
            self._forget_half_read(waiting)
            self.reporter.note(
                ObservationCode.BLOCK_UNREADABLE,
                observations.END_REFUSED,
                at=f"{self.epoch}:{self.next_sequence}",
                error=failure_text(error),
                is_undecided=True,
            )
        return self._output()

    def _output(self) -> AuditOutput:
        fleet_events = self.take_fleet_events()
        output = AuditOutput(
            self.reporter.findings, self.reporter.observations, self.cuts, fleet_events
        )
        self.reporter.findings = []
        self.reporter.observations = []
        self.cuts = []
        return output

    # Transport

    def _admit(self, block: Block) -> Block | None:
        """The part of the block that is new; gaps and repeats are reported."""
        ts = max(self.ts, self.clock.first(block))
        self.reporter.position = (block.epoch, block.first_sequence, ts)
        if block.epoch < self.epoch:
            self._note_stale(block)
            return None
        if block.epoch > self.epoch:
            self._begin_epoch(block)
        if block.first_sequence > self.next_sequence:
            self.reporter.note(
                ObservationCode.JOURNAL_GAP,
                observations.RECORDS_MISSING,
                at=f"{block.epoch}:{self.next_sequence}",
                first=self.next_sequence,
                last=block.first_sequence - 1,
                is_undecided=True,
            )
            self._lose_records()
        known = max(0, self.next_sequence - block.first_sequence)
        if known and not self._is_another_beginning(block, known):
            if known >= len(block):
                return None
            block = block.take(known, len(block))
        self.next_sequence = block.next_sequence
        self.recent.add(block)
        return block

    def _note_stale(self, block: Block) -> None:
        """Records of an older epoch: what their producer sees is not known to the newer one's."""
        if block.epoch == self.stale_epoch:
            return
        self.stale_epoch = block.epoch
        self.reporter.note(
            ObservationCode.JOURNAL_STALE_EPOCH,
            observations.STALE_EPOCH,
            at=f"{block.epoch}:{block.first_sequence}",
            epoch=block.epoch,
            first=block.first_sequence,
            newest=self.epoch,
            is_undecided=True,
        )

    def _begin_epoch(self, block: Block) -> None:
        """Another producer writes the journal, or one that lost its state."""
        before, self.epoch = self.epoch, block.epoch
        self.stale_epoch = -1
        if before < 0:
            self.next_sequence = block.first_sequence
            if block.first_sequence:
                self.begin_anew(settings_are_known=False)
            return
        self.next_sequence = 0
        self.reporter.note(
            ObservationCode.JOURNAL_GAP,
            observations.EPOCH_BEGAN,
            at=f"{block.epoch}:0",
            epoch=block.epoch,
            before=before,
            is_undecided=True,
        )
        self._read_from_zero()

    def _is_another_beginning(self, block: Block, known: int) -> bool:
        """Compare records that came before, the first ``known`` of a block, and report them.

        Where others came before, the beginning of a journal is taken for one, whatever its epoch.
        """
        again = block.take(0, min(known, len(block)))
        at, forgotten = self.recent.compare(again)
        code, why = ObservationCode.JOURNAL_REPEATED, observations.RECORDS_REPEATED
        data: dict[str, Any] = {}
        if at is not None:
            code, why = ObservationCode.JOURNAL_REUSED, observations.SEQUENCE_REUSED
            data = {"epoch": block.epoch, "record": at}
        elif forgotten:
            why, data = observations.RECORDS_FORGOTTEN, {"forgotten": forgotten}
        elif known < len(block):
            return False
        self.reporter.note(
            code,
            why,
            at=f"{block.epoch}:{block.first_sequence}",
            first=block.first_sequence,
            last=again.next_sequence - 1,
            is_undecided=at is not None or forgotten > 0,
            **data,
        )
        if at is None:
            return False
        self._read_from_zero()
        return block.first_sequence == 0

    def _read_from_zero(self) -> None:
        """Another observer's journal begins: it may show again what is known, and at any time."""
        self._lose_records()
        self.reporter.fleet_event(FleetEventKind.BEGUN_ANEW, {})
        self.ts, self.clock = 0, JournalClock()

    def _lose_records(self, *, settings_are_known: bool = False) -> None:
        """Part of the journal is missing: everything is anchored anew."""
        # Whether the journal reached the rows that wait is now unknowable: they are undecided.
        self._settle_rows(force=True)
        self.learn()
        self.begin_anew(settings_are_known=settings_are_known)

    # Reading

    def _read(self, shown: Block) -> None:
        """Read records; ``shown`` has them at their own times, which may not be believed."""
        block, breaks = self.clock.read(shown)
        streams = block.columns["stream"]
        events = EventColumns(block)
        indices = (streams == _SERVER).nonzero()[0]
        read = (shown.columns["ts"], block.columns["type"], block.columns["channel"])
        columns = [indices.tolist(), *(column[indices].tolist() for column in read)]
        passed = _passed_heartbeats(block, columns[0], columns[2])
        at = 0
        for index, self.shown_ts, record_type, channel in zip(*columns, strict=True):
            if index > at:
                self._read_events(block, at, index, events)
            at = index + 1
            if index in passed and self.reporter.has_told_time and not (self.waiting or breaks):
                continue
            if breaks and breaks[0].record <= index:
                self._doubt_times(block, index, breaks[0])
                breaks = [one for one in breaks if one.record > index]
            offset = self.clock.offset
            self._read_server_record(block, index, record_type, channel)
            if self.clock.offset != offset:
                block = later(block, index + 1, self.clock.offset - offset)
                events = EventColumns(block)
        if at < len(block):
            self._read_events(block, at, len(block), events)
        if breaks:
            self.clock.unread = breaks[0]._replace(record=-1)
        self.ts = max(self.ts, int(block.columns["ts"][-1]))

    def _doubt_times(self, block: Block, index: int, found: Break) -> None:
        """Times since the last server record are not those of a journal: nothing is timed by them.

        By whose clock it goes on is known with the next observer.
        """
        ts = int(block.columns["ts"][index])
        self.reporter.position = (block.epoch, block.first_sequence + index, ts)
        is_first, is_news = self.clock.doubt()
        if is_news:
            self.reporter.note(
                ObservationCode.TIME_IMPLAUSIBLE,
                observations.TIME_IMPLAUSIBLE,
                at="{}:{}".format(*self.reporter.position),
                shown=found.ts,
                before=found.before,
            )
        if is_first:
            self.reporter.fleet_event(FleetEventKind.OBSERVER, {"clock": None})
        self.time_anew(ts)

    def _read_events(self, block: Block, first: int, last: int, events: EventColumns) -> None:
        if self.stopped_clean is not None:
            self._miss_start(block, first)
        before = len(self.reporter.findings)
        # A waiting row is judged right after the event that reaches it, so one by one.
        while self.waiting and first < last:
            self.event_fields.read(block, first, first + 1)
            self._read_few(block, first, first + 1, events)
            self.event_findings += len(self.reporter.findings) - before
            self.ts = int(block.columns["ts"][first])
            self._follow_logs()
            self._settle_rows()
            before = len(self.reporter.findings)
            first += 1
        if first < last:
            self.event_fields.read(block, first, last)
            is_few = last - first < log_reader.FAST_MIN or self._judges_growth
            is_few = is_few or self._follows_redo(block, first, last)
            read = self._read_few if is_few else self._read_many
            read(block, first, last, events)
            self.event_findings += len(self.reporter.findings) - before
            self.ts = int(block.columns["ts"][last - 1])
            self._follow_logs()

    def _end_sessions(self) -> None:
        """They end with the server, and before it writes STOP."""
        self.binlog.server_ended = False
        self.lose_sessions()

    def _follow_logs(self) -> None:
        """What they show and no record does: the server ended, or a command began one anew."""
        if self.binlog.server_ended:
            self._end_sessions()
        if self.binlog.has_begun_unrecorded:
            self._lose_records(settings_are_known=True)
        for name, relay in self.relays.items():
            if relay.has_begun_unrecorded:
                relay.has_begun_unrecorded = False
                self._settle_rows(force=True)
                self.anchor_channel(name, relay.lineage)

    def _miss_start(self, block: Block, index: int) -> None:
        """After a stop the server goes on, and no start was recorded: that is a gap."""
        ts = int(block.columns["ts"][index])
        self.reporter.position = (block.epoch, block.first_sequence + index, ts)
        self._note_start_unrecorded()

    def _note_start_unrecorded(self) -> None:
        self.reporter.note(
            ObservationCode.JOURNAL_GAP,
            observations.START_UNRECORDED,
            at="{}:{}".format(*self.reporter.position),
            is_undecided=True,
        )
        self._lose_records()

    def _follows_redo(self, block: Block, first: int, last: int) -> bool:
        """Whether a backup runs, of which it matters what redo was written before which group."""
        if not self.redo_positions.begun:
            return False
        return self.redo.reached != UNKNOWN or bool(
            (block.columns["stream"][first:last] == _REDO).any()
        )

    def _read_few(self, block: Block, first: int, last: int, events: EventColumns) -> None:
        """Read the events between two server records one by one."""
        judges_growth = self._judges_growth
        for index, event in enumerate(events.between(first, last), first):
            stream = event.stream
            if stream == _BINLOG:
                if judges_growth:
                    grows = self._read_growth(block, index, event, events)
                    judges_growth = self._judges_growth
                else:
                    grows = self.binlog.read_event(block, index, event, events)
                if MAY_END_GROUP_ROWS[event.type][event.query]:
                    self.redo.has_logged = True
                    if self.redo_positions.begun and grows:
                        self.redo_positions.group_logged()
            elif stream == _RELAY:
                name = events.channel_names[event.channel]
                grows = self.relay(name).read_event(block, index, event, events)
                if judges_growth and grows and self.backup_lock_freeze.is_held:
                    self.backup_lock_freeze.received(block, index, name)
            elif stream == _REDO:
                self.redo.read_event(block, index, event)

    def _read_many(self, block: Block, first: int, last: int, events: EventColumns) -> None:
        """Read the events between two server records log by log, regular ones in one step."""
        streams = block.columns["stream"][first:last]
        is_binlog, is_relay, is_redo = streams == _BINLOG, streams == _RELAY, streams == _REDO
        if is_redo.any() or not self.redo.has_logged:
            types, verbs = (block.columns[name][first:last] for name in ("type", "query"))
            ends = (is_binlog & MAY_END_GROUP[types, verbs]).nonzero()[0] + first
            self.redo.read(block, is_redo.nonzero()[0] + first, events, ends)
        if is_binlog.any():
            indices = is_binlog.nonzero()[0] + first
            self.binlog.read(block, indices, events)
        if is_relay.any():
            channels = block.columns["channel"][first:last]
            for number in np.unique(channels[is_relay]).tolist():
                indices = (is_relay & (channels == number)).nonzero()[0] + first
                self.relay(events.channel_names[number]).read(block, indices, events)

    @property
    def _judges_growth(self) -> bool:
        """Whether a session holds what forbids that the binary log grows, by anything or by XA."""
        return (
            self.backup_lock_freeze.is_held
            or self.collections.is_open
            or self.engine_locks.freezes_binlog
            or self.clones.blocks_xa
        )

    def _read_growth(self, block: Block, index: int, event: Event, events: EventColumns) -> bool:
        """Read an event of the binary log while a session may forbid it; whether the log grows.

        An event that shows that the server has ended shows that no session holds anything more.
        """
        binlog = self.binlog
        grows = binlog.read_event(block, index, event, events)
        if binlog.server_ended:
            self._end_sessions()
        elif grows and not binlog.has_begun_unrecorded:
            self.collections.progress("binlog_written")
            if self.engine_locks.freezes_binlog:
                self.engine_locks.binlog_grew(f"{binlog.file_name}:{event.start}")
            if self.backup_lock_freeze.is_held:
                self.backup_lock_freeze.logged(block, index)
            if self.clones.blocks_xa:
                self.clones.logged(block, index)
        return grows

    def _read_server_record(self, block: Block, index: int, record_type: int, number: int) -> None:
        ts = int(block.columns["ts"][index])
        channel = block.channels[number] if 0 <= number < len(block.channels) else None
        if record_type == _GAP:
            # What was lost came before: rows that wait are not late by its time.
            self._settle_rows(force=True)
        self.ts = max(self.ts, ts)
        if self.waiting:
            self._settle_rows()
        sequence = block.first_sequence + index
        self.reporter.position = (block.epoch, sequence, ts)
        try:
            body = read_server_record(record_type, block.texts.get(index, "{}"), channel)
            if self.waiting and _ends_log(record_type, body):
                # What they name has gone with it.
                self._settle_rows(force=True)
            self.handlers[record_type](self, body, ts)
        except JournalError as error:
            self.reporter.note(
                ObservationCode.BLOCK_UNREADABLE,
                observations.RECORD_UNREADABLE,
                at=f"{block.epoch}:{sequence}",
                record=sequence,
                error=shorten(str(error)),
                is_undecided=True,
            )
            if record_type != RecordType.LOG_STATUS:
                self._lose_records()

    def _gap(self, body: dict[str, Any], ts: int) -> None:
        channel, why = body.get("channel"), body.get("reason")
        note = partial(
            self.reporter.note,
            ObservationCode.JOURNAL_GAP,
            at="{}:{}".format(*self.reporter.position),
            channel=channel,
            is_undecided=True,
        )
        if channel is not None and why is not None:
            note(observations.RELAY_LOG_UNREADABLE, why=shorten(why))
        else:
            note(observations.RECORDS_LOST)
        if channel is not None:
            self._settle_rows(force=True)
            self.lose_relay_events(channel.lower())
            return
        # Its writer goes on observing the server: what was configured meanwhile is in the journal.
        self._lose_records(settings_are_known=True)

    # Rows

    def _answered(self, body: dict[str, Any], ts: int) -> None:
        body, ts, read_before, since = self._time_answer(body, ts)
        asked_at = body["asked_at"]
        may_be_of_before = isinstance(asked_at, int) and asked_at <= self.stopped_ts
        # A log that was seen before a start that is missing may still be written.
        logging = self.server.logging(is_seen=self.binlog.base_name is not None)
        if self.stopped_clean is not None and "row" in body and not may_be_of_before:
            self._note_start_unrecorded()
        self.waiting.append(
            WaitingRow(
                body,
                *self.reporter.position[:2],
                ts,
                self.server.knows_tags,
                logging,
                RedoSeen.of(self.redo, ts),
                **self._begun_since(since),
                may_name_former=tuple(
                    name for name, relay in self.relays.items() if relay.may_name_former
                ),
            )
        )
        self.clone_tables.row(body, ts)
        row = self.waiting[-1]
        self._learn_connected(row)
        self.collection_steps.answered(body, row.state, ts)
        if row.state is not None:
            self.persistence.passed(ts)
            self.info_write_steps.passed(asked_at)
        row.redo.is_of_row &= self.is_known_up_to(row)
        row.log_before = self._log_before(row, read_before)
        if self.ts <= row.ts and not self.is_known_up_to(row):
            self.reporter.note(
                ObservationCode.LOG_STATUS_EARLY,
                observations.ROW_EARLY,
                at=row.body["collection_id"],
                collection_id=row.body["collection_id"],
            )
        self._settle_rows()

    def _begun_since(self, moment: int | None) -> dict[str, Any]:
        """What the journal shows to have begun anew since then; fields of `WaitingRow`."""
        if moment is None:
            return {}
        since = max(moment, 0)  # what did not begin is at -1
        channels = self.baselines.channels.items()
        return {
            "is_behind_reset": self.reset_ts >= since,
            "begun_anew": tuple(name for name, one in channels if one.begun_ts >= since),
        }

    def _learn_connected(self, row: WaitingRow) -> None:
        """A receiver that a row shows connected flushes what it receives before the next row."""
        for name, state in (row.state.channels if row.state else {}).items():
            if name in self.relays and state.receiver is not None and state.receiver.is_running:
                self.relays[name].may_name_former = False

    def _log_before(
        self, row: WaitingRow, read_before: tuple[int, int] | None
    ) -> LogCoordinates | None:
        """Where the binary log ended before a row was read, where the row names less.

        Args:
            row: The row.
            read_before: File number and end of what had been read of the log by then; None: of
                what is remembered nothing, or nobody knows when.
        """
        position = None if row.state is None else row.state.position
        end = self.end_of_binlog()
        if position is None or end is None or not same_family(end, position) or end <= position:
            return None
        if row.body["received_at"] is None:
            return end
        before = None if read_before is None else LogCoordinates(position.base_name, *read_before)
        return before if before is not None and position < before else None

    def _time_answer(
        self, body: dict[str, Any], ts: int
    ) -> tuple[dict[str, Any], int, tuple[int, int] | None, int | None]:
        """The times of an answer by the journal's clock, which it may correct.

        Returns:
            The body, with ``asked_at``, before which nothing was read, and ``behind_us``, by how
            much the clock was behind; the time of the answer; and by the previous clock where the
            binary log ended when it was received, and since when parts of it may have been read.
        """
        clock, was_doubtful = self.clock, self.clock.is_doubtful
        requested_at, received_at = body.get("requested_at"), body.get("received_at")
        taken_us = self.shown_ts - received_at if isinstance(received_at, int) else -1
        if was_doubtful or not 0 <= taken_us <= STEP_MAX_US or ts - taken_us <= self.received_ts:
            received_at = None  # it is not by the clock of this record, or of an earlier answer
        received_ts = ts if received_at is None else ts - taken_us
        window = self.binlog.window
        read_before = None if received_at is None else window.last_end_before(received_ts)
        since = None if received_at is None else received_ts
        lag_before, behind_us = clock.lag, 0
        if "row" in body:  # without a row time goes on only when the server is there again
            if isinstance(requested_at, int):
                self.reporter.is_timed = True
                self.reporter.answered(received_ts, received_ts - requested_at)
            behind_us = clock.answered(requested_at, received_ts)
            self.reporter.lag_us = clock.lag
        if behind_us:
            ts += behind_us
            self.ts = ts
            self.reporter.position = (*self.reporter.position[:2], ts)
            if not was_doubtful:
                self.reporter.fleet_event(FleetEventKind.OBSERVER, {"clock": None})
        if behind_us or clock.times_from_now(lag_before):
            self.time_anew(ts)
        if received_at is not None:
            received_at = ts - taken_us
            if "row" in body:  # an error may overtake the answer to an earlier request
                self.received_ts = received_at
        asked_at = requested_at if received_at is None else received_at
        if was_doubtful or behind_us or (isinstance(asked_at, int) and asked_at > ts):
            # By this clock nothing is known but that the last row came before.
            asked_at = self.answered_ts
        if received_at is None and isinstance(asked_at, int):
            since = max(asked_at, self.answered_ts)
        if "row" in body:
            self.answered_ts = ts
        times = {"asked_at": asked_at, "received_at": received_at, "behind_us": behind_us}
        return {**body, **times}, ts, read_before, since

    def _settle_rows(self, *, force: bool = False) -> None:
        """Judge the rows whose coordinates the journal has reached, or never will."""
        while self.waiting:
            row = self.waiting[0]
            is_ripe = self.ts > row.ts or self.is_known_up_to(row)
            if not (is_ripe or force or len(self.waiting) > WAITING_MAX):
                return
            del self.waiting[0]
            self.learn()
            cuts = judge_answer(row, self, is_early=not is_ripe)
            if self._is_first_answer(row):
                self.cuts += cuts
            self.event_findings = 0

    def _is_first_answer(self, row: WaitingRow) -> bool:
        """Whether no earlier epoch has had the row's collection: a row that is sent again."""
        name = row.body["collection_id"]
        epoch = self.answered.setdefault(name, row.epoch)
        while len(self.answered) > ANSWERED_MAX:
            del self.answered[next(iter(self.answered))]
        return epoch == row.epoch

    handlers: ClassVar[Handlers] = {
        **ServerRecordReader.handlers,
        int(RecordType.LOG_STATUS): _answered,
        int(RecordType.GAP): _gap,
    }
