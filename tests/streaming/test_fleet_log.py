"""The fleet's audit, made again from its log, is the same one."""

from __future__ import annotations

from random import Random

import pytest

from tallystick.campaign import scenario_of
from tallystick.coordinates.audit.fleet import FleetAudit, FleetOutput
from tallystick.coordinates.audit.fleet_events import FleetEvent
from tallystick.coordinates.audit.instance import InstanceAudit
from tallystick.coordinates.state_codec import encode
from tallystick.coordinates.values.errors import StateDamagedError, StateVersionError
from tallystick.producers.simulator.assemble import simulate
from tallystick.streaming import fleet_log
from tallystick.streaming.fleet_log import FleetLog

Step = tuple[list[FleetEvent], dict[str, int]]
"""What the fleet's audit is given in a micro-batch."""


def steps_of(seed: int) -> list[Step]:
    """A simulated history, some blocks a micro-batch, with deadlines that pass."""
    audits: dict[str, InstanceAudit] = {}
    steps: list[Step] = []
    blocks = list(simulate(scenario_of(seed)).blocks(64))
    for at in range(0, len(blocks), 3):
        events = []
        for block in blocks[at : at + 3]:
            name = block.instance_id
            events += audits.setdefault(name, InstanceAudit(name)).absorb(block).fleet_events
        steps.append((events, {event.instance_id: event.ts - 10**6 for event in events}))
    return steps


def take(audit: FleetAudit | FleetLog, step: Step, retired: str | None) -> list[FleetOutput]:
    """One micro-batch."""
    if retired is not None:
        audit.retire(retired)
    return [audit.absorb(step[0]), audit.expire(step[1])]


@pytest.mark.parametrize("seed", range(2, 40, 4))
def test_it_goes_on_from_any_entry(seed, monkeypatch):
    """Findings, checks and state of one that was never made again; members retire meanwhile."""
    monkeypatch.setattr(fleet_log, "LOG_ENTRIES_MAX", 3)
    rng, one, log = Random(seed), FleetAudit(), FleetLog()
    state: bytes | None = None
    entries: list[bytes] = []
    found: list[FleetOutput] = []
    steps = steps_of(seed)
    for step in steps:
        members = sorted(one.reader.members)
        retired = rng.choice(members) if members and rng.random() < 0.05 else None
        if rng.random() < 0.3:
            log = FleetLog(frozenset(), state, entries)
        expected = take(one, step, retired)
        assert expected == take(log, step, retired)
        found += expected
        entries.append(log.entry())
        if (written := log.state()) is not None:
            state, entries = written, []
        assert FleetLog(frozenset(), state, entries).audit.to_bytes() == one.to_bytes()
    assert (state is not None) == (len(steps) >= 3)
    assert any(output.checks for output in found)


def test_what_is_written_follows_what_is_taken(monkeypatch):
    """Not the size of the state: it is written once as much was taken again."""
    monkeypatch.setattr(fleet_log, "LOG_BYTES_MIN", 2_000)
    log = FleetLog()
    taken = written = before = 0
    for step in [step for seed in range(2, 8) for step in steps_of(seed)]:
        take(log, step, None)
        taken += len(log.entry())
        size = log.kept_bytes
        if (state := log.state()) is not None:
            written += 1
            assert log.kept_bytes == len(state)
            assert size > (fleet_log.LOG_OF_STATE + 1) * before
            before = len(state)
    assert 3 < written < taken // 2_000


def test_one_that_begins_anew_writes_its_state_at_once():
    """What was written before is of another audit."""
    log = FleetLog(is_anew=True)
    assert log.state() == FleetAudit().to_bytes()
    assert log.state() is None


def test_what_cannot_be_read_is_named(monkeypatch):
    """A damaged entry, one of another version, one that raises although it did not before."""
    log = FleetLog()
    take(log, steps_of(2)[0], None)
    entry = log.entry()
    with pytest.raises(StateDamagedError, match="fleet's log"):
        FleetLog(entries=[entry[:-1]])
    with pytest.raises(StateVersionError, match="fleet's log"):
        FleetLog(entries=[encode(int, 1)])
    with pytest.raises(StateVersionError, match="the fleet"):
        FleetLog(state=entry)
    monkeypatch.setattr(FleetAudit, "absorb", lambda *_: 1 // 0)
    with pytest.raises(StateDamagedError, match="ZeroDivisionError"):
        FleetLog(entries=[entry])
