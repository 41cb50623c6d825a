"""``tallystick certify``: are the coordinates in a backup true?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from tallystick import terminal
from tallystick.commands.options import BootstrapServers, Json, TopicPrefix, a_file, a_path
from tallystick.errors import MisuseError
from tallystick.overwriting import refuse_overwriting
from tallystick.settings import load

if TYPE_CHECKING:
    from tallystick.certify.history import History
    from tallystick.certify.judge import Check, Judgement
    from tallystick.terminal import Line

_STYLES = {"TRUE": "bold green", "FALSE": "bold red", "UNDECIDED": "bold yellow"}


def certify(
    *,
    path: Annotated[
        Path | None,
        typer.Argument(
            help="The backup: its directory, or a file with its coordinates.",
            metavar="PATH",
            parser=a_path,
        ),
    ] = None,
    journal: Annotated[
        list[str] | None,
        typer.Option(
            help="The server's journal as JSON Lines, gzip or not, or -; repeatable. Else the"
            " journal topic.",
            metavar="FILE",
            parser=a_file,
        ),
    ] = None,
    instance: Annotated[
        str | None,
        typer.Option(help="The server that it was taken from; else the one that fits."),
    ] = None,
    write: Annotated[
        Path | None,
        typer.Option(help="Also write a certificate there.", metavar="FILE", parser=a_path),
    ] = None,
    recheck: Annotated[
        Path | None,
        typer.Option(
            help="Instead: are this certificate, and the files beside it or in PATH, as they were?",
            metavar="CERTIFICATE",
            parser=a_path,
        ),
    ] = None,
    bootstrap_servers: BootstrapServers = None,
    topic_prefix: TopicPrefix = None,
    json: Json = False,
) -> None:
    """Judge whether the coordinates in a backup are true, against a journal.

    Reads what XtraBackup, mydumper, mysqldump, MySQL Shell or a clone have written of binary log
    positions, GTID sets, replica positions and LSNs. TRUE prints the statements that start
    replication from it. Exit status: 0 true, 1 false, 3 undecided, 2 unreadable. docs/certify.md.
    """
    from tallystick.certify.statements import start_statements
    from tallystick.runs import certify as run

    if recheck is not None:
        if journal or instance is not None or write is not None:
            raise MisuseError("--recheck: expected no --journal, --instance or --write beside it")
        _recheck(*run.recheck_certificate(recheck, path), as_json=json)
    if path is None:
        raise MisuseError("expected the PATH of a backup, or --recheck CERTIFICATE")
    if write is not None:
        refuse_overwriting(write, journal or ())
    backup, brokers = path, {"bootstrap_servers": bootstrap_servers, "topic_prefix": topic_prefix}

    def histories() -> dict[str, History]:
        return run.read_journals(journal) if journal else run.read_topic(load(brokers).settings)

    def judged() -> Judgement:
        return run.certify(backup, histories, instance)

    judgement = judged() if write is None else run.write_certificate(write, backup, judged)
    if json:
        terminal.show_json(run.document(judgement))
    else:
        of = "" if judgement.instance_id is None else f", of {judgement.instance_id}"
        title = f"{judgement.truth.value}: coordinates of {judgement.backup.form}{of}"
        terminal.show(*_lines(title, judgement.checks, start_statements(judgement)))
    raise typer.Exit(judgement.truth.exit_code)


def _recheck(certificate: dict[str, Any], checks: list[Check], *, as_json: bool) -> NoReturn:
    from tallystick.certify.judge import Truth, truth_of

    truth = truth_of(checks)
    statements = certificate["judgement"].get("statements") if truth is Truth.TRUE else None
    if as_json:
        listed = [{**check._asdict(), "outcome": check.outcome.value} for check in checks]
        document = {"truth": truth.value, "certificate": certificate, "checks": listed}
        terminal.show_json(document)
    else:
        title = f"{truth.value}: certificate of {certificate['made_at']}"
        lines = map(str, statements) if isinstance(statements, list) else ()
        terminal.show(*_lines(title, checks, list(lines)))
    raise typer.Exit(truth.exit_code)


def _lines(title: str, checks: Iterable[Check], statements: Sequence[str]) -> Iterator[Line]:
    yield title, _STYLES[title.partition(":")[0]]
    for check in checks:
        yield f"  {check.outcome.value:<9}  {check.sentence}"
    if statements:
        yield "To replicate from it:"
        for statement in statements:
            yield terminal.Command(f"  {statement}")
