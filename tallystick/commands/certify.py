"""``tallystick certify``: are the coordinates in a backup true?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallystick import terminal
from tallystick.commands.options import Json

if TYPE_CHECKING:
    from tallystick.certify.judge import Judgement
    from tallystick.terminal import Line

_STYLES = {"TRUE": "bold green", "FALSE": "bold red", "UNDECIDED": "bold yellow"}


def certify(
    *,
    path: Annotated[
        Path, typer.Argument(help="The backup: its directory, or a file with its coordinates.")
    ],
    journal: Annotated[
        list[str],
        typer.Option(
            help="The server's journal as JSON Lines, gzip or not, or -; repeatable.",
            metavar="FILE",
        ),
    ],
    instance: Annotated[
        str | None,
        typer.Option(help="The server that it was taken from; else the one that fits."),
    ] = None,
    json: Json = False,
) -> None:
    """Judge whether the coordinates in a backup are true, against a journal.

    Reads what XtraBackup and mysqldump write of binary log positions, GTID sets, replica positions
    and LSNs. TRUE prints the statements that start replication from it. Exit status: 0 true,
    1 false, 3 undecided, 2 unreadable. docs/certify.md.
    """
    from tallystick.runs.certify import certify as run
    from tallystick.runs.certify import document

    judgement = run(path, journal, instance)
    if json:
        terminal.show_json(document(judgement))
    else:
        terminal.show(*_lines(judgement))
    raise typer.Exit(judgement.truth.exit_code)


def _lines(judgement: Judgement) -> Iterator[Line]:
    from tallystick.certify.statements import start_statements

    backup = judgement.backup
    of = "" if judgement.instance_id is None else f", of {judgement.instance_id}"
    yield f"{judgement.truth.value}: coordinates of {backup.form}{of}", _STYLES[judgement.truth]
    for check in judgement.checks:
        yield f"  {check.outcome.value:<9}  {check.sentence}"
    statements = start_statements(judgement)
    if statements:
        yield "To replicate from it:"
        for statement in statements:
            yield terminal.Command(f"  {statement}")
