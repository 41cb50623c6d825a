"""Commands without Kafka and Spark: verdicts as exit codes, results and notices apart."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import pytest

from tallystick import campaign as campaigns
from tallystick import cli
from tallystick.coordinates.rules.catalogue import RULES
from tallystick.errors import ExitCode
from tallystick.producers.simulator.faults import FAULTS
from tallystick.runs.replay import LINE_BYTES_MAX
from tests.support.all_commands import ALL

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "journal.md").read_text("utf-8")
EXAMPLE = DOCUMENT.split("```json\n")[1].split("```")[0]
AHEAD = '"gtid_executed":"aaaaaaaa-0000-0000-0000-000000000001:1'


@pytest.fixture
def stdin(monkeypatch):
    """Give text to a command that reads ``-``."""

    def give(text: str | bytes) -> None:
        raw = text if isinstance(text, bytes) else text.encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(raw))))

    return give


@pytest.mark.parametrize(
    ("text", "code", "fired"),
    [
        (EXAMPLE, 0, set()),
        (
            EXAMPLE.replace('"binary_log_position":457', '"binary_log_position":426'),
            1,
            {"snapshot_position_on_group_boundary", "executed_within_logged"},
        ),
        (EXAMPLE.replace(AHEAD, AHEAD + "-2"), 1, {"executed_within_logged"}),
        # Without the row nothing was checked: no evidence is no consistency.
        ("\n".join(EXAMPLE.splitlines()[:-1]), 3, set()),
        ("", 3, set()),
    ],
)
def test_replay_gives_the_verdict(tallystick, stdin, text, code, fired):
    """The example of docs/journal.md and its variants get the exit codes that the page promises."""
    stdin(text)
    ran = tallystick("replay", "-", "--json")
    report = json.loads(ran.out)
    assert (code, fired) == (ran.code, {f["rule"] for f in report["findings"]})
    assert {0: "CONSISTENT", 1: "INCONSISTENT", 3: "UNDECIDED"}[code] == report["verdict"]
    assert "standard input" == report["title"]
    stdin(text)
    ran = tallystick("replay", "-")
    assert (code, "") == (ran.code, ran.err)
    assert report["verdict"] == ran.out.splitlines()[0]
    assert all(f"{name} (" in ran.out for name in fired)


def test_undecided_says_why_and_a_finding_what_was_expected(tallystick, stdin):
    """The reason is the missing evidence alone; the parts of a finding are reported separately."""
    stdin("")
    assert "nothing was collected" in tallystick("replay", "-").out
    without_purged = EXAMPLE.replace(',"gtid_purged":""', "").replace(AHEAD, AHEAD + "-2")
    sound_beside = EXAMPLE.replace('"instance":"a"', '"instance":"b"').replace("a" * 8, "b" * 8)
    stdin(without_purged + sound_beside)
    reasons = tallystick("replay", "-").out.split("undecided because:")[1]
    assert "  a: " in reasons
    assert "executed_within_logged: gtid_purged was not read" in reasons
    assert "  b: " not in reasons
    because, *_ = reasons.split("\n\n")
    assert "the list of binary logs was not read" not in because  # a row is CONSISTENT without it
    stdin(EXAMPLE.replace(AHEAD, AHEAD + "-2"))
    out = tallystick("replay", "-").out
    assert "    observed, gtid_executed of log_status: " in out
    assert "    expected, binary log up to binlog.000001:457: " in out


def test_help_leaves_its_lines_to_the_terminal(tallystick):
    """A paragraph of a command's help is broken where the terminal ends, not in its source."""
    lines = tallystick("demo", "--help").out.splitlines()
    assert "collection. Nothing is left running." in " ".join(map(str.strip, lines))
    assert not any(line.strip().endswith("Nothing is") for line in lines)


