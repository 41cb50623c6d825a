"""Changes of incidents as the audit makes them."""

from __future__ import annotations

import itertools

from tallystick.coordinates.audit.incidents import Incidents
from tallystick.coordinates.events.incident_control import ControlAction, IncidentControl
from tallystick.coordinates.results import Check, IncidentChange, Outcome, SubjectCheck
from tests.support.results import finding

A = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"
BEGAN_US = 1_790_000_000_000_000


class History:
    """One fleet's incidents; each step is later than the one before."""

    def __init__(self) -> None:
        self.incidents = Incidents()
        self._clock = itertools.count(BEGAN_US, 1_000_000)
        self._gnos = itertools.count(1)

    def errant(self, count: int = 1, instance: str = "b", **values) -> list[IncidentChange]:
        """So many new errant writes on an instance."""
        gtids = [f"{A}:{next(self._gnos)}" for _ in range(count)]
        given = {"rule": "no_errant_gtids", "case": "not_of_source", "data": {"sources": ["a"]}}
        return self.incidents.absorb(
            finding(instance_id=instance, at=g, witness=g, ts=next(self._clock), **given | values)
            for g in gtids
        )

    def healed(self, instance: str = "b") -> list[IncidentChange]:
        """The rule holds there."""
        held = Check("no_errant_gtids", Outcome.HOLDS)
        return self.incidents.absorb(
            checks=[SubjectCheck(instance, None, "c", next(self._clock), held)]
        )

    def control(self, action: ControlAction, name: str) -> list[IncidentChange]:
        """An operator's message about an incident."""
        ts = next(self._clock)
        return self.incidents.absorb(controls=[IncidentControl(action, name, "dba", "known", ts)])
