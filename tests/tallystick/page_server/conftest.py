"""The path of the browser, of the builders of results and of the cut table."""

from __future__ import annotations

import sys
from pathlib import Path

TESTS = Path(__file__).parents[2]
sys.path[:0] = [str(TESTS / "tallystick" / "outputs"), str(TESTS / "expectations")]
