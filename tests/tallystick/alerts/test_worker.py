"""When a sink is tried: step by step, with a real queue and a clock that the test moves."""

from __future__ import annotations

import itertools
import random

import pytest
from changes import BEGAN_US, History

from tallystick.alerts import store as alert_store
from tallystick.alerts import worker
from tallystick.alerts.alert import alert_of
from tallystick.alerts.sinks import Request, SinkError
from tallystick.alerts.store import DROPPED, SENT, AlertStore, read_deliveries
from tallystick.alerts.worker import SinkWorker
from tallystick.coordinates.rules.topic_messages import Origin

DAY_S = 86_400


class Sink:
    """Refuses what `refuse` gives an error for, by the instance; keeps when it was called."""

    def __init__(self, clock, refuse=lambda _: None, repeat_s=None):
        self.calls: list[tuple[float, list[str], int]] = []
        self.repeat_s = repeat_s
        self.refuse = refuse
        self._clock = clock

    def send(self, alerts, attempt):
        names = [alert["instance"] for alert in alerts]
        self.calls.append((self._clock.now, names, attempt))
        if error := self.refuse(names[0]):
            raise error

    def close(self):
        pass


class Play:
    """A worker whose steps are made one after the other, as soon as it asks for each."""

    def __init__(self, path):
        self.now = 0.0
        self.history, self.notices = History(), []
        self.path = path
        self.store = AlertStore(path, growth=10, queue_max=100, notice=self.notices.append)

    def monotonic(self):
        return self.now

    def now_us(self):
        return BEGAN_US + round(self.now * 1_000_000)

    def begin(self, sink):
        request = Request("webhook", "t", "the sink", "k")
        self.worker = SinkWorker(request, sink, self.store, self.notices.append)
        self._key = ("k", "the sink", sink.repeat_s is not None)
        return sink

    def take(self, changes):
        self.store.take([alert_of(one, Origin("f", 1)) for one in changes], [self._key])

    def go(self, until_s):
        """Returns whether the worker waits for news only."""
        while self.now <= until_s:
            wait_s = self.worker._step()
            if wait_s is None:
                return True
            assert wait_s >= 0
            self.now += wait_s
        self.now = until_s
        return False


@pytest.fixture
def play(tmp_path, monkeypatch):
    random.seed(7)
    made = Play(tmp_path / "alerts.sqlite")
    monkeypatch.setattr(worker, "time", made)
    for module in (worker, alert_store):
        monkeypatch.setattr(module, "now_us", made.now_us)
    yield made
    made.store.close()


def refusing(*errors):
    """The errors one after the other, then nothing is refused."""
    rest = iter(errors)
    return lambda _: next(rest, None)


def test_attempts_follow_after_a_second_doubled_to_a_minute(play):
    """With jitter of a half; and from a second again after one that succeeded."""
    errors = [SinkError("down")] * 9
    sink = play.begin(Sink(play, refusing(*errors, None, errors[0])))
    play.take(play.history.errant())
    assert play.go(DAY_S)
    assert [*range(1, 11)] == [attempt for _, _, attempt in sink.calls]
    times = [at for at, _, _ in sink.calls]
    gaps = [later - before for before, later in itertools.pairwise(times)]
    for gap, longest in zip(gaps, (1, 2, 4, 8, 16, 32, 60, 60, 60), strict=True):
        assert longest / 2 <= gap <= longest
    assert (9, 1, 0, True) == (
        play.worker.failed, play.worker.sent, play.worker.dropped, play.worker.is_up
    )  # fmt: skip
    assert play.notices == [
        "alerts: the sink does not take alerts: down", "alerts: the sink takes alerts again",
    ]  # fmt: skip
    play.take(play.history.errant(instance="c"))
    assert play.go(2 * DAY_S)
    assert 0.5 <= sink.calls[-1][0] - sink.calls[-2][0] <= 1
    assert [(SENT, 2), (SENT, 10)] == [
        (row.outcome, row.attempts) for row in read_deliveries(play.path, 9)
    ]


