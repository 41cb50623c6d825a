"""Do LSNs that are read elsewhere agree with the redo log at their position in the journal?

Rows and the steps of their collections, backup images, clones, the TRX_SYS page under a backup
lock, samples of status variables.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.logs.redo_log import UNKNOWN
from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.backup_locks import LOG_STATUS
from tallystick.coordinates.rules.families import Family, Lack
from tallystick.coordinates.rules.image_positions import coordinates_of
from tallystick.coordinates.rules.innodb import NO_LSN
from tallystick.coordinates.rules.outcomes import HOLDS, Broken, RowAnswer, Undecided
from tallystick.coordinates.rules.protocol_steps import note_forgotten
from tallystick.coordinates.rules.redo_log import REDO_LOG_NOT_READ
from tallystick.coordinates.rules.registry import Case, Rule, reason, register
from tallystick.coordinates.rules.statements import INNODB_STATUS, LSNS, sql
from tallystick.coordinates.state_codec import COLLABORATOR

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallystick.coordinates.audit.reporter import Reporter
    from tallystick.coordinates.logs.binlog_reader import BinlogReader
    from tallystick.coordinates.logs.redo_log import RedoLogReader
    from tallystick.coordinates.values.binlog import LogCoordinates

LSN_NOT_ACCEPTED = reason(
    "lsn_not_accepted", "another rule on the row's LSNs is broken", Lack.OTHER_FINDING
)
CHECKPOINT_UNSEEN = reason(
    "checkpoint_unseen", "no checkpoint of the redo log was seen", Lack.NEXT_ROW
)

ROW_LSN_AT_ITS_INSTANT = register(
    Rule(
        number=109,
        name="row_lsn_at_its_instant",
        tier=3,
        scope="S",
        family=Family.REDO_LOG,
        severity=Severity.CRITICAL,
        heals="held",
        claim=(
            "The LSN of a row is not below what was written, or the redo of a commit that had"
            " returned, by then; its checkpoint is the last one of the redo log."
        ),
        why=(
            "The row is read while InnoDB lets nobody add redo and write no checkpoint. An older"
            " LSN cuts a copy of the redo log before transactions that the row's GTIDs hold."
        ),
        undecided_when=(
            "the journal has no events of the redo log, the row's LSN broke another rule, or the"
            " row came before its coordinates were reached. An LSN that is not the one of its"
            " collection's own step in InnoDB is found by that"
        ),
        sources=("WL#9452, F-1.2.4 and F-2.4", "MySQL source documentation: InnoDB redo log"),
        remedy=(
            "Do not stop a redo copy at this LSN. Collect again; if it differs again, compare"
            " log_status with SHOW ENGINE INNODB STATUS and report the server's version."
        ),
        verify=(INNODB_STATUS, LSNS),
        cases={
            "below_written": Case(
                "The row shows LSN {lsn}, but redo was already written up to {written}.",
                "{lsn}",
                "LSN of log_status",
                "at least {written}",
                "writes of the redo log",
            ),
            "below_commit": Case(
                "The row shows LSN {lsn}, but a commit with redo up to {committed} had returned.",
                "{lsn}",
                "LSN of log_status",
                "at least {committed}",
                "commits before the row",
            ),
            "checkpoint_differs": Case(
                "The row shows checkpoint {lsn}, but the redo log's last one was at {checkpoint}.",
                "{lsn}",
                "LSN_checkpoint of log_status",
                "{checkpoint}",
                "checkpoints of the redo log",
            ),
        },
    )
)

IMAGE_LSN_WITHIN_REDO = register(
    Rule(
        number=110,
        name="image_lsn_within_redo",
        tier=3,
        scope="T",
        family=Family.BACKUP_COORDINATES,
        severity=Severity.CRITICAL,
        heals="never",
        claim=(
            "The LSN up to which a backup has copied redo is not below what was flushed when the"
            " backup began, what was written when the binary log came to the coordinates that the"
            " backup reports, or what log_status had shown by then where these are of log_status;"
            " and not beyond what was written when it ended."
        ),
        why=(
            "A backup reads the redo log's files from their checkpoint on, past everything that was"
            " in them at its begin; what is not written yet cannot be copied. It goes on until it"
            " knows its coordinates: the redo of a commit is written before its group is in the"
            " binary log. A copy that ends before that lacks groups which its coordinates and its"
            " GTID set claim."
        ),
        undecided_when=(
            "the journal has neither events of the redo log around the backup nor rows before it"
            " came to its coordinates, or the image has no LSN"
        ),
        sources=(
            "WL#9452, F-1.2.4",
            "Percona Server: Backup Locks",
            "MySQL source documentation: InnoDB redo log",
        ),
        remedy="Discard the backup: its pages and its redo may not meet. Take another one.",
        verify=(INNODB_STATUS, LSNS),
        cases={
            "image_lsn_unwritten": Case(
                "Image {backup_id} has redo up to LSN {witness}, but only {written} was written.",
                "{witness}",
                "LSN of the image",
                "at most {written}",
                "writes of the redo log",
            ),
            "image_lsn_before_begin": Case(
                "Image {backup_id} has redo up to LSN {witness}, but when the backup began the redo"
                " log was flushed up to {flushed}.",
                "{witness}",
                "LSN of the image",
                "at least {flushed}",
                "redo log when the backup began",
            ),
            "image_lsn_before_coordinates": Case(
                "Image {backup_id} has redo up to LSN {witness} and names {position}, but when the"
                " binary log came to that, redo was already written up to {written}.",
                "{witness}",
                "LSN of the image",
                "at least {written}",
                "redo log when the binary log came to {position}",
            ),
            "image_lsn_below_row": Case(
                "Image {backup_id} has redo up to LSN {witness} and names {position} of log_status,"
                " which showed LSN {shown} before that.",
                "{witness}",
                "LSN of the image",
                "at least {shown}",
                "LSN of log_status before",
            ),
        },
    )
)

CLONE_LSN_WITHIN_REDO = register(
    Rule(
        number=111,
        name="clone_lsn_within_redo",
        tier=3,
        scope="T",
        family=Family.CLONE,
        severity=Severity.CRITICAL,
        heals="never",
        claim=(
            "While a clone ends, the LSN at which the donor writes coordinates into the TRX_SYS"
            " page never falls and is not below what was written; the copy ends at the last one."
        ),
        why=(
            "The coordinates are written in the mini-transaction of a commit, so their redo is the"
            " newest. A copy that ends before it lacks the commit whose position it names."
        ),
        undecided_when="the steps of the donor have no LSN, or the redo log's events are missing",
        sources=("WL#9211, Design Summary: Clone binlog position",),
        remedy="Do not use the clone: clone again, and report the donor's version.",
        verify=(INNODB_STATUS, LSNS),
        cases={
            "clone_lsn_written_before": Case(
                "The donor's step {step} is at LSN {witness}, but redo was already written up to"
                " {least}.",
                "{witness}",
                "step of the donor",
                "at least {least}",
                "writes of the redo log",
            ),
            "clone_lsn_fell": Case(
                "The donor's step {step} is at LSN {witness}, but a commit had its coordinates"
                " written up to {least}.",
                "{witness}",
                "step of the donor",
                "at least {least}",
                "commit before",
            ),
        },
    )
)

TRX_SYS_REDO_FLUSHED = register(
    Rule(
        number=112,
        name="trx_sys_redo_flushed",
        tier=3,
        scope="T",
        family=Family.BACKUP_LOCKS,
        severity=Severity.ERROR,
        heals="never",
        claim=(
            "When a session gets LOCK TABLES FOR BACKUP, the redo of the coordinates that the lock"
            " has written into InnoDB's header is flushed."
        ),
        why=(
            "A backup takes the coordinates from its copy of the redo log. Redo in the log buffer"
            " alone is not in the files it copies."
        ),
        undecided_when="the lock has no LSN, or the journal has no flush of the redo log",
        sources=("Percona Server: Backup Locks, whiteboard",),
        remedy=(
            "Take the coordinates under LOCK BINLOG FOR BACKUP with SHOW MASTER STATUS (from 8.0"
            " on, which has no such lock, those of performance_schema.log_status), and report the"
            " server's version."
        ),
        verify=(INNODB_STATUS, LSNS),
        cases={
            "trx_sys_redo_unflushed": Case(
                "The coordinates in InnoDB's header have redo up to LSN {witness}, but only"
                " {flushed} is flushed.",
                "{witness}",
                "LOCK TABLES FOR BACKUP",
                "at most {flushed}",
                "flushes of the redo log",
            ),
        },
    )
)

REDO_STATUS_AGREES = register(
    Rule(
        number=113,
        name="redo_status_agrees",
        tier=3,
        scope="T",
        family=Family.REDO_LOG,
        severity=Severity.CRITICAL,
        heals="data",
        claim=(
            "From sample to sample of the status variables neither checkpoint nor flushed LSN falls"
            " or is beyond one that follows it in checkpoint, flushed, written, current LSN of the"
            " next sample."
        ),
        why=(
            "What is flushed stays, over a crash too; the other two a crash may take. One SHOW"
            " GLOBAL STATUS reads the variables one after another, and another session's may set"
            " them meanwhile: so flushed may be beyond current in a sample, never beyond that of"
            " the next one."
        ),
        undecided_when=(
            "no samples are in the journal (servers before 8.0.30 have no such variables). Samples"
            " are never compared with rows or with events of the redo log: they are of other"
            " moments"
        ),
        sources=("MySQL manual: Innodb_redo_log_flushed_to_disk_lsn",),
        remedy=(
            "Check that one server answers under this address. If it is one, compare with SHOW"
            " ENGINE INNODB STATUS and look into the error log for a damaged redo log."
        ),
        verify=(INNODB_STATUS, sql("SHOW GLOBAL STATUS LIKE 'Innodb\\_redo\\_log%';")),
        cases={
            "redo_status_out_of_order": Case(
                "{low_name} LSN {low} is beyond {high_name} LSN {high} of the next sample.",
                "{low_name} {low}",
                "Innodb_redo_log status variables",
                "at most {high_name} {high}",
                "the next sample",
            ),
            "redo_status_fell": Case(
                "The {name} LSN fell from {previous} to {witness} between two samples.",
                "{witness}",
                "Innodb_redo_log status variables",
                "at least {previous}",
                "sample before",
            ),
        },
    )
)

_ORDER = ("checkpoint", "flushed", "written", "current")
_DURABLE = ("checkpoint", "flushed")
_BACKUPS_MAX = 16
_REACHED_MAX = 1_024
"""As many events of the binary log are remembered: what is older has no known coordinates."""


@dataclass(slots=True)
class RedoSeen:
    """What the redo log's events showed when a row came; None: nothing.

    ``is_of_row``: whether they are of the row's instant, as neither of the two came early.
    ``floor`` and ``returned``: before the first write and flush after a start, at ``started_ts``,
    what has survived it.
    """

    is_of_row: bool
    written: int | None
    flushed: int | None
    checkpoint: int | None
    committed: int | None
    started_ts: int
    floor: int = UNKNOWN
    returned: int = UNKNOWN

    @classmethod
    def of(cls, redo: RedoLogReader, ts: int) -> RedoSeen:
        """The present state of the log, for a row of a time."""
        written, flushed, checkpoint, committed = (
            None if number == UNKNOWN else number
            for number in (redo.written, redo.flushed, redo.checkpoint, redo.committed)
        )
        seen = cls(redo.ts <= ts, written, flushed, checkpoint, committed, redo.started_ts)
        if written is None and flushed is None:
            seen.floor, seen.returned = redo.floor, redo.returned
        return seen

    def for_row(self, surely_at: int | None) -> RedoSeen | None:
        """It, if it is of the row's instant.

        Args:
            surely_at: A moment before which the row was not read, by any clock, if one is known.
        """
        is_of_boot = surely_at is None or surely_at > self.started_ts
        return self if self.is_of_row and is_of_boot else None


def lost_at_start(lsn: int | None, seen: RedoSeen | None) -> Broken | None:
    """What a row shows to be gone after a start, before a write or a flush shows it."""
    if lsn is None or seen is None:
        return None
    if lsn < seen.floor:
        return Broken("redo_lost_at_start", witness=lsn, floor=seen.floor)
    if lsn < seen.returned:
        return Broken("commits_lost_at_start", witness=lsn, returned=seen.returned)
    return None


def row_at_its_instant(
    lsn: int | None, lsn_checkpoint: int | None, seen: RedoSeen | None
) -> RowAnswer:
    """Compare an accepted row with what the redo log's events showed when it came."""
    if lsn is None:
        return Undecided(NO_LSN)
    if seen is None:
        return Undecided(REDO_LOG_NOT_READ)
    checkpoint, is_read = seen.checkpoint, seen.written is not None
    if seen.written is not None and lsn < seen.written:
        return Broken("below_written", witness=lsn, lsn=lsn, written=seen.written)
    if seen.committed is not None and lsn < seen.committed:
        return Broken("below_commit", witness=lsn, lsn=lsn, committed=seen.committed)
    if checkpoint is None or lsn_checkpoint is None:
        return Undecided(CHECKPOINT_UNSEEN if is_read else REDO_LOG_NOT_READ)
    # Recovery may have written one before the log's events go on.
    if lsn_checkpoint < checkpoint or (is_read and lsn_checkpoint != checkpoint):
        return Broken(
            "checkpoint_differs", witness=lsn_checkpoint, lsn=lsn_checkpoint, checkpoint=checkpoint
        )
    return HOLDS if is_read else Undecided(REDO_LOG_NOT_READ)


