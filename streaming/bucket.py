"""A bucket: the audits of its instances and of their clusters, between two micro-batches.

It is the same whoever holds it: the stateful operator in a Python worker, the driver at the end of
a run, a test.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tallystick.coordinates.audit.instance import AuditOutput
from tallystick.streaming.audit_log import AuditLog
from tallystick.streaming.fleet_log import FleetLog, Span, by_cluster

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tallystick.coordinates.audit.finding_collector import FleetOutput
    from tallystick.streaming.audit_log import Entry, Store
    from tallystick.streaming.fleet_log import FleetStore
    from tallystick.streaming.instance_step import BlockRow, JournalKey, KeyResult
    from tallystick.streaming.orders import Orders


@dataclass(frozen=True, slots=True)
class Judging:
    """How everything is judged.

    Attributes:
        disabled: Names of rules that are switched off.
        listed: The only instances that are judged; None: all.
        wait_us: How long a comparison waits, in the time of the journal that is compared.
    """

    disabled: frozenset[str] = frozenset()
    listed: frozenset[str] | None = None
    wait_us: int = 0


class Numbers(NamedTuple):
    """Which entries the two logs have."""

    next_number: int
    fleet: Span


class Ends(NamedTuple):
    """What the end of a run brings: of each instance, and by cluster."""

    instances: list[AuditOutput]
    clusters: dict[str, FleetOutput]


class Bucket:
    """The audits as they are after the last step.

    Args:
        judging: How it judges.
        audits: Entries of the instances' log.
        fleets: Entries of the clusters' log.
        numbers: What ``numbers`` was when they were written; None: not known.
    """

    def __init__(
        self,
        judging: Judging,
        audits: Iterable[tuple[int, Entry]] = (),
        fleets: Iterable[Entry] = (),
        numbers: Numbers | None = None,
    ) -> None:
        next_number, span = numbers or (None, None)
        self._audits = AuditLog(judging.disabled, audits, next_number)
        self._fleets = FleetLog(judging.disabled, judging.listed, judging.wait_us, fleets, span)

    @property
    def numbers(self) -> Numbers:
        """Which entries the logs have now."""
        return Numbers(self._audits.next_number, self._fleets.span)

    @property
    def fleet_bytes(self) -> int:
        """The size of what the clusters' audits are made from."""
        return self._fleets.kept_bytes

    def step(
        self,
        messages: Mapping[JournalKey, Sequence[BlockRow]],
        orders: Orders,
        audits: Store,
        fleets: FleetStore,
    ) -> tuple[dict[JournalKey, KeyResult], dict[str, FleetOutput]]:
        """Take the messages of a micro-batch.

        Args:
            messages: By journal, in any order.
            orders: What the driver knows.
            audits: The instances' log.
            fleets: The clusters' log.

        Returns:
            What each instance and each cluster has brought.
        """
        results = self._audits.step(messages, audits)
        events = by_cluster((*key, result.fleet_events) for key, result in results.items())
        return results, self._fleets.step(events, orders, fleets)

    def finish(self, orders: Orders, *, goes_on: bool) -> Ends:
        """All journals end here.

        Args:
            orders: What the driver knows.
            goes_on: Whether something may be missing at their ends: what waits for more is then
                undecided.
        """
        ends = self._audits.finish()
        events = by_cluster(
            (*key, [event for output in outputs for event in output.fleet_events])
            for key, outputs in ends.items()
        )
        outputs = [output for of_journal in ends.values() for output in of_journal]
        return Ends(outputs, self._fleets.end(events, orders, goes_on=goes_on))

    def pause(self, orders: Orders) -> Ends:
        """The run ends, and the journals go on: what waits is undecided."""
        return Ends([], self._fleets.end({}, orders, goes_on=True))
