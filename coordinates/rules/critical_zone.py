"""Tier 3: does nobody pass the critical zones of an online backup (WL#3576)?

The steps come from `zone` records (docs/journal.md).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.families import Family, Lack
from tallystick.coordinates.rules.outcomes import Broken
from tallystick.coordinates.rules.protocol_steps import Forgotten, note_undecided
from tallystick.coordinates.rules.registry import Case, Rule, reason, register
from tallystick.coordinates.state_codec import COLLABORATOR, reset

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallystick.coordinates.audit.reporter import Reporter

ZONE_ENTRY_PROTOCOL = register(
    Rule(
        number=55,
        name="zone_entry_protocol",
        tier=3,
        scope="T",
        family=Family.COMMIT_ZONE,
        severity=Severity.CRITICAL,
        heals="never",
        claim=(
            "No session enters a closed commit zone, each ticket is dropped exactly once, and the"
            " zone is opened only after it was closed."
        ),
        why=(
            "Entering takes a shared lock that the ticket holds, closing the exclusive one: who"
            " comes later waits until the zone opens. A session that slips in logs and commits in"
            " the middle of the validity point."
        ),
        undecided_when=(
            "the zone's steps were not observed from an open zone on, or the journal has a gap"
            " among them"
        ),
        sources=("WL#3576, Critical Zone API",),
        remedy=(
            "Discard the backup whose validity point lies in this closing: its data and its binary"
            " log position may differ. Take it again, without concurrent writes if it comes back."
        ),
        cases={
            "opened_unclosed": Case(
                "The zone was opened without being closed.",
                "{witness}",
                "journal",
                "close",
                "Critical Zone API",
            ),
            "closed_twice": Case(
                "The zone was closed twice.",
                "{witness}",
                "journal",
                "an open zone",
                "Critical Zone API",
            ),
            "ticket_in_closed_zone": Case(
                "Ticket {ticket} was handed out while the zone was closed.",
                "{witness}",
                "journal",
                "no enter until open",
                "Critical Zone API",
            ),
            "ticket_dropped_unheld": Case(
                "Ticket {ticket} was dropped without being held.",
                "{witness}",
                "journal",
                "each ticket dropped exactly once",
                "Critical Zone API",
            ),
        },
    )
)

VP_ONLY_IN_EMPTY_CLOSED_ZONE = register(
    Rule(
        number=56,
        name="vp_only_in_empty_closed_zone",
        tier=3,
        scope="T",
        family=Family.COMMIT_ZONE,
        severity=Severity.CRITICAL,
        heals="never",
        claim=(
            "A validity point and its binary log position are taken only while the commit zone is"
            " closed and no session is inside."
        ),
        why=(
            "A ticket covers writing the binary log, commit and unlocking of tables. Once the zone"
            " is closed and the last ticket dropped, no change is logged without being visible, or"
            " visible without being logged, so position and data agree."
        ),
        undecided_when=(
            "the closing or the tickets before it were not observed, or the journal has a gap"
            " before the validity point"
        ),
        sources=("WL#3576, Solution with a critical zone",),
        remedy=(
            "Do not start a replica or a point-in-time recovery at the stored position of this"
            " backup; take the backup again."
        ),
        cases={
            "validity_point_in_use": Case(
                (
                    "The validity point was taken while the zone was {state} with {tickets:n"
                    " ticket} held."
                ),
                "{state}, {tickets:n ticket}",
                "journal",
                "closed, 0 tickets",
                "Solution with a critical zone",
            ),
        },
    )
)

TABLES_UNKNOWN = reason(
    "zone_tables_unknown",
    "thread {thread} changed tables without a ticket while the zone was closed, and which these"
    " are, or which are backed up, is not known",
    Lack.BACKUP,
)

CRITICAL_SEQUENCE_IN_ZONE = register(
    Rule(
        number=79,
        name="critical_sequence_in_zone",
        tier=3,
        scope="T",
        family=Family.COMMIT_ZONE,
        severity=Severity.CRITICAL,
        heals="never",
        claim=(
            "Who executes the critical sequence (write the binary log, commit, unlock the tables)"
            " holds a ticket of the zone during all of it, in this order, or changes no table that"
            " is backed up."
        ),
        why=(
            "Each thread decides while it locks its tables whether it will enter: always when no"
            " backup synchronises, else if it changes a table that is backed up. The closed, empty"
            " zone then proves that nobody is between logging a change and making it visible;"
            " unlocking is what does so for engines without transactions. What others log"
            " meanwhile is of tables that the backup leaves out."
        ),
        undecided_when=(
            "the steps of the sequence were not observed, tickets or the closing of the zone were"
            " not, or the tables of the thread or of the backup are not reported"
        ),
        sources=(
            "WL#3576, Solution with a critical zone",
            "WL#3576, Optimization of the zone",
        ),
        remedy=(
            "Discard the backup whose validity point lies in this closing: it may hold a change"
            " that its binary log position does not, or the other way round. Look at what executed"
            " the change: an applier, a plugin or a statement that does not enter the zone."
        ),
        cases={
            "outside_at_validity_point": Case(
                (
                    "At the validity point thread {thread} had logged a change of {taken:list} and"
                    " not unlocked {taken:it|them}, without being in the zone."
                ),
                "thread {thread} outside, tables {tables:list}",
                "journal",
                "write binlog, commit, unlock tables: in this order and inside the zone",
                "WL#3576, Solution with a critical zone",
            ),
            "logged_outside": Case(
                (
                    "Thread {thread} wrote a change of {taken:list} to the binary log while the"
                    " zone was closed for a backup of {taken:it|them}, without being in the zone."
                ),
                "thread {thread} outside, tables {tables:list}",
                "journal",
                "write binlog, commit, unlock tables: in this order and inside the zone",
                "WL#3576, Solution with a critical zone",
            ),
            "ticket_not_held": Case(
                "Thread {thread} executed {step} with ticket {ticket}, which nobody held.",
                "{step}, ticket {ticket} not held",
                "journal",
                "write binlog, commit, unlock tables: in this order and inside the zone",
                "WL#3576, Solution with a critical zone",
            ),
            "sequence_out_of_order": Case(
                "Thread {thread} executed {earlier} before {step}.",
                "{earlier} before {step}",
                "journal",
                "write binlog, commit, unlock tables: in this order and inside the zone",
                "WL#3576, Solution with a critical zone",
            ),
        },
    )
)

_SEQUENCE: Final = ("write_binlog", "commit", "unlock_tables")
"""The steps of the critical sequence, in their order."""
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
        steps: Ticket to the number of its last step in the critical sequence.
        outsiders: Threads without a ticket in the critical sequence, with their tables, if known.
    """

    state: str = "UNKNOWN"
    tickets: list[str] = field(default_factory=list)
    knows_tickets: bool = False
    backed_up: list[str] | None = None
    steps: dict[str, int] = field(default_factory=dict)
    outsiders: dict[str, list[str] | None] = field(default_factory=dict)

    @property
    def is_idle(self) -> bool:
        """Whether it is as a zone without records, which is open and empty."""
        return self.state == "OPEN" and self.knows_tickets and not (self.tickets or self.outsiders)


