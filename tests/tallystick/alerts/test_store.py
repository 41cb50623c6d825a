"""Which changes are alerted, that none is twice, and what a full queue keeps."""

from __future__ import annotations

import random
import sqlite3

import pytest
from changes import History

from tallystick import alerts
from tallystick.alerts.alert import alert_of
from tallystick.alerts.store import SENT, AlertStore, read_deliveries, read_open, step_of
from tallystick.coordinates.events.incident_control import ControlAction
from tallystick.coordinates.rules.topic_messages import Origin
from tallystick.errors import MisuseError

HTTP, STATE = ("k1", "webhook", False), ("k2", "alertmanager", True)


def take(store, changes, sinks):
    return store.take([alert_of(change, Origin("f", 1)) for change in changes], sinks)


@pytest.fixture
def opened(tmp_path):
    """Open the store again, as another run does."""
    stores = []

    def open_(queue_max=100, growth=10):
        if stores:
            stores.pop().close()
        stores.append(
            AlertStore(
                tmp_path / "alerts.sqlite",
                growth=growth,
                queue_max=queue_max,
                notice=notices.append,
            )
        )
        return stores[0]

    notices = open_.notices = []
    yield open_
    for store in stores:
        store.close()


def drained(store, sink="k1"):
    """The kinds of all that waits, delivered."""
    kinds = []
    while (delivery := store.next(sink, ())) is not None:
        kinds.append(delivery.alert["kind"])
        store.done(delivery, SENT)
    return kinds


def test_once_when_it_opens_grows_past_a_step_and_ends(opened):
    """Counts of 1, 9, 10, 60, 130: two steps of growth."""
    store, history = opened(), History()
    steps = [history.errant(), history.errant(8), history.errant(), history.errant(50)]
    steps += [history.errant(70), history.healed()]
    for changes in steps:
        assert 0 == take(store, changes, [HTTP])
    assert ["opened", "grown", "grown", "resolved"] == drained(store)
    assert [0, 0, 1, 1, 2, 0] == [step_of(n, 10) for n in (1, 9, 10, 99, 130, 0)]


def test_a_micro_batch_that_is_done_again_alerts_nothing(opened):
    """Any beginning of a history comes again after a restart, whatever has followed it."""
    history = History()
    steps = [history.errant(), history.errant(12), history.healed(), history.errant(2)]
    steps += [history.control(ControlAction.ACK, next(iter(history.incidents.open)))]
    steps += [history.errant(200)]
    store = opened()
    for changes in steps:
        take(store, changes, [HTTP])
    expected = drained(store)
    assert ["opened", "grown", "resolved", "opened"] == expected
    for first in range(len(steps)):
        store = opened()
        for changes in steps[first:]:
            take(store, changes, [HTTP])
        assert [] == drained(store), first


def test_what_is_acknowledged_is_quiet_until_it_counts_again(opened):
    """A sink that keeps the state hears of it, so that it ends; the end goes to all."""
    store, history = opened(), History()
    take(store, history.errant(), [HTTP, STATE])
    (name,) = history.incidents.open
    take(store, history.control(ControlAction.ACK, name), [HTTP, STATE])
    assert [] == store.firing()
    take(store, history.errant(30), [HTTP, STATE])
    assert ["opened"] == drained(store)
    assert ["opened", "acknowledged"] == drained(store, "k2")
    take(store, history.control(ControlAction.UNACK, name), [HTTP, STATE])
    take(store, history.errant(), [HTTP, STATE])
    assert [32] == [one["count"] for one in store.firing()]
    take(store, history.healed(), [HTTP, STATE])
    assert ["reopened", "resolved"] == drained(store)
    assert [] == store.firing()


def test_what_is_acknowledged_before_it_is_seen_is_quiet(opened):
    """A job that begins anew reads the acknowledgement first."""
    store, history = opened(), History()
    first = History().errant()[0].incident.incident_id
    history.control(ControlAction.ACK, first)
    changes = history.errant()
    assert ["opened", "acknowledged"] == [change.kind.value for change in changes]
    take(store, changes, [HTTP, STATE])
    assert [] == drained(store) + drained(store, "k2")
    take(store, history.control(ControlAction.UNACK, first), [HTTP])
    assert ["reopened"] == drained(store)


def test_a_sink_hears_of_the_end_of_what_it_heard_of(opened):
    """One that was set later does not; one that keeps the state does."""
    store, history = opened(), History()
    take(store, history.errant(), [HTTP])
    take(store, history.healed(), [HTTP, ("new", "log", False), STATE])
    assert [] == drained(store, "new")
    assert ["resolved"] == drained(store, "k2")


