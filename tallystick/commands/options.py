"""Flags that several commands share; each is the flag of a setting."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

BootstrapServers = Annotated[
    str | None, typer.Option(help="Kafka: host:port, comma-separated.", metavar="HOST:PORT")
]
TopicPrefix = Annotated[
    str | None, typer.Option(help="Topics are named PREFIX.journal and so on.", metavar="PREFIX")
]
Client = Annotated[str | None, typer.Option(help="Kafka client: confluent-kafka or kafka-python.")]
Directory = Annotated[
    Path | None, typer.Option(help="Where the state of runs lies (.tallystick).", metavar="PATH")
]
Instances = Annotated[
    list[str] | None,
    typer.Option("--instance", help="An instance that must answer; may be repeated."),
]
Disable = Annotated[
    list[str] | None,
    typer.Option(help="Switch an invariant off; may be repeated.", metavar="INVARIANT"),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
