"""From a real fault to its name: the lab, `tallystick check`, findings.

The tests go on in order, on one lab that nothing else uses.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tallystick.errors import ExitCode
from tallystick.producers.mysql_lab.faults import FAULTS, make_fault
from tallystick.producers.mysql_lab.layout import REPLICA_1, REPLICA_2, SOURCE_A, SOURCES
from tallystick.producers.mysql_lab.load import LoadPlan
from tallystick.producers.mysql_lab.replication import make_channel
from tallystick.producers.mysql_lab.sessions import session
from tallystick.servers.lab import Lab

ROOT = Path(__file__).parents[2]
CHECK_DEADLINE_S = 120


@pytest.fixture(scope="module")
def expected() -> set[str]:
    """What the faults made so far are expected to break."""
    return set()


def begin_check(lab: Lab, collections: int) -> subprocess.Popen[bytes]:
    """Starts `tallystick check` as a user does."""
    words = ["--config", str(lab.config_file), "--collections", str(collections)]
    return subprocess.Popen(
        [sys.executable, "-m", "tallystick.cli", "check", *words, "--interval", "1", "--json"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def end_check(check: subprocess.Popen[bytes]) -> tuple[int, set[str]]:
    """Waits for it; its exit status, and which rules it found broken."""
    out, said = check.communicate(timeout=CHECK_DEADLINE_S)
    try:
        report = json.loads(out)
    except ValueError:
        pytest.fail(f"status {check.returncode}: {said.decode()}")
    for finding in report["findings"]:
        sys.stdout.write(f"{finding}\n")  # shown where a test fails
    return check.returncode, {finding["rule"] for finding in report["findings"]}


@pytest.mark.long
def test_a_fleet_under_load_with_crashes_is_accused_of_nothing(own_mysqld: Lab) -> None:
    """Mixed load, and kill -9 of a source and two replicas meanwhile: no finding."""
    load = own_mysqld.make_load(LoadPlan(SOURCES, rate=80, threads=4, seconds=900))
    load.start()
    check = begin_check(own_mysqld, collections=6)
    crashes = 0
    while check.poll() is None and crashes < 6:
        name = (SOURCE_A, REPLICA_1, REPLICA_2)[crashes % 3]
        own_mysqld.kill(name)
        own_mysqld.restart(name)
        crashes += 1
        time.sleep(0.5)  # the crashes are to fall between different acts of the check
    code, broken = end_check(check)
    load.stop()
    report = load.finish()
    assert crashes >= 3
    assert report.total > 0
    assert set() == broken
    assert code in {ExitCode.CONSISTENT, ExitCode.UNDECIDED}
    own_mysqld.up()
    own_mysqld.await_applied()
    code, broken = end_check(begin_check(own_mysqld, collections=2))
    assert set() == broken
    assert code in {ExitCode.CONSISTENT, ExitCode.UNDECIDED}


def test_what_a_finding_advises_heals(own_mysqld: Lab) -> None:
    """A source fetches the errant group by a channel from its replica, removed afterwards."""
    make_fault(own_mysqld, "errant-transaction", REPLICA_1)
    found = end_check(begin_check(own_mysqld, collections=2))
    assert (ExitCode.INCONSISTENT, {"no_errant_gtids"}) == found
    addresses = own_mysqld.addresses()
    with (
        session(addresses[SOURCE_A]) as source,
        session(addresses[REPLICA_1]) as replica,
    ):
        make_channel(source, addresses[REPLICA_1], own_mysqld.accounts, "fetch")
        errant = replica.gtid_executed()
        assert source.value("SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, 30)", (errant,)) == 0
        source.run("STOP REPLICA FOR CHANNEL 'fetch'")
        source.run("RESET REPLICA ALL FOR CHANNEL 'fetch'")
    own_mysqld.await_applied()
    code, broken = end_check(begin_check(own_mysqld, collections=2))
    assert set() == broken
    assert code in {ExitCode.CONSISTENT, ExitCode.UNDECIDED}


@pytest.mark.parametrize(
    "name", ["errant-transaction", "applier-fails", "purge-under-lag", "copied-server-uuid"]
)
def test_a_real_fault_is_named(own_mysqld: Lab, expected: set[str], name: str) -> None:
    """The audit finds what the catalogue says, and nothing that no fault so far accounts for."""
    expected |= set(FAULTS[name].expected)
    make_fault(own_mysqld, name)
    assert (ExitCode.INCONSISTENT, expected) == end_check(begin_check(own_mysqld, collections=2))
