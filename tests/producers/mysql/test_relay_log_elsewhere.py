"""Where a server's relay log is not: real servers, marker mysqld."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tallystick.coordinates.audit.replay import audit_history
from tallystick.coordinates.results import Verdict
from tallystick.producers.mysql.settings import ServerSettings
from tallystick.producers.mysql_lab.layout import REPLICA_1, REPLICA_2, SOURCE_A
from tallystick.producers.mysql_lab.sessions import session
from tallystick.servers.lab import Lab
from tests.support.tails import RunningTail, data_directory, running, settings_of

Tails = tuple[RunningTail, RunningTail]
"""Of the source, and of its replica."""


@contextmanager
def followed(lab: Lab, replica: ServerSettings) -> Iterator[Tails]:
    """The source, and its replica with these settings."""
    with running(settings_of(lab, SOURCE_A)) as source, running(replica) as tail:
        yield source, tail


def collect(name: str, *pairs: Tails) -> None:
    for pair in pairs:
        for tail in pair:
            tail.collect(name)


def write(lab: Lab) -> None:
    """Groups that the replicas have then."""
    with session(lab.addresses()[SOURCE_A]) as source:
        source.run("CREATE DATABASE IF NOT EXISTS elsewhere")
        source.run("CREATE TABLE IF NOT EXISTS elsewhere.t (i INT AUTO_INCREMENT PRIMARY KEY)")
        for _ in range(20):
            source.run("INSERT INTO elsewhere.t VALUES ()")
    lab.await_applied()


def reasons(tails: Tails) -> set[str]:
    """Why relay logs were not read, of servers of which nothing is found."""
    result = audit_history([block for tail in tails for block in tail.sink.blocks])
    assert [] == result.findings
    rows = [cut for cut in result.cuts if cut.instance_id == REPLICA_1]
    assert {Verdict.CONSISTENT.value} == {cut.verdict for cut in rows}
    return {str(one.data["why"]) for one in result.observations if "why" in one.data}


def test_a_relay_log_that_has_moved_is_not_read_where_it_was(
    own_mysqld: Lab, tmp_path: Path
) -> None:
    """Its files there have the same names, and are longer than those that are written."""
    for _ in range(3):
        write(own_mysqld)
    here = settings_of(own_mysqld, REPLICA_1)
    there = here.model_copy(update={"relay_log_dir": tmp_path})
    with followed(own_mysqld, here) as before:
        collect("before", before)
        own_mysqld.stop(REPLICA_1)
        own_mysqld.restart(REPLICA_1, f"--relay-log={tmp_path}/relay")
        own_mysqld.up()
        write(own_mysqld)
        with followed(own_mysqld, here) as after, followed(own_mysqld, there) as right:
            collect("after", before, after, right)
    for (why,) in (reasons(before), reasons(after)):
        assert why.endswith("is the newest file there, and was opened before the server started")
    assert set() == reasons(right)


def test_the_relay_log_of_another_server_is_not_read(mysqld: Lab) -> None:
    """Though it may have all that this server has received."""
    with (
        session(mysqld.addresses()[REPLICA_1]) as one,
        session(mysqld.addresses()[REPLICA_2]) as two,
    ):
        ids = [each.value("SELECT @@server_id") for each in (one, two)]
    others = {"relay_log_dir": data_directory(mysqld, REPLICA_2)}
    wrong = settings_of(mysqld, REPLICA_1).model_copy(update=others)
    with followed(mysqld, wrong) as tails:
        for name in ("c1", "c2"):
            collect(name, tails)
    (why,) = reasons(tails)
    # By when the two were started, its newest file is older than this server, or as new.
    ends = f"is of a server with server_id {ids[1]}, not {ids[0]}", "before the server started"
    assert why.endswith(ends)
