"""Faults of what the journal says: records pass through them before they are written.

The servers' own state stays as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tallystick.coordinates.events.journal import QueryVerb
from tallystick.coordinates.values.binlog import WRAP
from tallystick.producers.simulator.faults.fault import Fault, FaultGroup
from tallystick.producers.simulator.kernel.journal_writer import JournalWriter

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tallystick.coordinates.events.journal import RecordType, Stream
    from tallystick.producers.simulator.kernel.clock import Clock
    from tallystick.producers.simulator.kernel.world import World


class Event(NamedTuple):
    """An event on its way into the journal; ``fields`` are those of ``BlockBuilder.log_event``."""

    stream: Stream
    type: int
    fields: dict[str, Any]

    def but(self, **changed: Any) -> Event:
        """The event with other fields."""
        return self._replace(fields={**self.fields, **changed})


class JournalFault(Fault):
    """A fault of what the journal says, not of the servers."""

    group = FaultGroup.STREAM

    def __init__(self) -> None:
        super().__init__()
        self.fleet: World | None = None
        self.is_withdrawn = False

    def on_fleet(self, fleet: World) -> None:
        """Keep the fleet."""
        self.fleet = fleet

    def withdraw(self, fleet: World) -> None:
        """Leave the records that follow as they are."""
        super().withdraw(fleet)
        self.is_withdrawn = True

    def on_journal(self, instance_id: str, clock: Clock) -> JournalWriter:
        """A journal that asks this fault, of events only where it changes any."""
        is_of_events = type(self).on_event is not JournalFault.on_event
        return (TamperedJournal if is_of_events else TamperedRecords)(instance_id, clock, self)

    def on_event(self, instance_id: str, event: Event) -> Iterable[Event]:
        """What the journal holds instead of an event."""
        return (event,)

    def on_server_record(
        self, instance_id: str, record_type: RecordType, body: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        """What the journal holds instead of a server record's body; None: nothing."""
        return body

    def is_due_in(self, instance_id: str) -> bool:
        """Whether the fault may be injected into the journal of an instance now."""
        fleet = self.fleet
        return fleet is not None and instance_id in fleet.instances and self.is_due(fleet)

    def mark_in(self, instance_id: str) -> None:
        """Note that the instance's journal shows the fault from now on."""
        assert self.fleet is not None
        self.mark(self.fleet, self.fleet.instances[instance_id])


class TamperedRecords(JournalWriter):
    """The journal of one instance, with the server records that a fault wants."""

    def __init__(self, instance_id: str, clock: Clock, fault: JournalFault) -> None:
        super().__init__(instance_id, clock)
        self._fault = fault

    def server_record(
        self,
        record_type: RecordType,
        body: Mapping[str, Any],
        *,
        ts: int,
        channel: str | None = None,
    ) -> None:
        """Add what the fault makes of a server record."""
        changed: Mapping[str, Any] | None = body
        if not self._fault.is_withdrawn:
            changed = self._fault.on_server_record(self.instance_id, record_type, body)
        if changed is not None:
            super().server_record(record_type, changed, ts=ts, channel=channel)


class TamperedJournal(TamperedRecords):
    """The journal of one instance, with the events that a fault wants, too."""

    def log_event(self, stream: Stream, event_type: int, **fields: Any) -> None:
        """Add what the fault makes of an event."""
        made = Event(stream, event_type, fields)
        is_left = self._fault.is_withdrawn
        for event in (made,) if is_left else self._fault.on_event(self.instance_id, made):
            super().log_event(event.stream, event.type, **event.fields)

    def group_events(
        self,
        stream: Stream,
        events: Iterable[tuple[int, int, int, int]],
        *,
        start: int,
        shift: int = 0,
        **fields: Any,
    ) -> None:
        """Add what the fault makes of each event."""
        for event_type, query, length, checksum in events:
            end = start + length
            self.log_event(
                stream,
                event_type,
                start=start,
                length=length,
                log_pos=(end - shift) % WRAP,
                checksum=checksum,
                query=QueryVerb(query),
                **fields,
            )
            start = end
