"""A day in the life of a fleet: what happens is alerted once, in time, and the page is right.

Real servers, `tail` and `audit --serve` as processes, a webhook, an Alertmanager, and a browser
that looks at the page whenever anything is waited for. The tests go on in order. What took how long
is in ``measured.json`` beside the pictures; `make a-day` also asserts it, on a quiet machine. What
is marked `long` is a part of that alone; `make test` leaves it out.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timezone

import pytest

from tallystick.deploy.broker import LocalBroker
from tallystick.producers.mysql_lab.accounts import REPLICATION
from tallystick.producers.mysql_lab.layout import HUB, REPLICA_1, REPLICA_2, SOURCE_A, SOURCE_B
from tallystick.producers.mysql_lab.sessions import session
from tallystick.servers.lab import Lab
from tests.support.watched_fleet import CHAIN, INTERVAL_S, OTHERS, WatchedFleet
from tests.tallystick.alerts.receivers import ALERTMANAGER
from tests.tallystick.outputs import chromium

pytestmark = pytest.mark.chromium
ALERTMANAGER_DOWN_S = float(os.environ.get("A_DAY_ALERTMANAGER_DOWN_S", "5"))
PAGE_S = 4.0
"""The script asks every 2 s."""
ROW_S = INTERVAL_S + 3
SILENT_S = 2 * INTERVAL_S + 5 + 3
"""Two requests, what an answer may take, and the alert."""
TAIL_WAITS_S = 15.0
"""For a server that is gone."""
ERRANT, SILENT, UNREADABLE = "no_errant_gtids", "instance_silent", "instance_unreadable"


@pytest.fixture(scope="module")
def day(
    own_mysqld: Lab, broker: LocalBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WatchedFleet]:
    """Everything, on a quiet morning."""
    executable = chromium.find()
    if executable is None or ALERTMANAGER is None:
        pytest.skip("no chromium or no Alertmanager on the PATH")
    directory = tmp_path_factory.mktemp("day")
    browser = chromium.Chromium(executable, directory / "profile")
    with session(own_mysqld.addresses()[SOURCE_A]) as source:
        source.run("CREATE DATABASE morning")
    own_mysqld.await_applied()
    fleet = WatchedFleet(own_mysqld, directory, broker.bootstrap_servers, browser)
    try:
        fleet.start()
        yield fleet
    finally:
        (directory / "measured.json").write_text(json.dumps(fleet.measured, indent=1))
        (directory / "disagreed.json").write_text(json.dumps(fleet.disagreed, indent=1))
        fleet.stop()
        browser.close()


def make_errant(day: WatchedFleet, name: str) -> float:
    """A client writes on a replica; returns when it has."""
    with session(day.lab.addresses()[name]) as server:
        server.run(f"CREATE DATABASE e{uuid.uuid4().hex[:8]}")
    return time.time()


def run_printed(day: WatchedFleet, shown: str, replica: str) -> None:
    """Copy what `incidents show` prints, with what it leaves open filled in."""
    known = {
        "<host of the replica>": "127.0.0.1",
        "<port>": str(day.lab.addresses()[replica].port),
        "<user>": REPLICATION,
        "<password>": day.lab.accounts.replication,
    }
    for name, value in known.items():
        shown = shown.replace(name, value)
    where, _, text = shown.partition("to do what is advised first, on ")[2].partition(":\n")
    statements = [line.strip() for line in text.splitlines() if line.startswith("      ")]
    assert statements
    with session(day.lab.addresses()[where]) as server:
        for statement in statements:
            server.run(statement)


def test_nothing_is_alerted_in_a_quiet_morning(day: WatchedFleet) -> None:
    """And every server is consistent."""
    page = day.until(lambda page: page.word == "CONSISTENT", "not consistent")
    day.picture("morning")
    assert set(page.cards) == set(CHAIN + OTHERS)
    assert [] == day.alerts()


def test_an_errant_write_is_alerted_and_its_printed_cure_heals_it(day: WatchedFleet) -> None:
    """Every statement that is printed for it, as it is printed."""
    begun = make_errant(day, REPLICA_1)
    alert, at = day.alerted("opened", ERRANT, REPLICA_1)
    day.measure("errant write to alert", at - begun, ROW_S)
    page = day.until(lambda page: page.word == "INCONSISTENT", "not shown")
    day.measure("errant write to page", time.time() - begun, ROW_S + PAGE_S)
    day.picture("errant")
    assert page.cards[REPLICA_1] == "INCONSISTENT"
    assert alert["link"].endswith(f"#incident-{alert['incident_id']}")
    run_printed(day, day.run("incidents", "show", alert["incident_id"][:8]), REPLICA_1)
    begun = time.time()
    _, at = day.alerted("resolved", ERRANT, REPLICA_1)
    day.measure("cure to alert", at - begun, ROW_S)
    day.until(lambda page: page.word == "CONSISTENT", "not consistent")
    day.picture("cured")


@pytest.mark.long
def test_a_dead_tail(day: WatchedFleet) -> None:
    """Killed with -9: its servers are named, once, and are UNDECIDED until it is back."""
    day.tails[OTHERS].kill()
    begun = time.time()
    for name in OTHERS:
        _, at = day.alerted("opened", SILENT, name)
        day.measure(f"dead tail of {name} to alert", at - begun, SILENT_S)
    day.until(lambda page: {page.cards[name] for name in OTHERS} == {"UNDECIDED"}, "not shown")
    assert day.run("incidents", "list").count(SILENT) == len(OTHERS)
    day.picture("dead-tail")
    day.start_tail(OTHERS)
    for name in OTHERS:
        day.alerted("resolved", SILENT, name)
    day.until(lambda page: page.word == "CONSISTENT", "not consistent")


@pytest.mark.long
def test_a_dead_source(day: WatchedFleet) -> None:
    """Killed with -9: named once, whether its tail says so or only waits for it."""
    day.lab.kill(SOURCE_B)
    begun = time.time()
    known = {(rule, SOURCE_B) for rule in (SILENT, UNREADABLE)}
    count = len(day.alerts())
    day.until(lambda _: {one[1:] for one in day.alerts()[count:]} & known, "no alert")
    taken = len(day.webhook.taken_at) - 1
    bound_s = max(SILENT_S, TAIL_WAITS_S + ROW_S)
    day.measure("dead source to alert", day.webhook.taken_at[taken] - begun, bound_s)
    day.until(lambda page: page.cards[SOURCE_B] == "UNDECIDED", "not shown")
    day.wait(TAIL_WAITS_S)
    day.picture("dead-source")
    day.lab.up()
    day.until(lambda _: day.alerts()[-1][0] == "resolved", "no end")
    day.until(lambda page: page.word == "CONSISTENT", "not consistent")
    assert ["opened", "resolved"] == [kind for kind, *_ in day.alerts()[count:]]


@pytest.mark.long
def test_an_incident_that_somebody_knows_of(day: WatchedFleet) -> None:
    """It does not count, nothing more is alerted of it, and its servers are consistent."""
    begun = make_errant(day, REPLICA_2)
    alert, at = day.alerted("opened", ERRANT, REPLICA_2)
    day.measure("second errant write to alert", at - begun, ROW_S)
    day.run("incidents", "ack", alert["incident_id"], "--why", "is rebuilt tonight")
    begun = time.time()
    day.until(lambda page: page.word == "CONSISTENT", "not consistent")
    day.measure("acknowledgement to page", time.time() - begun, 3 + PAGE_S)
    day.picture("acknowledged")
    count = len(day.alerts())
    make_errant(day, REPLICA_2)
    day.wait(ROW_S)
    assert count == len(day.alerts())
    resolved = ("resolved", ERRANT, REPLICA_2)
    day.until(lambda _: day.notifications()[resolved], "the Alertmanager does not know")


@pytest.mark.long
def test_the_driver_is_killed_in_the_middle_of_an_alert(day: WatchedFleet) -> None:
    """With -9: after its restart the alert is sent again, with its id, and nothing else is."""
    day.webhook.answers.clear()
    count = len(day.webhook.got)
    begun = make_errant(day, HUB)
    day.until(lambda _: len(day.webhook.got) > count, "no POST")
    assert day.audit is not None
    day.audit.kill()
    day.audit.wait()
    day.webhook.answers.set()
    restarted = f"c-{datetime.now(timezone.utc):%Y%m%dT%H%M%SZ}"
    day.start_audit()
    _, at = day.alerted("opened", ERRANT, HUB)
    day.measure("killed driver to alert", at - begun, 60)
    day.open_page()
    day.until(lambda page: page.cards.get(HUB) == "INCONSISTENT", "not shown")
    day.picture("after-the-kill")
    # The alert was queued before the kill: it is sent before Spark has started.
    day.until(lambda page: page.newest > restarted, "no collection since the restart")


@pytest.mark.long
def test_the_alertmanager_is_down(day: WatchedFleet) -> None:
    """The other sinks do not wait for it, and it gets the alert when it is back."""
    day.alertmanager.stop()
    count = len(day.alerts())
    begun = make_errant(day, REPLICA_1)
    day.until(lambda _: (ERRANT, REPLICA_1) in {one[1:] for one in day.alerts()[count:]}, "none")
    day.measure("errant write to alert, one sink down", day.webhook.taken_at[-1] - begun, ROW_S)
    day.wait(ALERTMANAGER_DOWN_S)
    before = day.notifications()["firing", ERRANT, REPLICA_1]
    day.alertmanager.start()
    begun = time.time()
    day.until(lambda _: day.notifications()["firing", ERRANT, REPLICA_1] > before, "not notified")
    day.measure("Alertmanager back to notification", time.time() - begun, 65)


def test_nothing_was_alerted_twice(day: WatchedFleet) -> None:
    """But for what the kill left open, which has another attempt's number."""
    assert {} == day.repeated()
    opened = Counter(
        one["incident_id"]
        for one in {alert["alert_id"]: alert for alert in day.webhook.taken}.values()
        if one["kind"] == "opened"
    )
    assert set(opened.values()) == {1}
    firing = Counter(
        one["labels"]["incident"]
        for group in day.notified.taken
        for one in group["alerts"]
        if one["status"] == "firing"
    )
    again = Counter(one["incident_id"] for one in day.webhook.taken if one["kind"] == "reopened")
    assert {name: n for name, n in firing.items() if n > 1 + again[name]} == {}


def test_the_page_agreed_with_itself_at_every_moment(day: WatchedFleet) -> None:
    """Hero, title, node, timeline, card and incidents, whenever it was looked at."""
    assert day.looked > 50
    assert [] == day.disagreed


@pytest.mark.long
def test_all_of_it_was_in_time(day: WatchedFleet) -> None:
    """Last, as a machine that was busy for a moment takes nothing from the others."""
    late = {what: took for what, took in day.measured.items() if took[0] >= took[1]}
    assert {} == late, day.measured
