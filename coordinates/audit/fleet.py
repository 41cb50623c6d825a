"""The audit across instances: a pure step from fleet events to findings.

Events of one instance come in the order of its journal, those of different instances in any
interleaving. What a replica reports is compared with its source's journal as of that time or later,
never with what happens to be known; so comparisons wait until the source's journal has been
absorbed that far, and the result does not depend on the interleaving. What is remembered and what
may wait is bounded, though: so the events of one step are read in the order of their times, and a
finished history, given in one step, has one result however it was cut and interleaved.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, get_args

from tallystick.coordinates.audit.comparison import (
    ChannelRow,
    Evidence,
    MemberRow,
    RecoveryMade,
    at_any_time,
    first_ts,
)
from tallystick.coordinates.audit.comparison_queues import Queue, QueueKey
from tallystick.coordinates.audit.finding_collector import FindingCollector, FleetOutput, Subject
from tallystick.coordinates.audit.fleet_event_order import OF_LOGS, in_time_order
from tallystick.coordinates.audit.fleet_event_reader import FleetEventReader, channel_of
from tallystick.coordinates.audit.fleet_events import FleetEvent, FleetEventKind
from tallystick.coordinates.audit.journal_position import JournalPosition
from tallystick.coordinates.audit.needed_logs import forget_what_all_have_passed
from tallystick.coordinates.audit.observer_clock import (
    TOLERANCE_US,
    ahead,
    cannot_be_compared,
    is_one_clock,
)
from tallystick.coordinates.audit.origins import BINLOG
from tallystick.coordinates.audit.replica_comparisons import ReplicaComparisons
from tallystick.coordinates.audit.topology import Edge, describe_source
from tallystick.coordinates.results import Check, Outcome, SubjectCheck, held
from tallystick.coordinates.rules.between import (
    AMBIGUOUS,
    ANOTHER_SERVER,
    CLOCK_UNKNOWN,
    CLOCKS_NOT_COMPARED,
    NOT_IN_FLEET,
    SOURCE_UNKNOWN,
    Against,
    Compared,
    Remembered,
    StillBroken,
    settled,
)
from tallystick.coordinates.rules.catalogue import COMPARISONS
from tallystick.coordinates.rules.identity import (
    APPLIED_EMPTY,
    ORIGINS_FORGOTTEN,
    ORIGINS_NOT_REACHED,
    WRITTEN_TWICE,
    Claims,
    PlacedOrigin,
    gtid_origin_agreement,
    server_uuid_unique,
    shared_server_uuid,
)
from tallystick.coordinates.rules.observations import COMPARISON_WAITS, FIELD_NOT_GIVEN
from tallystick.coordinates.rules.outcomes import Broken, Holds, Undecided, Waiting
from tallystick.coordinates.state_codec import COLLABORATOR, TRANSIENT, Bytes, encode, restore
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tallystick.coordinates.audit.instance_timeline import InstanceTimeline
    from tallystick.coordinates.audit.origins import InstanceOrigins
    from tallystick.coordinates.audit.replica_comparisons import Member
    from tallystick.coordinates.rules.between import Comparison, Settled
    from tallystick.coordinates.rules.registry import Rule

__all__ = ["Edge", "FleetAudit", "FleetOutput"]

END_OF_TIME = 2**62
ROWS_MAX = 4096
"""Rows whose origins wait to be compared with an instance that lags; the oldest are dropped.

A contradiction is found whenever that instance's journal comes: no check says that there is none.
"""
_JUDGED_BY = {
    evidence: [
        (name, one.rule.name) for name, one in COMPARISONS.items() if one.evidence is evidence
    ]
    for evidence in get_args(Evidence)
}
"""By type of evidence: the predicates that take it, each with the name of its rule."""
SETTLE_EVERY = 32
"""Server records of one instance after which a step decides what can be decided.

