"""What a receiver ignores leaves nothing in the relay log: the applier goes on past it."""

from __future__ import annotations

import pytest

from tallystick.coordinates.logs.relay_reader import EVENTS_REMEMBERED
from tests.support.journals import Audited, Journal, Record, RelayLog, audit
from tests.support.rule_cases import apply, replica

IGNORED = 300
FIRST_EVENT = 79
RULE = "applied_coordinates_paired"


def applied_three_groups() -> tuple[Journal, RelayLog, list[list[Record]], tuple[str, int, int]]:
    """A replica, all groups of its source, and where it is: source file and end, relay end."""
    journal, relay, groups = replica(0)
    for group in groups[:3]:
        apply(journal, relay, group)
    assert relay.source is not None
    return journal, relay, groups, (*relay.source, relay.end)


def outcome(result: Audited) -> str:
    """Of the rule, in the last row of the channel."""
    row = [cut for cut in result.cuts if cut.scope == "channel"][-1]
    return {check.rule: check.outcome.value for check in row.checks}[RULE]


@pytest.mark.parametrize(
    ("received", "beyond", "expected"),
    [
        (5, -1, "broken"),
        (5, 0, "holds"),
        (5, IGNORED, "holds"),
        (5, IGNORED + 1, "broken"),
        (5, IGNORED + FIRST_EVENT, "broken"),
        (5, 2 * IGNORED, "broken"),
        (5, 2 * IGNORED + 1, "undecided"),
        (1, IGNORED, "holds"),
        (1, IGNORED + 1, "broken"),
        (2, 2 * IGNORED, "broken"),
        (0, 2 * IGNORED, "holds"),
        (0, 2 * IGNORED + 1, "undecided"),
    ],
)
def test_the_executed_coordinate_may_be_up_to_what_is_received_next(
    received: int, beyond: int, expected: str
) -> None:
    """A group is ignored, and so many events of the next one are in the relay log."""
    journal, relay, groups, (file, end, applied) = applied_three_groups()
    relay.copy(groups[4][:received])
    relay.source = file, end + 2 * IGNORED
    status = journal.replica_status(Relay_Log_Pos=applied, Exec_Source_Log_Pos=end + beyond)
    journal.row(replica_status=status)
    assert outcome(audit(journal)) == expected


def test_the_next_group_counts_though_its_events_are_not_remembered() -> None:
    """As of an applier that is far behind."""
    journal, relay, groups, (_, end, applied) = applied_three_groups()
    origin = Journal("s", groups[0][0]["gtid"].split(":")[0], 3).begin().groups(4)
    origin.groups(EVENTS_REMEMBERED // 5 + 2)
    for group in origin.binlog.groups[4:]:
        relay.copy(group)
    done = {"Relay_Log_Pos": applied, "Exec_Source_Log_Pos": end + 2 * IGNORED}
    journal.row(replica_status=journal.replica_status(**done))
    assert outcome(audit(journal)) == "broken"


@pytest.mark.parametrize(
    ("connection", "resent", "executed", "expected"),
    [
        (("binlog.000002", 4), [], ("binlog.000001", IGNORED), "holds"),
        (("binlog.000002", 4), [4], ("binlog.000001", 2 * IGNORED), "holds"),
        (("binlog.000002", 4), [4], ("binlog.000002", IGNORED), "broken"),
        (("binlog.000001", 4), [], ("binlog.000001", IGNORED), "holds"),
        (("binlog.000001", 4), [0, 1], ("binlog.000001", IGNORED), "holds"),
    ],
)
def test_past_a_new_connection_the_rest_of_the_file_may_be_ignored(
    connection: tuple[str, int], resent: list[int], executed: tuple[str, int], expected: str
) -> None:
    """What follows is of the next file, which the applier has not come to, or comes again."""
    journal, relay, groups, (_, end, applied) = applied_three_groups()
    relay.connect(*connection)
    for number in resent:
        relay.copy(groups[number])
        relay.source = connection[0], relay.source[1] if relay.source else 0
    done = {"Relay_Source_Log_File": executed[0], "Exec_Source_Log_Pos": end + executed[1]}
    journal.row(replica_status=journal.replica_status(Relay_Log_Pos=applied, **done))
    assert outcome(audit(journal)) == expected
