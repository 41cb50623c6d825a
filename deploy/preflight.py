"""Checks of the machine, made before anything is started or fetched.

Runs on a bare Python of any version from 3.8 on, with the standard library only: it is what
`make` calls first, and it reports in one sentence what is missing and what fixes it.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

PYTHON_OLDEST = (3, 10)
PYTHON_NEWEST = (3, 13)
JAVA_VERSIONS = (17, 21)
# Spark 4 is started with --add-modules=jdk.incubator.vector; a Java without it does not start.
JAVA_MODULE = "jdk.incubator.vector"
JAVA_FIX = "apt-get install openjdk-17-jre-headless"
GIB = 1024**3
# Measured: the virtual environment takes 1.5 GB, pip's download of Spark and its unpacked copy
# another 1.2 GB while it is built, the jars 60 MB.
SETUP_BYTES = 3 * GIB
RUN_BYTES = GIB // 2


# No slots: they need Python 3.10, and an older one is among the things this module reports.
@dataclass(frozen=True)
class Problem:
    """Something that this machine lacks.

    Attributes:
        sentence: what is missing or wrong, in one sentence.
        fix: the command line or action that fixes it.
    """

    sentence: str
    fix: str

    def __str__(self) -> str:
        """Returns the sentence and the line that fixes it, in one line."""
        return f"{self.sentence} To fix: {self.fix}"


def python_problem(version: tuple[int, int]) -> Problem | None:
    """Reports whether a Python version is one that the locked dependencies exist for."""
    if PYTHON_OLDEST <= version <= PYTHON_NEWEST:
        return None
    return Problem(
        f"Python {version[0]}.{version[1]} is not one of 3.10, 3.11, 3.12, 3.13.",
        "apt-get install python3 python3-venv, or name another: make PYTHON=/path/to/python3.12",
    )


def venv_problem(python: str) -> Problem | None:
    """Reports whether a Python can make a virtual environment; Debian's own may lack the parts."""
    answer = _run([python, "-c", "import ensurepip, venv"])
    if answer is not None and answer[0] == 0:
        return None
    return Problem(
        f"{python} cannot make a virtual environment: its module ensurepip or venv is missing.",
        "apt-get install python3-venv",
    )


def java_command(environ: dict[str, str] | None = None) -> str | None:
    """Finds the java that this project starts: JAVA_HOME's if that is set, else the PATH's."""
    env = dict(os.environ) if environ is None else environ
    home = env.get("JAVA_HOME")
    if home:
        candidate = Path(home) / "bin" / "java"
        return str(candidate) if os.access(candidate, os.X_OK) else None
    return shutil.which("java", path=env.get("PATH"))


def java_environment() -> dict[str, str]:
    """Returns the environment in which to start Java: this process's, in a UTF-8 locale.

    Java decodes the names of files by the locale; in the C locale it loses what is not ASCII.
    """
    return {**os.environ, "LC_ALL": "C.UTF-8"}


def parse_java_version(text: str) -> int | None:
    """Reads the major version from what `java -version` prints; None when it is not there.

    Old numbering counts: "1.8.0_392" is 8.
    """
    found = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if not found:
        return None
    major = int(found.group(1))
    if major == 1 and found.group(2):
        return int(found.group(2))
    return major


def judge_java(
    command: str | None, java_home: str | None, version_text: str, modules: str
) -> Problem | None:
    """Decides on Java from what was seen of it.

    Args:
        command: the java that would be started, None when there is none.
        java_home: the value of JAVA_HOME, None or empty when unset.
        version_text: what `java -version` printed.
        modules: what `java --list-modules` printed.
    """
    if command is None and java_home:
        return Problem(
            f"JAVA_HOME is {java_home!r}, and there is no program bin/java in it.",
            "unset JAVA_HOME, or set it to a Java 17 or 21",
        )
    if command is None:
        return Problem("There is no Java: neither JAVA_HOME nor PATH leads to one.", JAVA_FIX)
    version = parse_java_version(version_text)
    if version is None:
        return Problem(
            f"{command} does not report its version; it printed {version_text[:80]!r}.", JAVA_FIX
        )
    if version not in JAVA_VERSIONS:
        return Problem(
            f"{command} is Java {version}, and Spark 4.0 needs 17 or 21.",
            f"{JAVA_FIX}, then set JAVA_HOME to it",
        )
    if JAVA_MODULE not in modules:
        return Problem(
            f"{command} is a Java {version} without the module {JAVA_MODULE} that Spark asks for.",
            f"{JAVA_FIX}, then set JAVA_HOME to it",
        )
    return None


