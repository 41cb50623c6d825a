"""The path of the expectations' test builders; Great Expectations as a job imports it."""

from __future__ import annotations

import sys
from pathlib import Path

# Before any test module imports Great Expectations itself.
from tallystick.expectations import data_docs  # noqa: F401

# Builders beside the tests; with importlib mode pytest puts no folder on the path.
sys.path.insert(0, str(Path(__file__).parent))
