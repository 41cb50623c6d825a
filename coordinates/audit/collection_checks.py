"""The checks of a collection: what every rule says of each instance and channel at that point.

Rules on a row answer with the row. Rules of events only show when they are broken, rules between
instances answer later: a breach that comes to light after its collection was put together belongs
to the next one. From then on it is shown at every collection, as a broken history stays broken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tallystick.coordinates.audit.cut import Cut
from tallystick.coordinates.results import (
    Check,
    Finding,
    Observation,
    ObservationCode,
    Outcome,
    SubjectCheck,
    gravest,
)
from tallystick.coordinates.rules.catalogue import RULES
from tallystick.coordinates.rules.log_stream import RELAY_SOURCE_POS_MONOTONE
from tallystick.coordinates.rules.observations import LOG_NOT_READ, RELAY_LOG_NOT_READ
from tallystick.coordinates.state_codec import COLLABORATOR, Bytes, encode, restore

SUBJECT = "subject"
"""The scope of a row that only holds checks, of an instance or channel without a row of its own."""

_GAPS = {ObservationCode.JOURNAL_GAP, ObservationCode.BLOCK_UNREADABLE}
_Subject = tuple[str, str | None]


@dataclass(eq=False)
class CollectionChecks:
    """Puts the checks of all rules beside the rows of each collection.

    Attributes:
        disabled: Rules that are not judged.
        waiting: What came to light since the last collection.
        broken: The newest breach of each rule on each subject that a collection has shown.
    """

    disabled: frozenset[str] = field(default=frozenset(), metadata=COLLABORATOR)
    waiting: list[SubjectCheck] = field(default_factory=list)
    broken: list[SubjectCheck] = field(default_factory=list)

    def absorb(
        self,
        findings: Iterable[Finding],
        observations: Iterable[Observation] = (),
        checks: Iterable[SubjectCheck] = (),
    ) -> None:
        """Take what the audit of instances and fleet brought."""
        self.waiting += map(_of_finding, findings)
        for seen in observations:
            self.waiting += self._of_observation(seen)
        self.waiting += checks

    @property
    def has_breach(self) -> bool:
        """Whether a breach has come to light that no collection has shown."""
        return any(one.check.outcome is Outcome.BROKEN for one in self.waiting)

    def of(self, cuts: Sequence[Cut], *, is_last: bool = False) -> list[Cut]:
        """The rows of a collection, each with the checks of all rules on its subject.

        Args:
            cuts: The collection's rows, as the audit gave them.
            is_last: No collection follows: what is about a later time belongs to this one.

        Returns:
            The rows, and for each other subject with a check a row of the scope ``SUBJECT``.
        """
        upto = max((cut.ts for cut in cuts), default=0)
        now = [one for one in self.waiting if is_last or one.ts <= upto]
        self.waiting = [one for one in self.waiting if not is_last and one.ts > upto]
        newest = {_key(one): one for one in self.broken}
        for one in now:
            # A comparison that is still broken does not repeat the witness of its finding.
            if one.check.outcome is Outcome.BROKEN and (
                "witness" in one.check.data or _key(one) not in newest
            ):
                newest[_key(one)] = one
        self.broken = list(newest.values())
        found: dict[_Subject, dict[str, Check]] = {}
        # The breaches come first: of equals the first stays, and these have a witness.
        for one in _at_one_collection([*self.broken, *now, *self._of_rows(cuts)]):
            subject = found.setdefault((one.instance_id, one.channel), {})
            subject[one.check.rule] = one.check
        rows = [
            replace(cut, checks=_by_rule(found.get((cut.instance_id, cut.channel), {})))
            for cut in cuts
        ]
        with_row = {(cut.instance_id, cut.channel) for cut in cuts}
        collection_id = cuts[0].collection_id if cuts else "the end"
        return rows + [
            Cut(
                collection_id=collection_id,
                instance_id=instance_id,
                scope=SUBJECT,
                channel=channel,
                ts=upto,
                checks=_by_rule(checks),
            )
            for (instance_id, channel), checks in found.items()
            if (instance_id, channel) not in with_row
        ]

    def _of_rows(self, cuts: Sequence[Cut]) -> Iterator[SubjectCheck]:
        for cut in cuts:
            for check in (*cut.checks, *self._of_events(cut)):
                yield SubjectCheck(cut.instance_id, cut.channel, cut.collection_id, cut.ts, check)

    def _of_events(self, cut: Cut) -> Iterator[Check]:
        """Rules of events hold where the log was read and no breach has come to light."""
        if cut.answer != "row":
            return
        is_channel = cut.channel is not None
        if is_channel:
            is_read = cut.journal_relay_log_file is not None or not cut.relay_log_file
            why = RELAY_LOG_NOT_READ
        else:
            is_read, why = cut.journal_gtid_set is not None, LOG_NOT_READ
        for name in self._event_rules(is_channel):
            if cut.reason:
                yield Check(name, Outcome.UNDECIDED, cut.reason)
            elif is_read:
                yield Check(name, Outcome.HOLDS)
            else:
                yield Check(name, Outcome.UNDECIDED, why.code)

    def _event_rules(self, is_channel: bool) -> Iterator[str]:
        for name, rule in RULES.items():
            is_of_relay = rule is RELAY_SOURCE_POS_MONOTONE
            if rule.scope == "E" and is_of_relay is is_channel and name not in self.disabled:
                yield name

    def _of_observation(self, seen: Observation) -> Iterator[SubjectCheck]:
        if not seen.is_undecided:
            return
        rules: Iterable[str] = seen.rules
        if seen.code in _GAPS:
            rules = self._event_rules(is_channel=False)
        values = _values(seen, seen.data)
        for name in rules:
            check = Check(name, Outcome.UNDECIDED, seen.reason, values)
            yield SubjectCheck(
                seen.instance_id, seen.channel, seen.collection_id or "", seen.ts, check
            )

    def to_bytes(self) -> bytes:
        """The state."""
        return encode(CollectionChecks, self)

    def restore(self, data: Bytes) -> None:
        """Go on from the state that ``to_bytes`` gave.

        Raises:
            StateVersionError: Another version of tallystick has written the bytes.
            StateDamagedError: They are cut short, or have changed.
        """
        restore(self, data, "the checks")


def _of_finding(finding: Finding) -> SubjectCheck:
    values = _values(finding, finding.data) | {"witness": finding.witness}
    check = Check(finding.rule, Outcome.BROKEN, finding.case, values)
    return SubjectCheck(
        finding.instance_id, finding.channel, finding.collection_id or "", finding.ts, check
    )


def _values(shown: Finding | Observation, data: Mapping[str, Any]) -> dict[str, Any]:
    """What the texts of a case or reason may name."""
    return {
        **data,
        "at": shown.at,
        "instance": shown.instance_id,
        "channel": shown.channel,
        "collection": shown.collection_id,
    }


def _key(one: SubjectCheck) -> tuple[str, str, str | None]:
    return one.check.rule, one.instance_id, one.channel


def _at_one_collection(checks: Iterable[SubjectCheck]) -> list[SubjectCheck]:
    return gravest(replace(one, collection_id="") for one in checks)


def _by_rule(checks: Mapping[str, Check]) -> tuple[Check, ...]:
    return tuple(check for _, check in sorted(checks.items()))
