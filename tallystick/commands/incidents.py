"""``tallystick incidents list|show|ack|unack``: what is broken now, and who knows of it.

``tallystick retire``, which ends all incidents of an instance, is here too.
"""

from __future__ import annotations

import getpass
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Annotated

import typer

from tallystick import terminal
from tallystick.commands.options import (
    BootstrapServers,
    Client,
    Directory,
    Json,
    TopicPrefix,
)
from tallystick.coordinates.events.incident_control import ControlAction, IncidentControl
from tallystick.errors import MisuseError
from tallystick.given_times import utc_time
from tallystick.names import require_fit
from tallystick.settings import Settings, load

if TYPE_CHECKING:
    from tallystick.alerts.alert import Alert
    from tallystick.alerts.store import DeliveryRow
    from tallystick.coordinates.results import Incident

app = typer.Typer(help="List the incidents of an audit, and acknowledge them.")

_UNITS = {"m": "minutes", "h": "hours", "d": "days"}
_ID_LENGTH = 24
_SHOWN = 12
_ALERTS_SHOWN = 50

IncidentId = Annotated[str, typer.Argument(help="Its id, or its beginning.", metavar="ID")]
By = Annotated[str | None, typer.Option(help="Who asks for it (the user's name).", metavar="NAME")]


@app.command("list")
def list_(
    *,
    every: Annotated[bool, typer.Option("--all", help="Also those that are over.")] = False,
    directory: Directory = None,
    json: Json = False,
) -> None:
    """List the incidents that are open or acknowledged, the oldest first."""
    from tallystick.coordinates.rules.explanation import moment, shorten_gtids

    settings = load({"directory": directory}).settings
    found, absences = _incidents(settings), _absences(settings)
    shown = [one for one in found if every or one.is_open]
    if json:
        terminal.show_json([*(one.to_dict() for one in shown), *absences])
        return
    over = len(found) - len(shown)
    if not shown and not absences:
        terminal.show("no incident is open" + (f", {over:,} are over" if over else ""))
        return
    terminal.show_table(
        ("id", "state", "severity", "rule", "subject", "opened", "last seen", "count", "witness"),
        [
            (
                one.incident_id[:_SHOWN],
                one.state.value,
                one.severity.value,
                one.rule,
                _subject(one),
                moment(one.opened_ts),
                moment(one.last_seen_ts),
                one.count,
                shorten_gtids(one.witness),
            )
            for one in shown
        ]
        + [
            (
                one["incident_id"][:_SHOWN],
                _state_of(one),
                *(one[key] for key in ("severity", "rule", "instance")),
                *(moment(_us_of(one[key])) for key in ("opened_at", "last_seen_at")),
                one["count"],
                one["witness"],
            )
            for one in absences
        ],
    )


@app.command()
def show(incident: IncidentId, *, directory: Directory = None, json: Json = False) -> None:
    """Show an incident whole, with what to do about it."""
    from tallystick.coordinates.results import Incident
    from tallystick.coordinates.rules.explanation import explain, moment
    from tallystick.outputs.text import commands

    settings = load({"directory": directory}).settings
    one = _one(settings, incident)
    if json:
        terminal.show_json(one.to_dict() if isinstance(one, Incident) else one)
        return
    if not isinstance(one, Incident):
        terminal.show(
            (f"{one['rule']} ({one['severity']}), {_state_of(one)}", "bold"),
            f"  {one['instance']}, since {moment(_us_of(one['opened_at']))}",
            f"  id {one['incident_id']}",
            f"  {one['sentence']}",
            f"  to do: {one['remedy']}",
        )
        if (known := one["acknowledgement"]) is not None:
            until = known["until"] and _us_of(known["until"])
            _show_acknowledged(known["by"], known["why"], _us_of(known["at"]), until)
        _show_alerted(settings, one["incident_id"])
        return
    texts, known = explain(one.finding), one.acknowledgement
    terminal.show(
        (f"{one.rule} ({one.severity.value}), {one.state.value}", "bold"),
        f"  {_subject(one)}, since {moment(one.opened_ts)}, last seen {moment(one.last_seen_ts)}",
        *([] if one.closed_ts is None else [f"  over since {moment(one.closed_ts)}"]),
        f"  id {one.incident_id}, found {one.count:,} {'time' if one.count == 1 else 'times'}",
        f"  {texts.sentence}",
        f"  witness: {one.witness}",
        f"  to do: {texts.remedy}",
    )
    terminal.show(*commands(texts))
    if known is not None:
        _show_acknowledged(known.by, known.why, known.ts, known.until_ts)
    _show_alerted(settings, one.incident_id)


