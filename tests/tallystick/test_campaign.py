"""The campaign: what it asks of each seed, and that it counts what the audit says honestly."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from typing import Any

import pytest

from tallystick import campaign
from tallystick.campaign import run_campaign, run_seed, scenario_of, simulate_command
from tallystick.commands.offline import _campaign_lines
from tallystick.coordinates.audit.replay import AuditResult
from tallystick.coordinates.events.json_lines_writer import block_to_lines
from tallystick.coordinates.results import Finding
from tallystick.producers.simulator.assemble import simulate
from tallystick.producers.simulator.faults import FAULTS
from tallystick.producers.simulator.kernel.scenario import Scenario
from tests.support.results import finding

_LOUD = finding(rule="invented_for_a_test", instance_id="source-a")


def _audit_that_says(monkeypatch: pytest.MonkeyPatch, *findings: Finding) -> None:
    def audit(blocks: Any, disabled: frozenset[str]) -> AuditResult:
        assert sum(map(len, blocks)) > 0
        return AuditResult(findings=list(findings))

    monkeypatch.setattr(campaign, "audit_history", audit)


def test_odd_seeds_take_all_faults_in_turn_in_fleets_that_can_show_them() -> None:
    """No fault is left to chance."""
    scenarios = [scenario_of(seed) for seed in range(1, 2 * len(FAULTS), 2)]
    assert [scenario.fault for scenario in scenarios] == list(FAULTS)
    assert {scenario.applier_workers for scenario in scenarios} == {0}
    for scenario in scenarios:
        assert scenario.fault is not None
        assert scenario.topology in FAULTS[scenario.fault].base.topologies


def test_even_seeds_are_healthy_and_most_of_them_look_odd() -> None:
    """False alarms are looked for where they are likely."""
    scenarios = [scenario_of(seed) for seed in range(0, 100, 2)]
    assert {scenario.fault for scenario in scenarios} == {None}
    assert {scenario.applier_workers for scenario in scenarios} >= {0, 4}
    assert sum(bool(scenario.negatives) for scenario in scenarios) > 40


def test_a_seed_always_gives_the_same_scenario_and_chosen_faults_alone() -> None:
    """What is printed for a failing seed runs that seed again."""
    assert scenario_of(17) == scenario_of(17)
    assert scenario_of(17, ["errant_write"]).fault == "errant_write"
    assert scenario_of(17, []).fault is None
    with pytest.raises(ValueError, match=r"errant_write.*got 'no_such_fault'"):
        scenario_of(17, ["no_such_fault"])


def test_an_audit_that_says_nothing_has_no_recall(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence is counted as missed faults, never as health."""
    _audit_that_says(monkeypatch)
    result = run_campaign(range(6))
    assert result.recall == 0.0
    assert [seed.scenario.seed for seed in result.missed] == [1, 3, 5]
    assert not result.false_alarms
    assert not result.is_right
    assert [(count.injected, count.found) for count in result.faults] == [(1, 0)] * 3


def test_an_audit_that_cries_wolf_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """A finding in a healthy fleet is a false alarm, one beside a fault is surplus."""
    _audit_that_says(monkeypatch, _LOUD)
    result = run_campaign(range(4))
    assert [seed.scenario.seed for seed in result.false_alarms] == [0, 2]
    assert [seed.scenario.seed for seed in result.surplus] == [1, 3]
    assert result.surplus[0].sentences == (
        "source-a: invented_for_a_test: invented_for_a_test is broken: given_by_a_test.",
    )


