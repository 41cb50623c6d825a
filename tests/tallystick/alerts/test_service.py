"""Alerts end to end: real receivers that go down and come back, a real Alertmanager, kill -9."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import jsonschema
import pytest
from changes import BEGAN_US, History
from prometheus_client import CollectorRegistry, generate_latest
from receivers import ALERTMANAGER, Alertmanager, Receiver, wait_for

from tallystick.alerts.metrics import AlertMetrics
from tallystick.alerts.service import FILE, Alerts
from tallystick.alerts.sinks import alertmanager
from tallystick.alerts.worker import backoff_s
from tallystick.coordinates.events.incident_control import ControlAction
from tallystick.coordinates.results import Acknowledgement
from tallystick.coordinates.rules.topic_messages import Origin
from tallystick.errors import MisuseError
from tallystick.settings import load
from tallystick.streaming.answers import SILENT, UNREADABLE, Absence
from tallystick.streaming.table_sink import TableSink

ORIGIN = Origin("f", BEGAN_US, "https://p.example/")
ROOT = Path(__file__).parents[3]


@pytest.fixture
def service(tmp_path, monkeypatch):
    """Make the alerts of a run in one directory."""
    monkeypatch.chdir(tmp_path)
    notices: list[str] = []

    def make(*sinks, **more):
        settings = load({"alerts": sinks, **more}).settings
        return Alerts(tmp_path, settings, notices.append)

    make.notices = notices
    return make


def kinds(receiver):
    return [one["kind"] for one in receiver.taken]


def value(alerts, name, **labels):
    registry = CollectorRegistry()
    registry.register(AlertMetrics(alerts))
    return registry.get_sample_value(f"tallystick_{name}", labels)


def test_a_sink_that_is_down_is_retried_noticed_and_counted(service, quick):
    """Down while an incident opens, grows and ends; then each alert comes once, in order."""
    history = History()
    with Receiver() as receiver:
        pass
    sink, label = f"webhook={receiver.url}", f"webhook 127.0.0.1:{receiver.port}"
    with service(sink) as alerts:
        for changes in (history.errant(), history.errant(20), history.healed()):
            alerts.take(changes, ORIGIN, {})
        wait_for(lambda: service.notices, "no notice of a sink that is down")
        assert [f"alerts: {label} does not take alerts: no connection"] == service.notices
        assert (3.0, 0.0) == tuple(
            value(alerts, name, sink=label) for name in ("alerts_queued", "alert_sink_up")
        )
        assert value(alerts, "alerts_failed_total", sink=label) > 0
        with Receiver(receiver.port) as again:
            wait_for(lambda: len(again.taken) == 3, "the alerts did not come")
            assert ["opened", "grown", "resolved"] == kinds(again)
            # What is taken there is counted here once its answer has come.
            wait_for(lambda: value(alerts, "alerts_sent_total", sink=label) == 3, "not counted")
            assert value(alerts, "alert_sink_up", sink=label) == 1
            assert service.notices[1:] == [f"alerts: {label} takes alerts again"]
            assert b"tallystick_alerts_dropped_total 0.0" in metrics(alerts)


def metrics(alerts):
    registry = CollectorRegistry()
    registry.register(AlertMetrics(alerts))
    return generate_latest(registry)


def test_what_is_refused_is_given_up_and_the_next_goes_on(service, quick):
    """A status that says that it will never be taken; Retry-After before another."""
    history = History()
    with Receiver() as receiver, service(f"webhook={receiver.url}") as alerts:
        receiver.statuses += [(422, {}), (429, {"Retry-After": "1"})]
        begun = time.monotonic()
        alerts.take(history.errant(instance="b") + history.errant(instance="c"), ORIGIN, {})
        wait_for(lambda: receiver.taken, "nothing came")
        assert time.monotonic() - begun >= 1
        assert ["c"] == [one["instance"] for one in receiver.taken]
        assert 1 == value(alerts, "alerts_refused_total", sink=f"webhook 127.0.0.1:{receiver.port}")
        assert "refused alert" in service.notices[0]


def test_a_queue_that_cannot_be_opened_is_named(service, tmp_path):
    """One line with its path and the reason; what is there stays as it is."""
    path = tmp_path / FILE
    path.mkdir()
    with pytest.raises(MisuseError) as raised:
        service("log")
    expected = f"the queue of alerts, {str(path)!r}, cannot be opened: unable to open database file"
    assert expected == str(raised.value)
    assert path.is_dir()
    path.rmdir()
    path.touch()
    with pytest.raises(MisuseError, match=r"cannot be opened: File exists$"):
        Alerts(path, load({"alerts": ["log"]}).settings, print)


def test_a_queue_that_is_damaged_alerts_again_what_is_open(service, tmp_path):
    """As the tables have it: what is over or acknowledged is nobody's surprise."""
    history = History()
    [opened] = history.errant(instance="b")
    [known] = history.errant(instance="c")
    [known] = history.control(ControlAction.ACK, known.incident.incident_id)
    history.errant(instance="d")
    [over] = history.healed("d")
    incidents = [change.incident for change in (opened, known, over)]
    TableSink(tmp_path / "tables", "run").write(0, incidents=incidents)
    (tmp_path / "alerts.sqlite").write_bytes(b"no database " * 1000)
    with Receiver() as receiver, service(f"webhook={receiver.url}"):
        wait_for(lambda: receiver.taken, "nothing came")
    assert [(opened.incident.incident_id, "grown")] == [
        (one["incident_id"], one["kind"]) for one in receiver.taken
    ]
    assert "is damaged and begins anew" in service.notices[0]


