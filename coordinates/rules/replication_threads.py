"""Rules on the threads of a replication channel at a row: none has stopped with an error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tallystick.coordinates.events.log_status import GROUP_REPLICATION, ThreadState
from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.columns import NOT_READ
from tallystick.coordinates.rules.families import Family, Lack
from tallystick.coordinates.rules.outcomes import (
    HOLDS,
    NOT_APPLICABLE,
    Broken,
    RowAnswer,
    Undecided,
)
from tallystick.coordinates.rules.registry import Case, reason, rule
from tallystick.coordinates.rules.statements import APPLIERS, RECEIVED, REPLICA_STATUS
from tallystick.coordinates.values.binlog import LogCoordinates
from tallystick.coordinates.values.gtid import GtidSet

APPLIER_INTERRUPTED = reason(
    "applier_interrupted",
    "the applier reports error {errno}, which the same statements need not meet again ({error});"
    " it is at {position}, received and not executed: {missing:gtids}",
    Lack.THREAD,
)
APPLIER_FAILING = reason(
    "applier_failing",
    "the applier reports error {errno} and has not stopped yet ({error}); it is at {position},"
    " received and not executed: {missing:gtids}",
    Lack.THREAD,
)
RECEIVER_INTERRUPTED = reason(
    "receiver_interrupted",
    "the receiver was interrupted by error {errno} ({error}); it has read up to {position}",
    Lack.THREAD,
)
RECEIVER_NOT_CONNECTED = reason(
    "receiver_not_connected",
    "the receiver has no connection to its source (error {errno}: {error}); it has read up to"
    " {position}",
    Lack.THREAD,
)
THREAD_STOPPED = reason(
    "thread_stopped",
    "the {thread} is stopped and reports no error; received and not executed: {missing:gtids}",
    Lack.THREAD,
)

DISTURBED = frozenset(
    why.code
    for why in (APPLIER_FAILING, APPLIER_INTERRUPTED, RECEIVER_INTERRUPTED, RECEIVER_NOT_CONNECTED)
)
"""Why a channel cannot be called consistent: something keeps it from going on."""

INTERRUPTIONS = frozenset({1053, 1205, 1213, 1317, 1756})
"""ER_SERVER_SHUTDOWN, ER_LOCK_WAIT_TIMEOUT, ER_LOCK_DEADLOCK, ER_QUERY_INTERRUPTED and
ER_MTA_INCONSISTENT_DATA, which a KILL of a coordinator leaves: START REPLICA may do away with them.
"""
ERROR_MAX = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadEvidence:
    """The threads of one channel as SHOW REPLICA STATUS has them. None: not known.

    The cut table has none of this, so only the audit makes it.

    Attributes:
        channel: Its name.
        receiver, applier: The threads.
        read: Source coordinates read.
        applied: Relay coordinates applied.
        missing: GTIDs received and not executed.
    """

    channel: str = ""
    receiver: ThreadState | None = None
    applier: ThreadState | None = None
    read: LogCoordinates | None = None
    applied: LogCoordinates | None = None
    missing: GtidSet | None = None

    scope: ClassVar = "channel"

    def of(self, thread: ThreadState, position: LogCoordinates | None) -> dict[str, Any]:
        """What findings and reasons show of a thread."""
        error = thread.error or "no text"
        return {
            "errno": thread.errno,
            "error": error if len(error) <= ERROR_MAX else f"{error[:ERROR_MAX]}…",
            "since": f"since {thread.since}" if thread.since else "since when is not known",
            "group": thread.group or "not known",
            "position": "an unknown position" if position is None else position,
            "missing": "not known" if self.missing is None else str(self.missing) or "nothing",
        }

    def stopped(self) -> list[str]:
        """The threads that are stopped without an error: a command did, or nobody started them."""
        threads = {"receiver": self.receiver, "applier": self.applier}
        if self.channel.startswith(GROUP_REPLICATION):
            # They receive from the group: no receiver thread of theirs has to run.
            del threads["receiver"]
        return [
            name
            for name, thread in threads.items()
            if thread is not None and thread.is_stopped and not thread.errno
        ]


@rule(
    number=97,
    tier=2,
    scope="S",
    family=Family.THREADS,
    severity=Severity.CRITICAL,
    heals="held",
    claim="No applier of a channel has stopped with an error.",
    why=(
        "What the source committed can be committed on a replica that has the same data. An error"
        " that stops the applier says that the data differ, or that the relay log cannot be read:"
        " everything received after it is missing until somebody acts."
    ),
    undecided_when=(
        "the replica status was not read, the error is one that the same statements need not meet"
        " again (a lock wait, a deadlock, a KILL, a shutdown), or the applier has not stopped yet"
    ),
    sources=("MySQL manual: SHOW REPLICA STATUS Statement, Last_SQL_Errno",),
    remedy=(
        "Read the whole error in performance_schema.replication_applier_status_by_worker and the"
        " error log. Find out why the data differ before START REPLICA; skip the group only if its"
        " changes are there, else rebuild the replica from its source."
    ),
    verify=(APPLIERS, REPLICA_STATUS),
    evidence=ThreadEvidence,
    cases={
        "failed": Case(
            "The applier has stopped at {position} with error {errno} ({error}), {since}. Group:"
            " {group}. Received and not executed: {missing:gtids}.",
            "{errno}",
            "SHOW REPLICA STATUS, Last_SQL_Errno",
            "0, or a running applier",
            "SHOW REPLICA STATUS",
        ),
    },
)
def applier_not_failed(e: ThreadEvidence) -> RowAnswer:
    """One that a command stopped has no error."""
    thread = e.applier
    if thread is None:
        return Undecided(NOT_READ)
    if not thread.errno:
        return HOLDS
    about = e.of(thread, e.applied)
    if not thread.is_stopped:
        return Undecided(APPLIER_FAILING, **about)
    if thread.errno in INTERRUPTIONS:
        return Undecided(APPLIER_INTERRUPTED, **about)
    return Broken("failed", witness=thread.group or thread.errno, at=about["position"], **about)


@rule(
    number=98,
    tier=2,
    scope="S",
    family=Family.THREADS,
    severity=Severity.CRITICAL,
    heals="held",
    claim="No receiver of a channel has stopped with an error.",
    why=(
        "A receiver that loses its source connects again. It stops with an error only when the"
        " source cannot send what it asks for, or when it cannot write its relay log: from then on"
        " nothing of what the source commits is received."
    ),
    undecided_when=(
        "the replica status was not read, the receiver is not connected to its source just now, or"
        " it was interrupted (a KILL, a shutdown)"
    ),
    sources=("MySQL manual: SHOW REPLICA STATUS Statement, Last_IO_Errno",),
    remedy=(
        "The text of the error says what the source refused. Where it purged what the replica"
        " needs, or has lost what the replica has, rebuild the replica; then START REPLICA."
    ),
    verify=(RECEIVED, REPLICA_STATUS),
    evidence=ThreadEvidence,
    cases={
        "failed": Case(
            "The receiver has stopped with error {errno} ({error}), {since}. It has read up to"
            " {position} of its source.",
            "{errno}",
            "SHOW REPLICA STATUS, Last_IO_Errno",
            "0, or a running receiver",
            "SHOW REPLICA STATUS",
        ),
    },
)
def receiver_not_failed(e: ThreadEvidence) -> RowAnswer:
    """While a source restarts, its replicas have no connection for a moment."""
    thread = e.receiver
    if e.channel.startswith(GROUP_REPLICATION):
        return NOT_APPLICABLE
    if thread is None:
        return Undecided(NOT_READ)
    has_failed = thread.is_stopped and thread.errno
    if not (thread.is_connecting or has_failed):
        return HOLDS
    about = e.of(thread, e.read)
    if thread.is_connecting:
        return Undecided(RECEIVER_NOT_CONNECTED, **about)
    if thread.errno in INTERRUPTIONS:
        return Undecided(RECEIVER_INTERRUPTED, **about)
    return Broken("failed", witness=thread.errno, at=about["position"], **about)
