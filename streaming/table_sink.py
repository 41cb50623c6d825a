"""Writes the tables of a run: one commit for a micro-batch and table.

A commit has the number of its micro-batch, so one that Spark runs again changes nothing. Results of
other runs are written by it, too: nothing here knows Spark.
"""

from __future__ import annotations

import contextlib
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, final

import pyarrow.compute as pc

from tallystick.coordinates.values.errors import one_line
from tallystick.streaming.delta_table import (
    CHECKPOINT_COMMITS,
    KEEP_LOG,
    append,
    compare,
    existing,
    is_of_files,
    made,
    record,
)
from tallystick.streaming.errors import TableError
from tallystick.streaming.table_reader import (
    newest_collections,
    read_checks,
    read_cuts,
    read_incidents,
)
from tallystick.streaming.table_upkeep import Retention, keep_up
from tallystick.streaming.tables import TABLES, VALIDATIONS, arrow_rows, require_place

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from deltalake import DeltaTable

    from tallystick.coordinates.audit.cut import Cut
    from tallystick.coordinates.results import Incident, SubjectCheck

END_BATCH = None
"""In place of a number: what was decided because the history ends here."""
UPKEEP_BATCHES = CHECKPOINT_COMMITS
"""Micro-batches with rows between two rounds of upkeep."""


@final
class TableSink:
    """The tables in one directory.

    Args:
        directory: Has a directory for each table.
        run_id: Keeps apart the micro-batches of different checkpoint locations.
        retention: How long rows are kept; None: this run does no upkeep.

    Raises:
        TableError: No table can be in the directory.
    """

    def __init__(self, directory: Path, run_id: str, retention: Retention | None = None) -> None:
        require_place(directory)
        self._directory = directory
        self._run_id = run_id
        self._retention = retention
        self._tables: dict[str, DeltaTable] = {}
        # The first micro-batch of each run is followed by upkeep.
        self._batches = UPKEEP_BATCHES
        self._writers = ThreadPoolExecutor(max_workers=len(TABLES), thread_name_prefix="tables")
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="upkeep")
        self._upkeep: Future[None] | None = None

    def compare(self) -> None:
        """Compare every file that the tables are read from with its checksum.

        Raises:
            TableError: One is damaged or missing.
        """
        for kind in TABLES.values():
            compare(self._directory, kind)

    def write(self, batch: int | None, **values: Sequence[Any]) -> None:
        """Commit the values of one micro-batch, by the names of their tables.

        Args:
            batch: Its number; of one that was written before, nothing is. ``END_BATCH``: they
                replace those of the end before.
            values: What ``columns_of`` of the table takes.

        Raises:
            TableError: A table cannot be written.
        """
        if batch is END_BATCH:
            self.take_back_end()
        filled = {name: list(of_table) for name, of_table in values.items() if of_table}
        now = time.time_ns() // 1_000
        # Validations last: a collection of which there is one was written as a whole.
        last = {VALIDATIONS.name}
        for names in (filled.keys() - last, filled.keys() & last):
            # A commit waits for the disk most of the time.
            list(
                self._writers.map(lambda name: self._append(name, filled[name], batch, now), names)
            )
        self._batches += bool(filled)
        if batch is not END_BATCH and self._batches >= UPKEEP_BATCHES:
            self._begin_upkeep(batch)

    def _append(self, name: str, values: list[Any], batch: int | None, now: int) -> None:
        with _one_sentence(name):
            table = self._tables.get(name) or made(self._directory, TABLES[name])
            rows = arrow_rows(TABLES[name], values)
            self._tables[name] = append(table, rows, self._run_id, batch, now)

    def incidents(self, before: int) -> list[Incident]:
        """Every incident, as it was written last before a micro-batch.

        Args:
            before: The micro-batch; it may have been written in part, and is done again.
        """
        return read_incidents(
            self._directory, where=(pc.field("run") != self._run_id) | (pc.field("batch") < before)
        )

    def take_back_end(self) -> None:
        """The history goes on: remove what was written at its end."""
        self.await_upkeep()
        for name, kind in TABLES.items():
            with _one_sentence(name):
                table = existing(self._directory, kind)
                if table is not None:
                    table.delete(
                        f"run = '{self._run_id}' AND batch IS NULL",
                        post_commithook_properties=KEEP_LOG,
                    )
                    record(table)
                    self._tables[name] = table

    def last_collection(self) -> tuple[list[Cut], list[SubjectCheck]]:
        """Rows and checks of the newest collection that was written.

        Raises:
            TableError: A table is damaged.
        """
        newest = newest_collections(self._directory, 1)
        return read_cuts(self._directory, newest), read_checks(self._directory, newest)

    def _begin_upkeep(self, batch: int) -> None:
        if self._retention is None or not (self._upkeep is None or self._upkeep.done()):
            return
        self.await_upkeep()
        self._batches = 0
        self._upkeep = self._executor.submit(
            keep_up, self._directory, self._run_id, batch, self._retention
        )

    def await_upkeep(self) -> None:
        """Wait for the upkeep that is under way, if any.

        Raises:
            TableError: It failed.
        """
        upkeep, self._upkeep = self._upkeep, None
        if upkeep is not None:
            with _one_sentence("upkeep"):
                upkeep.result()


@contextlib.contextmanager
def _one_sentence(name: str) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        if not is_of_files(error):
            raise
        reason = getattr(error, "strerror", None) or one_line(error)
        raise TableError(f"The table {name!r} cannot be written: {reason}") from error
