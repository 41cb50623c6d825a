"""``tallystick incidents``: what the audit's tables say, and what goes to the control topic."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tallystick import journal_topic
from tallystick.alerts.absence import changes
from tallystick.alerts.alert import alert_of
from tallystick.alerts.service import FILE
from tallystick.alerts.store import SENT, AlertStore
from tallystick.commands.incidents import _time_of
from tallystick.coordinates.audit.incidents import Incidents
from tallystick.coordinates.events.incident_control import ControlAction, IncidentControl
from tallystick.coordinates.results import (
    Acknowledgement,
    IncidentChange,
    IncidentChangeKind,
    IncidentState,
)
from tallystick.coordinates.rules.topic_messages import Origin
from tallystick.errors import MisuseError
from tallystick.streaming.answers import SILENT, Absence
from tallystick.streaming.table_sink import TableSink
from tests.support.results import finding

A = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"
HOSTILE = "\x1b[31mred\u202e[bold]"


@pytest.fixture
def audited(tallystick, tmp_path):
    """The tables of an audit with an open, an acknowledged and a resolved incident."""
    incidents = Incidents()
    errant = {
        "rule": "no_errant_gtids",
        "case": "not_of_source",
        "witness": f"{A}:1",
        "data": {"sources": ["a"]},
    }
    incidents.absorb([finding(instance_id="b", channel=None, at="1", **errant)])
    incidents.absorb([finding(instance_id=HOSTILE, channel="", at="2", **errant)])
    incidents.absorb([finding(rule="lsn_order", case="out_of_order", instance_id="c")])
    opened, known, over = incidents.newest()
    incidents.absorb(
        controls=[IncidentControl(ControlAction.ACK, known.incident_id, "dba", HOSTILE, 5, 9)]
    )
    sink = TableSink(tmp_path / ".tallystick" / "audit" / "tables", "run")
    sink.write(0, incidents=[opened, known, over])
    over = replace(over, state=IncidentState.RESOLVED, closed_ts=7)
    sink.write(1, incidents=[incidents.touched[known.incident_id], over])
    return opened, known, over


def test_the_newest_state_is_listed_and_escaped(tallystick, audited):
    """Those that are over only with --all."""
    opened, known, over = audited
    ran = tallystick("incidents", "list")
    assert (0, "") == (ran.code, ran.err)
    assert all(one.incident_id[:12] in ran.out for one in (opened, known))
    assert over.incident_id[:12] not in ran.out
    assert "acknowledged" in ran.out
    assert "\x1b" not in ran.out
    assert "\u202e" not in ran.out
    assert "resolved" in tallystick("incidents", "list", "--all").out
    document = json.loads(tallystick("incidents", "list", "--json").out)
    assert [one["state"] for one in document] == ["open", "acknowledged"]


def test_one_is_shown_whole(tallystick, audited):
    """By the beginning of its id; which must be one's."""
    opened, known, _ = audited
    ran = tallystick("incidents", "show", known.incident_id[:8])
    assert (0, "") == (ran.code, ran.err)
    assert f"  {known.instance_id}, since " in ran.out
    assert f"witness: {A}:1" in ran.out
    assert "acknowledged by dba" in ran.out
    assert "to do: " in ran.out
    assert "\x1b" not in ran.out
    shown = json.loads(tallystick("incidents", "show", opened.incident_id, "--json").out)
    assert shown["finding"]["finding_id"] == opened.incident_id
    for wrong in ("x", ""):
        ran = tallystick("incidents", "show", wrong)
        assert (2, "") == (ran.code, ran.out)
        assert "expected the id of one incident" in ran.err


