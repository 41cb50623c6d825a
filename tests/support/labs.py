"""Labs of real MySQL servers that end with the tests that asked for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tallystick.deploy.mysql_server import mysqld_problem
from tallystick.producers.mysql_lab.layout import SERVERS
from tallystick.servers.lab import Lab
from tests.support.ports import free_base_port


@contextmanager
def running_lab(directory: Path) -> Iterator[Lab]:
    """Five servers in a directory; where they cannot run the test is skipped and says why."""
    problem = mysqld_problem()
    if problem is not None:
        pytest.skip(str(problem))
    lab = Lab(directory, base_port=free_base_port(len(SERVERS)), dies_with_owner=True)
    lab.up()
    try:
        yield lab
    finally:
        for server in lab.servers.values():
            server.kill()
