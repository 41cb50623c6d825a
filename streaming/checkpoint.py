"""The checkpoint location: both queries' own directories, the fleet's state, the layout, a lock.

layout.json        what must not change between runs, with its checksum
limit.json         how many messages a micro-batch takes, and from which one on, with its checksum
rebuilt            there when the state was made anew: the journal may have lost its beginning; it
                   has the id in the fence
lock               held while a job runs
fleet/N.state      what the driver's part goes on from, N being the last micro-batch
auditor/           Spark's checkpoint of the auditor query
collector/         Spark's checkpoint of the collector query

Spark's two may be at a URL of any Hadoop file system instead, which executors reach while the rest
is the driver's alone:

URL/fence.json     whose they are (``fence``)
URL/ID/auditor/    ID being the ``run_id`` of layout.json, so a rebuild begins beside the old one
URL/ID/collector/
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
from tallystick.streaming.fence import compare_fence, make_fence
from tallystick.streaming.journal_holes import PlannedOffsets
from tallystick.streaming.spark_checksums import compare_spark_files
from tallystick.streaming.spark_files import HadoopFiles, LocalFiles
from tallystick.streaming.to_fix import to_rebuild

if TYPE_CHECKING:
    from types import TracebackType

    from pyspark.sql import SparkSession

    from tallystick.streaming.spark_files import SparkFiles

LAYOUT_VERSION = 9
AUDITOR, COLLECTOR = "auditor", "collector"
_LAYOUT = "layout.json"
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
        spark_checkpoint: URL below which Spark's checkpoints are; None: in the location itself.
    """

    shuffle_partitions: int
    journal_topic: str
    spark_checkpoint: str | None = None


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
        self._files: SparkFiles = LocalFiles(directory)
        self._is_new = False
        self.run_id = ""
        """Names this checkpoint location in the files of the sinks: micro-batches are numbered
        from 0 in each new one."""

    @property
    def _rebuild(self) -> str:
        """What is damaged here is made anew from the journal."""
        return to_rebuild(self.directory)

    @property
    def parts(self) -> int:
        """How many parts the instances' states are spread over."""
        return self._layout.shuffle_partitions

    @property
    def auditor(self) -> str:
        """Spark's checkpoint of the auditor query: a path, or a URL."""
        return self._files.location(AUDITOR)

    @property
    def collector(self) -> str:
        """Spark's checkpoint of the collector query: a path, or a URL."""
        return self._files.location(COLLECTOR)

    def __enter__(self) -> CheckpointLocation:
        """Take the lock; compare the layout and what Spark reads without comparing it.

        Raises:
            CheckpointError: Another job runs from here, the layout is another one, or a file is
                damaged.
        """
        self._lock = _locked(self.directory)
        try:
            self._compare_layout()
            # At a URL there are no such checksums, and nothing is reached before Spark runs.
            if self._layout.spark_checkpoint is None:
                for query in (AUDITOR, COLLECTOR):
                    compare_spark_files(self.directory / query)
                self._compare_progress()
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

    def connect(self, spark: SparkSession) -> None:
        """Reach Spark's checkpoints, if they are at a URL, and see that they are this location's.

        Raises:
            CheckpointError: The URL cannot be used, is another location's, or lacks what this one
                goes on from.
        """
        url = self._layout.spark_checkpoint
        if url is None:
            return
        try:
            at_url = HadoopFiles(spark, url)
            self._files = HadoopFiles(spark, f"{url}/{self.run_id}")
            self._compare_fence(at_url)
        except BaseException:
            # What has begun nowhere does not fix the URL.
            if self._is_new:
                (self.directory / _LAYOUT).unlink(missing_ok=True)
            raise

    def _compare_fence(self, at_url: HadoopFiles) -> None:
        owner = _owner(self.directory) or self.run_id
        is_there = compare_fence(at_url, owner)
        self._compare_progress(has_checkpoint=is_there)
        if not is_there and not make_fence(at_url, owner, self.directory):
            compare_fence(at_url, owner)  # another driver was faster

    def _compare_progress(self, *, has_checkpoint: bool = True) -> None:
        """See that Spark has planned the last micro-batch whose state was kept: it does so before.

        Otherwise it would begin anew, and what it then finds would be taken for written already.
        """
        known = self.next_batch_id()
        if known and (not has_checkpoint or self.last_planned() < known - 1):
            raise CheckpointError(
                f"{self._files.location('')!r} lacks Spark's checkpoint of micro-batch {known - 1},"
                f" after which {str(self.directory)!r} goes on. Bring back what was there, or"
                f" begin anew. To fix: {self._rebuild}"
            )

    def _compare_layout(self) -> None:
        path = self.directory / _LAYOUT
        wanted: dict[str, Any] = {
            "layout_version": LAYOUT_VERSION,
            "shuffle_partitions": self._layout.shuffle_partitions,
            "journal_topic": self._layout.journal_topic,
            "spark_checkpoint": self._layout.spark_checkpoint,
        }
        try:
            found = unseal_document(path.read_bytes())
            self.run_id = str(found.pop("run_id"))
        except FileNotFoundError:
            if self._files.names(AUDITOR):
                raise CheckpointError(
                    f"The checkpoint location {str(self.directory)!r} has a query but no "
                    f"layout.json: it is not one of this job, or is damaged. Name another location,"
                    f" or begin anew. To fix: {self._rebuild}"
                ) from None
            self.run_id, self._is_new = uuid.uuid4().hex[:8], True
            write_atomically(path, seal_document({"run_id": self.run_id, **wanted}))
            return
        except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
            raise CheckpointError(
                f"{str(path)!r} is damaged: {error}. To fix: {self._rebuild}"
            ) from error
        if found.get("layout_version") != LAYOUT_VERSION:
            raise CheckpointError(
                f"The checkpoint location {str(self.directory)!r} was made by another version of "
                f"tallystick. Name another location, or begin anew. To fix: {self._rebuild}"
            )
        for name, value in wanted.items():
            if found.get(name) != value:
                raise CheckpointError(
                    f"The checkpoint location {str(self.directory)!r} was made with {name} "
                    f"{found.get(name)!r}, this run wants {value!r}; use the old value or name "
                    f"another location, or begin anew. To fix: {self._rebuild}"
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
            raise CheckpointError(
                f"{str(path)!r} is damaged: {error}. To fix: {self._rebuild}"
            ) from error

    def save_message_limit(self, begin: LimitBegin) -> None:
        """Keep the limit that holds from a micro-batch on."""
        write_atomically(self.directory / _LIMIT, seal_document(asdict(begin)))

    def last_planned(self) -> int:
        """The last micro-batch that Spark has planned; -1 before the first."""
        names = self._files.names(f"{AUDITOR}/offsets")
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
                f"micro-batch {batch_id} (fleet/{path.name}). To fix: {self._rebuild}"
            ) from error

    def batch_time_us(self, batch_id: int) -> int:
        """When Spark planned a micro-batch, microseconds of this machine's clock.

        Spark wrote it down before it ran the micro-batch, so it is the same when it is run again.

        Raises:
            CheckpointError: It cannot be read.
        """
        name = f"{AUDITOR}/offsets/{batch_id}"
        try:
            _, metadata, *_ = self._lines(name)
            return int(json.loads(metadata)["batchTimestampMs"]) * 1_000
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(
                f"{self._files.location(name)!r} is damaged, expected Spark's offsets: {error!r}. "
                f"To fix: {self._rebuild}"
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
        for name in self._first_offsets():
            try:
                first = json.loads(self._lines(name)[-1])
                journal = first.get(self._layout.journal_topic, {})
                lost = {part: int(offset) for part, offset in journal.items() if int(offset)}
            except (OSError, ValueError, LookupError, AttributeError, TypeError) as error:
                raise CheckpointError(
                    f"{self._files.location(name)!r} is damaged, expected Spark's first offsets: "
                    f"{error!r}. To fix: {self._rebuild}"
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
        offsets = f"{AUDITOR}/offsets"
        before = [f"{offsets}/{batch_id - 1}"] if batch_id else self._first_offsets()
        try:
            ends = self._offsets([f"{offsets}/{batch_id}"], topic)
            starts = self._offsets(before, topic)
        except (OSError, ValueError) as error:
            raise CheckpointError(
                f"{self._files.location(offsets)!r} cannot be read: {error!r}."
            ) from error
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

    def _first_offsets(self) -> list[str]:
        """Where Spark wrote down what it begins with: a file for each source."""
        sources = f"{AUDITOR}/sources"
        return [
            f"{sources}/{number}/0"
            for number in sorted(self._files.names(sources))
            if "0" in self._files.names(f"{sources}/{number}")
        ]

    def _offsets(self, names: list[str], topic: str) -> dict[str, int]:
        """A topic's offsets by partition, from Spark's files, which have a line for each source."""
        for name in names:
            for line in self._lines(name)[1:]:
                # A source that has read nothing yet has a dash.
                found: dict[str, dict[str, int]] = json.loads(line) if line.startswith("{") else {}
                if topic in found:
                    return found[topic]
        return {}

    def _lines(self, name: str) -> list[str]:
        return self._files.read(name).decode("utf-8").splitlines()

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


def mark_rebuilt(directory: Path, before: Path) -> None:
    """A new location whose state is made anew: it begins with what the journal still has.

    Args:
        directory: The new location.
        before: The one that was set aside, whose fence the new one passes.
    """
    owner = _owner(before) or str(_layout_of(before).get("run_id", ""))
    write_atomically(directory / _REBUILT, owner.encode())


def spark_checkpoint_of(directory: Path) -> str | None:
    """The URL of Spark's checkpoints of a location; None: they are in it, or it is damaged."""
    layout = _layout_of(directory)
    url = layout.get("spark_checkpoint")
    return None if url is None else f"{url}/{layout.get('run_id')}"


def _layout_of(directory: Path) -> dict[str, Any]:
    """What is in its layout.json, and nothing where that cannot be read."""
    try:
        return unseal_document((directory / _LAYOUT).read_bytes())
    except (OSError, ValueError):
        return {}


def _owner(directory: Path) -> str:
    """The id in the fence, of a location that was made by a rebuild; else nothing."""
    path = directory / _REBUILT
    return path.read_text("utf-8", "replace") if path.exists() else ""


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
