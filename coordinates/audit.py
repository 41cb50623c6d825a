"""The audit of one instance: a pure step from state and block to state, findings, cuts and facts.

`InstanceAudit` reads an instance's journal in order. Events go to the readers of their log; facts
about the server change what is expected; a log_status row is judged against everything read so
far, at the place where the journal has reached the row's coordinates. No clock, no I/O: the same
blocks give the same answers wherever and however they are cut.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from coordinates import log_reader
from coordinates._record_fields import read_fact
from coordinates.binlog import parse_log_file_name
from coordinates.errors import CoordinateError, GtidSetParseError, JournalError
from coordinates.facts import FactKind
from coordinates.gtid import GtidSet
from coordinates.instance_state import InstanceState, WaitingRow
from coordinates.journal import RecordType, Stream
from coordinates.judging.backup_coordinates import judge_backup
from coordinates.judging.status import judge_answer
from coordinates.log_events import EventColumns
from coordinates.verdict import ObservationCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from coordinates.cut import Cut
    from coordinates.facts import Fact
    from coordinates.journal import Block
    from coordinates.verdict import Finding, Observation

LINEAGE_ACTIONS = frozenset({"change_source", "reset", "reset_all", "relay_log_recovery"})
WAITING_MAX = 32
_SERVER, _BINLOG = int(Stream.SERVER), int(Stream.BINLOG)


@dataclass(slots=True)
class AuditOutput:
    """What one step of an instance's audit brought, in journal order."""

    findings: list[Finding] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)
    cuts: list[Cut] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)


