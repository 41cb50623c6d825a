"""The text for a person: complete, bounded, and harmless to a terminal."""

from __future__ import annotations

import io
import unicodedata
from collections import Counter
from dataclasses import replace

import pytest
from reports import broken, finding, healthy, hostile, observation
from rich.console import Console

from tallystick import terminal
from tallystick.coordinates.results import Verdict
from tallystick.outputs import text
from tallystick.runs.result import RunResult, ServerSummary


def written(result: RunResult) -> str:
    return text._plain(result)


def test_the_text_names_verdict_findings_and_remedy():
    """What an operator reads first."""
    lines = written(broken()).splitlines()
    assert lines[0] == "INCONSISTENT"
    assert "executed_within_logged (critical)" in lines
    assert "    at c-000027, found again at c-000028" in lines
    assert any(line.startswith("  to do: ") for line in lines)


def test_each_part_of_the_text_is_a_paragraph():
    """The first lines of a healthy run; things that there is one of are in the singular."""
    lines = written(healthy(2, 1)).splitlines()
    assert lines[:4] == [
        "CONSISTENT",
        (
            "  1,284,310 events, 2 instances, 1 channel, 2 collections, 60 checks, 0 findings,"
            " 1 observation"
        ),
        "",
        "observed:",
    ]
    assert [2, 5] == [number for number, line in enumerate(lines[:-1]) if not line]
    server = ServerSummary(
        version="8.0.31", address="127.0.0.1:3306", account="a", problem="", rows=2,
        binlog_events=1_000, relay_events=234, unread={}, grants=(),
    )  # fmt: skip
    servers = {"source-1": server, "silent": replace(server, version="", rows=0)}
    lines = written(replace(healthy(2, 1), servers=servers)).splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("server "))
    judged = Counter(one.verdict for one in healthy(2, 1).rule_results["source-1"])
    held, left = judged[Verdict.CONSISTENT], judged[Verdict.UNDECIDED]
    assert lines[at : at + 4] == [
        "server    version  address         rows  events  verdict",
        f"source-1  8.0.31   127.0.0.1:3306  2     1,234   {held} hold, {left} undecided",
        "silent    ?        127.0.0.1:3306  0     1,234   undecided: no row of log_status",
        "",
    ]
    lines = written(broken()).splitlines()
    assert lines[2:6] == [
        "",
        "executed_within_logged (critical)",
        "  replica-2, 2 times, from 2026-01-01 00:04:30 UTC to 2026-01-01 00:04:40 UTC",
        (
            "    aaaaaaaa-0000-0000-0000-000000000001:1271-1272 are executed, but neither logged up"
            " to binlog.000003:235000 nor purged."
        ),
    ]
    assert ["    witness: aaaaaaaa-0000-0000-0000-000000000001:1271-1272"] == [
        line for line in lines if line.lstrip().startswith("witness: ")
    ]
    at = lines.index("    to see it, on replica-2:")
    assert lines[at + 1].startswith("      SELECT GTID_SUBTRACT('aaaaaaaa-")
    assert lines[at + 2].startswith("      mysql -rNBe 'SHOW BINARY LOGS' | ")
    assert lines[-2:] == ["", "data docs: data-docs/index.html"]


def test_what_could_not_be_read_is_named_with_the_grants_that_it_takes():
    """Each once, with the servers; of many the first."""
    lacks = ServerSummary(
        version="8.0.31", address="127.0.0.1:3306", account="a", problem="", rows=2,
        binlog_events=1, relay_events=0, unread={"binary log": "denied"},
        grants=("GRANT REPLICATION SLAVE ON *.* TO a",),
    )  # fmt: skip
    fleet = healthy(2, 1)
    lines = written(replace(fleet, servers={"r": lacks, "s": lacks})).splitlines()
    at = lines.index("not read:")
    assert lines[at - 1 : at + 5] == [
        "",
        "not read:",
        "  binary log: denied (r, s)",
        "  it takes:",
        "    GRANT REPLICATION SLAVE ON *.* TO a -- on r, s",
        "",
    ]
    many = written(replace(fleet, servers=dict.fromkeys("abcdefgh", lacks)))
    assert "  binary log: denied (a, b, c, d, e, f and 2 more)\n" in many
    nothing = replace(lacks, unread={}, grants=())
    assert "it takes" not in written(replace(fleet, servers={"r": nothing}))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("", "(empty)"),
        (" a\n b ", "a b"),
        ("x" * 200, "x" * 200),
        ("x" * 201, "x" * 200 + "… (201 characters)"),
    ],
)
def test_a_value_is_shown_on_one_line_up_to_200_characters(value, shown):
    """What is cut says how long it was."""
    assert shown == text._short(value)


