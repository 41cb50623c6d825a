"""A small part of what `make chaos` does for an hour."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.broker

ROOT = Path(__file__).parents[2]
DEADLINE_S = 900
ACT = "tallystick:   "


def test_a_round_changes_nothing(tmp_path):
    """The broker ends by a full disk; the canary is found, and nothing of the round is left."""
    directory = tmp_path / "state"
    command = [sys.executable, "-m", "tallystick.cli", "chaos", "--seed", "2041", "--acts", "1"]
    done = subprocess.run(
        [*command, "--directory", str(directory)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert 0 == done.returncode, done.stdout + done.stderr
    summary, last = done.stdout.splitlines()
    assert re.fullmatch(
        r"seed 2041: 1 act, \d+ answers, [1-9]\d* findings?, \d+ s: nothing changed", summary
    )
    assert "1 round, 0 with violations" == last
    assert 1 == len([line for line in done.stderr.splitlines() if line.startswith(ACT)])
    assert [] == list((directory / "chaos").iterdir())
