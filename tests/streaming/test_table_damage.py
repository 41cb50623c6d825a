"""Files of a table that were changed, cut short or deleted: named before anything is read."""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from tallystick.coordinates.audit.cut import Cut
from tallystick.coordinates.results import Observation, ObservationCode, SubjectCheck, held
from tallystick.streaming import table_checksums, table_reader
from tallystick.streaming.delta_table import CHECKPOINT_COMMITS
from tallystick.streaming.errors import TableError
from tallystick.streaming.table_sink import TableSink
from tallystick.streaming.table_upkeep import Retention, keep_up
from tests.support.results import finding

FINDINGS = [finding(collection_id=f"c{number}", at=f"c{number}") for number in range(6)]


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Path:
    """Tables with a checkpoint of their log, and commits after it."""
    directory = tmp_path_factory.mktemp("tables")
    sink = TableSink(directory, "run")
    for number, one in enumerate(FINDINGS):
        sink.write(number, findings=[one])
        if number == 3:
            DeltaTable(directory / "findings").create_checkpoint()
    return directory


def needed(directory: Path) -> list[Path]:
    """The files that the findings are read from."""
    table = directory / "findings"
    log = table / "_delta_log"
    return [
        *table.glob("*.parquet"),
        log / "00000000000000000004.checkpoint.parquet",
        *(log / f"{number:020d}.json" for number in (5, 6)),
    ]


def flip(path: Path, bit: int) -> None:
    """Change one bit of a file."""
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


def test_every_file_has_a_checksum(written):
    """Those that rows are read from; what was undamaged is read."""
    lines = (written / "findings" / table_checksums.FILE).read_text().splitlines()
    assert {str(p.relative_to(written / "findings")) for p in needed(written)} <= {
        line.split()[1] for line in lines
    }
    assert [f.finding_id for f in FINDINGS] == [
        f.finding_id for f in table_reader.read_findings(written)
    ]
    TableSink(written, "run").compare()


@pytest.mark.parametrize("how", ["flipped", "cut short", "deleted"])
@pytest.mark.parametrize("index", range(9))
def test_a_damaged_file_is_named(written, tmp_path, index, how):
    """Whichever it is and whatever happened to it; by the reader and by a job that starts."""
    directory = tmp_path / "tables"
    shutil.copytree(written, directory)
    path = needed(directory)[index]
    if how == "flipped":
        flip(path, Random(index).randrange(8 * path.stat().st_size))
    elif how == "cut short":
        path.write_bytes(path.read_bytes()[:-1])
    else:
        path.unlink()
    for read in (table_reader.read_findings, lambda at: TableSink(at, "run").compare()):
        with pytest.raises(TableError, match=f"{path.name}.*expected [0-9a-f]{{8}}. To fix"):
            read(directory)


def varint(number: int) -> bytes:
    """As Parquet's footer has the offset of a page: Thrift's compact form, by sevens of bits."""
    *low, high = [2 * number >> at & 127 for at in range(0, max(7, (2 * number).bit_length()), 7)]
    return bytes([*(128 | seven for seven in low), high])


def without_dictionary(checkpoint: Path, name: str) -> None:
    """Change the footer of a file: the pages of a column have no dictionary that they need."""
    group = pq.read_metadata(checkpoint).row_group(0)
    columns = map(group.column, range(group.num_columns))
    [column] = (one for one in columns if one.path_in_schema == name)
    data, dictionary = varint(column.data_page_offset), varint(column.dictionary_page_offset)
    whole = checkpoint.read_bytes()
    assert whole.count(data + b"\x26" + dictionary) == 1
    checkpoint.write_bytes(whole.replace(data + b"\x26" + dictionary, data + b"\x36" + dictionary))


def test_what_makes_rust_panic_is_named(written, tmp_path):
    """Files without checksums, as of an earlier version: a panic is no Exception of Python's."""
    directory = tmp_path / "tables"
    shutil.copytree(written, directory)
    (directory / "findings" / table_checksums.FILE).unlink()
    [checkpoint] = directory.glob("findings/_delta_log/*.checkpoint.parquet")
    without_dictionary(checkpoint, "sidecar.sizeInBytes")
    for use in (
        table_reader.read_findings,
        lambda at: TableSink(at, "run").compare(),
        lambda at: TableSink(at, "run").take_back_end(),
        lambda at: keep_up(at, "run", 9, Retention(30, 30)),
    ):
        with pytest.raises(TableError, match=r"findings' is damaged: .*crashed.* To fix: make"):
            use(directory)


@pytest.mark.parametrize("text", ["", "{", '{"add":{}}', '{"add":1}', "[]\n1", "\xff"])
def test_a_commit_that_is_not_read_any_more_is_named_before_it_gets_a_checksum(
    written, tmp_path, text
):
    """Its checkpoint stands for it; whoever adds to the table looks at it once."""
    directory = tmp_path / "tables"
    shutil.copytree(written, directory)
    (directory / "findings" / table_checksums.FILE).unlink()
    commit = directory / "findings" / "_delta_log" / f"{1:020d}.json"
    commit.write_text(text, "latin-1")
    sink = TableSink(directory, "run")
    if not text:
        sink.write(9, findings=FINDINGS[:1])
        return
    with pytest.raises(TableError, match=rf"{commit.name}' is damaged: .* To fix: make"):
        sink.write(9, findings=FINDINGS[:1])


