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
from tallystick.streaming.errors import CheckpointError, StreamingError
from tallystick.streaming.to_fix import COMMAND

if TYPE_CHECKING:
    from tallystick.coordinates.results import Finding

CHECKPOINT = "checkpoint"
"""In the directory of the audit."""

_UNFINISHED = "unfinished"
"""There while what was known is set aside."""
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

    What is killed meanwhile is finished by the next start of a job: it would go on from a state
    whose tables are elsewhere, or add to tables that another state has written.

    Args:
        directory: The audit's own.

    Raises:
        CheckpointError: A job runs from it, or they cannot be moved.
        MisuseError: There is nothing to make anew.
    """
    from tallystick.streaming import checkpoint

    if (unfinished := finish_set_aside(directory)) is not None:
        return unfinished
    if not (directory / CHECKPOINT).exists():
        raise MisuseError(
            f"{str(directory / CHECKPOINT)!r} does not exist: nothing to make anew. To fix: name"
            f" the directory of the audit, or start with tallystick audit"
        )
    target = directory / f"before-rebuild-{datetime.now(timezone.utc):%Y%m%dT%H%M%S.%fZ}"
    target.mkdir(parents=True)
    (target / _UNFINISHED).touch()
    try:
        checkpoint.set_aside(directory / CHECKPOINT, target / CHECKPOINT)
    except StreamingError:
        _forget(target)
        raise
    _finish(directory, target)
    return target


def finish_set_aside(directory: Path) -> Path | None:
    """Go on with what was interrupted; returns where to, None where nothing was moved yet.

    Args:
        directory: The audit's own.

    Raises:
        CheckpointError: The tables cannot be moved.
    """
    for target in sorted(mark.parent for mark in directory.glob(f"before-rebuild-*/{_UNFINISHED}")):
        if (target / CHECKPOINT).exists():
            _finish(directory, target)
            return target
        _forget(target)
    return None


def _finish(directory: Path, target: Path) -> None:
    """The checkpoint location was moved: the tables follow, and a new location begins."""
    from tallystick.streaming import checkpoint

    if (directory / TABLES).exists():
        try:
            (directory / TABLES).rename(target / TABLES)
        except OSError as error:
            raise CheckpointError(
                f"{str(directory / TABLES)!r} cannot be moved to {str(target)!r}: {error.strerror}"
            ) from error
    checkpoint.mark_rebuilt(directory / CHECKPOINT, target / CHECKPOINT)
    (target / _UNFINISHED).unlink()


def _forget(target: Path) -> None:
    (target / _UNFINISHED).unlink()
    target.rmdir()


def earlier_findings(target: Path) -> list[Finding] | None:
    """What was found before; None where the tables cannot be read."""
    from deltalake.exceptions import DeltaError

    from tallystick.streaming.errors import TableError
    from tallystick.streaming.table_reader import read_findings

    try:
        return read_findings(target / TABLES)
    except (TableError, DeltaError, OSError, ValueError):
        return None
