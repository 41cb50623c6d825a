"""Ports that nobody listens on, for servers that tests start."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack

HOST = "127.0.0.1"
ATTEMPTS = 200


def free_base_port(count: int) -> int:
    """The first of so many free ports in a row, below those that the system hands out itself."""
    chance = random.Random()
    for _ in range(ATTEMPTS):
        first = chance.randrange(20_000, 32_000)
        with ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    stack.enter_context(socket.socket()).bind((HOST, port))
            except OSError:
                continue
        return first
    raise AssertionError(f"no {count} free ports in a row were found in {ATTEMPTS} attempts")
