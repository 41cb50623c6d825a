"""``tallystick where``, ``diff`` and ``ready``: answers from the newest evidence."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallystick import terminal
from tallystick.commands.options import Directory, Json, a_file, a_path
from tallystick.coordinates.answers.purpose import MAX_AGE_S, Purpose
from tallystick.coordinates.values.errors import CoordinateError, GtidSetParseError
from tallystick.errors import ExitCode, MisuseError
from tallystick.names import suggestion
from tallystick.process import stopping
from tallystick.settings import load
from tallystick.terminal import Line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tallystick.coordinates.answers.diff import Surplus
    from tallystick.coordinates.answers.evidence import Evidence
    from tallystick.coordinates.answers.position import Located
    from tallystick.coordinates.answers.ready import Readiness
    from tallystick.coordinates.answers.where import Part, Place, Times
    from tallystick.coordinates.values.gtid import GtidSet

_YEAR_US = 365 * 86_400 * 1_000_000
_match_position = re.compile(
    r"(?P<instance>.+):(?P<file>[^:/\\]+\.[0-9]{6,}):(?P<position>[0-9]+)", re.DOTALL
).fullmatch
_SOURCES = {"job": "the tables of", "journal": "the journal", "servers": "asked now:"}
_STATES = {
    "in_log": "in its binary log, not executed as of its row",
    "received": "received, not applied",
}

Journal = Annotated[
    list[str] | None,
    typer.Option(
        help="Ask a journal as JSON Lines; - is standard input; may be repeated.",
        metavar="FILE",
        parser=a_file,
    ),
]
Servers = Annotated[
    Path | None,
    typer.Option(
        help="Ask the servers of this file now (docs/check.md).", metavar="FILE", parser=a_path
    ),
]


def where(
    *,
    target: Annotated[
        str,
        typer.Argument(
            help="GTIDs, or a position of an instance's binary log.",
            metavar="GTID-SET|INSTANCE:FILE:POSITION",
        ),
    ],
    journal: Journal = None,
    servers: Servers = None,
    directory: Directory = None,
    json: Json = False,
) -> None:
    """Tell where transactions are: logged, received, applied, purged.

    By the newest row of each instance that the audit has in its tables, by a journal, or by servers
    that are asked now. GTIDs of which each instance has the same are one part. Exit status:
    0 answered, 2 usage error, 3 undecided: something is not known.
    """
    from tallystick.coordinates.answers.where import where as find

    position = _match_position(target)
    asked = None if position is not None else _gtids(target)
    evidence = _evidence("tallystick where", journal, servers, directory)
    located = None
    if position is not None:
        located = _located(evidence, directory, position)
        asked = located.gtids
    assert asked is not None
    parts = find(asked, evidence)
    is_decided = all(part.is_decided for part in parts) and (located is None or located.is_exact)
    if json:
        terminal.show_json(
            evidence.document("where", target, is_decided=is_decided)
            | {
                "position": located
                and {"gtids": str(asked), "text": located.text, "is_exact": located.is_exact},
                "parts": [part.to_dict() for part in parts],
            }
        )
    else:
        _show_evidence(evidence)
        if located is not None:
            terminal.show(f"{target}: {located.text}", "")
        for part in parts:
            _show_part(part, evidence)
    raise typer.Exit(ExitCode.CONSISTENT if is_decided else ExitCode.UNDECIDED)


def diff(
    *,
    one: Annotated[str, typer.Argument(help="An instance.", metavar="A")],
    other: Annotated[str, typer.Argument(help="Another one.", metavar="B")],
    journal: Journal = None,
    servers: Servers = None,
    directory: Directory = None,
    json: Json = False,
) -> None:
    """Compare what two instances have executed.

    Prints what the one has executed and the other has not, both ways, with who numbered it, and
    whether it is errant or only lags. Evidence as of `where`. Exit status: 0 answered, also where
    they differ, 2 usage error, 3 undecided: of one of them it is not known, or GTID sets do not
    show all.
    """
    from tallystick.coordinates.answers.diff import surplus

    evidence = _evidence("tallystick diff", journal, servers, directory)
    for name in (one, other):
        _require_known(evidence, name)
    if one == other:
        raise MisuseError(f"expected two instances, both are {one!r}")
    both = [surplus(one, other, evidence), surplus(other, one, evidence)]
    is_decided = all(found.is_decided for found in both)
    if json:
        document = evidence.document("diff", f"{one} {other}", is_decided=is_decided)
        terminal.show_json(document | {"differences": [found.to_dict() for found in both]})
    else:
        _show_evidence(evidence, (one, other))
        for found in both:
            _show_surplus(found)
    raise typer.Exit(ExitCode.CONSISTENT if is_decided else ExitCode.UNDECIDED)


def ready(
    *,
    purpose: Annotated[Purpose, typer.Argument(help="For what.", metavar="PURPOSE")],
    instance: Annotated[str, typer.Argument(help="Which one.", metavar="INSTANCE")],
    max_age: Annotated[
        float,
        typer.Option(
            min=0,
            max=1e10,
            help="How old evidence may be; older is undecided.",
            metavar="SECONDS",
        ),
    ] = MAX_AGE_S,
    journal: Journal = None,
    servers: Servers = None,
    directory: Directory = None,
    json: Json = False,
) -> None:
    """Decide whether an instance may be backed up, cloned or promoted now.

    Each check that is needed for it, with its reason (docs/answers.md). Evidence as of `where`. Yes
    only where every check says so: what is not known, or too old, is undecided. Exit status: 0 yes,
    1 no, 2 usage error, 3 undecided.
    """
    from tallystick.coordinates.answers.ready import Answer, ready_document
    from tallystick.coordinates.answers.ready import ready as decide

    if not math.isfinite(max_age):
        raise MisuseError(f"--max-age {max_age}: expected a number of seconds")
    evidence = _evidence("tallystick ready", journal, servers, directory)
    _require_known(evidence, instance)
    answer = decide(purpose, instance, evidence, max_age)
    if json:
        terminal.show_json(ready_document(answer, evidence))
    else:
        _show_readiness(answer, evidence)
    raise typer.Exit(
        {
            Answer.YES: ExitCode.CONSISTENT,
            Answer.NO: ExitCode.INCONSISTENT,
            Answer.UNDECIDED: ExitCode.UNDECIDED,
        }[answer.answer]
    )


# Evidence


def _evidence(
    what: str, journal: list[str] | None, servers: Path | None, directory: Path | None
) -> Evidence:
    given = [
        flag
        for flag, value in (
            ("--journal", journal), ("--servers", servers), ("--directory", directory)
        )
        if value
    ]  # fmt: skip
    if len(given) > 1:
        raise MisuseError(f"{' and '.join(given)}: expected one of them")
    from tallystick.runs import evidence

    if servers is not None:
        found = _asked_now(servers)
    elif journal:
        with terminal.progress("reading the journal"):
            found = evidence.of_journal(journal)
    else:
        place = load({"directory": directory}).settings.directory
        try:
            found = evidence.of_job(place, what)
        except MisuseError as error:
            if directory is not None:
                raise
            raise MisuseError(f"{error}; or name --journal FILE or --servers FILE") from None
    if not found.instances:
        raise MisuseError(f"{found.source!r} has no row of any instance")
    return found


def _asked_now(config: Path) -> Evidence:
    from tallystick.commands.check import require_rights
    from tallystick.producers.mysql.settings import load_servers
    from tallystick.runs.evidence import of_servers
    from tallystick.servers.discovery import discover

    settings = load_servers(config, ())
    with stopping() as stop, terminal.progress("asking the servers what they are") as progress:
        servers = discover(settings)
        require_rights(servers)
        found = of_servers(servers, notice=progress.done, interrupted=stop, progress=progress.now)
    if found is None:
        raise typer.Exit(stop.exit_code)
    return found


def _require_known(evidence: Evidence, name: str) -> None:
    if name not in evidence.instances:
        known = ", ".join(evidence.instances)
        raise MisuseError(
            f"no instance has the name {name!r}{suggestion(name, evidence.instances)};"
            f" known are: {known}"
        )


def _gtids(text: str) -> GtidSet:
    from tallystick.coordinates.values.gtid import GtidSet

    try:
        gtids = GtidSet.parse(text)
    except GtidSetParseError as error:
        raise MisuseError(f"{error}; or expected INSTANCE:FILE:POSITION") from None
    if not gtids:
        raise MisuseError("expected at least one GTID, or INSTANCE:FILE:POSITION")
    return gtids


def _located(evidence: Evidence, directory: Path | None, match: re.Match[str]) -> Located:
    from tallystick.coordinates.answers.position import by_log, by_rows
    from tallystick.coordinates.values.binlog import LogCoordinates
    from tallystick.runs.evidence import rows_of_job

    name, file, position = match["instance"], match["file"], int(match["position"])
    _require_known(evidence, name)
    try:
        LogCoordinates.of_file(file, position)
    except CoordinateError as error:
        raise MisuseError(str(error)) from None
    if evidence.group_log is not None:
        return by_log(evidence.group_log, name, file, position)
    rows = rows_of_job(load({"directory": directory}).settings.directory, name)
    return by_rows(rows, file, position)


# What is shown


def _show_evidence(evidence: Evidence, names: Iterable[str] | None = None) -> None:
    terminal.show(f"evidence: {_SOURCES[evidence.kind]} {evidence.source}")
    shown = evidence.instances if names is None else names
    for name in shown:
        one = evidence.instances[name]
        if names is not None and one.row is not None:
            terminal.show(f"  {name}: {_as_of(evidence, one.since_us)}")
        if one.problem:
            terminal.show((f"  {name}: {one.problem}", "yellow"))
    terminal.show("")


def _show_part(part: Part, evidence: Evidence) -> None:
    from tallystick.coordinates.rules.explanation import shorten_gtids

    count = part.gtids.count()
    numbered = f"numbered by {part.origin}" if part.origin else "numbered by a server not known"
    terminal.show(
        (shorten_gtids(str(part.gtids)), "bold"),
        f"  {count:,} {'GTID' if count == 1 else 'GTIDs'}, {numbered}",
    )
    if all(place.state.value == "lacking" for place in part.places):
        terminal.show(("  no instance has it", "yellow"))
    has_times = evidence.group_log is not None
    terminal.show_table(
        ("instance", "state", "received on", *(["seen by its journal"] * has_times), "as of"),
        [
            (
                place.instance_id,
                _state_text(place),
                ", ".join(name or "(default)" for name in place.received_on),
                *(["\n".join(_seen(place))] * has_times),
                "" if place.since_us is None else _as_of(evidence, place.since_us),
            )
            for place in part.places
        ],
    )
    terminal.show("")


def _state_text(place: Place) -> str:
    text = _STATES.get(place.state.value, place.state.value)
    return f"{text}: {place.reason}" if place.reason else text


def _seen(place: Place) -> Iterator[str]:
    for name, times in place.received.items():
        yield f"received on {name or '(default)'} {_span(times)}"
    if place.happened is not None:
        yield f"logged {_span(place.happened)}"


def _span(times: Times) -> str:
    from tallystick.coordinates.rules.explanation import moment

    first, last = map(moment, times)
    return first if first == last else f"{first} to {last}"


def _as_of(evidence: Evidence, since_us: int) -> str:
    from tallystick.coordinates.rules.explanation import moment

    # A simulated clock begins with its journal.
    if evidence.kind == "journal" or since_us < _YEAR_US:
        return moment(since_us)
    return f"{moment(since_us)}, {_age(evidence.age_s(since_us))}"


def _age(seconds: float) -> str:
    if seconds < 0:
        return f"{-seconds:.1f} s from now by this machine's clock"
    for unit, length in (("days", 172_800), ("h", 7_200), ("min", 120)):
        if seconds >= length:
            return f"{seconds / (length / 2):.0f} {unit} ago"
    return f"{seconds:.1f} s ago"


def _show_readiness(found: Readiness, evidence: Evidence) -> None:
    from tallystick.coordinates.answers.ready import NEEDS
    from tallystick.coordinates.rules.explanation import moment

    styles = {"yes": "green", "no": "red", "undecided": "yellow"}
    answer = found.answer.value
    terminal.show(
        (f"{found.purpose.value} of {found.instance_id}: {answer}", f"bold {styles[answer]}"),
        f"  evidence: {_SOURCES[evidence.kind]} {evidence.source}",
    )
    if found.age_s is not None:
        at = moment(evidence.instances[found.instance_id].since_us)
        terminal.show(f"  its row: {at}, {_age(found.age_s)}; at most {found.max_age_s:,g} s count")
    width = max(len(one.name) for one in found.checks)
    for one in found.checks:
        text = f"  {one.answer.value:<9}  {one.name:<{width}}  {one.sentence}"
        terminal.show((text, styles[one.answer.value]))
    if answer != "yes":
        terminal.show("", "what is asked:")
        for one in found.checks:
            if one.answer.value != "yes":
                terminal.show(f"  {one.name}: {NEEDS[one.name].text}")


def _show_surplus(found: Surplus) -> None:
    from tallystick.coordinates.rules.explanation import shorten_gtids

    title = f"executed on {found.one} and not on {found.other}"
    if found.gtids is None:
        terminal.show((f"{title}: not known", "bold yellow"), f"  {found.reason}", "")
        return
    count = found.gtids.count()
    nothing = "no GTID" if found.unshown else "nothing"
    what = nothing if not count else "1 GTID" if count == 1 else f"{count:,} GTIDs"
    terminal.show((f"{title}: {what}", "bold"))
    lines: list[Line] = []
    if found.unshown:
        text = f"  transactions without GTIDs: not known, no set shows them: {found.unshown}"
        lines.append((text, "yellow"))
    for part in found.parts:
        lines.append(f"  {shorten_gtids(str(part.gtids))}")
        origin = part.origin or "a server that is not known"
        style = {"errant": "red", "not known": "yellow"}.get(part.kind.value, "")
        lines.append(f"    {part.gtids.count():,} numbered by {origin}")
        known = "" if part.kind.value != "not known" else "errant or lagging is "
        lines.append((f"    {known}{part.kind.value}: {part.reason}", style))
        if part.received:
            lines.append(
                f"    received by {found.other}, not applied: {shorten_gtids(str(part.received))}"
            )
        if part.purged is None:
            lines.append(f"    whether {found.one} has purged it is not known")
        elif part.purged:
            purged = shorten_gtids(str(part.purged))
            lines.append(f"    purged on {found.one}, which cannot send it: {purged}")
    terminal.show(*lines, "")
