"""A real source whose log is rotated while XA COMMIT is under way: marker mysqld.

MySQL's own fault: the next file's Previous_gtids lacks what is in the file before for good, and a
replica that has the others is not sent it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tallystick.coordinates.audit.replay import AuditResult, audit_history
from tallystick.coordinates.results import Finding
from tallystick.coordinates.values.gtid import GtidSet
from tallystick.producers.mysql_lab.layout import REPLICA_1, SOURCE_A
from tallystick.producers.mysql_lab.sessions import Session, session
from tallystick.servers.lab import Lab
from tests.support.tails import RunningTail, running, settings_of, wait_for

SESSIONS = 8


@contextmanager
def transactions(lab: Lab) -> Iterator[None]:
    """Some sessions prepare XA transactions and commit them, again and again."""
    ended = threading.Event()

    def commit(number: int) -> None:
        with session(lab.addresses()[SOURCE_A]) as source:
            while not ended.is_set():
                source.run(f"XA START '{number}'")
                source.run("INSERT INTO overtaken.t VALUES ()")
                for verb in ("END", "PREPARE", "COMMIT"):
                    source.run(f"XA {verb} '{number}'")

    threads = [threading.Thread(target=commit, args=(number,)) for number in range(SESSIONS)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def overtaken(result: AuditResult) -> list[Finding]:
    return [one for one in result.findings if one.case == "rotated_while_committing"]


def rotated(lab: Lab, source: Session) -> tuple[GtidSet, GtidSet]:
    """Rotates until a head lacks groups: its set, and what it lacks."""
    found: list[Finding] = []

    def is_overtaken() -> bool:
        source.run("FLUSH NO_WRITE_TO_BINLOG BINARY LOGS")
        with running(settings_of(lab, SOURCE_A)) as tail, transactions(lab):
            for _ in range(50):
                source.run("FLUSH NO_WRITE_TO_BINLOG BINARY LOGS")
            tail.collect("rotated")
        found[:] = overtaken(audit_history(tail.sink.blocks))
        return bool(found)

    wait_for(is_overtaken, lambda: "no rotation overtook XA COMMIT", deadline_s=300)
    previous, missing = found[0].data["previous"], found[0].data["missing"]
    return GtidSet.parse(str(previous)), GtidSet.parse(str(missing))


def follow_from(lab: Lab, executed: GtidSet, deadline_for: GtidSet) -> GtidSet:
    """The replica has these GTIDs, and connects: what it is sent."""
    with session(lab.addresses()[REPLICA_1]) as replica:
        for statement in ("STOP REPLICA", "RESET REPLICA", "RESET MASTER"):
            replica.run(statement)
        replica.run("SET GLOBAL gtid_purged = %s", (str(executed),))
        replica.run("START REPLICA IO_THREAD")

        def retrieved() -> GtidSet:
            (row,) = replica.rows("SHOW REPLICA STATUS")
            return GtidSet.parse(str(row["Retrieved_Gtid_Set"]))

        wait_for(lambda: deadline_for <= retrieved(), retrieved)
        return retrieved()


@pytest.mark.long
def test_a_replica_is_not_sent_what_a_head_lacks(own_mysqld: Lab):
    """The head is found, and what is lost by it."""
    lab = own_mysqld
    with ExitStack() as stack:
        source = stack.enter_context(session(lab.addresses()[SOURCE_A]))
        source.run("CREATE DATABASE overtaken")
        source.run("CREATE TABLE overtaken.t (a INT AUTO_INCREMENT PRIMARY KEY)")
        previous, missing = rotated(lab, source)
        tails: list[RunningTail] = [
            stack.enter_context(running(settings_of(lab, name))) for name in (REPLICA_1, SOURCE_A)
        ]
        later = GtidSet.parse(source.gtid_executed()) - previous - missing
        assert later
        assert follow_from(lab, previous, later).isdisjoint(missing)
        for tail in tails:
            tail.collect("lost")
    result = audit_history([block for tail in tails for block in tail.sink.blocks])
    assert overtaken(result)
    lost = [one for one in result.findings if one.rule == "relay_mirrors_source"]
    assert any(missing <= GtidSet.parse(str(one.data["gtids"])) for one in lost)