def test_the_verdict_of_now_says_what_it_is_of():
    """Incidents by their states; without any, evidence was missing earlier."""
    doubt = observation(is_undecided=True, collection_id="c-1", at="c-1", ts=1)
    lines = written(replace(healthy(), observations=(doubt,))).splitlines()
    assert lines[:2] == [
        "UNDECIDED",
        "  now CONSISTENT: what is undecided is of earlier collections",
    ]


def test_a_finding_on_an_instance_names_the_channels_from_its_sources_alone():
    """Those of the end of the run may be younger than it."""
    fleet = healthy(1)
    edge = next(one for one in fleet.topology if one.source == "source-1")
    of_source = finding(instance_id=edge.replica, data={"sources": ["source-1"]}, case="x")
    of_none = replace(of_source, rule="isolated_within_cluster", data={"members": ["source-1"]})
    where = f"  {edge.replica}, channel {edge.channel or '(default)'} from source-1, "
    assert where in written(replace(fleet, found=(of_source,)))
    assert where not in written(replace(fleet, found=(of_none,)))


def test_no_character_of_an_instance_moves_the_cursor():
    """Control, bidi and line characters are escaped; each line stays a line."""
    said = written(hostile())
    assert all(c == "\n" or unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Zl") for c in said)
    said.encode("utf-8")


def test_text_of_many_findings_is_cut_and_says_so():
    """A terminal is no archive."""
    many = tuple(finding(instance_id=f"r-{n}") for n in range(100))
    assert "and 88 more (--output json has all)" in written(replace(healthy(), found=many))


def test_a_real_server_has_its_line_and_what_it_lacks():
    """What could not be read, and the statement that would change it."""
    summary = ServerSummary(
        version="8.0.31", address="db:3306", account="'a'@'%'", problem="", rows=2,
        binlog_events=1_000, relay_events=5, unread={"locks": "error 1142"}, grants=["GRANT X;"],
    )  # fmt: skip
    away = replace(summary, version="", rows=0, unread={}, grants=[])
    said = written(replace(healthy(), servers={"source-1": summary, "gone": away}))
    header, line, gone, *_ = said.splitlines()
    assert header.split() == ["server", "version", "address", "rows", "events", "verdict"]
    assert line.split()[:5] == ["source-1", "8.0.31", "db:3306", "2", "1,005"]
    assert gone.endswith("undecided: no row of log_status")
    assert "  locks: error 1142 (source-1)" in said
    assert "    GRANT X; -- on source-1" in said


def test_what_was_observed_is_counted_and_the_last_one_is_shown():
    """A torn row names the server's bugs; it is no inconsistency."""
    torn = tuple(observation(at=f"c-{n}") for n in (1, 2))
    (line,) = [
        x for x in written(replace(healthy(), observations=torn)).splitlines() if "TEAR" in x
    ]
    assert line.startswith("  2 LOG_STATUS_TEAR, the last at source-1, c-2: ")
    assert "server bugs 102175, 112331" in line


def test_what_came_with_each_collection_is_shown_once():
    """A reason that differs by the collection alone."""
    gaps = [
        observation(is_undecided=True, collection_id=name, reason="not there", at=name)
        for name in ("c-1", "c-2")
    ]
    said = written(replace(healthy(), observations=tuple(gaps)))
    assert "  source-1: not there (and 1 more of the kind)" in said


def test_a_command_stays_on_one_line_of_a_terminal(monkeypatch):
    """It is copied; the terminal wraps it."""
    screen = io.StringIO()
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(terminal, "_console", lambda **_: Console(
        file=screen, force_terminal=True, width=40, soft_wrap=True, color_system=None))  # fmt: skip
    statement = "SELECT " + ", ".join(["@@GLOBAL.gtid_executed"] * 9) + ";"
    terminal.show(terminal.Command(f"      {statement}"), f"  {statement}")
    whole, *folded = screen.getvalue().splitlines()
    assert whole.strip() == statement
    assert len(folded) > 1
