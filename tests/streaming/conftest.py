"""Fixtures of the streaming tests."""

from __future__ import annotations

import sys
from pathlib import Path

# Builders beside the tests; with importlib mode pytest puts no folder on the path.
sys.path.insert(0, str(Path(__file__).parent))
