"""What the bare install does, and the one sentence about an extra that is not installed.

Each command runs in a process of its own in which the packages are not installed.
"""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

from tallystick.coordinates.audit.replay import audit_history
from tallystick.coordinates.events.json_lines import blocks_from_lines
from tallystick.deploy.jars import SYSTEM_IVY
from tallystick.deploy.mysql_server import mysqld_problem
from tallystick.streaming.table_sink import TableSink
from tests.support.bare import ALL_BUT_TABLES, EXTRAS, STREAM, run_each
from tests.support.mysql_greeting import asking_for_rsa, greeting_with

PAGE = Path(__file__).parents[2] / "docs" / "journal.md"
EXAMPLE = PAGE.read_text("utf-8").split("```json\n")[1].split("```")[0]


@pytest.fixture
def environ(tmp_path):
    """None of the caller's settings, and an empty cache."""
    environ = {k: v for k, v in os.environ.items() if not k.startswith("TALLYSTICK_")}
    return environ | {"TALLYSTICK_HOME": str(tmp_path / "home")}


@pytest.fixture
def each_without(tmp_path, tmp_path_factory, environ, packages_without):
    """Run command lines, each with the modules that it lacks, in an empty directory."""

    def run(cases, **more):
        return run_each(
            [(packages_without(modules), arguments) for modules, arguments in cases],
            tmp_path_factory.mktemp("outputs"),
            cwd=tmp_path,
            env=environ | more,
            timeout=240,
        )

    return run


@pytest.fixture
def without(tmp_path, environ, command_without):
    """Run a command line where modules are missing, in an empty directory and cache."""

    def run(modules, *arguments, **more):
        return subprocess.run(
            command_without(modules, *arguments),
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env=environ | more,
            timeout=120,
        )

    return run


def test_the_job_says_which_extra_is_missing(each_without, tmp_path):
    """Before anything is started: one sentence with the command that brings it."""
    commands = [*(("audit", name) for name in STREAM), ("demo", STREAM[0])]
    for done in each_without([((missing,), [command]) for command, missing in commands]):
        [command] = done.args
        assert (2, "") == (done.returncode, done.stdout)
        (sentence,) = done.stderr.splitlines()
        assert sentence.startswith(f"tallystick: tallystick {command} needs ")
        assert sentence.endswith(
            "is not installed. To fix: in a clone of tallystick: pip install '.[stream]'"
        )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments", [["broker", "start", "--port", "0"], ["lab", "up"]], ids=" ".join
)
@pytest.mark.skipif(SYSTEM_IVY.exists(), reason="this system has an Ivy of its own")
def test_what_must_be_fetched_first_says_what_fetches_it(without, arguments):
    """With an empty cache; jars that are there need nothing."""
    if arguments[0] == "lab" and mysqld_problem() is not None:
        pytest.skip(str(mysqld_problem()))
    done = without(EXTRAS, *arguments)
    sentence = done.stderr.splitlines()[-1]
    assert 2 == done.returncode, done.stderr
    assert "Traceback" not in done.stderr
    assert sentence.startswith("tallystick: Jars are fetched with Ivy: neither pyspark, ")
    assert sentence.endswith(
        "To fix: in a clone of tallystick: pip install '.[stream]', or apt-get install ivy"
    )


def test_a_client_that_is_named_and_missing_says_which_extra_has_it(each_without):
    """Without a name there is kafka-python."""
    commands = [
        ["load"],
        ["simulate"],
        ["collect"],
        ["journal"],
        ["journal", "--write", "-"],
        ["tail", "--server", "a=127.0.0.1"],
    ]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ended = each_without(
            [(("confluent_kafka",), arguments) for arguments in commands],
            TALLYSTICK_CLIENT="confluent-kafka",
            TALLYSTICK_BOOTSTRAP_SERVERS=f"127.0.0.1:{listener.getsockname()[1]}",
            TALLYSTICK_MYSQL_PASSWORD="secret",
        )
    for done in ended:
        assert (2, "") == (done.returncode, done.stdout), done
        assert done.stderr == (
            "tallystick: the setting client names confluent-kafka, which is not installed. "
            "To fix: in a clone of tallystick: pip install '.[stream]'\n"
        ), done


