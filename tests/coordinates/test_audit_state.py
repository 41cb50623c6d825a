"""State and events as bytes: what is saved is read back, and nothing else is taken for it."""

from __future__ import annotations

import json

from tallystick.coordinates.audit.fleet_events import (
    FleetEvent,
    FleetEventKind,
    decode_fleet_events,
    encode_fleet_events,
)
from tallystick.coordinates.audit.instance import InstanceAudit
from tests.support.journals import Journal, audit


def test_facts_come_back_as_they_were():
    """Every field and every array of every event survives, and equal events have equal bytes."""
    journal = Journal().begin().groups(3)
    journal.row()
    journal.binlog.rotate()
    journal.record("heartbeat")
    events = audit(journal).fleet_events
    kinds = {
        FleetEventKind.BOOT,
        FleetEventKind.LOGGED,
        FleetEventKind.PREVIOUS,
        FleetEventKind.FILE_END,
    }
    assert kinds | {FleetEventKind.STATUS, FleetEventKind.TIME} == {event.kind for event in events}
    again = decode_fleet_events(encode_fleet_events(events))
    assert [_values(event) for event in events] == [_values(event) for event in again]
    assert encode_fleet_events(events) == encode_fleet_events(again)


def _values(event: FleetEvent) -> tuple[object, ...]:
    arrays = {name: (array.dtype.str, array.tolist()) for name, array in event.arrays.items()}
    body = json.loads(json.dumps(event.body))
    return event.kind, event.instance_id, event.epoch, event.sequence, event.ts, body, arrays


def test_what_is_disabled_is_no_state():
    """What is given when the state is read back counts, as a setting may have changed."""
    saved = InstanceAudit("a", frozenset({"lsn_order"})).to_bytes()
    assert saved == InstanceAudit("a").to_bytes()
    for disabled in (frozenset[str](), frozenset({"checkpoint_not_ahead"})):
        assert disabled == InstanceAudit.from_bytes(saved, "a", disabled).reporter.disabled


def test_the_state_stays_small_however_long_the_journal_is():
    """Thousands of groups, files and rows leave a state of bounded size."""
    journal = Journal().begin()
    sizes = []
    for _ in range(6):
        for _ in range(8):
            journal.groups(60)
            journal.row()
            journal.binlog.rotate()
        journal.record("binlog_purge", to_file=journal.binlog.file)
        result = audit(journal)
        assert result.audit is not None
        sizes.append(len(result.audit.to_bytes()))
    assert sizes[-1] < sizes[1] * 1.05
