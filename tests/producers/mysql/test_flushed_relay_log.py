"""Real relay log files that do not name the source's file that they go on with: marker mysqld."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tallystick.coordinates.audit.replay import audit_history
from tallystick.coordinates.results import Verdict
from tallystick.producers.mysql_lab.layout import REPLICA_1, SOURCE_A
from tallystick.producers.mysql_lab.sessions import session
from tallystick.servers.lab import Lab
from tests.support.tails import running, settings_of


@pytest.mark.parametrize("is_empty", [True, False])
@pytest.mark.parametrize("is_full", [True, False])
def test_a_tail_begins_in_a_file_that_the_relay_log_has_rotated_to(
    own_mysqld: Lab, is_full: bool, is_empty: bool
):
    """By FLUSH RELAY LOGS, or full; the source's binary log has not rotated."""
    lab = own_mysqld
    with ExitStack() as stack:
        names = (SOURCE_A, REPLICA_1)
        source, replica = (stack.enter_context(session(lab.addresses()[name])) for name in names)
        source.run("CREATE DATABASE IF NOT EXISTS flushed")
        source.run("CREATE TABLE IF NOT EXISTS flushed.t (i INT AUTO_INCREMENT PRIMARY KEY)")
        lab.await_applied()
        if is_full:
            replica.run("SET GLOBAL max_relay_log_size = 4096")
            for _ in range(20):
                source.run("INSERT INTO flushed.t VALUES ()")
            lab.await_applied()
            replica.run("SET GLOBAL max_relay_log_size = 0")
        else:
            replica.run("FLUSH NO_WRITE_TO_BINLOG RELAY LOGS")
        if not is_empty:
            source.run("INSERT INTO flushed.t VALUES ()")
        lab.await_applied()
        tails = [stack.enter_context(running(settings_of(lab, name))) for name in names]
        for name in ("begun", "went on"):
            for tail in reversed(tails):
                tail.collect(name)
            source.run("INSERT INTO flushed.t VALUES ()")
            lab.await_applied()
        for tail in reversed(tails):
            tail.collect("end")
    result = audit_history([block for tail in tails for block in tail.sink.blocks])
    assert [] == result.findings
    rows = [cut for cut in result.cuts if cut.instance_id == REPLICA_1]
    assert {cut.verdict for cut in rows} == {Verdict.CONSISTENT.value}
    assert [] == [one for one in result.observations if one.is_undecided]
    read_by = "master_info_not_ahead_of_relay"
    reasons = {
        (cut.collection_id, check.reason)
        for cut in rows
        for check in cut.checks
        if check.rule == read_by
    }
    assert {("begun", "not_read"), ("went on", ""), ("end", "")} == reasons
