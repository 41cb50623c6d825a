"""The tables of a run: one commit a micro-batch, and reading them back without repeats."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tallystick.coordinates.audit.cut import Cut
from tallystick.coordinates.audit.incidents import Incidents
from tallystick.coordinates.results import (
    Check,
    Observation,
    ObservationCode,
    Outcome,
    SubjectCheck,
    Verdict,
)
from tallystick.runs.audit import Audit
from tallystick.runs.demo import preflight
from tallystick.runs.result import TABLES
from tallystick.runs.tables import read_run
from tallystick.settings import Settings
from tallystick.streaming import (
    delta_table,
    newest_rows,
    table_checksums,
    table_reader,
    table_sink,
    tables,
)
from tallystick.streaming.errors import TableError
from tallystick.streaming.table_sink import END_BATCH, TableSink
from tallystick.streaming.table_upkeep import Retention, keep_up
from tests.support.results import finding

FINDING = finding(collection_id="c1", sequence=2**62, ts=5)
PAGE = Path(__file__).parents[2] / "docs" / "tables.md"


def test_a_micro_batch_that_comes_again_changes_nothing(tmp_path):
    """From the same process or another; an earlier number neither. Another run has its own."""
    sink = TableSink(tmp_path, "run")
    sink.write(3, findings=[FINDING])
    for again in (sink, TableSink(tmp_path, "run")):
        for number in (3, 2):
            again.write(number, findings=[replace(FINDING, at="c2")])
    assert [FINDING] == table_reader.read_findings(tmp_path)
    assert 1 == DeltaTable(tmp_path / "findings").version()
    TableSink(tmp_path, "other").write(3, findings=[replace(FINDING, at="c2")])
    assert 2 == len(table_reader.read_findings(tmp_path))


@pytest.mark.parametrize("name", ["a b", "a%b", "100%", "%zz", "ü", "a?b#c"])
def test_tables_are_read_back_whatever_their_directory_is_called(tmp_path, name):
    """Characters that a URI quotes are part of a name."""
    TableSink(tmp_path / name, "run").write(0, findings=[FINDING])
    assert [FINDING] == table_reader.read_findings(tmp_path / name)


@pytest.mark.parametrize("name", ["a%20b", "%25", "a%2Fb", "%e2%82%ac"])
def test_a_directory_that_no_table_can_be_in_is_refused_at_the_start(tmp_path, name):
    """An escape in a path is read as the character, and the table looked for elsewhere."""
    directory, link = tmp_path / name / "state", tmp_path / "link"
    directory.mkdir(parents=True)
    link.symlink_to(directory)
    for start in (
        lambda place: TableSink(place, "run"),
        lambda place: preflight(place, 0),
        lambda place: Audit(
            Settings(directory=place, bootstrap_servers="127.0.0.1:1"),
            available_now=False,
            history_ends=False,
        ).prepare(),
    ):
        for place in (directory, link):
            with pytest.raises(
                TableError, match=f"expected a path without '{name[name.index('%') :][:3]}'"
            ):
                start(place)
    assert [] == list(directory.iterdir())


def test_a_micro_batch_without_rows_commits_nothing(tmp_path):
    """Not even a table."""
    TableSink(tmp_path, "run").write(0, findings=[], cuts=[])
    assert [] == list(tmp_path.iterdir())


def test_what_was_written_at_the_end_is_taken_back(tmp_path):
    """Of this run only; and written anew it replaces what was there."""
    sink, other = TableSink(tmp_path, "run"), TableSink(tmp_path, "other")
    later = [replace(FINDING, at=name) for name in ("c2", "c3", "c4")]
    sink.write(0, findings=[FINDING])
    other.write(END_BATCH, findings=later[:1])
    sink.write(END_BATCH, findings=later[1:2])
    sink.write(END_BATCH, findings=later[2:])
    assert ["c1", "c2", "c4"] == sorted(one.at for one in table_reader.read_findings(tmp_path))
    TableSink(tmp_path, "run").take_back_end()
    assert ["c1", "c2"] == sorted(one.at for one in table_reader.read_findings(tmp_path))


def test_a_finding_is_read_once(tmp_path):
    """The same contradiction in two micro-batches, or from two runs, is one finding."""
    TableSink(tmp_path, "one").write(0, findings=[FINDING])
    TableSink(tmp_path, "one").write(1, findings=[FINDING])
    TableSink(tmp_path, "two").write(0, findings=[FINDING, replace(FINDING, ts=1)])
    assert len(table_reader.read_findings(tmp_path)) == 1


def test_a_commit_that_was_cut_short_is_not_read(tmp_path):
    """A file that no commit names, and a commit under its temporary name."""
    TableSink(tmp_path, "run").write(0, findings=[FINDING])
    [file] = (tmp_path / "findings").glob("*.parquet")
    (file.parent / "part-00001.parquet").write_bytes(file.read_bytes())
    (file.parent / "_delta_log" / "_commit_0.json.tmp").write_text("{")
    assert [FINDING] == table_reader.read_findings(tmp_path)


def test_an_answer_replaces_the_row_that_says_it_is_missing(tmp_path):
    """Whichever of the two was written first."""
    missing = Cut(collection_id="c1", instance_id="a", scope="instance", answer="missing")
    answer = Cut(collection_id="c1", instance_id="a", scope="instance", lsn=2**63 - 1)
    for name, rows in (("x", (missing, answer)), ("y", (answer, missing))):
        for number, row in enumerate(rows):
            TableSink(tmp_path / name, "run").write(number, cuts=[row])
        assert [answer] == table_reader.read_cuts(tmp_path / name)


def test_of_two_checks_of_a_collection_the_later_counts(tmp_path):
    """A late answer, or what came to light after the last collection; each comes back whole."""
    sink = TableSink(tmp_path, "run")
    held = SubjectCheck("a", "", "c2", 5, Check("lsn_order", Outcome.HOLDS))
    why = Check("lsn_order", Outcome.UNDECIDED, "not_read", {"ts": 2**62, "sources": ["s"]})
    other, later = held._replace(collection_id="c1", ts=3), held._replace(check=why)
    sink.write(0, checks=[held, other])
    sink.write(END_BATCH, checks=[later])
    assert [other, later] == table_reader.read_checks(tmp_path)


def test_a_collection_that_is_written_meanwhile_is_read_by_nobody(tmp_path):
    """Tables are read one after the other: all are of the collections that were there first."""
    sink = TableSink(tmp_path, "run")
    held = SubjectCheck("a", "", "c1", 1, Check("lsn_order", Outcome.HOLDS))
    row = Cut(collection_id="c1", instance_id="a", scope="instance", ts=1)
    for count in (None, 5):
        shown = None
        for number, name in enumerate((f"{count}-1", f"{count}-2")):
            cut, check = replace(row, collection_id=name), held._replace(collection_id=name)
            sink.write(2 * (count or 0) + number, cuts=[cut], checks=[check])
            shown = shown or table_reader.newest_collections(tmp_path, count)
        assert {one.collection_id for one in table_reader.read_cuts(tmp_path, shown)} == shown.names
        checks = table_reader.read_checks(tmp_path, shown)
        assert {one.collection_id for one in checks} == shown.names


def test_a_collection_that_is_closed_meanwhile_is_open(tmp_path, monkeypatch):
    """Its last answers and its validation are committed between any two tables that are read."""
    tables = tmp_path / TABLES
    row = Cut(collection_id="c", instance_id="a", scope="instance", ts=1)
    validation = {"collection_id": "c", "verdict": "CONSISTENT", "reason": "", "instances": 2,
                  "missing": 0, "is_late": False, "ts": 2}  # fmt: skip
    readers = [name for name in vars(table_reader) if name.startswith("read_")]
    for number, between in enumerate(readers):
        sink = TableSink(tables, f"run {number}")
        sink.write(0, cuts=[row])
        with monkeypatch.context() as patched:
            read = getattr(table_reader, between)

            def then_close(*args, read=read, sink=sink):
                found = read(*args)
                sink.write(1, cuts=[replace(row, instance_id="b", ts=2)], validations=[validation])
                return found

            patched.setattr(table_reader, between, then_close)
            begun_at = datetime.now(timezone.utc)
            result = read_run(tmp_path, command="serve", title="", begun_at=begun_at)
        closed = {cut.instance_id for cut in result.closed_cuts if result.validations}
        assert closed in (set(), {"a", "b"}), between
        shutil.rmtree(tables)


def test_a_validation_is_written_when_all_else_is(tmp_path, monkeypatch):
    """So whoever reads it first reads a collection as a whole."""
    sink = TableSink(tmp_path, "run")
    written = []
    append = sink._append
    monkeypatch.setattr(
        sink, "_append", lambda name, *args: (append(name, *args), written.append(name))
    )
    row = Cut(collection_id="c", instance_id="a", scope="instance", ts=1)
    held = SubjectCheck("a", None, "c", 1, Check("lsn_order", Outcome.HOLDS))
    validation = {"collection_id": "c", "verdict": "CONSISTENT", "reason": "", "instances": 1,
                  "missing": 0, "is_late": False, "ts": 1}  # fmt: skip
    sink.write(0, validations=[validation], cuts=[row], checks=[held], findings=[finding()])
    assert sorted(written) == ["checks", "cuts", "findings", "validations"]
    assert written[-1] == "validations"


def test_the_newest_collections_are_read_whole(tmp_path):
    """Also where a job was killed between its tables, or wrote several collections at once."""
    sink = TableSink(tmp_path, "run")
    for batch in range(3):
        names = [f"c-{batch}-{number}" for number in range(2)]
        row = Cut(collection_id="", instance_id="a", scope="instance", ts=batch)
        cuts = [replace(row, collection_id=name) for name in names]
        held = Check("lsn_order", Outcome.HOLDS)
        checks = [SubjectCheck("a", None, name, batch, held) for name in names]
        sink.write(batch, checks=checks)
        sink.write(batch, checks=checks, cuts=cuts)
    for count in range(1, 7):
        shown = table_reader.newest_collections(tmp_path, count)
        read = table_reader.read_cuts(tmp_path, shown), table_reader.read_checks(tmp_path, shown)
        assert [{one.collection_id for one in rows} for rows in read] == [shown.names] * 2


def test_a_run_that_nobody_has_answered_is_read(tmp_path):
    """It has validations, and no row that names a collection."""
    none = {"collection_id": "c", "verdict": "UNDECIDED", "reason": "nobody has answered",
            "instances": 0, "missing": 0, "is_late": False, "ts": 1}  # fmt: skip
    directory = tmp_path / TABLES
    TableSink(directory, "run").write(0, validations=[none])
    shown = table_reader.newest_collections(directory, 5)
    for read in (table_reader.read_validations, table_reader.read_cuts, table_reader.read_checks):
        assert [] == read(directory, shown)
    assert ([], {}) == newest_rows.read_newest(directory)
    began = datetime.fromtimestamp(0, timezone.utc)
    result = read_run(tmp_path, command="audit", title="", begun_at=began)
    assert Verdict.UNDECIDED is result.verdict


def test_nothing_written_is_nothing_read(tmp_path):
    """A directory that was never written to is empty, not an error."""
    for read in (
        table_reader.read_findings,
        table_reader.read_cuts,
        table_reader.read_checks,
        table_reader.read_validations,
        table_reader.read_observations,
    ):
        assert 0 == len(read(tmp_path))
    assert frozenset() == table_reader.newest_collections(tmp_path, 5).names


@pytest.mark.parametrize("name", ["tables", "a b%#?=ü'", "../up", "-"])
def test_reading_runs_no_python_in_threads_of_arrow(tmp_path, monkeypatch, name):
    """One that lets go of a file while the process ends would abort it. From any directory."""

    def refuse(*_of_file_system):
        raise AssertionError("a file system of Python's")

    monkeypatch.setattr("pyarrow.fs.PyFileSystem", refuse)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for directory in (Path(name), Path(name).absolute()):
        TableSink(directory, "run").write(0, findings=[FINDING])
        assert [FINDING] == table_reader.read_findings(directory)


@pytest.mark.parametrize("ts", [0, -1, 2**62, 2**63 - 1, -(2**63)])
def test_hostile_values_stop_nothing(tmp_path, ts):
    """Half a surrogate pair, which UTF-8 cannot spell; a time that no calendar has."""
    seen = Observation(
        ObservationCode.JOURNAL_GAP,
        *("a", None, "1", "why", {"x": "\ud83d"}, ("a", "b"), True, None, 0, 0, ts),
    )
    found = [FINDING, replace(FINDING, at="c2", witness="<\ud83d>", ts=ts)]
    cut = Cut(collection_id="c", instance_id="a", scope="instance", ts=ts)
    sink = TableSink(tmp_path, "run", Retention(1, 1))
    sink.write(0, findings=found, observations=[seen], cuts=[cut])
    sink.await_upkeep()
    assert {"w", "<\\ud83d>"} == {one.witness for one in table_reader.read_findings(tmp_path)}
    rows = table_reader.read_observations(tmp_path)
    assert [seen] == table_reader.observations_of(rows)
    assert ts == table_reader.collection_time(tmp_path, "c")


def test_tables_of_another_version_are_refused(tmp_path, monkeypatch):
    """Neither written nor read: one sentence."""
    TableSink(tmp_path, "run").write(0, findings=[FINDING])
    written = tables.SCHEMA_VERSION
    monkeypatch.setattr(delta_table, "SCHEMA_VERSION", written + 1)
    both = rf"schema {written}.*schema {written + 1}.*move the directory away"
    with pytest.raises(TableError, match=both):
        TableSink(tmp_path, "run").write(1, findings=[FINDING])
    with pytest.raises(TableError, match=both):
        table_reader.read_findings(tmp_path)


def test_the_page_has_the_columns_as_they_are_written(tmp_path):
    """docs/tables.md, and the tables on disk, are the schemas of the code."""
    assert PAGE.read_text("utf-8").endswith(tables.page())
    for kind in tables.TABLES.values():
        made = delta_table.made(tmp_path, kind)
        assert tables.full_schema(kind) == pa.schema(made.to_pyarrow_dataset().schema)


def test_upkeep_gives_freed_memory_back(tmp_path):
    """The C library keeps what was freed below something that is still used."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    size = 64_000
    blocks = [libc.malloc(size) for _ in range(2_000)]
    for block in blocks:
        ctypes.memset(block, 1, size)
    used = blocks.pop()
    for block in blocks:
        libc.free(block)
    before = resident_bytes()
    keep_up(tmp_path, "run", 1, Retention(30, 30))
    after = resident_bytes()
    libc.free(used)
    assert before - after > len(blocks) * size / 2


