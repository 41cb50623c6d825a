"""Fleet events are read: into the instances' timelines, and as comparisons into the queues."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tallystick.coordinates.audit.comparison import (
    ImageChannel,
    RestoredServer,
    RestoreMade,
    RunningRecovery,
)
from tallystick.coordinates.audit.finding_collector import Subject
from tallystick.coordinates.audit.fleet_event_order import OF_LOGS
from tallystick.coordinates.audit.fleet_events import FleetEvent, FleetEventKind
from tallystick.coordinates.audit.instance_timeline import HEARTBEATS_MAX, InstanceTimeline
from tallystick.coordinates.audit.journal_position import JournalPosition
from tallystick.coordinates.audit.origins import BINLOG, OriginColumns, Origins
from tallystick.coordinates.audit.packed_events import BinlogGroups
from tallystick.coordinates.audit.replica import (
    BEGINS,
    CONNECTS,
    FORGETS_COORDINATES,
    Replica,
    ReplicaChannel,
)
from tallystick.coordinates.audit.replica_comparisons import (
    Member,
    ReplicaComparisons,
    keys_of,
)
from tallystick.coordinates.audit.topology import Fleet, instance_key, source_key
from tallystick.coordinates.audit.written_twice import Written
from tallystick.coordinates.results import ObservationCode
from tallystick.coordinates.rules.observations import CLOCKS_DIFFER
from tallystick.coordinates.state_codec import TRANSIENT
from tallystick.coordinates.values._gtid_text import UUID_LENGTH
from tallystick.coordinates.values.binlog import format_log_file_name
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import numpy.typing as npt

    from tallystick.coordinates.audit.observer_clock import ObserverClock

BESIDE_THE_LOGS = frozenset(
    {
        FleetEventKind.BACKUP,
        FleetEventKind.BOOT,
        FleetEventKind.CHANNEL,
        FleetEventKind.CLONE,
        FleetEventKind.GAP,
        FleetEventKind.GTID_PURGED,
        FleetEventKind.NO_STATUS,
        FleetEventKind.OBSERVER,
        FleetEventKind.OBSERVER_ENDED,
        FleetEventKind.PURGED,
        FleetEventKind.BEGUN_ANEW,
    }
)
"""Not read from the logs: earlier events may still come, as while a server starts."""


@dataclass(eq=False)
class FleetEventReader:
    """Everything that the fleet events have shown.

    Attributes:
        comparisons: Takes what replicas show.
        members, timelines: By instance.
        holders: Instances that have reported a `server_uuid`.
        moved: Instances whose journal became known further since this was last cleared.
        rows_with_claims: Rows whose claims of origins are to be compared with all other instances.
    """

    comparisons: ReplicaComparisons
    members: dict[str, Member] = field(default_factory=dict)
    origins: Origins = field(default_factory=Origins)
    holders: dict[str, list[str]] = field(default_factory=dict)
    rows_with_claims: list[Subject] = field(default_factory=list)
    moved: set[str] = field(default_factory=set, metadata=TRANSIENT)
    timelines: dict[str, InstanceTimeline] = field(init=False, metadata=TRANSIENT)
    fleet: Fleet = field(init=False, metadata=TRANSIENT)

    def __post_init__(self) -> None:
        self.timelines = {name: member.timeline for name, member in self.members.items()}
        self.fleet = Fleet(self.timelines, self.origins, self.holders)
        self._handlers: dict[FleetEventKind, Callable[[FleetEvent, Member], None]] = {
            FleetEventKind.BOOT: self._booted,
            FleetEventKind.PREVIOUS: self._head_read,
            FleetEventKind.FILE_END: self._file_ended,
            FleetEventKind.LINEAGE: self._lineage_began,
            FleetEventKind.CHANNEL: self._channel_administered,
            FleetEventKind.PURGED: self._files_purged,
            FleetEventKind.GTID_PURGED: self._gtids_assigned,
            FleetEventKind.STATUS: self._status_read,
            FleetEventKind.CLONE: self._clone_stepped,
            FleetEventKind.BACKUP: self._backup_stepped,
            FleetEventKind.GAP: self._records_lost,
            FleetEventKind.OBSERVER: self._observer_changed,
            FleetEventKind.OBSERVER_ENDED: self._observer_ended,
        }

    def enter(self, instance_id: str) -> Member:
        """An instance, entered if new."""
        member = self.members.get(instance_id)
        if member is None:
            member = Member(InstanceTimeline(instance_id), Replica())
            self.members[instance_id] = member
            self.timelines[instance_id] = member.timeline
        return member

    def forget(self, instance_id: str) -> None:
        """Forget an instance; what follows of it enters it anew."""
        self.members.pop(instance_id, None)
        self.timelines.pop(instance_id, None)
        self.origins.forget(instance_id)
        self.comparisons.forget(instance_id)

    def is_repeated(self, event: FleetEvent) -> bool:
        """Whether an event shows nothing but the time, as did the last ones of its instance."""
        if event.kind is not FleetEventKind.TIME:
            return False
        timeline = self.timelines.get(event.instance_id)
        return timeline is not None and timeline.heartbeats == HEARTBEATS_MAX

    def take(self, event: FleetEvent) -> None:
        """The next event of its instance's journal."""
        member = self.enter(event.instance_id)
        member.begin(event.ts)
        is_repeated, is_heartbeat = self.is_repeated(event), event.kind is FleetEventKind.TIME
        heartbeats = member.timeline.heartbeats + 1 if is_heartbeat else 0
        member.timeline.heartbeats = min(heartbeats, HEARTBEATS_MAX)
        if event.kind is FleetEventKind.LOGGED:
            for part in self._by_instants(event, member.timeline):
                self._logged(part, member)
                member.timeline.reached(part.ts)
        elif event.kind is FleetEventKind.RECEIVED:
            self._received(event, member)
            member.timeline.reached(event.ts)
        else:
            self._leave_instant(member.timeline, event.ts)
            handler = self._handlers.get(event.kind)
            if handler is not None:
                handler(event, member)
            member.replica.at = JournalPosition.of(event)
            if event.kind not in OF_LOGS:
                self.comparisons.hand_on_many(member, member.replica.at)
            if event.kind not in BESIDE_THE_LOGS:
                if event.kind not in OF_LOGS:
                    member.replica.all_until = event.ts
                    member.timeline.is_log_awaited = True
                member.timeline.reached(event.ts)
                self._mark(member.timeline, event.ts)
            if is_repeated:
                member.timeline.states.forget_last()
            if is_heartbeat:
                self.close_instant(member.timeline)

    def end(self, timeline: InstanceTimeline, ts: int) -> None:
        """The journal ends, and with it everything up to `ts` is known."""
        timeline.ended(ts)
        self._mark(timeline, ts)
        self.close_instant(timeline)

    def _mark(self, timeline: InstanceTimeline, ts: int) -> None:
        """The journal is known to have reached `ts`; more records of that instant may follow."""
        self._leave_instant(timeline, ts)
        if timeline.open_ts is None or timeline.open_ts < ts:
            timeline.open_ts = ts
        self.origins.reached(timeline.instance_id, timeline.known_ts)

    def _leave_instant(self, timeline: InstanceTimeline, ts: int) -> None:
        if timeline.open_ts is not None and timeline.open_ts < ts:
            self.close_instant(timeline)

    def close_instant(self, timeline: InstanceTimeline) -> None:
        """The journal is known up to the last mark: what waits for that may be decided.

        An observer reads many events at one time; a state taken in the middle of them lacks what
        had been written by then.
        """
        if timeline.open_ts is not None:
            ts, timeline.open_ts = timeline.open_ts, None
            timeline.take_snapshot(ts)
            self.moved.add(timeline.instance_id)

    def _by_instants(self, event: FleetEvent, timeline: InstanceTimeline) -> Iterator[FleetEvent]:
        """A run of events, cut where the instant ends that is open.

        Nothing of an instant comes once a later time is there. What was logged first after a row
        or a heartbeat shows a state as well: the previous one may be the last until then. Where
        else a run is cut depends on the transport.
        """
        first_ts, count = event.body.get("first_ts"), event.body.get("first_count", 0)
        if first_ts is None:
            yield event
            return
        if timeline.open_ts is not None and timeline.open_ts < first_ts:
            self.close_instant(timeline)
        if timeline.is_log_awaited:
            timeline.is_log_awaited = False
            if timeline.open_ts is None and timeline.states.last_ts < first_ts:
                timeline.open_ts = first_ts
        if timeline.open_ts != first_ts or count >= len(event.arrays["event_ends"]):
            yield event
            return
        first, later = _cut(event, first_ts, count)
        yield first
        self.close_instant(timeline)
        yield later

    def _logged(self, event: FleetEvent, member: Member) -> None:
        timeline, arrays = member.timeline, event.arrays
        sids = event.body["sids"]
        local = arrays["group_sid"]
        column = timeline.sid_column(sids, local)
        gno = arrays["group_gno"].astype(np.int64, copy=False)
        timeline.log(event, BinlogGroups(arrays["group_event"], column, gno))
        if not len(gno):
            return
        by_sid = _by_sid(sids, local)
        for sid, which in by_sid:
            timeline.grouped.add_gnos(sid, gno[which])
        recovery = member.replica.recovery
        is_replaying = recovery is not None and recovery.is_replaying
        if not (timeline.writes_anonymous or is_replaying) and _min(local) < 0:
            timeline.log_anonymous(np.unique(arrays["group_server_id"][column < 0]).tolist())
        if recovery is not None:
            recovery.log(sids, local, gno)
            again = recovery.take_claimed(sids, local, gno)
            if again:
                self._compare_restore(event, member, recovery.restored["restore"], again)
        member.replica.is_fresh = False
        unknown = self._claim(event, (BINLOG, timeline.lineage), by_sid)
        if unknown and not is_replaying:
            self._note_written(event, member, unknown)

    def _received(self, event: FleetEvent, member: Member) -> None:
        replica, arrays = member.replica, event.arrays
        sids, local = event.body["sids"], arrays["group_sid"]
        name = event.body["channel"]
        before = replica.channel(name).lineage
        column = replica.sid_column(sids, local)
        channel = replica.receive(event, column)
        stream = _stream(name)
        if channel.lineage != before:
            # Where in a run that was is not known: its time depends on how the journal was cut.
            known_ts = self.origins.instance(event.instance_id).known_ts
            self.origins.end_logs(event.instance_id, stream, min(event.ts, known_ts))
        by_sid = _by_sid(sids, local)
        for sid, which in by_sid:
            channel.received.add_gnos(sid, arrays["group_gno"][which])
        unknown = self._claim(event, (stream, channel.lineage), by_sid)
        if unknown:
            self._note_received(event, member, unknown)

    def _claim(
        self, event: FleetEvent, log: tuple[str, int], by_sid: list[tuple[str, Any]]
    ) -> list[tuple[str, Any]]:
        """Returns those parts in which the origin of groups is not known."""
        arrays, unknown = event.arrays, []
        for sid, which in by_sid:
            groups = OriginColumns(
                arrays["group_gno"][which],
                arrays["group_server_id"][which],
                arrays["group_commit_ts"][which],
                arrays["group_is_empty"][which],
            )
            if self.origins.claim(event.instance_id, log, sid, groups):
                unknown.append((sid, which))
        return unknown

    def _note_written(
        self, event: FleetEvent, member: Member, by_sid: list[tuple[str, Any]]
    ) -> None:
        """Of groups whose origin is not known those that the server has written by itself."""
        arrays, timeline = event.arrays, member.timeline
        server = self.origins.writers.server(event.instance_id)
        server_uuid = timeline.uuid_at(event.ts)
        file = format_log_file_name(event.body["base_name"], event.body["file_number"])
        for sid, which in by_sid:
            uuid = sid[:UUID_LENGTH]
            if uuid == timeline.group_uuid:
                continue  # given out by all members of the group together
            of_server, gno = arrays["group_server_id"][which], arrays["group_gno"][which]
            own = (arrays["group_commit_ts"][which] < 0) & (
                (of_server == timeline.server_id) | ((of_server < 0) & (uuid == server_uuid))
            )
            if own.any():
                is_empty = arrays["group_is_empty"][which][own]
                end = arrays["event_ends"][arrays["group_event"][which][own]]
                server.write(Written(sid, gno[own], is_empty, file, end), server_uuid)

    def _note_received(
        self, event: FleetEvent, member: Member, by_sid: list[tuple[str, Any]]
    ) -> None:
        """Of groups whose origin is not known: which may be its own, and from which file."""
        body, arrays = event.body, event.arrays
        server = self.origins.writers.server(event.instance_id)
        base_name = body["source_base_name"]
        source_uuid = member.replica.channel(body["channel"]).source_uuid
        own_ids = [-1, *member.timeline.server_ids]
        for sid, which in by_sid:
            gno, of_server = arrays["group_gno"][which], arrays["group_server_id"][which]
            is_own = np.isin(of_server, own_ids)
            server.receive(sid, gno, is_own, arrays["group_is_empty"][which])
            if source_uuid is not None and base_name is not None:
                file = format_log_file_name(base_name, body["source_file_number"])
                server.receive_from(source_uuid, file, sid, gno)

    def _booted(self, event: FleetEvent, member: Member) -> None:
        body, replica = event.body, member.replica
        self._identify(event, member)
        member.timeline.cluster = body.get("cluster") or member.timeline.cluster
        member.timeline.version = body.get("version")
        group = (body.get("variables") or {}).get("group_replication_group_name")
        member.timeline.group_uuid = str(group) if group else member.timeline.group_uuid
        data_lineage = body.get("data_lineage")
        if replica.data_lineage is not None and data_lineage != replica.data_lineage:
            self.comparisons.hand_on_all(member, JournalPosition.of(event))
            replica.begin_data_lineage()
            self.origins.end_logs(event.instance_id, None, event.ts)
            self._begin_writing_anew(event, "before its data were replaced")
        replica.is_fresh = bool(data_lineage) and data_lineage != replica.data_lineage
        replica.data_ts = event.ts if replica.is_fresh else replica.data_ts
        replica.data_lineage = data_lineage
        if replica.recovery is not None:
            replica.recovery.lose()  # a crash may take back what was logged
        order = (body.get("variables") or {}).get("replica_preserve_commit_order")
        replica.keeps_commit_order = order is not False
        replica.has_binlog = (body.get("variables") or {}).get("log_bin") is not False
        if replica.channels:
            unproven = member.unproven()
            for channel in replica.channels.values():
                channel.start(unproven)

    def _identify(self, event: FleetEvent, member: Member) -> None:
        server_uuid = event.body.get("server_uuid")
        if member.timeline.identify(event, server_uuid, event.body.get("server_id")):
            self.fleet.learn(str(server_uuid), event.instance_id)

    def _head_read(self, event: FleetEvent, member: Member) -> None:
        member.timeline.head(event.body, event.ts)

    def _file_ended(self, event: FleetEvent, member: Member) -> None:
        lost = member.timeline.end_file(event.body, event.ts)
        if lost:
            log, shown = (BINLOG, member.timeline.lineage), member.replica.shown
            last_ts = self._last_known(event)
            self.origins.take_back(event.instance_id, log, lost, shown, last_ts)
            file = format_log_file_name(event.body["base_name"], event.body["file_number"])
            where = (
                f"by instance {event.instance_id} after {file}:{event.body['end']}, until a crash"
            )
            writers, name = self.origins.writers, event.instance_id
            writers.take_back(name, last_ts, where, file=file, lost=lost, shown=shown)

    def _lineage_began(self, event: FleetEvent, member: Member) -> None:
        reason = event.body["reason"]
        is_reset = reason == "reset"
        executed = member.counted_of_others(event.ts) if is_reset else GtidSet.EMPTY
        member.timeline.begin_lineage(event.body["binlog_lineage"], event.ts, reason)
        if is_reset:
            member.replica.reset(executed, event.ts)
            self._end_logs_unseen(event, BINLOG)
            self._begin_writing_anew(event, "before RESET")
        else:
            if reason != "renamed":
                member.replica.uncounted = []
                member.timeline.writes_anonymous = False
                self._begin_writing_anew(event, "before its data were replaced")
            self.origins.end_logs(event.instance_id, BINLOG, event.ts)

    def _begin_writing_anew(self, event: FleetEvent, when: str) -> None:
        where, last_ts = f"by instance {event.instance_id} {when}", self._last_known(event)
        self.origins.writers.begin_anew(event.instance_id, last_ts, where)

    def _end_logs_unseen(self, event: FleetEvent, stream: str | None) -> None:
        """Logs began anew some time before this was noticed."""
        self.origins.end_logs(event.instance_id, stream, self._last_known(event))

    def _last_known(self, event: FleetEvent) -> int:
        """Up to when the logs are known that are found to have changed."""
        return min(event.ts, self.origins.instance(event.instance_id).known_ts)

    def _channel_administered(self, event: FleetEvent, member: Member) -> None:
        body, replica = event.body, member.replica
        name, action = body["channel"], body["action"]
        replica.is_fresh = False
        channel = replica.channel(name)
        if action == "change_source":
            self.comparisons.queue_groups(
                member, channel, JournalPosition.of(event), (), is_row=False
            )
            channel.change_source(body)
            channel.first_queued = None
            replica.name_source(channel, event.ts)
            self.comparisons.channel_put(member, channel, body, JournalPosition.of(event))
        if action in CONNECTS:
            channel.connects = True
            self.comparisons.channel_begun(member, channel, JournalPosition.of(event))
        if action in BEGINS:
            is_moved = action != "relay_log_recovery"
            channel.begin_anew(event.ts, member.unproven(), is_moved=is_moved)
            channel.retrieved_ts = event.ts
            self.origins.end_logs(event.instance_id, _stream(name), event.ts)
        if action in FORGETS_COORDINATES:
            channel.coordinates_ts = event.ts
        if action == "reset":
            channel.read = channel.former_read = None
            channel.executes_former = channel.may_execute_former = False
            channel.is_reset = True
        channel.lineage = body.get("channel_lineage", channel.lineage)
        if action == "reset_all":
            self.comparisons.queue_groups(
                member, channel, JournalPosition.of(event), (), is_row=False
            )
            replica.leave(name)
        if action in ("change_source", "reset_all"):
            # The row before may name a source that is none any more.
            member.timeline.administer_sources(keys_of(replica.channels.values()), event.ts)

    def _files_purged(self, event: FleetEvent, member: Member) -> None:
        member.timeline.purge(event.body, event.ts)

    def _gtids_assigned(self, event: FleetEvent, member: Member) -> None:
        added = GtidSet.parse(event.body["added"])
        replica = member.replica
        member.skip(added)
        member.timeline.assign(added)
        replica.assigned, replica.given = replica.assigned | added, replica.given | added
        self.comparisons.assigned(member, added, JournalPosition.of(event))
        restored = {} if replica.recovery is None else replica.recovery.restored
        if replica.is_fresh and restored.keys() == {"restore"}:
            self._compare_restore(event, member, restored["restore"])

    def _clone_stepped(self, event: FleetEvent, member: Member) -> None:
        if event.body.get("role") == "recipient":
            member.replica.cloned(event.body, event.ts)
        elif event.body.get("step") == "position_read":
            member.timeline.copy_redo(event.body)

    def _backup_stepped(self, event: FleetEvent, member: Member) -> None:
        body, replica = event.body, member.replica
        step = body["step"]
        if step == "image":
            member.timeline.image(body)
            self._compare_image(event, member)
        elif step == "checksum":
            member.timeline.check_sums(body)
        elif step == "restore":
            replica.uncounted = []
            claimed = GtidSet.parse(body.get("gtid_executed") or "")
            replica.recovery = RunningRecovery({step: body}, claimed)
            self._compare_restore(event, member, body)
        elif replica.recovery is None:
            return
        elif step == "replay":
            replica.recovery.begin_replay(body, event.ts)
        elif step == "replayed" and replica.recovery.is_replaying:
            self._compare_recovery(event, member, replica.recovery)

    def _compare_image(self, event: FleetEvent, member: Member) -> None:
        for summary in event.body.get("channels") or ():
            name = summary["channel"]
            channel = member.replica.channels.get(name) or ReplicaChannel(name)
            key = channel.key or source_key(summary.get("source_instance"), None)
            read, done = _coordinates(summary, "read"), _coordinates(summary, "exec")
            found = ImageChannel(
                instance_id=event.instance_id,
                at=JournalPosition.of(event),
                backup_id=str(event.body["backup_id"]),
                read=read,
                executed=done,
                coordinates_ts=channel.coordinates_ts,
                ignores_servers=channel.ignores_servers,
                former=channel.former(read),
                may_execute_former=channel.may_execute_former,
            )
            sources = () if key is None else (key,)
            self.comparisons.enqueue(event.instance_id, name, sources, found)

    def _compare_restore(
        self,
        event: FleetEvent,
        member: Member,
        body: dict[str, Any],
        again: GtidSet = GtidSet.EMPTY,
    ) -> None:
        """At the restore, and at what is in contradiction to it later."""
        made = RestoreMade(
            JournalPosition.of(event),
            body,
            member.timeline.uuid_at(event.ts),
            is_fresh=member.replica.is_fresh,
            given=member.replica.given,
            again=again,
        )
        self.comparisons.enqueue(event.instance_id, None, (instance_key(body["peer"]),), made)

    def _compare_recovery(
        self, event: FleetEvent, member: Member, running: RunningRecovery
    ) -> None:
        replica = member.replica
        server = RestoredServer(
            member.timeline.uuid_at(event.ts), replica.given, replica.has_binlog
        )
        at, is_ordered = JournalPosition.of(event), replica.keeps_commit_order
        made = running.end(at, event.body, server, is_ordered=is_ordered)
        sources = tuple(dict.fromkeys(map(instance_key, (made.source, made.image_of))))
        self.comparisons.enqueue(event.instance_id, None, sources, made)

    def _status_read(self, event: FleetEvent, member: Member) -> None:
        self._identify(event, member)
        at = JournalPosition.of(event)
        self._read_clock(event, member.timeline.clock, at)
        self.comparisons.row(member, event.body, at)
        self.count_claims(member, at)
        self.rows_with_claims.append(Subject(event.instance_id, None, at))

    def count_claims(self, member: Member, at: JournalPosition) -> None:
        """A row, or the end: what the instance's logs claim counts from here on."""
        timeline, channels = member.timeline, member.replica.channels.values()
        filtered = {_stream(one.name) for one in channels if one.is_filtered}
        self.origins.row(timeline.instance_id, timeline.lineage, at, filtered)
        received = {one.name: one.received for one in channels}
        shown = member.replica.shown
        self.origins.writers.row(timeline.instance_id, at, shown, received)

    def _observer_changed(self, event: FleetEvent, member: Member) -> None:
        timeline, at = member.timeline, member.replica.at
        if event.body["clock"] is None:
            timeline.clock.lose(timeline.marked_ts)
            return
        last_ts = timeline.known_ts if at is None else max(at.ts, timeline.known_ts)
        timeline.clock.change(event.body["clock"], last_ts, timeline.marked_ts)

    def _observer_ended(self, event: FleetEvent, member: Member) -> None:
        member.timeline.clock.has_ended = True

    def _read_clock(self, event: FleetEvent, clock: ObserverClock, at: JournalPosition) -> None:
        body = event.body
        clock.answered(body["requested_at"], event.ts, body["received_at"], body["behind_us"])
        if clock.is_found_wrong():
            subject = Subject(event.instance_id, None, at)
            lag_ms = clock.answers[-1].lag // 1_000
            code = ObservationCode.CLOCKS_DIFFER
            self.comparisons.collector.note(subject, code, CLOCKS_DIFFER, lag_ms=lag_ms)

    def _records_lost(self, event: FleetEvent, member: Member) -> None:
        if member.replica.recovery is not None:
            member.replica.recovery.lose()
        member.replica.is_fresh = False
        name = event.body.get("channel")
        for channel in member.replica.channels.values():
            if name in (None, channel.name):
                channel.lose()
        if name is not None:
            return
        self.origins.writers.forget(event.instance_id)
        member.timeline.clock.lose(member.timeline.marked_ts)
        lineage = event.body["binlog_lineage"]
        is_gap = lineage != member.timeline.lineage
        if is_gap:
            self.comparisons.hand_on_all(member, JournalPosition.of(event))
            member.replica.lose_records()
        self._end_logs_unseen(event, None if is_gap else BINLOG)
        member.timeline.miss(lineage, event.ts)


