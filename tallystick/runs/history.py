"""A run's whole period, by sums of hours: what a report has beside its newest collections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tallystick.coordinates.results import Verdict
from tallystick.coordinates.rules.explanation import moment

Integers = NDArray[np.int64]
_GRAVITY = (Verdict.CONSISTENT, Verdict.UNDECIDED, Verdict.INCONSISTENT)
_OF_ROWS = ("collections", "consistent", "undecided", "inconsistent", "unanswered")


@dataclass(frozen=True)
class History:
    """Sums of all hours.

    Attributes:
        hours: Rows of the table ``hours``, each key once, times in microseconds.
        observations: How many observations there are.
        doubts: The times of those that leave the verdict undecided, microseconds.
    """

    hours: pa.Table
    observations: int
    doubts: Integers

    @cached_property
    def _of_fleet(self) -> NDArray[np.bool_]:
        return np.asarray(self.hours["instance_id"].is_null())

    def _column(self, name: str) -> Integers:
        return np.asarray(self.hours[name])

    @property
    def period(self) -> tuple[int, int]:
        """The times of the oldest and of the newest row, microseconds; there is one."""
        return int(self._column("first_ts").min()), int(self._column("last_ts").max())

    @property
    def collections(self) -> int:
        """How many collections there were."""
        return int(self._column("collections")[self._of_fleet].sum())

    @property
    def counts(self) -> dict[str, int]:
        """Of the whole period, as ``RunResult.counts`` has them."""
        channels = self.hours.filter(self.hours["channel"].is_valid())
        checks = self._column("checks_held") + self._column("checks_broken")
        return {
            "instances": len(self.by_instance),
            "channels": len(channels.group_by(["instance_id", "channel"]).aggregate([])),
            "collections": self.collections,
            "checks": int(checks.sum()),
            "observations": self.observations,
        }

    def since(self, verdict: Verdict) -> list[int]:
        """When a verdict was reached, by the first row of each hour with it, microseconds."""
        times = self._column("first_ts")[self._column(verdict.value.lower()) > 0]
        if verdict is Verdict.UNDECIDED:
            times = np.concatenate((times, np.maximum(self.doubts, self.period[0])))
        return list(map(int, times))

    @property
    def verdicts(self) -> list[Verdict]:
        """Those of all rows, collections and observations."""
        return [verdict for verdict in _GRAVITY if self.since(verdict)]

    @property
    def reasons(self) -> list[str]:
        """Why the period is undecided, one line each."""
        hours = len(np.unique(self._column("hour")[self._column("undecided") > 0]))
        made = [f"rows or collections of {hours:,} hours are undecided"] if hours else []
        if len(self.doubts):
            doubts = np.maximum(self.doubts, self.period[0])
            times = f"from {moment(int(doubts.min()))} to {moment(int(doubts.max()))}"
            made.append(f"{len(self.doubts):,} observations leave checks undecided, {times}")
        return made

    @cached_property
    def by_instance(self) -> dict[str, dict[str, int]]:
        """The counts of each instance's own rows, without those of its channels."""
        # Neither the fleet, which has none, nor what is undecided of no instance.
        is_named = pc.greater(pc.fill_null(pc.utf8_length(self.hours["instance_id"]), 0), 0)
        rows = self.hours.filter(pc.and_(is_named, self.hours["channel"].is_null())).group_by(
            "instance_id"
        )
        sums = rows.aggregate([(name, "sum") for name in _OF_ROWS])
        return {
            row["instance_id"]: {name: row[f"{name}_sum"] for name in _OF_ROWS}
            for row in sums.sort_by("instance_id").to_pylist()
        }

    def rows_before(self, before: int, number: Mapping[str, int]) -> Integers:
        """The hours of each instance that began before a time, in microseconds.

        Args:
            before: That time.
            number: A number of each instance.

        Returns:
            Five rows: the instance's number, the hour's first and last time, 2 if anything was
            undecided in it, else 1, and whether anything undecided was answered.
        """
        is_earlier = pc.and_(
            self.hours["instance_id"].is_valid(), pc.less(self.hours["first_ts"], before)
        )
        rows = self.hours.filter(is_earlier)
        return np.array(
            [
                [number[name] for name in rows["instance_id"].to_pylist()],
                np.asarray(rows["first_ts"]),
                np.minimum(np.asarray(rows["last_ts"]), before - 1),
                np.where(np.asarray(rows["undecided"]) > 0, 2, 1),
                np.asarray(rows["unanswered"]) < np.asarray(rows["undecided"]),
            ],
            np.int64,
        )
