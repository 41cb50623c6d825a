"""Which file of the source a relay log goes on with, by what was read of it and by its events."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest

from tallystick.coordinates.events.journal import FLAG_ARTIFICIAL, FLAG_RELAY_LOG
from tallystick.coordinates.values.binlog import WRAP, EventType, LogCoordinates
from tallystick.producers.mysql.event_runs import Events, read_events
from tallystick.producers.mysql.source_file import where_it_goes_on
from tests.producers.mysql.test_binlog_events import event

XID_LENGTH = 31


def at(position: int, base_name: str = "binlog") -> LogCoordinates:
    return LogCoordinates(base_name, 7, position)


def xid(log_pos: int, flags: int = 0) -> bytes:
    return event(EventType.XID, bytes(8), log_pos=log_pos % WRAP, flags=flags)


def rotate(name: str, flags: int = 0) -> bytes:
    body = struct.pack("<Q", 4) + name.encode()
    return event(EventType.ROTATE, body, flags=flags)


HEAD = (
    event(EventType.PREVIOUS_GTIDS, struct.pack("<Q", 0), log_pos=900, flags=FLAG_RELAY_LOG),
    event(EventType.STOP, b"", log_pos=900),
)


def read(*events: bytes) -> list[Events]:
    """As a relay log is read: events of one type that follow each other in one step."""
    found: list[Events] = []
    for each in events:
        found += read_events(
            each, [0], [len(each)], start=4, file="relay.000003", checksum_length=4
        )
    return found


@pytest.mark.parametrize(
    ("events", "position", "begin"),
    [
        ((), 900, 900),
        ((xid(700), xid(731), xid(762)), 762, 700 - XID_LENGTH),
        ((xid(700), xid(731), xid(762)), 731, 700 - XID_LENGTH),
        ((xid(700), xid(731)), 700 - XID_LENGTH, None),
        ((xid(700), xid(731)), 750, None),
        ((xid(700), xid(0), xid(731)), 731, None),
        ((xid(WRAP - 5), xid(WRAP + 26)), WRAP + 26, WRAP - 5 - XID_LENGTH),
        ((xid(WRAP + 10),), WRAP + 10, WRAP + 10 - XID_LENGTH),
        ((rotate("binlog.000008"),), 900, None),
        ((rotate("binlog.000008"), xid(700)), 700, None),
        ((xid(700), rotate("binlog.000008")), 700, 700 - XID_LENGTH),
        ((xid(669), rotate("binlog.000008"), xid(700)), 700, None),
        ((rotate("relay.000004"), xid(700)), 700, 700 - XID_LENGTH),
        ((rotate("relay.000004", FLAG_RELAY_LOG),), 900, 900),
    ],
)  # fmt: skip
def test_where_a_relay_log_goes_on(events: Sequence[bytes], position: int, begin: int | None):
    """What was read is proven by an event that ends there, or by nothing of the source so far."""
    expected = None if begin is None else at(begin)
    assert where_it_goes_on(read(*HEAD, *events), "relay", at(position)) == expected


def test_a_run_of_events_is_read_as_its_columns():
    data = b"".join(map(xid, (700, 731, 762)))
    run = read_events(
        data, [0, 31, 62], [31, 31, 31], start=4, file="relay.000003", checksum_length=4
    )
    assert len(run) == 1
    assert where_it_goes_on(run, "relay", at(731)) == at(700 - XID_LENGTH)


def test_events_that_were_lost_may_have_named_another_file():
    assert where_it_goes_on([None, *read(xid(700))], "relay", at(700)) is None


def test_a_rotate_is_the_relay_logs_own_by_its_flag_where_both_logs_have_one_name():
    """Source and replica may call their files alike."""
    for flags, begin in ((0, None), (FLAG_ARTIFICIAL, None), (FLAG_RELAY_LOG, 700 - XID_LENGTH)):
        events = read(rotate("same.000004", flags), xid(700))
        expected = None if begin is None else at(begin, "same")
        assert where_it_goes_on(events, "same", at(700, "same")) == expected
