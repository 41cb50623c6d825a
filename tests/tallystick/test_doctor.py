"""`tallystick doctor`: what it says of a machine and of servers that lack something."""

from __future__ import annotations

import json
import os
import re
import socket
import threading
from pathlib import Path

import pytest

from tallystick.commands.serve import LISTEN
from tallystick.doctor.checks import (
    Check,
    Place,
    State,
    failed,
    not_tried,
    passed,
    try_all,
    warning,
)
from tallystick.doctor.machine import check_machine
from tallystick.errors import ExitCode, MisuseError
from tallystick.extras import EXTRAS
from tallystick.settings import Settings
from tests.support.mysql_greeting import greeting, greeting_with

ROLES = frozenset({"check", "tail", "audit"})


def found(place: Place) -> dict[str, Check]:
    return {check.name: check for check in place.checks}


# How a check is tried


def test_whatever_a_check_raises_is_its_answer_and_the_others_go_on():
    """An error of ours keeps its sentence and fix; a mistake of ours is said to be one."""
    place = Place("here")

    def refuse():
        raise MisuseError("No room. To fix: make some")

    def refuse_without_a_fix():
        raise MisuseError("no room")

    def mistake():
        raise KeyError("x")

    place.try_("one", refuse)
    place.try_("two", refuse_without_a_fix, fix="make some room")
    place.try_("three", mistake)
    assert 7 == place.try_("four", lambda: passed("well", 7))
    assert [
        ("failed", "No room. To fix: make some"),
        ("failed", "no room. To fix: make some room"),
        (
            "failed",
            "internal error of tallystick: KeyError: 'x'. To fix: report it, with this line",
        ),
        ("ok", "well"),
    ] == [(check.state.value, check.line) for check in place.checks]


def test_a_check_that_never_ends_is_left_at_its_deadline():
    """It fails; what does not need it is tried."""
    never = threading.Event()
    place = Place("here", deadline_s=0.01)
    place.try_("one", lambda: passed(str(never.wait())))
    never.set()
    assert ("failed", "no answer within 0.01 s") == (
        place.checks[0].state.value,
        place.checks[0].text,
    )


@pytest.mark.parametrize(
    ("earlier", "state"),
    [
        (passed(""), State.OK),
        (warning("", ""), State.OK),
        (failed("", ""), State.NOT_TRIED),
        (not_tried(""), State.NOT_TRIED),
    ],
)
def test_what_needs_a_check_that_failed_is_not_tried(earlier, state):
    """And says which one; so does what needs that one in turn."""
    place = Place("here")
    place.try_("one", lambda: earlier)
    place.try_("two", lambda: passed("well"), needs="one")
    place.try_("three", lambda: passed("well"), needs="two")
    assert [state, state] == [check.state for check in place.checks[1:]]
    assert (state is State.NOT_TRIED) == ("'one'" in place.checks[1].text)


def test_places_are_tried_side_by_side():
    """Each waits for the other one here."""
    both = threading.Barrier(2)

    def check(place):
        place.try_("meet", lambda: passed(str(both.wait(30))))

    places = [Place("a"), Place("b")]
    try_all([(place, check) for place in places])
    assert [State.OK] * 2 == [place.checks[0].state for place in places]


def test_a_mistake_between_checks_is_a_failure_of_its_place():
    """What was not tried because of it does not pass."""

    def check(place):
        place.try_("one", lambda: passed("well"))
        raise KeyError("x")

    place = Place("here")
    try_all([(place, check)])
    assert [State.OK, State.FAILED] == [check.state for check in place.checks]
    assert "KeyError" in place.checks[1].text


# This machine


def test_a_state_directory_that_cannot_be_written_is_named(tmp_path):
    """Nothing is left in one that can."""
    (tmp_path / "file").touch()
    wrong, right = Place("machine"), Place("machine")
    check_machine(wrong, Settings(directory=tmp_path / "file" / "state"), frozenset({"tail"}))
    check_machine(right, Settings(directory=tmp_path / "state"), frozenset({"tail"}))
    answer = found(wrong)["state directory"]
    assert State.FAILED is answer.state
    assert f"{str(tmp_path / 'file')!r} cannot be written: Not a directory" in answer.text
    assert "TALLYSTICK_DIRECTORY" in answer.fix
    assert State.OK is found(right)["state directory"].state
    assert f"{tmp_path / 'state'}, to be made" == found(right)["state directory"].text
    there = Place("machine")
    check_machine(there, Settings(directory=tmp_path), frozenset({"tail"}))
    assert str(tmp_path) == found(there)["state directory"].text
    assert ["file"] == [path.name for path in tmp_path.iterdir()]


