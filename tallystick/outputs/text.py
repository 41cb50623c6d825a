"""The result in a few lines for a person: verdict, counts, findings with their witness."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

from tallystick.coordinates.results import Finding, Verdict
from tallystick.coordinates.rules.describe import written_in
from tallystick.coordinates.rules.explanation import Explanation, observation_text
from tallystick.coordinates.rules.families import RUNBOOK
from tallystick.outputs import document
from tallystick.outputs._groups import FindingGroup, broken_rules
from tallystick.outputs._view import (
    channel_name,
    doubts,
    singular,
    undecided_rules,
)
from tallystick.runs.result import RunResult
from tallystick.runs.scenario import ScenarioResult, times
from tallystick.terminal import STANDARD_STREAM, Command, Line, escaped, show

STYLES = {
    Verdict.CONSISTENT: "bold green",
    Verdict.UNDECIDED: "bold yellow",
    Verdict.INCONSISTENT: "bold red",
}
FINDINGS_MAX = 12
_VALUE_MAX = 200
_REASONS_MAX = 8
_NAMES_MAX = 6


def write(result: RunResult, target: str) -> None:
    """Write the lines, with colours where they go to a terminal."""
    if target == STANDARD_STREAM:
        show(*lines(result))
    else:
        _write_plain(result, target)


def _plain(result: RunResult) -> str:
    return "".join(
        f"{escaped(line if isinstance(line, str) else line[0])}\n" for line in lines(result)
    )


_write_plain = document(_plain)


def lines(result: RunResult) -> Iterator[Line]:
    """The lines, not escaped yet."""
    yield from _servers(result)
    if result.scenario is not None:
        yield from _scenario(result.scenario)
    yield result.verdict.value, STYLES[result.verdict]
    if result.verdict_now is not result.verdict:
        over = Counter(one.state.value for one in result.incidents)
        states = ", ".join(f"{number:,} {state}" for state, number in over.items())
        why = f"incidents {states}" if states else "what is undecided is of earlier collections"
        yield f"  now {result.verdict_now.value}: {why}", STYLES[result.verdict_now]
    counts = result.counts.items()
    yield "  " + ", ".join(f"{number:,} {singular(noun, number)}" for noun, number in counts)
    yield from _findings(result)
    yield from _section("observed:", list(_observed(result)))
    yield from _unread(result)
    yield from _section("undecided because:", list(doubts(result)))
    reasons = [
        f"{reason}: {_some(sorted(rules))} ({_some(sorted(set().union(*rules.values())))})"
        for reason, rules in undecided_rules(result)
    ]
    yield from _section(
        f"undecided: no contradiction found ({RUNBOOK} says what to do; --output json has all):",
        reasons,
    )
    if result.paths:
        yield ""
    width = max(map(len, result.paths), default=0)
    for name, path in result.paths.items():
        yield f"{name.replace('_', ' ') + ':':<{width + 1}} {path}"


def _servers(result: RunResult) -> Iterator[Line]:
    if not result.servers:
        return
    rows = [("server", "version", "address", "rows", "events", "verdict")]
    for name, server in result.servers.items():
        events = f"{server.binlog_events + server.relay_events:,}"
        verdict = _verdict_of(result, name, is_answered=bool(server.rows))
        rows.append(
            (name, server.version or "?", server.address, str(server.rows), events, verdict)
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for index, row in enumerate(rows):
        cells = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip(), "" if index else "bold"
    yield ""


def _verdict_of(result: RunResult, name: str, *, is_answered: bool) -> str:
    found = result.rule_results.get(name, [])
    broken = [one.rule for one in found if one.verdict is Verdict.INCONSISTENT]
    if broken:
        return "inconsistent: " + ", ".join(dict.fromkeys(broken))
    if not is_answered:
        return "undecided: no row of log_status"
    held = sum(one.verdict is Verdict.CONSISTENT for one in found)
    left = sum(one.verdict is Verdict.UNDECIDED for one in found)
    return f"{held} hold" + (f", {left} undecided" if left else "")


def _scenario(scenario: ScenarioResult) -> Iterator[Line]:
    status, style = ("SHOWN", "bold green") if scenario.is_shown else ("NOT SHOWN", "bold red")
    yield f"{status}  {scenario.design}: {scenario.title}", style
    yield f"  {scenario.counted}"
    for claim in scenario.claims:
        yield ""
        yield f"{claim.requirement}  {claim.text}", "bold"
        for seen in claim.seen:
            yield f"  {seen.after_us / 1_000_000:.3f} s, {seen.instance}: {seen.sentence}"
        if not claim.seen:
            yield "  was not seen", "bold red"
        audited = f"  audited: {'; '.join(map(str, claim.rules))}"
        yield audited if all(one.is_as_expected for one in claim.rules) else (audited, "bold red")
    for expected in scenario.expected:
        yield ""
        yield f"expected  {expected.rule} at {expected.instance}", "bold"
        yield f"  {expected.why}"
        yield f"  found {times(expected.found)}" if expected.found else ("  not found", "bold red")
    if scenario.others:
        yield ""
        yield "found and not expected:", "bold red"
        for (instance, rule), number in Counter(scenario.others).items():
            yield f"  {rule} at {instance}" + (f" ({number})" if number > 1 else "")
    yield ""


def _findings(result: RunResult) -> Iterator[Line]:
    left = FINDINGS_MAX
    broken = broken_rules(result)
    for of_rule in broken:
        if left <= 0:
            break
        yield ""
        yield f"{of_rule.name} ({of_rule.severity.value})", "bold"
        for group in of_rule.groups[:left]:
            yield from _finding(result, group)
        yield from (f"  to do: {remedy}" for remedy in of_rule.remedies(left) if remedy)
        if of_rule.rule is not None:
            yield f"  runbook: {of_rule.rule.family.place}"
            yield f"  written in: {'; '.join(written_in(of_rule.rule))}"
        left -= len(of_rule.groups)
    if left < 0:
        more = sum(len(of_rule.groups) for of_rule in broken) - FINDINGS_MAX
        yield f"  … and {more:,} more (--output json has all)"


def _finding(result: RunResult, group: FindingGroup) -> Iterator[Line]:
    texts = group.texts
    yield f"  {' and '.join(group.instances)}{_channels(result, group.first)}, {group.period}"
    yield f"    {texts.sentence}"
    if group.count > 1:
        yield f"    at {texts.at}, found again at {group.positions}"
    elif texts.at not in texts.sentence:
        yield f"    at {texts.at}"
    yield f"    observed, {texts.observed_in}: {_short(texts.observed)}"
    yield f"    expected, {texts.expected_in}: {_short(texts.expected)}"
    if group.has_own_witness:
        yield f"    witness: {group.witness}"
    yield from commands(texts)


def commands(texts: Explanation) -> Iterator[Line]:
    """The statements that show a finding, then those of its remedy, each on a line of its own."""
    kinds = (("to see it", texts.verify), ("to do what is advised first", texts.cure))
    for what, statements in kinds:
        last = None
        for on, statement in statements:
            if on != last:
                yield f"    {what}, on {on}:"
            last = on
            yield Command(f"      {statement}")


def _channels(result: RunResult, finding: Finding) -> str:
    """The finding's channel; of one about a replica as a whole, those from the sources it names.

    The channels are those of the end: a finding that names no source may be older than they are.
    """
    sources = finding.data.get("sources", [finding.data.get("source")])
    edges = [
        edge
        for edge in result.topology
        if edge.replica == finding.instance_id
        and (edge.source in sources if finding.channel is None else edge.channel == finding.channel)
    ]
    if edges:
        return "".join(f", channel {channel_name(e.channel)} from {e.source}" for e in edges)
    return "" if finding.channel is None else f", channel {channel_name(finding.channel)}"


def _observed(result: RunResult) -> Iterator[str]:
    """What else was seen, by kind: how often, and the last one."""
    numbers = Counter(seen.code for seen in result.observations)
    for code, last in {seen.code: seen for seen in result.observations}.items():
        where = ", ".join(filter(None, (last.instance_id, last.at)))
        yield f"{numbers[code]} {code.value}, the last at {where}: {observation_text(last)}"


def _unread(result: RunResult) -> Iterator[Line]:
    """What could not be read of real servers, and the statements that would change it."""
    refused: dict[str, list[str]] = {}
    grants: dict[str, list[str]] = {}
    for name, server in result.servers.items():
        for part, error in server.unread.items():
            refused.setdefault(f"{part}: {error}", []).append(name)
        for grant in server.grants:
            grants.setdefault(grant, []).append(name)
    if refused:
        yield ""
        yield "not read:"
        yield from (f"  {text} ({_some(names)})" for text, names in refused.items())
    if grants:
        yield "  it takes:"
        yield from (f"    {text} -- on {_some(names)}" for text, names in grants.items())


def _section(title: str, reasons: Sequence[str]) -> Iterator[Line]:
    if reasons:
        yield ""
        yield title
        yield from (f"  {reason}" for reason in islice(reasons, _REASONS_MAX))
    if len(reasons) > _REASONS_MAX:
        yield f"  … and {len(reasons) - _REASONS_MAX} more (--output json has all)"


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMES_MAX
    return ", ".join(names[:_NAMES_MAX]) + (f" and {more} more" if more > 0 else "")


def _short(text: str) -> str:
    text = " ".join(text.split()) or "(empty)"
    return text if len(text) <= _VALUE_MAX else f"{text[:_VALUE_MAX]}… ({len(text)} characters)"
