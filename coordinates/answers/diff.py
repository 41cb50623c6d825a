"""What one instance has executed and another has not."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.answers.evidence import by_origin
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tallystick.coordinates.answers.evidence import Evidence

ERRANT_RULE = "no_errant_gtids"


class Kind(str, Enum):
    """Why the one has it and the other has not."""

    ERRANT = "errant"
    """The audit has found it so, and the incident is not over."""
    LAGGING = "lagging"
    """The other replicates, directly or not, from one that has executed it."""
    NOT_KNOWN = "not known"


@dataclass(frozen=True, slots=True)
class DiffPart:
    """GTIDs of one origin and one kind.

    Attributes:
        gtids: Which.
        uuid: Who numbered them.
        origin: The instance that has that server_uuid; None: it is none's.
        kind: Why the other lacks them.
        reason: Why that is so, or not known.
        received: Of these, what the other has in its relay logs.
        purged: Of these, what the one has purged; None: not known.
    """

    gtids: GtidSet
    uuid: str
    origin: str | None
    kind: Kind
    reason: str
    received: GtidSet
    purged: GtidSet | None

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "gtids": str(self.gtids),
            "count": self.gtids.count(),
            "uuid": self.uuid,
            "origin": self.origin,
            "kind": self.kind.value,
            "reason": self.reason,
            "received": str(self.received),
            "purged": None if self.purged is None else str(self.purged),
        }


@dataclass(frozen=True, slots=True)
class Surplus:
    """What one has executed and the other has not.

    Attributes:
        one: Who has it.
        other: Who lacks it.
        gtids: Which; None: not known.
        parts: The same, by origin and kind.
        reason: Why it is not known; empty: it is.
        unshown: Why there may be transactions that no GTID set shows; empty: there are none.
    """

    one: str
    other: str
    gtids: GtidSet | None
    parts: Sequence[DiffPart]
    reason: str
    unshown: str = ""

    @property
    def is_decided(self) -> bool:
        """Whether all of it is known."""
        return self.gtids is not None and not self.unshown

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "executed_on": self.one,
            "not_on": self.other,
            "gtids": None if self.gtids is None else str(self.gtids),
            "count": None if self.gtids is None else self.gtids.count(),
            "reason": self.reason,
            "unshown": self.unshown,
            "parts": [part.to_dict() for part in self.parts],
        }


def surplus(one: str, other: str, evidence: Evidence) -> Surplus:
    """What `one` has executed and `other` has not, as of the newest row of each."""
    reasons = []
    for name in (one, other):
        known = evidence.instances[name]
        if known.executed is None:
            why = known.problem or "no row of it is known"
            reasons.append(f"{name}: {why if known.row is None else 'gtid_executed is not known'}")
    here, there = (evidence.instances[name].executed for name in (one, other))
    if here is None or there is None:
        return Surplus(one, other, None, (), "; ".join(reasons))
    gtids = here - there
    parts = list(_parts(gtids, one, other, evidence))
    return Surplus(
        one, other, gtids, parts, "", _unshown(one, evidence) or _unshown(other, evidence)
    )


def _unshown(name: str, evidence: Evidence) -> str:
    """Why an instance may have executed transactions without GTIDs; empty: it has not."""
    known, log = evidence.instances[name], evidence.group_log
    for channel in known.channels:
        if channel.auto_position is False:
            shown = channel.channel or "(default)"
            return f"channel {shown} of {name} does not ask by GTID set (SOURCE_AUTO_POSITION)"
    if log is not None and log.has_unnamed(name):
        return f"{name} has logged transactions without GTIDs"
    if not known.executed and not any(channel.auto_position for channel in known.channels):
        return f"gtid_executed of {name} is empty, as with gtid_mode=OFF"
    return ""


def _parts(gtids: GtidSet, one: str, other: str, evidence: Evidence) -> Iterator[DiffPart]:
    here, there = evidence.instances[one], evidence.instances[other]
    received = GtidSet.EMPTY
    for of_channel in there.retrieved.values():
        received = received | (of_channel or GtidSet.EMPTY)
    errant, names = GtidSet.EMPTY, set()
    for name, found in errant_on(evidence):
        if found & gtids:
            errant = errant | (found & gtids)
            names.add(name)
    on = ", ".join(sorted(names))
    coming = received
    upstreams = [name for name in evidence.upstreams_of(other) if name != other]
    for name in upstreams:
        coming = coming | (evidence.instances[name].executed or GtidSet.EMPTY)
    for uuid, of_uuid in by_origin(gtids):
        rest = of_uuid - errant
        for kind, part, reason in (
            (Kind.ERRANT, of_uuid & errant, f"an incident of {ERRANT_RULE} on {on} is not over"),
            (Kind.LAGGING, rest & coming, _coming_text(other, upstreams)),
            (Kind.NOT_KNOWN, rest - coming, _unknown_text(one, other, uuid, evidence)),
        ):
            if part:
                yield DiffPart(
                    part,
                    uuid,
                    evidence.by_uuid.get(uuid),
                    kind,
                    reason,
                    part & received,
                    None if here.purged is None else part & here.purged,
                )


def errant_on(evidence: Evidence) -> Iterator[tuple[str, GtidSet]]:
    """What the audit has found errant, by instance, of incidents that are not over."""
    for incident in evidence.incidents:
        if incident.rule == ERRANT_RULE and incident.is_open:
            yield incident.instance_id, GtidSet.parse(incident.witness)


def _coming_text(other: str, upstreams: Sequence[str]) -> str:
    names = ", ".join(sorted(upstreams)) or "its source"
    return f"{other} has received it, or replicates from who has it: {names}"


def _unknown_text(one: str, other: str, uuid: str, evidence: Evidence) -> str:
    here, there = evidence.instances[one], evidence.instances[other]
    if uuid == there.server_uuid:
        if there.since_us < here.since_us:
            return f"{other} numbered it: since its row, which is the older one, or it has lost it"
        return f"{other} numbered it, and its row, which is not the older one, does not have it"
    why = f"none of the known sources of {other} has executed it"
    if not there.channels:
        why = f"{other} has no channel by which it could come"
    return f"{why}, and the audit has not found it errant"
