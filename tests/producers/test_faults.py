"""The faults of the simulator: a complete catalogue, and injectors that find their moment."""

from __future__ import annotations

import functools
import json
from typing import Any

import numpy as np
import pytest

from tallystick.campaign import run_seed
from tallystick.coordinates.events.block_codec import encode_block
from tallystick.coordinates.events.journal import Block, RecordType, Stream
from tallystick.coordinates.events.json_lines_writer import block_to_lines
from tallystick.coordinates.values.gtid import GtidSet, is_canonical_server_text
from tallystick.coordinates.values.innodb import lsn_offset_is_legal
from tallystick.producers.simulator.assemble import Fleet, History, simulate
from tallystick.producers.simulator.faults import FAULTS, BaseHistory, Fault, make_fault
from tallystick.producers.simulator.faults.row import RowFault
from tallystick.producers.simulator.kernel.instance import Instance
from tallystick.producers.simulator.kernel.scenario import Scenario
from tests.support.catalogue_pages import DOCS, MARK, PAGES

_DUE_US = 2_000_000
_DUE_TS = 1_700_000_000_000_000 + _DUE_US
_CHANGE_FROM_THE_START = {
    "commit_lag_excess",  # small servers
    "innodb_header_stale_under_lock",  # servers that write the header
    "server_uuid_copied",  # one server more
    "worker_info_torn",  # several workers
    "group_repeated_after_crash",  # no GTIDs
    "group_left_out_after_crash",  # no GTIDs
    "receiver_silent_without_gtids",
    "relay_logs_kept_after_crash",  # no GTIDs
}
_PLAIN_ROW_FAULTS = {
    name
    for name, fault in FAULTS.items()
    if issubclass(fault, RowFault)
    and fault.on_fleet is RowFault.on_fleet
    and fault.on_row is RowFault.on_row
    and not (fault.holds_checkpoint or fault.holds_files)
    and name not in _CHANGE_FROM_THE_START
}
"""Faults that need no act of the engine: one log_status record differs from the healthy history."""
_PLAIN_EVENT_FAULTS = {"log_pos_field_wrong", "transaction_length_wrong"}


def _scenario(fault: str | None, **options: Any) -> Scenario:
    return Scenario(
        seed=11,
        topology=options.pop("topology", "demo"),
        duration_ms=6_000,
        fault_at_ms=_DUE_US // 1_000,
        fault=fault,
        acts=False,
        writes_per_second=8.0,
        **options,
    )


def _smallest(fault: str) -> str:
    """A fleet in which the fault has its moment; large ones are in another test."""
    return "single" if "single" in FAULTS[fault].base.topologies else "pair"


def _lines(history: History) -> dict[str, list[str]]:
    """Each instance's records as JSON Lines."""
    return {name: list(block_to_lines(block)) for name, block in history.journals.items()}


@functools.cache
def _healthy(topology: str = "demo") -> History:
    return simulate(_scenario(None, topology=topology))


@functools.cache
def _healthy_lines(topology: str = "demo") -> dict[str, list[str]]:
    return _lines(_healthy(topology))


@pytest.fixture(scope="module", params=FAULTS)
def faulty(request: pytest.FixtureRequest) -> tuple[str, History]:
    """A fault's name, and its history in the smallest fleet."""
    return request.param, simulate(_scenario(request.param, topology=_smallest(request.param)))


