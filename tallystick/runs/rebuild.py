"""State made anew from the journal: what was known is set aside, and the job reads all again.

Findings have ids made of what they contradict, incidents those of their findings, and
acknowledgements are in the control topic: all come back as they were, as far as the brokers still
have the journal.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from tallystick.errors import MisuseError
from tallystick.runs.result import TABLES
from tallystick.settings import Settings, flag_name
from tallystick.streaming.errors import StreamingError
from tallystick.streaming.to_fix import COMMAND

if TYPE_CHECKING:
    from tallystick.coordinates.results import Finding

CHECKPOINT = "checkpoint"
"""In the directory of the audit."""

_SETTINGS = ("bootstrap_servers", "topic_prefix", "instances", "disabled")
"""A rebuild with others would judge another journal, or otherwise."""


@contextmanager
def whole_commands(settings: Settings) -> Iterator[None]:
    """Give the settings of a run to the command that an error of its files names."""
    try:
        yield
    except StreamingError as error:
        error.args = (with_settings(str(error), settings),)
        raise


def with_settings(text: str, settings: Settings) -> str:
    """A text, which may name the command that makes the state anew, with the flags of a run."""
    flags = [
        f"{flag_name(name)} {shlex.quote(str(value))}"
        for name in _SETTINGS
        if name in settings.model_fields_set
        for value in _values(getattr(settings, name))
    ]
    return text.replace(COMMAND, " ".join((COMMAND, *flags)))


def _values(value: str | tuple[str, ...]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else value


def set_aside(directory: Path) -> Path:
    """Move checkpoint location and tables away, whatever is in them; returns where to.

    Args:
        directory: The audit's own.

    Raises:
        CheckpointError: A job runs from it, or they cannot be moved.
        MisuseError: There is nothing to make anew.
    """
    from tallystick.streaming import checkpoint

    if not (directory / CHECKPOINT).exists():
        raise MisuseError(
            f"{str(directory / CHECKPOINT)!r} does not exist: nothing to make anew. To fix: name"
            f" the directory of the audit, or start with tallystick audit"
        )
    target = directory / f"before-rebuild-{datetime.now(timezone.utc):%Y%m%dT%H%M%S.%fZ}"
    target.mkdir(parents=True)
    try:
        checkpoint.set_aside(directory / CHECKPOINT, target / CHECKPOINT)
    except BaseException:
        target.rmdir()
        raise
    checkpoint.mark_rebuilt(directory / CHECKPOINT, target / CHECKPOINT)
    if (directory / TABLES).exists():
        (directory / TABLES).rename(target / TABLES)
    return target


def earlier_findings(target: Path) -> list[Finding] | None:
    """What was found before; None where the tables cannot be read."""
    from deltalake.exceptions import DeltaError

    from tallystick.streaming.errors import TableError
    from tallystick.streaming.table_reader import read_findings

    try:
        return read_findings(target / TABLES)
    except (TableError, DeltaError, OSError, ValueError):
        return None