Fewer than what fills a queue of comparisons or the states that a timeline remembers.
"""


@dataclass(eq=False)
class FleetAudit:
    """The audit of all instances together.

    Args:
        disabled: Names of rules that are not judged.
    """

    disabled: frozenset[str] = field(default=frozenset(), metadata=COLLABORATOR)
    queues: dict[QueueKey, Queue] = field(default_factory=dict)
    reported_clashes: set[tuple[str, str, str]] = field(default_factory=set)
    collector: FindingCollector = field(default_factory=FindingCollector, metadata=TRANSIENT)
    reader: FleetEventReader = field(init=False)

    def __post_init__(self) -> None:
        self.reader = FleetEventReader(ReplicaComparisons(self.enqueue, self.collector))

    # The step

    def absorb(self, fleet_events: Sequence[FleetEvent]) -> FleetOutput:
        """Take events: those of one instance in journal order, instances in any interleaving."""
        records: Counter[str] = Counter()
        for event in in_time_order(fleet_events):
            if event.kind is FleetEventKind.BEGUN_ANEW:
                self._begin_anew(event.instance_id)
            # How many heartbeats follow each other here depends on how the journal was cut.
            is_counted = event.kind not in OF_LOGS and not self.reader.is_repeated(event)
            self.reader.take(event)
            if is_counted:
                records[event.instance_id] += 1
                if records[event.instance_id] == SETTLE_EVERY:
                    self._settle()
                    records.clear()
        self._settle()
        return self.collector.give()

    def _begin_anew(self, instance_id: str) -> None:
        """What waits for the instance, or is its own, is decided by what was known of it until now.

        What follows may be of a server that was set up anew: other groups at the same positions.
        """
        self._settle()
        is_observed = False
        if instance_id in self.reader.timelines:
            is_observed = self.reader.timelines[instance_id].clock.is_observed
            names = self.reader.fleet.keys_of(instance_id, END_OF_TIME)
            for key, queue in self.queues.items():
                if key.instance_id == instance_id or not names.isdisjoint(key.sources):
                    self._expire_oldest(key, queue, len(queue.items))
        self._forget(instance_id)
        self.reader.enter(instance_id).timeline.clock.has_observer = is_observed

    def _forget(self, instance_id: str) -> None:
        """What follows of the instance has new lineage numbers: nothing from before is compared."""
        self.reader.forget(instance_id)
        for queue in self.queues.values():
            queue.memory = queue.memory.without_positions()

    def retire(self, instance_id: str) -> None:
        """An instance is no member of the fleet any more; what follows of it enters it anew."""
        self._forget(instance_id)
        self.queues = {k: queue for k, queue in self.queues.items() if k.instance_id != instance_id}
        self.reported_clashes = {one for one in self.reported_clashes if instance_id not in one[1:]}
        reader = self.reader
        reader.moved.discard(instance_id)
        for holders in reader.holders.values():
            if instance_id in holders:
                holders.remove(instance_id)
        rows = reader.rows_with_claims
        rows[:] = [row for row in rows if row.instance_id != instance_id]

    def finish(self) -> FleetOutput:
        """The end of all input: every journal ends here, at the highest time seen."""
        timelines = self.reader.timelines.values()
        end = max((timeline.known_ts for timeline in timelines), default=0)
        asked = max((timeline.clock.last_asked for timeline in timelines), default=0)
        written_to: dict[str, int] = {}
        for timeline in timelines:
            if observer := timeline.clock.present:
                written_to[observer] = max(written_to.get(observer, 0), timeline.known_ts)
        for instance_id, member in self.reader.members.items():
            # Not a row's own time: what was queued since must be looked up in later journals.
            at_end = _end_of(member, end)
            for channel in member.replica.channels.values():
                self.reader.comparisons.queue_groups(member, channel, at_end, (), is_row=False)
            self.reader.origins.end(instance_id)
            self.reader.count_claims(member, at_end)
            # Nothing follows: all is known, by whatever clock. But who was asked once more and has
            # not answered, or whose observer went on elsewhere, may have been cut short: what it
            # lacks is not held against others.
            clock = member.timeline.clock
            is_whole = member.timeline.known_ts >= written_to.get(clock.present or "", 0)
            if (clock.has_ended or is_whole) and not clock.has_left_out(asked):
                self.reader.end(member.timeline, END_OF_TIME)
        self._settle()
        for key, queue in self.queues.items():
            self._expire_queue(key, queue, end + 1)
        self._give_up_origins()
        return self.collector.give()

    def give_up(self) -> FleetOutput:
        """Nothing more is read, though the journals go on: what waits is undecided."""
        for key, queue in self.queues.items():
            self._expire_oldest(key, queue, len(queue.items))
        # No row has made these count; a run of forgotten origins that a log has begun goes on.
        for member in self.reader.members.values():
            self.reader.count_claims(member, _end_of(member, member.timeline.known_ts))
        self._give_up_origins()
        return self.collector.give()

    def expire(self, before_ts: Mapping[str, int]) -> FleetOutput:
        """Comparisons that still wait are undecided.

        Args:
            before_ts: Those of rows before this time, by the instance whose rows they are of.
        """
        for key, queue in self.queues.items():
            if key.instance_id in before_ts:
                self._expire_queue(key, queue, before_ts[key.instance_id])
        return self.collector.give()

    def waiting(self) -> list[SubjectCheck]:
        """What may leave a collection undecided and is not compared yet.

        Returns:
            Of each instance or channel at a collection one rule, the first by name.
        """
        found: dict[tuple[str, str, str], SubjectCheck] = {}
        for key, queue in self.queues.items():
            if not queue.items or not COMPARISONS[key.comparison].leaves_undecided:
                continue
            rule = COMPARISONS[key.comparison].rule.name
            check = Check(rule, Outcome.UNDECIDED, COMPARISON_WAITS.code)
            for at in (item.at for item in queue.items):
                subject = at.collection_id or "", key.instance_id, key.channel or ""
                known = found.get(subject)
                if at.collection_id is not None and (known is None or rule < known.check.rule):
                    found[subject] = SubjectCheck(
                        key.instance_id, key.channel, at.collection_id, at.ts, check
                    )
        return [one for _, one in sorted(found.items(), key=lambda each: each[0])]

    def clusters(self) -> dict[str, str]:
        """The clusters of instances, where they are known."""
        timelines = self.reader.timelines.items()
        return {name: timeline.cluster for name, timeline in timelines if timeline.cluster}

    def topology(self) -> list[Edge]:
        """Who replicates from whom, as far as known."""
        edges = []
        for instance_id, member in sorted(self.reader.members.items()):
            for name, channel in sorted(member.replica.channels.items()):
                if not channel.has_source or (channel.key is None and not channel.is_listed):
                    continue
                key = channel.key
                found = [] if key is None else self.reader.fleet.find(key, member.timeline.known_ts)
                source = found[0].instance_id if len(found) == 1 else None
                server_uuid = channel.source_uuid
                if server_uuid is None and source is not None:
                    server_uuid = found[0].uuid_at(member.timeline.known_ts)
                edges.append(Edge(source, instance_id, name, server_uuid))
        return edges

    # Comparisons

    def enqueue(
        self, instance_id: str, channel: str | None, sources: tuple[str, ...], item: Evidence
    ) -> None:
        """Evidence waits for its sources, once for each rule that judges its type."""
        for name, rule in _JUDGED_BY[type(item)]:
            if rule not in self.disabled:
                key = QueueKey(name, instance_id, channel, sources)
                queue = self.queues.get(key)
                if queue is None:
                    queue = self.queues[key] = Queue()
                queue.items.append(item)
                queue.is_fresh = True

    def _settle(self) -> None:
        """Decide what can be decided now."""
        self.reader.fleet.changed()
        for key, queue in self.queues.items():
            if queue.items:
                self._settle_queue(key, queue)
        self._report_shared_uuids()
        self._compare_origins()
        self.reader.moved.clear()
        # Here it does not depend on blocks what is forgotten.
        forget_what_all_have_passed(self.reader.members, self.reader.fleet, self.queues)
        self.reader.origins.forget_lowest()

    def _settle_queue(self, key: QueueKey, queue: Queue) -> None:
        if not (queue.is_fresh or self._may_know_more(key)):
            return
        queue.is_fresh = False
        decided = 0
        for item in queue.items:
            answer = self._answer(key, queue, item)
            if isinstance(answer, Waiting):
                break
            decided += 1
            self._report(key, queue, item, answer)
        del queue.items[:decided]
        surplus = queue.surplus()
        if surplus:
            self._expire_oldest(key, queue, surplus)

    def _may_know_more(self, key: QueueKey) -> bool:
        """Whether more may be known of what a queue waits for since the last time."""
        moved = self.reader.moved
        if not key.sources:
            return bool(moved)
        return any(s[:2] != "i:" or s[2:] in moved for s in key.sources)

    def _answer(
        self, key: QueueKey, queue: Queue, item: Evidence, *, is_overdue: bool = False
    ) -> Settled | Waiting:
        """A rule's answer; what it is to remember of it is in the queue's memory afterwards.

        Args:
            key: Of the queue.
            queue: Whose memory is used.
            item: What is judged.
            is_overdue: Whether no further answer of the sources is waited for.
        """
        sources = []
        for source in key.sources:
            found = self.reader.fleet.find(source, item.at.ts)
            if not found:
                return Waiting(NOT_IN_FLEET, source=describe_source(source))
            if len(found) > 1:
                return Undecided(AMBIGUOUS)
            sources.append(found[0])
        if not sources and not isinstance(item, (MemberRow, RecoveryMade)):
            return Undecided(SOURCE_UNKNOWN)
        against = Against(sources, queue.memory, self.reader.fleet, is_overdue=is_overdue)
        answer = COMPARISONS[key.comparison].judge(item, against)
        judged = self._unless_another(key, item, sources, answer)
        if judged is answer and not isinstance(settled(answer), (Holds, StillBroken, Waiting)):
            # What agrees stays so; a later state of the sources may yet have what is missing.
            judged = self._judge_by_any_clock(key, item, against, answer, is_overdue=is_overdue)
            judged = self._unless_another(key, item, sources, judged)
        answer = judged
        if isinstance(answer, Remembered):
            answer, queue.memory = answer
        return answer

    def _unless_another(
        self,
        key: QueueKey,
        item: Evidence,
        sources: Sequence[InstanceTimeline],
        answer: Compared,
    ) -> Compared:
        """The answer, unless it is about another server than the channel's source.

        Under the name of an instance another server may be observed at one time, as while a second
        observer takes over from a first, and behind an address that is named as an instance another
        server may be: what the replica says is not held against that one, nor proved by it.
        """
        said = settled(answer)
        if not isinstance(said, (Broken, tuple, Holds)):
            return answer
        replica = self.reader.members[key.instance_id].replica
        for name, timeline in zip(key.sources, sources, strict=True):
            if not isinstance(said, Holds) and self._is_twin(key, name, timeline):
                return Waiting(NOT_IN_FLEET, source=describe_source(name))
            source_uuid = replica.source_uuid(name, item.at.ts)
            if source_uuid is not None and timeline.uuid_at(item.at.ts) not in (None, source_uuid):
                return Undecided(
                    ANOTHER_SERVER, source=timeline.instance_id, server_uuid=source_uuid
                )
        return answer

    def _is_twin(self, key: QueueKey, name: str, source: InstanceTimeline) -> bool:
        """Whether what has the source's server_uuid has another server_id: a copied auto.cnf."""
        channels = self.reader.members[key.instance_id].replica.channels.values()
        server_ids = {channel.source_server_id for channel in channels if channel.key == name}
        is_known = bool(server_ids) and None not in server_ids and source.server_id is not None
        return name[:2] == "u:" and is_known and source.server_id not in server_ids

    def _judge_by_any_clock(
        self,
        key: QueueKey,
        item: Evidence,
        against: Against,
        answer: Compared,
        *,
        is_overdue: bool,
    ) -> Compared:
        """The answer when the clocks are as far apart as they may be, unless they are one clock.

        It counts where a contradiction was found, and where clocks are known to differ.
        """
        replica = self.reader.timelines[key.instance_id]
        request = replica.clock.request_at(item.at.ts)
        if request is None and not replica.clock.writings:
            return answer
        judge = COMPARISONS[key.comparison].judge
        upstreams = self.reader.fleet.upstreams(against.sources, item.at.ts)
        others = [*against.sources, *upstreams]
        is_undecided = isinstance(settled(answer), Undecided)
        received_at = item.received_at if isinstance(item, ChannelRow) else item.at.ts
        taken_us = 0 if received_at is None else item.at.ts - received_at
        times = first_ts(item), item.at.ts
        is_one = all(is_one_clock(one.clock, replica.clock, *times) for one in others)
        if not is_undecided:
            unknown = [] if is_one else [o for o in (replica, *others) if not o.clock.is_measured]
            if request is not None and not is_overdue:
                unknown += [o for o in against.sources if not o.clock.has_answered(request)]
            if unknown:
                return Waiting(CLOCK_UNKNOWN, source=unknown[0].instance_id)
            for one in others:
                if cannot_be_compared(replica.clock, one.clock, item.at.ts):
                    return Waiting(CLOCKS_NOT_COMPARED, source=one.instance_id)
        request = request or 0
        later_us = max((ahead(one.clock, replica.clock, request) for one in others), default=0)
        earlier_us = max((ahead(replica.clock, one.clock, request) for one in others), default=0)
        apart_us = max(later_us, earlier_us)
        if is_undecided and apart_us <= TOLERANCE_US:
            return answer
        uncertain_us = taken_us + later_us + earlier_us
        if is_one and received_at is not None and not is_undecided and apart_us <= 2 * TOLERANCE_US:
            # What began was noticed some time after that.
            later_us, earlier_us, uncertain_us = 0, TOLERANCE_US, taken_us
        against = replace(against, uncertain_us=uncertain_us)
        return judge(at_any_time(item, later_us, earlier_us), against)

    def _broken(self, rule: Rule, broken: Broken, subject: Subject) -> None:
        named = {subject.instance_id}
        for value in broken.data.values():
            values = value if isinstance(value, list) else [value]
            named.update(one for one in values if isinstance(one, str))
        timelines = self.reader.timelines
        versions = {name: timelines[name].version for name in sorted(named & timelines.keys())}
        self.collector.broken(rule, broken, subject, versions)

    def _report(self, key: QueueKey, queue: Queue, item: Evidence, answer: Settled) -> None:
        comparison, subject = COMPARISONS[key.comparison], _subject(key, item)
        rule = comparison.rule
        for broken in (answer,) if isinstance(answer, Broken) else _several(answer):
            self._broken(rule, broken, subject)
        if isinstance(answer, StillBroken):
            self.collector.check(subject, Check(rule.name, Outcome.BROKEN))
        elif comparison.leaves_undecided and isinstance(answer, Holds):
            self.collector.check(subject, held(rule.name))
        elif isinstance(answer, Undecided) and comparison.is_left_by(answer):
            self._leave_undecided(key, item, answer)
            if not queue.is_reported(answer):
                self.collector.undecided(rule, answer, subject, _sources(key))

    def _leave_undecided(self, key: QueueKey, item: Evidence, answer: Undecided | Waiting) -> None:
        name = COMPARISONS[key.comparison].rule.name
        check = Check(name, Outcome.UNDECIDED, answer.reason.code, answer.data)
        self.collector.check(_subject(key, item), check)

    def _expire_queue(self, key: QueueKey, queue: Queue, before_ts: int) -> None:
        """Comparisons of an earlier time: those that hold, hold; the others are undecided."""
        old = next((n for n, i in enumerate(queue.items) if i.at.ts >= before_ts), None)
        self._expire_oldest(key, queue, len(queue.items) if old is None else old)

    def _expire_oldest(self, key: QueueKey, queue: Queue, how_many: int) -> None:
        expired, queue.items = queue.items[:how_many], queue.items[how_many:]
        comparison = COMPARISONS[key.comparison]
        open_: list[tuple[Evidence, Waiting]] = []
        for item in expired:
            answer = self._answer(key, queue, item, is_overdue=True)
            if not isinstance(answer, Waiting):
                self._report(key, queue, item, answer)
            else:
                so_far = self._answer_so_far(key, queue, item)
                if isinstance(so_far, (Holds, StillBroken)):
                    self._report(key, queue, item, so_far)
                elif comparison.leaves_undecided or _is_against(comparison, so_far):
                    open_.append((item, answer))
        if not open_:
            return
        for item, answer in open_:
            self._leave_undecided(key, item, answer)
        first, answer = open_[0]
        if not queue.is_reported(answer) or answer.reason is not NOT_IN_FLEET:
            self.collector.undecided(
                comparison.rule, answer, _subject(key, first), _sources(key), len(open_) - 1
            )

    def _answer_so_far(self, key: QueueKey, queue: Queue, item: Evidence) -> Settled | Waiting:
        """The answer if nothing more comes of the sources than is known.

        What holds already, holds. What contradicts may do so for want of what is yet to come.
        """
        memory = queue.memory
        ts, fleet = item.at.ts, self.reader.fleet
        timelines = [timeline for source in key.sources for timeline in fleet.find(source, ts)]
        if isinstance(item, MemberRow):
            timelines = fleet.all(but=key.instance_id)
        for timeline in timelines:
            timeline.assume_known(ts)
        try:
            answer = self._answer(key, queue, item)
        finally:
            for timeline in timelines:
                timeline.assume_unknown()
        if not isinstance(answer, (Holds, StillBroken)):
            queue.memory = memory
        return answer

    # What is compared without a queue

    def _report_shared_uuids(self) -> None:
        if server_uuid_unique.name in self.disabled:
            return
        for server_uuid, holders in self.reader.fleet.holders.items():
            if len(holders) < 2:
                continue
            for first, second in self.reader.fleet.clashes(server_uuid):
                clash = server_uuid, first, second
                if clash not in self.reported_clashes:
                    self.reported_clashes.add(clash)
                    identities = self.reader.timelines[second].identities
                    shown = next(i for i in identities if i.server_uuid == server_uuid)
                    at = JournalPosition(shown.ts, shown.epoch, shown.sequence, shown.collection_id)
                    self._broken(
                        server_uuid_unique,
                        shared_server_uuid(server_uuid, first),
                        Subject(second, None, at),
                    )

    def _compare_origins(self) -> None:
        if gtid_origin_agreement.name in self.disabled:
            return
        origins, judge = self.reader.origins, gtid_origin_agreement.judge
        assert judge is not None
        for found in origins.contradictions(self.reader.moved):
            sid, gno, _ = next(iter(found.gtids))
            other = found.first if found.shown_by == found.second else found.second
            claims = Claims(
                found.shown_by,
                other,
                found.gtids,
                sid,
                gno,
                self._claimed(found.shown_by, sid, gno, found.ts),
                self._claimed(other, sid, gno, found.ts),
                found.is_hidden,
                found.is_lost,
            )
            answer = judge(claims)
            subject = Subject(found.shown_by, None, found.at)
            self._broken(gtid_origin_agreement, answer, subject)
        origins.compare_writers(self.reader.moved)
        self._doubt_written_twice()
        doubts = [(one, ORIGINS_FORGOTTEN) for one in origins.uncompared]
        doubts += [(one, APPLIED_EMPTY) for one in origins.emptied]
        for one, why in doubts:
            subject = Subject(one.instance_id, None, one.at)
            self._doubt_origins(subject, Undecided(why, gtids=one.gtids))
        origins.uncompared, origins.emptied = [], []
        self._check_origins()

    def _claimed(self, instance_id: str, sid: str, gno: int, ts: int) -> list[PlacedOrigin]:
        """What an instance's logs claim of one GTID, and where they have it."""
        found = []
        for origin, stream in self.reader.origins.origins_in(instance_id, sid, gno, ts):
            place = None
            if stream == BINLOG:
                place = self.reader.timelines[instance_id].place_of(sid, gno)
            elif stream is not None:
                place = f"relay log of channel {channel_of(stream) or '(default)'}"
            found.append(PlacedOrigin(*origin, place))
        return found

    def _give_up_origins(self) -> None:
        """What contradicts each other, unless a log has begun anew meanwhile, is undecided."""
        if gtid_origin_agreement.name in self.disabled:
            return
        origins = self.reader.origins
        for found in origins.contradictions(origins.instances, END_OF_TIME):
            subject = Subject(found.shown_by, None, found.at)
            other = found.first if found.shown_by == found.second else found.second
            doubt = Undecided(ORIGINS_NOT_REACHED, gtids=found.gtids, other=other)
            self._doubt_origins(subject, doubt)
        origins.compare_writers(origins.instances, END_OF_TIME)
        self._doubt_written_twice()

    def _doubt_written_twice(self) -> None:
        """What was written twice, and nothing shows that both are one transaction."""
        writers = self.reader.origins.writers
        found, writers.found = writers.found, []
        for one in found:
            sid, gno, _ = next(iter(one.gtids))
            first, second = (
                where or self._written_by(instance_id, sid, gno)
                for where, instance_id in zip((one.first, one.second), one.writers, strict=True)
            )
            subject = Subject(one.instance_id, None, one.at)
            doubt = Undecided(WRITTEN_TWICE, gtids=one.gtids, first=first, second=second)
            self._doubt_origins(subject, doubt)

    def _written_by(self, instance_id: str, sid: str, gno: int) -> str:
        """Where the binary log of an instance has a GTID."""
        place = self.reader.timelines[instance_id].place_of(sid, gno)
        return f"by instance {instance_id}" + ("" if place is None else f", up to {place}")

    def _doubt_origins(self, subject: Subject, doubt: Undecided) -> None:
        rule = gtid_origin_agreement
        self.collector.observe(subject, [rule], doubt.reason, **doubt.data)
        check = Check(rule.name, Outcome.UNDECIDED, doubt.reason.code, doubt.data)
        self.collector.check(subject, check)

    def _check_origins(self) -> None:
        """Rows whose claims have been compared with those of all other instances."""
        rows, instances = self.reader.rows_with_claims, self.reader.origins.instances
        if len(instances) > 1:
            # A journal that has shown no server yet need not go on, and nothing waits for it.
            timelines = self.reader.timelines
            known_ts = min(
                (one.known_ts for name, one in instances.items() if timelines[name].identities),
                default=-1,
            )
            for row in rows:
                if row.at.ts <= known_ts:
                    self.collector.check(
                        row, _origins_checked(instances.get(row.instance_id), row.at)
                    )
                    self._check_shared_uuids(row)
            rows[:] = [row for row in rows if row.at.ts > known_ts]
        del rows[:-ROWS_MAX]

    def _check_shared_uuids(self, row: Subject) -> None:
        """Whether an instance that shared a `server_uuid` with others still does."""
        fleet, ts = self.reader.fleet, row.at.ts
        of_row = [clash for clash in self.reported_clashes if clash[2] == row.instance_id]
        if of_row:
            shared = any(
                fleet.uuid_of(first, ts) == server_uuid == fleet.uuid_of(second, ts)
                for server_uuid, first, second in of_row
            )
            outcome = Outcome.BROKEN if shared else Outcome.HOLDS
            self.collector.check(row, Check(server_uuid_unique.name, outcome))

    # State

    def to_bytes(self) -> bytes:
        """The whole state."""
        return encode(FleetAudit, self)

    @classmethod
    def from_bytes(cls, data: Bytes, disabled: frozenset[str] = frozenset()) -> FleetAudit:
        """Inverse of `to_bytes`.

        Args:
            data: The bytes.
            disabled: Names of rules that are not judged from now on.

        Raises:
            StateVersionError: Another version of tallystick has written the bytes.
            StateDamagedError: They are cut short, or have changed.
        """
        audit = cls(disabled)
        restore(audit, data, "the fleet")
        return audit


