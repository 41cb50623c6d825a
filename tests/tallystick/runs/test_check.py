"""`tallystick check`: real servers, without Kafka and Spark; what it finds, says and writes."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tallystick.errors import ExitCode
from tallystick.producers.mysql.dialect import Dialect
from tallystick.producers.mysql.rights import rights_of
from tallystick.producers.mysql_lab.layout import NAMES
from tallystick.producers.mysql_lab.load import LoadPlan
from tallystick.producers.mysql_lab.sessions import session
from tallystick.servers.lab import Lab
from tests.support.mysql_greeting import greeting, greeting_with
from tests.support.tails import wait_for

SOURCE, REPLICA = "source-a", "replica-2"
QUICK = ("--collections", "2", "--interval", "0.5")
PASSWORD = "hunter2"


PAGE = (Path(__file__).parents[3] / "docs" / "check.md").read_text("utf-8")
SAMPLE = re.findall(r"^```\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)[0]
"""What docs/check.md shows of a check that finds an errant transaction."""


def pattern_of(sample: str) -> str:
    """A sample with any numbers, times and UUIDs, and any lines where it has ``…``."""
    lines = []
    for line in sample.splitlines():
        if line.strip() == "…":
            lines.append(r"(?:.*\n)*?")
            continue
        text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID", line)
        text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "MOMENT", text)
        text = re.escape(re.sub(r"(?<![\w.-])\d[\d,]*", "NUMBER", re.sub(r" +", " ", text)))
        text = text.replace(r"\ ", " +").replace("NUMBER", r"\d[\d,]*")
        text = text.replace("MOMENT", r"[\d-]{10} [\d:]{8}")
        lines.append(text.replace("UUID", r"[0-9a-f-]{36}") + r"\n")
    return "".join(lines)


def junit(path: Path) -> ET.Element:
    return ET.fromstring(path.read_bytes())  # noqa: S314  a document of our own


@contextmanager
def load_on(lab: Lab) -> Iterator[None]:
    """Writes on both sources while the block runs."""
    load = lab.make_load(LoadPlan((SOURCE, "source-b"), rate=80, seconds=600))
    load.start()
    try:
        yield
    finally:
        load.stop()
        load.finish()
        lab.await_applied()


def test_a_healthy_fleet_under_load_is_consistent(mysqld, tallystick, tmp_path):
    """Status 0, no finding, every server with its rows; a tear of log_status is no error."""
    page = tmp_path / "check.json"
    with load_on(mysqld):
        ran = tallystick(
            "check", "--config", str(mysqld.config_file), "--collections", "5", "--interval", "0.5",
            "--output", f"json={page}", "--output", f"junit={tmp_path / 'check.xml'}",
        )  # fmt: skip
    document = json.loads(page.read_text("utf-8"))
    assert (ExitCode.CONSISTENT, [], "CONSISTENT") == (
        ran.code,
        document["findings"],
        document["verdict"],
    ), ran.out
    assert dict.fromkeys(mysqld.servers, 5) == {
        name: server["rows"] for name, server in document["servers"].items()
    }
    for server in document["servers"].values():
        assert server["binlog_events"] > 100
    results = [(name, each) for name, found in document["rules"].items() for each in found]
    assert {"CONSISTENT", "UNDECIDED"} >= {each["verdict"] for _, each in results}
    held = {(name, each["rule"]) for name, each in results if each["verdict"] == "CONSISTENT"}
    for name in ("replica-1", "replica-2", "hub"):
        assert {(name, "no_errant_gtids"), (name, "relay_mirrors_source")} <= held
    root = junit(tmp_path / "check.xml")
    assert ("0", "0") == (root.get("failures"), root.get("errors"))
    assert {"run", *mysqld.servers} == {suite.get("name") for suite in root}
    tears = [o for o in document["observations"] if o["code"] == "LOG_STATUS_TEAR"]
    assert bool(tears) is ("server bugs 102175, 112331" in ran.out)


def test_an_errant_transaction_is_found_by_check_alone(mysqld, tallystick, tmp_path):
    """Status 1; text, JSON and JUnit name replica, source, rule and GTID."""
    # Beside much else a row may take longer than half a second, and then its source is first seen
    # while the last one is read.
    unhurried = ("--collections", "3", "--interval", "1.5")
    with errant(mysqld) as gtid:
        ran = tallystick(
            "check", "--config", str(mysqld.config_file), *unhurried,
            "--output", f"json={tmp_path / 'c.json'}", "--output", f"junit={tmp_path / 'c.xml'}",
        )  # fmt: skip
    assert ExitCode.INCONSISTENT == ran.code
    assert gtid in ran.out
    assert re.fullmatch(pattern_of(SAMPLE), ran.out), ran.out
    document = json.loads((tmp_path / "c.json").read_text("utf-8"))
    assert [("no_errant_gtids", REPLICA)] == [
        (found["rule"], found["instance_id"]) for found in document["findings"]
    ]
    failures = [
        (case.get("classname"), case.get("name"), case.find("failure").get("message"))
        for case in junit(tmp_path / "c.xml").iter("testcase")
        if case.find("failure") is not None
    ]
    ((suite, name, message),) = failures
    assert (f"tallystick.{REPLICA}", "no_errant_gtids[(default)]") == (suite, name)
    assert gtid in message


@contextmanager
def errant(lab: Lab) -> Iterator[str]:
    """A transaction that only the replica has; afterwards its log knows nothing of it."""
    lab.await_applied()
    with session(lab.addresses()[REPLICA]) as admin:
        before = admin.gtid_executed()
        admin.run("CREATE DATABASE lab_errant")
        uuid = admin.value("SELECT @@server_uuid")
        try:
            number = admin.value("SELECT GTID_SUBTRACT(@@GLOBAL.gtid_executed, %s)", (before,))
            yield str(number)
        finally:
            admin.run("SET sql_log_bin = 0")
            admin.run("DROP DATABASE lab_errant")
            admin.run("STOP REPLICA")
            kept = admin.value(
                "SELECT GTID_SUBTRACT(@@GLOBAL.gtid_executed, %s)", (f"{uuid}:1-1000000",)
            )
            admin.run("RESET MASTER")
            admin.run("SET GLOBAL gtid_purged = %s", (kept,))
            admin.run("START REPLICA")
    lab.await_applied()


def test_the_report_goes_to_standard_output_as_json(mysqld, tallystick, tmp_path):
    """`--json` prints one document and nothing else."""
    ran = tallystick("check", "--config", str(mysqld.config_file), *QUICK, "--json")
    document = json.loads(ran.out)
    assert ("CONSISTENT", 2) == (document["verdict"], document["servers"][SOURCE]["rows"])


def test_nothing_that_is_written_or_shown_holds_a_secret(mysqld, tallystick, tmp_path):
    """Passwords of the lab's accounts are in no output, and nothing was written on a server."""
    before = {name: executed(mysqld, name) for name in mysqld.servers}
    ran = tallystick(
        "check", "--config", str(mysqld.config_file), *QUICK,
        "--output", f"json={tmp_path / 'c.json'}", "--output", f"junit={tmp_path / 'c.xml'}",
        "--output", f"html={tmp_path / 'page' / 'report.html'}",
    )  # fmt: skip
    shown = ran.out + ran.err
    shown += "".join(path.read_text("utf-8") for path in tmp_path.rglob("*") if path.is_file())
    accounts = mysqld.accounts
    for secret in (accounts.admin, accounts.load, accounts.replication, accounts.audit):
        assert secret not in shown
    assert (tmp_path / "page" / "report.html").is_file()
    assert before == {name: executed(mysqld, name) for name in mysqld.servers}