def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_upkeep_keeps_the_rows_and_few_files(tmp_path, monkeypatch):
    """Small files are put together; what has been kept for long enough goes, by kind of table."""
    monkeypatch.setattr(table_sink, "UPKEEP_BATCHES", 5)
    ago_ns = 0
    clock = time.time_ns
    monkeypatch.setattr(table_sink.time, "time_ns", lambda: clock() - ago_ns)
    sink = TableSink(tmp_path, "run", Retention(details_days=2, history_days=20))
    for number in range(16):
        ago_ns = (10 if number < 4 else 0) * 86_400 * 10**9
        cut = Cut(collection_id=f"c{number}", instance_id="a", scope="instance", ts=number)
        sink.write(number, findings=[replace(FINDING, at=str(number))], cuts=[cut])
        if number >= 10:
            # A round that goes on longer than the rest of the writes would leave them as they are.
            sink.await_upkeep()
    assert len(DeltaTable(tmp_path / "findings").file_uris()) < 8
    assert 16 == len(table_reader.read_findings(tmp_path))
    assert {f"c{n}" for n in range(4, 16)} == {
        cut.collection_id for cut in table_reader.read_cuts(tmp_path)
    }


def tidied(directory, number):
    """The log of the findings, without the commits that a checkpoint has: they are old."""
    table = directory / "findings"
    DeltaTable(table).create_checkpoint()
    for path in (table / "_delta_log").iterdir():
        os.utime(path, (time.time() - 3600, time.time() - 3600))
    keep_up(directory, "upkeep", number, Retention(30, 30))
    return sorted(path.name for path in table.glob("_delta_log/*.json"))