def _origins_checked(instance: InstanceOrigins | None, at: JournalPosition) -> Check:
    """All known origins agree; others claim nothing."""
    name = gtid_origin_agreement.name
    otherwise = GtidSet.EMPTY if instance is None else instance.otherwise_at(at)
    if otherwise:
        # Which of them differ is not known, until the log begins anew.
        forgotten = Undecided(ORIGINS_FORGOTTEN, gtids=otherwise)
        return Check(name, Outcome.UNDECIDED, forgotten.reason.code, forgotten.data)
    if instance is None or not instance.lacking:
        return held(name)
    data = {"field": " and no ".join(sorted(instance.lacking))}
    return Check(name, Outcome.UNDECIDED, FIELD_NOT_GIVEN.code, data)


def _is_against(comparison: Comparison, so_far: Settled | Waiting) -> bool:
    """Whether an answer speaks against a rule that is not undecided for want of this one alone."""
    if isinstance(so_far, Undecided):
        return comparison.is_left_by(so_far)
    # Of sources that are there it still waits, by their clocks, where something was found.
    return not isinstance(so_far, Waiting) or so_far.reason is not NOT_IN_FLEET


def _end_of(member: Member, ts: int) -> JournalPosition:
    """Where the journal of a member ends, which is known up to `ts`."""
    at = member.replica.at or JournalPosition(ts, 0, 0, None)
    return JournalPosition(ts, at.epoch, at.sequence, None)


def _subject(key: QueueKey, item: Evidence) -> Subject:
    return Subject(key.instance_id, key.channel, item.at)


def _sources(key: QueueKey) -> list[str]:
    return [describe_source(source) for source in key.sources]


def _several(answer: Settled) -> tuple[Broken, ...]:
    return answer if isinstance(answer, tuple) else ()
