"""A simulated fleet that lives: its virtual time follows a real clock, its journal goes to a sink.

It answers requests for collections. With planned moments virtual time waits at each of them until
a request arrives, so that a seed produces the same history however slow the rest of the machine is.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, final

from tallystick.coordinates.events.collect_request import CollectRequest
from tallystick.producers.kafka_clients.errors import SupersededError
from tallystick.producers.publisher import EventSink
from tallystick.producers.simulator.assemble import Fleet

STEP_S = 0.1
"""How long the fleet waits for requests before it moves on."""


class Requests(Protocol):
    """Where requests come from."""

    def poll(self, timeout_s: float) -> list[CollectRequest]:
        """Return what arrived, after at most the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How virtual time passes.

    Attributes:
        speed: Virtual seconds in a real second.
        moments: Virtual times, in microseconds, at which collections are answered, one each;
            None: whenever one is asked for.
        ends_at: Virtual time at which the fleet ends; None: it does not.
    """

    speed: float
    moments: Sequence[int] | None = None
    ends_at: int | None = None


@final
class LiveFleet:
    """Runs a fleet against a real clock.

    Args:
        fleet: The simulation.
        sink: Takes its blocks.
        requests: Where collections are asked for.
        pace: How virtual time passes.
        epochs: Those of the journals: above all that are in the topic; without one 0.
        superseded: Returns the instances whose journals somebody else writes now.
        answered: Called with the id of each collection that is answered.
        clock: Seconds that never fall.

    Attributes:
        records: How many records were handed to the sink.
        collections: How many collections were answered.
    """

    def __init__(
        self,
        fleet: Fleet,
        sink: EventSink,
        requests: Requests,
        *,
        pace: Pace,
        epochs: Mapping[str, int] | None = None,
        superseded: Callable[[], Mapping[str, SupersededError]] = dict,
        answered: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fleet = fleet
        self._sink = sink
        self._requests = requests
        self._pace = pace
        self._epochs = epochs or {}
        self._superseded = superseded
        self._answered = answered
        self._clock = clock
        self._moments = None if pace.moments is None else list(pace.moments)
        self.records = 0
        self.collections = 0

    def run(self, stop: threading.Event) -> None:
        """Live until the end of the plan or until it is to stop; everything is delivered then.

        Raises:
            DeliveryError: A block was not acknowledged.
            SupersededError: Somebody else writes one of the journals now.
        """
        last = self._clock()
        while not stop.is_set() and not self._has_ended():
            for request in self._requests.poll(STEP_S):
                self._answer(request)
            for error in self._superseded().values():
                raise error
            now = self._clock()
            self._advance(self._fleet.now + int((now - last) * self._pace.speed * 1_000_000))
            last = now
        self._sink.flush()

    def _has_ended(self) -> bool:
        return self._pace.ends_at is not None and self._fleet.now >= self._pace.ends_at

    def _answer(self, request: CollectRequest) -> None:
        if not any(request.concerns(name) for name in self._fleet.instances):
            return
        if self._moments is not None:
            if not self._moments:
                return
            self._advance(self._moments[0])
            del self._moments[0]
        # Of the fleet's own clock, as every other time in its journal.
        self._fleet.collect(request.collection_id, self._fleet.now)
        self.collections += 1
        if self._answered is not None:
            self._answered(request.collection_id)

    def _advance(self, to_ts: int) -> None:
        limits = [to_ts]
        if self._moments:
            limits.append(self._moments[0])
        if self._pace.ends_at is not None:
            limits.append(self._pace.ends_at)
        if min(limits) <= self._fleet.now:
            return  # waiting for a request: no heartbeats of one and the same moment
        for block in self._fleet.advance(min(limits)).values():
            self._sink.send(replace(block, epoch=self._epochs.get(block.instance_id, 0)))
            self.records += len(block)
