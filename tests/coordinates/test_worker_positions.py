"""Rows of slave_worker_info that look wrong and are not."""

from __future__ import annotations

import pytest

from tests.support.journals import Journal, Record, RelayLog, audit
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
