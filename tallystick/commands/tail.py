"""``tallystick tail``: the journal of real servers."""

from __future__ import annotations

import os
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallystick import terminal
from tallystick.commands.options import (
    BootstrapServers,
    Client,
    ClusterName,
    Directory,
    ProducerMetricsHost,
    ProducerMetricsPort,
    TopicPrefix,
    a_file,
    a_path,
    producer_metrics,
)
from tallystick.errors import MisuseError
from tallystick.overwriting import refuse_existing
from tallystick.process import stopping
from tallystick.settings import load as load_settings

NICENESS = 10

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tallystick.coordinates.events.collect_request import CollectRequest
    from tallystick.producers.journal_epochs import EpochClaims
    from tallystick.producers.kafka_clients.errors import SupersededError
    from tallystick.producers.mysql.settings import ServerSettings
    from tallystick.producers.mysql.tail import Tail
    from tallystick.producers.mysql.tail_state import TailState
    from tallystick.producers.publisher import EventSink
    from tallystick.runs.producer_metrics import ProducerMetrics
    from tallystick.settings import Settings


def tail(
    *,
    config: Annotated[
        Path | None,
        typer.Option(help="A servers.toml.", metavar="FILE", parser=a_path, show_default=False),
    ] = None,
    server: Annotated[
        list[str] | None,
        typer.Option(help="A server; may be repeated.", metavar="NAME=[USER@]HOST[:PORT]"),
    ] = None,
    cluster: ClusterName = None,
    output: Annotated[
        str | None,
        typer.Option(
            help="Write JSON Lines there instead of to Kafka; - is standard output.",
            metavar="FILE",
            parser=a_file,
        ),
    ] = None,
    from_oldest: Annotated[
        bool,
        typer.Option(
            "--from-oldest", help="Begin a journal with the oldest binary log, not the present one."
        ),
    ] = False,
    collect_interval_s: Annotated[
        float | None,
        typer.Option(help="With --output: seconds between two collections.", metavar="SECONDS"),
    ] = None,
    bootstrap_servers: BootstrapServers = None,
    topic_prefix: TopicPrefix = None,
    client: Client = None,
    directory: Directory = None,
    metrics_port: ProducerMetricsPort = None,
    metrics_host: ProducerMetricsHost = "127.0.0.1",
) -> None:
    """Follow real MySQL servers and write their journals, until stopped.

    Binary logs come as replicas get them, relay logs from files where relay_log_dir names them.
    Into Kafka it answers requests for collections, and goes on exactly where it was stopped. With
    --output it asks for collections itself, and begins anew. Passwords come from the environment
    (TALLYSTICK_MYSQL_PASSWORD, TALLYSTICK_MYSQL_PASSWORD_NAME) or from files that servers.toml
    names.
    """
    from tallystick.producers.mysql.settings import load_servers

    # What is observed goes first where both share a machine.
    os.nice(NICENESS)
    settings = load_settings(
        {
            "bootstrap_servers": bootstrap_servers,
            "topic_prefix": topic_prefix,
            "client": client,
            "directory": directory,
            "collect_interval_s": collect_interval_s,
        }
    ).settings
    servers = load_servers(config, server or (), cluster)
    if output is None:
        metrics = producer_metrics(metrics_host, metrics_port)
        _tail_into_kafka(servers, settings, metrics, is_from_oldest=from_oldest)
    elif metrics_port is not None:
        raise MisuseError("--metrics-port: expected no --output beside it")
    else:
        _tail_into_file(servers, settings, output, is_from_oldest=from_oldest)


def _tail_into_file(
    servers: Sequence[ServerSettings], settings: Settings, output: str, *, is_from_oldest: bool
) -> None:
    from tallystick.producers.mysql.tail_state import TailState
    from tallystick.servers.tailing import FileSink, regular_requests

    with ExitStack() as stack:
        if output == terminal.STANDARD_STREAM:
            file = sys.stdout
        else:
            refuse_existing(output)
            try:
                file = stack.enter_context(Path(output).open("w", encoding="utf-8"))
            except OSError as error:
                raise MisuseError(f"{output!r} cannot be written: {error.strerror}") from error
        epoch = time.time_ns() // 1_000_000_000
        tail_states = {server.name: TailState(epoch=epoch) for server in servers}
        _run(
            servers,
            tail_states,
            FileSink(file),
            regular_requests(settings.collect_interval_s),
            where="standard output" if output == terminal.STANDARD_STREAM else output,
            states=None,
            is_from_oldest=is_from_oldest,
        )


