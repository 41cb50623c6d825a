"""The fleet: builds the instances of a scenario, runs virtual time, hands out journals."""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.events.journal import RecordType, cut_into_blocks
from tallystick.producers.simulator import (
    administration,
    binary_log,
    commit,
    demonstrations,
    faults,
    innodb,
    load,
    negatives,
    topology,
    workload,
)
from tallystick.producers.simulator.backup_safe_binlog import backup_locks
from tallystick.producers.simulator.clock import Clock
from tallystick.producers.simulator.demonstration import Showing
from tallystick.producers.simulator.gtid_intervals import GtidIntervals
from tallystick.producers.simulator.hooks import FaultHooks
from tallystick.producers.simulator.log_position_lock import collection, outer_locks
from tallystick.producers.simulator.model import (
    BinaryLog,
    Channel,
    GroupKind,
    Instance,
    LoggedGroup,
)
from tallystick.producers.simulator.online_backup import backup_protocol
from tallystick.producers.simulator.receiver import wake
from tallystick.producers.simulator.replication_info import rpl_info_factory
from tallystick.producers.simulator.replication_info.crash_points import InstanceCrashedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tallystick.coordinates.events.journal import Block
    from tallystick.producers.simulator.scenario import Scenario

VERSION = "8.0.31"
SETTLE_MS = 11_000
"""From the end of the load to the last collections: longer than the auditor's settle time."""
_BASE_NAMES = ("binlog", "mysql-bin", "{}-bin")
_FILES_KEPT_MAX = 8
_PERSISTER_TOLD = 0.25
"""Share of the fleets whose journals tell what GTID persisters and purge do."""


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """The journals of one simulated fleet."""

    scenario: Scenario
    journals: dict[str, Block]
    injected: tuple[dict[str, Any], ...] = ()
    """What the fault did: name, instance, virtual time and whatever else tells where."""
    shown: tuple[Showing, ...] = ()
    """What the demonstration showed, in order of time."""

    def blocks(self, size: int) -> Iterator[Block]:
        """All journals as blocks of at most ``size`` records, in order of their first moments."""
        blocks = [b for journal in self.journals.values() for b in cut_into_blocks(journal, size)]
        yield from sorted(
            blocks, key=lambda b: (int(b.columns["ts"][0]), b.instance_id, b.first_sequence)
        )

    def __len__(self) -> int:
        return sum(map(len, self.journals.values()))