def test_without_a_command_help_is_shown_and_no_verdict_given(tallystick):
    """Status 0 would say CONSISTENT of nothing."""
    asked, given = tallystick("--help"), tallystick()
    assert (ExitCode.MISUSE, asked.out, "") == (given.code, given.out, given.err)
    assert "Usage: tallystick" in given.out


@pytest.mark.parametrize("columns", ["60", "80"])
@pytest.mark.parametrize("command", ["", "simulate", "audit", "ready", "incidents"])
def test_help_cuts_nothing(tallystick, monkeypatch, command, columns):
    """Names of options and first sentences are whole, also on a narrow terminal and in a pipe."""
    monkeypatch.setenv("COLUMNS", columns)
    out = tallystick(*command.split(), "--help").out
    assert "…" not in out
    assert "..." not in out.replace("[ARGS]...", "")
    if command == "simulate":
        assert "--no-preserve-commit-order" in out


def test_replay_reports_all_bad_lines_at_once(tallystick, tmp_path):
    """Each with what is wrong with it; the twentieth is the last."""
    lines = EXAMPLE.splitlines()
    lines[2] = lines[2].replace("gtid_set", "gtidset")
    lines[4] = lines[4][:40]
    lines[7] = lines[7].replace("31", "-31")
    (tmp_path / "j").write_text("\n".join(lines))
    ran = tallystick("replay", "j")
    assert ran.code == 2
    assert "3 lines are no records" in ran.err
    assert "line 3, key 'gtid_set': expected this key, not 'gtidset'" in ran.err
    assert "line 5: expected a JSON object" in ran.err
    assert "line 8, key 'length': expected an integer from 1" in ran.err
    (tmp_path / "j").write_text("\n".join(["{}"] * 30))
    ran = tallystick("replay", "j")
    assert "at least 20 lines" in ran.err
    assert "line 20, key 'kind': expected this key" in ran.err
    assert "line 21" not in ran.err


@pytest.mark.parametrize("number", range(len(EXAMPLE.splitlines())))
def test_a_bad_line_that_is_skipped_is_a_gap(tallystick, tmp_path, number):
    """Whichever line of a consistent journal cannot be read: it is not consistent any more."""
    lines = EXAMPLE.splitlines()
    lines[number] = "rubbish"
    (tmp_path / "j").write_text("\n".join(lines))
    ran = tallystick("replay", "j", "--skip-bad-lines", "--json")
    report = json.loads(ran.out)
    assert (ran.code, report["verdict"]) == (3, "UNDECIDED")
    assert "JOURNAL_GAP" in {one["code"] for one in report["observations"]}
    assert f"skipped: line {number + 1}: expected a JSON object" in ran.err
    assert "1 line of 'j' skipped: each is a gap" in ran.err
    assert tallystick("replay", "j").code == 2


def test_of_several_files_a_line_is_skipped_in_the_one_that_has_it(tallystick, tmp_path):
    """A line number alone would be of any of them."""
    (tmp_path / "first").write_text(f"rubbish\n{EXAMPLE}")
    (tmp_path / "second").write_text(EXAMPLE)
    err = tallystick("replay", "first", "second", "--skip-bad-lines").err
    assert "skipped: 'first', line 1: expected a JSON object" in err
    assert "1 line of 2 files skipped: each is a gap" in err


def test_replay_reads_gzip_and_a_byte_order_mark(tallystick, stdin, tmp_path):
    """Whatever the file is called; a file cut short is an error."""
    packed = gzip.compress(EXAMPLE.encode())
    for data in (packed, b"\xef\xbb\xbf" + EXAMPLE.encode()):
        (tmp_path / "j").write_bytes(data)
        assert tallystick("replay", "j").code == 0
        stdin(data)
        assert tallystick("replay", "-").code == 0
    (tmp_path / "j.gz").write_bytes(packed[:-20])
    ran = tallystick("replay", "j.gz", "--skip-bad-lines")
    assert (ran.code, "'j.gz' cannot be read" in ran.err) == (2, True)


