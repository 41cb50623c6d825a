"""Reading facts: into the instances' timelines, and as comparisons into the queues."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tallystick.coordinates.audit.comparison import (
    ChannelRow,
    CloneMade,
    CloneResumed,
    GroupsQueued,
    ReplicaExecuted,
    RunningRecovery,
)
from tallystick.coordinates.audit.comparison_queues import GROUPS_MAX
from tallystick.coordinates.audit.finding_collector import Subject
from tallystick.coordinates.audit.fleet_events import FleetEvent, FleetEventKind
from tallystick.coordinates.audit.instance_timeline import InstanceTimeline
from tallystick.coordinates.audit.journal_position import Place
from tallystick.coordinates.audit.origins import OriginColumns, Origins
from tallystick.coordinates.audit.replica import BEGINS, CONNECTS, FORGETS_COORDINATES, Replica
from tallystick.coordinates.audit.timeline_file import BinlogGroups
from tallystick.coordinates.audit.topology import Fleet, source_key
from tallystick.coordinates.results import Check, Outcome
from tallystick.coordinates.rules.between import SOURCE_UNKNOWN
from tallystick.coordinates.rules.catalogue import COMPARISONS
from tallystick.coordinates.rules.clone_coordinates import (
    CLONE_FAILED,
    CLONE_INCOMPLETE,
    CLONE_STATUS_UNREAD,
    CLONE_UNSEEN,
    clone_coordinates_equal_donor,
    clone_resume_exact,
)
from tallystick.coordinates.rules.outcomes import Undecided
from tallystick.coordinates.state_codec import COLLABORATOR, TRANSIENT
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy.typing as npt

    from tallystick.coordinates.audit.comparison import Evidence
    from tallystick.coordinates.audit.finding_collector import FindingCollector
    from tallystick.coordinates.audit.replica import ReplicaChannel

    Enqueue = Callable[[str, "str | None", tuple[str, ...], Evidence], None]

BINLOG = "binlog"
BESIDE_THE_LOGS = frozenset(
    {
        FleetEventKind.BACKUP,
        FleetEventKind.BOOT,
        FleetEventKind.CHANNEL,
        FleetEventKind.CLONE,
        FleetEventKind.GAP,
        FleetEventKind.GTID_PURGED,
        FleetEventKind.NO_STATUS,
        FleetEventKind.PURGED,
        FleetEventKind.STATE_LOST,
    }
)
"""Not read from the logs: events of before may still come, as while a server starts."""


class Member(NamedTuple):
    """One instance: its journal, and itself as a replica."""

    timeline: InstanceTimeline
    replica: Replica


@dataclass(eq=False)
class FleetEventReader:
    """Everything that the fleet events have shown.

    Args:
        enqueue: Takes a comparison: its kind, the instance, the channel and the sources.
        collector: Takes what can never be compared.

    Attributes:
        members, timelines: By instance.
        holders: Instances that have reported a `server_uuid`.
        moved: Instances whose journal became known further since this was last cleared.
        rows_with_claims: Rows whose claims of origins are to be compared with all other instances.
    """

    enqueue: Enqueue = field(metadata=COLLABORATOR)
    collector: FindingCollector = field(metadata=COLLABORATOR)
    members: dict[str, Member] = field(default_factory=dict)
    origins: Origins = field(default_factory=Origins)
    holders: dict[str, list[str]] = field(default_factory=dict)
    reported_unknown: set[str] = field(default_factory=set)
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
            FleetEventKind.GTID_PURGED: self._gtids_assigned,
            FleetEventKind.STATUS: self._status_read,
            FleetEventKind.CLONE: self._clone_stepped,
            FleetEventKind.BACKUP: self._backup_stepped,
            FleetEventKind.GAP: self._records_lost,
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

    def take(self, fact: FleetEvent) -> None:
        """The next fact of its instance's journal."""
        member = self.enter(fact.instance_id)
        if fact.kind is FleetEventKind.LOGGED:
            self._logged(fact, member)
            member.timeline.reached(fact.ts)
        elif fact.kind is FleetEventKind.RECEIVED:
            self._received(fact, member)
            member.timeline.reached(fact.ts)
        else:
            self._leave_instant(member.timeline, fact.ts)
            handler = self._handlers.get(fact.kind)
            if handler is not None:
                handler(fact, member)
            member.replica.place = Place.of(fact)
            if fact.kind not in BESIDE_THE_LOGS:
                member.timeline.reached(fact.ts)
                self._mark(member.timeline, fact.ts)
            if fact.kind is FleetEventKind.TIME:
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
        had been written by then. Runs of events do not close an instant, for where they are cut
        depends on the transport.
        """
        if timeline.open_ts is not None:
            ts, timeline.open_ts = timeline.open_ts, None
            timeline.take_snapshot(ts)
            self.moved.add(timeline.instance_id)

    def _logged(self, fact: FleetEvent, member: Member) -> None:
        timeline, arrays = member.timeline, fact.arrays
        sids = fact.body["sids"]
        local = arrays["group_sid"]
        column = timeline.sid_column(sids, local)
        gno = arrays["group_gno"].astype(np.int64, copy=False)
        timeline.log(fact, BinlogGroups(arrays["group_event"], column, gno))
        for sid, which in _by_sid(sids, local):
            timeline.grouped.add_gnos(sid, gno[which])
        if member.replica.recovery is not None:
            member.replica.recovery.log(sids, local, gno)
        self._claim(fact, (BINLOG, timeline.lineage), sids)

    def _received(self, fact: FleetEvent, member: Member) -> None:
        replica, arrays = member.replica, fact.arrays
        sids, local = fact.body["sids"], arrays["group_sid"]
        name = fact.body["channel"]
        before = replica.channel(name).lineage
        column = replica.sid_column(sids, local)
        channel = replica.receive(fact, column)
        stream = f"relay {name}"
        if channel.lineage != before:
            self.origins.end_logs(fact.instance_id, stream, fact.ts)
        for sid, which in _by_sid(sids, local):
            channel.received.add_gnos(sid, arrays["group_gno"][which])
        self._claim(fact, (stream, channel.lineage), sids)
        if channel.queued_count > GROUPS_MAX:
            self.queue_groups(member, channel, Place.of(fact), (), is_row=False)

    def _claim(self, fact: FleetEvent, log: tuple[str, int], sids: list[str]) -> None:
        arrays = fact.arrays
        for sid, which in _by_sid(sids, arrays["group_sid"]):
            groups = OriginColumns(
                arrays["group_gno"][which],
                arrays["group_server_id"][which],
                arrays["group_commit_ts"][which],
            )
            self.origins.claim(fact.instance_id, log, sid, groups)

    def _booted(self, fact: FleetEvent, member: Member) -> None:
        body, replica = fact.body, member.replica
        self._identify(fact, member)
        group = (body.get("variables") or {}).get("group_replication_group_name")
        member.timeline.group_uuid = str(group).lower() if group else member.timeline.group_uuid
        data_lineage = body.get("data_lineage")
        if replica.data_lineage is not None and data_lineage != replica.data_lineage:
            self._hand_on_all(member, Place.of(fact))
            replica.begin_data_lineage()
            self.origins.end_logs(fact.instance_id, None, fact.ts)
        replica.data_lineage = data_lineage
        if replica.recovery is not None:
            replica.recovery.lose()  # a crash may take back what was logged
        order = (body.get("variables") or {}).get("replica_preserve_commit_order")
        replica.keeps_commit_order = order is not False
        for channel in replica.channels.values():
            channel.connects = True

    def _identify(self, fact: FleetEvent, member: Member) -> None:
        server_uuid = fact.body.get("server_uuid")
        if member.timeline.identify(fact, server_uuid, fact.body.get("server_id")):
            self.fleet.learn(str(server_uuid), fact.instance_id)

    def _head_read(self, fact: FleetEvent, member: Member) -> None:
        member.timeline.head(fact.body, fact.ts)

    def _file_ended(self, fact: FleetEvent, member: Member) -> None:
        member.timeline.end_file(fact.body, fact.ts)

    def _lineage_began(self, fact: FleetEvent, member: Member) -> None:
        is_reset = fact.body["reason"] == "reset"
        member.timeline.begin_lineage(fact.body["binlog_lineage"], fact.ts, is_reset=is_reset)
        # A RESET is noticed some time after it: until then the log is known up to its last mark.
        known_ts = self.origins.instance(fact.instance_id).known_ts
        ended_ts = min(fact.ts, known_ts) if is_reset else fact.ts
        self.origins.end_logs(fact.instance_id, BINLOG, ended_ts)

    def _channel_administered(self, fact: FleetEvent, member: Member) -> None:
        body, replica = fact.body, member.replica
        name, action = str(body.get("channel", "")).lower(), body.get("action")
        channel = replica.channel(name)
        if action == "change_source":
            self.queue_groups(member, channel, Place.of(fact), (), is_row=False)
            channel.change_source(body)
            channel.first_queued = None
        if action in CONNECTS:
            channel.connects = True
        if action in BEGINS:
            channel.begins = True
            channel.retrieved_ts = fact.ts
            self.origins.end_logs(fact.instance_id, f"relay {name}", fact.ts)
        if action in FORGETS_COORDINATES:
            channel.coordinates_ts = fact.ts
        channel.lineage = body.get("channel_lineage", channel.lineage)
        if action == "reset_all":
            self.queue_groups(member, channel, Place.of(fact), (), is_row=False)
            replica.leave(name)
        if action in ("change_source", "reset_all"):
            # The row before may name a source that is none any more.
            member.timeline.administer_sources(_keys(replica.channels.values()), fact.ts)

    def _gtids_assigned(self, fact: FleetEvent, member: Member) -> None:
        added = GtidSet.parse(fact.body["added"])
        member.timeline.assign(added)
        member.replica.assigned = member.replica.assigned | added

    def _clone_stepped(self, fact: FleetEvent, member: Member) -> None:
        if fact.body.get("role") == "recipient":
            member.replica.cloned(fact.body, fact.ts)

    def _backup_stepped(self, fact: FleetEvent, member: Member) -> None:
        body, replica = fact.body, member.replica
        step = body["step"]
        if step == "image":
            member.timeline.image(body)
        elif step == "checksum":
            member.timeline.check_sums(body)
        elif step == "restore":
            replica.recovery = RunningRecovery({step: body})
        elif replica.recovery is None:
            return
        elif step == "replay":
            replica.recovery.begin_replay(body)
        elif step == "replayed" and "replay" in replica.recovery.restored:
            self._compare_recovery(fact, replica, replica.recovery)
            replica.recovery = None

    def _compare_recovery(
        self, fact: FleetEvent, replica: Replica, running: RunningRecovery
    ) -> None:
        made = running.end(Place.of(fact), fact.body, is_ordered=replica.keeps_commit_order)
        keys = [source_key(name, None) for name in (made.source, made.image_of)]
        sources = tuple(dict.fromkeys(key for key in keys if key is not None))
        self.enqueue(fact.instance_id, None, sources, made)

    def _records_lost(self, fact: FleetEvent, member: Member) -> None:
        if member.replica.recovery is not None:
            member.replica.recovery.lose()
        member.timeline.miss(fact.ts)
        for channel in member.replica.channels.values():
            channel.begins = True

    # log_status rows

    def _status_read(self, fact: FleetEvent, member: Member) -> None:
        body, timeline, replica = fact.body, member.timeline, member.replica
        self._identify(fact, member)
        place = Place.of(fact)
        executed, purged = _set(body["gtid_executed"]), _set(body["gtid_purged"])
        listed = [values for values in body["channels"] if not replica.is_gone(values)]
        channels = [self._channel_listed(member, values) for values in listed]
        sources = _keys(channels)
        fallen = _set(body.get("gtid_executed_fallen"))
        timeline.row(executed, purged, body["logs_everything"], sources, place.ts, fallen=fallen)
        retrieved = [_set(values["retrieved_gtid_set"]) for values in listed]
        shown = (*(r for r in retrieved if r is not None), *((executed,) if executed else ()))
        is_whole = executed is not None and None not in retrieved
        for channel in replica.channels.values():
            self.queue_groups(member, channel, place, shown, is_row=is_whole)
        has = None
        if is_whole and executed is not None:
            has = executed
            for gtids in shown:
                has = has | gtids
        for channel, values in zip(channels, listed, strict=True):
            self._compare_channel(member, channel, values, (executed, has), place)
        if executed is not None and sources:
            received: GtidSet | None = GtidSet.EMPTY
            for gtids in retrieved:
                received = None if received is None or gtids is None else received | gtids
            self._compare_executed(member, channels, (executed, received), place)
        if body["clone_status"]:
            self._compare_clone(member, body["clone_status"], place)
        elif replica.clone_end_ts is not None and replica.clone_end_ts < place.ts:
            self._leave_clone_undecided(
                member,
                f"no status {replica.clone_ts}",
                place,
                Undecided(CLONE_STATUS_UNREAD),
            )
        self.origins.row(fact.instance_id, timeline.lineage, place)
        self.rows_with_claims.append(Subject(fact.instance_id, None, place))

    def _channel_listed(self, member: Member, values: dict[str, Any]) -> ReplicaChannel:
        channel = member.replica.channel(values["channel"])
        channel.is_listed = True
        if values["source_uuid"]:
            channel.source_uuid = values["source_uuid"].lower()
        channel.is_filtered = channel.is_filtered or bool(values["filtered"])
        return channel

    def _compare_channel(
        self,
        member: Member,
        channel: ReplicaChannel,
        values: dict[str, Any],
        sets: tuple[GtidSet | None, GtidSet | None],
        place: Place,
    ) -> None:
        """Queue what a row says of a channel; `sets`: executed, and executed or retrieved."""
        if not channel.has_source:
            return
        if channel.key is None:
            self._note_unknown(member, channel, place)
            return
        row = ChannelRow(
            instance_id=member.timeline.instance_id,
            place=place,
            server_id=member.timeline.server_id,
            retrieved=_set(values["retrieved_gtid_set"]),
            has=sets[1],
            read=_coordinates(values, "read"),
            executed=_coordinates(values, "exec"),
            auto_position=bool(values["auto_position"]),
            coordinates_ts=channel.coordinates_ts,
            retrieved_ts=channel.retrieved_ts,
            gtid_executed=None if channel.is_filtered else sets[0],
            is_relay_seen=bool(channel.received.freeze()),
            is_filtered=channel.is_filtered,
        )
        self.enqueue(member.timeline.instance_id, channel.name, (channel.key,), row)

    def _note_unknown(self, member: Member, channel: ReplicaChannel, place: Place) -> None:
        """What the source of a channel is, nobody has reported: noted once, checked each time."""
        subject = Subject(member.timeline.instance_id, channel.name, place)
        comparisons = [one for one in COMPARISONS.values() if one.leaves_undecided]
        for one in comparisons:
            if one.evidence in (ChannelRow, ReplicaExecuted, GroupsQueued):
                self.collector.check(
                    subject, Check(one.rule.name, Outcome.UNDECIDED, SOURCE_UNKNOWN.code)
                )
        name = f"{member.timeline.instance_id}\x1f{channel.name}"
        if name not in self.reported_unknown:
            self.reported_unknown.add(name)
            rules = sorted((one.rule for one in comparisons), key=lambda rule: rule.name)
            self.collector.observe(subject, rules, SOURCE_UNKNOWN)

    def _compare_executed(
        self,
        member: Member,
        channels: list[ReplicaChannel],
        sets: tuple[GtidSet, GtidSet | None],
        place: Place,
    ) -> None:
        """Queue what a row says was executed; `sets`: that, and what all channels retrieved."""
        if any(channel.has_source and channel.key is None for channel in channels):
            return
        timeline = member.timeline
        row = ReplicaExecuted(
            instance_id=timeline.instance_id,
            place=place,
            executed=member.replica.unexplained(sets[0]),
            server_uuid=timeline.uuid_at(place.ts),
            group_uuid=timeline.group_uuid,
            retrieved=sets[1],
        )
        channel = channels[0].name if len(channels) == 1 else None
        self.enqueue(member.timeline.instance_id, channel, _keys(channels), row)

    def _compare_clone(self, member: Member, status: dict[str, Any], place: Place) -> None:
        replica = member.replica
        values = {str(key).lower(): value for key, value in status.items()}
        state = str(values.get("state", "")).lower()
        if state == "failed":
            name = f"failed {values.get('begin_time')} {replica.clone_ts}"
            why = Undecided(CLONE_FAILED, error=values.get("error_no"))
            self._leave_clone_undecided(member, name, place, why)
        if state != "completed":
            return
        if replica.clone_ts is None:
            name = f"no clone {values.get('begin_time')} {values.get('binlog_file')}"
            self._leave_clone_undecided(member, name, place, Undecided(CLONE_UNSEEN))
            return
        file, position = values.get("binlog_file"), values.get("binlog_position")
        executed = values.get("gtid_executed")
        name = f"{file}:{position} {replica.clone_ts}"
        if not replica.clone_peer or not file or not isinstance(position, int) or executed is None:
            self._leave_clone_undecided(member, name, place, Undecided(CLONE_INCOMPLETE))
            return
        donor = f"i:{replica.clone_peer}"
        made = CloneMade(place, replica.clone_ts, (file, position), GtidSet.parse(executed))
        if name not in replica.judged_clones:
            replica.judged_clones.add(name)
            self.enqueue(member.timeline.instance_id, None, (donor,), made)
        for channel in replica.channels.values():
            first, key, once = channel.first_queued, channel.key, f"{name} {channel.name}"
            if first is None or key is None or channel.is_filtered or once in replica.judged_clones:
                continue
            replica.judged_clones.add(once)
            sources = (donor,) if key == donor else (donor, key)
            row = CloneResumed(place, made, first)
            self.enqueue(member.timeline.instance_id, channel.name, sources, row)

    def _leave_clone_undecided(
        self, member: Member, name: str, place: Place, why: Undecided
    ) -> None:
        """Nothing can be decided on a clone's coordinates; it is reported once."""
        if name in member.replica.judged_clones:
            return
        member.replica.judged_clones.add(name)
        subject = Subject(member.timeline.instance_id, None, place)
        rules = (clone_coordinates_equal_donor, clone_resume_exact)
        for rule in rules:
            check = Check(rule.name, Outcome.UNDECIDED, why.reason.code, why.data)
            self.collector.check(subject, check)
        self.collector.observe(subject, rules, why.reason, **why.data)

    def _hand_on_all(self, member: Member, place: Place) -> None:
        for channel in member.replica.channels.values():
            self.queue_groups(member, channel, place, (), is_row=False)

    def queue_groups(
        self,
        member: Member,
        channel: ReplicaChannel,
        place: Place,
        shown: tuple[GtidSet, ...],
        *,
        is_row: bool,
    ) -> None:
        """Hand on what a channel has queued since the last row."""
        if not channel.runs:
            channel.queued_ts = place.ts
            return
        known = (member.timeline.logged(), member.timeline.beyond, *member.replica.received())
        row: GroupsQueued | None = channel.hand_on(
            place,
            member.replica.sids,
            (*known, *shown),
            is_row=is_row,
            server_uuid=member.timeline.uuid_at(place.ts),
        )
        if row is None or not channel.has_source:
            return
        if channel.key is None:
            self._note_unknown(member, channel, place)
            return
        self.enqueue(member.timeline.instance_id, channel.name, (channel.key,), row)


def _keys(channels: Iterable[ReplicaChannel]) -> tuple[str, ...]:
    """The sources of channels, each once, in order."""
    return tuple(sorted({channel.key for channel in channels if channel.key is not None}))


def _by_sid(sids: list[str], local: npt.NDArray[Any]) -> list[tuple[str, Any]]:
    """(sid, which groups) for each sid of a fact, in log order."""
    if not len(local):
        return []
    if len(sids) == 1 and (len(local) == 1 or local.min() == 0):
        return [(sids[0], slice(None))] if local[0] == 0 else []
    return [(sid, which) for at, sid in enumerate(sids) if (which := local == at).any()]


def _set(text: str | None) -> GtidSet | None:
    return None if text is None else GtidSet.parse(text)


def _coordinates(values: dict[str, Any], name: str) -> tuple[str, int] | None:
    file, position = values[f"{name}_source_log_file"], values[f"{name}_source_log_pos"]
    return None if file is None or position is None else (file, position)
