"""Answers that a collection lacks: missing evidence, so its rows are UNDECIDED."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick.coordinates.audit.collection_checks import collections_of
from tallystick.coordinates.audit.cut import Cut
from tallystick.coordinates.results import Observation, ObservationCode
from tallystick.coordinates.rules.explanation import moment
from tallystick.coordinates.rules.observations import NEVER_ANSWERED, NOBODY_ANSWERED, NOT_ANSWERED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tallystick.coordinates.rules.outcomes import Reason


def missing_answer(
    collection_id: str, instance_id: str, ts: int, last_ts: int | None
) -> tuple[Cut, Observation]:
    """The row and the observation of an instance that has not answered a collection.

    Args:
        collection_id: Which collection.
        instance_id: Who has not answered it.
        ts: Journal time of the collection, microseconds.
        last_ts: Of the instance's last answer; None: it has never answered.
    """
    last = "It has never answered." if last_ts is None else f"Its last answer: {moment(last_ts)}."
    cut = Cut(
        collection_id=collection_id,
        instance_id=instance_id,
        scope="instance",
        ts=ts,
        answer="missing",
        error_text=f"{instance_id!r} has not answered collection {collection_id!r}. {last}",
        reason="log_status_missing",
    )
    reason = NEVER_ANSWERED if last_ts is None else NOT_ANSWERED
    data = {} if last_ts is None else {"last_ts": last_ts}
    return cut, _not_answered(collection_id, instance_id, ts, reason, data)


def nobody_answered(collection_id: str, ts: int) -> Observation:
    """What is seen of a collection where no instance is known that could have answered it."""
    return _not_answered(collection_id, "", ts, NOBODY_ANSWERED, {})


def _not_answered(
    collection_id: str, instance_id: str, ts: int, reason: Reason, data: dict[str, int]
) -> Observation:
    return Observation.of_no_record(
        ObservationCode.LOG_STATUS_MISSING,
        collection_id,
        reason.code,
        data,
        instance_id=instance_id,
        collection_id=collection_id,
        ts=ts,
    )


def missing_answers(
    cuts: Sequence[Cut], starts: Mapping[str, int]
) -> Iterable[tuple[Cut, Observation]]:
    """What a finished history lacks: answers to collections that several instances have answered.

    Expected are all that have answered one of these before, and, of whatever collection, those
    that started before it and never answer any: no account of theirs was compared. An instance
    whose collections are its own (in journals written by hand) is not waited for.

    Args:
        cuts: All rows of the history.
        starts: When each instance first started, in the time of its journal.
    """
    own = {cut.instance_id for cut in cuts}
    expected: set[str] = set()
    last_ts: dict[str, int] = {}
    for rows in collections_of(cuts):
        answered = {cut.instance_id for cut in rows}
        began = min(cut.ts for cut in rows)
        missing = {name for name, ts in starts.items() if ts < began and name not in own}
        if len(answered) > 1:
            expected |= answered
        if answered & expected:
            missing |= expected - answered
        ts = max(cut.ts for cut in rows)
        for instance_id in sorted(missing):
            yield missing_answer(rows[0].collection_id, instance_id, ts, last_ts.get(instance_id))
        last_ts |= {cut.instance_id: cut.ts for cut in rows}
