"""Relay log files that do not name the source's file: journals that begin with one of them."""

from __future__ import annotations

import pytest

from tallystick.coordinates.audit.replay import AuditResult
from tallystick.coordinates.values.binlog import WRAP
from tests.coordinates.test_moved_channels import answer, audited, pass_time
from tests.support.journals import UUID_A, UUID_B, Audited, Journal, RelayLog, audit

WRONG = f"{UUID_B}:99"


def replayed(*, file: str = "", names: str = "", gtid: str = "") -> AuditResult:
    """A replica's journal begins in its third relay log file, at the source's last two groups.

    Args:
        file: The source's file that the ``flush_relay_logs`` record names; empty: no record.
        names: The file that the relay log itself names before them; empty: none.
        gtid: Of the last group in the relay log; empty: as in the source's.
    """
    source, replica = Journal("s"), Journal("r", UUID_B, 2)
    for each in (source, replica):
        each.begin()
    groups = [source.binlog.group() for _ in range(5)]
    channel = {"channel": "", "source_instance": "s", "source_uuid": UUID_A}
    replica.record("channel", action="change_source", **channel)
    if file:
        named = {"source_log_file": file, "source_log_pos": groups[3][0]["start"]}
        replica.record("channel", channel="", action="flush_relay_logs", **named)
    relay = replica.relays[""] = RelayLog(replica, "", "relay", 3)
    for group in groups[:3]:
        relay.gtids.add(group[0]["gtid"])
    relay.open()
    if names:
        relay.connect(names, groups[3][0]["start"])
    for gno, group in enumerate(groups, 1):
        if gno > 3:
            wrong = gno == 5 and gtid
            relay.copy([{**group[0], "gtid": gtid}, *group[1:]] if wrong else group)
        origin = {key: group[0][key] for key in ("server_id", "original_commit_timestamp")}
        replica.binlog.group(group[0]["gtid"], **origin)
    pass_time(source, replica)
    answer(replica, source, source=source)
    return audited(source, replica)


def is_undecided(result: AuditResult) -> bool:
    return any("relay_mirrors_source" in one.rules for one in result.observations)


def found(result: AuditResult) -> list[str]:
    return [one.rule for one in result.findings]


@pytest.mark.parametrize(
    ("file", "names", "undecided"),
    [
        ("", "", True),
        ("", "binlog.000001", False),
        ("binlog.000001", "", False),
        ("binlog.000007", "binlog.000001", False),
        ("binlog.000007", "", True),
    ],
)
def test_groups_are_compared_once_their_file_is_named(file: str, names: str, undecided: bool):
    """By the record, or by a ROTATE, which counts after it."""
    result = replayed(file=file, names=names)
    assert ([], undecided) == (found(result), is_undecided(result))


def test_a_group_that_the_source_has_not_is_found_by_the_file_that_is_named():
    assert "relay_mirrors_source" not in found(replayed(gtid=WRONG))
    assert "relay_mirrors_source" in found(replayed(file="binlog.000001", gtid=WRONG))


def test_a_file_that_is_known_already_is_not_named_anew():
    """Where the relay log has been read, its own ROTATE events have named it."""
    source, replica = Journal("s"), Journal("r", UUID_B, 2)
    for each in (source, replica):
        each.begin()
    channel = {"channel": "", "source_instance": "s", "source_uuid": UUID_A}
    replica.record("channel", action="change_source", **channel)
    relay = replica.relay()
    relay.connect()
    named = {"source_log_file": "binlog.000007", "source_log_pos": 4}
    for number in range(4):
        group = source.binlog.group()
        relay.copy(group)
        origin = {key: group[0][key] for key in ("server_id", "original_commit_timestamp")}
        replica.binlog.group(group[0]["gtid"], **origin)
        if number == 1:
            relay.rotate()
            replica.record("channel", channel="", action="flush_relay_logs", **named)
    pass_time(source, replica)
    answer(replica, source, source=source)
    result = audited(source, replica)
    assert ([], False) == (found(result), is_undecided(result))


def begun_after(position: int, stored: int = 0) -> Audited:
    """A row before anything is received into the file that the relay log has rotated to."""
    replica = Journal("r", UUID_B, 2).begin()
    replica.record("channel", channel="", action="change_source", source_uuid=UUID_A)
    named = {"source_log_file": "binlog.000001", "source_log_pos": position}
    replica.record("channel", channel="", action="flush_relay_logs", **named)
    relay = replica.relays[""] = RelayLog(replica, "", "relay", 3)
    relay.gtids.add(f"{UUID_A}:1")
    relay.open()
    relay.source = "binlog.000001", position
    status = replica.replica_status(Source_UUID=UUID_A)
    info = {"Channel_name": "", "Master_log_name": "binlog.000001", "Master_log_pos": stored}
    replica.row(replica_status=status, slave_master_info=[info] if stored else [])
    return audit(replica)


def test_what_was_read_before_is_what_the_record_says():
    """More may have been read than the files show that were seen, as with any that begin later."""
    result = begun_after(9_000)
    assert result.broken == []
    assert "exec_source_pos_within_read" not in result.undecided("channel")
    assert begun_after(9_000, stored=9_500).broken == []


def test_positions_beyond_4_gib_go_on_from_the_record():
    """Relay logs have the lower 32 bits of a position."""
    replica = Journal("r", UUID_B, 2).begin()
    replica.record("channel", channel="", action="change_source", source_uuid=UUID_A)
    named = {"source_log_file": "binlog.000001", "source_log_pos": WRAP + 500}
    replica.record("channel", channel="", action="flush_relay_logs", **named)
    relay = replica.relay()
    relay.event("ANONYMOUS_GTID", 79, log_pos=579)
    assert audit(replica).audit.relays[""].source_end == WRAP + 579
