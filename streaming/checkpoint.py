"""The checkpoint location: both queries' own directories, the fleet's state, the layout, a lock.

layout.json        what must not change between runs, with its checksum
limit.json         how many messages a micro-batch takes, and from which one on, with its checksum
rebuilt            there when the state was made anew: the journal may have lost its beginning
lock               held while a job runs
auditor/           Spark's checkpoint of the auditor query
collector/         Spark's checkpoint of the collector query
fleet/N.state      what the driver's part goes on from, N being the last micro-batch
"""

from __future__ import annotations

import fcntl
import json
import os
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, final

from tallystick.coordinates.values.checksum import seal_document, unseal_document
from tallystick.streaming.errors import CheckpointError
from tallystick.streaming.journal_holes import PlannedOffsets
from tallystick.streaming.spark_checksums import compare_spark_files

if TYPE_CHECKING:
    from types import TracebackType

LAYOUT_VERSION = 6
TO_FIX = "To fix: tallystick rebuild"
"""What is damaged here is made anew from the journal."""
_REBUILT = "rebuilt"
_LIMIT = "limit.json"
STATES_KEPT = 3
"""A restart begins again with the last micro-batch that was not committed, so it needs the state
before that one; one more is spare."""


@dataclass(frozen=True, slots=True)
class Layout:
    """What must be the same whenever a job goes on from this checkpoint location.

    Attributes:
        shuffle_partitions: The instances' states are spread over so many parts.
        journal_topic: Offsets and states belong to this topic.
    """

    shuffle_partitions: int
    journal_topic: str


@dataclass(frozen=True, slots=True)
class LimitBegin:
    """From a micro-batch on, this is the limit of messages.

    Attributes:
        first: The micro-batch.
        limit: The limit.
        before: That of those before, which may have to be run again.
    """

    first: int
    limit: int
    before: int


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that it has either its old content or its new one, also after a crash.

    As with Spark's own checkpoint files, a power cut is another matter: nothing is forced to disk.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with temporary.open("wb") as file:
        file.write(data)
    temporary.replace(path)


