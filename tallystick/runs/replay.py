"""The audit in memory of what a file holds."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path

from tallystick.coordinates.audit.collection_checks import checks_of_history
from tallystick.coordinates.audit.replay import AuditResult, audit_history
from tallystick.coordinates.events.json_lines import blocks_from_lines
from tallystick.coordinates.values.errors import JournalError
from tallystick.errors import MisuseError
from tallystick.runs.result import RunResult, ServerSummary
from tallystick.terminal import STANDARD_STREAM


def replay(file: str, disabled: frozenset[str]) -> RunResult:
    """Audit a journal as JSON Lines.

    Args:
        file: Its path; ``-`` is standard input.
        disabled: Names of rules that are switched off.

    Raises:
        MisuseError: It cannot be read.
    """
    begun_at = datetime.now(timezone.utc)
    name = "standard input" if file == STANDARD_STREAM else file
    try:
        audit = audit_history(blocks_from_lines(lines_of(file), end_heartbeats=True), disabled)
    except JournalError as error:
        raise MisuseError(f"{name!r}: {error}") from None
    return result_of_audit(audit, command="replay", title=name, begun_at=begun_at)


def result_of_audit(
    audit: AuditResult,
    *,
    command: str,
    title: str,
    begun_at: datetime,
    servers: Mapping[str, ServerSummary] | None = None,
) -> RunResult:
    """The result of a run whose audit was in memory."""
    return RunResult(
        command=command,
        title=title,
        begun_at=begun_at,
        elapsed_s=time.time() - begun_at.timestamp(),
        # The heartbeat at the end of each journal is ours.
        events=max(0, audit.events - len(audit.instances)),
        found=audit.findings,
        observations=audit.observations,
        cuts=audit.cuts,
        checks=checks_of_history(
            audit.cuts, audit.findings, audit.observations, audit.checks, audit.disabled
        ),
        servers=servers or {},
    )


def lines_of(file: str) -> Iterator[str]:
    """The lines of a file, or of standard input for ``-``.

    Raises:
        MisuseError: It cannot be read, or is no UTF-8.
    """
    try:
        is_standard = file == STANDARD_STREAM
        source = sys.stdin.buffer if is_standard else Path(file).open("rb")  # noqa: SIM115
    except OSError as error:
        raise MisuseError(f"{file!r} cannot be read: {error.strerror}") from error
    with source:
        try:
            for number, line in enumerate(source, 1):
                try:
                    yield line.decode()
                except UnicodeDecodeError as error:
                    raise MisuseError(f"{file!r}, line {number}: no UTF-8: {error}") from None
        except OSError as error:
            raise MisuseError(f"{file!r} cannot be read: {error.strerror}") from error
