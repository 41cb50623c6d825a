"""The checkpoint location: one job at a time, one layout, states by micro-batch."""

from __future__ import annotations

import contextlib
import struct
import zlib
from pathlib import Path

import pytest

from tallystick.coordinates.values.checksum import seal_document, unseal_document
from tallystick.streaming.checkpoint import (
    LAYOUT_VERSION,
    STATES_KEPT,
    CheckpointLocation,
    Layout,
    mark_rebuilt,
    set_aside,
)
from tallystick.streaming.errors import CheckpointError

LAYOUT = Layout(shuffle_partitions=4, journal_topic="tallystick.journal")


def test_a_second_job_is_refused_while_the_first_runs(tmp_path):
    """Two jobs never write one checkpoint; when the first has ended the second may begin."""
    with (
        CheckpointLocation(tmp_path, LAYOUT),
        pytest.raises(CheckpointError, match="Another job runs"),
        CheckpointLocation(tmp_path, LAYOUT),
    ):
        pass
    with CheckpointLocation(tmp_path, LAYOUT) as location:
        assert location.run_id


def test_the_run_id_stays(tmp_path):
    """A restart writes under the same names; a new location under others."""
    with CheckpointLocation(tmp_path / "a", LAYOUT) as location:
        first = location.run_id
    with CheckpointLocation(tmp_path / "a", LAYOUT) as location:
        assert first == location.run_id
    with CheckpointLocation(tmp_path / "b", LAYOUT) as location:
        assert first != location.run_id


@pytest.mark.parametrize("planned", [None, 1, 2])
def test_a_checkpoint_that_spark_has_lost_is_not_begun_anew_in_silence(tmp_path, planned):
    """Without one, or with an older copy; what it had planned last may have been interrupted."""
    with CheckpointLocation(tmp_path, LAYOUT) as location:
        for batch_id in range(3):
            location.save_state(batch_id, b"state")
    if planned is not None:
        offsets = tmp_path / "auditor" / "offsets"
        offsets.mkdir(parents=True)
        for batch_id in range(planned + 1):
            (offsets / str(batch_id)).write_text("v1")
    refused = (
        contextlib.nullcontext()
        if planned == 2
        else pytest.raises(CheckpointError, match="lacks Spark's checkpoint of micro-batch 2")
    )
    with refused, CheckpointLocation(tmp_path, LAYOUT) as location:
        assert location.next_batch_id() == 3


@pytest.mark.parametrize(
    ("layout", "named"),
    [
        (Layout(2, "tallystick.journal"), "shuffle_partitions 4, this run wants 2"),
        (Layout(4, "other"), "journal_topic 'tallystick.journal', this run wants 'other'"),
    ],
)
def test_another_layout_is_refused_and_named(tmp_path, layout, named):
    """What Spark would ignore or break on later is said before anything starts."""
    with CheckpointLocation(tmp_path, LAYOUT):
        pass
    with (
        pytest.raises(CheckpointError, match=named),
        CheckpointLocation(tmp_path, layout),
    ):
        pass


def test_a_location_of_another_version_is_to_be_rebuilt(tmp_path):
    """Its states are of another form, so nothing of it is read."""
    path = tmp_path / "layout.json"
    with CheckpointLocation(tmp_path, LAYOUT):
        known = unseal_document(path.read_bytes())
    path.write_bytes(seal_document({**known, "layout_version": LAYOUT_VERSION - 1}))
    with (
        pytest.raises(CheckpointError, match=r"another version of tallystick.*To fix: make"),
        CheckpointLocation(tmp_path, LAYOUT),
    ):
        pass


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"run_id"'])
def test_a_damaged_layout_is_an_error_with_its_path(tmp_path, content):
    """A layout that cannot be read is never guessed at."""
    (tmp_path / "layout.json").write_text(content)
    with (
        pytest.raises(CheckpointError, match=r"layout\.json"),
        CheckpointLocation(tmp_path, LAYOUT),
    ):
        pass


def test_a_changed_bit_of_the_layout_is_named_or_changes_nothing(tmp_path):
    """A run id one bit off would write every row once more."""
    with CheckpointLocation(tmp_path, LAYOUT) as location:
        run_id = location.run_id
    whole = (tmp_path / "layout.json").read_bytes()
    for bit in range(0, 8 * len(whole), 3):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        (tmp_path / "layout.json").write_bytes(data)
        with (
            contextlib.suppress(CheckpointError),
            CheckpointLocation(tmp_path, LAYOUT) as location,
        ):
            assert location.run_id == run_id


