"""The catalogue of true faults: what happens, where it can, and what the audit should find."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tallystick.producers.mysql_lab import fault_acts as acts
from tallystick.producers.mysql_lab.errors import LabError
from tallystick.producers.mysql_lab.fault_acts import NUMBERS_AHEAD, Did, Fleet
from tallystick.producers.mysql_lab.layout import HUB, NAMES, REPLICA_1, REPLICA_2, SOURCES

REPLICAS = (REPLICA_1, REPLICA_2, HUB)


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of the catalogue.

    Attributes:
        name: what it is asked for by.
        summary: what happens, in one sentence.
        expected: the rules that the audit is expected to find broken; empty: none.
        servers: where it can happen; the first is the default.
        act: makes it on a server.
    """

    name: str
    summary: str
    expected: tuple[str, ...]
    servers: tuple[str, ...]
    act: Callable[[Fleet, str], Did]


def make_fault(fleet: Fleet, name: str, server: str | None = None) -> tuple[str, Did]:
    """Makes a fault.

    Args:
        fleet: the lab.
        name: of the catalogue.
        server: where; by default the fault's first server.

    Returns:
        The server, and what was done.

    Raises:
        LabError: there is no such fault, it cannot happen there, or a server refuses.
    """
    fault = FAULTS.get(name)
    if fault is None:
        raise LabError(f"There is no fault {name!r}; expected one of: {', '.join(FAULTS)}")
    where = server or fault.servers[0]
    if where not in fault.servers:
        raise LabError(
            f"Fault {name!r} cannot happen on {where!r}; expected one of: "
            f"{', '.join(fault.servers)}"
        )
    return where, fault.act(fleet, where)


FAULTS: Mapping[str, Fault] = {
    fault.name: fault
    for fault in (
        Fault(
            "errant-transaction",
            "a client writes on a replica",
            ("no_errant_gtids",),
            REPLICAS,
            acts.errant_transaction,
        ),
        Fault(
            "gtid-hole",
            f"a client sets GTID_NEXT {NUMBERS_AHEAD} numbers ahead: those between are left out",
            (),
            SOURCES,
            acts.gtid_hole,
        ),
        Fault(
            "empty-transaction",
            "an empty transaction on a replica takes the GTID of one that its source will write",
            ("gtid_origin_agreement",),
            (REPLICA_1, REPLICA_2),
            acts.empty_transaction,
        ),
        Fault(
            "reset-source",
            "RESET MASTER on a source: its numbers begin again, its replicas keep the old ones",
            (
                "received_within_source_logged",
                "gtid_origin_agreement",
                "receiver_not_failed",
            ),
            SOURCES,
            acts.reset_source,
        ),
        Fault(
            "reset-replica",
            "STOP, RESET and START REPLICA: with GTIDs nothing is lost",
            (),
            REPLICAS,
            acts.reset_replica,
        ),
        Fault(
            "reset-replica-gtids",
            "RESET MASTER on a replica: it forgets what it has executed, but not what it received",
            ("applied_relay_gtids_executed",),
            (REPLICA_2, REPLICA_1, HUB),
            acts.reset_replica_gtids,
        ),
        Fault(
            "purge-under-lag",
            "a source purges its binary logs while a replica's receiver is stopped",
            ("purged_not_needed", "receiver_not_failed"),
            (REPLICA_1, REPLICA_2),
            acts.purge_under_lag,
        ),
        Fault(
            "applier-fails",
            "a replica has a row that its source inserts: the applier stops with error 1062",
            ("applier_not_failed",),
            (REPLICA_2, REPLICA_1, HUB),
            acts.applier_fails,
        ),
        Fault(
            "kill-source",
            "kill -9 of a source under load, and restart, with sync_binlog = 1",
            (),
            SOURCES,
            acts.kill,
        ),
        Fault(
            "kill-source-unsynced",
            "kill -9 of a source under load, and restart, with sync_binlog = 0; the system lives"
            " on, and so does what was written",
            (),
            SOURCES,
            acts.kill_unsynced,
        ),
        Fault(
            "kill-replica",
            "kill -9 of a replica under load, and restart, with sync_binlog = 1",
            (),
            REPLICAS,
            acts.kill,
        ),
        Fault(
            "kill-replica-unsynced",
            "kill -9 of a replica under load, and restart, with sync_binlog = 0",
            (),
            REPLICAS,
            acts.kill_unsynced,
        ),
        Fault(
            "power-cut",
            "a source with sync_binlog = 0 comes back with the files of some seconds ago",
            ("received_within_source_logged", "gtid_origin_agreement"),
            SOURCES,
            acts.power_cut,
        ),
        Fault(
            "copied-server-uuid",
            "a server is started with the auto.cnf of another",
            ("server_uuid_unique",),
            (REPLICA_2, *(name for name in NAMES if name != REPLICA_2)),
            acts.copied_server_uuid,
        ),
    )
}
