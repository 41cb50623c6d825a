"""When events of relay logs are recorded: never at an earlier time than they were received."""

from __future__ import annotations

import struct
import time
from collections import deque
from pathlib import Path

import pytest

from tallystick.coordinates.events.journal import RecordType, concatenate
from tallystick.coordinates.values.binlog import EventType
from tallystick.producers.mysql.relay_logs import RelayLogs
from tallystick.producers.mysql.tail_journal import TailJournal
from tallystick.producers.mysql.tail_state import TailState
from tallystick.producers.publisher import MemorySink
from tests.producers.mysql.test_binlog_events import event
from tests.producers.mysql.test_tail_parts import HEAD


def test_a_reset_of_one_channel_tells_nothing_of_another(tmp_path: Path) -> None:
    """What the other has received meanwhile waits: its source may have logged it later."""
    journal = TailJournal(
        "hub", MemorySink(), TailState(epoch=1), state_file=None, clock=time.monotonic
    )
    recorded: list[tuple[RecordType, object]] = []
    journal.server_record = lambda kind, body: recorded.append((kind, body.get("channel")))
    relays = RelayLogs(tmp_path, journal, lambda _: None, clock_us=lambda: 900)
    # An event that was lost is reported as a gap.
    for channel in ("one", "two"):
        relays._waiting[channel] = deque([(500, None)])
    relays.administer([{"channel": "one", "action": "reset"}])
    assert [(RecordType.GAP, "one"), (RecordType.CHANNEL, "one")] == recorded
    relays.record(499)
    assert 2 == len(recorded)
    relays.record(500)
    assert [(RecordType.GAP, "two")] == recorded[2:]


GROUP = (
    (EventType.GTID, struct.pack("<B16sqBqq", 1, bytes(16), 5, 2, 4, 5) + bytes(7) + b"\x10"),
    (EventType.TABLE_MAP, bytes(9)),
    (EventType.WRITE_ROWS, bytes(30)),
    (EventType.XID, bytes(8)),
)


@pytest.mark.parametrize("is_regular", [True, False])
@pytest.mark.parametrize(("within", "recorded"), [(0, 0), (1, 4), (2, 4), (4, 4), (5, 8), (8, 8)])
def test_a_place_is_told_with_the_rest_of_its_group(
    tmp_path: Path, within: int, recorded: int, is_regular: bool
) -> None:
    """Whether events were read in one step or one by one; what comes behind waits for its time."""
    body = GROUP[0][1] if is_regular else GROUP[0][1][:-1]
    previous = event(EventType.PREVIOUS_GTIDS, struct.pack("<Q", 0))
    events = [event(kind, body if kind == EventType.GTID else more) for kind, more in 3 * GROUP]
    (tmp_path / "relay.000001").write_bytes(HEAD + previous + b"".join(events))
    sink = MemorySink()
    journal = TailJournal("a", sink, TailState(epoch=1), state_file=None, clock=time.monotonic)
    relays = RelayLogs(tmp_path, journal, lambda _: None, clock_us=lambda: 900)
    relays.open({"": "relay.000001"})
    begin = len(HEAD + previous)
    position = begin + sum(map(len, events[:within]))
    relays.record(500, "", (1, position))
    assert recorded + 2 == journal.records
    assert ("relay", 1, begin + sum(map(len, events[:recorded]))) == journal.state.relays[""][:3]
    relays.record(900)
    journal.save()
    whole = concatenate(sink.blocks).take(1, 2 + 1 + len(events))  # first comes who observes
    assert [15, 35, *(kind for kind, _ in 3 * GROUP)] == whole.columns["type"].tolist()
    assert [4, len(HEAD), *(begin + sum(map(len, events[:n])) for n in range(12))] == (
        whole.columns["start"].tolist()
    )
    assert {1: ""} == whole.texts
    relays.forget()


def opened_at(seconds: int) -> bytes:
    """The beginning of a file that the server opened then."""
    return HEAD[:4] + struct.pack("<I", seconds) + HEAD[8:]


def test_files_of_a_boot_wait_for_its_start_though_one_before_them_is_gone(tmp_path: Path) -> None:
    """A tail that lags records two starts after the second: a file of the second is read early."""
    sink = MemorySink()
    journal = TailJournal("a", sink, TailState(epoch=1), state_file=None, clock=time.monotonic)
    relays = RelayLogs(tmp_path, journal, lambda _: None, clock_us=lambda: 900)
    (tmp_path / "relay.000001").write_bytes(opened_at(10))
    relays.open({"": "relay.000001"})
    (tmp_path / "relay.000003").write_bytes(opened_at(30))
    for started_s in (20, 30, 40):
        if started_s == 40:
            (tmp_path / "relay.000004").write_bytes(opened_at(40))
        relays.leave_boot(started_s)
        journal.server_record(RecordType.START, {"server_uuid": f"{started_s}"})
        relays.started(started_s)
        relays.read()
    relays.record(900)
    journal.save()
    whole = concatenate(sink.blocks)
    files = [whole.files[n] if n >= 0 else "" for n in whole.columns["file"].tolist()]
    starts = [n for n, name in enumerate(files) if whole.columns["type"][n] == RecordType.START]
    assert starts[0] > files.index("relay.000001")
    assert starts[1] < files.index("relay.000003") < starts[2] < files.index("relay.000004")
    relays.forget()
