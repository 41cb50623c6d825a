"""Cuts: one instance's log_status row beside what its journal showed at exactly that place.

A collection becomes a table with one row per instance and one more per channel; Great Expectations,
the report and Parquet all read this one table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args, get_type_hints


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """One row of the cut table. None: not known, or not applicable to the row's scope.

    The first half comes from the server (log_status and what was read beside it), the second,
    ``journal_…``, from the journal up to the row's own coordinates, the third, ``previous_…``, from
    the last accepted row of the same lineage.
    """

    collection_id: str
    instance_id: str
    scope: str
    """``instance`` or ``channel``."""
    channel: str | None = None
    ts: int = 0
    epoch: int = 0
    sequence: int = 0
    answer: str = "row"
    """``row``, ``refused``, ``failed``, ``missing`` (timed out, unreachable) or ``empty``."""
    error_code: int | None = None
    error_text: str | None = None
    verdict: str = "UNDECIDED"

    server_uuid: str | None = None
    profile: str | None = None
    binary_log_file: str | None = None
    binary_log_position: int | None = None
    gtid_executed: str | None = None
    gtid_purged: str | None = None
    gtid_owned: str | None = None
    lsn: int | None = None
    lsn_checkpoint: int | None = None
    source_uuid: str | None = None
    relay_log_file: str | None = None
    relay_log_position: int | None = None
    applied_relay_log_file: str | None = None
    applied_relay_log_position: int | None = None
    read_source_log_file: str | None = None
    read_source_log_pos: int | None = None
    exec_source_log_file: str | None = None
    exec_source_log_pos: int | None = None
    retrieved_gtid_set: str | None = None

    journal_binary_log_file: str | None = None
    journal_binary_log_position: int | None = None
    """Last group end (or header end) at or before ``binary_log_position``."""
    journal_gtid_set: str | None = None
    """L(P): the GTIDs of the binary log up to ``binary_log_position``."""
    journal_relay_log_file: str | None = None
    journal_relay_log_position: int | None = None
    """Last event end of the relay log at or before ``relay_log_position``."""
    journal_retrieved_gtid_set: str | None = None
    commit_lag: int | None = None
    """How many logged GTIDs the executed set does not hold yet."""
    commit_lag_max: int | None = None
    commits_are_ordered: bool | None = None

    previous_binary_log_file: str | None = None
    previous_binary_log_position: int | None = None
    previous_gtid_executed: str | None = None
    previous_gtid_purged: str | None = None
    previous_lsn: int | None = None

    event_findings: int = 0
    """Findings of the journal itself since the cut before."""
    broken: str = ""
    """Names of the invariants that this row breaks, comma-separated."""
    undecided: str = ""
    """``name`` or ``name: reason`` of those it leaves undecided, separated by ``; ``."""
    held: str = ""
    """Names of those that it keeps, comma-separated, in the order of their names."""
    evaluated: int = 0
    """How many invariants were judged (held or broken) on this row."""


def cut_columns() -> dict[str, type]:
    """Column name to ``str``, ``int`` or ``bool``, in table order; every column is nullable."""
    columns: dict[str, type] = {}
    for name, hint in get_type_hints(Cut).items():
        kinds: tuple[Any, ...] = get_args(hint) or (hint,)
        columns[name] = next(kind for kind in kinds if kind is not type(None))
    return columns
