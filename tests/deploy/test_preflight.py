"""What is said of a machine that lacks something, and of one that does not."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tallystick.deploy import preflight

MODULES = "java.base@17.0.15\njdk.incubator.vector@17.0.15\n"


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "21.0.2" 2024-01-16', 21),
        ("openjdk 17.0.15 without the word and its quotes", None),
        ("", None),
    ],
)
def test_java_version_is_read_in_old_and_new_numbering(text: str, major: int | None) -> None:
    """The major version is found wherever `java -version` prints it."""
    assert major == preflight.parse_java_version(text)


@pytest.mark.parametrize("major", [17, 21])
def test_the_javas_that_spark_supports_are_no_problem(major: int) -> None:
    """A Java 17 or 21 with the vector module passes."""
    text = f'openjdk version "{major}.0.1"'
    assert preflight.judge_java("/usr/bin/java", None, text, MODULES) is None


@pytest.mark.parametrize(
    ("command", "home", "text", "modules", "said"),
    [
        (None, None, "", "", "There is no Java"),
        (None, "/opt/gone", "", "", "JAVA_HOME is '/opt/gone'"),
        ("/bin/java", None, 'version "1.8.0_392"', MODULES, "Java 8"),
        ("/bin/java", None, 'version "11.0.2"', MODULES, "Java 11"),
        ("/bin/java", None, 'version "25"', MODULES, "Java 25"),
        ("/bin/java", None, 'version "17.0.1"', "java.base@17", "jdk.incubator.vector"),
        ("/bin/java", None, "Segmentation fault", MODULES, "'Segmentation fault'"),
    ],
)
def test_an_unfit_java_is_named_with_what_mends_it(
    command: str | None, home: str | None, text: str, modules: str, said: str
) -> None:
    """Each way in which Java can be unfit has its sentence, on one line, with a fix."""
    problem = preflight.judge_java(command, home, text, modules)
    assert problem is not None
    assert said in problem.sentence
    assert problem.fix
    assert "\n" not in str(problem)


def test_java_home_goes_before_the_path(tmp_path: Path) -> None:
    """JAVA_HOME decides alone: without a java in it, the PATH's is not taken silently."""
    java = tmp_path / "home" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\n")
    java.chmod(0o755)
    path = str(java.parent)
    assert str(java) == preflight.java_command({"JAVA_HOME": str(tmp_path / "home"), "PATH": ""})
    assert str(java) == preflight.java_command({"PATH": path})
    assert preflight.java_command({"JAVA_HOME": str(tmp_path), "PATH": path}) is None


@pytest.mark.parametrize("version", [(3, 10), (3, 11), (3, 12), (3, 13)])
def test_the_locked_pythons_are_no_problem(version: tuple[int, int]) -> None:
    """Python 3.10 to 3.13 pass."""
    assert preflight.python_problem(version) is None


@pytest.mark.parametrize("version", [(2, 7), (3, 9), (3, 14), (4, 0)])
def test_other_pythons_are_named(version: tuple[int, int]) -> None:
    """One version on either side of the range is refused by its number."""
    problem = preflight.python_problem(version)
    assert problem is not None
    assert f"Python {version[0]}.{version[1]} is not" in problem.sentence


def test_a_python_without_venv_is_named_with_debians_package(tmp_path: Path) -> None:
    """A Python that cannot make virtual environments gets the package that fixes it."""
    poor = tmp_path / "python3"
    poor.write_text("#!/bin/sh\nexit 1\n")
    poor.chmod(0o755)
    problem = preflight.venv_problem(str(poor))
    assert problem is not None
    assert problem.fix == "apt-get install python3-venv"
    assert preflight.venv_problem(sys.executable) is None


def test_disk_space_is_looked_for_where_the_directory_will_be(tmp_path: Path) -> None:
    """A directory that does not exist yet is judged by its nearest parent."""
    wanted = tmp_path / "not" / "yet"
    assert preflight.disk_problem(wanted, 1) is None
    problem = preflight.disk_problem(wanted, 1 << 60)
    assert problem is not None
    assert str(tmp_path) in problem.sentence
    assert str(wanted) not in problem.sentence


def test_a_taken_port_is_named_and_a_free_one_is_not() -> None:
    """The sentence has the port; the same port is no problem once it is free again."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        problem = preflight.port_problem(port)
        assert problem is not None
        assert f"Port {port} on 127.0.0.1" in problem.sentence
        assert str(port) in problem.fix
    assert preflight.port_problem(port) is None


def test_all_that_is_missing_is_said_at_once(tmp_path: Path) -> None:
    """Several problems come together, so that they are mended in one go."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        problems = preflight.check_machine(
            directory=tmp_path, needed_bytes=1 << 60, ports=(0, port), environ={"PATH": ""}
        )
    said = [problem.sentence for problem in problems]
    assert len(said) == 3
    assert "Java" in said[0]
    assert "GiB" in said[1]
    assert str(port) in said[2]


def test_it_runs_alone_on_a_bare_interpreter(tmp_path: Path) -> None:
    """As `make` calls it: a file, an interpreter without packages, one line, status 2."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", preflight.__file__, "--directory", str(tmp_path)],
        env={"PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    sentence = "There is no Java: neither JAVA_HOME nor PATH leads to one."
    assert done.stderr == f"tallystick: {sentence} To fix: {preflight.JAVA_FIX}\n"
