"""The protocol of an online backup around its validity point (WL#3576).

Metadata operations are blocked from begin to end. Between them the engines are prelocked, then one
round or several: close the zone, wait until it is empty, lock the engines, take the validity
point, unlock, open the zone. A round that runs into its time-out unlocks, opens and sleeps; after
too many of them the backup bails out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from tallystick.coordinates.events.journal import RecordType
from tallystick.producers.simulator.backup.backup_synchronization import BackupSynchronization
from tallystick.producers.simulator.backup.engine_locking import ROUNDS_MAX, EngineLocks, pause_us
from tallystick.producers.simulator.kernel.transactions import GroupKind
from tallystick.producers.simulator.kernel.world import WENT_DOWN
from tallystick.producers.simulator.server import commit
from tallystick.producers.simulator.server.locks import MAY_WRITE

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallystick.producers.simulator.backup.engine_locking import Engine
    from tallystick.producers.simulator.kernel.bus import Bus
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.world import World

ER_LOCK_WAIT_TIMEOUT: Final = 1205
"""What a statement of the applier gets that waits for the end of a backup."""
_VALIDITY_POINT_US: Final = 150_000
"""How long the zone stays closed for a validity point without engine locks."""
_STORE_US: Final = 2_000
"""How long all engines stay locked for a validity point."""
_SESSION: Final = 91


@dataclass(slots=True, eq=False)
class Backup:
    """One backup of one server.

    Attributes:
        at_validity_point: Called when nobody is inside the closed zone and all engines are locked.
        at_end: Called when metadata operations are let go on; with whether there was a validity
            point. Not called when the server goes down.
        rounds_max: After so many rounds that fail the backup bails out.
        waiting: Metadata operations of clients that wait for the end.
    """

    fleet: World
    instance: Instance
    synchronization: BackupSynchronization
    engines: tuple[Engine, ...]
    at_validity_point: Callable[[], None]
    at_end: Callable[[bool], None]
    rounds_max: int
    locks: EngineLocks = field(init=False)
    waiting: list[Callable[[], None]] = field(default_factory=list)
    round_number: int = 0

    def __post_init__(self) -> None:
        self.locks = EngineLocks(
            self.fleet, self.instance, self.engines, self.rounds_max, self._is_alive
        )

    def begin(self) -> None:
        """Block metadata operations, those that run end first; prelock the engines."""
        commit.finish_all(self.fleet, self.instance)
        self._record_metadata("lock")
        self.locks.prelock(self.synchronise)

    def synchronise(self) -> None:
        """Begin a round: close the zone and wait until it is empty."""
        if not self._is_alive():
            return
        self.round_number += 1
        self.synchronization.close(self.lock_engines)

    def lock_engines(self) -> None:
        """Nobody is inside: lock the engines, then take the validity point."""
        if self.engines:
            self.locks.lock(self.round_number, self._take_validity_point, self.sleep_or_bail_out)
        else:
            self._take_validity_point()

    def _take_validity_point(self) -> None:
        self.synchronization.record("validity_point")
        self.at_validity_point()
        journal = self.instance.journal
        if self.engines:
            # The binary log is locked: until it is released nothing else happens on the server.
            self.instance.blocked_until = journal.tick(_STORE_US)
            self.locks.unlock_all(self.round_number)
            self.later(_STORE_US, partial(self._end, has_validity_point=True))
        else:
            self.later(_VALIDITY_POINT_US, partial(self._end, has_validity_point=True))

    def sleep_or_bail_out(self) -> None:
        """A round has timed out, its engines are unlocked: let everybody go on for a while."""
        if self.round_number == self.rounds_max:
            self.locks.abort(self.round_number)
            self._end(has_validity_point=False)
            return
        self.synchronization.open()
        self.later(pause_us(self.round_number), self.synchronise)

    def _end(self, *, has_validity_point: bool) -> None:
        if not self._is_alive():
            return
        self.synchronization.open()
        self._record_metadata("unlock")
        self.instance.remove(Backup)
        for go_on in self.waiting:
            go_on()
        self.at_end(has_validity_point)

    def _is_alive(self) -> bool:
        return self.instance.get(Backup) is self and self.instance.is_running

    def later(self, spent: int, act: Callable[[], None]) -> None:
        """Go on after a while."""
        self.fleet.clock.schedule(self.fleet.now + spent, self.instance, act)

    def _record_metadata(self, step: str) -> None:
        body = {"step": step, "lock": "instance", "session": _SESSION}
        self.instance.journal.record(RecordType.BACKUP_LOCK, body)


def begin(
    fleet: World,
    instance: Instance,
    engines: tuple[Engine, ...] = (),
    *,
    at_validity_point: Callable[[], None] = lambda: None,
    at_end: Callable[[bool], None] = lambda _: None,
    rounds_max: int = ROUNDS_MAX,
) -> bool:
    """Begin a backup; False: another one runs, or the server is down or has no critical zone."""
    synchronization = instance.get(BackupSynchronization)
    if synchronization is None or not instance.is_running or instance.get(Backup) is not None:
        return False
    instance[Backup] = Backup(
        fleet, instance, synchronization, engines, at_validity_point, at_end, rounds_max
    )
    instance[Backup].begin()
    return True


def blocks(instance: Instance, kind: GroupKind) -> bool:
    """Whether a backup keeps a metadata operation from going on."""
    return instance.get(Backup) is not None and kind is GroupKind.DDL


def join(bus: Bus) -> None:
    """Metadata operations of clients wait for the end of a backup, which ends with the server."""
    bus.connect(MAY_WRITE, _may_write)
    bus.connect(WENT_DOWN, lambda _, instance: instance.remove(Backup))


def _may_write(instance: Instance, kind: GroupKind, again: Callable[[], None]) -> bool:
    backup = instance.get(Backup)
    if backup is None or kind is not GroupKind.DDL:
        return True
    backup.waiting.append(again)
    return False
