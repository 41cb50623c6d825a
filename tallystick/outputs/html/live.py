"""What the page has beside a result while it follows a run, and the part of a result it shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from urllib.parse import urlencode

import pyarrow as pa
import pyarrow.compute as pc

from tallystick.coordinates.results import Verdict
from tallystick.coordinates.rules.identity import instances_of
from tallystick.given_times import utc_time
from tallystick.runs.result import RunResult

_TEXT_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """What is known of the run itself.

    Attributes:
        newest_at: When its newest collection was written, seconds since 1970; None: it has none.
        is_stale: That is too long ago to know anything of now.
        stale_after_s: How long is too long.
        is_earlier: The result is as of an earlier time.
        later: The collection after the result's newest one, if the result is as of an earlier time
            and that one is known in detail.
    """

    newest_at: float | None
    is_stale: bool
    stale_after_s: float
    is_earlier: bool
    later: str | None = None

    @property
    def newest_text(self) -> str | None:
        """That time in UTC."""
        if self.newest_at is None:
            return None
        at = datetime.fromtimestamp(self.newest_at, timezone.utc)
        return at.strftime("%Y-%m-%d %H:%M:%S UTC")


@dataclass(frozen=True, slots=True)
class Query:
    """What a reader asks for.

    Attributes:
        instance: A part of the names of the instances that are shown.
        cluster: Only instances of this cluster.
        collection: As of this collection.
        at: As of this time, as a browser writes it, UTC.
    """

    instance: str = ""
    cluster: str = ""
    collection: str | None = None
    at: str = ""

    @classmethod
    def of(cls, values: Mapping[str, str]) -> Query:
        """From an address.

        Raises:
            ValueError: Its time is none: what is now is not shown in its place.
        """
        texts = {name: values.get(name, "")[:_TEXT_MAX] for name in ("instance", "cluster")}
        at = values.get("at", "")
        if at:
            at = utc_time(at).astimezone(timezone.utc).replace(tzinfo=None).isoformat()
        return cls(**texts, collection=values.get("collection") or None, at=at)

    @property
    def ts(self) -> int | None:
        """The time, microseconds."""
        if not self.at:
            return None
        return int(utc_time(self.at).timestamp() * 1_000_000)

    @property
    def is_earlier(self) -> bool:
        """Whether the result is to be as of an earlier time."""
        return self.collection is not None or self.ts is not None

    @property
    def is_of_part(self) -> bool:
        """Whether only some instances are asked for."""
        return bool(self.instance or self.cluster)

    def address(self, **changes: str | None) -> str:
        """The address of the page with other values."""
        names = ("instance", "cluster", "collection", "at")
        values = {name: getattr(self, name) for name in names} | changes
        return "?" + urlencode({n: v for n, v in values.items() if v}, errors="backslashreplace")


def clusters_of(result: RunResult) -> dict[str, str]:
    """The cluster of each instance: its label, or that of the source of all its sources.

    Where neither has one, all that replicate with each other are one, named by the first of them.
    """
    labels = {cut.instance_id: cut.cluster for cut in result.cuts if cut.cluster}
    names = {cut.instance_id for cut in result.cuts}
    first = {name: name for name in names}

    def find(name: str) -> str:
        while first.setdefault(name, name) != name:
            name = first[name]
        return name

    sources = {edge.source for edge in result.topology} - {e.replica for e in result.topology}
    for edge in result.topology:
        one, other = find(edge.source), find(edge.replica)
        # A source that feeds all names its cluster.
        low, high = sorted((one, other), key=lambda name: (name not in sources, name))
        first[high] = low
    return {name: labels.get(name) or labels.get(find(name), find(name)) for name in names}


def part_of(result: RunResult, query: Query, clusters: Mapping[str, str]) -> RunResult:
    """The result of the instances that are asked for."""
    names = {cut.instance_id for cut in result.cuts}
    if query.instance:
        names = {name for name in names if query.instance.lower() in name.lower()}
    if query.cluster:
        names = {name for name in names if clusters.get(name) == query.cluster}
    history = result.history
    if history is not None:
        kept = pc.is_in(
            history.hours["instance_id"], value_set=pa.array(sorted(names), pa.string())
        )
        hours = history.hours.filter(kept)
        history = replace(history, hours=hours) if len(hours) else None
    return replace(
        result,
        cuts=[cut for cut in result.cuts if cut.instance_id in names],
        checks=[one for one in result.checks if one.instance_id in names],
        found=[one for one in result.found if instances_of(one) & names],
        incidents=[one for one in result.incidents if instances_of(one.finding) & names],
        observations=[one for one in result.observations if one.instance_id in names],
        # Of the whole fleet; here they show only which collections are closed.
        validations=[{**row, "verdict": Verdict.CONSISTENT.value} for row in result.validations],
        history=history,
    )
