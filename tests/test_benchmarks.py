"""What the benchmarks compare with is fair: it reads all that tallystick reads."""

from __future__ import annotations

import json

from benchmarks.pipeline import add_record
from tallystick.coordinates.events.journal import BlockBuilder
from tallystick.coordinates.events.json_lines_writer import block_to_lines
from tallystick.producers.load.history import LoadPlan
from tallystick.producers.load.run import LoadOptions, load_blocks


def test_one_message_an_event_is_the_same_journal():
    """Each kind of record that the load generator makes, parsed without the checks of a block."""
    plan = LoadPlan(sources=1, replicas=1, status_every=500, block_size=500)
    kinds = set()
    for block in load_blocks(LoadOptions(plan=plan, events=4000), lambda: 0.0):
        builder = BlockBuilder(
            block.instance_id, epoch=block.epoch, first_sequence=block.first_sequence
        )
        records = [json.loads(line) for line in block_to_lines(block)]
        for record in records:
            kinds.add(record["kind"])
            add_record(builder, record)
        assert records == [json.loads(line) for line in block_to_lines(builder.build())]
    assert {"binlog", "relay", "redo", "log_status"} <= kinds
