"""The alerts of a run: takes changes of incidents, owns the queue and the threads."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, final

from tallystick.alerts import absence
from tallystick.alerts.alert import RESOLVED, Alert, alert_of, now_us
from tallystick.alerts.secret import read_secret
from tallystick.alerts.sinks import Context, Request, Sink, open_sink, requests_of
from tallystick.alerts.store import AlertStore
from tallystick.alerts.worker import SinkWorker
from tallystick.errors import MisuseError
from tallystick.overwriting import refuse_of_run
from tallystick.runs.result import TABLES

if TYPE_CHECKING:
    from tallystick.coordinates.results import IncidentChange
    from tallystick.coordinates.rules.topic_messages import Origin
    from tallystick.settings import Settings
    from tallystick.streaming.answers import Absence

FILE = "alerts.sqlite"
"""In the directory of the audit."""
DRAIN_S = 10.0


class SinkNumbers(NamedTuple):
    """How it is with one sink."""

    label: str
    queued: int
    sent: int
    failed: int
    dropped: int
    is_up: bool


def sinks_of(settings: Settings, notice: Callable[[str], None]) -> list[tuple[Request, Sink]]:
    """The sinks that the settings name.

    Raises:
        MisuseError: One is not known, or would write over what the audit keeps, or the secret
            cannot be read.
    """
    context = Context(notice, read_secret(settings.alerts_secret_file))
    requests = requests_of(settings.alerts)
    for request in requests:
        if request.name == "log" and request.target:
            refuse_of_run(request.target, settings.directory / "audit")
    return [(request, open_sink(request, context)) for request in requests]


@final
class Alerts:
    """A context manager: the threads run while it is entered.

    Args:
        directory: The audit's own.
        settings: Which sinks, and how many alerts wait for one.
        notice: Takes a line for people.

    Raises:
        MisuseError: A sink is not known, or the queue cannot be opened.
    """

    def __init__(
        self,
        directory: Path,
        settings: Settings,
        notice: Callable[[str], None],
    ) -> None:
        self._notice = notice
        self._lost = 0
        sinks = sinks_of(settings, notice)
        path = directory / FILE
        try:
            self._store = AlertStore(
                path,
                growth=settings.alerts_growth,
                queue_max=settings.alerts_queue,
                notice=notice,
            )
            dropped = self._store.forget_other_sinks(request.key for request, _ in sinks)
            opened = [one for one in self._store.open() if one["rule"] in absence.RULES]
        except (OSError, sqlite3.Error) as error:
            reason = getattr(error, "strerror", None) or error
            raise MisuseError(
                f"the queue of alerts, {str(path)!r}, cannot be opened: {reason}"
            ) from error
        self._absent: dict[str, Alert] = {alert["instance"]: alert for alert in opened}
        if dropped:
            notice(f"alerts: {dropped:,} waited for sinks that are not set any more: dropped")
        self._workers = [SinkWorker(request, sink, self._store, notice) for request, sink in sinks]
        if self._store.was_damaged:
            self._alert_again(directory / TABLES, settings)

    def __enter__(self) -> Alerts:
        """Start to deliver, first what an earlier run has left."""
        for worker in self._workers:
            worker.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Deliver what can be delivered at once; what is left waits for the next run."""
        for worker in self._workers:
            worker.close()
        deadline = time.monotonic() + DRAIN_S
        for worker in self._workers:
            worker.join(max(deadline - time.monotonic(), 0))
            worker.sink.close()
        for worker in self._workers:
            worker.join(1)
            left = self._store.waiting(worker.request.key)
            if left:
                self._notice(f"alerts: {left:,} wait for {worker.request.label}, for the next run")
        self._store.close()

    def take(
        self,
        changes: Sequence[IncidentChange],
        origin: Origin,
        absences: Mapping[str, Absence | None],
    ) -> None:
        """Queue what is to be alerted; what goes wrong here is shown, and stops no audit.

        Args:
            changes: Of incidents, in their order.
            origin: What alerts have of the fleet.
            absences: Instances without a row, and with None those that are there, or need not be.
        """
        alerts = [alert_of(change, origin) for change in changes]
        absent = dict(self._absent)
        for name, after in absences.items():
            for alert in absence.changes(absent.get(name), after, origin):
                alerts.append(alert)
                absent[name] = alert
        absent = {name: alert for name, alert in absent.items() if alert["status"] != RESOLVED}
        if not alerts:
            return
        keys = [(w.request.key, w.request.label, w.sink.repeat_s is not None)
                for w in self._workers]  # fmt: skip
        try:
            dropped = self._store.take(alerts, keys)
        except (OSError, sqlite3.Error) as error:
            self._lost += len(alerts)
            reason = getattr(error, "strerror", None) or error
            self._notice(f"alerts of {len(alerts):,} changes cannot be queued: {reason}")
            return
        self._absent = absent
        if dropped:
            self._lost += dropped
            self._notice(f"alerts: the queue is full, {dropped:,} are dropped")
        for worker in self._workers:
            worker.look()

    def _alert_again(self, tables: Path, settings: Settings) -> None:
        """The queue is lost: what is open, as the tables have it, is alerted once more."""
        from tallystick.coordinates.results import IncidentChange, IncidentChangeKind
        from tallystick.coordinates.rules.topic_messages import Origin
        from tallystick.streaming.table_reader import read_incidents

        origin = Origin(settings.topic_prefix, now_us(), settings.page_url)
        grown = IncidentChangeKind.GROWN
        incidents = [one for one in read_incidents(tables) if one.is_open]
        self.take([IncidentChange(grown, one, one.last_seen_ts) for one in incidents], origin, {})

    @property
    def lost(self) -> int:
        """How many could not be queued, or were dropped since the queue was full."""
        return self._lost

    def numbers(self) -> Iterator[SinkNumbers]:
        """How it is with each sink now."""
        for worker in self._workers:
            yield SinkNumbers(
                worker.request.label,
                self._store.waiting(worker.request.key),
                worker.sent,
                worker.failed,
                worker.dropped,
                worker.is_up,
            )