def test_one_slow_sink_holds_up_no_other(service, tmp_path):
    """Each has a thread of its own; what runs is ended with the audit, and comes again."""
    hook, started = tmp_path / "hook", tmp_path / "started"
    hook.write_text(f"#!/bin/sh\necho $TALLYSTICK_ALERT_ATTEMPT >> {started}\nsleep 1000\n")
    hook.chmod(0o755)
    with Receiver() as receiver:
        sinks = (f"command={hook}", f"webhook={receiver.url}")
        with service(*sinks) as alerts:
            alerts.take(History().errant(), ORIGIN, {})
            wait_for(lambda: receiver.taken and started.exists(), "they were not called")
        assert any("1 wait for command" in notice for notice in service.notices)
        hook.write_text(f"#!/bin/sh\necho $TALLYSTICK_ALERT_ATTEMPT >> {started}\n")
        with service(*sinks):
            wait_for(lambda: len(started.read_text().split()) == 2, "it was not called again")
        assert ["1", "2"] == started.read_text().split()
        assert 1 == len(receiver.taken)


def test_what_waits_outlives_the_run_and_a_sink_that_is_not_set_any_more(service, quick):
    """The next run delivers it; what waits for a sink that is gone is dropped, and said."""
    with Receiver() as receiver:
        pass
    sink = f"webhook={receiver.url}"
    with service(sink, "log=x.log") as alerts:
        alerts.take(History().errant(), ORIGIN, {})
    assert any("1 wait for webhook" in notice for notice in service.notices)
    with Receiver(receiver.port) as again, service(sink) as alerts:
        wait_for(lambda: again.taken, "it did not come")
        alerts.take(History().errant(), ORIGIN, {})
    assert ["opened"] == kinds(again)
    assert 1 == len(Path("x.log").read_text().splitlines())
    with service(sink) as alerts:
        alerts.take(History().errant(instance="z"), ORIGIN, {})
    with service("log=x.log"):
        pass
    assert any("1 waited for sinks that are not set" in notice for notice in service.notices)


def test_a_queue_that_cannot_be_written_stops_no_audit(service, quick):
    """It is a notice and a number."""
    with service("log") as alerts:
        alerts._store._db.execute("PRAGMA query_only = 1")
        alerts.take(History().errant(), ORIGIN, {})
        assert 1 == value(alerts, "alerts_dropped_total")
        alerts._workers[0].look()
        wait_for(lambda: len(service.notices) == 2, "no notice of the worker")
        assert any("cannot be queued" in notice for notice in service.notices)
        assert any("does not take alerts" in notice for notice in service.notices)
        alerts._store._db.execute("PRAGMA query_only = 0")
        alerts.take(History().errant(), ORIGIN, {})
        wait_for(lambda: "opened critical" in str(service.notices), "its thread has ended")


def test_backoff_grows_to_a_minute():
    """With jitter, and never to nothing."""
    assert all(0.5 <= backoff_s(1) <= 1 for _ in range(100))
    assert all(4 <= backoff_s(4) <= 8 for _ in range(100))
    assert all(30 <= backoff_s(500) <= 60 for _ in range(100))


KILLED = """
import sys, threading
from pathlib import Path
from changes import History
from tallystick.alerts.service import FILE, Alerts
from tallystick.coordinates.rules.topic_messages import Origin
from tallystick.errors import MisuseError
from tallystick.settings import load
settings = load({"alerts": [sys.argv[2]]}).settings
alerts = Alerts(Path(sys.argv[1]), settings, print)
with alerts:
    history = History()
    for step in (history.errant(), history.errant(12), history.healed()):
        alerts.take(step, Origin("f", 1), {})
    print("taken", flush=True)
    threading.Event().wait()
"""


