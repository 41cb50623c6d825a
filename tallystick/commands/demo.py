"""``tallystick demo``."""

from __future__ import annotations

from typing import Annotated

import typer

from tallystick import terminal
from tallystick.errors import ExitCode
from tallystick.extras import require_stream
from tallystick.process import stopping
from tallystick.settings import load


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
    json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Run the main job on a simulated fleet, from the broker to the report.

    With a broker of its own, five instances and Great Expectations on each collection. Nothing is
    left running. Exit status: 0 consistent, 1 inconsistent, 3 undecided. With --scenario: 0 when
    every claim was shown, every finding that the design foretells was found and no other, else 1.
    """
    require_stream("tallystick demo")
    from tallystick.outputs.text import summary
    from tallystick.runs.demo import Demo, demo_scenario, new_run, preflight

    planned = demo_scenario(seed, fault, tuple(negative or ()), scenario)
    directory = load().settings.directory.absolute()
    preflight(directory, port)
    with stopping() as stop, terminal.progress("starting the broker") as progress:
        result = Demo(planned, new_run(directory), port=port, stop=stop, progress=progress).run()
    if result is None:
        raise typer.Exit(stop.exit_code)
    if not result.is_complete:
        terminal.notice("the audit did not read everything in time: the verdict is undecided")
    if fault is not None and not result.injected:
        terminal.notice(f"{fault} found no moment to be injected with seed {seed}")
    if json:
        terminal.show_json({**result.outcome.to_json(), "report": str(result.report)})
    else:
        terminal.show(*summary(result.outcome, result.report, result.data_docs))
    demonstrated = result.outcome.data.demonstrated
    if demonstrated is not None:
        raise typer.Exit(ExitCode.CONSISTENT if demonstrated.is_shown else ExitCode.INCONSISTENT)
    raise typer.Exit(ExitCode.of(result.outcome.verdict))
