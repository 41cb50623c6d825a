"""Which servers are supported, and what each version is asked in its own words."""

from __future__ import annotations

import pytest

from tallystick.producers.mysql.dialect import Dialect
from tallystick.producers.mysql.errors import UnsupportedServerError


@pytest.mark.parametrize(
    ("text", "comment", "version"),
    [
        ("8.0.11", "", (8, 0, 11)),
        ("8.0.31", "MySQL Community Server - GPL", (8, 0, 31)),
        ("8.0.36-28", "Percona Server (GPL), Release 28", (8, 0, 36)),
        ("8.0.39-0ubuntu0.22.04.1", "(Ubuntu)", (8, 0, 39)),
        ("8.0.31-debug-log", "", (8, 0, 31)),
        ("8.4.3", "", (8, 4, 3)),
        ("9.1.0-commercial", "", (9, 1, 0)),
    ],
)
def test_a_supported_server_is_known_by_its_version(text, comment, version):
    """MySQL and Percona Server from 8.0.11 on, whatever stands after the number."""
    assert version == Dialect.of(text, comment).version


@pytest.mark.parametrize(
    ("text", "comment", "said"),
    [
        ("5.5.5-10.11.6-MariaDB-log", "", "is MariaDB"),
        ("11.4.2-MariaDB", "", "is MariaDB"),
        ("8.0.31", "mariadb.org binary distribution", "is MariaDB"),
        ("8.0.11-TiDB-v7.5.1", "", "is TiDB"),
        ("8.0.30-Vitess", "", "is Vitess"),
        ("8.0.30 (ProxySQL)", "", "is ProxySQL"),
        ("5.7.44-log", "", "older than 8.0.11"),
        ("5.6.51", "", "older than 8.0.11"),
        ("8.0.4-rc-log", "", "older than 8.0.11"),
        ("", "", "cannot be read"),
        ("eight", "", "cannot be read"),
        ("8.0", "", "cannot be read"),
        ("8.0.31\x1b[31m" + "x" * 500, "mariadb", r"\\x1b"),
    ],
)
def test_another_server_is_refused_in_one_sentence(text, comment, said):
    """The sentence has what it is, what it said, and what was expected; nothing acts in it."""
    with pytest.raises(UnsupportedServerError, match=said) as refused:
        Dialect.of(text, comment)
    sentence = str(refused.value)
    assert "expected MySQL or Percona Server 8.0, 8.4 or later" in sentence
    assert sentence.isprintable()
    assert len(sentence) < 300


@pytest.mark.parametrize(
    ("version", "replica_status", "replicas", "binary_log_status"),
    [
        ("8.0.21", "SHOW SLAVE STATUS", "SHOW SLAVE HOSTS", "SHOW MASTER STATUS"),
        ("8.0.22", "SHOW REPLICA STATUS", "SHOW REPLICAS", "SHOW MASTER STATUS"),
        ("8.1.0", "SHOW REPLICA STATUS", "SHOW REPLICAS", "SHOW MASTER STATUS"),
        ("8.2.0", "SHOW REPLICA STATUS", "SHOW REPLICAS", "SHOW BINARY LOG STATUS"),
        ("8.4.0", "SHOW REPLICA STATUS", "SHOW REPLICAS", "SHOW BINARY LOG STATUS"),
        ("9.3.0", "SHOW REPLICA STATUS", "SHOW REPLICAS", "SHOW BINARY LOG STATUS"),
    ],
)
def test_a_version_is_asked_in_its_own_words(version, replica_status, replicas, binary_log_status):
    """The statements change where the manual says so."""
    dialect = Dialect.of(version)
    assert (replica_status, replicas, binary_log_status) == (
        dialect.show_replica_status,
        dialect.show_replicas,
        dialect.show_binary_log_status,
    )


def test_nothing_of_the_old_words_is_said_to_a_new_server():
    """8.4 knows no statement and no variable that says master or slave."""
    dialect = Dialect.of("8.4.0")
    asked = [
        dialect.show_replica_status,
        dialect.show_replicas,
        dialect.show_binary_log_status,
        dialect.select_variables,
        *dialect.status_columns,
    ]
    assert [] == [text for text in asked if "master" in text.lower() or "slave" in text.lower()]


def test_an_old_server_is_asked_for_variables_under_its_names_and_answers_under_todays():
    """Before 8.0.26 the variables have other names, before 8.0.30 the capacity is a product."""
    old, new = (Dialect.of(version).select_variables for version in ("8.0.25", "8.0.26"))
    assert "@@GLOBAL.log_slave_updates AS log_replica_updates" in old
    assert "@@GLOBAL.log_replica_updates AS log_replica_updates" in new
    assert "slave" not in new
    for variables in (old, new):
        assert 12 == variables.count(" AS ")
        assert "@@GLOBAL.gtid_mode AS gtid_mode" in variables
    old, new = (Dialect.of(version).select_variables for version in ("8.0.29", "8.0.30"))
    assert (
        "@@GLOBAL.innodb_log_file_size * @@GLOBAL.innodb_log_files_in_group"
        " AS innodb_redo_log_capacity"
    ) in old
    assert "log_files_in_group" not in new


def test_old_column_names_become_todays():
    """Master and Slave in SHOW SLAVE STATUS are reported as Source and Replica."""
    dialect = Dialect.of("8.0.11")
    assert [
        "Source_Log_File",
        "Relay_Source_Log_File",
        "Replica_IO_Running",
        "Replica_SQL_Running",
        "Relay_Log_Pos",
    ] == [
        dialect.column(name)
        for name in (
            "Master_Log_File",
            "Relay_Master_Log_File",
            "Slave_IO_Running",
            "Slave_SQL_Running",
            "Relay_Log_Pos",
        )
    ]


@pytest.mark.parametrize(
    ("version", "tags", "gtid_only", "lsns"),
    [
        ("8.0.26", False, False, False),
        ("8.0.27", False, True, False),
        ("8.0.29", False, True, False),
        ("8.0.30", False, True, True),
        ("8.2.9", False, True, True),
        ("8.3.0", True, True, True),
    ],
)
def test_columns_and_counters_are_asked_for_where_they_exist(version, tags, gtid_only, lsns):
    """Gtid_only from 8.0.27, redo log status variables from 8.0.30, gtid_tag from 8.3.

    With 8.3 replication info in files is gone.
    """
    dialect = Dialect.of(version)
    assert (tags, tags) == (dialect.has_tags, "gtid_tag" in dialect.gtid_table_columns)
    assert dialect.has_file_repositories is not tags
    assert gtid_only is ("Gtid_only" in dialect.master_info_columns)
    assert lsns is (dialect.show_lsns is not None)


def test_no_account_and_no_password_is_asked_for():
    """What a replica logs in with stays in the server's table."""
    dialect = Dialect.of("8.0.31")
    asked = " ".join((*dialect.master_info_columns, *dialect.status_columns)).lower()
    assert "user" not in asked
    assert "password" not in asked
