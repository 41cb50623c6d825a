"""``tallystick replay``, ``campaign`` and ``report``: without Kafka, and all but without Spark."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallystick import terminal
from tallystick.commands.options import (
    Disable,
    FailOn,
    FailOnFlag,
    Json,
    JsonResult,
    Outputs,
    a_file,
    a_path,
    finish,
    requested,
)
from tallystick.errors import ExitCode, MisuseError
from tallystick.given_times import utc_time
from tallystick.names import require_known
from tallystick.settings import load

if TYPE_CHECKING:
    from tallystick.campaign import CampaignResult, SeedResult
    from tallystick.cover import CoverCount


def replay(
    *,
    file: Annotated[
        list[str],
        typer.Argument(
            help="A journal as JSON Lines, or compressed by gzip; - is standard input.",
            metavar="FILE",
            parser=a_file,
        ),
    ],
    history_goes_on: Annotated[
        bool,
        typer.Option(
            "--history-goes-on",
            help="More records will come: the end of the file shows nothing about any instance.",
        ),
    ] = False,
    skip_bad_lines: Annotated[
        bool,
        typer.Option("--skip-bad-lines", help="A line that is no record is a gap, not an error."),
    ] = False,
    disable: Disable = None,
    output: Outputs = None,
    json: JsonResult = False,
    fail_on: FailOnFlag = FailOn.EVER,
) -> None:
    """Audit a journal from a file, without Kafka and Spark.

    Of several files each is of another observer, in the order in which they are given. The same
    core as in the stream finds the same. Of a topic that still grows:
    `tallystick journal | tallystick replay --history-goes-on -`. Exit status: 0 consistent,
    1 inconsistent, 3 undecided.
    """
    from tallystick.runs.replay import replay as run

    disabled = frozenset(load({"disabled": disable}).settings.disabled)
    requests = requested(output, json, file)
    result = run(
        file,
        disabled,
        history_goes_on=history_goes_on,
        notice_skipped=terminal.notice if skip_bad_lines else None,
    )
    finish(result, requests, fail_on=fail_on)


def report(
    *,
    directory: Annotated[
        Path, typer.Argument(help="A run: it holds the tables.", metavar="DIRECTORY", parser=a_path)
    ],
    at: Annotated[
        str | None,
        typer.Option(
            help="As of this time (2026-03-01T12:00:00, UTC), in the journal's clock.",
            metavar="TIME",
        ),
    ] = None,
    collection: Annotated[
        str | None, typer.Option(help="As of this collection.", metavar="ID")
    ] = None,
    output: Outputs = None,
    json: JsonResult = False,
) -> None:
    """Render the report of a run from its tables, and sum it up.

    The newest collections (setting report_collections) are in it in detail, all others as sums.
    Great Expectations validates the collection that shows most once more. Exit status as of the
    run.
    """
    from tallystick.runs.tables import report as run

    requests = requested(output, json, directory=directory)
    if at is not None and collection is not None:
        raise MisuseError("--at and --collection: one of the two")
    as_of = None if at is None else _time(at)
    with terminal.progress("reading the tables"):
        result = run(
            directory,
            notice=terminal.notice,
            collections=load().settings.report_collections,
            at=as_of,
            collection_id=collection,
        )
    finish(result, requests, directory)


def _time(text: str) -> datetime:
    try:
        return utc_time(text)
    except ValueError:
        raise MisuseError(
            f"--at {text!r}: expected a time as 2026-03-01 or 2026-03-01T12:00:00, UTC"
        ) from None


def campaign(
    *,
    seeds: Annotated[
        str | None,
        typer.Option(help="Half-open range A:B; default 0:100, or the whole cover.", metavar="A:B"),
    ] = None,
    cover: Annotated[
        bool,
        typer.Option(
            "--cover",
            help="Healthy fleets only, which bring all pairs of negative cases and settings.",
        ),
    ] = False,
    fault: Annotated[
        list[str] | None,
        typer.Option(help="Only this fault, instead of all in turn; may be repeated."),
    ] = None,
    json: Json = False,
) -> None:
    """Simulate and audit many seeds in memory: what is found, what is made up.

    Odd seeds have a fault, even ones are healthy and may look unusual. With --cover all are
    healthy, and every pair of circumstances occurs. Exit status: 0 when every fault was found and
    nothing else was, 1 when not.
    """
    from tallystick import cover as pairwise
    from tallystick.campaign import run_campaign, run_scenarios
    from tallystick.producers.simulator.faults import FAULTS

    for name in fault or ():
        require_known("fault", name, FAULTS)
    if cover and fault:
        raise MisuseError("--cover and --fault: a cover is of healthy fleets")
    chosen = _seeds(seeds or f"0:{len(pairwise.cover()) if cover else 100}")
    with terminal.progress(f"simulating and auditing {len(chosen)} seeds"):
        if cover:
            result = run_scenarios(map(pairwise.scenario_of, chosen))
        else:
            result = run_campaign(chosen, faults=fault or None)
    counts = pairwise.count(seed.scenario for seed in result.seeds) if cover else None
    if json:
        covered = {} if counts is None else {"cover": counts._asdict()}
        terminal.show_json(_campaign_document(result) | covered)
    else:
        terminal.show(*_campaign_lines(result))
        if counts is not None:
            terminal.show(*_cover_lines(counts))
    raise typer.Exit(ExitCode.CONSISTENT if result.is_right else ExitCode.INCONSISTENT)


def _seeds(text: str) -> range:
    first, _, last = text.partition(":")
    try:
        seeds = range(int(first), int(last))
    except ValueError:
        raise MisuseError(f"--seeds: expected A:B with two integers, found {text!r}") from None
    if not 0 <= seeds.start < seeds.stop <= sys.maxsize:
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
    rounded_down = math.floor(result.recall * 1000) / 1000
    recall = f"recall {rounded_down:.3f}, false alarms {len(result.false_alarms)}"
    yield f"{recall} in {healthy} healthy seeds, undecided {result.undecided}", style
    yield (
        f"{len(result.seeds)} seeds, {result.records:,} records in {result.elapsed_s:.1f} s, "
        f"{result.seeds_per_s:.1f} seeds/s"
    )


def _cover_lines(counts: CoverCount) -> Iterator[str]:
    yield "pairs that occurred together, of those that can"
    for title, (met, can) in (
        ("two settings", counts.settings),
        ("a negative case and a setting", counts.mixed),
        ("two negative cases", counts.negatives),
    ):
        yield f"  {title}: {met:,} of {can:,}"
    yield f"triples of negative cases: {counts.triples:,}"


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
