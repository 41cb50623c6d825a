"""A server that was started with another log_bin: its files have another base name from there on.

The index goes on where log_bin_index names it, and the numbers begin where the new name has one
free; else the new name has an index of its own.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from tallystick.coordinates.audit.replay import audit_history
from tallystick.coordinates.events.json_lines import blocks_from_lines
from tallystick.coordinates.events.json_lines_writer import block_to_lines
from tallystick.coordinates.rules.explanation import explain
from tallystick.producers.simulator.assemble import simulate
from tallystick.producers.simulator.kernel.scenario import Scenario
from tests.support.journals import UUID_A, Gtids, Journal, Record, audit
from tests.support.rule_cases import apply, replica, source


def listed(*names: str) -> dict[str, list[Record]]:
    """SHOW BINARY LOGS, read twice."""
    logs = [{"name": name} for name in names]
    return {"binary_logs": logs, "binary_logs_again": logs}


def renamed(journal: Journal, base_name: str = "newbin", number: int = 1) -> Journal:
    """A clean restart with another log_bin."""
    journal.binlog.stop()
    journal.record("stop")
    journal.start()
    journal.binlog.base_name = base_name
    journal.binlog.open(number)
    return journal


@pytest.mark.parametrize("number", [1, 2, 7])
def test_files_of_two_base_names_follow_each_other(number: int):
    """Its first number is free in the directory, whatever the index had."""
    journal = source()
    journal.binlog.rotate()
    renamed(journal, number=number)
    new = f"newbin.{number:06d}"
    journal.row(**listed("binlog.000001", "binlog.000002", new))
    journal.groups(2).row()
    journal.binlog.rotate()
    journal.groups(1).row(**listed("binlog.000001", "binlog.000002", new, journal.binlog.file))
    result = audit(journal)
    assert [] == [explain(one).sentence for one in result.findings]
    assert "purged_matches_oldest_file" not in result.undecided()


def test_without_a_list_the_oldest_file_is_the_one_of_the_old_name():
    result = audit(renamed(source()).groups(1))
    assert [] == result.broken
    journal = renamed(source())
    journal.row()
    journal.row(gtid_purged=f"{UUID_A}:1")
    assert ["purged_matches_oldest_file"] == audit(journal).broken


@pytest.mark.parametrize("breaks", [False, True])
def test_a_purge_up_to_a_file_of_the_new_name(breaks: bool):
    journal = renamed(source())
    journal.row()
    journal.record("binlog_purge", to_file="newbin.000001")
    for _ in range(2):
        journal.row(gtid_purged=f"{UUID_A}:1-{2 if breaks else 3}")
    assert ["purged_matches_oldest_file"] * breaks == audit(journal).broken


@pytest.mark.parametrize("breaks", [False, True])
def test_a_purge_within_the_old_name(breaks: bool):
    journal = source()
    journal.binlog.rotate()
    journal.groups(1)
    renamed(journal)
    journal.record("binlog_purge", to_file="binlog.000002")
    for _ in range(2):
        journal.row(gtid_purged=f"{UUID_A}:1-{4 if breaks else 3}")
    assert ["purged_matches_oldest_file"] * breaks == audit(journal).broken


def test_a_hole_in_the_numbers_of_one_name_is_found():
    journal = renamed(source())
    journal.binlog.rotate()
    journal.row(**listed("binlog.000001", "newbin.000001", "newbin.000003"))
    assert ["binlog_files_form_range"] == audit(journal).broken


def test_what_the_log_held_under_its_old_name_is_still_expected():
    """Of the new file's Previous_gtids."""
    journal = source()
    journal.binlog.stop()
    journal.record("stop")
    journal.start()
    journal.binlog.base_name = "newbin"
    journal.binlog.open(1, previous=f"{UUID_A}:1-2")
    assert ["previous_gtids_continuity"] == audit(journal).broken


def test_the_old_name_comes_back():
    journal = renamed(source()).groups(1)
    renamed(journal, "binlog", 2).groups(1)
    journal.row(**listed("binlog.000001", "newbin.000001", "binlog.000002"))
    assert [] == audit(journal).broken


def test_files_of_the_old_name_are_delivered_again():
    """The new file goes on after them."""
    journal = source()
    again = [dict(record) for record in journal.records if record["kind"] == "binlog"]
    renamed(journal)
    for record in again:
        journal.record("binlog").update(record | {"ts": journal.ts})
    journal.groups(1).row(**listed("binlog.000001", "newbin.000001"))
    assert [] == audit(journal).broken


def test_behind_a_gap_old_names_may_have_been_given_out_again():
    journal = source()
    journal.binlog.rotate()
    journal.record("gap")
    journal.purged = f"{UUID_A}:1-3"
    renamed(journal)
    journal.row(**listed("binlog.000001", "binlog.000002", "newbin.000001"))
    assert [] == audit(journal).broken


