"""What a replica's records show is queued, to be compared with its sources' journals."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from tallystick.coordinates.audit.comparison import (
    ChannelPut,
    ChannelRow,
    CloneMade,
    CloneResumed,
    GroupsQueued,
    MemberRow,
    ReplicaExecuted,
)
from tallystick.coordinates.audit.comparison_queues import GROUPS_MAX
from tallystick.coordinates.audit.finding_collector import Subject
from tallystick.coordinates.audit.instance_timeline import InstanceTimeline
from tallystick.coordinates.audit.replica import AppliedTo, Replica
from tallystick.coordinates.results import Check, Outcome
from tallystick.coordinates.rules.between import SOURCE_UNKNOWN
from tallystick.coordinates.rules.catalogue import COMPARISONS
from tallystick.coordinates.rules.clone import lower_keys, replaces_data
from tallystick.coordinates.rules.clone_coordinates import (
    CLONE_DONOR_UNKNOWN,
    CLONE_FAILED,
    CLONE_INCOMPLETE,
    CLONE_STATUS_UNREAD,
    CLONE_UNSEEN,
    clone_coordinates_equal_donor,
    clone_resume_exact,
)
from tallystick.coordinates.rules.outcomes import Undecided
from tallystick.coordinates.state_codec import COLLABORATOR
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tallystick.coordinates.audit.comparison import Coordinates, Evidence, Uncounted
    from tallystick.coordinates.audit.finding_collector import FindingCollector
    from tallystick.coordinates.audit.journal_position import JournalPosition
    from tallystick.coordinates.audit.replica import ReplicaChannel

    Enqueue = Callable[[str, "str | None", tuple[str, ...], Evidence], None]


class Member(NamedTuple):
    """One instance: its journal, and itself as a replica."""

    timeline: InstanceTimeline
    replica: Replica

    def begin(self, ts: int) -> None:
        """The first fleet event: of what was before nothing is known."""
        if self.timeline.log_since_ts is None:
            self.timeline.log_since_ts = self.replica.all_until = ts

    def known(self) -> tuple[GtidSet, ...]:
        """All that it has ever executed or received, in parts."""
        return (self.timeline.logged(), self.timeline.beyond, *self.replica.received())

    def skip(self, named: GtidSet) -> None:
        """SET gtid_purged has named GTIDs: its receivers leave out what they never received."""
        replica = self.replica
        if not named or not replica.shown:
            return
        if any(channel.has_source for channel in replica.channels.values()):
            for part in self.known():
                named = named - part
            replica.skipped = replica.skipped | named

    def counted_of_others(self, ts: int) -> GtidSet:
        """What of other servers it counts as executed, by its log, row and SET gtid_purged."""
        found = self.timeline.logged() | self.replica.shown | self.replica.given
        for server_uuid in self.timeline.uuids_until(ts):
            found = found.without_uuid(server_uuid)
        return found

    def unproven(self) -> GtidSet:
        """What of that the last row did not show: a crash or a RESET REPLICA may take it."""
        found = GtidSet.EMPTY
        for part in self.known():
            found = found | (part - self.replica.shown)
        return found


@dataclass(eq=False)
class ReplicaComparisons:
    """The evidence of replicas, on its way into the queues.

    Args:
        enqueue: Takes a comparison: its kind, the instance, the channel and the sources.
        collector: Takes what can never be compared.
    """

    enqueue: Enqueue = field(metadata=COLLABORATOR)
    collector: FindingCollector = field(metadata=COLLABORATOR)
    _reported_unknown: set[tuple[str, str]] = field(default_factory=set)

    def forget(self, instance_id: str) -> None:
        """What was noted of an instance is worth a note again."""
        self._reported_unknown = {one for one in self._reported_unknown if one[0] != instance_id}

    def row(self, member: Member, body: Mapping[str, Any], at: JournalPosition) -> None:
        """Queue everything that a log_status row shows of a replica."""
        timeline, replica = member.timeline, member.replica
        executed, purged = _set(body["gtid_executed"]), _set(body["gtid_purged"])
        member.skip(_set(body.get("gtid_purged_named")) or GtidSet.EMPTY)
        listed = [values for values in body["channels"] if not replica.is_gone(values)]
        channels = [self._channel_listed(member, values, at.ts) for values in listed]
        sources = keys_of(channels)
        fallen = _set(body.get("gtid_executed_fallen"))
        timeline.row(executed, purged, body["logs_everything"], sources, at.ts, fallen=fallen)
        retrieved = [_set(values["retrieved_gtid_set"]) for values in listed]
        shown = (*(r for r in retrieved if r is not None), *((executed,) if executed else ()))
        is_whole = executed is not None and None not in retrieved
        for channel in replica.channels.values():
            self.queue_groups(member, channel, at, shown, is_row=is_whole)
        is_first = not replica.shown
        replica.shown = GtidSet.EMPTY if executed is None else executed
        if replica.before is None:
            replica.before = executed
        has = None
        if is_whole and executed is not None:
            has = executed
            for gtids in shown:
                has = has | gtids
        names = {channel.name for channel in channels}
        replica.applied_to = {n: to for n, to in replica.applied_to.items() if n in names}
        for channel, values in zip(channels, listed, strict=True):
            self._compare_channel(member, channel, values, (executed, has), at, body=body)
        if executed is not None:
            self._compare_member(member, channels, executed, at)
        if executed is not None and sources:
            received: GtidSet | None = GtidSet.EMPTY
            for gtids in retrieved:
                received = None if received is None or gtids is None else received | gtids
            named = _named_since_reset(member, body, purged)
            uncounted = replica.counted_again(listed, executed, named)
            if is_first and purged is None:
                uncounted = ()  # it was asked for before the RESET: the next row has gtid_purged
            self._compare_executed(member, channels, (executed, received), at, uncounted)
        if body["clone_status"]:
            of_channel = {c.name: r for c, r in zip(channels, retrieved, strict=True)}
            self._compare_clone(member, body["clone_status"], at, (of_channel, has))
        elif (
            replica.clone_end_ts is not None
            and replica.clone_end_ts < at.ts
            and not replica.is_clone_status_read
        ):
            self._leave_clone_undecided(
                member,
                f"no status {replica.clone_ts}",
                at,
                Undecided(CLONE_STATUS_UNREAD),
            )

    def _compare_member(
        self,
        member: Member,
        channels: Sequence[ReplicaChannel],
        executed: GtidSet,
        at: JournalPosition,
    ) -> None:
        """Queue what a row shows of an instance as a member of its cluster."""
        timeline, assigned = member.timeline, member.replica.assigned
        numbered, own = executed - assigned, GtidSet.EMPTY
        for server_uuid in timeline.uuids_until(at.ts):
            own = own | numbered.restrict(server_uuid)
        row = MemberRow(
            timeline.instance_id,
            at,
            executed,
            assigned,
            own,
            any(channel.has_source for channel in channels),
            timeline.cluster,
            timeline.group_uuid,
            timeline.writes_anonymous,
        )
        self.enqueue(timeline.instance_id, None, (), row)

    def assigned(self, member: Member, added: GtidSet, at: JournalPosition) -> None:
        """Queue what SET gtid_purged added: until the next row a source may give it out."""
        channels = [channel for channel in member.replica.channels.values() if channel.has_source]
        if channels:
            self._compare_executed(member, channels, (added, GtidSet.EMPTY), at)

    def channel_put(
        self, member: Member, channel: ReplicaChannel, body: Mapping[str, Any], at: JournalPosition
    ) -> None:
        """Queue where CHANGE REPLICATION SOURCE has put a channel by position, if it says where."""
        file, position = body.get("source_log_file"), body.get("source_log_pos")
        if not channel.auto_position and file is not None and position is not None:
            self._put(member, channel, (file, position), at)

    def channel_begun(self, member: Member, channel: ReplicaChannel, at: JournalPosition) -> None:
        """Queue that a channel by position, which was reset, begins where its source's log does."""
        if channel.is_reset and channel.auto_position is False:
            self._put(member, channel, None, at)
        channel.is_reset = False

    def _put(
        self,
        member: Member,
        channel: ReplicaChannel,
        coordinates: Coordinates | None,
        at: JournalPosition,
    ) -> None:
        replica, applied = member.replica, member.replica.applied_to.get(channel.name)
        if applied is not None and (applied.key != channel.key or not applied.is_of_data):
            applied = None
        if channel.key is None or (applied is not None and applied.coordinates == coordinates):
            return  # to where it had executed all before
        if replica.clone_ts is not None:
            return  # clone_resume_exact judges where it goes on
        name = member.timeline.instance_id
        put = ChannelPut(name, at, coordinates, replica.data_at())
        if applied is not None:
            put = replace(put, executed=applied.coordinates, executed_ts=applied.ts)
        self.enqueue(name, channel.name, (channel.key,), put)

    def _channel_listed(self, member: Member, values: dict[str, Any], ts: int) -> ReplicaChannel:
        channel = member.replica.channel(values["channel"])
        channel.is_listed = True
        uuid = "" if channel.is_of_group else values["source_uuid"] or ""
        channel.find_source(uuid.lower(), values["source_instance"])
        channel.source_server_id = values.get("source_server_id")
        channel.is_filtered = channel.is_filtered or bool(values["filtered"])
        channel.ignores_servers = bool(values["ignores_servers"])
        channel.show_auto_position(is_on=bool(values["auto_position"]))
        member.replica.name_source(channel, ts)
        return channel

    def _compare_channel(
        self,
        member: Member,
        channel: ReplicaChannel,
        values: dict[str, Any],
        sets: tuple[GtidSet | None, GtidSet | None],
        at: JournalPosition,
        *,
        body: Mapping[str, Any],
    ) -> None:
        """Queue what a row says of a channel; `sets`: executed, and executed or retrieved."""
        if not channel.has_source:
            return
        if channel.key is None:
            self._note_unknown(member, channel, at)
            return
        read, done = _coordinates(values, "read"), _coordinates(values, "exec")
        channel.may_execute_former = bool(values.get("may_execute_former"))
        row = ChannelRow(
            instance_id=member.timeline.instance_id,
            at=at,
            server_id=member.timeline.server_id,
            retrieved=_set(values["retrieved_gtid_set"]),
            has=sets[1],
            read=read,
            executed=done,
            auto_position=bool(values["auto_position"]) and not channel.is_put_by_position,
            coordinates_ts=channel.coordinates_ts,
            retrieved_ts=channel.retrieved_ts,
            received_at=body["received_at"],
            gtid_executed=None if channel.ignores_servers else sets[0],
            own_pending=_set(body.get("own_pending")),
            logs_everything=bool(body["logs_everything"]),
            queued=channel.received.freeze(),
            compared_ts=channel.compared_ts,
            ignores_servers=channel.ignores_servers,
            former=channel.place(read, executes_former=bool(values.get("executes_former"))),
            may_execute_former=channel.may_execute_former,
            shows_progress=values.get("shows_progress") is not False,
            is_connected=bool(values.get("is_connected")),
            is_held_back=bool(values.get("is_held_back")),
            relay=_relay_end(values),
            seen=member.timeline.logged() | channel.received.freeze(),
            received_count=channel.received_count,
        )
        self.enqueue(member.timeline.instance_id, channel.name, (channel.key,), row)
        if row.executed is not None and row.executed[0] and "executed" not in row.former:
            member.replica.applied_to[channel.name] = AppliedTo(
                channel.key, at.ts, row.executed, row.coordinates_ts
            )

    def _note_unknown(self, member: Member, channel: ReplicaChannel, at: JournalPosition) -> None:
        """What the source of a channel is, nobody has reported: noted once, checked each time."""
        subject = Subject(member.timeline.instance_id, channel.name, at)
        comparisons = [one for one in COMPARISONS.values() if one.leaves_undecided]
        for one in comparisons:
            if one.evidence in (ChannelRow, ReplicaExecuted, GroupsQueued):
                self.collector.check(
                    subject, Check(one.rule.name, Outcome.UNDECIDED, SOURCE_UNKNOWN.code)
                )
        name = member.timeline.instance_id, channel.name
        if name not in self._reported_unknown:
            self._reported_unknown.add(name)
            rules = sorted((one.rule for one in comparisons), key=lambda rule: rule.name)
            self.collector.observe(subject, rules, SOURCE_UNKNOWN)

    def _compare_executed(
        self,
        member: Member,
        channels: list[ReplicaChannel],
        sets: tuple[GtidSet, GtidSet | None],
        at: JournalPosition,
        uncounted: tuple[Uncounted, ...] = (),
    ) -> None:
        """Queue what is known to be executed; `sets`: that, and what all channels retrieved."""
        if any(channel.has_source and channel.key is None for channel in channels):
            return
        timeline, assigned = member.timeline, member.replica.assigned
        unexplained = member.replica.unexplained(sets[0])
        row = ReplicaExecuted(
            instance_id=timeline.instance_id,
            at=at,
            executed=unexplained - assigned,
            assigned=unexplained & assigned,
            skipped=sets[0] & member.replica.skipped,
            server_uuid=timeline.uuid_at(at.ts),
            group_uuid=timeline.group_uuid,
            retrieved=sets[1],
            before=member.replica.before or GtidSet.EMPTY,
            uncounted=uncounted,
        )
        channel = channels[0].name if len(channels) == 1 else None
        self.enqueue(member.timeline.instance_id, channel, keys_of(channels), row)

    def _compare_clone(
        self,
        member: Member,
        status: dict[str, Any],
        at: JournalPosition,
        sets: tuple[Mapping[str, GtidSet | None], GtidSet | None],
    ) -> None:
        """Queue what a row says of a clone; `sets`: retrieved by channel; by all, or executed."""
        made = self._clone_made(member, status, at)
        if made is None:
            return
        replica, found = member.replica, member.replica.found_clone
        donor = f"i:{replica.clone_peer}"
        name = "{}:{} {}".format(*made.coordinates, made.clone_ts)
        if name not in replica.judged_clones:
            replica.judged_clones.add(name)
            self.enqueue(member.timeline.instance_id, None, (donor,), made)
        for channel in replica.channels.values():
            first, key, once = channel.first_queued, channel.key, f"{name} {channel.name}"
            is_judged = channel.ignores_servers or once in replica.judged_clones
            if first is None or key is None or is_judged:
                continue
            retrieved, has = sets[0].get(channel.name), sets[1]
            if retrieved is None or has is None or not channel.is_first_held:
                retrieved = has = GtidSet.EMPTY
            elif found is not None and first[3] and first[3] not in retrieved:
                continue  # the channel's status was read before it came
            replica.judged_clones.add(once)
            sources = (donor,) if key == donor else (donor, key)
            row = CloneResumed(
                at,
                made,
                first,
                is_first=found is None,
                retrieved=retrieved,
                has=has,
            )
            self.enqueue(member.timeline.instance_id, channel.name, sources, row)

    def _clone_made(
        self, member: Member, status: dict[str, Any], at: JournalPosition
    ) -> CloneMade | None:
        """What a row says of a clone that is over; None where that is too little: undecided."""
        replica, found = member.replica, member.replica.found_clone
        values = lower_keys(status)
        state = str(values.get("state", "")).lower()
        if replaces_data(values.get("destination")) is False:
            return None  # a copy for another server: what this one has is what it had
        if state == "failed":
            name = f"failed {values.get('begin_time')} {replica.clone_ts}"
            why = Undecided(CLONE_FAILED, error=values.get("error_no"))
            self._leave_clone_undecided(member, name, at, why)
        replica.is_clone_status_read |= state in ("completed", "failed")
        if state != "completed":
            return None
        is_another = found is not None and (
            _begin_time(found.get("begin_time")) != _begin_time(values.get("begin_time"))
        )
        if replica.clone_ts is None or is_another:
            name = f"no clone {values.get('begin_time')} {values.get('binlog_file')}"
            why = Undecided(CLONE_UNSEEN)
            # Of data that came before the journal, or from a server that records no steps.
            self._leave_clone_undecided(member, name, at, why, is_noted=False)
            return None
        file, position = values.get("binlog_file"), values.get("binlog_position")
        executed = values.get("gtid_executed")
        name = f"{file}:{position} {replica.clone_ts}"
        if found is not None and not replica.clone_peer:
            why = Undecided(CLONE_DONOR_UNKNOWN, address=found.get("source"))
            self._leave_clone_undecided(member, name, at, why)
            return None
        if not replica.clone_peer or not file or not isinstance(position, int) or executed is None:
            self._leave_clone_undecided(member, name, at, Undecided(CLONE_INCOMPLETE))
            return None
        return CloneMade(
            at,
            replica.clone_ts,
            (file, position),
            GtidSet.parse(executed),
            member.timeline.instance_id,
            replica.recovered_lsn,
            replica.clone_is_whole,
        )

    def _leave_clone_undecided(
        self,
        member: Member,
        name: str,
        at: JournalPosition,
        why: Undecided,
        *,
        is_noted: bool = True,
    ) -> None:
        """Nothing can be decided on a clone's coordinates: its checks say so, and a note, once."""
        if name in member.replica.judged_clones:
            return
        member.replica.judged_clones.add(name)
        subject = Subject(member.timeline.instance_id, None, at)
        rules = (clone_coordinates_equal_donor, clone_resume_exact)
        for rule in rules:
            check = Check(rule.name, Outcome.UNDECIDED, why.reason.code, why.data)
            self.collector.check(subject, check)
        if is_noted:
            self.collector.observe(subject, rules, why.reason, **why.data)

    def hand_on_all(self, member: Member, at: JournalPosition) -> None:
        """Hand on what every channel of an instance has queued."""
        for channel in member.replica.channels.values():
            self.queue_groups(member, channel, at, (), is_row=False)

    def hand_on_many(self, member: Member, at: JournalPosition) -> None:
        """Hand on what is too much to wait for a row."""
        for channel in member.replica.channels.values():
            if channel.queued_count > GROUPS_MAX:
                self.queue_groups(member, channel, at, (), is_row=False)

    def queue_groups(
        self,
        member: Member,
        channel: ReplicaChannel,
        at: JournalPosition,
        shown: tuple[GtidSet, ...],
        *,
        is_row: bool,
    ) -> None:
        """Hand on what a channel has queued since the last row."""
        row: GroupsQueued | None = channel.hand_on(
            at,
            member.replica.sids,
            member.known() if channel.runs else (),
            shown=shown,
            server_uuid=member.timeline.uuid_at(at.ts),
            is_row=is_row,
        )
        if row is None or not channel.has_source:
            return
        if channel.key is None:
            self._note_unknown(member, channel, at)
            return
        self.enqueue(member.timeline.instance_id, channel.name, (channel.key,), row)
        moved = tuple(replace(run, asks_anew=False) for run in row.runs if run.between)
        for key in sorted({key for run in moved for key in run.between} - {channel.key}):
            of_former = replace(row, runs=moved)
            self.enqueue(member.timeline.instance_id, channel.name, (key,), of_former)


