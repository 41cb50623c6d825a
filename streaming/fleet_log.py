"""The audits between the instances of a bucket's clusters, and the log they are made again from.

Each cluster has an audit of its own, so that nothing depends on which clusters share a bucket. An
audit is a pure function of what it has taken, and what one micro-batch adds is small beside the
state: so this is written, and now and then the states, when the log begins again.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from tallystick.coordinates.audit.culprits import culprits, evidence_refused
from tallystick.coordinates.audit.finding_collector import FleetOutput
from tallystick.coordinates.audit.fleet import FleetAudit
from tallystick.coordinates.audit.fleet_events import FleetEvent, FleetEventKind
from tallystick.coordinates.audit.instance import failure_text
from tallystick.coordinates.results import ObservationCode
from tallystick.coordinates.rules.observations import COMPARISONS_UNREADABLE
from tallystick.coordinates.state_codec import decode, encode
from tallystick.coordinates.values.errors import StateDamagedError, StateError
from tallystick.streaming.audit_log import Entry, head_checksum
from tallystick.streaming.doubts import doubt
from tallystick.streaming.membership import INSTANCES_MAX, not_compared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tallystick.coordinates.results import Observation
    from tallystick.streaming.orders import Orders

LOG_BYTES_MIN = 1 << 16
"""States are not written for a log that is smaller."""
LOG_OF_STATE = 4
"""States are written when the log since the last ones has so many times their bytes."""
LOG_ENTRIES_MAX = 256
"""A new process reads no more entries of a cluster than so many."""

_STATE, _TAKEN = "state", "taken"


class Span(NamedTuple):
    """The numbers of the entries that a log has: ``first`` to ``end``, exclusive."""

    first: int = 0
    end: int = 0


class FleetStore(Protocol):
    """Where the log is kept; all that is done to it counts together, or not at all."""

    def read(self) -> Iterable[Entry]:
        """All entries, in any order."""
        ...

    def append(self, entries: list[Entry]) -> None:
        """Add entries."""
        ...

    def clear(self) -> None:
        """Remove all entries."""
        ...


@dataclass(frozen=True, slots=True)
class _Taken:
    """What one cluster's audit has taken in one step, in this order."""

    retired: list[str] = field(default_factory=list)
    events: list[FleetEvent] = field(default_factory=list)
    expired: dict[str, int] = field(default_factory=dict)


