"""Rows of slave_worker_info: what looks wrong and is not, and how far that goes."""

from __future__ import annotations

import pytest

from tallystick.coordinates.logs.relay_reader import EVENTS_REMEMBERED
from tallystick.coordinates.rules.outcomes import HOLDS, Broken, Undecided
from tallystick.coordinates.rules.worker_positions import (
    WorkerPosition,
    WorkersEvidence,
    worker_positions_end_groups,
)
from tallystick.coordinates.values.binlog import WRAP, LogCoordinates
from tests.support.journals import UUID_C, Journal, Record, RelayLog, audit
from tests.support.rule_cases import apply, replica
from tests.support.rule_cases_of_channels import worker_row


def row(journal: Journal, *workers: Record, **status: int) -> None:
    shown = journal.replica_status(**status)
    journal.row(replica_status=shown, slave_worker_info=list(workers))


def far_away(relay: RelayLog) -> Record:
    """As of a relay log before, which had more files."""
    return worker_row(relay, Relay_log_name="./relay.000007", Relay_log_pos=9_999)


@pytest.mark.parametrize(
    "meanwhile", ["idle", "reset", "gap", "relay_log_recovery", "change_source", "not_read"]
)
def test_what_was_not_written_in_this_relay_log_may_be_of_one_before(meanwhile):
    """An idle worker names a relay log that is gone, and one that was configured away stays."""
    journal, relay, more = replica()
    stale = far_away(relay)
    row(journal, stale if meanwhile in ("idle", "not_read") else worker_row(relay))
    if meanwhile == "gap":
        journal.record("gap", channel="")
    elif meanwhile in ("reset", "relay_log_recovery", "change_source"):
        journal.record("channel", channel="", action=meanwhile)
    if meanwhile not in ("idle", "not_read"):
        relay.open(1 if meanwhile != "gap" else 2)
        assert relay.source is not None
        relay.connect(*relay.source)
    elif meanwhile == "not_read":
        journal.row(replica_status=journal.replica_status())
    apply(journal, relay, more[0])
    row(journal, stale)
    assert "worker_positions_end_groups" not in audit(journal).broken


def test_a_worker_may_be_ahead_of_the_coordinator():
    """slave_relay_log_info and SHOW REPLICA STATUS are a low-water mark."""
    journal, relay, more = replica()
    row(journal, worker_row(relay))
    mark, read = relay.end, relay.source
    assert read is not None
    for group in more[:3]:
        relay.copy(group)
    journal.binlog.group(more[2][0]["gtid"], server_id=3)
    row(journal, worker_row(relay), Relay_Log_Pos=mark, Exec_Source_Log_Pos=read[1])
    assert "worker_positions_end_groups" not in audit(journal).broken


def test_what_was_flushed_between_the_readings_comes_later():
    """The receiver was between writing a group and flushing its position when the row was read."""
    journal, relay, more = replica()
    row(journal, worker_row(relay))
    stored = worker_row(relay, Relay_log_pos=relay.end + 300)
    assert relay.source is not None
    stored["Master_log_pos"] = relay.source[1] + 300
    row(journal, stored, Read_Source_Log_Pos=relay.source[1] + 300)
    relay.copy(more[0])
    journal.binlog.group(more[0][0]["gtid"], server_id=3)
    row(journal, stored)
    assert "worker_positions_end_groups" not in audit(journal).broken


def test_rows_without_coordinates_and_of_channels_that_are_gone():
    """A start writes a row of each worker before it has done anything."""
    journal, relay, more = replica()
    row(journal, worker_row(relay))
    apply(journal, relay, more[0])
    empty = worker_row(relay, Relay_log_name="", Relay_log_pos=0, Master_log_name="")
    row(journal, empty, far_away(relay) | {"Channel_name": "gone"})
    assert not audit(journal).broken


def test_what_a_connection_before_has_read_is_read():
    """A new one may begin further back."""
    journal, relay, more = replica()
    row(journal, worker_row(relay))
    apply(journal, relay, more[0])
    row(journal, worker_row(relay), Read_Source_Log_Pos=4)
    assert "worker_positions_end_groups" not in audit(journal).broken


