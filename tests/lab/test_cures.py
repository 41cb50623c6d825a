"""What a finding advises, done on real servers: its incidents end.

A tail follows each server of the chain, before a fault, through it, and through its cure. The tests
go on in order, on one lab that nothing else uses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tallystick.coordinates.audit.replay import audit_history
from tallystick.coordinates.results import IncidentState
from tallystick.coordinates.rules.families import RUNBOOK, Family
from tallystick.producers.mysql_lab.faults import make_fault
from tallystick.producers.mysql_lab.layout import REPLICA_1, REPLICA_2, SOURCE_A
from tallystick.producers.mysql_lab.replication import make_channel
from tallystick.producers.mysql_lab.sessions import session
from tallystick.servers.lab import Lab
from tests.support.runbook_page import advised
from tests.support.tails import data_directory, running, settings_of

PAGE = (Path(__file__).parents[2] / RUNBOOK).read_text("utf-8")
CHAIN = (SOURCE_A, REPLICA_1, REPLICA_2)
OPEN, RESOLVED, SUPERSEDED = (
    IncidentState.OPEN,
    IncidentState.RESOLVED,
    IncidentState.SUPERSEDED,
)
States = dict[tuple[str, str], set[IncidentState]]
"""By rule and instance."""


class Watch:
    """Tails of the chain."""

    def __init__(self, lab: Lab, opened: ExitStack) -> None:
        self.lab = lab
        self.tails = {name: opened.enter_context(running(settings_of(lab, name))) for name in CHAIN}
        self.count = 0

    def collect(self) -> None:
        """Three collections: what a replica shows is compared with a later row of its source."""
        for _ in range(3):
            self.count += 1
            for tail in self.tails.values():
                tail.collect(f"c{self.count}")

    def states(self) -> States:
        """What has become of all incidents so far."""
        result = audit_history([b for tail in self.tails.values() for b in tail.sink.blocks])
        found: States = {}
        for one in result.incidents:
            found.setdefault((one.rule, one.instance_id), set()).add(one.state)
        return found


@pytest.fixture
def watch(own_mysqld: Lab) -> Iterator[Watch]:
    """Tails of the chain, from a collection before the fault on."""
    with ExitStack() as opened:
        watch = Watch(own_mysqld, opened)
        watch.collect()
        yield watch


def executed(lab: Lab, name: str) -> str:
    with session(lab.addresses()[name]) as server:
        return server.gtid_executed()


def await_executed(lab: Lab, name: str, gtids: str) -> None:
    with session(lab.addresses()[name]) as server:
        assert server.value("SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, 60)", (gtids,)) == 0


def follow(lab: Lab, name: str, statements: list[str], values: dict[str, str]) -> None:
    """Does what the runbook advises, with the values of a finding in place of its own."""
    with session(lab.addresses()[name]) as server:
        for statement in statements:
            text = re.sub(r"<[^>]+>", lambda found: values[found[0]], statement)
            server.run(text.rstrip(";"))


def make_errant(lab: Lab, name: str) -> str:
    """The GTID of a client's write on a replica."""
    before = executed(lab, name)
    make_fault(lab, "errant-transaction", name)
    with session(lab.addresses()[name]) as server:
        return str(server.value("SELECT GTID_SUBTRACT(@@GLOBAL.gtid_executed, %s)", (before,)))


def rebuild(lab: Lab, name: str, donor: str) -> None:
    """A copy of another replica's files under a new server_uuid, and the channel made anew.

    The lab's build of MySQL has no clone plugin: the files are copied while their server is held.
    """
    lab.stop(name)
    data = data_directory(lab, name)
    lab.servers[donor].copy_data(data)
    (data / "auto.cnf").unlink()
    lab.restart(name, "--skip-replica-start")
    addresses = lab.addresses()
    with session(addresses[name]) as server:
        server.run("STOP REPLICA")
        server.run("RESET REPLICA ALL")
        make_channel(server, addresses[donor], lab.accounts, "")


def test_an_errant_transaction_is_fetched_by_the_source(watch: Watch, own_mysqld: Lab) -> None:
    """By a channel from the replica, which is removed afterwards."""
    make_errant(own_mysqld, REPLICA_1)
    watch.collect()
    assert watch.states() == {("no_errant_gtids", REPLICA_1): {OPEN}}
    addresses = own_mysqld.addresses()
    with session(addresses[SOURCE_A]) as source:
        make_channel(source, addresses[REPLICA_1], own_mysqld.accounts, "fetch")
        await_executed(own_mysqld, SOURCE_A, executed(own_mysqld, REPLICA_1))
        watch.collect()
        source.run("STOP REPLICA FOR CHANNEL 'fetch'")
        source.run("RESET REPLICA ALL FOR CHANNEL 'fetch'")
    watch.collect()
    assert watch.states() == {("no_errant_gtids", REPLICA_1): {RESOLVED}}


