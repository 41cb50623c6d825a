"""Serves ``/metrics``, ``/healthz`` and ``/readyz``, by a thread of its own."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from http import HTTPStatus
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any, final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app

from tallystick.errors import MisuseError
from tallystick.runs.health import JobHealth

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

SILENCE_S = 10.0
"""A connection on which nothing comes for so long is closed."""
CONNECTIONS_MAX = 32
"""So many at once; who comes beyond them waits for one to end."""
LONGEST_S = 30.0
"""No connection lasts longer, however slowly something comes on it."""


class _Handler(WSGIRequestHandler):
    timeout = SILENCE_S

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class's name
        """Standard error is the terminal of the run."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def __init__(self, host: str, port: int) -> None:
        if ":" in host:
            self.address_family = socket.AF_INET6
        self._slots = threading.BoundedSemaphore(CONNECTIONS_MAX)
        super().__init__((host, port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._slots.acquire()
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        cut = threading.Timer(LONGEST_S, _cut, (request,))
        cut.daemon = True
        cut.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            cut.cancel()
            self._slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no error of the run."""


def _cut(connection: socket.socket) -> None:
    with suppress(OSError):  # it has ended meanwhile
        connection.shutdown(socket.SHUT_RDWR)


@final
class MetricsListener:
    """Listens from its making on, in threads that end with the process.

    Args:
        host: Address to listen on.
        port: Its port.
        registry: What a scrape reads.
        health: What the probes ask; None: of a producer there are none.

    Raises:
        MisuseError: The port cannot be listened on.
    """

    def __init__(
        self, host: str, port: int, registry: CollectorRegistry, health: JobHealth | None = None
    ) -> None:
        try:
            self._server = _Server(host, port)
        except OSError as error:
            raise MisuseError(
                f"--metrics-port: {host}:{port} cannot be listened on: {error.strerror}"
            ) from error
        self._server.set_app(_application(registry, health))
        thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        thread.start()

    def close(self) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._server.server_close()


def _application(registry: CollectorRegistry, health: JobHealth | None) -> WSGIApplication:
    metrics = make_wsgi_app(registry)
    probes: dict[str, Callable[[], str | None]] = {}
    if health is not None:
        probes = {"/healthz": health.not_healthy, "/readyz": health.not_ready}
    names = ", ".join(("/metrics", *probes))

    def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == "/metrics":
            answer: Iterable[bytes] = metrics(environ, start_response)
            return answer
        status, text = HTTPStatus.NOT_FOUND, f"there is {names}"
        if path in probes:
            reason = probes[path]()
            status = HTTPStatus.OK if reason is None else HTTPStatus.SERVICE_UNAVAILABLE
            text = reason or "ok"
        headers = [("Content-Type", "text/plain; charset=utf-8"), ("Cache-Control", "no-store")]
        start_response(f"{status.value} {status.phrase}", headers)
        return [f"{text}\n".encode()]

    return application
