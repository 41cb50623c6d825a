"""The audit across instances: a pure step from facts to findings.

Facts of one instance come in the order of its journal, those of different instances in any
interleaving. What a replica says is compared with its source's journal as it stood at that time or
later, never with what happens to be known; so comparisons wait until the source's journal has been
absorbed that far, and the result does not depend on the interleaving.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from coordinates.comparing.binlog_file import BinlogGroups
from coordinates.comparing.comparison import (
    ChannelSaid,
    CloneMade,
    Memory,
    Problem,
    ReplicaExecuted,
    Undecided,
    Waiting,
    brief,
)
from coordinates.comparing.judges import AMBIGUOUS
from coordinates.comparing.origins import Origins
from coordinates.comparing.place import Place
from coordinates.comparing.queues import KINDS, WAITING_MAX, Queue, QueueKey
from coordinates.comparing.replica import BEGINS, CONNECTS, FORGETS_COORDINATES, Replica
from coordinates.facts import Fact, FactKind
from coordinates.gtid import GtidSet
from coordinates.invariants.fleet import GTID_ORIGIN_AGREEMENT, SERVER_UUID_UNIQUE
from coordinates.ledger import Ledger
from coordinates.packing import pack, unpack
from coordinates.topology import Edge, Fleet, describe_source
from coordinates.verdict import Finding, Observation, ObservationCode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from coordinates.comparing.comparison import Answer, Comparison, GroupsQueued
    from coordinates.comparing.origins import Contradiction
    from coordinates.comparing.replica import ReplicaChannel

__all__ = ["Edge", "FleetAudit", "FleetOutput"]

_MAGIC = b"TSFL"
_VERSION = 1
NOT_IN_FLEET = "is not in the fleet"
BINLOG = "binlog"


@dataclass(slots=True)
class FleetOutput:
    """What one step of the fleet's audit brought."""

    findings: list[Finding] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)


class _Member(NamedTuple):
    """One instance: its journal, and itself as a replica."""

    ledger: Ledger
    replica: Replica


