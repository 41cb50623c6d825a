"""``tallystick lab``: real MySQL servers on this machine, to try things on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallystick import terminal
from tallystick.commands.options import Directory, Json
from tallystick.errors import ExitCode, MisuseError
from tallystick.process import stopping
from tallystick.settings import load as load_settings

if TYPE_CHECKING:
    from tallystick.servers.lab import Lab, ServerStatus

app = typer.Typer(help="Start, load, break and stop a fleet of real MySQL servers.")

DEFAULT_BASE_PORT = 23_306
MAX_BASE_PORT = 65_531
POLL_S = 0.2


@app.command()
def up(
    *,
    base_port: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MAX_BASE_PORT,
            help=f"Port of the first of five servers ({DEFAULT_BASE_PORT}, or as before).",
        ),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Forget the lab that is there, and its data.")
    ] = False,
    directory: Directory = None,
) -> None:
    """Start five MySQL 8.0.31 servers on 127.0.0.1, with GTIDs and replication.

    They are a source, its replica, a replica of that replica, a second source, and a replica of
    both sources with two channels.
    """
    with terminal.progress("starting the lab") as progress:
        lab = _lab(directory, base_port, progress)
        lab.up(is_fresh=fresh)
    terminal.show(
        f"lab: five servers on 127.0.0.1, ports from {lab.base_port} on, in {lab.directory}",
        f"servers: {lab.config_file}",
    )


@app.command()
def down(*, directory: Directory = None) -> None:
    """Stop the servers that `tallystick lab up` has started; their data stays."""
    with terminal.progress("stopping the lab") as progress:
        stopped = _lab(directory, None, progress).down()
    terminal.show(f"lab: stopped {', '.join(stopped)}" if stopped else "lab: none was running")


@app.command()
def status(*, directory: Directory = None, json: Json = False) -> None:
    """Show of each server whether it runs, what it executed, how it replicates.

    The exit status is 2 when a server is down or a channel does not run.
    """
    from tallystick.servers.lab import status_document

    found = _lab(directory).status()
    if json:
        terminal.show_json(status_document(found))
    else:
        terminal.show_table(
            ("server", "port", "pid", "version", "replication", "gtid_executed"),
            [_row(one) for one in found],
        )
        for one in found:
            if one.problem:
                terminal.show((f"{one.name}: {one.problem}", "red"))
            for channel in one.channels:
                if not channel.is_running:
                    where = f"{one.name}, channel {channel.channel_name!r}"
                    terminal.show((f"{where}: {channel.error or 'is stopped'}", "red"))
    if not all(one.is_well for one in found):
        raise typer.Exit(ExitCode.MISUSE)


@app.command()
def load(
    *,
    rate: Annotated[
        float, typer.Option(min=0.1, max=1e6, help="Writes a second, over all threads.")
    ] = 100.0,
    threads: Annotated[int, typer.Option(min=1, max=80, help="How many clients.")] = 4,
    seconds: Annotated[float, typer.Option(min=0.1, max=1e9, help="How long.")] = 10.0,
    on: Annotated[
        list[str] | None,
        typer.Option("--on", help="A source to write on; may be repeated (both).", metavar="NAME"),
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option("--kind", help="A kind of write; may be repeated (all).", metavar="KIND"),
    ] = None,
    seed: Annotated[int, typer.Option(help="Decides what each client writes.")] = 1,
    directory: Directory = None,
    json: Json = False,
) -> None:
    """Write on the lab's sources; report what was done.

    Kinds: innodb, multi_statement, nontransactional, rollback, xa, ddl, flush_binary_logs. A
    server that is killed meanwhile costs errors, which are counted, and is written on again.
    """
    from tallystick.producers.mysql_lab.layout import SOURCES
    from tallystick.producers.mysql_lab.load import WEIGHTS, LoadPlan

    plan = LoadPlan(
        servers=_known(on, SOURCES, "--on"),
        rate=rate,
        threads=threads,
        seconds=seconds,
        kinds=_known(kind, tuple(WEIGHTS), "--kind"),
        seed=seed,
    )
    running = _lab(directory).make_load(plan)
    with terminal.progress(f"writing on {', '.join(plan.servers)}"), stopping() as stop:
        running.start()
        while not stop.wait(POLL_S) and running.is_alive:
            pass
        running.stop()
        report = running.finish()
    if json:
        terminal.show_json(
            {
                "seconds": report.seconds,
                "writes_per_s": report.rate,
                "writes": dict(report.writes),
                "errors": dict(report.errors),
            }
        )
    else:
        terminal.show(
            f"{report.total:,} writes in {report.seconds:.1f} s: {report.rate:,.1f} writes/s",
            *(f"  {name}: {report.writes[name]:,}" for name in WEIGHTS if report.writes[name]),
            *(f"  {times:,} x error {error}" for error, times in sorted(report.errors.items())),
        )
    if stop.is_set():
        raise typer.Exit(stop.exit_code)


@app.command()
def fault(
    name: Annotated[
        str | None, typer.Argument(help="The fault; --list shows all.", metavar="NAME")
    ] = None,
    *,
    on: Annotated[
        str | None, typer.Option("--on", help="The server it happens to.", metavar="SERVER")
    ] = None,
    list_all: Annotated[
        bool, typer.Option("--list", help="List the faults, and what the audit should find.")
    ] = False,
    directory: Directory = None,
    json: Json = False,
) -> None:
    """Make a true fault on the lab's servers and report what was done."""
    from tallystick.producers.mysql_lab.faults import FAULTS, make_fault

    if list_all:
        if json:
            terminal.show_json(
                [
                    {
                        "name": one.name,
                        "summary": one.summary,
                        "servers": one.servers,
                        "expected": one.expected,
                    }
                    for one in FAULTS.values()
                ]
            )
        else:
            terminal.show_table(
                ("fault", "on", "what happens", "the audit is expected to find"),
                [
                    (one.name, "\n".join(one.servers), one.summary, _expected(one.expected))
                    for one in FAULTS.values()
                ],
            )
        return
    if name is None:
        raise MisuseError(f"Which fault? Expected one of: {', '.join(FAULTS)}")
    with terminal.progress(f"making the fault {name}"):
        server, did = make_fault(_lab(directory), name, on)
    expected = FAULTS[name].expected
    if json:
        terminal.show_json({"fault": name, "on": server, "did": did, "expected": expected})
        return
    terminal.show(
        f"{name} on {server}: {FAULTS[name].summary}",
        *(f"  {thing}: {value}" for thing, value in did),
        f"  the audit is expected to find: {', '.join(expected) or 'nothing'}",
    )


def _expected(names: tuple[str, ...]) -> str:
    return "\n".join(names) or "nothing"


def _known(names: list[str] | None, known: tuple[str, ...], flag: str) -> tuple[str, ...]:
    for name in names or ():
        if name not in known:
            raise MisuseError(f"{flag} {name!r}; expected one of: {', '.join(known)}")
    return tuple(dict.fromkeys(names)) if names else known


def _row(one: ServerStatus) -> tuple[object, ...]:
    channels = "\n".join(
        f"{channel.channel_name or 'default'} from {channel.source_port}: receiver "
        f"{channel.receiver}, applier {channel.applier}"
        for channel in one.channels
    )
    return (
        one.name,
        one.port,
        one.pid or "-",
        one.version or "-",
        channels or "-",
        "-" if one.gtid_executed is None else one.gtid_executed.replace(",", ",\n"),
    )


def _lab(
    directory: Path | None,
    base_port: int | None = None,
    progress: terminal.Progress | None = None,
) -> Lab:
    from tallystick.servers.lab import Lab

    return Lab(
        Path(load_settings({"directory": directory}).settings.directory) / "lab",
        base_port=base_port,
        progress=None if progress is None else progress.now,
    )
