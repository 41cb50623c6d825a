"""Cuts: one instance's log_status row beside what its journal showed at exactly that position.

A collection becomes a table with one row per instance and one more per channel; Great Expectations,
the report and the tables all read this one table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_args, get_type_hints

from tallystick.coordinates.results import Check, Outcome


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
    cluster: str | None = None
    """The label that its producer gives it."""
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
    auto_position: bool | None = None
    filtered: bool | None = None
    """Whether the channel leaves groups of its source out, or has done so since it began."""
    receiver: str | None = None
    """``running``, ``connecting`` or ``stopped``, as SHOW REPLICA STATUS has it."""
    applier: str | None = None
    """``running`` or ``stopped``."""

    journal_binary_log_file: str | None = None
    journal_binary_log_position: int | None = None
    """Last group end (or header end) at or before ``binary_log_position``."""
    journal_gtid_set: str | None = None
    """L(P): the GTIDs of the binary log up to ``binary_log_position``."""
    journal_relay_log_file: str | None = None
    journal_relay_log_position: int | None = None
    """Last event end, or start of a file, of the relay log at or before ``relay_log_position``."""
    journal_read_source_log_file: str | None = None
    journal_read_source_log_pos: int | None = None
    """Highest position of the source that an event of the relay log names."""
    journal_retrieved_gtid_set: str | None = None
    """GTIDs of the relay log, with the group that is arriving."""
    journal_written_lsn: int | None = None
    journal_flushed_lsn: int | None = None
    journal_checkpoint_lsn: int | None = None
    """What the redo log's events showed when the row came."""
    commit_lag: int | None = None
    """How many logged GTIDs the executed set does not hold yet."""
    commit_lag_max: int | None = None
    commits_are_ordered: bool | None = None
    logs_everything: bool | None = None
    """Whether what a replica applies is in its binary log too."""

    previous_binary_log_file: str | None = None
    previous_binary_log_position: int | None = None
    previous_gtid_executed: str | None = None
    previous_gtid_purged: str | None = None
    previous_lsn: int | None = None

    event_findings: int = 0
    """Findings of the journal itself since the cut before."""
    reason: str = ""
    """Code of the reason why the row as a whole is undecided; empty: its checks say."""
    checks: tuple[Check, ...] = ()
    """What each rule says of the row, by the rules' names."""

    def names(self, outcome: Outcome) -> list[str]:
        """The rules of one outcome, by name."""
        return [check.rule for check in self.checks if check.outcome is outcome]

    @property
    def undecided(self) -> list[Check]:
        """The checks that lack evidence."""
        return [check for check in self.checks if check.outcome is Outcome.UNDECIDED]

    @property
    def evaluated(self) -> int:
        """How many rules were judged: held or broken."""
        return len(self.checks) - len(self.undecided)

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        values = {name: getattr(self, name) for name in cut_columns()}
        return values | {"checks": [check.to_dict() for check in self.checks]}


def cut_columns() -> dict[str, type]:
    """Column name to ``str``, ``int`` or ``bool``, in table order, without the checks; nullable."""
    return dict(_COLUMNS)


def _columns() -> Iterator[tuple[str, type]]:
    for name, hint in get_type_hints(Cut).items():
        kinds: tuple[Any, ...] = get_args(hint) or (hint,)
        if name != "checks":
            yield name, next(kind for kind in kinds if kind is not type(None))


_COLUMNS = tuple(_columns())