@dataclass(slots=True, eq=False)
class Fleet:
    """A running simulation. The same scenario and calls give the same journals, byte for byte.

    Attributes:
        scenario: What is simulated.
        given_hooks: The fault; None: the one that the scenario names.
        start_ts: Virtual time of the first moment.
        injected: Notes of the fault about what it did.
        shown: What the demonstration has shown.
        on_answer: Called with each instance and body of a log_status record before it is written;
            of a row, while the session that reads it holds all locks.
        load_ends_at: Virtual time after which clients write no more.
        fault_at: Virtual time from which the fault may be injected.
        kinds: What clients write; one of them at random.
        partial_chance: How often a receiver gets a group in pieces.
        apply_us: Least and most time that an applier takes for a group.
        commit_stage_us: Least and most time from flush to commit stage.
    """

    scenario: Scenario
    given_hooks: InitVar[FaultHooks | None] = None
    start_ts: int = 1_700_000_000_000_000
    injected: list[dict[str, Any]] = field(default_factory=list)
    shown: list[Showing] = field(default_factory=list)
    on_answer: list[Callable[[Instance, dict[str, Any]], None]] = field(default_factory=list)
    hooks: FaultHooks = field(init=False)
    rng: Random = field(init=False)
    clock: Clock = field(init=False)
    instances: dict[str, Instance] = field(init=False)
    load_ends_at: int = field(init=False)
    fault_at: int = field(init=False)
    kinds: tuple[GroupKind, ...] = workload.USUAL_KINDS
    partial_chance: float = 0.07
    apply_us: tuple[int, int] = (300, 4_000)
    commit_stage_us: tuple[int, int] = (150, 2_500)

    def __post_init__(self, given_hooks: FaultHooks | None) -> None:
        self.hooks = hooks_of(self.scenario) if given_hooks is None else given_hooks
        self.scenario = negatives.with_options(demonstrations.with_options(self.scenario))
        self.rng = Random(f"tallystick {self.scenario.seed}")
        self.clock = Clock(self.start_ts)
        self.load_ends_at = self.start_ts + self.scenario.duration_ms * 1_000
        fault_at_ms = self.scenario.fault_at_ms
        self.fault_at = self.start_ts + 1_000 * (
            self.scenario.duration_ms // 3 if fault_at_ms is None else fault_at_ms
        )
        self.instances = {}
        self._build()
        if Random(f"gtid persister {self.scenario.seed}").random() < _PERSISTER_TOLD:
            for instance in self.instances.values():
                instance.tells_gtid_persister = True
        for instance in self.instances.values():
            load.arrange(self, instance)
        for name in self.scenario.negatives:
            negatives.NEGATIVES[name]().arrange(self)
        if self.scenario.demonstration is not None:
            demonstrations.DEMONSTRATIONS[self.scenario.demonstration].arrange(self)
        self.hooks.on_fleet(self)

    @property
    def now(self) -> int:
        """Virtual time in microseconds."""
        return self.clock.now

    # Running

    def run(self, to_ts: int) -> None:
        """Let virtual time pass up to ``to_ts``."""
        while True:
            try:
                self.clock.run(to_ts)
            except InstanceCrashedError as crashed:
                administration.die_at(self, crashed.instance, power_cut=crashed.power_cut)
            else:
                return

    def collect(self, collection_id: str, requested_at: int) -> None:
        """Ask every instance for its log_status; the answers come within the next 100 ms."""
        collection.request(self, collection_id, requested_at)

    def advance(self, to_ts: int) -> dict[str, Block]:
        """Run up to ``to_ts``; the records of each instance since the last call, as a block.

        Every block ends with a heartbeat, so what waits for an idle instance can be decided.
        """
        self.run(to_ts)
        for instance in self.instances.values():
            instance.journal.fact(RecordType.HEARTBEAT, {})
        return {i.instance_id: i.journal.build() for i in self.instances.values()}

    def schedule(self, ts: int, instance: Instance | None, act: Any, *args: Any) -> None:
        """Call ``act(fleet, *args)`` at ``ts``, or as soon as the instance is free then."""
        self.clock.schedule(ts, instance, act, self, *args)

    def note_injection(self, fault: str, instance: Instance, **where: Any) -> None:
        """Remember what the fault did, for ``History.injected``."""
        self.injected.append(
            {"fault": fault, "instance": instance.instance_id, "ts": self.now, **where}
        )

    def show(self, requirement: str, instance: Instance, sentence: str) -> None:
        """Tell what is seen of a requirement, for ``History.shown``; ``sentence`` has values."""
        after_us = max(self.now, instance.journal.last_ts) - self.start_ts
        self.shown.append(Showing(requirement, instance.instance_id, after_us, sentence))

    # What instances ask of the fleet

    def wake_subscribers(self, source: Instance) -> None:
        """The binary log of ``source`` has grown: its replicas will receive."""
        for channel in source.subscribers:
            wake(self, channel)

    def source_rank(self, instance: Instance) -> int:
        """0 for a replica that nobody reads from, else one more than its highest replica."""
        ranks: dict[str, int] = {}

        def rank(of: Instance) -> int:
            if of.instance_id not in ranks:
                ranks[of.instance_id] = 0
                below = [rank(c.replica) for c in of.subscribers if c.is_configured]
                ranks[of.instance_id] = 1 + max(below) if below else 0
            return ranks[of.instance_id]

        return rank(instance)

    def expire_logs(self, instance: Instance) -> None:
        """binlog_expire_logs: at rotation the oldest files go, unless a replica reads them."""
        files = instance.binlog.files
        if len(files) > _FILES_KEPT_MAX and not outer_locks.forbids_purge(instance):
            limit = min(binary_log.purge_limit(instance), files[-_FILES_KEPT_MAX].number)
            binary_log.purge(self, instance, limit)

    def write(
        self,
        instance: Instance,
        kind: GroupKind = GroupKind.INNODB,
        **options: Any,
    ) -> LoggedGroup | None:
        """A client commits one transaction; ``options`` as of ``workload.make_group``."""
        later = partial(self._write_later, instance, kind, **options)
        if instance.backup is not None and backup_protocol.blocks(instance, kind):
            instance.backup.waiting.append(later)
            return None
        if backup_locks.change_waits(instance, kind, later):
            return None
        # Clients that write at one moment still commit one after the other.
        instance.last_commit_ts = max(self.now, instance.last_commit_ts + 1)
        commit_ts = instance.last_commit_ts
        group = workload.make_group(self.rng, kind, instance.server_id, commit_ts, **options)
        return commit.commit(self, instance, group)

    def _write_later(self, instance: Instance, kind: GroupKind, **options: Any) -> None:
        if instance.is_running:
            self.write(instance, kind, **options)

    def write_torn_group(self, instance: Instance) -> None:
        """The first events of a group reach the file, then the server is gone."""
        group = workload.make_group(self.rng, GroupKind.INNODB, instance.server_id, self.now)
        commit.assign_gtid(instance, group)
        file = instance.binlog.active
        start = file.end
        gtid_length = binary_log.gtid_event_length(group, instance)
        length = gtid_length + group.body_length
        torn = LoggedGroup(
            group=group,
            start=start,
            gtid_length=gtid_length,
            end=start + length,
            last_committed=0,
            sequence_number=file.sequence_number + 1,
            gtid_checksum=self.rng.getrandbits(32),
            transaction_length=length,
        )
        ends = [start + gtid_length, *(s + n for _, _, s, n, _ in torn.events())]
        binary_log.journal_group(instance, file, torn, ends[self.rng.randrange(len(ends) - 1)])

    def start_body(
        self,
        instance: Instance,
        *,
        crashed: bool = False,
        recovered: dict[str, Any] | None = None,
        repositories: list[dict[str, Any]] | None = None,
    ) -> dict[str, Any]:
        """The body of a ``start`` record; ``repositories`` is what the start found (REQ-6)."""
        body: dict[str, Any] = {
            "server_uuid": instance.server_uuid,
            "server_id": instance.server_id,
            "version": instance.version,
            "profile": self.scenario.profile,
            "crashed": crashed,
            "gtid_executed_table": instance.table.text(),
            "repositories": repositories or [],
            "variables": dict(instance.variables),
        }
        if recovered is not None:
            body["recovered"] = recovered
        return body

    def flush_binary_logs(self, instance: Instance) -> None:
        """FLUSH BINARY LOGS on an instance."""
        administration.flush_binary_logs(self, instance)

    def restart(self, instance: Instance, *, crashed: bool = False) -> None:
        """Shut an instance down, or let it crash; it starts again after a while."""
        if crashed:
            administration.crash(self, instance)
        else:
            administration.shut_down(self, instance)

    # Building

    def _build(self) -> None:
        plans = topology.choose(self.scenario.topology, self.rng)
        uuids = topology.server_uuids(self.rng, len(plans) + 1)
        history = self._old_history(next(uuids))
        base_name = self.rng.choice(_BASE_NAMES)
        for number, (plan, uuid) in enumerate(zip(plans, uuids, strict=True), 1):
            instance = self.add_instance(plan, number, uuid, base_name)
            if history:
                administration.set_gtid_purged(self, instance, history)
        for plan in plans:
            replica = self.instances[plan.instance_id]
            for planned in plan.channels:
                self.add_channel(replica, planned.name, self.instances[planned.source])

    def add_instance(
        self, plan: topology.InstancePlan, number: int, uuid: str, base_name: str
    ) -> Instance:
        """Start a new server; it has no channel yet, and clients do nothing there of themselves."""
        instance = self._make_instance(plan, number, uuid, base_name)
        self.instances[plan.instance_id] = instance
        instance.journal.fact(RecordType.START, self.start_body(instance))
        if instance.log_bin:
            binary_log.open_file(self, instance, self.scenario.first_file_number, GtidIntervals())
        return instance

    def _old_history(self, uuid: str) -> GtidIntervals:
        """What a server that is long gone once wrote, on every instance alike."""
        if self.scenario.gtid_mode == "OFF" or self.rng.random() < 0.5:
            return GtidIntervals()
        return GtidIntervals.of((uuid, 1, self.rng.randrange(1, 1 << 40)))

    def _make_instance(
        self, plan: topology.InstancePlan, number: int, uuid: str, base_name: str
    ) -> Instance:
        scenario = self.scenario
        variables = {
            "gtid_mode": scenario.gtid_mode,
            "log_bin": True,
            "log_replica_updates": True,
            "binlog_order_commits": scenario.order_commits,
            "replica_preserve_commit_order": scenario.preserve_commit_order,
            "replica_parallel_workers": scenario.applier_workers,
            "max_connections": 151,
            "sync_source_info": self.rng.choice((0, 25, 10_000)),
            "sync_relay_log": 10_000,
            "sync_relay_log_info": 10_000,
            "master_info_repository": "TABLE",
            "relay_log_info_repository": "TABLE",
            "innodb_redo_log_capacity": 104_857_600,
        }
        # By position a crashed replica needs it: its relay log and master info may disagree.
        is_recovered = self.rng.random() < 0.5
        variables["relay_log_recovery"] = is_recovered or not scenario.auto_position
        self.hooks.on_variables(plan.instance_id, variables)
        return Instance(
            instance_id=plan.instance_id,
            server_uuid=uuid,
            server_id=number,
            version=VERSION,
            journal=self.hooks.on_journal(plan.instance_id, self.clock),
            binlog=BinaryLog(base_name.format(plan.instance_id)),
            innodb=innodb.fresh(self.rng),
            variables=variables,
            max_binlog_size=scenario.max_binlog_size,
            log_bin=bool(variables["log_bin"]),
            gtid_mode=str(variables["gtid_mode"]),
            writes=plan.writes,
        )

    def add_channel(
        self,
        replica: Instance,
        name: str,
        source: Instance,
        position: tuple[str, int] | None = None,
    ) -> Channel:
        """Configure a new channel and start replication on it.

        Args:
            replica: Who receives.
            name: Of the channel.
            source: Who sends.
            position: Where a channel without auto-position begins; None: at the first file.
        """
        suffix = f"-{name}" if name else ""
        channel = Channel(
            name=name,
            replica=replica,
            source=source,
            relay_base_name=f"{replica.instance_id}-relay-bin{suffix}",
            auto_position=self.scenario.auto_position and replica.gtid_mode == "ON",
            number=len(replica.channels) + 1,
        )
        replica.channels[name] = channel
        rpl_info_factory.create(self, channel)
        administration.change_source(self, channel, source, position=position)
        administration.start_replication(self, channel)
        return channel


def simulate(scenario: Scenario, hooks: FaultHooks | None = None) -> History:
    """Run a scenario from its first start to its last heartbeats.

    Args:
        scenario: What to simulate.
        hooks: The fault; None: the one that the scenario names.
    """
    fleet = Fleet(scenario, hooks)
    interval = scenario.collection_interval_ms * 1_000
    moments = list(range(fleet.start_ts + interval, fleet.load_ends_at, interval))
    settled = fleet.load_ends_at + SETTLE_MS * 1_000
    for number, ts in enumerate([*moments, settled, settled + interval], 1):
        fleet.schedule(ts, None, _collect, f"collection-{number:04d}")
    journals = fleet.advance(settled + 2 * interval)
    return History(scenario, journals, tuple(fleet.injected), tuple(fleet.shown))


def hooks_of(scenario: Scenario) -> FaultHooks:
    """The injector of the scenario's fault, or none."""
    return FaultHooks() if scenario.fault is None else faults.make_fault(scenario.fault)


def _collect(fleet: Fleet, collection_id: str) -> None:
    fleet.collect(collection_id, fleet.now)
