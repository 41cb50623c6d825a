"""What the benchmarks compare with is fair: it reads all that tallystick reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import codec, report
from benchmarks.growth_sets import set_of
from benchmarks.json_records import add_record
from benchmarks.sizing import SHARE, Fleet, limits, table
from benchmarks.small_journal import journal
from tallystick.coordinates.audit.instance import InstanceAudit
from tallystick.coordinates.events.journal import BlockBuilder
from tallystick.coordinates.events.json_lines_writer import block_to_lines
from tallystick.producers.load.history import START_US, LoadPlan
from tallystick.producers.load.run import LoadOptions, load_blocks


def loaded_blocks():
    plan = LoadPlan(sources=1, replicas=1, status_every=500, block_size=500)
    return load_blocks(LoadOptions(plan=plan, events=4000), lambda: 0.0)


def of_single_records(block):
    """The block from one JSON record after the other."""
    builder = BlockBuilder(
        block.instance_id,
        epoch=block.epoch,
        first_sequence=block.first_sequence,
        cluster=block.cluster,
    )
    for line in block_to_lines(block):
        add_record(builder, json.loads(line))
    return builder.build()


def test_one_message_an_event_is_the_same_journal():
    """Each kind of record that the load generator makes, parsed without the checks of a block."""
    kinds = set()
    for block in loaded_blocks():
        records = [json.loads(line) for line in block_to_lines(block)]
        kinds |= {record["kind"] for record in records}
        again = [json.loads(line) for line in block_to_lines(of_single_records(block))]
        assert again == records
    assert {"binlog", "relay", "redo", "log_status"} <= kinds


def test_one_message_an_event_is_audited_the_same():
    """Rows are judged from it as well: the core would pass over a record with a key too many."""
    whole, single, rows = {}, {}, 0
    for block in loaded_blocks():
        name = block.instance_id
        output = whole.setdefault(name, InstanceAudit(name)).absorb(block)
        again = single.setdefault(name, InstanceAudit(name)).absorb(of_single_records(block))
        assert (again.cuts, again.observations) == (output.cuts, output.observations)
        rows += len(output.cuts)
    assert rows


def test_blocks_are_measured(monkeypatch, capsys):
    """In the form that they have: each line has a size or a rate."""
    for name, value in (("REPEATS", 1), ("BATCH_BLOCKS", 1), ("BLOCK_SIZE", 500)):
        monkeypatch.setattr(codec, name, value)
    codec.main()
    lines = list(map(json.loads, capsys.readouterr().out.splitlines()))
    assert lines[0]["what"] == "block"
    assert all("bytes" in line or "events_per_s" in line for line in lines)


def test_a_history_is_made_that_can_be_reported(tmp_path, capsys):
    """Of days without a finding as well."""
    report.make_history(tmp_path / report.DIRECTORY, days=2, details_days=1)
    report.measure_report(tmp_path)
    assert "3 instances  2 channels  2,880 collections" in capsys.readouterr().out


def test_the_page_of_sizes_is_what_is_computed():
    """Both fleets of it, digit by digit."""
    page = (Path(__file__).parents[1] / "docs" / "sizing.md").read_text("utf-8")
    assert f"<!-- python -m benchmarks.sizing -->\n{table(Fleet(1_000, 500_000))}\n" in page
    large = "<!-- python -m benchmarks.sizing --instances 100000 --events 50000000 -->\n"
    assert f"{large}{table(Fleet(100_000, 50_000_000))}\n" in page


def test_a_part_is_what_was_measured():
    """At the rates that its cost was computed from, one part is busy for a second a second."""
    for rate, records in ((2_420_000, 3_587), (155_096, 122)):
        fleet = Fleet(1, rate, blocks=rate / records)
        assert 1.0 == pytest.approx(SHARE * fleet.parts_exact, abs=0.01)


def test_the_worst_limit_comes_first_and_halving_a_fleet_halves_it():
    """All of them are proportional to the fleet, but for the rates that stay the same."""
    whole = {what: times for what, times, _ in limits(Fleet(1_000, 500_000))}
    half = {what: times for what, times, _ in limits(Fleet(500, 250_000))}
    assert sorted(whole.values(), reverse=True) == [*whole.values()]
    assert {what: times / 2 for what, times in whole.items()} == pytest.approx(half)


@pytest.mark.parametrize("before", ["", set_of(2, 30)])
def test_a_row_that_claims_too_much_is_found_each_time(before):
    """What the latency is measured by; without the claim there is nothing to be found."""
    for ahead in (0, 1):
        audit = InstanceAudit("a")
        for number, block in enumerate(journal("a", 600, START_US, before=before, ahead=ahead), 1):
            found = {(one.rule, one.collection_id) for one in audit.absorb(block).findings}
            assert found == ({("executed_within_logged", f"a-{number}")} if ahead else set())
