"""``tallystick chaos``: kills and stops real processes, and compares what is found."""

from __future__ import annotations

from typing import Annotated

import typer

from tallystick import terminal
from tallystick.commands.options import Directory
from tallystick.deploy.mysql_server import mysqld_problem
from tallystick.errors import ExitCode, MisuseError
from tallystick.extras import require_extra
from tallystick.process import stopping
from tallystick.settings import load


def chaos(
    *,
    seed: Annotated[int, typer.Option(help="Decides what is done, and to which fleet.")] = 1,
    acts: Annotated[int, typer.Option(min=1, max=1_000, help="Disturbances in a round.")] = 6,
    lab: Annotated[
        bool, typer.Option("--lab", help="Real MySQL servers with tail, instead of a simulation.")
    ] = False,
    minutes: Annotated[
        float, typer.Option(min=0, max=1e6, help="Begin rounds with further seeds for so long.")
    ] = 0.0,
    directory: Directory = None,
) -> None:
    """Disturb real processes; compare what is found with an undisturbed replay.

    Starts a broker, a simulated fleet with a fault, and an audit; kills, stops and restarts them.
    Findings and incidents must be those of the same journal, replayed: none lost, none made up,
    none twice. Exit status 1: something was; the command that repeats it is printed.
    """
    settings = load({"directory": directory}).settings
    require_extra("stream", "tallystick chaos")
    if lab and (problem := mysqld_problem()) is not None:
        raise MisuseError(str(problem))
    from tallystick.chaos.run import rounds
    from tallystick.coordinates.rules.explanation import fill

    place = settings.directory.absolute() / "chaos"
    failed = done = 0
    with stopping() as stop, terminal.progress("starting the first round") as progress:
        for one in rounds(
            place,
            seed=seed,
            acts=acts,
            is_lab=lab,
            seconds=minutes * 60,
            progress=progress,
            stop=stop,
        ):
            done += 1
            failed += bool(one.violations)
            count = {
                "acts": len(one.plan.steps),
                "rows": one.rows,
                "findings": one.findings,
                "violations": len(one.violations),
            }
            shown = fill("{acts:n act}, {rows:n answer}, {findings:n finding}", count)
            end = fill("{violations:n violation}", count) if one.violations else "nothing changed"
            terminal.show(f"seed {one.plan.seed}: {shown}, {one.seconds:.0f} s: {end}")
            for text in one.violations:
                terminal.show((f"  {text}", "red"))
            if one.violations:
                terminal.show(
                    f"  kept in {str(place / f'seed-{one.plan.seed}')!r}; again:",
                    terminal.Command(
                        f"  tallystick chaos --seed {one.plan.seed} --acts {acts}" + " --lab" * lab
                    ),
                )
    terminal.show(fill("{count:n round}, ", {"count": done}) + f"{failed} with violations")
    if stop.is_set():
        raise typer.Exit(stop.exit_code)
    raise typer.Exit(ExitCode.INCONSISTENT if failed else ExitCode.CONSISTENT)
