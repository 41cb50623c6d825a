"""Backups with Percona's locks: the three cases, each with the binlog lock and without it.

What a backup reports is compared with what the simulated server did, not with what the audit says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tallystick.coordinates.events.journal import RecordType
from tallystick.producers.simulator.assemble import Fleet
from tallystick.producers.simulator.backup.backup_utility import (
    HEADER,
    SOURCE_STATUS,
    Backup,
    BackupUtility,
    Options,
    needs_binlog_lock,
)
from tallystick.producers.simulator.backup.galera_node import GaleraNode
from tallystick.producers.simulator.innodb.header import VARIABLE, HeaderUpdates, InnodbHeader
from tallystick.producers.simulator.kernel.scenario import Scenario
from tallystick.producers.simulator.kernel.transactions import GroupKind
from tallystick.producers.simulator.server import administration, clients, lifecycle
from tallystick.producers.simulator.server.binary_log import BinaryLog
from tallystick.producers.simulator.server.channels import ChannelMap
from tallystick.producers.simulator.server.gtid_state import GtidState
from tests.support.backup_fleets import (
    MILLISECOND,
    journal,
    lock_steps,
    quiet_fleet,
    replica,
    server,
)
from tests.support.simulated_journal import bodies_of

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.gtid_intervals import GtidIntervals
    from tallystick.producers.simulator.kernel.instance import Instance

_LONG = Options(finish_redo_us=200 * MILLISECOND)


def busy_fleet(topology: str, seed: int = 1, **options: object) -> Fleet:
    """A fleet whose clients write InnoDB transactions all the time."""
    fleet = Fleet(
        Scenario(seed=seed, topology=topology, acts=False, writes_per_second=60.0, **options)
    )
    fleet.pace.kinds = (GroupKind.INNODB,)
    fleet.run(fleet.start_ts + 500 * MILLISECOND)
    return fleet


def run_backup(fleet: Fleet, instance: Instance, options: Options = _LONG) -> Backup:
    """One backup from beginning to end."""
    done: list[Backup] = []
    BackupUtility(fleet, instance, options, done.append).begin()
    for _ in range(40):
        fleet.run(fleet.now + 100 * MILLISECOND)
        if done:
            return done[0]
    raise AssertionError("the backup did not end within 4 seconds of virtual time")


def logged_up_to(instance: Instance, offset: tuple[str, int]) -> GtidIntervals:
    """The GTIDs of the log up to a coordinate, and what was purged before."""
    gtids = instance[GtidState].purged.copy()
    gtids.update(instance[BinaryLog].files[0].previous_gtids)
    for file in instance[BinaryLog].files:
        for logged in file.groups():
            if (file.name, logged.end) <= offset and logged.group.sid is not None:
                gtids.add(logged.group.sid, logged.group.gno)
    return gtids


def has_what_it_says(instance: Instance, backup: Backup) -> bool:
    """Whether the copy holds the groups up to its coordinates and no others."""
    return backup.gtids == logged_up_to(instance, backup.coordinates)


# Case 1


def test_case_1_under_the_binlog_lock() -> None:
    """SHOW MASTER STATUS is what the copy of the redo ends with: commits wait meanwhile."""
    fleet = busy_fleet("single")
    source = server(fleet)
    backup = run_backup(fleet, source)
    assert backup.coordinates_from == SOURCE_STATUS
    assert has_what_it_says(source, backup)
    assert lock_steps(source) == ["lock tables", "lock binlog", "unlock binlog", "unlock tables"]


def test_case_1_without_the_binlog_lock_on_a_backup_safe_server() -> None:
    """The goal: the header's coordinates serve, and commits never wait."""
    fleet = busy_fleet("single")
    source = server(fleet)
    administration.set_variables(source, **{VARIABLE: True})
    before = source[BinaryLog].position
    backup = run_backup(fleet, source)
    assert backup.coordinates_from == HEADER
    assert has_what_it_says(source, backup)
    assert backup.coordinates > before
    assert lock_steps(source) == ["lock tables", "unlock tables"]


def test_groups_without_changes_after_the_last_innodb_commit_are_in_no_copy() -> None:
    """The header does not name them, so the backup does not claim their GTIDs."""
    for seed in (2, 5):
        fleet = busy_fleet("single", seed)
        source = server(fleet)
        administration.set_variables(source, **{VARIABLE: True})
        fleet.pace.kinds = (GroupKind.INNODB, GroupKind.EMPTY)
        assert has_what_it_says(source, run_backup(fleet, source))


def test_case_1_without_the_lock_and_with_what_the_server_says() -> None:
    """SHOW MASTER STATUS is too old when the copy of the redo ends: groups would be repeated."""
    fleet = busy_fleet("single")
    source = server(fleet)
    options = Options(
        lock_binlog=False, coordinates_from=SOURCE_STATUS, finish_redo_us=200 * MILLISECOND
    )
    backup = run_backup(fleet, source, options)
    assert backup.gtids is not None
    assert backup.gtids.minus(logged_up_to(source, backup.coordinates))


@pytest.mark.parametrize("is_safe", [True, False])
def test_case_1_behind_a_non_transactional_update(is_safe: bool) -> None:
    """The last update was not InnoDB's: the header serves if the table lock has written it."""
    fleet = quiet_fleet("single")
    source = server(fleet)
    source[InnodbHeader].updates = HeaderUpdates.INNODB_COMMITS
    if is_safe:
        administration.set_variables(source, **{VARIABLE: True})
    for kind in (GroupKind.INNODB, GroupKind.NON_TRANSACTIONAL):
        clients.write(fleet, source, kind)
    fleet.run(fleet.now + 20 * MILLISECOND)
    options = Options(lock_binlog=False, coordinates_from=HEADER)
    assert is_safe is has_what_it_says(source, run_backup(fleet, source, options))