def executed(lab: Lab, name: str) -> str:
    with session(lab.addresses()[name]) as admin:
        return admin.gtid_executed()


@contextmanager
def standing_behind(lab: Lab) -> Iterator[str]:
    """Replication of source-a's replica stands still; the source then opened another file."""
    lab.await_applied()
    with session(lab.addresses()["replica-1"]) as replica:
        replica.run("STOP REPLICA")
        with session(lab.addresses()[SOURCE]) as source:
            (status,) = source.run("SHOW MASTER STATUS")
            source.run("FLUSH BINARY LOGS")
        try:
            yield str(status[0])
        finally:
            replica.run("START REPLICA")
    lab.await_applied()


def test_a_replica_in_an_older_file_of_its_idle_source_is_judged(mysqld, tallystick, tmp_path):
    """The source's journal begins with that file: the fleet is healthy, the status is 0."""
    with standing_behind(mysqld):
        ran = tallystick("check", "--config", str(mysqld.config_file), *QUICK, "--json")
    document = json.loads(ran.out)
    assert (ExitCode.CONSISTENT, "CONSISTENT") == (ran.code, document["verdict"]), ran.out
    assert "CONSISTENT" in {
        answer["verdict"]
        for answer in document["rules"]["replica-1"]
        if answer["rule"] == "source_coordinate_valid"
    }