def keys_of(channels: Iterable[ReplicaChannel]) -> tuple[str, ...]:
    """The sources of channels, each once, in order."""
    return tuple(sorted({channel.key for channel in channels if channel.key is not None}))


def _named_since_reset(member: Member, body: Mapping[str, Any], purged: GtidSet | None) -> GtidSet:
    """What SET gtid_purged has named since the last RESET BINARY LOGS AND GTIDS, as a row shows it.

    A log that began anew then has purged nothing but what it has logged. One that goes on under
    another name has: all that was in its files of the former name.
    """
    uncounted, timeline = member.replica.uncounted, member.timeline
    if purged is None or not body["logs_everything"] or not uncounted:
        return GtidSet.EMPTY
    is_of_reset = uncounted[-1].ts == timeline.lineage_ts
    return purged - timeline.grouped.freeze() if is_of_reset else GtidSet.EMPTY


def _begin_time(value: Any) -> tuple[str, str]:
    """A time of clone_status, however many digits its fraction is written with."""
    seconds, _, fraction = str(value).partition(".")
    return seconds, fraction.rstrip("0")


def _set(text: str | None) -> GtidSet | None:
    return None if text is None else GtidSet.parse(text)


def _relay_end(values: dict[str, Any]) -> tuple[str, int] | None:
    file, position = values.get("relay_log_file"), values.get("relay_log_pos")
    return None if file is None or position is None else (file, position)


def _coordinates(values: dict[str, Any], name: str) -> tuple[str, int] | None:
    file, position = values[f"{name}_source_log_file"], values[f"{name}_source_log_pos"]
    return None if file is None or position is None else (file, position)
