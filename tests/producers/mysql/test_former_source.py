"""A real replica whose receiver alone is pointed elsewhere, and that gives up its relay log."""

from __future__ import annotations

from contextlib import ExitStack

from tallystick.coordinates.audit.replay import audit_history
from tallystick.coordinates.values.gtid import GtidSet
from tallystick.producers.mysql_lab.layout import REPLICA_1, REPLICA_2, SOURCE_A
from tallystick.producers.mysql_lab.sessions import Session, session
from tallystick.servers.lab import Lab
from tests.support.tails import running, settings_of, wait_for


def status(replica: Session) -> dict[str, object]:
    """SHOW REPLICA STATUS of the only channel."""
    (row,) = replica.rows("SHOW REPLICA STATUS")
    return row


def has_received(replica: Session, gtids: GtidSet) -> bool:
    retrieved = GtidSet.parse(str(status(replica)["Retrieved_Gtid_Set"]))
    return gtids <= retrieved | GtidSet.parse(replica.gtid_executed())


def delay(replica: Session, seconds: int) -> None:
    """The applier waits so long behind the source."""
    replica.run("STOP REPLICA SQL_THREAD")
    replica.run(f"CHANGE REPLICATION SOURCE TO SOURCE_DELAY = {seconds}")
    replica.run("START REPLICA SQL_THREAD")


def test_a_relay_log_is_given_up_while_groups_of_the_former_source_wait(own_mysqld: Lab):
    """Relay log recovery goes on in the next file, and nothing of the present source is executed.

    The former source's binary log has files that the present one's does not have.
    """
    lab = own_mysqld
    with ExitStack() as stack:
        names = (SOURCE_A, REPLICA_1, REPLICA_2)
        tails = [stack.enter_context(running(settings_of(lab, name))) for name in names]

        def collect(name: str) -> None:
            for tail in tails:
                tail.collect(name)

        servers = {name: stack.enter_context(session(lab.addresses()[name])) for name in names}
        source, former = servers[SOURCE_A], servers[REPLICA_1]
        for _ in range(2):
            former.run("FLUSH NO_WRITE_TO_BINLOG BINARY LOGS")
        source.run("CREATE DATABASE given_up")
        lab.await_applied()
        collect("before")
        with session(lab.addresses()[REPLICA_2]) as replica:
            delay(replica, 3600)
            source.run("CREATE TABLE given_up.t (a INT PRIMARY KEY)")
            gtids = GtidSet.parse(source.gtid_executed())
            wait_for(lambda: has_received(replica, gtids), lambda: status(replica))
            replica.run("STOP REPLICA IO_THREAD")
            port = lab.addresses()[SOURCE_A].port
            replica.run(f"CHANGE REPLICATION SOURCE TO SOURCE_PORT = {port}")
            replica.run("START REPLICA IO_THREAD")
            source_uuid = source.run("SELECT @@GLOBAL.server_uuid")[0][0]
            wait_for(
                lambda: (
                    (status(replica)["Source_UUID"], status(replica)["Replica_IO_Running"])
                    == (source_uuid, "Yes")
                ),
                lambda: status(replica),
            )
            executed = status(replica)["Exec_Source_Log_Pos"]
            collect("pointed elsewhere")
        lab.kill(REPLICA_2)
        lab.restart(REPLICA_2, "--skip-replica-start", "--relay-log-recovery=ON")
        collect("recovered")
        with session(lab.addresses()[REPLICA_2]) as replica:
            replica.run("START REPLICA IO_THREAD")
            wait_for(lambda: has_received(replica, gtids), lambda: status(replica))
            now = status(replica)
            assert now["Relay_Source_Log_File"] != now["Source_Log_File"]
            assert (now["Relay_Log_Pos"], now["Exec_Source_Log_Pos"]) == (4, executed)
            collect("connected")
            replica.run("START REPLICA SQL_THREAD")
            delay(replica, 0)
            lab.await_applied()
            collect("applied")
    result = audit_history([block for tail in tails for block in tail.sink.blocks])
    assert result.findings == []
    reasons = {
        cut.collection_id: check.reason
        for cut in result.cuts
        for check in cut.checks
        if cut.instance_id == REPLICA_2 and check.rule == "exec_source_pos_within_read"
    }
    assert reasons["connected"] == "coordinates_of_former_source"
    assert reasons["before"] == reasons["applied"] == ""
