"""``tallystick alerts list|test``: what was sent to whom, and whether the sinks take alerts."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from tallystick import terminal
from tallystick.commands.options import AlertSinks, Directory, Json, alert_flags
from tallystick.errors import ExitCode, MisuseError
from tallystick.extras import require_extra
from tallystick.settings import load

app = typer.Typer(help="Try the sinks of alerts, and list what was sent.")


@app.command("list")
def list_(
    *,
    limit: Annotated[int, typer.Option(help="How many at most.", min=1, max=1_000_000)] = 100,
    directory: Directory = None,
    json: Json = False,
) -> None:
    """List the alerts of an audit, the newest first, and what became of them."""
    from tallystick.alerts.service import FILE
    from tallystick.alerts.store import read_deliveries
    from tallystick.coordinates.rules.topic_messages import utc

    path = load({"directory": directory}).settings.directory.absolute() / "audit" / FILE
    if not path.exists():
        raise MisuseError(
            f"{str(path)!r}: expected the queue of alerts of an audit, there is no file"
        )
    rows = read_deliveries(path, limit)
    documents = [
        {
            "sink": row.label,
            "outcome": row.outcome or "waits",
            "attempts": row.attempts,
            "error": row.error,
            "queued_at": utc(row.queued_us),
            "done_at": None if row.done_us is None else utc(row.done_us),
            "alert": row.alert,
        }
        for row in rows
    ]
    if json:
        terminal.show_json(documents)
        return
    if not documents:
        terminal.show("no alert was queued")
        return
    terminal.show_table(
        ("queued", "sink", "alert", "rule", "instance", "incident", "outcome", "attempts", "error"),
        [
            (
                one["queued_at"],
                one["sink"],
                row.alert["kind"],
                row.alert["rule"],
                row.alert["instance"],
                row.alert["incident_id"][:12],
                one["outcome"],
                one["attempts"],
                one["error"] or "",
            )
            for one, row in zip(documents, rows, strict=True)
        ],
    )


@app.command("test")
def try_out(*, alert: AlertSinks = None, json: Json = False) -> None:
    """Send a test alert to each sink; status 2 if one does not take it."""
    require_extra("stream", "tallystick alerts test")
    from tallystick.alerts.alert import trial_alert
    from tallystick.alerts.service import sinks_of
    from tallystick.alerts.sinks import SinkError

    settings = load({"alerts": alert_flags(alert)}).settings
    sinks = sinks_of(settings, terminal.notice)
    if not sinks:
        raise MisuseError("no sink of alerts is set: expected --alert NAME=TARGET, or alerts")
    trial = trial_alert(settings.topic_prefix, settings.page_url)
    results = []
    for request, sink in sinks:
        begun, error = time.monotonic(), None
        try:
            sink.send([trial], 1)
        except SinkError as failure:
            error = str(failure)
        seconds = round(time.monotonic() - begun, 3)
        results.append({"sink": request.label, "error": error, "seconds": seconds})
    if json:
        terminal.show_json(results)
    else:
        terminal.show_table(
            ("sink", "result", "seconds"),
            [(one["sink"], one["error"] or "taken", one["seconds"]) for one in results],
        )
    if any(one["error"] for one in results):
        raise typer.Exit(ExitCode.MISUSE)
