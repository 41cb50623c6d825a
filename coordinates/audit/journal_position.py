"""Where in an instance's journal the evidence of a finding is."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tallystick.coordinates.audit.fleet_events import FleetEvent


class JournalPosition(NamedTuple):
    """The position of a fleet event that does not depend on how the journal was cut into blocks."""

    ts: int
    epoch: int
    sequence: int
    collection_id: str | None

    @classmethod
    def of(cls, event: FleetEvent) -> JournalPosition:
        """Where an event was emitted."""
        collection_id = event.body.get("collection_id")
        return cls(event.ts, event.epoch, event.sequence, collection_id)
