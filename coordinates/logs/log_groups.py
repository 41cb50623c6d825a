"""Groups of a log: their grammar, and how a whole run of events forms them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from tallystick.coordinates.events.journal import QueryVerb
from tallystick.coordinates.events.log_events import CLASS, EventClass
from tallystick.coordinates.values.binlog import EventType

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    Array = npt.NDArray[Any]


class GroupState(IntEnum):
    """State of the reader between groups."""

    IDLE = 0
    OPENED = 1
    BODY = 2
    RESYNC = 3
    """After a break: everything up to the next opening event is passed over."""


class GroupStep(IntEnum):
    """What an event does to the group that is open."""

    GOES_ON = 0
    BEGINS_BODY = 1
    ENDS = 2
    DOES_NOT_FIT = 3


_AFTER_OPENER = {
    EventClass.BEGIN: GroupStep.BEGINS_BODY,
    EventClass.PREAMBLE: GroupStep.GOES_ON,
    EventClass.STATEMENT: GroupStep.ENDS,
    EventClass.PAYLOAD: GroupStep.ENDS,
    EventClass.INCIDENT: GroupStep.ENDS,
    EventClass.XA_END_OF_GROUP: GroupStep.ENDS,
}
_IN_BODY = {
    EventClass.PART: GroupStep.GOES_ON,
    EventClass.PREAMBLE: GroupStep.GOES_ON,
    EventClass.STATEMENT: GroupStep.GOES_ON,
    EventClass.PAYLOAD: GroupStep.GOES_ON,
    EventClass.INCIDENT: GroupStep.GOES_ON,
    EventClass.TERMINATOR: GroupStep.ENDS,
    EventClass.XA_END_OF_GROUP: GroupStep.ENDS,
}
STEP_AFTER_OPENER, STEP_IN_BODY = (
    tuple(steps.get(event_class, GroupStep.DOES_NOT_FIT) for event_class in EventClass)
    for steps in (_AFTER_OPENER, _IN_BODY)
)
"""The grammar of a group, by `EventClass`: between its opening event and its body, and in it."""

_STEPS = np.array((STEP_IN_BODY, STEP_AFTER_OPENER))
_AFTER_OPENER_FROM = np.uint8(len(EventClass))
"""What is added to the class of an event right after the opening one, in the next two tables."""
_ENDS_GROUP = (_STEPS == GroupStep.ENDS).ravel()
# Of columns, an event between the opening one and the body is left to the event-by-event path, and
# so is an INCIDENT.
_FITS_GROUP = (_STEPS != GroupStep.DOES_NOT_FIT).ravel()
_FITS_GROUP[int(_AFTER_OPENER_FROM) :] &= _STEPS[1] != GroupStep.GOES_ON
_FITS_GROUP[int(EventClass.INCIDENT) :: int(_AFTER_OPENER_FROM)] = False
_CLASS, _QUERY_VERBS = CLASS.ravel(), CLASS.shape[1]
EMPTY_EVENTS = 3
"""Events of a group without a change: its GTID, BEGIN and COMMIT."""
# Plain numbers: an array looks through a member's class for what it might do with arrays.
_OPENER = int(EventClass.OPENER)
_QUERY, _COMMIT = int(EventType.QUERY), int(QueryVerb.COMMIT)


def ends_without_change(event_type: Array, verb: Array) -> Array:
    """Whether the last of three events is COMMIT as a statement: an engine's commit is an XID."""
    is_commit: Array = (event_type == _QUERY) & (verb == _COMMIT)
    return is_commit


@dataclass(slots=True)
class OpenGroup:
    """What the opening event says of the group being read. ``sid`` indexes the reader's table.

    ``events`` counts those read so far.
    """

    start: int = -1
    size: int = 0
    event_type: int = 0
    sid: int = -1
    gno: int = -1
    transaction_length: int = -1
    server_id: int = -1
    commit_ts: int = -1
    events: int = 0


