"""Which instances are judged: those that are listed, where a list is given, and none retired."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick.coordinates.audit.fleet_events import FleetEventKind
from tallystick.coordinates.events.incident_control import ControlAction
from tallystick.coordinates.results import Observation, ObservationCode, SubjectCheck
from tallystick.coordinates.rules.observations import (
    INSTANCE_BEYOND,
    INSTANCE_NOT_LISTED,
    INSTANCES_BEYOND,
    TOO_MANY_UNREADABLE,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from tallystick.coordinates.audit.cut import Cut
    from tallystick.coordinates.audit.fleet_events import FleetEvent
    from tallystick.coordinates.events.incident_control import IncidentControl
    from tallystick.coordinates.results import Finding
    from tallystick.coordinates.rules.outcomes import Reason
    from tallystick.streaming.answers import Answers
    from tallystick.streaming.batch import BatchContent

STRANGERS_MAX = 1_024
"""So many instances that are not listed, or beyond the limit, are named."""
INSTANCES_MAX = 4_096
"""So many instances have evidence that is compared with others', where none are listed."""


def retired_by(controls: Iterable[IncidentControl]) -> dict[str, int]:
    """The instances that operators retire, and when."""
    return {one.target: one.ts for one in controls if one.action is ControlAction.RETIRE}


def leave_out_retired(content: BatchContent, answers: Answers) -> None:
    """Take out what is of retired instances; one that has started anew counts from its start on."""
    since: dict[str, tuple[int, int]] = {}
    for event in content.fleet_events:
        name = event.instance_id
        if event.kind is FleetEventKind.BOOT and name in answers.retired:
            answers.start(name, event.ts)
            if name not in answers.retired:
                since[name] = event.epoch, event.sequence

    def counts(one: FleetEvent | Finding | Observation | Cut | SubjectCheck) -> bool:
        if one.instance_id in answers.retired:
            return False
        # Comparisons are not made of a retired instance, so theirs are of what follows.
        if one.instance_id not in since or isinstance(one, SubjectCheck):
            return True
        return (one.epoch, one.sequence) >= since[one.instance_id]

    if since or answers.retired:
        content.keep(counts)
        content.journals = [n for n in content.journals if n.instance_id not in answers.retired]


def leave_out_beyond(
    content: BatchContent, known: AbstractSet[str], answers: Answers
) -> list[Observation]:
    """Take out what is of instances beyond ``INSTANCES_MAX``, and name each of them once."""
    new = sorted(content.instances - known)
    room = max(0, INSTANCES_MAX - len(known))
    beyond = new[room:]
    if beyond:
        content.leave_out(set(beyond))
    for name in new[:room]:
        answers.beyond.pop(name, None)
    return list(_named(beyond, answers.beyond, INSTANCE_BEYOND, is_undecided=True))


def unknown_members(collection_id: str, ts: int, answers: Answers) -> Iterator[Observation]:
    """What leaves a collection undecided, as not all who should be in it are known.

    As long as there are instances beyond the limit, and as long as too many messages cannot be
    read: under a key that nothing was ever read of, nobody misses what they were.
    """
    doubts: list[tuple[ObservationCode, Reason, dict[str, int | str]]] = []
    if answers.beyond:
        count = len(answers.beyond)
        doubts.append((ObservationCode.INSTANCE_NOT_LISTED, INSTANCES_BEYOND, {"count": count}))
    if answers.poisoned_us is not None:
        error = answers.poison
        doubts.append((ObservationCode.BLOCK_UNREADABLE, TOO_MANY_UNREADABLE, {"error": error}))
    for code, reason, data in doubts:
        yield Observation.of_no_record(
            code, collection_id, reason.code, data, collection_id=collection_id, ts=ts
        )


def name_strangers(blocks: Mapping[str, int], answers: Answers) -> list[Observation]:
    """Name each instance that is not listed once.

    Args:
        blocks: How many blocks each of them has sent in this step.
        answers: Remembers who was named.
    """
    return list(_named(blocks, answers.strangers, INSTANCE_NOT_LISTED, is_undecided=False))


def _named(
    names: Iterable[str], named: dict[str, None], reason: Reason, *, is_undecided: bool
) -> Iterator[Observation]:
    for name in sorted(set(names) - named.keys()):
        if len(named) >= STRANGERS_MAX:
            return
        named[name] = None
        yield _not_judged(name, reason, is_undecided=is_undecided)


def not_compared(instance_id: str) -> Observation:
    """An instance is beyond ``INSTANCES_MAX`` in its cluster."""
    return _not_judged(instance_id, INSTANCE_BEYOND, is_undecided=True)


def _not_judged(instance_id: str, reason: Reason, *, is_undecided: bool) -> Observation:
    return Observation.of_no_record(
        ObservationCode.INSTANCE_NOT_LISTED,
        "its first block",
        reason.code,
        instance_id=instance_id,
        is_undecided=is_undecided,
    )
