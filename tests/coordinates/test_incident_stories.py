"""What a DBA tells of an incident, as the journals of all servers: once harmless, once with a loss.

A loss is found, or it is undecided for a reason that is true; what is harmless is not accused.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tallystick.coordinates.results import Verdict
from tests.support.journals import Gtids
from tests.support.stories import SECOND, Link, Server, Story

Told = Callable[[Story, bool], None]
STORIES: list[tuple[Told, set[str], set[str]]] = []
LACKING = {
    "capacity_unknown",
    "gtid_table_not_read",
    "logged_unknown",
    "master_info_unseen",
    "not_listed",
    "not_read",
    "redo_log_not_read",
    "table_not_read",
}
"""Reasons for being undecided that are so in all of these journals."""


def story(harmless: str = "", lost: str = "") -> Callable[[Told], Told]:
    """Enter one, with the rules and the reasons for being undecided that it gives."""

    def enter(told: Told) -> Told:
        STORIES.append((told, set(harmless.split()), set(lost.split())))
        return told

    return enter


@story(lost="applied_relay_gtids_executed")
def binlog_format_is_changed(told: Story, is_lost: bool) -> None:
    """The first group of rows after statements is left out."""
    source, replica = told.pair()
    source.commit(2, "statement")
    source.record("variables", variables={"binlog_format": "ROW"})
    source.commit(2)
    replica.receive()
    replica.apply(skip=(5,) if is_lost else ())
    told.rows()


@story("applied_passed_unlogged applier_not_failed", "applied_passed_unlogged applier_not_failed")
def an_error_is_skipped_by_count(told: Story, is_lost: bool) -> None:
    """sql_replica_skip_counter without GTIDs: one group, or one too many; nobody can say which."""
    source, replica = told.pair("OFF")
    source.commit(4)
    replica.receive()
    replica.administer("stop_applier", errno=1062)
    replica.links[""].status = {"Replica_SQL_Running": "No", "Last_SQL_Errno": 1062}
    told.rows()
    replica.start_replica()
    replica.apply(skip=(3, 4) if is_lost else (3,))
    told.rows()


@story("applied_empty", "applied_relay_gtids_executed")
def a_filter_is_set_on_the_fly(told: Story, is_lost: bool) -> None:
    """What it leaves out is logged without a change, as the group that it was; or not at all."""
    source, replica = told.pair()
    source.commit(3)
    replica.receive()
    replica.apply(**{"skip" if is_lost else "empty": (4,)})
    told.rows()


@story(lost="relay_mirrors_source")
def a_replica_is_upgraded(told: Story, is_lost: bool) -> None:
    """It gives its relay log up at the start, and what was in it is fetched again, or is not."""
    source, replica = told.pair()
    source.commit(3)
    replica.receive()
    replica.apply(until=4)
    replica.version = "8.4.3"
    replica.restart()
    replica.administer("relay_log_recovery")
    replica.begin_relay(2)
    replica.start_replica()
    source.commit()
    replica.receive(skip=(4,) if is_lost else ())
    replica.apply()
    told.rows()


@pytest.mark.parametrize("gtid_mode", ["ON", "OFF"])
@pytest.mark.parametrize("is_lost", [True, False])
def test_binary_logs_expire_while_a_replica_is_stopped(gtid_mode: str, is_lost: bool) -> None:
    """By the set, or by the file that the receiver is in."""
    told = Story()
    source, replica = told.pair(gtid_mode)
    source.commit(2)
    if not is_lost:
        replica.sync()
    replica.stop_replica()
    source.binlog.rotate()
    source.commit()
    source.record("binlog_purge", to_file="s-bin.000002")
    source.purged = f"{source.uuid}:1-5" if gtid_mode == "ON" else ""
    for _ in range(2):
        told.rows()
    assert [one.rule for one in told.audit().findings] == ["purged_not_needed"] * is_lost


@story("purge_in_doubt", "purged_not_needed")
def a_purge_stops_at_a_file_in_use(told: Story, is_lost: bool) -> None:
    """Of another replica: the list shows that what this one needs is still there, or nothing."""
    source, replica = told.pair("OFF")
    source.commit(2)
    replica.stop_replica()
    end = source.binlog.end
    source.binlog.rotate()
    source.commit()
    at = source.record("binlog_purge", to_file="s-bin.000002")["ts"] + 1
    told.ts += SECOND
    sizes = {"s-bin.000001": end + 44, "s-bin.000002": source.binlog.end}
    logs = [{"name": name, "size": size} for name, size in sizes.items()]
    asked = {"requested_at": at, "received_at": at}
    listed = {} if is_lost else {"binary_logs": logs, "binary_logs_again": logs, **asked}
    for _ in range(2):
        told.rows(**listed)


@story(lost="gtid_origin_agreement received_within_source_logged source_coordinate_valid")
def a_virtual_machine_loses_what_was_not_synced(told: Story, is_lost: bool) -> None:
    """sync_binlog=0: the source gives the numbers out again, which the replica has or has not."""
    source, replica = told.pair()
    source.commit(2)
    if is_lost:
        replica.sync()
    source.crash(lost=2)
    source.commit(2)
    replica.links[""].sent = 5 if is_lost else 3
    replica.sync()
    told.rows()


@story(lost="relay_mirrors_source")
def the_disk_of_a_replica_is_full(told: Story, is_lost: bool) -> None:
    """A group is cut in the relay log; after the reconnect it comes again, or does not."""
    source, replica = told.pair()
    source.commit(3)
    replica.receive(until=4)
    relay = replica.relays[""]
    for event in source.logged[4].events[:2]:
        copied = {name: event[name] for name in ("log_pos", "gtid", "query") if name in event}
        relay.event(event["type"], event["length"], server_id=1, **copied)
    replica.administer("reconnect")
    relay.rotate()
    relay.source = None
    replica.receive(skip=(4,) if is_lost else ())
    replica.apply()
    told.rows()


@story(lost="applied_exactly_once")
def a_stored_position_is_old(told: Story, is_lost: bool) -> None:
    """sync_relay_log_info above 1: after a crash a group comes again, by position."""
    source, replica = told.pair("OFF")
    source.commit(2)
    replica.sync()
    replica.crash()
    replica.administer("relay_log_recovery")
    replica.begin_relay(2)
    replica.links[""].sent = 4 if is_lost else 5
    replica.links[""].begun = source.logged[replica.links[""].sent - 1].end
    source.commit()
    replica.sync()
    told.rows()


@story(lost="relay_mirrors_source")
def a_relay_log_is_recovered_too_far_on(told: Story, is_lost: bool) -> None:
    """relay_log_recovery by position: receiving goes on where the applier was, or a group later."""
    source, replica = told.pair("OFF")
    source.commit(2)
    replica.restart()
    replica.administer("relay_log_recovery")
    replica.begin_relay(2)
    link = replica.links[""]
    link.sent = 4 if is_lost else 3
    link.begun = source.logged[link.sent - 1].end
    replica.start_replica()
    replica.sync()
    told.rows()


@story(lost="server_uuid_unique")
def a_snapshot_is_restored_twice(told: Story, is_lost: bool) -> None:
    """With the auto.cnf of the server that it was taken of."""
    source, replica = told.pair()
    copy = told.server("c", replica.uuid if is_lost else "")
    copy.assign(source.uuid, 3)
    copy.follow(source, sent=3)
    source.commit(2)
    for server in (replica, copy):
        server.sync()
    told.rows()


@story(lost="relay_mirrors_source")
def two_channels_bring_the_same(told: Story, is_lost: bool) -> None:
    """A replica of a source and of another replica of it: each group comes by one of the two."""
    source, between = told.pair()
    replica = told.server("b")
    for channel, of in (("a", source), ("b", between)):
        replica.follow(of, channel)
        replica.sync(channel)
    source.commit(3)
    between.sync()
    replica.receive("a", skip=(4,))
    replica.receive("b", skip=(4,) if is_lost else ())
    for channel in "ab":
        replica.apply(channel)
    told.rows()


@story(lost="given_up_unexecuted relay_mirrors_source")
def a_channel_gets_another_name(told: Story, is_lost: bool) -> None:
    """RESET REPLICA ALL gives up what was received; by GTID set it is asked for again."""
    source, replica = told.pair()
    source.commit(2)
    replica.receive()
    replica.stop_replica()
    told.rows()
    replica.leave()
    replica.follow(source, "other", sent=5 if is_lost else 3)
    source.commit()
    replica.sync("other")
    told.rows()


@story(lost="writes_apart")
def both_servers_take_writes(told: Story, is_lost: bool) -> None:
    """Without GTIDs, after a failover; or the old source is attached before it takes any."""
    source, replica = told.pair("OFF")
    replica.leave()
    replica.commit()
    if is_lost:
        source.commit()
    else:
        source.follow(replica, sent=3)
        source.sync()
    told.rows()


@story(lost="executed_before_reset")
def a_replica_is_reset(told: Story, is_lost: bool) -> None:
    """RESET BINARY LOGS AND GTIDS, and SET gtid_purged names what the data have, or nothing."""
    source, replica = told.pair()
    replica.stop_replica()
    replica.reset()
    if not is_lost:
        replica.assign(source.uuid, 3)
    replica.administer("reset")
    replica.begin_relay(1)
    replica.start_replica()
    source.commit()
    replica.sync()
    for _ in range(3):
        told.rows()


@story(lost="executed_before_reset")
def a_replica_is_reset_and_only_rows_show_how(told: Story, is_lost: bool) -> None:
    """A tail sees no SET gtid_purged. Groups that came again and were purged since are no such."""
    source, replica = told.pair()
    replica.stop_replica()
    replica.reset()
    replica.assign(source.uuid, 2 if is_lost else 3, is_seen=False)
    replica.administer("reset")
    replica.begin_relay(1)
    replica.start_replica()
    source.commit()
    replica.sync()
    replica.binlog.rotate()
    told.rows()
    replica.record("binlog_purge", to_file="r-bin.000002")
    replica.purged = f"{source.uuid}:1-4"
    told.rows()


@story(lost="relay_mirrors_source")
def a_prepared_transaction_does_not_come(told: Story, is_lost: bool) -> None:
    """XA: the replica is sent the commit of what it never prepared."""
    source, replica = told.pair()
    source.commit(1, "xa_prepare")
    source.commit()
    replica.receive(skip=(3,) if is_lost else ())
    replica.apply()
    source.commit(1, "xa_commit")
    replica.sync()
    told.rows()


@pytest.mark.parametrize(
    ("recorded", "is_shown"),
    [({}, False), ({"auto_position": False}, False), ({"auto_position": False}, True)],
)
def test_a_channel_may_be_by_position(recorded: dict[str, bool], is_shown: bool) -> None:
    """By its record or by the row: what came before its position was not asked for, then."""
    told = Story()
    source = told.server("s", gtid_mode="ON")
    source.commit(3)
    told.rows()
    replica = told.server("r", gtid_mode="ON")
    known = {"source_instance": "s", "source_uuid": source.uuid}
    replica.administer("change_source", **known, **recorded)
    replica.links[""] = Link(source, is_shown, sent=2, begun=source.logged[1].end)
    replica.start_replica()
    replica.sync()
    told.rows()
    assert said(told) == {"begun_after"}


def crashes(told: Story, server: Server) -> None:
    """It loses a group that no row and no replica has shown, and gives the number out again."""
    server.crash(lost=1)


def gets_other_data(told: Story, server: Server) -> None:
    """Stopped, restored from a backup of the source's first groups, and started."""
    server.stop_replica()
    server.binlog.stop()
    server.record("stop")
    server.start(data_lineage="restored")
    server.executed, server.binlog.gtids, server.logged = Gtids(), Gtids(), []
    server.binlog.open(1)
    server.relays.clear()
    server.assign(told.servers[0].uuid, 3)
    server.follow(told.servers[0], sent=3)