@pytest.mark.parametrize("seconds", [0.0, 7.0, 3600.0])
def test_a_sink_that_names_a_time_is_let_alone_for_so_long(play, seconds):
    """No other alert is tried before that has passed."""
    sink = play.begin(Sink(play, refusing(SinkError("later", retry_after_s=seconds))))
    play.take(play.history.errant() + play.history.errant(instance="c"))
    assert play.go(DAY_S)
    assert [0.0, seconds] == [at for at, _, _ in sink.calls[:2]]
    assert {"b", "c"} == {name for _, names, _ in sink.calls[1:] for name in names}
    assert ["c" if seconds == 0 else "b"] == sink.calls[1][1]


def test_one_that_is_never_taken_holds_up_no_other_and_is_given_up_after_7_days(play):
    """Not a moment earlier; what follows of its incident is tried then."""
    sink = play.begin(Sink(play, lambda name: SinkError("no") if name == "b" else None))
    play.take(play.history.errant() + play.history.errant(instance="c"))
    assert not play.go(60)
    assert ["b", "c"] == sorted({names[0] for _, names, _ in sink.calls})
    play.now = 7 * DAY_S  # as of a job that was stopped meanwhile
    assert 0.0 == play.worker._step()
    opened = read_deliveries(play.path, 9)[-1]
    assert (None, "no", "b") == (opened.outcome, opened.error, opened.alert["instance"])
    play.take(play.history.healed())
    assert not play.go(7 * DAY_S + 120)
    healed, _, opened = read_deliveries(play.path, 9)
    assert (DROPPED, "no", None) == (opened.outcome, opened.error, healed.outcome)
    assert healed.attempts > 0
    assert 1 == play.worker.dropped
    assert 7 * DAY_S * 1_000_000 < opened.done_us - opened.queued_us <= (7 * DAY_S + 60) * 1_000_000
    assert f"refused alert {opened.alert['alert_id']}" in play.notices[-1]


def test_what_is_refused_for_good_is_tried_once_and_the_next_at_once(play):
    """It says nothing about the sink, which is up."""
    sink = play.begin(Sink(play, refusing(SinkError("never", is_final=True))))
    play.take(play.history.errant() + play.history.errant(instance="c"))
    assert play.go(60)
    assert [(0.0, ["b"], 1), (0.0, ["c"], 1)] == sink.calls
    assert (0, 1, 1, True) == (
        play.worker.failed, play.worker.sent, play.worker.dropped, play.worker.is_up
    )  # fmt: skip
    assert [SENT, DROPPED] == [row.outcome for row in read_deliveries(play.path, 9)]


def test_what_fires_is_repeated_together_until_it_ends(play):
    """Each minute; one that failed as soon as the sink is tried again."""
    play.begin(Sink(play))
    play.take(play.history.errant() + play.history.errant(instance="c"))
    assert play.go(1)
    refused = {120.0}
    sink = Sink(play, lambda _: SinkError("down") if play.now in refused else None, repeat_s=60.0)
    play.now = 0.0
    play.begin(sink)
    assert not play.go(121.5)
    both = ["b", "c"]
    assert [(0.0, both, 1), (60.0, both, 1), (120.0, both, 1)] == sink.calls[:3]
    (again,) = sink.calls[3:]
    assert 120.5 <= again[0] <= 121
    assert both == again[1]
    assert not play.go(again[0] + 59)
    assert 4 == len(sink.calls)
    play.take(play.history.healed())
    assert not play.go(again[0] + 61)
    assert [["b"], ["c"]] == [names for _, names, _ in sink.calls[4:]]
    play.take(play.history.healed("c"))
    assert not play.go(400)
    assert [["c"]] == [names for _, names, _ in sink.calls[6:]]


def test_a_sink_that_does_not_take_a_repetition_gets_nothing_else_meanwhile(play):
    """What waits for it is tried when the repetition is."""
    sink = play.begin(Sink(play, refusing(SinkError("down")), repeat_s=60.0))
    play.take(play.history.errant())
    assert not play.go(30)
    assert [0.0, sink.calls[1][0], sink.calls[1][0]] == [at for at, _, _ in sink.calls]
    assert 0.5 <= sink.calls[1][0] <= 1
