"""``tallystick demo``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tallystick import terminal
from tallystick.commands.options import FailOn, FailOnFlag, JsonResult, Outputs, finish, requested
from tallystick.extras import require_extra
from tallystick.process import stopping
from tallystick.settings import load

if TYPE_CHECKING:
    from tallystick.runs.result import RunResult


def demo(
    *,
    fault: Annotated[
        str | None, typer.Option(help="Inject this fault (tallystick faults lists them).")
    ] = None,
    negative: Annotated[
        list[str] | None,
        typer.Option(help="Let the fleet do something legal that looks wrong; may be repeated."),
    ] = None,
    scenario: Annotated[
        str | None,
        typer.Option(
            help="Show a design, requirement by requirement: "
            "log_status, repositories, pitr, clone or backup."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Decides everything the fleet does.")] = 1,
    port: Annotated[
        int, typer.Option(min=0, max=65_534, help="The broker's port; 0: a free one.")
    ] = 0,
    output: Outputs = None,
    json: JsonResult = False,
    fail_on: FailOnFlag = FailOn.EVER,
) -> None:
    """Run the main job on a simulated fleet, from the broker to the report.

    With a broker of its own, five instances and Great Expectations on each collection. Nothing is
    left running. Exit status: 0 consistent, 1 inconsistent, 3 undecided. With --scenario: 0 when
    every claim was shown, every finding that the design expects was found and no other, else 1.
    """
    require_extra("stream", "tallystick demo")
    from tallystick.runs.demo import Demo, demo_scenario, new_run, preflight

    requests = requested(output, json)
    planned = demo_scenario(seed, fault, tuple(negative or ()), scenario)
    directory = load().settings.directory.absolute()
    preflight(directory, port)
    run = new_run(directory)
    with stopping() as stop, terminal.progress("starting the broker") as progress:
        demonstration = Demo(planned, run, port=port, stop=stop, progress=progress)
        result = demonstration.run()
    if result is None:
        raise typer.Exit(stop.exit_code)
    if not demonstration.is_complete:
        terminal.notice("the audit did not read everything in time: the verdict is undecided")
    try:
        finish(result, requests, run, fail_on=fail_on)
    finally:
        if fault is not None:
            terminal.notice(_ending(result, fault, is_injected=bool(demonstration.injected)))


def _ending(result: RunResult, fault: str, *, is_injected: bool) -> str:
    """What the exit status means where a fault was injected: make calls any but 0 an error."""
    from tallystick.producers.simulator.faults import FAULTS

    status = f"exit status {result.exit_code.value}, {result.verdict.value}"
    if not is_injected:
        return f"{status}: {fault} found no moment to be injected with this seed"
    expected = FAULTS[fault].must_fire
    if expected <= {finding.rule for finding in result.findings}:
        return f"{status}, is the expected end of a demonstration with a fault: {fault} was found"
    return f"{status}: {fault} was injected and not found"
