"""The audit across instances: a pure step from facts to findings.

Facts of one instance come in the order of its journal, those of different instances in any
interleaving. What a replica says is compared with its source's journal as it stood at that time or
later, never with what happens to be known; so comparisons wait until the source's journal has been
absorbed that far, and the result does not depend on the interleaving.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tallystick.coordinates.audit.comparison import Case, Memory, Undecided, Waiting
from tallystick.coordinates.audit.comparison_queues import KINDS, Queue, QueueKey
from tallystick.coordinates.audit.finding_collector import FindingCollector, FleetOutput
from tallystick.coordinates.audit.fleet_event_reader import FleetEventReader
from tallystick.coordinates.audit.fleet_events import FleetEvent, FleetEventKind
from tallystick.coordinates.audit.journal_position import Place
from tallystick.coordinates.audit.topology import Edge, describe_source
from tallystick.coordinates.rules.comparing.judges import AMBIGUOUS
from tallystick.coordinates.rules.fleet import GTID_ORIGIN_AGREEMENT, SERVER_UUID_UNIQUE
from tallystick.coordinates.state_codec import TRANSIENT, Bytes, encode, restore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tallystick.coordinates.audit.comparison import Answer, Comparison, Problem

__all__ = ["Edge", "FleetAudit", "FleetOutput"]

NOT_IN_FLEET = "is not in the fleet"


@dataclass(eq=False)
class FleetAudit:
    """The audit of all instances together.

    Args:
        disabled: Names of invariants that are not judged.
    """

    disabled: frozenset[str] = frozenset()
    queues: dict[QueueKey, Queue] = field(default_factory=dict)
    told_clashes: set[tuple[str, str, str]] = field(default_factory=set)
    collector: FindingCollector = field(default_factory=FindingCollector, metadata=TRANSIENT)
    reader: FleetEventReader = field(init=False)

    def __post_init__(self) -> None:
        self.reader = FleetEventReader(self.enqueue, self.collector)

    # The step

    def absorb(self, fleet_events: Sequence[FleetEvent]) -> FleetOutput:
        """Take facts: those of one instance in journal order, instances in any interleaving."""
        for fact in fleet_events:
            if fact.kind is FleetEventKind.STATE_LOST:
                self._forget(fact.instance_id)
            self.reader.take(fact)
        self._settle()
        return self.collector.give()

    def _forget(self, instance_id: str) -> None:
        """What follows of the instance has new lineage numbers: nothing from before is compared."""
        self.reader.forget(instance_id)
        for queue in self.queues.values():
            queue.memory.forget_positions()

    def finish(self) -> FleetOutput:
        """The end of all input: every journal ends here, at the highest time seen."""
        end = max((timeline.known_ts for timeline in self.reader.timelines.values()), default=0)
        for instance_id, member in self.reader.members.items():
            place = member.replica.place or Place(end, 0, 0, None)
            # Not a row's own time: what was queued since must be looked up in later journals.
            at_end = Place(end, place.epoch, place.sequence, None)
            for channel in member.replica.channels.values():
                self.reader.queue_groups(member, channel, at_end, (), is_row=False)
            self.reader.origins.row(instance_id, member.timeline.lineage, at_end)
            self.reader.end(member.timeline, end)
        self._settle()
        for key, queue in self.queues.items():
            self._expire_queue(key, queue, end + 1)
        return self.collector.give()

    def expire(self, before_ts: int) -> FleetOutput:
        """Comparisons of rows before `before_ts` that still wait are undecided."""
        for key, queue in self.queues.items():
            self._expire_queue(key, queue, before_ts)
        return self.collector.give()

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
        self,
        kind: str,
        instance_id: str,
        channel: str | None,
        sources: tuple[str, ...],
        item: Comparison,
    ) -> None:
        """A comparison waits for its sources; what the reader has found."""
        if KINDS[kind].rule.name in self.disabled:
            return
        key = QueueKey(kind, instance_id, channel, sources)
        queue = self.queues.get(key)
        if queue is None:
            queue = self.queues[key] = Queue()
        queue.items.append(item)
        queue.is_fresh = True

    def _settle(self) -> None:
        """Decide what can be decided now."""
        for key, queue in self.queues.items():
            if queue.items:
                self._settle_queue(key, queue)
        self._tell_clashes()
        if GTID_ORIGIN_AGREEMENT.name not in self.disabled:
            for contradiction in self.reader.origins.contradictions(self.reader.moved):
                self.collector.contradiction(contradiction, self.reader.origins)
        self.reader.moved.clear()

    def _settle_queue(self, key: QueueKey, queue: Queue) -> None:
        moved = self.reader.moved
        if not queue.is_fresh and all(s[:2] == "i:" and s[2:] not in moved for s in key.sources):
            return
        queue.is_fresh = False
        decided = 0
        for item in queue.items:
            answer = self._answer(key, queue.memory, item)
            if isinstance(answer, Waiting):
                break
            decided += 1
            self._tell(key, queue, item, answer)
        del queue.items[:decided]
        surplus = queue.surplus()
        if surplus:
            self._expire_oldest(key, queue, surplus)

    def _answer(self, key: QueueKey, memory: Memory, item: Comparison) -> Answer:
        sources = []
        for source in key.sources:
            found = self.reader.fleet.find(source, item.place.ts)
            if not found:
                return Waiting(f"{describe_source(source)} {NOT_IN_FLEET}")
            if len(found) > 1:
                return Undecided(AMBIGUOUS)
            sources.append(found[0])
        answer: Answer = KINDS[key.kind].judge(item, Case(sources, memory, self.reader.fleet))
        return answer

    def _tell(
        self, key: QueueKey, queue: Queue, item: Comparison, answer: list[Problem] | Undecided
    ) -> None:
        if isinstance(answer, Undecided):
            if answer.reason not in queue.told:
                queue.told.add(answer.reason)
                self.collector.undecided(key, item.place, answer.reason)
            return
        for problem in answer:
            self.collector.broken(problem, key.instance_id, key.channel, item.place)

    def _expire_queue(self, key: QueueKey, queue: Queue, before_ts: int) -> None:
        """Comparisons of before a time: those that hold already hold, the others are undecided."""
        old = next((n for n, i in enumerate(queue.items) if i.place.ts >= before_ts), None)
        self._expire_oldest(key, queue, len(queue.items) if old is None else old)

    def _expire_oldest(self, key: QueueKey, queue: Queue, how_many: int) -> None:
        count = 0
        first, reason = None, ""
        expired, queue.items = queue.items[:how_many], queue.items[how_many:]
        for item in expired:
            answer = self._answer(key, queue.memory, item)
            if not isinstance(answer, Waiting):
                self._tell(key, queue, item, answer)
                continue
            if self._holds_already(key, queue, item):
                continue
            count += 1
            if first is None:
                first, reason = item.place, answer.reason
        if first is not None and (reason not in queue.told or NOT_IN_FLEET not in reason):
            queue.told.add(reason)
            more = f" (and {count - 1} later rows)" if count > 1 else ""
            self.collector.undecided(key, first, reason + more)

    def _holds_already(self, key: QueueKey, queue: Queue, item: Comparison) -> bool:
        """Whether what is known of the sources so far already shows that the rule holds."""
        memory = queue.memory.copy()
        ts, fleet = item.place.ts, self.reader.fleet
        timelines = [timeline for source in key.sources for timeline in fleet.find(source, ts)]
        for timeline in timelines:
            timeline.assume_known(ts)
        try:
            answer = self._answer(key, memory, item)
        finally:
            for timeline in timelines:
                timeline.assume_unknown()
        if answer == []:
            queue.memory = memory
            return True
        return False

    def _tell_clashes(self) -> None:
        if SERVER_UUID_UNIQUE.name in self.disabled:
            return
        for server_uuid, holders in self.reader.fleet.holders.items():
            if len(holders) < 2:
                continue
            for first, second in self.reader.fleet.clashes(server_uuid):
                clash = server_uuid, first, second
                if clash not in self.told_clashes:
                    self.told_clashes.add(clash)
                    self.collector.clash(server_uuid, first, self.reader.timelines[second])

    # State

    def to_bytes(self) -> bytes:
        """The whole state."""
        return encode(FleetAudit, self)

    @classmethod
    def from_bytes(cls, data: Bytes) -> FleetAudit:
        """Inverse of `to_bytes`.

        Raises:
            StateVersionError: Another version of tallystick has written the bytes.
            StateDamagedError: They are cut short, or have changed.
        """
        audit = cls()
        restore(audit, data, "the fleet")
        return audit
