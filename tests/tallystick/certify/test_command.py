"""``tallystick certify``: exit statuses, reasons, statements, and what cannot be read."""

from __future__ import annotations

import gzip
import json

import pytest

from tests.support.journals import UUID_A, Journal


@pytest.fixture
def journal(tmp_path):
    """A journal in a file, and a position with its set in the middle of it."""
    made = Journal().begin()
    made.row()
    made.groups(3)
    at = made.binlog.coordinates
    made.groups(3).row()
    file = tmp_path / "journal.jsonl"
    file.write_text("\n".join(made.lines()))
    return file, at


@pytest.fixture
def certify(tallystick, tmp_path, journal):
    """Run the command on an XtraBackup with this set."""

    def run(gtids, *arguments, of=None):
        file, at = journal
        directory = tmp_path / "backup"
        directory.mkdir(exist_ok=True)
        (directory / "xtrabackup_binlog_info").write_text(f"{at[0]}\t{at[1]}\t{gtids}\n")
        return tallystick("certify", str(directory), "--journal", str(of or file), *arguments)

    return run


@pytest.mark.parametrize(
    ("gtids", "code", "word"),
    [
        (f"{UUID_A}:1-3", 0, "TRUE"),
        (f"{UUID_A}:1-4", 1, "FALSE"),
        (f"{UUID_A}:1-2", 3, "UNDECIDED"),
    ],
)
def test_the_verdict_is_the_exit_status(certify, gtids, code, word):
    """As text and as JSON; statements of what is true alone."""
    ran = certify(gtids)
    assert (ran.code, ran.err, ran.out.split(":")[0]) == (code, "", word)
    assert (f"gtid_purged = '{gtids}'" in ran.out) == (code == 0)
    ran = certify(gtids, "--json", "--instance", "a")
    document = json.loads(ran.out)
    assert (ran.code, document["truth"], document["instance"]) == (code, word, "a")
    assert document["coordinates"]["gtid_executed"] == gtids
    assert bool(document["statements"]) == (code == 0)
    names = [check["name"] for check in document["checks"]]
    assert names == ["position_ends_a_group", "set_is_what_was_logged"]


def test_the_positions_of_a_replica_in_json(certify, tmp_path):
    """A channel that replicates by GTID has none."""
    (tmp_path / "backup").mkdir()
    (tmp_path / "backup" / "xtrabackup_slave_info").write_text(
        "CHANGE REPLICATION SOURCE TO SOURCE_LOG_FILE='b.000001', SOURCE_LOG_POS=4"
        " FOR CHANNEL 'x';\n"
        "CHANGE REPLICATION SOURCE TO SOURCE_AUTO_POSITION=1 FOR CHANNEL 'y';\n"
    )
    document = json.loads(certify(f"{UUID_A}:1-3", "--json").out)
    assert document["coordinates"]["replica"] == [
        {"channel": "x", "file": "b.000001", "position": 4},
        {"channel": "y"},
    ]


def test_a_journal_packed_by_gzip(certify, journal, tmp_path):
    """And one of two observers."""
    packed = tmp_path / "packed.gz"
    packed.write_bytes(gzip.compress(journal[0].read_bytes()))
    assert certify(f"{UUID_A}:1-3", of=packed).code == 0
    assert certify(f"{UUID_A}:1-3", "--journal", str(packed)).code == 0


def test_a_dump_under_any_name(tallystick, journal, tmp_path):
    """A file that is named is read, whatever it is called; hostile text is escaped."""
    file, at = journal
    dump = tmp_path / "monday"
    title = "--\n-- Position to start replication or point-in-time recovery from\n--\n\n"
    change = f"-- CHANGE MASTER TO MASTER_LOG_FILE='{at[0]}', MASTER_LOG_POS={at[1]};\n"
    dump.write_text(title + change)
    assert tallystick("certify", str(dump), "--journal", str(file)).code == 3
    named = ("--instance", "a")
    assert tallystick("certify", str(dump), "--journal", str(file), *named).code == 0
    dump.write_text(title + change.replace(at[0], "\x1b[31m.000001"))
    ran = tallystick("certify", str(dump), "--journal", str(file))
    assert (ran.code, ran.out) == (2, "")
    assert "\x1b" not in ran.err
    assert "line 5: expected" in ran.err


def test_what_cannot_be_read(certify, tmp_path):
    """One line that says what."""
    bad = tmp_path / "bad"
    bad.write_text("rubbish\n")
    for ran, words in (
        (certify("0-1-5"), "column 3: expected a GTID set"),
        (certify(f"{UUID_A}:1-3", "--instance", "b"), "no instance 'b'"),
        (certify(f"{UUID_A}:1-3", of=bad), "line 1"),
        (certify(f"{UUID_A}:1-3", of=tmp_path / "none"), "cannot be read"),
    ):
        assert (ran.code, ran.out) == (2, "")
        assert words in ran.err