def test_upkeep_keeps_few_commits(tmp_path):
    """Each commit lists all that are there."""
    sink = TableSink(tmp_path, "run")
    for number in range(20):
        sink.write(number, findings=[replace(FINDING, at=str(number))])
    assert len(tidied(tmp_path, 20)) < 5
    assert 20 == len(table_reader.read_findings(tmp_path))


def test_a_writer_goes_on_when_the_log_is_gone_that_it_knows(tmp_path):
    """Another run has written and tidied the table since."""
    sink, other = TableSink(tmp_path, "run"), TableSink(tmp_path, "other")
    sink.write(0, findings=[FINDING])
    for number in range(5):
        other.write(number, findings=[replace(FINDING, at=str(number))])
    assert f"{1:020d}.json" not in tidied(tmp_path, 5)
    sink.write(0, findings=[replace(FINDING, at="written before")])
    sink.write(1, findings=[replace(FINDING, at="next")])
    sink.compare()
    assert {FINDING.at, *"01234", "next"} == {f.at for f in table_reader.read_findings(tmp_path)}


def test_a_reader_reads_while_the_log_is_tidied(tmp_path, monkeypatch):
    """It has read which commits there are, and they are in a checkpoint when it looks at them."""
    sink = TableSink(tmp_path, "run")
    for number in range(5):
        sink.write(number, findings=[replace(FINDING, at=str(number))])
    known = table_checksums._known

    def read_before(table):
        monkeypatch.setattr(table_checksums, "_known", known)
        names = known(table)
        tidied(tmp_path, 5)
        return names

    monkeypatch.setattr(table_checksums, "_known", read_before)
    assert 5 == len(table_reader.read_findings(tmp_path))


