"""Judging how backups freeze a server (invariants 55-59: WL#3576 and Percona's backup locks)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinates.binlog import LogCoordinates
from coordinates.invariants.backup import (
    BACKUP_LOCKS_FREEZE_SCOPE,
    ENGINE_LOCK_BUDGET,
    TRX_SYS_COORDS_FRESH_UNDER_LOCK,
    VP_ONLY_IN_EMPTY_CLOSED_ZONE,
    ZONE_ENTRY_PROTOCOL,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coordinates.invariants._registry import Invariant
    from coordinates.judging.judgement import Judgement
    from coordinates.log_status import ServerState
    from coordinates.reporter import Reporter

ENGINE_BUDGET_US = 2_000_000
RETRY_PAUSE_US = 10_000_000
_TRANSACTIONAL = frozenset({"innodb", "rocksdb", "ndb"})


class BackupProtocol:
    """The commit zone, the engine locks and the backup locks of one instance."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._zone = "UNKNOWN"
        self._tickets: list[str] = []
        self._knows_tickets = False
        """Whether every ticket inside the zone was seen to be handed out."""
        self._round_began: int | None = None
        self._gave_up_at: int | None = None
        self._locks: dict[str, str | None] = {}
        """Lock to the binary log coordinate at its taking, as text, None unknown."""

    # Commit zone

    def zone(self, body: Mapping[str, Any], ts: int) -> None:
        """Take one ``zone`` record."""
        step, ticket = body.get("step"), str(body.get("ticket"))
        at = f"zone {step} {ticket}" if "ticket" in body else f"zone {step} at {ts}"
        if step == "close":
            if self._zone == "CLOSED":
                self._report_zone(at, "The zone was closed twice.", "close", "an open zone")
            self._zone = "CLOSED"
        elif step == "open":
            if self._zone == "OPEN":
                self._report_zone(at, "The zone was opened without being closed.", "open", "close")
            self._zone = "OPEN"
        elif step == "enter":
            if self._zone == "CLOSED":
                self._report_zone(
                    at,
                    f"Ticket {ticket} was handed out while the zone was closed.",
                    f"enter, ticket {ticket}",
                    "no enter until open",
                )
            self._tickets.append(ticket)
        elif step == "drop":
            if ticket in self._tickets:
                self._tickets.remove(ticket)
            elif self._knows_tickets:
                self._report_zone(
                    at,
                    f"Ticket {ticket} was dropped without being held.",
                    f"drop, ticket {ticket}",
                    "each ticket dropped exactly once",
                )
        elif step == "validity_point":
            self._validity_point(at)

    def _report_zone(self, at: str, sentence: str, observed: str, expected: str) -> None:
        self._report(ZONE_ENTRY_PROTOCOL, at, sentence, observed, expected, "Critical Zone API")

    def _validity_point(self, at: str) -> None:
        inside = len(self._tickets)
        self._knows_tickets = True
        if self._zone == "OPEN" or inside:
            self._report(
                VP_ONLY_IN_EMPTY_CLOSED_ZONE,
                at,
                f"The validity point was taken while the zone was {self._zone.lower()} with "
                f"{inside} tickets held.",
                f"{self._zone.lower()}, {inside} tickets",
                "closed, 0 tickets",
                "Solution with a critical zone",
            )

    # Engine locks

    def engine_lock(self, body: Mapping[str, Any], ts: int) -> None:
        """Take one ``engine_lock`` record."""
        step = body.get("step")
        at = f"engine locks at {ts}"
        if step in ("begin", "retry"):
            if self._gave_up_at is not None and ts - self._gave_up_at < RETRY_PAUSE_US:
                pause = ts - self._gave_up_at
                self._report_engines(
                    at,
                    f"Engine locking was retried {pause / 1e6:.1f} s after it gave up.",
                    f"{pause} µs",
                    f"at least {RETRY_PAUSE_US} µs",
                )
            self._gave_up_at = None
            self._round_began = ts
        elif step in ("lock", "done") and self._round_began is not None:
            spent = ts - self._round_began
            if spent > ENGINE_BUDGET_US:
                engine = body.get("engine", "the last engine")
                self._report_engines(
                    at,
                    f"Engine locking went on with {engine} after {spent / 1e6:.1f} s.",
                    f"{spent} µs",
                    f"at most {ENGINE_BUDGET_US} µs for all engines",
                )
                self._round_began = None
        elif step in ("unlock_all", "abort"):
            self._gave_up_at = ts
            self._round_began = None

    def _report_engines(self, at: str, sentence: str, observed: str, expected: str) -> None:
        self._report(
            ENGINE_LOCK_BUDGET, at, sentence, observed, expected, "WL#3576, engine locking"
        )

    # Backup locks

    def backup_lock(self, body: Mapping[str, Any], position: LogCoordinates | None) -> None:
        """Take one ``backup_lock`` record; ``position``: end of the binary log in the journal."""
        lock = str(body.get("lock"))
        if body.get("step") == "lock":
            self._locks[lock] = None if position is None else str(position)
        else:
            self._locks.pop(lock, None)

    def statement(self, body: Mapping[str, Any], ts: int) -> None:
        """Take one ``statement`` record: a change the binary log does not show."""
        engine = str(body.get("engine", "")).lower()
        self.changed(
            engine not in _TRANSACTIONAL and body.get("type", "dml") == "dml",
            body.get("type") == "ddl",
            f"a {engine} {body.get('type', 'dml')}",
            f"statement at {ts}",
        )

    def changed(self, is_non_transactional: bool, is_ddl: bool, what: str, at: str) -> None:
        """Data changed: under the tables lock only transactional DML may go on."""
        if "tables" in self._locks and (is_non_transactional or is_ddl):
            self._report(
                BACKUP_LOCKS_FREEZE_SCOPE,
                at,
                f"Under LOCK TABLES FOR BACKUP {what} was executed.",
                what,
                "no non-transactional change and no DDL",
                "LOCK TABLES FOR BACKUP",
            )

    @property
    def freezes_coordinates(self) -> bool:
        """Whether LOCK BINLOG FOR BACKUP is held."""
        return "binlog" in self._locks

    @property
    def freezes_tables(self) -> bool:
        """Whether LOCK TABLES FOR BACKUP is held."""
        return "tables" in self._locks

    def coordinates_moved(self, what: str, at: str) -> None:
        """P, Rd or Ex moved: not under the binlog lock."""
        if self.freezes_coordinates:
            self._report(
                BACKUP_LOCKS_FREEZE_SCOPE,
                at,
                f"Under LOCK BINLOG FOR BACKUP {what}.",
                what,
                "frozen coordinates",
                "LOCK BINLOG FOR BACKUP",
            )

    def judge_row(self, state: ServerState, is_backup_safe: bool, judgement: Judgement) -> None:
        """Judge the InnoDB header's coordinates of a row taken under the tables lock."""
        rule = TRX_SYS_COORDS_FRESH_UNDER_LOCK
        if not is_backup_safe or "tables" not in self._locks:
            return
        locked_at = self._locks["tables"]
        if locked_at is None or state.trx_sys is None:
            judgement.undecided(
                rule, "the coordinates of the InnoDB header or of the lock are unknown"
            )
            return
        header = state.trx_sys
        name, _, offset = locked_at.rpartition(":")
        locked = LogCoordinates.of_file(name, int(offset))
        # InnoDB commits go on under the lock and move the header further.
        if header.base_name == locked.base_name and header >= locked:
            judgement.holds(rule)
            return
        judgement.broken(
            rule,
            sentence=f"Under LOCK TABLES FOR BACKUP the InnoDB header says {header}, but the lock "
            f"was taken at {locked}.",
            observed=header,
            observed_in="TRX_SYS page",
            expected=f"at least {locked}",
            expected_in="binary log when the lock was taken",
            witness=header,
        )

    def _report(
        self,
        rule: Invariant,
        at: str,
        sentence: str,
        *halves: str,
    ) -> None:
        """Tell a finding; ``halves``: observed, expected, and where that is written."""
        observed, expected, expected_in = halves
        self._reporter.broken(
            rule,
            at=at,
            sentence=sentence,
            observed=observed,
            observed_in="journal",
            expected=expected,
            expected_in=expected_in,
            witness=observed,
        )

    def interrupted(self, *, records_lost: bool) -> None:
        """The server ended and its locks and tickets are gone, or they are not known any more."""
        self._zone = "UNKNOWN" if records_lost else "OPEN"
        self._tickets = []
        self._knows_tickets = not records_lost
        self._round_began = None
        self._gave_up_at = None
        self._locks = {}

    def dump(self) -> dict[str, Any]:
        """For the state bytes."""
        return {
            "zone": self._zone,
            "tickets": self._tickets,
            "knows_tickets": self._knows_tickets,
            "round_began": self._round_began,
            "gave_up_at": self._gave_up_at,
            "locks": self._locks,
        }

    def load(self, document: Mapping[str, Any]) -> None:
        """Inverse of ``dump``."""
        self._zone = document["zone"]
        self._tickets = list(document["tickets"])
        self._knows_tickets = document["knows_tickets"]
        self._round_began = document["round_began"]
        self._gave_up_at = document["gave_up_at"]
        self._locks = dict(document["locks"])
