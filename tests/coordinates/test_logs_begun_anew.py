"""Commands that begin a log anew, and are not in the journal, are found out by its files.

RESET REPLICA and CHANGE REPLICATION SOURCE give the names of relay log files again, RESET BINARY
LOGS AND GTIDS those of the binary log. Nothing that was known of the files before bounds what
comes, and nothing is accused by it.
"""

from __future__ import annotations

import json
from itertools import chain

import pytest

from tallystick.campaign import BLOCK_RECORDS
from tallystick.coordinates.audit.fleet_events import FleetEventKind
from tallystick.coordinates.audit.replay import audit_history
from tallystick.coordinates.events.json_lines import blocks_from_lines
from tallystick.coordinates.events.json_lines_writer import block_to_lines
from tallystick.coordinates.logs import log_reader
from tallystick.coordinates.logs.event_window import EventWindow
from tallystick.coordinates.results import Verdict
from tallystick.producers.simulator.assemble import simulate
from tallystick.producers.simulator.kernel.scenario import Scenario
from tests.support.journals import (
    UUID_B,
    Binlog,
    Gtids,
    Journal,
    Record,
    RelayLog,
    audit,
)
from tests.support.rule_cases import apply, replica

REASON = "log_begun_unrecorded"
WINDOW = EventWindow().limit
FORMS = ("another_head", "equal_head", "earlier_file", "forgotten", "earlier_and_forgotten")


def begun_anew(form: str) -> tuple[Journal, RelayLog, list[Record]]:
    """A replica whose relay log is written from its first file on again, a row, a group to come."""
    groups = 1 + WINDOW // 5 if form.endswith("forgotten") else 3
    journal, relay, more = replica(groups)
    heads = [one for one in journal.records if one.get("kind") == "relay"][:1]
    if form.startswith("earlier"):
        relay.rotate()
        apply(journal, relay, more[0])
    journal.row(replica_status=journal.replica_status())
    before = len(journal.records)
    again = journal.relay()
    heads.append(journal.records[before])
    if form != "equal_head":
        for number, head in enumerate(heads):
            head["checksum"] = number
    again.connect("binlog.000001", more[1][0]["start"])
    for group in more[1:4]:
        apply(journal, again, group)
    journal.row(replica_status=journal.replica_status())
    return journal, again, more[4]


def reasons(result: object) -> list[str]:
    return [one.reason for one in result.observations]  # type: ignore[attr-defined]


@pytest.mark.parametrize("fast_min", [1, 10**9])
@pytest.mark.parametrize("form", FORMS)
def test_files_that_begin_again_are_those_of_another_relay_log(monkeypatch, form, fast_min):
    monkeypatch.setattr(log_reader, "FAST_MIN", fast_min)
    journal, *_ = begun_anew(form)
    result = audit(journal)
    assert result.broken == []
    assert reasons(result).count(REASON) == 1
    assert [one for one in reasons(result) if one.startswith("redelivered")] == (
        ["redelivered_unchanged"] if form == "equal_head" else []
    )
    [found] = [one for one in result.observations if one.reason == REASON]
    assert found.is_undecided
    assert (found.channel, found.data["file"]) == ("", "relay.000001")


@pytest.mark.parametrize("form", FORMS)
def test_what_such_a_relay_log_holds_is_judged(form):
    """With the head of its next file at the latest."""
    journal, again, group = begun_anew(form)
    again.rotate()
    apply(journal, again, group)
    journal.row(replica_status=journal.replica_status())
    assert "retrieved_matches_relay" not in audit(journal).undecided("channel")
    journal.row(replica_status=journal.replica_status(Retrieved_Gtid_Set=""))
    assert audit(journal).broken == ["retrieved_matches_relay"]


def test_nothing_of_before_bounds_what_comes():
    """The fleet learns of a gap, the audit's baselines of the channel are none."""
    journal, *_ = begun_anew("another_head")
    result = audit(journal.records[:-1])
    assert result.audit is not None
    baselines = result.audit.baselines
    assert baselines.unseen_channel_left
    assert baselines.channels[""].relay is None
    gaps = [one.body for one in result.fleet_events if one.kind is FleetEventKind.GAP]
    assert gaps == [{"channel": ""}]


@pytest.mark.parametrize("is_recorded", [False, True])
def test_a_row_that_waits_for_the_relay_log_of_before_is_undecided(is_recorded):
    """What it names has gone with the files, and the new ones have other events there."""
    journal, relay, more = replica()
    relay.flushed = relay.file, relay.end + 300
    row = journal.row(replica_status=journal.replica_status())
    if is_recorded:
        journal.record("channel", channel="", action="reset")
    before = len(journal.records)
    again = journal.relay()
    heads = [one for one in journal.records if one["kind"] == "relay"][:1]
    for number, head in enumerate((*heads, journal.records[before])):
        head["checksum"] = number
    again.connect("binlog.000001", more[0][0]["start"])
    for group in more:
        again.copy(group)
    for one in journal.records:
        one["ts"] = min(one["ts"], row["ts"])
    result = audit(journal)
    assert result.broken == []
    assert (REASON in reasons(result)) is not is_recorded
    assert "row_not_reached" in reasons(result)


