"""What backup tools write, read: each form, whole, odd and damaged."""

from __future__ import annotations

import gzip
import json

import pytest

from tallystick.certify.backup import ReplicaPosition, UnreadableBackupError
from tallystick.coordinates.values.binlog import LogCoordinates
from tallystick.coordinates.values.gtid import GtidSet
from tallystick.errors import MisuseError
from tallystick.runs.certify import read_backup

A, B = "aaaaaaaa-0000-0000-0000-000000000001", "bbbbbbbb-0000-0000-0000-000000000002"
AT = LogCoordinates.of_file("mysql-bin.000003", 481)
BOTH = GtidSet.parse(f"{A}:1-57,{B}:1-3")
CHECKPOINTS = "backup_type = full-backuped\nfrom_lsn = 0\nto_lsn = 15\nlast_lsn = 20\n"


@pytest.fixture
def backup(tmp_path):
    """Write the files of a backup, and read it."""

    def write(files):
        for name, text in files.items():
            content = text if isinstance(text, bytes) else text.encode()
            (tmp_path / name).write_bytes(content)
        return read_backup(tmp_path)

    return write


def test_an_xtrabackup_is_read(backup):
    """All its files; the set goes on over lines."""
    found = backup(
        {
            "xtrabackup_binlog_info": f"mysql-bin.000003\t481\t{A}:1-57,\n{B}:1-3\n",
            "xtrabackup_info": (
                "uuid = 90703d66-664e-11e7-a7d3-44a8421278f5\nname = \ntool_command = --x=... /b\n"
                f"binlog_pos = filename 'mysql-bin.000003', position '481', GTID of the last change"
                f" '{A}:1-57,\n{B}:1-3'\ninnodb_from_lsn = 0\ninnodb_to_lsn = 15\npartial = N\n"
            ),
            "xtrabackup_checkpoints": CHECKPOINTS + "flushed_lsn = 20\nredo_memory = 0\n",
            "backup-my.cnf": f"[mysqld]\ninnodb_page_size=16384\nserver_uuid={A.upper()}\n",
            "ibdata1": b"\0\xff",
        }
    )
    assert (found.position, found.gtids, found.server_uuid) == (AT, BOTH, A)
    assert found.redo is not None
    assert (found.redo.from_lsn, found.redo.to_lsn, found.redo.last_lsn) == (0, 15, 20)
    assert found.replica == ()
    assert list(found.contradictions()) == []
    assert [BOTH, BOTH] == [said.gtids for said in found.said if said.position]
    text = "binlog_pos = filename 'mysql-bin.000003', position '481'\n"
    found = backup({"xtrabackup_info": text, "xtrabackup_binlog_info": "mysql-bin.000003\t481\n"})
    assert (found.position, found.gtids) == (AT, None)


@pytest.mark.parametrize(
    ("text", "gtids", "replica"),
    [
        (
            "CHANGE MASTER TO MASTER_LOG_FILE='mysql-bin.000003', MASTER_LOG_POS=481;\n",
            None,
            [ReplicaPosition("", AT)],
        ),
        (
            (
                "CHANGE REPLICATION SOURCE TO SOURCE_LOG_FILE='mysql-bin.000003',"
                " SOURCE_LOG_POS=481 FOR CHANNEL 'o''clock';\nCHANGE REPLICATION SOURCE TO"
                " SOURCE_LOG_FILE='b.000001', SOURCE_LOG_POS=4 FOR CHANNEL 'b';\n"
            ),
            None,
            [
                ReplicaPosition("o'clock", AT),
                ReplicaPosition("b", LogCoordinates.of_file("b.000001", 4)),
            ],
        ),
        (
            (
                f"SET GLOBAL gtid_purged='{A}:1-57,\n{B}:1-3';\nCHANGE MASTER TO"
                " MASTER_AUTO_POSITION=1;\n"
            ),
            BOTH,
            [ReplicaPosition("", None)],
        ),
        (
            (
                f"RESET MASTER;\nSET GLOBAL gtid_purged='{BOTH}';\nCHANGE REPLICATION SOURCE TO"
                " SOURCE_HOST='h;', SOURCE_AUTO_POSITION=1;"
            ),
            BOTH,
            [ReplicaPosition("", None)],
        ),
        ("", None, []),
    ],
)
def test_slave_info_has_several_forms(backup, text, gtids, replica):
    """By position and by GTID, of one channel or several, by old and new names."""
    found = backup({"xtrabackup_slave_info": text})
    assert (found.gtids, list(found.replica)) == (gtids, replica)


