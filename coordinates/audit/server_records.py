"""The server records of a journal: what each shows, and how it changes what is expected.

Records that are not events of a log: starts, administration, locks, backups, clones. Whoever judges
by one of them has a module of its own; here each record goes to all that want it, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

from tallystick.coordinates.audit.baselines import MasterInfoWrite
from tallystick.coordinates.audit.channel_evidence import written_group
from tallystick.coordinates.audit.fleet_events import FleetEventKind
from tallystick.coordinates.audit.instance_state import InstanceState
from tallystick.coordinates.audit.reporter import Reporter
from tallystick.coordinates.audit.row_rules import note_commits_in_doubt
from tallystick.coordinates.events.journal import RecordType
from tallystick.coordinates.results import ObservationCode
from tallystick.coordinates.rules import observations
from tallystick.coordinates.rules.backup_coordinates import judge_backup
from tallystick.coordinates.rules.channel import judge_pair
from tallystick.coordinates.rules.columns import same_family
from tallystick.coordinates.rules.executed_set import (
    COMMITS_IN_DOUBT,
    CRASHED_WITHOUT_REDO,
    STOP_IN_DOUBT,
    recovered_gtids_complete,
)
from tallystick.coordinates.rules.gtid_persistence import UNDO_GTIDS_RECOVERED
from tallystick.coordinates.rules.image_positions import coordinates_of
from tallystick.coordinates.rules.info_repositories import (
    INFO_REPOSITORY_READ_BACK,
    stored_pair,
    stored_source,
)
from tallystick.coordinates.rules.online_backup import judge_metadata_change
from tallystick.coordinates.rules.outcomes import Broken, Undecided
from tallystick.coordinates.rules.redo_log import FLUSHED_REDO_SURVIVES_START
from tallystick.coordinates.rules.replication_info import (
    GROUP_FORGOTTEN,
    relay_info_coordinates_paired,
)
from tallystick.coordinates.rules.worker_positions import (
    not_after_checkpoint,
    torn_worker,
    worker_positions_end_groups,
)
from tallystick.coordinates.values.binlog import parse_log_file_name
from tallystick.coordinates.values.errors import CoordinateError, GtidSetParseError, JournalError
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from tallystick.coordinates.audit.baselines import ChannelBaselines
    from tallystick.coordinates.audit.fleet_events import FleetEvent
    from tallystick.coordinates.logs.relay_reader import RelayReader

Handlers = Mapping[int, Callable[[Any, dict[str, Any], int], None]]
"""By record type what handles it: the audit, the record's body, its time in microseconds."""
_OF_A_STOP = (
    recovered_gtids_complete,
    UNDO_GTIDS_RECOVERED,
    FLUSHED_REDO_SURVIVES_START,
    INFO_REPOSITORY_READ_BACK,
)
"""Rules that ask more of a start after a clean stop than of one after a crash."""
LINEAGE_ACTIONS = frozenset({"change_source", "reset", "reset_all", "relay_log_recovery"})

_CHECKPOINT = "Checkpoint_relay_log_name", "Checkpoint_relay_log_pos"


