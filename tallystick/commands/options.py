"""Flags that several commands share, and the end that every run comes to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from tallystick.errors import MisuseError
from tallystick.extras import require_extra
from tallystick.overwriting import refuse_of_run, refuse_overwriting
from tallystick.terminal import STANDARD_STREAM

if TYPE_CHECKING:
    from tallystick.outputs import Request
    from tallystick.runs.producer_metrics import ProducerMetrics
    from tallystick.runs.result import RunResult


def a_path(text: str) -> Path:
    """What a flag or an argument names, which is not empty as a shell's variable may be.

    Raises:
        BadParameter: It is empty.
    """
    return Path(a_file(text))


def a_file(text: str) -> str:
    """A file that may also be - , a standard stream."""
    if not text:
        # Python, and some systems, take it for the current directory.
        raise typer.BadParameter("expected a path, found an empty text")
    return text


BootstrapServers = Annotated[
    str | None, typer.Option(help="Kafka: host:port, comma-separated.", metavar="HOST:PORT")
]
TopicPrefix = Annotated[
    str | None, typer.Option(help="Topics are named PREFIX.journal and so on.", metavar="PREFIX")
]
Client = Annotated[str | None, typer.Option(help="Kafka client: confluent-kafka or kafka-python.")]
Directory = Annotated[
    Path | None,
    typer.Option(help="Where the state of runs is (.tallystick).", metavar="PATH", parser=a_path),
]
Instances = Annotated[
    list[str] | None,
    typer.Option(
        "--instance", help="An instance that must answer, no others count; may be repeated."
    ),
]
ClusterName = Annotated[
    str | None,
    typer.Option("--cluster", help="The cluster that the servers count to.", metavar="NAME"),
]
Disable = Annotated[
    list[str] | None,
    typer.Option(help="Switch a rule off; may be repeated.", metavar="RULE"),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
ProducerMetricsPort = Annotated[
    int | None,
    typer.Option(
        "--metrics-port", min=1, max=65_535, help="Port for a Prometheus scrape of this producer."
    ),
]
ProducerMetricsHost = Annotated[
    str, typer.Option("--metrics-host", help="Address that this port is opened on.")
]
_OUTPUTS = ", ".join(
    sorted(
        path.stem
        for path in (Path(__file__).parents[1] / "outputs").iterdir()
        if not path.name.startswith("_")
    )
)
Outputs = Annotated[
    list[str] | None,
    typer.Option(
        "--output",
        help=f"Write the result as NAME ({_OUTPUTS}), to FILE or standard output; may be repeated.",
        metavar="NAME[=FILE]",
    ),
]


AlertSinks = Annotated[
    list[str] | None,
    typer.Option(
        "--alert",
        help="Send alerts of incidents to a sink (docs/alerts.md); may be repeated.",
        metavar="NAME[=TARGET]",
    ),
]


class FailOn(str, Enum):
    """Which verdict the exit status is of."""

    EVER = "ever"
    NOW = "now"


FailOnFlag = Annotated[
    FailOn,
    typer.Option(
        "--fail-on",
        help="Exit status by the verdict of the whole period (ever), or by what is open now.",
    ),
]
JsonResult = Annotated[bool, typer.Option("--json", help="The short form of --output json.")]


def alert_flags(texts: Sequence[str] | None) -> Sequence[str] | None:
    """The flags of sinks.

    Raises:
        MisuseError: One has a user or password, which every user of the machine could see.
    """
    from tallystick.alerts.sinks import has_credentials, shown

    for text in texts or ():
        if has_credentials(text):
            raise MisuseError(
                f"--alert {shown(text)}: no password is an argument; set TALLYSTICK_ALERTS, or"
                " alerts in tallystick.toml"
            )
    return texts


def producer_metrics(host: str, port: int | None) -> ProducerMetrics | None:
    """The metrics of a producer, listening; None where no port is wanted.

    Raises:
        MissingExtraError: The extra ``metrics`` is not installed.
        MisuseError: The port cannot be listened on.
    """
    if port is None:
        return None
    require_extra("metrics", "--metrics-port")
    from tallystick.runs.producer_metrics import ProducerMetrics

    metrics = ProducerMetrics()
    metrics.serve(host, port)
    return metrics


def requested(
    output: Sequence[str] | None,
    json: bool,
    read: Sequence[str | Path] = (),
    directory: Path | None = None,
) -> list[Request]:
    """The outputs that the flags ask for.

    Args:
        output: Each as NAME[=FILE].
        json: Whether JSON is to be printed.
        read: The files that the command reads.
        directory: That of the run: it keeps the page and the JSON document.

    Raises:
        MisuseError: One is not known, two go to one file, or one to a file that is read, or that
            the run keeps.
    """
    from tallystick.outputs import requests_of

    requests = requests_of([*(output or ()), *(["json"] if json else [])])
    for request in requests:
        refuse_overwriting(request.target, read)
        if directory is not None and request.target != STANDARD_STREAM:
            refuse_of_run(request.target, directory, kept=f"report.{request.name}")
    return requests


def finish(
    result: RunResult,
    requests: Sequence[Request],
    directory: Path | None = None,
    fail_on: FailOn = FailOn.EVER,
) -> NoReturn:
    """Write a result in each form and end the command with its exit status.

    Args:
        result: The result of the run.
        requests: The outputs that are asked for.
        directory: The run's own: it keeps the page and the JSON document.
        fail_on: Which verdict the exit status is of.
    """
    from tallystick.outputs import Request, write_all

    files = [request for request in requests if request.target != STANDARD_STREAM]
    if directory is not None:
        files += [Request(n, str(directory / f"report.{n}")) for n in ("html", "json")]
    written = {name: Path(target) for name, target in files if "://" not in target}
    printed = [request for request in requests if request.target == STANDARD_STREAM]
    # What is printed comes first: it is there whatever becomes of a file.
    result = replace(result, paths={**result.paths, **written}, fail_on=fail_on.value)
    write_all(result, [*printed, *files])
    raise typer.Exit(result.exit_code)
