"""Fleets of simulated servers: the one module that knows every component, fault and scenario.

``simulate`` runs a scenario from its first start to its last heartbeats.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.events.journal import RecordType, cut_into_blocks
from tallystick.producers.simulator import faults, negatives
from tallystick.producers.simulator.backup import (
    backup_locks,
    backup_protocol,
    backup_synchronization,
    binlog_mutex,
    outer_locks,
    restore,
    tables,
)
from tallystick.producers.simulator.backup.lock_state import BackupLocks
from tallystick.producers.simulator.clone import donor, recipient
from tallystick.producers.simulator.faults import cures
from tallystick.producers.simulator.innodb import header, redo_log
from tallystick.producers.simulator.innodb.gtid_persistence import GtidPersistence
from tallystick.producers.simulator.innodb.header import InnodbHeader
from tallystick.producers.simulator.kernel import topology
from tallystick.producers.simulator.kernel.bus import Bus
from tallystick.producers.simulator.kernel.clock import Clock
from tallystick.producers.simulator.kernel.gtid_intervals import GtidIntervals
from tallystick.producers.simulator.kernel.instance import Instance
from tallystick.producers.simulator.kernel.journal_writer import JournalWriter
from tallystick.producers.simulator.kernel.world import BUILT, JOURNAL, VARIABLES, ServerPace
from tallystick.producers.simulator.log_status import collection
from tallystick.producers.simulator.log_status.latches import Latches
from tallystick.producers.simulator.log_status.log_status_query import LogStatus
from tallystick.producers.simulator.log_status.storage_engines import StorageEngines
from tallystick.producers.simulator.replication_info.crash_points import InstanceCrashedError
from tallystick.producers.simulator.replication_info.rpl_info_table_access import InfoRepositories
from tallystick.producers.simulator.scenarios import catalogue as scenarios
from tallystick.producers.simulator.scenarios.design_scenario import Showing
from tallystick.producers.simulator.server import (
    administration,
    applier,
    binary_log,
    clients,
    lifecycle,
    receiver,
    workload,
)
from tallystick.producers.simulator.server.binary_log import BinaryLog
from tallystick.producers.simulator.server.channels import ChannelMap
from tallystick.producers.simulator.server.clients import Clients
from tallystick.producers.simulator.server.commit_queue import CommitQueue
from tallystick.producers.simulator.server.gtid_state import GtidState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallystick.coordinates.events.journal import Block
    from tallystick.producers.simulator.faults.hooks import FaultHooks
    from tallystick.producers.simulator.kernel.scenario import Scenario

VERSION = "8.0.31"
SETTLE_MS = 11_000
"""From the end of the load to the last collections: longer than the auditor's settle time."""
_BASE_NAMES = ("binlog", "mysql-bin", "{}-bin")
_PERSISTER_RECORDED = 0.25
_STORES_EACH_EVENT = 0.25
"""Share of the fleets whose journals have records of what GTID persisters and purge do."""
_JOINING = (
    receiver,
    applier,
    lifecycle,
    backup_synchronization,
    backup_protocol,
    backup_locks,
    outer_locks,
    binlog_mutex,
    tables,
    donor,
    header,
    recipient,
    restore,
)
"""Components that take part in what others do, in the order in which they are called."""


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """The journals of one simulated fleet."""

    scenario: Scenario
    journals: dict[str, Block]
    injected: tuple[dict[str, Any], ...] = ()
    """What the fault did: name, instance, virtual time and whatever else locates it."""
    shown: tuple[Showing, ...] = ()
    """What the scenario of a document showed, in order of time."""

    def blocks(self, size: int) -> Iterator[Block]:
        """All journals as blocks of at most ``size`` records, in order of their first moments."""
        blocks = [b for journal in self.journals.values() for b in cut_into_blocks(journal, size)]
        yield from sorted(
            blocks, key=lambda b: (int(b.columns["ts"][0]), b.instance_id, b.first_sequence)
        )

    def __len__(self) -> int:
        return sum(map(len, self.journals.values()))