def test_unordered_commits_need_the_binlog_lock() -> None:
    """The header's offset says nothing of groups before it that are still being committed."""
    fleet = busy_fleet("single", order_commits=False)
    source = server(fleet)
    administration.set_variables(source, **{VARIABLE: True})
    assert needs_binlog_lock(source, slave_info=False)
    assert has_what_it_says(source, run_backup(fleet, source))


# Case 2


def executed_on_channel(copy: Instance, offset: tuple[str, int]) -> GtidIntervals:
    """The GTIDs of the source's groups up to an offset in its log."""
    (channel,) = copy[ChannelMap].channels.values()
    return logged_up_to(channel.source, offset)


@pytest.mark.parametrize("locks", [True, False])
def test_case_2_positions_of_a_replica(locks: bool) -> None:
    """SHOW SLAVE STATUS agrees with the copy under the binlog lock only, variable or not."""
    fleet = busy_fleet("pair")
    copy = replica(fleet)
    administration.set_variables(copy, **{VARIABLE: True})
    options = Options(
        slave_info=True,
        lock_binlog=None if locks else False,
        finish_redo_us=200 * MILLISECOND,
    )
    backup = run_backup(fleet, copy, options)
    reached = executed_on_channel(copy, backup.replica_positions[""])
    assert backup.gtids is not None
    assert locks is (backup.gtids == reached)
    assert has_what_it_says(copy, backup)
    assert locks is ("lock binlog" in lock_steps(copy))


# Case 3


@pytest.mark.parametrize("locks", [True, False])
def test_case_3_the_log_file_of_a_snapshot(locks: bool) -> None:
    """A joiner that reads its GTIDs from the file believes what it holds under the lock only."""
    fleet = busy_fleet("single")
    node = server(fleet)
    administration.set_variables(node, **{VARIABLE: True})
    node[GaleraNode] = GaleraNode()
    options = Options(lock_binlog=None if locks else False, finish_redo_us=100 * MILLISECOND)
    backup = run_backup(fleet, node, options)
    assert backup.binlog_copy is not None
    assert backup.gtids is not None
    believed = backup.binlog_copy.joiner_gtid_executed()
    believed.update(node[GtidState].purged)
    assert locks is (believed == backup.gtids)
    assert locks is bool(not believed.minus(backup.gtids))


def test_a_node_without_gtids_sends_no_log_file() -> None:
    """There is nothing that a joiner could read from it, and no reason for the lock."""
    fleet = busy_fleet("single", gtid_mode="OFF", auto_position=False)
    node = server(fleet)
    administration.set_variables(node, **{VARIABLE: True})
    node[GaleraNode] = GaleraNode()
    backup = run_backup(fleet, node)
    assert backup.binlog_copy is None
    assert lock_steps(node) == ["lock tables", "unlock tables"]


# The decision


@pytest.mark.parametrize(
    ("is_safe", "slave_info", "is_node", "gtid_mode", "needed"),
    [
        (True, False, False, "ON", False),
        (False, False, False, "ON", True),
        (True, True, False, "ON", True),
        (True, False, True, "ON", True),
        (True, False, True, "OFF", False),
        (False, True, True, "ON", True),
    ],
)
def test_the_utility_decides_by_the_variable(
    is_safe: bool, slave_info: bool, is_node: bool, gtid_mode: str, needed: bool
) -> None:
    """The binlog lock is left out in case 1 on a server with the variable, and nowhere else."""
    fleet = Fleet(Scenario(topology="single", gtid_mode=gtid_mode, auto_position=gtid_mode == "ON"))
    source = server(fleet)
    if is_safe:
        administration.set_variables(source, **{VARIABLE: True})
    if is_node:
        source[GaleraNode] = GaleraNode()
    assert needed is needs_binlog_lock(source, slave_info=slave_info)


def test_commits_wait_as_long_as_the_copy_of_the_redo_takes() -> None:
    """The cost that the document wants to avoid: nothing is logged while the redo is finished."""
    fleet = busy_fleet("single")
    source = server(fleet)
    run_backup(fleet, source, Options(finish_redo_us=300 * MILLISECOND))
    reported = journal(source)
    at = [r.ts for r in reported if r.body.get("lock") == "binlog"]
    assert at[1] - at[0] >= 300 * MILLISECOND
    assert not [r for r in reported if r.gtid and at[0] < r.ts < at[1]]
    behind = [r for r in reported if r.gtid and at[1] <= r.ts <= at[1] + MILLISECOND]
    assert len(behind) > 5


def test_a_backup_whose_session_is_killed_says_so() -> None:
    """It ends with an error, without an image, and unlocks nothing itself."""
    fleet = busy_fleet("single")
    source = server(fleet)
    BackupUtility(fleet, source).begin()
    fleet.run(fleet.now + 200 * MILLISECOND)
    lifecycle.shut_down(fleet, source)
    fleet.run(fleet.now + 2_000 * MILLISECOND)
    reported = bodies_of(journal(source), RecordType.BACKUP)
    assert [body["step"] for body in reported] == ["begin", "end"]
    assert "error" in reported[-1]
