"""A real Kafka broker on this machine: one node, KRaft, on the loopback address only.

It is started from jars that `deploy.jars` keeps, lives in one directory, and is found again there
by whoever asks. It makes no topics: that is a Kafka client's work, and clients live elsewhere.
"""

from __future__ import annotations

import base64
import json
import os
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, final

from tallystick.deploy.broker_security import BrokerSecurity
from tallystick.deploy.class_archives import with_archive
from tallystick.deploy.errors import BrokerError
from tallystick.deploy.jars import BROKER, broker_classpath
from tallystick.deploy.ports import HOST, free_base_port
from tallystick.deploy.preflight import java_command, java_environment, java_problem, port_problem
from tallystick.deploy.private_files import write_private
from tallystick.deploy.processes import ProcessName, dying_with_parent, wait_until

DEFAULT_PORT = 19092
MAX_PORT = 65535
HEAP_MIB = 512
START_DEADLINE_S = 90.0
STOP_DEADLINE_S = 20.0
LOG_TAIL_LINES = 8
PROPERTIES = "server.properties"
LOG4J2_FILE = Path(__file__).with_name("broker_log4j2.properties")
# A free port found for port 0 can be taken by another process before the broker listens on it.
FREE_PORT_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """What is known of the broker of one directory.

    Attributes:
        directory: where it lives.
        process: its process, None when it does not run.
        port: the port it listens on, None when it does not run.
        is_answering: whether it answered a request just now.
    """

    directory: Path
    process: ProcessName | None
    port: int | None
    is_answering: bool

    @property
    def is_running(self) -> bool:
        """Whether its process is there."""
        return self.process is not None

    @property
    def bootstrap_servers(self) -> str | None:
        """What a Kafka client connects to, None when the broker does not run."""
        return None if self.port is None else f"{HOST}:{self.port}"


