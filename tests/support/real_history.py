"""One history on real servers, with its journals: what the simulator is compared with."""

from __future__ import annotations

import threading
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tallystick.coordinates.events.collect_request import CollectRequest
from tallystick.coordinates.events.journal import Block, Stream
from tallystick.producers.mysql.collection import Collector
from tallystick.producers.mysql.settings import load_servers
from tallystick.producers.mysql.tail import Tail, steady_clock_us
from tallystick.producers.mysql.tail_state import TailState
from tallystick.producers.mysql_lab.sessions import Session, session
from tallystick.producers.publisher import MemorySink
from tallystick.producers.simulator.kernel.transactions import GroupKind
from tests.support.simulated_journal import Record, records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tallystick.servers.lab import Lab

DATABASE = "lab_differential"
SOURCE, REPLICA, SECOND_REPLICA = "source-a", "replica-1", "replica-2"

STEPS: tuple[tuple[GroupKind, tuple[str, ...]], ...] = (
    (GroupKind.DDL, ("CREATE TABLE i (a INT PRIMARY KEY, b VARCHAR(200))",)),
    (GroupKind.DDL, ("CREATE TABLE m (a INT PRIMARY KEY, b VARCHAR(200)) ENGINE = MyISAM",)),
    (GroupKind.INNODB, ("INSERT INTO i VALUES (1, REPEAT('x', 20))",)),
    (
        GroupKind.INNODB,
        ("BEGIN", "INSERT INTO i VALUES (2, 'y')", "UPDATE i SET b = 'z' WHERE a = 1", "COMMIT"),
    ),
    (GroupKind.NON_TRANSACTIONAL, ("INSERT INTO m VALUES (1, 'x')",)),
    (GroupKind.EMPTY, ("SET GTID_NEXT = '{next}'", "BEGIN", "COMMIT",
                       "SET GTID_NEXT = 'AUTOMATIC'")),
    (GroupKind.XA_PREPARE, ("XA START 'd1'", "INSERT INTO i VALUES (3, 'x')", "XA END 'd1'",
                            "XA PREPARE 'd1'")),
    (GroupKind.XA_COMMIT, ("XA COMMIT 'd1'",)),
    (GroupKind.XA_PREPARE, ("XA START 'd2'", "INSERT INTO i VALUES (4, 'x')", "XA END 'd2'",
                            "XA PREPARE 'd2'")),
    (GroupKind.XA_ROLLBACK, ("XA ROLLBACK 'd2'",)),
    (GroupKind.XA_ONE_PHASE, ("XA START 'd3'", "INSERT INTO i VALUES (5, 'x')", "XA END 'd3'",
                              "XA COMMIT 'd3' ONE PHASE")),
    (GroupKind.COMPRESSED, ("SET binlog_transaction_compression = ON",
                            "INSERT INTO i VALUES (6, REPEAT('x', 200))",
                            "SET binlog_transaction_compression = OFF")),
    (GroupKind.INNODB, ("SET binlog_rows_query_log_events = ON", "DELETE FROM i WHERE a = 6",
                        "SET binlog_rows_query_log_events = OFF")),
    (GroupKind.INNODB, ("INSERT INTO i VALUES (7, 'behind all')",)),
)  # fmt: skip
"""What a client does, a group each; ``{next}`` is the source's next GTID."""
ROTATE_BEFORE = 5
"""The step in front of which the source rotates its binary log, without logging that."""


@dataclass
class RealHistory:
    """What the servers wrote and said.

    Attributes:
        records: Each server's journal.
        first_files: The first binary log file of each that was written from its beginning.
        answers: Behind each step, the second replica's answer to a collection.
        rows: Each server's answer at the end.
        server_ids: As the servers have them.
        server_uuid: Of the source.
    """

    records: dict[str, list[Record]] = field(default_factory=dict)
    first_files: dict[str, str] = field(default_factory=dict)
    answers: list[dict] = field(default_factory=list)
    rows: dict[str, dict] = field(default_factory=dict)
    server_ids: dict[str, int] = field(default_factory=dict)
    server_uuid: str = ""

    def binlog(self, name: str) -> list[Record]:
        """Events of a server's binary log, from its first whole file on."""
        found = [r for r in self.records[name] if r.stream is Stream.BINLOG]
        first = next(i for i, r in enumerate(found) if r.file == self.first_files[name])
        return found[first:]

    def relay(self, name: str) -> list[Record]:
        """Events of a replica's relay log."""
        return [r for r in self.records[name] if r.stream is Stream.RELAY]


