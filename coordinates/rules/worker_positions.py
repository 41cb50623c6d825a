"""What the workers of a multi-threaded applier have stored, at a row (WL#2775)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.channel import FORMER_SOURCE, GTID_ONLY, POSITION_WRAPPED
from tallystick.coordinates.rules.columns import same_family
from tallystick.coordinates.rules.families import Family
from tallystick.coordinates.rules.outcomes import (
    HOLDS,
    NOT_APPLICABLE,
    Broken,
    RowAnswer,
    Undecided,
)
from tallystick.coordinates.rules.registry import Case, rule
from tallystick.coordinates.rules.statements import REPLICA_STATUS, WORKERS_STORED
from tallystick.coordinates.values.binlog import WRAP, LogCoordinates


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPosition:
    """What one worker has stored with the last group that it committed.

    Attributes:
        number: The worker's.
        relay, source: The coordinates of the end of that group. None: the row has none.
        checkpoint: The relay coordinates of the checkpoint before it.
        other_log: Which other log of the server has files of the name in ``relay``.
        is_fresh: Whether the row was another at the previous collection of this relay log: it was
            written since. What a row has that nobody wrote since may be of a relay log before.
        relay_end: Where the relay log ends, if ``relay`` is beyond at the second collection.
        ends_no_group: Whether the relay log is known there, and no group ends at ``relay``.
        others: What is known of the group that ends at ``relay``, or of the one that ends at
            ``source``, where it is not the same: relay and source coordinates.
    """

    number: int
    relay: LogCoordinates | None
    source: LogCoordinates | None
    checkpoint: LogCoordinates | None = None
    other_log: str | None = None
    is_fresh: bool = False
    relay_end: LogCoordinates | None = None
    ends_no_group: bool = False
    others: tuple[LogCoordinates, LogCoordinates] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkersEvidence:
    """The workers of one channel, and what the receiver has read.

    Attributes:
        workers: Their positions.
        is_gtid_only: Whether the channel persists no positions.
        read: Source coordinates of SHOW REPLICA STATUS, which was read after the workers' rows.
        journal_read: The highest that the relay log named, None not known.
        may_be_former: Whether groups of a source that the channel had before may be executed.
    """

    workers: tuple[WorkerPosition, ...] = ()
    is_gtid_only: bool = False
    read: LogCoordinates | None = None
    journal_read: LogCoordinates | None = None
    may_be_former: bool = False

    scope: ClassVar = "channel"


@rule(
    number=149,
    tier=2,
    scope="S",
    family=Family.INFO_TABLES,
    severity=Severity.ERROR,
    heals="held",
    claim=(
        "What a worker of a multi-threaded applier has stored since the collection before is the"
        " end of one group, in the channel's own relay log and in the source's binary log; it was"
        " read from the source, and is after the checkpoint in the same row."
    ),
    why=(
        "A worker writes its row with each group that it commits, ahead of slave_relay_log_info,"
        " which follows at checkpoints. After a crash a start takes from these rows which groups"
        " after the checkpoint are done: a wrong one makes it repeat groups, or leave them out."
    ),
    undecided_when=(
        "the channel is gtid_only; or a stored source position beyond the one that was read may be"
        " of a former source, or 4 GiB further on than what the relay log names. A row that was"
        " not written since the collection before is not judged: an idle worker's names a relay"
        " log that is gone, and a worker that was configured away leaves one behind"
    ),
    sources=("WL#2775, REQ-5", "MySQL manual: Replication Metadata Repositories"),
    remedy=(
        "Do not restart the replica by these rows: with GTIDs use SOURCE_AUTO_POSITION=1 and"
        " relay_log_recovery=ON, which pass over them. Find out who has written to"
        " mysql.slave_worker_info."
    ),
    verify=(WORKERS_STORED, REPLICA_STATUS),
    evidence=WorkersEvidence,
    cases={
        "of_another_log": Case(
            "Worker {number} has stored {relay}, which is in a file of {log}.",
            "{relay}",
            "slave_worker_info, Relay_log_name and Relay_log_pos",
            "a file of the channel's own relay log",
            "logs of the server",
        ),
        "before_checkpoint": Case(
            "Worker {number} has stored {relay}, which is not after its checkpoint {checkpoint}.",
            "{relay}",
            "slave_worker_info, Relay_log_name and Relay_log_pos",
            "after {checkpoint}",
            "slave_worker_info, Checkpoint_relay_log_name and Checkpoint_relay_log_pos",
        ),
        "beyond_relay": Case(
            "Worker {number} has stored {relay} at two collections, but the relay log ends at"
            " {end}.",
            "{relay}",
            "slave_worker_info, Relay_log_name and Relay_log_pos",
            "at most {end}",
            "end of the relay log",
        ),
        "no_group": Case(
            "Worker {number} has stored {relay}, where no group of the relay log ends.",
            "{relay}",
            "slave_worker_info, Relay_log_name and Relay_log_pos",
            "the end of a group",
            "relay log",
        ),
        "torn": Case(
            "Worker {number} has stored {relay} with {source} of the source, but the group that"
            " ends at one of them ends at {relay_end} and {source_end}.",
            "{relay} with {source}",
            "slave_worker_info",
            "{relay_end} with {source_end}",
            "relay log",
        ),
        "beyond_read": Case(
            "Worker {number} has stored {source} of the source, but the receiver has read only up"
            " to {read}.",
            "{source}",
            "slave_worker_info, Master_log_name and Master_log_pos",
            "at most {read}",
            "Read_Source_Log_Pos",
        ),
    },
)
def worker_positions_end_groups(e: WorkersEvidence) -> RowAnswer:
    """The first worker whose row contradicts itself, the relay log or what was read."""
    if not e.workers:
        return NOT_APPLICABLE
    if e.is_gtid_only:
        return Undecided(GTID_ONLY)
    answer: RowAnswer = HOLDS
    for worker in e.workers:
        found = _judge(worker, e)
        if isinstance(found, Broken):
            return found
        answer = found if answer is HOLDS else answer
    return answer


def _judge(w: WorkerPosition, e: WorkersEvidence) -> RowAnswer:
    if w.relay is None or w.source is None:
        return HOLDS
    values: dict[str, object] = {"number": w.number, "relay": w.relay}
    if w.other_log is not None:
        return Broken("of_another_log", witness=w.relay, log=w.other_log, **values)
    if not w.is_fresh:
        return HOLDS
    passed = not_after_checkpoint(w.number, w.relay, w.checkpoint)
    if passed is not None:
        return passed
    if w.relay_end is not None:
        return Broken("beyond_relay", witness=w.relay, end=w.relay_end, **values)
    if w.ends_no_group:
        return Broken("no_group", witness=w.relay, **values)
    if w.others is not None:
        return torn_worker(w.number, w.relay, w.source, w.others[1], w.others[0])
    return _judge_read(w.source, e, values)


def _judge_read(source: LogCoordinates, e: WorkersEvidence, values: dict[str, object]) -> RowAnswer:
    if e.read is None or not same_family(e.read, source) or source <= e.read:
        return HOLDS
    if e.journal_read is None or not same_family(e.journal_read, source):
        return HOLDS
    if source <= e.journal_read:
        return HOLDS  # read by a connection before
    if e.may_be_former:
        return Undecided(FORMER_SOURCE)
    if source.position >= WRAP:
        return Undecided(POSITION_WRAPPED)
    return Broken("beyond_read", witness=source, source=source, read=e.read, **values)


def not_after_checkpoint(
    number: int, relay: LogCoordinates, checkpoint: LogCoordinates | None
) -> Broken | None:
    """A worker pairs a group with a checkpoint of the coordinator that had passed it already."""
    if checkpoint is None or not same_family(checkpoint, relay) or checkpoint < relay:
        return None
    return Broken(
        "before_checkpoint", witness=relay, number=number, relay=relay, checkpoint=checkpoint
    )


def torn_worker(
    number: int,
    relay: LogCoordinates,
    source: LogCoordinates,
    source_end: LogCoordinates,
    relay_end: LogCoordinates | None = None,
) -> Broken:
    """A worker pairs coordinates of two groups; one ends at ``source_end``, in the relay log too.

    Args:
        number: The worker's.
        relay: What it has of the relay log.
        source: What it has of the source's binary log.
        source_end: Where the group that ends at one of them ends in the source's binary log.
        relay_end: Where in the relay log, None at ``relay``.
    """
    return Broken(
        "torn",
        witness=f"{relay} with {source}",
        number=number,
        relay=relay,
        source=source,
        relay_end=relay_end or relay,
        source_end=source_end,
    )
