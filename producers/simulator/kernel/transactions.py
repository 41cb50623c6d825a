"""Transactions as logs hold them: groups of events, and a group at its position in a binary log."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

BodyEvent = tuple[int, int, int, int]
"""An event inside a group: type code, ``QueryVerb``, length, checksum."""

LoggedEvent = tuple[int, int, int, int, int]
"""An event of a group at its position in one log: type, ``QueryVerb``, start, length, checksum."""


class GroupKind(Enum):
    """How a group changes data, and so how it is written."""

    INNODB = "innodb"
    """GTID, BEGIN, rows, XID."""
    NON_TRANSACTIONAL = "non_transactional"
    """GTID, BEGIN, rows, QUERY COMMIT; no redo."""
    DDL = "ddl"
    """GTID and one statement."""
    EMPTY = "empty"
    """GTID, BEGIN, COMMIT: an injected or filtered transaction."""
    XA_PREPARE = "xa_prepare"
    """GTID, XA START, rows, XA END, XA_PREPARE; its rows stay locked until XA_COMMIT."""
    XA_COMMIT = "xa_commit"
    """GTID and the statement XA COMMIT."""
    XA_ROLLBACK = "xa_rollback"
    """GTID and the statement XA ROLLBACK: of a prepared transaction it is logged as well."""
    XA_ONE_PHASE = "xa_one_phase"
    """XA COMMIT ... ONE PHASE: written as XA_PREPARE, and committed at once."""
    COMPRESSED = "compressed"
    """GTID and one TRANSACTION_PAYLOAD."""
    MIXED = "mixed"
    """GTID, BEGIN, rows of InnoDB and of MyISAM, XID."""
    ROLLED_BACK = "rolled_back"
    """GTID, BEGIN, rows of MyISAM, QUERY ROLLBACK: what could not be rolled back is logged."""


@dataclass(slots=True, eq=False)
class Group:
    """One logged transaction, the same object in every log that holds it.

    Attributes:
        sid: ``uuid`` or ``uuid:tag``; None for an anonymous group.
        gno: -1 for an anonymous group.
        server_id: Of the server where it was first committed.
        original_commit_timestamp: When it was first committed.
        kind: How it is written.
        body: Its events after the GTID event.
        redo_length: Bytes of redo its commit writes; 0 when InnoDB is not touched.
        xa_of: The group that an XA_COMMIT or XA_ROLLBACK ends.
        is_anonymous: Committed without a GTID: nobody gives it one later.
    """

    sid: str | None
    gno: int
    server_id: int
    original_commit_timestamp: int
    kind: GroupKind
    body: tuple[BodyEvent, ...]
    redo_length: int
    xa_of: Group | None = None
    is_anonymous: bool = False

    @property
    def body_length(self) -> int:
        """Bytes of all events after the GTID event."""
        return sum([event[2] for event in self.body])


@dataclass(slots=True, eq=False)
class LoggedGroup:
    """A group at its position in one binary log file."""

    group: Group
    start: int
    gtid_length: int
    """Bytes of the GTID event: 79 on the origin, 86 where it was replicated, +n for a tag."""
    end: int
    last_committed: int
    sequence_number: int
    gtid_checksum: int
    transaction_length: int
    """What the GTID event claims; the bytes of the whole group."""

    def events(self) -> Iterator[LoggedEvent]:
        """The events after the GTID event, each with its position."""
        start = self.start + self.gtid_length
        for event_type, query, length, checksum in self.group.body:
            yield event_type, query, start, length, checksum
            start += length
