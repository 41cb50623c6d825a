"""The commit zone of WL#3576: commits pass through it, a backup closes it for its validity point.

A participant enters before it writes the binary log and drops its ticket behind the commit stage.
The zone is closed, runs empty, the validity point is taken, the zone opens again. Groups of tables
that are not backed up need no ticket and may be logged meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from coordinates.journal import RecordType
from producers.simulator.online_backup.tables import table_of

if TYPE_CHECKING:
    from producers.simulator.engine import Fleet
    from producers.simulator.model import Group, Instance

_VALIDITY_POINT_US = 150_000
WAIT_US = 5_000
"""After this time a group that found the zone closed tries again."""


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
    if zone is None:
        return 0
    table = table_of(group)
    if table is None or not table.is_backed_up:
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
