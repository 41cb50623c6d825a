"""The order in which the fleet's audit reads the events of several instances.

An instance's audit cuts runs of log events where the transport cut its journal, and orders events
of different logs between two server records by log. Server records do not depend on that: so
everything that was read from logs is sorted with the next server record of its instance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick.coordinates.audit.fleet_events import FleetEvent, FleetEventKind

if TYPE_CHECKING:
    from collections.abc import Iterable

OF_LOGS = frozenset(
    {
        FleetEventKind.FILE_END,
        FleetEventKind.GAP,
        FleetEventKind.LINEAGE,
        FleetEventKind.LOGGED,
        FleetEventKind.PREVIOUS,
        FleetEventKind.RECEIVED,
    }
)
"""What is, or may have been, read from a log."""


def in_time_order(events: Iterable[FleetEvent]) -> list[FleetEvent]:
    """Events of all instances by time, each instance's in the order of its journal.

    Args:
        events: Those of one instance in journal order, instances in any interleaving.
    """
    journals: dict[str, list[FleetEvent]] = {}
    for event in events:
        journals.setdefault(event.instance_id, []).append(event)
    if len(journals) <= 1:
        return [event for journal in journals.values() for event in journal]
    keyed: list[tuple[int, str, FleetEvent]] = []
    for instance_id, journal in journals.items():
        ts, waiting = -1, []
        for event in journal:
            waiting.append(event)
            if event.kind not in OF_LOGS:
                ts = max(ts, event.ts)
                keyed += ((ts, instance_id, each) for each in waiting)
                waiting = []
        ts = max(ts, *(each.ts for each in waiting)) if waiting else ts
        keyed += ((ts, instance_id, each) for each in waiting)
    keyed.sort(key=lambda key: key[:2])
    return [event for _, _, event in keyed]