VALUES = {
    "findings": FINDINGS[:1],
    "observations": [Observation.of_no_record(ObservationCode.JOURNAL_GAP, "here", "why")],
    "cuts": [Cut(collection_id="c1", instance_id="a", scope="instance", ts=1)],
    "checks": [SubjectCheck("a", None, "c1", 1, held("lsn_order"))],
    "validations": [
        {"collection_id": "c1", "verdict": "CONSISTENT", "reason": "", "instances": 1, "missing": 0,
         "is_late": False, "ts": 1}
    ],
}  # fmt: skip
READERS = {
    "findings": table_reader.read_findings,
    "observations": lambda at: table_reader.observations_of(table_reader.read_observations(at)),
    "cuts": table_reader.read_cuts,
    "checks": table_reader.read_checks,
    "validations": table_reader.read_validations,
}


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("findings", "severity", "errors"),
        ("findings", "data", "{"),
        ("findings", "data", None),
        ("observations", "code", "JOURNAL"),
        ("observations", "data", ""),
        ("cuts", "verdict", "CONSISTENT?"),
        ("checks", "outcome", "held"),
        ("validations", "verdict", ""),
    ],
)
def test_a_value_that_no_run_writes_is_named(tmp_path, table, column, value):
    """In files without checksums, as of an earlier version or of whoever writes tables."""
    directory = tmp_path / "my runs" / "audit" / "tables"
    (directory.parent / "checkpoint").mkdir(parents=True)
    TableSink(directory, "run").write(0, **VALUES)
    assert len(READERS[table](directory)) == 1
    (directory / table / table_checksums.FILE).unlink()
    [file] = (directory / table).glob("*.parquet")
    rows = pq.read_table(file)
    at = rows.column_names.index(column)
    pq.write_table(rows.set_column(at, rows.field(at), pa.array([value], pa.string())), file)
    with pytest.raises(TableError) as refused:
        READERS[table](directory)
    shown = str(refused.value)
    damage = "is damaged: a row has a value that no run writes: "
    assert shown.startswith(f"'{directory / table}' {damage}")
    assert shown.endswith(f". To fix: tallystick rebuild --directory '{tmp_path / 'my runs'}'")


def test_a_directory_in_the_place_of_a_file_is_named(written, tmp_path):
    """As of a copy that went wrong."""
    directory = tmp_path / "tables"
    shutil.copytree(written, directory)
    path = directory / "findings" / "_delta_log" / f"{6:020d}.json"
    path.unlink()
    path.mkdir()
    with pytest.raises(TableError, match=rf"{path.name}' is damaged: .*Is a directory.* To fix"):
        table_reader.read_findings(directory)


def test_damage_of_the_checksums_is_named_or_does_no_harm(written, tmp_path):
    """A bit of them changed: never other rows."""
    for seed in range(40):
        directory = tmp_path / str(seed)
        shutil.copytree(written, directory)
        sums = directory / "findings" / table_checksums.FILE
        flip(sums, Random(seed).randrange(8 * sums.stat().st_size))
        with contextlib.suppress(TableError):
            assert len(FINDINGS) == len(table_reader.read_findings(directory))
        shutil.rmtree(directory)


def test_a_commit_without_checksums_gets_them_from_the_next_writer(written, tmp_path):
    """Its writer was killed in between."""
    directory = tmp_path / "tables"
    shutil.copytree(written, directory)
    sums = directory / "findings" / table_checksums.FILE
    whole = sums.read_text()
    sums.write_text("".join(whole.splitlines(keepends=True)[:-2]))
    TableSink(directory, "run").write(9, findings=[replace(FINDINGS[0], at="c9")])
    assert set(whole.splitlines()) < set(sums.read_text().splitlines())


def test_a_writer_reads_the_checksums_of_others_only(tmp_path, monkeypatch):
    """Its own it has just written: there may be hundreds of thousands."""
    sink, other = TableSink(tmp_path, "run"), TableSink(tmp_path, "other")
    sink.write(1, findings=FINDINGS[:1])
    sums = tmp_path / "findings" / table_checksums.FILE
    reads = []
    known = table_checksums._known
    monkeypatch.setattr(table_checksums, "_known", lambda table: reads.append(1) or known(table))
    for batch in range(2, 2 + CHECKPOINT_COMMITS):
        sink.write(batch, findings=FINDINGS[:1])
    assert not reads
    table_checksums.forget_removed(tmp_path / "findings")
    other.write(1, findings=FINDINGS[:1])
    sink.write(2 + CHECKPOINT_COMMITS, findings=FINDINGS[:1])
    assert reads
    names = [line.split()[1] for line in sums.read_text().splitlines()]
    log = tmp_path / "findings" / "_delta_log"
    files = {*tmp_path.glob("findings/*.parquet"), *log.glob("*.json"), *log.glob("*.parquet")}
    assert sorted(names) == sorted(str(path.relative_to(tmp_path / "findings")) for path in files)


def test_upkeep_leaves_checksums_of_what_is_there(written, tmp_path):
    """Files put together are compared too; those that were removed are forgotten."""
    directory = tmp_path / "tables"
    shutil.copytree(written, directory)
    keep_up(directory, "run", 9, Retention(30, 30))
    assert len(FINDINGS) == len(table_reader.read_findings(directory))
    [name] = table_checksums.data_names(DeltaTable(directory / "findings"))
    flip(directory / "findings" / name, 800)
    with pytest.raises(TableError, match=name):
        table_reader.read_findings(directory)
    lines = (directory / "findings" / table_checksums.FILE).read_text().splitlines()
    assert all((directory / "findings" / line.split()[1]).exists() for line in lines)
