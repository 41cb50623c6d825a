"""A real replica whose receiver alone is pointed elsewhere, and that gives up its relay log."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tallystick.coordinates.audit.replay import AuditResult, audit_history
from tallystick.coordinates.results import ObservationCode
from tallystick.coordinates.values.gtid import GtidSet
from tallystick.errors import ExitCode
from tallystick.producers.mysql_lab.layout import REPLICA_1, REPLICA_2, SOURCE_A
from tallystick.producers.mysql_lab.sessions import Session, session
from tallystick.servers.lab import Lab
from tests.lab.test_audited_faults import begin_check, end_check
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


def point_receiver(lab: Lab, replica: Session, source: str) -> None:
    """The stopped receiver alone gets another source: the relay log goes on.

    It runs before it has asked the source for its server_uuid.
    """
    address = lab.addresses()[source]
    replica.run(f"CHANGE REPLICATION SOURCE TO SOURCE_PORT = {address.port}")
    replica.run("START REPLICA IO_THREAD")
    with session(address) as asked:
        connected = {
            "Replica_IO_Running": "Yes",
            "Source_UUID": asked.value("SELECT @@GLOBAL.server_uuid"),
        }
    wait_for(lambda: connected.items() <= status(replica).items(), lambda: status(replica))


def reasons_within_read(result: AuditResult) -> dict[str | None, str]:
    """Why a rule of the replica's positions is undecided, by collection."""
    return {
        cut.collection_id: check.reason
        for cut in result.cuts
        for check in cut.checks
        if cut.instance_id == REPLICA_2 and check.rule == "exec_source_pos_within_read"
    }


def stop_within_group(lab: Lab, source: Session, replica: Session) -> None:
    """Stop the receiver while it receives a group of 32 MB."""
    source.run("CREATE TABLE IF NOT EXISTS given_up.large (a INT, b VARBINARY(4000))")
    source.run("SET SESSION cte_max_recursion_depth = 10000")
    for _ in range(10):
        before = int(str(status(replica)["Read_Source_Log_Pos"]))
        source.run(
            "INSERT INTO given_up.large WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL"
            " SELECT i + 1 FROM n WHERE i < 8000) SELECT i, REPEAT('x', 4000) FROM n"
        )
        replica.run("STOP REPLICA IO_THREAD")
        if before < int(str(status(replica)["Read_Source_Log_Pos"])) < before + 8000 * 4000:
            return
        replica.run("START REPLICA IO_THREAD")
        lab.await_applied()
    pytest.fail(f"the receiver was never within a group: {status(replica)}")


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
            point_receiver(lab, replica, SOURCE_A)
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
    reasons = reasons_within_read(result)
    assert reasons["connected"] == "coordinates_of_former_source"
    assert reasons["before"] == reasons["applied"] == ""


@pytest.mark.parametrize("workers", [0, 4])
def test_a_receiver_stops_within_a_group_and_goes_on_elsewhere(own_mysqld: Lab, workers: int):
    """Without workers the applier keeps the former file's name, beside positions in the new one."""
    lab = own_mysqld
    with ExitStack() as stack:
        names = (SOURCE_A, REPLICA_1, REPLICA_2)
        tails = [stack.enter_context(running(settings_of(lab, name))) for name in names]

        def collect(name: str) -> None:
            lab.await_applied()
            for tail in reversed(tails):
                tail.collect(name)

        source, former, replica = (
            stack.enter_context(session(lab.addresses()[name])) for name in names
        )
        replica.run("STOP REPLICA")
        replica.run(f"SET GLOBAL replica_parallel_workers = {workers}")
        replica.run("START REPLICA")
        while len(source.run("SHOW BINARY LOGS")) < len(former.run("SHOW BINARY LOGS")) + 2:
            source.run("FLUSH NO_WRITE_TO_BINLOG BINARY LOGS")
        collect("before")
        for attempt in range(5):
            replica.run("STOP REPLICA IO_THREAD")
            point_receiver(lab, replica, SOURCE_A)
            collect(f"pointed elsewhere {attempt}")
            stop_within_group(lab, source, replica)
            point_receiver(lab, replica, REPLICA_1)
            collect(f"back {attempt}")
            now = status(replica)
            is_kept = now["Relay_Source_Log_File"] != now["Source_Log_File"]
            if is_kept or workers:
                break  # else a ROTATE has named the file since, as rarely happens
        assert is_kept == (not workers)
        code, broken = end_check(begin_check(lab, collections=2))
        collect("kept")
        former.run("FLUSH NO_WRITE_TO_BINLOG BINARY LOGS")
        source.run("INSERT INTO given_up.large VALUES (0, '')")
        collect("taken over")
        now = status(replica)
        assert now["Relay_Source_Log_File"] == now["Source_Log_File"]
    result = audit_history([block for tail in tails for block in tail.sink.blocks])
    assert (result.findings, broken) == ([], set())
    assert code in {ExitCode.CONSISTENT, ExitCode.UNDECIDED}
    # The tail sees another source later than its relay log, and reads that anew: what was applied
    # of it is gone then.
    noted = [one for one in result.observations if one.code is ObservationCode.SOURCE_FILE_KEPT]
    reasons = reasons_within_read(result)
    is_seen = bool(noted) or reasons["kept"] == "coordinates_of_former_source"
    assert is_seen == (not workers)
    assert reasons["taken over"] == ""