def test_who_is_absent_is_listed_and_who_was_alerted_is_shown(tallystick, audited, tmp_path):
    """From the queue of alerts; by the beginning of its id, as the others."""
    store = AlertStore(tmp_path / ".tallystick" / "audit" / FILE, growth=10, queue_max=9, notice=[])
    origin = Origin("f", 1_790_000_000_000_000)
    absence = Absence(SILENT, "d", 1_790_000_000_000_000, None, "")
    alerts = list(changes(None, absence, origin))
    errant = next(one for one in audited if one.rule == "no_errant_gtids")
    alerts.append(alert_of(IncidentChange(IncidentChangeKind.OPENED, errant, 1), origin))
    store.take(alerts, [("key", "log at x", False)])
    ran = tallystick("incidents", "list")
    assert (0, "") == (ran.code, ran.err)
    assert re.search(rf"{absence.incident_id[:12]} *open *error *instance_silent *d ", ran.out)
    assert "d" == json.loads(tallystick("incidents", "list", "--json").out)[-1]["instance"]
    for name, kind in ((absence.incident_id[:7], "silent"), (errant.incident_id, "errant")):
        shown = tallystick("incidents", "show", name).out
        assert kind in shown
        assert "alert to log at x: opened, waits, 2026-" in shown
    delivery = store.next("key", ())
    store.done(delivery, SENT)
    assert "opened, sent, " in tallystick("incidents", "show", absence.incident_id).out
    assert "acknowledged by" not in tallystick("incidents", "show", absence.incident_id).out
    at = 1_790_000_060_000_000
    known = absence._replace(acknowledgement=Acknowledgement("dba", "moved", at, at + 60_000_000))
    store.take(list(changes(alerts[0], known, origin)), [])
    shown = tallystick("incidents", "show", absence.incident_id).out
    assert "instance_silent (error), acknowledged" in shown
    assert (
        "acknowledged by dba at 2026-09-21 14:14:20 UTC until 2026-09-21 14:15:20 UTC: moved"
        in (shown)
    )
    store.close()


@pytest.mark.parametrize(
    "words", [("incidents", "list"), ("incidents", "show", "x"), ("alerts", "list")]
)
def test_a_queue_of_alerts_that_is_damaged_is_named(tallystick, audited, tmp_path, words):
    """It has who is absent, so a list without it would be short."""
    path = tmp_path / ".tallystick" / "audit" / FILE
    path.write_bytes(b"no database " * 1000)
    ran = tallystick(*words)
    assert (2, "") == (ran.code, ran.out)
    assert f"the queue of alerts, {str(path)!r}, cannot be read: file is not a database" in ran.err


def test_without_tables_or_incidents(tallystick, tmp_path):
    """An error that names the directory; and no incident is no error."""
    ran = tallystick("incidents", "list")
    assert (2, "") == (ran.code, ran.out)
    assert "tables" in ran.err
    (Path(tmp_path) / ".tallystick" / "audit" / "tables").mkdir(parents=True)
    ran = tallystick("incidents", "list")
    assert (0, "no incident is open\n") == (ran.code, ran.out)


def test_until_when():
    """A duration, a time in UTC, and one with a zone."""
    assert _time_of("90m", 10) == 10 + 5_400_000_000
    assert _time_of("7d", 0) == 604_800_000_000
    assert _time_of("1970-01-02", 0) == 86_400_000_000
    assert _time_of("1970-01-02T01:00+01:00", 0) == 86_400_000_000
    for wrong in ("", "h", "-1h", "soon", "9" * 30 + "d"):
        with pytest.raises(MisuseError, match="expected a time"):
            _time_of(wrong, 0)


def test_what_cannot_be_sent(tallystick, audited, monkeypatch):
    """A time that is over, no reason, no broker: status 2, and nothing is said to be sent."""
    monkeypatch.setattr(journal_topic, "PATIENCE_S", 0.0)
    opened, *_ = audited
    name, nobody = opened.incident_id, ("--bootstrap-servers", "127.0.0.1:1")
    for arguments in (
        ("--why", "x", "--until", "2001-01-01"),
        ("--why", " "),
        ("--why", "x", *nobody),
    ):
        ran = tallystick("incidents", "ack", name, *arguments)
        assert (2, "") == (ran.code, ran.out), arguments
    assert tallystick("incidents", "unack", name, "--why", "x", *nobody).code == 2
    assert tallystick("retire", "a", "--why", "x", *nobody).code == 2
    assert tallystick("retire", " ", "--why", "x").code == 2
