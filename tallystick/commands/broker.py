"""``tallystick broker start|stop|status``: a local broker that stays."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallystick import terminal
from tallystick.commands.options import Directory, Json
from tallystick.errors import MisuseError
from tallystick.kafka_properties import VARIABLES
from tallystick.settings import Settings, load

if TYPE_CHECKING:
    from tallystick.deploy.broker import LocalBroker
    from tallystick.deploy.broker_security import BrokerSecurity

app = typer.Typer(help="Start, stop or inspect a Kafka broker on this machine.")

DEFAULT_PORT = 19_092


@app.command()
def start(
    *,
    port: Annotated[
        int, typer.Option(min=0, max=65_534, help="Where it listens; 0: a free port.")
    ] = DEFAULT_PORT,
    secure: Annotated[
        bool,
        typer.Option(
            "--secure", help="With TLS, passwords and ACLs; certificates of its own are made."
        ),
    ] = False,
    directory: Directory = None,
) -> None:
    """Start a broker on 127.0.0.1 that stays, and make the topics."""
    from tallystick.deploy.broker_security import ADMIN
    from tallystick.deploy.preflight import check_machine
    from tallystick.producers.kafka_clients.choice import kafka_client
    from tallystick.producers.kafka_topics import ensure_topics, tallystick_topics

    settings = load({"directory": directory}).settings
    broker = _broker(settings, port)
    if not broker.status().is_running:
        problems = check_machine(directory=broker.directory, ports=(port, port + 1) if port else ())
        if problems:
            raise MisuseError("\n".join(map(str, problems)))
    with terminal.progress("starting the broker") as progress:
        broker = _broker(settings, port, progress, is_secure=secure)
        broker.start()
        security = broker.security
        properties = {} if security is None else security.client_properties(ADMIN)
        ensure_topics(
            broker.bootstrap_servers,
            tallystick_topics(settings.journal_partitions, settings.topic_prefix),
            client=kafka_client(settings.client, properties),
        )
        if security is not None:
            _let_in(broker.bootstrap_servers, security, settings.topic_prefix)
    terminal.show(f"broker: {broker.bootstrap_servers}, in {broker.directory}")
    if security is not None:
        file = _client_settings(broker.bootstrap_servers, security, settings.topic_prefix)
        terminal.show(
            *file.read_text("utf-8").splitlines(),
            "to use them:",
            terminal.Command(f"  set -a; . {shlex.quote(str(file))}; set +a"),
        )


def _let_in(servers: str, security: BrokerSecurity, prefix: str) -> None:
    """The user of SCRAM, with the rights that all commands need, and no others."""
    from tallystick.deploy.broker_security import ADMIN, USER
    from tallystick.producers.kafka_rights import every_right, grant, set_password

    properties = security.client_properties(ADMIN)
    set_password(servers, properties, USER, security.password(USER))
    grant(servers, properties, USER, every_right(), prefix)


def _client_settings(servers: str, security: BrokerSecurity, prefix: str) -> Path:
    """A file of variables for the user; it names the file of the password."""
    from tallystick.deploy.broker_security import USER
    from tallystick.deploy.private_files import write_private

    properties = security.client_properties(USER)
    del properties["sasl.password"]
    properties["sasl.password.file"] = str(security.password_file(USER))
    variables = {
        "TALLYSTICK_BOOTSTRAP_SERVERS": servers,
        "TALLYSTICK_TOPIC_PREFIX": prefix,
        **{VARIABLES + name.upper().replace(".", "_"): v for name, v in properties.items()},
    }
    file = security.directory / "client.env"
    lines = [f"{name}={shlex.quote(value)}\n" for name, value in variables.items()]
    write_private(file, "".join(lines).encode())
    return file


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
    settings: Settings,
    port: int,
    progress: terminal.Progress | None = None,
    *,
    is_secure: bool = False,
) -> LocalBroker:
    from tallystick.deploy.broker import LocalBroker

    return LocalBroker(
        Path(settings.directory) / "broker",
        port=port,
        dies_with_owner=False,
        security={} if is_secure else None,
        progress=None if progress is None else progress.now,
    )
