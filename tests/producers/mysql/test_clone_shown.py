"""What clone_status shows of a clone, and which of the servers followed was its donor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tallystick.producers.mysql.clone_shown import NOT_SHOWN, CloneShown, donor_of
from tallystick.producers.mysql.settings import ServerSettings

ROW = {
    "STATE": "Completed",
    "BEGIN_TIME": "2026-11-27 20:00:55.344000",
    "SOURCE": "db1:3306",
    "DESTINATION": "LOCAL INSTANCE",
    "begun": "1795809655.344",
    "port": 3307,
}


@pytest.mark.parametrize(
    ("change", "begun", "is_settled"),
    [
        ({}, "1795809655.344", True),
        # It has no other data than before.
        ({"STATE": "Failed"}, "", True),
        ({"DESTINATION": "/backup/copy/"}, "", True),
        # Its coordinates may have been taken.
        ({"STATE": "In Progress"}, "", False),
    ],
)
def test_the_data_came_with_a_clone_of_its_own_data_that_completed(
    change: dict[str, Any], begun: str, is_settled: bool
) -> None:
    """Any other leaves what there was; while one runs, its coordinates may be taken already."""
    shown = CloneShown.of({**ROW, **change})
    assert (shown.begun, shown.is_settled) == (begun, is_settled)
    assert not NOT_SHOWN.is_settled


def test_an_answer_shows_the_same_clone_or_none() -> None:
    """A row may be of a start that has not been noticed yet, and what is not read shows nothing."""
    shown, none = CloneShown.of(ROW), CloneShown("")
    status = {"STATE": ROW["STATE"], "BEGIN_TIME": ROW["BEGIN_TIME"]}
    later = {**status, "BEGIN_TIME": "2026-11-27 21:00:00.000000"}
    unread = {"unread": [{"part": "clone_status", "code": 1142, "message": ""}]}
    assert shown.is_in({"clone_status": status})
    assert none.is_in({})
    for answer in ({}, {"clone_status": later}, {"clone_status": {**status, "STATE": "Failed"}}):
        assert not shown.is_in(answer)
    for answer in ({"clone_status": status}, unread):
        assert not none.is_in(answer)


def server(name: str, host: str, port: int = 3306, socket: str | None = None) -> ServerSettings:
    """How a server is reached."""
    path = None if socket is None else Path(socket)
    return ServerSettings(name=name, host=host, port=port, unix_socket=path)


@pytest.mark.parametrize(
    ("source", "recipient", "donor"),
    [
        ("db1:3306", server("r", "db2"), "a"),
        ("DB1:3306", server("r", "db2"), "a"),
        ("db1:3307", server("r", "db2"), None),
        ("db9:3306", server("r", "db2"), None),
        # On the recipient's own machine.
        ("localhost:3306", server("r", "db1", 3307), "a"),
        ("127.0.0.1:3306", server("r", "db2", 3307), None),
        ("127.0.0.1:3310", server("r", "localhost", 3307), "b"),
        ("::1:3310", server("r", "127.0.0.1", 3307), "b"),
        ("127.0.0.1:3310", server("r", "127.0.0.1", socket="/run/r.sock"), "b"),
        # Something forwards port 4007 to the recipient's, and 3310 to who knows where.
        ("127.0.0.1:3310", server("r", "127.0.0.1", 4007), None),
        # Two names of one address, and one by a socket, which shows no port.
        ("db3:3306", server("r", "db2"), None),
        ("127.0.0.1:3306", server("r", "127.0.0.1", 3307), None),
        ("", server("r", "db2"), None),
    ],
)
def test_a_donor_is_found_by_its_address(
    source: str, recipient: ServerSettings, donor: str | None
) -> None:
    """One server alone must be there; a loopback address is of the recipient's machine."""
    servers = (
        server("a", "db1"),
        server("b", "127.0.0.1", 3310),
        server("c", "db3"),
        server("d", "db3"),
        server("e", "127.0.0.1", socket="/run/e.sock"),
        recipient,
    )
    clone = CloneShown("1", "Completed", "2026-11-27 20:00:55", source, port=3307)
    assert donor_of(clone, recipient, servers) == donor