def test_what_ended_more_than_35_days_ago_is_forgotten(opened, tmp_path, monkeypatch):
    """By the next run; what still goes on or waits is not."""
    clock, ago_us = alerts.store.now_us, 0
    monkeypatch.setattr(alerts.store, "now_us", lambda: clock() - ago_us)
    store, history = opened(), History()
    for name, days in (("forgotten", 36), ("goes on", 36), ("kept", 34)):
        ago_us = days * 86_400_000_000
        take(store, history.errant(instance=name), [HTTP])
        if name != "goes on":
            take(store, history.healed(name), [HTTP])
        drained(store)
    ago_us = 36 * 86_400_000_000
    take(store, history.errant(instance="waits"), [HTTP])
    ago_us = 0
    store = opened()
    assert ["goes on", "waits"] == sorted(one["instance"] for one in store.open())
    rows = read_deliveries(tmp_path / "alerts.sqlite", 10)
    assert ["waits", "kept", "kept", "goes on"] == [row.alert["instance"] for row in rows]
    assert ["opened"] == drained(store)


def test_a_full_queue_merges_before_it_drops(opened):
    """Of an incident the newest stays; what is under way is not touched."""
    store, history = opened(queue_max=4), History()
    take(store, history.errant(instance="x"), [HTTP])
    under_way = store.next("k1", ())
    for name in ("b", "c", "d"):
        assert 0 == take(store, history.errant(instance=name), [HTTP])
    assert 0 == take(store, history.errant(20, instance="b"), [HTTP])
    assert 1 == take(store, history.errant(instance="e"), [HTTP])
    store.failed(under_way, "no")
    left = []
    while (delivery := store.next("k1", ())) is not None:
        left.append((delivery.alert["instance"], delivery.alert["kind"]))
        store.done(delivery, SENT)
    assert [("x", "opened"), ("d", "opened"), ("b", "grown"), ("e", "opened")] == left


def test_those_of_an_incident_stay_in_order(opened, tmp_path):
    """One that waits holds back its own incident only; attempts outlive the process."""
    store, history = opened(), History()
    take(store, history.errant(), [HTTP])
    take(store, history.healed(), [HTTP])
    take(store, history.errant(instance="c"), [HTTP])
    first = store.next("k1", ())
    store.failed(first, "down")
    other = store.next("k1", [first.alert["incident_id"]])
    assert "c" == other.alert["instance"]
    store = opened()
    again = store.next("k1", ())
    assert (first.number, 2) == (again.number, again.attempts)
    rows = read_deliveries(tmp_path / "alerts.sqlite", 10)
    assert ["opened", "resolved", "opened"] == [row.alert["kind"] for row in rows]
    assert "down" == rows[2].error
    assert 3 == store.forget_other_sinks(["k9"])
    assert [] == drained(store)


def test_a_damaged_file_is_set_aside_and_said(opened, tmp_path):
    """The audit goes on."""
    path = tmp_path / "alerts.sqlite"
    path.write_bytes(b"no database " * 1000)
    store = opened()
    take(store, History().errant(), [HTTP])
    assert ["opened"] == drained(store)
    assert path.with_name("alerts.sqlite.damaged").exists()
    assert "begins anew" in opened.notices[0]
    for version in (9, -9):  # a bit of it may have changed, that of the sign too
        with sqlite3.connect(path) as db:
            db.execute(f"PRAGMA user_version = {version}")
        db.close()
        store.close()
        store = opened()
        assert f"version {version}, expected 2" in opened.notices[-1]


@pytest.mark.parametrize("content", [None, b"", b"no database " * 1000])
def test_what_is_no_queue_cannot_be_read(tmp_path, content):
    """A file that is not there is not made by reading."""
    path = tmp_path / "alerts.sqlite"
    if content is not None:
        path.write_bytes(content)
    for read in (read_open, lambda path: read_deliveries(path, 10)):
        with pytest.raises(MisuseError, match="cannot be read: ") as raised:
            read(path)
        assert repr(str(path)) in str(raised.value)
    assert path.exists() is (content is not None)


def test_an_alert_that_is_damaged_cannot_be_read(opened, tmp_path):
    """As a queue of another kind: an error that names the file."""
    path = tmp_path / "alerts.sqlite"
    store = opened()
    take(store, History().errant(), [HTTP])
    store._db.execute("UPDATE incidents SET alert = '{'")
    store._db.execute("UPDATE deliveries SET alert = '{'")
    for read in (read_open, lambda path: read_deliveries(path, 10)):
        with pytest.raises(MisuseError, match="cannot be read: "):
            read(path)


def test_a_changed_bit_of_the_file_is_noticed_or_changes_nothing(opened, tmp_path):
    """Of what is shown, sent or counted: what is in no row may change."""
    path = tmp_path / "alerts.sqlite"
    store, history = opened(), History()
    take(store, history.errant(), [HTTP])
    store.failed(store.next("k1", ()), "down")
    store.close()
    whole, rows = path.read_bytes(), read_deliveries(path, 10)
    for seed in range(100):
        changed = bytearray(whole)
        bit = random.Random(seed).randrange(8 * len(whole))
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        store = opened()
        if not store.was_damaged:
            assert rows == read_deliveries(path, 10)
            assert [row.alert for row in rows] == store.open()
        store.close()
    assert any("is not as it was written" in notice for notice in opened.notices)