def _tail_into_kafka(
    servers: Sequence[ServerSettings],
    settings: Settings,
    metrics: ProducerMetrics | None,
    *,
    is_from_oldest: bool,
) -> None:
    from tallystick.journal_topic import open_claims, open_journal, open_requests, prepare_topics
    from tallystick.servers.tailing import alone_in

    states = settings.directory / "tail" / settings.topic_prefix
    prepare_topics(settings, "journal", "collect")
    with ExitStack() as stack:
        stack.enter_context(alone_in(states))
        claims = open_claims(settings)
        stack.callback(claims.close)
        tail_states = _tail_states(servers, settings, states, claims)
        requests = open_requests(settings)
        stack.callback(requests.close)
        sink = open_journal(settings, metrics)
        _run(
            servers,
            tail_states,
            sink,
            requests.poll,
            where=settings.bootstrap_servers,
            states=states,
            is_from_oldest=is_from_oldest,
            metrics=metrics,
            superseded=claims.poll,
        )
        sink.close()


def _tail_states(
    servers: Sequence[ServerSettings], settings: Settings, states: Path, claims: EpochClaims
) -> dict[str, TailState]:
    """How far each journal has come: as saved, and with what was published after that."""
    from tallystick.journal_topic import client_of, epochs_after
    from tallystick.producers.journal_resume import published_since
    from tallystick.producers.mysql.tail_state import TailState
    from tallystick.servers.tailing import RESUME_MARGIN_MS, resumed

    saved = {server.name: TailState.load(states / f"{server.name}.json") for server in servers}
    since = [state.saved_at_ms for state in saved.values() if state is not None]
    published = {}
    if since:
        # The clock may have been set back since then.
        since.append(time.time_ns() // 1_000_000)
        published = published_since(
            settings.bootstrap_servers,
            list(saved),
            max(0, min(since) - RESUME_MARGIN_MS),
            f"{settings.topic_prefix}.journal",
            client_of(settings),
        )
    tail_states = {}
    for name, saved_state in saved.items():
        state, problem = resumed(saved_state, published.get(name, ()))
        if state is not None:
            tail_states[name] = state
        if problem is not None:
            terminal.notice(f"{name}: {problem}")
    epochs = {name: state.epoch for name, state in tail_states.items()}
    epochs |= epochs_after(settings, saved.keys() - epochs.keys())
    for name, epoch in claims.claim(epochs, going_on=tail_states.keys()).items():
        if name not in tail_states or tail_states[name].epoch != epoch:
            tail_states[name] = TailState(epoch=epoch)
    return tail_states


def _run(
    servers: Sequence[ServerSettings],
    tail_states: dict[str, TailState],
    sink: EventSink,
    requests: Callable[[float], list[CollectRequest]],
    *,
    where: str,
    states: Path | None,
    is_from_oldest: bool,
    metrics: ProducerMetrics | None = None,
    superseded: Callable[[], Mapping[str, SupersededError]] = dict,
) -> None:
    from tallystick.coordinates.rules.explanation import fill
    from tallystick.producers.mysql.collection import Collector
    from tallystick.producers.mysql.same_server import FollowedServers
    from tallystick.producers.mysql.tail import Tail, TailOptions
    from tallystick.servers.discovery import discover_reachable, first_files
    from tallystick.servers.tailing import Tails

    first: dict[str, str] = {}
    if not is_from_oldest and any(state.server_uuid is None for state in tail_states.values()):
        first = first_files(discover_reachable(servers))
    followed = FollowedServers(servers)
    tails: list[Tail] = [
        Tail(
            server,
            sink,
            Collector,
            state=tail_states[server.name],
            state_file=None if states is None else states / f"{server.name}.json",
            options=TailOptions(from_oldest=is_from_oldest, first_file=first.get(server.name, "")),
            notice=terminal.notice,
            followed=followed,
        )
        for server in servers
    ]
    if metrics is not None:
        metrics.answers = lambda: {tail.name: tail.collections for tail in tails}
    names = ", ".join(f"{server.name} ({server.address})" for server in servers)
    with stopping() as stop:
        terminal.notice(f"{names}: journals go to {where}; Ctrl-C ends them")
        Tails(tails, requests, terminal.notice, superseded).run(stop)
    count = {
        "records": sum(tail.journal.records for tail in tails),
        "answers": sum(tail.collections for tail in tails),
    }
    terminal.notice(fill("{records:n record}, {answers:n answer} to collections", count))