def java_problem(environ: dict[str, str] | None = None) -> Problem | None:
    """Checks the java that would be started and reports what is wrong with it."""
    env = dict(os.environ) if environ is None else environ
    command = java_command(env)
    version_text = modules = ""
    if command is not None:
        version_text = (_run([command, "-version"]) or (1, ""))[1]
        if parse_java_version(version_text) in JAVA_VERSIONS:
            modules = (_run([command, "--list-modules"]) or (1, ""))[1]
    return judge_java(command, env.get("JAVA_HOME"), version_text, modules)


def nearest_existing(directory: Path) -> Path:
    """Returns a directory, or the nearest of those above it that is there."""
    existing = directory.absolute()
    while not existing.exists():
        existing = existing.parent
    return existing


def disk_problem(directory: Path, needed_bytes: int) -> Problem | None:
    """Reports whether the file system of a directory has room; the directory need not exist yet."""
    existing = nearest_existing(directory)
    free = shutil.disk_usage(existing).free
    if free >= needed_bytes:
        return None
    return Problem(
        f"{existing} has {free / GIB:.1f} GiB free, and {needed_bytes / GIB:.1f} GiB are needed.",
        f"free some space there: du -xh --max-depth=2 {existing} | sort -h | tail",
    )


def port_problem(port: int, host: str = "127.0.0.1") -> Problem | None:
    """Reports whether a port can be listened on."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # Kafka sets it too: a port whose last connections are in TIME_WAIT counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return Problem(
                f"Port {port} on {host} cannot be listened on: {error.strerror}.",
                f"stop what listens there (ss -ltnp 'sport = :{port}'), or choose another port",
            )
    return None


def platform_problem(system: str) -> Problem | None:
    """Reports whether the operating system is one that the broker's care of processes knows."""
    if system == "Linux":
        return None
    return Problem(f"tallystick runs on Linux, and this is {system!r}.", "use Linux, or WSL 2")


def check_machine(
    *,
    directory: Path,
    needed_bytes: int = RUN_BYTES,
    ports: tuple[int, ...] = (),
    environ: dict[str, str] | None = None,
) -> list[Problem]:
    """Checks what running needs: the system, Python, Java, disk space, ports.

    Args:
        directory: where state will be written.
        needed_bytes: how much room that takes.
        ports: ports that must be free; 0 (any free one) is never a problem.
        environ: the environment to search, by default this process's.

    Returns:
        What is missing, in the order in which to fix it; empty when all is there.
    """
    found = [
        platform_problem(platform.system()),
        python_problem(sys.version_info[:2]),
        java_problem(environ),
        disk_problem(directory, needed_bytes),
        *(port_problem(port) for port in ports if port),
    ]
    return [problem for problem in found if problem is not None]


def _run(command: list[str]) -> tuple[int, str] | None:
    """Runs a short command; returns its status and all it printed, None when it cannot run."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.returncode, done.stdout.decode("utf-8", "replace")


def main(arguments: list[str] | None = None) -> int:
    """Checks the machine for `make`: prints one line a problem, returns 2 when there is one."""
    parser = argparse.ArgumentParser(prog="preflight", description=main.__doc__)
    parser.add_argument("--setup", action="store_true", help="also check what set-up needs")
    parser.add_argument("--directory", type=Path, default=Path.cwd())
    chosen = parser.parse_args(arguments)
    problems = check_machine(
        directory=chosen.directory, needed_bytes=SETUP_BYTES if chosen.setup else RUN_BYTES
    )
    if chosen.setup:
        venv = venv_problem(sys.executable)
        problems += [venv] if venv else []
    for problem in problems:
        sys.stderr.write(f"tallystick: {problem}\n")
    return 2 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
