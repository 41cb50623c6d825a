"""``tallystick broker start|stop|status``: a local broker that stays."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallystick import terminal
from tallystick.commands.options import Directory, Json
from tallystick.errors import MisuseError
from tallystick.settings import Settings, load

if TYPE_CHECKING:
    from tallystick.deploy.broker import LocalBroker

app = typer.Typer(help="Start, stop or inspect a Kafka broker on this machine.")

DEFAULT_PORT = 19_092


@app.command()
def start(
    *,
    port: Annotated[
        int, typer.Option(min=0, max=65_534, help="Where it listens; 0: a free port.")
    ] = DEFAULT_PORT,
    directory: Directory = None,
) -> None:
    """Start a broker on 127.0.0.1 that stays, and make the topics."""
    from tallystick.deploy.preflight import check_machine
    from tallystick.producers.kafka_topics import ensure_topics, tallystick_topics

    settings = load({"directory": directory}).settings
    broker = _broker(settings, port)
    if not broker.status().is_running:
        problems = check_machine(directory=broker.directory, ports=(port, port + 1) if port else ())
        if problems:
            raise MisuseError("\n".join(map(str, problems)))
    with terminal.progress("starting the broker") as progress:
        broker = _broker(settings, port, progress)
        broker.start()
        ensure_topics(
            broker.bootstrap_servers,
            tallystick_topics(settings.journal_partitions, settings.topic_prefix),
        )
    terminal.show(f"broker: {broker.bootstrap_servers}, in {broker.directory}")


@app.command()
def stop(*, directory: Directory = None) -> None:
    """Stop the broker that `tallystick broker start` has left; its data stays."""
    broker = _broker(load({"directory": directory}).settings, 0)
    with terminal.progress("stopping the broker"):
        was_running = broker.stop()
    terminal.show("broker: stopped" if was_running else "broker: none was running")


@app.command()
def status(*, directory: Directory = None, json: Json = False) -> None:
    """Show whether the broker runs and answers."""
    found = _broker(load({"directory": directory}).settings, 0).status()
    if json:
        terminal.show_json(
            {
                "directory": str(found.directory),
                "is_running": found.is_running,
                "is_answering": found.is_answering,
                "bootstrap_servers": found.bootstrap_servers,
                "pid": None if found.process is None else found.process.pid,
            }
        )
        return
    if found.process is None:
        terminal.show("broker: none runs")
    else:
        state = "answers" if found.is_answering else "does not answer"
        terminal.show(f"broker: {found.bootstrap_servers}, process {found.process.pid}, {state}")


def _broker(
    settings: Settings, port: int, progress: terminal.Progress | None = None
) -> LocalBroker:
    from tallystick.deploy.broker import LocalBroker

    return LocalBroker(
        Path(settings.directory) / "broker",
        port=port,
        dies_with_owner=False,
        progress=None if progress is None else progress.now,
    )
