"""The lab's real servers: what `up` makes, what `status` sees, what `down` leaves."""

from __future__ import annotations

import json
import re
import stat
from contextlib import closing
from pathlib import Path

import pytest

from tallystick.cli import run_command
from tallystick.deploy.mysqld import greeted_version
from tallystick.errors import ExitCode
from tallystick.producers.mysql.connection import connect
from tallystick.producers.mysql.settings import load_servers
from tallystick.producers.mysql_lab.accounts import AUDIT, audit_rights
from tallystick.producers.mysql_lab.layout import CHANNELS, NAMES, REPLICA_1, REPLICA_2, SOURCE_B
from tallystick.producers.mysql_lab.sessions import session
from tallystick.servers.lab import Lab


def command(lab: Lab, *words: str) -> int:
    """Runs a command on a lab, as a user does in another process."""
    return run_command(["lab", *words, "--directory", str(lab.directory.parent)])


def test_up_makes_the_fleet_of_the_layout(mysqld: Lab) -> None:
    """Five servers of 8.0.31, each with an identity of its own, and four channels that run."""
    statuses = mysqld.status()
    assert [(name, "8.0.31", True) for name in NAMES] == [
        (one.name, one.version, one.is_well) for one in statuses
    ]
    ports = {one.name: one.port for one in statuses}
    channels = {
        (one.name, ports_channel.source_port, ports_channel.channel_name)
        for one in statuses
        for ports_channel in one.channels
    }
    assert {(c.replica, ports[c.source], c.channel_name) for c in CHANNELS} == channels
    uuids = set()
    for name in NAMES:
        with session(mysqld.addresses()[name]) as server:
            uuids.add(server.value("SELECT @@server_uuid"))
            assert "ON" == server.value("SELECT @@gtid_mode")
            assert "127.0.0.1" == server.value("SELECT @@bind_address")
            has_log_writers = server.value("SELECT @@innodb_log_writer_threads")
            assert (name == SOURCE_B) == has_log_writers
    assert len(NAMES) == len(uuids)


def test_accounts_are_no_transactions_of_the_fleet(mysqld: Lab) -> None:
    """Every server has them from its first start, and none has logged them."""
    for name in NAMES:
        with session(mysqld.addresses()[name]) as server:
            events = server.rows("SHOW BINLOG EVENTS IN 'binlog.000001'")
            assert [] == [e for e in events if "lab_audit" in str(e["Info"])]
            assert 1 == server.value("SELECT COUNT(*) FROM mysql.user WHERE user = %s", (AUDIT,))


def test_the_audit_account_has_the_collectors_rights_and_no_more(mysqld: Lab) -> None:
    """servers.toml reaches every server over TLS with that account, and it cannot write."""
    settings = load_servers(mysqld.config_file, [])
    assert set(NAMES) == {one.name for one in settings}
    for one in settings:
        with closing(connect(one)) as connection, connection.cursor() as cursor:
            cursor.execute("SHOW STATUS LIKE 'Ssl_cipher'")
            assert cursor.fetchone()[1]
            cursor.execute("SHOW GRANTS")
            lines = [
                row[0].removeprefix("GRANT ").partition(" TO ")[0] for row in cursor.fetchall()
            ]
        granted = {
            right if level == "*.*" else f"{right.partition(' ')[0]} on {level.replace('`', '')}"
            for line in lines
            for rights, _, level in [line.rpartition(" ON ")]
            for right in (re.split(", ?", rights) if level == "*.*" else [rights])
        }
        assert granted == {right.name for right in audit_rights()}
        assert one.relay_log_dir is not None
        assert (one.relay_log_dir / "auto.cnf").exists()


def test_passwords_are_in_private_files_only(mysqld: Lab) -> None:
    """No log, note, configuration or command line has one; their files are this user's."""
    lines = (mysqld.directory / "accounts.json").read_text("ascii")
    passwords = list(json.loads(lines).values())
    assert 4 == len(set(passwords))
    private = {"accounts.json", "audit.password"}
    for path in mysqld.directory.iterdir():
        if path.name in private:
            assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    texts = [p for p in mysqld.directory.rglob("*.log") if p.is_file()]
    texts += [p for p in mysqld.directory.iterdir() if p.is_file() and p.name not in private]
    texts += [Path(f"/proc/{one.pid}/cmdline") for one in mysqld.status()]
    for text in texts:
        said = text.read_bytes()
        assert not any(password.encode() in said for password in passwords), text


def test_status_says_what_is_down_and_up_starts_only_that(
    mysqld: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    """A killed server is named with status 2; the others keep their processes."""
    before = {one.name: one.pid for one in mysqld.status()}
    mysqld.kill(REPLICA_2)
    assert ExitCode.MISUSE == command(mysqld, "status")
    assert f"{REPLICA_2}: down" in capsys.readouterr().out.splitlines()
    mysqld.up()
    after = {one.name: one.pid for one in mysqld.status()}
    assert [REPLICA_2] == [name for name in NAMES if after[name] != before[name]]
    assert ExitCode.CONSISTENT == command(mysqld, "status", "--json")
    assert all(one["is_well"] for one in json.loads(capsys.readouterr().out))


def test_a_stopped_channel_is_told(mysqld: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    """Replication that does not run is said in a line of its own."""
    with session(mysqld.addresses()[REPLICA_1]) as replica:
        replica.run("STOP REPLICA SQL_THREAD")
        code = command(mysqld, "status")
        replica.run("START REPLICA SQL_THREAD")
    assert ExitCode.MISUSE == code
    assert f"{REPLICA_1}, channel '': is stopped" in capsys.readouterr().out.splitlines()


def test_other_ports_need_a_fresh_lab(mysqld: Lab) -> None:
    """A lab that is there is not silently started elsewhere: its replicas know its ports."""
    with pytest.raises(Exception, match="expected no --base-port, or --fresh"):
        Lab(mysqld.directory, base_port=mysqld.base_port + 10).up()


def test_an_interrupted_up_goes_on_with_the_data_that_it_has_made(
    mysqld: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the passwords in them; those that are not whole, and those to forget, are made anew."""

    def interrupted(_: Lab) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Lab, "_launch_all", interrupted)
    lab = Lab(tmp_path / "lab")
    template = lab.directory / "template"
    cut_short = lab.directory / "template.incoming"
    cut_short.mkdir(parents=True)
    (cut_short / "half").touch()
    seen = []
    for is_fresh in (False, False, True):
        with pytest.raises(KeyboardInterrupt):
            lab.up(is_fresh=is_fresh)
        seen.append(((template / "ca.pem").read_text(), lab.accounts))
    assert seen[0] == seen[1] != seen[2]
    assert not (template / "half").exists()


def test_down_stops_every_server_and_up_goes_on_with_its_data(
    mysqld: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever started them: another process finds them by their notes; GTIDs stay."""
    with session(mysqld.addresses()[NAMES[0]]) as server:
        server.run("CREATE DATABASE kept")
    mysqld.await_applied()
    before = {one.name: one.gtid_executed for one in mysqld.status()}
    assert ExitCode.CONSISTENT == command(mysqld, "down")
    assert f"lab: stopped {', '.join(NAMES)}" in capsys.readouterr().out.splitlines()
    assert [None] * len(NAMES) == [greeted_version(one.port) for one in mysqld.servers.values()]
    assert ExitCode.CONSISTENT == command(mysqld, "down")
    assert "lab: none was running" in capsys.readouterr().out.splitlines()
    mysqld.up()
    assert before == {one.name: one.gtid_executed for one in mysqld.status()}
    assert all(one.is_well for one in mysqld.status())