HEAD = (
    "-- MySQL dump 10.13  Distrib 8.0.31, for Linux (x86_64)\n--\n-- Host: h;    Database: \n"
    "-- ------------------------------------------------------\n-- Server version\t8.0.31\n\n"
    "/*!40101 SET @OLD_CHARACTER_SET_CLIENT=@@CHARACTER_SET_CLIENT */;\n"
    "/*!50503 SET NAMES utf8mb4 */;\nSET @MYSQLDUMP_TEMP_LOG_BIN = @@SESSION.SQL_LOG_BIN;\n"
    "SET @@SESSION.SQL_LOG_BIN= 0;\n\n"
)
OWN = "--\n-- Position to start replication or point-in-time recovery from\n--\n\n"
OF_SOURCE = (
    "--\n-- Position to start replication or point-in-time recovery from (the master of this"
    " slave)\n--\n\n"
)
CHANGE = "CHANGE MASTER TO MASTER_LOG_FILE='mysql-bin.000003', MASTER_LOG_POS=481;\n"
PURGED = f"SET @@GLOBAL.GTID_PURGED=/*!80000 '+'*/ '{A}:1-57,\n{B}:1-3';\n"
TABLES = "\n--\n-- Table structure for table `t`\n--\n\nDROP TABLE IF EXISTS `t`;\n"
NOT_COORDINATES = "\n".join(("INSERT INTO `t` VALUES ('", CHANGE.replace("481", "999"), "');"))


@pytest.mark.parametrize(
    ("header", "position", "gtids"),
    [
        (OWN + CHANGE, AT, None),
        (OWN + "-- " + CHANGE, AT, None),
        (PURGED, None, BOTH),
        (PURGED.replace("/*!80000 '+'*/ ", ""), None, BOTH),
        (f"/* SET @@GLOBAL.GTID_PURGED='+{A}:1-57,\n{B}:1-3';*/\n", None, BOTH),
        (PURGED + "\n" + OWN + CHANGE.replace("MASTER TO", "REPLICATION SOURCE TO"), AT, BOTH),
    ],
)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_dumps_header_is_read(backup, header, position, gtids, pack):
    """Commented or not, by old and new names, packed or not; data are no coordinates."""
    text = HEAD + header + TABLES + NOT_COORDINATES
    found = backup({"all.sql.gz" if pack is gzip.compress else "all.sql": pack(text.encode())})
    assert (found.position, found.gtids, found.replica, found.doubts) == (position, gtids, (), ())


def test_whose_position_a_dump_has(backup):
    """Of --dump-replica it is the source's; without comments nobody knows."""
    found = backup({"all.sql": HEAD + OF_SOURCE + CHANGE})
    assert (found.position, found.replica) == (None, (ReplicaPosition("", AT),))
    found = backup({"all.sql": CHANGE})
    assert (found.position, found.replica) == (None, ())
    assert len(found.doubts) == 1


def test_mariadb_dump_says_it_in_other_words(backup):
    """The client that Debian has, of a MySQL server."""
    mariadb = "/*M!999999\\- enable the sandbox mode */ \n" + HEAD.partition("SET @MYSQL")[0]
    of_source = (
        "--\n-- The following is the SQL position of the replication taken from SHOW SLAVE STATUS"
        " at the time of backup.\n-- Use this position when creating a clone of, or replacement"
        " server, from where the backup was taken.\n--\n-- "
    )
    own = (
        "--\n-- Alternately, following is the position of the binary logging from SHOW MASTER"
        " STATUS at point of backup.\n-- Use this when creating a slave of the master server"
        " where the backup was made.\n--\n\n-- "
    )
    found = backup({"all.sql": mariadb + of_source + CHANGE + TABLES})
    assert (found.position, found.replica, found.doubts) == (None, (ReplicaPosition("", AT),), ())
    found = backup({"all.sql": mariadb + own + CHANGE + TABLES})
    assert (found.position, found.replica, found.doubts) == (AT, (), ())


OLD_METADATA = (
    "Started dump at: 2026-11-24 03:19:35\nSHOW MASTER STATUS:\n\tLog: mysql-bin.000003\n\tPos: 481"
    f"\n\tGTID:{A}:1-57,\n{B}:1-3\n\nSHOW SLAVE STATUS:\n\tConnection name: x\n\tHost: 127.0.0.1\n"
    f"\tLog: b.000001\n\tPos: 4\n\tGTID:{B}:1-3\n\nFinished dump at: 2026-11-24 03:19:36\n"
)
NEW_METADATA = f"""# Started dump at: 2026-06-09 11:47:18
[config]
quote_character = BACKTICK

[source]
# Channel_Name = '' # It can be use to setup replication FOR CHANNEL
File = mysql-bin.000003
Position = 481
Executed_Gtid_Set = {A}:1-57,{B}:1-3

[replication.x]
# relay_master_log_file = 'b.000001'
# exec_master_log_pos = 4
# Executed_Gtid_Set = {B}:1-3
# Master_Log_File = 'b.000009'
# Exec_Master_Log_Pos = 99

[`sakila`.`store`]
Rows = 2
File = other.000007
# Finished dump at: 2026-06-09 11:47:18
"""