class ServerRecordReader(InstanceState):
    """The state of an instance's audit, and what server records change in it.

    Args:
        instance_id: The instance.
        disabled: Names of rules that are not applied.
    """

    def __init__(self, instance_id: str, disabled: frozenset[str] = frozenset()) -> None:
        super().__init__(Reporter(instance_id, disabled))
        self._learned = 0
        """How many of the collected fleet events `applied` has taken in."""

    def learn(self) -> None:
        """Note which transactions the logs have shown since the last call."""
        self.reporter.release()
        fleet_events = self.reporter.fleet_events
        self.applied.learn(fleet_events[self._learned :], self.server.server_id)
        self._learned = len(fleet_events)

    def lose_relay_events(self, name: str) -> None:
        """Part of one channel's relay log is missing: the channel is anchored anew."""
        relay = self.relay(name)
        relay.mark_gap()
        self.anchor_channel(name, relay.lineage)
        self.reporter.fleet_event(FleetEventKind.GAP, {"channel": name})

    def anchor_channel(self, name: str, lineage: int) -> None:
        """Not everything that a channel did was seen: no earlier value bounds what comes."""
        self.learn()
        self.applied.forget()
        self.repositories.forget()
        self.baselines.begin_channel_lineage(name, lineage)
        self.baselines.unseen_channel_left = True

    def take_fleet_events(self) -> list[FleetEvent]:
        """The collected fleet events; the caller delivers them."""
        self.learn()
        fleet_events, self.reporter.fleet_events = self.reporter.fleet_events, []
        self._learned = 0
        return fleet_events

    def lose_sessions(self) -> None:
        """What sessions held and had still to do is gone with the server."""
        self.collections.interrupted()
        self.collection_steps.interrupted()
        self.info_write_steps.interrupted()
        self.online_backup_steps.interrupted()
        self.backup_lock_steps.interrupted()
        self.zones.interrupted()
        self.engine_locks.interrupted()
        self.backup_locks.interrupted()
        self.images.interrupted()
        self.clones.interrupted()

    def _started(self, body: dict[str, Any], ts: int) -> None:
        was_known = self.server.server_uuid is not None or self.has_lost_records or self.has_run
        log_bin, logs_everything = self.server.log_bin, self.server.logs_everything
        is_transactional = self.server.relay_log_info_is_transactional
        self.persistence.may_lose_redo |= was_known and not self.server.commits_are_durable
        crashed = was_known and self._has_crashed(body)
        recovered = body.get("recovered")
        position = None if recovered is None else (recovered["file"], recovered["position"])
        has_logged = logs_everything and position == (self.binlog.file_name, self.binlog.end)
        if crashed and body.get("data_lineage") not in ("restored", "cloned"):
            self._doubt_commits(has_logged=has_logged)
            self._doubt_stop(body)
        self.server.started(body)
        self.reporter.version = self.server.version
        self.reporter.is_mute = False
        if was_known and self.server.log_bin != log_bin:
            self.baselines.log_bin_changed = True
        if body.get("data_lineage") in ("restored", "cloned"):
            self._begin_data_lineage(body["data_lineage"])
        if was_known:
            self.learn()
            if not (logs_everything and self.server.logs_everything):
                self.applied.forget()
            self.applied.started(
                _file_and_position(position), crashed=crashed, is_transactional=is_transactional
            )
            awaits = crashed and self.persistence.awaits_start
            logged = self.binlog.logged.freeze() if awaits else GtidSet.EMPTY
            if awaits and logs_everything and not has_logged:
                self.persistence.leave_out_others(logged)
            self.binlog.server_started(crashed, position)
            gone = logged - self.binlog.logged.freeze() if awaits else GtidSet.EMPTY
            self._judge_found(body, position, ts, gone, crashed=crashed)
        if crashed:
            if self.binlog.xid_groups:
                self.baselines.note_logged()
            self.baselines.lose_redo()
        self.redo_positions.interrupted()
        self.redo.server_started(ts, crashed=crashed, has_logged=has_logged)
        self.baselines.forget_master_info()
        self.baselines.forget_left_out()
        self.baselines.redo_was_disabled |= self.server.redo_is_disabled
        self.baselines.logged_without_flush |= not self.server.flushes_before_logging
        self.stopped_clean = None
        self.lose_sessions()
        self.clone_steps.started(body.get("data_lineage"))
        self.clones.started(body.get("data_lineage"))
        self.clone_tables.started(body.get("data_lineage"), ts)
        for relay in self.relays.values():
            relay.restarted(crashed=crashed or not was_known)
        self._expect_recovered(body, was_known)
        for repository in body.get("repositories") or ():
            self.repositories.started(repository, ts, crashed=crashed)
        self.reporter.fleet_event(
            FleetEventKind.BOOT,
            {
                "server_uuid": self.server.server_uuid,
                "server_id": self.server.server_id,
                "version": self.server.version,
                "cluster": self.server.cluster,
                "variables": dict(self.server.variables),
                "data_lineage": self.data_lineage,
                "binlog_lineage": self.binlog.lineage,
            },
        )

    def _doubt_commits(self, *, has_logged: bool) -> None:
        """A crash may have taken commits from InnoDB, and no redo event will show whether it did.

        Of groups that a row has shown its LSN and that of the next row tell. Without a binary log
        what InnoDB has lost is not in gtid_executed either.

        Args:
            has_logged: Whether the binary log has all that was committed, as it was recovered.
        """
        if self.server.redo_is_disabled:
            note_commits_in_doubt(self.reporter, Undecided(CRASHED_WITHOUT_REDO))
        elif not self.server.log_bin or self.server.flushes_before_logging:
            return
        elif self.server.commits_are_durable:
            # So it is counted, as nobody knows: what was logged after a row says more.
            if has_logged and self.binlog.xid_groups and "LSN" in self.baselines.numbers:
                self.baselines.doubtful_lsn = self.baselines.numbers["LSN"], "unknown"
        elif not (has_logged and self.redo.has_commits):
            policy = str(self.server.variables["innodb_flush_log_at_trx_commit"])
            if self.binlog.xid_groups:
                doubt = Undecided(COMMITS_IN_DOUBT, policy=policy)
                note_commits_in_doubt(self.reporter, doubt)
            elif "LSN" in self.baselines.numbers:
                self.baselines.doubtful_lsn = self.baselines.numbers["LSN"], policy

    def _judge_found(
        self,
        body: dict[str, Any],
        position: tuple[str, int] | None,
        ts: int,
        gone: GtidSet,
        *,
        crashed: bool,
    ) -> None:
        """Judge the GTIDs that InnoDB found, where it is known what a crash took out of the log."""
        is_known = not (crashed and self.server.log_bin) or position is not None
        may_lose_redo = self.persistence.may_lose_redo or not self.server.commits_are_durable
        if not is_known or may_lose_redo:
            self.persistence.interrupted()
        self.persistence.started(body, ts, crashed=crashed, gone=gone)

    def _has_crashed(self, body: Mapping[str, Any]) -> bool:
        """Whether the previous boot may have ended without a clean stop."""
        crashed = body.get("crashed")
        if crashed is None:
            return not (self.stopped_clean or self.binlog.is_closed)
        return bool(crashed) or self.stopped_clean is False

    def _doubt_stop(self, body: Mapping[str, Any]) -> None:
        """What a clean stop leaves is not asked where stop and start differ, nor known to be there.

        A start in between that failed before it was seen may explain both.
        """
        crashed = body.get("crashed")
        if crashed is None or crashed is not self.stopped_clean:
            return
        stopped, started = ("clean", "after a crash") if crashed else ("a crash", "after no crash")
        rules = tuple(rule for rule in _OF_A_STOP if rule.name not in self.reporter.disabled)
        if rules:
            self.reporter.note(
                ObservationCode.COMPARISON_UNDECIDED,
                STOP_IN_DOUBT,
                at="the start after the stop",
                rules=rules,
                is_undecided=True,
                stopped=stopped,
                started=started,
            )

    def _expect_recovered(self, body: Mapping[str, Any], was_known: bool) -> None:
        """What recovery found must be in the first row of the boot."""
        found = GtidSet.EMPTY
        if was_known and self.binlog.logged_is_complete:
            found = self.binlog.logged.freeze()
        self.baselines.must_recover = found
        for key in ("gtid_executed_table", "undo_gtids"):
            self._expect_executed(body.get(key))

    def _expect_executed(self, found: object) -> None:
        """The next row must have what a start has found."""
        if isinstance(found, str):
            with suppress(GtidSetParseError):
                gtids = GtidSet.parse(found, tags=self.server.knows_tags)
                self.baselines.must_recover = gtids | (self.baselines.must_recover or GtidSet.EMPTY)

    def _begin_data_lineage(self, reason: str) -> None:
        self.data_lineage += 1
        self.baselines.begin_data_lineage()
        self.binlog.begin_lineage(reason)
        self.redo.mark_gap()
        self.redo_positions.forget_samples()
        self.persistence.begin_data_lineage()
        self.recovery_steps.begin_data_lineage()
        self.relays.clear()
        self.learn()
        self.applied.forget()
        self.repositories.forget()

    def _stopped(self, body: dict[str, Any], ts: int) -> None:
        self.stopped_clean, self.stopped_ts = body.get("clean", True), ts
        self.server.stopped()
        self.lose_sessions()

    def _variables_changed(self, body: dict[str, Any], ts: int) -> None:
        period = self.server.number("sync_source_info")
        self.persistence.may_lose_redo |= not self.server.commits_are_durable
        self.server.changed(body["variables"])
        self.redo.settings_changed()
        if self.server.number("sync_source_info") != period:
            self.baselines.forget_master_info()
        self.baselines.redo_was_disabled |= self.server.redo_is_disabled
        self.baselines.logged_without_flush |= not self.server.flushes_before_logging

    def _purged(self, body: dict[str, Any], ts: int) -> None:
        self.binlog.purge(body["to_file"])
        self.purged_ts = ts

    def _reset(self, body: dict[str, Any], ts: int) -> None:
        self.collections.progress("binlog_reset")
        self.backup_locks.log_began_anew()
        self.redo_positions.log_began_anew()
        executed = self.baselines.executed
        if executed:
            self.reporter.note(
                ObservationCode.HISTORY_RESET,
                observations.HISTORY_RESET,
                at="RESET",
                gtids=executed,
                count=executed.count(),
            )
        self.baselines.begin_binlog_lineage()
        for name, channel in self.baselines.channels.items():
            relay = self.relays.get(name)
            channel.reset_at = None if relay is None else relay.end_coordinates
        self.reset_ts = ts
        self.binlog.begin_lineage("reset")
        self.persistence.reset()
        self.clones.log_began_anew()
        self.learn()
        self.applied.forget()

    def _gtids_assigned(self, body: dict[str, Any], ts: int) -> None:
        try:
            added = GtidSet.parse(body["added"].removeprefix("+"), tags=self.server.knows_tags)
        except GtidSetParseError as error:
            raise JournalError(f"key 'added': {error}") from None
        self.collections.progress("gtid_purged_assigned")
        self.baselines.assigned = self.baselines.assigned | added
        self.reporter.fleet_event(FleetEventKind.GTID_PURGED, {"added": str(added)})

    def _channel_administered(self, body: dict[str, Any], ts: int) -> None:
        name, action = body["channel"], body["action"]
        if action not in ("reconnect", "relay_purge"):
            self.collections.progress("channel_administered", name=name, action=action)
        channel = self.baselines.channel(name)
        relay = self.relay(name)
        left_at, left_uuid = channel.relay, channel.source_uuid
        was_unseen = relay.base_name is None or not relay.received_is_complete
        waiting = _waiting(channel, relay) if action == "reset_all" else GtidSet.EMPTY
        if action in LINEAGE_ACTIONS:
            relay.begin_lineage()
            self.baselines.begin_channel_lineage(name, relay.lineage)
        if action in ("reset", "reset_all", "change_source"):
            relay.forget_files()
            self.learn()
            self.applied.begin_channel()
            self.repositories.administered(name, action)
        if action == "reset_all":
            if was_unseen:
                self.baselines.unseen_channel_left = True
            self.baselines.remove_channel(name, waiting)
        elif action == "change_source":
            instance = body.get("source_instance")
            is_other = instance is not None and instance != channel.source_instance
            known = None if is_other else channel.source_uuid
            channel.source_uuid, channel.source_instance = body.get("source_uuid", known), instance
            channel.auto_position = body.get("auto_position", True)
            channel.configure_filters(
                is_filtered=bool(body.get("filtered")),
                ignores_servers=bool(body.get("ignore_server_ids")),
            )
            if left_uuid is not None and channel.source_uuid != left_uuid:
                channel.is_left, channel.left_at = True, left_at or channel.left_at
        if action in ("reconnect", "start_receiver"):
            relay.reconnected()
        if action == "flush_relay_logs" and {"source_log_file", "source_log_pos"} <= body.keys():
            relay.rotated(body["source_log_file"], body["source_log_pos"])
        if action in ("start_receiver", "stop_receiver", *LINEAGE_ACTIONS):
            channel.receiver_stopped_at = ts if action == "stop_receiver" else None
        if action in LINEAGE_ACTIONS:
            channel.begun_ts = ts
            relay.may_name_former = action == "change_source"
        self.info_write_steps.administered(name, action, ts)
        self.clones.channel_administered(name, action, ts)
        self.reporter.fleet_event(
            FleetEventKind.CHANNEL, {**body, "channel_lineage": relay.lineage}
        )

    def _collection_stepped(self, body: dict[str, Any], ts: int) -> None:
        self.collections.step(body, ts)
        self.collection_steps.step(body, ts)

    def _info_written(self, body: dict[str, Any], ts: int) -> None:
        self.repositories.written(body)
        self.info_write_steps.written(body)
        self._judge_written_pair(body)
        if body["table"] == "slave_master_info":
            self.collections.progress("positions_flushed")
            self._master_info_written(body)
        self.backup_lock_freeze.info_written(body, ts)

    def _judge_written_pair(self, body: dict[str, Any]) -> None:
        """Relay and source coordinates are written together: at the end of one group."""
        name, table = body["channel"], body["table"]
        relay = self.relays.get(name)
        if relay is None:
            return
        at, source = stored_pair(table, body["row"])
        if at is None or source is None:
            return
        source = relay.file_names.in_its_file(at, source)
        group = written_group(relay, at, source)
        answer, rule = judge_pair(group, at, source, GROUP_FORGOTTEN), relay_info_coordinates_paired
        if table == "slave_worker_info":
            rule, row, number = worker_positions_end_groups, body["row"], body["row"].get("Id")
            if isinstance(answer, Broken):
                answer = torn_worker(number, at, source, answer.data["end"])
            else:
                checkpoint = coordinates_of(row, *_CHECKPOINT)
                answer = not_after_checkpoint(number, at, checkpoint) or answer
        if not isinstance(answer, Broken):
            return
        self.reporter.broken(rule, answer, at=f"write of {at}", channel=name)

    def _master_info_written(self, body: dict[str, Any]) -> None:
        """A row that waits was read before this write: nothing is known at its instant.

        Nor is anything known of a write for a connection that is still to come, after relay log
        recovery: no event of it is in the relay log.
        """
        name = body["channel"]
        stored, relay = stored_source(body["row"]), self.relays.get(name)
        write = None
        if stored is not None and relay is not None and not self.waiting:
            is_to_come = relay.may_step_back and stored.base_name == relay.source_base
            read = relay.source_number, relay.source_end
            if not is_to_come or (stored.file_number, stored.position) >= read:
                write = MasterInfoWrite(stored, relay.steps_back)
        self.baselines.channel(name).master_info = write

    def _zone_stepped(self, body: dict[str, Any], ts: int) -> None:
        self.zones.step(body, ts)
        self.online_backup_steps.zone(body, ts)
        self.images.zone(body)

    def _backup_locked(self, body: dict[str, Any], ts: int) -> None:
        self.backup_locks.step(body, ts, self.end_of_binlog(), self.baselines)
        self.backup_lock_steps.lock(body, self.end_of_binlog())
        self.redo_positions.backup_lock(body)

    def _statement_executed(self, body: dict[str, Any], ts: int) -> None:
        self.backup_lock_freeze.statement(body, ts)
        self.engine_locks.statement(body, ts)
        judge_metadata_change(self.reporter, body, ts, self.backup_locks.holder("instance"))

    def _backed_up(self, body: dict[str, Any], ts: int) -> None:
        """An image made under backup locks shows where its coordinates are from, others do not."""
        self.redo_positions.backup(body)
        if body["step"] == "image" and "coordinates_from" in body:
            judge_backup(body, self)
            self.online_backup_steps.image_under_locks(body["backup_id"])
        elif body["step"] == "end":
            self.backup_locks.backup_ended(
                self.backup_lock_steps.session_of(body),
                body["backup_id"],
                failed="error" in body,
                others=self.backup_lock_steps.other_sessions(body),
            )
        session = self.backup_locks.session(str(body.get("session", "")))
        self.backup_lock_steps.backup(
            body,
            ts,
            held=() if session is None else tuple(session.held),
            may_be_safe=self.server.may_be_backup_safe,
            log_end=self.end_of_binlog() if self.server.logs_everything else None,
        )
        if "coordinates_from" not in body:
            self.online_backup_steps.backup(body, ts)
            self.images.step(body, ts)
        self.recovery_steps.step(body, ts)
        if body["step"] not in ("begin", "end"):
            image = {**body, "binlog_lineage": self.binlog.lineage, "logged": self._logged_at(body)}
            self.reporter.fleet_event(FleetEventKind.BACKUP, image)

    def _logged_at(self, image: Mapping[str, Any]) -> str | None:
        """What was logged at an image's coordinates, None not known."""
        position, binlog = coordinates_of(image, "binlog_file", "binlog_position"), self.binlog
        if position is None or position.base_name != binlog.base_name or binlog.offsets_doubtful:
            return None
        logged = binlog.logged_at(position.file_number, position.position)
        return None if logged is None else str(logged)

    def _engine_locked(self, body: dict[str, Any], ts: int) -> None:
        self.engine_locks.step(body, ts)
        self.online_backup_steps.engine_lock(body, ts)

    def _gtids_persisted(self, body: dict[str, Any], ts: int) -> None:
        if body["step"] == "recover":
            self._expect_executed(body.get("gtids"))
        self.persistence.step(body, ts)

    def _clone_stepped(self, body: dict[str, Any], ts: int) -> None:
        self.clones.clone(body, ts)
        self.clone_steps.step(body, ts, logs=self.server.log_bin)
        self.clone_tables.step(body, ts)
        self.redo_positions.clone(body)
        self.reporter.fleet_event(FleetEventKind.CLONE, dict(body))

    def _redo_sampled(self, body: dict[str, Any], ts: int) -> None:
        self.redo_positions.status(body)

    def _observed(self, body: dict[str, Any], ts: int) -> None:
        self.reporter.fleet_event(FleetEventKind.OBSERVER, {"clock": body["clock"]})
        self.reporter.is_timed = True
        self.time_anew(ts)  # what came before is by another clock

    def _heartbeat(self, body: dict[str, Any], ts: int) -> None:
        self.reporter.fleet_event(FleetEventKind.TIME, {})
        if body.get("ends"):
            self.reporter.fleet_event(FleetEventKind.OBSERVER_ENDED, {})

    handlers: ClassVar[Handlers] = {
        int(RecordType.START): _started,
        int(RecordType.STOP): _stopped,
        int(RecordType.VARIABLES): _variables_changed,
        int(RecordType.BINLOG_PURGE): _purged,
        int(RecordType.BINLOG_RESET): _reset,
        int(RecordType.CHANNEL): _channel_administered,
        int(RecordType.GTID_PURGED): _gtids_assigned,
        int(RecordType.COLLECTION): _collection_stepped,
        int(RecordType.INFO_WRITE): _info_written,
        int(RecordType.ZONE): _zone_stepped,
        int(RecordType.BACKUP_LOCK): _backup_locked,
        int(RecordType.ENGINE_LOCK): _engine_locked,
        int(RecordType.CLONE): _clone_stepped,
        int(RecordType.GTID_PERSISTER): _gtids_persisted,
        int(RecordType.OBSERVER): _observed,
        int(RecordType.HEARTBEAT): _heartbeat,
        int(RecordType.STATEMENT): _statement_executed,
        int(RecordType.BACKUP): _backed_up,
        int(RecordType.REDO_STATUS): _redo_sampled,
    }


def _waiting(channel: ChannelBaselines, relay: RelayReader) -> GtidSet:
    """What a channel has received and not executed, as far as a row shows it.

    What came before RESET may have been executed: the server forgot what was.
    """
    since, reset_at = channel.applied, channel.reset_at
    if since is None:
        return GtidSet.EMPTY
    if reset_at is not None and same_family(since, reset_at) and since < reset_at:
        since = reset_at
    return relay.waiting_behind(since)


def _file_and_position(position: tuple[str, int] | None) -> tuple[int, int] | None:
    """The number of a binary log file, and the position in it; None if it is no file's name."""
    if position is None:
        return None
    try:
        return parse_log_file_name(position[0])[1], position[1]
    except CoordinateError:
        return None
