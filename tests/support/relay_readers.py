"""A relay log reader as a process, beside a server of a lab."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import SecretStr

from tallystick.deploy.ports import HOST, free_base_port
from tallystick.producers.mysql.settings import RelayReaderSettings
from tests.support.tails import wait_for

ROOT = Path(__file__).parents[2]
TOKEN = "of the tests, and of no other use"


class RelayReaderProcess:
    """``tallystick relay-logs``; it always has one address.

    Args:
        relay_log_dir: What it reads.
        directory: Has its token and what it prints.
        more: Further arguments.
    """

    def __init__(self, relay_log_dir: Path, directory: Path, *more: str) -> None:
        self.port = free_base_port(1)
        self.settings = RelayReaderSettings(host=HOST, port=self.port, token=SecretStr(TOKEN))
        self.output = directory / "relay-logs.txt"
        token = directory / "token"
        token.write_text(TOKEN)
        token.chmod(0o600)
        arguments = {
            "--relay-log-dir": str(relay_log_dir),
            "--listen": f"{HOST}:{self.port}",
            "--token-file": str(token),
        }
        command = [sys.executable, "-m", "tallystick.cli", "relay-logs"]
        self._command = [*command, *(part for pair in arguments.items() for part in pair), *more]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it listens."""
        with self.output.open("wb") as output:
            self._process = subprocess.Popen(
                self._command,
                stderr=output,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                start_new_session=True,
            )
        wait_for(lambda: b"Ctrl-C" in self.output.read_bytes(), self.output.read_text)

    def signal(self, number: int) -> None:
        """Send it a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it at once, if it runs; also one that is stopped."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def end(self) -> int:
        """End it in order; return its status."""
        assert self._process is not None
        self.signal(signal.SIGTERM)
        status = self._process.wait(30)
        self._process = None
        return status


@contextmanager
def relay_reader(relay_log_dir: Path, directory: Path, *more: str) -> Iterator[RelayReaderProcess]:
    """One that runs, and is ended in any case."""
    reader = RelayReaderProcess(relay_log_dir, directory, *more)
    reader.start()
    try:
        yield reader
    finally:
        reader.kill()