@pytest.mark.parametrize("is_left_out", [True, False])
@pytest.mark.parametrize(
    ("happens", "name", "gtid_mode"),
    [
        (crashes, "s", "ON"),
        (crashes, "s", "OFF"),
        (crashes, "r", "ON"),
        (gets_other_data, "r", "ON"),
    ],
)
def test_a_start_that_is_not_recorded_accuses_nobody(
    happens: Callable[[Story, Server], None], name: str, gtid_mode: str, is_left_out: bool
) -> None:
    """What a crash took, and with which data and settings the server goes on, is not known then."""
    told = Story()
    source, replica = told.pair(gtid_mode)
    source.commit(2)
    if name == "r":
        replica.receive()
        replica.apply()
    begun = len(told.records)
    happens(told, source if name == "s" else replica)
    if name == "r" and happens is crashes:
        replica.administer("relay_log_recovery")
        replica.links[""].applied -= 1
        replica.begin_relay(2)
        replica.links[""].sent = 4
        replica.start_replica()
    if is_left_out:
        told.records.remove(next(r for r in told.records[begun:] if r["kind"] == "start"))
    for _ in range(2):
        source.commit(2)
        replica.sync()
        told.rows()
    result = told.audit()
    assert result.findings == []
    assert (result.verdict is Verdict.UNDECIDED) is is_left_out


