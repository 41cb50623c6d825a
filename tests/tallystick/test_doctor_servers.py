"""`tallystick doctor` and the lab's servers: what an account, a log or a clock lacks is named."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from tallystick.doctor import servers as checks_of_servers
from tallystick.errors import ExitCode
from tallystick.producers.mysql.dialect import Dialect
from tallystick.producers.mysql.rights import rights_of
from tallystick.producers.mysql_lab.layout import NAMES
from tallystick.producers.mysql_lab.sessions import session
from tallystick.servers.lab import Lab
from tests.producers.mysql.test_relay_log_server import serving
from tests.support.balancer import balanced
from tests.support.tails import settings_of

READER_TOKEN = "a token for tests only"
SOURCE, REPLICA = "source-a", "replica-2"
PASSWORD = "hunter2"


@pytest.fixture
def doctor(tallystick):
    """What it says of servers, by server and check."""

    def run(*arguments):
        ran = tallystick("doctor", "--for", "check", *arguments, "--json")
        document = json.loads(ran.out)
        run.code, run.shown = ran.code, ran.out + ran.err
        return {(check["place"], check["name"]): check for check in document["checks"]}

    return run


@contextmanager
def account(lab: Lab, *missing: str) -> Iterator[str]:
    """An account of the source with the listed rights but some; gives --server's word."""
    with session(lab.addresses()[SOURCE]) as admin:
        admin.run("SET sql_log_bin = 0")
        admin.run("CREATE USER narrow@localhost IDENTIFIED BY %s", (PASSWORD,))
        for right in rights_of(Dialect.of("8.0.31")):
            if right.name not in missing:
                admin.run(right.grant("narrow@localhost"))
        try:
            yield f"a=narrow@127.0.0.1:{lab.addresses()[SOURCE].port}"
        finally:
            admin.run("DROP USER narrow@localhost")


def config(lab: Lab, tmp_path: Path, old: str, new: str) -> str:
    """The lab's servers.toml, with something else in it."""
    text = lab.config_file.read_text("utf-8")
    assert old in text
    path = lab.config_file.with_name(f"changed-{tmp_path.name}.toml")
    path.write_text(text.replace(old, new), "utf-8")
    return str(path)


def test_of_healthy_servers_all_passes(mysqld, doctor):
    """Each check of each server; replicas' relay logs, and the fleet's sources."""
    found = doctor("--config", str(mysqld.config_file))
    of_servers = {key: check for key, check in found.items() if key[0].startswith("server")}
    assert ExitCode.CONSISTENT == doctor.code
    assert [] == [check for check in of_servers.values() if check["state"] != "ok"]
    assert 10 * len(NAMES) + 2 == len(of_servers)
    for name in NAMES:
        assert "MySQL 8.0.31" in found[f"server {name}", "connection"]["text"]
        assert "is sent" in found[f"server {name}", "binary log"]["text"]
    assert "it is no replica" in found[f"server {SOURCE}", "relay logs"]["text"]
    assert "of 1 channel" in found[f"server {REPLICA}", "relay logs"]["text"]
    assert mysqld.accounts.audit not in doctor.shown


def test_an_address_of_several_servers_is_no_server(mysqld, doctor, monkeypatch):
    """Whichever is asked, the next connection may lead to another."""
    monkeypatch.setenv("TALLYSTICK_MYSQL_PASSWORD", mysqld.accounts.audit)
    servers = [settings_of(mysqld, name) for name in (SOURCE, REPLICA)]
    with balanced(servers) as address:
        found = doctor("--server", f"a={address.user}@{address.host}:{address.port}")
    check = found["server a", "one server"]
    assert ("failed", ExitCode.MISUSE) == (check["state"], doctor.code)
    assert "connections lead to two servers" in check["text"]
    assert "an address of its own" in check["fix"]


def test_nothing_is_written_on_a_server_and_no_session_stays(mysqld, doctor):
    """Its GTIDs are the same; what asked for its log is gone when it next writes to it."""
    with session(mysqld.addresses()[SOURCE]) as admin:
        before = admin.gtid_executed()
        doctor("--config", str(mysqld.config_file))
        assert before == admin.gtid_executed()


