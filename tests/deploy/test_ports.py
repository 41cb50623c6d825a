"""Ports that are chosen for servers."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from tallystick.deploy import ports
from tallystick.deploy.errors import DeployError
from tallystick.deploy.ports import CHOSEN_FROM, HOST, free_base_port

GIVEN_BY_LINUX = Path("/proc/sys/net/ipv4/ip_local_port_range")


def test_linux_gives_none_of_them_to_others() -> None:
    # One that was chosen for a broker was given to a connection before the broker listened on it.
    first_given, _ = (int(text) for text in GIVEN_BY_LINUX.read_text("ascii").split())
    assert CHOSEN_FROM.stop < first_given


def test_ports_in_use_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    first = free_base_port(3)
    monkeypatch.setattr(ports, "CHOSEN_FROM", range(first, first + 2))
    with ExitStack() as stack:
        stack.enter_context(socket.socket()).bind((HOST, first))
        assert free_base_port(2) == first + 1
        stack.enter_context(socket.socket()).bind((HOST, first + 2))
        with pytest.raises(DeployError, match="No 2 free ports in a row"):
            free_base_port(2)