def test_a_changed_bit_of_what_spark_reads_without_comparing_is_named(tmp_path):
    """A digit of an offset would be another offset; Hadoop's checksum is beside the file."""
    with CheckpointLocation(tmp_path, LAYOUT) as location:
        offsets = Path(location.auditor, "offsets", "4")
    offsets.parent.mkdir(parents=True)
    whole = b'v1\n{"batchTimestampMs":1700000000123}\n{"t":{"0":17}}' * 20
    sums = [zlib.crc32(whole[at : at + 512]) for at in range(0, len(whole), 512)]
    beside = offsets.with_name(".4.crc")
    beside.write_bytes(b"crc\0" + struct.pack(f">I{len(sums)}I", 512, *sums))
    for path, data, step in ((offsets, whole, 61), (beside, beside.read_bytes(), 7)):
        for bit in range(0, 8 * len(data), step):
            changed = bytearray(data)
            changed[bit // 8] ^= 1 << bit % 8
            offsets.write_bytes(whole)
            path.write_bytes(changed)
            with (
                pytest.raises(CheckpointError, match=r"offsets/4' is damaged.*To fix: make"),
                CheckpointLocation(tmp_path, LAYOUT),
            ):
                pass
    beside.write_bytes(data)
    offsets.write_bytes(whole)
    with CheckpointLocation(tmp_path, LAYOUT):
        pass


@pytest.mark.parametrize("written", [b"", b"v1\n{"], ids=["nothing", "half"])
def test_half_a_file_of_a_job_that_was_killed_is_no_damage(tmp_path, written):
    """Spark writes under a hidden name first, and never reads what is left of it."""
    with CheckpointLocation(tmp_path, LAYOUT) as location:
        commits = Path(location.auditor, "commits")
    commits.mkdir(parents=True)
    (commits / ".0.03a89819-6fac-4ca5-b2cc-f09db1be7389.tmp").write_bytes(written)
    (commits / "..0.03a89819-6fac-4ca5-b2cc-f09db1be7389.tmp.crc").write_bytes(b"")
    with CheckpointLocation(tmp_path, LAYOUT):
        pass


def test_a_location_that_is_set_aside_is_nobodys(tmp_path):
    """A job that runs from it is left alone; what begins in its place knows why."""
    location, target = tmp_path / "checkpoint", tmp_path / "aside"
    with CheckpointLocation(location, LAYOUT) as running:
        assert running.beginnings_lost() == {}
        with pytest.raises(CheckpointError, match="Another job runs"):
            set_aside(location, target)
    set_aside(location, target)
    assert (target / "layout.json").exists()
    assert not location.exists()
    mark_rebuilt(location, target)
    with CheckpointLocation(location, LAYOUT) as rebuilt:
        assert rebuilt.beginnings_lost() == {}


def test_where_a_rebuilt_journal_begins_is_what_spark_wrote_down(tmp_path):
    """Of the journal's partitions, those that retention has cut."""
    mark_rebuilt(tmp_path, tmp_path / "none")
    with CheckpointLocation(tmp_path, LAYOUT) as location:
        for number, offsets in enumerate(
            ('{"tallystick.collect":{"0":7}}', '{"tallystick.journal":{"0":0,"1":5}}')
        ):
            first = Path(location.auditor, "sources", str(number), "0")
            first.parent.mkdir(parents=True)
            first.write_text(f"v1\n{offsets}")
        assert location.beginnings_lost() == {"1": 5}
        first.write_text("v1\n[")
        with pytest.raises(CheckpointError, match=r"sources/1/0.*To fix: make"):
            location.beginnings_lost()


def test_a_checkpoint_of_something_else_is_refused(tmp_path):
    """A directory with a query of another program is not taken over."""
    (tmp_path / "auditor").mkdir()
    (tmp_path / "auditor" / "metadata").write_text("{}")
    with (
        pytest.raises(CheckpointError, match="is not one of this job"),
        CheckpointLocation(tmp_path, LAYOUT),
    ):
        pass


def test_a_directory_that_cannot_be_made_is_one_sentence(tmp_path):
    """A path through a file."""
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(CheckpointError, match="cannot be written"),
        CheckpointLocation(tmp_path / "file" / "x", LAYOUT),
    ):
        pass


def test_a_retried_micro_batch_gets_the_state_before_it(tmp_path):
    """What micro-batches that were not committed left is forgotten."""
    location = CheckpointLocation(tmp_path, LAYOUT)
    assert location.load_state(0) is None
    for number in range(6):
        location.save_state(number, b"after %d" % number)
    assert location.load_state(5) == b"after 4"
    assert location.load_state(5) == b"after 4"
    with pytest.raises(CheckpointError, match=r"before micro-batch 6 \(fleet/000000000005.state"):
        location.load_state(6)


def test_what_no_restart_needs_is_removed(tmp_path):
    """A restart may begin with each of the last micro-batches that are kept."""
    location = CheckpointLocation(tmp_path, LAYOUT)
    for number in range(9):
        location.save_state(number, b"after %d" % number)
    names = sorted(path.name.lstrip("0") for path in (tmp_path / "fleet").iterdir())
    assert STATES_KEPT == 3
    assert names == ["6.state", "7.state", "8.state"]
    for last in (8, 7, 6):
        assert location.load_state(last + 1) == b"after %d" % last


def test_a_half_written_state_is_no_state(tmp_path):
    """A crash while a state is written leaves a file that nobody reads."""
    location = CheckpointLocation(tmp_path, LAYOUT)
    location.save_state(0, b"after 0")
    (tmp_path / "fleet" / ".000000000001.state.77.tmp").write_bytes(b"ha")
    assert location.load_state(1) == b"after 0"


def test_the_time_of_a_micro_batch_is_the_one_that_spark_wrote_down(tmp_path):
    """Before it ran the micro-batch, so that one which is run again has the same time."""
    with CheckpointLocation(tmp_path, Layout(2, "t")) as checkpoint:
        offsets = Path(checkpoint.auditor, "offsets")
        offsets.mkdir(parents=True)
        metadata = '{"batchWatermarkMs":0,"batchTimestampMs":1700000000123,"conf":{}}'
        (offsets / "4").write_text(f'v1\n{metadata}\n{{"t":{{"0":1}}}}\n-')
        assert checkpoint.batch_time_us(4) == 1_700_000_000_123_000
        (offsets / "5").write_text("v1\n{}\n")
        for number in (5, 6):
            with pytest.raises(CheckpointError, match=f"offsets/{number}"):
                checkpoint.batch_time_us(number)
