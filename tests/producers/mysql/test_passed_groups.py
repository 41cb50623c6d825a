"""A real replica that asks by GTID set, whose source passes what it has: marker mysqld."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tallystick.coordinates.audit.replay import audit_history
from tallystick.coordinates.results import Verdict
from tallystick.producers.mysql_lab.layout import REPLICA_1, SOURCE_A
from tallystick.producers.mysql_lab.sessions import Session, session
from tallystick.servers.lab import Lab
from tests.support.tails import running, settings_of, wait_for

GROUPS = 150
CONSISTENT = Verdict.CONSISTENT.value
WITHIN = {"Gtid", "Table_map", "Write_rows"}
"""Events that no group ends with, as SHOW BINLOG EVENTS names them."""


def executed(replica: Session) -> tuple[str, int]:
    """The source coordinates of the applier."""
    (row,) = replica.rows("SHOW REPLICA STATUS")
    return str(row["Relay_Source_Log_File"]), int(str(row["Exec_Source_Log_Pos"]))


def is_within_a_group(source: Session, replica: Session) -> bool:
    """Whether the applier moved, and has stopped at an event within a group."""
    replica.run("START REPLICA SQL_THREAD")
    replica.run("STOP REPLICA SQL_THREAD")
    file, position = executed(replica)
    events = source.rows(f"SHOW BINLOG EVENTS IN '{file}'")
    return any(e["End_log_pos"] == position and e["Event_type"] in WITHIN for e in events)


@pytest.mark.parametrize("workers", [0, 4])
def test_an_applier_stands_within_a_group_that_the_replica_has(own_mysqld: Lab, workers: int):
    """A heartbeat names each event that is passed where the period is 0, and some where it is not.

    The receiver writes them into the relay log, and the applier moves on with each.
    """
    lab = own_mysqld
    with ExitStack() as stack:
        names = (SOURCE_A, REPLICA_1)
        tails = [stack.enter_context(running(settings_of(lab, name))) for name in names]

        def collect(name: str) -> None:
            for tail in reversed(tails):
                tail.collect(name)

        source, replica = (stack.enter_context(session(lab.addresses()[name])) for name in names)
        source.run("CREATE DATABASE IF NOT EXISTS passed")
        source.run("CREATE TABLE IF NOT EXISTS passed.t (i INT AUTO_INCREMENT PRIMARY KEY)")
        for _ in range(GROUPS):
            source.run("INSERT INTO passed.t VALUES ()")
        lab.await_applied()
        collect("before")
        replica.run("STOP REPLICA")
        replica.run(f"SET GLOBAL replica_parallel_workers = {workers}")
        replica.run("CHANGE REPLICATION SOURCE TO SOURCE_HEARTBEAT_PERIOD = 0")
        replica.run("START REPLICA IO_THREAD")
        wait_for(lambda: is_within_a_group(source, replica), lambda: executed(replica))
        collect("within")
        replica.run("START REPLICA SQL_THREAD")
        source.run("INSERT INTO passed.t VALUES ()")
        lab.await_applied()
        collect("after")
    result = audit_history([block for tail in tails for block in tail.sink.blocks])
    assert [] == result.findings
    rows = [cut for cut in result.cuts if cut.instance_id == REPLICA_1]
    assert {("before", CONSISTENT), ("within", CONSISTENT), ("after", CONSISTENT)} == {
        (cut.collection_id, cut.verdict) for cut in rows
    }
