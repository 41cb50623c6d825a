"""What several outputs show of a result: collections summed up, doubts, names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tallystick.coordinates.audit.cut import Cut
from tallystick.coordinates.audit.row import decisive
from tallystick.coordinates.results import Observation, Severity, Verdict
from tallystick.coordinates.rules.catalogue import RULES
from tallystick.coordinates.rules.explanation import observation_text, reasons_of
from tallystick.runs.breaches import breaches_of
from tallystick.runs.result import RunResult


@dataclass(frozen=True, slots=True)
class CollectionSummary:
    """One collection in one line."""

    collection_id: str
    ts: int
    verdict: Verdict
    rows: int


def summaries(result: RunResult) -> list[CollectionSummary]:
    """Sum up each collection: its rows, and what was broken then and is not over.

    What is broken now was broken at the newest one, also where it came to light after it.
    """
    breaches = breaches_of(result)
    made = []
    for cuts in result.collections:
        ts = max(cut.ts for cut in cuts)
        is_newest = cuts is result.newest_cuts
        is_broken = any(
            (one.begins <= ts and one.ends > ts)
            if one.ends is not None
            else (one.begins <= ts or is_newest)
            for one in breaches
        )
        is_open = cuts[0].collection_id in result.undecided_checks or any(
            cut.verdict == Verdict.UNDECIDED.value for cut in cuts
        )
        verdict = Verdict.UNDECIDED if is_open else Verdict.CONSISTENT
        verdict = Verdict.INCONSISTENT if is_broken else verdict
        made.append(CollectionSummary(cuts[0].collection_id, ts, verdict, len(cuts)))
    return made


def undecided_rules(result: RunResult) -> list[tuple[str, dict[str, set[str]]]]:
    """Rules that were left undecided, with the instances, by reason.

    The reason that leaves the gravest rule undecided is first, of such the most common one.
    """
    reasons: dict[str, dict[str, set[str]]] = {}
    for name, results in result.rule_results.items():
        for one in results:
            if one.verdict is Verdict.UNDECIDED:
                found = reasons.setdefault(one.reason, {})
                found.setdefault(one.rule, set()).add(name)
    gravities = [*Severity]

    def order(item: tuple[str, dict[str, set[str]]]) -> tuple[int, int, str]:
        reason, rules = item
        known = [gravities.index(RULES[rule].severity) for rule in rules if rule in RULES]
        return min(known, default=len(gravities)), -len(rules), reason

    return sorted(reasons.items(), key=order)


def doubts(result: RunResult) -> Iterator[str]:
    """Why the verdict is undecided, one line each; nothing when it is not."""
    if result.verdict is not Verdict.UNDECIDED:
        return
    alike: dict[tuple[object, ...], list[Observation]] = {}
    for seen in result.observations:
        if seen.is_undecided:
            # One that came with each collection is shown once.
            kind = seen.code, seen.instance_id, seen.reason, seen.rules, repr(seen.data)
            alike.setdefault(kind, []).append(seen)
    for first, *rest in alike.values():
        more = f" (and {len(rest)} more of the kind)" if rest else ""
        of_instance = f"{first.instance_id}: " if first.instance_id else ""
        yield f"{of_instance}{observation_text(first)}{more}"
    explained = {(o.instance_id, o.collection_id) for o in result.observations if o.is_undecided}
    # A row stays consistent without what only some servers or MySQL accounts can show.
    for cut in result.newest_cuts:
        is_explained = cut.answer != "row" and (cut.instance_id, cut.collection_id) in explained
        if cut.verdict == Verdict.UNDECIDED.value and not is_explained:
            yield f"{row_name(cut)}: {reasons_of(cut, decisive(cut))}"
    if result.history is not None:
        yield from result.history.reasons
    if not result.collections:
        yield "nothing was collected: there is no log_status record"


def alike(observations: Iterable[Observation]) -> list[list[Observation]]:
    """What came again and again, each kind together and in its order."""
    kinds: dict[tuple[object, ...], list[Observation]] = {}
    for seen in observations:
        kind = seen.code, seen.instance_id, seen.channel, seen.reason, seen.rules
        kinds.setdefault((*kind, seen.is_undecided), []).append(seen)
    return list(kinds.values())


def row_name(cut: Cut) -> str:
    """Name a row of the cut table."""
    if cut.channel is None:
        return cut.instance_id
    return f"{cut.instance_id}, channel {channel_name(cut.channel)}"


def channel_name(channel: str) -> str:
    """Name a channel: the default one has no name of its own."""
    return channel or "(default)"


def singular(noun: str, number: int) -> str:
    """The noun for a number of things."""
    return noun.removesuffix("s") if number == 1 else noun
