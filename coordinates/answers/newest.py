"""The newest row of each instance, from rows of the cut table."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING

from tallystick.coordinates.answers.evidence import InstanceEvidence

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tallystick.coordinates.audit.cut import Cut

_Begun = tuple[int, int]


def newest_of(
    cuts: Iterable[Cut], written: Mapping[str, int], overdue: Iterable[str] = ()
) -> dict[str, InstanceEvidence]:
    """What is known of each instance that has a row, or should have one.

    Args:
        cuts: Rows of the cut table: at least the newest of each instance, whole collections of it.
        written: When the first row of each collection was written, microseconds; empty for rows
            that were never written.
        overdue: Collections that still wait for answers, and have waited long enough: who has not
            answered a newer one leaves one of them unanswered.
    """
    begun: dict[str, _Begun] = {}
    found: dict[str, dict[str, list[Cut]]] = {}
    for cut in cuts:
        at = (written.get(cut.collection_id, 0), cut.ts)
        begun[cut.collection_id] = min(at, begun.get(cut.collection_id, at))
        of_instance = found.setdefault(cut.instance_id, {})
        of_instance.setdefault(cut.collection_id, []).append(cut)
    made = {}
    waited = sorted((written[one], one) for one in overdue)
    # By how many are older: the first by name of those that are left.
    unanswered = list(accumulate((one for _, one in reversed(waited)), min))[::-1]
    for name, of_instance in sorted(found.items()):
        in_order = sorted(of_instance, key=begun.__getitem__)
        one = _newest(name, [of_instance[one] for one in in_order], written)
        last = written.get(in_order[-1], 0)
        older = bisect_right(waited, last, key=lambda known: known[0])
        if older < len(waited) and not one.problem:
            text = f"{name!r} has not answered collection {unanswered[older]!r}, which others have"
            one = replace(one, problem=text)
        made[name] = one
    return made


def _newest(
    name: str, collections: list[list[Cut]], written: Mapping[str, int]
) -> InstanceEvidence:
    """Of its collections, the oldest first."""
    problem = ""
    for cuts in reversed(collections):
        row = next((cut for cut in cuts if cut.channel is None), None)
        if row is None:
            continue
        if row.answer == "row":
            return InstanceEvidence(
                instance_id=name,
                row=row,
                channels=[cut for cut in cuts if cut.channel is not None],
                since_us=min(row.ts, written.get(row.collection_id, row.ts)),
                problem=problem,
            )
        problem = problem or _problem(row)
    return InstanceEvidence(instance_id=name, problem=problem)


def _problem(row: Cut) -> str:
    text = row.error_text or f"its answer to collection {row.collection_id!r} is empty"
    return text.rstrip(".")
