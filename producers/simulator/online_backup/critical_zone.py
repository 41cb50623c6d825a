"""The commit zone of WL#3576: commits pass through it, a backup closes it for its validity point.

A participant enters before it writes the binary log and drops its ticket behind the commit stage.
The zone is closed, runs empty, the validity point is taken, the zone opens again. Groups of tables
that are not backed up need no ticket and may be logged meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from coordinates.journal import RecordType

if TYPE_CHECKING:
    from producers.simulator.engine import Fleet
    from producers.simulator.model import Group, Instance

_OUTSIDER_CHANCE = 0.2
_VALIDITY_POINT_US = 150_000
WAIT_US = 5_000
"""After this time a group that found the zone closed tries again."""
_LOCK_US = 4_000
_ENGINES = ("myisam", "innodb")
_ENGINE_TIMEOUT_US = 2_000_000
_ENGINE_PAUSE_US = 10_100_000


@dataclass(slots=True)
class CommitZone:
    """The zone of one instance."""

    is_open: bool = True
    tickets: set[int] = field(default_factory=set)
    last_ticket: int = 0


def install(instance: Instance) -> None:
    """From now on client commits of the instance pass through the zone."""
    instance.zone = CommitZone()


def enter(instance: Instance, group: Group) -> int | None:
    """Hand out a ticket; 0 for a group that does not take part; None: the group must wait."""
    zone = instance.zone
    if zone is None or group.body[0][3] % 100 < 100 * _OUTSIDER_CHANCE:
        return 0
    if not zone.is_open:
        return None
    zone.last_ticket += 1
    zone.tickets.add(zone.last_ticket)
    _tell(instance, "enter", ticket=zone.last_ticket)
    return zone.last_ticket


def drop(fleet: Fleet, instance: Instance, ticket: int) -> None:
    """Take a ticket back; the last one of a closed zone lets the validity point be taken."""
    zone = instance.zone
    if zone is None or ticket not in zone.tickets:
        return
    zone.tickets.remove(ticket)
    _tell(instance, "drop", ticket=ticket)
    if not zone.is_open and not zone.tickets:
        _take_validity_point(fleet, instance)


def close(fleet: Fleet, instance: Instance) -> None:
    """A backup begins to synchronise."""
    zone = instance.zone
    if zone is None or not instance.is_running or not zone.is_open:
        return
    zone.is_open = False
    _tell(instance, "close")
    _tell(instance, "wait")
    if not zone.tickets:
        _take_validity_point(fleet, instance)


def lock_engines(fleet: Fleet, instance: Instance, round_number: int) -> None:
    """Lock all engines within their budget; the first round runs into its time-out."""
    if not instance.is_running:
        return
    first, second = _ENGINES
    _tell_engines(instance, "begin" if round_number == 1 else "retry", round_number)
    instance.journal.tick(_LOCK_US)
    _tell_engines(instance, "lock", round_number, first)
    if round_number == 1:
        fleet.schedule(
            fleet.now + _ENGINE_TIMEOUT_US, instance, _give_up, instance, round_number, second
        )
        return
    instance.journal.tick(_LOCK_US)
    _tell_engines(instance, "lock", round_number, second)
    _tell_engines(instance, "done", round_number)
    instance.blocked_until = instance.journal.tick(_LOCK_US)
    _tell_engines(instance, "unlock_all", round_number)


def _give_up(fleet: Fleet, instance: Instance, round_number: int, engine: str) -> None:
    _tell_engines(instance, "timeout", round_number, engine)
    _tell_engines(instance, "unlock_all", round_number)
    fleet.schedule(fleet.now + _ENGINE_PAUSE_US, instance, lock_engines, instance, round_number + 1)


def _take_validity_point(fleet: Fleet, instance: Instance) -> None:
    _tell(instance, "validity_point")
    fleet.clock.schedule(fleet.now + _VALIDITY_POINT_US, instance, _open, instance)


def _open(instance: Instance) -> None:
    zone = instance.zone
    if zone is not None and instance.is_running and not zone.is_open:
        zone.is_open = True
        _tell(instance, "open")


def _tell(instance: Instance, step: str, **fields: Any) -> None:
    instance.journal.fact(RecordType.ZONE, {"step": step, **fields})


def _tell_engines(
    instance: Instance, step: str, round_number: int, engine: str | None = None
) -> None:
    body: dict[str, Any] = {"step": step, "round": round_number}
    if engine is not None:
        body["engine"] = engine
    instance.journal.fact(RecordType.ENGINE_LOCK, body)
