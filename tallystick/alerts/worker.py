"""Delivers to one sink, in a thread of its own, so that a slow or dead one holds up nothing."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import final

from tallystick.alerts.alert import Alert, now_us
from tallystick.alerts.sinks import Request, Sink, SinkError
from tallystick.alerts.store import DROPPED, SENT, AlertStore, Delivery

BACKOFF_S, BACKOFF_MAX_S = 1.0, 60.0
GIVE_UP_US = 7 * 86_400 * 1_000_000


def backoff_s(failures: int) -> float:
    """How long to wait after so many failures in a row: doubled each time, with jitter."""
    longest = min(BACKOFF_S * 2.0 ** min(failures - 1, 16), BACKOFF_MAX_S)
    return longest * random.uniform(0.5, 1.0)  # noqa: S311  spreads load, guards nothing


@final
class SinkWorker(threading.Thread):
    """One sink and what waits for it.

    Args:
        request: Its key and label.
        sink: Takes the alerts.
        store: Has them.
        notice: Takes a line for people.

    Attributes:
        sent: How many alerts it took since the start.
        failed: How many attempts failed.
        dropped: How many alerts were given up.
        is_up: Whether the last attempt succeeded, or none was made yet.
    """

    def __init__(
        self, request: Request, sink: Sink, store: AlertStore, notice: Callable[[str], None]
    ) -> None:
        super().__init__(name=f"alerts to {request.label}", daemon=True)
        self.request = request
        self.sink = sink
        self._store = store
        self._notice = notice
        self._wake = threading.Condition()
        self._news = False
        self._closing = False
        self._failures = 0
        self._not_before = 0.0
        self._repeat_at = time.monotonic()
        self._held: dict[str, float] = {}
        self.sent = self.failed = self.dropped = 0
        self.is_up = True

    def look(self) -> None:
        """Something was queued."""
        with self._wake:
            self._news = True
            self._wake.notify()

    def close(self) -> None:
        """Deliver what is taken at once, then end; what is left waits for the next run."""
        with self._wake:
            self._closing = True
            self._wake.notify()

    def run(self) -> None:
        """Deliver, until closed."""
        while True:
            with self._wake:
                self._news = False
            try:
                wait_s = self._step()
            except Exception as error:  # noqa: BLE001  a full disk; this thread must go on
                self._failed(SinkError(f"unexpected {type(error).__name__}: {error}"))
                wait_s = self._not_before - time.monotonic()
            with self._wake:
                if self._closing and wait_s != 0.0:
                    return
                if not self._news and not self._closing and wait_s != 0.0:
                    self._wake.wait(wait_s)

    def _step(self) -> float | None:
        """Make one delivery; returns how long there is nothing to do, None: until there is news."""
        now = time.monotonic()
        if now < self._not_before:
            return self._not_before - now
        if self.sink.repeat_s is not None and now >= self._repeat_at:
            self._repeat_at = now + self.sink.repeat_s
            alerts = self._store.firing()
            if alerts and not self._repeated(alerts):
                return max(self._not_before - time.monotonic(), 0.001)
        self._held = {name: until for name, until in self._held.items() if until > now}
        delivery = self._store.next(self.request.key, self._held)
        if delivery is not None:
            self._deliver(delivery)
            return 0.0
        times = list(self._held.values())
        if self.sink.repeat_s is not None:
            times.append(self._repeat_at)
        return max(min(times) - now, 0.001) if times else None

    def _repeated(self, alerts: Sequence[Alert]) -> bool:
        try:
            self.sink.send(alerts, 1)
        except SinkError as error:
            self._failed(error)
            self._repeat_at = self._not_before
            return False
        self._succeeded()
        return True

    def _deliver(self, delivery: Delivery) -> None:
        name = delivery.alert["incident_id"]
        try:
            self.sink.send([delivery.alert], delivery.attempts)
        except SinkError as error:
            is_too_old = now_us() - delivery.queued_us > GIVE_UP_US
            if error.is_final or is_too_old:
                self._store.done(delivery, DROPPED, str(error))
                self.dropped += 1
                self._notice(
                    f"alerts: {self.request.label} refused alert {delivery.alert['alert_id']}"
                    f" of incident {name}, which is dropped: {error}"
                )
                return
            self._store.failed(delivery, str(error))
            self._failed(error)
            self._held[name] = time.monotonic() + backoff_s(delivery.attempts)
            return
        self._store.done(delivery, SENT)
        self.sent += 1
        self._succeeded()

    def _failed(self, error: SinkError) -> None:
        self.failed += 1
        self._failures += 1
        wait_s = backoff_s(self._failures) if error.retry_after_s is None else error.retry_after_s
        self._not_before = time.monotonic() + wait_s
        if self.is_up:
            self.is_up = False
            self._notice(f"alerts: {self.request.label} does not take alerts: {error}")

    def _succeeded(self) -> None:
        self._failures = 0
        self._held.clear()
        if not self.is_up:
            self.is_up = True
            self._notice(f"alerts: {self.request.label} takes alerts again")