@pytest.mark.parametrize(
    "text",
    [
        OLD_METADATA,
        NEW_METADATA,
        NEW_METADATA.replace("[source]", "[master]").replace("File = mysql", '# File = "mysql')
        .replace("bin.000003", 'bin.000003"').replace("Position =", "# Position ="),
        NEW_METADATA.replace("File = mysql", "SOURCE_LOG_FILE = mysql")
        .replace("Position =", "SOURCE_LOG_POS ="),
    ],
)  # fmt: skip
def test_mydumper_has_two_forms(backup, text):
    """Below titles, and in sections; commented or not. Beside it are many SQL files."""
    found = backup({"metadata": text, "a.sql": HEAD, "b.sql": HEAD})
    assert (found.form, found.position, found.gtids) == ("mydumper", AT, BOTH)
    assert found.replica == (ReplicaPosition("x", LogCoordinates.of_file("b.000001", 4)),)


def test_a_quote_that_is_not_closed_is_part_of_mydumper_s_value(backup):
    """Nothing is cut off at its end."""
    found = backup({"metadata": NEW_METADATA.replace("File = mysql", 'File = "mysql')})
    assert found.position == LogCoordinates.of_file('"mysql-bin.000003', 481)


SHELL = {
    "dumper": "mysqlsh Ver 8.4.0",
    "serverVersion": "8.0.31",
    "binlogFile": "mysql-bin.000003",
    "binlogPosition": 481,
    "gtidExecuted": f"{A}:1-57,\n{B}:1-3",
    "gtidExecutedInconsistent": False,
    "consistent": True,
}


def test_mysql_shell(backup):
    """What it doubts itself is a doubt."""
    found = backup({"@.json": json.dumps(SHELL), "@.sql": "--", "s@t.sql": "--"})
    assert (found.form, found.position, found.gtids) == ("MySQL Shell", AT, BOTH)
    assert found.doubts == ()
    torn = backup({"@.json": json.dumps({**SHELL, "gtidExecutedInconsistent": True})})
    loose = backup({"@.json": json.dumps({**SHELL, "consistent": False, "gtidExecuted": ""})})
    assert (len(torn.doubts), len(loose.doubts), loose.gtids) == (1, 1, None)


CLONE = {
    "ID": 1, "STATE": "Completed", "SOURCE": "h:3306", "ERROR_NO": 0, "ERROR_MESSAGE": "",
    "BINLOG_FILE": "./mysql-bin.000003", "BINLOG_POSITION": 481,
    "GTID_EXECUTED": f"{A}:1-57,\n{B}:1-3",
}  # fmt: skip


def as_table(row):
    cells = (str(value).replace("\n", "\\n") for value in row.values())
    return "\t".join(row) + "\n" + "\t".join(cells) + "\n"


@pytest.mark.parametrize(
    "files",
    [
        {"clone_status.json": json.dumps(CLONE)},
        {"clone_status.json": json.dumps([{k.lower(): v for k, v in CLONE.items()}])},
        {"clone_status.tsv": as_table(CLONE)},
    ],
)
def test_a_clone(backup, files):
    """The row as JSON, alone or in a list, and as the client prints it."""
    found = backup(files)
    assert (found.form, found.position, found.gtids) == ("clone", AT, BOTH)


