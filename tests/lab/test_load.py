"""The lab's load on real servers: what it writes, how fast, and over a crash."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from tallystick.cli import run_command
from tallystick.errors import ExitCode, MisuseError
from tallystick.producers.mysql_lab.layout import CHANNELS, SOURCE_A, SOURCE_B, SOURCES
from tallystick.producers.mysql_lab.load import WEIGHTS, LoadPlan, database_of
from tallystick.producers.mysql_lab.sessions import session
from tallystick.servers.lab import Lab

# Not `plain`: a crash may part a MyISAM table from the binary log, and other tests crash servers.
TRANSACTIONAL = ("written", "xa_written")


def event_types(lab: Lab, name: str, file: str) -> Counter[str]:
    """How many events of each type a binary log file has; XA's statements by their words."""
    with session(lab.addresses()[name]) as server:
        rows = server.rows(f"SHOW BINLOG EVENTS IN '{file}'")
    found = Counter(str(row["Event_type"]) for row in rows)
    for row in rows:
        if row["Event_type"] == "Query":
            found[str(row["Info"]).partition(" /*")[0].partition(" X'")[0]] += 1
    return found


def rows_of(source: str, table: str, what: str) -> str:
    """The query of a table of a source's load."""
    return f"SELECT {what} FROM {database_of(source)}.{table}"  # noqa: S608  names of ours


def current_file(lab: Lab, name: str) -> str:
    with session(lab.addresses()[name]) as server:
        server.run("FLUSH BINARY LOGS")
        return str(server.rows("SHOW MASTER STATUS")[0]["File"])


@pytest.mark.parametrize(
    ("kind", "events"),
    [
        ("innodb", {"Gtid": 1, "BEGIN": 1, "Table_map": 1, "Write_rows": 1, "Xid": 1}),
        ("nontransactional", {"Gtid": 1, "BEGIN": 1, "Table_map": 1, "Write_rows": 1, "COMMIT": 1}),
        ("rollback", {}),
    ],
)
def test_a_kind_of_write_is_seen_in_the_binary_log(
    mysqld: Lab, kind: str, events: dict[str, int]
) -> None:
    """A transaction, one without an engine that commits, and one that never was."""
    first = mysqld.make_load(LoadPlan((SOURCE_B,), seconds=0.1))
    first.start()  # for its tables
    first.finish()
    file = current_file(mysqld, SOURCE_B)
    load = mysqld.make_load(LoadPlan((SOURCE_B,), rate=100, threads=1, seconds=0.3, kinds=(kind,)))
    load.start()
    report = load.finish()
    assert Counter({kind: report.total}) == report.writes
    assert report.total >= 10
    found = event_types(mysqld, SOURCE_B, file)
    for name in ("Gtid", "BEGIN", "Table_map", "Write_rows", "Xid", "COMMIT"):
        assert events.get(name, 0) * report.total == found[name], name


def test_flushes_close_a_file_each(mysqld: Lab) -> None:
    """FLUSH BINARY LOGS is one of the writes."""
    load = mysqld.make_load(
        LoadPlan((SOURCE_B,), rate=20, threads=1, seconds=0.3, kinds=("flush_binary_logs",))
    )
    with session(mysqld.addresses()[SOURCE_B]) as server:
        before = len(server.rows("SHOW BINARY LOGS"))
        load.start()
        report = load.finish()
        assert report.total > 0
        assert before + report.total == len(server.rows("SHOW BINARY LOGS"))


def test_mixed_load_has_every_kind_and_reaches_every_replica(
    mysqld: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    """All kinds are written, no faster than asked for, without an error, and replicated."""
    words = ["lab", "load", "--directory", str(mysqld.directory.parent), "--json"]
    words += ["--rate", "100", "--threads", "6", "--seconds", "4", "--seed", "3"]
    assert ExitCode.CONSISTENT == run_command(words)
    report = json.loads(capsys.readouterr().out)
    assert {} == report["errors"]
    # One of 500 is a flush: it need not be among these.
    assert set(WEIGHTS) - {"flush_binary_logs"} <= set(report["writes"])
    assert 10 <= report["writes_per_s"] <= 110
    mysqld.await_applied()
    counted = {}
    for channel in CHANNELS:
        for source in SOURCES:
            with session(mysqld.addresses()[channel.replica]) as replica:
                if not replica.run("SHOW DATABASES LIKE %s", (database_of(source),)):
                    continue
                counted[channel.replica, source] = [
                    replica.value(rows_of(source, table, "COUNT(*)")) for table in TRANSACTIONAL
                ]
                assert [] == replica.rows("XA RECOVER")
    for (_, source), rows in counted.items():
        with session(mysqld.addresses()[source]) as server:
            assert rows == [
                server.value(rows_of(source, table, "COUNT(*)")) for table in TRANSACTIONAL
            ]


def test_a_seed_decides_what_a_client_writes(mysqld: Lab) -> None:
    """Two loads of one seed write the same rows in the same order, another seed others."""
    written = []
    for seed in (11, 11, 12):
        with session(mysqld.addresses()[SOURCE_A]) as server:
            if server.run("SHOW DATABASES LIKE %s", (database_of(SOURCE_A),)):
                server.run(f"TRUNCATE {database_of(SOURCE_A)}.written")
            plan = LoadPlan((SOURCE_A,), rate=200, threads=1, seconds=0.4, seed=seed)
            load = mysqld.make_load(plan)
            load.start()
            load.finish()
            rows = server.run(rows_of(SOURCE_A, "written", "LENGTH(body)") + " ORDER BY id")
            written.append([row[0] for row in rows][:30])
    assert 30 == len(written[0])
    assert written[0] == written[1] != written[2]


def test_a_load_outlives_its_server(mysqld: Lab) -> None:
    """A kill -9 costs errors that are counted; then it writes on, and leaves nothing prepared."""
    load = mysqld.make_load(
        LoadPlan((SOURCE_A,), rate=200, threads=4, seconds=900, kinds=("innodb", "xa"))
    )
    load.start()
    with session(mysqld.addresses()[SOURCE_A]) as server:
        server.run("SELECT SLEEP(0.5)")
        before = server.gtid_executed()
    mysqld.kill(SOURCE_A)
    mysqld.restart(SOURCE_A)
    with session(mysqld.addresses()[SOURCE_A]) as server:
        recovered = server.gtid_executed()
        assert 1 == server.value("SELECT GTID_SUBSET(%s, %s)", (before, recovered))
        server.run("SELECT SLEEP(0.5)")
        load.stop()
        report = load.finish()
        after = server.gtid_executed()
        assert 1 == server.value("SELECT GTID_SUBSET(%s, %s)", (recovered, after))
        assert recovered != after
        assert [] == server.rows("XA RECOVER")
    assert any(error.startswith("2013 ") for error in report.errors)
    mysqld.await_applied()


@pytest.mark.parametrize(
    ("flag", "value", "said"),
    [("--on", "replica-1", "source-a, source-b"), ("--kind", "insert", "innodb, multi_statement")],
)
def test_what_cannot_be_loaded_is_refused(mysqld: Lab, flag: str, value: str, said: str) -> None:
    """Replicas are read-only; the message has what there is."""
    with pytest.raises(MisuseError, match=f"{flag} '{value}'; expected one of: {said}"):
        run_command(["lab", "load", flag, value, "--directory", str(mysqld.directory.parent)])
