"""True faults on real servers: each does to them what it says.

The tests go on in order: what a fault leaves behind is still there for the next.
"""

from __future__ import annotations

import json

import pytest

from tallystick.cli import run_command
from tallystick.coordinates.rules.catalogue import RULES
from tallystick.errors import ExitCode, MisuseError
from tallystick.producers.mysql_lab.errors import LabError
from tallystick.producers.mysql_lab.faults import FAULTS, make_fault
from tallystick.producers.mysql_lab.layout import NAMES, REPLICA_1, REPLICA_2, SOURCE_A, SOURCE_B
from tallystick.producers.mysql_lab.sessions import session
from tallystick.servers.lab import Lab


def test_the_catalogue_names_servers_and_rules_that_there_are() -> None:
    """What the audit is expected to find is in its registry."""
    for name, fault in FAULTS.items():
        assert name == fault.name
        assert set(fault.expected) <= set(RULES)
        assert set(fault.servers) <= set(NAMES)


def test_the_catalogue_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """Each fault is reported with what the audit is expected to find, without a lab."""
    assert ExitCode.CONSISTENT == run_command(["lab", "fault", "--list", "--json"])
    listed = {one["name"]: one for one in json.loads(capsys.readouterr().out)}
    assert set(FAULTS) == set(listed)
    assert ["no_errant_gtids"] == listed["errant-transaction"]["expected"]
    assert ExitCode.CONSISTENT == run_command(["lab", "fault", "--list"])
    lines = capsys.readouterr().out.splitlines()
    assert any("kill-source " in line and line.endswith("nothing") for line in lines)


def test_without_a_lab_a_fault_says_how_to_get_one(tmp_path) -> None:
    """The directory that has none is named, with the command that makes one."""
    with pytest.raises(MisuseError, match=f"no lab in .*lab up --directory {tmp_path}"):
        run_command(["lab", "fault", "kill-source", "--directory", str(tmp_path)])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["no-such"], "no fault 'no-such'; expected one of: errant-transaction"),
        (["kill-source", "--on", "hub"], "cannot happen on 'hub'; expected one of: source-a"),
    ],
)
def test_what_cannot_happen_is_refused(own_mysqld: Lab, words: list[str], said: str) -> None:
    """An unknown fault, and one on a server where it makes no sense."""
    with pytest.raises(LabError, match=said):
        run_command(["lab", "fault", *words, "--directory", str(own_mysqld.directory.parent)])


def test_an_errant_transaction_is_the_replicas_own(own_mysqld: Lab) -> None:
    """Its GTID is under the replica's UUID, and its source never has it."""
    where, did = make_fault(own_mysqld, "errant-transaction")
    gtid = dict(did)["GTID"]
    with session(own_mysqld.addresses()[REPLICA_1]) as replica:
        assert REPLICA_1 == where
        assert gtid.startswith(replica.value("SELECT @@server_uuid"))
        assert gtid in replica.gtid_executed()
    with session(own_mysqld.addresses()[SOURCE_A]) as source:
        assert gtid.partition(":")[0] not in source.gtid_executed()


def test_a_hole_lies_below_the_newest_number(own_mysqld: Lab) -> None:
    """The numbers between are free until clients have written that many."""
    _, did = make_fault(own_mysqld, "gtid-hole", SOURCE_B)
    reported = dict(did)
    newest = int(reported["newest number before"])
    assert reported["GTID_NEXT"].endswith(f":{newest + 100}")
    assert reported["own GTIDs"].endswith(f":{newest + 100}")
    with session(own_mysqld.addresses()[SOURCE_B]) as server:
        uuid = server.value("SELECT @@server_uuid")
        skipped = f"{uuid}:{newest + 1}-{newest + 99}"
        subtracted = server.value("SELECT GTID_SUBTRACT(%s, @@gtid_executed)", (skipped,))
        assert skipped == subtracted


def test_a_reset_replica_catches_up_by_gtid(own_mysqld: Lab) -> None:
    """It forgets its relay logs and loses nothing."""
    _, did = make_fault(own_mysqld, "reset-replica", REPLICA_1)
    assert dict(did)["gtid_executed before"] == dict(did)["gtid_executed after"]
    own_mysqld.up()
    own_mysqld.await_applied()
    assert all(one.is_well for one in own_mysqld.status())


@pytest.mark.parametrize("name", ["kill-source", "kill-replica-unsynced"])
def test_a_killed_server_comes_back_with_all_that_it_had(own_mysqld: Lab, name: str) -> None:
    """Another process serves its data; every replica gets what its source has."""
    before = {one.name: one.pid for one in own_mysqld.status()}
    where, did = make_fault(own_mysqld, name)
    assert str(before[where]) == dict(did)["process killed"]
    own_mysqld.up()  # returns when the receivers have found their source again
    own_mysqld.await_applied()
    statuses = own_mysqld.status()
    assert [where] == [one.name for one in statuses if one.pid != before[one.name]]
    assert all(one.is_well for one in statuses)


def test_a_copied_server_uuid_is_reported_by_both(own_mysqld: Lab) -> None:
    """Two instances of one identity run side by side, and nothing refuses them."""
    own = (own_mysqld.servers[REPLICA_2].data_directory / "auto.cnf").read_text("utf-8")
    make_fault(own_mysqld, "copied-server-uuid")
    found = []
    for name in (REPLICA_2, SOURCE_B):
        with session(own_mysqld.addresses()[name]) as server:
            found.append(server.value("SELECT @@server_uuid"))
    assert found[0] == found[1]
    own_mysqld.stop(REPLICA_2)
    (own_mysqld.servers[REPLICA_2].data_directory / "auto.cnf").write_text(own, "utf-8")
    own_mysqld.restart(REPLICA_2)
    own_mysqld.up()
    assert all(one.is_well for one in own_mysqld.status())