def test_a_job_killed_at_any_moment_writes_each_micro_batch_once(tmp_path):
    """With upkeep on the way; each process begins with the last number again, as Spark does."""
    program = (
        "import sys; from pathlib import Path\n"
        "from tallystick.streaming import table_sink, table_reader\n"
        "from tallystick.streaming.table_upkeep import Retention\n"
        "from tests.streaming.test_tables import FINDING, replace\n"
        "table_sink.UPKEEP_BATCHES = 3\n"
        "directory = Path(sys.argv[1])\n"
        "sink = table_sink.TableSink(directory, 'run', Retention(9, 9))\n"
        "number = max(0, len(table_reader.read_findings(directory)) - 1)\n"
        "while True:\n"
        "    sink.write(number, findings=[replace(FINDING, at=str(number))])\n"
        "    number += 1\n"
        "    print(number, flush=True)\n"
    )
    root = Path(__file__).parents[2]
    environ = {**os.environ, "PYTHONPATH": f"{root}:{os.environ.get('PYTHONPATH', '')}"}
    for lines in (1, 4, 2, 7):
        with subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, env=environ
        ) as process:
            for _ in range(lines):
                assert process.stdout.readline(), "the process ended"
            process.kill()
    written = delta_table.read(tmp_path, tables.FINDINGS)["batch"].to_pylist()
    assert sorted(written) == list(range(len(written)))
    assert len(written) >= 1 + 3 + 1 + 6


def test_incidents_before_a_micro_batch_are_those_of_other_numbers(tmp_path):
    """One that was written in part is done again: its own rows are not before it."""
    [opened] = Incidents().absorb([FINDING])
    sink = TableSink(tmp_path, "run")
    for number in range(3):
        sink.write(number, incidents=[replace(opened.incident, count=number + 1)])
    assert [1, 2, 3] == [sink.incidents(before)[0].count for before in (1, 2, 3)]
    assert [] == sink.incidents(0)
    assert [3] == [one.count for one in TableSink(tmp_path, "other").incidents(0)]