def recovered(told: Story, source: Server, stop: dict[str, int], count: int) -> None:
    """Restore an image of the source's first three groups, and replay up to a number of groups."""
    image = {"backup_id": "monday"}
    file, position = source.logged[2].end
    summary = {"binlog_file": file, "binlog_position": position, "tables": []}
    summary |= {"gtid_executed": f"{source.uuid}:1-3"}
    server = told.server("c")
    server.record("start", server_uuid=server.uuid, server_id=3, data_lineage="restored")
    server.binlog.open(1)
    server.assign(source.uuid, 3)
    server.record("backup", step="restore", peer="s", **image, **summary)
    start = {"from_file": file, "from_position": position}
    server.record("backup", step="replay", peer="s", **image, **start, **stop)
    for group in source.logged[3:count]:
        server.binlog.group(group.gtid, group.form, **group.origin)
    file, position = source.logged[count - 1].end
    end = {"to_file": file, "to_position": position, "gtid_executed": f"{source.uuid}:1-{count}"}
    server.record("backup", step="replayed", peer="s", **image, **end)


@pytest.mark.parametrize(
    ("is_timed", "count", "expected"),
    [
        (True, 6, {"restored_image_unseen"}),
        (True, 5, {"restored_image_unseen", "recovery_reaches_stop_point"}),
        (False, 7, {"restored_image_unseen"}),
        (False, 6, {"restored_image_unseen", "no_stop_named"}),
    ],
)
def test_a_recovery_ends(is_timed: bool, count: int, expected: set[str]) -> None:
    """At a time after the sixth of seven groups, or where its files end."""
    told = Story()
    source, replica = told.pair()
    for _ in range(4):
        told.ts += 2 * SECOND
        source.commit()
    replica.sync()
    told.rows()
    committed = source.logged[5].events[0]["original_commit_timestamp"]
    stop = {"stop_time": committed + SECOND} if is_timed else {}
    recovered(told, source, stop, count)
    told.rows()
    assert said(told) == expected


def said(told: Story) -> set[str]:
    """The rules of the findings, and the reasons for which the verdict would be undecided."""
    result = told.audit()
    found = {finding.rule for finding in result.findings}
    found |= {str(seen.reason) for seen in result.observations if seen.is_undecided}
    rows = [cut for cut in result.cuts if cut.verdict == Verdict.UNDECIDED.value]
    found |= {str(check.reason) for cut in rows for check in cut.undecided} - LACKING
    assert bool(found) == (result.verdict is not Verdict.CONSISTENT)
    return found


@pytest.mark.parametrize(
    ("tell", "is_lost", "expected"),
    [
        pytest.param(tell, is_lost, expected, id=f"{tell.__name__}-{is_lost}")
        for tell, *both in STORIES
        for is_lost, expected in zip((False, True), both, strict=True)
    ],
)
def test_a_story(tell: Told, is_lost: bool, expected: set[str]) -> None:
    """As it is told, and with the loss."""
    told = Story()
    tell(told, is_lost)
    assert said(told) == expected
