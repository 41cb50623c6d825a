"""Judging critical zones and who passes them (invariants 55, 56 and 79: WL#3576)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tallystick.coordinates.rules.judging.step_judge import StepJudge
from tallystick.coordinates.rules.online_backup import (
    CRITICAL_SEQUENCE_IN_ZONE,
    VP_ONLY_IN_EMPTY_CLOSED_ZONE,
    ZONE_ENTRY_PROTOCOL,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


_SEQUENCE: Final = ("write_binlog", "commit", "unlock_tables")
"""The steps of the critical sequence, in their order."""
_DONE: Final = {
    "write_binlog": "wrote the binary log",
    "commit": "committed",
    "unlock_tables": "unlocked its tables",
}
_OUTSIDERS_MAX: Final = 1_024
_ZONES_MAX: Final = 64


@dataclass(slots=True)
class _Zone:
    """What was seen of one zone.

    Attributes:
        state: OPEN, CLOSED or UNKNOWN.
        tickets: Those that are held.
        knows_tickets: Whether every ticket inside the zone was seen to be handed out.
        backed_up: Tables that the backup takes which closed it; None: not known, or not closed.
        steps: Ticket to the place of its last step in the critical sequence.
        outsiders: Threads without a ticket in the critical sequence, with their tables.
    """

    state: str = "UNKNOWN"
    tickets: list[str] = field(default_factory=list)
    knows_tickets: bool = False
    backed_up: list[str] | None = None
    steps: dict[str, int] = field(default_factory=dict)
    outsiders: dict[str, list[str]] = field(default_factory=dict)

    def participating(self, tables: list[str] | None) -> list[str]:
        """Those of the tables that are backed up now, as far as is known."""
        if self.backed_up is None or tables is None:
            return []
        return sorted(set(tables) & set(self.backed_up))


@dataclass(eq=False)
class CriticalZoneProtocol(StepJudge):
    """The critical zones of one instance as their steps show them."""

    _is_known: bool = False
    """Whether a zone of which nothing was told yet is open and empty."""
    _zones: dict[str, _Zone] = field(default_factory=dict)

    def step(self, body: Mapping[str, Any], ts: int) -> None:
        """Take one ``zone`` record."""
        name = str(body.get("zone", ""))
        zone = self._zones.get(name)
        if zone is None:
            if len(self._zones) >= _ZONES_MAX:
                del self._zones[next(iter(self._zones))]
            zone = _Zone("OPEN" if self._is_known else "UNKNOWN", knows_tickets=self._is_known)
            self._zones[name] = zone
        step, ticket = str(body.get("step")), str(body.get("ticket"))
        at = " ".join(filter(None, ("zone", name, step)))
        at = f"{at} {ticket}" if "ticket" in body else f"{at} at {ts}"
        if step == "close":
            self._close(zone, body.get("tables"), at)
        elif step == "open":
            if zone.state == "OPEN":
                self._report_entry(at, "The zone was opened without being closed.", "open", "close")
            zone.state = "OPEN"
            zone.backed_up = None
        elif step == "enter":
            self._enter(zone, ticket, at)
        elif step == "drop":
            self._drop(zone, ticket, at)
        elif step == "validity_point":
            self._validity_point(zone, at)
        elif step in _SEQUENCE:
            self._execute(zone, step, body, at)

    def _close(self, zone: _Zone, tables: list[str] | None, at: str) -> None:
        if zone.state == "CLOSED":
            self._report_entry(at, "The zone was closed twice.", "close", "an open zone")
        zone.state = "CLOSED"
        zone.backed_up = tables

    def _enter(self, zone: _Zone, ticket: str, at: str) -> None:
        if zone.state == "CLOSED":
            self._report_entry(
                at,
                f"Ticket {ticket} was handed out while the zone was closed.",
                f"enter, ticket {ticket}",
                "no enter until open",
            )
        zone.tickets.append(ticket)

    def _drop(self, zone: _Zone, ticket: str, at: str) -> None:
        zone.steps.pop(ticket, None)
        if ticket in zone.tickets:
            zone.tickets.remove(ticket)
        elif zone.knows_tickets:
            self._report_entry(
                at,
                f"Ticket {ticket} was dropped without being held.",
                f"drop, ticket {ticket}",
                "each ticket dropped exactly once",
            )

    def _report_entry(self, at: str, sentence: str, observed: str, expected: str) -> None:
        self.report(ZONE_ENTRY_PROTOCOL, at, sentence, observed, expected, "Critical Zone API")

    def _validity_point(self, zone: _Zone, at: str) -> None:
        inside = len(zone.tickets)
        zone.knows_tickets = True
        if zone.state == "OPEN" or inside:
            self.report(
                VP_ONLY_IN_EMPTY_CLOSED_ZONE,
                at,
                f"The validity point was taken while the zone was {zone.state.lower()} with "
                f"{inside} tickets held.",
                f"{zone.state.lower()}, {inside} tickets",
                "closed, 0 tickets",
                "Solution with a critical zone",
            )
        for thread, tables in list(zone.outsiders.items()):
            taken = zone.participating(tables)
            if taken:
                del zone.outsiders[thread]
                self._report_sequence(
                    at,
                    f"At the validity point thread {thread} had logged a change of "
                    f"{', '.join(taken)} and not unlocked it, without being in the zone.",
                    f"thread {thread} outside, tables {', '.join(tables)}",
                )

    def _execute(self, zone: _Zone, step: str, body: Mapping[str, Any], at: str) -> None:
        thread, tables = str(body.get("thread")), body.get("tables")
        if "ticket" in body:
            self._execute_inside(zone, step, str(body["ticket"]), thread, at)
            return
        taken = zone.participating(tables)
        if step == "unlock_tables":
            zone.outsiders.pop(thread, None)
        elif step == "write_binlog" and taken:
            self._report_sequence(
                at,
                f"Thread {thread} wrote a change of {', '.join(taken)} to the binary log while the "
                "zone was closed for a backup of it, without being in the zone.",
                f"thread {thread} outside, tables {', '.join(tables or ())}",
            )
        elif step == "write_binlog" and tables is not None:
            while len(zone.outsiders) >= _OUTSIDERS_MAX:
                del zone.outsiders[next(iter(zone.outsiders))]
            zone.outsiders[thread] = list(tables)

    def _execute_inside(self, zone: _Zone, step: str, ticket: str, thread: str, at: str) -> None:
        place = _SEQUENCE.index(step)
        if ticket not in zone.tickets:
            if zone.knows_tickets:
                self._report_sequence(
                    at,
                    f"Thread {thread} {_DONE[step]} with ticket {ticket}, which nobody held.",
                    f"{step}, ticket {ticket} not held",
                )
            return
        last = zone.steps.get(ticket, 0)
        if place < last:
            self._report_sequence(
                at,
                f"Thread {thread} {_DONE[_SEQUENCE[last]]} before it {_DONE[step]}.",
                f"{_SEQUENCE[last]} before {step}",
            )
        zone.steps[ticket] = max(place, last)

    def _report_sequence(self, at: str, sentence: str, observed: str) -> None:
        self.report(
            CRITICAL_SEQUENCE_IN_ZONE,
            at,
            sentence,
            observed,
            "write binlog, commit, unlock tables: in this order and inside the zone",
            "WL#3576, Solution with a critical zone",
        )

    def interrupted(self, *, records_lost: bool) -> None:
        """The server ended and its tickets are gone, or they are not known any more."""
        self._is_known = not records_lost
        self._zones = {}