def _show_acknowledged(by: str, why: str, ts: int, until_ts: int | None) -> None:
    from tallystick.coordinates.rules.explanation import moment

    until = "" if until_ts is None else f" until {moment(until_ts)}"
    terminal.show(f"  acknowledged by {by} at {moment(ts)}{until}: {why}")


def _show_alerted(settings: Settings, incident_id: str) -> None:
    """Who was alerted of an incident, the first alert first."""
    from tallystick.coordinates.rules.explanation import moment

    for one in reversed(_deliveries(settings, incident_id)):
        what, at = one.outcome or "waits", one.done_us or one.queued_us
        error = "" if one.outcome == "sent" or one.error is None else f": {one.error}"
        terminal.show(f"  alert to {one.label}: {one.alert['kind']}, {what}, {moment(at)}{error}")


@app.command()
def ack(
    incident: IncidentId,
    *,
    why: Annotated[str, typer.Option(help="The reason.", metavar="TEXT")],
    until: Annotated[
        str | None,
        typer.Option(
            help="When it runs out: a time (2026-01-31T18:00, UTC) or a duration (90m, 12h, 7d).",
            metavar="TIME",
        ),
    ] = None,
    by: By = None,
    bootstrap_servers: BootstrapServers = None,
    topic_prefix: TopicPrefix = None,
    client: Client = None,
    directory: Directory = None,
) -> None:
    """Acknowledge an incident: it does not count in the verdict now."""
    settings = _settings(bootstrap_servers, topic_prefix, client, directory)
    now = time.time_ns() // 1_000
    until_ts = None if until is None else _time_of(until, now)
    if until_ts is not None and until_ts <= now:
        raise MisuseError(f"--until {until!r}: expected a time that is still to come")
    by = by or getpass.getuser()
    _send(settings, IncidentControl(ControlAction.ACK, incident, by, why, now, until_ts))


@app.command()
def unack(
    incident: IncidentId,
    *,
    why: Annotated[str, typer.Option(help="The reason.", metavar="TEXT")],
    by: By = None,
    bootstrap_servers: BootstrapServers = None,
    topic_prefix: TopicPrefix = None,
    client: Client = None,
    directory: Directory = None,
) -> None:
    """Take back the acknowledgement of an incident."""
    settings = _settings(bootstrap_servers, topic_prefix, client, directory)
    by, now = by or getpass.getuser(), time.time_ns() // 1_000
    _send(settings, IncidentControl(ControlAction.UNACK, incident, by, why, now))


def retire(
    instance: Annotated[str, typer.Argument(help="Which one.", metavar="INSTANCE")],
    *,
    why: Annotated[str, typer.Option(help="The reason.", metavar="TEXT")],
    by: By = None,
    bootstrap_servers: BootstrapServers = None,
    topic_prefix: TopicPrefix = None,
    client: Client = None,
) -> None:
    """Take an instance out of the audit until it starts anew.

    It need not answer, nothing that it writes is judged, and what is open on it is superseded.
    """
    require_fit([instance])
    settings = _settings(bootstrap_servers, topic_prefix, client, None)
    by, now = by or getpass.getuser(), time.time_ns() // 1_000
    _send(settings, IncidentControl(ControlAction.RETIRE, instance, by, why, now))


