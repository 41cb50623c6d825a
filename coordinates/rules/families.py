"""What findings and open questions are called by whom they wake at night.

Each has an entry in docs/runbook.md under its title.
"""

from __future__ import annotations

import re
from enum import Enum

RUNBOOK = "docs/runbook.md"


class _Entry(Enum):
    @property
    def anchor(self) -> str:
        """The title as a page makes it an anchor: lower case, without marks, blanks to hyphens."""
        return re.sub(r"[^\w -]", "", self.value.lower()).replace(" ", "-")

    @property
    def place(self) -> str:
        """Where the runbook is about it."""
        return f"{RUNBOOK}#{self.anchor}"


class Family(_Entry):
    """What a breach of a rule means to an operator: rules of one family are treated alike."""

    ERRANT = "Errant transactions"
    TWO_HISTORIES = "One GTID, two transactions"
    LOST_BY_RECEIVER = "Transactions lost on the way to a replica"
    PURGED_TOO_EARLY = "Purged while a replica needs it"
    THREADS = "A replication thread has failed"
    IDENTITY = "Two servers with one identity"
    FORGOTTEN_BY_CRASH = "Executed before, not executed any more"
    NOT_COMMITTED = "Logged, but not executed"
    ROW = "Position and GTID set of a row disagree"
    CHANNEL_POSITIONS = "Positions of a channel are wrong"
    INFO_TABLES = "Replication info tables"
    DAMAGED_LOG = "A damaged binary log or relay log"
    GTID_MODE = "Anonymous groups and gtid_mode"
    LOG_FILES = "Binary log files and gtid_purged"
    GTID_TABLE = "The table mysql.gtid_executed"
    REDO_LOG = "LSNs and the redo log"
    UNREADABLE = "An answer that cannot be read"
    COLLECTION = "The collection itself"
    BACKUP_COORDINATES = "Coordinates of a backup"
    BACKUP_LOCKS = "Backup locks"
    COMMIT_ZONE = "Commit zone and engine locks"
    RESTORE = "A restored server"
    CLONE = "A clone"


class Lack(_Entry):
    """What evidence lacks, where something is undecided: reasons of one kind have one way out."""

    ANSWER = "A server did not answer"
    VALUE = "A value was not read"
    RELAY_LOG = "Relay logs were not read"
    BINARY_LOG = "Part of a binary log was not seen"
    JOURNAL = "The journal has a gap"
    ONE_WRITER = "Records came again or out of order"
    MESSAGES = "Messages are gone or unreadable"
    AUDIT = "The audit itself failed"
    SERVER = "Another server is not followed"
    SOURCE_LATER = "The source is not known up to then"
    MEMORY = "Older than what is remembered"
    CLOCK = "Clocks that differ or jump"
    LINEAGE = "A log began anew"
    SETTING = "The configuration leaves it open"
    THREAD = "A thread is stopped or interrupted"
    NEXT_ROW = "The next collection decides"
    OTHER_FINDING = "Another rule is broken first"
    BACKUP = "A backup, image or clone is not known well enough"
    NOTED = "Noted, and nothing to decide"
