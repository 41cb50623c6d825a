"""The path of the builders of results and of the cut table."""

from __future__ import annotations

import sys
from pathlib import Path

# With importlib mode pytest puts no folder on the path.
HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "expectations")]