@pytest.mark.parametrize("has_fallen", [False, True])
def test_a_new_name_with_an_index_of_its_own_and_back(has_fallen: bool):
    """Without log_bin_index each name has its own, and what its files lack counts as purged.

    As a tail records it; it fell where the log is still the one of that name.
    """
    journal = source()
    journal.row(**listed("binlog.000001"))
    file, end = journal.binlog.coordinates
    for kind in ("gap", "binlog_reset"):
        journal.record(kind)
    journal.start()
    journal.purged = f"{UUID_A}:1-3"
    journal.binlog.base_name = "newbin"
    journal.binlog.open(1, previous="")
    journal.groups(2)
    journal.row(**listed("newbin.000001"))
    name = "newbin" if has_fallen else "binlog"
    journal.start(crashed=True, recovered={"file": file, "position": end})
    journal.purged = f"{UUID_A}:4-5"
    journal.binlog.base_name = name
    journal.binlog.open(2, previous=f"{UUID_A}:1-3")
    journal.groups(1)
    journal.row(**listed(f"{name}.000001", f"{name}.000002"))
    assert ("purged_monotone" in audit(journal).broken) == has_fallen
    assert has_fallen or [] == audit(journal).broken


@pytest.mark.parametrize("has_lists", [True, False])
def test_without_log_bin_index_the_new_name_begins_an_index(has_lists: bool):
    """Its head is empty, what the old files hold is purged, and the old name finds them again."""

    def row(*names: str, **beside: Any) -> Record:
        return journal.row(**(listed(*names) if has_lists else {}), **beside)

    journal = source()
    journal.binlog.rotate()
    row("binlog.000001", "binlog.000002")
    old, journal.binlog.gtids = journal.binlog.gtids, Gtids()
    renamed(journal)
    journal.purged = str(old)
    row("newbin.000001")
    journal.groups(1)
    row("newbin.000001")
    journal.binlog.rotate()
    journal.groups(1)
    row("newbin.000001", "newbin.000002")
    new, journal.binlog.gtids = journal.binlog.gtids, old
    renamed(journal, "binlog", 3)
    journal.purged = str(new)
    row(*(f"binlog.{number:06d}" for number in (1, 2, 3)))
    assert [] == audit(journal).broken
    row(*(f"binlog.{number:06d}" for number in (1, 2, 3)), gtid_purged="")
    assert "purged_monotone" in audit(journal).broken


def test_what_an_index_of_its_own_lacks_must_be_purged():
    journal = source()
    journal.row()
    journal.binlog.gtids = Gtids()
    renamed(journal)
    journal.row()
    assert ["executed_within_logged"] == audit(journal).broken


def test_a_replica_that_changes_the_name_of_its_own_log():
    journal, relay, more = replica()
    journal.row(replica_status=journal.replica_status())
    renamed(journal)
    for group in more[:2]:
        apply(journal, relay, group)
    journal.row(replica_status=journal.replica_status())
    assert [] == audit(journal).broken


_opens = re.compile(r'"kind":"binlog","instance":"([^"]+)".*"file":"([^"]+)\.([0-9]{6})"').search
_starts = re.compile(r'"kind":"start","instance":"([^"]+)"').search


def _with_new_names(lines: list[str]) -> list[str]:
    """Each server opens its files under another name from its first restart on."""
    seen: set[str] = set()
    restarted: set[str] = set()
    first: dict[str, int] = {}
    for line in lines:
        start, event = _starts(line), _opens(line)
        if start is not None and start[1] in seen:
            restarted.add(start[1])
        if event is not None:
            seen.add(event[1])
            if event[1] in restarted and '"start":4,' in line:
                first.setdefault(event[2], int(event[3]))
    assert first
    for base, since in first.items():

        def rename(found: re.Match[str], base: str = base, since: int = since) -> str:
            number = int(found[1])
            return found[0] if number < since else f'"new-{base}.{number - since + 1:06d}"'

        lines = [re.sub(rf'"{base}\.([0-9]{{6}})"', rename, line) for line in lines]
    return lines


@pytest.mark.parametrize("negative", ["restart_source", "restart_replica", "crash_source", "purge"])
@pytest.mark.parametrize("seed", [0, 3])
def test_replicas_of_a_server_that_changes_the_name_follow_it(negative: str, seed: int):
    """Positions of the old log and of the new one have the same numbers."""
    wanted = (negative, "restart_source")
    history = simulate(Scenario(seed=seed, topology="demo", negatives=wanted)).blocks(100)
    lines = [line for block in history for line in block_to_lines(block)]
    result = audit_history(blocks_from_lines(_with_new_names(lines)))
    assert [] == [(one.rule, explain(one).sentence) for one in result.findings]