def test_tail_begins_where_a_replica_stands(mysqld, tallystick, tmp_path):
    """A new journal has the source's older file from its first event, and is consistent."""
    output = tmp_path / "journal.jsonl"
    with standing_behind(mysqld) as file:
        tail = subprocess.Popen(
            [
                *(sys.executable, "-m", "tallystick.cli", "tail"),
                *("--config", str(mysqld.config_file), "--output", str(output)),
                *("--collect-interval-s", "1"),
            ],
            stderr=subprocess.PIPE,
            text=True,
        )
        # A row of each server: what a replica's shows is judged by that of its source.
        wait_for(
            lambda: output.exists() and answered_by(output.read_text("utf-8")) == {*NAMES},
            lambda: output.exists() and output.read_text("utf-8")[-2000:],
        )
        tail.send_signal(signal.SIGINT)
        _, said = tail.communicate()
    records = [json.loads(line) for line in output.read_text("utf-8").splitlines()]
    files = [r["file"] for r in records if r.get("instance") == SOURCE and "file" in r]
    assert file == files[0], said
    assert ExitCode.CONSISTENT == tallystick("replay", str(output)).code


def answered_by(journal: str) -> set[str]:
    """The instances with a log_status row in a journal, whose last line may not be whole yet."""
    lines = journal.splitlines(keepends=True)
    records = [json.loads(line) for line in lines if line.endswith("\n")]
    return {r["instance"] for r in records if r.get("kind") == "log_status"}


def test_two_names_of_one_server_are_refused(mysqld, tallystick, monkeypatch):
    """Status 2, both names and addresses; nobody is advised to remove auto.cnf."""
    monkeypatch.setenv("TALLYSTICK_MYSQL_PASSWORD", PASSWORD)
    with account(mysqld) as one:
        port = one.rpartition(":")[2]
        ran = tallystick("check", "--server", one, "--server", f"b=narrow@localhost:{port}")
    assert ExitCode.MISUSE == ran.code
    *_, sentence = ran.err.splitlines()
    assert f"'{SOURCE}' (127.0.0.1:{port}) and 'b' (localhost:{port}) are one server" in sentence
    assert "expected each server under one name" in sentence


@contextmanager
def account(lab: Lab, *, but: str = "nothing") -> Iterator[str]:
    """An account of the source with the listed rights but one; gives --server's word."""
    with session(lab.addresses()[SOURCE]) as admin:
        admin.run("SET sql_log_bin = 0")
        admin.run("CREATE USER narrow@localhost IDENTIFIED BY %s", (PASSWORD,))
        for right in rights_of(Dialect.of("8.0.31")):
            if right.name != but:
                admin.run(right.grant("narrow@localhost"))
        try:
            yield f"{SOURCE}=narrow@127.0.0.1:{lab.addresses()[SOURCE].port}"
        finally:
            admin.run("DROP USER narrow@localhost")


def test_the_listed_rights_are_enough(mysqld, tallystick, monkeypatch):
    """With what --rights prints nothing is unread, and nothing is missing."""
    monkeypatch.setenv("TALLYSTICK_MYSQL_PASSWORD", PASSWORD)
    with account(mysqld) as server:
        ran = tallystick("check", "--server", server, *QUICK)
        listed = tallystick("check", "--server", server, "--rights")
    assert (ExitCode.CONSISTENT, ExitCode.CONSISTENT) == (ran.code, listed.code), ran.out
    assert "not read" not in ran.out
    assert "GRANT" not in listed.out


