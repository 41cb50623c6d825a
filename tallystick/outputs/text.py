"""A run in a few lines for a terminal: verdict, counts, findings with their witness."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tallystick.coordinates.results import Finding, Observation, ObservationCode, Verdict
from tallystick.coordinates.rules.catalogue import RULES
from tallystick.coordinates.rules.describe import written_in
from tallystick.coordinates.rules.explanation import explain, observation_text, reasons_of
from tallystick.outputs._view import (
    Edge,
    broken_invariants,
    channel_name,
    counts,
    newest_cuts,
    row_name,
)
from tallystick.runs.result import Outcome
from tallystick.runs.scenario import lines as demonstrated_lines

Line = str | tuple[str, str]

STYLES = {
    Verdict.CONSISTENT: "bold green",
    Verdict.UNDECIDED: "bold yellow",
    Verdict.INCONSISTENT: "bold red",
}
FINDINGS_MAX = 12
_VALUE_MAX = 160
_UNDECIDED_MAX = 8


def summary(
    outcome: Outcome, report: Path | None = None, data_docs: Path | None = None
) -> list[Line]:
    """Sum up an outcome; the lines are not escaped yet."""
    return list(_lines(outcome, report, data_docs))


def _lines(outcome: Outcome, report: Path | None, data_docs: Path | None) -> Iterator[Line]:
    data = outcome.data
    if data.demonstrated is not None:
        yield from demonstrated_lines(data.demonstrated)
    yield outcome.verdict.value, STYLES[outcome.verdict]
    yield "  " + ", ".join(
        f"{number:,} {_word(words, number)}"
        for words, number in {**data.totals, **counts(data)}.items()
    )
    shown = 0
    for group in broken_invariants(data.findings):
        if shown >= FINDINGS_MAX:
            break
        yield ""
        yield f"{group.name} ({group.severity.value})", "bold"
        for finding in group.findings[: FINDINGS_MAX - shown]:
            shown += 1
            yield from _finding(finding, data.topology)
        if group.rule is not None:
            yield f"  written in: {'; '.join(written_in(group.rule))}"
            yield f"  to do: {group.rule.remedy}"
    if shown < len(data.findings):
        yield f"  … and {len(data.findings) - shown} more in the report"
    yield from _doubts(outcome)
    if report is not None or data_docs is not None:
        yield ""
    if report is not None:
        yield f"report:    {report}"
    if data_docs is not None:
        yield f"Data Docs: {data_docs}"


def _finding(finding: Finding, topology: Sequence[Edge]) -> Iterator[Line]:
    yield f"  {finding.instance_id}{_channels(finding, topology)}, at {finding.at}"
    yield f"    {explain(finding).sentence}"
    yield f"    observed, {explain(finding).observed_in}: {_short(explain(finding).observed)}"
    yield f"    expected, {explain(finding).expected_in}: {_short(explain(finding).expected)}"
    yield f"    witness: {_short(finding.witness)}"


def _channels(finding: Finding, topology: Sequence[Edge]) -> str:
    """The finding's channel; of one about a replica as a whole, all of its channels."""
    rule = RULES.get(finding.rule)
    is_about_all = finding.channel is None and rule is not None and rule.scope == "X"
    edges = [
        edge
        for edge in topology
        if edge.replica == finding.instance_id and (is_about_all or edge.channel == finding.channel)
    ]
    if edges:
        return "".join(f", channel {channel_name(e.channel)} from {e.source}" for e in edges)
    return "" if finding.channel is None else f", channel {channel_name(finding.channel)}"


def _doubts(outcome: Outcome) -> Iterator[Line]:
    told = Counter(observation.code.value for observation in outcome.data.observations)
    if told:
        yield ""
        yield "observed: " + ", ".join(f"{number} {code}" for code, number in told.items())
    if outcome.verdict is not Verdict.UNDECIDED:
        return
    reasons = list(_reasons(seen for seen in outcome.data.observations if seen.is_undecided))
    # A row stays consistent without what only some servers or accounts can tell.
    rowless = {
        (seen.instance_id, seen.collection_id)
        for seen in outcome.data.observations
        if seen.code is ObservationCode.LOG_STATUS_MISSING
    }
    reasons += [
        f"  {row_name(cut)}: {reasons_of(cut)}"
        for cut in newest_cuts(outcome.data)
        if cut.verdict == Verdict.UNDECIDED.value
        and (cut.instance_id, cut.collection_id) not in rowless
    ]
    if not outcome.data.collections:
        reasons.append("  nothing was collected: there is no log_status record")
    if reasons:
        yield ""
        yield "undecided because:"
        yield from reasons[:_UNDECIDED_MAX]
    if len(reasons) > _UNDECIDED_MAX:
        yield f"  … and {len(reasons) - _UNDECIDED_MAX} more in the report"


def _reasons(observations: Iterable[Observation]) -> Iterator[str]:
    """What left something undecided; one that came with each collection is shown once."""
    alike: dict[Observation, list[Observation]] = {}
    for seen in observations:
        alike.setdefault(_without_collection(seen), []).append(seen)
    for found in alike.values():
        more = f" (and {len(found) - 1} more of the kind)" if len(found) > 1 else ""
        of_instance = f"{found[0].instance_id}: " if found[0].instance_id else ""
        yield f"  {of_instance}{observation_text(found[0])}{more}"


def _without_collection(seen: Observation) -> Observation:
    return replace(seen, channel=None, at="", collection_id=None, epoch=0, sequence=0, ts=0)


def _short(text: str) -> str:
    text = " ".join(text.split()) or "(empty)"
    return text if len(text) <= _VALUE_MAX else f"{text[:_VALUE_MAX]}… ({len(text)} characters)"


def _word(words: str, number: int) -> str:
    return words.removesuffix("s") if number == 1 else words