@dataclass(eq=False)
class CriticalZoneProtocol:
    """The critical zones of one instance as their steps show them."""

    _reporter: Reporter = field(metadata=COLLABORATOR)
    _is_known: bool = False
    """Whether a zone without records yet is open and empty."""
    _zones: dict[str, _Zone] = field(default_factory=dict)
    forgotten: Forgotten = field(default_factory=Forgotten)
    outside: Forgotten = field(default_factory=Forgotten)
    """Threads in the critical sequence of which it is not known that they are."""

    def step(self, body: Mapping[str, Any], ts: int) -> None:
        """Take one ``zone`` record."""
        name = body.get("zone", "")
        zone = self._zones.get(name)
        if zone is None:
            if len(self._zones) >= _ZONES_MAX:
                self._forget_zone()
            zone = _Zone("OPEN" if self._is_known else "UNKNOWN", knows_tickets=self._is_known)
            self._zones[name] = zone
        step, ticket = body["step"], str(body.get("ticket"))
        at = " ".join(filter(None, ("zone", name, step)))
        at = f"{at} {ticket}" if "ticket" in body else f"{at} at {ts}"
        if step == "close":
            self._close(zone, body.get("tables"), at)
        elif step == "open":
            if zone.state == "OPEN":
                self._reporter.broken(
                    ZONE_ENTRY_PROTOCOL, Broken("opened_unclosed", witness="open", at=at)
                )
            zone.state = "OPEN"
            zone.backed_up = None
        elif step == "enter":
            self._enter(zone, ticket, at)
        elif step == "drop":
            self._drop(zone, ticket, at)
        elif step == "validity_point":
            self._validity_point(zone, at)
        elif step in _SEQUENCE:
            self._execute(zone, step, body, at, name)

    def _forget_zone(self) -> None:
        """One that is idle comes again as it was; of another, nothing is known when it does."""
        idle = (name for name, zone in self._zones.items() if zone.is_idle and self._is_known)
        name = next(idle, None)
        if name is not None:
            del self._zones[name]
            return
        name = next(iter(self._zones))
        del self._zones[name]
        self._is_known = False
        self.forgotten.drop(
            self._reporter,
            ZONE_ENTRY_PROTOCOL,
            VP_ONLY_IN_EMPTY_CLOSED_ZONE,
            CRITICAL_SEQUENCE_IN_ZONE,
            what="zones",
            kept=_ZONES_MAX,
            at=f"zone {name}",
        )

    def _close(self, zone: _Zone, tables: list[str] | None, at: str) -> None:
        if zone.state == "CLOSED":
            self._reporter.broken(
                ZONE_ENTRY_PROTOCOL, Broken("closed_twice", witness="close", at=at)
            )
        zone.state = "CLOSED"
        zone.backed_up = tables

    def _enter(self, zone: _Zone, ticket: str, at: str) -> None:
        if zone.state == "CLOSED":
            witness = f"enter, ticket {ticket}"
            broken = Broken("ticket_in_closed_zone", witness=witness, at=at, ticket=ticket)
            self._reporter.broken(ZONE_ENTRY_PROTOCOL, broken)
        zone.tickets.append(ticket)

    def _drop(self, zone: _Zone, ticket: str, at: str) -> None:
        zone.steps.pop(ticket, None)
        if ticket in zone.tickets:
            zone.tickets.remove(ticket)
        elif zone.knows_tickets:
            witness = f"drop, ticket {ticket}"
            broken = Broken("ticket_dropped_unheld", witness=witness, at=at, ticket=ticket)
            self._reporter.broken(ZONE_ENTRY_PROTOCOL, broken)

    def _validity_point(self, zone: _Zone, at: str) -> None:
        inside = len(zone.tickets)
        zone.knows_tickets = True
        if zone.state == "OPEN" or inside:
            state = zone.state.lower()
            self._reporter.broken(
                VP_ONLY_IN_EMPTY_CLOSED_ZONE,
                Broken(
                    "validity_point_in_use",
                    witness=f"{state}, {inside} {'ticket' if inside == 1 else 'tickets'}",
                    at=at,
                    state=state,
                    tickets=inside,
                ),
            )
        for thread, tables in list(zone.outsiders.items()):
            if self._judge_outsider(zone, "outside_at_validity_point", at, thread, tables):
                del zone.outsiders[thread]

    def _execute(self, zone: _Zone, step: str, body: Mapping[str, Any], at: str, name: str) -> None:
        thread, tables = str(body["thread"]), body.get("tables")
        if "ticket" in body:
            self._execute_inside(zone, step, str(body["ticket"]), thread, at)
            return
        if step == "unlock_tables":
            zone.outsiders.pop(thread, None)
            self.outside.ended(_name(thread, name))
        elif step == "write_binlog":
            is_closed = zone.state == "CLOSED"
            if is_closed and self._judge_outsider(zone, "logged_outside", at, thread, tables):
                return
            while len(zone.outsiders) >= _OUTSIDERS_MAX:
                forgotten = next(iter(zone.outsiders))
                del zone.outsiders[forgotten]
                self.outside.drop(
                    self._reporter,
                    CRITICAL_SEQUENCE_IN_ZONE,
                    what="threads outside the zone",
                    kept=_OUTSIDERS_MAX,
                    at=f"thread {forgotten}",
                    names=[_name(forgotten, name)],
                )
            zone.outsiders[thread] = tables

    def _execute_inside(self, zone: _Zone, step: str, ticket: str, thread: str, at: str) -> None:
        number = _SEQUENCE.index(step)
        if ticket not in zone.tickets:
            if zone.knows_tickets:
                self._reporter.broken(
                    CRITICAL_SEQUENCE_IN_ZONE,
                    Broken(
                        "ticket_not_held",
                        witness=f"{step}, ticket {ticket} not held",
                        at=at,
                        thread=thread,
                        step=step,
                        ticket=ticket,
                    ),
                )
            return
        last = zone.steps.get(ticket, 0)
        if number < last:
            earlier = _SEQUENCE[last]
            self._reporter.broken(
                CRITICAL_SEQUENCE_IN_ZONE,
                Broken(
                    "sequence_out_of_order",
                    witness=f"{earlier} before {step}",
                    at=at,
                    thread=thread,
                    earlier=earlier,
                    step=step,
                ),
            )
        zone.steps[ticket] = max(number, last)

    def _judge_outsider(
        self, zone: _Zone, case: str, at: str, thread: str, tables: list[str] | None
    ) -> bool:
        """Whether a thread without a ticket changes what is backed up, or may do so."""
        if zone.backed_up is None or tables is None:
            rules = [CRITICAL_SEQUENCE_IN_ZONE]
            note_undecided(self._reporter, rules, TABLES_UNKNOWN, at, thread=thread)
            return True
        taken = sorted(set(tables) & set(zone.backed_up))
        if taken:
            witness = f"thread {thread} outside, tables {', '.join(tables)}"
            self._reporter.broken(
                CRITICAL_SEQUENCE_IN_ZONE,
                Broken(case, witness=witness, at=at, thread=thread, taken=taken, tables=tables),
            )
        return bool(taken)

    def interrupted(self) -> None:
        """The server ended and its tickets are gone."""
        reset(self)
        self._is_known = True


def _name(thread: str, zone: str) -> str:
    return f"{thread} of zone {zone}"
