"""``tallystick check``: real servers, a few collections, findings; no Kafka and no Spark."""

from __future__ import annotations

import json as json_module
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallystick import terminal
from tallystick.commands.options import Disable
from tallystick.errors import ExitCode, MisuseError
from tallystick.process import stopping
from tallystick.settings import load

if TYPE_CHECKING:
    from tallystick.producers.mysql.settings import ServerSettings
    from tallystick.runs.check import Checked
    from tallystick.runs.result import Outcome
    from tallystick.runs.rule_results import Answer
    from tallystick.servers.discovery import DiscoveredServer

STANDARD_OUTPUT = "-"
_REASONS_MAX = 8
_NAMES_MAX = 6


def check(
    *,
    config: Annotated[
        Path | None, typer.Option(help="The servers, as TOML (docs/check.md).", metavar="FILE")
    ] = None,
    server: Annotated[
        list[str] | None,
        typer.Option(
            help="A server; may be repeated. The password comes from the environment.",
            metavar="NAME=[USER@]HOST[:PORT]",
        ),
    ] = None,
    collections: Annotated[
        int, typer.Option(min=1, max=100_000, help="How many times each server is asked.")
    ] = 3,
    interval: Annotated[
        float, typer.Option(min=0.1, max=86_400, help="From one to the next.", metavar="SECONDS")
    ] = 2.0,
    rights: Annotated[
        bool, typer.Option("--rights", help="Print the rights that it needs, and end.")
    ] = False,
    json: Annotated[
        str | None, typer.Option(help="Write the report as JSON; - is standard output.",
                                 metavar="FILE")
    ] = None,
    junit: Annotated[
        Path | None, typer.Option(help="Write JUnit XML, for CI.", metavar="FILE")
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(help="Write the report page into this directory.", metavar="DIRECTORY"),
    ] = None,
    disable: Disable = None,
) -> None:  # fmt: skip
    """Check that accounts of real MySQL servers agree, without Kafka and Spark.

    It follows their binary logs for a while, asks each for log_status a few times, and audits that
    as `replay` audits a file. It writes nothing on them. Exit status: 0 consistent,
    1 inconsistent, 2 a server cannot be asked or a right is missing, 3 undecided.
    """
    from tallystick.producers.mysql.settings import load_servers

    disabled = frozenset(load({"disabled": disable}).settings.disabled)
    if rights and config is None and not server:
        terminal.show(*_rights_of_any_server())
        return
    settings = load_servers(config, server or ())
    if rights:
        raise typer.Exit(_show_rights(settings))
    checked = _run(settings, collections, interval, disabled)
    _tell(checked, json=json, junit=junit, report=report)


def _run(
    settings: Sequence[ServerSettings], collections: int, interval_s: float,
    disabled: frozenset[str],
) -> Checked:  # fmt: skip
    from tallystick.runs.check import FleetCheck
    from tallystick.servers.discovery import discover

    with stopping() as stop, terminal.progress("looking at the servers") as progress:
        servers = discover(settings)
        problems = dict.fromkeys(server.problem for server in servers if server.problem)
        for problem in problems:
            progress.done(problem)
        _require_rights(servers)

        def notice(text: str) -> None:
            if text not in problems:  # its tail finds the same again
                progress.done(text)

        checked = FleetCheck(servers, notice=notice, disabled=disabled).run(
            collections=collections, interval_s=interval_s, interrupted=stop, say=progress.now
        )
    if checked is None:
        raise typer.Exit(stop.exit_code)
    return checked


def _require_rights(servers: Sequence[DiscoveredServer]) -> None:
    """Refuse to begin where nothing could be audited.

    Raises:
        MisuseError: A right is missing; it has the statements that give it.
    """
    lines = [
        f"{server.name}: {held.right.name} is missing; expected: {held.right.grant(server.account)}"
        for server in servers
        for held in server.missing_rights
        if held.right.is_required
    ]
    if lines:
        raise MisuseError("\n".join(lines))


def _tell(checked: Checked, *, json: str | None, junit: Path | None, report: Path | None) -> None:
    from tallystick.runs.result import outcome_of_replay, write_report
    from tallystick.runs.rule_results import answers_of

    outcome = outcome_of_replay(checked.result, ", ".join(each.name for each in checked.servers))
    answers = answers_of(
        outcome.data,
        binlogs=[each.name for each in checked.servers if each.binlog_events],
        relay_logs=[each.name for each in checked.servers if each.relay_events],
        named=outcome.named,
    )
    if junit is not None:
        _write(junit, _junit(checked, outcome, answers))
    page = None if report is None else write_report(outcome, report)
    if json is not None:
        document = {**outcome.to_json(), "servers": _servers_document(checked, answers)}
        if json == STANDARD_OUTPUT:
            terminal.show_json(document)
        else:
            _write(Path(json), json_module.dumps(document, indent=1) + "\n")
    if json != STANDARD_OUTPUT:
        _show(checked, outcome, answers, page)
    raise typer.Exit(ExitCode.of(outcome.verdict))


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise MisuseError(f"{str(path)!r} cannot be written: {error.strerror}") from error


# On a terminal


def _show(
    checked: Checked, outcome: Outcome, answers: dict[str, list[Answer]], page: Path | None
) -> None:
    from tallystick.outputs.text import summary

    terminal.show_table(
        ("server", "version", "address", "rows", "events", "verdict"),
        [
            (
                server.name,
                server.version or "?",
                server.settings.address,
                server.rows,
                f"{server.binlog_events + server.relay_events:,}",
                _verdict_of(server, answers.get(server.name, ())),
            )
            for server in checked.servers
        ],
    )
    terminal.show("", *summary(outcome, page))
    terminal.show(*_tears(outcome), *_unread(checked), *_undecided(answers))


