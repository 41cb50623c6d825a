"""A claim of a scenario is not shown when what it claims is taken out of the simulator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest

from tallystick.coordinates.audit.replay import audit_history
from tallystick.producers.simulator.assemble import simulate
from tallystick.producers.simulator.backup import (
    backup_locks,
    backup_protocol,
    backup_utility,
    binlog_mutex,
)
from tallystick.producers.simulator.backup.backup_synchronization import BackupSynchronization
from tallystick.producers.simulator.backup.engine_locking import EngineLocks
from tallystick.producers.simulator.backup.galera_node import BinlogCopy
from tallystick.producers.simulator.backup.outer_locks import OuterLocks
from tallystick.producers.simulator.backup.threads import Thread
from tallystick.producers.simulator.clone import donor, recipient
from tallystick.producers.simulator.clone.clone_status import CloneStatus
from tallystick.producers.simulator.clone.commit_order import CommitOrder
from tallystick.producers.simulator.clone.recipient import Clone
from tallystick.producers.simulator.innodb import gtid_persistence, header
from tallystick.producers.simulator.kernel.gtid_intervals import GtidIntervals
from tallystick.producers.simulator.kernel.scenario import Scenario
from tallystick.producers.simulator.log_status import collection, latches, log_resources
from tallystick.producers.simulator.log_status.log_resources import MasterInfoWrapper
from tallystick.producers.simulator.log_status.log_status_query import LogStatusQuery
from tallystick.producers.simulator.replication_info import rpl_info_factory
from tallystick.producers.simulator.replication_info.rpl_info_file import InfoFile, RplInfoFile
from tallystick.producers.simulator.replication_info.rpl_info_table import RplInfoTable
from tallystick.producers.simulator.scenarios.catalogue import DESIGN_SCENARIOS
from tallystick.producers.simulator.scenarios.design_scenario import DesignScenario
from tallystick.producers.simulator.server import administration, receiver
from tallystick.producers.simulator.server.channels import RelayLog
from tallystick.runs.replay import result_of_audit
from tallystick.runs.scenario import ClaimResult, scenario_result

Patch = pytest.MonkeyPatch
NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
MUTANTS: dict[str, tuple[str, tuple[str, ...], Callable[[Patch], None]]] = {}
"""By name the scenario, the claims that fail, and what takes their subject out."""


def mutant(
    scenario: str, *requirements: str
) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    def enter(make: Callable[[Patch], None]) -> Callable[[Patch], None]:
        MUTANTS[make.__name__] = scenario, requirements, make
        return make

    return enter


def nothing(*_: Any, **__: Any) -> None:
    """Instead of what is taken out."""


def no(*_: Any, **__: Any) -> bool:
    return False


def yes(*_: Any, **__: Any) -> bool:
    return True


# WL#9452


def unlatched(patch: Patch, wrapper: type) -> None:
    patch.setattr(wrapper, "lock", no)
    patch.setattr(wrapper, "unlock", nothing)


@mutant("log_status", "F-1.3", "F-2.5")
def channels_are_not_locked(patch: Patch) -> None:
    unlatched(patch, MasterInfoWrapper)


@mutant("log_status", "F-1.3", "F-2.1", "NF-1 binary log")
def the_binary_log_is_not_locked(patch: Patch) -> None:
    unlatched(patch, log_resources.BinaryLogWrapper)


@mutant("log_status", "F-1.3", "F-2.2")
def the_gtid_state_is_not_locked(patch: Patch) -> None:
    unlatched(patch, log_resources.GtidStateWrapper)


@mutant("log_status", "F-1.3", "F-2.4")
def innodb_is_not_locked(patch: Patch) -> None:
    unlatched(patch, log_resources.HandlertonWrapper)


@mutant("log_status", "F-1.3", "F-2.3")
def the_channel_map_is_not_locked(patch: Patch) -> None:
    for name in ("_take", "_release"):
        real = getattr(LogStatusQuery, name)

        def leave_out(query: Any, latch: str, real: Any = real) -> None:
            if latch != latches.CHANNEL_MAP:
                real(query, latch)

        patch.setattr(LogStatusQuery, name, leave_out)


@mutant("log_status", "F-1.2.3")
def the_end_of_the_relay_log_is_shown(patch: Patch) -> None:
    def collect_info(wrapper: Any) -> None:
        channel = wrapper._channel
        file = channel[RelayLog].files[-1]
        wrapper._json_object["channels"].append(
            {
                "channel_name": channel.name,
                "relay_log_file": file.name,
                "relay_log_position": file.end,
            }
        )

    patch.setattr(MasterInfoWrapper, "collect_info", collect_info)


@mutant("log_status", "F-1.4")
def a_lock_is_not_released(patch: Patch) -> None:
    patch.setattr(log_resources.BinaryLogWrapper, "unlock", nothing)

    def take(held: latches.Latches, name: str, session: int) -> None:
        held.held[name] = session

    patch.setattr(latches.Latches, "take", take)


@mutant("log_status", "F-4")
def a_collection_waits_for_the_global_read_lock(patch: Patch) -> None:
    real = LogStatusQuery.begin

    def begin(query: Any) -> None:
        locks = query._instance.get(OuterLocks)
        if locks is None or not locks.held:
            real(query)

    patch.setattr(LogStatusQuery, "begin", begin)


@mutant("log_status", "I-2")
def everybody_has_the_privilege(patch: Patch) -> None:
    patch.setattr(collection, "_denial", nothing)


@mutant("log_status", "I-3")
def memory_never_runs_out(patch: Patch) -> None:
    patch.setattr(LogStatusQuery, "_allocate", nothing)


# WL#9211


@mutant("clone", "PHY ordered commit")
def commits_are_not_ordered(patch: Patch) -> None:
    patch.setattr(CommitOrder, "orders", no)


@mutant("clone", "PHY unordered prepared")
def prepared_groups_are_not_awaited(patch: Patch) -> None:
    def force(order: CommitOrder, _: Any) -> None:
        order.is_forced = True

    patch.setattr(CommitOrder, "force", force)


@mutant("clone", "PHY XA blocked")
def external_xa_goes_on(patch: Patch) -> None:
    patch.setattr(CommitOrder, "holds_back", no)


@mutant("clone", "NF-1")
def the_donor_is_blocked_for_long(patch: Patch) -> None:
    real = donor.Donation.synchronize

    def synchronize(donation: donor.Donation) -> None:
        donation.blocked_us = 1_500_000
        real(donation)

    patch.setattr(donor.Donation, "synchronize", synchronize)


@mutant("clone", "GTID without blocking")
def commits_wait_while_data_are_copied(patch: Patch) -> None:
    patch.setattr(CommitOrder, "holds_back", yes)


@mutant("clone", "key point 2 triggered by a clone")
def the_persister_is_not_triggered(patch: Patch) -> None:
    patch.setattr(gtid_persistence, "wait_flush", nothing)


@mutant("clone", "F-1.1")
def gtids_of_the_copy_are_lost(patch: Patch) -> None:
    real = Clone._take_over

    def take_over(clone: Clone, data: Any, executed: GtidIntervals, **more: Any) -> bool:
        return real(clone, data, GtidIntervals(), **more)

    patch.setattr(Clone, "_take_over", take_over)


@mutant("clone", "failure: during recovery")
def recovery_is_never_cut_off(patch: Patch) -> None:
    real = Clone.boot

    def boot(clone: Clone, *, crashed: bool) -> None:
        crashes, clone.crashes = clone.crashes, []
        real(clone, crashed=crashed)
        clone.crashes = crashes

    patch.setattr(Clone, "boot", boot)


@mutant("clone", "clone_progress stages")
def a_stage_is_left_out(patch: Patch) -> None:
    real = CloneStatus.enter

    def enter(status: CloneStatus, stage: str, ts: int) -> None:
        if stage != "PAGE COPY":
            real(status, stage, ts)

    patch.setattr(CloneStatus, "enter", enter)


@mutant("clone", "US-1.2", "US-1.3", "F-2", "F-5")
def replication_does_not_start(patch: Patch) -> None:
    patch.setattr(administration, "start_replication", nothing)


@mutant("clone", "ER_CLONE_DONOR_VERSION")
def versions_are_not_compared(patch: Patch) -> None:
    patch.setattr(recipient, "ER_CLONE_DONOR_VERSION", 0)
    real = Clone._connect

    def connect(clone: Clone, fleet: Any) -> None:
        version, clone.recipient.version = clone.recipient.version, clone.donor.version
        real(clone, fleet)
        clone.recipient.version = version

    patch.setattr(Clone, "_connect", connect)


# Percona Server


@mutant("backup", "LOCK TABLES FOR BACKUP")
def changes_pass_the_table_lock(patch: Patch) -> None:
    patch.setattr(backup_locks, "change_waits", no)


@mutant(
    "backup",
    "LOCK BINLOG FOR BACKUP",
    "LBFB freezes the read position",
    "LBFB freezes the executed position",
    "finishing the redo copy",
    "case #1",
    "case #2",
)
def commits_pass_the_binlog_lock(patch: Patch) -> None:
    patch.setattr(backup_locks, "coordinates_wait", no)


@mutant("backup", "LTFB lets InnoDB go on", "goal", "other utilities decide by it")
def the_variable_is_not_asked(patch: Patch) -> None:
    patch.setattr(backup_utility, "needs_binlog_lock", yes)


@mutant("backup", "stale after a non-transactional update")
def each_update_writes_the_header(patch: Patch) -> None:
    patch.setattr(header, "updates_of", lambda _: header.HeaderUpdates.EVERY_UPDATE)


@mutant("backup", "fix 2: with the table lock")
def the_table_lock_leaves_the_header(patch: Patch) -> None:
    patch.setattr(header, "flush_coordinates", lambda _: 1)


@mutant("backup", "case #3")
def the_copied_file_is_empty(patch: Patch) -> None:
    patch.setattr(BinlogCopy, "joiner_gtid_executed", lambda _: GtidIntervals())


# WL#2775


@mutant("repositories", "REQ-6 T,!F FILE")
def a_table_is_not_emptied(patch: Patch) -> None:
    patch.setattr(RplInfoTable, "reset_info", nothing)


@mutant("repositories", "REQ-6 !T,F TABLE")
def a_file_is_not_deleted(patch: Patch) -> None:
    real = rpl_info_factory._migrate

    def migrate(*args: Any) -> Any:
        with patch.context() as meanwhile:
            meanwhile.setattr(RplInfoFile, "reset_info", nothing)
            return real(*args)

    patch.setattr(rpl_info_factory, "_migrate", migrate)


@mutant("repositories", "REQ-6 T,F TABLE", "REQ-6 T,F FILE")
def two_repositories_are_not_refused(patch: Patch) -> None:
    real = rpl_info_factory._find

    def find(*args: Any) -> dict[str, Any]:
        found = real(*args)
        return {**found, "file": found["file"] and not found["table"]}

    patch.setattr(rpl_info_factory, "_find", find)


@mutant("repositories", "REQ-3 (iii)")
def a_stop_stores_nothing(patch: Patch) -> None:
    patch.setattr(receiver, "persist_position", nothing)


@mutant("repositories", "REQ-1", "REQ-5 transactional repository", "motivation 2")
def no_engine_is_transactional(patch: Patch) -> None:
    patch.setattr(RplInfoTable, "is_transactional", property(no))


@mutant("repositories", "REQ-3 file against table")
def a_power_cut_spares_files(patch: Patch) -> None:
    patch.setattr(InfoFile, "lose_power", nothing)


# WL#3576


@mutant("pitr", "2 DDL error")
def a_backup_lets_metadata_change(patch: Patch) -> None:
    patch.setattr(backup_protocol, "blocks", no)


@mutant("pitr", "time-out", "unlock", "bail out")
def engines_have_all_the_time(patch: Patch) -> None:
    patch.setattr(EngineLocks, "time_left", lambda *_: 10**9)


@mutant("pitr", "stall 1", "time-out")
def nothing_is_flushed_for_long(patch: Patch) -> None:
    patch.setattr(binlog_mutex, "flush_large", nothing)


@mutant("pitr", "stall 2")
def prelock_takes_no_mutex(patch: Patch) -> None:
    patch.setattr(EngineLocks, "prelock", lambda _, prelocked: prelocked())


@mutant("pitr", "retry")
def the_pause_is_short(patch: Patch) -> None:
    patch.setattr(backup_protocol, "pause_us", lambda _: 1_000_000)


@mutant("pitr", "unlock")
def engines_stay_locked(patch: Patch) -> None:
    real = EngineLocks.unlock_all

    # For ever would be 80,000 statements that try again, and shows no more.
    def unlock_all(locks: EngineLocks, round_number: int) -> None:
        later = locks.fleet.now + 1_000_000
        locks.fleet.clock.schedule(later, locks.instance, real, locks, round_number)

    patch.setattr(EngineLocks, "unlock_all", unlock_all)


@mutant("pitr", "Ticket")
def nobody_takes_a_ticket(patch: Patch) -> None:
    real = BackupSynchronization.lock_tables

    def lock_tables(zone: BackupSynchronization, *args: Any, **more: Any) -> Thread:
        return replace(real(zone, *args, **more), enter_zone=False)

    patch.setattr(BackupSynchronization, "lock_tables", lock_tables)


def claims(name: str) -> dict[str, ClaimResult]:
    design: DesignScenario = DESIGN_SCENARIOS[name]
    history = simulate(Scenario(seed=1, design_scenario=name))
    audit = audit_history(history.blocks(512))
    result = result_of_audit(audit, command="replay", title="t", begun_at=NOW)
    shown = scenario_result(design, history.shown, findings=result.findings, checks=result.checks)
    return {claim.requirement: claim for claim in shown.claims}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_claim_fails_without_its_subject(name: str, monkeypatch: Patch) -> None:
    """What it claims is taken out of the simulator: it is not seen, or its rules break."""
    scenario, requirements, take_out = MUTANTS[name]
    take_out(monkeypatch)
    found = claims(scenario)
    assert [] == [one for one in requirements if found[one].is_shown]
