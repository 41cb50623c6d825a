"""``tallystick simulate`` and ``load``: what writes journals."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallystick import terminal
from tallystick.commands.options import (
    BootstrapServers,
    Client,
    Json,
    ProducerMetricsHost,
    ProducerMetricsPort,
    TopicPrefix,
    a_file,
    producer_metrics,
)
from tallystick.errors import MisuseError
from tallystick.names import require_known
from tallystick.overwriting import refuse_existing
from tallystick.process import Stop, stopping
from tallystick.settings import Settings
from tallystick.settings import load as load_settings

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.scenario import Scenario
    from tallystick.runs.producer_metrics import ProducerMetrics

BLOCK_RECORDS = 512
ENDLESS_MS = 10 * 365 * 86_400_000
"""Load of a fleet that lives until it is stopped."""
FILE_NUMBER_MAX = 2**31 - 1
"""The last number that MySQL gives a log file."""
BINLOG_SIZE_MAX = 2**30
"""The largest max_binlog_size of MySQL."""
FAULT_AT_MS = 10_000
"""When a fleet that lives gets its fault, unless another time is set."""


def simulate(
    *,
    output: Annotated[
        str | None,
        typer.Option(
            help="Write JSON Lines there instead of to Kafka; - is standard output.",
            metavar="FILE",
            parser=a_file,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Decides all that options leave open.")] = 0,
    topology: Annotated[
        str | None,
        typer.Option(
            help="demo, single, pair, chain, star, diamond or multi_source; else the seed's choice."
        ),
    ] = None,
    profile: Annotated[
        str, typer.Option(help="mysql-8.0, or wl9452: all logs at one instant.")
    ] = "mysql-8.0",
    fault: Annotated[
        str | None, typer.Option(help="Inject this fault (tallystick faults lists them).")
    ] = None,
    fault_at_ms: Annotated[
        int | None,
        typer.Option(min=0, max=ENDLESS_MS, help="When, in virtual time, at the earliest."),
    ] = None,
    negative: Annotated[
        list[str] | None, typer.Option(help="A legal act that looks wrong; may be repeated.")
    ] = None,
    scenario: Annotated[
        str | None,
        typer.Option(help="The acts and options of a document's scenario (tallystick demo)."),
    ] = None,
    duration_ms: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=ENDLESS_MS,
            help="Virtual time of load: 4000 for --output, else until stopped.",
        ),
    ] = None,
    collection_interval_ms: Annotated[
        int,
        typer.Option(
            min=1, max=ENDLESS_MS, help="With --output: virtual time between collections."
        ),
    ] = 1_000,
    writes_per_second: Annotated[
        float, typer.Option(min=0.001, max=100_000, help="Groups a second on each source.")
    ] = 4.0,
    acts: Annotated[
        bool, typer.Option("--acts/--no-acts", help="Everyday rotation, purge, reconnects.")
    ] = True,
    max_binlog_size: Annotated[
        int,
        typer.Option(
            min=4_096, max=BINLOG_SIZE_MAX, help="Soft limit of a binary log file, bytes."
        ),
    ] = 16_384,
    applier_workers: Annotated[
        int, typer.Option(min=0, max=1_024, help="Workers of each applier; 0: one thread.")
    ] = 0,
    preserve_commit_order: Annotated[
        bool,
        typer.Option(
            "--preserve-commit-order/--no-preserve-commit-order",
            help="Workers commit in the source's order.",
        ),
    ] = True,
    order_commits: Annotated[
        bool, typer.Option("--order-commits/--no-order-commits", help="binlog_order_commits.")
    ] = True,
    gtid_mode: Annotated[str, typer.Option(help="ON or OFF, on every instance.")] = "ON",
    auto_position: Annotated[
        bool,
        typer.Option("--auto-position/--no-auto-position", help="Channels ask by GTID set."),
    ] = True,
    first_file_number: Annotated[
        int, typer.Option(min=1, max=FILE_NUMBER_MAX, help="Number of every first binary log file.")
    ] = 1,
    lock_steps: Annotated[
        bool, typer.Option("--lock-steps/--no-lock-steps", help="Collections record their locks.")
    ] = True,
    redo_events: Annotated[
        bool, typer.Option("--redo-events/--no-redo-events", help="Journals have the redo log.")
    ] = True,
    speed: Annotated[
        float, typer.Option(min=0.01, max=1_000, help="Virtual seconds in a real second.")
    ] = 1.0,
    bootstrap_servers: BootstrapServers = None,
    topic_prefix: TopicPrefix = None,
    client: Client = None,
    metrics_port: ProducerMetricsPort = None,
    metrics_host: ProducerMetricsHost = "127.0.0.1",
) -> None:
    """Simulate a fleet: live into Kafka, or as JSON Lines.

    Into Kafka it lives until it is stopped and answers requests for collections. With --output it
    is a finished history: equal options produce equal bytes.
    """
    is_live = output is None
    planned = _scenario(
        seed=seed,
        profile=profile,
        topology=topology,
        duration_ms=duration_ms or (ENDLESS_MS if is_live else 4_000),
        collection_interval_ms=collection_interval_ms,
        writes_per_second=writes_per_second,
        negatives=tuple(negative or ()),
        acts=acts,
        fault=fault,
        fault_at_ms=FAULT_AT_MS if is_live and fault_at_ms is None else fault_at_ms,
        max_binlog_size=max_binlog_size,
        applier_workers=applier_workers,
        preserve_commit_order=preserve_commit_order,
        order_commits=order_commits,
        gtid_mode=gtid_mode,
        auto_position=auto_position,
        first_file_number=first_file_number,
        lock_steps=lock_steps,
        redo_events=redo_events,
        design_scenario=scenario,
    )
    if output is not None:
        if metrics_port is not None:
            raise MisuseError("--metrics-port: expected no --output beside it")
        _write_history(planned, output)
        return
    settings = load_settings(
        {"bootstrap_servers": bootstrap_servers, "topic_prefix": topic_prefix, "client": client}
    ).settings
    metrics = producer_metrics(metrics_host, metrics_port)
    with stopping() as stop:
        _live(planned, settings, speed, metrics, stop)


def _scenario(**options: Any) -> Scenario:
    from tallystick.producers.simulator.faults import FAULTS
    from tallystick.producers.simulator.kernel.scenario import Scenario
    from tallystick.producers.simulator.negatives import NEGATIVES, with_options
    from tallystick.runs.scenario import complete_scenario

    fault = options["fault"]
    if fault is not None:
        require_known("fault", fault, FAULTS)
    for negative in options["negatives"]:
        require_known("negative case", negative, NEGATIVES)
    if options["gtid_mode"] not in ("ON", "OFF"):
        raise MisuseError(f"--gtid-mode: expected ON or OFF, found {options['gtid_mode']!r}")
    try:
        return with_options(complete_scenario(Scenario(**options)))
    except ValueError as error:
        raise MisuseError(f"no such fleet: {error}") from None


@contextmanager
def _with_what_the_fault_needs() -> Iterator[None]:
    """Its negative cases and settings may leave a fleet without such a server."""
    from tallystick.producers.simulator.kernel.scenario import UnfitFleetError

    try:
        yield
    except UnfitFleetError as error:
        raise MisuseError(f"no such fleet: {error}") from None


def _write_history(scenario: Scenario, output: str) -> None:
    from tallystick.coordinates.events.json_lines_writer import block_to_lines
    from tallystick.producers.simulator.assemble import simulate as simulate_history

    if output != terminal.STANDARD_STREAM:
        refuse_existing(output)
    with _with_what_the_fault_needs():
        history = simulate_history(scenario)
    lines = (line for block in history.blocks(BLOCK_RECORDS) for line in block_to_lines(block))
    if output == terminal.STANDARD_STREAM:
        sys.stdout.writelines(f"{line}\n" for line in lines)
    else:
        try:
            with Path(output).open("w", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in lines)
        except OSError as error:
            raise MisuseError(f"{output!r} cannot be written: {error.strerror}") from error
    for seen in history.shown:
        after = seen.after_us / 1_000_000
        terminal.notice(f"{seen.requirement}, {after:.3f} s, {seen.instance}: {seen.sentence}")
    for note in history.injected:
        terminal.notice(f"{note['fault']} was injected at {note['instance']}")
    if scenario.fault is not None and not history.injected:
        terminal.notice(f"{scenario.fault} found no moment to be injected")


def _live(
    scenario: Scenario,
    settings: Settings,
    speed: float,
    metrics: ProducerMetrics | None,
    stop: Stop,
) -> None:
    from tallystick.coordinates.rules.explanation import fill
    from tallystick.journal_topic import (
        epochs_after,
        open_claims,
        open_journal,
        open_requests,
        prepare_topics,
    )
    from tallystick.producers.simulator.assemble import Fleet
    from tallystick.runs.live_fleet import LiveFleet, Pace

    now_us = time.time_ns() // 1_000
    with _with_what_the_fault_needs():
        fleet = Fleet(scenario, start_ts=now_us)
    prepare_topics(settings, "journal", "collect")
    requests, claims = open_requests(settings), open_claims(settings)
    try:
        sink = open_journal(settings, metrics)
        live = LiveFleet(
            fleet,
            sink,
            requests,
            pace=Pace(speed=speed),
            epochs=claims.claim(epochs_after(settings, fleet.instances)),
            superseded=claims.poll,
            answered=lambda name: terminal.notice(f"answered collection {name}"),
        )
        if metrics is not None:
            metrics.answers = lambda: dict.fromkeys(fleet.instances, live.collections)
        names = ", ".join(fleet.instances)
        terminal.notice(f"{names} write to {settings.bootstrap_servers}; Ctrl-C ends them")
        live.run(stop)
        sink.close()
    finally:
        requests.close()
        claims.close()
    count = {"records": live.records, "collections": live.collections}
    terminal.notice(fill("{records:n record}, {collections:n collection} answered", count))


def load(
    *,
    rate: Annotated[
        float,
        typer.Option(min=0, max=1e9, help="Events a second over all instances; 0: full speed."),
    ] = 0.0,
    instances: Annotated[int, typer.Option(min=1, max=10_000, help="How many sources.")] = 2,
    replicas: Annotated[
        int, typer.Option(min=0, max=100, help="How many replicas each source has.")
    ] = 0,
    seconds: Annotated[float, typer.Option(min=0.1, max=1e9, help="End after this time.")] = 10.0,
    events: Annotated[
        int | None,
        typer.Option(min=1, max=10**15, help="End after this many events, if that is sooner."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Decides every number.")] = 1,
    block_size: Annotated[
        int, typer.Option(min=1, max=65_536, help="Events in a message, at most.")
    ] = 4_096,
    bootstrap_servers: BootstrapServers = None,
    topic_prefix: TopicPrefix = None,
    client: Client = None,
    json: Json = False,
    metrics_port: ProducerMetricsPort = None,
    metrics_host: ProducerMetricsHost = "127.0.0.1",
) -> None:
    """Send legal histories, at full speed or at a rate; report what was achieved."""
    from tallystick.coordinates.rules.explanation import fill
    from tallystick.journal_topic import client_of, kafka_settings, prepare_topics
    from tallystick.producers.load.history import LoadPlan
    from tallystick.producers.load.run import LoadOptions, run_load

    settings = load_settings(
        {"bootstrap_servers": bootstrap_servers, "topic_prefix": topic_prefix, "client": client}
    ).settings
    metrics = producer_metrics(metrics_host, metrics_port)
    prepare_topics(settings, "journal")
    now_us = time.time_ns() // 1_000
    plan = LoadPlan(
        sources=instances,
        replicas=replicas,
        block_size=block_size,
        seed=seed,
        start_us=now_us,
        epoch=now_us // 1_000_000,
    )
    with terminal.progress(f"sending to {settings.bootstrap_servers}"):
        achieved = run_load(
            LoadOptions(plan=plan, rate=rate, seconds=seconds, events=events),
            kafka_settings(settings, metrics),
            client_of(settings),
            None if metrics is None else metrics.delivered,
        )
    if json:
        terminal.show_json(achieved.as_dict())
        return
    terminal.show(
        fill("{events:n event} in {blocks:n block}", achieved.as_dict())
        + f" and {achieved.seconds:.1f} s: {achieved.events_per_s:,.0f} events/s,"
        f" {achieved.value_bytes / 1e6 / achieved.seconds:,.1f} MB/s",
        *_latency_lines(achieved),
    )


def _latency_lines(achieved: Any) -> Iterator[str]:
    parts = [
        f"{name} {value * 1000:,.1f} ms"
        for name, value in (
            ("p50", achieved.produce_p50_s),
            ("p95", achieved.produce_p95_s),
            ("p99", achieved.produce_p99_s),
        )
        if value is not None
    ]
    if parts:
        yield f"acknowledged after {', '.join(parts)}"
