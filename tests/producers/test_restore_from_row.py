"""A server made of the logs up to the positions that a row of log_status names (WL#9452)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tallystick.coordinates.audit.replay import audit_history
from tallystick.producers.simulator.assemble import SETTLE_MS, Fleet, History
from tallystick.producers.simulator.backup import restore
from tallystick.producers.simulator.kernel.scenario import Scenario
from tallystick.producers.simulator.log_status.log_status_query import LogStatusQuery
from tallystick.producers.simulator.server import administration
from tallystick.producers.simulator.server.binary_log import BinaryLog
from tallystick.producers.simulator.server.channels import ChannelMap, RelayFile, RelayLog
from tallystick.producers.simulator.server.commit_queue import CommitQueue
from tallystick.producers.simulator.server.gtid_state import GtidState

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.transactions import LoggedGroup

STEP_US = 1_000


def running(seed: int) -> tuple[Fleet, Instance]:
    """A replica that reads by file and position, and stores where it is with each event."""
    scenario = Scenario(
        seed=seed, topology="pair", auto_position=False, writes_per_second=30.0, acts=False
    )
    fleet = Fleet(scenario)
    replica = fleet.instances["replica-a1"]
    administration.set_variables(replica, sync_source_info=1)
    fleet.run(fleet.start_ts + 1_500_000)
    return fleet, replica


def copied(fleet: Fleet, replica: Instance) -> restore.LogCopy:
    """The copy by a row, taken as soon as no relay log ends inside a group."""
    while not restore.can_be_cut(replica):
        fleet.run(fleet.now + STEP_US)
    copies: list[restore.LogCopy] = []

    def collected(row: dict[str, Any]) -> None:
        copies.append(restore.copy_logs(replica, row))

    LogStatusQuery(fleet, replica, "backup", collected, pytest.fail).begin()
    return copies[0]


def received_after(fleet: Fleet, replica: Instance, copy: restore.LogCopy) -> list[LoggedGroup]:
    """What the copy holds and the restored receiver gets until all is quiet, in its order."""
    restore.restore(fleet, replica, copy)
    old = list(copy.channels[0].relay_files)
    new: list[RelayFile] = []
    while fleet.now < fleet.load_ends_at + 1_000_000:
        fleet.run(fleet.now + STEP_US)
        files = replica[ChannelMap].channels[""][RelayLog].files if replica.is_running else []
        new += [f for f in files if f.number > old[-1].number and f not in new]
    return [g.logged for file in (*old, *new) for g in file.groups if g.is_complete]


def journal_of(fleet: Fleet) -> History:
    fleet.collect("the end", fleet.now)
    return History(fleet.scenario, fleet.advance(fleet.now + SETTLE_MS * 1_000))


@pytest.mark.parametrize("seed", range(6))
def test_what_the_row_names_is_enough(seed: int) -> None:
    """The relay log holds every group of the source once, in order, and all end up executed."""
    fleet, replica = running(seed)
    copy = copied(fleet, replica)
    at_the_row = replica[GtidState].executed.copy()
    for pending in replica[CommitQueue].in_commit:
        assert pending.logged.group.sid is not None
        at_the_row.add(pending.logged.group.sid, pending.logged.group.gno)
    assert at_the_row == copy.executed
    fleet.run(fleet.now + 700_000)
    assert copy.executed != replica[GtidState].executed
    groups = received_after(fleet, replica, copy)
    source = fleet.instances["source-a"]
    logged = [each for file in source[BinaryLog].files for each in file.groups()]
    assert groups == logged[-len(groups) :]
    assert replica[GtidState].executed == source[GtidState].executed
    assert audit_history(journal_of(fleet).blocks(512)).findings == []


@pytest.mark.parametrize("is_later", [True, False], ids=["repeats", "loses"])
def test_a_relay_log_of_another_moment_repeats_or_loses(is_later: bool) -> None:
    """Step-1: relay logs copied beyond what the repository knows come twice, shorter ones lack."""
    fleet, replica = running(1)
    first = copied(fleet, replica)
    fleet.run(fleet.now + 100_000)
    second = copied(fleet, replica)
    assert first.channels[0].flushed != second.channels[0].flushed
    tables, logs = (first, second) if is_later else (second, first)
    groups = received_after(fleet, replica, replace(tables, channels=logs.channels))
    source = fleet.instances["source-a"]
    logged = [each for file in source[BinaryLog].files for each in file.groups()]
    missing = [each for each in logged[logged.index(groups[0]) :] if each not in groups]
    repeated = len(groups) - len(set(map(id, groups)))
    assert (repeated > 0, len(missing) > 0) == (is_later, not is_later)