@final
class CheckpointLocation:
    """One job's checkpoint location; a context manager that holds its lock.

    Args:
        directory: Made when missing.
        layout: What this run wants; compared with what an earlier run wrote down.
    """

    def __init__(self, directory: Path, layout: Layout) -> None:
        self.directory = directory
        self._layout = layout
        self._lock: IO[bytes] | None = None
        self.run_id = ""
        """Names this checkpoint location in the files of the sinks: micro-batches are numbered
        from 0 in each new one."""

    @property
    def parts(self) -> int:
        """How many parts the instances' states are spread over."""
        return self._layout.shuffle_partitions

    @property
    def auditor(self) -> Path:
        """Spark's checkpoint of the auditor query."""
        return self.directory / "auditor"

    @property
    def collector(self) -> Path:
        """Spark's checkpoint of the collector query."""
        return self.directory / "collector"

    def __enter__(self) -> CheckpointLocation:
        """Take the lock; compare the layout and what Spark reads without comparing it.

        Raises:
            CheckpointError: Another job runs from here, the layout is another one, or a file is
                damaged.
        """
        self._lock = _locked(self.directory)
        try:
            self._compare_layout()
            for query in (self.auditor, self.collector):
                compare_spark_files(query)
        except BaseException:
            self._lock.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.close()

    def _compare_layout(self) -> None:
        path = self.directory / "layout.json"
        wanted: dict[str, Any] = {
            "layout_version": LAYOUT_VERSION,
            "shuffle_partitions": self._layout.shuffle_partitions,
            "journal_topic": self._layout.journal_topic,
        }
        try:
            found = unseal_document(path.read_bytes())
            self.run_id = str(found.pop("run_id"))
        except FileNotFoundError:
            if any(self.auditor.glob("*")):
                raise CheckpointError(
                    f"The checkpoint location {str(self.directory)!r} has a query but no "
                    f"layout.json: it is not one of this job, or is damaged. {TO_FIX}, or name "
                    f"another location."
                ) from None
            self.run_id = uuid.uuid4().hex[:8]
            write_atomically(path, seal_document({"run_id": self.run_id, **wanted}))
            return
        except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
            raise CheckpointError(f"{str(path)!r} is damaged: {error}. {TO_FIX}.") from error
        if found.get("layout_version") != LAYOUT_VERSION:
            raise CheckpointError(
                f"The checkpoint location {str(self.directory)!r} was made by another version of "
                f"tallystick. {TO_FIX}, or name another location."
            )
        for name, value in wanted.items():
            if found.get(name) != value:
                raise CheckpointError(
                    f"The checkpoint location {str(self.directory)!r} was made with {name} "
                    f"{found.get(name)!r}, this run wants {value!r}; use the old value or name "
                    f"another location."
                )

    def message_limit(self) -> LimitBegin | None:
        """What ``save_message_limit`` was last given; None: it never was.

        Raises:
            CheckpointError: It cannot be read.
        """
        path = self.directory / _LIMIT
        try:
            return LimitBegin(**unseal_document(path.read_bytes()))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, OSError) as error:
            raise CheckpointError(f"{str(path)!r} is damaged: {error}. {TO_FIX}.") from error

    def save_message_limit(self, begin: LimitBegin) -> None:
        """Keep the limit that holds from a micro-batch on."""
        write_atomically(self.directory / _LIMIT, seal_document(asdict(begin)))

    def last_planned(self) -> int:
        """The last micro-batch that Spark has planned; -1 before the first."""
        names = (path.name for path in (self.auditor / "offsets").glob("*"))
        return max((int(name) for name in names if name.isdecimal()), default=-1)

    def load_state(self, batch_id: int) -> bytes | None:
        """The driver's state as it was before micro-batch ``batch_id``; None before the first.

        What is of ``batch_id`` and later is of micro-batches that were never committed: it is
        deleted, as those will be run again.

        Raises:
            CheckpointError: That state is missing.
        """
        for path in self.directory.joinpath("fleet").glob("*.*"):
            if path.stem.isdecimal() and int(path.stem) >= batch_id:
                path.unlink()
        if batch_id == 0:
            return None
        path = self._file(batch_id - 1)
        try:
            return path.read_bytes()
        except FileNotFoundError as error:
            raise CheckpointError(
                f"The checkpoint location {str(self.directory)!r} lacks the driver's state before "
                f"micro-batch {batch_id} (fleet/{path.name}). {TO_FIX}."
            ) from error

    def batch_time_us(self, batch_id: int) -> int:
        """When Spark planned a micro-batch, microseconds of this machine's clock.

        Spark wrote it down before it ran the micro-batch, so it is the same when it is run again.

        Raises:
            CheckpointError: It cannot be read.
        """
        path = self.auditor / "offsets" / str(batch_id)
        try:
            _, metadata, *_ = path.read_text("utf-8").splitlines()
            return int(json.loads(metadata)["batchTimestampMs"]) * 1_000
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(
                f"{str(path)!r} is damaged, expected Spark's offsets: {error!r}. {TO_FIX}."
            ) from error

    def beginnings_lost(self) -> dict[str, int]:
        """Where the journal begins now, by partition, if state was made anew from a later record.

        Spark wrote it down before the first micro-batch, so it is the same for ever.

        Returns:
            The first offset that was there, of partitions where this is not 0; nothing in a
            location that was not made by a rebuild.

        Raises:
            CheckpointError: It cannot be read.
        """
        if not (self.directory / _REBUILT).exists():
            return {}
        for path in sorted((self.auditor / "sources").glob("*/0")):
            try:
                first = json.loads(path.read_text("utf-8").splitlines()[-1])
                journal = first.get(self._layout.journal_topic, {})
                lost = {name: int(offset) for name, offset in journal.items() if int(offset)}
            except (OSError, ValueError, LookupError, AttributeError, TypeError) as error:
                raise CheckpointError(
                    f"{str(path)!r} is damaged, expected Spark's first offsets: {error!r}. "
                    f"{TO_FIX}."
                ) from error
            if lost:
                return lost
        return {}

    def planned_offsets(self, batch_id: int) -> list[PlannedOffsets]:
        """What Spark planned to read of the journal topic in a micro-batch.

        Raises:
            CheckpointError: It cannot be read.
        """
        topic = self._layout.journal_topic
        offsets = self.auditor / "offsets"
        try:
            ends = _offsets([offsets / str(batch_id)], topic)
            starts = _offsets(
                [offsets / str(batch_id - 1)]
                if batch_id
                else list((self.auditor / "sources").glob("*/0")),
                topic,
            )
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{str(offsets)!r} cannot be read: {error!r}.") from error
        return [
            PlannedOffsets(topic, int(number), starts.get(number), ends.get(number))
            for number in sorted({*starts, *ends}, key=int)
        ]

    def next_batch_id(self) -> int:
        """The number after that of the last micro-batch whose state was kept."""
        return max(self._numbers(), default=-1) + 1

    def save_state(self, batch_id: int, state: bytes) -> None:
        """Keep the driver's state as it is after micro-batch ``batch_id``."""
        write_atomically(self._file(batch_id), state)
        for number in self._numbers():
            if number <= batch_id - STATES_KEPT:
                self._file(number).unlink(missing_ok=True)

    def _file(self, batch_id: int) -> Path:
        return self.directory / "fleet" / f"{batch_id:012d}.state"

    def _numbers(self) -> list[int]:
        paths = (self.directory / "fleet").glob("*.state")
        return [int(path.stem) for path in paths if path.stem.isdecimal()]


def set_aside(directory: Path, target: Path) -> None:
    """Move a checkpoint location away, whatever is in it.

    Args:
        directory: The location; nothing is done where there is none.
        target: Where to; not there yet.

    Raises:
        CheckpointError: A job runs from it, or it cannot be moved.
    """
    if not directory.exists():
        return
    with _locked(directory):
        try:
            directory.rename(target)
        except OSError as error:
            raise CheckpointError(
                f"The checkpoint location {str(directory)!r} cannot be moved to {str(target)!r}: "
                f"{error.strerror}."
            ) from error


def mark_rebuilt(directory: Path) -> None:
    """A new location whose state is made anew: it begins with what the journal still has."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / _REBUILT).touch()


def _locked(directory: Path) -> IO[bytes]:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / "lock").open("ab")
    except OSError as error:
        raise CheckpointError(
            f"The checkpoint location {str(directory)!r} cannot be written: {error.strerror}."
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise CheckpointError(
            f"Another job runs from the checkpoint location {str(directory)!r}; stop it, or name "
            f"another location."
        ) from None
    return lock


def _offsets(paths: list[Path], topic: str) -> dict[str, int]:
    """A topic's offsets by partition, from Spark's files, which have a line for each source."""
    for path in paths:
        for line in path.read_text("utf-8").splitlines()[1:]:
            # A source that has read nothing yet has a dash.
            found: dict[str, dict[str, int]] = json.loads(line) if line.startswith("{") else {}
            if topic in found:
                return found[topic]
    return {}
