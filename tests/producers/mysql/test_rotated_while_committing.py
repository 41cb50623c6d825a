"""A real source whose log is rotated while XA COMMIT is under way: marker mysqld.

MySQL's own fault: the next file's Previous_gtids lacks what is in the file before for good, and a
replica that has all else when it connects is not sent it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tallystick.coordinates.audit.replay import AuditResult, audit_history
from tallystick.coordinates.results import Finding
from tallystick.coordinates.values.gtid import GtidSet
from tallystick.producers.mysql_lab.layout import REPLICA_1, SOURCE_A
from tallystick.producers.mysql_lab.sessions import Session, session
from tallystick.servers.lab import Lab
from tests.support.tails import running, settings_of, wait_for

SESSIONS = 8


@contextmanager
def transactions(lab: Lab) -> Iterator[None]:
    """Some sessions prepare XA transactions and commit them, each with a name of its own."""
    ended = threading.Event()

    def commit(number: int) -> None:
        with session(lab.addresses()[SOURCE_A]) as source:
            while not ended.is_set():
                xid = source.value("SELECT UUID()")
                source.run(f"XA START '{xid}'")
                source.run("INSERT INTO overtaken.t VALUES ()")
                for verb in ("END", "PREPARE", "COMMIT"):
                    source.run(f"XA {verb} '{xid}'")

    threads = [threading.Thread(target=commit, args=(number,)) for number in range(SESSIONS)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def followed(lab: Lab, *names: str, between: Callable[[], None] | None = None) -> AuditResult:
    """Two collections of servers that are followed from now on, from their oldest files."""
    with ExitStack() as stack:
        tails = [stack.enter_context(running(settings_of(lab, name))) for name in names]
        for tail in tails:
            tail.collect("first")
        if between is not None:
            between()
        for tail in tails:
            tail.collect("second")
    return audit_history([block for tail in tails for block in tail.sink.blocks])


def overtaken(result: AuditResult) -> list[Finding]:
    return [one for one in result.findings if one.case == "rotated_while_committing"]


def rotated(lab: Lab, source: Session) -> tuple[GtidSet, GtidSet]:
    """Rotates until a head lacks groups: its set, and what it lacks."""
    found: list[Finding] = []

    def is_overtaken() -> bool:
        with transactions(lab):
            for _ in range(50):
                source.run("FLUSH NO_WRITE_TO_BINLOG BINARY LOGS")
        found[:] = overtaken(followed(lab, SOURCE_A))
        return bool(found)

    wait_for(is_overtaken, lambda: "no rotation overtook XA COMMIT", deadline_s=300)
    previous, missing = found[0].data["previous"], found[0].data["missing"]
    return GtidSet.parse(str(previous)), GtidSet.parse(str(missing))


@pytest.mark.long
def test_a_replica_is_not_sent_what_a_head_lacks(own_mysqld: Lab):
    """The head is found, and what a replica has lost by it before it was followed."""
    lab = own_mysqld
    with ExitStack() as stack:
        source, replica = (
            stack.enter_context(session(lab.addresses()[name])) for name in (SOURCE_A, REPLICA_1)
        )
        source.run("CREATE DATABASE overtaken")
        source.run("CREATE TABLE overtaken.t (a INT AUTO_INCREMENT PRIMARY KEY)")
        lab.await_applied()
        replica.run("STOP REPLICA")
        previous, missing = rotated(lab, source)
        replica.run("START REPLICA UNTIL SQL_AFTER_GTIDS = %s", (str(previous),))
        wait_for(lambda: previous <= GtidSet.parse(replica.gtid_executed()), replica.gtid_executed)
        # Its relay logs are thrown away, and it connects with what it has executed.
        for statement in ("STOP REPLICA", "RESET REPLICA", "START REPLICA"):
            replica.run(statement)

        def status() -> dict[str, object]:
            (row,) = replica.rows("SHOW REPLICA STATUS")
            return row

        def has_gone_on(sent: GtidSet) -> bool:
            now = status()  # positions of workers are shown some time after they have committed
            is_passed = now["Exec_Source_Log_Pos"] == now["Read_Source_Log_Pos"]
            return is_passed and sent <= GtidSet.parse(replica.gtid_executed())

        def go_on() -> None:
            source.run("INSERT INTO overtaken.t VALUES ()")
            sent = GtidSet.parse(source.gtid_executed()) - missing
            wait_for(lambda: has_gone_on(sent), status)

        go_on()
        assert GtidSet.parse(replica.gtid_executed()).isdisjoint(missing)
        assert ("Yes", "Yes") == (status()["Replica_IO_Running"], status()["Replica_SQL_Running"])
        idle = followed(lab, REPLICA_1, SOURCE_A)
        result = followed(lab, REPLICA_1, SOURCE_A, between=go_on)
    assert {"passed_maybe"} <= {one.reason for one in idle.observations}
    assert overtaken(result)
    assert ["applied_relay_gtids_executed"] == [
        one.rule for one in result.findings if one.instance_id == REPLICA_1
    ]