class InstanceAudit(InstanceState):
    """The audit of one instance: its state, and the step that changes it.

    Args:
        instance_id: The instance.
        disabled: Names of invariants that are not judged.
    """

    def __init__(self, instance_id: str, disabled: frozenset[str] = frozenset()) -> None:
        super().__init__(instance_id, disabled)
        self._learned = 0
        """How many of the facts in hand the account of transactions has taken."""
        self._handlers: dict[int, Callable[[dict[str, Any], int], None]] = {
            RecordType.START: self._started,
            RecordType.STOP: self._stopped,
            RecordType.VARIABLES: self._variables_changed,
            RecordType.LOG_STATUS: self._answered,
            RecordType.BINLOG_PURGE: self._purged,
            RecordType.BINLOG_RESET: self._reset,
            RecordType.CHANNEL: self._channel_administered,
            RecordType.GTID_PURGED: self._gtids_assigned,
            RecordType.COLLECTION: self._collection_stepped,
            RecordType.INFO_WRITE: self._info_written,
            RecordType.ZONE: self._zone_stepped,
            RecordType.BACKUP_LOCK: self._backup_locked,
            RecordType.ENGINE_LOCK: self.engine_locks.step,
            RecordType.CLONE: self._clone_stepped,
            RecordType.GTID_PERSISTER: self.persistence.step,
            RecordType.HEARTBEAT: self._heartbeat,
            RecordType.GAP: self._gap,
            RecordType.STATEMENT: self._statement_executed,
            RecordType.BACKUP: self._backed_up,
        }

    # The step

    def absorb(self, block: Block) -> AuditOutput:
        """Read the next block of the journal; repeated and missing records are noticed here.

        A fact that cannot be read is told and counts as missing records, unless it is an answer to
        a collection, which changes nothing that comes behind it.

        Raises:
            JournalError: The block is of another instance.
        """
        if block.instance_id != self.instance_id:
            raise JournalError(
                f"expected a block of instance {self.instance_id!r}, got {block.instance_id!r}"
            )
        if len(block):
            fresh = self._admit(block)
            if fresh is not None:
                self._read(fresh)
        return self._output()

    def note_unreadable(self, reason: str, ts: int | None = None) -> AuditOutput:
        """A block of this instance could not be read: what it held counts as a gap."""
        self.reporter.look_at(self.epoch, self.next_sequence, self.ts if ts is None else ts)
        self.reporter.note(
            ObservationCode.BLOCK_UNREADABLE,
            f"a block could not be read and went to the dead letters: {reason}",
            at=f"{self.epoch}:{self.next_sequence}",
            is_undecided=True,
        )
        self._lose_records()
        return self._output()

    def finish(self) -> AuditOutput:
        """The end of a finished journal: rows that still wait are undecided."""
        self._settle_rows(force=True)
        return self._output()

    def _output(self) -> AuditOutput:
        self.reporter.release()
        output = AuditOutput(
            self.reporter.findings, self.reporter.observations, self.cuts, self.reporter.facts
        )
        self.reporter.findings = []
        self.reporter.observations = []
        self._learn()
        self.reporter.facts = []
        self._learned = 0
        self.cuts = []
        return output

    def _learn(self) -> None:
        """Note which transactions the logs have shown since the last call."""
        self.reporter.release()
        facts = self.reporter.facts
        self.applied.learn(facts[self._learned :], self.server.server_id)
        self._learned = len(facts)

    # Transport

    def _admit(self, block: Block) -> Block | None:
        """The part of the block that is new; gaps and repeats are told."""
        self.reporter.look_at(
            block.epoch, block.first_sequence, max(self.ts, int(block.columns["ts"][0]))
        )
        at = f"{block.epoch}:{block.first_sequence}"
        if block.epoch < self.epoch:
            self.reporter.note(
                ObservationCode.JOURNAL_STALE_EPOCH,
                f"a block of epoch {block.epoch} came after epoch {self.epoch}: dropped",
                at=at,
            )
            return None
        if block.epoch > self.epoch:
            is_first = self.epoch < 0
            self.epoch = block.epoch
            self.next_sequence = block.first_sequence if is_first else 0
            if not is_first:
                self.reporter.note(
                    ObservationCode.JOURNAL_GAP,
                    f"the producer began epoch {block.epoch}: what happened in between is unknown",
                    at=at,
                    is_undecided=True,
                )
                self._lose_records()
        if block.first_sequence > self.next_sequence:
            self.reporter.note(
                ObservationCode.JOURNAL_GAP,
                f"records {self.next_sequence} to {block.first_sequence - 1} are missing",
                at=f"{block.epoch}:{self.next_sequence}",
                is_undecided=True,
            )
            self._lose_records()
        known = max(0, self.next_sequence - block.first_sequence)
        if known >= len(block):
            self.reporter.note(
                ObservationCode.JOURNAL_REPEATED,
                f"records {block.first_sequence} to {block.next_sequence - 1} came again: dropped",
                at=at,
            )
            return None
        self.next_sequence = block.next_sequence
        return block.take(known, len(block)) if known else block

    def _lose_records(self) -> None:
        """Part of the journal is missing: everything is anchored anew."""
        # Whether the journal reached the rows that wait is now unknowable: they are undecided.
        self._settle_rows(force=True)
        self._learn()
        self.applied.forget()
        self.repositories.forget()
        self.reporter.fact(FactKind.GAP, {})
        self.binlog.mark_gap()
        for relay in self.relays.values():
            relay.mark_gap()
        # A RESET may have gone unseen: no baseline of before is comparable any more.
        self.history.forget_rows()
        self.collections.interrupted()
        self._lose_backups(records_lost=True)
        self.clones.interrupted(records_lost=True)
        self.clone_tables.forget()
        self.persistence.interrupted()

    def _lose_backups(self, *, records_lost: bool) -> None:
        """What backups held is gone with the server, or not known any more."""
        self.zones.interrupted(records_lost=records_lost)
        self.engine_locks.interrupted()
        self.metadata_lock.interrupted()
        self.backup_locks.interrupted()
        self.images.interrupted()

    # Reading

    def _read(self, block: Block) -> None:
        streams = block.columns["stream"]
        events = EventColumns(block)
        places = np.flatnonzero(streams == _SERVER)
        types = block.columns["type"][places].tolist()
        times = block.columns["ts"][places].tolist()
        at = 0
        for index, record_type, ts in zip(places.tolist(), types, times, strict=True):
            if index > at:
                self._read_events(block, at, index, events)
            self._read_server_record(block, index, record_type, ts)
            at = index + 1
        if at < len(block):
            self._read_events(block, at, len(block), events)
        self.ts = max(self.ts, int(block.columns["ts"][-1]))

    def _read_events(self, block: Block, first: int, last: int, events: EventColumns) -> None:
        before = len(self.reporter.findings)
        if self.backup_locks.is_held:
            self._read_under_locks(block, first, last)
        # A waiting row is judged right behind the event that reaches it, so one by one.
        while self.waiting and first < last:
            self._read_few(block, first, first + 1, events)
            self.event_findings += len(self.reporter.findings) - before
            self.ts = int(block.columns["ts"][first])
            self._settle_rows()
            before = len(self.reporter.findings)
            first += 1
        if first < last:
            read = self._read_few if last - first < log_reader.FAST_MIN else self._read_many
            read(block, first, last, events)
            self.event_findings += len(self.reporter.findings) - before
            self.ts = int(block.columns["ts"][last - 1])

    def _read_few(self, block: Block, first: int, last: int, events: EventColumns) -> None:
        """Read the events between two facts one by one."""
        streams = block.columns["stream"][first:last].tolist()
        channels = block.columns["channel"][first:last].tolist()
        is_first = True
        for index, stream, channel in zip(range(first, last), streams, channels, strict=True):
            if stream != _BINLOG:
                self.relay(_channel_name(block, channel)).read_event(block, index, events)
                continue
            if is_first:
                self._binlog_grows(block, index)
                is_first = False
            if self.clones.blocks_xa:
                self.clones.logged(block, index)
            self.binlog.read_event(block, index, events)

    def _read_many(self, block: Block, first: int, last: int, events: EventColumns) -> None:
        """Read the events between two facts log by log, where they are regular in one step."""
        is_binlog = block.columns["stream"][first:last] == _BINLOG
        if is_binlog.any():
            indices = np.flatnonzero(is_binlog) + first
            if self.clones.blocks_xa:
                for index in indices.tolist():
                    self.clones.logged(block, index)
            self._binlog_grows(block, int(indices[0]))
            self.binlog.read(block, indices, events)
        if not is_binlog.all():
            channels = block.columns["channel"][first:last]
            for number in np.unique(channels[~is_binlog]).tolist():
                indices = np.flatnonzero(~is_binlog & (channels == number)) + first
                self.relay(_channel_name(block, number)).read(block, indices, events)

    def _binlog_grows(self, block: Block, index: int) -> None:
        """Judge what forbids that; the first event of several is at ``index``."""
        if not (self.collections.is_open or self.engine_locks.freezes_binlog):
            return
        self.reporter.look_at(
            block.epoch, block.first_sequence + index, int(block.columns["ts"][index])
        )
        if self.collections.is_open:
            self.collections.progress("A binary log event was written")
        if self.engine_locks.freezes_binlog:
            file = int(block.columns["file"][index])
            name = block.files[file] if file >= 0 else ""
            self.engine_locks.binlog_grew(f"{name}:{int(block.columns['start'][index])}")

    def _read_under_locks(self, block: Block, first: int, last: int) -> None:
        """Judge events that are written while a backup holds its locks."""
        streams = block.columns["stream"][first:last].tolist()
        channels = block.columns["channel"][first:last].tolist()
        for index, stream, channel in zip(range(first, last), streams, channels, strict=True):
            if stream == _BINLOG:
                self.backup_locks.logged(block, index)
            else:
                self.backup_locks.received(block, index, _channel_name(block, channel))

    def _read_server_record(self, block: Block, index: int, record_type: int, ts: int) -> None:
        if record_type == RecordType.GAP:
            # What was lost came before: rows that wait are not late by its time.
            self._settle_rows(force=True)
        self.ts = max(self.ts, ts)
        if self.waiting:
            self._settle_rows()
        self.reporter.look_at(block.epoch, block.first_sequence + index, ts)
        try:
            body = read_fact(block, index)
            self._handlers[record_type](body, ts)
        except JournalError as error:
            self.reporter.note(
                ObservationCode.BLOCK_UNREADABLE,
                f"record {block.first_sequence + index} could not be read: {error}",
                at=f"{block.epoch}:{block.first_sequence + index}",
                is_undecided=True,
            )
            if record_type != RecordType.LOG_STATUS:
                self._lose_records()

    # Facts about the server

    def _started(self, body: dict[str, Any], ts: int) -> None:
        was_known = self.server.server_uuid is not None
        log_bin = self.server.log_bin
        self.server.started(body)
        if was_known and self.server.log_bin != log_bin:
            self.history.log_bin_changed = True
        if body.get("data_lineage") in ("restored", "cloned"):
            self._begin_data_lineage(str(body["data_lineage"]))
        recovered = body.get("recovered")
        place = None
        if isinstance(recovered, dict) and recovered.get("file"):
            place = (str(recovered["file"]), int(recovered.get("position", 0)))
        crashed = was_known and self._has_crashed(body)
        if was_known:
            self._learn()
            self.applied.started(_file_and_position(place), crashed=crashed)
            awaits = crashed and self.persistence.awaits_start
            logged = self.binlog.logged.freeze() if awaits else GtidSet.EMPTY
            self.binlog.server_started(crashed, place)
            gone = logged - self.binlog.logged.freeze() if awaits else GtidSet.EMPTY
            self._judge_found(body, place, ts, gone, crashed=crashed)
        if crashed:
            self.history.lose_redo()
        self.has_stopped = False
        self.collections.interrupted()
        self._lose_backups(records_lost=False)
        self.clones.interrupted(records_lost=False)
        self.clones.started(body.get("data_lineage"))
        self.clone_tables.started(body.get("data_lineage"), ts)
        for relay in self.relays.values():
            relay.reconnected()
        self._expect_recovered(body, was_known)
        for repository in body.get("repositories") or ():
            self.repositories.started(repository, ts, crashed=crashed)
        self.reporter.fact(
            FactKind.BOOT,
            {
                "server_uuid": self.server.server_uuid,
                "server_id": self.server.server_id,
                "version": self.server.version,
                "variables": dict(self.server.variables),
                "data_lineage": self.data_lineage,
                "binlog_lineage": self.binlog.lineage,
            },
        )

    def _judge_found(
        self,
        body: dict[str, Any],
        place: tuple[str, int] | None,
        ts: int,
        gone: GtidSet,
        *,
        crashed: bool,
    ) -> None:
        """Judge the GTIDs that InnoDB found, where it is known what a crash took out of the log."""
        is_known = not (crashed and self.server.log_bin) or place is not None
        flush = self.server.variables.get("innodb_flush_log_at_trx_commit", 1)
        if not is_known or str(flush) != "1":
            self.persistence.interrupted()
        self.persistence.started(body, ts, crashed=crashed, gone=gone)

    def _has_crashed(self, body: Mapping[str, Any]) -> bool:
        """Whether the boot before may have ended without a clean stop."""
        told = body.get("crashed")
        if told is None:
            return not (self.has_stopped or self.binlog.is_closed)
        return bool(told)

    def _expect_recovered(self, body: Mapping[str, Any], was_known: bool) -> None:
        """What recovery found must be in the first row of the boot."""
        found = GtidSet.EMPTY
        if was_known and self.binlog.logged_is_complete:
            found = self.binlog.logged.freeze()
        for key in ("gtid_executed_table", "undo_gtids"):
            if isinstance(body.get(key), str):
                try:
                    found = found | GtidSet.parse(body[key], tags=self.server.knows_tags)
                except GtidSetParseError:
                    continue
        self.history.must_recover = found

    def _begin_data_lineage(self, reason: str) -> None:
        self.data_lineage += 1
        self.history.begin_data_lineage()
        self.binlog.begin_lineage(reason)
        self.persistence.begin_data_lineage()
        self.relays.clear()
        self._learn()
        self.applied.forget()
        self.repositories.forget()

    def _stopped(self, body: dict[str, Any], ts: int) -> None:
        self.has_stopped = bool(body.get("clean", True))
        self.collections.interrupted()
        self._lose_backups(records_lost=False)

    def _variables_changed(self, body: dict[str, Any], ts: int) -> None:
        variables = body.get("variables")
        self.server.changed(variables if isinstance(variables, dict) else {})

    def _purged(self, body: dict[str, Any], ts: int) -> None:
        self.binlog.purge(str(body.get("to_file", "")))

    def _reset(self, body: dict[str, Any], ts: int) -> None:
        self.collections.progress("The binary log was reset")
        self.backup_locks.log_began_anew()
        self.history.begin_binlog_lineage()
        self.binlog.begin_lineage("reset")
        self.persistence.reset()
        self._learn()
        self.applied.forget()

    def _gtids_assigned(self, body: dict[str, Any], ts: int) -> None:
        try:
            added = GtidSet.parse(body["added"].removeprefix("+"), tags=self.server.knows_tags)
        except GtidSetParseError as error:
            raise JournalError(f"key 'added': {error}") from None
        self.collections.progress("gtid_purged was assigned")
        self.history.assigned = self.history.assigned | added
        self.reporter.fact(FactKind.GTID_PURGED, {"added": str(added)})

    def _channel_administered(self, body: dict[str, Any], ts: int) -> None:
        name = str(body.get("channel", "")).lower()
        action = body.get("action")
        if action not in ("reconnect", "relay_purge"):
            self.collections.progress(f"Channel {name!r} was administered ({action})")
        channel = self.history.channel(name)
        relay = self.relay(name)
        was_unseen = relay.base_name is None or not relay.received_is_complete
        if action in LINEAGE_ACTIONS:
            relay.begin_lineage()
            self.history.begin_channel_lineage(name, relay.lineage)
        if action in ("reset", "reset_all", "change_source"):
            relay.forget_files()
            self._learn()
            self.applied.forget()
            self.repositories.administered(name, action)
        if action == "reset_all":
            if was_unseen:
                self.history.unseen_channel_left = True
            del self.history.channels[name]
        elif action == "change_source":
            channel.source_uuid = body.get("source_uuid", channel.source_uuid)
            channel.source_instance = body.get("source_instance")
            channel.auto_position = bool(body.get("auto_position", True))
            channel.is_filtered = bool(body.get("filtered") or body.get("ignore_server_ids"))
        if action in ("reconnect", "start_receiver"):
            relay.reconnected()
        if action in ("start_receiver", "stop_receiver", *LINEAGE_ACTIONS):
            channel.receiver_stopped_at = ts if action == "stop_receiver" else None
        self.clones.channel_administered(name, str(action), ts)
        self.reporter.fact(FactKind.CHANNEL, {**body, "channel_lineage": relay.lineage})

    def _collection_stepped(self, body: dict[str, Any], ts: int) -> None:
        self.collections.step(body, ts)

    def _info_written(self, body: dict[str, Any], ts: int) -> None:
        self.repositories.written(body)
        if body.get("table") == "slave_master_info":
            self.collections.progress("The receiver flushed its positions")
        self.backup_locks.info_written(body, ts)

    def _zone_stepped(self, body: dict[str, Any], ts: int) -> None:
        self.zones.step(body, ts)
        self.images.zone(body["step"])

    def _backup_locked(self, body: dict[str, Any], ts: int) -> None:
        self.backup_locks.step(body, ts, self.end_of_binlog(), self.history)
        self.metadata_lock.lock(body)

    def _statement_executed(self, body: dict[str, Any], ts: int) -> None:
        self.backup_locks.statement(body, ts)
        self.engine_locks.statement(body, ts)
        self.metadata_lock.statement(body, ts)

    def _backed_up(self, body: dict[str, Any], ts: int) -> None:
        """An image made under backup locks tells where its coordinates are from, others do not."""
        if body["step"] == "image" and "coordinates_from" in body:
            judge_backup(body, self)
        elif body["step"] == "end":
            self.backup_locks.backup_ended(
                str(body.get("session", "")), body["backup_id"], failed="error" in body
            )
        if "coordinates_from" not in body:
            self.images.step(body)
            if body["step"] not in ("begin", "end"):
                told = {**body, "binlog_lineage": self.binlog.lineage}
                self.reporter.fact(FactKind.BACKUP, told)

    def _clone_stepped(self, body: dict[str, Any], ts: int) -> None:
        self.clones.clone(body, ts)
        self.clone_tables.step(body, ts)
        self.reporter.fact(FactKind.CLONE, dict(body))

    def _heartbeat(self, body: dict[str, Any], ts: int) -> None:
        self.reporter.fact(FactKind.TIME, {})

    def _gap(self, body: dict[str, Any], ts: int) -> None:
        self.reporter.note(
            ObservationCode.JOURNAL_GAP,
            "the observer lost records here",
            at=f"{self.reporter.epoch}:{self.reporter.sequence}",
            is_undecided=True,
        )
        self._lose_records()

    # Rows

    def _answered(self, body: dict[str, Any], ts: int) -> None:
        self.waiting.append(
            WaitingRow(
                body, self.reporter.epoch, self.reporter.sequence, ts, self.server.knows_tags
            )
        )
        self.clone_tables.row(body, ts)
        row = self.waiting[-1]
        if self.ts <= row.ts and not self.has_reached(row):
            self.reporter.note(
                ObservationCode.LOG_STATUS_EARLY,
                f"the row of collection {row.body['collection_id']} names coordinates that the "
                "journal has not reached: it waits for what was written up to its time",
                at=row.body["collection_id"],
                collection_id=row.body["collection_id"],
            )
        self._settle_rows()

    def _settle_rows(self, *, force: bool = False) -> None:
        """Judge the rows whose coordinates the journal has reached, or never will."""
        while self.waiting:
            row = self.waiting[0]
            is_ripe = self.ts > row.ts or self.has_reached(row)
            if not (is_ripe or force or len(self.waiting) > WAITING_MAX):
                return
            del self.waiting[0]
            self._learn()
            self.cuts += judge_answer(row, self, is_early=not is_ripe)
            self.event_findings = 0


def _channel_name(block: Block, number: int) -> str:
    return block.channels[number].lower() if 0 <= number < len(block.channels) else ""


def _file_and_position(place: tuple[str, int] | None) -> tuple[int, int] | None:
    """The number of a binary log file, and the position in it; None if it is no file's name."""
    if place is None:
        return None
    try:
        return parse_log_file_name(place[0])[1], place[1]
    except CoordinateError:
        return None