def test_the_end_of_a_history_that_goes_on_shows_nothing(tallystick, tmp_path):
    """A source whose records are still on their way has not lost what its replica has."""
    lines = (ROOT / "tests/real_journals/reset_and_change_source.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    source = records[0]["instance"]
    last = max(n for n, record in enumerate(records) if record["instance"] == source)
    early = [r for n, r in enumerate(records) if r["instance"] != source or n < last * 0.6]
    (tmp_path / "j").write_text("\n".join(map(json.dumps, early)))
    # The source has not answered what others were asked later.
    assert tallystick("replay", "j").code == 3
    nobody_asked = [
        {name: value for name, value in record.items() if name != "requested_at"}
        for record in early
        if record["kind"] != "observer"
    ]
    (tmp_path / "j").write_text("\n".join(map(json.dumps, nobody_asked)))
    assert tallystick("replay", "j").code == 1
    ran = tallystick("replay", "j", "--history-goes-on", "--json")
    assert ran.code == 3
    reasons = {one["reason"] for one in json.loads(ran.out)["observations"]}
    assert "source_not_reached" in reasons


def test_replay_counts_the_lines_of_the_file(tallystick, tmp_path):
    """What is counted is what stands in the file."""
    (tmp_path / "j").write_text(EXAMPLE)
    ran = tallystick("replay", "j")
    assert f"{len(EXAMPLE.splitlines())} events, 1 instance, " in ran.out


def test_a_finding_names_the_design_behind_it(tallystick, tmp_path):
    """Document, title and section stand beside each finding: terminal, JSON and page."""
    flags = ("--seed", "3", "--topology", "pair", "--fault", "lsn_regressed", "--output", "j")
    assert 0 == tallystick("simulate", *flags).code
    design = "WL#9452 (Log Position Lock), F-1.2.4"
    assert (
        f"written in: {design}" in tallystick("replay", "j", "--output", "html=r/report.html").out
    )
    findings = json.loads(tallystick("replay", "j", "--json").out)["findings"]
    (found,) = (one for one in findings if one["rule"] == "lsn_monotone")
    assert design in found["written_in"]
    assert design in Path("r/report.html").read_text()


def test_a_finding_names_instance_channel_and_witness(tallystick):
    """The text has all that a person needs to check the finding by hand."""
    simulated = tallystick(
        "simulate", "--seed", "1", "--topology", "demo", "--fault", "retrieved_inflated",
        "--output", "j",
    )  # fmt: skip
    assert (0, "") == (simulated.code, simulated.out)
    ran = tallystick("replay", "j", "--output", "html=r/report.html")
    assert 1 == ran.code
    found = json.loads(tallystick("replay", "j", "--json").out)["findings"][0]
    where = f"  {found['instance_id']}, channel {found['channel'] or '(default)'} from source-"
    assert sum(line.startswith(where) for line in ran.out.splitlines()) == 1
    assert found["sentence"] in ran.out
    assert found["witness"] in found["sentence"]
    assert "retrieved_matches_relay" in Path("r/report.html").read_text()


def test_a_finding_about_a_replica_names_its_channel(tallystick):
    """An errant write came through no channel; the one that should have brought it is named."""
    tallystick(
        "simulate", "--seed", "1", "--topology", "demo", "--fault", "errant_write", "--output", "j"
    )
    ran = tallystick("replay", "j", "--json")
    (finding,) = json.loads(ran.out)["findings"]
    assert ("no_errant_gtids", "") == (finding["rule"], finding["channel"])
    text = tallystick("replay", "j").out
    assert f"  {finding['instance_id']}, channel (default) from source-a, 2" in text
    assert f"    at {finding['at']}\n" in text


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"kind":"start"}\n', "'j': line 1, key 'instance'"),
        (b"\xff\n", "'j': line 1: expected UTF-8"),
        (b'{"kind":"start",\n', "'j': line 1: expected a JSON object (Expecting property name"),
        (b'{"kind":"start",\r\n', '), found \'{"kind":"start",\'\n'),
        (b'{"kind":"\x1f"}', "(Invalid control character at 9), found"),
        (b"\x1f", "(Expecting value at 0), found '\\x1f'\n"),
        (b'{"kind":"gap","instance":"a","' + b"k" * 10**6 + b'":1}', "kkk…: expected no such key"),
        (b'{"' + b"k" * 10**6 + b'":1,"' + b"k" * 10**6 + b'":1}', "kkk… occurs twice"),
    ],
)
def test_an_unreadable_journal_is_misuse(tallystick, content, said):
    """Status 2 and one sentence with the line."""
    Path("j").write_bytes(content)
    ran = tallystick("replay", "j")
    assert (2, "", 1) == (ran.code, ran.out, len(ran.err.splitlines()))
    assert said in ran.err
    assert len(ran.err) < 1_000


