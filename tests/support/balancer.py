"""A load balancer: one address that leads to several servers."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress

from tallystick.producers.mysql.settings import ServerSettings
from tests.support.tails import DEADLINE_S


@contextmanager
def balanced(servers: Iterable[ServerSettings]) -> Iterator[ServerSettings]:
    """The settings of the first server, whose address leads each connection to the next of all.

    After the last comes the first again.
    """
    servers = tuple(servers)
    ports = itertools.cycle([server.port for server in servers])
    threads: list[threading.Thread] = []
    sockets: list[socket.socket] = []

    def accept() -> None:
        with suppress(OSError):
            while True:
                client = listener.accept()[0]
                server = socket.create_connection(("127.0.0.1", next(ports)))
                sockets.extend((client, server))
                for pair in ((client, server), (server, client)):
                    threads.append(threading.Thread(target=_forward, args=pair, daemon=True))
                    threads[-1].start()

    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        accepting = threading.Thread(target=accept, daemon=True)
        accepting.start()
        try:
            address = {"host": "127.0.0.1", "port": listener.getsockname()[1], "unix_socket": None}
            yield servers[0].model_copy(update=address)
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join(DEADLINE_S)
            for end in sockets:
                _shut(end)
            for thread in threads:
                thread.join(DEADLINE_S)
            for end in sockets:
                end.close()


def _forward(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    _shut(target)


def _shut(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
