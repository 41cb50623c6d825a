"""What is known of each instance at its newest row, wherever it was read."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.values.errors import GtidSetParseError
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tallystick.coordinates.answers.group_log import GroupLog
    from tallystick.coordinates.audit.cut import Cut
    from tallystick.coordinates.results import Incident, SubjectCheck

SCHEMA_VERSION = 1
"""Of the JSON documents."""


@dataclass(frozen=True, kw_only=True)
class InstanceEvidence:
    """The newest row of an instance.

    Attributes:
        instance_id: Whose.
        row: Its row of the cut table; None: there is none.
        channels: The rows of its channels at that collection.
        since_us: When the row was true, microseconds; by the earlier of the observer's clock and
            of the one that wrote it down, so that no clock makes it younger than it is.
        problem: Why there is no row, or none of a newer request; empty: it is the newest answer.
    """

    instance_id: str
    row: Cut | None = None
    channels: Sequence[Cut] = ()
    since_us: int = 0
    problem: str = ""

    @cached_property
    def executed(self) -> GtidSet | None:
        """None: not known."""
        return None if self.row is None else read_set(self.row.gtid_executed)

    @cached_property
    def purged(self) -> GtidSet | None:
        """None: not known."""
        return None if self.row is None else read_set(self.row.gtid_purged)

    @cached_property
    def logged(self) -> GtidSet | None:
        """What its binary log has had up to the row's position. None: not known."""
        return None if self.row is None else read_set(self.row.journal_gtid_set)

    @cached_property
    def retrieved(self) -> dict[str, GtidSet | None]:
        """What each channel has received, by its name. None: not known."""
        # Not what the journal shows: that has the group that is arriving, too.
        return {cut.channel or "": read_set(cut.retrieved_gtid_set) for cut in self.channels}

    @property
    def server_uuid(self) -> str | None:
        """None: not known."""
        return None if self.row is None else self.row.server_uuid


def read_set(text: str | None) -> GtidSet | None:
    """A cell of the cut table; None: not known, or unreadable."""
    try:
        return None if text is None else GtidSet.parse(text)
    except GtidSetParseError:
        return None


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """All that an answer is made of.

    Attributes:
        kind: Where it was read: ``job``, ``journal`` or ``servers``.
        source: The directory, file or servers, for people.
        now_us: When the question was asked.
        instances: By name.
        incidents: All that are known.
        checks: The newest check of a rule between instances, by instance and rule.
        group_log: Where the groups are, of a journal that was read whole; None: not known.
    """

    kind: str
    source: str
    now_us: int
    instances: Mapping[str, InstanceEvidence]
    incidents: Sequence[Incident] = ()
    checks: Mapping[tuple[str, str], SubjectCheck] = field(default_factory=dict)
    group_log: GroupLog | None = None

    @cached_property
    def by_uuid(self) -> dict[str, str]:
        """The instance of each server_uuid, where only one has it."""
        holders: dict[str, list[str]] = {}
        for name, one in self.instances.items():
            if one.server_uuid is not None:
                holders.setdefault(one.server_uuid, []).append(name)
        return {uuid: names[0] for uuid, names in holders.items() if len(names) == 1}

    def sources_of(self, name: str) -> list[str]:
        """The instances that one replicates from, directly; those that are not known left out."""
        uuids = (cut.source_uuid for cut in self.instances[name].channels)
        found = (self.by_uuid.get(uuid) for uuid in uuids if uuid is not None)
        return list(dict.fromkeys(one for one in found if one is not None))

    def upstreams_of(self, name: str) -> list[str]:
        """The instances that one replicates from, directly or not; itself in a ring."""
        found: dict[str, None] = {}
        todo = [name]
        while todo:
            for source in self.sources_of(todo.pop()):
                if source not in found:
                    found[source] = None
                    todo.append(source)
        return list(found)

    def age_s(self, since_us: int) -> float:
        """How old evidence is; negative: it is of a time that has not come yet."""
        return (self.now_us - since_us) / 1e6

    def document(self, question: str, asked: str, *, is_decided: bool) -> dict[str, Any]:
        """What each JSON document has of the question and of the evidence."""
        return {
            "schema_version": SCHEMA_VERSION,
            "question": question,
            "asked": asked,
            "is_decided": is_decided,
            "evidence": {
                "kind": self.kind,
                "source": self.source,
                "asked_us": self.now_us,
                "instances": {
                    name: {
                        "evidence_us": None if one.row is None else one.since_us,
                        "age_s": None if one.row is None else round(self.age_s(one.since_us), 3),
                        "problem": one.problem,
                    }
                    for name, one in self.instances.items()
                },
            },
        }


def by_origin(gtids: GtidSet) -> Iterator[tuple[str, GtidSet]]:
    """The GTIDs of each UUID."""
    for uuid in gtids.uuids():
        yield uuid, gtids.restrict(uuid)
