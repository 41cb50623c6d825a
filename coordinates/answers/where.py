"""Where transactions are: who logged, received, applied or purged them, and who lacks them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.answers.evidence import by_origin

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tallystick.coordinates.answers.evidence import Evidence, InstanceEvidence
    from tallystick.coordinates.values.gtid import GtidSet

Times = tuple[int, int]
NO_ROW = "no row of it is known"
EXECUTED_UNREAD = "gtid_executed of its row could not be read"


class State(str, Enum):
    """What an instance has of a GTID; the first that applies."""

    UNKNOWN = "unknown"
    PURGED = "purged"
    """Executed, and no longer in its binary log, or never in it."""
    LOGGED = "logged"
    """Executed; its own server_uuid numbered it."""
    APPLIED = "applied"
    """Executed; another server numbered it."""
    IN_LOG = "in_log"
    """In its binary log, and not in gtid_executed of the row."""
    RECEIVED = "received"
    """In the relay log of a channel, not executed."""
    LACKING = "lacking"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What one instance has of a part.

    Attributes:
        instance_id: Which one.
        state: What it has.
        received_on: The channels that have received all of it.
        reason: Why something of it is not known; empty: everything is.
        since_us: As of when, microseconds; None: no row is known.
        happened: When the first and the last of it came into its binary log; None: not known.
        received: The same of relay logs, by channel; those that are not known left out.
    """

    instance_id: str
    state: State
    received_on: tuple[str, ...] = ()
    reason: str = ""
    since_us: int | None = None
    happened: Times | None = None
    received: Mapping[str, Times]

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "instance": self.instance_id,
            "state": self.state.value,
            "received_on": list(self.received_on),
            "reason": self.reason,
            "evidence_us": self.since_us,
            "logged_us": self.happened and list(self.happened),
            "received_us": {name: list(times) for name, times in self.received.items()},
        }


@dataclass(frozen=True, slots=True)
class Part:
    """GTIDs of which every instance has the same.

    Attributes:
        gtids: Which.
        origin: Who numbered them: an instance, or None where the UUID is none's.
        places: One for each instance.
    """

    gtids: GtidSet
    origin: str | None
    places: Sequence[Place]

    @property
    def is_decided(self) -> bool:
        """Whether everything is known."""
        return not any(place.reason for place in self.places)

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "gtids": str(self.gtids),
            "count": self.gtids.count(),
            "origin": self.origin,
            "instances": [place.to_dict() for place in self.places],
        }


def where(gtids: GtidSet, evidence: Evidence) -> list[Part]:
    """Parts of some GTIDs, in canonical order, and where each is."""
    found = []
    for uuid, of_uuid in by_origin(gtids):
        for part in _parts(of_uuid, evidence):
            places = [_place(part, uuid, one, evidence) for one in _sorted(evidence)]
            found.append(Part(part, evidence.by_uuid.get(uuid), places))
    return sorted(found, key=lambda part: next(iter(part.gtids)))


def _sorted(evidence: Evidence) -> list[InstanceEvidence]:
    return [one for _, one in sorted(evidence.instances.items())]


def _parts(gtids: GtidSet, evidence: Evidence) -> Iterable[GtidSet]:
    """The coarsest parts that each known set has all or nothing of."""
    parts = [gtids]
    for one in _sorted(evidence):
        retrieved = one.retrieved.values()
        sets = [
            *retrieved,
            one.executed,
            one.purged,
            one.logged,
            _logged_after(gtids, one, evidence),
        ]
        for known in sets:
            if known is not None and not known.isdisjoint(gtids):
                pieces = (piece for part in parts for piece in (part & known, part - known))
                parts = [piece for piece in pieces if piece]
    return parts


def _logged_after(gtids: GtidSet, one: InstanceEvidence, evidence: Evidence) -> GtidSet | None:
    """What came into its binary log after its newest row, of a journal that was read whole."""
    if evidence.group_log is None or one.row is None:
        return None
    return evidence.group_log.logged_after(one.instance_id, gtids, one.row.ts)


def _place(part: GtidSet, uuid: str, one: InstanceEvidence, evidence: Evidence) -> Place:
    received_on = tuple(
        name for name, known in one.retrieved.items() if known is not None and part <= known
    )
    state, reason = _state(part, uuid, one, received_on, _logged_after(part, one, evidence))
    log = evidence.group_log
    received = {}
    if log is not None:
        times = {name: log.when(one.instance_id, name, part) for name in one.retrieved}
        received = {name: seen for name, seen in times.items() if seen is not None}
    return Place(
        instance_id=one.instance_id,
        state=state,
        received_on=received_on,
        reason=reason,
        since_us=None if one.row is None else one.since_us,
        happened=None if log is None else log.when(one.instance_id, None, part),
        received=received,
    )


def _state(
    part: GtidSet,
    uuid: str,
    one: InstanceEvidence,
    received_on: Sequence[str],
    logged_after: GtidSet | None,
) -> tuple[State, str]:
    """The state, and why something is not known."""
    if one.row is None:
        return State.UNKNOWN, one.problem or NO_ROW
    if one.executed is None:
        return State.UNKNOWN, EXECUTED_UNREAD
    if part <= one.executed:
        own = State.LOGGED if uuid == one.server_uuid else State.APPLIED
        if one.purged is None:
            return own, "whether it is purged: gtid_purged could not be read"
        return (State.PURGED if part <= one.purged else own), ""
    if any(known is not None and part <= known for known in (one.logged, logged_after)):
        return State.IN_LOG, ""
    if received_on:
        return State.RECEIVED, ""
    unread = [name for name, known in one.retrieved.items() if known is None]
    if unread:
        names = ", ".join(name or "(default)" for name in unread)
        return State.UNKNOWN, f"not executed; what is received on channel {names} is not known"
    return State.LACKING, ""