def test_a_missing_right_is_told_with_its_statement(mysqld, tallystick, monkeypatch):
    """A required one ends the check with status 2, another leaves its part unread."""
    monkeypatch.setenv("TALLYSTICK_MYSQL_PASSWORD", PASSWORD)
    with account(mysqld, but="BACKUP_ADMIN") as server:
        ran = tallystick("check", "--server", server, *QUICK)
        listed = tallystick("check", "--server", server, "--rights")
    statement = "GRANT BACKUP_ADMIN ON *.* TO 'narrow'@'localhost';"
    assert (ExitCode.MISUSE, ExitCode.MISUSE) == (ran.code, listed.code)
    assert f"{SOURCE}: BACKUP_ADMIN is missing; expected: {statement}" in ran.err
    assert statement in listed.out
    with account(mysqld, but="SELECT on mysql.gtid_executed") as server:
        ran = tallystick("check", "--server", server, *QUICK)
    assert ExitCode.CONSISTENT == ran.code
    assert "not read:" in ran.out
    assert "gtid_executed_table: error 1142" in ran.out
    assert "GRANT SELECT ON mysql.gtid_executed TO 'narrow'@'localhost';" in ran.out
    assert "gtid_table_within_executed" in ran.out


def test_a_server_that_is_away_leaves_the_others_checked(mysqld, tallystick, tmp_path, monkeypatch):
    """Status 3 and the reason; an error in JUnit."""
    monkeypatch.setenv("TALLYSTICK_MYSQL_PASSWORD", PASSWORD)
    with account(mysqld) as server:
        ran = tallystick(
            "check", "--server", server, "--server", "gone=127.0.0.1:1", *QUICK,
            "--output", f"junit={tmp_path / 'c.xml'}",
        )  # fmt: skip
    assert ExitCode.UNDECIDED == ran.code, ran.out
    assert "server 'gone' (127.0.0.1:1" in ran.err
    assert "undecided: no row of log_status" in ran.out
    assert (1, 1) == (ran.err.count("server 'gone'"), ran.out.count("  gone: ")), ran.err + ran.out
    assert {"run": "1", SOURCE: "0", "gone": "1"} == {
        suite.get("name"): suite.get("errors") for suite in junit(tmp_path / "c.xml")
    }


def test_where_no_server_answers_nothing_is_checked(tallystick):
    """Status 2, and each server's own reason."""
    ran = tallystick("check", "--server", "a=127.0.0.1:1", "--server", "b=127.0.0.1:1")
    assert ExitCode.MISUSE == ran.code
    first, second = ran.err.splitlines()[-2:]
    assert "server 'a' (127.0.0.1:1" in first
    assert "server 'b' (127.0.0.1:1" in second


@pytest.mark.parametrize("version", ["5.5.5-10.11.6-MariaDB", "5.7.44-log"])
def test_a_server_that_is_not_supported_ends_it_with_a_sentence(tallystick, version):
    """Status 2; one line has what it is and what was expected."""
    with greeting_with(greeting(version)) as server:
        ran = tallystick("check", "--server", f"a=127.0.0.1:{server.port}")
    assert ExitCode.MISUSE == ran.code
    *_, sentence = ran.err.splitlines()
    assert version in sentence
    assert "expected MySQL or Percona Server 8.0, 8.4 or later" in sentence


def test_the_rights_are_printed_without_any_server(tallystick):
    """GRANT statements that can be given to a server, each with what it is for."""
    ran = tallystick("check", "--rights")
    assert ExitCode.CONSISTENT == ran.code
    statements = [line for line in ran.out.splitlines() if not line.startswith("-- ")]
    assert "GRANT BACKUP_ADMIN ON *.* TO 'tallystick'@'%';" in statements
    assert all(line.startswith("GRANT ") and line.endswith(";") for line in statements)
    assert "User_password" not in ran.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "no server is given"),
        (("--server", "a=me:secret@db"), "a password is no part of it"),
        (("--config", "nowhere.toml"), "'nowhere.toml' cannot be read"),
        (("--server", "a=127.0.0.1:1", "--disable", "no_such"), "no rule has the name"),
    ],
)
def test_misuse_is_told(tallystick, arguments, said, monkeypatch, tmp_path):
    """Status 2, what is wrong and what was expected; no secret is repeated."""
    monkeypatch.chdir(tmp_path)
    ran = tallystick("check", *arguments)
    assert (ExitCode.MISUSE, True) == (ran.code, said in ran.err), ran.err
    assert "secret" not in ran.err
