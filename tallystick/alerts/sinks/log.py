"""A line an alert, in a file or on standard error."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import final

from tallystick.alerts.alert import Alert
from tallystick.alerts.sinks import Context, SinkError
from tallystick.errors import MisuseError
from tallystick.terminal import escaped

_TAIL_BYTES = 1 << 20


def line_of(alert: Alert) -> str:
    """When, what happened, severity, rule, instance and sentence; nothing acts on a terminal."""
    where = alert["instance"]
    if alert["channel"] is not None:
        where += f", channel {alert['channel'] or '(default)'}"
    return escaped(
        f"{alert['detected_at']} {alert['kind']} {alert['severity']} {alert['rule']} {where}:"
        f" {alert['sentence']} (incident {alert['incident_id']}, alert {alert['alert_id']})"
    )


@final
class Lines:
    """Shows lines to whoever runs the audit."""

    repeat_s = None

    def __init__(self, notice: Callable[[str], None]) -> None:
        self._notice = notice

    def send(self, alerts: Sequence[Alert], attempt: int) -> None:
        """Show a line."""
        for alert in alerts:
            self._notice(line_of(alert))

    def close(self) -> None:
        """Nothing is open."""


@final
class LogFile:
    """Appends lines to a file, which is opened for each: it may be rotated.

    A line that is there is not written again, so a kill at any moment leaves each line once.
    """

    repeat_s = None

    def __init__(self, path: Path) -> None:
        self._path = path

    def send(self, alerts: Sequence[Alert], attempt: int) -> None:
        """Append a line."""
        try:
            with self._path.open("a+b") as file:
                for alert in alerts:
                    end = file.seek(0, os.SEEK_END)
                    file.seek(max(0, end - _TAIL_BYTES))
                    # A device has no end: /dev/full would be read until the memory is full.
                    written = file.read(_TAIL_BYTES)
                    if attempt > 1 and f"alert {alert['alert_id']})\n".encode() in written:
                        continue
                    # What a kill or a full disk has cut short stays a line of its own.
                    torn = b"\n" if written and not written.endswith(b"\n") else b""
                    file.write(torn + line_of(alert).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise SinkError(f"cannot be written: {error.strerror}") from error

    def close(self) -> None:
        """Nothing is open."""


def open_sink(target: str, context: Context) -> Lines | LogFile:
    """Standard error without a target."""
    if not target:
        return Lines(context.notice)
    path = Path(target).absolute()
    if path.is_dir() or not path.parent.is_dir():
        raise MisuseError(
            f"--alert log: expected a file in a directory that is there, found {target!r}"
        )
    return LogFile(path)