class Fleet:
    """A running simulation: a ``World`` of servers that are made of components.

    The same scenario and calls give the same journals, byte for byte.

    Attributes:
        injected: Notes of the fault about what it did.
        shown: What the scenario has shown.
    """

    def __init__(
        self,
        scenario: Scenario,
        hooks: FaultHooks | None = None,
        start_ts: int = 1_700_000_000_000_000,
    ) -> None:
        """Build the fleet.

        Args:
            scenario: What to simulate.
            hooks: The fault; None: the one that the scenario names.
            start_ts: Virtual time of the first moment.
        """
        if hooks is None and scenario.fault is not None:
            hooks = faults.make_fault(scenario.fault)
        self.scenario = negatives.with_options(scenarios.with_options(scenario))
        self.start_ts = start_ts
        self.load_ends_at = start_ts + self.scenario.duration_ms * 1_000
        fault_at_ms = self.scenario.fault_at_ms
        self.fault_at = start_ts + 1_000 * (
            self.scenario.duration_ms // 3 if fault_at_ms is None else fault_at_ms
        )
        self.rng = Random(f"tallystick {self.scenario.seed}")
        self.clock = Clock(start_ts)
        self.pace = ServerPace(workload.USUAL_KINDS)
        self.instances: dict[str, Instance] = {}
        self.injected: list[dict[str, Any]] = []
        self.shown: list[Showing] = []
        self.bus = Bus()
        for component in _JOINING:
            component.join(self.bus)
        if hooks is not None:
            hooks.join(self.bus)
        self._build()
        if Random(f"gtid persister {self.scenario.seed}").random() < _PERSISTER_RECORDED:
            for instance in self.instances.values():
                instance[GtidPersistence].is_recorded = True
        for instance in self.instances.values():
            clients.arrange(self, instance)
        for name in self.scenario.negatives:
            negatives.NEGATIVES[name]().arrange(self)
        if self.scenario.design_scenario is not None:
            scenarios.DESIGN_SCENARIOS[self.scenario.design_scenario].arrange(self)
        self.bus.emit(BUILT, self)

    @property
    def now(self) -> int:
        """Virtual time in microseconds."""
        return self.clock.now

    def run(self, to_ts: int) -> None:
        """Let virtual time pass up to ``to_ts``."""
        while True:
            try:
                self.clock.run(to_ts)
            except InstanceCrashedError as crashed:
                lifecycle.die_at(self, crashed.instance, power_cut=crashed.power_cut)
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
            instance.journal.record(RecordType.HEARTBEAT, {})
        return {i.instance_id: i.journal.build() for i in self.instances.values()}

    def schedule(self, ts: int, instance: Instance | None, act: Any, *args: Any) -> None:
        """Call ``act(fleet, *args)`` at ``ts``, or as soon as the instance is free then."""
        self.clock.push(ts, instance, act, (self, *args))

    def note_injection(self, fault: str, instance: Instance, **where: Any) -> None:
        """Remember what the fault did, for ``History.injected``."""
        self.injected.append(
            {"fault": fault, "instance": instance.instance_id, "ts": self.now, **where}
        )

    def show(self, requirement: str, instance: Instance, sentence: str) -> None:
        """Remember what is seen of a requirement, for ``History.shown``."""
        after_us = max(self.now, instance.journal.last_ts) - self.start_ts
        self.shown.append(Showing(requirement, instance.instance_id, after_us, sentence))

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
                source = self.instances[planned.source]
                administration.add_channel(self, replica, planned.name, source)

    def add_instance(
        self, plan: topology.InstancePlan, number: int, uuid: str, base_name: str
    ) -> Instance:
        """Start a new server; it has no channel yet, and clients do nothing there of themselves."""
        instance = self._make_instance(plan, number, uuid, base_name)
        self.instances[plan.instance_id] = instance
        clock = f"simulation of {self.scenario.seed} from {self.start_ts}"
        instance.journal.record(RecordType.OBSERVER, {"clock": clock})
        instance.journal.record(RecordType.START, lifecycle.start_body(self, instance))
        if instance[BinaryLog].is_open:
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
        variables = self._variables()
        self.bus.emit(VARIABLES, plan.instance_id, variables)
        journal = JournalWriter(plan.instance_id, self.clock)
        journal = self.bus.emit(JOURNAL, plan.instance_id, self.clock, journal)
        journal.cluster = self.scenario.cluster or ""
        journal.has_redo_events = self.scenario.redo_events
        instance = Instance(
            instance_id=plan.instance_id,
            server_uuid=uuid,
            server_id=number,
            version=VERSION,
            journal=journal,
            variables=variables,
        )
        instance.add(
            BinaryLog(
                base_name.format(plan.instance_id),
                is_open=bool(variables["log_bin"]),
                max_size=self.scenario.max_binlog_size,
            ),
            GtidState(mode=str(variables["gtid_mode"]), automatic_sid=uuid),
            CommitQueue(),
            ChannelMap(),
            Clients(writes=plan.writes),
            redo_log.fresh(self.rng),
            InnodbHeader(),
            GtidPersistence(),
            InfoRepositories(),
            BackupLocks(),
            Latches(),
            StorageEngines(),
            LogStatus(),
        )
        return instance

    def _variables(self) -> dict[str, Any]:
        """The variables that a server is first started with."""
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
            "innodb_flush_log_at_trx_commit": 1,
        }
        # By position a crashed replica needs it: its relay log and master info may disagree.
        if Random(f"sync source info {scenario.seed}").random() < _STORES_EACH_EVENT:
            variables["sync_source_info"] = 1
        is_recovered = self.rng.random() < 0.5
        variables["relay_log_recovery"] = is_recovered or not scenario.auto_position
        return variables


def simulate(scenario: Scenario, *, is_cured: bool = False) -> History:
    """Run a scenario from its first start to its last heartbeats.

    Args:
        scenario: What to simulate.
        is_cured: Whether what the scenario's fault breaks is healed once a collection has shown it.
    """
    fault = None if scenario.fault is None else faults.make_fault(scenario.fault)
    fleet = Fleet(scenario, fault)
    if is_cured and fault is not None:
        fleet.schedule(fleet.fault_at, None, cures.schedule, fault)
    interval = scenario.collection_interval_ms * 1_000
    moments = collection_moments(fleet, interval)
    for number, ts in enumerate(moments, 1):
        fleet.schedule(ts, None, _collect, f"collection-{number:04d}")
    journals = fleet.advance(moments[-1] + interval)
    return History(scenario, journals, tuple(fleet.injected), tuple(fleet.shown))


def collection_moments(fleet: Fleet, interval_us: int) -> list[int]:
    """When collections are made: during the load, and twice when everything has settled.

    For a fault that only time shows they go on until then.
    """
    moments = list(range(fleet.start_ts + interval_us, fleet.load_ends_at, interval_us))
    settled = fleet.load_ends_at + SETTLE_MS * 1_000
    fault = fleet.scenario.fault
    if fault is not None:
        shown = fleet.load_ends_at + faults.FAULTS[fault].shown_after_ms * 1_000
        while settled < shown:
            moments.append(settled)
            settled += SETTLE_MS * 1_000
    return [*moments, settled, settled + interval_us]


def _collect(fleet: Fleet, collection_id: str) -> None:
    fleet.collect(collection_id, fleet.now)
