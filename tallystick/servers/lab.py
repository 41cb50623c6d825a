"""The lab: real MySQL servers of one directory, put together from processes and clients.

Everything that it starts is found again in its directory, and nothing else is touched.
"""

from __future__ import annotations

import fcntl
import json
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, final

from tallystick.coordinates.rules.explanation import fill
from tallystick.deploy.mysql_server import mysql_server
from tallystick.deploy.mysqld import LocalMysqld, initialise, read_server_uuid, write_server_uuid
from tallystick.errors import MisuseError
from tallystick.producers.mysql_lab.accounts import (
    AUDIT,
    Accounts,
    load_accounts,
    save_accounts,
    write_private,
)
from tallystick.producers.mysql_lab.errors import LabError
from tallystick.producers.mysql_lab.layout import (
    CHANNELS,
    INITIALISE_OPTIONS,
    NAMES,
    SERVERS,
    SOURCE_B,
)
from tallystick.producers.mysql_lab.load import Load, LoadPlan
from tallystick.producers.mysql_lab.replication import (
    ChannelStatus,
    channel_statuses,
    make_channels,
    wait_for_channels,
    wait_until_applied,
)
from tallystick.producers.mysql_lab.sessions import Address, session

DEFAULT_BASE_PORT = 23_306
MAX_BASE_PORT = 65_536 - len(SERVERS)
RECONNECT_DEADLINE_S = 10.0

_NOTE = "lab.json"
_ACCOUNTS = "accounts.json"
_AUDIT_PASSWORD = "audit.password"  # noqa: S105  the name of its file
_CONFIG = "servers.toml"
_TEMPLATE = "template"


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """What is seen of a server of the lab.

    Attributes:
        name: the server.
        port: where it listens.
        pid: its process, None when it is down.
        version: the version that it greets clients with, None when it does not answer.
        gtid_executed: what it has executed, None when it cannot be asked.
        channels: its replication.
        problem: why it cannot be asked, empty when it can.
    """

    name: str
    port: int
    pid: int | None
    version: str | None
    gtid_executed: str | None
    channels: tuple[ChannelStatus, ...]
    problem: str

    @property
    def is_well(self) -> bool:
        """Whether it answers, and all its channels run."""
        return not self.problem and all(channel.is_running for channel in self.channels)


