"""Commands against a real broker: what is written comes back, what is asked for is answered."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import uuid
from pathlib import Path

import pytest
from jsonschema import validate

from tallystick import journal_topic
from tallystick.producers.kafka_clients import confluent
from tallystick.producers.kafka_clients.choice import kafka_client
from tallystick.producers.kafka_topics import ensure_topics, tallystick_topics
from tests.support.bare import ALL_BUT_TABLES, EXTRAS
from tests.support.journals import UUID_A, Journal

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "journal.md").read_text("utf-8")
EXAMPLE = PAGE.split("```json\n")[1].split("```")[0]
DEADLINE_S = 240


@pytest.fixture
def connected(tallystick, broker, monkeypatch):
    """The command, set up for a broker and topics of its own."""
    monkeypatch.setenv("TALLYSTICK_BOOTSTRAP_SERVERS", broker.bootstrap_servers)
    monkeypatch.setenv("TALLYSTICK_TOPIC_PREFIX", f"t{uuid.uuid4().hex[:8]}")
    return tallystick


def start(*command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(params=["all is installed", "the bare install"])
def fleet(connected, command_without, request):
    """A pair that lives in a process of its own, until the test is over."""
    missing = EXTRAS if request.param == "the bare install" else ()
    options = ("--topology", "pair", "--seed", "3", "--speed", "2")
    process = start(*command_without(missing, "simulate", *options))
    assert process.stderr is not None
    said = process.stderr.readline()
    assert "source-a, replica-a1 write to" in said, said + process.stderr.read()
    yield process
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=DEADLINE_S)
    assert (0, "") == (process.returncode, out), err
    assert "records, " in err.splitlines()[-1]


def test_json_lines_go_into_the_topic_and_come_back(connected):
    """What `journal --write` puts there, `journal` prints, whole or of one instance."""
    lines = EXAMPLE + EXAMPLE.replace('"instance":"a"', '"instance":"b"')
    Path("j").write_text(lines)
    wrote = connected("journal", "--write", "j")
    assert (0, "") == (wrote.code, wrote.err)
    assert wrote.out.startswith("18 records written to ")
    back = connected("journal")
    assert (0, 18) == (back.code, len(back.out.splitlines()))
    only = connected("journal", "--instance", "b")
    assert {"b"} == {json.loads(line)["instance"] for line in only.out.splitlines()}
    Path("back").write_text(only.out)
    assert 0 == connected("replay", "back").code


def test_an_instance_that_the_topic_does_not_have_is_refused(connected):
    """An empty answer would be taken for an empty journal; who is there is named."""
    Path("j").write_text(EXAMPLE.splitlines()[0])
    assert connected("journal", "--write", "j").out.startswith("1 record written to ")
    ran = connected("journal", "--instance", "nope")
    assert (2, "") == (ran.code, ran.out)
    assert ran.err == "tallystick: the journal has no instance 'nope': expected one of a\n"
    near = connected("journal", "--instance", "A")
    assert near.err.endswith("has no instance 'A'; did you mean 'a'?\n")


def test_a_backup_is_judged_against_the_topic(connected):
    """By default `certify` reads the journal topic, and finds in it what it finds in the file."""
    made = Journal().begin()
    made.row()
    made.groups(3)
    file, position = made.binlog.coordinates
    made.groups(3).row()
    Path("j").write_text("\n".join(made.lines()))
    assert 0 == connected("journal", "--write", "j").code
    Path("backup").mkdir()
    for last, code in ((3, 0), (4, 1)):
        of = f"{file}\t{position}\t{UUID_A}:1-{last}\n"
        Path("backup/xtrabackup_binlog_info").write_text(of)
        from_topic = connected("certify", "backup")
        from_file = connected("certify", "backup", "--journal", "j")
        assert (code, "") == (from_topic.code, from_topic.err)
        assert from_file == from_topic
    no_broker = connected("certify", "backup", "--bootstrap-servers", "127.0.0.1:1")
    assert (2, "") == (no_broker.code, no_broker.out)
    assert "No Kafka broker answers at '127.0.0.1:1'" in no_broker.err


def test_an_unreadable_line_says_how_much_was_written(connected):
    """Status 2 with the line's number; the broker has what came before."""
    Path("j").write_text(EXAMPLE + "no json\n")
    ran = connected("journal", "--write", "j")
    assert (2, "") == (ran.code, ran.out)
    assert "'j': line 10" in ran.err
    assert "written before it: 0 records" in ran.err