@pytest.mark.parametrize(
    ("right", "others"),
    [
        ("BACKUP_ADMIN", {"log_status"}),
        ("SELECT on performance_schema.log_status", {"log_status"}),
        ("REPLICATION SLAVE", {"binary log"}),
        ("REPLICATION CLIENT", set()),
    ],
)
def test_a_required_right_that_is_missing_fails_with_its_statement(
    mysqld, doctor, monkeypatch, right, others
):
    """And so does what cannot be done without it; the rest is tried."""
    monkeypatch.setenv("TALLYSTICK_MYSQL_PASSWORD", PASSWORD)
    with account(mysqld, right) as server:
        found = doctor("--server", server)
    assert ExitCode.MISUSE == doctor.code
    failed = {name for (_, name), check in found.items() if check["state"] == "failed"}
    assert failed >= {"rights"} | others
    assert right in found["server a", "rights"]["text"]
    assert "TO 'narrow'@'localhost';" in found["server a", "rights"]["fix"]
    assert {"ok"} == {found["server a", name]["state"] for name in ("connection", "clock")}
    assert PASSWORD not in doctor.shown


def test_a_right_that_can_be_done_without_is_a_warning(mysqld, doctor, monkeypatch):
    """What a collection lacks by it is named; more than two statements are not listed."""
    monkeypatch.setenv("TALLYSTICK_MYSQL_PASSWORD", PASSWORD)
    tables = [f"SELECT on mysql.{name}" for name in
              ("gtid_executed", "slave_master_info", "slave_worker_info")]  # fmt: skip
    with account(mysqld, *tables) as server:
        found = doctor("--server", server)
    assert ExitCode.CONSISTENT == doctor.code
    rights, row = found["server a", "rights"], found["server a", "log_status"]
    assert ("warning", "warning") == (rights["state"], row["state"])
    assert all(table in rights["text"] for table in tables)
    assert "the 3 statements that tallystick check --rights prints" == rights["fix"]
    assert "without gtid_executed_table, slave_master_info, slave_worker_info" in row["text"]


@pytest.mark.parametrize(
    ("directory", "said"),
    [
        ("nowhere", "cannot be read: No such file or directory"),
        ("template", "is not there"),
        ("replica-1/data", "is of a server with server_id"),
        ("servers.toml", "cannot be read: Not a directory"),
    ],
)
def test_relay_logs_that_cannot_be_read_here_are_named(mysqld, doctor, tmp_path, directory, said):
    """The present one of each channel is opened."""
    changed = config(mysqld, tmp_path, f'"{REPLICA}/data"', f'"{directory}"')
    found = doctor("--config", changed)
    answer = found[f"server {REPLICA}", "relay logs"]
    assert (ExitCode.MISUSE, "failed") == (doctor.code, answer["state"])
    assert said in answer["text"]
    assert "relay_log_dir" in answer["fix"]
    assert "ok" == found["server replica-1", "relay logs"]["state"]


def test_a_server_without_relay_log_dir_is_not_tried_there(mysqld, doctor, tmp_path):
    """No failure: rules on relay logs stay undecided."""
    changed = config(mysqld, tmp_path, f'relay_log_dir = "{REPLICA}/data"', "")
    answer = doctor("--config", changed)[f"server {REPLICA}", "relay logs"]
    assert (ExitCode.CONSISTENT, "not tried") == (doctor.code, answer["state"])


def test_relay_logs_of_another_host_are_tried_through_their_reader(
    mysqld, doctor, tmp_path, monkeypatch
):
    """The one that is asked must be there, have the token, and read this server's files."""
    monkeypatch.setenv("TALLYSTICK_RELAY_LOG_TOKEN", READER_TOKEN)

    def relay_logs(port):
        changed = config(
            mysqld,
            tmp_path,
            f'relay_log_dir = "{REPLICA}/data"',
            f'relay_log_reader = "127.0.0.1:{port}"',
        )
        return doctor("--config", changed)[f"server {REPLICA}", "relay logs"]

    with serving(mysqld.servers[REPLICA].data_directory) as (reader, _):
        answer = relay_logs(reader.port)
        assert "ok" == answer["state"]
        assert f"readable in reader 127.0.0.1:{reader.port}" in answer["text"]
        monkeypatch.setenv("TALLYSTICK_RELAY_LOG_TOKEN", "another token than this")
        assert "the token is another one" in relay_logs(reader.port)["text"]
        monkeypatch.setenv("TALLYSTICK_RELAY_LOG_TOKEN", READER_TOKEN)
    answer = relay_logs(reader.port)
    assert (ExitCode.MISUSE, "failed") == (doctor.code, answer["state"])
    assert f"relay log reader 127.0.0.1:{reader.port}: Connection refused" in answer["text"]
    assert "tallystick relay-logs" in answer["fix"]
    with serving(mysqld.servers[SOURCE].data_directory) as (other, _):
        answer = relay_logs(other.port)
        assert ("failed", True) == (answer["state"], "is not there" in answer["text"])


