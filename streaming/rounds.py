"""Rounds: the cuts of one collection put together, until every instance answered or a deadline.

Pure bookkeeping, without Spark, clock or files. A collection begins with its request or with its
first answer. Its deadline is in journal time, the latest ``ts`` that any instance's journal has
shown, or in the time of requests, which goes on when no journal does: a request that is followed by
others for so long has been left unanswered. While a backlog is read, one journal may be far ahead
of another that is still waiting in Kafka; deadlines pass only when everything that was there has
been read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tallystick.coordinates.audit.cut import Cut
from tallystick.coordinates.audit.missing_answers import missing_answer
from tallystick.coordinates.events.collect_request import CollectRequest
from tallystick.coordinates.results import Observation
from tallystick.coordinates.state_codec import Bytes, encode, restore

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

CLOSED_KEPT = 256
"""So many closed collections are remembered, to distinguish a late answer from a new collection."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """When a collection is closed although instances are missing.

    Attributes:
        after_us: So long after its first answer, in journal time.
        after_request_us: Or so long after its request, in the time of requests.
        after_collections: Or when so many later collections have answers.
    """

    after_us: int = 30_000_000
    after_request_us: int = 30_000_000
    after_collections: int = 3


@dataclass(frozen=True, slots=True)
class Round:
    """A collection that is complete, or as complete as it will be.

    Attributes:
        collection_id: Which collection.
        cuts: Its rows, by instance, scope and channel; a row of its own, with ``answer`` "missing",
            for each instance that did not answer.
        missing: Those instances.
        is_late: These answers came after the deadline; the other rows were validated before.
        ts: Journal time of its last row; without one, of when it was closed.
    """

    collection_id: str
    cuts: list[Cut]
    missing: tuple[str, ...]
    is_late: bool
    ts: int


@dataclass(slots=True)
class _Open:
    first_ts: int | None = None
    """Of its first answer."""
    requested_at: int | None = None
    asked: frozenset[str] | None = None
    """Instances; None: all."""
    cuts: dict[str, list[Cut]] = field(default_factory=dict)


@dataclass(init=False, eq=False)
class Rounds:
    """The open collections.

    Args:
        instances: Instances that must answer from the first collection on; others must once their
            journal has been seen.
        deadline: When not to wait any longer.
    """

    _known: set[str]
    _open: dict[str, _Open]
    _closed: dict[str, None]
    _ts: int
    _requests_ts: int

    def __init__(self, instances: Iterable[str] = (), deadline: Deadline | None = None) -> None:
        self._known = set(instances)
        self._deadline = deadline or Deadline()
        self._open = {}
        self._closed = {}
        self._ts = 0
        self._requests_ts = 0

    @property
    def open_count(self) -> int:
        """How many collections still wait."""
        return len(self._open)

    @property
    def overdue_ts(self) -> int:
        """What waits since before this time has waited past the deadline."""
        return self._ts - self._deadline.after_us

    def absorb(
        self,
        cuts: Iterable[Cut],
        seen: Mapping[str, int],
        requests: Iterable[CollectRequest] = (),
        *,
        is_caught_up: bool = True,
    ) -> tuple[list[Round], list[Observation]]:
        """New cuts, and how far each instance's journal has been seen (``ts``).

        Args:
            cuts: The cuts, in any order.
            seen: Instances whose journals went on.
            requests: Collections that were asked for, in any order.
            is_caught_up: No backlog is left, so what has not come yet is late.

        Returns:
            The rounds that are now complete or past the deadline, oldest first, and an observation
            for each answer that is missing.
        """
        self._known.update(seen)
        self._ts = max([self._ts, *seen.values()])
        for request in requests:
            self._ask(request)
        late: dict[str, list[Cut]] = {}
        for cut in sorted(cuts, key=_cut_order):
            self._ts = max(self._ts, cut.ts)
            if cut.collection_id in self._closed:
                late.setdefault(cut.collection_id, []).append(cut)
                continue
            opened = self._open.setdefault(cut.collection_id, _Open())
            is_first = opened.first_ts is None or cut.ts < opened.first_ts
            opened.first_ts = cut.ts if is_first else opened.first_ts
            opened.cuts.setdefault(cut.instance_id, []).append(cut)
        rounds = [
            Round(name, rows, (), is_late=True, ts=max(cut.ts for cut in rows))
            for name, rows in late.items()
        ]
        observations: list[Observation] = []
        rounds.extend(
            self._close(name, observations)
            for name in list(self._open)
            if self._is_complete(self._open[name])
            or (is_caught_up and self._is_past_deadline(name))
        )
        return rounds, observations

    def finish(self) -> tuple[list[Round], list[Observation]]:
        """Nothing more will come: close what is open."""
        observations: list[Observation] = []
        unanswerable = [n for n, o in self._open.items() if not (o.cuts or self._expected(o))]
        for name in unanswerable:
            del self._open[name]
        return [self._close(name, observations) for name in list(self._open)], observations

    def _ask(self, request: CollectRequest) -> None:
        self._requests_ts = max(self._requests_ts, request.requested_at)
        if request.collection_id not in self._closed:
            opened = self._open.setdefault(request.collection_id, _Open())
            opened.requested_at, opened.asked = request.requested_at, request.instances

    def _expected(self, opened: _Open) -> set[str]:
        return self._known if opened.asked is None else self._known & opened.asked

    def _is_complete(self, opened: _Open) -> bool:
        return bool(opened.cuts) and self._expected(opened) <= opened.cuts.keys()

    def _is_past_deadline(self, name: str) -> bool:
        opened, deadline = self._open[name], self._deadline
        if opened.requested_at is not None:
            overdue = opened.requested_at + deadline.after_request_us
            if overdue <= self._requests_ts and self._expected(opened):
                return True
        if opened.first_ts is None:
            return False
        after = list(self._open)[list(self._open).index(name) + 1 :]
        later = sum(self._open[other].first_ts is not None for other in after)
        return opened.first_ts <= self.overdue_ts or later >= deadline.after_collections

    def _close(self, name: str, observations: list[Observation]) -> Round:
        opened = self._open.pop(name)
        self._closed[name] = None
        while len(self._closed) > CLOSED_KEPT:
            del self._closed[next(iter(self._closed))]
        missing = tuple(sorted(self._expected(opened) - opened.cuts.keys()))
        cuts = [cut for rows in opened.cuts.values() for cut in rows]
        ts = max((cut.ts for cut in cuts), default=self._ts)
        for instance_id in missing:
            cut, observation = missing_answer(name, instance_id, ts)
            cuts.append(cut)
            observations.append(observation)
        return Round(name, sorted(cuts, key=_row_order), missing, is_late=False, ts=ts)

    def to_bytes(self) -> bytes:
        """The state."""
        return encode(Rounds, self)

    def restore(self, data: Bytes) -> None:
        """Go on from the state that ``to_bytes`` gave.

        Raises:
            StateVersionError: Another version of tallystick has written the bytes.
            StateDamagedError: They are cut short, or have changed.
        """
        instances = self._known
        restore(self, data, "the collections")
        self._known |= instances


def _row_order(cut: Cut) -> tuple[str, bool, str]:
    return (cut.instance_id, cut.scope != "instance", cut.channel or "")


def _cut_order(cut: Cut) -> tuple[int, str, int, int, bool, str]:
    return (cut.ts, cut.instance_id, cut.epoch, cut.sequence, cut.scope != "instance",
            cut.channel or "")  # fmt: skip