def test_a_collection_is_asked_for_and_answered(connected, fleet):
    """`collect` prints the rows of those that were asked, and ends when all have answered."""
    ran = connected("collect", "--instance", "source-a", "--instance", "replica-a1", "--json")
    assert 0 == ran.code, ran.err
    rows = [json.loads(line) for line in ran.out.splitlines()]
    assert {"source-a", "replica-a1"} == {row["instance"] for row in rows}
    assert {"log_status"} == {row["kind"] for row in rows}
    text = connected("collect", "--instance", "source-a", "--instance", "replica-a1").out
    assert "  gtid_executed  " in text
    assert "  channel '': relay log replica-a1-relay-bin." in text


def test_a_collection_that_nobody_answers_is_undecided(connected, fleet):
    """Status 3, and the instance that is missing is named."""
    ran = connected("collect", "--instance", "source-a", "--instance", "nobody", "--deadline", "3")
    assert 3 == ran.code
    assert ran.out.startswith("source-a\n")
    assert "nobody has not answered within 3 s" in ran.err


def test_the_bare_install_writes_reads_and_asks(connected, command_without, fleet):
    """Every command that producers need runs with kafka-python alone, beside any other."""

    def bare(*arguments):
        process = start(*command_without(EXTRAS, *arguments))
        out, err = process.communicate(timeout=DEADLINE_S)
        assert 0 == process.returncode, err
        return out

    loaded = json.loads(bare("load", "--instances", "1", "--events", "2000", "--json"))
    Path("j").write_text(EXAMPLE)
    assert "9 records written to " in bare("journal", "--write", str(Path("j").absolute()))
    asked = bare("collect", "--instance", "source-a", "--instance", "replica-a1", "--json")
    assert {"source-a", "replica-a1"} == {json.loads(x)["instance"] for x in asked.splitlines()}
    of_load = bare("journal", "--instance", "source-1").splitlines()
    assert loaded["events"] == len(of_load)
    assert 9 == len(bare("journal", "--instance", "a").splitlines())


def test_load_reports_rate_and_latencies(connected):
    """Events, rate and percentiles of what was acknowledged."""
    ran = connected("load", "--instances", "2", "--events", "20000", "--seconds", "60", "--json")
    achieved = json.loads(ran.out)
    assert 0 == ran.code
    assert achieved["events"] >= 20_000
    assert achieved["produce_p50_s"] <= achieved["produce_p95_s"] <= achieved["produce_p99_s"]
    text = connected("load", "--instances", "1", "--events", "2000", "--client", "kafka-python")
    assert "events/s" in text.out
    assert "acknowledged after p50 " in text.out