def test_kill_9_in_the_middle_of_an_alert_reports_each_once(tmp_path):
    """While a receiver holds the POST, then again; the micro-batch is done again each time."""
    holds = threading.Event()
    with Receiver() as receiver:
        original = receiver._server.RequestHandlerClass.do_POST
        arrived = []

        def slow(handler):
            arrived.append(1)
            holds.wait(60)
            original(handler)

        receiver._server.RequestHandlerClass.do_POST = slow
        command = [sys.executable, "-c", KILLED, str(tmp_path), f"webhook={receiver.url}"]
        environ = {k: v for k, v in os.environ.items() if not k.startswith("TALLYSTICK_")}
        environ["PYTHONPATH"] = f"{ROOT}:{Path(__file__).parent}"
        for number in range(1, 3):
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as job:
                assert job.stdout is not None
                assert "taken" in job.stdout.readline()
                wait_for(lambda n=number: len(arrived) >= n, "no POST")
                job.send_signal(signal.SIGKILL)
        holds.set()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as job:
            wait_for(
                lambda: len({json.loads(body)["kind"] for _, body in receiver.got}) == 3,
                "not all came",
            )
            job.send_signal(signal.SIGKILL)
    by_id = {headers["webhook-id"]: json.loads(body) for headers, body in receiver.got}
    assert ["grown", "opened", "resolved"] == sorted(one["kind"] for one in by_id.values())
    again = [headers for headers, _ in receiver.got if headers["Tallystick-Attempt"] != "1"]
    assert len(receiver.got) - len(by_id) <= len(again), "a repetition that does not say so"


needs_alertmanager = pytest.mark.skipif(
    ALERTMANAGER is None, reason="there is no Alertmanager (Debian: prometheus-alertmanager)"
)


@needs_alertmanager
def test_a_real_alertmanager(service, quick, tmp_path, monkeypatch):
    """Active, acknowledged, firing again, down when it ends, resolved; one notification each."""
    monkeypatch.setattr(alertmanager, "REPEAT_S", 0.5)
    monkeypatch.setattr(alertmanager.Alertmanager, "repeat_s", 0.5)
    history = History()
    with Receiver() as notified, Alertmanager(tmp_path, notified) as manager:
        with service(f"alertmanager={manager.url}") as alerts:
            alerts.take(history.errant(), ORIGIN, {})  # while it is down
            wait_for(lambda: service.notices, "no notice")
            manager.start()
            wait_for(manager.active, "no active alert")
            (active,) = manager.active()
            (name,) = history.incidents.open
            assert {
                "alertname": "TallystickNoErrantGtids", "rule": "no_errant_gtids", "instance": "b",
                "severity": "critical", "fleet": "f", "incident": name,
            } == active["labels"]  # fmt: skip
            assert {"summary", "description", "remedy", "state", "link"} == set(
                active["annotations"]
            )
            assert f"https://p.example/#incident-{name}" == active["generatorURL"]
            assert active["startsAt"].startswith("2026-09-21T")
            ends = active["endsAt"]
            wait_for(lambda: manager.active()[0]["endsAt"] > ends, "it is not repeated")
            alerts.take(history.control(ControlAction.ACK, name), ORIGIN, {})
            wait_for(lambda: not manager.active(), "what is acknowledged is still active")
            wait_for(lambda: len(notified.taken) == 2, "nobody is notified that it is quiet")
            alerts.take(history.control(ControlAction.UNACK, name), ORIGIN, {})
            wait_for(manager.active, "it does not fire again")
            wait_for(lambda: len(notified.taken) == 3, "not all was notified")
            wait_for(lambda: manager.noted() == 3, "it does not know that all was notified")
            manager.stop()
            alerts.take(history.healed(), ORIGIN, {})
        with service(f"alertmanager={manager.url}"):
            manager.start()
            wait_for(lambda: len(notified.taken) == 4, "its end was not notified")
            assert [] == manager.active()
    assert ["firing", "resolved", "firing", "resolved"] == [one["status"] for one in notified.taken]


@needs_alertmanager
def test_an_alertmanager_gets_what_is_open_after_it_forgot(service, quick, tmp_path, monkeypatch):
    """A fresh one that takes the place of another, with many alerts at once."""
    monkeypatch.setattr(alertmanager.Alertmanager, "repeat_s", 0.5)
    monkeypatch.setattr(alertmanager, "_AT_ONCE", 3)
    history = History()
    with service("log=x.log") as alerts:
        for number in range(8):
            alerts.take(history.errant(instance=f"i{number}"), ORIGIN, {})
    with Receiver() as notified, Alertmanager(tmp_path, notified) as manager:
        manager.start()
        with service(f"alertmanager={manager.url}"):
            wait_for(lambda: len(manager.active()) == 8, "not all are there")