def _stream(channel: str) -> str:
    """What the relay log of a channel is called among the logs that claim origins."""
    return f"relay {channel}"


def channel_of(stream: str) -> str:
    """The channel of such a log."""
    return stream.removeprefix("relay ")


def _coordinates(summary: Mapping[str, Any], name: str) -> tuple[str, int] | None:
    file, position = (summary.get(f"{name}_source_log_{part}") for part in ("file", "pos"))
    return (file, position) if isinstance(file, str) and isinstance(position, int) else None


# As local.min(), but without a call of Python's for each of many small arrays.
_min = np.minimum.reduce


def _cut(event: FleetEvent, first_ts: int, count: int) -> tuple[FleetEvent, FleetEvent]:
    """A run of events as two: so many of a time, and those after them."""
    ends, group_event = event.arrays["event_ends"], event.arrays["group_event"]
    groups = int(group_event.searchsorted(count))
    first = {name: column[:groups] for name, column in event.arrays.items()}
    later = {name: column[groups:] for name, column in event.arrays.items()}
    first["event_ends"], later["event_ends"] = ends[:count], ends[count:]
    later["group_event"] = later["group_event"] - count
    body = {**event.body, "start": int(ends[count - 1]), "first_ts": None}
    where = event.kind, event.instance_id, event.epoch, event.sequence
    return (
        FleetEvent(*where, first_ts, event.body, first),
        FleetEvent(*where, event.ts, body, later),
    )


def _by_sid(sids: list[str], local: npt.NDArray[Any]) -> list[tuple[str, Any]]:
    """(sid, which groups) for each sid of a event, in log order."""
    if not len(local):
        return []
    if len(sids) == 1 and (len(local) == 1 or not _min(local)):
        return [(sids[0], slice(None))] if local[0] == 0 else []
    return [(sid, which) for at, sid in enumerate(sids) if (which := local == at).any()]