@pytest.mark.parametrize("command", ["check", "tail"])
def test_a_password_that_needs_rsa_says_which_extra_has_it(without, command):
    """Only a server without TLS whose account has caching_sha2_password asks for it."""
    to = ("--output", "-") if command == "tail" else ()
    with greeting_with(*asking_for_rsa()) as server:
        done = without(
            ("cryptography",),
            *(command, "--server", f"a=me@127.0.0.1:{server.port}", *to),
            TALLYSTICK_MYSQL_PASSWORD="secret",
        )
    assert (2, "") == (done.returncode, done.stdout)
    sentence = done.stderr.splitlines()[-1]  # after what is said of progress
    assert "the package cryptography is not installed" in sentence
    assert sentence.endswith("To fix: in a clone of tallystick: pip install '.[mysql]'")


def test_the_bare_install_runs(each_without):
    """Without a module of any extra."""
    commands = [
        ["--version"],
        ["--help"],
        ["rules"],
        ["faults"],
        ["config"],
        ["check", "--rights"],
        ["lab", "status", "--help"],
        ["broker", "status"],
        ["campaign", "--seeds", "0:2"],
    ]
    for done in each_without([(EXTRAS, arguments) for arguments in commands]):
        assert 0 == done.returncode, done
        assert done.stdout, done


@pytest.mark.parametrize("arguments", [["--version"], ["--help"]], ids=" ".join)
def test_the_command_starts_without_what_only_an_audit_needs(without, arguments):
    """Arrays and tables would be a third of the time of each start."""
    done = without((*EXTRAS, "numpy", "pyarrow", "pymysql", "jinja2", "kafka"), *arguments)
    assert 0 == done.returncode, done.stderr


def test_what_takes_the_tables_says_so(without):
    """One sentence with the extra that is the smallest to bring them."""
    assert 0 == without((), "simulate", "--topology", "pair", "--output", "j").returncode
    assert 0 == without((), "replay", "j", "--output", "tables=run/tables").returncode
    for arguments in (("report", "run"), ("replay", "j", "--output", "tables=run/tables")):
        done = without(("deltalake",), *arguments)
        assert 2 == done.returncode
        sentence = done.stderr.splitlines()[-1]
        assert "needs deltalake, which is not installed" in sentence
        assert "pip install '.[tables]'" in sentence


def test_the_page_says_which_extra_is_missing(without):
    """Also where the tables can be read."""
    for missing in ("aiohttp", "deltalake"):
        done = without((missing,), "serve", "run")
        assert 2 == done.returncode
        assert f"tallystick serve needs {missing}, which is not installed" in done.stderr
        assert "pip install '.[serve]'" in done.stderr


def test_the_extra_tables_renders_a_runs_page(without, tmp_path):
    """From its tables; Great Expectations' part is missing, and that is said."""
    blocks = blocks_from_lines(EXAMPLE.splitlines(), end_heartbeats=True)
    cuts = audit_history(blocks).cuts
    validation = {"collection_id": "c1", "verdict": "CONSISTENT", "reason": "", "instances": 1,
                  "missing": 0, "is_late": False, "ts": 1}  # fmt: skip
    TableSink(tmp_path / "run" / "tables", "run").write(0, cuts=cuts, validations=[validation])
    done = without(ALL_BUT_TABLES, "report", "run")
    assert 0 == done.returncode, done.stderr
    assert done.stdout.startswith("CONSISTENT")
    assert "the page is without Great Expectations: pyspark is not installed" in done.stderr
    assert (tmp_path / "run" / "report.html").exists()


def test_the_bare_install_simulates_and_replays_with_a_page(without, tmp_path):
    """The page needs no Great Expectations."""
    options = ("--topology", "pair", "--seed", "1", "--fault", "errant_write")
    assert 0 == without(EXTRAS, "simulate", *options, "--output", "journal").returncode
    done = without(EXTRAS, "replay", "journal", "--output", "html=page/report.html")
    assert (1, "") == (done.returncode, done.stderr)
    assert "no_errant_gtids" in done.stdout
    assert "no_errant_gtids" in (tmp_path / "page" / "report.html").read_text("utf-8")