def test_a_line_that_a_killed_tail_has_cut_short_is_named(tallystick):
    """Which file and line, and what to do; the rest of the file is fit."""
    Path("j").write_text(EXAMPLE.rstrip()[:-1])
    ran = tallystick("replay", "j")
    assert (2, "", 1) == (ran.code, ran.out, len(ran.err.splitlines()))
    number = len(EXAMPLE.splitlines())
    assert f"'j': line {number}: cut short: expected a JSON object, found" in ran.err
    hint = "; leave it out, or take it as a gap: --skip-bad-lines\n"
    assert ran.err.endswith(hint)
    assert tallystick("replay", "j", "--skip-bad-lines").code == 3
    Path("j").write_text("rubbish\n" + EXAMPLE.rstrip()[:-1])
    assert tallystick("replay", "j").err.endswith(hint)
    Path("j").write_text(EXAMPLE + "rubbish")
    assert hint not in tallystick("replay", "j").err


def test_a_file_without_line_ends_is_not_read_at_once(tallystick):
    """An image of a disk would fill the memory before anything is said of it."""
    with Path("j").open("wb") as file:
        file.truncate(2 * LINE_BYTES_MAX + 1)
    ran = tallystick("replay", "j")
    assert (2, "", 4) == (ran.code, ran.out, len(ran.err.splitlines()))
    assert "'j': 3 lines are no records" in ran.err


@pytest.mark.parametrize(
    "words",
    ["report", "serve", "incidents list --directory", "tail --server a=127.0.0.1:1 --output"],
)
def test_a_path_that_cannot_be_is_misuse(tallystick, words):
    """The file system's refusal is no mistake of ours, and the path is shown in short."""
    ran = tallystick(*words.split(), "n" * 5_000)
    assert (2, "") == (ran.code, ran.out)
    assert "…' cannot be used: File name too long" in ran.err.splitlines()[-1]
    assert len(ran.err) < 500


def _is_path(command, parameter):
    """By its type, or by its name in the help, where - is a standard stream."""
    hint = str(get_type_hints(command.callback)[parameter.name])
    return "pathlib.Path" in hint or parameter.metavar == "FILE"


PATHS = [
    pytest.param(command, parameter, id=" ".join((*words, parameter.name)))
    for words, command in ALL.items()
    for parameter in command.params
    if _is_path(command, parameter)
]


