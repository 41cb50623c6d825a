"""The end of a file is the end of each journal in it, but of one that has fallen silent before."""

from __future__ import annotations

import json

import pytest

from tallystick.coordinates.audit.replay import audit_history
from tallystick.coordinates.events.json_lines import blocks_from_lines
from tallystick.coordinates.events.json_lines_writer import block_to_lines
from tallystick.coordinates.results import Verdict
from tallystick.producers.simulator.assemble import simulate
from tallystick.producers.simulator.kernel.scenario import Scenario


@pytest.mark.parametrize("silent", ["source-a", "replica-a1"])
@pytest.mark.parametrize("share", [0.02, 0.1, 0.3, 0.6, 0.9])
@pytest.mark.parametrize("seed", [1, 2])
def test_an_instance_that_falls_silent_leaves_the_others_undecided(
    silent: str, share: float, seed: int
) -> None:
    """What its journal would have shown is held against nobody, though the file ends later."""
    journals = simulate(Scenario(seed=seed, topology="pair")).journals
    kept = {name: journal.take(0, len(journal)) for name, journal in journals.items()}
    kept[silent] = kept[silent].take(0, int(len(kept[silent]) * share))
    lines = [line for journal in kept.values() for line in block_to_lines(journal)]
    result = audit_history(blocks_from_lines(lines, end_heartbeats=True))
    assert [finding.rule for finding in result.findings] == []
    assert result.verdict is Verdict.UNDECIDED


@pytest.mark.parametrize("last", ["a-9", "b-1", "c-7"])
def test_who_has_answered_the_newest_collection_is_not_silent(last: str) -> None:
    """Though it was asked a moment before the others; and whatever collections are called."""
    lines = []
    for name, asked, collection in (("source", 5, "b-1"), ("replica", 4, last)):
        answer = {"collection_id": collection, "requested_at": asked, "row": {}}
        lines += [
            json.dumps({"kind": kind, "instance": name, "ts": asked + 1, **fields})
            for kind, fields in (("log_status", answer), ("heartbeat", {}))
        ]
    ends = {
        block.instance_id: int(block.columns["ts"][-1])
        for block in blocks_from_lines(lines, end_heartbeats=True)
    }
    assert ends == {"source": 6, "replica": 6 if last == "b-1" else 5}


@pytest.mark.parametrize("is_observed", [True, False])
def test_who_names_its_observer_is_silent_without_an_answer(is_observed: bool) -> None:
    """A journal that somebody has written by hand answers nothing, and goes on to the end."""
    row = {"collection_id": "c-1", "requested_at": 5, "row": {}}
    kind, fields = ("observer", {"clock": "k"}) if is_observed else ("stop", {})
    lines = [
        json.dumps({"kind": "log_status", "instance": "source", "ts": 6, **row}),
        json.dumps({"kind": kind, "instance": "replica", "ts": 3, **fields}),
    ]
    ends = {
        block.instance_id: int(block.columns["ts"][-1])
        for block in blocks_from_lines(lines, end_heartbeats=True)
    }
    assert ends == {"source": 6, "replica": 3 if is_observed else 6}


@pytest.mark.parametrize(
    ("clock", "fields", "known_to"), [("k", {}, 5), ("other", {}, 6), ("k", {"ends": True}, 6)]
)
def test_whose_observer_went_on_elsewhere_was_cut_short(
    clock: str, fields: dict[str, bool], known_to: int
) -> None:
    """One process writes both journals, and was killed, unless it says so; else nobody knows."""
    lines = [
        json.dumps({"kind": "observer", "instance": name, "ts": 1, "clock": by})
        for name, by in (("source", "k"), ("replica", clock))
    ]
    for name, ts in (("source", 5), ("replica", 6)):
        lines.append(json.dumps({"kind": "heartbeat", "instance": name, "ts": ts, **fields}))
    ends = {
        block.instance_id: int(block.columns["ts"][-1])
        for block in blocks_from_lines(lines, end_heartbeats=True)
    }
    assert ends == {"source": known_to, "replica": 6}