@final
class LocalBroker:
    """The broker that lives in one directory.

    As a context manager it is started on entry and stopped on every way out. A keyboard interrupt
    in the terminal is not sent to it, so its owner can drain first; if the owner is killed, the
    kernel kills the broker too, unless it was asked to outlive its owner.
    """

    def __init__(
        self,
        directory: Path,
        *,
        port: int = DEFAULT_PORT,
        dies_with_owner: bool = True,
        is_fresh: bool = False,
        security: Mapping[str, str] | None = None,
        java_options: Sequence[str] | None = None,
        progress: Callable[[str], None] | None = None,
    ) -> None:
        """Describes a broker; nothing is started.

        Args:
            directory: where its configuration, log and data live.
            port: the port for clients, with the next one for the controller; 0 takes free ones.
            dies_with_owner: whether it ends with the thread that calls `start`.
            is_fresh: whether data of an earlier run is forgotten at the start.
            security: None: it speaks to everybody in the clear. Else it has TLS, SASL and ACLs;
                these of its properties go over those of `BrokerSecurity`.
            java_options: more options of its JVM; None: those that let it start fast.
            progress: called with a line of progress.

        Raises:
            BrokerError: the port is none that a broker and its controller can have.
        """
        if not 0 <= port < MAX_PORT:
            raise BrokerError(
                f"The broker's port is {port!r}; expected 1 to {MAX_PORT - 1}, or 0 for a free one."
            )
        self.directory = directory.absolute()
        self._wanted_port = port
        self._dies_with_owner = dies_with_owner
        self._is_fresh = is_fresh
        self._security = security
        self._java_options = java_options
        self._progress = progress or (lambda _: None)
        self._child: subprocess.Popen[bytes] | None = None
        self._port: int | None = None

    @property
    def log_file(self) -> Path:
        """The broker's own log; made anew at each start."""
        return self.directory / "broker.log"

    @property
    def bootstrap_servers(self) -> str:
        """What a Kafka client connects to.

        Raises:
            BrokerError: the broker does not run.
        """
        found = f"{HOST}:{self._port}" if self._port else self.status().bootstrap_servers
        if found is None:
            raise BrokerError(
                f"No broker runs from {str(self.directory)!r}. To fix: {self._command('start')}"
            )
        return found

    def _command(self, action: str) -> str:
        """What to type: without the directory it would be about another broker."""
        return f"tallystick broker {action} --directory {shlex.quote(str(self.directory.parent))}"

    def __enter__(self) -> LocalBroker:
        """Starts it."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stops it."""
        self.stop()

    def start(self, deadline_s: float = START_DEADLINE_S) -> None:
        """Starts the broker and returns when it answers and would accept records.

        Raises:
            BrokerError: it runs already, a port is taken, Java is unfit, or it did not answer in
                time; the message has the end of its log. Nothing is left running then.
        """
        status = self.status()
        if status.process is not None:
            raise BrokerError(
                f"A broker runs from {str(self.directory)!r} already: process "
                f"{status.process.pid}, port {status.port}. To fix: {self._command('stop')}"
            )
        problem = java_problem()
        java = java_command()
        if problem is not None or java is None:
            raise BrokerError(str(problem))
        classpath = os.pathsep.join(str(path) for path in broker_classpath(self._progress))
        if self._is_fresh:
            shutil.rmtree(self.directory / "data", ignore_errors=True)
        self._make_directory()
        attempts = 1 if self._wanted_port else FREE_PORT_ATTEMPTS
        for attempt in range(1, attempts + 1):
            ports = self._ports()
            try:
                self._start_on(ports, java, classpath, deadline_s)
                return
            except BaseException as error:
                self.stop()
                was_bind = "Address already in use" in self._log_text()
                if isinstance(error, BrokerError) and was_bind and attempt < attempts:
                    continue
                raise

    def stop(self, deadline_s: float = STOP_DEADLINE_S) -> bool:
        """Stops the broker of this directory, whoever started it.

        It is asked first and killed at the deadline.

        Returns:
            Whether one was running.

        Raises:
            BrokerError: it is still there after it was killed.
        """
        process = self._own_child() or self._process()
        if process is not None:
            process.send(signal.SIGTERM)
            if not self._wait_for_end(process, deadline_s):
                process.send(signal.SIGKILL)
                if not self._wait_for_end(process, deadline_s):
                    raise BrokerError(
                        f"The broker, process {process.pid}, does not end. "
                        f"To fix: kill -9 {process.pid}"
                    )
        if self._child is not None:
            self._child.wait()
            self._child = None
        self._port = None
        self._process_file.unlink(missing_ok=True)
        return process is not None

    def status(self) -> BrokerStatus:
        """Checks whether the broker of this directory runs and answers."""
        process = self._process()
        port = self._saved().get("port") if process else None
        is_answering = port is not None and live_brokers(port, security=self.security) > 0
        return BrokerStatus(self.directory, process, port, is_answering)

    @property
    def security(self) -> BrokerSecurity | None:
        """How the broker that runs, or that is to be started, is spoken to; None: in the clear."""
        if self._security is not None or self._saved().get("is_secure"):
            return BrokerSecurity.of(self.directory, self._security)
        return None

    @property
    def _process_file(self) -> Path:
        return self.directory / "broker.json"

    def _saved(self) -> dict[str, Any]:
        try:
            saved = json.loads(self._process_file.read_text("utf-8"))
            return {
                "port": int(saved["port"]),
                "is_secure": bool(saved["is_secure"]),
                "process": ProcessName(
                    int(saved["pid"]), str(saved["boot_id"]), int(saved["started_ticks"])
                ),
            }
        except (OSError, ValueError, KeyError, TypeError):
            return {}  # none was started, or its log was cut short: nothing to find

    def _own_child(self) -> ProcessName | None:
        # Also in the moment before its note is written.
        if self._child is None or self._child.poll() is not None:
            return None
        return ProcessName.of(self._child.pid)

    def _process(self) -> ProcessName | None:
        process: ProcessName | None = self._saved().get("process")
        return process if process is not None and process.is_running() else None

    def _make_directory(self) -> None:
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self.log_file.write_bytes(b"")
            shutil.copyfile(LOG4J2_FILE, self.directory / LOG4J2_FILE.name)
        except OSError as error:
            raise BrokerError(
                f"The broker's directory {str(self.directory)!r} cannot be written: "
                f"{error.strerror}. To fix: choose a directory of yours."
            ) from error

    def _ports(self) -> tuple[int, int]:
        if not self._wanted_port:
            first = free_base_port(2)
            return first, first + 1
        ports = (self._wanted_port, self._wanted_port + 1)
        for port in ports:
            problem = port_problem(port, HOST)
            if problem is not None:
                raise BrokerError(str(problem))
        return ports

    def _start_on(
        self, ports: tuple[int, int], java: str, classpath: str, deadline_s: float
    ) -> None:
        security = None if self._security is None else self.security
        # It may hold passwords.
        write_private(
            self.directory / PROPERTIES, server_properties(*ports, security).encode("ascii")
        )
        self._format(java, classpath)
        self._progress(f"starting the broker on {HOST}:{ports[0]}")
        command = [
            java,
            f"-Xmx{HEAP_MIB}m",
            *(with_archive(BROKER) if self._java_options is None else self._java_options),
            "-Djava.awt.headless=true",
            # Without PerfData Java keeps no file of a known name in /tmp.
            "-XX:-UsePerfData",
            f"-Dlog4j2.configurationFile={LOG4J2_FILE.name}",
            *("-cp", classpath, "kafka.Kafka", PROPERTIES),
        ]
        if self._dies_with_owner:
            command = dying_with_parent(command, sys.executable)
        with self.log_file.open("ab") as log:
            self._child = child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                env=java_environment(),
                # Out of the terminal's process group: Ctrl-C is for the owner, who drains first.
                start_new_session=True,
            )
        name = ProcessName.of(child.pid)
        if name is not None:
            saved = json.dumps(
                {"port": ports[0], "is_secure": security is not None, **asdict(name)}
            )
            incoming = self._process_file.with_suffix(".incoming")
            incoming.write_text(saved, "utf-8")
            incoming.replace(self._process_file)
        self._port = ports[0]
        is_there = wait_until(
            lambda: child.poll() is not None or live_brokers(ports[0], security=security) > 0,
            deadline_s,
        )
        if child.poll() is not None:
            raise BrokerError(
                f"The broker ended with status {child.returncode} before it answered; "
                f"the end of {str(self.log_file)!r}: {self._log_tail()}"
            )
        if not is_there:
            raise BrokerError(
                f"The broker did not answer on {HOST}:{ports[0]} within {deadline_s:.0f} s; "
                f"the end of {str(self.log_file)!r}: {self._log_tail()}"
            )

    def _format(self, java: str, classpath: str) -> None:
        if (self.directory / "data" / "meta.properties").exists():
            return
        # What a format that was cut short has left is not worth keeping.
        shutil.rmtree(self.directory / "data", ignore_errors=True)
        self._progress("formatting the broker's storage")
        command = [
            java,
            "-Xmx256m",
            *with_archive(BROKER),
            f"-Dlog4j2.configurationFile={LOG4J2_FILE.name}",
            *("-cp", classpath, "kafka.tools.StorageTool", "format"),
            *("--cluster-id", new_cluster_id(), "--config", PROPERTIES),
        ]
        with self.log_file.open("ab") as log:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                env=java_environment(),
                check=False,
            )
        if done.returncode != 0:
            raise BrokerError(
                f"The broker's storage cannot be formatted (status {done.returncode}); "
                f"the end of {str(self.log_file)!r}: {self._log_tail()}"
            )

    def _wait_for_end(self, process: ProcessName, deadline_s: float) -> bool:
        def has_ended() -> bool:
            if self._child is not None and self._child.pid == process.pid:
                return self._child.poll() is not None
            return not process.is_running()

        return wait_until(has_ended, deadline_s)

    def _log_text(self) -> str:
        try:
            return self.log_file.read_text("utf-8", "replace")
        except OSError:
            return ""

    def _log_tail(self) -> str:
        lines = [line for line in self._log_text().splitlines() if line.strip()]
        return "\n".join(["", *lines[-LOG_TAIL_LINES:]]) if lines else "it is empty."