def _settings(
    bootstrap_servers: str | None, topic_prefix: str | None, client: str | None, directory: object
) -> Settings:
    return load(
        {
            "bootstrap_servers": bootstrap_servers,
            "topic_prefix": topic_prefix,
            "client": client,
            "directory": directory,
        }
    ).settings


def _send(settings: Settings, control: IncidentControl) -> None:
    from tallystick.coordinates.events.incident_control import (
        IncidentControlError,
        encode_control,
        parse_control,
    )
    from tallystick.journal_topic import send_patiently

    # A whole id needs no tables: an acknowledgement may come from any host.
    if control.action is not ControlAction.RETIRE and not _is_whole(control.target):
        control = replace(control, target=_name_of(_one(settings, control.target)))
    value = encode_control(control)
    try:
        parse_control(value)
    except IncidentControlError as error:
        raise MisuseError(str(error)) from None
    topic = f"{settings.topic_prefix}.control"
    send_patiently(settings, topic, control.target.encode(), value)
    terminal.show(f"{control.action.value} of {control.target} sent to {topic}")


def _incidents(settings: Settings) -> list[Incident]:
    from tallystick.runs.tables import tables_of

    tables = tables_of(settings.directory.absolute() / "audit", "tallystick incidents")
    from tallystick.streaming.table_reader import read_incidents

    return read_incidents(tables)


def _absences(settings: Settings) -> list[Alert]:
    """The newest alert of each instance of which nothing is known, the oldest first."""
    from tallystick.alerts.absence import RULES
    from tallystick.alerts.service import FILE
    from tallystick.alerts.store import read_open

    path = settings.directory.absolute() / "audit" / FILE
    found = read_open(path) if path.exists() else []
    return sorted((one for one in found if one["rule"] in RULES), key=lambda one: one["opened_at"])


def _deliveries(settings: Settings, incident_id: str) -> list[DeliveryRow]:
    from tallystick.alerts.service import FILE
    from tallystick.alerts.store import read_deliveries

    path = settings.directory.absolute() / "audit" / FILE
    return read_deliveries(path, _ALERTS_SHOWN, incident_id) if path.exists() else []


def _one(settings: Settings, name: str) -> Incident | Alert:
    known: list[Incident | Alert] = [*_incidents(settings), *_absences(settings)]
    found = [one for one in known if _name_of(one).startswith(name)]
    if len(found) != 1:
        how_many = "none begins so" if not found else f"{len(found)} begin so"
        raise MisuseError(f"{name!r}: expected the id of one incident, {how_many}")
    return found[0]


def _name_of(one: Incident | Alert) -> str:
    return one["incident_id"] if isinstance(one, Mapping) else one.incident_id


def _state_of(alert: Alert) -> str:
    from tallystick.alerts.alert import FIRING

    return "open" if alert["status"] == FIRING else "acknowledged"


def _us_of(text: str) -> int:
    """A time as alerts have it, microseconds."""
    at = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return (at - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(microseconds=1)


def _is_whole(name: str) -> bool:
    return len(name) == _ID_LENGTH and set(name) <= set("0123456789abcdef")


def _subject(one: Incident) -> str:
    if one.channel is None:
        return one.instance_id
    return f"{one.instance_id}, channel {one.channel or '(default)'}"


def _time_of(text: str, now: int) -> int:
    """A time, or so long from now, in microseconds.

    Raises:
        MisuseError: The text is neither.
    """
    number, unit = text[:-1], text[-1:]
    try:
        if unit in _UNITS and number.isdecimal():
            return now + timedelta(**{_UNITS[unit]: int(number)}) // timedelta(microseconds=1)
        return int(utc_time(text).timestamp() * 1_000_000)
    except (ValueError, OverflowError):
        raise MisuseError(
            f"--until {text!r}: expected a time as 2026-01-31T18:00, or a duration as 90m, 12h, 7d"
        ) from None
