"""``tallystick check``: real servers, a few collections, findings; no Kafka and no Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallystick import terminal
from tallystick.commands.options import (
    ClusterName,
    Disable,
    FailOn,
    FailOnFlag,
    JsonResult,
    Outputs,
    a_path,
    finish,
    requested,
)
from tallystick.errors import ExitCode, MisuseError
from tallystick.process import stopping
from tallystick.settings import load

if TYPE_CHECKING:
    from tallystick.producers.mysql.settings import ServerSettings
    from tallystick.runs.result import RunResult
    from tallystick.servers.discovery import DiscoveredServer


def check(
    *,
    config: Annotated[
        Path | None,
        typer.Option(help="The servers, as TOML (docs/check.md).", metavar="FILE", parser=a_path),
    ] = None,
    server: Annotated[
        list[str] | None,
        typer.Option(
            help="A server; may be repeated. The password comes from the environment.",
            metavar="NAME=[USER@]HOST[:PORT]",
        ),
    ] = None,
    cluster: ClusterName = None,
    collections: Annotated[
        int, typer.Option(min=1, max=100_000, help="How many times each server is asked.")
    ] = 3,
    interval: Annotated[
        float, typer.Option(min=0.1, max=86_400, help="From one to the next.", metavar="SECONDS")
    ] = 2.0,
    rights: Annotated[
        bool, typer.Option("--rights", help="Print the rights that it needs, and end.")
    ] = False,
    logs_only: Annotated[
        bool,
        typer.Option(
            "--logs-only", help="Go on where log_status may not be read: judge the logs alone."
        ),
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say what would be read and judged, and end.")
    ] = False,
    disable: Disable = None,
    output: Outputs = None,
    json: JsonResult = False,
    fail_on: FailOnFlag = FailOn.EVER,
) -> None:  # fmt: skip
    """Check that what real MySQL servers report agrees, without Kafka and Spark.

    It follows their binary logs for a while, asks each for log_status a few times, and audits that
    as `replay` audits a file. It writes nothing on them. Exit status: 0 consistent,
    1 inconsistent, 2 a server cannot be asked or a right is missing, 3 undecided.
    """
    from tallystick.producers.mysql.settings import load_servers

    if rights and (json or explain):
        raise MisuseError("--rights: expected neither --explain nor --json beside it")
    if (rights or explain) and output:
        flag = "--rights" if rights else "--explain"
        raise MisuseError(f"{flag}: expected no --output beside it; nothing is judged")
    disabled = frozenset(load({"disabled": disable}).settings.disabled)
    requests = requested(output, json, [] if config is None else [config])
    if rights and config is None and not server:
        terminal.show(*_rights_of_any_server())
        return
    settings = load_servers(config, server or (), cluster)
    if rights:
        raise typer.Exit(_show_rights(settings))
    if explain:
        raise typer.Exit(_explain(settings, json=json))
    check = _Check(collections, interval, disabled, logs_only)
    finish(_run(settings, check), requests, fail_on=fail_on)


@dataclass(frozen=True, slots=True)
class _Check:
    """What is wanted of a check."""

    collections: int
    interval_s: float
    disabled: frozenset[str]
    is_of_logs_only: bool


def _run(settings: Sequence[ServerSettings], check: _Check) -> RunResult:
    from tallystick.runs.check import FleetCheck
    from tallystick.servers.discovery import discover

    with stopping() as stop, terminal.progress("asking the servers what they are") as progress:
        servers = discover(settings)
        problems = dict.fromkeys(server.problem for server in servers if server.problem)
        for problem in problems:
            progress.done(problem)
        require_rights(servers, is_of_logs_only=check.is_of_logs_only)

        def notice(text: str) -> None:
            if text not in problems:  # its tail finds the same again
                progress.done(text)

        result = FleetCheck(servers, notice=notice, disabled=check.disabled).run(
            collections=check.collections,
            interval_s=check.interval_s,
            interrupted=stop,
            progress=progress.now,
        )
    if result is None:
        raise typer.Exit(stop.exit_code)
    return result


def require_rights(servers: Sequence[DiscoveredServer], *, is_of_logs_only: bool = False) -> None:
    """Refuse to begin where nothing could be audited.

    Raises:
        MisuseError: A right is missing; it has the statements that grant it.
    """
    missing = [
        (server, held.right)
        for server in servers
        for held in server.missing_rights
        if held.right.is_required and not (is_of_logs_only and held.right.is_of_row)
    ]
    if not missing:
        return
    lines = [
        f"{server.name}: {right.name} is missing; expected: {right.grant(server.account)}"
        for server, right in missing
    ]
    if all(right.is_of_row for _, right in missing):
        lines.append(
            "Where nobody can grant that, as on a managed server: tallystick check --logs-only"
            " judges the logs alone (docs/managed_servers.md)"
        )
    raise MisuseError("\n".join(lines))


# What would be read

_STYLES = {"read": "green", "not read": "yellow", "none": "dim"}


def _explain(settings: Sequence[ServerSettings], *, json: bool) -> ExitCode:
    from tallystick.runs.explain import documents, explained
    from tallystick.servers.discovery import discover

    servers = discover(settings)
    parts = explained(servers)
    if json:
        terminal.show_json(documents(parts))
    else:
        terminal.show_table(
            ("server", "evidence", "", "from where, or why not", "rules that rest on it"),
            [
                (p.server, p.evidence, (p.state, _STYLES[p.state]), p.text, ", ".join(p.rules))
                for p in parts
            ],
        )
        terminal.show(
            "",
            "A rule is undecided where a part that it rests on is not read. Every other rule is"
            " judged where what it is about occurs. Nothing was judged now.",
        )
    is_possible = all(part.state == "read" or not part.is_required for part in parts)
    return ExitCode.CONSISTENT if is_possible else ExitCode.MISUSE


# Rights


def _rights_of_any_server() -> Iterator[str]:
    from tallystick.producers.mysql.dialect import Dialect
    from tallystick.producers.mysql.rights import ACCOUNT_DEFAULT, rights_of

    yield f"-- rights of the account {ACCOUNT_DEFAULT} on MySQL 8.0.27 and later;"
    yield "-- with --config or --server it reads what an account has and what it lacks"
    for right in rights_of(Dialect.of("8.4.0")):
        without = "" if right.is_required else "; without it some checks are undecided"
        yield f"-- {right.purpose}{without}"
        yield right.grant()


def _show_rights(settings: Sequence[ServerSettings]) -> ExitCode:
    from tallystick.servers.discovery import discover

    servers = discover(settings)
    states = {True: "has", False: "lacks", None: "?"}
    terminal.show_table(
        ("server", "", "right", "for"),
        [
            (
                server.name,
                states[held.is_held],
                held.right.name,
                held.right.purpose + (", required" if held.right.is_required else ""),
            )
            for server in servers
            for held in server.rights
        ],
    )
    missing = [(server, held) for server in servers for held in server.missing_rights]
    for server in servers:
        if server.problem:
            terminal.show("", server.problem)
        elif server.missing_rights:
            terminal.show("", f"-- on {server.name}")
            terminal.show(*(held.right.grant(server.account) for held in server.missing_rights))
    if missing or any(server.problem for server in servers):
        return ExitCode.MISUSE
    return ExitCode.CONSISTENT