def test_a_stray_row_is_removed_and_the_group_applied_whole(watch: Watch, own_mysqld: Lab) -> None:
    """As the runbook has it: without a log, so that nothing of it is errant."""
    _, did = make_fault(own_mysqld, "applier-fails", REPLICA_2)
    watch.collect()
    key = ("applier_not_failed", REPLICA_2)
    assert watch.states() == {key: {OPEN}}
    (value,) = re.findall(r"VALUES \((\d+)\)", did[0][1])
    follow(
        own_mysqld,
        REPLICA_2,
        advised(PAGE, Family.THREADS)[0],
        {"<table>": "lab_duplicate.t", "<key>": "a", "<value>": value},
    )
    await_executed(own_mysqld, REPLICA_2, executed(own_mysqld, SOURCE_A))
    watch.collect()
    assert watch.states() == {key: {RESOLVED}}


def test_a_replica_that_forgot_is_told_what_its_data_hold(watch: Watch, own_mysqld: Lab) -> None:
    """Its data have the changes: to ask for them again would repeat them."""
    before = executed(own_mysqld, REPLICA_2)
    make_fault(own_mysqld, "reset-replica-gtids", REPLICA_2)
    watch.collect()
    key = ("applied_relay_gtids_executed", REPLICA_2)
    assert watch.states() == {key: {OPEN}}
    with session(own_mysqld.addresses()[REPLICA_2]) as server:
        lost = server.value("SELECT GTID_SUBTRACT(%s, @@GLOBAL.gtid_executed)", (before,))
    told = advised(PAGE, Family.LOST_BY_RECEIVER)[1]
    follow(own_mysqld, REPLICA_2, told, {"<witness>": str(lost)})
    await_executed(own_mysqld, REPLICA_2, executed(own_mysqld, SOURCE_A))
    watch.collect()
    assert watch.states() == {key: {RESOLVED}}


def test_a_replica_is_pointed_to_a_source_that_has_what_it_lacks(
    watch: Watch, own_mysqld: Lab
) -> None:
    """Its own source has purged it: the source's source has it in a file."""
    make_fault(own_mysqld, "purge-under-lag", REPLICA_2)
    watch.collect()
    of_channel = {("purged_not_needed", REPLICA_2), ("receiver_not_failed", REPLICA_2)}
    assert watch.states() == {key: {OPEN} for key in of_channel}
    port = own_mysqld.addresses()[SOURCE_A].port
    follow(
        own_mysqld,
        REPLICA_2,
        advised(PAGE, Family.PURGED_TOO_EARLY)[1],
        {"<host that has them>": "127.0.0.1", "<port>": str(port)},
    )
    await_executed(own_mysqld, REPLICA_2, executed(own_mysqld, SOURCE_A))
    watch.collect()
    assert watch.states() == {key: {RESOLVED} for key in of_channel}


def test_an_empty_transaction_ends_one_incident_and_a_rebuild_the_other(
    watch: Watch, own_mysqld: Lab
) -> None:
    """The errant GTID is known everywhere then; the data differ until the replica is a copy."""
    uuid, _, number = make_errant(own_mysqld, REPLICA_2).rpartition(":")
    watch.collect()
    errant = ("no_errant_gtids", REPLICA_2)
    assert watch.states() == {errant: {OPEN}}
    with session(own_mysqld.addresses()[SOURCE_A]) as source:
        source.run("SET GTID_NEXT = %s", (f"{uuid}:{number}",))
        source.run("BEGIN")
        source.run("COMMIT")
        source.run("SET GTID_NEXT = 'AUTOMATIC'")
    await_executed(own_mysqld, REPLICA_1, f"{uuid}:{number}")
    watch.collect()
    states = watch.states()
    assert states.pop(errant) == {RESOLVED}
    assert {rule for rule, _ in states} == {"gtid_origin_agreement"}
    assert set().union(*states.values()) == {OPEN}
    rebuild(own_mysqld, REPLICA_2, REPLICA_1)
    await_executed(own_mysqld, REPLICA_2, executed(own_mysqld, SOURCE_A))
    watch.collect()
    states = watch.states()
    assert states.pop(errant) == {RESOLVED}
    assert {rule for rule, _ in states} == {"gtid_origin_agreement"}
    assert set().union(*states.values()) == {SUPERSEDED}