def make_history(lab: Lab) -> RealHistory:
    """Run the steps on the lab's source, and watch it, its replica and that one's replica."""
    names = (SOURCE, REPLICA, SECOND_REPLICA)
    settings = {s.name: s for s in load_servers(lab.config_file, []) if s.name in names}
    history = RealHistory()
    lab.await_applied()
    with session(lab.addresses()[SOURCE]) as client:
        client.run(f"DROP DATABASE IF EXISTS {DATABASE}")
        client.run(f"CREATE DATABASE {DATABASE}")
        client.run(f"USE {DATABASE}")
        lab.await_applied()
        with (
            _followed(settings) as blocks,
            closing(Collector(settings[SECOND_REPLICA])) as collector,
        ):
            for name in names:
                with session(lab.addresses()[name]) as admin:
                    admin.run("FLUSH NO_WRITE_TO_BINLOG BINARY LOGS")
                    history.first_files[name] = admin.rows("SHOW MASTER STATUS")[0]["File"]
                    history.server_ids[name] = admin.value("SELECT @@server_id")
            history.server_uuid = client.value("SELECT @@server_uuid")
            for number, (_, statements) in enumerate(STEPS):
                if number == ROTATE_BEFORE:
                    client.run("FLUSH NO_WRITE_TO_BINLOG BINARY LOGS")
                for statement in statements:
                    client.run(statement.replace("{next}", _next_gtid(client)))
                lab.await_applied()
                history.answers.append(collector.collect(f"step-{number}", number))
            for name in names:
                with closing(Collector(settings[name])) as end:
                    history.rows[name] = end.collect("end", 99)
        client.run(f"DROP DATABASE {DATABASE}")
    for name in names:
        journal = [r for block in blocks if block.instance_id == name for r in records(block)]
        history.records[name] = journal
    return history


def _next_gtid(client: Session) -> str:
    uuid = client.value("SELECT @@server_uuid")
    executed = client.gtid_executed()
    own = [part for part in executed.split(",") if part.startswith(uuid)]
    last = own[0].rpartition(":")[2].rpartition("-")[2] if own else "0"
    return f"{uuid}:{int(last) + 1}"


@contextmanager
def _followed(settings: Mapping[str, object]) -> Iterator[list[Block]]:
    """Tails of the servers; after the block their journals are whole."""
    sink, stop = MemorySink(), threading.Event()
    answered: list[str] = []
    tails = [
        Tail(
            each,
            sink,
            Collector,
            state=TailState(),
            notice=answered.append,
            answered=answered.append,
        )
        for each in settings.values()
    ]
    threads = [threading.Thread(target=tail.run, args=(stop,)) for tail in tails]
    for thread in threads:
        thread.start()
    try:
        _await_proof(tails)
        for tail in tails:
            # Relay logs are followed from the first row on.
            tail.ask(CollectRequest("first", steady_clock_us()))
        _await(lambda: answered.count("first") == len(tails), "an answer did not come in time")
        yield sink.blocks
        _await_proof(tails)
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _await_proof(tails: list[Tail]) -> None:
    now = steady_clock_us()
    _await(lambda: all(t.journal.state.ts > now for t in tails), "a log was not read in time")


def _await(condition: Callable[[], bool], problem: str, deadline_s: float = 60.0) -> None:
    end = time.monotonic() + deadline_s
    tick = threading.Event()
    while not condition():
        assert time.monotonic() < end, problem
        tick.wait(0.05)
