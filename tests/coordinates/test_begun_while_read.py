"""An answer is read part by part; a channel or the binary log may begin anew in between."""

from collections.abc import Callable

import pytest

from tallystick.coordinates.audit.instance import InstanceAudit
from tallystick.coordinates.events.json_lines import blocks_from_lines
from tallystick.coordinates.results import Verdict
from tests.support.journals import UUID_B, UUID_C, Gtids, Journal, Record, audit
from tests.support.rule_cases import apply, replica, source
from tests.support.rule_cases_of_channels import master_info, relay_info, worker_row

BEFORE_THE_ROW = (
    "gtid_executed_first",
    "gtid_executed_table",
    "slave_master_info",
    "slave_relay_log_info",
    "slave_worker_info",
    "binary_logs",
    "gtid_purged",
    "replica_status",
)
"""As docs/journal.md has the order of reading."""


def channel_begins_anew(action: str) -> Callable[[Journal, list[Record]], None]:
    """RESET REPLICA or CHANGE REPLICATION SOURCE; the receiver has read a group since then."""

    def begin(journal: Journal, group: list[Record]) -> None:
        source = {"source_uuid": group[0]["gtid"][:36]} if action == "change_source" else {}
        journal.record("channel", channel="", action=action, **source)
        relay = journal.relay(number=1 if action == "reset" else 5)
        relay.connect(position=group[0]["start"])
        apply(journal, relay, group)

    return begin


def channel_is_removed(journal: Journal, _: list[Record]) -> None:
    """RESET REPLICA ALL."""
    journal.record("channel", channel="", action="reset_all")
    del journal.relays[""]


def binlog_begins_anew(journal: Journal, _: list[Record]) -> None:
    """RESET BINARY LOGS AND GTIDS."""
    journal.record("binlog_reset")
    journal.executed, journal.binlog.gtids, journal.purged = Gtids(), Gtids(), ""
    journal.binlog.open(1)


BEGIN = {
    "reset": channel_begins_anew("reset"),
    "change_source": channel_begins_anew("change_source"),
    "reset_all": channel_is_removed,
    "binlog_reset": binlog_begins_anew,
}


def beside(journal: Journal, *, has_workers: bool) -> Record:
    """What a server has beside the row, now."""
    relay = journal.relays.get("")
    shown = {
        "gtid_executed_first": str(journal.executed),
        "gtid_executed_table": str(journal.executed),
        "slave_master_info": [] if relay is None else master_info(relay),
        "slave_relay_log_info": [] if relay is None else relay_info(relay),
        "slave_worker_info": [] if relay is None else [worker_row(relay)],
        "binary_logs": [{"name": journal.binlog.file, "size": journal.binlog.end}],
        "gtid_purged": journal.purged,
        "replica_status": journal.replica_status(),
    }
    if not has_workers:
        del shown["slave_worker_info"]
    return shown


def answered(begin: str, first_after: int, *, has_workers: bool, is_timed: bool = True) -> Journal:
    """An answer of which the parts from the given one on were read after something began anew.

    Without the moment when its observer had the request the one when that was made counts.
    """
    journal, relay, more = replica(replica_parallel_workers=2 if has_workers else 0)
    journal.purged = str(journal.executed)
    journal.binlog.rotate()
    journal.record("binlog_purge", to_file=journal.binlog.file)
    journal.wait(5)
    journal.row(received_at=journal.ts - 300, **beside(journal, has_workers=has_workers))
    apply(journal, relay, more[0])
    journal.wait(5)
    early = beside(journal, has_workers=has_workers)
    received_at = journal.ts + 1_000
    BEGIN[begin](journal, more[1])
    late = beside(journal, has_workers=has_workers)
    read = {
        name: (late if number >= first_after else early)[name]
        for number, name in enumerate(BEFORE_THE_ROW)
        if name in late
    }
    times = {"received_at": received_at} if is_timed else {}
    journal.row(requested_at=received_at, **times, **read)
    return journal


@pytest.mark.parametrize("is_timed", [True, False])
@pytest.mark.parametrize("has_workers", [True, False])
@pytest.mark.parametrize("first_after", range(1, len(BEFORE_THE_ROW) + 1))
@pytest.mark.parametrize("begin", BEGIN)
def test_parts_of_two_moments_bring_no_finding(begin, first_after, has_workers, is_timed):
    """Nothing is found but what is found of an answer that was read after it as a whole."""
    how = {"has_workers": has_workers, "is_timed": is_timed}
    expected = ["applied_relay_gtids_executed"] if begin == "binlog_reset" else []
    assert audit(answered(begin, 0, **how)).broken == expected
    assert audit(answered(begin, first_after, **how)).broken == expected


