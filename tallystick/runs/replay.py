"""The audit in memory of what a file holds."""

from __future__ import annotations

import gzip
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, cast

from tallystick.coordinates.audit.collection_checks import checks_of_history
from tallystick.coordinates.audit.replay import AuditResult, audit_history
from tallystick.coordinates.events.json_lines import (
    BAD_LINES_MAX,
    JsonLinesError,
    blocks_from_lines,
)
from tallystick.coordinates.events.later_epochs import in_later_epochs
from tallystick.coordinates.values.errors import JournalError
from tallystick.errors import MisuseError
from tallystick.runs.result import RunResult, ServerSummary
from tallystick.terminal import STANDARD_STREAM

if TYPE_CHECKING:
    from io import BufferedReader

    from tallystick.coordinates.events.journal import Block

LINE_BYTES_MAX = 64 * 2**20
"""Of a line at once: a block has 16 MiB at most; what has no line ends is no journal."""
_GZIP_MAGIC = b"\x1f\x8b"


def replay(
    files: Sequence[str],
    disabled: frozenset[str],
    *,
    history_goes_on: bool = False,
    notice_skipped: Callable[[str], None] | None = None,
    tap: Callable[[Block], None] | None = None,
) -> RunResult:
    """Audit journals as JSON Lines.

    Args:
        files: Their paths; ``-`` is standard input. What a file has of an instance that an earlier
            one has too is of another observer.
        disabled: Names of rules that are switched off.
        history_goes_on: Whether the end of the last file shows nothing.
        notice_skipped: Takes a sentence about each line that is no record, and is a gap then.
            None: such lines are errors.
        tap: Takes each block before it is audited.

    Raises:
        MisuseError: It cannot be read.
    """
    begun_at = datetime.now(timezone.utc)
    name = files[-1]
    last: set[str] = set()
    """Instances of the last file."""
    skipped = 0

    def skip(error: JsonLinesError) -> None:
        nonlocal skipped
        skipped += 1
        if notice_skipped is not None and skipped <= BAD_LINES_MAX:
            of = "" if len(files) == 1 else f"{name!r}, "
            notice_skipped(f"skipped: {of}{error}")

    epochs: dict[str, int] = {}

    def next_epoch(instance_id: str) -> int:
        return epochs.get(instance_id, -1) + 1

    def blocks() -> Iterator[Block]:
        nonlocal name
        for number, file in enumerate(files, 1):
            name = "standard input" if file == STANDARD_STREAM else file
            read = blocks_from_lines(
                lines_of(file),
                end_heartbeats=not history_goes_on and number == len(files),
                on_bad_line=None if notice_skipped is None else skip,
            )
            for block in in_later_epochs(read, next_epoch):
                epochs[block.instance_id] = max(block.epoch, epochs.get(block.instance_id, 0))
                if number == len(files):
                    last.add(block.instance_id)
                if tap is not None:
                    tap(block)
                yield block

    try:
        audit = audit_history(blocks(), disabled, goes_on=history_goes_on)
    except JsonLinesError as error:
        is_cut_short = (error, *error.others)[-1].is_cut_short
        hint = "; leave it out, or take it as a gap: --skip-bad-lines" if is_cut_short else ""
        raise MisuseError(f"{refusal(name, error)}{hint}") from None
    except JournalError as error:
        raise MisuseError(f"{name!r}: {error}") from None
    if notice_skipped is not None and skipped:
        lines = "1 line" if skipped == 1 else f"{skipped} lines"
        of = repr(name) if len(files) == 1 else f"{len(files)} files"
        notice_skipped(f"{lines} of {of} skipped: each is a gap")
    return result_of_audit(
        audit,
        command="replay",
        title=", ".join("standard input" if f == STANDARD_STREAM else f for f in files),
        begun_at=begun_at,
        end_heartbeats=0 if history_goes_on else len(last),
    )


def refusal(name: str, error: JsonLinesError) -> str:
    """What is wrong with the lines of a file, a line each."""
    if not error.others:
        return f"{name!r}: {error}"
    count = 1 + len(error.others)
    at_least = "at least " if count == BAD_LINES_MAX else ""
    return f"{name!r}: {at_least}{count} lines are no records\n{error}"


def result_of_audit(
    audit: AuditResult,
    *,
    command: str,
    title: str,
    begun_at: datetime,
    servers: Mapping[str, ServerSummary] | None = None,
    end_heartbeats: int | None = None,
) -> RunResult:
    """The result of a run whose audit was in memory.

    Of so many journals (None: of all) the last record is a heartbeat of ours, which is no event.
    """
    return RunResult(
        command=command,
        title=title,
        begun_at=begun_at,
        elapsed_s=time.time() - begun_at.timestamp(),
        events=max(
            0, audit.events - (len(audit.instances) if end_heartbeats is None else end_heartbeats)
        ),
        found=audit.findings,
        incidents=audit.incidents,
        observations=audit.observations,
        cuts=audit.cuts,
        checks=checks_of_history(
            audit.cuts, audit.findings, audit.observations, audit.checks, audit.disabled
        ),
        servers=servers or {},
    )


def lines_of(file: str) -> Iterator[bytes]:
    """The lines of a file, or of standard input for ``-``; compressed by gzip or not.

    A line that is longer than ``LINE_BYTES_MAX`` comes in parts.

    Raises:
        MisuseError: It cannot be read.
    """
    is_standard = file == STANDARD_STREAM
    try:
        source = sys.stdin.buffer if is_standard else Path(file).open("rb")  # noqa: SIM115
        with source:
            is_gzip = cast("BufferedReader", source).peek(2).startswith(_GZIP_MAGIC)
            lines = gzip.GzipFile(fileobj=source) if is_gzip else source
            yield from iter(lambda: lines.readline(LINE_BYTES_MAX), b"")
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        shown = "standard input" if is_standard else repr(file)
        raise MisuseError(f"{shown} cannot be read: {reason}") from error