class FleetLog:
    """The audits of some clusters as they are after the last step.

    Args:
        disabled: Names of rules that are switched off.
        listed: The only instances that are judged; None: all.
        wait_us: How long a comparison waits, in the time of the journal that is compared.
        entries: The log, as ``FleetStore.read`` returns it.
        span: What ``span`` was when it was written; None: not known.

    Attributes:
        audits: By cluster.
        span: Of the log.
    """

    def __init__(
        self,
        disabled: frozenset[str] = frozenset(),
        listed: frozenset[str] | None = None,
        wait_us: int = 0,
        entries: Iterable[Entry] = (),
        span: Span | None = None,
    ) -> None:
        self._disabled = disabled
        self._listed = listed
        self._wait_us = wait_us
        self._begin()
        try:
            self._load(sorted(entries), span)
        except StateError as error:
            self._begin()
            self._lost, self.span = str(error), span or Span()

    def _begin(self) -> None:
        self.audits: dict[str, FleetAudit] = {}
        self.span = Span()
        self._state_bytes = self._log_bytes = self._log_entries = 0
        self._lost = ""

    def _load(self, entries: Sequence[Entry], span: Span | None) -> None:
        numbers = [entry.number for entry in entries]
        if span is None:
            span = Span(numbers[0], numbers[-1] + 1) if entries else Span()
        if numbers != list(range(*span)):
            raise StateDamagedError("an entry of the log of comparisons is missing")
        self.span = span
        for entry in entries:
            if head_checksum(*entry[:3]) != entry.check:
                raise StateDamagedError(
                    f"entry {entry.number} of the log of comparisons is damaged"
                )
            [cluster] = json.loads(entry.names)
            if entry.kind == _STATE:
                self.audits[cluster] = FleetAudit.from_bytes(entry.data, self._disabled)
                self._state_bytes += len(entry.data)
                continue
            taken: _Taken = decode(_Taken, entry.data, "the log of comparisons")
            try:
                _take(self._audit(cluster), taken)
            except Exception as error:
                raise StateDamagedError(failure_text(error)) from error
            self._note(entry)

    def _audit(self, cluster: str) -> FleetAudit:
        return self.audits.setdefault(cluster, FleetAudit(self._disabled))

    def _note(self, entry: Entry) -> None:
        self._log_bytes += len(entry.data)
        self._log_entries += 1

    @property
    def kept_bytes(self) -> int:
        """The size of the states that were written last, and of the log since."""
        return self._state_bytes + self._log_bytes

    # Steps

    def step(
        self,
        events: Mapping[str, Mapping[str, Sequence[FleetEvent]]],
        orders: Orders,
        store: FleetStore,
    ) -> dict[str, FleetOutput]:
        """Compare what a micro-batch has shown; whatever is raised stays with what raises it.

        Args:
            events: By cluster and instance, in the order of its journal.
            orders: What the driver knows.
            store: Has the log as it was before, and takes what is added.

        Returns:
            By cluster.
        """
        outputs = {}
        entries = []
        before: dict[str, FleetAudit] | None = None

        def begin_again(cluster: str) -> bytes:
            nonlocal before
            if before is None:
                log = FleetLog(self._disabled, self._listed, 0, store.read(), self.span)
                before = log.audits
            return before.get(cluster, FleetAudit(self._disabled)).to_bytes()

        def judge(audit: FleetAudit, taken: _Taken) -> tuple[FleetOutput, bytes]:
            return _take(audit, taken), encode(_Taken, taken)

        for cluster in sorted(self.audits.keys() | events.keys()):
            taken, beyond = self._taken(cluster, events.get(cluster, {}), orders)
            if taken != _Taken():
                output, data = self._contained(cluster, taken, orders.at, judge, begin_again)
                outputs[cluster] = output
                entries.append((cluster, data))
            if beyond:
                outputs.setdefault(cluster, FleetOutput()).observations += beyond
        self._write(entries, outputs, orders.at, store)
        return outputs

    def end(
        self,
        events: Mapping[str, Mapping[str, Sequence[FleetEvent]]],
        orders: Orders,
        *,
        goes_on: bool,
    ) -> dict[str, FleetOutput]:
        """The last step; nothing of it is written.

        Args:
            events: As of ``step``.
            orders: What the driver knows.
            goes_on: Whether the journals go on: what waits is then undecided.
        """
        outputs = {}

        def judge(audit: FleetAudit, taken: _Taken) -> tuple[FleetOutput, bytes]:
            return _joined(_take(audit, taken), audit.give_up() if goes_on else audit.finish()), b""

        for cluster in sorted(self.audits.keys() | events.keys()):
            state = self._audit(cluster).to_bytes()
            taken, _ = self._taken(cluster, events.get(cluster, {}), orders)

            def begin_again(_: str, state: bytes = state) -> bytes:
                return state

            outputs[cluster], _ = self._contained(cluster, taken, orders.at, judge, begin_again)
        self._report_lost(outputs, orders.at)
        return outputs

    def _taken(
        self, cluster: str, events: Mapping[str, Sequence[FleetEvent]], orders: Orders
    ) -> tuple[_Taken, list[Observation]]:
        """What a cluster's audit takes: nothing of who is retired, or one instance too many."""
        known = self._audit(cluster).reader.members.keys()
        gone = sorted(
            name
            for name in known
            if orders.away.get(name, cluster) != cluster
            or name in orders.retired
            or (self._listed is not None and name not in self._listed)
        )
        kept = {
            name: of if name not in orders.retired else _since_start(of, orders.retired[name])
            for name, of in events.items()
        }
        new = sorted(name for name, of in kept.items() if of and name not in known)
        beyond = new[max(0, INSTANCES_MAX - len(known)) :] if self._listed is None else ()
        left_out = set(beyond)
        taken = [event for name, of in kept.items() if name not in left_out for event in of]
        expired: Counter[str] = Counter()
        for event in taken if orders.is_caught_up else ():
            expired[event.instance_id] = max(expired[event.instance_id], event.ts)
        before = {name: ts - self._wait_us for name, ts in expired.items()}
        return _Taken(gone, taken, before), [*map(not_compared, beyond)]

    def _contained(
        self,
        cluster: str,
        taken: _Taken,
        at: str,
        judge: Callable[[FleetAudit, _Taken], tuple[FleetOutput, bytes]],
        begin_again: Callable[[str], bytes],
    ) -> tuple[FleetOutput, bytes]:
        """A cluster's step; without what an instance shows or has shown, where that raises.

        Args:
            cluster: The cluster.
            taken: What it takes.
            at: What the step is called.
            judge: Makes the step.
            begin_again: Returns the state before the step.
        """
        try:
            return judge(self._audit(cluster), taken)
        except Exception:  # noqa: BLE001  whose evidence it is, and what, is found out
            state = begin_again(cluster)
        before = FleetAudit.from_bytes(state, self._disabled)
        names = {event.instance_id for event in taken.events} | before.reader.members.keys()

        def of(some: Iterable[str]) -> tuple[FleetAudit, tuple[FleetOutput, bytes]]:
            left_out = names.difference(some)
            audit = FleetAudit.from_bytes(state, self._disabled)
            events = [event for event in taken.events if event.instance_id not in left_out]
            retired = sorted({*taken.retired, *left_out})
            expired = {name: ts for name, ts in taken.expired.items() if name not in left_out}
            return audit, judge(audit, _Taken(retired, events, expired))

        refused = culprits(names, of)
        self.audits[cluster], (output, data) = of(names - refused.keys())
        output.observations += evidence_refused(refused, at)
        return output, data

    # Writing the log

    def _write(
        self,
        taken: list[tuple[str, bytes]],
        outputs: dict[str, FleetOutput],
        at: str,
        store: FleetStore,
    ) -> None:
        entries = [self._entry(_TAKEN, cluster, data) for cluster, data in taken]
        for entry in entries:
            self._note(entry)
        is_long = self._log_bytes > max(LOG_BYTES_MIN, LOG_OF_STATE * self._state_bytes)
        is_long |= self._log_entries >= LOG_ENTRIES_MAX * max(1, len(self.audits))
        if is_long or self._lost:
            store.clear()
            self.span = Span(self.span.end, self.span.end)
            entries = [
                self._entry(_STATE, cluster, audit.to_bytes())
                for cluster, audit in sorted(self.audits.items())
            ]
            self._state_bytes = sum(len(entry.data) for entry in entries)
            self._log_bytes = self._log_entries = 0
        if entries:
            store.append(entries)
        self._report_lost(outputs, at)

    def _report_lost(self, outputs: dict[str, FleetOutput], at: str) -> None:
        """The log could not be read: all comparisons have begun anew."""
        if self._lost:
            code = ObservationCode.STATE_UNREADABLE
            seen = doubt(code, at, COMPARISONS_UNREADABLE, error=self._lost)
            outputs.setdefault("", FleetOutput()).observations.append(seen)
            self._lost = ""

    def _entry(self, kind: str, cluster: str, data: bytes) -> Entry:
        number, names = self.span.end, json.dumps([cluster])
        self.span = self.span._replace(end=number + 1)
        return Entry(number, kind, names, data, head_checksum(number, kind, names))


def _since_start(events: Sequence[FleetEvent], retired_ts: int) -> Sequence[FleetEvent]:
    """What a retired instance has shown since it has started again."""
    for at, event in enumerate(events):
        if event.kind is FleetEventKind.BOOT and event.ts > retired_ts:
            return events[at:]
    return ()


def _take(audit: FleetAudit, taken: _Taken) -> FleetOutput:
    for name in taken.retired:
        audit.retire(name)
    output = audit.absorb(taken.events)
    if taken.expired:
        output = _joined(output, audit.expire(taken.expired))
    output.waiting = audit.waiting()
    return output


def _joined(first: FleetOutput, second: FleetOutput) -> FleetOutput:
    return FleetOutput(
        first.findings + second.findings,
        first.observations + second.observations,
        first.checks + second.checks,
    )


def by_cluster(
    results: Iterable[tuple[str, str, Sequence[FleetEvent]]],
) -> dict[str, dict[str, Sequence[FleetEvent]]]:
    """Fleet events by cluster and instance."""
    found: dict[str, dict[str, Sequence[FleetEvent]]] = defaultdict(dict)
    for cluster, instance_id, events in results:
        found[cluster][instance_id] = events
    return found
