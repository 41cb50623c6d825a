"""Standard streams that are closed, full or of a narrow encoding: the status stays what it is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
JOURNAL = (ROOT / "docs" / "journal.md").read_text("utf-8").split("```json\n")[1].split("```")[0]
BROKEN = JOURNAL.replace('"binary_log_position":457', '"binary_log_position":426')
NOT_OPEN = "cannot be written: Bad file descriptor\n"


def shell(line: str, directory: Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run a line of bash in which ``tallystick`` is the command of this checkout."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TALLYSTICK")}
    function = f'set -o pipefail; tallystick() {{ "{sys.executable}" -m tallystick "$@"; }}; '
    return subprocess.run(
        ["/bin/bash", "-c", function + line],
        cwd=directory,
        env={**kept, "PYTHONPATH": str(ROOT), **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize(
    ("line", "status", "said"),
    [
        ("tallystick replay j >&-", 2, f"tallystick: standard output {NOT_OPEN}"),
        ("tallystick --help >&-", 2, f"tallystick: standard output {NOT_OPEN}"),
        (
            "tallystick replay - <&-",
            2,
            "tallystick: standard input cannot be read: Bad file descriptor\n",
        ),
        ("tallystick replay nowhere 2>&-", 2, ""),
        ("tallystick replay nowhere 2>/dev/full", 2, ""),
        ("tallystick replay nowhere 2>&1 >/dev/null | true", 141, ""),
        ("tallystick campaign --seeds 0:2 >/dev/null 2>/dev/full", 0, ""),
        ("tallystick --help | true", 141, ""),
        ("tallystick replay --help | true", 141, ""),
        ("tallystick --help >/dev/full", 2, "tallystick: standard output cannot be written: No"),
        ("(ulimit -f 1; tallystick rules >big)", 2, "tallystick: standard output cannot be writ"),
    ],
)
def test_a_stream_that_fails_is_no_verdict(tmp_path, line, status, said):
    """Status 1 would be one: INCONSISTENT."""
    (tmp_path / "j").write_text(BROKEN)
    done = shell(line, tmp_path)
    assert (status, said) == (done.returncode, done.stderr.decode()[: len(said)])
    assert b"Traceback" not in done.stderr
    assert not list(tmp_path.glob(".tallystick/*crash*"))


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_document_that_did_not_fit_is_no_success(tmp_path, unbuffered):
    """Containers set PYTHONUNBUFFERED, and Python forgets then what a full disk did not take."""
    done = shell("ulimit -f 1; tallystick rules --json >big", tmp_path, PYTHONUNBUFFERED=unbuffered)
    assert (2, "tallystick: standard output cannot be written: File too large\n") == (
        done.returncode,
        done.stderr.decode(),
    )


def test_nothing_that_a_command_writes_goes_where_a_closed_stream_was(tmp_path):
    """The first file that is opened would have its number, and notices would be in it."""
    done = shell(
        "tallystick simulate --topology pair --fault errant_write --seed 1 --output j <&- >&- 2>&-",
        tmp_path,
    )
    assert 0 == done.returncode
    assert all(line.startswith("{") for line in (tmp_path / "j").read_text().splitlines())


def test_a_narrow_encoding_gets_escapes(tmp_path):
    """Text as far as the terminal can show it; a document in UTF-8, as it says."""
    (tmp_path / "j").write_text(BROKEN.replace('"instance":"a"', '"instance":"Zürich-日本"'))
    narrow = {"PYTHONIOENCODING": "ascii"}
    done = shell("tallystick replay j", tmp_path, **narrow)
    assert (1, b"") == (done.returncode, done.stderr)
    assert rb"Z\xfcrich-\u65e5\u672c" in done.stdout
    done = shell("tallystick replay j --output junit", tmp_path, **narrow)
    assert "Zürich-日本" in done.stdout.decode("utf-8")


@pytest.mark.parametrize("module", ["tallystick.cli", "tallystick.process"])
def test_ctrl_c_before_the_commands_are_there_ends_it_quietly(tmp_path, module):
    """Python would print where it was interrupted, or lose it: some of its imports' code does."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, signal, sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name != {module!r}:\n"
        "            return\n"
        "        try:\n"
        "            signal.raise_signal(signal.SIGINT)\n"
        "        except KeyboardInterrupt:\n"
        "            pass\n"
        "sys.meta_path.insert(0, Interrupt())\n"
    )
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        done = shell("tallystick --help", tmp_path, PYTHONPATH=f"{tmp_path}:{ROOT}")
    finally:
        signal.signal(signal.SIGINT, before)
    assert (130, b"") == (done.returncode, done.stderr)
