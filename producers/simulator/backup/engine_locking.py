"""How a backup locks all engines within one time-out (WL#3576, mail of 2006-10-30).

What takes long an engine does in ``prelock``. ``lock`` only touches memory, so it is quick or waits
for somebody; it gets what is left of the time for all. The binary log is one of the engines.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tallystick.coordinates.events.journal import RecordType
from tallystick.producers.simulator.backup import binlog_mutex
from tallystick.producers.simulator.backup.binlog_mutex import BinlogMutex

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.world import World

BINARY_LOG: Final = "binlog"
"""What the journal calls the binary log where it is one of the engines."""
TIMEOUT_US: Final = 2_000_000
"""Time allowed to lock all engines."""
ROUNDS_MAX: Final = 3
"""After so many rounds the backup bails out."""
_PAUSE_US: Final = 10_050_000
_LOCK_US: Final = 4_000


@dataclass(frozen=True, slots=True)
class Engine:
    """What a backup knows of an engine.

    Attributes:
        name: As the journal calls it.
        prelock_us: Time that ``prelock`` takes; 0 without it.
        waits_us: How long ``lock`` waits for somebody else, round by round, and not at all later.
        ignores_timeout: Whether ``lock`` comes back when it is done, however long that takes.
        is_locked_by_prelock: Whether the binary log's mutex is taken in ``prelock`` already, which
            the mail advises against.
    """

    name: str
    prelock_us: int = 20_000
    waits_us: tuple[int, ...] = ()
    ignores_timeout: bool = False
    is_locked_by_prelock: bool = False

    def lock_us(self, round_number: int) -> int:
        """Time that ``lock`` needs in a round, from 1."""
        waits = self.waits_us[round_number - 1 : round_number]
        return _LOCK_US + sum(waits)


ENGINES: Final = (
    Engine("myisam", 60_000),
    Engine("ndb"),
    Engine("innodb"),
    Engine(BINARY_LOG, prelock_us=0),
)
"""In the order in which they are locked: the binary log, which everybody needs, last."""


def pause_us(round_number: int) -> int:
    """How long a backup sleeps after a round that failed: longer each time."""
    return _PAUSE_US << (round_number - 1)


@dataclass(frozen=True, slots=True)
class _Round:
    """One attempt to lock all engines; ``end_max`` is the moment when the time is over."""

    number: int
    end_max: int
    locked: Callable[[], None]
    timed_out: Callable[[], None]


@dataclass(slots=True, eq=False)
class EngineLocks:
    """The engines of one backup, prelocked once and locked round by round.

    Attributes:
        locked: Names of the engines that are locked now.
        timed_out: Names of those that were not locked in time, round by round.
    """

    fleet: World
    instance: Instance
    engines: tuple[Engine, ...]
    rounds_max: int
    is_alive: Callable[[], bool]
    """Whether the backup still runs: not once its server went down."""
    locked: list[str] = field(default_factory=list)
    timed_out: list[str] = field(default_factory=list)

    def prelock(self, prelocked: Callable[[], None]) -> None:
        """Let every engine do what takes long; then call ``prelocked``."""
        self._prelock(0, prelocked)

    def _prelock(self, index: int, prelocked: Callable[[], None]) -> None:
        if not self.is_alive():
            return
        if index == len(self.engines):
            prelocked()
            return
        engine = self.engines[index]
        if engine.prelock_us:
            self._record("prelock", engine=engine.name)
        if engine.is_locked_by_prelock:
            self.instance[BinlogMutex] = BinlogMutex()
        self._later(engine.prelock_us, self._prelock, index + 1, prelocked)

    def lock(
        self, round_number: int, locked: Callable[[], None], timed_out: Callable[[], None]
    ) -> None:
        """Lock all engines within the time-out.

        Args:
            round_number: From 1.
            locked: Called when all are locked.
            timed_out: Called when that took too long and all are unlocked again.
        """
        step = "begin" if round_number == 1 else "retry"
        self._record(step, round_number, timeout=TIMEOUT_US, rounds_max=self.rounds_max)
        end_max = self.instance.journal.moment() + TIMEOUT_US
        self._lock(0, _Round(round_number, end_max, locked, timed_out))

    def _lock(self, index: int, this: _Round) -> None:
        if index == len(self.engines):
            self._record("done", this.number)
            this.locked()
            return
        engine = self.engines[index]
        timeout = self.time_left(this.end_max)
        needs = engine.lock_us(this.number)
        if engine.name == BINARY_LOG:
            needs += binlog_mutex.time_left(self.instance, self.fleet.now)
        if needs > timeout and not engine.ignores_timeout:
            self._later(timeout, self._time_out, engine, this, timeout)
        else:
            self._later(needs, self._go_on, index, this, timeout)

    def time_left(self, end_max: int) -> int:
        """What the next engine is given of the time for all, microseconds."""
        return end_max - self.instance.journal.moment()

    def _time_out(self, engine: Engine, this: _Round, timeout: int) -> None:
        if self.is_alive():
            self._record("timeout", this.number, engine=engine.name, timeout=timeout)
            self.timed_out.append(engine.name)
            self.unlock_all(this.number)
            this.timed_out()

    def _go_on(self, index: int, this: _Round, timeout: int) -> None:
        if not self.is_alive():
            return
        name = self.engines[index].name
        self._record("lock", this.number, engine=name, timeout=timeout)
        self.locked.append(name)
        if self.instance.journal.moment() < this.end_max:
            self._lock(index + 1, this)
        else:  # an engine that does not heed its time-out has used up that of the others
            self.unlock_all(this.number)
            this.timed_out()

    def unlock_all(self, round_number: int) -> None:
        """Unlock what is locked."""
        self.locked.clear()
        if any(engine.is_locked_by_prelock for engine in self.engines):
            self.instance.remove(BinlogMutex)
        self._record("unlock_all", round_number)

    def abort(self, round_number: int) -> None:
        """Bail out: there were too many rounds."""
        self._record("abort", round_number)

    def _later(self, spent: int, act: Callable[..., None], *args: Any) -> None:
        self.fleet.clock.schedule(self.fleet.now + spent, self.instance, act, *args)

    def _record(self, step: str, round_number: int | None = None, **about: Any) -> None:
        body: dict[str, Any] = {"step": step, **about}
        if round_number is not None:
            body["round"] = round_number
        self.instance.journal.record(RecordType.ENGINE_LOCK, body)