@dataclass(slots=True, eq=False)
class GroupScan:
    """The groups of a regular run of events.

    Attributes:
        openers: Index in the run of each opening event.
        ends: Index in the run of each event that ends a group.
        sid, gno, server_id, commit_ts: One value for each end.
        is_empty: For each end whether the group is a transaction without any change.
        tail: What the reader must remember of the group that is open after the run.
        state: The group state after the run.
    """

    openers: Array
    ends: Array
    sid: Array
    gno: Array
    server_id: Array
    commit_ts: Array
    is_empty: Array
    tail: OpenGroup
    state: GroupState


def scan_groups(
    run: Mapping[str, Array], mapping: Array, state: GroupState, carry: OpenGroup
) -> GroupScan | None:
    """The groups of a run of contiguous events; None when any event does not fit its group.

    Args:
        run: Columns of the run; ``end`` is where each event ends.
        mapping: From the sids of the block to those of the reader.
        state: The group state before the run.
        carry: The group that is open there.
    """
    classes = _CLASS.take(run["type"].astype(np.intp) * _QUERY_VERBS + run["query"])
    is_open = state is not GroupState.IDLE
    is_opener = classes == _OPENER
    after_opener = np.empty(len(classes), dtype=bool)
    after_opener[0] = state is GroupState.OPENED
    after_opener[1:] = is_opener[:-1]
    steps = classes + after_opener * _AFTER_OPENER_FROM
    is_end = _ENDS_GROUP.take(steps)
    after_end = np.empty(len(classes), dtype=bool)
    after_end[0] = not is_open
    after_end[1:] = is_end[:-1]
    if not np.where(after_end, is_opener, _FITS_GROUP.take(steps)).all():
        return None
    openers = np.flatnonzero(is_opener)
    ends = np.flatnonzero(is_end)

    def grouped(opened: Array, carried: int) -> Array:
        if is_open:
            return np.concatenate((np.array([carried], dtype=opened.dtype), opened))
        return opened

    sid = grouped(mapping[run["sid"][openers]], carry.sid)
    gno = grouped(run["gno"][openers], carry.gno)
    server_id = grouped(run["server_id"][openers], carry.server_id)
    commit_ts = grouped(run["original_commit_timestamp"][openers], carry.commit_ts)
    lengths = grouped(run["transaction_length"][openers], carry.transaction_length)
    starts = grouped(run["start"][openers], int(run["start"][0]) - carry.size)
    begins = grouped(openers, -carry.events)
    count = len(ends)
    is_empty = ends - begins[:count] == EMPTY_EVENTS - 1
    if is_empty.any():
        is_empty &= ends_without_change(run["type"][ends], run["query"][ends])
    sizes = run["end"][ends] - starts[:count]
    announced = lengths[:count]
    if ((announced > 0) & (announced != sizes)).any():
        return None
    tail = OpenGroup()
    state_behind = GroupState.IDLE
    if len(starts) > count:
        if len(openers) and (not count or openers[-1] > ends[-1]):
            event_type = int(run["type"][openers[-1]])
            start = int(run["start"][openers[-1]])
            state_behind = GroupState.OPENED if openers[-1] == len(classes) - 1 else GroupState.BODY
        else:
            event_type, start = carry.event_type, carry.start
            state_behind = GroupState.BODY
        tail = OpenGroup(
            start=start,
            size=int(run["end"][-1] - starts[-1]),
            event_type=event_type,
            sid=int(sid[-1]),
            gno=int(gno[-1]),
            transaction_length=int(lengths[-1]),
            server_id=int(server_id[-1]),
            commit_ts=int(commit_ts[-1]),
            events=len(classes) - int(begins[-1]),
        )
    return GroupScan(
        openers=openers,
        ends=ends,
        sid=sid[:count],
        gno=gno[:count],
        server_id=server_id[:count],
        commit_ts=commit_ts[:count],
        is_empty=is_empty,
        tail=tail,
        state=state_behind,
    )
