"""Images and recoveries of the simulator: what they hold is compared with the servers' own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tallystick.coordinates.events.journal import RecordType
from tallystick.coordinates.values.gtid import GtidSet
from tallystick.producers.simulator.assemble import Fleet, History, simulate
from tallystick.producers.simulator.backup import backup_image, tables
from tallystick.producers.simulator.backup import point_in_time_recovery as recovery
from tallystick.producers.simulator.backup.point_in_time_recovery import Recovery, StopPoint
from tallystick.producers.simulator.backup.tables import TableData
from tallystick.producers.simulator.kernel.scenario import Scenario
from tallystick.producers.simulator.kernel.transactions import GroupKind
from tallystick.producers.simulator.server import clients, commit, lifecycle
from tallystick.producers.simulator.server.binary_log import BinaryLog
from tallystick.producers.simulator.server.commit_queue import CommitQueue
from tallystick.producers.simulator.server.gtid_state import GtidState
from tests.support.simulated_journal import bodies_of, records

if TYPE_CHECKING:
    from tallystick.producers.simulator.backup.backup_image import Image
    from tallystick.producers.simulator.kernel.instance import Instance

SECOND = 1_000_000
SEEDS = range(3)


def steps(history: History, name: str) -> dict[str, dict[str, Any]]:
    """The ``backup`` records of an instance by step."""
    return {
        body["step"]: body for body in bodies_of(records(history.journals[name]), RecordType.BACKUP)
    }


def run(negative: str, seed: int, **options: Any) -> History:
    return simulate(Scenario(seed=seed, negatives=(negative,), **options))


def restored_of(history: History) -> str:
    return next(name for name in history.journals if name.startswith("restored"))


def backed_up_fleet(topology: str = "single", **options: Any) -> tuple[Fleet, Instance]:
    fleet = Fleet(Scenario(seed=5, topology=topology, acts=False, **options))
    tables.install(fleet.instances.values())
    source = fleet.instances["source-a"]
    backup_image.prepare(fleet, source)
    return fleet, source


def image_of(fleet: Fleet, instance: Instance) -> Image:
    images: list[Image] = []
    backup_image.back_up(fleet, instance, "b", images.append)
    fleet.run(fleet.now + SECOND)
    assert len(images) == 1
    return images[0]


def recover(fleet: Fleet, image: Image, server: Instance, stop: StopPoint) -> Recovery:
    done: list[Recovery] = []
    recovery.recover(fleet, image, server, stop, done.append)
    fleet.run(fleet.now + 2 * SECOND)
    assert len(done) == 1
    return done[0]


@pytest.mark.parametrize("profile", ["mysql-8.0", "wl9452"])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_summary_names_the_state_of_the_data(profile: str, seed: int) -> None:
    """Position, set and tables are those of the groups that the log holds up to the position."""
    fleet = Fleet(Scenario(seed=seed, topology="single", profile=profile, writes_per_second=40.0))
    source = fleet.instances["source-a"]
    tables.install([source])
    before = source[GtidState].executed.copy()
    backup_image.prepare(fleet, source)
    fleet.run(fleet.start_ts + SECOND)
    image = image_of(fleet, source)
    data = tables.TableData()
    assert image.position is not None
    assert source[BinaryLog].archive is not None
    for _, file in source[BinaryLog].archive:
        for logged in file.groups():
            if (file.name, logged.end) <= image.position:
                before.add(logged.group.sid or "", logged.group.gno)
                data.change(logged.group)
    assert image.executed == before
    assert image.data.checksums() == data.checksums()
    assert source[GtidState].executed != before, "the server goes on"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "negative", ["recovery_on_new_server", "recovery_by_position", "recovery_from_replica"]
)
def test_a_new_server_arrives_at_the_data_and_the_set_of_the_stop_point(
    negative: str, seed: int
) -> None:
    """What the source reported there and what the restored server has are the same values."""
    history = run(negative, seed)
    restored = steps(history, restored_of(history))
    source = steps(history, "source-a")
    assert restored["replayed"]["tables"] == source["checksum"]["tables"]
    coordinates = source["checksum"]["binlog_file"], source["checksum"]["binlog_position"]
    assert (restored["replayed"]["to_file"], restored["replayed"]["to_position"]) == coordinates
    assert restored["restore"]["tables"] != restored["replayed"]["tables"]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_server_goes_back_into_its_own_past(seed: int) -> None:
    """It has the data of the checksums again, and then writes on under GNOs used before."""
    history = run("recovery_on_same_server", seed)
    reported = steps(history, "source-a")
    assert reported["replayed"]["tables"] == reported["checksum"]["tables"]
    starts = bodies_of(records(history.journals["source-a"]), RecordType.START)
    assert [start.get("data_lineage") for start in starts][:2] == [None, "restored"]


@pytest.mark.parametrize("seed", SEEDS)
def test_an_image_of_a_replica_tells_its_position_and_both_repositories(seed: int) -> None:
    """Replication state, slave position, master.info and relay.info; never the password."""
    history = run("recovery_from_replica", seed)
    image = steps(history, "replica-a1")["image"]
    (channel,) = image["channels"]
    assert channel["source_instance"] == "source-a"
    relay_info, master_info = channel["slave_relay_log_info"], channel["slave_master_info"]
    executed = channel["exec_source_log_file"], channel["exec_source_log_pos"]
    assert (relay_info["Master_log_name"], relay_info["Master_log_pos"]) == executed
    assert relay_info["Relay_log_name"] == f"./{channel['relay_log_file']}"
    assert master_info["Channel_name"] == channel["channel"]
    assert not any("password" in key.lower() for key in master_info)
    replay = steps(history, restored_of(history))["replay"]
    assert (replay["from_file"], replay["from_position"]) == executed


def test_what_the_log_has_and_the_image_has_is_not_executed_again() -> None:
    """A replay from an earlier position skips GTIDs that the image holds."""
    fleet, source = backed_up_fleet()
    fleet.run(fleet.start_ts + SECOND)
    image = image_of(fleet, source)
    assert source[BinaryLog].archive is not None
    first = source[BinaryLog].archive[0][1]
    image.position = first.name, 4
    fleet.run(fleet.now + SECOND)
    server = recovery.add_server(fleet, source)
    expected = source[GtidState].logged.copy()
    done = recover(fleet, image, server, StopPoint(source[BinaryLog].position))
    assert done.start == (first.name, 4)
    logged = [logged.group for file in server[BinaryLog].files for logged in file.groups()]
    assert len(logged) < done.group_count
    assert server[GtidState].executed == expected


@pytest.mark.parametrize("by", ["position", "time", "gtid"])
def test_a_stop_point_in_the_middle_of_a_file(by: str) -> None:
    """Nothing after it is executed, everything up to it is."""
    fleet, source = backed_up_fleet(max_binlog_size=1 << 20, writes_per_second=30.0)
    fleet.run(fleet.start_ts + SECOND // 2)
    image = image_of(fleet, source)
    fleet.run(fleet.now + SECOND)
    commit.finish_all(fleet, source)
    groups = source[BinaryLog].active.groups()
    assert image.position is not None
    behind = [logged for logged in groups if logged.end > image.position[1]]
    last, following = behind[len(behind) // 2], behind[len(behind) // 2 + 1]
    stop = {
        "position": StopPoint(position=(source[BinaryLog].active.name, last.end)),
        "time": StopPoint(before_ts=following.group.original_commit_timestamp),
        "gtid": StopPoint(gtid=f"{last.group.sid}:{last.group.gno}"),
    }[by]
    server = recovery.add_server(fleet, source)
    done = recover(fleet, image, server, stop)
    expected = image.executed.copy()
    for logged in behind[: len(behind) // 2 + 1]:
        expected.add(logged.group.sid or "", logged.group.gno)
    if by != "time":  # several groups may have one time
        assert server[GtidState].executed == expected
        assert done.end == (source[BinaryLog].active.name, last.end)
    assert (following.group.sid or "", following.group.gno) not in server[GtidState].executed


def test_purged_files_are_replayed_from_where_they_are_kept() -> None:
    """The source removes its files; what was kept elsewhere is enough."""
    fleet, source = backed_up_fleet(max_binlog_size=2_048, writes_per_second=40.0)
    fleet.run(fleet.start_ts + SECOND // 2)
    image = image_of(fleet, source)
    fleet.run(fleet.now + 2 * SECOND)
    assert image.position is not None
    assert image.position[0] not in [file.name for file in source[BinaryLog].files]
    server = recovery.add_server(fleet, source)
    recover(fleet, image, server, StopPoint(source[BinaryLog].position))
    assert server[GtidState].executed.to_gtid_set() <= GtidSet.parse(
        source[GtidState].logged.text()
    )
    assert server[BinaryLog].active.groups()


def test_an_image_has_the_gtids_of_those_outside_who_are_logged_and_not_committed() -> None:
    """A replay from the position will not bring them; a copy without validity point lacks them."""
    fleet, source = backed_up_fleet(writes_per_second=1e-6)
    fleet.pace.commit_stage_us = (9_000, 9_001)
    clients.write(fleet, source, GroupKind.DDL)
    (pending,) = source[CommitQueue].in_commit
    gtid = (pending.logged.group.sid, pending.logged.group.gno)
    for is_validity_point in (True, False):
        image = backup_image.take_image(source, "b", is_validity_point=is_validity_point)
        assert image.position == source[BinaryLog].position
        assert (gtid in image.executed) == is_validity_point


def test_a_prepared_transaction_is_in_the_image_and_its_commit_in_the_log() -> None:
    """XA PREPARE before the image, XA COMMIT after it: the change arrives."""
    fleet, source = backed_up_fleet(writes_per_second=0.01)
    prepared = clients.write(fleet, source, GroupKind.XA_PREPARE)
    fleet.run(fleet.now + SECOND)
    image = image_of(fleet, source)
    assert prepared is None, "after the zone it is logged later"
    (group,) = image.transactions.prepared()
    clients.write(fleet, source, GroupKind.XA_COMMIT, xa_of=group)
    fleet.run(fleet.now + SECOND)
    server = recovery.add_server(fleet, source)
    recover(fleet, image, server, StopPoint(source[BinaryLog].position))
    assert server[TableData].checksums() == source[TableData].checksums()
    assert server[CommitQueue].prepared_xa == []


def test_a_prepared_transaction_of_an_image_outlives_a_crash() -> None:
    """Its undo log is in the image."""
    fleet, source = backed_up_fleet(writes_per_second=0.01)
    clients.write(fleet, source, GroupKind.XA_PREPARE)
    fleet.run(fleet.now + SECOND)
    image = image_of(fleet, source)
    (group,) = image.transactions.prepared()
    server = recovery.add_server(fleet, source)
    recover(fleet, image, server, StopPoint(image.position))
    assert server[CommitQueue].prepared_xa == [group]
    lifecycle.crash(fleet, server, torn=False)
    fleet.run(fleet.now + SECOND)
    assert server.is_running
    assert server[CommitQueue].prepared_xa == [group]
