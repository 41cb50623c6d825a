"""The demonstration as a user starts it: a process of its own, with broker, Spark and report.

That of a fault is in ``tests/deploy/test_shipping.py``, from an installed wheel.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tallystick.deploy.class_archives import SPARK, with_archive
from tallystick.deploy.jars import BROKER

# It starts a broker of its own instead of asking for the fixture.
pytestmark = pytest.mark.broker

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "tallystick.cli", "demo"]
DEADLINE_S = 600
MADE_BY_SETUP = Path(sys.prefix, ".classes")
"""The stamp of `make setup`, whose last step makes the JVMs' archives."""


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "TALLYSTICK_DIRECTORY"}
    return {**kept, "PYTHONPATH": str(ROOT)}


def processes_in(directory: Path) -> list[str]:
    """The command lines of all processes that know the directory of a run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            where = str((path.parent / "cwd").readlink())
        except OSError:
            continue
        if str(directory) in command or where.startswith(str(directory)):
            found.append(command)
    return found


def demo(directory: Path, *arguments: str) -> tuple[int, dict, str]:
    done = subprocess.run(
        [*COMMAND, "--json", *arguments], cwd=directory, env=environment(), capture_output=True,
        text=True, timeout=DEADLINE_S, check=False,
    )  # fmt: skip
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout), done.stderr


class Page(HTMLParser):
    """Counts the tags of a page and keeps its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_healthy_fleet_is_consistent(tmp_path):
    """Exit 0, all collections answered and validated, a report and Data Docs, nothing left over."""
    leftovers = tmp_path / ".tallystick" / "demo" / "20260101T000000Z" / "broker"
    leftovers.mkdir(parents=True)
    (leftovers / "broker.json").write_text('{"port": 1, "pid": 1, "boot_id": "", "started_')
    code, report, err = demo(tmp_path)
    assert (0, "CONSISTENT", []) == (code, report["verdict"], report["findings"]), err
    totals = report["counts"]
    assert (7, 5, 4) == (totals["collections"], totals["instances"], totals["channels"])
    assert totals["events"] > 1_000
    assert totals["checks"] > 500
    assert "CONSISTENT" == report["validation"]["verdict"]
    assert report["validation"]["statistics"]["held"] > 10
    assert 4 == len(report["topology"])
    page = Path(report["paths"]["html"])
    text = Page(page.read_text("utf-8")).text
    assert "CONSISTENT" in text
    assert "replica-a1" in text
    assert Path(report["paths"]["data_docs"]).is_file()
    assert "Traceback" not in err
    assert [".tallystick"] == [path.name for path in tmp_path.iterdir()]
    assert [] == processes_in(tmp_path)


def test_a_design_is_shown_claim_by_claim(tmp_path):
    """Exit 0: every claim seen, judged from the run's tables, in JSON, on the page, and kept."""
    code, report, err = demo(tmp_path, "--scenario", "log_status")
    shown = report["scenario"]
    assert (0, True, []) == (code, shown["is_shown"], report["findings"]), err
    assert ("WL#9452", 9) == (shown["design"], report["counts"]["collections"])
    claims = {claim["requirement"]: claim for claim in shown["claims"]}
    assert all(claim["seen"] for claim in claims.values())
    (judged,) = claims["F-2.4"]["rules"]
    assert ("no_progress_while_locked", 0) == (judged["rule"], judged["broken"])
    held = {one["rule"]: one["held"] for one in claims["F-1.2.4"]["rules"]}
    assert 20 < held["lsn_monotone"] <= 27
    (seen,) = claims["I-2"]["seen"]
    assert seen["sentence"].startswith("error 1227")
    directory = Path(report["paths"]["html"]).parent
    text = Page((directory / "report.html").read_text("utf-8")).text
    assert "WL#9452: Log Position Lock" in text
    assert seen["sentence"] in text
    assert shown == json.loads((directory / "scenario.json").read_text("utf-8"))
    assert [] == processes_in(tmp_path)


@pytest.mark.parametrize(
    ("said", "number"),
    [("starting Spark", signal.SIGINT), ("collection 1 of 7", signal.SIGTERM)],
)
def test_a_signal_leaves_no_process_behind(tmp_path, said, number):
    """Ctrl-C while Spark starts, SIGTERM in the middle: the shell's exit code, nothing running."""
    process = subprocess.Popen(
        COMMAND, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    heard = ""
    for line in process.stderr:
        heard += line
        if said in line:
            break
    else:
        pytest.fail(f"the demonstration ended before it said {said!r}: {heard}")
    started = processes_in(tmp_path)
    for jvm in (BROKER, SPARK) if "collection" in said else (BROKER,):
        archive = with_archive(jvm)
        assert archive or not MADE_BY_SETUP.exists(), f"set-up made no archive for {jvm}"
        assert any(" ".join(archive) in one for one in started)
    # To the whole group, as a terminal's Ctrl-C and `timeout` do.
    os.killpg(process.pid, number)
    out, err = process.communicate(timeout=DEADLINE_S)
    assert (128 + number, "") == (process.returncode, out), err
    assert "Traceback" not in err
    # Spark that is still starting is not waited for.
    assert "collector and auditor run" not in err
    end = time.monotonic() + 30
    while left := processes_in(tmp_path):
        assert time.monotonic() < end, left
        time.sleep(0.1)


def test_a_machine_without_java_is_told_so_before_anything_starts(tmp_path):
    """Exit 2 and one sentence with what fixes it; no directory has been made."""
    done = subprocess.run(
        COMMAND, cwd=tmp_path, env={**environment(), "JAVA_HOME": str(tmp_path)},
        capture_output=True, text=True, timeout=DEADLINE_S, check=False,
    )  # fmt: skip
    assert (2, "") == (done.returncode, done.stdout)
    assert "JAVA_HOME" in done.stderr
    assert "To fix: " in done.stderr
    assert 1 == len(done.stderr.splitlines())
    assert [] == list(tmp_path.iterdir())
