"""Clients that write on the lab's sources, of every kind that a binary log shows differently.

They outlive crashes of their servers: an error costs a connection, is counted, and the client goes
on with a new one until its time is over.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, final

from tallystick.producers.mysql.errors import code_and_message
from tallystick.producers.mysql_lab.accounts import LOAD
from tallystick.producers.mysql_lab.sessions import Address, Session, session

if TYPE_CHECKING:
    from pymysql.connections import Connection
    from pymysql.cursors import Cursor

RETRY_S = 0.1
CATCH_UP_S = 1.0
END_DEADLINE_S = 90.0
BODY_MAX = 150
XA_PREFIX = "lab"

WEIGHTS: Mapping[str, int] = {
    "innodb": 450,
    "multi_statement": 250,
    "nontransactional": 120,
    "rollback": 80,
    "xa": 68,
    "ddl": 30,
    "flush_binary_logs": 2,
}
"""How often each kind is drawn, of 1000 writes."""


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """What a load is to do.

    Attributes:
        servers: the sources that are written on; thread n writes on server n, and so on around.
        rate: writes a second, over all threads.
        threads: how many clients.
        seconds: how long.
        kinds: which kinds of `WEIGHTS` are drawn.
        seed: decides what each thread writes, in which order.
    """

    servers: tuple[str, ...]
    rate: float = 100.0
    threads: int = 4
    seconds: float = 10.0
    kinds: tuple[str, ...] = tuple(WEIGHTS)
    seed: int = 1


@dataclass(slots=True)
class LoadReport:
    """What a load has done.

    Attributes:
        seconds: how long it took.
        writes: how many of each kind were done to their end.
        errors: how often each error was met; a lost connection is one.
    """

    seconds: float = 0.0
    writes: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        """All writes."""
        return sum(self.writes.values())

    @property
    def rate(self) -> float:
        """Writes a second, as achieved."""
        return self.total / self.seconds if self.seconds else 0.0


def database_of(server: str) -> str:
    """The database that a server's load writes to: no other source writes to it."""
    return f"lab_{server.replace('-', '_')}"


@final
class Load:
    """A load that runs in threads of its own, from `start` to `finish`."""

    def __init__(self, plan: LoadPlan, addresses: Mapping[str, Address], password: str) -> None:
        """Describes a load.

        Args:
            plan: what it is to do.
            addresses: the addresses of the servers.
            password: of the account that writes.
        """
        self._plan = plan
        self._addresses = addresses
        self._password = password
        self._stop = threading.Event()
        self._began_s = self._end_s = 0.0
        self._writers: list[_Writer] = []

    def start(self) -> None:
        """Makes the tables where they are missing, and starts the threads.

        Raises:
            LabError: a server cannot be reached.
        """
        plan = self._plan
        for name in plan.servers:
            with session(self._addresses[name]) as admin:
                _roll_back_leftovers(admin)
                _make_tables(admin, database_of(name))
        self._began_s = time.monotonic()
        self._end_s = self._began_s + plan.seconds
        self._writers = [
            _Writer(
                index,
                plan,
                database=database_of(name),
                connect=self._connector(name),
                end_s=self._end_s,
                stop=self._stop,
            )
            for index, name in zip(range(plan.threads), cycle(plan.servers), strict=False)
        ]
        for writer in self._writers:
            writer.start()

    @property
    def is_alive(self) -> bool:
        """Whether a thread is at work."""
        return any(writer.is_alive() for writer in self._writers)

    def stop(self) -> None:
        """Asks the threads to end before their time; `finish` follows."""
        self._stop.set()
        self._end_s = min(self._end_s, time.monotonic())

    def finish(self) -> LoadReport:
        """Waits for the threads; returns what they have done."""
        report = LoadReport()
        end = self._end_s + END_DEADLINE_S
        for writer in self._writers:
            while writer.is_alive() and time.monotonic() < end:
                writer.join(0.2)  # in pieces, so that a signal is seen
            report.writes += writer.writes
            report.errors += writer.errors
        report.seconds = time.monotonic() - self._began_s
        return report

    def _connector(self, name: str) -> Callable[[], Connection[Any]]:
        return lambda: self._addresses[name].connect(LOAD, self._password)


def _make_tables(admin: Session, database: str) -> None:
    # Only where they are missing: CREATE DATABASE IF NOT EXISTS is logged even if it makes nothing,
    # and on a replica it would wait for whatever is prepared there.
    if admin.run("SELECT 1 FROM information_schema.tables WHERE table_schema = %s", (database,)):
        return
    admin.run(f"CREATE DATABASE IF NOT EXISTS {database}")
    columns = "thread INT NOT NULL, body VARCHAR(200) NOT NULL"
    key = "id BIGINT AUTO_INCREMENT PRIMARY KEY"
    for table in ("written", "xa_written"):
        admin.run(f"CREATE TABLE {database}.{table} ({key}, {columns})")
    # Without a key: a replica that crashed may apply the same row twice, and goes on.
    admin.run(f"CREATE TABLE {database}.plain ({columns}) ENGINE = MyISAM")


def _roll_back_leftovers(admin: Session) -> None:
    """Ends what a load that was killed has left prepared: its locks would last for ever."""
    for row in admin.rows("XA RECOVER"):
        xid = str(row["data"])
        prefix, _, rest = xid.partition("-")
        process = rest.partition("-")[0]
        if prefix == XA_PREFIX and process.isdigit() and not Path(f"/proc/{process}").exists():
            admin.run("XA ROLLBACK %s", (xid,))