@final
class Lab:
    """The lab that lives in one directory."""

    def __init__(
        self,
        directory: Path,
        *,
        base_port: int | None = None,
        dies_with_owner: bool = False,
        progress: Callable[[str], None] | None = None,
    ) -> None:
        """Describes a lab; nothing is started.

        Args:
            directory: where its servers live.
            base_port: the first server's port; None: that which it was made with, or the default.
            dies_with_owner: whether its servers end with the thread that starts them.
            progress: called with a line of progress.
        """
        self.directory = directory.absolute()
        self._wanted_base_port = base_port
        self._dies_with_owner = dies_with_owner
        self._progress = progress or (lambda _: None)
        self._servers: dict[str, LocalMysqld] | None = None
        self._found_addresses: dict[str, Address] | None = None

    @property
    def config_file(self) -> Path:
        """The list of its servers for ``tallystick check`` and ``tallystick tail``."""
        return self.directory / _CONFIG

    @property
    def is_made(self) -> bool:
        """Whether there is a whole lab in the directory."""
        return self._made_base_port is not None

    @property
    def base_port(self) -> int:
        """The first server's port."""
        return self._made_base_port or self._wanted_base_port or DEFAULT_BASE_PORT

    @property
    def servers(self) -> Mapping[str, LocalMysqld]:
        """The servers' processes, by name."""
        if self._servers is None:
            program = mysql_server(self._progress)
            self._servers = {
                server.name: LocalMysqld(
                    self.directory / server.name,
                    program,
                    port=server.port(self.base_port),
                    options=server.options,
                    dies_with_owner=self._dies_with_owner,
                )
                for server in SERVERS
            }
        return self._servers

    @property
    def _command_up(self) -> str:
        """What to type: without the directory it would be about another lab."""
        return f"tallystick lab up --directory {shlex.quote(str(self.directory.parent))}"

    @property
    def accounts(self) -> Accounts:
        """The passwords of the lab."""
        return load_accounts(self.directory / _ACCOUNTS)

    def addresses(self) -> dict[str, Address]:
        """The addresses of its servers, by name.

        Raises:
            MisuseError: there is no lab in the directory.
        """
        if not self.is_made:
            raise MisuseError(
                f"There is no lab in {str(self.directory)!r}; expected one made by: "
                f"{self._command_up}"
            )
        return self._addresses(self.accounts)

    def up(self, *, is_fresh: bool = False) -> None:
        """Starts every server that is down; makes the lab first where there is none.

        Args:
            is_fresh: whether a lab that is there is stopped and forgotten.

        Raises:
            MisuseError: the lab there has other ports.
            DeployError: a server cannot be made or started.
            LabError: replication cannot be made.
        """
        with self._locked():
            made_with = self._made_base_port
            wanted = self._wanted_base_port
            if made_with is not None and not is_fresh and wanted not in {None, made_with}:
                raise MisuseError(
                    f"The lab in {str(self.directory)!r} has the ports from {made_with} on; "
                    f"expected no --base-port, or --fresh to make it anew from {wanted} on."
                )
            if made_with is None or is_fresh:
                self._forget(data_too=is_fresh)
                try:
                    self._make()
                except BaseException:
                    self._stop_all()
                    raise
            else:
                self._launch_all()
                self._await_replication()

    def down(self) -> list[str]:
        """Stops what runs of the lab, by its process; its data stays.

        Returns:
            The names of the servers that were running.
        """
        with self._locked():
            return self._stop_all()

    def status(self) -> list[ServerStatus]:
        """Checks every server.

        Raises:
            MisuseError: there is no lab in the directory.
        """
        addresses = self.addresses()
        return [self._status_of(server.name, addresses[server.name]) for server in SERVERS]

    def await_applied(self) -> None:
        """Returns when every replica has executed what its sources have.

        Raises:
            LabError: one does not get there in time.
        """
        addresses = self.addresses()
        for channel in CHANNELS:  # sources first: what a replica receives, it has to pass on
            with (
                session(addresses[channel.source]) as source,
                session(addresses[channel.replica]) as replica,
            ):
                wait_until_applied(source, replica, channel)

    # What faults need (producers.mysql_lab.fault_acts.Fleet).

    @property
    def machine_addresses(self) -> Mapping[str, Address]:
        """The addresses of its servers, by name; once found, they are remembered."""
        if self._found_addresses is None:
            self._found_addresses = self.addresses()
        return self._found_addresses

    def make_load(self, plan: LoadPlan) -> Load:
        """Describes a load on its servers."""
        return Load(plan, self.machine_addresses, self.accounts.load)

    def kill(self, name: str) -> int:
        """Ends a server's process as a crash does; returns its process id.

        Raises:
            LabError: it does not run.
        """
        process_id = self.servers[name].kill()
        if process_id is None:
            raise LabError(f"{name!r} does not run; expected it up: {self._command_up}")
        return process_id

    def stop(self, name: str) -> None:
        """Shuts a server down."""
        self.servers[name].request_stop()
        self.servers[name].wait_for_end()

    def restart(self, name: str, *arguments: str) -> None:
        """Starts a server that is down, with more arguments, and returns when it answers."""
        self.servers[name].launch(*arguments)
        self.servers[name].wait_until_answering()

    def copy_server_uuid(self, donor: str, name: str) -> str:
        """Sets a stopped server's server_uuid to another's; returns it."""
        copied = read_server_uuid(self.servers[donor].data_directory)
        write_server_uuid(self.servers[name].data_directory, copied)
        return copied

    def take_image(self, name: str) -> None:
        """Copies a running server's files as they are at one moment."""
        self.servers[name].copy_data(self._image(name))

    def restore_image(self, name: str) -> None:
        """Restores the files of its image to a stopped server."""
        data = self.servers[name].data_directory
        shutil.rmtree(data)
        self._image(name).replace(data)

    def _image(self, name: str) -> Path:
        return self.directory / name / "image"

    @property
    def _made_base_port(self) -> int | None:
        try:
            return int(json.loads((self.directory / _NOTE).read_text("utf-8"))["base_port"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _addresses(self, accounts: Accounts) -> dict[str, Address]:
        ca = self.directory / _TEMPLATE / "ca.pem"
        return {
            server.name: Address(server.name, server.port(self.base_port), ca, accounts.admin)
            for server in SERVERS
        }

    def _make(self) -> None:
        template = self.directory / _TEMPLATE
        if not template.exists():
            self._make_data(template)
        accounts = self.accounts
        for server in self.servers.values():
            server.fill_from(template)
        self._launch_all()
        self._progress("starting replication")
        make_channels(self._addresses(accounts), accounts)
        self.config_file.write_text(self._config(), "utf-8")
        note = self.directory / f"{_NOTE}.incoming"
        note.write_text(json.dumps({"base_port": self.base_port}) + "\n", "utf-8")
        note.replace(self.directory / _NOTE)

    def _make_data(self, template: Path) -> None:
        """What every server begins with; it has its name once it is whole, with its passwords."""
        accounts = Accounts()
        incoming = template.with_name(f"{_TEMPLATE}.incoming")
        shutil.rmtree(incoming, ignore_errors=True)
        program = mysql_server(self._progress)
        self._progress("making the servers' data")
        initialise(program, incoming, accounts.statements(), INITIALISE_OPTIONS)
        save_accounts(accounts, self.directory / _ACCOUNTS)
        write_private(self.directory / _AUDIT_PASSWORD, f"{accounts.audit}\n")
        incoming.replace(template)

    def _launch_all(self) -> None:
        down = [server for server in self.servers.values() if server.process is None]
        if down:
            self._progress(fill("starting {count:n server}", {"count": len(down)}))
        for server in down:
            server.launch()
        for server in down:
            server.wait_until_answering()

    def _await_replication(self) -> None:
        try:
            wait_for_channels(self.addresses(), RECONNECT_DEADLINE_S)
        except LabError as error:  # as an earlier fault has left it: `status` shows
            self._progress(str(error))

    def _stop_all(self) -> list[str]:
        running = [name for name, server in self.servers.items() if server.process is not None]
        for name in running:
            self.servers[name].request_stop()
        for name in running:
            self.servers[name].wait_for_end()
        return running

    def _forget(self, *, data_too: bool) -> None:
        self._stop_all()
        self._servers = self._found_addresses = None  # there may be other ports and passwords
        (self.directory / _NOTE).unlink(missing_ok=True)
        for name in (*NAMES, *((_TEMPLATE,) if data_too else ())):
            shutil.rmtree(self.directory / name, ignore_errors=True)

    def _config(self) -> str:
        lines = [
            "# The lab's servers, for: tallystick check --config, tallystick tail --config",
            "[defaults]",
            f'user = "{AUDIT}"',
            f'password_file = "{_AUDIT_PASSWORD}"',
        ]
        for server in SERVERS:
            lines += [
                "",
                f"[servers.{server.name}]",
                f"port = {server.port(self.base_port)}",
                f'relay_log_dir = "{server.name}/data"',
            ]
            if server.name == SOURCE_B:
                # One server is followed as from another machine, the others by the short way.
                lines += ['tls = "verify_ca"', f'ca = "{_TEMPLATE}/ca.pem"']
        return "\n".join(lines) + "\n"

    def _status_of(self, name: str, address: Address) -> ServerStatus:
        server = self.servers[name]
        process = server.process
        version = server.answering_version if process else None
        gtid_executed, problem = None, ""
        channels: tuple[ChannelStatus, ...] = ()
        if process is None:
            problem = "down"
        elif version is None:
            problem = "does not answer"
        else:
            try:
                with session(address) as asked:
                    gtid_executed = asked.gtid_executed()
                    channels = tuple(channel_statuses(asked))
            except LabError as error:
                problem = str(error)
        pid = None if process is None else process.pid
        return ServerStatus(name, server.port, pid, version, gtid_executed, channels, problem)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            lock = (self.directory / ".lock").open("w")
        except OSError as error:
            raise MisuseError(
                f"The lab's directory {str(self.directory)!r} cannot be written: {error.strerror}"
            ) from error
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # released by the system when this process ends
            yield


def status_document(statuses: list[ServerStatus]) -> list[dict[str, Any]]:
    """The status as JSON has it."""
    return [{**asdict(status), "is_well": status.is_well} for status in statuses]