@pytest.mark.parametrize("more_groups", [-1, 0, 1])
def test_what_ends_where_the_remembered_events_begin_may_be_a_group(more_groups):
    """A worker that fell behind has stored the end of the last event that is forgotten."""
    journal, relay, _ = replica()
    row(journal, worker_row(relay))
    count = EVENTS_REMEMBERED // 2 + more_groups
    source = Journal("s", UUID_C, 3).begin().groups(3).groups(1 + count, "ddl")
    first, *later = source.binlog.groups[3:]
    assert len(first) == 2
    apply(journal, relay, first)
    stored = worker_row(relay)
    for group in later:
        apply(journal, relay, group)
    row(journal, stored)
    assert "worker_positions_end_groups" not in audit(journal).broken


# At and beyond each boundary


def relay_at(position: int) -> LogCoordinates:
    return LogCoordinates("relay", 1, position)


def source_at(position: int, base_name: str = "binlog") -> LogCoordinates:
    return LogCoordinates(base_name, 1, position)


def worker(**fields: object) -> WorkerPosition:
    """One that wrote its row since the collection before, at 1000 of both logs."""
    at = {"relay": relay_at(1000), "source": source_at(1000), "is_fresh": True}
    return WorkerPosition(number=1, **at | fields)  # type: ignore[arg-type]


def said_of(*workers: WorkerPosition, **of_channel: object) -> str:
    """The case or the reason, "" where the rule holds."""
    assert worker_positions_end_groups.judge is not None
    answer = worker_positions_end_groups.judge(
        WorkersEvidence(workers=workers, **of_channel)  # type: ignore[arg-type]
    )
    if isinstance(answer, Undecided):
        return answer.reason.code
    if isinstance(answer, Broken):
        return answer.case
    assert answer is HOLDS
    return ""


READ = {"read": source_at(999), "journal_read": source_at(999)}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, "beyond_read"),
        ({"read": None}, ""),
        ({"read": source_at(1000)}, ""),
        ({"read": source_at(999, "other")}, ""),
        ({"journal_read": None}, ""),
        ({"journal_read": source_at(1000)}, ""),
        ({"journal_read": source_at(999, "other")}, ""),
        ({"may_be_former": True}, "coordinates_of_former_source"),
        ({"is_gtid_only": True}, "gtid_only"),
    ],
)
def test_what_a_worker_stored_was_read(changed: dict[str, object], expected: str):
    """By this connection or one before; a channel that had another source may be in its log."""
    assert said_of(worker(), **READ | changed) == expected


@pytest.mark.parametrize(
    ("position", "expected"), [(WRAP - 1, "beyond_read"), (WRAP, "position_wrapped")]
)
def test_relay_logs_name_positions_modulo_4_gib(position: int, expected: str):
    """From there on a position may be one that was read."""
    assert said_of(worker(source=source_at(position)), **READ) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"checkpoint": relay_at(999)}, ""),
        ({"checkpoint": relay_at(1000)}, "before_checkpoint"),
        ({"checkpoint": LogCoordinates("other", 1, 1000)}, ""),
        ({"relay_end": relay_at(999)}, "beyond_relay"),
        ({"ends_no_group": True}, "no_group"),
        ({"others": (relay_at(1000), source_at(900))}, "torn"),
        ({"other_log": "the binary log"}, "of_another_log"),
    ],
)
def test_a_row_that_was_written_since_is_judged(fields: dict[str, object], expected: str):
    """One that nobody wrote since may be of a relay log before, unless it names another log."""
    stale = expected if "other_log" in fields else ""
    assert said_of(worker(**fields)) == expected
    assert said_of(worker(**fields, is_fresh=False)) == stale
    assert said_of(worker(**fields, relay=None)) == ""
    assert said_of(worker(**fields, source=None)) == ""


def test_a_worker_that_is_undecided_hides_no_other():
    """And is not hidden by one that holds."""
    unsure, wrong = worker(source=source_at(WRAP)), worker(ends_no_group=True)
    right = worker(source=source_at(999))
    for workers in ((unsure, right), (right, unsure)):
        assert said_of(*workers, **READ) == "position_wrapped"
    for workers in ((unsure, wrong), (wrong, unsure)):
        assert said_of(*workers, **READ) == "no_group"