def test_a_fault_that_never_found_its_moment_is_reported_as_such(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It says nothing of the audit, yet the campaign is not right."""
    _audit_that_says(monkeypatch)
    seed = run_seed(replace(scenario_of(1), fault_at_ms=3_600_000))
    assert seed.not_exercised
    assert not seed.missed
    assert not seed.is_right


def test_the_real_audit_is_right_about_a_handful_of_seeds() -> None:
    """Faults found, health believed, nothing else said; the matrix has all of them."""
    result = run_campaign(range(8))
    assert result.recall == 1.0
    assert result.is_right, [seed.sentences for seed in result.seeds if not seed.is_right]
    assert result.records > 1_000
    assert result.seeds_per_s > 0
    assert run_campaign(range(1)).recall == 1.0  # no fault was missed


SHORT = Scenario(profile="wl9452", duration_ms=6_000, acts=True, max_binlog_size=4_096)


@pytest.mark.parametrize(
    "scenario",
    [
        # At its first moment a GTID waited, which is another fault.
        replace(SHORT, seed=1059, topology="chain", writes_per_second=6.0,
                fault="purge_does_not_ask"),
        # The applier passes over the second copy: that the row stays is right.
        replace(SHORT, seed=60203, topology="star", writes_per_second=9.0,
                fault="receiver_requeues_old_group"),
        # The offsets of the relay log stay below those of the source's log, which never rotates.
        replace(SHORT, seed=203021, topology="demo", writes_per_second=6.0, profile="mysql-8.0",
                max_binlog_size=65_536, fault="image_has_relay_position"),
        # Between rotation and purge an operator purges what the fault rotated for itself.
        replace(SHORT, seed=8673, topology="pair", writes_per_second=9.0, profile="mysql-8.0",
                fault="purged_not_advanced"),
        # Binary log files expire between any two rows.
        replace(SHORT, seed=210629, topology="pair", writes_per_second=9.0, profile="mysql-8.0",
                fault="stale_snapshot_republished"),
        # Each relay log file ends before a third group is applied since the row before.
        replace(SHORT, seed=304289, topology="pair", writes_per_second=6.0,
                fault="applied_ahead_of_flushed"),
        # The files that the fault rotated are purged before a row lists them.
        replace(SHORT, seed=300305, topology="single", writes_per_second=6.0, profile="mysql-8.0",
                max_binlog_size=16_384, fault="middle_file_missing"),
        # Where the applier waits, the relay log's offset is an event's end in the source's log.
        replace(SHORT, seed=301845, topology="pair", writes_per_second=6.0, profile="mysql-8.0",
                max_binlog_size=65_536, fault="relay_pos_saved_as_exec_pos"),
        # A new connection begins a relay log file, and the source's file never ends.
        replace(SHORT, seed=323997, topology="pair", writes_per_second=6.0, profile="mysql-8.0",
                max_binlog_size=65_536, fault="relay_pos_saved_as_exec_pos"),
        # The last write before each row is that of a rotation, or of a statement.
        replace(SHORT, seed=300389, topology="star", writes_per_second=6.0,
                fault="relay_info_torn"),
        # Between the beginning of a file and a row there are at most two groups.
        replace(SHORT, seed=300369, topology="chain", writes_per_second=6.0,
                fault="source_loses_commits_at_crash"),
        # The binary log rotates so often that no collection finds two groups in its last file.
        replace(SHORT, seed=340087, topology="single", writes_per_second=6.0, profile="mysql-8.0",
                fault="innodb_header_stale_under_lock"),
        # InnoDB writes its first checkpoint when the load has ended.
        replace(SHORT, seed=320449, topology="single", writes_per_second=6.0, profile="mysql-8.0",
                fault="redo_checkpoint_fell"),
        # The offset of the relay log is beyond the next group's end in the source's log, too.
        replace(SHORT, seed=984541, topology="chain", writes_per_second=9.0, profile="mysql-8.0",
                max_binlog_size=16_384, fault="image_has_relay_position"),
        # A later group of the source ends just there.
        replace(SHORT, seed=151, topology="chain", writes_per_second=9.0,
                max_binlog_size=16_384, fault="image_has_relay_position"),
        # The source's operator purges the file from which a server is to replicate that is being
        # recovered.
        replace(SHORT, seed=980304, topology="diamond", writes_per_second=15.0,
                profile="mysql-8.0", duration_ms=4_000, applier_workers=4, gtid_mode="OFF",
                auto_position=False, negatives=("recovery_by_position",)),
    ],
    ids=lambda scenario: scenario.fault or scenario.negatives[0],
)  # fmt: skip
def test_what_was_judged_wrong_is_judged_right(scenario: Scenario) -> None:
    """Each as it was drawn then: what a seed draws changes with the catalogue."""
    result = run_seed(scenario)
    assert result.is_right, (result.missed, result.surplus, result.sentences)


def test_a_recall_of_1_is_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of thousands that is missed is not rounded away."""
    result = run_campaign(range(2))
    assert "recall 1.000," in str(list(_campaign_lines(result)))
    monkeypatch.setattr(type(result), "recall", property(lambda _: 0.99973))
    assert "recall 0.999," in str(list(_campaign_lines(result)))


def test_the_commands_name_the_seed_and_what_differs_from_the_default() -> None:
    """A failing seed can be run again, and its journal read."""
    scenario = Scenario(
        seed=7, fault="errant_write", topology="pair", acts=False, negatives=("purge",)
    )
    words = shlex.split(simulate_command(scenario))
    assert words[:4] == ["tallystick", "simulate", "--seed", "7"]
    assert words[4:] == [
        *("--topology", "pair", "--negative", "purge", "--no-acts", "--fault", "errant_write")
    ]


def test_a_seed_result_tells_how_to_run_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both commands are the user's, not a test's."""
    _audit_that_says(monkeypatch)
    seed = run_seed(scenario_of(5))
    assert seed.campaign_command == "tallystick campaign --seeds 5:6"
    assert seed.simulate_command.startswith("tallystick simulate --seed 5 ")


def test_half_of_the_healthy_journals_have_no_more_than_a_server_shows() -> None:
    """Neither lock steps nor events of the redo log; nothing else of the fleet is another."""
    drawn = [scenario_of(seed) for seed in range(0, 200, 2)]
    as_shown = [scenario for scenario in drawn if not scenario.redo_events]
    assert 30 < len(as_shown) < 70
    assert not any(scenario.lock_steps for scenario in as_shown)
    assert all(scenario_of(seed).redo_events for seed in range(1, 100, 2))
    short = replace(as_shown[0], duration_ms=1_000)
    shown, whole = (
        {name: list(block_to_lines(block)) for name, block in simulate(one).journals.items()}
        for one in (short, replace(short, redo_events=True))
    )
    assert shown.keys() == whole.keys()
    for name, lines in whole.items():
        kept = [record for record in map(json.loads, lines) if record["kind"] != "redo"]
        assert len(kept) < len(lines)
        given = list(map(json.loads, shown[name]))
        for record in (*kept, *given):
            del record["sequence"]
        assert given == kept


def test_tables_read_before_a_reset_replica_are_not_held_against_the_status_after_it() -> None:
    """In this fleet the channel begins anew between the two, while the answer is read."""
    scenario = Scenario(
        seed=1_008_845,
        topology="star",
        duration_ms=6_000,
        writes_per_second=9.0,
        acts=False,
        fault="receiver_skips_given_up_group",
        max_binlog_size=1 << 20,
    )
    assert run_seed(scenario).fired == FAULTS[scenario.fault or ""].must_fire
