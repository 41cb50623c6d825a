"""``tallystick doctor``: what a deployment needs, tried, with what fixes what is missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallystick import terminal
from tallystick.commands.options import (
    BootstrapServers,
    Client,
    Directory,
    Json,
    TopicPrefix,
    a_path,
)
from tallystick.errors import ExitCode

if TYPE_CHECKING:
    from tallystick.doctor.checks import Check


class Role(str, Enum):
    """A command that this host shall run."""

    CHECK = "check"
    TAIL = "tail"
    AUDIT = "audit"


_STYLES = {"ok": "green", "warning": "yellow", "failed": "bold red", "not tried": "dim"}


def doctor(
    *,
    config: Annotated[
        Path | None,
        typer.Option(help="A servers.toml.", metavar="FILE", parser=a_path, show_default=False),
    ] = None,
    server: Annotated[
        list[str] | None,
        typer.Option(help="A server; may be repeated.", metavar="NAME=[USER@]HOST[:PORT]"),
    ] = None,
    role: Annotated[
        list[Role] | None,
        typer.Option(
            "--for", help="A command that this host shall run; may be repeated. Default: all."
        ),
    ] = None,
    bootstrap_servers: BootstrapServers = None,
    topic_prefix: TopicPrefix = None,
    client: Client = None,
    directory: Directory = None,
    json: Json = False,
) -> None:
    """Try all that a deployment needs, and report each thing with its fix.

    This machine, Kafka, and each MySQL server: what check, tail and audit need of them on this
    host. Nothing is written to topics or servers. One check's failure does not end the others.
    Exit status: 0 nothing failed, 2 something failed.
    """
    from tallystick.doctor.checks import State, documents
    from tallystick.doctor.deployment import try_deployment

    roles = frozenset(one.value for one in role or Role)
    flags = {
        "bootstrap_servers": bootstrap_servers,
        "topic_prefix": topic_prefix,
        "client": client,
        "directory": directory,
    }
    with terminal.progress("trying what a deployment needs"):
        checks = try_deployment(flags, config, server or (), roles)
    counts = Counter(check.state for check in checks)
    if json:
        terminal.show_json(
            {
                "checks": documents(checks),
                "counts": {state.value: counts[state] for state in State},
            }
        )
    else:
        _show(checks)
        terminal.show("", ", ".join(f"{counts[state]} {state.value}" for state in State))
    raise typer.Exit(ExitCode.MISUSE if counts[State.FAILED] else ExitCode.CONSISTENT)


def _show(checks: Sequence[Check]) -> None:
    terminal.show_table(
        ("", "of", "checked", "seen"),
        [
            ((check.state.value, _STYLES[check.state.value]), check.place, check.name, check.line)
            for check in checks
        ],
    )