@dataclass(eq=False)
class RedoPositions:
    """LSNs of backups, clones, locks and samples of one instance, beside its redo log.

    Attributes:
        begun: Of running backups, by id, what was flushed when they began.
        logged: While backups run: the first coordinates of the binary log at which so much redo was
            written, as file number, position and LSN.
        shown: The same of rows, each of which is before these coordinates.
        coordinates_lsn: Where a running clone's donor last wrote coordinates.
        has_forgotten: Whether there were too many backups, which need not have an image.
        sample: Checkpoint and flushed LSN of the last sample of the status variables.
    """

    _reporter: Reporter = field(metadata=COLLABORATOR)
    redo: RedoLogReader = field(metadata=COLLABORATOR)
    binlog: BinlogReader = field(metadata=COLLABORATOR)
    begun: dict[str, int] = field(default_factory=dict)
    logged: list[tuple[int, int, int]] = field(default_factory=list)
    shown: list[tuple[int, int, int]] = field(default_factory=list)
    has_forgotten: bool = False
    coordinates_lsn: int = UNKNOWN
    sample: dict[str, int] = field(default_factory=dict)

    def interrupted(self) -> None:
        """A start or a gap: what went on is over or not known any more."""
        self.begun = {}
        self.has_forgotten = False
        self.coordinates_lsn = UNKNOWN
        self.log_began_anew()

    def log_began_anew(self) -> None:
        """Coordinates of the binary log are those of another one."""
        self.logged, self.shown = [], []

    def forget_samples(self) -> None:
        """A gap, or another data directory: earlier samples bound nothing."""
        self.sample = {}

    def group_logged(self) -> None:
        """The binary log got a group, while backups run."""
        lsn = self.redo.reached
        if lsn > (self.logged[-1][2] if self.logged else UNKNOWN):
            reached = self.binlog.file_number, self.binlog.end, lsn
            self.logged = [*self.logged[1 - _REACHED_MAX :], reached]

    def row(self, position: LogCoordinates, lsn: int) -> None:
        """Take an accepted row that shows both as they were at one moment."""
        key = position.file_number, position.position + 1
        before = [one for one in self.shown if one[:2] != key]
        self.shown = [*before[1 - _REACHED_MAX :], (*key, lsn)]

    def backup(self, body: Mapping[str, Any]) -> None:
        """Take a ``backup`` record."""
        step, backup_id, lsn = body["step"], str(body.get("backup_id")), body.get("lsn")
        if step == "begin":
            self._begin(backup_id)
        elif step in ("image", "end"):
            flushed = self.begun.pop(backup_id, None)
            if step == "image" and lsn is not None:
                self._judge_image(body, backup_id, lsn, flushed)
            if not self.begun:
                self.logged = []

    def _begin(self, backup_id: str) -> None:
        self.begun[backup_id] = self.redo.flushed
        if len(self.begun) > _BACKUPS_MAX:
            del self.begun[next(iter(self.begun))]
            self.has_forgotten = True
        if self.shown:
            # What the backup will read of log_status it reads after all rows before.
            self.shown.append((self.binlog.file_number, self.binlog.end, self.shown[-1][2]))

    def _judge_image(
        self, body: Mapping[str, Any], backup_id: str, lsn: int, flushed: int | None
    ) -> None:
        """Compare the LSN of an image; `flushed`: when the backup began, None: that is unknown."""
        written, position = self.redo.written, self._image_position(body)
        broken = None
        if written != UNKNOWN and lsn > written:
            broken = Broken("image_lsn_unwritten", witness=lsn, written=written)
        elif flushed is not None and lsn < flushed:
            broken = Broken("image_lsn_before_begin", witness=lsn, flushed=flushed)
        elif position is not None and lsn < (least := _lsn_at(self.logged, position)):
            broken = Broken(
                "image_lsn_before_coordinates", witness=lsn, position=position, written=least
            )
        elif (
            position is not None
            and body["coordinates_from"] == LOG_STATUS
            and lsn < (least := _lsn_at(self.shown, position))
        ):
            broken = Broken("image_lsn_below_row", witness=lsn, position=position, shown=least)
        if broken is not None:
            data = {**broken.data, "backup_id": backup_id}
            self._report(IMAGE_LSN_WITHIN_REDO, Broken(broken.case, witness=lsn, **data))
        elif flushed is None and self.has_forgotten:
            note_forgotten(
                self._reporter,
                IMAGE_LSN_WITHIN_REDO,
                what="backups",
                kept=_BACKUPS_MAX,
                at=f"image {backup_id}",
            )

    def _image_position(self, body: Mapping[str, Any]) -> LogCoordinates | None:
        """The coordinates of an image made under locks, if they are of the log that was read."""
        position = coordinates_of(body, "binlog_file", "binlog_position")
        if position is None or "coordinates_from" not in body or self.binlog.offsets_doubtful:
            return None
        return position if position.base_name == self.binlog.base_name else None

    def clone(self, body: Mapping[str, Any]) -> None:
        """Take a ``clone`` record of a donor."""
        step, lsn = body["step"], body.get("lsn")
        if step in ("begin", "end"):
            self.coordinates_lsn = UNKNOWN
        if step not in ("commit", "position_read") or lsn is None:
            return
        if lsn < self.redo.written:
            case, least = "clone_lsn_written_before", self.redo.written
        elif lsn < self.coordinates_lsn:
            case, least = "clone_lsn_fell", self.coordinates_lsn
        else:
            self.coordinates_lsn = lsn
            return
        self._report(CLONE_LSN_WITHIN_REDO, Broken(case, witness=lsn, step=step, least=least))

    def backup_lock(self, body: Mapping[str, Any]) -> None:
        """Take a ``backup_lock`` record."""
        lsn, flushed = body.get("lsn"), self.redo.flushed
        if body["step"] == "lock" and lsn is not None and UNKNOWN < flushed < lsn:
            broken = Broken("trx_sys_redo_unflushed", witness=lsn, flushed=flushed)
            self._report(TRX_SYS_REDO_FLUSHED, broken)

    def status(self, body: Mapping[str, Any]) -> None:
        """Take a ``redo_status`` record: one sample."""
        sample = {name: body[name] for name in _ORDER if name in body}
        breach = self._breach(sample)
        if breach is not None:
            self._report(REDO_STATUS_AGREES, breach)
        self.sample |= {name: sample[name] for name in _DURABLE if name in sample}

    def _breach(self, sample: Mapping[str, int]) -> Broken | None:
        """What bounds a sample from below is the one before it, not its own variables."""
        for at, name in enumerate(_DURABLE):
            low = self.sample.get(name, UNKNOWN)
            for high_name in _ORDER[at:]:
                high = sample.get(high_name, low)
                if low <= high:
                    continue
                if high_name == name:
                    return Broken("redo_status_fell", witness=high, name=name, previous=low)
                return Broken(
                    "redo_status_out_of_order",
                    witness=f"{low} > {high}",
                    low_name=name,
                    low=low,
                    high_name=high_name,
                    high=high,
                )
        return None

    def _report(self, rule: Rule, broken: Broken) -> None:
        self._reporter.broken(rule, broken, at=f"LSN {broken.witness}")


def _lsn_at(reached: list[tuple[int, int, int]], position: LogCoordinates) -> int:
    """Up to where there was redo, at the least, when the binary log came to coordinates."""
    at = position.file_number, position.position
    return max((lsn for *end, lsn in reached if tuple(end) <= at), default=UNKNOWN)
