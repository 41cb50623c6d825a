"""The driver's state that 0.1.0 left in its checkpoint location: today's job goes on from it."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from tallystick.coordinates.events.block_codec import encode_block
from tallystick.coordinates.events.json_lines import blocks_from_lines
from tallystick.streaming import sinks
from tallystick.streaming.auditor import BlockRow, _frame, audit_rows
from tallystick.streaming.checkpoint import CheckpointLocation, Layout
from tallystick.streaming.fleet import FleetStep
from tallystick.streaming.progress import Metrics
from tallystick.streaming.schema import AUDIT_ROWS
from tests.support.state_vectors import STATES, StateVector, told

BATCH_ID = 7


@pytest.mark.parametrize("name", sorted(path.name for path in STATES.iterdir()))
def test_a_checkpoint_of_the_first_version_is_gone_on_from(tmp_path, name: str):
    """Instances' states and the driver's are read, and the micro-batch behind them is judged."""
    vector = StateVector.load(STATES / name)
    checkpoint = CheckpointLocation(tmp_path / "checkpoint", Layout(2, "t"))
    checkpoint.save_state(BATCH_ID - 1, vector.driver)
    fleet = FleetStep(
        checkpoint=checkpoint,
        parquet=sinks.ParquetSink(tmp_path / "out", "run"),
        kafka=None,
        validate=None,
        metrics=Metrics(),
    )
    rows = []
    for offset, block in enumerate(blocks_from_lines(vector.rest)):
        saved = vector.instances[block.instance_id]
        message = BlockRow(encode_block(block), None, 0, offset)
        _, result = audit_rows(saved, block.instance_id, [message])
        rows += _frame(block.instance_id, result).to_dict("records")
    fleet.absorb(pa.Table.from_pylist(rows, schema=to_arrow_schema(AUDIT_ROWS)), BATCH_ID)
    fleet.finish()
    assert vector.expected == told(sinks.read_findings(tmp_path / "out"))
    validations = sinks.read_validations(tmp_path / "out")
    assert validations
    assert not any(each["missing"] or each["is_late"] for each in validations)