@pytest.mark.parametrize(
    ("files", "where"),
    [
        ({}, "the directory"),
        ({"ibdata1": "x"}, "the directory"),
        ({"a.sql": HEAD + PURGED, "b.sql": HEAD + PURGED}, "the directory"),
        ({"xtrabackup_binlog_info": ""}, "line 1"),
        ({"xtrabackup_binlog_info": "mysql-bin.000003\n"}, "line 1"),
        ({"xtrabackup_binlog_info": "mysql-bin.000003\t48x\n"}, "line 1"),
        ({"xtrabackup_binlog_info": "mysql-bin.000003\t-1\n"}, "line 1"),
        ({"xtrabackup_binlog_info": "mysql-bin\t481\n"}, "line 1"),
        ({"xtrabackup_binlog_info": "mysql\x1b-bin.000003\t481\n"}, "line 1"),
        ({"xtrabackup_binlog_info": "mysql-bin.000003\t" + "9" * 5000 + "\n"}, "line 1"),
        ({"xtrabackup_binlog_info": "mysql-bin.000003\t481\t0-1-9072431\n"}, "column 3"),
        ({"xtrabackup_binlog_info": f"mysql-bin.000003\t481\t{A}:x\n"}, "column 3"),
        ({"xtrabackup_binlog_info": b"\x28\xb5\x2f\xfd\x00"}, "its beginning"),
        ({"xtrabackup_binlog_info": gzip.compress(b"x" * 999)[:-9]}, "its gzip form"),
        ({"xtrabackup_binlog_info.zst": b"x"}, "its name"),
        ({"xtrabackup_slave_info": "DROP TABLE t;"}, "statement 1"),
        ({"xtrabackup_slave_info": "STOP SLAVE;"}, "statement 1"),
        ({"xtrabackup_slave_info": "CHANGE MASTER TO MASTER_LOG_FILE='b.000001';"}, "statement 1"),
        ({"xtrabackup_slave_info": "CHANGE MASTER TO MASTER_LOG_FILE='b.00"}, "statement 1"),
        ({"xtrabackup_slave_info": CHANGE[:-2] + " FOR CHANNEL 'a\\\\b';"}, "statement 1"),
        ({"xtrabackup_slave_info": "SET GLOBAL gtid_purged=@x;"}, "statement 1"),
        ({"xtrabackup_info": "binlog_pos = filename 'b.000001'\n"}, "key 'binlog_pos'"),
        ({"xtrabackup_info": "rubbish\n"}, "line 1"),
        ({"xtrabackup_checkpoints": "from_lsn = 0\n"}, "key 'to_lsn'"),
        ({"xtrabackup_checkpoints": "to_lsn = 1.5\n"}, "key 'to_lsn'"),
        ({"xtrabackup_checkpoints": "to_lsn = " + "9" * 5000}, "key 'to_lsn'"),
        ({"backup-my.cnf": "server_uuid=x\n"}, "key 'server_uuid'"),
        ({"all.sql": HEAD + TABLES}, "header"),
        ({"all.sql": TABLES + PURGED}, "header"),
        ({"all.sql": HEAD + OWN + CHANGE + PURGED[:-20]}, "line"),
        ({"all.sql": HEAD + OWN + CHANGE[:-6]}, "line"),
        ({"all.sql": ""}, "header"),
        ({"metadata": OLD_METADATA[:-40]}, "its end"),
        ({"metadata": OLD_METADATA.replace("\tPos: 481\n", "")}, "below line 2"),
        ({"metadata": OLD_METADATA.replace("\tGTID", "\tGTID: x")}, "below line 2"),
        ({"metadata": NEW_METADATA + "[master]\nFile = b.000001\n"}, "line 22"),
        ({"metadata": "# Finished dump at: x\n"}, "the file"),
        ({"metadata": NEW_METADATA.replace("[replication.x]", "[replication.\x1b]")}, "line 11"),
        ({"metadata.partial": OLD_METADATA}, "its name"),
        ({"@.json": json.dumps(SHELL)[:-9]}, "the file"),
        ({"@.json": "[" * 99_999}, "the file"),
        ({"@.json": "[]"}, "the file"),
        ({"@.json": json.dumps({**SHELL, "binlogPosition": True})}, "keys"),
        ({"@.json": json.dumps({**SHELL, "binlogPosition": None})}, "keys"),
        ({"@.json": json.dumps({**SHELL, "binlogFile": 3})}, "keys"),
        ({"@.json": json.dumps({**SHELL, "gtidExecuted": 7})}, "key"),
        ({"@.json": json.dumps({"dumper": "x"})}, "the object"),
        ({"clone_status.json": json.dumps({**CLONE, "STATE": "In Progress"})}, "the row"),
        ({"clone_status.json": json.dumps({**CLONE, "ERROR_NO": 3862})}, "the row"),
        ({"clone_status.json": json.dumps({"STATE": "Completed"})}, "the row"),
        ({"clone_status.tsv": as_table(CLONE).partition("\n")[0]}, "the file"),
        ({"clone_status.tsv": "", "clone_status.json": "{}"}, "the directory"),
    ],
)
def test_what_is_no_backup_is_named(backup, files, where):
    """What, where, and what was expected; nothing half read is taken for coordinates."""
    with pytest.raises(UnreadableBackupError, match=f", {where}.*: expected .*, found "):
        backup(files)


def test_a_file_that_is_not_there(tmp_path):
    """Another kind of error: nothing is known of its form."""
    with pytest.raises(MisuseError, match="cannot be read"):
        read_backup(tmp_path / "nothing")
