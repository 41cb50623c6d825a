"""The stored relay log position of a channel, over more than one row."""

from __future__ import annotations

import pytest

from tests.support.journals import audit
from tests.support.rule_cases import replica
from tests.support.rule_cases_of_channels import relay_info


@pytest.mark.parametrize(("is_own", "is_followed"), [(True, False), (False, False), (True, True)])
def test_the_next_row_asks_no_position_of_a_group_that_is_passed_over(
    is_own: bool, is_followed: bool
) -> None:
    """A session of the replica has executed an empty transaction under its GTID."""
    journal, relay, more = replica(replica_parallel_workers=0)
    stored = relay_info(relay)
    gtid = more[0][0]["gtid"]
    journal.binlog.group(gtid, form="empty" if is_own else "rows", server_id=2 if is_own else 3)
    relay.copy(more[0])
    if is_followed:
        journal.binlog.group(more[1][0]["gtid"], server_id=3)
        relay.copy(more[1])
    for _ in range(2):
        journal.row(replica_status=journal.replica_status(), slave_relay_log_info=stored)
    rule = "relay_info_updated_with_commit"
    assert [one for one in audit(journal).broken if one == rule] == [rule] * (
        is_followed or not is_own
    )


def test_no_group_of_a_relay_log_of_another_name_has_committed() -> None:
    """The positions of the row are in a log that was not observed, those of the groups are not."""
    journal, relay, more = replica(replica_parallel_workers=0)
    (stored,) = relay_info(relay)
    relay.copy(more[0])
    journal.binlog.group(more[0][0]["gtid"], server_id=3)
    other = relay.file.replace(relay.base_name, "other")
    row = stored | {"Relay_log_name": other}
    for _ in range(2):
        status = journal.replica_status(Relay_Log_File=other)
        journal.row(replica_status=status, slave_relay_log_info=[row])
    result = audit(journal)
    assert result.broken == []
    assert "relay_info_updated_with_commit" in result.undecided("channel")
