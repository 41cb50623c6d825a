"""What is learned of servers before they are followed: who is asked first, where a log begins."""

from __future__ import annotations

import pytest

from tallystick.producers.mysql.settings import ServerSettings
from tallystick.servers.discovery import (
    OLDER_FILES_BYTES_MAX,
    DiscoveredServer,
    asking_order,
    first_files,
)


def seen(uuid: str, *stands: tuple[str, str], **sizes: int) -> DiscoveredServer:
    return DiscoveredServer(
        ServerSettings(name=uuid, host="h", user="u"),
        server_uuid=uuid,
        source_files=stands,
        binary_logs={f"binlog.{name.removeprefix('_')}": size for name, size in sizes.items()},
    )


FULL = OLDER_FILES_BYTES_MAX


@pytest.mark.parametrize(
    ("stands", "sizes", "first"),
    [
        ((("s", "binlog.2"),), {"_1": 9, "_2": 9, "_3": FULL}, {"s": "binlog.2"}),
        ((("s", "binlog.2"), ("s", "binlog.1")), {"_1": 9, "_2": 9, "_3": 9}, {"s": "binlog.1"}),
        ((("s", "binlog.3"),), {"_1": 9, "_2": 9, "_3": 9}, {}),
        ((("other", "binlog.1"),), {"_1": 9, "_2": 9}, {}),
        ((("s", "binlog.1"),), {"_2": 9, "_3": 9}, {}),
        ((("s", "binlog.1"),), {"_1": 1, "_2": FULL, "_3": 9}, {}),
        (
            (("s", "binlog.1"), ("s", "binlog.2")),
            {"_1": 1, "_2": FULL, "_3": 9},
            {"s": "binlog.2"},
        ),
        ((("s", "binlog.1"),), {}, {}),
    ],
)
def test_a_journal_begins_with_the_oldest_file_in_which_a_replica_stands(stands, sizes, first):
    """If it is still there, and not more than a bound before the present one."""
    assert first == first_files([seen("s", **sizes), seen("r", *stands)])


def server(name: str, *sources: str) -> DiscoveredServer:
    return DiscoveredServer(None, server_uuid=name, sources=sources)


@pytest.mark.parametrize(
    ("fleet", "order"),
    [
        ([server("s"), server("r", "s"), server("rr", "r")], ["rr", "r", "s"]),
        ([server("a"), server("b"), server("hub", "a", "b")], ["hub", "a b"]),
        ([server("a", "b"), server("b", "a")], ["a", "b"]),
        ([server("a", "a"), server("r", "elsewhere")], ["a r"]),
        ([server("a", "b"), server("b", "a"), server("r", "a")], ["r", "a", "b"]),
    ],
)
def test_replicas_are_asked_before_their_sources(fleet, order):
    """In a ring somebody is first; a source that is not checked waits for nobody."""
    assert order == [" ".join(each.server_uuid for each in group) for group in asking_order(fleet)]