def test_a_server_id_that_is_taken_is_named(mysqld, doctor, tmp_path):
    """The server's own, that of a replica of it, and one that two servers are given."""
    port = mysqld.addresses()[SOURCE].port
    with session(mysqld.addresses()[SOURCE]) as admin:
        own = int(admin.value("SELECT @@server_id"))
    with session(mysqld.addresses()["replica-1"]) as admin:
        replicas = int(admin.value("SELECT @@server_id"))
    for number, said in ((own, "is the server's own"), (replicas, "is that of a replica of it")):
        changed = config(
            mysqld, tmp_path, f"port = {port}\n", f"port = {port}\nserver_id = {number}\n"
        )
        answer = doctor("--config", changed)[f"server {SOURCE}", "server id"]
        assert ("failed", f"{number} {said}") == (answer["state"], answer["text"])
    changed = config(mysqld, tmp_path, "[defaults]\n", "[defaults]\nserver_id = 77777\n")
    answer = doctor("--config", changed)[f"server {SOURCE}", "server id"]
    assert "warning" == answer["state"]
    assert "77777 is also set for" in answer["text"]


def test_a_server_without_a_binary_log_is_a_warning(mysqld, doctor):
    """Its own log is not tried, all else is."""
    mysqld.stop(REPLICA)
    mysqld.restart(REPLICA, "--skip-log-bin")
    try:
        found = doctor("--config", str(mysqld.config_file))
    finally:
        mysqld.stop(REPLICA)
        mysqld.restart(REPLICA)
        mysqld.up()
        mysqld.await_applied()
    assert ExitCode.CONSISTENT == doctor.code
    settings, log = (found[f"server {REPLICA}", name] for name in ("settings", "binary log"))
    assert ("warning", "not tried") == (settings["state"], log["state"])
    assert "log_bin OFF" in settings["text"]
    assert "start it with log_bin" in settings["fix"]
    assert "ok" == found[f"server {REPLICA}", "log_status"]["state"]


@pytest.mark.parametrize(("offset_s", "said"), [(100, "after this host's"), (-100, "ahead of")])
def test_a_clock_that_is_wrong_is_a_warning(mysqld, doctor, monkeypatch, offset_s, said):
    """By how much, and on which side."""
    fake = SimpleNamespace(
        time=lambda: time.time() + offset_s, monotonic=time.monotonic, time_ns=time.time_ns
    )
    monkeypatch.setattr(checks_of_servers, "time", fake)
    answer = doctor("--config", str(mysqld.config_file))[f"server {SOURCE}", "clock"]
    assert "warning" == answer["state"]
    assert said in answer["text"]
    assert answer["text"].startswith(("100.", "99."))


def test_what_only_the_fleet_shows(mysqld, doctor, monkeypatch):
    """Two names of one server; a replica whose source is not named."""
    monkeypatch.setenv("TALLYSTICK_MYSQL_PASSWORD", mysqld.accounts.audit)
    ports = {name: address.port for name, address in mysqld.addresses().items()}
    found = doctor(
        "--server", f"one=lab_audit@127.0.0.1:{ports[REPLICA]}",
        "--server", f"two=lab_audit@localhost:{ports[REPLICA]}",
    )  # fmt: skip
    assert "failed" == found["servers", "one name each"]["state"]
    assert "are one server" in found["servers", "one name each"]["text"]
    assert "warning" == found["servers", "sources"]["state"]
    assert "one from " in found["servers", "sources"]["text"]
