"""Labs of real MySQL servers that end with the tests that asked for them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tallystick.deploy.mysql_server import mysqld_problem
from tallystick.deploy.ports import free_base_port
from tallystick.producers.mysql_lab.layout import SERVERS
from tallystick.servers.lab import Lab

_MADE: list[Path] = []
"""The directory of this process' first lab."""


def _begin_with_the_data_of(made: Path, directory: Path) -> None:
    """As an `up` that was interrupted leaves them: the servers are made, started and joined."""
    directory.mkdir()
    for name in ("accounts.json", "audit.password"):
        shutil.copy(made / name, directory)
    (directory / "template").symlink_to(made / "template")


@contextmanager
def running_lab(directory: Path) -> Iterator[Lab]:
    """Five servers in a directory; where they cannot run the test is skipped and says why."""
    problem = mysqld_problem()
    if problem is not None:
        pytest.skip(str(problem))
    lab = Lab(directory, base_port=free_base_port(len(SERVERS)), dies_with_owner=True)
    # Data for servers to begin with are a third of the work of making a lab.
    if _MADE:
        _begin_with_the_data_of(_MADE[0], directory)
    lab.up()
    _MADE.append(directory)
    try:
        yield lab
    finally:
        for server in lab.servers.values():
            server.kill()
