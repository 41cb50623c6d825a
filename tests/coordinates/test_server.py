"""What a server says of its settings, and what follows where it says nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.coordinates.audit.server import Server
from tallystick.coordinates.events.log_status import Logging
from tallystick.coordinates.values.errors import JournalError
from tests.support.journals import UUID_A, UUID_B


def started(**variables: Any) -> Server:
    """One whose start has shown these settings."""
    server = Server()
    server.started({"server_uuid": UUID_A, "server_id": 1, "variables": variables})
    return server


@pytest.mark.parametrize(
    ("name", "default", "unknown"),
    [
        ("log_bin", True, True),
        ("is_log_bin_off", False, False),
        ("logs_everything", True, False),
        ("workers", 4, 4),
        ("commits_are_ordered", True, False),
        ("commit_lag_max", 151 + 4, 151 + 4),
        ("knows_commit_lag_max", False, False),
        ("relay_log_info_is_transactional", True, False),
        ("redo_is_disabled", False, True),
        ("commits_are_durable", True, False),
        ("is_backup_safe", False, False),
        ("may_be_backup_safe", False, True),
        ("gtid_mode", None, None),
        ("group_uuid", None, None),
        ("is_atomic", False, False),
    ],
)
def test_a_setting_that_a_start_does_not_show_is_the_manuals(
    name: str, default: object, unknown: object
) -> None:
    """Without a start it is not known, and what follows is what forbids least."""
    assert getattr(started(), name) == default
    assert getattr(Server(), name) == unknown


@pytest.mark.parametrize(
    ("name", "variables", "expected"),
    [
        *(("log_bin", {"log_bin": value}, True) for value in (1, "1", "on", "True", "YES", True)),
        *(("log_bin", {"log_bin": value}, False) for value in (0, "0", "OFF", "no", False)),
        ("is_log_bin_off", {"log_bin": "OFF"}, True),
        ("is_log_bin_off", {"log_bin": "ON"}, False),
        ("logs_everything", {"log_replica_updates": "OFF"}, False),
        ("logs_everything", {"log_slave_updates": "OFF"}, False),
        ("logs_everything", {"log_bin": "OFF", "log_replica_updates": "ON"}, False),
        ("workers", {"replica_parallel_workers": "8"}, 8),
        ("workers", {"slave_parallel_workers": 0}, 0),
        ("commits_are_ordered", {"binlog_order_commits": "OFF"}, False),
        ("commits_are_ordered", {"replica_preserve_commit_order": "OFF"}, False),
        ("commits_are_ordered",
         {"slave_preserve_commit_order": "OFF", "slave_parallel_workers": 2}, False),
        ("commits_are_ordered",
         {"replica_preserve_commit_order": "OFF", "replica_parallel_workers": 1}, True),
        ("commits_are_ordered",
         {"binlog_order_commits": "OFF", "replica_parallel_workers": 1}, False),
        ("commit_lag_max", {"max_connections": 10}, 14),
        ("commit_lag_max", {"max_connections": "10", "replica_parallel_workers": 0}, 10),
        ("commit_lag_max", {"max_connections": 10, "commit_lag_max": 0}, 0),
        ("knows_commit_lag_max", {"max_connections": 10}, True),
        ("knows_commit_lag_max", {"commit_lag_max": 0}, True),
        ("relay_log_info_is_transactional", {"relay_log_info_transactional": "OFF"}, False),
        ("redo_is_disabled", {"innodb_redo_log_enabled": "OFF"}, True),
        ("redo_is_disabled", {"innodb_redo_log_enabled": "ON"}, False),
        ("commits_are_durable", {"innodb_flush_log_at_trx_commit": "1"}, True),
        ("commits_are_durable", {"innodb_flush_log_at_trx_commit": 2}, False),
        ("commits_are_durable", {"innodb_flush_log_at_trx_commit": 0}, False),
        ("commits_are_durable", {"innodb_redo_log_enabled": "OFF"}, False),
        ("is_backup_safe", {"have_backup_safe_binlog_info": "YES"}, True),
        ("may_be_backup_safe", {"have_backup_safe_binlog_info": "YES"}, True),
        ("gtid_mode", {"gtid_mode": "on_permissive"}, "ON_PERMISSIVE"),
        ("group_uuid", {"group_replication_group_name": UUID_B.upper()}, UUID_B),
        ("group_uuid", {"group_replication_group_name": ""}, None),
    ],
)  # fmt: skip
def test_what_follows_of_a_setting(name: str, variables: dict[str, Any], expected: object) -> None:
    """By its old name or its new one, as SHOW VARIABLES prints it; in a start, or changed later."""
    assert getattr(started(**variables), name) == expected
    later = started()
    later.changed(variables)
    assert getattr(later, name) == expected


@pytest.mark.parametrize("value", [None, True, "many", [], float("inf")])
def test_what_is_no_number_is_not_known(value: object) -> None:
    """The default counts."""
    server = started(max_connections=value, sync_source_info="7")
    assert server.number("max_connections") is None
    assert server.commit_lag_max == 155
    assert server.number("sync_source_info") == 7


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("5.7.44-log", False),
        ("8.0.41", False),
        ("8.2.0", False),
        ("8.3.0", True),
        ("8.10.1", True),
        ("9.1.0-commercial", True),
        ("", True),
        (None, True),
    ],
)
def test_gtids_have_tags_from_8_3_on(version: str | None, expected: bool) -> None:
    """An unknown version may be a later one."""
    server = Server()
    server.started({"version": version})
    assert server.knows_tags is expected


@pytest.mark.parametrize(
    ("variables", "seen", "unseen"),
    [
        ({}, Logging.MAY_END, Logging.NONE),
        ({"log_bin": "OFF"}, Logging.NONE, Logging.NONE),
        ({"log_bin": "ON"}, Logging.ON, Logging.ON),
        ({"log_bin": "ON", "binlog_error_action": "ABORT_SERVER"}, Logging.ON, Logging.ON),
        ({"log_bin": "ON", "binlog_error_action": "ignore_error"},
         Logging.MAY_END, Logging.MAY_END),
    ],
)  # fmt: skip
def test_whether_a_server_writes_a_binary_log(
    variables: dict[str, Any], seen: Logging, unseen: Logging
) -> None:
    """A stop leaves open with which ``log_bin`` it starts again, until that is read."""
    server = started(**variables)
    assert (server.logging(is_seen=True), server.logging(is_seen=False)) == (seen, unseen)
    for begin in (server.stopped, lambda: server.started({})):
        server.changed(variables)
        assert server.logging(is_seen=True) is seen
        begin()
        is_off = variables.get("log_bin") == "OFF"
        assert server.logging(is_seen=True) is (Logging.NONE if is_off else Logging.MAY_END)
        assert server.logging(is_seen=False) is Logging.NONE


def test_what_a_start_does_not_name_stays_as_it_was() -> None:
    """Identity, version, profile and cluster; the label of the messages comes first."""
    server = started()
    named = {"version": "8.0.36", "profile": "wl9452", "cluster": "one"}
    server.started(named)
    server.started({"server_id": "2"})
    assert (server.server_uuid, server.server_id, server.version) == (UUID_A, 1, "8.0.36")
    assert server.is_atomic
    assert server.cluster == "one"
    server.journal_cluster = "two"
    assert server.cluster == "two"
    server.changed({"server_uuid": UUID_B, "server_id": 3})
    assert (server.server_uuid, server.server_id) == (UUID_B, 3)
    server.changed({"server_uuid": "", "server_id": "4"})
    assert (server.server_uuid, server.server_id) == (UUID_B, 3)


@pytest.mark.parametrize("name", ["server_uuid", "group_replication_group_name"])
def test_of_what_names_no_uuid_nothing_is_taken_over(name: str) -> None:
    """Neither of a start nor of changed variables."""
    server = started()
    for take, body in (
        (server.started, {"server_id": 9, "variables": {name: "x", "gtid_mode": "ON"}}),
        (server.changed, {"gtid_mode": "ON", name: "x"}),
    ):
        with pytest.raises(JournalError, match=f"{name!r}: expected a UUID, found 'x'"):
            take(body)
        assert (server.server_id, server.gtid_mode) == (1, None)
    with pytest.raises(JournalError, match="'server_uuid': expected a UUID"):
        server.started({"server_uuid": 5})


def test_a_start_ends_a_server_id_that_was_set_meanwhile() -> None:
    """SET GLOBAL server_id, and a restart with the one of the configuration file, or another."""
    server = started()
    server.changed({"server_id": 77})
    assert server.server_id == 77
    server.started({"server_uuid": UUID_A, "server_id": 1, "variables": {"log_bin": "ON"}})
    assert server.server_id == 1
    server.changed({"gtid_mode": "ON"})
    assert server.server_id == 1
