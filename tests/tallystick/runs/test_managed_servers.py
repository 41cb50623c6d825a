"""`tallystick check` with the rights that managed services give, and without relay logs (mysqld).

docs/managed_servers.md has the services and what they grant.
"""

from __future__ import annotations

import json
import re
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tallystick.errors import ExitCode
from tallystick.producers.mysql_lab.layout import NAMES
from tallystick.producers.mysql_lab.load import LoadPlan
from tallystick.producers.mysql_lab.sessions import session
from tallystick.servers.lab import Lab

PASSWORD = "hunter2"
ACCOUNT = "managed@localhost"
PROFILES = {
    # What an administrator's account there can pass on, and no more.
    "rds": ("REPLICATION SLAVE, REPLICATION CLIENT, XA_RECOVER_ADMIN, PROCESS, SELECT",),
    "azure": ("REPLICATION SLAVE, REPLICATION CLIENT, PROCESS, SELECT",),
    "narrow": ("REPLICATION SLAVE, REPLICATION CLIENT",),
}
QUICK = ("--collections", "2", "--interval", "0.5")
PAGE = (Path(__file__).parents[3] / "docs" / "managed_servers.md").read_text("utf-8")


@pytest.fixture(params=PROFILES)
def managed(own_mysqld, request, tallystick, monkeypatch):
    """The lab's servers as --server has them, with an account of a profile on each."""
    monkeypatch.setenv("TALLYSTICK_MYSQL_PASSWORD", PASSWORD)
    addresses = own_mysqld.addresses()
    for address in addresses.values():
        with session(address) as admin:
            admin.run("SET sql_log_bin = 0")
            admin.run(f"CREATE USER {ACCOUNT} IDENTIFIED BY %s", (PASSWORD,))
            for privileges in PROFILES[request.param]:
                admin.run(f"GRANT {privileges} ON *.* TO {ACCOUNT}")
    named = [f"{name}=managed@127.0.0.1:{address.port}" for name, address in addresses.items()]
    yield [word for text in named for word in ("--server", text)]
    for address in addresses.values():
        with session(address) as admin:
            admin.run("SET sql_log_bin = 0")
            admin.run(f"DROP USER {ACCOUNT}")


@contextmanager
def load_on(lab: Lab) -> Iterator[None]:
    """Writes on both sources while the block runs."""
    load = lab.make_load(LoadPlan(("source-a", "source-b"), rate=60, seconds=600))
    load.start()
    try:
        yield
    finally:
        load.stop()
        load.finish()
        lab.await_applied()


def test_without_log_status_it_begins_only_where_that_is_asked_for(own_mysqld, managed, tallystick):
    """Status 2 names the right of each server, and what judges the logs alone."""
    ran = tallystick("check", *managed)
    assert ExitCode.MISUSE == ran.code
    assert len(NAMES) == ran.err.count(": BACKUP_ADMIN is missing; expected: GRANT BACKUP_ADMIN")
    assert "--logs-only judges the logs alone (docs/managed_servers.md)" in ran.err


def test_the_logs_alone_are_judged_and_nothing_is_made_up(own_mysqld, managed, tallystick):
    """UNDECIDED with its reason on every server, no finding, and no rule on rows that holds."""
    with load_on(own_mysqld):
        ran = tallystick("check", *managed, "--logs-only", *QUICK, "--json")
    document = json.loads(ran.out)
    assert (ExitCode.UNDECIDED, "UNDECIDED", []) == (
        ran.code,
        document["verdict"],
        document["findings"],
    )
    assert set(NAMES) == set(document["servers"])
    for name, server in document["servers"].items():
        assert (0, True) == (server["rows"], server["binlog_events"] > 50), name
        assert any("BACKUP_ADMIN" in grant for grant in server["grants"]), name
    held = {
        answer["rule"]
        for answers in document["rules"].values()
        for answer in answers
        if answer["verdict"] == "CONSISTENT"
    }
    assert {"snapshot_never_silently_empty"} >= held
    text = tallystick("check", *managed, "--logs-only", *QUICK).out
    assert "undecided because:" in text
    assert "BACKUP_ADMIN" in text


def test_what_would_be_read_is_said_beforehand(own_mysqld, managed, tallystick):
    """The same by --explain, with nothing asked of log_status."""
    ran = tallystick("check", *managed, "--explain")
    assert ExitCode.MISUSE == ran.code
    assert len(NAMES) == len(re.findall(r"^\S+ +log_status +not read", ran.out, re.MULTILINE))
    assert len(NAMES) == len(re.findall(r"^\S+ +binary log +read", ran.out, re.MULTILINE))
    assert re.search(r"^replica-1 +relay logs +not read +relay_log_dir is not set", ran.out,
                     re.MULTILINE)  # fmt: skip
    assert re.search(r"^source-a +relay logs +none", ran.out, re.MULTILINE)


def test_receivers_that_reconnect_are_no_breach_where_relay_logs_are_not_read(
    own_mysqld, tallystick, tmp_path
):
    """As on any remote server: with all rights, under load, nothing is found; what is missing is.

    A receiver that connects anew by GTID set may move Exec_Source_Log_Pos back.
    """
    text = own_mysqld.config_file.read_text("utf-8")
    config = own_mysqld.config_file.with_name("remote.toml")
    config.write_text(re.sub(r"relay_log_dir = .*\n", "", text), "utf-8")
    is_over = threading.Event()

    def reconnect() -> None:
        with session(own_mysqld.addresses()["replica-1"]) as replica:
            while not is_over.wait(0.3):
                replica.run("STOP REPLICA IO_THREAD")
                replica.run("START REPLICA IO_THREAD")

    thread = threading.Thread(target=reconnect)
    with load_on(own_mysqld):
        thread.start()
        try:
            ran = tallystick("check", "--config", str(config), "--collections", "6",
                             "--interval", "0.7", "--json")  # fmt: skip
        finally:
            is_over.set()
            thread.join()
    document = json.loads(ran.out)
    assert [] == document["findings"]
    assert ran.code in {ExitCode.CONSISTENT, ExitCode.UNDECIDED}
    undecided = {
        answer["rule"] for answer in document["rules"]["replica-1"]
        if answer["verdict"] == "UNDECIDED"
    }  # fmt: skip
    assert "applied_relay_gtids_executed" in undecided


def test_a_contradiction_between_logs_is_found_without_log_status(own_mysqld, managed, tallystick):
    """One GTID for two transactions, on the two ends of the chain."""
    sid = str(uuid.uuid4())
    for name in ("replica-2", "replica-1"):  # the replica of the other one skips what it has
        with session(own_mysqld.addresses()[name]) as admin:
            admin.run(f"SET GTID_NEXT = '{sid}:1'")
            admin.run(f"CREATE DATABASE `lab_{name}_{sid}`")
            admin.run("SET GTID_NEXT = AUTOMATIC")
    ran = tallystick("check", *managed, "--logs-only", *QUICK, "--json")
    document = json.loads(ran.out)
    assert ExitCode.INCONSISTENT == ran.code
    assert {"gtid_origin_agreement"} == {found["rule"] for found in document["findings"]}
    assert any(sid in found["witness"] for found in document["findings"])


def test_the_page_has_the_profiles():
    """docs/managed_servers.md names the rights that are tried here."""
    for profile in PROFILES:
        assert f"| `{profile}` |" in PAGE
    assert "BACKUP_ADMIN" in PAGE