def test_a_directory_that_tables_cannot_be_in_is_named(tmp_path):
    """As ``audit`` refuses it."""
    for name, state in (("a%20b", State.FAILED), ("a b", State.OK)):
        place = Place("machine")
        check_machine(place, Settings(directory=tmp_path / name), frozenset({"audit"}))
        assert state is found(place)["tables"].state
        assert ("'%20'" in found(place)["tables"].text) == (state is State.FAILED)


def test_a_disk_that_is_full_is_named(tmp_path, monkeypatch):
    """By the numbers of the check that every command makes."""
    monkeypatch.setattr("tallystick.deploy.preflight.RUN_BYTES", 1 << 60)
    place = Place("machine")
    check_machine(place, Settings(directory=tmp_path), frozenset({"tail"}))
    assert State.FAILED is found(place)["disk space"].state
    assert "du -xh" in found(place)["disk space"].fix


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_port_that_is_taken_is_named(host):
    """Of the audit only, which opens it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as taken:
        try:
            taken.bind((host, 0))
        except OSError as error:
            pytest.skip(f"this machine has no {host}: {error}")
        taken.listen()
        port = taken.getsockname()[1]
        settings = Settings(metrics_port=port, metrics_host=host)
        place, of_tail = Place("machine"), Place("machine")
        check_machine(place, settings, ROLES)
        check_machine(of_tail, settings, frozenset({"tail"}))
    answer = found(place)["metrics port"]
    assert State.FAILED is answer.state
    assert f"Port {port} on {host}" in answer.text
    assert f"sport = :{port}" in answer.fix
    assert "metrics port" not in found(of_tail)


def test_what_an_audit_opens_and_alerts_is_tried(tmp_path):
    """The port of its page, which it can do without; sinks get nothing."""
    host, _, port = LISTEN.rpartition(":")
    given = {"directory": tmp_path, "alerts": ("log=x.log", "webhook=http://127.0.0.1:1/")}
    quiet, alerted = Place("machine"), Place("machine")
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((host, int(port)))
        taken.listen()
        check_machine(quiet, Settings(directory=tmp_path), frozenset({"audit"}))
    check_machine(alerted, Settings(**given), frozenset({"audit"}))
    assert State.WARNING is found(quiet)["page port"].state
    assert f"Port {port} on {host}" in found(quiet)["page port"].text
    assert f"{LISTEN} is free" == found(alerted)["page port"].text
    assert {f"extra {name}" for name in EXTRAS} <= found(quiet).keys()
    assert "no sinks are set" == found(quiet)["alerts"].text
    assert "2 sinks, to which nothing was sent" == found(alerted)["alerts"].text


def test_a_java_of_another_version_is_named(tmp_path, monkeypatch):
    """As preflight says it; whoever runs no audit needs none."""
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    place, of_tail = Place("machine"), Place("machine")
    check_machine(place, None, ROLES)
    check_machine(of_tail, None, frozenset({"tail"}))
    assert State.FAILED is found(place)["java"].state
    assert f"{java} is Java 11, and Spark 4.0 needs 17 or 21" in found(place)["java"].text
    assert "apt-get install" in found(place)["java"].fix
    assert "java" not in found(of_tail)


def test_jars_that_are_not_there_are_fetched_later(tmp_path, monkeypatch):
    """None is fetched by the check; archives that fit nothing are none."""
    monkeypatch.setenv("TALLYSTICK_HOME", str(tmp_path))
    place = Place("machine")
    check_machine(place, None, ROLES)
    assert State.WARNING is found(place)["jars"].state
    assert "python -m tallystick.deploy.jars" in found(place)["jars"].fix
    assert State.WARNING is found(place)["class archives"].state
    assert [] == list(tmp_path.iterdir())


# The command


def test_a_host_that_only_checks_needs_no_more(tallystick):
    """No Kafka, no Java, no directory; status 0."""
    ran = tallystick("doctor", "--for", "check")
    assert ExitCode.CONSISTENT == ran.code
    assert "java" not in ran.out
    assert "kafka" not in ran.out
    assert "no server is named" in ran.out


def test_each_check_is_one_line_with_its_fix(tallystick):
    """Status 2 with anything that failed; counts at the end; JSON has the same."""
    arguments = ("doctor", "--bootstrap-servers", "127.0.0.1:1", "--server", "a=127.0.0.1:1")
    ran, document = tallystick(*arguments), tallystick(*arguments, "--json")
    assert (ExitCode.MISUSE, ExitCode.MISUSE) == (ran.code, document.code)
    lines = [line for line in ran.out.splitlines() if line.startswith("failed ")]
    assert 2 == len(lines)
    assert "No Kafka broker answers at '127.0.0.1:1'" in lines[0]
    assert "To fix: tallystick broker start --port 1" in lines[0]
    assert "server a  " in lines[1]
    assert "To fix: docs/real_servers.md" in lines[1]
    assert re.search(r"^not tried +kafka +topics +needs what is checked as 'brokers'$",
                     ran.out, re.MULTILINE)  # fmt: skip
    read = json.loads(document.out)
    assert 2 == read["counts"]["failed"]
    assert sum(read["counts"].values()) == len(read["checks"])
    assert {"place", "name", "state", "text", "fix"} == set(read["checks"][0])
    by_name = {(check["place"], check["name"]): check for check in read["checks"]}
    assert "not tried" == by_name["server a", "clock"]["state"]


def test_settings_that_cannot_be_read_leave_the_rest_tried(tallystick, monkeypatch):
    """What depends on them is not tried."""
    monkeypatch.setenv("TALLYSTICK_TOPIC_PREFX", "secret")
    ran = tallystick("doctor", "--for", "tail", "--config", "nowhere.toml")
    assert ExitCode.MISUSE == ran.code
    assert "TALLYSTICK_TOPIC_PREFX is no setting; did you mean 'topic_prefix'?" in ran.out
    assert "'nowhere.toml' cannot be read" in ran.out
    assert "the settings cannot be read" in ran.out
    assert re.search(r"^ok +machine +python", ran.out, re.MULTILINE)
    assert "secret" not in ran.out


@pytest.mark.parametrize("version", ["5.5.5-10.11.6-MariaDB", "5.7.44-log"])
def test_a_server_of_another_product_is_one_line(tallystick, version, monkeypatch):
    """And no password is in it, nor in JSON."""
    monkeypatch.setenv("TALLYSTICK_MYSQL_PASSWORD", "hunter2")
    with greeting_with(greeting(version)) as server:
        arguments = ("doctor", "--for", "check", "--server", f"a=127.0.0.1:{server.port}")
        ran, document = tallystick(*arguments), tallystick(*arguments, "--json")
    (line,) = [line for line in ran.out.splitlines() if line.startswith("failed ")]
    assert version in line
    assert "expected MySQL or Percona Server 8.0, 8.4 or later" in line
    assert "hunter2" not in ran.out + ran.err + document.out


def test_what_a_server_says_is_escaped(tallystick):
    """A terminal is not misled by it."""
    with greeting_with(greeting("8.0.11-\x1b[31m\r\n-MariaDB")) as server:
        ran = tallystick("doctor", "--for", "check", "--server", f"a=127.0.0.1:{server.port}")
    assert ExitCode.MISUSE == ran.code
    assert "\x1b" not in ran.out
    assert 1 == sum(line.startswith("failed ") for line in ran.out.splitlines())


def test_the_page_names_every_check():
    """docs/doctor.md has a row for each."""
    root = Path(__file__).parents[2]
    page = (root / "docs" / "doctor.md").read_text("utf-8")
    named = set(re.findall(r"^\| `([a-z_ ]+)` \|", page, re.MULTILINE))
    code = "".join(
        (root / "tallystick" / "doctor" / f"{module}.py").read_text("utf-8")
        for module in ("deployment", "machine", "kafka", "servers")
    )
    tried = set(re.findall(r"try_\(\s*f?\"([a-z_ ]+)\"", code))
    assert len(tried) > 20
    assert tried - named == set()
