"""Faults in fleets that also do what is legal and looks wrong: each is one cause, and is found."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tallystick import cli
from tallystick.campaign import BLOCK_RECORDS, scenario_of
from tallystick.coordinates.audit.replay import audit_history
from tallystick.errors import MisuseError
from tallystick.producers.simulator.assemble import simulate
from tallystick.producers.simulator.faults import FAULTS
from tallystick.producers.simulator.kernel.scenario import Scenario, UnfitFleetError
from tallystick.producers.simulator.negatives import NEGATIVES

if TYPE_CHECKING:
    from pathlib import Path


def _scenario(fault: str, negative: str, seed: int) -> Scenario:
    scenario = scenario_of(seed, [fault])
    topology = NEGATIVES[negative].options.get("topology", scenario.topology)
    return replace(scenario, topology=topology, negatives=(negative,))


@pytest.mark.parametrize(
    ("fault", "negative", "seed"),
    [
        # The clone's donor logged what its file's head lacks.
        ("previous_gtids_stale", "clone", 73),
        # The replica is cloned again before the source's next row.
        ("clone_of_purged_donor", "clone_under_load", 1365),
        # Another session has held the table lock for longer.
        ("innodb_header_stale_under_lock", "binlog_lock_held_long", 141),
    ],
)
def test_it_is_found_as_if_it_were_alone(fault: str, negative: str, seed: int) -> None:
    """Its rules are broken, and no other one."""
    history = simulate(_scenario(fault, negative, seed))
    assert history.injected
    result = audit_history(history.blocks(BLOCK_RECORDS))
    assert {finding.rule for finding in result.findings} == FAULTS[fault].must_fire


_CLASHES = [
    ("zone_opened_twice", "backup_bails_out", 201),
    ("tables_unlocked_outside_zone", "recovery_from_replica", 2585),
    ("image_misses_nontransactional_change", "recovery_from_replica", 239),
    ("clone_position_shifted", "gtid_mode_off", 539),
    ("relay_log_cut_while_down", "clone_into_group", 1539),
    ("group_left_out_after_crash", "persister_without_binlog", 5377),
]


@pytest.mark.parametrize(("fault", "negative", "seed"), _CLASHES)
def test_it_waits_for_its_moment(fault: str, negative: str, seed: int) -> None:
    """What the fault needs may be in use, or not there yet, when it is due."""
    assert simulate(_scenario(fault, negative, seed)).scenario.fault == fault


@pytest.mark.parametrize(
    "fault",
    [
        *("backup_lock_left_behind", "image_position_early", "metadata_never_locked"),
        *("image_lsn_unwritten", "ticket_dropped_twice", "undo_gtid_missing"),
        "vp_before_zone_empty",
    ],
)
def test_a_fleet_without_the_server_that_it_needs_is_refused(fault: str) -> None:
    """A legal case may take from the fleet what a fault is made of."""
    with pytest.raises(UnfitFleetError, match="the fault needs a server with"):
        simulate(_scenario(fault, "gtid_mode_off", 3))


def test_the_command_line_says_so(tmp_path: Path) -> None:
    """It is nothing that went wrong within."""
    asked = ["--fault", "undo_gtid_missing", "--negative", "gtid_mode_off"]
    with pytest.raises(MisuseError, match="no such fleet: the fault needs a server"):
        cli.run_command(["simulate", *asked, "--output", str(tmp_path / "j.jsonl")])
