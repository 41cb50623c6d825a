"""Judging how InnoDB keeps the GTIDs of one instance (WL#9211, F-7 and key points 1 to 4)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.rules.clone import PURGE_WAITS_FOR_GTID_PERSIST
from tallystick.coordinates.rules.gtid_persistence import (
    GTID_PERSISTED_AFTER_COMMIT,
    GTID_PERSISTED_IN_TIME,
    GTID_TABLE_HAS_CLOSED_FILES,
    UNDO_GTIDS_RECOVERED,
)
from tallystick.coordinates.rules.judging.step_judge import StepJudge
from tallystick.coordinates.values.binlog import LogCoordinates
from tallystick.coordinates.values.errors import GtidSetParseError
from tallystick.coordinates.values.gtid import Gtid, GtidSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallystick.coordinates.audit.row_evidence import Row

PENDING_MAX = 65536
LATE_US = 10_000_000
WRITES_UNTIL_ANCHORED = 2
"""Both lists may hold what was committed before the observation began."""


@dataclass(eq=False)
class GtidPersistence(StepJudge):
    """The GTID persister's promises: what it has written, and how far undo may be purged."""

    _pending: dict[str, int] = field(default_factory=dict)
    """GTID to trx_no of transactions whose GTID is not in the table yet; 0: prepared."""
    _since: dict[str, int] = field(default_factory=dict)
    """GTID to the moment of its commit, in that order."""
    _trx_num_gtid: int = 0
    _writes: int = 0
    """Writes since the observation began, as far as that matters."""
    _is_late: bool = False
    """Whether it was told that the oldest one waits too long."""
    _file: tuple[str, int, int] | None = None
    """Binary log file that the row before named: base name, number, and the row's moment."""

    def step(self, body: Mapping[str, Any], ts: int) -> None:
        """Take one ``gtid_persister`` record."""
        step = body.get("step")
        trx_no = body.get("trx_no")
        if step == "commit" and isinstance(trx_no, int):
            self._ended(str(body.get("gtid")), trx_no, ts)
        elif step == "prepare":
            self._ended(str(body.get("gtid")), 0, ts)
        elif step == "write":
            self._written(body, ts)
            self._moved(body, ts)
        elif step == "number":
            self._moved(body, ts)
        elif step == "purge" and isinstance(trx_no, int):
            self._judge_limit("purge limit", trx_no, ts)
        elif step == "recover":
            self._forget()
            self._writes = WRITES_UNTIL_ANCHORED

    def _ended(self, gtid: str, trx_no: int, ts: int) -> None:
        try:
            Gtid.parse(gtid)
        except GtidSetParseError:
            return
        if len(self._pending) >= PENDING_MAX:
            self._writes = 0
            return
        self._pending[gtid] = trx_no
        self._since.setdefault(gtid, ts)
        self._judge_time(next(iter(self._since.items())), ts)

    def _written(self, body: Mapping[str, Any], ts: int) -> None:
        gtids = body.get("gtids") or ""
        try:
            written = GtidSet.parse(gtids if isinstance(gtids, str) else ",".join(gtids))
        except (GtidSetParseError, TypeError):
            # Which of them are in the table now is unknown.
            self._forget()
            return
        known = [gtid for gtid in self._pending if gtid in written]
        oldest = next((item for item in self._since.items() if item[0] in written), None)
        if oldest is not None:
            self._judge_time(oldest, ts)
        if self._writes < WRITES_UNTIL_ANCHORED:
            self._writes += 1
        elif written.count() != len(known):
            self._report_early(written, known, ts)
        for gtid in known:
            del self._pending[gtid]
            self._since.pop(gtid, None)
        self._is_late = False

    def _report_early(self, written: GtidSet, known: list[str], ts: int) -> None:
        excess = written - GtidSet.parse(",".join(known))
        self.report(
            GTID_PERSISTED_AFTER_COMMIT,
            f"gtid persister at {ts}",
            f"The GTID persister wrote {excess.first(3)}, whose transaction InnoDB had not "
            "committed.",
            str(written),
            f"without {excess.first(10)}",
            "WL#9211",
        )

    def _judge_time(self, oldest: tuple[str, int], ts: int) -> None:
        gtid, since = oldest
        if ts - since <= LATE_US or self._is_late:
            return
        self._is_late = True
        self.report(
            GTID_PERSISTED_IN_TIME,
            f"gtid persister at {ts}",
            f"{gtid} was committed {(ts - since) / 1e6:.1f} s before the GTID persister wrote "
            "again.",
            f"{ts - since} µs",
            f"about 1000000 µs, at most {LATE_US} µs",
            "WL#9211",
        )

    def _moved(self, body: Mapping[str, Any], ts: int) -> None:
        """The number in the TRX_SYS page, if the record tells it."""
        number = body.get("trx_num_gtid")
        if not isinstance(number, int):
            return
        if number < self._trx_num_gtid:
            self.report(
                PURGE_WAITS_FOR_GTID_PERSIST,
                f"gtid persister at {ts}",
                f"TRX_SYS_TRX_NUM_GTID fell from {self._trx_num_gtid} to {number}.",
                str(number),
                f"at least {self._trx_num_gtid}",
                "WL#9211",
            )
        self._trx_num_gtid = number
        self._judge_limit("TRX_SYS_TRX_NUM_GTID", number, ts)

    def _judge_limit(self, what: str, number: int, ts: int) -> None:
        numbered = [item for item in self._pending.items() if item[1]]
        if not numbered:
            return
        gtid, oldest = min(numbered, key=lambda item: item[1])
        if number > oldest:
            self.report(
                PURGE_WAITS_FOR_GTID_PERSIST,
                f"gtid persister at {ts}",
                f"The {what} {number} passed transaction {oldest}, whose GTID {gtid} is not in "
                "mysql.gtid_executed yet.",
                f"{what} {number}",
                f"at most {oldest}",
                "WL#9211",
            )

    # Starts

    @property
    def awaits_start(self) -> bool:
        """Whether the next start has to find something."""
        return bool(self._pending)

    def started(self, body: Mapping[str, Any], ts: int, *, crashed: bool, gone: GtidSet) -> None:
        """Judge what a start found.

        Args:
            body: Of the ``start`` record.
            ts: Its moment.
            crashed: Whether the boot before may have ended without a clean stop.
            gone: GTIDs that the crash took out of the binary log: their transactions are gone too.
        """
        table, undo = body.get("gtid_executed_table"), body.get("undo_gtids")
        is_told = isinstance(table, str) and (isinstance(undo, str) or not crashed)
        if self._pending and is_told:
            self._judge_found(f"{table},{undo or ''}", ts, gone)
        self._forget()

    def _judge_found(self, text: str, ts: int, gone: GtidSet) -> None:
        try:
            found = GtidSet.parse(text) | gone
        except GtidSetParseError:
            return
        missing = GtidSet.parse(",".join(gtid for gtid in self._pending if gtid not in found))
        if missing:
            self.report(
                UNDO_GTIDS_RECOVERED,
                f"start at {ts}",
                f"InnoDB had committed {missing.first(3)}; the start found its GTID neither in "
                "mysql.gtid_executed nor in undo logs.",
                str(found),
                f"with {missing.first(10)}",
                "WL#9211",
            )

    # Rows

    def judge_table(self, row: Row) -> None:
        """Judge the table against the file that the row before named."""
        before, state = self._file, row.state
        position = state.position
        requested_at = row.body.get("requested_at")
        if state.gtid_table is None or state.executed is None:
            reason = "mysql.gtid_executed or gtid_executed was not read"
        elif before is None or (closed := row.binlog.previous.get(before[1])) is None:
            reason = "the row before named no file whose Previous_gtids are known"
        elif not isinstance(requested_at, int) or requested_at < before[2]:
            reason = "it is not known that the table was read after the row before"
        elif (
            position is None
            or not before[:2] <= _place(position)
            or (position.base_name != before[0])
        ):
            reason = "the row names no file, or an older one than the row before"
        else:
            self._judge_closed(row, (closed & state.executed) - state.gtid_table)
            reason = ""
        if reason:
            row.judgement.undecided(GTID_TABLE_HAS_CLOSED_FILES, reason)
        if position is not None:
            self._file = (*_place(position), row.ts)

    def _judge_closed(self, row: Row, missing: GtidSet) -> None:
        if not missing:
            row.judgement.holds(GTID_TABLE_HAS_CLOSED_FILES)
            return
        row.judgement.broken(
            GTID_TABLE_HAS_CLOSED_FILES,
            sentence=f"mysql.gtid_executed lacks {missing.first(3)} of a binary log file that was "
            "closed before.",
            observed=row.state.gtid_table,
            observed_in="mysql.gtid_executed",
            expected=f"with {missing.first(10)}",
            expected_in="Previous_gtids of the file that the row before named",
            witness=missing.first(10),
        )

    # What ends an observation

    def _forget(self) -> None:
        self._pending = {}
        self._since = {}
        self._writes = 0
        self._is_late = False

    def interrupted(self) -> None:
        """Lost records make the pending transactions unknown."""
        self._forget()
        self._file = None

    def reset(self) -> None:
        """RESET empties the table, and no transaction of before belongs into it."""
        writes = self._writes
        self._forget()
        self._writes = writes
        self._file = None

    def begin_data_lineage(self) -> None:
        """Another data directory has its own transaction numbers."""
        self._forget()
        self._trx_num_gtid = 0
        self._file = None


def _place(position: LogCoordinates) -> tuple[str, int]:
    return position.base_name, position.file_number