@functools.cache
def _changed(fault: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The only record in which a faulty history differs from the healthy one: true, and changed."""
    healthy, changed = _healthy_lines(), _lines(simulate(_scenario(fault)))
    [differing] = [
        (true, reported)
        for name in healthy
        for true, reported in zip(healthy[name], changed[name], strict=True)
        if true != reported
    ]
    return json.loads(differing[0]), json.loads(differing[1])


def test_the_catalogue_is_in_number_order_and_every_fault_has_an_injector() -> None:
    """No number or name is given twice, and nothing is listed that cannot be injected."""
    assert len(FAULTS) == len(Fault.registered)
    numbers = [fault.number for fault in FAULTS.values()]
    assert numbers == sorted(set(numbers))
    assert all(fault.must_fire and fault.text for fault in FAULTS.values())


def test_an_unknown_fault_is_refused_with_the_names_that_are_known() -> None:
    """A misspelt name does not silently give a healthy history."""
    with pytest.raises(ValueError, match=r"gtid_text_corrupted.*got 'gtid_text_corupted'"):
        make_fault("gtid_text_corupted")


def test_a_fault_is_injected_once_and_not_before_it_is_due(faulty: tuple[str, History]) -> None:
    """The history says what was injected, where and when."""
    name, history = faulty
    [note] = history.injected
    assert note["fault"] == name
    assert name == "server_uuid_copied" or note["ts"] >= _DUE_TS


class _InjectedError(Exception):
    """Ends a simulation: the fault has found its moment."""


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_finds_its_moment_in_every_fleet_that_it_needs(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the topology, and not before it is due; in the smallest one in the test above."""

    def note(fleet: Fleet, fault: str, instance: Instance) -> None:
        assert fault == name
        assert name == "server_uuid_copied" or fleet.now >= _DUE_TS
        raise _InjectedError

    monkeypatch.setattr(Fleet, "note_injection", note)
    for topology in {*FAULTS[name].base.topologies} - {_smallest(name)}:
        with pytest.raises(_InjectedError):
            simulate(_scenario(name, topology=topology))


def test_nothing_is_wrong_before_the_fault_is_due(faulty: tuple[str, History]) -> None:
    """Up to that moment the journals are those of the healthy fleet, record for record."""
    name, history = faulty
    topology = _smallest(name)
    for instance_id, lines in _healthy_lines(topology).items():
        healthy, block = _healthy(topology).journals[instance_id], history.journals[instance_id]
        count = int(np.searchsorted(healthy.columns["ts"], _DUE_TS))
        before = list(block_to_lines(block.take(0, min(count, len(block)))))
        assert name in _CHANGE_FROM_THE_START or lines[:count] == before


def test_a_faulty_history_is_as_repeatable_as_a_healthy_one(faulty: tuple[str, History]) -> None:
    """The same seed gives the same records."""
    name, history = faulty
    again = simulate(_scenario(name, topology=_smallest(name)))
    assert {key: encode_block(block) for key, block in again.journals.items()} == {
        key: encode_block(block) for key, block in history.journals.items()
    }


@pytest.mark.parametrize("name", sorted(_PLAIN_ROW_FAULTS))
def test_a_row_fault_changes_one_record_and_no_other(name: str) -> None:
    """Everything but one log_status body is as in the healthy history."""
    true, reported = _changed(name)
    assert true["kind"] == reported["kind"] == "log_status"
    assert true["collection_id"] == reported["collection_id"]


@pytest.mark.parametrize("name", sorted(_PLAIN_EVENT_FAULTS))
def test_an_event_fault_changes_one_event_and_no_other(name: str) -> None:
    """The servers' own state stays as it is; one field of one event is recorded wrong."""
    true, reported = _changed(name)
    differing = {key for key in true if true[key] != reported[key]}
    expected = {"log_pos_field_wrong": "log_pos", "transaction_length_wrong": "transaction_length"}
    assert differing == {expected[name]}


def test_a_corrupted_text_differs_in_one_character() -> None:
    """F1 replaces the last digit and nothing else."""
    true, reported = (
        record["row"]["LOCAL"]["gtid_executed"] for record in _changed("gtid_text_corrupted")
    )
    assert len(true) == len(reported)
    assert sum(a != b for a, b in zip(true, reported, strict=True)) == 1


def test_an_unmerged_text_names_the_same_set() -> None:
    """F2 is a matter of spelling alone."""
    true, reported = (
        record["row"]["LOCAL"]["gtid_executed"] for record in _changed("gtid_text_unmerged")
    )
    assert GtidSet.parse(true) == GtidSet.parse(reported)
    assert is_canonical_server_text(true)
    assert not is_canonical_server_text(reported)


@pytest.mark.parametrize(
    "name",
    ["executed_hole_transient", "executed_shrunk", "purged_outside_executed", "gtid_table_ahead"],
)
def test_a_changed_set_is_printed_as_a_server_prints_it(name: str) -> None:
    """A fault of content is none of spelling."""
    _, reported = _changed(name)
    texts = [
        reported["row"]["LOCAL"]["gtid_executed"],
        reported["gtid_purged"],
        reported["gtid_executed_table"],
    ]
    assert all(is_canonical_server_text(text) for text in texts)


@pytest.mark.parametrize("name", ["checkpoint_beyond_lsn", "checkpoint_stalled"])
def test_changed_redo_positions_stay_in_the_data_bytes_of_their_blocks(name: str) -> None:
    """A fault of order or distance is none of offset."""
    _, reported = _changed(name)
    assert all(map(lsn_offset_is_legal, reported["row"]["STORAGE_ENGINES"]["InnoDB"].values()))


def test_a_hole_heals_with_the_next_row_and_a_permanent_one_never() -> None:
    """F12 and F13 differ in nothing but duration."""
    for name, is_permanent in (
        ("executed_hole_transient", False),
        ("executed_hole_permanent", True),
    ):
        faulty = simulate(_scenario(name))
        instance_id = faulty.injected[0]["instance"]
        histories = (_healthy(), faulty)
        true, reported = (_executed(history.journals[instance_id]) for history in histories)
        missing = [a - b for a, b in zip(true, reported, strict=True)]
        first = next(i for i, gtids in enumerate(missing) if gtids)
        assert all(bool(gtids) == is_permanent for gtids in missing[first + 1 :])


def test_a_power_cut_leaves_a_shorter_log_than_was_journalled() -> None:
    """F57 reports a recovered end that lies before events already delivered."""
    history = simulate(_scenario("source_loses_commits_at_crash"))
    block = history.journals[history.injected[0]["instance"]]
    records = [json.loads(line) for line in block_to_lines(block)]
    start = next(
        record for record in records if record["kind"] == "start" and record.get("crashed")
    )
    ends = [
        record["start"] + record["length"]
        for record in records
        if record["kind"] == "binlog" and record["file"] == start["recovered"]["file"]
    ]
    assert sum(end > start["recovered"]["position"] for end in ends) >= 6


def test_every_base_history_holds_the_demo() -> None:
    """Whatever is listed can be shown live."""
    assert all("demo" in base.topologies for base in BaseHistory)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_the_catalogue_says(name: str) -> None:
    """To write the pages anew: python -m tests.support.catalogue_pages."""
    assert (DOCS / name).read_text("utf-8").partition(MARK)[2] == PAGES[name]()


def _executed(block: Block) -> list[GtidSet]:
    return [
        GtidSet.parse(body["row"]["LOCAL"]["gtid_executed"])
        for i in range(len(block))
        if block.columns["stream"][i] == Stream.SERVER
        and block.columns["type"][i] == RecordType.LOG_STATUS
        and "row" in (body := json.loads(block.texts[i]))
    ]


def test_a_group_that_is_passed_over_stores_no_position() -> None:
    """Its GTID was executed by an empty transaction on the replica: the stored row stays."""
    scenario = Scenario(
        seed=1036691,
        profile="wl9452",
        topology="star",
        duration_ms=6_000,
        writes_per_second=6.0,
        acts=False,
        max_binlog_size=1 << 20,
        fault="group_skipped_by_empty_transaction",
    )
    result = run_seed(scenario)
    assert result.injected
    assert result.fired == result.expected