def server_properties(
    port: int, controller_port: int, security: BrokerSecurity | None = None
) -> str:
    """Writes the broker's configuration: one node that is broker and controller.

    Its paths are relative to the broker's directory, whose own name may hold what Java reads as
    an escape, a separator or another encoding.
    """
    lines = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{HOST}:{controller_port}",
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": "data",
        # A topic has the partitions its owner asked for, or it is not there.
        "auto.create.topics.enable": "false",
        # Kafka's own topics: three replicas and 50 partitions are for clusters.
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        # A consumer that joins need not wait for others of its group.
        "group.initial.rebalance.delay.ms": "0",
        # A quarter of the heap by default; our topics are not compacted.
        "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),
    }
    if security is not None:
        lines |= security.server_properties(HOST, port, controller_port)
    return "".join(f"{key}={value}\n" for key, value in lines.items())


def new_cluster_id() -> str:
    """Makes a Kafka cluster id: 16 random bytes in URL-safe base64, not starting with a dash."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode("ascii").rstrip("=")
        if not text.startswith("-"):  # the formatting tool would read it as an option
            return text


def live_brokers(port: int, timeout_s: float = 2.0, security: BrokerSecurity | None = None) -> int:
    """Asks a broker how many brokers of its cluster are alive; 0 when it does not answer.

    The question is Kafka's Metadata request, version 1, for no topic, in raw bytes: a node that
    has not yet joined its cluster answers it with an empty list, so 1 means that topics can be
    made and records written. After the length of the rest (int32) it has: api key 3 and version 1
    (int16 each), a correlation id (int32), the client's name (int16 length, bytes), the number of
    topics (int32). The answer: length, correlation id, then the number of brokers (int32).
    """
    client = b"tallystick"
    body = struct.pack(f">hhih{len(client)}si", 3, 1, 1, len(client), client, 0)
    try:
        with ExitStack() as stack:
            connection = stack.enter_context(socket.create_connection((HOST, port), timeout_s))
            if security is not None:
                connection = stack.enter_context(security.opened(connection, HOST))
            connection.sendall(struct.pack(">i", len(body)) + body)
            with connection.makefile("rb") as answer:
                head: Sequence[int] = struct.unpack(">iii", answer.read(12))
    except (OSError, struct.error):
        return 0
    _length, correlation_id, brokers = head
    return brokers if correlation_id == 1 else 0
