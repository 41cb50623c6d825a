"""Threads that pass a server's critical zone: data only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tallystick.producers.simulator.backup.critical_zone import Ticket
    from tallystick.producers.simulator.kernel.transactions import Group


@dataclass(slots=True, eq=False)
class Thread:
    """A thread that changes data, from the locking of its tables to their unlocking.

    Attributes:
        number: What the journal calls it.
        group: What it writes to the binary log.
        tables: Names of the tables that it changes.
        enter_zone: Decided while the tables were locked.
        is_applier: Whether it applies row events on a replica.
        ticket: While it is in the zone.
        is_committing: Whether the commit stage has it, and unlocks its tables.
    """

    number: int
    group: Group
    tables: tuple[str, ...]
    enter_zone: bool
    is_applier: bool = False
    ticket: Ticket | None = None
    is_committing: bool = False

    def stay_inside(self) -> None:
        """The commit stage has the ticket from now on; it drops it."""
        self.is_committing = True
        if self.ticket is not None:
            self.ticket = self.ticket.hand_on()
