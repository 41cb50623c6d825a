"""``tallystick where`` and ``diff``: what is printed, from tables and from a journal."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tallystick.coordinates.audit.cut import Cut
from tallystick.coordinates.values.gtid import GtidSet
from tallystick.producers.mysql_lab.sessions import session
from tallystick.streaming import newest_rows
from tallystick.streaming.answers import ANSWER_US
from tallystick.streaming.delta_table import append, made
from tallystick.streaming.table_sink import TableSink
from tallystick.streaming.tables import CUTS, arrow_rows
from tests.support.tails import wait_for

A, B = (f"{x * 8}-{x * 4}-{x * 4}-{x * 4}-{x * 12}" for x in "ab")
HOSTILE = "\x1b[31mred\u202e[bold]"


@pytest.fixture(scope="module")
def journal(tmp_path_factory):
    """A journal of a star with an errant write, written by the simulator."""
    from tallystick import cli

    path = tmp_path_factory.mktemp("journal") / "star.jsonl"
    flags = ("--seed", "5", "--topology", "star", "--fault", "errant_write")
    assert cli.run_command(["simulate", *flags, "--output", str(path)]) == 0
    return path


def row(name: str, uuid: str, executed: str, collection: str = "c1", **values) -> Cut:
    return Cut(**{
        "collection_id": collection, "instance_id": name, "scope": "instance", "ts": 10**15,
        "server_uuid": uuid, "gtid_executed": executed, "gtid_purged": "", **values,
    })  # fmt: skip


@pytest.fixture
def tables(tmp_path):
    return TableSink(tmp_path / ".tallystick" / "audit" / "tables", "run")


def test_tables_and_journal_have_the_same_answer(tallystick, journal):
    """The tables that a replay writes; the journal also says when."""
    assert tallystick("replay", str(journal), "--output", "tables=run/tables").code == 1
    whole = json.loads(tallystick("replay", str(journal), "--json").out)
    executed = {
        cut["instance_id"]: cut["gtid_executed"]
        for cut in whole["newest_cuts"]
        if cut["channel"] is None
    }
    asked = ",".join(executed.values())
    by_tables = tallystick("where", asked, "--directory", "run", "--json")
    by_journal = tallystick("where", asked, "--journal", str(journal), "--json")
    answers = [json.loads(ran.out) for ran in (by_tables, by_journal)]

    def states(answer):
        return [
            (part["gtids"], [(p["instance"], p["state"]) for p in part["instances"]])
            for part in answer["parts"]
        ]

    assert states(answers[0]) == states(answers[1])
    assert {by_tables.code, by_journal.code} == {0}
    assert [answer["evidence"]["kind"] for answer in answers] == ["job", "journal"]
    places = [p for answer in answers for part in answer["parts"] for p in part["instances"]]
    assert {p["logged_us"] is None for p in places[: len(places) // 2]} == {True}
    assert any(p["logged_us"] and p["received_us"] for p in places[len(places) // 2 :])


def test_an_errant_transaction_is_named_by_the_difference(tallystick, journal):
    """As the audit found it, with both evidences."""
    found = json.loads(tallystick("replay", str(journal), "--json").out)["findings"]
    [errant] = [one for one in found if one["rule"] == "no_errant_gtids"]
    [source] = errant["data"]["sources"]
    tallystick("replay", str(journal), "--output", "tables=run/tables")
    for flags in (("--journal", str(journal)), ("--directory", "run")):
        ran = tallystick("diff", errant["instance_id"], source, *flags)
        assert (ran.code, errant["witness"] in ran.out) == (0, True)
        assert "errant: an incident of no_errant_gtids" in ran.out
        document = json.loads(
            tallystick("diff", errant["instance_id"], source, *flags, "--json").out
        )
        [part] = [p for p in document["differences"][0]["parts"] if p["kind"] == "errant"]
        assert (part["gtids"], part["origin"]) == (errant["witness"], errant["instance_id"])


def test_a_position_is_answered_by_its_group(tallystick, journal):
    """Exactly by the journal; by tables what was logged between two rows, undecided."""
    lines = map(json.loads, journal.read_text().splitlines())
    groups = [r for r in lines if r["kind"] == "binlog" and r["type"] == "GTID"]
    group = groups[len(groups) // 2]
    target = f"{group['instance']}:{group['file']}:{group['start'] + 1}"
    ran = tallystick("where", target, "--journal", str(journal))
    assert (ran.code, f"inside of {group['gtid']}, from {group['start']} to " in ran.out) == (
        0,
        True,
    )
    tallystick("replay", str(journal), "--output", "tables=run/tables")
    ran = tallystick("where", target, "--directory", "run", "--json")
    position = json.loads(ran.out)["position"]
    assert ran.code == (0 if position["is_exact"] else 3)
    nowhere = tallystick(
        "where", f"{group['instance']}:{group['file']}:99999999", "--directory", "run"
    )
    assert nowhere.code == 3
    assert "it is after the newest row" in nowhere.out


def test_a_channel_is_shown_by_its_name(tallystick):
    """Of a replica of two sources, on which no channel has the empty name."""
    flags = ("--seed", "1", "--topology", "multi_source", "--output", "two.jsonl")
    assert tallystick("simulate", *flags).code == 0
    records = map(json.loads, Path("two.jsonl").read_text("utf-8").splitlines())
    received = next(one for one in records if one["kind"] == "relay" and "gtid" in one)
    ran = tallystick("where", received["gtid"], "--journal", "two.jsonl")
    assert f" {received['channel']} " in ran.out
    assert "(default)" not in ran.out


def test_a_silent_instance_keeps_its_row_and_is_shown_with_its_problem(
    tallystick, tables, monkeypatch
):
    """Its last row may be in files that are not read first."""
    tables.write(0, cuts=[row("a", A, f"{A}:1-2"), row(HOSTILE, B, f"{A}:1")])
    monkeypatch.setattr(newest_rows, "RECENT_S", 0.0)
    missing = replace(
        row(HOSTILE, "", "", "c2"), answer="missing", gtid_executed=None, server_uuid=None,
        error_text=f"{HOSTILE!r} has not answered.",
    )  # fmt: skip
    tables.write(1, cuts=[row("a", A, f"{A}:1-3", "c2"), missing])
    ran = tallystick("where", f"{A}:1-3")
    assert (ran.code, ran.err) == (0, "")
    assert f"{A}:1\n" in ran.out
    assert f"{A}:2-3\n" in ran.out
    assert "has not answered" in ran.out
    assert "days ago" in ran.out
    assert "\x1b" not in ran.out
    assert "\u202e" not in ran.out


def test_a_hundred_instances_are_answered(tallystick, tables):
    """One part, each instance once."""
    for number in range(3):
        tables.write(
            number,
            cuts=[row(f"i{i}", A, f"{A}:1-{number + 5}", f"c{number}") for i in range(100)],
        )
    document = json.loads(tallystick("where", f"{A}:7", "--json").out)
    assert [len(part["instances"]) for part in document["parts"]] == [100]
    assert document["parts"][0]["origin"] is None  # all of them have that server_uuid


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("where", "x"), "malformed GTID set"),
        (("where", ""), "expected at least one GTID"),
        (("where", "z:binlog.000001:4"), "no instance has the name 'z'; known are: a, b"),
        (("where", "a:binlog.0000001:4"), "malformed log file name"),
        (("diff", "a", "c"), "no instance has the name 'c'; known are: a, b"),
        (("diff", "a", "a"), "expected two instances"),
        (("where", f"{A}:1", "--journal", "x", "--directory", "y"), "expected one of them"),
        (("where", f"{A}:1", "--journal", "none.jsonl"), "cannot be read"),
        (("where", f"{A}:1", "--servers", "none.toml"), "none.toml"),
        (("where", f"{A}:1", "--directory", "none"), "expected the tables of a run"),
    ],
)
def test_what_cannot_be_answered_says_what_was_expected(tallystick, tables, arguments, text):
    """Status 2, one line."""
    tables.write(0, cuts=[row("a", A, ""), row("b", B, "")])
    ran = tallystick(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert text in ran.err


def test_what_is_not_known_is_undecided(tallystick, tables):
    """Status 3, with the reason."""
    tables.write(0, cuts=[row("a", A, f"{A}:1"), replace(row("b", B, ""), gtid_executed=None)])
    ran = tallystick("where", f"{A}:1")
    assert ran.code == 3
    assert "unknown: gtid_executed of its row could not be read" in ran.out
    ran = tallystick("diff", "a", "b")
    assert (ran.code, "not known" in ran.out) == (3, True)


def test_real_servers_are_asked_now(mysqld, tallystick):
    """A replica whose applier is stopped has received what its source logged, and lags."""
    replica, source = mysqld.addresses()["replica-1"], mysqld.addresses()["source-a"]
    flags = ("--servers", str(mysqld.config_file), "--json")
    mysqld.await_applied()
    with session(replica) as applier, session(source) as writer:
        applier.run("STOP REPLICA SQL_THREAD")
        try:
            before = writer.gtid_executed()
            writer.run("CREATE DATABASE answers")
            gtid = writer.value("SELECT GTID_SUBTRACT(@@GLOBAL.gtid_executed, %s)", (before,))
            wait_for(lambda: gtid in received_by(applier), lambda: f"{gtid} is not received")
            ran = tallystick("where", gtid, *flags)
            compared = tallystick("diff", "source-a", "replica-1", *flags)
        finally:
            applier.run("START REPLICA SQL_THREAD")
            writer.run("DROP DATABASE answers")
            mysqld.await_applied()
    assert (ran.code, compared.code) == (0, 0), ran.err
    [part] = json.loads(ran.out)["parts"]
    states = {place["instance"]: place["state"] for place in part["instances"]}
    assert (part["gtids"], part["origin"]) == (gtid, "source-a")
    assert (states["source-a"], states["replica-1"], states["hub"]) == (
        "logged", "received", "applied",
    )  # fmt: skip
    assert states["source-b"] == states["replica-2"] == "lacking"
    [missing] = json.loads(compared.out)["differences"][0]["parts"]
    assert (missing["gtids"], missing["kind"], missing["received"]) == (gtid, "lagging", gtid)


def received_by(server) -> GtidSet:
    return GtidSet.parse(server.value(
        "SELECT received_transaction_set FROM performance_schema.replication_connection_status"
    ))  # fmt: skip


AGES = "1e10"
"""Simulated histories are of 2023."""


def test_a_replay_of_a_healthy_fleet_is_ready_and_too_old(tallystick, tmp_path):
    """By the tables that it writes, and by the journal; older than the limit it is undecided."""
    flags = ("--seed", "2", "--topology", "star", "--output", "star.jsonl")
    assert tallystick("simulate", *flags).code == 0
    assert tallystick("replay", "star.jsonl", "--output", "tables=run/tables").code == 0
    for evidence in (("--directory", "run"), ("--journal", "star.jsonl")):
        for purpose in ("backup", "clone", "failover"):
            asked = ("ready", purpose, "replica-a1", *evidence)
            ran = tallystick(*asked, "--max-age", AGES)
            assert (ran.code, ran.out.splitlines()[0]) == (0, f"{purpose} of replica-a1: yes")
            ran = tallystick(*asked)
            assert ran.code == 3
            assert re.search(r"undecided +evidence +the row of replica-a1 is [\d,]+ s old", ran.out)
    ran = tallystick("ready", "failover", "source-a", "--directory", "run", "--max-age", AGES)
    assert (ran.code, "it replicates from nobody" in ran.out) == (1, True)


def test_a_replay_of_a_broken_fleet_is_not_ready(tallystick, journal):
    """As JSON, with the rule and the GTID."""
    found = json.loads(tallystick("replay", str(journal), "--json").out)["findings"]
    [errant] = [one for one in found if one["rule"] == "no_errant_gtids"]
    tallystick("replay", str(journal), "--output", "tables=run/tables")
    for evidence in (("--directory", "run"), ("--journal", str(journal))):
        flags = (*evidence, "--max-age", AGES, "--json")
        ran = tallystick("ready", "failover", errant["instance_id"], *flags)
        document = json.loads(ran.out)
        answers = {one["check"]: one for one in document["checks"]}
        assert (ran.code, document["answer"]) == (1, "no")
        assert errant["witness"] in answers["no_errant_gtids"]["sentence"]
        assert "no_errant_gtids since" in answers["no_open_incident"]["sentence"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("ready", "backup", "c"), "no instance has the name 'c'; known are: a, b"),
        (("ready", "restore", "a"), "'restore' is not one of"),
        (("ready", "backup", "a", "--max-age", "nan"), "--max-age"),
        (("ready", "backup", "a", "--max-age", "inf"), "--max-age"),
        (("ready", "backup", "a", "--max-age", "-1"), "--max-age"),
    ],
)
def test_ready_says_what_it_expected(tallystick, tables, arguments, text):
    """Status 2, nothing on stdout."""
    tables.write(0, cuts=[row("a", A, ""), row("b", B, "")])
    ran = tallystick(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert text in ran.err


def test_who_never_answered_is_not_known_to_be_ready(tallystick, tables):
    """It says why, as the audit does."""
    error = "'b' refuses the account."
    silent = row("b", "", "", answer="missing", error_text=error, gtid_executed=None)
    tables.write(0, cuts=[row("a", A, ""), silent])
    ran = tallystick("ready", "backup", "b", "--json")
    document = json.loads(ran.out)
    assert (ran.code, document["answer"]) == (3, "undecided")
    assert "no row of b is known: 'b' refuses the account" == document["checks"][0]["sentence"]


@pytest.mark.parametrize(
    "words", [("ready", "backup", "a"), ("where", f"{A}:1"), ("diff", "a", "b")]
)
def test_where_there_is_no_job_the_other_evidence_is_named(tallystick, words):
    """Who has no running job learns what else can be asked."""
    ran = tallystick(*words)
    assert (2, "", 1) == (ran.code, ran.out, len(ran.err.splitlines()))
    assert ran.err.endswith("; or name --journal FILE or --servers FILE\n")


def test_a_request_that_others_have_answered_is_waited_for_in_vain(tallystick, tmp_path, tables):
    """A collection that is not closed, and was begun long enough ago."""
    now = time.time_ns() // 1_000
    closed = {"collection_id": "c1", "verdict": "CONSISTENT", "reason": "", "instances": 2,
              "missing": 0, "is_late": False, "ts": now}  # fmt: skip
    tables.write(0, validations=[closed])
    directory = tmp_path / ".tallystick" / "audit" / "tables"

    def wrote(ago_us, *cuts):
        at = now - ago_us
        append(made(directory, CUTS), arrow_rows(CUTS, list(cuts)), "run", None, at)

    def sentence(name):
        ran = tallystick("ready", "backup", name, "--json")
        return json.loads(ran.out)["checks"][0]["sentence"]

    wrote(60_000_000, row("a", A, "", ts=now), row("b", B, "", ts=now))
    wrote(0, row("a", A, "", "c2", ts=now))
    assert "has not answered" not in sentence("b")
    wrote(ANSWER_US + 1_000_000, row("a", A, "", "c3", ts=now))
    assert "'b' has not answered collection 'c3', which others have" in sentence("b")
    assert "has not answered" not in sentence("a")


def test_a_candidate_lags_catches_up_and_is_written_on(own_mysqld, tallystick):
    """Real servers: no, yes, no; the replica of the candidate is not ready either then."""
    lab = own_mysqld
    lab.await_applied()
    flags = ("--servers", str(lab.config_file), "--json")

    def asked(name, purpose="failover"):
        ran = tallystick("ready", purpose, name, *flags)
        document = json.loads(ran.out)
        answers = {c["check"]: c["sentence"] for c in document["checks"] if c["answer"] != "yes"}
        return ran.code, document["answer"], answers

    with session(lab.addresses()["replica-1"]) as replica:
        replica.run("STOP REPLICA SQL_THREAD")
        with session(lab.addresses()["source-a"]) as source:
            before = source.gtid_executed()
            source.run("CREATE DATABASE ready")
            gtid = source.value("SELECT GTID_SUBTRACT(@@GLOBAL.gtid_executed, %s)", (before,))
        wait_for(lambda: gtid in received_by(replica), lambda: f"{gtid} is not received")
        code, answer, why = asked("replica-1")
        assert (code, answer) == (1, "no")
        assert why["threads_running"] == "the applier of channel (default) is stopped"
        assert gtid in why["received_applied"]
        assert f"it lacks {gtid}, as of source-a, " in why["nothing_missing"]
        replica.run("START REPLICA SQL_THREAD")
        lab.await_applied()
        assert asked("replica-1") == (0, "yes", {})
        own = replica.value("SELECT @@server_uuid")
        replica.run("CREATE DATABASE errant_here")
    lab.await_applied()
    code, answer, why = asked("replica-1")
    assert (code, answer) == (1, "no")
    assert f"it has executed {own}:1, which is errant on replica-1" == why["no_errant_gtids"]
    assert "no_errant_gtids since" in why["no_open_incident"]
    assert asked("replica-2", "backup")[:2] == (1, "no")
    assert asked("hub", "clone")[:2] == (0, "yes")
