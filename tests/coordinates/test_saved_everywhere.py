"""State saved and read back at every boundary of blocks: nothing that is said changes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from tallystick.campaign import scenario_of
from tallystick.coordinates.audit import replay
from tallystick.coordinates.audit.fleet import FleetAudit, FleetOutput
from tallystick.coordinates.audit.fleet_events import FleetEvent
from tallystick.coordinates.audit.instance import AuditOutput, InstanceAudit
from tallystick.coordinates.events.journal import Block, cut_into_blocks
from tallystick.coordinates.events.json_lines import blocks_from_lines
from tallystick.producers.simulator.assemble import simulate
from tests.support.fleet_journals import A, B, C, Clock, names
from tests.support.fleet_journals import Journal as FleetJournal
from tests.support.rule_cases import all_cases

CASES = all_cases()
JOURNALS = sorted((Path(__file__).parents[1] / "real_journals").glob("*.jsonl"))
BLOCK_SIZES = (40, 700)


class SavedInstance:
    """An instance's audit that lives in bytes between two blocks."""

    def __init__(self, instance_id: str, disabled: frozenset[str]) -> None:
        self.saved = InstanceAudit(instance_id, disabled).to_bytes()

    def absorb_or_refuse(self, block: Block) -> tuple[AuditOutput, str]:
        audit = InstanceAudit.from_bytes(self.saved)
        output = audit.absorb(block)
        self.saved = audit.to_bytes()
        assert InstanceAudit.from_bytes(self.saved).to_bytes() == self.saved
        return output, ""

    def finish_or_refuse(self) -> AuditOutput:
        return InstanceAudit.from_bytes(self.saved).finish()


class SavedFleet(FleetAudit):
    """A fleet's audit that goes on from its bytes at every step."""

    def absorb(self, fleet_events: Iterable[FleetEvent]) -> FleetOutput:
        saved = self.to_bytes()
        again = FleetAudit.from_bytes(saved)
        assert again.to_bytes() == saved
        output = again.absorb(list(fleet_events))
        vars(self).update(vars(again))
        return output


def assert_said_alike(
    blocks: list[Block], monkeypatch: pytest.MonkeyPatch, sizes: Iterable[int] = BLOCK_SIZES
) -> None:
    for size in sizes:
        pieces = [piece for block in blocks for piece in cut_into_blocks(block, size)]
        expected = replay.audit_history(pieces)
        with monkeypatch.context() as patch:
            patch.setattr(replay, "InstanceAudit", SavedInstance)
            patch.setattr(replay, "FleetAudit", SavedFleet)
            assert expected == replay.audit_history(pieces)


@pytest.mark.parametrize("path", JOURNALS, ids=lambda path: path.stem)
def test_on_the_journals_of_real_servers(path, monkeypatch):
    """Findings, observations, cuts and topology."""
    with path.open(encoding="utf-8") as lines:
        assert_said_alike(list(blocks_from_lines(lines)), monkeypatch)


@pytest.mark.parametrize("seed", range(1, 40, 3))
def test_on_simulated_fleets(seed, monkeypatch):
    """With faults and without."""
    assert_said_alike(list(simulate(scenario_of(seed)).blocks(2048)), monkeypatch)


@pytest.mark.parametrize("name", CASES)
def test_on_the_cases_of_rules(name, monkeypatch):
    """What is named in two records is equal, and no longer one object."""
    journal = CASES[name].build(breaks=True)
    assert_said_alike(list(blocks_from_lines(journal.lines())), monkeypatch, sizes=(5,))


@pytest.mark.parametrize("above", ["north", "none", "a", "z"])
def test_a_ring_is_known_by_names_that_are_read_back(above):
    """They are equal, and no longer one object: what a server of a ring wrote is under way."""
    clock = Clock()
    old, new = FleetJournal(clock, "north", A, 1), FleetJournal(clock, "south", B, 2)
    other = FleetJournal(clock, above, C, 3)
    for journal in (old, new, other):
        journal.boot()
        journal.open_file()
    old.log(*(f"{A}:{n}" for n in range(1, 5)))
    followed = {"north": old, "none": None}.get(above, other)
    if followed is not None:
        new.follow(followed)
    channels = [] if followed is None else [new.says(followed)]
    new.status(f"{A}:1-3", *channels)
    old.follow(new)
    old.status(f"{A}:1-4", old.says(new))
    new.status(f"{A}:1-3", *channels)
    other.status("")
    fleet = FleetAudit()
    for journal in (old, new, other):
        fleet.absorb(journal.fleet_events)
    again = FleetAudit.from_bytes(fleet.to_bytes())
    assert names(again.finish()) == ([] if followed is old else ["no_errant_gtids"])
