"""Parquet files by micro-batch, and reading them back without repeats."""

from __future__ import annotations

from dataclasses import replace

from tallystick.coordinates.audit.cut import Cut
from tallystick.streaming import sinks
from tests.support.results import finding

FINDING = finding(collection_id="c1", sequence=2**62, ts=5)


def test_a_retried_micro_batch_replaces_its_files(tmp_path):
    """The second writing of a number is the only one that is read."""
    sink = sinks.ParquetSink(tmp_path, "run")
    sink.write("000", findings=[FINDING])
    sink.write("000", findings=[replace(FINDING, at="c2")])
    assert [replace(FINDING, at="c2")] == sinks.read_findings(tmp_path)
    sink.write("000")
    assert sinks.read_findings(tmp_path) == []


def test_a_finding_is_read_once(tmp_path):
    """The same contradiction in two micro-batches, or from two runs, is one finding."""
    sinks.ParquetSink(tmp_path, "one").write("000", findings=[FINDING])
    sinks.ParquetSink(tmp_path, "one").write("001", findings=[FINDING])
    sinks.ParquetSink(tmp_path, "two").write("000", findings=[FINDING, replace(FINDING, ts=1)])
    assert len(sinks.read_findings(tmp_path)) == 1


def test_a_half_written_file_is_not_read(tmp_path):
    """Readers never see a file under its temporary name."""
    sinks.ParquetSink(tmp_path, "run").write("000", findings=[FINDING])
    (tmp_path / "findings" / ".run-001.parquet.7.tmp").write_bytes(b"PAR1")
    assert [FINDING] == sinks.read_findings(tmp_path)


def test_an_answer_replaces_the_row_that_says_it_is_missing(tmp_path):
    """Whichever of the two was written first."""
    missing = Cut(collection_id="c1", instance_id="a", scope="instance", answer="missing")
    answer = Cut(collection_id="c1", instance_id="a", scope="instance", lsn=2**63 - 1)
    sinks.ParquetSink(tmp_path / "x", "run").write("000", cuts=[missing])
    sinks.ParquetSink(tmp_path / "x", "run").write("001", cuts=[answer])
    sinks.ParquetSink(tmp_path / "y", "run").write("000", cuts=[answer])
    sinks.ParquetSink(tmp_path / "y", "run").write("001", cuts=[missing])
    assert [answer] == sinks.read_cuts(tmp_path / "x") == sinks.read_cuts(tmp_path / "y")


def test_nothing_written_is_nothing_read(tmp_path):
    """A sink that was never written to is empty, not an error."""
    assert sinks.read_findings(tmp_path) == sinks.read_cuts(tmp_path) == []
    assert sinks.read_observations(tmp_path) == sinks.read_validations(tmp_path) == []


def test_half_a_surrogate_pair_stops_nothing(tmp_path):
    """A text that JSON can spell and UTF-8 cannot is written with its escape."""
    sink = sinks.ParquetSink(tmp_path, "run")
    sink.write("000", findings=[FINDING, replace(FINDING, at="c2", witness="<\ud83d>")])
    assert ["w", "<\\ud83d>"] == [finding.witness for finding in sinks.read_findings(tmp_path)]