@pytest.mark.parametrize("command", ["collect", "journal", "load", "simulate", "audit"])
def test_no_broker_is_said_in_one_sentence(connected, monkeypatch, command):
    """Status 2, with the line that fixes it."""
    monkeypatch.setenv("TALLYSTICK_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    ran = connected(command)
    assert (2, "") == (ran.code, ran.out)
    assert "No Kafka broker answers at '127.0.0.1:1'" in ran.err
    assert ran.err.endswith("To fix: tallystick broker start --port 1\n")
    assert "Traceback" not in ran.err


def test_a_missing_topic_is_said_in_one_sentence(connected):
    """Who only reads makes no topics."""
    ran = connected("journal")
    assert (2, "", 1) == (ran.code, ran.out, len(ran.err.splitlines()))
    assert "does not exist" in ran.err


def test_findings_go_to_a_topic(connected, broker):
    """One message a finding, under its id, as the job writes them."""
    Path("j").write_text(EXAMPLE.replace('"binary_log_position":457', '"binary_log_position":426'))
    topics = tallystick_topics(1, "some")
    ensure_topics(broker.bootstrap_servers, topics)
    ran = connected("replay", "j", "--json", "--output", "kafka=some.findings")
    found = json.loads(ran.out)["findings"]
    reader = kafka_client().open_reader(broker.bootstrap_servers, "some.findings", since_ms=0)
    messages = []
    while not reader.is_past_start:
        messages += reader.read(1.0)
    reader.close()
    assert [f["finding_id"].encode() for f in found] == [message.key for message in messages]
    sent = json.loads(messages[0].value)
    assert found[0]["sentence"] == sent["sentence"]
    validate(sent, json.loads((ROOT / "docs" / "findings.schema.json").read_text("utf-8")))


def test_a_topic_to_write_into_that_is_missing_is_named(connected, monkeypatch):
    """The broker answers: to say that none does would send somebody to look for it."""
    monkeypatch.setattr(confluent, "DEADLINE_S", 1.0)
    monkeypatch.setattr(journal_topic, "PATIENCE_S", 0.0)
    Path("j").write_text(EXAMPLE)
    for words in ("replay j --output kafka=none", "retire a --why x --topic-prefix none"):
        ran = connected(*words.split())
        assert 2 == ran.code
        assert re.search(r"tallystick: topic 'none(.control)?' does not exist at", ran.err), ran.err


@pytest.fixture
def judged(connected, command_without):
    """Judge what is in the topic by the job and by a replay of what it prints; both reports.

    Printed is partition after partition. Their findings, verdicts and exit codes are the same.
    """

    def judge(of_job, of_replay):
        process = start(*command_without((), "audit", "--available-now", "--json", *of_job))
        out, err = process.communicate(timeout=DEADLINE_S)
        Path("printed").write_text(connected("journal").out)
        ran = connected("replay", "printed", "--json", *of_replay)
        job, replayed = json.loads(out), json.loads(ran.out)
        assert ran.code == process.returncode != 0, err
        assert "Traceback" not in err
        assert job["verdict"] == replayed["verdict"]
        found = [{one["finding_id"] for one in each["findings"]} for each in (job, replayed)]
        assert found[0] == found[1]
        return job

    return judge


def test_a_run_to_the_end_that_is_stopped_before_is_undecided(connected, command_without):
    """What it has not read may contradict what it has."""
    Path("j").write_text(EXAMPLE)
    assert 0 == connected("journal", "--write", "j").code
    Path(".tallystick/audit/checkpoint").mkdir(parents=True)
    process = start(*command_without((), "rebuild", "--json"))
    assert process.stderr is not None
    assert any("auditing " in line for line in process.stderr)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=DEADLINE_S)
    report = json.loads(out)
    assert (3, "UNDECIDED", "UNDECIDED") == (
        process.returncode,
        report["verdict"],
        report["verdict_now"],
    )
    assert any("did not read the whole journal" in why for why in report["undecided"])
    assert "stopped before the journal's end; tallystick audit goes on from here" in err


def test_the_job_gives_the_verdict_of_the_replay(connected, command_without, judged):
    """`audit --available-now` of a real journal: same findings, exit code, report.

    As far as the journal is, and to its end: what contradicts another server at the end of the
    topic may wait for its next answer.
    """
    stored = ROOT / "tests" / "real_journals" / "reset_master_reuse.jsonl"
    assert 0 == connected("journal", "--write", str(stored)).code
    judged((), ("--history-goes-on",))
    report = judged(("--history-ends",), ())
    assert report["findings"]
    assert "INCONSISTENT" == report["validation"]["verdict"]
    assert "INCONSISTENT" in Path(report["paths"]["html"]).read_text("utf-8")
    # The report of a run that has ended is rendered again from its tables.
    again = connected("report", ".tallystick/audit", "--json")
    assert (1, report["findings"]) == (again.code, json.loads(again.out)["findings"])
    bare = start(*command_without(ALL_BUT_TABLES, "report", ".tallystick/audit", "--json"))
    out, err = bare.communicate(timeout=DEADLINE_S)
    assert (1, report["findings"]) == (bare.returncode, json.loads(out)["findings"])
    assert "the page is without Great Expectations: pyspark is not installed" in err