def test_what_comes_again_from_the_middle_of_a_file_on_has_to_be_equal():
    journal, relay, more = replica()
    first, *_, last = relay.copy(more[0])
    journal.record(**first | {"ts": journal.ts})
    journal.record(**last | {"ts": journal.ts, "type": "QUERY", "query": "COMMIT"})
    result = audit(journal)
    assert result.broken == ["log_redelivery_identical"]
    assert REASON not in reasons(result)


def test_an_event_that_an_earlier_file_did_not_have_is_of_another_relay_log():
    """The head of that file is not in the journal either."""
    journal, relay, more = replica()
    relay.rotate()
    apply(journal, relay, more[0])
    again = journal.relays[""] = RelayLog(journal, "", relay.base_name)
    again.end = 300
    again.gtids = relay.gtids
    apply(journal, again, more[1])
    journal.row(replica_status=journal.replica_status())
    result = audit(journal)
    assert result.broken == []
    assert reasons(result) == [REASON]


def test_a_row_that_names_no_relay_log_shows_that_it_is_gone():
    """As after RESET REPLICA, before the receiver begins: Retrieved_Gtid_Set is empty as well."""
    journal, relay, _ = replica()
    relay.flushed = None
    journal.row(replica_status=journal.replica_status(Retrieved_Gtid_Set=""))
    result = audit(journal)
    assert result.broken == []
    assert "no RESET REPLICA was seen" in result.undecided("channel")["retrieved_matches_relay"]


@pytest.mark.parametrize("form", ["another_head", "equal_head", "later_file", "forgotten"])
def test_binary_logs_that_begin_again_are_others(form):
    """With the GTIDs from before given out again."""
    journal = Journal().begin().groups(250 if form == "forgotten" else 3)
    head = journal.records[1]
    if form == "later_file":
        journal.binlog.rotate()
        journal.groups(1)
    journal.row()
    begun = len(journal.records)
    journal.executed, journal.used = Gtids(), Gtids()
    journal.binlog = Binlog(journal)
    journal.binlog.open()
    if form != "equal_head":
        head["checksum"], journal.records[begun]["checksum"] = 1, 2
    journal.groups(2, form="ddl").row()
    result = audit(journal)
    assert result.broken == []
    assert reasons(result).count(REASON) == 1
    assert "redelivered_late" not in reasons(result)
    journal.binlog.rotate()
    journal.groups(2).row()
    assert "executed_within_logged" not in audit(journal).undecided()
    journal.executed.add(f"{UUID_B}:1")
    journal.row()
    assert "executed_within_logged" in audit(journal).broken


@pytest.mark.parametrize("count", [3, 250])
def test_a_log_that_comes_a_second_time_as_it_was_accuses_nobody(count):
    """Of the longer one the beginning is not remembered: the two are not compared."""
    journal = Journal().begin().groups(count)
    journal.row()
    logged = [one for one in journal.records if one["kind"] == "binlog"]
    journal.records += [one | {"ts": journal.ts} for one in logged]
    journal.groups(2).row()
    journal.binlog.rotate()
    journal.groups(2).row()
    result = audit(journal)
    assert result.broken == []
    assert (REASON in reasons(result)) is (count == 250)


def test_a_log_that_is_there_again_after_a_start_has_gone_back():
    """No command does so while the server is down: its files are older ones."""
    journal = Journal().begin().groups(3)
    journal.records[1]["checksum"] = 1
    journal.row()
    journal.binlog.stop()
    journal.record("stop", clean=True)
    journal.start()
    begun = len(journal.records)
    journal.binlog.open(1, "")
    journal.records[begun]["checksum"] = 2
    result = audit(journal)
    assert result.broken == ["log_redelivery_identical"]
    assert REASON not in reasons(result)


@pytest.mark.parametrize(
    ("negative", "kind"),
    [
        ("reset_replica", "channel"),
        ("failover", "channel"),
        ("ignored_server_id", "channel"),
        ("reset_binary_logs", "binlog_reset"),
        ("persister_reset", "binlog_reset"),
    ],
)
def test_fleets_without_records_of_such_commands(negative, kind):
    history = simulate(Scenario(seed=3, negatives=(negative,)))
    lines = chain.from_iterable(map(block_to_lines, history.blocks(BLOCK_RECORDS)))
    kept = [one for one in map(json.loads, lines) if one["kind"] != kind]
    for one in kept:
        del one["sequence"]  # counted anew: nothing is lost
    result = audit_history(blocks_from_lines(map(json.dumps, kept)))
    assert [one.rule for one in result.findings] == []
    assert result.verdict is Verdict.UNDECIDED
    assert REASON in reasons(result)
