"""A command for each alert: values in its environment, the document on its standard input."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import final

from tallystick.alerts.alert import Alert
from tallystick.alerts.http import encoded
from tallystick.alerts.sinks import Context, SinkError
from tallystick.errors import MisuseError
from tallystick.settings import ALERT_PREFIX, PREFIX
from tallystick.terminal import escaped

TIMEOUT_S = 30.0
_TERM_S = 3.0
_VALUE_MAX = 8_000
_REASON_BYTES = 300
_NOT_VALUES = frozenset({"schema_version", "verify", "cure", "acknowledgement"})


@final
class Command:
    """Runs a program without a shell and without arguments, in a process group of its own.

    Args:
        path: The program.
        timeout_s: Its group is ended after so long.
    """

    repeat_s = None

    def __init__(self, path: str, timeout_s: float = TIMEOUT_S) -> None:
        self._path = path
        self._timeout_s = timeout_s
        self._running: subprocess.Popen[bytes] | None = None
        self._closed = threading.Event()

    def send(self, alerts: Sequence[Alert], attempt: int) -> None:
        """Run it for each."""
        for alert in alerts:
            self._run(alert, attempt)

    def _run(self, alert: Alert, attempt: int) -> None:
        # Files, not pipes: a process that the command leaves would keep a pipe open.
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as errors:
            given.write(encoded(alert) + b"\n")
            given.seek(0)
            try:
                process = subprocess.Popen(
                    [self._path],
                    stdin=given,
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                    env=environment_of(alert, attempt),
                    start_new_session=True,
                )
            except OSError as error:
                raise SinkError(f"cannot be run: {error.strerror}") from error
            self._running = process
            try:
                if self._closed.is_set():
                    raise SinkError("ended, as the audit ends")
                status = process.wait(self._timeout_s)
            except subprocess.TimeoutExpired:
                raise SinkError(f"did not end in {self._timeout_s:g} s") from None
            finally:
                self._running = None
                _end(process)
            if status != 0:
                errors.seek(0)
                text = errors.read(_REASON_BYTES).decode("utf-8", "replace")
                raise SinkError(f"status {status} {' '.join(text.split())}".rstrip())

    def close(self) -> None:
        """End what runs; it counts as not delivered."""
        self._closed.set()
        running = self._running
        if running is not None:
            _signal(running, signal.SIGTERM)


def environment_of(alert: Alert, attempt: int) -> dict[bytes, bytes]:
    """Ours without the settings of tallystick, among which are secrets, and the alert's values.

    What a shell or a terminal could act on invisibly is escaped, and long values end with ``…``:
    standard input has them whole.
    """
    kept = {name: value for name, value in os.environb.items() if not name.startswith(_OURS)}
    values = {name: value for name, value in alert.items() if name not in _NOT_VALUES}
    for name, value in {**values, "attempt": attempt}.items():
        text = escaped("" if value is None else value)
        text = text if len(text) <= _VALUE_MAX else text[:_VALUE_MAX] + "…"
        variable = name.removeprefix("alert_").upper()
        kept[f"{ALERT_PREFIX}{variable}".encode()] = text.encode()
    return kept


_OURS = PREFIX.encode()


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the whole group, first kindly where its leader still runs."""
    if process.poll() is None:
        _signal(process, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_TERM_S)
    if process.returncode != 0:
        _signal(process, signal.SIGKILL)
        process.wait()


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def open_sink(target: str, _context: Context) -> Command:
    """Where the target is a program."""
    path = shutil.which(target) if target else None
    if path is None:
        raise MisuseError(f"--alert command: expected a program after command=, found {target!r}")
    return Command(os.path.abspath(path))  # noqa: PTH100  links stay as they are named
