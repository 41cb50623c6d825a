"""Upkeep of the tables, beside the stream: sums of hours, small files put together, retention.

All of it may be cut short at any point; the next round does it.
"""

from __future__ import annotations

import contextlib
import ctypes
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake.exceptions import CommitFailedError

from tallystick.streaming.delta_table import KEEP_LOG, append, existing, made, tidy_log
from tallystick.streaming.hours import unsummed
from tallystick.streaming.tables import HOURS, TABLES

if TYPE_CHECKING:
    from pathlib import Path

TARGET_BYTES = 16 * 2**20
"""Small files are put together up to so much; a larger one is not read again."""


@dataclass(frozen=True, slots=True)
class Retention:
    """How long rows are kept after they were written.

    Attributes:
        details_days: Those of tables that grow with every collection.
        history_days: Those of all others.
    """

    details_days: int
    history_days: int


def keep_up(directory: Path, run_id: str, batch: int, retention: Retention) -> None:
    """One round.

    Args:
        directory: The run's tables.
        run_id: Whose micro-batches are summed up.
        batch: The last one that was written.
        retention: How long rows are kept.
    """
    hours = made(directory, HOURS)
    sums = unsummed(directory, run_id, hours.transaction_version(run_id), batch)
    now = datetime.now(timezone.utc)
    if len(sums):
        append(hours, sums, run_id, batch, int(now.timestamp() * 1_000_000))
    for kind in TABLES.values():
        table = existing(directory, kind)
        if table is None:
            continue
        days = retention.details_days if kind.is_detail else retention.history_days
        # Another job with tables in this directory may do the same.
        with contextlib.suppress(CommitFailedError):
            table.optimize.compact(target_size=TARGET_BYTES, post_commithook_properties=KEEP_LOG)
            table.delete(
                f"written_at < '{(now - timedelta(days=days)).isoformat()}'",
                post_commithook_properties=KEEP_LOG,
            )
            table.vacuum(dry_run=False, full=True, post_commithook_properties=KEEP_LOG)
        tidy_log(table)
    _give_back_memory()


def _give_back_memory() -> None:
    """What was freed to the system: upkeep reads whole tables, by many threads of deltalake's."""
    pa.default_memory_pool().release_unused()
    # Only glibc has it.
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
