"""The command: puts the groups of commands together and turns their ends into exit codes."""

from __future__ import annotations

import copy
import functools
import inspect
import sys
from typing import Annotated, Any, cast

import typer

from tallystick import __version__, process, terminal
from tallystick.commands import (
    alerts,
    answers,
    audit,
    broker,
    certify,
    chaos,
    check,
    demo,
    doctor,
    fleet,
    incidents,
    journal,
    lab,
    offline,
    rebuild,
    reference,
    relay_logs,
    serve,
    tail,
)
from tallystick.errors import ExitCode

# Typer may carry a click of its own: its classes are found through one that it hands out.
ClickException = cast("type[Exception]", typer.BadParameter.__mro__[2])

app = typer.Typer(
    name="tallystick",
    help="Audits that binary logs, relay logs, GTID sets and replication info of MySQL agree.",
    epilog="Exit status: 0 consistent, 1 inconsistent, 2 usage or environment error, 3 undecided.",
    add_completion=False,
    pretty_exceptions_enable=False,
    # Rich's tables cut the names of options on 80 columns, in a pipe too.
    rich_markup_mode=None,
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
    """Audits that binary logs, relay logs, GTID sets and replication info of MySQL agree."""


for command in (
    demo.demo,
    audit.audit,
    rebuild.rebuild,
    incidents.retire,
    check.check,
    certify.certify,
    answers.where,
    answers.diff,
    answers.ready,
    doctor.doctor,
    journal.collect,
    journal.journal,
    fleet.simulate,
    fleet.load,
    tail.tail,
    relay_logs.relay_logs,
    offline.replay,
    offline.report,
    serve.serve,
    offline.campaign,
    chaos.chaos,
    reference.rules,
    reference.faults,
    reference.config,
):
    app.command()(command)
for name, group in (
    ("alerts", alerts.app),
    ("broker", broker.app),
    ("incidents", incidents.app),
    ("lab", lab.app),
):
    app.add_typer(group, name=name, short_help=group.info.help)
# A list of commands has these whole, and would cut the first sentence of a docstring.
for group in (app, alerts.app, broker.app, incidents.app, lab.app):
    for registered in group.registered_commands:
        sentence, _, _ = (inspect.getdoc(registered.callback) or "").partition("\n\n")
        registered.short_help = " ".join(sentence.split())


def main() -> None:
    """Run the command line and end the process."""
    process.prepare_standard_streams()
    sys.exit(process.run(lambda: run_command(sys.argv[1:])))


def run_command(arguments: list[str]) -> int:
    """Run a command line; return its exit code. Errors of the domain and of pipes are raised.

    The library's own main would turn a closed pipe into status 1, which here is a verdict.
    """
    if not arguments:
        run_command(["--help"])
        return ExitCode.MISUSE
    command = _commands(arguments[0])
    try:
        with command.make_context("tallystick", arguments) as context:
            command.invoke(context)
    except typer.Exit as error:
        return error.exit_code
    except ClickException as error:
        click_error: Any = error
        # Newer versions of Typer check choices by pydantic, which says this before what is wrong.
        message = click_error.format_message().replace(": Value error, ", ": ", 1)
        if message:
            inner = getattr(error, "ctx", None)
            where = _command_path(command, arguments) if inner is None else inner.command_path
            terminal.notice(f"{message} (see {where} --help)")
        return ExitCode.MISUSE
    except typer.Abort:
        return ExitCode.INTERRUPTED
    return ExitCode.CONSISTENT


@functools.cache
def _commands(word: str) -> Any:
    """The command that a word names alone, or all: making all takes a tenth of a second."""
    chosen = copy.copy(app)
    chosen.registered_commands = [c for c in app.registered_commands if _name(c) == word]
    chosen.registered_groups = [group for group in app.registered_groups if group.name == word]
    is_known = chosen.registered_commands or chosen.registered_groups
    return typer.main.get_command(chosen if is_known else app)


def _name(command: Any) -> str:
    return command.name or typer.main.get_command_name(command.callback.__name__)


def _command_path(command: Any, arguments: list[str]) -> str:
    """The command that the arguments name, as far as they name one."""
    words = ["tallystick"]
    for word in arguments:
        command = getattr(command, "commands", {}).get(word)
        if command is None:
            break
        words.append(word)
    return " ".join(words)


if __name__ == "__main__":
    main()
