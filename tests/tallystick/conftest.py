"""Commands run in this process: exit code, stdout and stderr."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass

import pytest

from tallystick import cli, process
from tests.support.bare import command_in, link_packages


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


@pytest.fixture(scope="session")
def packages_without(tmp_path_factory):
    """Make a directory of all that is installed, without some modules."""
    made = {}

    def packages(modules):
        if modules not in made:
            made[modules] = tmp_path_factory.mktemp("packages") / "linked"
            link_packages(made[modules], modules)
        return made[modules]

    return packages


@pytest.fixture(scope="session")
def command_without(packages_without):
    """Make the command line for a process in which some modules are not installed."""

    def command(modules, *arguments):
        return command_in(packages_without(modules), *arguments)

    return command


@pytest.fixture
def tallystick(capsys, monkeypatch, tmp_path):
    """Run a command line from an empty directory, with none of the caller's settings."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("TALLYSTICK_")]:
        monkeypatch.delenv(name)
    before = signal.getsignal(signal.SIGTERM)
    mask = os.umask(0o022)
    os.umask(mask)

    def run(*arguments: str) -> Ran:
        capsys.readouterr()
        code = process.run(lambda: cli.run_command(list(arguments)))
        out, err = capsys.readouterr()
        return Ran(int(code), out, err)

    yield run
    signal.signal(signal.SIGTERM, before)
    os.umask(mask)
