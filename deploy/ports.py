"""Ports on this machine, for servers that are started by it."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack

from tallystick.deploy.errors import DeployError

HOST = "127.0.0.1"
# Below those that Linux gives to connections and to whoever asks for any port: between the choice
# and the server's start, and while a server is started again, nobody is given one of these.
CHOSEN_FROM = range(20_000, 32_000)
ATTEMPTS = 200


def free_base_port(count: int) -> int:
    """Finds so many ports in a row on which nobody listens now.

    Returns:
        The first of them.

    Raises:
        DeployError: there are none.
    """
    chance = random.SystemRandom()
    for _ in range(ATTEMPTS):
        first = chance.choice(CHOSEN_FROM)
        with ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    stack.enter_context(socket.socket()).bind((HOST, port))
            except OSError:
                continue
        return first
    raise DeployError(
        f"No {count} free ports in a row were found between {CHOSEN_FROM.start} and "
        f"{CHOSEN_FROM.stop} on {HOST}. To fix: name a port"
    )
