"""Where in an instance's journal the evidence of a finding stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tallystick.coordinates.audit.fleet_events import FleetEvent


class Place(NamedTuple):
    """The place of a fact that does not depend on how the journal was cut into blocks."""

    ts: int
    epoch: int
    sequence: int
    collection_id: str | None

    @classmethod
    def of(cls, fact: FleetEvent) -> Place:
        """Where a fact stands."""
        collection_id = fact.body.get("collection_id")
        return cls(fact.ts, fact.epoch, fact.sequence, collection_id)
