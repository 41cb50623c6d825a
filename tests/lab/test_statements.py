"""The statements that findings name, run on a real server and read by a real shell."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import closing

import pymysql
import pytest

from tallystick.campaign import scenario_of
from tallystick.coordinates.audit.replay import audit_history
from tallystick.coordinates.results import Finding
from tallystick.coordinates.rules.catalogue import RULES
from tallystick.coordinates.rules.explanation import explain, fill
from tallystick.coordinates.rules.statements import WITHOUT_STATEMENT, events_from, groups
from tallystick.producers.mysql_lab.sessions import session
from tallystick.producers.simulator.assemble import simulate
from tallystick.producers.simulator.faults import FAULTS
from tests.support.journals import UUID_A
from tests.support.rule_cases import all_cases, audited

_NO_SUCH_CHANNEL = 3074
_NO_SUCH_TABLE = 1146
ODD_CHANNEL = r"it's `od\d` $(x)"
ODD_FILE = r"od d'l$og`\;x.000001"
_of_the_clone_plugin = re.compile(r"performance_schema\.clone_(status|progress);").search


def _is_sql(statement: str) -> bool:
    return not statement.startswith(("mysql ", "mysqlbinlog "))


def _findings() -> Iterator[Finding]:
    """Of every case of the rules of one instance, and of a fault of every rule between several."""
    cases = all_cases()
    for name in cases:
        yield from audited(name, breaks=True).findings
    left = set(RULES) - {name.partition("__")[0] for name in cases}
    for name, fault in FAULTS.items():
        if fault.must_fire & left:
            left -= fault.must_fire
            history = simulate(scenario_of(2 * fault.number + 1, [name]))
            yield from audit_history(history.blocks(512)).findings


@pytest.fixture(scope="module")
def statements() -> dict[str, set[str]]:
    """By rule, those of its findings."""
    named: dict[str, set[str]] = {}
    for finding in _findings():
        made = named.setdefault(finding.rule, set())
        made.update(statement for _, statement in explain(finding).verify)
    return named


def test_a_finding_of_every_rule_names_one(statements):
    """No template names values that its findings never have."""
    assert {rule for rule, made in statements.items() if not made} == WITHOUT_STATEMENT
    assert set(statements) == set(RULES)


def test_a_server_runs_them(mysqld, statements):
    """Every statement is valid where it is meant for; only what is not there can be missing."""
    refused = set()
    with closing(mysqld.addresses()["replica-1"].connect()) as connection:
        for statement in sorted(set().union(*statements.values())):
            if not _is_sql(statement):
                continue
            try:
                with connection.cursor() as cursor:
                    cursor.execute(statement)
            except pymysql.err.MySQLError as error:
                is_absent = error.args[0] == _NO_SUCH_CHANNEL or (
                    error.args[0] == _NO_SUCH_TABLE and _of_the_clone_plugin(statement)
                )
                if not is_absent:
                    refused.add((statement, str(error)))
    assert refused == set()


def test_a_shell_reads_them(statements):
    """Command lines are whole; a GTID set or a file's name is one word."""
    lines = [one for one in set().union(*statements.values()) if not _is_sql(one)]
    assert lines
    for line in lines:
        subprocess.run(["/bin/sh", "-n", "-c", line], check=True, timeout=60)
        assert "\n" not in line


def test_a_channel_and_a_table_may_have_any_name(mysqld):
    """The server finds them under names with quotes, backticks, backslashes and dollars."""
    values = {"channel": ODD_CHANNEL, "table": "o`dd.t a'ble"}
    templates = {statement.text for rule in RULES.values() for statement in rule.verify}
    about = [fill(one, values) for one in templates if "{channel:" in one or "{table:" in one]
    with session(mysqld.addresses()["source-b"]) as server:
        server.run("SET sql_log_bin = 0")
        server.run("CREATE DATABASE `o``dd`")
        server.run("CREATE TABLE `o``dd`.`t a'ble` (id INT)")
        server.run(
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1' FOR CHANNEL %s", (ODD_CHANNEL,)
        )
        seen = {statement: server.run(statement) for statement in about}
        server.run("RESET REPLICA ALL FOR CHANNEL %s", (ODD_CHANNEL,))
        server.run("DROP DATABASE `o``dd`")
    assert len(about) >= 6
    # Of a channel that never ran no relay log event is there to be shown, nor a worker's row.
    without = {statement for statement, rows in seen.items() if not rows}
    of_runs = "RELAYLOG", "slave_worker_info"
    assert without <= {one for one in about if any(name in one for name in of_runs)}


def test_a_file_may_have_any_name(tmp_path):
    """A shell hands its name on as it is, written in the line or listed by the server."""
    for name, text in (
        ("mysql", f"cat <<'EOF'\n{ODD_FILE}\t177\tNo\nEOF"),
        ("mysqlbinlog", 'printf "%s\\\\n" "$@"'),
    ):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o700)
    values = {"at": f"./{ODD_FILE}:4711", "witness": f"{UUID_A}:1-3", "instance": "a"}
    for statement in (events_from("at"), groups("witness")):
        line = fill(statement.text, values)
        done = subprocess.run(
            ["/bin/sh", "-c", line],
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
            env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        )
        assert ODD_FILE in done.stdout.splitlines(), line
