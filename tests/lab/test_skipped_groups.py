"""SET gtid_purged names groups that a replica never received: it counts them, without data."""

from __future__ import annotations

from contextlib import ExitStack

from tallystick.coordinates.audit.replay import audit_history
from tallystick.coordinates.results import Verdict
from tallystick.producers.mysql_lab.layout import REPLICA_1, REPLICA_2, SOURCE_A
from tallystick.producers.mysql_lab.sessions import session
from tallystick.servers.lab import Lab
from tests.support.tails import running, settings_of

WAIT = "SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, 60)"


def test_what_a_replica_is_said_to_have_is_in_doubt(own_mysqld: Lab) -> None:
    """No server records the statement: its next row shows what it named."""
    names, addresses = (SOURCE_A, REPLICA_1, REPLICA_2), own_mysqld.addresses()
    with ExitStack() as stack:
        tails = [stack.enter_context(running(settings_of(own_mysqld, name))) for name in names]
        source, replica, leaf = (stack.enter_context(session(addresses[name])) for name in names)
        source.run("CREATE DATABASE skipped")
        leaf.run(WAIT, (source.gtid_executed(),))
        for tail in reversed(tails):
            tail.collect("before")
        leaf.run("STOP REPLICA")
        source.run("CREATE TABLE skipped.t (id INT PRIMARY KEY)")
        replica.run(WAIT, (source.gtid_executed(),))
        lacking = "SELECT GTID_SUBTRACT(%s, @@GLOBAL.gtid_executed)"
        skipped = str(leaf.value(lacking, (replica.gtid_executed(),)))
        leaf.run("SET GLOBAL gtid_purged = %s", (f"+{skipped}",))
        leaf.run("START REPLICA")
        source.run("CREATE DATABASE not_skipped")
        leaf.run(WAIT, (source.gtid_executed(),))
        assert leaf.rows("SHOW TABLES FROM skipped") == []
        for tail in reversed(tails):
            tail.collect("after")
    result = audit_history([block for tail in tails for block in tail.sink.blocks])
    assert (result.findings, result.verdict) == ([], Verdict.UNDECIDED)
    doubts = [one for one in result.observations if one.reason == "skipped_by_gtid_purged"]
    assert {(one.instance_id, one.data["gtids"]) for one in doubts} == {(REPLICA_2, skipped)}
