"""Fixtures of the tests of alerts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tallystick.alerts import worker

# Builders beside the tests; with importlib mode pytest puts no folder on the path.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def quick(monkeypatch):
    """Attempts follow each other at once."""
    monkeypatch.setattr(worker, "BACKOFF_S", 0.01)
    monkeypatch.setattr(worker, "BACKOFF_MAX_S", 0.2)
