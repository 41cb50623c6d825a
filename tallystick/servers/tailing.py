"""Several tails in one process: their threads, their saved states, who asks them."""

from __future__ import annotations

import fcntl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO, final

from tallystick.coordinates.events.collect_request import CollectRequest
from tallystick.coordinates.events.journal import Block
from tallystick.coordinates.events.json_lines_writer import block_to_lines
from tallystick.coordinates.values.errors import AuditError
from tallystick.errors import MisuseError
from tallystick.producers.kafka_clients.errors import SupersededError
from tallystick.producers.mysql.errors import UnsupportedServerError
from tallystick.producers.mysql.tail import Tail, steady_clock_us
from tallystick.producers.mysql.tail_state import TailState

RESUME_MARGIN_MS = 60_000
"""Blocks are searched for so long before the state was saved: clocks of a producer's machines."""
JOIN_S = 60.0


@final
class FileSink:
    """Blocks as JSON Lines; several threads may send."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._lock = threading.Lock()

    def send(self, block: Block) -> None:
        """Write a block."""
        text = "\n".join((*block_to_lines(block), ""))
        with self._lock:
            self._file.write(text)

    def flush(self) -> None:
        """Hand everything to the system."""
        with self._lock:
            self._file.flush()

    def close(self) -> None:
        """Flush; the file is its opener's."""
        self.flush()


@contextmanager
def alone_in(directory: Path) -> Iterator[None]:
    """Hold a folder of states: two tails of one journal would write two histories.

    Raises:
        MisuseError: Another process has it, or it cannot be made.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / "lock").open("w")
    except OSError as error:
        raise MisuseError(f"{str(directory)!r} cannot be written: {error.strerror}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise MisuseError(
                f"another tallystick tail runs with {str(directory)!r};"
                " use another --directory or --topic-prefix"
            ) from None
        yield


def resumed(
    state: TailState | None, published: Sequence[Block]
) -> tuple[TailState | None, str | None]:
    """The state that a journal goes on from, None if it begins, and why it cannot go on.

    Args:
        state: As it was saved, None if it never was.
        published: The instance's blocks in the topic since about then.
    """
    if state is None:
        return None, None
    for block in published:
        if block.epoch > state.epoch:
            return None, "somebody else wrote its journal since: it begins anew"
        if block.epoch < state.epoch or block.next_sequence <= state.next_sequence:
            continue
        if block.first_sequence > state.next_sequence:
            return None, "part of its journal is not there: it begins anew"
        state.note(block.take(state.next_sequence - block.first_sequence, len(block)))
    return state, None


@final
class Tails:
    """Runs tails side by side until they are to stop.

    Args:
        tails: One a server.
        requests: Returns the collections that are asked for, after at most some seconds.
        superseded: Returns the instances whose journals somebody else writes now.
        notice: Takes one line.
    """

    def __init__(
        self,
        tails: Sequence[Tail],
        requests: Callable[[float], list[CollectRequest]],
        notice: Callable[[str], None],
        superseded: Callable[[], Mapping[str, SupersededError]] = dict,
    ) -> None:
        self._tails = tails
        self._superseded = superseded
        self._requests = requests
        self._notice = notice
        self._errors: dict[str, BaseException] = {}
        self._lock = threading.Lock()

    def run(self, stop: threading.Event) -> None:
        """Follow all servers; one that cannot be followed leaves the others alone.

        Raises:
            AuditError: The journal cannot be delivered, or no server can be followed.
        """
        stops = {tail.name: threading.Event() for tail in self._tails}
        threads = [
            threading.Thread(
                target=self._run, args=(tail, stops[tail.name]), name=tail.name, daemon=True
            )
            for tail in self._tails
        ]
        for thread in threads:
            thread.start()
        try:
            while not stop.is_set() and any(thread.is_alive() for thread in threads):
                for request in self._requests(0.2):
                    for tail in self._tails:
                        if request.concerns(tail.name) and tail.name not in self._errors:
                            tail.ask(request)
                for name, error in self._superseded().items():
                    self._end(name, error, stops[name])
                if any(not _is_of_server(error) for error in self._errors.values()):
                    break
        finally:
            stop.set()
            for each in stops.values():
                each.set()
            for thread in threads:
                thread.join(JOIN_S)
        grave = [error for error in self._errors.values() if not _is_of_server(error)]
        if grave:
            raise grave[0]
        if len(self._errors) == len(self._tails):
            raise list(self._errors.values())[-1]

    def _end(self, name: str, error: SupersededError, stop: threading.Event) -> None:
        """One journal is somebody else's; the others go on."""
        self._leave(name, error)
        stop.set()

    def _leave(self, name: str, error: AuditError) -> None:
        """Note why a server is not followed; of the last one it is raised, and said there."""
        with self._lock:
            self._errors.setdefault(name, error)
            ends_it = len(self._errors) == len(self._tails)
            is_raised = ends_it and all(map(_is_of_server, self._errors.values()))
        if not is_raised:
            self._notice(str(error))

    def _run(self, tail: Tail, stop: threading.Event) -> None:
        try:
            tail.run(stop)
        except UnsupportedServerError as error:
            self._leave(tail.name, error)
        except OSError as error:
            self._errors[tail.name] = AuditError(
                f"{tail.name}: its state cannot be saved: {error.strerror or error}"
            )
        except Exception as error:  # noqa: BLE001  it is raised again where the tails are run
            self._errors[tail.name] = error


def _is_of_server(error: BaseException) -> bool:
    return isinstance(error, (UnsupportedServerError, SupersededError))


def regular_requests(interval_s: float) -> Callable[[float], list[CollectRequest]]:
    """Asks for a collection at once and then every interval: where nobody else does."""
    due = time.monotonic()
    count = 0

    def ask(timeout_s: float) -> list[CollectRequest]:
        nonlocal due, count
        left = due - time.monotonic()
        if left > 0:
            time.sleep(min(left, timeout_s))
            return []
        due = time.monotonic() + interval_s
        count += 1
        now = steady_clock_us()
        return [CollectRequest(f"tail-{now // 1_000_000}-{count}", now)]

    return ask
