"""Which file of the source a relay log goes on with, where its own events do not say it.

A relay log file that FLUSH RELAY LOGS has opened, or that follows a full one, does not name the
source's file: the next one that does begins when the source rotates, or the receiver connects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tallystick.coordinates.events.journal import FLAG_RELAY_LOG
from tallystick.coordinates.values.binlog import WRAP, EventType, LogCoordinates
from tallystick.producers.mysql.event_runs import EventRun
from tallystick.producers.mysql.relay_files import leads_on

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tallystick.producers.mysql.binlog_events import LogEvent
    from tallystick.producers.mysql.event_runs import Events

_FRAMING = (EventType.FORMAT_DESCRIPTION, EventType.PREVIOUS_GTIDS, EventType.STOP)


def where_it_goes_on(
    events: Iterable[Events | None], relay_base_name: str, read: LogCoordinates
) -> LogCoordinates | None:
    """Where in the source's log the first event of a relay log begins.

    What lies between that and what the receiver had read is of one file of the source, unless a
    ROTATE is in between. That it had read just these events is proven by their positions.

    Args:
        events: Of the relay log from where it is read first, None where some were lost; read
            after `read`.
        relay_base_name: Of the relay log's files.
        read: Up to where the receiver has read the source's log, by SHOW REPLICA STATUS.

    Returns:
        None: it is not known, or the events name it themselves.
    """
    first = None
    for each in events:
        if each is None:
            return None
        if not isinstance(each, EventRun) and each.type in (EventType.ROTATE, *_FRAMING):
            if each.type == EventType.ROTATE and not _is_own(each, relay_base_name, read):
                return None
            continue
        ends, lengths = _positions(each)
        if not (ends > 0).all():
            return None
        if first is None:
            first = int(ends[0] - lengths[0])
        if (ends == read.position % WRAP).any():
            begin = read.position - (read.position - first) % WRAP
            return LogCoordinates(read.base_name, read.file_number, begin)
    return read if first is None else None


def _is_own(rotate: LogEvent, relay_base_name: str, read: LogCoordinates) -> bool:
    """Whether a ROTATE is the relay log's, not the source's."""
    if rotate.fields["flags"] & FLAG_RELAY_LOG:
        return True
    is_of_relay = leads_on(relay_base_name, rotate.type, rotate.fields.get("text"))
    return is_of_relay and read.base_name != relay_base_name


def _positions(events: Events) -> tuple[Any, Any]:
    """Where each ends in the source's log, modulo 2^32, and the length of each."""
    if isinstance(events, EventRun):
        return events.column("log_pos"), events.column("length")
    return np.array([events.fields["log_pos"]]), np.array([events.fields["length"]])
