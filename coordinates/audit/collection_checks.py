"""The checks of a collection: what every rule says of each instance and channel at that point.

Rules on a row answer with the row. Rules of events only show when they are broken, rules between
instances answer later: a breach that comes to light after its collection was put together belongs
to the next one. From then on it is shown at every collection, as a broken history stays broken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain
from typing import Any

from tallystick.coordinates.audit.cut import Cut
from tallystick.coordinates.results import (
    Check,
    Finding,
    Observation,
    ObservationCode,
    Outcome,
    SubjectCheck,
    Verdict,
    held,
)
from tallystick.coordinates.rules.catalogue import COMPARISONS, RULES
from tallystick.coordinates.rules.identity import instances_of
from tallystick.coordinates.rules.innodb import CAPACITY_UNKNOWN
from tallystick.coordinates.rules.log_stream import RELAY_SOURCE_POS_MONOTONE
from tallystick.coordinates.rules.observations import (
    FIELD_NOT_GIVEN,
    GTID_MODE_NOT_KNOWN,
    LOG_NOT_READ,
    RELAY_LOG_NOT_READ,
)
from tallystick.coordinates.rules.redo_log import (
    COMMITS_NOT_BOUND,
    REDO_EVENT_NOT_SEEN,
    REDO_LOG_NOT_READ,
    REDO_RULES,
)
from tallystick.coordinates.state_codec import COLLABORATOR, Bytes, encode, restore

SUBJECT = "subject"
"""The scope of a row that only holds checks, of an instance or channel without a row of its own."""

_UNREAD = tuple(
    why.code
    for why in (
        LOG_NOT_READ,
        RELAY_LOG_NOT_READ,
        REDO_LOG_NOT_READ,
        FIELD_NOT_GIVEN,
        GTID_MODE_NOT_KNOWN,
    )
)
_REDO_UNSEEN = tuple(
    why.code
    for why in (REDO_LOG_NOT_READ, REDO_EVENT_NOT_SEEN, COMMITS_NOT_BOUND, CAPACITY_UNKNOWN)
)
_GAPS = {
    ObservationCode.JOURNAL_GAP,
    ObservationCode.JOURNAL_REPEATED,
    ObservationCode.JOURNAL_REUSED,
    ObservationCode.JOURNAL_STALE_EPOCH,
    ObservationCode.BLOCK_UNREADABLE,
}
"""What leaves the rules of events undecided, where it leaves anything so."""
_DOUBTS = frozenset(code for one in COMPARISONS.values() for code in one.doubts)
"""What instances show of each other where a row alone has nothing against it."""
_Subject = tuple[str, str | None]


@dataclass(eq=False)
class CollectionChecks:
    """Makes the table of checks: what each rule says of each subject at each collection.

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
        for finding in findings:
            self.waiting += checks_of_finding(finding)
        for seen in observations:
            self.waiting += self._of_observation(seen)
        self.waiting += checks

    def retire(self, instance_id: str) -> None:
        """Nothing of the instance is shown any more."""
        self.waiting = [one for one in self.waiting if one.instance_id != instance_id]
        self.broken = [one for one in self.broken if one.instance_id != instance_id]

    def of(self, cuts: Sequence[Cut], *, is_last: bool = False) -> list[SubjectCheck]:
        """The checks of a collection: of each rule on each subject one, the gravest.

        Args:
            cuts: The collection's rows, as the audit gave them.
            is_last: No collection follows: what is about a later time belongs to this one.
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
        collection_id = cuts[0].collection_id if cuts else "the end"
        # The breaches come first: of equals the first stays, and these have a witness.
        checks = (((one.instance_id, one.channel), (one.check,)) for one in (*self.broken, *now))
        # By subject, as the rows of a large fleet bring a million checks.
        kept: dict[_Subject, dict[str, Check]] = {}
        for subject, some in chain(checks, self._of_rows(cuts)):
            of_subject = kept.setdefault(subject, {})
            for check in some:
                known = of_subject.get(check.rule)
                if known is None or check.is_graver(known):
                    of_subject[check.rule] = check
        return [
            SubjectCheck(*subject, collection_id, upto, check)
            for subject, of_subject in kept.items()
            for check in of_subject.values()
        ]

    def _of_rows(self, cuts: Sequence[Cut]) -> Iterator[tuple[_Subject, Iterable[Check]]]:
        # Rules of events say the same of most rows.
        of_events = cache(self._of_events)
        for cut in cuts:
            checks = cut.checks
            if cut.answer == "row":
                is_channel = cut.channel is not None
                if is_channel:
                    is_read = cut.journal_relay_log_file is not None or not cut.relay_log_file
                else:
                    is_read = cut.journal_gtid_set is not None
                is_redo_read = cut.journal_written_lsn is not None
                checks = *checks, *of_events(is_channel, is_read, is_redo_read, cut.reason)
            yield (cut.instance_id, cut.channel), checks

    def _of_events(
        self, is_channel: bool, is_read: bool, is_redo_read: bool, reason: str
    ) -> list[Check]:
        """Rules of events hold where the log was read and no breach has come to light."""
        log = is_read, RELAY_LOG_NOT_READ if is_channel else LOG_NOT_READ
        redo_log = is_redo_read, REDO_LOG_NOT_READ
        checks = []
        for name in self._event_rules(is_channel):
            is_known, why = redo_log if RULES[name] in REDO_RULES else log
            if reason:
                checks.append(Check(name, Outcome.UNDECIDED, reason))
            elif is_known:
                checks.append(held(name))
            else:
                checks.append(Check(name, Outcome.UNDECIDED, why.code))
        return checks

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
            rules = self._event_rules(is_channel=seen.channel is not None)
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


def checks_of_finding(finding: Finding) -> Iterator[SubjectCheck]:
    """The checks that a finding breaks: one for each instance that it is about."""
    values = _values(finding, finding.data) | {"witness": finding.witness}
    check = Check(finding.rule, Outcome.BROKEN, finding.case, values)
    for name in sorted(instances_of(finding)):
        yield SubjectCheck(name, finding.channel, finding.collection_id or "", finding.ts, check)


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


def rows_with_checks(cuts: Sequence[Cut], checks: Iterable[SubjectCheck]) -> list[Cut]:
    """The rows of a collection, each with the checks of all rules on its subject.

    Args:
        cuts: The collection's rows.
        checks: Its checks; of one rule and subject the first counts.

    Returns:
        The rows, and for each other subject with a check a row of the scope ``SUBJECT``.
    """
    found: dict[_Subject, dict[str, Check]] = {}
    for one in checks:
        of_subject = found.setdefault((one.instance_id, one.channel), {})
        of_subject.setdefault(one.check.rule, one.check)
    made = {
        subject: tuple(check for _, check in sorted(of_subject.items()))
        for subject, of_subject in found.items()
    }
    rows = [replace(cut, checks=made.get((cut.instance_id, cut.channel), ())) for cut in cuts]
    with_row = {(cut.instance_id, cut.channel) for cut in cuts}
    return rows + [
        Cut(
            collection_id=cuts[0].collection_id if cuts else "the end",
            instance_id=subject[0],
            scope=SUBJECT,
            channel=subject[1],
            ts=max((cut.ts for cut in cuts), default=0),
            checks=of_subject,
        )
        for subject, of_subject in made.items()
        if subject not in with_row
    ]


def checks_of_history(
    cuts: Iterable[Cut],
    findings: Iterable[Finding],
    observations: Iterable[Observation],
    checks: Iterable[SubjectCheck],
    disabled: frozenset[str] = frozenset(),
) -> list[SubjectCheck]:
    """The checks of every collection of a finished history, oldest first.

    Args:
        cuts: All rows.
        findings: All findings.
        observations: All observations.
        checks: Those of rules between instances.
        disabled: Rules that are not judged.
    """
    audit = CollectionChecks(disabled)
    audit.absorb(findings, observations, checks)
    rounds = collections_of(cuts) or [[]]
    return [one for rows in rounds for one in audit.of(rows, is_last=rows is rounds[-1])]


def collections_of(cuts: Iterable[Cut]) -> list[list[Cut]]:
    """The rows of each collection, oldest collection first."""
    grouped: dict[str, list[Cut]] = {}
    for cut in cuts:
        grouped.setdefault(cut.collection_id, []).append(cut)
    # That of most, as one instance's clock may be wrong.
    return sorted(grouped.values(), key=lambda rows: sorted(cut.ts for cut in rows)[len(rows) // 2])


def undecided_by_collection(
    checks: Iterable[SubjectCheck], cuts: Iterable[Cut]
) -> dict[str, list[SubjectCheck]]:
    """The checks that leave the verdict of their collection undecided, by collection.

    Args:
        checks: The table of checks.
        cuts: The rows.
    """
    verdicts = verdicts_of_rows(cuts)
    found: dict[str, list[SubjectCheck]] = {}
    for one in checks:
        if one.check.outcome is Outcome.UNDECIDED:
            verdict = verdicts.get((one.collection_id, one.instance_id, one.channel), "")
            if not is_optional(one.check, verdict):
                found.setdefault(one.collection_id, []).append(one)
    return found


def verdicts_of_rows(cuts: Iterable[Cut]) -> dict[tuple[str, str, str | None], str]:
    """The verdict of each row, by its collection, instance and channel."""
    return {(cut.collection_id, cut.instance_id, cut.channel): cut.verdict for cut in cuts}


def is_optional(check: Check, verdict: str) -> bool:
    """Whether an undecided check leaves the verdict of its row as it is.

    What the audit cannot judge on a row that it calls CONSISTENT all the same (relay logs that
    nobody reads) does; comparisons and gaps do not.
    """
    if check.reason in _REDO_UNSEEN:
        return True  # no other rule needs these events
    if check.reason in _DOUBTS:
        return False
    rule = RULES.get(check.rule)
    is_of_row = rule is not None and rule.scope in ("S", "T")
    return verdict == Verdict.CONSISTENT.value and (is_of_row or check.reason in _UNREAD)
