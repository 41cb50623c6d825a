"""Parquet files by micro-batch, and reading them back without repeats."""

from __future__ import annotations

from dataclasses import replace

from tallystick.coordinates.audit.cut import Cut
from tallystick.coordinates.results import Check, Outcome, SubjectCheck
from tallystick.streaming import tables
from tests.support.results import finding

FINDING = finding(collection_id="c1", sequence=2**62, ts=5)


def test_a_retried_micro_batch_replaces_its_files(tmp_path):
    """The second writing of a number is the only one that is read."""
    sink = tables.ParquetSink(tmp_path, "run")
    sink.write("000", findings=[FINDING])
    sink.write("000", findings=[replace(FINDING, at="c2")])
    assert [replace(FINDING, at="c2")] == tables.read_findings(tmp_path)
    sink.write("000")
    assert tables.read_findings(tmp_path) == []


def test_a_finding_is_read_once(tmp_path):
    """The same contradiction in two micro-batches, or from two runs, is one finding."""
    tables.ParquetSink(tmp_path, "one").write("000", findings=[FINDING])
    tables.ParquetSink(tmp_path, "one").write("001", findings=[FINDING])
    tables.ParquetSink(tmp_path, "two").write("000", findings=[FINDING, replace(FINDING, ts=1)])
    assert len(tables.read_findings(tmp_path)) == 1


def test_a_half_written_file_is_not_read(tmp_path):
    """Readers never see a file under its temporary name."""
    tables.ParquetSink(tmp_path, "run").write("000", findings=[FINDING])
    (tmp_path / "findings" / ".run-001.parquet.7.tmp").write_bytes(b"PAR1")
    assert [FINDING] == tables.read_findings(tmp_path)


def test_an_answer_replaces_the_row_that_says_it_is_missing(tmp_path):
    """Whichever of the two was written first."""
    missing = Cut(collection_id="c1", instance_id="a", scope="instance", answer="missing")
    answer = Cut(collection_id="c1", instance_id="a", scope="instance", lsn=2**63 - 1)
    tables.ParquetSink(tmp_path / "x", "run").write("000", cuts=[missing])
    tables.ParquetSink(tmp_path / "x", "run").write("001", cuts=[answer])
    tables.ParquetSink(tmp_path / "y", "run").write("000", cuts=[answer])
    tables.ParquetSink(tmp_path / "y", "run").write("001", cuts=[missing])
    assert [answer] == tables.read_cuts(tmp_path / "x") == tables.read_cuts(tmp_path / "y")


def test_of_two_checks_of_a_collection_the_later_counts(tmp_path):
    """A late answer, or what came to light after the last collection; each comes back whole."""
    sink = tables.ParquetSink(tmp_path, "run")
    held = SubjectCheck("a", "", "c2", 5, Check("lsn_order", Outcome.HOLDS))
    why = Check("lsn_order", Outcome.UNDECIDED, "not_read", {"ts": 2**62, "sources": ["s"]})
    other, later = replace(held, collection_id="c1", ts=3), replace(held, check=why)
    sink.write("000", checks=[held, other])
    sink.write(tables.END_BATCH, checks=[later])
    assert [other, later] == tables.read_checks(tmp_path)


def test_nothing_written_is_nothing_read(tmp_path):
    """A sink that was never written to is empty, not an error."""
    assert tables.read_findings(tmp_path) == tables.read_cuts(tmp_path) == []
    assert tables.read_checks(tmp_path) == []
    assert tables.read_observations(tmp_path) == tables.read_validations(tmp_path) == []


def test_half_a_surrogate_pair_stops_nothing(tmp_path):
    """A text that JSON can spell and UTF-8 cannot is written with its escape."""
    sink = tables.ParquetSink(tmp_path, "run")
    sink.write("000", findings=[FINDING, replace(FINDING, at="c2", witness="<\ud83d>")])
    assert ["w", "<\\ud83d>"] == [finding.witness for finding in tables.read_findings(tmp_path)]
