"""One real MySQL server on this machine, on the loopback address only, in a directory of its own.

Makes its data, starts it, stops or kills it, and finds it again by its process. It uses no SQL:
that is a client's work, and clients live elsewhere.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import final

from tallystick.deploy.errors import MysqldError
from tallystick.deploy.mysql_server import MysqlServer
from tallystick.deploy.ports import HOST
from tallystick.deploy.preflight import port_problem
from tallystick.deploy.processes import ProcessName, dying_with_parent, wait_until

START_DEADLINE_S = 60.0
STOP_DEADLINE_S = 60.0
INITIALISE_DEADLINE_S = 120.0
LOG_TAIL_LINES = 8
DATA = "data"
TEMPORARY = "tmp"
AUTO_CNF = "auto.cnf"


def initialise(
    server: MysqlServer, data: Path, statements: str, options: Mapping[str, str]
) -> None:
    """Makes a data directory: system tables, certificates and what the statements add.

    Args:
        server: the program.
        data: the directory to make; it must not exist.
        statements: SQL run by the server itself, one statement to a line; nothing of it is
            logged. It may hold secrets: it is passed in a file that only this user can read.
        options: server options by name, without dashes in front.

    Raises:
        MysqldError: the server could not make it; the message has the end of its log.
    """
    log = data.with_name(f"{data.name}.log")
    secret = data.with_name(f"{data.name}.sql")
    try:
        data.parent.mkdir(parents=True, exist_ok=True)
        secret.unlink(missing_ok=True)
        descriptor = os.open(secret, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(statements)
        with (
            log.open("wb") as output,
            tempfile.TemporaryDirectory(prefix=f"{data.name}.", dir=data.parent) as temporary,
        ):
            done = subprocess.run(
                [
                    str(server.program),
                    "--no-defaults",
                    *_user(),
                    "--initialize-insecure",
                    f"--init-file={secret}",
                    f"--basedir={server.base_directory}",
                    f"--datadir={data}",
                    # Not the machine's: see `LocalMysqld.launch`.
                    f"--tmpdir={temporary}",
                    # The accounts must not become transactions of every copy's history.
                    "--disable-log-bin",
                    *_arguments(options),
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=INITIALISE_DEADLINE_S,
                check=False,
            )
    except OSError as error:
        raise MysqldError(
            f"{str(data.parent)!r} cannot be written: {error.strerror}. "
            "To fix: choose a directory of yours."
        ) from error
    except subprocess.TimeoutExpired as error:
        raise MysqldError(
            f"The server did not make {str(data)!r} within {INITIALISE_DEADLINE_S:.0f} s; "
            f"the end of {str(log)!r}: {_tail(log)}"
        ) from error
    finally:
        secret.unlink(missing_ok=True)
    if done.returncode != 0:
        raise MysqldError(
            f"The server cannot make {str(data)!r} (status {done.returncode}); "
            f"the end of {str(log)!r}: {_tail(log)}"
        )


@final
class LocalMysqld:
    """The MySQL server that lives in one directory.

    Unless it is asked to outlive its owner, the kernel kills it with the thread that starts it.
    """

    def __init__(
        self,
        directory: Path,
        server: MysqlServer,
        *,
        port: int,
        options: Mapping[str, str],
        dies_with_owner: bool = False,
    ) -> None:
        """Describes a server; nothing is started.

        Args:
            directory: where its data, log and process note live.
            server: the program.
            port: the port for clients.
            options: server options by name, without dashes in front.
            dies_with_owner: whether it ends with the thread that calls `launch`.
        """
        self.directory = directory.absolute()
        self.port = port
        self._server = server
        self._options = dict(options)
        self._dies_with_owner = dies_with_owner
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def data_directory(self) -> Path:
        """The server's datadir, with its binary and relay logs."""
        return self.directory / DATA

    @property
    def log_file(self) -> Path:
        """The server's own error log."""
        return self.directory / "mysqld.log"

    @property
    def process(self) -> ProcessName | None:
        """Its process; None when it does not run."""
        if self._child is not None and self._child.poll() is None:
            return ProcessName.of(self._child.pid)
        try:
            saved = json.loads(self._process_file.read_text("utf-8"))
            found = ProcessName(
                int(saved["pid"]), str(saved["boot_id"]), int(saved["started_ticks"])
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None  # none was started, or its note was cut short
        return found if found.is_running() else None

    @property
    def answering_version(self) -> str | None:
        """The version that it greets a client with; None when it does not answer."""
        return greeted_version(self.port)

    def fill_from(self, template: Path) -> None:
        """Copies a data directory into it, with an identity of its own.

        Raises:
            MysqldError: the copy could not be written.
        """
        try:
            shutil.rmtree(self.directory, ignore_errors=True)
            self.directory.mkdir(parents=True)
            shutil.copytree(template, self.data_directory)
            write_server_uuid(self.data_directory, str(uuid.uuid4()))
        except OSError as error:
            raise MysqldError(
                f"{str(self.directory)!r} cannot be written: {error.strerror}. "
                "To fix: a server takes 200 MB; choose a directory with room."
            ) from error

    def copy_data(self, into: Path) -> None:
        """Copies the data of a running server as it is at one moment: the process is held.

        Raises:
            MysqldError: the copy could not be written.
        """
        process = self.process
        try:
            if process is not None:
                process.send(signal.SIGSTOP)
            shutil.rmtree(into, ignore_errors=True)
            # Its socket is no file; what names its process is not to be there at a start.
            left_out = shutil.ignore_patterns("mysqld.sock*", "mysqld.pid")
            shutil.copytree(self.data_directory, into, ignore=left_out)
        except OSError as error:  # shutil.Error is one
            raise MysqldError(f"{str(into)!r} cannot be written: {error}.") from error
        finally:
            if process is not None:
                process.send(signal.SIGCONT)

    def launch(self, *arguments: str) -> None:
        """Starts the process and returns at once; `wait_until_answering` follows.

        Args:
            arguments: of the command line, after the server's own options.

        Raises:
            MysqldError: it runs already, its port is taken, or it has no data.
        """
        running = self.process
        if running is not None:
            raise MysqldError(f"A server runs from {str(self.directory)!r}: {running.pid}.")
        problem = port_problem(self.port, HOST)
        if problem is not None:
            raise MysqldError(str(problem))
        if not self.data_directory.is_dir():
            raise MysqldError(f"{str(self.data_directory)!r} is not there: no data, no server.")
        temporary = self.directory / TEMPORARY
        temporary.mkdir(exist_ok=True)
        command = [
            str(self._server.program),
            "--no-defaults",
            *_user(),
            f"--basedir={self._server.base_directory}",
            f"--datadir={self.data_directory}",
            # A server that starts removes every '#sql*' of its tmpdir. In the machine's own
            # these are also the temporary tables of other servers, MySQL's and MariaDB's.
            f"--tmpdir={temporary}",
            f"--port={self.port}",
            f"--bind-address={HOST}",
            # Inside the data directory, and set so: a socket's path may have 107 bytes at most.
            "--socket=mysqld.sock",
            "--pid-file=mysqld.pid",
            "--mysqlx=OFF",
            *_arguments(self._options),
            *arguments,
        ]
        if self._dies_with_owner:
            command = dying_with_parent(command, sys.executable)
        with self.log_file.open("ab") as log:
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                start_new_session=True,  # Ctrl-C in the owner's terminal is not for it
            )
        name = ProcessName.of(self._child.pid)
        if name is not None:
            incoming = self._process_file.with_suffix(".incoming")
            incoming.write_text(json.dumps(asdict(name)), "utf-8")
            incoming.replace(self._process_file)

    def wait_until_answering(self, deadline_s: float = START_DEADLINE_S) -> None:
        """Returns when the launched server answers clients.

        Raises:
            MysqldError: it ended, or it did not answer in time; the message has the end of its log.
        """
        is_there = wait_until(
            lambda: self.process is None or self.answering_version is not None, deadline_s
        )
        if self.process is None:
            raise MysqldError(
                f"The server of {str(self.directory)!r} ended before it answered; "
                f"the end of {str(self.log_file)!r}: {_tail(self.log_file)}"
            )
        if not is_there:
            raise MysqldError(
                f"The server of {str(self.directory)!r} did not answer on {HOST}:{self.port} "
                f"within {deadline_s:.0f} s; the end of {str(self.log_file)!r}: "
                f"{_tail(self.log_file)}"
            )

    def request_stop(self) -> None:
        """Asks it to shut down, and does not wait; `wait_for_end` follows."""
        process = self.process
        if process is not None:
            process.send(signal.SIGTERM)

    def kill(self) -> int | None:
        """Kills it as a crash does (kill -9) and waits for its end; returns the process id."""
        process = self.process
        if process is None:
            return None
        process.send(signal.SIGKILL)
        self.wait_for_end()
        return process.pid

    def wait_for_end(self, deadline_s: float = STOP_DEADLINE_S) -> None:
        """Returns when its process has ended; kills it at the deadline.

        Raises:
            MysqldError: it is still there after it was killed.
        """
        process = self.process
        if process is not None and not wait_until(lambda: self.process is None, deadline_s):
            process.send(signal.SIGKILL)
            if not wait_until(lambda: self.process is None, deadline_s):
                raise MysqldError(
                    f"The server, process {process.pid}, does not end."
                    f" To fix: kill -9 {process.pid}"
                )
        if self._child is not None:
            self._child.wait()
            self._child = None
        self._process_file.unlink(missing_ok=True)

    @property
    def _process_file(self) -> Path:
        return self.directory / "mysqld.json"


