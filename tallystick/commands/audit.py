"""``tallystick audit``: the streaming job."""

from __future__ import annotations

from typing import Annotated

import typer

from tallystick import terminal
from tallystick.commands.options import (
    AlertSinks,
    BootstrapServers,
    Directory,
    Disable,
    FailOn,
    FailOnFlag,
    Instances,
    JsonResult,
    Outputs,
    TopicPrefix,
    alert_flags,
    finish,
    requested,
)
from tallystick.commands.serve import LISTEN, TokenFile
from tallystick.errors import MisuseError
from tallystick.extras import require_extra
from tallystick.process import stopping
from tallystick.settings import load


def audit(
    *,
    available_now: Annotated[
        bool,
        typer.Option("--available-now", help="Audit what is in the topic now, then end."),
    ] = False,
    history_ends: Annotated[
        bool,
        typer.Option(
            "--history-ends",
            help="With --available-now: nothing more will come, so decide what waits.",
        ),
    ] = False,
    instance: Instances = None,
    collect_interval_s: Annotated[
        float | None, typer.Option(help="Seconds between two collections.", metavar="SECONDS")
    ] = None,
    collect_deadline_s: Annotated[
        float | None,
        typer.Option(
            help="Seconds that a collection waits for answers, and then to be compared.",
            metavar="SECONDS",
        ),
    ] = None,
    disable: Disable = None,
    bootstrap_servers: BootstrapServers = None,
    topic_prefix: TopicPrefix = None,
    directory: Directory = None,
    metrics_port: Annotated[
        int | None, typer.Option(help="Port for a Prometheus scrape and for probes.")
    ] = None,
    metrics_host: Annotated[
        str | None,
        typer.Option(help="Address that this port is opened on (127.0.0.1).", metavar="ADDRESS"),
    ] = None,
    alert: AlertSinks = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="Serve the report as a page that follows the job.")
    ] = False,
    listen: Annotated[
        str | None,
        typer.Option(help=f"Where the page is ({LISTEN}).", metavar="ADDRESS:PORT"),
    ] = None,
    serve_token_file: TokenFile = None,
    output: Outputs = None,
    json: JsonResult = False,
    fail_on: FailOnFlag = FailOn.EVER,
) -> None:
    """Audit the journal topic: collect on a period, judge, validate, report.

    Runs until Ctrl-C or SIGTERM, then drains and writes the report. Exit status by everything that
    this state directory has seen: 0 consistent, 1 inconsistent, 3 undecided.
    """
    settings = load(
        {
            "bootstrap_servers": bootstrap_servers,
            "topic_prefix": topic_prefix,
            "directory": directory,
            "instances": instance,
            "collect_interval_s": collect_interval_s,
            "collect_deadline_s": collect_deadline_s,
            "disabled": disable,
            "metrics_port": metrics_port,
            "metrics_host": metrics_host,
            "alerts": alert_flags(alert),
            "serve_token_file": serve_token_file,
        }
    ).settings
    if history_ends and not available_now:
        raise MisuseError("--history-ends: expected --available-now beside it")
    if listen is not None and not serve:
        raise MisuseError("--listen: expected --serve beside it")
    require_extra("stream", "tallystick audit")
    if serve:
        require_extra("serve", "tallystick audit --serve")
    from tallystick.streaming.driver_memory import keep_little

    keep_little()
    from tallystick.runs.audit import Audit

    run = Audit(settings, available_now=available_now, history_ends=history_ends)
    requests = requested(output, json, directory=run.directory)
    run.prepare()
    if serve:
        from tallystick.page_server.process import start

        start(run.directory, listen or LISTEN, settings)
    with stopping() as stop, terminal.progress("starting Spark") as progress:
        result = run.run(stop, progress)
    if result is None:
        raise typer.Exit(stop.exit_code)
    finish(result, requests, run.directory, fail_on=fail_on)