def _verdict_of(server: DiscoveredServer, answers: Sequence[Answer]) -> str:
    from tallystick.coordinates.results import Verdict

    broken = [answer.rule for answer in answers if answer.verdict is Verdict.INCONSISTENT]
    if broken:
        return "inconsistent: " + ", ".join(dict.fromkeys(broken))
    if not server.rows:
        return "undecided: no row of log_status"
    held = sum(answer.verdict is Verdict.CONSISTENT for answer in answers)
    open_ = sum(answer.verdict is Verdict.UNDECIDED for answer in answers)
    return f"{held} hold" + (f", {open_} undecided" if open_ else "")


def _tears(outcome: Outcome) -> Iterator[str]:
    """What the server's own row does, and which bugs of the server that is."""
    from tallystick.coordinates.results import ObservationCode
    from tallystick.coordinates.rules.explanation import observation_text

    seen = [o for o in outcome.data.observations if o.code is ObservationCode.LOG_STATUS_TEAR]
    if seen:
        yield ""
        yield (
            f"{len(seen)} of the rows were no single instant: binary_log_position led"
            " gtid_executed, as MySQL 8.0 does under load"
        )
        yield "  (server bugs 102175 and 112331; no inconsistency of the logs), the last one:"
        yield f"  {seen[-1].instance_id}, {seen[-1].at}: {observation_text(seen[-1])}"


def _unread(checked: Checked) -> Iterator[str]:
    """What could not be read, and the statements that would change it."""
    refused: dict[str, list[str]] = {}
    for server in checked.servers:
        for part, words in server.unread.items():
            refused.setdefault(f"{part}: {words}", []).append(server.name)
    if refused:
        yield ""
        yield "not read:"
        yield from (f"  {text} ({_some(names)})" for text, names in refused.items())
    grants: dict[str, list[str]] = {}
    for server in checked.servers:
        for held in server.missing_rights:
            grants.setdefault(held.right.grant(server.account), []).append(server.name)
    if grants:
        yield "  it takes:"
        yield from (f"    {text} -- on {_some(names)}" for text, names in grants.items())


def _undecided(answers: dict[str, list[Answer]]) -> Iterator[str]:
    """Invariants that were not decided, by reason: the most common first."""
    from tallystick.coordinates.results import Verdict

    reasons: dict[str, dict[str, set[str]]] = {}
    for name, given in answers.items():
        for answer in given:
            if answer.verdict is Verdict.UNDECIDED:
                found = reasons.setdefault(answer.reason, {})
                found.setdefault(answer.rule, set()).add(name)
    if not reasons:
        return
    yield ""
    yield "undecided: no contradiction found (--output json and --output junit list all):"
    ordered = sorted(reasons.items(), key=lambda item: (-len(item[1]), item[0]))
    for reason, found in ordered[:_REASONS_MAX]:
        names = _some(sorted(found))
        instances = sorted(set().union(*found.values()))
        yield f"  {reason}: {names} ({_some(instances)})"
    if len(ordered) > _REASONS_MAX:
        yield f"  … and for {len(ordered) - _REASONS_MAX} more reasons"


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMES_MAX
    return ", ".join(names[:_NAMES_MAX]) + (f" and {more} more" if more > 0 else "")


# For machines


def _servers_document(
    checked: Checked, answers: dict[str, list[Answer]]
) -> dict[str, dict[str, Any]]:
    return {
        server.name: {
            "version": server.version,
            "address": server.settings.address,
            "account": server.account,
            "problem": server.problem,
            "rows": server.rows,
            "binlog_events": server.binlog_events,
            "relay_events": server.relay_events,
            "unread": server.unread,
            "missing_rights": [held.right.name for held in server.missing_rights],
            "answers": [
                {
                    "rule": answer.rule,
                    "channel": answer.channel,
                    "verdict": answer.verdict.value,
                    "reason": answer.reason,
                    "findings": [finding.finding_id for finding in answer.findings],
                }
                for answer in answers.get(server.name, ())
            ],
        }
        for server in checked.servers
    }


def _junit(checked: Checked, outcome: Outcome, answers: dict[str, list[Answer]]) -> str:
    from tallystick.coordinates.rules.explanation import observation_text
    from tallystick.outputs.junit import Suite, junit_xml

    suites = []
    for server in checked.servers:
        seen = [o for o in outcome.data.observations if o.instance_id == server.name]
        notes = [f"{o.code.value} at {o.at}: {observation_text(o)}" for o in seen]
        notes += [f"not read: {part}: {words}" for part, words in server.unread.items()]
        error = "" if server.rows else server.problem or "; ".join(map(observation_text, seen))
        suites.append(Suite(server.name, answers.get(server.name, ()), error, notes))
    return junit_xml(suites, at=checked.begun_at, elapsed_s=checked.elapsed_s)


# Rights


def _rights_of_any_server() -> Iterator[str]:
    from tallystick.producers.mysql.dialect import Dialect
    from tallystick.producers.mysql.rights import ACCOUNT_DEFAULT, rights_of

    yield f"-- rights of the account {ACCOUNT_DEFAULT} on MySQL 8.0.27 and later;"
    yield "-- with --config or --server it looks at what an account has and what it lacks"
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
