"""The stored relay log position of a channel, over more than one row."""

from __future__ import annotations

import pytest

from tests.support.journals import audit
from tests.support.rule_cases import replica
from tests.support.rule_cases_of_channels import relay_info


@pytest.mark.parametrize("is_own", [True, False])
def test_the_next_row_asks_no_position_of_a_group_that_is_passed_over(is_own: bool) -> None:
    """A session of the replica has executed an empty transaction under its GTID."""
    journal, relay, more = replica(replica_parallel_workers=0)
    stored = relay_info(relay)
    gtid = more[0][0]["gtid"]
    journal.binlog.group(gtid, form="empty" if is_own else "rows", server_id=2 if is_own else 3)
    relay.copy(more[0])
    for _ in range(2):
        journal.row(replica_status=journal.replica_status(), slave_relay_log_info=stored)
    rule = "relay_info_updated_with_commit"
    assert [one for one in audit(journal).broken if one == rule] == [rule] * (not is_own)