class FleetAudit:
    """The audit of all instances together.

    Args:
        disabled: Names of invariants that are not judged.
    """

    def __init__(self, disabled: frozenset[str] = frozenset()) -> None:
        self.disabled = disabled
        self.members: dict[str, _Member] = {}
        self.ledgers: dict[str, Ledger] = {}
        self.origins = Origins()
        self.fleet = Fleet(self.ledgers, self.origins)
        self.queues: dict[QueueKey, Queue] = {}
        self.told_clashes: set[tuple[str, str, str]] = set()
        self.told_unknown: set[str] = set()
        self._moved: set[str] = set()
        self._output = FleetOutput()
        self._handlers: dict[FactKind, Callable[[Fact, _Member], None]] = {
            FactKind.BOOT: self._booted,
            FactKind.PREVIOUS: self._head_read,
            FactKind.FILE_END: self._file_ended,
            FactKind.LINEAGE: self._lineage_began,
            FactKind.CHANNEL: self._channel_administered,
            FactKind.GTID_PURGED: self._gtids_assigned,
            FactKind.STATUS: self._status_told,
            FactKind.CLONE: self._clone_stepped,
            FactKind.GAP: self._records_lost,
        }

    # The step

    def absorb(self, facts: Sequence[Fact]) -> FleetOutput:
        """Take facts: those of one instance in journal order, instances in any interleaving."""
        for fact in facts:
            self._take(fact)
        for ledger in self.ledgers.values():
            if ledger.open_ts is not None and ledger.open_ts < ledger.known_ts:
                self._close_instant(ledger, ledger.open_ts)
        self._settle()
        return self._give()

    def finish(self) -> FleetOutput:
        """The end of all input: every journal ends here, at the highest time seen."""
        end = max((ledger.known_ts for ledger in self.ledgers.values()), default=0)
        for instance_id, member in self.members.items():
            place = member.replica.place or Place(end, 0, 0, None)
            # Not a row's own time: what was queued since must be looked up in later journals.
            at_end = Place(end, place.epoch, place.sequence, None)
            for channel in member.replica.channels.values():
                self._queue_groups(member, channel, at_end, (), is_row=False)
            self.origins.row(instance_id, member.ledger.lineage, at_end)
            self._reach(member.ledger, end)
            self._close_instant(member.ledger, member.ledger.known_ts)
        self._settle()
        for key, queue in self.queues.items():
            self._expire_queue(key, queue, end + 1)
        return self._give()

    def expire(self, before_ts: int) -> FleetOutput:
        """Comparisons of rows before `before_ts` that still wait are undecided."""
        for key, queue in self.queues.items():
            self._expire_queue(key, queue, before_ts)
        return self._give()

    def topology(self) -> list[Edge]:
        """Who replicates from whom, as far as known."""
        edges = []
        for instance_id, member in sorted(self.members.items()):
            for name, channel in sorted(member.replica.channels.items()):
                if not channel.has_source or (channel.key is None and not channel.is_listed):
                    continue
                key = channel.key
                found = [] if key is None else self.fleet.find(key, member.ledger.known_ts)
                source = found[0].instance_id if len(found) == 1 else None
                server_uuid = channel.source_uuid
                if server_uuid is None and source is not None:
                    server_uuid = found[0].uuid_at(member.ledger.known_ts)
                edges.append(Edge(source, instance_id, name, server_uuid))
        return edges

    def _give(self) -> FleetOutput:
        output, self._output = self._output, FleetOutput()
        output.findings.sort(key=lambda finding: finding.order)
        return output

    # Facts

    def _take(self, fact: Fact) -> None:
        member = self.members.get(fact.instance_id)
        if member is None:
            member = _Member(Ledger(fact.instance_id), Replica(fact.instance_id))
            self.members[fact.instance_id] = member
            self.ledgers[fact.instance_id] = member.ledger
        if fact.kind is FactKind.LOGGED:
            self._logged(fact, member)
            member.ledger.reached(fact.ts)
        elif fact.kind is FactKind.RECEIVED:
            self._received(fact, member)
            member.ledger.reached(fact.ts)
        else:
            if fact.ts > member.ledger.known_ts:
                self._close_instant(member.ledger, member.ledger.known_ts)
            handler = self._handlers.get(fact.kind)
            if handler is not None:
                handler(fact, member)
            member.replica.place = Place.of(fact)
            self._reach(member.ledger, fact.ts)
            if fact.kind is FactKind.TIME:
                self._close_instant(member.ledger, member.ledger.known_ts)

    def _reach(self, ledger: Ledger, ts: int) -> None:
        """The journal has reached `ts`; more records of that instant may follow."""
        ledger.reached(ts)
        ledger.open_ts = ledger.known_ts
        self.origins.reached(ledger.instance_id, ledger.known_ts)

    def _close_instant(self, ledger: Ledger, ts: int) -> None:
        """The journal is known up to `ts`: what waits for that may be decided.

        An observer reads many events at one time; a state taken in the middle of them lacks what
        had been written by then.
        """
        if ledger.open_ts is not None:
            ledger.open_ts = None
            ledger.take_snapshot(ts)
            self._moved.add(ledger.instance_id)

    def _logged(self, fact: Fact, member: _Member) -> None:
        ledger, arrays = member.ledger, fact.arrays
        sids = fact.body["sids"]
        local = arrays["group_sid"]
        column = ledger.sid_column(sids, local)
        gno = arrays["group_gno"]
        ledger.log(fact, BinlogGroups(arrays["group_event"], column, gno))
        for sid, which in _by_sid(sids, local):
            ledger.grouped.add_gnos(sid, gno[which])
        self._claim(fact, (BINLOG, ledger.lineage), sids)

    def _received(self, fact: Fact, member: _Member) -> None:
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

    def _claim(self, fact: Fact, log: tuple[str, int], sids: list[str]) -> None:
        arrays = fact.arrays
        for sid, which in _by_sid(sids, arrays["group_sid"]):
            self.origins.claim(
                fact.instance_id,
                log,
                sid,
                arrays["group_gno"][which],
                arrays["group_server_id"][which],
                arrays["group_commit_ts"][which],
            )

    def _booted(self, fact: Fact, member: _Member) -> None:
        body, replica = fact.body, member.replica
        self._identify(fact, member)
        group = (body.get("variables") or {}).get("group_replication_group_name")
        member.ledger.group_uuid = str(group).lower() if group else member.ledger.group_uuid
        data_lineage = body.get("data_lineage")
        if replica.data_lineage is not None and data_lineage != replica.data_lineage:
            self._hand_on_all(member, Place.of(fact))
            replica.begin_data_lineage()
            self.origins.end_logs(fact.instance_id, None, fact.ts)
        replica.data_lineage = data_lineage
        for channel in replica.channels.values():
            channel.connects = True

    def _identify(self, fact: Fact, member: _Member) -> None:
        server_uuid = fact.body.get("server_uuid")
        if member.ledger.identify(fact, server_uuid, fact.body.get("server_id")):
            self.fleet.learn(str(server_uuid), fact.instance_id)

    def _head_read(self, fact: Fact, member: _Member) -> None:
        member.ledger.head(fact.body, fact.ts)

    def _file_ended(self, fact: Fact, member: _Member) -> None:
        member.ledger.end_file(fact.body, fact.ts)

    def _lineage_began(self, fact: Fact, member: _Member) -> None:
        member.ledger.begin_lineage(fact.body["binlog_lineage"], fact.ts)
        self.origins.end_logs(fact.instance_id, BINLOG, fact.ts)

    def _channel_administered(self, fact: Fact, member: _Member) -> None:
        body, replica = fact.body, member.replica
        name, action = str(body.get("channel", "")).lower(), body.get("action")
        channel = replica.channel(name)
        if action == "change_source":
            self._queue_groups(member, channel, Place.of(fact), (), is_row=False)
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
            self._queue_groups(member, channel, Place.of(fact), (), is_row=False)
            replica.leave(name)

    def _gtids_assigned(self, fact: Fact, member: _Member) -> None:
        added = GtidSet.parse(fact.body["added"])
        member.ledger.assign(added)
        member.replica.assigned = member.replica.assigned | added

    def _clone_stepped(self, fact: Fact, member: _Member) -> None:
        if fact.body.get("role") == "recipient":
            member.replica.cloned(fact.body, fact.ts)

    def _records_lost(self, fact: Fact, member: _Member) -> None:
        member.ledger.miss(fact.ts)
        for channel in member.replica.channels.values():
            channel.begins = True

    # log_status rows

    def _status_told(self, fact: Fact, member: _Member) -> None:
        body, ledger, replica = fact.body, member.ledger, member.replica
        self._identify(fact, member)
        place = Place.of(fact)
        executed, purged = _set(body["gtid_executed"]), _set(body["gtid_purged"])
        channels = [self._channel_told(member, said) for said in body["channels"]]
        keys = [channel.key for channel in channels]
        sources = tuple(sorted({key for key in keys if key is not None}))
        ledger.row(executed, purged, body["logs_everything"], sources, place.ts)
        retrieved = [_set(said["retrieved_gtid_set"]) for said in body["channels"]]
        told = (*(r for r in retrieved if r is not None), *((executed,) if executed else ()))
        is_whole = executed is not None and None not in retrieved
        for channel in replica.channels.values():
            self._queue_groups(member, channel, place, told, is_row=is_whole)
        has = None
        if is_whole and executed is not None:
            has = executed
            for gtids in told:
                has = has | gtids
        for channel, said, of_channel in zip(channels, body["channels"], retrieved, strict=True):
            self._compare_channel(member, channel, said, of_channel, has, place)
        if executed is not None and sources:
            self._compare_executed(member, channels, executed, sources, place)
        if body["clone_status"]:
            self._compare_clone(member, body["clone_status"], place)
        self.origins.row(fact.instance_id, ledger.lineage, place)

    def _channel_told(self, member: _Member, said: dict[str, Any]) -> ReplicaChannel:
        channel = member.replica.channel(said["channel"])
        channel.is_listed = True
        if said["source_uuid"]:
            channel.source_uuid = said["source_uuid"].lower()
        channel.is_filtered = channel.is_filtered or bool(said["filtered"])
        return channel

    def _compare_channel(
        self,
        member: _Member,
        channel: ReplicaChannel,
        said: dict[str, Any],
        retrieved: GtidSet | None,
        has: GtidSet | None,
        place: Place,
    ) -> None:
        if not channel.has_source:
            return
        if channel.key is None:
            self._note_unknown(member, channel, place)
            return
        row = ChannelSaid(
            instance_id=member.ledger.instance_id,
            place=place,
            server_id=member.ledger.server_id,
            retrieved=retrieved,
            has=has,
            read=_coordinates(said, "read"),
            executed=_coordinates(said, "exec"),
            auto_position=bool(said["auto_position"]),
            coordinates_ts=channel.coordinates_ts,
            retrieved_ts=channel.retrieved_ts,
        )
        for kind in ("server_id", "received", "coordinates", "purged"):
            self._enqueue(kind, member, channel.name, (channel.key,), row)

    def _note_unknown(self, member: _Member, channel: ReplicaChannel, place: Place) -> None:
        """Nobody has told what the source of a channel is."""
        name = f"{member.ledger.instance_id}\x1f{channel.name}"
        if name in self.told_unknown:
            return
        self.told_unknown.add(name)
        rules = ", ".join(k for k in sorted(KINDS[kind].invariant.name for kind in KINDS))
        self._observe(
            member.ledger.instance_id,
            channel.name,
            place,
            f"the source of the channel is not known; undecided: {rules}",
        )

    def _compare_executed(
        self,
        member: _Member,
        channels: list[ReplicaChannel],
        executed: GtidSet,
        sources: tuple[str, ...],
        place: Place,
    ) -> None:
        if any(channel.has_source and channel.key is None for channel in channels):
            return
        ledger = member.ledger
        row = ReplicaExecuted(
            instance_id=ledger.instance_id,
            place=place,
            executed=member.replica.unexplained(executed),
            server_uuid=ledger.uuid_at(place.ts),
            group_uuid=ledger.group_uuid,
        )
        self._enqueue("executed", member, None, sources, row)

    def _compare_clone(self, member: _Member, status: dict[str, Any], place: Place) -> None:
        replica = member.replica
        values = {str(key).lower(): value for key, value in status.items()}
        if replica.clone_ts is None or str(values.get("state", "")).lower() != "completed":
            return
        file, position = values.get("binlog_file"), values.get("binlog_position")
        executed = values.get("gtid_executed")
        name = f"{file}:{position} {replica.clone_ts}"
        if not replica.clone_peer or not file or not isinstance(position, int) or executed is None:
            if name not in replica.judged_clones:
                replica.judged_clones.add(name)
                self._observe(
                    member.ledger.instance_id,
                    None,
                    place,
                    f"{KINDS['clone'].invariant.name} and {KINDS['resume'].invariant.name}: the"
                    " donor or clone_status is not known",
                )
            return
        donor = f"i:{replica.clone_peer}"
        gtids, coordinates = GtidSet.parse(executed), (file, position)
        if name not in replica.judged_clones:
            replica.judged_clones.add(name)
            row = CloneMade(place, replica.clone_ts, coordinates, gtids, None)
            self._enqueue("clone", member, None, (donor,), row)
        for channel in replica.channels.values():
            first, key, once = channel.first_queued, channel.key, f"{name} {channel.name}"
            if first is None or key is None or channel.is_filtered or once in replica.judged_clones:
                continue
            replica.judged_clones.add(once)
            row = CloneMade(place, replica.clone_ts, coordinates, gtids, first)
            sources = (donor,) if key == donor else (donor, key)
            self._enqueue("resume", member, channel.name, sources, row)

    # Comparisons

    def _hand_on_all(self, member: _Member, place: Place) -> None:
        for channel in member.replica.channels.values():
            self._queue_groups(member, channel, place, (), is_row=False)

    def _queue_groups(
        self,
        member: _Member,
        channel: ReplicaChannel,
        place: Place,
        told: tuple[GtidSet, ...],
        *,
        is_row: bool,
    ) -> None:
        if not channel.runs:
            channel.queued_ts = place.ts
            return
        known = (member.ledger.logged(), member.ledger.beyond, *member.replica.received())
        row: GroupsQueued | None = channel.hand_on(
            place, member.replica.sids, (*known, *told), is_row=is_row
        )
        if row is None or not channel.has_source:
            return
        if channel.key is None:
            self._note_unknown(member, channel, place)
            return
        self._enqueue("mirror", member, channel.name, (channel.key,), row)

    def _enqueue(
        self,
        kind: str,
        member: _Member,
        channel: str | None,
        sources: tuple[str, ...],
        item: Comparison,
    ) -> None:
        if KINDS[kind].invariant.name in self.disabled:
            return
        key = QueueKey(kind, member.ledger.instance_id, channel, sources)
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
            for contradiction in self.origins.contradictions(self._moved):
                self._tell_contradiction(contradiction)
        self._moved.clear()

    def _settle_queue(self, key: QueueKey, queue: Queue) -> None:
        if not queue.is_fresh and all(
            source.startswith("i:") and source[2:] not in self._moved for source in key.sources
        ):
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
        if len(queue.items) > WAITING_MAX:
            self._expire_queue(key, queue, queue.items[-WAITING_MAX].place.ts)

    def _answer(self, key: QueueKey, memory: Memory, item: Comparison) -> Answer:
        sources = []
        for source in key.sources:
            found = self.fleet.find(source, item.place.ts)
            if not found:
                return Waiting(f"{describe_source(source)} {NOT_IN_FLEET}")
            if len(found) > 1:
                return Undecided(AMBIGUOUS)
            sources.append(found[0])
        answer: Answer = KINDS[key.kind].judge(item, sources, memory, self.fleet)
        return answer

    def _tell(
        self, key: QueueKey, queue: Queue, item: Comparison, answer: list[Problem] | Undecided
    ) -> None:
        if isinstance(answer, Undecided):
            if answer.reason not in queue.told:
                queue.told.add(answer.reason)
                self._undecided(key, item.place, answer.reason)
            return
        for problem in answer:
            self._broken(problem, key.instance_id, key.channel, item.place)

    def _expire_queue(self, key: QueueKey, queue: Queue, before_ts: int) -> None:
        """Comparisons of before a time: those that hold already hold, the others are undecided."""
        count = 0
        first, reason = None, ""
        while queue.items and queue.items[0].place.ts < before_ts:
            item = queue.items.pop(0)
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
            self._undecided(key, first, reason + more)

    def _holds_already(self, key: QueueKey, queue: Queue, item: Comparison) -> bool:
        """Whether what is known of the sources so far already shows that the rule holds."""
        memory = Memory.load(queue.memory.dump())
        ledgers = [ledger for s in key.sources for ledger in self.fleet.find(s, item.place.ts)]
        for ledger in ledgers:
            ledger.assume_known(item.place.ts)
        try:
            answer = self._answer(key, memory, item)
        finally:
            for ledger in ledgers:
                ledger.assume_unknown()
        if answer == []:
            queue.memory = memory
            return True
        return False

    # Saying it

    def _tell_clashes(self) -> None:
        if SERVER_UUID_UNIQUE.name in self.disabled:
            return
        for server_uuid, holders in self.fleet.holders.items():
            if len(holders) < 2:
                continue
            for first, second in self.fleet.clashes(server_uuid):
                clash = server_uuid, first, second
                if clash not in self.told_clashes:
                    self.told_clashes.add(clash)
                    self._tell_clash(*clash)

    def _tell_clash(self, server_uuid: str, first: str, second: str) -> None:
        shown = next(i for i in self.ledgers[second].identities if i.server_uuid == server_uuid)
        problem = Problem(
            SERVER_UUID_UNIQUE,
            at=f"{server_uuid} of {first}",
            sentence=f"Instances {first} and {second} both report the server_uuid {server_uuid}.",
            observed=server_uuid,
            observed_in=f"instance {second}",
            expected="another server_uuid",
            expected_in=f"instance {first}, which reports this one",
            witness=server_uuid,
        )
        place = Place(shown.ts, shown.epoch, shown.sequence, shown.collection_id)
        self._broken(problem, second, None, place)

    def _tell_contradiction(self, found: Contradiction) -> None:
        sid, gno, _ = next(iter(found.gtids))
        other = found.first if found.shown_by == found.second else found.second
        mine = self.origins.origins_in(found.shown_by, sid, gno, found.ts)
        theirs = self.origins.origins_in(other, sid, gno, found.ts)
        problem = Problem(
            GTID_ORIGIN_AGREEMENT,
            at=f"{sid}:{gno} against {other}",
            sentence=f"{brief(found.gtids, 3)} is one transaction in the logs of instance"
            f" {found.shown_by} and another in those of instance {other}.",
            observed="; ".join(str(origin) for origin in mine),
            observed_in=f"logs of instance {found.shown_by}, {sid}:{gno}",
            expected="; ".join(str(origin) for origin in theirs),
            expected_in=f"logs of instance {other}, {sid}:{gno}",
            witness=brief(found.gtids),
        )
        self._broken(problem, found.shown_by, None, found.place)

    def _broken(
        self, problem: Problem, instance_id: str, channel: str | None, place: Place
    ) -> None:
        self._output.findings.append(
            Finding(
                invariant=problem.invariant.name,
                severity=problem.invariant.severity,
                instance_id=instance_id,
                channel=channel,
                at=problem.at,
                sentence=problem.sentence,
                observed=problem.observed,
                observed_in=problem.observed_in,
                expected=problem.expected,
                expected_in=problem.expected_in,
                witness=problem.witness,
                collection_id=place.collection_id,
                epoch=place.epoch,
                sequence=place.sequence,
                ts=place.ts,
            )
        )

    def _undecided(self, key: QueueKey, place: Place, reason: str) -> None:
        sources = " and ".join(describe_source(source) for source in key.sources)
        name = KINDS[key.kind].invariant.name
        self._observe(
            key.instance_id,
            key.channel,
            place,
            f"{name} of instance {key.instance_id} against {sources}: {reason}",
        )

    def _observe(self, instance_id: str, channel: str | None, place: Place, text: str) -> None:
        self._output.observations.append(
            Observation(
                code=ObservationCode.COMPARISON_UNDECIDED,
                instance_id=instance_id,
                channel=channel,
                at=place.collection_id or f"{place.epoch}:{place.sequence}",
                text=text,
                is_undecided=True,
                collection_id=place.collection_id,
                epoch=place.epoch,
                sequence=place.sequence,
                ts=place.ts,
            )
        )

    # State

    def to_bytes(self) -> bytes:
        """The whole state, compact and versioned."""
        arrays: dict[str, npt.NDArray[Any]] = {}
        members = []
        for number, (instance_id, member) in enumerate(self.members.items()):
            ledger = member.ledger.dump(f"l{number}", arrays)
            members.append([instance_id, ledger, member.replica.dump(number, arrays)])
        queues = [
            [key, queue.dump(arrays, f"q{number}")]
            for number, (key, queue) in enumerate(self.queues.items())
        ]
        return pack(
            _MAGIC,
            _VERSION,
            {
                "disabled": sorted(self.disabled),
                "members": members,
                "holders": self.fleet.holders,
                "origins": self.origins.dump(arrays),
                "queues": queues,
                "told_clashes": sorted(self.told_clashes),
                "told_unknown": sorted(self.told_unknown),
            },
            arrays,
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> FleetAudit:
        """Inverse of `to_bytes`.

        Raises:
            StateVersionError: The bytes are no state of this version.
        """
        document, arrays = unpack(_MAGIC, _VERSION, data)
        audit = cls(frozenset(document["disabled"]))
        for number, (instance_id, ledger, replica) in enumerate(document["members"]):
            member = _Member(Ledger(instance_id), Replica(instance_id))
            member.ledger.load(ledger, f"l{number}", arrays)
            member.replica.load(replica, number, arrays)
            audit.members[instance_id] = member
            audit.ledgers[instance_id] = member.ledger
        audit.fleet.holders.update(document["holders"])
        audit.origins.load(document["origins"], arrays)
        for number, (key, values) in enumerate(document["queues"]):
            kind, instance_id, channel, sources = key
            queue = Queue.load(kind, values, arrays, f"q{number}")
            audit.queues[QueueKey(kind, instance_id, channel, tuple(sources))] = queue
        audit.told_clashes = {(a, b, c) for a, b, c in document["told_clashes"]}
        audit.told_unknown = set(document["told_unknown"])
        return audit


def _by_sid(sids: list[str], local: npt.NDArray[Any]) -> list[tuple[str, Any]]:
    """(sid, which groups) for each sid of a fact, in log order."""
    if not len(local):
        return []
    if len(sids) == 1 and (len(local) == 1 or local.min() == 0):
        return [(sids[0], slice(None))] if local[0] == 0 else []
    return [(sid, which) for at, sid in enumerate(sids) if (which := local == at).any()]


def _set(text: str | None) -> GtidSet | None:
    return None if text is None else GtidSet.parse(text)


def _coordinates(said: dict[str, Any], name: str) -> tuple[str, int] | None:
    file, position = said[f"{name}_source_log_file"], said[f"{name}_source_log_pos"]
    return None if file is None or position is None else (file, position)
