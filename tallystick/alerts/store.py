"""The queue of alerts, and which incidents have been alerted: one SQLite file.

A change of an incident is taken once, however often its micro-batch is done again, and becomes a
delivery for each sink. A delivery is recorded after the sink took it; an attempt is recorded before
it is made, so that one whose end was not seen is known as such.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple, final

from tallystick.alerts.alert import ACKNOWLEDGED, FIRING, GROWN, RESOLVED, Alert, now_us
from tallystick.coordinates.values.checksum import checksum
from tallystick.errors import MisuseError

KEPT_US = 35 * 86_400 * 1_000_000
"""So long it is known what was alerted and delivered."""
_VERSION = 2
_BUSY_S = 5.0
_TABLES = """
CREATE TABLE incidents (
    incident_id TEXT PRIMARY KEY, is_open INTEGER NOT NULL, is_firing INTEGER NOT NULL,
    step INTEGER NOT NULL, alert TEXT NOT NULL, changed_us INTEGER NOT NULL, checksum INTEGER
) WITHOUT ROWID;
CREATE TABLE changes (
    change_id TEXT PRIMARY KEY, taken_us INTEGER NOT NULL, checksum INTEGER
) WITHOUT ROWID;
CREATE TABLE deliveries (
    number INTEGER PRIMARY KEY AUTOINCREMENT, sink TEXT NOT NULL, label TEXT NOT NULL,
    incident_id TEXT NOT NULL, alert TEXT NOT NULL, queued_us INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0, error TEXT, outcome TEXT, done_us INTEGER,
    checksum INTEGER
);
CREATE INDEX waiting ON deliveries (sink, number) WHERE outcome IS NULL;
CREATE INDEX of_incident ON deliveries (incident_id, sink);
"""

_COLUMNS = {
    "incidents": "incident_id, is_open, is_firing, step, alert, changed_us",
    "changes": "change_id, taken_us",
    "deliveries": (
        "number, sink, label, incident_id, alert, queued_us, attempts, error, outcome, done_us"
    ),
}
"""Of each table, what the checksum of a row is of; the first is its key."""
_TRIGGERS = "".join(
    f"CREATE TRIGGER {table}_{event} AFTER {change} ON {table} BEGIN"  # noqa: S608
    f" UPDATE {table} SET checksum = checksum_of({columns})"
    f" WHERE {columns.split(',')[0]} = NEW.{columns.split(',')[0]}; END;\n"
    for table, columns in _COLUMNS.items()
    for event, change in (("inserted", "INSERT"), ("updated", f"UPDATE OF {columns}"))
)

SENT, MERGED, DROPPED = "sent", "merged", "dropped"
"""What becomes of a delivery: it was taken; a later one of its incident has what it would say, and
the queue was full; it was given up."""


_MERGE = """
UPDATE deliveries SET outcome = ?, done_us = ? WHERE number IN (
    SELECT number FROM deliveries AS one
    WHERE sink = ? AND outcome IS NULL AND number NOT IN (SELECT value FROM json_each(?))
    AND EXISTS (
        SELECT 1 FROM deliveries AS later
        WHERE later.incident_id = one.incident_id AND later.sink = one.sink
        AND later.outcome IS NULL AND later.number > one.number
    )
    ORDER BY number LIMIT ?
)"""
_DROP = """
UPDATE deliveries SET outcome = ?, done_us = ? WHERE number IN (
    SELECT number FROM deliveries
    WHERE sink = ? AND outcome IS NULL AND number NOT IN (SELECT value FROM json_each(?))
    ORDER BY number LIMIT ?
)"""


class Delivery(NamedTuple):
    """An alert that waits for a sink."""

    number: int
    alert: Alert
    attempts: int
    queued_us: int


class DeliveryRow(NamedTuple):
    """A delivery as it is shown to people."""

    label: str
    alert: Alert
    attempts: int
    error: str | None
    outcome: str | None
    queued_us: int
    done_us: int | None


class _Known(NamedTuple):
    is_open: bool
    is_firing: bool
    step: int


_UNKNOWN = _Known(is_open=False, is_firing=False, step=-1)


def step_of(count: int, growth: int) -> int:
    """How often a count has grown by the factor since it was 1."""
    step = 0
    while count >= growth:
        count //= growth
        step += 1
    return step


@final
class AlertStore:
    """The file; every method may be called from any thread.

    Args:
        path: The file; made when missing. What cannot be read is set aside as ``.damaged``.
        growth: An incident is alerted again when its count has grown by this factor.
        queue_max: So many deliveries wait for one sink at most.
        notice: Takes a line for people.

    Attributes:
        was_damaged: The file was: what it knew is lost.
    """

    def __init__(
        self, path: Path, *, growth: int, queue_max: int, notice: Callable[[str], None]
    ) -> None:
        self._growth = growth
        self._queue_max = queue_max
        self._lock = threading.RLock()
        self._under_way: set[int] = set()
        self.was_damaged = False
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._db = _opened(path)
        except sqlite3.DatabaseError as error:
            # A schema that cannot be parsed is an operational error, too.
            is_in_use = any(word in str(error) for word in ("locked", "unable", "readonly", "I/O"))
            if isinstance(error, sqlite3.OperationalError) and is_in_use:
                raise
            self.was_damaged = True
            path.replace(path.with_name(path.name + ".damaged"))
            for rest in ("-wal", "-shm"):
                path.with_name(path.name + rest).unlink(missing_ok=True)
            notice(f"the queue of alerts, {str(path)!r}, is damaged and begins anew: {error}")
            self._db = _opened(path)
        with self._transaction() as db:
            limit = now_us() - KEPT_US
            db.execute("DELETE FROM changes WHERE taken_us < ?", (limit,))
            db.execute("DELETE FROM incidents WHERE NOT is_open AND changed_us < ?", (limit,))
            db.execute(
                "DELETE FROM deliveries WHERE done_us < ? AND incident_id NOT IN"
                " (SELECT incident_id FROM incidents WHERE is_open)",
                (limit,),
            )

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()

    def take(
        self,
        changes: Sequence[Alert],
        sinks: Iterable[tuple[str, str, bool]],
    ) -> int:
        """Queue what is to be alerted of changes, those that were taken already left out.

        Args:
            changes: Each as an alert, in their order.
            sinks: Key and label of each, and whether it keeps an alert's state.

        Returns:
            How many deliveries were dropped, as too many wait.
        """
        last = {change["incident_id"]: change["kind"] for change in changes}
        # What was acknowledged before it could be alerted (a job that begins anew) is not.
        known_by_now = {name for name, kind in last.items() if kind == ACKNOWLEDGED}
        sinks, now = list(sinks), now_us()
        with self._transaction() as db:
            for change in changes:
                if change["kind"] == GROWN or self._is_new(change["alert_id"], now):
                    self._take_one(change, sinks, known_by_now, now)
            return sum(self._make_room(db, key, now) for key, _, _ in sinks)

    def _is_new(self, change_id: str, now: int) -> bool:
        made = self._db.execute(
            "INSERT OR IGNORE INTO changes (change_id, taken_us) VALUES (?, ?)", (change_id, now)
        )
        return made.rowcount == 1

    def _take_one(
        self,
        alert: Alert,
        sinks: Sequence[tuple[str, str, bool]],
        known_by_now: set[str],
        now: int,
    ) -> None:
        name, kind = alert["incident_id"], alert["kind"]
        row = self._db.execute(
            "SELECT is_open, is_firing, step FROM incidents WHERE incident_id = ?",
            (name,),
        ).fetchone()
        known = _UNKNOWN if row is None else _Known(bool(row[0]), bool(row[1]), row[2])
        is_firing, is_open = alert["status"] == FIRING, alert["status"] != RESOLVED
        step = step_of(alert["count"], self._growth)
        if kind == GROWN and row is not None and not known.is_firing:
            return  # acknowledged, or of a micro-batch that is done again: it has ended since
        is_due = is_firing and name not in known_by_now
        is_due = is_due and (not known.is_firing or step > known.step)
        is_over = not is_open and known.is_open
        is_acknowledged = kind == ACKNOWLEDGED and known.is_firing
        for key, label, keeps_state in sinks:
            is_notified = keeps_state or (is_over and self._was_alerted(key, name))
            if is_due or (is_notified and (is_over or is_acknowledged)):
                self._db.execute(
                    "INSERT INTO deliveries (sink, label, incident_id, alert, queued_us)"
                    " VALUES (?, ?, ?, ?, ?)",
                    (key, label, name, json.dumps(alert), now),
                )
        self._db.execute(
            f"INSERT OR REPLACE INTO incidents ({_COLUMNS['incidents']})"  # noqa: S608
            " VALUES (?, ?, ?, ?, ?, ?)",
            (
                name,
                is_open,
                is_firing and (is_due or known.is_firing),
                step if is_due else known.step,
                json.dumps(alert),
                now,
            ),
        )

    def _was_alerted(self, sink: str, incident_id: str) -> bool:
        found = self._db.execute(
            "SELECT 1 FROM deliveries WHERE incident_id = ? AND sink = ? LIMIT 1",
            (incident_id, sink),
        )
        return found.fetchone() is not None

    def _make_room(self, db: sqlite3.Connection, sink: str, now: int) -> int:
        too_many = self.waiting(sink) - self._queue_max
        if too_many <= 0:
            return 0
        held = json.dumps(list(self._under_way))
        merged = db.execute(_MERGE, (MERGED, now, sink, held, too_many)).rowcount
        if merged >= too_many:
            return 0
        return db.execute(_DROP, (DROPPED, now, sink, held, too_many - merged)).rowcount

    # For who delivers

    def next(self, sink: str, held: Iterable[str]) -> Delivery | None:
        """The oldest delivery that waits, of an incident that is not held back.

        So those of one incident are made in their order. That it is attempted is recorded.
        """
        with self._transaction() as db:
            row = db.execute(
                "SELECT number, alert, attempts, queued_us FROM deliveries"
                " WHERE sink = ? AND outcome IS NULL"
                " AND incident_id NOT IN (SELECT value FROM json_each(?))"
                " ORDER BY number LIMIT 1",
                (sink, json.dumps(list(held))),
            ).fetchone()
            if row is None:
                return None
            db.execute("UPDATE deliveries SET attempts = attempts + 1 WHERE number = ?", (row[0],))
            self._under_way.add(row[0])
        return Delivery(row[0], json.loads(row[1]), row[2] + 1, row[3])

    def failed(self, delivery: Delivery, error: str) -> None:
        """An attempt failed; there will be another."""
        with self._transaction() as db:
            db.execute("UPDATE deliveries SET error = ? WHERE number = ?", (error, delivery.number))
            self._under_way.discard(delivery.number)

    def done(self, delivery: Delivery, outcome: str, error: str | None = None) -> None:
        """A delivery was made, or given up."""
        with self._transaction() as db:
            db.execute(
                "UPDATE deliveries SET outcome = ?, done_us = ?, error = coalesce(?, error)"
                " WHERE number = ?",
                (outcome, now_us(), error, delivery.number),
            )
            self._under_way.discard(delivery.number)

    def forget_other_sinks(self, sinks: Iterable[str]) -> int:
        """Drop what waits for sinks that are not asked for any more; returns how many."""
        with self._transaction() as db:
            return db.execute(
                "UPDATE deliveries SET outcome = ?, done_us = ? WHERE outcome IS NULL"
                " AND sink NOT IN (SELECT value FROM json_each(?))",
                (DROPPED, now_us(), json.dumps(list(sinks))),
            ).rowcount

    def firing(self) -> list[Alert]:
        """The newest alert of each incident that is open, alerted and not acknowledged."""
        with self._lock:
            rows = self._db.execute(
                "SELECT alert FROM incidents WHERE is_firing ORDER BY incident_id"
            ).fetchall()
        return [json.loads(text) for (text,) in rows]

    def open(self) -> list[Alert]:
        """The newest alert of each incident that is not over."""
        with self._lock:
            return _open_in(self._db)

    def waiting(self, sink: str) -> int:
        """How many deliveries wait for a sink."""
        with self._lock:
            found = self._db.execute(
                "SELECT count(*) FROM deliveries WHERE sink = ? AND outcome IS NULL", (sink,)
            )
            return int(found.fetchone()[0])

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._db:
            self._db.execute("BEGIN IMMEDIATE")
            yield self._db


def _opened(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        db.create_function("checksum_of", -1, _checksum_of, deterministic=True)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if version == 0:
            db.executescript(
                f"BEGIN; {_TABLES} {_TRIGGERS} PRAGMA user_version = {_VERSION}; COMMIT;"
            )
            version = _VERSION
        _compare(db, version)
    except BaseException:
        db.close()
        raise
    return db


def _compare(db: sqlite3.Connection, version: int) -> None:
    """Compare every row with its checksum.

    Raises:
        sqlite3.DatabaseError: One has changed, the file is damaged, or of another version.
    """
    if version != _VERSION:
        raise sqlite3.DatabaseError(f"version {version}, expected {_VERSION}")
    (found,) = db.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise sqlite3.DatabaseError(found)
    for table, columns in _COLUMNS.items():
        changed = db.execute(
            f"SELECT {columns.split(',')[0]} FROM {table}"  # noqa: S608  names of this module
            f" WHERE checksum IS NOT checksum_of({columns}) LIMIT 1"
        ).fetchone()
        if changed is not None:
            raise sqlite3.DatabaseError(f"row {changed[0]!r} of {table} is not as it was written")


def _checksum_of(*values: float | str | None) -> int:
    return checksum(repr(values).encode("utf-8", "backslashreplace"))


def _open_in(db: sqlite3.Connection) -> list[Alert]:
    rows = db.execute("SELECT alert FROM incidents WHERE is_open ORDER BY incident_id").fetchall()
    return [json.loads(text) for (text,) in rows]


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A file that a job may be writing.

    Raises:
        MisuseError: It is not there, or no such file, or damaged.
    """
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
            yield db
    except (sqlite3.Error, ValueError) as error:
        raise MisuseError(f"the queue of alerts, {str(path)!r}, cannot be read: {error}") from error


def read_open(path: Path) -> list[Alert]:
    """The newest alert of each incident of a file that is not over.

    Raises:
        MisuseError: It is not there, or no such file, or damaged.
    """
    with _reading(path) as db:
        return _open_in(db)


def read_deliveries(path: Path, limit: int, incident_id: str | None = None) -> list[DeliveryRow]:
    """The newest deliveries of a file, the newest first.

    Args:
        path: The file.
        limit: So many at most.
        incident_id: Only those of this incident; None: of all.

    Raises:
        MisuseError: It is not there, or no such file, or damaged.
    """
    with _reading(path) as db:
        rows = db.execute(
            "SELECT label, alert, attempts, error, outcome, queued_us, done_us FROM deliveries"
            " WHERE ?1 IS NULL OR incident_id = ?1 ORDER BY number DESC LIMIT ?2",
            (incident_id, limit),
        ).fetchall()
        return [DeliveryRow(row[0], json.loads(row[1]), *row[2:]) for row in rows]
