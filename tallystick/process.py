"""How commands end: on signals, on errors that a user can fix, and on internal errors."""

from __future__ import annotations

import errno
import io
import os
import signal
import stat
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from types import FrameType
from typing import final

from tallystick import terminal
from tallystick.coordinates.values.errors import AuditError
from tallystick.errors import ExitCode
from tallystick.producers.kafka_clients.errors import SupersededError, UndeliveredError
from tallystick.streaming.errors import QueryError

ENDED_BY_ITSELF = (QueryError, UndeliveredError)
"""Errors of what ran: all others are known before it runs."""
_NOT_WRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EBADF)
"""A full disk, a quota, a limit of the shell, standard output that was closed."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)

_UNFIT_PATH = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ENAMETOOLONG)
"""A path that the file system refuses: the directory that is given, or the one that we are in."""
_PATH_SHOWN_MAX = 200


@final
class Stop(threading.Event):
    """Set by the first SIGINT or SIGTERM; the second one of either ends the command at once.

    Attributes:
        exit_code: 128 and the signal's number, as shells have it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.exit_code = ExitCode.INTERRUPTED

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Take a signal."""
        if self.is_set():
            raise KeyboardInterrupt
        self.exit_code = ExitCode(128 + number)
        self.set()


@contextmanager
def stopping() -> Iterator[Stop]:
    """Turn the first signal into an event, so that what runs can be ended in order."""
    stop = Stop()
    before = {number: signal.signal(number, stop.handle) for number in SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Terminated(BaseException):
    """SIGTERM, where no command waits for it: everything is unwound as after Ctrl-C."""


def _terminate(_number: int, _frame: FrameType | None) -> None:
    raise Terminated


def prepare_standard_streams() -> None:
    """Open those of the three that whoever started us has closed; let standard output take all.

    A file that a command opens would have the number of one that is closed, and what is printed
    would go into it. What is read or written there fails; notices go nowhere. A character that
    the terminal's encoding lacks becomes an escape, as standard error has it.

    With PYTHONUNBUFFERED, as many containers have it, Python loses silently what a nearly full disk
    did not take of one write: a buffer that is left at each line end tries the rest, and fails.
    """
    for name, unfit, mode in (
        ("stdin", os.O_WRONLY, "r"),
        ("stdout", os.O_RDONLY, "w"),
        ("stderr", os.O_WRONLY, "w"),
    ):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, unfit), mode, encoding="utf-8"))
    if isinstance(sys.stdout, io.TextIOWrapper):
        if isinstance(sys.stdout.buffer, io.RawIOBase):
            number, encoding = sys.stdout.fileno(), sys.stdout.encoding
            sys.stdout = open(number, "w", buffering=1, closefd=False, encoding=encoding)  # noqa: SIM115
        sys.stdout.reconfigure(errors="backslashreplace")


def run(command: Callable[[], int]) -> int:
    """Run a command and turn whatever ends it into an exit code and at most a few lines."""
    try:
        return _run(command)
    except BrokenPipeError:  # of standard error, in the notice of why it ends
        return ExitCode.CLOSED_PIPE


def _run(command: Callable[[], int]) -> int:
    signal.signal(signal.SIGTERM, _terminate)
    # State, reports and logs name hosts, users and what servers hold: nobody else reads them.
    os.umask(0o077)
    try:
        code = command()
        sys.stdout.flush()
        return code
    except AuditError as error:
        for line in str(error).splitlines():
            terminal.notice(line)
        if isinstance(error, SupersededError):
            return ExitCode.SUPERSEDED
        return ExitCode.FAILED if isinstance(error, ENDED_BY_ITSELF) else ExitCode.MISUSE
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except Terminated:
        return ExitCode.TERMINATED
    except BrokenPipeError:
        _drop_standard_output()
        return ExitCode.CLOSED_PIPE
    except OSError as error:
        return _refused_by_the_system(error)
    except Exception as error:  # noqa: BLE001  the last resort: a verdict must not be read into it
        return _crashed(error)


def _refused_by_the_system(error: OSError) -> ExitCode:
    if error.errno in _UNFIT_PATH and error.filename is not None:
        path = os.fsdecode(error.filename)
        shown = path if len(path) <= _PATH_SHOWN_MAX else f"{path[:_PATH_SHOWN_MAX]}…"
        terminal.notice(f"{shown!r} cannot be used: {error.strerror}")
        return ExitCode.MISUSE
    if error.errno not in _NOT_WRITTEN:
        return _crashed(error)
    _drop_standard_output()
    where = "standard output" if error.filename is None else repr(str(error.filename))
    terminal.notice(f"{where} cannot be written: {error.strerror}")
    return ExitCode.MISUSE


def _drop_standard_output() -> None:
    """Python would complain at its exit of what it cannot write."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _crashed(error: Exception) -> ExitCode:
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  pyspark's ask the JVM for it, which may have ended
        text = "it cannot be printed"
    terminal.notice(f"unexpected {type(error).__name__}: {text}"[:300])
    terminal.notice(f"internal error; details in {_write_crash()}")
    return ExitCode.CRASHED


def _write_crash() -> Path | str:
    name = f"tallystick-crash-{datetime.now(timezone.utc):%Y%m%dT%H%M%SZ}-{os.getpid()}.log"
    for directory in (Path(".tallystick"), Path.home() / ".local/state/tallystick"):
        path = (directory / name).absolute()
        try:
            directory.mkdir(parents=True, exist_ok=True)
            if _is_shared(directory):
                continue
            with path.open("x", encoding="utf-8", errors="backslashreplace") as file:
                file.write(traceback.format_exc())
        except OSError:
            continue
        return path
    return "no file: none can be written"


def _is_shared(directory: Path) -> bool:
    """Whether somebody else could put a file, or a link, where ours is to be."""
    found = directory.lstat()
    is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    return not is_ours or bool(found.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
