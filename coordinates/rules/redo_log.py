"""Rules on the events of InnoDB's redo log: writes, flushes, checkpoints and commits.

They come from `redo` records (docs/journal.md); without such records none of these is decided.
`coordinates.logs.redo_log` finds the contradictions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.families import Family, Lack
from tallystick.coordinates.rules.innodb import CAPACITY_UNKNOWN
from tallystick.coordinates.rules.outcomes import Undecided
from tallystick.coordinates.rules.registry import Case, Rule, reason, register
from tallystick.coordinates.rules.statements import DURABILITY, INNODB_STATUS, LSNS, REDO_CAPACITY

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

REDO_LOG_NOT_READ = reason(
    "redo_log_not_read",
    "no event of InnoDB's redo log was seen since the last start or gap",
    Lack.SETTING,
)
REDO_EVENT_NOT_SEEN = reason(
    "redo_event_not_seen",
    "events of InnoDB's redo log were seen, but no {kind} since the last start or gap",
    Lack.SETTING,
)
COMMITS_NOT_BOUND = reason(
    "commits_not_bound",
    "innodb_flush_log_at_trx_commit is 0 or not known, or the redo log is disabled",
    Lack.SETTING,
)
_UNSEEN = "the journal has no event of the redo log, or none since the last start or gap"
_SOURCE = "MySQL source documentation: InnoDB redo log"

REDO_WRITES_CONTIGUOUS = register(
    Rule(
        number=100,
        name="redo_writes_contiguous",
        tier=1,
        scope="E",
        family=Family.REDO_LOG,
        severity=Severity.CRITICAL,
        heals="data",
        claim="Each write to the redo log begins where the write before it ended.",
        why=(
            "One thread, the log writer, copies the log buffer to the files in the order of the"
            " LSN and leaves nothing out; redo that is missing in the middle ends recovery there."
        ),
        undecided_when=f"{_UNSEEN}; the first write after a start may begin further on",
        sources=(_SOURCE, "WL#10310"),
        remedy=(
            "If the observer lost the event, let it report a gap. If the files lack it, recovery"
            " would stop at the hole: take a logical backup while the server runs, and a new"
            " physical one after the next checkpoint."
        ),
        verify=(INNODB_STATUS, LSNS),
        cases={
            "redo_hole": Case(
                "Redo from LSN {end} to the start of the write at {at} was never written.",
                "a write that begins at {at}",
                "redo log",
                "LSN {end}",
                "end of the write before",
            ),
        },
    )
)

REDO_LSN_NEVER_FALLS = register(
    Rule(
        number=101,
        name="redo_lsn_never_falls",
        tier=1,
        scope="E",
        family=Family.REDO_LOG,
        severity=Severity.CRITICAL,
        heals="data",
        claim="Written LSN, flushed LSN and checkpoint never fall while a server runs.",
        why=(
            "Each counts bytes that are on their way to the disk and cannot come back. The"
            " checkpoint never falls over a restart either."
        ),
        undecided_when=_UNSEEN,
        sources=(_SOURCE, "WL#9452, F-1.2.4"),
        remedy=(
            "Look for two servers or an old journal under one name. If it is true, the redo log"
            " was replaced under a running server: stop it and restore from a backup."
        ),
        verify=(INNODB_STATUS, LSNS),
        cases={
            "redo_write_fell": Case(
                "A write of redo begins at {at}, though everything up to LSN {end} was written.",
                "a write that begins at {at}",
                "redo log",
                "LSN {end}",
                "end of the write before",
            ),
            "redo_flush_fell": Case(
                "The flushed LSN fell from {previous} to {witness}.",
                "{witness}",
                "flush of the redo log",
                "at least {previous}",
                "flush before",
            ),
            "redo_checkpoint_fell": Case(
                "The checkpoint fell from {previous} to {witness}.",
                "{witness}",
                "checkpoint of the redo log",
                "at least {previous}",
                "checkpoint before",
            ),
        },
    )
)

REDO_FLUSH_WITHIN_WRITTEN = register(
    Rule(
        number=102,
        name="redo_flush_within_written",
        tier=1,
        scope="E",
        family=Family.REDO_LOG,
        severity=Severity.CRITICAL,
        heals="data",
        claim="The flushed LSN is never beyond what was written.",
        why="The log flusher syncs the files; what is still in the log buffer is in no file.",
        undecided_when=f"{_UNSEEN}, or no flush",
        sources=(_SOURCE, "WL#10310"),
        remedy=(
            "Check the observer: a write is missing, or reported after its flush. If it is true,"
            " commits were acknowledged whose redo was on no disk: compare with a replica."
        ),
        verify=(INNODB_STATUS, LSNS),
        cases={
            "redo_flushed_unwritten": Case(
                "The redo log was flushed up to LSN {witness}, but written only up to {written}.",
                "{witness}",
                "flush of the redo log",
                "at most {written}",
                "writes of the redo log",
            ),
        },
    )
)

REDO_CHECKPOINT_WITHIN_FLUSHED = register(
    Rule(
        number=103,
        name="redo_checkpoint_within_flushed",
        tier=1,
        scope="E",
        family=Family.REDO_LOG,
        severity=Severity.CRITICAL,
        heals="data",
        claim="A checkpoint is never beyond the flushed LSN.",
        why=(
            "It passes only redo whose pages are on disk, and a page is written after the redo of"
            " its newest change is flushed. Recovery begins at the checkpoint: beyond the flushed"
            " redo it would find nothing."
        ),
        undecided_when=f"{_UNSEEN}, or no checkpoint",
        sources=(_SOURCE, "MySQL manual: InnoDB Checkpoints"),
        remedy=(
            "Do not restart the server before its redo log and the error log are checked; take a"
            " logical backup first."
        ),
        verify=(INNODB_STATUS, LSNS),
        cases={
            "redo_checkpoint_unflushed": Case(
                "A checkpoint was written at LSN {witness}, but redo is {done} only up to {limit}.",
                "{witness}",
                "checkpoint of the redo log",
                "at most {limit}",
                "redo that is {done}",
            ),
        },
    )
)

REDO_LSN_IN_BLOCK_DATA = register(
    Rule(
        number=104,
        name="redo_lsn_in_block_data",
        tier=1,
        scope="E",
        family=Family.REDO_LOG,
        severity=Severity.ERROR,
        heals="data",
        claim=(
            "An LSN of the redo log is in the data bytes of its block; only a write or a flush may"
            " also end at the border of one."
        ),
        why=(
            "Each block of 512 bytes has a header of 12 and a trailer of 4. The LSN counts them,"
            " but no record begins or ends in one; the log writer alone may stop at a full block."
        ),
        undecided_when=_UNSEEN,
        sources=(_SOURCE,),
        remedy="Find what rounded or computed the LSN on the way; cut no backup at it.",
        verify=(INNODB_STATUS, LSNS),
        cases={
            "redo_lsn_in_frame": Case(
                "The {name} {witness} is byte {offset} of its block, outside the data.",
                "{witness} mod 512 = {offset}",
                "redo log",
                "12 to 507",
                "data bytes of a redo log block",
            ),
        },
    )
)

REDO_BLOCK_HEADER_AGREES = register(
    Rule(
        number=105,
        name="redo_block_header_agrees",
        tier=1,
        scope="E",
        family=Family.REDO_LOG,
        severity=Severity.ERROR,
        heals="data",
        claim="The header of the last block of a write has the number and the length of its LSN.",
        why=(
            "A block's number is its LSN divided by 512, modulo 2^30, plus one; its length is how"
            " many of its bytes are used, 512 if it is full. Recovery ends at a block with another"
            " number."
        ),
        undecided_when=f"{_UNSEEN}, or the observer does not report block headers",
        sources=(_SOURCE,),
        remedy=(
            "Check the observer's arithmetic on another server. If the header on disk is wrong,"
            " recovery would stop before this block: take a logical backup while the server runs."
        ),
        verify=(INNODB_STATUS, LSNS),
        cases={
            "redo_block_header_differs": Case(
                "The write up to LSN {lsn} ends in a block with number {number} and length"
                " {length}.",
                "number {number}, length {length}",
                "header of the redo log block",
                "number {expected_number}, length {expected_length}",
                "LSN {lsn}",
            ),
        },
    )
)

REDO_KEPT_UNTIL_CHECKPOINT = register(
    Rule(
        number=106,
        name="redo_kept_until_checkpoint",
        tier=1,
        scope="E",
        family=Family.REDO_LOG,
        severity=Severity.CRITICAL,
        heals="data",
        claim="No write reaches further beyond the checkpoint than the redo log's capacity.",
        why=(
            "The files are reused in a circle. Redo since the checkpoint is what recovery needs;"
            " InnoDB makes sessions wait rather than overwrite it."
        ),
        undecided_when=(
            f"{_UNSEEN}, no checkpoint was seen, or innodb_redo_log_capacity is not known. While"
            " the capacity shrinks the larger one counts"
        ),
        sources=(_SOURCE, "MySQL manual: innodb_redo_log_capacity"),
        remedy=(
            "Check that the reported capacity is the server's. If it is, do not restart: a crash"
            " now cannot be recovered from. Take a logical backup, then enlarge the redo log."
        ),
        verify=(INNODB_STATUS, REDO_CAPACITY),
        cases={
            "redo_overwritten": Case(
                "Redo was written up to LSN {written}, {age:n byte} beyond the checkpoint"
                " {checkpoint}: the oldest redo that recovery needs is overwritten.",
                "{witness}",
                "written LSN - checkpoint",
                "at most {capacity}",
                "innodb_redo_log_capacity",
            ),
        },
    )
)

FLUSHED_REDO_SURVIVES_START = register(
    Rule(
        number=107,
        name="flushed_redo_survives_start",
        tier=3,
        scope="T",
        family=Family.REDO_LOG,
        severity=Severity.CRITICAL,
        heals="data",
        claim=(
            "The first write and the first flush after a start, and the LSN of a row before them,"
            " are not below what was flushed, a checkpoint, or the redo of a commit that had"
            " returned and that the binary log still has, before a crash, nor below what was"
            " written before a clean stop."
        ),
        why=(
            "Recovery reads the redo log to its end and goes on there. Only what was written and"
            " not flushed may be gone, and only after a crash. With innodb_flush_log_at_trx_commit"
            " other than 1 that can be redo of commits: InnoDB lacks their changes then, and the"
            " binary log, gtid_executed and replicas count them all the same."
        ),
        undecided_when=(
            "no flush and no checkpoint, or after a clean stop no write, was seen before the start,"
            " or neither write, flush nor row after it; a restore or a clone brings another redo"
            " log; nothing was logged between a commit and the one before it, so that the binary"
            " log may not have it"
        ),
        sources=(_SOURCE, "MySQL manual: InnoDB Recovery"),
        remedy=(
            "Commits that were acknowledged may be gone: compare with the replicas and the binary"
            " log. Look for a disk that acknowledges syncs it has not done, for restored redo log"
            " files, and for innodb_force_recovery."
        ),
        verify=(INNODB_STATUS, LSNS),
        cases={
            "redo_lost_at_start": Case(
                "After the start redo goes on at LSN {witness}, though it was on disk up to"
                " {floor}.",
                "{witness}",
                "first write, flush or row after the start",
                "at least {floor}",
                "redo log before the start",
            ),
            "commits_lost_at_start": Case(
                "After the crash redo goes on at LSN {witness}, though commits with redo up to"
                " {returned} had returned: InnoDB has lost them, and a binary log and gtid_executed"
                " that have them are ahead of the data.",
                "{witness}",
                "first write, flush or row after the start",
                "at least {returned}",
                "commits before the crash",
                remedy=(
                    "Clients, replicas and the binary log may have what InnoDB has lost: as long as"
                    " gtid_executed counts it, it is not fetched again. Rebuild the server from one"
                    " that has it, or from a backup and the binary log, and set"
                    " innodb_flush_log_at_trx_commit=1."
                ),
            ),
        },
    )
)

COMMIT_REDO_DURABLE = register(
    Rule(
        number=108,
        name="commit_redo_durable",
        tier=1,
        scope="E",
        family=Family.REDO_LOG,
        severity=Severity.CRITICAL,
        heals="data",
        claim=(
            "With innodb_flush_log_at_trx_commit=1 a commit returns after its redo is flushed, with"
            " 2 after it is written."
        ),
        why=(
            "The session waits in log_write_up_to() for the LSN of its prepare or commit. Where the"
            " binary log is on, the prepare is flushed before the group is logged: a crash then"
            " finds every logged group in the engine."
        ),
        undecided_when=(
            f"{_UNSEEN}, or no commit; the server's innodb_flush_log_at_trx_commit is not known or"
            " 0, or its redo log is disabled"
        ),
        sources=("MySQL manual: innodb_flush_log_at_trx_commit", _SOURCE),
        remedy=(
            "Until it is explained count the newest commits as lost after a crash. Look for a"
            " setting that was changed without a record of it, and for a patched commit path."
        ),
        verify=(INNODB_STATUS, DURABILITY),
        cases={
            "commit_not_durable": Case(
                "A commit with redo up to LSN {witness} returned when redo was {done} only up to"
                " {limit}.",
                "{witness}",
                "commit that returned",
                "at most {limit}",
                "redo log, innodb_flush_log_at_trx_commit={policy}",
            ),
        },
    )
)

REDO_RULES = frozenset(
    {
        REDO_WRITES_CONTIGUOUS,
        REDO_LSN_NEVER_FALLS,
        REDO_FLUSH_WITHIN_WRITTEN,
        REDO_CHECKPOINT_WITHIN_FLUSHED,
        REDO_LSN_IN_BLOCK_DATA,
        REDO_BLOCK_HEADER_AGREES,
        REDO_KEPT_UNTIL_CHECKPOINT,
        COMMIT_REDO_DURABLE,
    }
)
"""The rules on the redo log's events: they hold where such events were read."""

_NEEDED = {
    REDO_FLUSH_WITHIN_WRITTEN: ("flush",),
    REDO_CHECKPOINT_WITHIN_FLUSHED: ("checkpoint",),
    REDO_BLOCK_HEADER_AGREES: ("block header",),
    REDO_KEPT_UNTIL_CHECKPOINT: ("checkpoint", "capacity"),
    COMMIT_REDO_DURABLE: ("bound", "commit"),
}


def without_evidence(lacking: Collection[str]) -> Iterator[tuple[Rule, Undecided]]:
    """The rules on the redo log's events that hold only because nothing could break them.

    Args:
        lacking: What was not seen: kinds of events, a block header, the capacity, or the setting
            that bounds commits (``bound``).
    """
    for rule, needed in _NEEDED.items():
        for kind in needed:
            if kind in lacking:
                why = {"capacity": CAPACITY_UNKNOWN, "bound": COMMITS_NOT_BOUND}.get(kind)
                yield rule, Undecided(why) if why else Undecided(REDO_EVENT_NOT_SEEN, kind=kind)
                break