@final
class _Writer(threading.Thread):
    """One client: draws a write, does it, waits for its next turn."""

    def __init__(
        self,
        index: int,
        plan: LoadPlan,
        *,
        database: str,
        connect: Callable[[], Connection[Any]],
        end_s: float,
        stop: threading.Event,
    ) -> None:
        super().__init__(name=f"lab-load-{index}", daemon=True)
        self.writes: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self._index = index
        self._plan = plan
        self._database = database
        self._connect = connect
        self._end_s = end_s
        self._stop_asked = stop
        self._chance = Random(f"{plan.seed}/{index}")  # noqa: S311  seeded: the same again
        self._drawn = 0
        self._prepared: str | None = None
        self._acts: dict[str, Callable[[Cursor], None]] = {
            "innodb": self._innodb,
            "multi_statement": self._multi_statement,
            "nontransactional": self._nontransactional,
            "rollback": self._rollback,
            "xa": self._xa,
            "ddl": self._ddl,
            "flush_binary_logs": self._flush_binary_logs,
        }

    def run(self) -> None:
        """Writes until its time is over or it is asked to stop."""
        interval_s = self._plan.threads / self._plan.rate
        # Apart from each other by a part of the interval.
        turn_s = time.monotonic() + interval_s * self._index / self._plan.threads
        connection: Connection[Any] | None = None
        while not self._wait_until(turn_s):
            connection = self._one(connection)
            # Who is late catches up a little, and forgets what a crash has cost.
            turn_s = max(turn_s + interval_s, time.monotonic() - CATCH_UP_S)
        deadline = time.monotonic() + END_DEADLINE_S / 2
        while self._prepared is not None and time.monotonic() < deadline:
            connection = self._attempt(connection, "", self._end_prepared)
        if connection is not None:
            connection.close()

    def _wait_until(self, turn_s: float) -> bool:
        """Waits for the turn; returns whether the time is over."""
        is_over = self._stop_asked.wait(max(0.0, min(turn_s, self._end_s) - time.monotonic()))
        return is_over or turn_s >= self._end_s

    def _one(self, connection: Connection[Any] | None) -> Connection[Any] | None:
        kinds = self._plan.kinds
        # Drawn before anything can fail: what is written depends on the seed alone.
        kind = self._chance.choices(kinds, [WEIGHTS[name] for name in kinds])[0]
        self._drawn += 1
        return self._attempt(connection, kind, self._acts[kind])

    def _attempt(
        self, connection: Connection[Any] | None, kind: str, act: Callable[[Cursor], None]
    ) -> Connection[Any] | None:
        import pymysql

        try:
            if connection is None:
                connection = self._connect()
                connection.select_db(self._database)
            with connection.cursor() as cursor:
                self._end_prepared(cursor)
                act(cursor)
        except (pymysql.err.Error, OSError) as error:
            code, message = code_and_message(error)
            self.errors[message if code is None else f"{code} {message}"] += 1
            if connection is not None:
                with suppress(pymysql.err.Error):  # it was lost: that is why we are here
                    connection.close()
            time.sleep(RETRY_S)  # also after it was asked to stop: what is prepared is ended
            return None
        if kind:
            self.writes[kind] += 1
        return connection

    def _body(self) -> str:
        return "x" * self._chance.randrange(1, BODY_MAX)

    def _insert(self, cursor: Cursor, table: str) -> None:
        cursor.execute(
            f"INSERT INTO {table} (thread, body) VALUES (%s, %s)",  # noqa: S608  names of ours
            (self._index, self._body()),
        )

    def _innodb(self, cursor: Cursor) -> None:
        self._insert(cursor, "written")

    def _nontransactional(self, cursor: Cursor) -> None:
        self._insert(cursor, "plain")

    def _multi_statement(self, cursor: Cursor) -> None:
        cursor.execute("BEGIN")
        for _ in range(self._chance.randrange(2, 6)):
            self._insert(cursor, "written")
        # Its own row: no client waits for another one's lock.
        cursor.execute(
            "UPDATE written SET body = %s WHERE id = %s", (self._body(), cursor.lastrowid)
        )
        if self._chance.random() < 0.2:
            cursor.execute("SAVEPOINT here")
            self._insert(cursor, "written")
            cursor.execute("ROLLBACK TO SAVEPOINT here")
        cursor.execute("COMMIT")

    def _rollback(self, cursor: Cursor) -> None:
        cursor.execute("BEGIN")
        self._insert(cursor, "written")
        cursor.execute("ROLLBACK")

    def _xa(self, cursor: Cursor) -> None:
        xid = f"{XA_PREFIX}-{os.getpid()}-{self._index}-{self._drawn}"
        is_committed = self._chance.random() < 0.6
        cursor.execute("XA START %s", (xid,))
        self._insert(cursor, "xa_written")
        cursor.execute("XA END %s", (xid,))
        self._prepared = xid
        cursor.execute("XA PREPARE %s", (xid,))
        cursor.execute("XA COMMIT %s" if is_committed else "XA ROLLBACK %s", (xid,))
        self._prepared = None

    def _end_prepared(self, cursor: Cursor) -> None:
        """Rolls back what a lost connection has left prepared."""
        if self._prepared is None:
            return
        cursor.execute("XA RECOVER")
        if any(str(row[3]) == self._prepared for row in cursor.fetchall()):
            cursor.execute("XA ROLLBACK %s", (self._prepared,))
        self._prepared = None

    def _ddl(self, cursor: Cursor) -> None:
        table = f"made_{self._index}"
        cursor.execute(f"DROP TABLE IF EXISTS {table}")
        cursor.execute(f"CREATE TABLE {table} (a INT)")
        cursor.execute(f"ALTER TABLE {table} ADD COLUMN b INT")

    def _flush_binary_logs(self, cursor: Cursor) -> None:
        cursor.execute("FLUSH BINARY LOGS")