@pytest.mark.parametrize("went_on", [True, False])
def test_a_status_that_is_said_to_be_of_the_new_channel_is_judged(went_on):
    """A writer that sees no commands knows by it that only the info tables may be older."""
    journal = answered("reset", 3, has_workers=True)
    journal.records[-1]["channels_went_on"] = went_on
    found = audit(journal)
    assert found.broken == []
    undecided = found.undecided("channel")
    assert ("retrieved_matches_relay" in undecided) is not went_on
    assert "master_info_not_ahead_of_relay" in undecided


def test_an_error_that_came_meanwhile_is_no_row_that_was_read_before():
    """It answers another request, and says nothing of when the row was asked for."""
    journal = answered("reset", len(BEFORE_THE_ROW), has_workers=False, is_timed=False)
    row = journal.records.pop()
    journal.record("log_status", collection_id="later", error={"timed_out": True})
    journal.records.append(row | {"ts": journal.ts + 1_000})
    assert audit(journal).broken == []


@pytest.mark.parametrize("behind_us", [0, 5_000_000])
def test_what_began_before_the_request_was_received_is_known_by_the_clock_that_both_had(behind_us):
    """The answer shows that this clock is behind, and all is read of its channel."""
    journal, _, _ = replica()
    journal.row(requested_at=journal.ts, received_at=journal.ts)
    journal.wait(1)
    action = {"channel": "", "action": "change_source", "source_uuid": UUID_C}
    journal.record("channel", **action)
    journal.relay(number=5).connect()
    times = {"requested_at": journal.ts + behind_us, "received_at": journal.ts}
    journal.row(replica_status=journal.replica_status(), **times)
    open_ones = audit(journal).undecided("channel")
    assert "retrieved_matches_relay" not in open_ones


def test_by_a_clock_of_who_asks_that_is_behind_nothing_is_older_than_the_row_before():
    """Half a minute earlier, says the request: before the channel began."""
    journal = Journal("a", UUID_B, 2).begin().wait(40)
    journal.record("channel", channel="", action="change_source", source_uuid=UUID_C)
    journal.relay().connect()
    for _ in range(2):
        journal.wait(10)
        asked = journal.ts - 30_000_000
        journal.row(replica_status=journal.replica_status(), requested_at=asked)
    of_channel = [cut for cut in audit(journal).cuts if cut.scope == "channel"]
    undecided = [{check.rule for check in cut.undecided} for cut in of_channel]
    assert ["retrieved_matches_relay" in rules for rules in undecided] == [True, False]


def test_what_never_began_did_not_begin_while_the_first_row_was_read():
    """When that was asked for is not known: it was received before it was sent."""
    journal = source().wait(1)
    journal.row(requested_at=journal.ts + 500_000)
    assert "purged_within_executed" not in audit(journal).undecided()


@pytest.mark.parametrize("begin", ["reset", "binlog_reset"])
def test_a_row_that_waits_is_saved_with_what_has_begun_anew(begin):
    """Its state is written, and read back, before the journal reaches its coordinates."""
    journal = answered(begin, len(BEFORE_THE_ROW), has_workers=True)
    row = journal.records[-1]
    journal.binlog.group(server_id=2)
    row["row"]["LOCAL"] = journal.row()["row"]["LOCAL"]
    size = journal.records.index(row) + 1
    before, after = blocks_from_lines(journal.lines()[:-1], block_size=size)
    went_on = InstanceAudit("a")
    went_on.absorb(before)
    assert went_on.waiting
    read_back = InstanceAudit.from_bytes(went_on.to_bytes(), "a")
    outputs = [one.absorb(after) for one in (went_on, read_back)]
    assert outputs[0].cuts == outputs[1].cuts != []
    assert outputs[0].findings == outputs[1].findings


def test_an_error_that_overtakes_an_answer_does_not_make_its_row_old():
    """Requests are answered side by side: the later one may fail before the earlier is read."""
    journal = source().wait(5)
    first, second = journal.ts - 300, journal.ts - 100
    row = journal.row()["row"]
    del journal.records[-1]
    journal.groups(1)
    times = {"requested_at": second, "received_at": second}
    journal.record("log_status", collection_id="later", error={"timed_out": True}, **times)
    journal.row(requested_at=first, received_at=first).update(row=row)
    assert audit(journal).verdicts[-1] == Verdict.CONSISTENT


@pytest.mark.parametrize("begin", BEGIN)
def test_a_row_that_waits_for_what_has_gone_is_undecided(begin):
    """Records of one time: what the row names was to come after it, and its files are removed."""
    journal, relay, more = replica()
    relay.flushed = relay.file, relay.end + 400
    row = journal.row(replica_status=journal.replica_status())
    row["row"]["LOCAL"]["binary_log_position"] += 400
    BEGIN[begin](journal, more[0])
    for group in more[1:]:
        journal.binlog.group()
        for channel in journal.relays.values():
            apply(journal, channel, group)
    for one in journal.records:
        one["ts"] = min(one["ts"], row["ts"])
    result = audit(journal)
    assert result.broken == []
    assert "row_not_reached" in [one.reason for one in result.observations]
