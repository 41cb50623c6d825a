"""``tallystick replay``, ``campaign`` and ``report``: without Kafka, and all but without Spark."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallystick import terminal
from tallystick.commands.options import Disable, Json
from tallystick.coordinates.values.errors import install_extra
from tallystick.errors import ExitCode, MisuseError
from tallystick.extras import missing_of_stream
from tallystick.settings import load, suggestion

if TYPE_CHECKING:
    from tallystick.campaign import CampaignResult, SeedResult
    from tallystick.coordinates.audit.cut import Cut
    from tallystick.expectations.validation import CollectionValidation

STANDARD_INPUT = "-"


def lines_of(file: str) -> Iterator[str]:
    """The lines of a file, or of standard input for ``-``.

    Raises:
        MisuseError: It cannot be read, or is no UTF-8.
    """
    try:
        source = sys.stdin.buffer if file == STANDARD_INPUT else Path(file).open("rb")  # noqa: SIM115
    except OSError as error:
        raise MisuseError(f"{file!r} cannot be read: {error.strerror}") from error
    with source:
        try:
            for number, line in enumerate(source, 1):
                try:
                    yield line.decode()
                except UnicodeDecodeError as error:
                    raise MisuseError(f"{file!r}, line {number}: no UTF-8: {error}") from None
        except OSError as error:
            raise MisuseError(f"{file!r} cannot be read: {error.strerror}") from error


def replay(
    *,
    file: Annotated[str, typer.Argument(help="A journal as JSON Lines; - is standard input.")],
    report: Annotated[
        Path | None,
        typer.Option(help="Write the report page into this directory.", metavar="DIRECTORY"),
    ] = None,
    disable: Disable = None,
    json: Json = False,
) -> None:
    """Audit a journal from a file, without Kafka and Spark.

    The same core as in the stream gives the same findings. Exit status: 0 consistent,
    1 inconsistent, 3 undecided.
    """
    from tallystick.coordinates.audit.replay import audit_history
    from tallystick.coordinates.events.json_lines import blocks_from_lines
    from tallystick.coordinates.values.errors import JournalError
    from tallystick.outputs.text import summary
    from tallystick.runs.result import outcome_of_replay, write_report

    disabled = frozenset(load({"disabled": disable}).settings.disabled)
    name = "standard input" if file == STANDARD_INPUT else file
    try:
        result = audit_history(
            blocks_from_lines(lines_of(file), end_heartbeats=True), disabled=disabled
        )
    except JournalError as error:
        raise MisuseError(f"{name!r}: {error}") from None
    outcome = outcome_of_replay(result, name)
    page = None if report is None else write_report(outcome, report)
    if json:
        terminal.show_json(outcome.to_json())
    else:
        terminal.show(*summary(outcome, page))
    raise typer.Exit(ExitCode.of(outcome.verdict))


def report(
    *,
    directory: Annotated[Path, typer.Argument(help="A run: it holds the tables.")],
    json: Json = False,
) -> None:
    """Render the report of a run from its tables, and sum it up.

    Great Expectations looks once more at the collection that tells most. Exit status as of the run.
    """
    from tallystick.outputs.text import summary
    from tallystick.runs import result as results

    tables = directory / results.TABLES
    results.require_tables(tables)
    with terminal.progress("reading the tables"):
        outcome = results.outcome_of_tables(tables, title=str(directory))
        shown = results.collection_to_show(tables)
        validated = [rows for rows in outcome.data.collections if rows[0].collection_id == shown]
        docs = directory / results.DATA_DOCS / "site" / "index.html"
        outcome = results.outcome_of_tables(
            tables,
            title=str(directory),
            validation=_validated_again(validated[0]) if validated else None,
            data_docs=str(docs.relative_to(directory)) if docs.exists() else None,
        )
        demonstrated = results.read_demonstrated(directory)
        if demonstrated is not None:
            outcome = outcome.with_demonstrated(demonstrated)
        page = results.write_report(outcome, directory)
    if json:
        terminal.show_json({**outcome.to_json(), "report": str(page)})
    else:
        terminal.show(*summary(outcome, page, docs if docs.exists() else None))
    raise typer.Exit(ExitCode.of(outcome.verdict))


def _validated_again(rows: Sequence[Cut]) -> CollectionValidation | None:
    missing = missing_of_stream()
    if missing is not None:
        terminal.notice(
            f"the page is without Great Expectations: {missing} is not installed."
            f" {install_extra('stream')}"
        )
        return None
    from tallystick.expectations.validate import CollectionValidator

    return CollectionValidator().validate(rows)


def campaign(
    *,
    seeds: Annotated[str, typer.Option(help="Half-open range A:B.", metavar="A:B")] = "0:100",
    fault: Annotated[
        list[str] | None,
        typer.Option(help="Only this fault, instead of all in turn; may be repeated."),
    ] = None,
    json: Json = False,
) -> None:
    """Simulate and audit many seeds in memory: what is found, what is made up.

    Odd seeds have a fault, even ones are healthy and may look odd. Exit status: 0 when every fault
    was found and nothing else was, 1 when not.
    """
    from tallystick.campaign import run_campaign
    from tallystick.producers.simulator.faults import FAULTS

    for name in fault or ():
        if name not in FAULTS:
            raise MisuseError(f"no fault has the name {name!r}{suggestion(name, FAULTS)}")
    chosen = _seeds(seeds)
    with terminal.progress(f"simulating and auditing {len(chosen)} seeds"):
        result = run_campaign(chosen, faults=fault or None)
    if json:
        terminal.show_json(_campaign_document(result))
    else:
        terminal.show(*_campaign_lines(result))
    raise typer.Exit(ExitCode.CONSISTENT if result.is_right else ExitCode.INCONSISTENT)


def _seeds(text: str) -> range:
    first, _, last = text.partition(":")
    try:
        seeds = range(int(first), int(last))
    except ValueError:
        raise MisuseError(f"--seeds: expected A:B with two integers, found {text!r}") from None
    if not seeds or seeds.start < 0:
        raise MisuseError(f"--seeds: expected 0 <= A < B, found {text!r}")
    return seeds


def _campaign_lines(result: CampaignResult) -> Iterator[str | tuple[str, str]]:
    width = max((len(count.name) for count in result.faults), default=5)
    yield f"{'fault':<{width}}  seeds  injected  found  surplus"
    for count in result.faults:
        yield (
            f"{count.name:<{width}}  {count.runs:>5}  {count.injected:>8}  {count.found:>5}"
            f"  {count.surplus:>7}"
        )
    yield ""
    for title, failed in _failures(result):
        for seed in failed:
            yield f"{title}: seed {seed.scenario.seed}, {_what(seed)}", "red"
            for sentence in seed.sentences[:3]:
                yield f"  {sentence}"
            yield f"  again: {seed.campaign_command}"
            yield f"  its journal: {seed.simulate_command} --output -"
    healthy = sum(seed.scenario.fault is None for seed in result.seeds)
    style = "bold green" if result.is_right else "bold red"
    recall = f"recall {result.recall:.3f}, false alarms {len(result.false_alarms)}"
    yield f"{recall} in {healthy} healthy seeds, undecided {result.undecided}", style
    yield (
        f"{len(result.seeds)} seeds, {result.records:,} records in {result.elapsed_s:.1f} s, "
        f"{result.seeds_per_s:.1f} seeds/s"
    )


def _failures(result: CampaignResult) -> list[tuple[str, tuple[SeedResult, ...]]]:
    return [
        ("missed", result.missed),
        ("surplus", result.surplus),
        ("false alarm", result.false_alarms),
        ("not exercised", result.not_exercised),
    ]


def _what(seed: SeedResult) -> str:
    fault = seed.scenario.fault
    if fault is None:
        return f"healthy, found {', '.join(sorted(seed.fired))}"
    if seed.not_exercised:
        return f"{fault} found no moment to be injected"
    wrong = sorted(seed.missed or seed.surplus)
    return f"{fault}: {', '.join(wrong)}"


def _campaign_document(result: CampaignResult) -> dict[str, Any]:
    return {
        "is_right": result.is_right,
        "seeds": len(result.seeds),
        "records": result.records,
        "elapsed_s": result.elapsed_s,
        "seeds_per_s": result.seeds_per_s,
        "recall": result.recall,
        "false_alarms": len(result.false_alarms),
        "undecided": result.undecided,
        "faults": [
            {
                "name": count.name,
                "runs": count.runs,
                "injected": count.injected,
                "found": count.found,
                "surplus": count.surplus,
            }
            for count in result.faults
        ],
        "failures": [
            {
                "kind": title,
                "seed": seed.scenario.seed,
                "fault": seed.scenario.fault,
                "missed": sorted(seed.missed),
                "surplus": sorted(seed.surplus),
                "again": seed.campaign_command,
            }
            for title, failed in _failures(result)
            for seed in failed
        ],
    }
