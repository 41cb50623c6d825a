"""An environment of its own for each engine: their pins contradict each other and tallystick's.

The packages are those of requirements/bench_NAME.txt, with hashes; what is there is used again.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import venv
from pathlib import Path

from tallystick.deploy.errors import JarError
from tallystick.deploy.jars import parse_list, prepare

ROOT = Path(__file__).parents[2]
DIRECTORY = ROOT / ".tallystick" / "benchmarks"
JARS = Path(__file__).with_name("jars.sha256")


class NotInstallableError(Exception):
    """An engine cannot be installed here, and why."""


def requirements_of(name: str) -> Path:
    """The locked packages of an engine."""
    return ROOT / "requirements" / f"bench_{name}.txt"


def directory_of(name: str) -> Path:
    """Where an engine's environment is, for this Python and these packages."""
    key = hashlib.sha256(requirements_of(name).read_bytes() + sys.version.encode()).hexdigest()
    return DIRECTORY / f"{name}-{key[:12]}"


def installed(name: str) -> Path | None:
    """The Python of an environment that is there and whole."""
    directory = directory_of(name)
    return directory / "bin" / "python" if (directory / ".whole").exists() else None


def python_of(name: str) -> Path:
    """The Python of an engine's environment, which is made where it is missing.

    Raises:
        NotInstallableError: pip cannot install it; the message has its last lines.
    """
    found = installed(name)
    if found is not None:
        return found
    directory = directory_of(name)
    print(f"installing {name} into {directory.relative_to(ROOT)}", flush=True)
    venv.create(directory, clear=True, with_pip=True)
    python = directory / "bin" / "python"
    command = [
        str(python), "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet",
        "--require-hashes", "-r", str(requirements_of(name)),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = "\n".join(done.stderr.strip().splitlines()[-5:])
        raise NotInstallableError(
            f"{name} cannot be installed on Python {sys.version.split()[0]}:\n{last}"
        )
    (directory / ".whole").touch()
    return python


def jars_of(name: str) -> list[Path]:
    """The jars of an engine, verified.

    Raises:
        NotInstallableError: They cannot be fetched; the message says why.
    """
    jars = parse_list(JARS.read_text("utf-8"))[name]
    try:
        return prepare(jars, DIRECTORY / f"{name}-jars", progress=print)
    except JarError as error:
        raise NotInstallableError(f"{name}: {error}") from error
