"""Answers that a collection lacks: missing evidence, so its rows are UNDECIDED."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick.coordinates.audit.collection_checks import collections_of
from tallystick.coordinates.audit.cut import Cut
from tallystick.coordinates.results import Observation, ObservationCode
from tallystick.coordinates.rules.observations import NOT_ANSWERED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def missing_answer(collection_id: str, instance_id: str, ts: int) -> tuple[Cut, Observation]:
    """The row and the observation of an instance that has not answered a collection.

    Args:
        collection_id: Which collection.
        instance_id: Who has not answered it.
        ts: Journal time of the collection, microseconds.
    """
    cut = Cut(
        collection_id=collection_id,
        instance_id=instance_id,
        scope="instance",
        ts=ts,
        answer="missing",
        error_text=f"{instance_id!r} has not answered collection {collection_id!r}.",
        reason="log_status_missing",
    )
    observation = Observation(
        code=ObservationCode.LOG_STATUS_MISSING,
        instance_id=instance_id,
        channel=None,
        at=collection_id,
        reason=NOT_ANSWERED.code,
        data={},
        rules=(),
        is_undecided=True,
        collection_id=collection_id,
        epoch=0,
        sequence=0,
        ts=ts,
    )
    return cut, observation


def missing_answers(cuts: Sequence[Cut]) -> Iterable[tuple[Cut, Observation]]:
    """What a finished history lacks: the answers of instances that answered before, with others.

    An instance whose collections are its own (in journals written by hand) is not waited for.

    Args:
        cuts: All rows of the history.
    """
    expected: set[str] = set()
    for rows in collections_of(cuts):
        answered = {cut.instance_id for cut in rows}
        if len(answered) > 1:
            expected |= answered
        if answered & expected:
            ts = max(cut.ts for cut in rows)
            for instance_id in sorted(expected - answered):
                yield missing_answer(rows[0].collection_id, instance_id, ts)
