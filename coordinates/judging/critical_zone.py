"""Judging the commit zone of backups (invariants 55 and 56: WL#3576, critical zone)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinates.invariants.online_backup import (
    VP_ONLY_IN_EMPTY_CLOSED_ZONE,
    ZONE_ENTRY_PROTOCOL,
)
from coordinates.judging.step_judge import StepJudge

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coordinates.reporter import Reporter


class CriticalZoneProtocol(StepJudge):
    """The commit zone of one instance as its steps show it."""

    def __init__(self, reporter: Reporter) -> None:
        super().__init__(reporter)
        self._zone = "UNKNOWN"
        self._tickets: list[str] = []
        self._knows_tickets = False
        """Whether every ticket inside the zone was seen to be handed out."""

    def step(self, body: Mapping[str, Any], ts: int) -> None:
        """Take one ``zone`` record."""
        step, ticket = body.get("step"), str(body.get("ticket"))
        at = f"zone {step} {ticket}" if "ticket" in body else f"zone {step} at {ts}"
        if step == "close":
            if self._zone == "CLOSED":
                self._report_zone(at, "The zone was closed twice.", "close", "an open zone")
            self._zone = "CLOSED"
        elif step == "open":
            if self._zone == "OPEN":
                self._report_zone(at, "The zone was opened without being closed.", "open", "close")
            self._zone = "OPEN"
        elif step == "enter":
            if self._zone == "CLOSED":
                self._report_zone(
                    at,
                    f"Ticket {ticket} was handed out while the zone was closed.",
                    f"enter, ticket {ticket}",
                    "no enter until open",
                )
            self._tickets.append(ticket)
        elif step == "drop":
            if ticket in self._tickets:
                self._tickets.remove(ticket)
            elif self._knows_tickets:
                self._report_zone(
                    at,
                    f"Ticket {ticket} was dropped without being held.",
                    f"drop, ticket {ticket}",
                    "each ticket dropped exactly once",
                )
        elif step == "validity_point":
            self._validity_point(at)

    def _report_zone(self, at: str, sentence: str, observed: str, expected: str) -> None:
        self.report(ZONE_ENTRY_PROTOCOL, at, sentence, observed, expected, "Critical Zone API")

    def _validity_point(self, at: str) -> None:
        inside = len(self._tickets)
        self._knows_tickets = True
        if self._zone == "OPEN" or inside:
            self.report(
                VP_ONLY_IN_EMPTY_CLOSED_ZONE,
                at,
                f"The validity point was taken while the zone was {self._zone.lower()} with "
                f"{inside} tickets held.",
                f"{self._zone.lower()}, {inside} tickets",
                "closed, 0 tickets",
                "Solution with a critical zone",
            )

    def interrupted(self, *, records_lost: bool) -> None:
        """The server ended and its tickets are gone, or they are not known any more."""
        self._zone = "UNKNOWN" if records_lost else "OPEN"
        self._tickets = []
        self._knows_tickets = not records_lost

    def dump(self) -> dict[str, Any]:
        """For the state bytes."""
        return {
            "zone": self._zone,
            "tickets": self._tickets,
            "knows_tickets": self._knows_tickets,
        }

    def load(self, document: Mapping[str, Any]) -> None:
        """Inverse of ``dump``."""
        self._zone = document["zone"]
        self._tickets = list(document["tickets"])
        self._knows_tickets = document["knows_tickets"]
