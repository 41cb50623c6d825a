"""Tiers 2 and 3: does InnoDB keep every GTID (WL#9211, F-7 and key points 1 to 4)?

The steps come from `gtid_persister` and `start` records (docs/journal.md). The rule on
mysql.gtid_executed in rows of log_status is in `gtid_table`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.families import Family
from tallystick.coordinates.rules.gtid_persister_steps import (
    GTID_PERSISTER_STEPS_COMPLETE,
    UNDO_PURGE_STEPS_COMPLETE,
)
from tallystick.coordinates.rules.gtid_table import (
    INTERVALS_MAX,
    GtidTable,
    PersistedGtids,
    gtid_table_has_closed_files,
)
from tallystick.coordinates.rules.outcomes import Broken
from tallystick.coordinates.rules.protocol_steps import Forgotten
from tallystick.coordinates.rules.registry import Case, Rule, register
from tallystick.coordinates.rules.statements import GTID_TABLE, not_executed, sql
from tallystick.coordinates.state_codec import COLLABORATOR
from tallystick.coordinates.values.binlog import format_log_file_name
from tallystick.coordinates.values.errors import GtidSetParseError
from tallystick.coordinates.values.gtid import Gtid, GtidSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallystick.coordinates.audit.reporter import Reporter
    from tallystick.coordinates.events.log_status import ServerState
    from tallystick.coordinates.rules.gtid_persister_steps import PersisterSteps
    from tallystick.coordinates.values.binlog import LogCoordinates

PURGE_WAITS_FOR_GTID_PERSIST = register(
    Rule(
        number=64,
        name="purge_waits_for_gtid_persist",
        tier=3,
        scope="T",
        family=Family.GTID_TABLE,
        severity=Severity.CRITICAL,
        heals="data",
        claim=(
            "Undo purge never passes the oldest transaction whose GTID is not in the table yet,"
            " and the number stored in the TRX_SYS page never passes it either and never falls;"
            " no transaction is committed after a write with a number below the oldest active one"
            " that this write had collected."
        ),
        why=(
            "Between commit and the persister's next write, about a second, a GTID is durable only"
            " in the undo log header. Purge asks the persister for its limit, and recovery reads"
            " undo only from the stored number on: beyond the limit a crash loses GTIDs."
        ),
        undecided_when=(
            "the persister's steps were not observed from its last write on, or the journal has a"
            " gap among them"
        ),
        sources=("WL#9211, Key design points 2 to 4",),
        remedy=(
            "Nothing is lost before a crash: let the persister catch up (FLUSH LOCAL BINARY LOGS"
            " stores all logged GTIDs in the table), compare the table with gtid_executed, and"
            " report the server's version."
        ),
        verify=(GTID_TABLE, sql("SELECT @@GLOBAL.gtid_executed;")),
        cases={
            "trx_num_gtid_fell": Case(
                "TRX_SYS_TRX_NUM_GTID fell from {previous} to {number}.",
                "{number}",
                "journal",
                "at least {previous}",
                "WL#9211",
            ),
            "trx_num_gtid_passed": Case(
                (
                    "TRX_SYS_TRX_NUM_GTID {number} passed transaction {oldest}, whose GTID {gtid}"
                    " is not in mysql.gtid_executed yet."
                ),
                "{witness}",
                "journal",
                "at most {oldest}",
                "WL#9211",
            ),
            "purge_limit_passed": Case(
                (
                    "The purge limit {number} passed transaction {oldest}, whose GTID {gtid} is"
                    " not in mysql.gtid_executed yet."
                ),
                "{witness}",
                "journal",
                "at most {oldest}",
                "WL#9211",
            ),
            "collected_passed": Case(
                (
                    "The GTID persister collected {number} as the oldest active transaction, and"
                    " {oldest} with GTID {gtid} was committed after that."
                ),
                "{witness}",
                "journal",
                "at most {oldest}",
                "WL#9211, Key design point 2",
            ),
        },
    )
)

UNDO_GTIDS_RECOVERED = register(
    Rule(
        number=89,
        name="undo_gtids_recovered",
        tier=3,
        scope="T",
        family=Family.GTID_TABLE,
        severity=Severity.CRITICAL,
        heals="data",
        claim=(
            "A start finds the GTID of every transaction that InnoDB had committed or prepared: in"
            " the table mysql.gtid_executed, from which nothing goes that the persister has"
            " written, or in an undo log header."
        ),
        why=(
            "The GTID goes into the undo log header with the commit, XA PREPARE included, and purge"
            " leaves the undo log alone until the persister has written the GTID into the table."
            " Recovery reads the headers before replication looks at GTIDs, whatever the binary"
            " log holds."
        ),
        undecided_when=(
            "commits in InnoDB were not observed, the start does not report the table, or after a"
            " crash the GTIDs that it found in undo logs, or redo was not flushed with each commit;"
            " what the crash took out of the binary log, or may have taken and was not seen in it,"
            " counts for nothing here"
        ),
        sources=("WL#9211, F-7 and Key design points 1 and 4",),
        remedy=(
            "With a binary log the server takes the GTID from there at the same start; without one,"
            " or on a replica that does not log, it is lost: compare with the source before the"
            " replica asks for the transaction again."
        ),
        verify=(not_executed("missing"), GTID_TABLE),
        cases={
            "gtids_not_recovered": Case(
                (
                    "InnoDB had committed {missing:gtids}; the start found {missing:it|them}"
                    " neither in mysql.gtid_executed nor in undo logs."
                ),
                "{found:gtids}",
                "journal",
                "with {missing:gtids}",
                "WL#9211",
            ),
        },
    )
)

GTID_PERSISTED_AFTER_COMMIT = register(
    Rule(
        number=90,
        name="gtid_persisted_after_commit",
        tier=3,
        scope="T",
        family=Family.GTID_TABLE,
        severity=Severity.CRITICAL,
        heals="data",
        claim=(
            "The GTID persister writes no GTID whose transaction was not committed or prepared in"
            " InnoDB before."
        ),
        why=(
            "A transaction adds its GTID to the persister only when its undo log is durable. Were"
            " the GTID in the table first, a crash in between would leave it there without its"
            " changes, and replication would never bring them."
        ),
        undecided_when=(
            "the persister's steps were not observed from a start on, or for two writes since the"
            " observation began"
        ),
        sources=("WL#9211, Key design point 1",),
        remedy=(
            "Before the server is restarted, find out whether the transaction's changes are in the"
            " data. If they are not, rebuild the server: never edit the table."
        ),
        verify=(not_executed("early"), GTID_TABLE),
        cases={
            "persisted_early": Case(
                "The GTID persister wrote {early:gtids}, which InnoDB had not committed.",
                "{written:gtids}",
                "journal",
                "without {early:gtids}",
                "WL#9211",
            ),
        },
    )
)

GTID_PERSISTED_IN_TIME = register(
    Rule(
        number=91,
        name="gtid_persisted_in_time",
        tier=3,
        scope="T",
        family=Family.GTID_TABLE,
        severity=Severity.WARNING,
        heals="data",
        claim=(
            "The GTID persister writes a GTID within a second of its commit or after 1024"
            " transactions, whichever is earlier; ten seconds are given to it here."
        ),
        why=(
            "Its thread wakes up by time and by number. While it does not, undo logs pile up"
            " because purge waits for it, and the next recovery has them all to read."
        ),
        undecided_when=(
            "the commit or the persister's next write was not observed, or no later answer shows"
            " that the clock was not set meanwhile"
        ),
        sources=("WL#9211, Key design points 2 and 3",),
        remedy=(
            "Look for what blocks the thread: a lock on mysql.gtid_executed, a full disk, a server"
            " that stands still. FLUSH LOCAL BINARY LOGS stores all logged GTIDs meanwhile."
        ),
        verify=(GTID_TABLE, not_executed("gtid")),
        cases={
            "persisted_late": Case(
                "{gtid} was committed {waited:seconds} before the GTID persister wrote again.",
                "{waited:seconds}",
                "journal",
                "about a second, at most {waited_max:seconds}",
                "WL#9211",
            ),
        },
    )
)

PENDING_MAX = 65536
LATE_US = 10_000_000
WRITES_UNTIL_ANCHORED = 2
"""Both lists may hold what was committed before the observation began."""


@dataclass(eq=False)
class GtidPersistence:
    """The GTID persister's promises: what it has written, and how far undo may be purged."""

    _reporter: Reporter = field(metadata=COLLABORATOR)
    _persister_steps: PersisterSteps = field(metadata=COLLABORATOR)
    _pending: dict[str, int] = field(default_factory=dict)
    """GTID to trx_no of transactions whose GTID is not in the table yet; 0: prepared."""
    _since: dict[str, int] = field(default_factory=dict)
    """GTID to the moment of its commit, in that order."""
    _trx_num_gtid: int = 0
    _collected: int = 0
    """The greatest number that a write of this boot had collected as the oldest active one."""
    _writes: int = 0
    """Writes since the observation began, as far as that matters."""
    _recovered: GtidSet = GtidSet.EMPTY
    """What the start found in undo logs: committed before, and maybe in the table by now."""
    forgotten: Forgotten = field(default_factory=Forgotten)
    """So many GTIDs waited that one was left out, which a write may yet have."""
    forgotten_gaps: Forgotten = field(default_factory=Forgotten)
    """So many gaps were between those written that some were dropped."""
    _is_late: bool = False
    """Whether it was reported that the oldest one waits too long."""
    _file: tuple[str, int, int] | None = None
    """Binary log file that the previous row named: base name, number, and the row's moment."""
    _persisted: PersistedGtids = field(default_factory=PersistedGtids)
    """What every later look at the table has to find."""
    may_lose_redo: bool = False
    """Whether a setting of this boot was such that a crash may take back what was committed."""

    def step(self, body: Mapping[str, Any], ts: int) -> None:
        """Take one ``gtid_persister`` record."""
        step = body["step"]
        self._persister_steps.took(step, ts)
        if step == "commit":
            self._ended(body["gtid"], self._judge_number(body, ts), ts)
        elif step == "prepare":
            self._ended(body["gtid"], 0, ts)
        elif step == "write":
            self._written(body, ts)
            self._moved(body, ts)
        elif step == "number":
            self._moved(body, ts)
        elif step == "purge":
            limit = body["trx_no"]
            self._judge_limit("purge_limit_passed", "purge limit", limit, ts)
            if not self.forgotten:
                self._persister_steps.purged(self._pending, limit, ts)
        elif step == "recover":
            self._forget()
            self._recovered = GtidSet.parse(body["gtids"])
            self._number_recovered(body.get("trx_num_gtid"))
            self._writes = WRITES_UNTIL_ANCHORED

    def _judge_number(self, body: Mapping[str, Any], ts: int) -> int:
        """The number to follow a commit by; 0 where a write has passed it, which is found once."""
        trx_no: int = body["trx_no"]
        if trx_no >= self._collected:
            return trx_no
        broken = Broken(
            "collected_passed",
            witness=f"oldest active transaction {self._collected}",
            at=f"gtid persister at {ts}",
            number=self._collected,
            oldest=trx_no,
            gtid=body["gtid"],
        )
        self._reporter.broken(PURGE_WAITS_FOR_GTID_PERSIST, broken)
        return 0

    def _number_recovered(self, number: object) -> None:
        """A start reads the number; a crash may have taken back what was not flushed."""
        if isinstance(number, int):
            self._trx_num_gtid = number
            self._persister_steps.numbered(number)

    def _ended(self, gtid: str, trx_no: int, ts: int) -> None:
        try:
            Gtid.parse(gtid)
        except GtidSetParseError:
            return
        if len(self._pending) >= PENDING_MAX:
            if self._writes or not self.forgotten:
                self._leave_out(gtid)
            self._writes = 0
            return
        self._pending[gtid] = trx_no
        self._since.setdefault(gtid, ts)
        self._judge_time(next(iter(self._since.items())), ts)

    def _leave_out(self, gtid: str) -> None:
        self.forgotten.drop(
            self._reporter,
            PURGE_WAITS_FOR_GTID_PERSIST,
            UNDO_PURGE_STEPS_COMPLETE,
            UNDO_GTIDS_RECOVERED,
            GTID_PERSISTED_AFTER_COMMIT,
            GTID_PERSISTED_IN_TIME,
            GTID_PERSISTER_STEPS_COMPLETE,
            what="GTIDs that are not in the table",
            kept=PENDING_MAX,
            at=gtid,
        )

    def _written(self, body: Mapping[str, Any], ts: int) -> None:
        written = GtidSet.parse(body["gtids"])
        known = {gtid: None for gtid in self._pending if gtid in written}
        oldest = next((item for item in self._since.items() if item[0] in known), None)
        if oldest is not None:
            self._judge_time(oldest, ts)
        early = GtidSet.EMPTY
        if self._writes < WRITES_UNTIL_ANCHORED:
            self._writes += 1
            if self._writes == WRITES_UNTIL_ANCHORED:
                self.forgotten = Forgotten()
        elif written.count() != len(known):
            early = written - GtidSet.parse(",".join(known)) - self._recovered
            if early:
                broken = Broken(
                    "persisted_early",
                    witness=written,
                    at=f"gtid persister at {ts}",
                    early=early,
                    written=written,
                )
                self._reporter.broken(GTID_PERSISTED_AFTER_COMMIT, broken)
        if not self._persisted.add(written - early, ts):
            self.forgotten_gaps.drop(
                self._reporter,
                gtid_table_has_closed_files,
                UNDO_GTIDS_RECOVERED,
                what="gaps between the GTIDs that were written",
                kept=INTERVALS_MAX,
                at=f"gtid persister at {ts}",
            )
        self._collected = max(self._collected, body.get("oldest_trx_no") or 0)
        left_out = self._persister_steps.written(self._pending, known, written, body, ts)
        for gtid in known:
            del self._pending[gtid]
        for gtid in (*known, *left_out):
            self._since.pop(gtid, None)
        self._is_late = False

    def time_anew(self, ts: int) -> None:
        """How long ago something was is not known: it counts from now on."""
        self._since = dict.fromkeys(self._since, ts)
        self._persisted.time_anew(ts)

    def passed(self, ts: int) -> None:
        """The journal has come to this moment: a persister that never writes shows nothing else."""
        oldest = next(iter(self._since.items()), None)
        if oldest is not None:
            self._judge_time(oldest, ts)

    def _judge_time(self, oldest: tuple[str, int], ts: int) -> None:
        gtid, since = oldest
        if ts - since <= LATE_US or self._is_late:
            return
        self._is_late = True
        waited = ts - since
        broken = Broken(
            "persisted_late",
            witness=f"{waited / 1e6:.3f} s",
            at=f"gtid persister at {ts}",
            gtid=gtid,
            waited=waited,
            waited_max=LATE_US,
        )
        self._reporter.broken(GTID_PERSISTED_IN_TIME, broken, excess_us=waited - LATE_US)

    def _moved(self, body: Mapping[str, Any], ts: int) -> None:
        """The number in the TRX_SYS page, if the record has it."""
        number = body.get("trx_num_gtid")
        if number is None:
            return
        if number < self._trx_num_gtid:
            broken = Broken(
                "trx_num_gtid_fell",
                witness=number,
                at=f"gtid persister at {ts}",
                number=number,
                previous=self._trx_num_gtid,
            )
            self._reporter.broken(PURGE_WAITS_FOR_GTID_PERSIST, broken)
        self._trx_num_gtid = number
        self._persister_steps.numbered(number)
        self._judge_limit("trx_num_gtid_passed", "TRX_SYS_TRX_NUM_GTID", number, ts)

    def _judge_limit(self, case: str, what: str, number: int, ts: int) -> None:
        numbered = [item for item in self._pending.items() if item[1]]
        if not numbered:
            return
        gtid, oldest = min(numbered, key=lambda item: item[1])
        if number > oldest:
            broken = Broken(
                case,
                witness=f"{what} {number}",
                at=f"gtid persister at {ts}",
                number=number,
                oldest=oldest,
                gtid=gtid,
            )
            self._reporter.broken(PURGE_WAITS_FOR_GTID_PERSIST, broken)

    # Starts

    @property
    def awaits_start(self) -> bool:
        """Whether the next start has to find something."""
        return bool(self._pending) or bool(self._persisted.all)

    def leave_out_others(self, logged: GtidSet) -> None:
        """A crash may have taken the end of the binary log: what is not seen in it may be gone."""
        self._pending = {gtid: number for gtid, number in self._pending.items() if gtid in logged}
        self._persisted.remove(self._persisted.all - logged)

    def started(self, body: Mapping[str, Any], ts: int, *, crashed: bool, gone: GtidSet) -> None:
        """Judge what a start found.

        Args:
            body: Of the ``start`` record.
            ts: Its moment.
            crashed: Whether the previous boot may have ended without a clean stop.
            gone: GTIDs that the crash took out of the binary log: their transactions are gone too.
        """
        table, undo = body.get("gtid_executed_table"), body.get("undo_gtids")
        has_read = isinstance(table, str) and (isinstance(undo, str) or not crashed)
        self._persisted.remove(gone)
        if self.awaits_start and has_read:
            self._judge_found(f"{table},{undo or ''}", ts, gone)
        self._forget()
        self._persisted.started()
        self.forgotten_gaps = Forgotten()
        self.may_lose_redo = False
        self._persister_steps.started(tells_undo=isinstance(undo, str))

    def _judge_found(self, text: str, ts: int, gone: GtidSet) -> None:
        try:
            found = GtidSet.parse(text)
        except GtidSetParseError:
            return
        known = found | gone
        missing = GtidSet.parse(",".join(gtid for gtid in self._pending if gtid not in known))
        missing |= self._persisted.all - known
        if missing:
            self._persisted.remove(missing)
            broken = Broken(
                "gtids_not_recovered",
                witness=found,
                at=f"start at {ts}",
                missing=missing,
                found=found,
            )
            self._reporter.broken(UNDO_GTIDS_RECOVERED, broken)

    # Rows

    def gtid_table(
        self,
        state: ServerState,
        requested_at: object,
        surely_at: int | None,
        previous: Mapping[str, GtidSet],
    ) -> GtidTable:
        """The table of a row beside the file that the previous row named, and what was persisted.

        Args:
            state: The row.
            requested_at: When the row was asked for, if that is known.
            surely_at: A moment before which the table was not read, by any clock, if one is known.
            previous: Previous_gtids of the binary log's files, by their names.
        """
        last, position = self._file, state.position
        names_later_file = (
            last is not None
            and position is not None
            and position.base_name == last[0]
            and position.file_number >= last[1]
        )
        return GtidTable(
            state.gtid_table,
            state.executed,
            None if last is None else previous.get(format_log_file_name(*last[:2])),
            is_read_later=last is not None
            and isinstance(requested_at, int)
            and requested_at >= last[2],
            names_later_file=names_later_file,
            persisted=self._persisted.before(surely_at),
        )

    def table_read(self, state: ServerState, surely_at: int | None, ts: int) -> None:
        """A row may show that the table has what was dropped.

        Args:
            state: The row.
            surely_at: As of ``gtid_table``.
            ts: The row's moment.
        """
        table, executed = state.gtid_table, state.executed
        if not self.forgotten_gaps or table is None or executed is None:
            return
        if self._persisted.found(table, executed, surely_at, ts):
            self.forgotten_gaps = Forgotten()

    def row_read(self, position: LogCoordinates | None, ts: int) -> None:
        """Remember the file that a row names."""
        if position is not None:
            self._file = (position.base_name, position.file_number, ts)

    # What ends an observation

    def _forget(self) -> None:
        self._pending = {}
        self._recovered = GtidSet.EMPTY
        self._since = {}
        self._collected = 0
        self._writes = 0
        self.forgotten = Forgotten()
        self._is_late = False

    def interrupted(self) -> None:
        """Lost records, or a crash that may take back redo, make what was known unknown."""
        self._forget()
        self._trx_num_gtid = 0
        self._file = None
        self._persisted, self.forgotten_gaps = PersistedGtids(), Forgotten()
        self._persister_steps.forget()

    def reset(self) -> None:
        """RESET empties the table, and no earlier transaction belongs into it."""
        writes = self._writes
        self._forget()
        self._writes = writes
        self._file = None
        self._persisted, self.forgotten_gaps = PersistedGtids(), Forgotten()

    def begin_data_lineage(self) -> None:
        """Another data directory has its own transaction numbers."""
        self.interrupted()