@pytest.mark.parametrize(("command", "parameter"), PATHS)
def test_a_path_that_is_empty_is_misuse(command, parameter):
    """A shell's variable that is not set; Python takes it for the current directory.

    The command is not run: taken for a directory, it would be one to start servers in.
    """
    flag = [name for name in parameter.opts if name.startswith("-")]
    with pytest.raises(cli.ClickException) as refused:
        command.make_context("tallystick", [*flag, ""])
    assert "expected a path, found an empty text" in refused.value.format_message()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("replay", "nowhere"), "'nowhere' cannot be read: No such file"),
        (("replay",), "Missing argument"),
        (("replay", ""), ": expected a path, found an empty text (see tallystick replay --help)"),
        (("replay", "j", "--output", "json="), "--output 'json=': expected NAME=FILE"),
        (("alerts", "test", "--alert", "log="), "'log=': expected a target after ="),
        (("replay", "j", "--output"), "requires an argument. (see tallystick replay --help)"),
        (("broker", "start", "--port"), "(see tallystick broker start --help)"),
        (("faults", "errant_writ"), "did you mean 'errant_write'?"),
        (("rules", "lsn_ordr"), "did you mean 'lsn_order'?"),
        (("demo", "--fault", "errant_writ"), "did you mean 'errant_write'?"),
        (("demo", "--negative", "purg"), "did you mean 'purge'?"),
        (("demo", "--negative", "reset_replica", "--negative", "two_paths"), "exclude each other"),
        (("demo", "--scenario", "log_statsu"), "did you mean 'log_status'?"),
        (("demo", "--scenario", "earthquake"), "expected log_status"),
        (("demo", "--scenario", "log_status", "--fault", "lsn_frozen"), "leave out --fault"),
        (
            ("demo", "--scenario", "log_status", "--negative", "purge"),
            "leave out --fault and --negative",
        ),
        (("simulate", "--scenario", "log_status", "--negative", "purge"), "leave out --fault"),
        (
            ("simulate", "--topology", "ring", "--output", "-"),
            "topology of demo, single, pair, chain, star, diamond, multi_source, got 'ring'\n",
        ),
        (("simulate", "--profile", "9", "--output", "-"), "of mysql-8.0, wl9452, got '9'\n"),
        (("replay", "j", "--fail-on", "x"), "for '--fail-on': 'x' is not one of 'ever', 'now'."),
        (("ready", "x", "a"), "for 'PURPOSE': 'x' is not one of 'backup', 'clone', 'failover'."),
        (("report", ".", "--at", "12:00"), "--at '12:00': expected a time as 2026-03-01 or"),
        (("replay", "j", "--disable", "zz"), "the name 'zz'; tallystick rules lists them\n"),
        (("faults", "zz"), "no fault has the name 'zz'; tallystick faults lists them\n"),
        (("simulate", "--negative", "zz"), "the name 'zz'; docs/negatives.md lists them\n"),
        (("audit", "--instance", ""), "--instance: expected an instance's name, "),
        (("collect", "--instance", "a\x1b"), "--instance: expected an instance's name, "),
        (("journal", "--instance", "\udcff"), "name, text without lone surrogates, found"),
        (("retire", "\udcff", "--why", "x"), "name, text without lone surrogates, found"),
        (("retire", "é" * 200, "--why", "x"), "name, 1 to 255 bytes of printable text, found"),
        (("rules", "LSN_ORDER"), "did you mean 'lsn_order'?"),
        (("alerts", "list"), "expected the queue of alerts of an audit, there is no file"),
        (("campaign", "--seeds", "9:3"), "expected 0 <= A < B, found '9:3'"),
        (("campaign", "--seeds", "some"), "found 'some'"),
        (("campaign", "--seeds", f"{10**30}:{10**30 + 1}"), "expected 0 <= A < B"),
        (("simulate", "--collection-interval-ms", "9" * 21, "--output", "j"), "less than or equal"),
        (("demo", "--port", "65535"), "less than or equal"),  # the next one is the controller's
        (("load", "--seed", "-1"), "greater than or equal"),
        (("replya", "j"), "Did you mean 'replay'"),
        (("journal", "--write", "j", "--follow"), "neither --follow nor --instance"),
        (("audit", "--history-ends"), "expected --available-now"),
    ],
)
def test_misuse_is_one_sentence(tallystick, arguments, said):
    """Status 2, nothing on stdout, one line on stderr that says what is expected."""
    ran = tallystick(*arguments)
    assert (2, "", 1) == (ran.code, ran.out, len(ran.err.splitlines()))
    assert said in ran.err


