"""Channels that are moved to another source, as journals of several servers."""

from __future__ import annotations

import json

import pytest

from tallystick.coordinates.audit.replay import AuditResult, audit_history
from tallystick.coordinates.audit.replica import FormerRead
from tallystick.coordinates.events.json_lines import blocks_from_lines
from tallystick.coordinates.rules.explanation import explain
from tests.support.journals import UUID_A, UUID_B, UUID_C, Journal, Record, RelayLog

Fleet = tuple[Journal, Journal, Journal]


def audited(*journals: Journal) -> AuditResult:
    records = sorted((one for each in journals for one in each.records), key=lambda one: one["ts"])
    return audit_history(blocks_from_lines(map(json.dumps, records), end_heartbeats=True))


def pass_time(*journals: Journal, seconds: float = 20) -> None:
    """All journals come to one time."""
    ts = max(one.ts for one in journals) + int(seconds * 1_000_000)
    for each in journals:
        each.ts = ts
        each.record("heartbeat")


def take(replica: Journal, relay: RelayLog, groups: list[list[Record]]) -> None:
    """Receive and apply groups."""
    for group in groups:
        relay.copy(group)
        origin = {key: group[0][key] for key in ("server_id", "original_commit_timestamp")}
        replica.binlog.group(group[0]["gtid"], **origin)


def follow(replica: Journal, source: Journal, *, by_gtids: bool = True) -> RelayLog:
    change = {"source_instance": source.instance, "source_uuid": source.uuid}
    replica.record("channel", channel="", action="change_source", auto_position=by_gtids, **change)
    for thread in ("receiver", "applier"):
        replica.record("channel", channel="", action=f"start_{thread}")
    return replica.relay()


def answer(*journals: Journal, source: Journal, by_gtids: bool = True) -> None:
    """All answer, the replica, whose source is named, first."""
    status = {"Source_UUID": source.uuid, "Auto_Position": int(by_gtids)}
    for each in journals:
        each.row(replica_status=each.replica_status(**status), gtid_owned="")
    pass_time(*journals)


def chain(*, by_gtids: bool) -> Fleet:
    """A source with five groups, its replica that has all, and a replica of that with three."""
    source, middle = Journal("s"), Journal("m", UUID_B, 2)
    replica = Journal("r", UUID_C, 3)
    for each in (source, middle, replica):
        each.begin()
    source.groups(5)
    for each, of, count in ((middle, source, 5), (replica, middle, 3)):
        pass_time(source, middle, replica)
        relay = follow(each, of, by_gtids=by_gtids)
        relay.connect()
        take(each, relay, of.binlog.groups[:count])
    pass_time(source, middle, replica)
    return source, middle, replica


@pytest.mark.parametrize("first", [3, 4])
def test_a_replica_is_moved_up_by_position(first: int) -> None:
    """Its intermediate source died. A group further leaves out one that nothing will bring."""
    source, middle, replica = chain(by_gtids=False)
    answer(replica, source, source=middle, by_gtids=False)
    relay = follow(replica, source, by_gtids=False)
    relay.open(2)
    begin = source.binlog.groups[first][0]
    relay.connect(position=begin["start"])
    take(replica, relay, source.binlog.groups[first:])
    pass_time(source, replica)
    for _ in range(2):
        answer(replica, source, source=source, by_gtids=False)
    found = [(one.rule, one.witness) for one in audited(source, middle, replica).findings]
    lost = [("applied_relay_gtids_executed", f"{UUID_A}:4")]
    assert found == lost * (first == 4)


@pytest.mark.parametrize("promoted_has", [2, 3])
def test_rows_alone_say_which_server_is_behind_the_address(promoted_has: int) -> None:
    """SOURCE_CONNECTION_AUTO_FAILOVER, or a virtual address, and no CHANGE REPLICATION SOURCE."""
    source, promoted = Journal("s"), Journal("t", UUID_B, 2)
    replica = Journal("r", UUID_C, 3)
    for each in (source, promoted, replica):
        each.begin()
    source.groups(3)
    pass_time(source, promoted, replica)
    for each, count in ((promoted, promoted_has), (replica, 3)):
        relay = follow(each, source)
        relay.connect()
        take(each, relay, source.binlog.groups[:count])
    pass_time(source, promoted, replica)
    answer(replica, promoted, source, source=source)
    promoted.record("channel", channel="", action="reset_all")
    promoted.relays.clear()
    promoted.groups(1)
    pass_time(source, promoted, replica)
    relay = replica.relays[""]
    relay.rotate()
    relay.connect()
    take(replica, relay, promoted.binlog.groups[-1:])
    for _ in range(2):
        answer(replica, promoted, source=promoted)
    result = audited(source, promoted, replica)
    lost = (
        f"The replica has executed {UUID_A}:3, which its source t has neither executed nor logged."
    )
    assert [explain(one).sentence for one in result.findings] == [lost] * (promoted_has == 2)
    assert "source_is_another_server" not in {one.reason for one in result.observations}


