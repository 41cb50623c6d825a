"""Which cluster each instance belongs to: servers that replicate with one another.

Instances are compared with those of their own cluster. Whose label changes is read in the other
cluster as an instance whose journal begins, and a source in another cluster is named as such.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tallystick.coordinates.audit.fleet_events import FleetEventKind
from tallystick.coordinates.audit.topology import describe_source, instance_key, source_key
from tallystick.coordinates.results import Check, Observation, ObservationCode, SubjectCheck
from tallystick.coordinates.rules.between import NOT_IN_FLEET, SOURCE_ELSEWHERE
from tallystick.coordinates.rules.observations import CLUSTER_CHANGED
from tallystick.coordinates.state_codec import Bytes, encode, restore

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tallystick.coordinates.audit.cut import Cut
    from tallystick.coordinates.audit.fleet_events import FleetEvent


@dataclass(slots=True)
class Home:
    """Where an instance belongs.

    Attributes:
        cluster: The cluster that its journal names; empty: none.
        label: The cluster that it is shown with; None: not known.
        server_uuid: The last that it has shown; None: not known.
    """

    cluster: str
    label: str | None = None
    server_uuid: str | None = None


@dataclass(eq=False)
class Homes:
    """The clusters of all instances.

    Attributes:
        of: By instance.
        moved: The instances that were of another cluster before.
    """

    of: dict[str, Home] = field(default_factory=dict)
    moved: dict[str, None] = field(default_factory=dict)

    def enter(self, instance_id: str, cluster: str) -> Iterator[Observation]:
        """An instance's journal goes on, in a cluster.

        Yields:
            An observation if that is another one than before: what it showed there is not held
            against what follows.
        """
        home = self.of.get(instance_id)
        if home is None:
            self.of[instance_id] = Home(cluster)
        elif home.cluster != cluster:
            data = {"before": _name(home.cluster), "cluster": _name(cluster)}
            self.of[instance_id] = Home(cluster, server_uuid=home.server_uuid)
            self.moved[instance_id] = None
            yield Observation.of_no_record(
                ObservationCode.JOURNAL_GAP,
                _name(cluster),
                CLUSTER_CHANGED.code,
                data,
                instance_id=instance_id,
            )

    def _identify(self, instance_id: str, server_uuid: str | None, label: str | None) -> None:
        home = self.of.get(instance_id)
        if home is not None:
            home.server_uuid = server_uuid or home.server_uuid
            home.label = label or home.label

    def forget(self, instance_id: str) -> None:
        """An instance is no member of the fleet any more."""
        self.of.pop(instance_id, None)
        self.moved.pop(instance_id, None)

    def identify_all(self, cuts: Iterable[Cut], events: Iterable[FleetEvent]) -> None:
        """What rows and starts show of who instances are, in the order of their journals."""
        for event in events:
            if event.kind is FleetEventKind.BOOT:
                body = event.body
                self._identify(event.instance_id, body.get("server_uuid"), body.get("cluster"))
        for cut in cuts:
            self._identify(cut.instance_id, cut.server_uuid, cut.cluster)

    def away(self) -> dict[str, str]:
        """The clusters of the instances that were of another one before."""
        return {name: self.of[name].cluster for name in self.moved}

    def labels(self) -> dict[str, str]:
        """The clusters that instances are shown with, where they are known."""
        named = {name: home.cluster or home.label for name, home in self.of.items()}
        return {name: label for name, label in named.items() if label}

    def name_sources(
        self, observations: Sequence[Observation], checks: Sequence[SubjectCheck]
    ) -> tuple[list[Observation], list[SubjectCheck]]:
        """The same, with a reason of their own where a missing source is in another cluster."""
        keys: dict[str | None, str] = {}
        for name, home in sorted(self.of.items(), reverse=True):
            keys[source_key(name, None)] = keys[source_key(None, home.server_uuid)] = name
        known = {describe_source(key): name for key, name in keys.items() if key is not None}

        def elsewhere(
            instance_id: str, reason: str, data: Mapping[str, object]
        ) -> dict[str, str] | None:
            other = known.get(str(data.get("source")))
            here = self.of.get(instance_id)
            if reason != NOT_IN_FLEET.code or other is None or here is None:
                return None
            home = self.of[other].cluster
            if home == here.cluster:
                return None
            is_named = data["source"] == describe_source(instance_key(other))
            named = {"source": "the source"} if is_named else {}
            return {"other": other, "home": _name(home), **named}

        def of_check(one: SubjectCheck) -> SubjectCheck:
            found = elsewhere(one.instance_id, one.check.reason, one.check.data)
            if found is None:
                return one
            data = {**one.check.data, **found}
            check = Check(one.check.rule, one.check.outcome, SOURCE_ELSEWHERE.code, data)
            return one._replace(check=check)

        def of_observation(one: Observation) -> Observation:
            found = elsewhere(one.instance_id, one.reason, one.data)
            if found is None:
                return one
            return replace(one, reason=SOURCE_ELSEWHERE.code, data={**one.data, **found})

        return [of_observation(one) for one in observations], [of_check(one) for one in checks]

    def to_bytes(self) -> bytes:
        """The state."""
        return encode(Homes, self)

    def restore(self, data: Bytes) -> None:
        """Go on from the state that ``to_bytes`` gave.

        Raises:
            StateVersionError: Another version of tallystick has written the bytes.
            StateDamagedError: They are cut short, or have changed.
        """
        restore(self, data, "the clusters")


def _name(cluster: str) -> str:
    return f"cluster {cluster}" if cluster else "no cluster"