def greeted_version(port: int, timeout_s: float = 2.0) -> str | None:
    """Returns the version in the greeting that a MySQL server opens a connection with.

    A server listens as soon as its logs are recovered, so a greeting means that it serves clients.
    The packet: length (3 bytes), number (1), protocol version 10 (1), version text up to a NUL.
    """
    try:
        with (
            socket.create_connection((HOST, port), timeout=timeout_s) as connection,
            connection.makefile("rb") as answer,
        ):
            head = answer.read(4)
            body = answer.read(int.from_bytes(head[:3], "little"))
    except OSError:
        return None
    if len(head) < 4 or body[:1] != b"\x0a" or b"\0" not in body:
        return None
    return body[1 : body.index(b"\0")].decode("ascii", "replace")


def read_server_uuid(data: Path) -> str:
    """Returns the server_uuid that a data directory has in its auto.cnf.

    Raises:
        MysqldError: there is none; the server makes it at its first start.
    """
    try:
        lines = (data / AUTO_CNF).read_text("utf-8").splitlines()
    except OSError as error:
        raise MysqldError(f"{str(data / AUTO_CNF)!r} cannot be read: {error.strerror}.") from error
    for line in lines:
        key, _, value = line.partition("=")
        if key.strip() == "server-uuid":
            return value.strip()
    raise MysqldError(f"{str(data / AUTO_CNF)!r} names no server-uuid.")


def write_server_uuid(data: Path, server_uuid: str) -> None:
    """Sets a stopped server's server_uuid in its data directory, as copied data has one."""
    (data / AUTO_CNF).write_text(f"[auto]\nserver-uuid={server_uuid}\n", "utf-8")


def _arguments(options: Mapping[str, str]) -> list[str]:
    return [f"--{name}={value}" for name, value in options.items()]


def _user() -> list[str]:
    # The server refuses to run as root unless that is asked for.
    return ["--user=root"] if os.geteuid() == 0 else []


def _tail(log: Path) -> str:
    try:
        lines = [line for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
    except OSError:
        lines = []
    return "\n".join(["", *lines[-LOG_TAIL_LINES:]]) if lines else "it is empty."
