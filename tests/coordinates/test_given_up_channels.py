"""RESET REPLICA ALL before all that was received is executed: named, and nobody is accused."""

from __future__ import annotations

import pytest

from tests.support.journals import UUID_C, Gtids, audit
from tests.support.rule_cases import apply, replica


@pytest.mark.parametrize("rows", [0, 1, 2, 3])
@pytest.mark.parametrize("brings", ["nothing", "itself", "another channel"])
def test_what_a_removed_channel_had_not_executed(brings: str, rows: int) -> None:
    """Once, when a second row lacks it, or at the end: another channel may yet bring it."""
    journal, relay, more = replica()
    journal.row(replica_status=journal.replica_status())
    if brings == "itself":
        apply(journal, relay, more[0])
    else:
        relay.copy(more[0])
    journal.record("channel", channel="", action="reset_all")
    del journal.relays[""]
    journal.row()
    if brings == "another channel":
        journal.record("channel", channel="other", action="change_source", source_uuid=UUID_C)
        other = journal.relay("other", "relay-other")
        other.connect()
        for group in more[:1]:
            apply(journal, other, group)
    for _ in range(rows):
        journal.row()
    result = audit(journal)
    said = [one for one in result.observations if one.reason == "given_up_unexecuted"]
    assert [one.data["missing"] for one in said] == [f"{UUID_C}:4"] * (brings == "nothing")
    assert all(one.is_undecided and one.channel == "" for one in said)
    assert result.broken == []


def test_of_many_the_first_three_say_where() -> None:
    """All of them are in the data."""
    journal, relay, more = replica()
    journal.row(replica_status=journal.replica_status())
    for group in more[:5]:
        relay.copy(group)
    journal.record("channel", channel="", action="reset_all")
    del journal.relays[""]
    for _ in range(2):
        journal.row()
    [said] = [one for one in audit(journal).observations if one.reason == "given_up_unexecuted"]
    assert (said.at, said.data["missing"]) == (f"{UUID_C}:4-6", f"{UUID_C}:4-8")


@pytest.mark.parametrize("is_renamed", [True, False])
@pytest.mark.parametrize("has_row", [True, False])
@pytest.mark.parametrize("receives_more", [True, False])
def test_what_reset_made_the_server_forget_was_not_given_up(
    has_row: bool, receives_more: bool, is_renamed: bool
) -> None:
    """As where a replica is made a server of its own: RESET, and then RESET REPLICA ALL.

    Its relay logs may have another name since (--relay-log), whose numbers count otherwise.
    """
    journal, relay, more = replica()
    journal.row(replica_status=journal.replica_status())
    apply(journal, relay, more[0])
    if has_row:
        journal.row(replica_status=journal.replica_status())
    journal.record("binlog_reset")
    journal.used, journal.executed, journal.binlog.gtids = Gtids(), Gtids(), Gtids()
    journal.binlog.open(1)
    if is_renamed:
        relay.base_name = "renamed"
        relay.open(1)
        relay.connect()
        apply(journal, relay, more[1])
        journal.row(replica_status=journal.replica_status())
    if receives_more:
        relay.copy(more[1 + is_renamed])
    journal.record("channel", channel="", action="reset_all")
    del journal.relays[""]
    for _ in range(3):
        journal.row()
    result = audit(journal)
    said = [one for one in result.observations if one.reason == "given_up_unexecuted"]
    assert [one.data["missing"] for one in said] == [f"{UUID_C}:{5 + is_renamed}"] * receives_more
    assert result.broken == []


def test_what_a_channel_of_one_name_had_twice_not_executed_is_named_together() -> None:
    """It was configured again, and removed when one row had come."""
    journal, relay, more = replica()
    journal.row(replica_status=journal.replica_status())
    relay.copy(more[0])
    journal.record("channel", channel="", action="reset_all")
    journal.record("channel", channel="", action="change_source", source_uuid=UUID_C)
    relay = journal.relay("", "again")
    relay.connect()
    journal.row(replica_status=journal.replica_status())
    relay.copy(more[1])
    journal.record("channel", channel="", action="reset_all")
    del journal.relays[""]
    for _ in range(2):
        journal.row()
    said = [one for one in audit(journal).observations if one.reason == "given_up_unexecuted"]
    assert [one.data["missing"] for one in said] == [f"{UUID_C}:4-5"]
