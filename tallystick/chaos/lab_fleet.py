"""The fleet of a round with a lab: two real servers, source and replica, a load and a fault."""

from __future__ import annotations

from pathlib import Path
from typing import Final, final

from tallystick.producers.mysql_lab.accounts import AUDIT
from tallystick.producers.mysql_lab.layout import NAMES, REPLICA_1, SOURCE_A
from tallystick.producers.mysql_lab.load import WEIGHTS, LoadPlan
from tallystick.producers.mysql_lab.sessions import session
from tallystick.servers.lab import Lab

KEPT: Final = (SOURCE_A, REPLICA_1)
CANARY: Final = "errant_write"
WRITES_PER_SECOND = 20.0
ENDLESS_S = 86_400.0
_KINDS = tuple(kind for kind in WEIGHTS if kind != "nontransactional")
"""A server that is killed may lose the GTID of a group in MyISAM."""


@final
class LabFleet:
    """A lab of which a source and its replica run.

    Args:
        directory: Its own.
        base_port: The first of the lab's ports.
        seed: Decides what is written.
    """

    def __init__(self, directory: Path, base_port: int, seed: int) -> None:
        self._lab = Lab(directory, base_port=base_port, dies_with_owner=True)
        self._seed = seed
        self.config_file = directory / "two.toml"

    def start(self) -> None:
        """Make the servers, write on the source, and once on the replica alone.

        Raises:
            AuditError: A server cannot be made or started.
        """
        self._lab.up()
        for name in NAMES:
            if name not in KEPT:
                self._lab.stop(name)
        lines = ["[defaults]", f'user = "{AUDIT}"', 'password_file = "audit.password"']
        for name in KEPT:
            port = self._lab.servers[name].port
            lines += [f"[servers.{name}]", f"port = {port}", f'relay_log_dir = "{name}/data"']
        self.config_file.write_text("\n".join(lines) + "\n", "utf-8")
        plan = LoadPlan((SOURCE_A,), WRITES_PER_SECOND, 2, ENDLESS_S, _KINDS, self._seed)
        self._load = self._lab.make_load(plan)
        self._load.start()
        with session(self._lab.machine_addresses[REPLICA_1]) as replica:
            replica.run("CREATE DATABASE errant")

    def kill(self, name: str) -> None:
        """By ``kill -9``."""
        self._lab.kill(name)

    def restart(self, name: str) -> None:
        """Shut a server down if it runs, start it, and return when it answers."""
        self._lab.stop(name)
        self._lab.restart(name)

    def close(self) -> None:
        """Kill what runs."""
        for server in self._lab.servers.values():
            server.kill()
