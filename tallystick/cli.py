"""The command: puts the groups of commands together and turns their ends into exit codes."""

from __future__ import annotations

import sys
from typing import Annotated, Any, cast

import typer

from tallystick import __version__, running, terminal
from tallystick.commands import audit, broker, demo, fleet, journal, offline, reference
from tallystick.errors import ExitCode

# Typer may carry a click of its own: its classes are found through one that it hands out.
ClickException = cast("type[Exception]", typer.BadParameter.__mro__[2])

app = typer.Typer(
    name="tallystick",
    help="Audits, while they are written, that MySQL's accounts of one history agree.",
    epilog="Exit status: 0 consistent, 1 inconsistent, 2 misuse, 3 undecided.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        terminal.show(f"tallystick {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Audits, while they are written, that MySQL's accounts of one history agree."""


for command in (
    demo.demo,
    audit.audit,
    journal.collect,
    journal.journal,
    fleet.simulate,
    fleet.load,
    offline.replay,
    offline.report,
    offline.campaign,
    reference.invariants,
    reference.faults,
    reference.config,
):
    app.command()(command)
app.add_typer(broker.app, name="broker")


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and end the process."""
    sys.exit(running.run(lambda: run_command(arguments)))


def run_command(arguments: list[str] | None) -> int:
    """Run the command line; give its exit code. Errors of the domain are let out."""
    command = typer.main.get_command(app)
    try:
        code = command.main(args=arguments, prog_name="tallystick", standalone_mode=False)
    except ClickException as error:
        click_error: Any = error
        words = click_error.format_message()
        if words:
            context = click_error.ctx if hasattr(error, "ctx") else None
            where = "tallystick" if context is None else context.command_path
            terminal.notice(f"{words} ({where} --help says more)")
        return ExitCode.MISUSE
    except typer.Abort:
        return ExitCode.INTERRUPTED
    return code if isinstance(code, int) else ExitCode.CONSISTENT


if __name__ == "__main__":
    main()
