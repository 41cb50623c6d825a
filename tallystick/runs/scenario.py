"""A demonstration put beside what its run's tables say: claims, verdicts, foretold findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tallystick.coordinates.results import Outcome
from tallystick.errors import MisuseError
from tallystick.runs.scenario_result import (
    ClaimShown,
    Demonstrated,
    Foretold,
    Judged,
    Seen,
    seconds,
    times,
    verdict_on,
)
from tallystick.settings import suggestion

if TYPE_CHECKING:
    from tallystick.outputs._view import ReportData
    from tallystick.outputs.text import Line
    from tallystick.producers.simulator.kernel.scenario import Scenario
    from tallystick.producers.simulator.scenarios.design_scenario import DesignScenario, Showing


def demonstration_scenario(scenario: Scenario) -> Scenario:
    """The scenario with all that the demonstration it names needs.

    Raises:
        MisuseError: The demonstration is not known, or other acts or a fault are asked for too.
    """
    from tallystick.producers.simulator.scenarios.catalogue import DESIGN_SCENARIOS, with_options

    name = scenario.design_scenario
    if name is None:
        return scenario
    if name not in DESIGN_SCENARIOS:
        hint = suggestion(name, DESIGN_SCENARIOS) or f": expected {', '.join(DESIGN_SCENARIOS)}"
        raise MisuseError(f"no scenario has the name {name!r}{hint}")
    if scenario.fault is not None or scenario.negatives:
        raise MisuseError("--scenario has acts of its own: leave out --fault and --negative")
    return with_options(scenario)


def put_beside(
    demonstration: DesignScenario,
    shown: Sequence[Showing],
    data: ReportData,
    *,
    is_complete: bool = True,
) -> Demonstrated:
    """What a demonstration showed.

    Args:
        demonstration: What was to be shown.
        shown: What its scenario saw.
        data: What the audit said.
        is_complete: Whether the audit read the whole journal.
    """
    held, undecided = _judged_on_rows(data)
    found = Counter((finding.instance_id, finding.rule) for finding in data.findings)
    broken = Counter(finding.rule for finding in data.findings)
    warned = {(one.instance, one.rule) for one in demonstration.expected}
    expected = Counter(f.rule for f in data.findings if (f.instance_id, f.rule) in warned)
    foretold = [
        Foretold(one.instance, one.rule, one.why, found.pop((one.instance, one.rule), 0))
        for one in demonstration.expected
    ]
    claims = [
        ClaimShown(
            requirement=claim.requirement,
            text=claim.text,
            seen=tuple(
                Seen(one.instance, one.after_us, one.sentence)
                for one in shown
                if one.requirement == claim.requirement
            ),
            judged=tuple(
                Judged(name, held[name], broken[name], undecided[name], expected[name])
                for name in claim.invariants
            ),
        )
        for claim in demonstration.claims
    ]
    return Demonstrated(
        name=demonstration.name,
        design=demonstration.design,
        title=demonstration.title,
        claims=tuple(claims),
        foretold=tuple(foretold),
        others=tuple(sorted(found.elements())),
        is_complete=is_complete,
    )


def _judged_on_rows(data: ReportData) -> tuple[Counter[str], Counter[str]]:
    """How often each rule held, and how often it was left undecided."""
    held: Counter[str] = Counter()
    undecided: Counter[str] = Counter()
    for cuts in data.collections:
        for cut in cuts:
            held.update(cut.names(Outcome.HOLDS))
            undecided.update(cut.names(Outcome.UNDECIDED))
    for seen in data.observations:
        if seen.is_undecided:
            undecided.update(seen.rules)
    return held, undecided


def lines(demonstrated: Demonstrated) -> Iterator[Line]:
    """What was shown, for a terminal."""
    word, style = ("SHOWN", "bold green") if demonstrated.is_shown else ("NOT SHOWN", "bold red")
    yield f"{word}  {demonstrated.design}: {demonstrated.title}", style
    yield f"  {demonstrated.counted}"
    for claim in demonstrated.claims:
        yield ""
        yield f"{claim.requirement}  {claim.text}", "bold"
        for seen in claim.seen:
            yield f"  {seconds(seen.after_us)}, {seen.instance}: {seen.sentence}"
        if not claim.seen:
            yield "  was not seen", "bold red"
        yield f"  audited: {'; '.join(map(verdict_on, claim.judged))}"
    for foretold in demonstrated.foretold:
        yield ""
        yield f"foretold  {foretold.rule} at {foretold.instance}", "bold"
        yield f"  {foretold.why}"
        yield f"  found {times(foretold.found)}" if foretold.found else ("  not found", "bold red")
    if demonstrated.others:
        yield ""
        yield "found and not foretold:", "bold red"
        for (instance, rule), number in Counter(demonstrated.others).items():
            yield f"  {rule} at {instance}" + (f" ({number})" if number > 1 else "")
    yield ""