@pytest.mark.parametrize(
    ("left_out", "equal_ids", "found", "undecided"),
    [
        (None, False, [], False),
        (0, False, ["relay_mirrors_source"], False),
        (1, False, ["relay_mirrors_source"], False),
        (None, True, ["server_id_unique_in_topology"], True),
    ],
)
def test_what_came_before_the_row_that_names_another_server(
    left_out: int | None, equal_ids: bool, found: list[str], undecided: bool
) -> None:
    """By its server_id it is compared with the server that has sent it."""
    source, promoted = Journal("s"), Journal("t", UUID_B, 1 if equal_ids else 2)
    replica = Journal("r", UUID_C, 3)
    for each in (source, promoted, replica):
        each.begin()
    source.groups(3)
    pass_time(source, promoted, replica)
    for each, count in ((promoted, 3), (replica, 1)):
        relay = follow(each, source)
        connect(relay, source)
        take(each, relay, source.binlog.groups[:count])
    pass_time(source, promoted, replica)
    answer(replica, promoted, source, source=source)
    relay = replica.relays[""]
    take(replica, relay, source.binlog.groups[1:])
    promoted.record("channel", channel="", action="reset_all")
    promoted.relays.clear()
    promoted.groups(3)
    pass_time(source, promoted, replica)
    relay.rotate()
    connect(relay, promoted)
    sent = promoted.binlog.groups[3:]
    take(replica, relay, [group for number, group in enumerate(sent) if number != left_out])
    for _ in range(2):
        answer(replica, promoted, source, source=promoted)
    result = audited(source, promoted, replica)
    assert sorted({one.rule for one in result.findings}) == found
    said = {one.reason for one in result.observations}
    assert ("queued_between_sources" in said) is undecided


@pytest.mark.parametrize("left_out", [0, 1])
def test_what_the_former_source_sent_before_that_row_is_compared_with_its_log(
    left_out: int,
) -> None:
    """The new source never had these groups, so that they are errant too."""
    source, promoted, replica = Journal("s"), Journal("t", UUID_B, 2), Journal("r", UUID_C, 3)
    for each in (source, promoted, replica):
        each.begin()
    source.groups(1)
    pass_time(source, promoted, replica)
    relay = follow(replica, source)
    connect(relay, source)
    take(replica, relay, source.binlog.groups)
    pass_time(source, promoted, replica)
    answer(replica, promoted, source, source=source)
    source.groups(2)
    take(replica, relay, source.binlog.groups[1 + left_out :])
    pass_time(source, promoted, replica)
    relay.rotate()
    connect(relay, promoted)
    for _ in range(2):
        answer(replica, promoted, source, source=promoted)
    result = audited(source, promoted, replica)
    found = {one.rule for one in result.findings}
    assert ("relay_mirrors_source" in found) == bool(left_out)


def connect(relay: RelayLog, source: Journal) -> None:
    """A connection that names the server that it is to."""
    relay.connect()
    for event in relay.journal.records[-2:]:
        event["server_id"] = source.server_id


def attached_again(*, is_lost: bool, hides: str = "") -> AuditResult:
    """A source crashes, its replica is promoted and writes, and the old source replicates from it.

    Args:
        is_lost: Whether the crash takes two groups from the source that the replica has.
        hides: "gap": its journal has one after the crash.
    """
    source, promoted = Journal("s"), Journal("t", UUID_B, 2)
    for each in (source, promoted):
        each.begin()
    source.groups(5)
    pass_time(source, promoted)
    relay = follow(promoted, source)
    relay.connect()
    take(promoted, relay, source.binlog.groups)
    pass_time(source, promoted)
    promoted.record("channel", channel="", action="reset_all")
    del promoted.relays[""]
    kept = source.binlog.groups[2 if is_lost else 4][-1]
    end = {"file": kept["file"], "position": kept["start"] + kept["length"]}
    if is_lost:
        for group in source.binlog.groups[3:]:
            source.executed.remove(group[0]["gtid"])
            source.binlog.gtids.remove(group[0]["gtid"])
    source.start(crashed=True, recovered=end)
    source.binlog.open(2)
    if hides == "gap":
        source.record("gap")
        source.binlog.rotate()
    promoted.groups(2)
    pass_time(source, promoted)
    relay = follow(source, promoted)
    relay.connect(position=promoted.binlog.groups[5][0]["start"])
    take(source, relay, promoted.binlog.groups[5:])
    for _ in range(2):
        pass_time(source, promoted)
        status = {"Source_UUID": promoted.uuid, "Auto_Position": 1}
        source.row(replica_status=source.replica_status(**status), gtid_owned="")
        promoted.row(gtid_owned="")
    return audited(source, promoted)


def test_what_a_source_has_lost_of_its_own_does_not_come_back() -> None:
    """Its receiver ignores what was written under its own server_id, and all threads are well."""
    [finding] = attached_again(is_lost=True).findings
    assert (finding.rule, finding.case) == ("applied_relay_gtids_executed", "own_lost")
    assert finding.witness == f"{UUID_A}:4-5"
    assert "do not come back" in explain(finding).sentence
    assert not attached_again(is_lost=False).findings


def test_behind_a_gap_a_reset_may_have_made_it_forget_its_own() -> None:
    result = attached_again(is_lost=True, hides="gap")
    assert not result.findings
    assert "own_may_commit" in {one.check.reason for one in result.checks}


@pytest.mark.parametrize(
    ("read", "may_be"),
    [
        (("b.000002", 100), True),
        (("b.000002", 101), True),
        (("b.000003", 4), True),
        (("b.000002", 99), False),
        (("b.000001", 500), False),
        (("c.000003", 4), False),
        (("", 4), False),
        (("of another form", 4), True),
        (None, True),
    ],
)
def test_coordinates_of_the_former_source_are_where_it_was_or_later(read, may_be) -> None:
    """In the first row since; in later ones they are the same as in that."""
    assert FormerRead(("b.000002", 100)).may_be(read) is may_be
    assert FormerRead(None).may_be(read)
    for first in (("b.000002", 100), ("b.000003", 4)):
        later = FormerRead(("b.000002", 100), first).may_be(read)
        assert later is (may_be and read == first)