class AfterItsJvmError(Exception):
    """As pyspark's are whose JVM has ended."""

    def __str__(self) -> str:
        raise ConnectionRefusedError


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ZeroDivisionError("oops"), "ZeroDivisionError: oops"),
        (AfterItsJvmError(), "AfterItsJvmError: it cannot be printed"),
    ],
)
def test_our_own_mistake_is_no_verdict(tallystick, monkeypatch, error, text):
    """An unexpected error ends with 70, one line and a log file that has the trace."""

    def broken(*_arguments: object, **_options: object) -> None:
        raise error

    monkeypatch.setattr("tallystick.runs.replay.audit_history", broken)
    ran = tallystick("replay", "-")
    assert (70, "") == (ran.code, ran.out)
    assert f"unexpected {text}" in ran.err
    assert "Traceback" not in ran.err
    (log,) = Path(".tallystick").glob("tallystick-crash-*.log")
    assert str(log) in ran.err
    assert type(error).__name__ in log.read_text()


def test_the_trace_is_where_nobody_else_can_put_anything(tallystick, monkeypatch, tmp_path):
    """Not in a directory of others, and for its owner only."""

    def broken(*_arguments: object, **_options: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("tallystick.runs.replay.audit_history", broken)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    shared = Path(".tallystick")
    shared.mkdir()
    shared.chmod(0o777)
    assert 70 == tallystick("replay", "-").code
    assert not list(shared.iterdir())
    (log,) = (tmp_path / "home/.local/state/tallystick").glob("tallystick-crash-*.log")
    assert 0 == log.stat().st_mode & 0o077
    (tmp_path / "elsewhere").mkdir()
    shared.rmdir()
    shared.symlink_to(tmp_path / "elsewhere")
    tallystick("replay", "-")
    assert not list((tmp_path / "elsewhere").iterdir())


def test_what_is_written_is_for_its_owner(tallystick):
    """Whatever the umask was."""
    before = os.umask(0)
    try:
        tallystick("simulate", "--topology", "pair", "--duration-ms", "500", "--output", "j")
        tallystick("replay", "j", "--output", "html=page.html", "--output", "tables=out")
    finally:
        os.umask(before)
    written = [Path("j"), Path("page.html"), *Path("out").rglob("*")]
    assert len(written) > 5
    assert [path for path in written if path.stat().st_mode & 0o077] == []


def test_simulate_is_deterministic_and_replays(tallystick):
    """Equal options give equal bytes, another seed gives others, and a healthy fleet is healthy."""
    first = tallystick("simulate", "--seed", "4", "--topology", "pair", "--output", "-")
    again = tallystick("simulate", "--seed", "4", "--topology", "pair", "--output", "j")
    other = tallystick("simulate", "--seed", "5", "--topology", "pair", "--output", "-")
    assert (0, first.out, "") == (first.code, Path("j").read_text(), again.out)
    assert first.out != other.out
    assert 0 == tallystick("replay", "j").code


def test_simulate_takes_the_options_of_every_scenario(tallystick):
    """The command that a campaign prints for a seed gives exactly that seed's journal."""
    from tallystick.coordinates.events.json_lines_writer import block_to_lines
    from tallystick.producers.simulator.assemble import simulate

    for seed in (5, 24):
        scenario = campaigns.scenario_of(seed)
        words = campaigns.simulate_command(scenario).split()
        ran = tallystick(*words[1:], "--output", "-")
        expected = [
            line for block in simulate(scenario).blocks(512) for line in block_to_lines(block)
        ]
        assert expected == ran.out.splitlines()


def test_campaign_counts_and_exits_by_the_result(tallystick, monkeypatch):
    """Status 0 and recall 1 when all is found; status 1 and the seed's command when not."""
    ran = tallystick("campaign", "--seeds", "0:4", "--fault", "lsn_regressed", "--json")
    found = json.loads(ran.out)
    assert (0, True, 1.0, 0) == (
        ran.code,
        found["is_right"],
        found["recall"],
        found["false_alarms"],
    )
    assert [{"name": "lsn_regressed", "runs": 2, "injected": 2, "found": 2, "surplus": 0}] == (
        found["faults"]
    )
    blind = campaigns.run_seed
    monkeypatch.setattr(
        campaigns, "run_seed", lambda scenario: blind(scenario, frozenset({"lsn_monotone"}))
    )
    ran = tallystick("campaign", "--seeds", "0:4", "--fault", "lsn_regressed")
    assert 1 == ran.code
    assert "again: tallystick campaign --seeds 1:2" in ran.out
    assert "missed: seed 1, lsn_regressed: lsn_monotone" in ran.out


def test_the_reference_is_complete(tallystick):
    """Every rule and every fault is listed, and each has an entry of its own."""
    assert list(RULES) == [d["name"] for d in json.loads(tallystick("rules", "--json").out)]
    listed = tallystick("rules").out
    assert all(name in listed for name in RULES)
    entry = tallystick("rules", "lsn_monotone").out
    for said in ("claim", "why", "undecided_when", "remedy"):
        assert getattr(RULES["lsn_monotone"], said) in entry
    assert "WL#9452 (Log Position Lock), F-1.2.4" in entry
    assert FAULTS["lsn_regressed"].text in entry
    documented = json.loads(tallystick("rules", "lsn_monotone", "--json").out)
    assert "lsn_regressed" in documented["broken_by"]
    catalogue = json.loads(tallystick("faults", "--json").out)
    assert {n: sorted(f.must_fire) for n, f in FAULTS.items()} == {
        entry["name"]: entry["must_fire"] for entry in catalogue
    }
    one = tallystick("faults", "errant_write").out
    assert "no_errant_gtids" in one
    assert FAULTS["errant_write"].text in one


def test_replay_starts_without_kafka_and_spark():
    """A replay imports neither Spark nor Great Expectations nor a Kafka client nor pandas."""
    program = (
        "import sys\n"
        "from tallystick import cli\n"
        "code = cli.run_command(['replay', '-'])\n"
        "heavy = {'pyspark', 'great_expectations', 'confluent_kafka', 'kafka', 'pandas'}\n"
        "print(code, sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input=EXAMPLE, capture_output=True, text=True, check=True
    )
    assert "0 []" == done.stdout.splitlines()[-1]


@pytest.mark.parametrize("output", ["text", "json"])
def test_a_full_disk_is_one_sentence(tmp_path, output):
    """Status 2: neither a verdict nor an internal error."""
    (tmp_path / "j").write_text(EXAMPLE)
    command = [sys.executable, "-m", "tallystick.cli", "replay", "j", "--output", output]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, cwd=tmp_path, check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
    assert (2, "tallystick: standard output cannot be written: No space left on device\n") == (
        done.returncode,
        done.stderr,
    )


@pytest.mark.parametrize(
    "arguments", [("simulate", "--topology", "demo", "--output", "-"), ("replay", "-")]
)
def test_a_closed_pipe_is_no_verdict(tmp_path, arguments):
    """Status 141, as of cat and grep, and no complaint: nobody reads any more."""
    (tmp_path / "j").write_text(EXAMPLE)
    reading, writing = os.pipe()
    os.close(reading)
    with (tmp_path / "j").open() as journal, os.fdopen(writing, "w") as pipe:
        done = subprocess.run(
            [sys.executable, "-m", "tallystick.cli", *arguments], stdin=journal, stdout=pipe,
            stderr=subprocess.PIPE, text=True, cwd=tmp_path, check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
    assert (141, "") == (done.returncode, done.stderr)


def test_a_reader_that_goes_away_ends_it_quietly():
    """`tallystick simulate --output - | head -1` ends without a complaint."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tallystick.cli", "simulate", "--topology", "demo", "--output", "-"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline().startswith('{"kind":"observer"')
    process.stdout.close()
    assert "" == process.stderr.read()
    process.stderr.close()
    assert 141 == process.wait(60)
