"""When events of relay logs are told: never at an earlier time than they were received."""

from __future__ import annotations

import time
from collections import deque
from pathlib import Path

from coordinates.journal import RecordType
from producers.mysql.relay_logs import RelayLogs
from producers.mysql.tail_journal import TailJournal
from producers.mysql.tail_place import TailPlace
from producers.publisher import MemorySink


def test_a_reset_of_one_channel_tells_nothing_of_another(tmp_path: Path) -> None:
    """What the other has received meanwhile waits: its source may have logged it later."""
    journal = TailJournal(
        "hub", MemorySink(), TailPlace(epoch=1), state_file=None, clock=time.monotonic
    )
    told: list[tuple[RecordType, object]] = []
    journal.fact = lambda kind, body: told.append((kind, body.get("channel")))
    relays = RelayLogs(tmp_path, journal, lambda _: None, clock_us=lambda: 900)
    # An event that was lost is told as a gap.
    for channel in ("one", "two"):
        relays._waiting[channel] = deque([(500, (1, 4), None)])
    relays.administer([{"channel": "one", "action": "reset"}])
    assert [(RecordType.GAP, None), (RecordType.CHANNEL, "one")] == told
    relays.tell(499)
    assert 2 == len(told)
    relays.tell(500)
    assert [(RecordType.GAP, None)] == told[2:]
