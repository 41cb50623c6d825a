"""Real receivers of alerts: an HTTP server that records, and an Alertmanager."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tallystick.deploy.ports import HOST, free_base_port

DEADLINE_S = 60


def wait_for(is_so: Callable[[], object], what: str, deadline_s: float = DEADLINE_S) -> None:
    """Return when it is so."""
    deadline = time.monotonic() + deadline_s
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


class Receiver:
    """Answers POSTs with statuses that a test gives, 200 when none is left; keeps what came.

    Attributes:
        got: Headers and body of each POST that arrived.
        taken: The documents of those answered with 200.
        taken_at: When each of them had been read, seconds since 1970.
        answers: While it is not set, POSTs are read, but not answered.
    """

    def __init__(self, port: int | None = None) -> None:
        receiver = self
        self.statuses: list[tuple[int, dict[str, str]]] = []
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.taken: list[dict] = []
        self.taken_at: list[float] = []
        self.answers = threading.Event()
        self.answers.set()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                body = self.rfile.read(length)
                if len(body) < length:
                    return  # its sender was killed
                arrived_at = time.time()
                receiver.got.append((dict(self.headers), body))
                receiver.answers.wait()
                status, headers = receiver.statuses.pop(0) if receiver.statuses else (200, {})
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                if status == 200:
                    receiver.taken_at.append(arrived_at)
                    receiver.taken.append(json.loads(body))

            def log_message(self, *_) -> None:
                pass

        # Not one that the system hands out: it stays free when this one is stopped.
        self._server = ThreadingHTTPServer((HOST, port or free_base_port(1)), Handler)
        self.port = self._server.server_port
        self.url = f"http://{HOST}:{self.port}/hook/s3cret"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_) -> None:
        self.stop()

    def stop(self) -> None:
        self.answers.set()
        self._server.shutdown()
        self._server.server_close()


ALERTMANAGER = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")


class Alertmanager:
    """A real one that notifies a webhook at once; it can be stopped and started again."""

    def __init__(self, directory: Path, notified: Receiver) -> None:
        self._directory = directory
        self.port = free_base_port(1)
        self.url = f"http://{HOST}:{self.port}"
        (directory / "alertmanager.yml").write_text(
            "route:\n  receiver: r\n  group_by: ['...']\n  group_wait: 0s\n"
            "  group_interval: 1s\n  repeat_interval: 1h\n"
            "receivers:\n- name: r\n  webhook_configs:\n"
            f"  - url: http://{HOST}:{notified.port}/\n    send_resolved: true\n"
        )
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self):
        return self

    def __exit__(self, *_) -> None:
        self.stop()

    def start(self) -> None:
        assert ALERTMANAGER is not None
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    ALERTMANAGER,
                    f"--config.file={self._directory / 'alertmanager.yml'}",
                    f"--storage.path={self._directory / 'data'}",
                    f"--web.listen-address={HOST}:{self.port}",
                    "--cluster.listen-address=",
                ],
                stdout=log,
                stderr=log,
            )
        wait_for(self.is_ready, "the Alertmanager is not ready")

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(DEADLINE_S)
            self._process = None

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready") as answer:  # noqa: S310
                return answer.status == 200
        except (urllib.error.URLError, ConnectionError):
            return False

    def noted(self) -> int:
        """How many notifications it knows to have arrived; stopped before, it forgets them."""
        with urllib.request.urlopen(f"{self.url}/metrics") as answer:  # noqa: S310
            lines = answer.read().decode().splitlines()
        name = 'alertmanager_notification_requests_total{integration="webhook"} '
        return sum(int(line.removeprefix(name)) for line in lines if line.startswith(name))

    def active(self) -> list[dict]:
        with urllib.request.urlopen(f"{self.url}/api/v2/alerts?active=true") as answer:  # noqa: S310
            return json.load(answer)
