"""Tails of real servers in threads of the test, and the servers' files read on their own."""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tallystick.coordinates.events.collect_request import CollectRequest
from tallystick.coordinates.events.journal import concatenate
from tallystick.coordinates.events.json_lines_writer import block_to_lines
from tallystick.producers.mysql.collection import Collector
from tallystick.producers.mysql.same_server import FollowedServers
from tallystick.producers.mysql.settings import ServerSettings, load_servers
from tallystick.producers.mysql.tail import Tail, TailOptions, steady_clock_us
from tallystick.producers.mysql.tail_state import TailState
from tallystick.producers.publisher import MemorySink
from tallystick.servers.lab import Lab

DEADLINE_S = 120.0


class FileEvent(NamedTuple):
    """One event as it stands in a file."""

    file: str
    start: int
    length: int
    type: int
    checksum: int


def events_of_files(directory: Path, base_name: str) -> list[FileEvent]:
    """All whole events of a log, read from its files with nothing of the project."""
    found = []
    for path in sorted(directory.glob(f"{base_name}.[0-9]*")):
        data = path.read_bytes()
        at = 4
        while at + 19 <= len(data):
            kind = data[at + 4]
            (length,) = struct.unpack_from("<I", data, at + 9)
            (checksum,) = struct.unpack_from("<I", data, at + length - 4)
            found.append(FileEvent(path.name, at, length, kind, checksum))
            at += length
    return found


def wait_for(
    what: Callable[[], Any], report: Callable[[], object], deadline_s: float = DEADLINE_S
) -> None:
    """Waits until a condition holds; at the deadline the report is shown."""
    deadline = time.monotonic() + deadline_s
    while not what():
        assert time.monotonic() < deadline, report()
        time.sleep(0.02)


class RunningTail:
    """One tail in a thread, writing into memory."""

    def __init__(
        self,
        settings: ServerSettings,
        *,
        state: TailState | None = None,
        state_file: Path | None = None,
        options: TailOptions | None = None,
        followed: FollowedServers | None = None,
    ) -> None:
        self.sink = MemorySink()
        self.notices: list[str] = []
        self.answered: list[str] = []
        self.error: BaseException | None = None
        self.tail = Tail(
            settings,
            self.sink,
            Collector,
            state=state or TailState(epoch=1),
            state_file=state_file,
            options=options or TailOptions(from_oldest=True, back_off_max_s=1.0),
            notice=self.notices.append,
            answered=self.answered.append,
            followed=followed,
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.tail.run(self._stop)
        except BaseException as error:  # noqa: BLE001  the test looks at it
            self.error = error

    def collect(self, name: str) -> None:
        """Has a collection answered."""
        self.tail.ask(CollectRequest(name, steady_clock_us()))
        wait_for(lambda: name in self.answered or self.error, lambda: (self.notices, self.error))

    def wait_until_at(self, file: str, position: int) -> None:
        """Waits until the journal has come to a position."""
        state = self.tail.journal.state
        wait_for(
            lambda: (state.file, state.position) >= (file, position),
            lambda: (state, self.notices, self.error),
        )

    def stop(self) -> None:
        """Ends it in order."""
        self._stop.set()
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()
        if self.error is not None:
            raise self.error

    @property
    def records(self) -> list[str]:
        """The journal as lines; its sequence has no hole."""
        blocks = self.sink.blocks
        return list(block_to_lines(concatenate(blocks))) if blocks else []

    def binlog_events(self) -> list[FileEvent]:
        """What the journal has of the binary log."""
        found = []
        for block in self.sink.blocks:
            columns = {name: column.tolist() for name, column in block.columns.items()}
            found += [
                FileEvent(
                    block.files[columns["file"][i]],
                    columns["start"][i],
                    columns["length"][i],
                    columns["type"][i],
                    columns["checksum"][i],
                )
                for i in range(len(block))
                if columns["stream"][i] == 1
            ]
        return found


@contextmanager
def running(settings: ServerSettings, **more: Any) -> Iterator[RunningTail]:
    """A tail that is ended in any case."""
    tail = RunningTail(settings, **more)
    try:
        yield tail
    finally:
        tail.stop()


def settings_of(lab: Lab, name: str) -> ServerSettings:
    """How the collector reaches a server of the lab, with its relay logs."""
    (found,) = (each for each in load_servers(lab.config_file, ()) if each.name == name)
    return found.model_copy(update={"relay_log_dir": data_directory(lab, name)})


def data_directory(lab: Lab, name: str) -> Path:
    """Where a server of the lab has its files."""
    return lab.servers[name].data_directory
