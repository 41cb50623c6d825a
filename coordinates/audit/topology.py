"""Who replicates from whom, and which instance a `server_uuid` means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tallystick.coordinates.audit.instance_timeline import InstanceTimeline
    from tallystick.coordinates.audit.origins import Origins
    from tallystick.coordinates.values.gtid import GtidSet

_BY_INSTANCE = "i:"
_BY_UUID = "u:"


@dataclass(frozen=True, slots=True)
class Edge:
    """One channel. `source` is None when the source is not in the fleet, or not known."""

    source: str | None
    replica: str
    channel: str
    source_uuid: str | None


def source_key(source_instance: str | None, source_uuid: str | None) -> str | None:
    """What is known of a source as one text: the instance if known, else its `server_uuid`."""
    if source_instance:
        return instance_key(source_instance)
    return _BY_UUID + source_uuid if source_uuid else None


def instance_key(instance_id: str) -> str:
    """An instance, as `source_key` gives it."""
    return _BY_INSTANCE + instance_id


def describe_source(key: str) -> str:
    """The source for a sentence."""
    kind, name = key[:2], key[2:]
    return f"instance {name}" if kind == _BY_INSTANCE else f"server_uuid {name}"


class Fleet:
    """The instances by name and by `server_uuid`, and what their logs claim of GTIDs."""

    def __init__(
        self,
        timelines: Mapping[str, InstanceTimeline],
        origins: Origins,
        holders: dict[str, list[str]],
    ) -> None:
        self._timelines = timelines
        self.origins = origins
        self.holders = holders
        self._executing: dict[str, dict[int, InstanceTimeline]] | None = None
        self._naming: dict[str, dict[int, InstanceTimeline]] = {}

    def changed(self) -> None:
        """More is known of the instances."""
        self._executing = None

    def _index(self) -> dict[str, dict[int, InstanceTimeline]]:
        """Instances, numbered, by the counters of which they have executed GTIDs at any time."""
        if self._executing is None:
            executing: dict[str, dict[int, InstanceTimeline]] = {}
            self._executing, self._naming = executing, {}
            for number, timeline in enumerate(self._timelines.values()):
                for sid in {*timeline.logged().sids(), *timeline.beyond.sids()}:
                    executing.setdefault(sid, {})[number] = timeline
                for key in timeline.named:
                    self._naming.setdefault(key, {})[number] = timeline
        return self._executing

    def executing(self, gtids: GtidSet, but: str) -> list[InstanceTimeline]:
        """Instances that may have executed some of these GTIDs, but for one."""
        index = self._index()
        found = {number: one for sid in gtids.sids() for number, one in index.get(sid, {}).items()}
        return [one for _, one in sorted(found.items()) if one.instance_id != but]

    def naming(self, keys: Iterable[str], but: str) -> list[InstanceTimeline]:
        """Instances that have named one of these source keys at any time, but for one."""
        self._index()
        found = {number: one for key in keys for number, one in self._naming.get(key, {}).items()}
        return [one for _, one in sorted(found.items()) if one.instance_id != but]

    def learn(self, server_uuid: str, instance_id: str) -> None:
        """An instance reports a `server_uuid`."""
        holders = self.holders.setdefault(server_uuid, [])
        if instance_id not in holders:
            holders.append(instance_id)
            holders.sort()

    def find(self, key: str, ts: int) -> list[InstanceTimeline]:
        """The instances that a source key may mean at `ts`: none, one, or several that clash."""
        kind, name = key[:2], key[2:]
        if kind == _BY_INSTANCE:
            timeline = self._timelines.get(name)
            return [] if timeline is None else [timeline]
        timelines = [self._timelines[holder] for holder in self.holders.get(name, ())]
        return [timeline for timeline in timelines if timeline.uuid_at(ts) == name]

    def all(self, but: str = "") -> list[InstanceTimeline]:
        """All instances, but for one."""
        return [one for name, one in self._timelines.items() if name != but]

    def numbering(self, uuids: Iterable[str], ts: int) -> list[InstanceTimeline]:
        """The instances that have, or had by `ts`, one of some ``server_uuid``."""
        names = sorted({name for one in uuids for name in self.holders.get(one, ())})
        timelines = [self._timelines[name] for name in names]
        return [one for one in timelines if not set(one.uuids_until(ts)).isdisjoint(uuids)]

    def keys_of(self, instance_id: str, ts: int) -> frozenset[str]:
        """The source keys that an instance has until `ts`."""
        uuids = self._timelines[instance_id].uuids_until(ts)
        return frozenset((_BY_INSTANCE + instance_id, *(_BY_UUID + one for one in uuids)))

    def uuid_of(self, instance_id: str, ts: int) -> str | None:
        """The `server_uuid` of an instance at `ts`, None not known."""
        timeline = self._timelines.get(instance_id)
        return None if timeline is None else timeline.uuid_at(ts)

    def is_ambiguous(self, timeline: InstanceTimeline, ts: int) -> bool:
        """Whether another instance reports the same `server_uuid` at `ts`."""
        server_uuid = timeline.uuid_at(ts)
        return server_uuid is not None and len(self.find(_BY_UUID + server_uuid, ts)) > 1

    def clashes(self, server_uuid: str) -> list[tuple[str, str]]:
        """Pairs of instances that report a `server_uuid` at one time, each pair in id order."""
        holders = self.holders.get(server_uuid, [])
        return [
            (first, second)
            for at, first in enumerate(holders)
            for second in holders[at + 1 :]
            if self._overlap(server_uuid, first, second)
        ]

    def _overlap(self, server_uuid: str, first: str, second: str) -> bool:
        spans = [
            [i for i in self._timelines[name].identities if i.server_uuid == server_uuid]
            for name in (first, second)
        ]
        return any(a.ts <= b.until and b.ts <= a.until for a in spans[0] for b in spans[1])

    def is_upstream(self, instance_id: str, of: InstanceTimeline, ts: int) -> bool:
        """Whether `of` replicates, directly or not, from the instance: a ring."""
        return any(timeline.instance_id == instance_id for timeline in self.upstreams([of], ts))

    def upstreams(self, of: Sequence[InstanceTimeline], ts: int) -> list[InstanceTimeline]:
        """The instances that these replicate from, directly or not, as of `ts`; in a ring, all."""
        found: dict[str, InstanceTimeline] = {}
        todo = list(of)
        while todo:
            for key in todo.pop().sources_at(ts):
                for timeline in self.find(key, ts):
                    if timeline.instance_id not in found:
                        found[timeline.instance_id] = timeline
                        todo.append(timeline)
        return list(found.values())
