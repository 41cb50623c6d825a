"""A journal that is sent again, or whose observer is replaced, is held against no server."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.campaign import scenario_of
from tallystick.coordinates.audit.instance import InstanceAudit
from tallystick.coordinates.audit.recent_records import RECENT_MAX
from tallystick.coordinates.audit.replay import AuditResult, audit_history
from tallystick.coordinates.audit.replica import NAMED_MAX, Replica
from tallystick.coordinates.events.journal import Block, concatenate, cut_into_blocks
from tallystick.coordinates.events.json_lines import blocks_from_lines
from tallystick.coordinates.results import Observation, ObservationCode, Verdict
from tallystick.coordinates.rules.observations import (
    EPOCH_BEGAN,
    RECORDS_FORGOTTEN,
    SEQUENCE_REUSED,
    STALE_EPOCH,
)
from tallystick.producers.simulator.assemble import Fleet, simulate
from tallystick.producers.simulator.kernel.scenario import Scenario
from tests.support.journals import UUID_A, UUID_B, Journal
from tests.support.second_observer import (
    Journals,
    answering_late,
    changed,
    journals_of,
    observed_anew,
    rows_of,
    sent_again,
    until,
)
from tests.support.wrong_clocks import HOUR_US

SECOND_US = 1_000_000
REAL = sorted((Path(__file__).parents[1] / "real_journals").glob("*.jsonl"))
SIMULATED = [0, 2, 4, 6, 8, 12, 1, 5]
HISTORIES = [*(path.name for path in REAL), *SIMULATED]
HEALTHY = [0, 2, 4, 6, 8, 12]


@cache
def history(name: str | int) -> tuple[Journals, AuditResult]:
    """The journals of a fleet, and what is found in them."""
    if isinstance(name, int):
        blocks = list(simulate(scenario_of(name)).blocks(512))
    else:
        [path] = [path for path in REAL if path.name == name]
        blocks = list(blocks_from_lines(path.read_text("utf-8").splitlines()))
    journals = journals_of(blocks)
    return journals, audit_history(journals.values())


def reasons(result: AuditResult) -> dict[str, list[Observation]]:
    found: dict[str, list[Observation]] = {}
    for observation in result.observations:
        found.setdefault(observation.reason, []).append(observation)
    return found


def rules(result: AuditResult) -> set[str]:
    return {finding.rule for finding in result.findings}


def second_sending(data: st.DataObject, journal: Block, *, is_cut: bool) -> list[Block]:
    """Some of a journal under the next epoch: whole, a part, with a hole, in blocks of any size."""
    first = data.draw(st.sampled_from([0, 0, 1, len(journal) // 2, len(journal) - 1]))
    last = max(first + 1, len(journal) * 3 // 4) if is_cut else len(journal)
    again = sent_again(journal, first, last)
    blocks = cut_into_blocks(again, data.draw(st.sampled_from([7, 100, 512, 65_536])))
    if len(blocks) > 2 and data.draw(st.booleans()):
        del blocks[data.draw(st.integers(1, len(blocks) - 2))]
    return blocks


def is_no_more(result: AuditResult, once: AuditResult) -> bool:
    """Whether nothing is found but what was there.

    Of a fault that is there, a relay log that is read anew may show more: after a RESET of the
    source it still holds what that has logged before.
    """
    known = rules(once)
    return rules(result) <= known | ({"relay_mirrors_source"} if known else set())


@settings(max_examples=20)
@given(st.data())
def test_a_history_sent_again_under_a_second_epoch_brings_no_finding(data: st.DataObject):
    """Nor a second row of any collection; what is known of the instance is undecided from there."""
    journals, once = history(data.draw(st.sampled_from(HISTORIES)))
    names = data.draw(st.sets(st.sampled_from(sorted(journals)), min_size=1))
    # What ends earlier than before has not ended: the end of the input is no heartbeat then.
    is_cut = data.draw(st.booleans())
    again = [b for name in names for b in second_sending(data, journals[name], is_cut=is_cut)]
    twice = audit_history([*journals.values(), *again], goes_on=is_cut)
    assert is_no_more(twice, once)
    assert len(twice.cuts) == len(once.cuts)
    assert twice.verdict is (Verdict.INCONSISTENT if twice.findings else Verdict.UNDECIDED)
    began = reasons(twice)[EPOCH_BEGAN.code]
    assert {(o.instance_id, o.data["epoch"], o.data["before"]) for o in began} == {
        (name, journals[name].epoch + 1, journals[name].epoch) for name in names
    }


@settings(max_examples=20)
@given(st.data())
def test_an_observer_that_replaces_another_brings_no_finding(data: st.DataObject):
    """It reads the logs from the oldest file, or the present one: nothing is counted twice."""
    name = data.draw(st.sampled_from(HEALTHY))
    journals, once = history(name)
    assert not once.findings
    times = [journal.columns["ts"] for journal in journals.values()]
    begin, end = min(int(ts.min()) for ts in times), max(int(ts.max()) for ts in times)
    ts = data.draw(st.integers(begin, end))
    replaced = data.draw(st.sets(st.sampled_from(sorted(journals)), min_size=1))
    from_oldest = data.draw(st.booleans())
    blocks = []
    for instance_id, journal in journals.items():
        reached = np.maximum.accumulate(journal.columns["ts"])
        at = int(np.searchsorted(reached, ts, side="right")) if instance_id in replaced else 0
        blocks += observed_anew(journal, at, from_oldest=from_oldest)
    result = audit_history(blocks)
    assert result.findings == []
    assert len(result.cuts) == len(once.cuts)


@pytest.mark.parametrize("seed", range(0, 100, 2))
def test_a_second_observer_with_another_clock_that_answers_late_brings_no_finding(seed: int):
    """How far its clock is off is not known from a request that was made before it began."""
    journals = journals_of(simulate(scenario_of(seed)).blocks(512))
    rows = {name: rows_of(journal) for name, journal in journals.items()}
    several = [name for name in sorted(journals) if len(rows[name]) > 2]
    rng = Random(seed)
    replaced = rng.choice(several)
    end = max(int(journals[name].columns["ts"][rows[name][2]]) for name in several) + 100_000
    ahead_us = rng.choice([-HOUR_US, -HOUR_US, HOUR_US])
    blocks = []
    for name, journal in journals.items():
        part = until(journal, end)
        blocks += answering_late(part, ahead_us) if name == replaced else [part]
    # Cut by clocks that differ, no journal is known to end when another does.
    assert rules(audit_history(blocks, goes_on=True)) == set()


@pytest.mark.parametrize("seed", [4, 7, 18, 44])
def test_servers_set_up_anew_while_those_of_before_are_still_observed_are_accused_of_nothing(seed):
    """A second observer shows a whole new fleet; the first one ends some seconds later.

    Meanwhile a replica of the one names a source that is still known as the server of the other.
    """
    rng = Random(seed)
    topology = rng.choice(["pair", "chain", "star"])
    begun, second = 1_700_000_000 * SECOND_US, rng.randrange(3, 6) * SECOND_US

    def observed(fleet_seed: int, first: int, last: int) -> Journals:
        scenario = Scenario(
            seed=fleet_seed, topology=topology, duration_ms=12_000, writes_per_second=20.0
        )
        fleet = Fleet(scenario, start_ts=begun + first)
        for number in range(1, 20):
            ts = begun + number * SECOND_US
            if ts > fleet.start_ts:
                fleet.schedule(ts, None, Fleet.collect, f"c{number}", ts)
        return fleet.advance(begun + last)

    before = observed(seed, 0, 15 * SECOND_US)
    after = observed(seed + 1000, second, 20 * SECOND_US)
    blocks = []
    for name, journal in before.items():
        ended = begun + second + rng.choice([0, 200_000, 3 * SECOND_US, 8 * SECOND_US])
        blocks += [until(journal, ended), replace(after[name], epoch=journal.epoch + 1)]
    result = audit_history(blocks)
    assert result.findings == []
    assert "source_is_another_server" in reasons(result)


@pytest.mark.parametrize("name", HEALTHY)
def test_an_instance_is_decided_again_once_its_new_observer_has_shown_enough(name: int):
    """The rows of the second observer are judged, not only those of the first."""
    journals, _ = history(name)
    blocks = [b for j in journals.values() for b in observed_anew(j, len(j) // 3)]
    result = audit_history(blocks)
    later = [cut for cut in result.cuts if cut.epoch]
    assert "CONSISTENT" in {cut.verdict for cut in later if cut.scope == "instance"}


@settings(max_examples=20)
@given(st.data())
def test_records_that_come_again_are_compared(data: st.DataObject):
    """The same ones change nothing; another one under an old number is named and undecided."""
    journals, once = history(data.draw(st.sampled_from(HISTORIES)))
    name = data.draw(st.sampled_from(sorted(journals)))
    journal = journals[name]
    end = min(len(journal), RECENT_MAX)
    index = data.draw(st.integers(0, end - 1))
    first = data.draw(st.integers(max(0, index - 50), index))
    last = data.draw(st.integers(index + 1, min(end, index + 50)))
    is_changed = data.draw(st.booleans())
    again = (changed(journal, index) if is_changed else journal).take(first, last)
    others = [other for other in journals.values() if other is not journal]
    rest = [journal.take(end, len(journal))] if end < len(journal) else []
    result = audit_history([*others, journal.take(0, end), again, *rest])
    assert is_no_more(result, once)
    found = reasons(result).get(SEQUENCE_REUSED.code, [])
    if not is_changed:
        assert found == []
        assert (result.findings, result.cuts) == (once.findings, once.cuts)
        return
    [named] = found
    assert (named.instance_id, named.data["record"], named.is_undecided) == (name, index, True)
    assert result.verdict is not Verdict.CONSISTENT


def test_records_too_old_to_be_compared_leave_the_run_undecided():
    """Whether they are the same is not known; before that they are."""
    blocks = cut_into_blocks(_long_journal(), 1000)
    for number, is_known in ((len(blocks) - 3, True), (0, False)):
        result = audit_history([*blocks, blocks[number]])
        found = reasons(result).get(RECORDS_FORGOTTEN.code, [])
        assert [o.data["forgotten"] for o in found] == ([] if is_known else [1000])
        assert result.verdict is (Verdict.CONSISTENT if is_known else Verdict.UNDECIDED)


def test_what_came_is_compared_after_the_state_was_saved():
    """Hashes go with the state, and are those of the same records cut otherwise."""
    journal = _long_journal()
    audit = InstanceAudit(journal.instance_id)
    for block in cut_into_blocks(journal, 700):
        audit = InstanceAudit.from_bytes(audit.to_bytes())
        audit.absorb(block)
    audit = InstanceAudit.from_bytes(audit.to_bytes())
    first = len(journal) - 50
    for again in (journal, changed(journal, first + 7)):
        [found] = audit.absorb(again.take(first, first + 20)).observations
        is_same = again is journal
        assert found.code is (
            ObservationCode.JOURNAL_REPEATED if is_same else ObservationCode.JOURNAL_REUSED
        )


@cache
def _long_journal() -> Block:
    journal = Journal().begin().groups(1200)
    journal.row()
    return concatenate(list(blocks_from_lines(journal.lines())))


def test_an_epoch_that_falls_is_named_and_never_called_consistent():
    """As where epochs are times, and a clock was moved back."""
    journals, once = history(0)
    assert once.verdict is Verdict.CONSISTENT
    name, journal = next(iter(journals.items()))
    half = len(journal) // 2
    newer = replace(journal.take(0, half), epoch=7)
    fallen = replace(journal.take(half, len(journal)), epoch=3, first_sequence=0)
    others = [other for other in journals.values() if other is not journal]
    for size in (5, 65_536):
        result = audit_history([*others, newer, *cut_into_blocks(fallen, size)])
        assert result.findings == []
        assert result.verdict is Verdict.UNDECIDED
        [named] = reasons(result)[STALE_EPOCH.code]
        assert (named.instance_id, named.at, named.data["newest"]) == (name, "3:0", 7)


@pytest.mark.parametrize("topology", ["pair", "chain", "star"])
@pytest.mark.parametrize("other_seed", [0, 1])
def test_servers_that_are_set_up_anew_under_the_same_names_bring_no_finding(topology, other_seed):
    """Other groups at the same positions: what waited is not compared with them."""

    def fleet(seed: int, epoch: int) -> list[Block]:
        made = Fleet(
            Scenario(seed=seed, topology=topology, duration_ms=3_000),
            start_ts=1_700_000_000_000_000 + epoch * 10_000_000,
        )
        blocks: list[Block] = []
        for step in range(1, 7):
            blocks += made.advance(made.start_ts + step * 500_000).values()
            made.collect(f"c{epoch}-{step}", made.now)
        return [replace(block, epoch=epoch) for block in blocks]

    before, after = fleet(1, 1), fleet(1 + other_seed, 2)
    for cut in range(len(before) // 2, len(before), 2):
        result = audit_history([*before[:cut], *after], goes_on=True)
        assert set() == rules(result), cut


def test_a_source_that_was_named_once_stays_known() -> None:
    """However often the records of another channel name its own: nothing new is remembered."""
    replica = Replica()
    one, other = (replica.channel(name) for name in ("one", "other"))
    one.source_instance, one.source_uuid = "a", UUID_A
    other.source_instance, other.source_uuid = "b", UUID_B
    for ts in range(2 * NAMED_MAX):
        replica.name_source(one, ts)
        replica.name_source(other, ts)
    assert len(replica.named) == 2
    assert one.key is not None
    assert other.key is not None
    assert [replica.source_uuid(key, 0) for key in (one.key, other.key)] == [UUID_A, UUID_B]
