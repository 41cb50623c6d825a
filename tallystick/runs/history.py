"""A run's whole period, by sums of hours: what a report has beside its newest collections."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tallystick.coordinates.results import Finding, Verdict
from tallystick.coordinates.rules.explanation import moment
from tallystick.coordinates.rules.identity import instances_of

Integers = NDArray[np.int64]
_GRAVITY = (Verdict.CONSISTENT, Verdict.UNDECIDED, Verdict.INCONSISTENT)
_OF_ROWS = ("collections", "consistent", "undecided", "inconsistent", "unanswered")
FLEET = ""
"""In place of an instance: collections as a whole."""


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
            times = np.concatenate((times, self.doubts))
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
            times = f"from {moment(int(self.doubts.min()))} to {moment(int(self.doubts.max()))}"
            made.append(f"{len(self.doubts):,} observations leave checks undecided, {times}")
        return made

    @cached_property
    def by_instance(self) -> dict[str, dict[str, int]]:
        """The counts of each instance's own rows, without those of its channels."""
        is_own = pc.and_(self.hours["instance_id"].is_valid(), self.hours["channel"].is_null())
        rows = self.hours.filter(is_own).group_by("instance_id")
        sums = rows.aggregate([(name, "sum") for name in _OF_ROWS])
        return {
            row["instance_id"]: {name: row[f"{name}_sum"] for name in _OF_ROWS}
            for row in sums.sort_by("instance_id").to_pylist()
        }

    def worst_of_parts(
        self, count: int, findings: Iterable[Finding]
    ) -> dict[str, dict[int, Verdict]]:
        """The worst verdict in each of equal parts of the period.

        Args:
            count: How many parts.
            findings: Each counts in its own part, on the instances that it is about.

        Returns:
            For each instance, and for ``FLEET``, the verdict by part; none where nothing was asked.
        """
        first, last = self.period
        hours = np.clip(self._column("hour"), first, last)
        gravity = np.select(
            [self._column("inconsistent") > 0, self._column("undecided") > 0], [2, 1], 0
        )
        rows = pa.table(
            {
                "name": pc.fill_null(self.hours["instance_id"], FLEET),
                "part": (hours - first) * count // (last - first + 1),
                "worst": gravity,
            }
        )
        worst: dict[str, dict[int, Verdict]] = {FLEET: {}}
        for row in rows.group_by(["name", "part"]).aggregate([("worst", "max")]).to_pylist():
            worst.setdefault(row["name"], {})[row["part"]] = _GRAVITY[row["worst_max"]]
        for finding in findings:
            at = (min(max(finding.ts, first), last) - first) * count // (last - first + 1)
            for name in instances_of(finding):
                worst.setdefault(name, {})[at] = Verdict.INCONSISTENT
        for parts in list(worst.values()):
            for at, verdict in parts.items():
                worst[FLEET][at] = Verdict.merge((verdict, worst[FLEET].get(at, verdict)))
        return worst