def absent(since_us=BEGAN_US, acknowledgement=None, rule=SILENT, problem=""):
    """What is known of instance b, which is absent."""
    return {"b": Absence(rule, "b", since_us, BEGAN_US, problem, acknowledgement)}


def test_an_instance_that_does_not_answer_is_alerted(service):
    """Once while it is silent, also over restarts; its end, and the next silence, once each."""
    first, again, there = absent(), absent(BEGAN_US + 9), {"b": None}
    with Receiver() as receiver:
        sink = f"webhook={receiver.url}"
        with service(sink) as alerts:
            for absences in ({}, first, first, {}):
                alerts.take([], ORIGIN, absences)
            wait_for(lambda: receiver.taken, "no alert")
        with service(sink) as alerts:
            # It answers once again, and is silent before anybody has seen that.
            for absences in ({}, first, {"c": None}, there, there, again, absent(BEGAN_US + 99)):
                alerts.take([], ORIGIN, absences)
            wait_for(lambda: len(receiver.taken) == 5, "not all came")
    assert ["opened", "resolved", "opened", "resolved", "opened"] == kinds(receiver)
    opened, resolved, later, ended, newest = receiver.taken
    assert opened["incident_id"] == resolved["incident_id"] != later["incident_id"]
    assert later["incident_id"] == ended["incident_id"] != newest["incident_id"]
    assert ("instance_silent", "b", "error", 1) == tuple(
        opened[key] for key in ("rule", "instance", "severity", "count")
    )
    assert "does not answer requests for collections: UNDECIDED. Its last answer: 2026-" in str(
        opened
    )
    schema = json.loads((ROOT / "docs" / "alert.schema.json").read_text("utf-8"))
    for one in receiver.taken:
        jsonschema.validate(one, schema)
        assert set(schema["properties"]) == set(one)


def test_many_messages_that_cannot_be_read_are_alerted(service):
    """It is about no instance; braces of a hostile message do nothing."""
    rule = "messages_unreadable"
    one = Absence(rule, "", BEGAN_US, None, "a block of {0} bytes: {error!r}")
    with Receiver() as receiver, service(f"webhook={receiver.url}") as alerts:
        for poisoned in (one, one, None):
            alerts.take([], ORIGIN, {"": poisoned})
        wait_for(lambda: len(receiver.taken) == 2, "not all came")
    assert ["opened", "resolved"] == kinds(receiver)
    opened = receiver.taken[0]
    assert (opened["rule"], opened["instance"]) == (rule, "")
    assert opened["sentence"] == (
        "The journal's topic has more messages that cannot be read than unreadable_max in ten"
        " minutes. One of them: a block of {0} bytes: {error!r}"
    )
    schema = json.loads((ROOT / "docs" / "alert.schema.json").read_text("utf-8"))
    jsonschema.validate(opened, schema)


def test_a_silence_that_somebody_knows_of_is_alerted_again_when_he_does_not(service):
    """An Alertmanager would get the acknowledgement too; who is alerted at once does not."""
    known = Acknowledgement("me", "being moved", BEGAN_US, None)
    steps = [absent(), absent(acknowledgement=known), absent(acknowledgement=known), absent()]
    with Receiver() as receiver, service(f"webhook={receiver.url}") as alerts:
        for step in steps:
            alerts.take([], ORIGIN, step)
        wait_for(lambda: len(receiver.taken) == 2, "not all came")
    assert ["opened", "reopened"] == kinds(receiver)
    assert 1 == len({one["incident_id"] for one in receiver.taken})
    assert [None, None] == [one["acknowledgement"] for one in receiver.taken]


def test_an_instance_whose_server_cannot_be_read_is_alerted_with_the_error(service):
    """As the observer's answers have it."""
    unreadable = absent(rule=UNREADABLE, problem="the server was not reachable")
    with Receiver() as receiver, service(f"webhook={receiver.url}") as alerts:
        for absences in (unreadable, {"b": None}):
            alerts.take([], ORIGIN, absences)
        wait_for(lambda: len(receiver.taken) == 2, "not all came")
    assert [(UNREADABLE, "opened"), (UNREADABLE, "resolved")] == [
        (one["rule"], one["kind"]) for one in receiver.taken
    ]
    assert "cannot be read, its observer says (the server was not reachable)" in str(receiver.taken)
