"""Incidents: which breaches go on, which are over, and since when.

A finding opens an incident of its rule, subject and cause, or lets the one that is open grow. What
ends it the rule says (``Rule.healed_by``). It is resolved when the rule holds at a later collection
or when what was missing is executed, and superseded when what it was found in is no more: the data
were replaced, the log began anew, the channel was removed. Evidence that is missing ends nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from tallystick.coordinates.audit.fleet_events import FleetEventKind
from tallystick.coordinates.events.incident_control import ControlAction, IncidentControl
from tallystick.coordinates.results import (
    Acknowledgement,
    Finding,
    Incident,
    IncidentChange,
    IncidentChangeKind,
    IncidentState,
    Outcome,
    SubjectCheck,
    Verdict,
)
from tallystick.coordinates.rules.catalogue import RULES
from tallystick.coordinates.rules.identity import instances_of
from tallystick.coordinates.rules.replicated_gtids import no_errant_gtids
from tallystick.coordinates.state_codec import TRANSIENT, Bytes, encode, restore
from tallystick.coordinates.values.errors import GtidSetParseError
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tallystick.coordinates.audit.cut import Cut
    from tallystick.coordinates.audit.fleet_events import FleetEvent
    from tallystick.coordinates.rules.registry import Heals

CLOSED_KEPT_US = 7 * 86_400 * 1_000_000
"""So long an incident is remembered after its end, in case that it comes back."""
SEEN_EVERY_US = 1 << 31
"""An incident that only goes on is touched once in so long (36 minutes), a young one more often."""
SEEN_SHARE = 100
"""In a hundredth of its age: so what is shown of it is no older than that."""
CLOSED_MAX = 4_096
"""And so many at most; the one that ended first is forgotten first."""
EARLY_MAX = 1_024
"""So many messages wait for the incident that they are about."""
COUNTED_MAX = 256
"""So many of the newest findings of an incident are remembered, not to count one twice."""

_CAUSES = (
    "source", "sources", "other", "backup", "backup_id", "table", "name", "datum", "engine",
)  # fmt: skip
"""Values of findings that say what is concerned, or what it is held against."""
_RELAY_LOG_BEGINS = frozenset({"reset", "change_source", "relay_log_recovery"})


def cause_of(finding: Finding) -> dict[str, str]:
    """What a finding is held against: findings of one rule, subject and cause are one incident."""
    return {name: str(finding.data[name]) for name in _CAUSES if name in finding.data}


_Subject = tuple[str, str, str | None]
"""A rule, an instance, and a channel or None."""
IncidentKey = tuple[_Subject, str, tuple[tuple[str, str], ...]]
"""A subject, a case and a cause."""


def key_of(finding: Finding) -> IncidentKey:
    """What findings of one incident have in common."""
    return _subject(finding), finding.case, tuple(cause_of(finding).items())


class _Ended(NamedTuple):
    """Something of an instance is no more: its data, its binary log, a channel, a relay log."""

    instance_id: str
    channel: str | None
    what: Literal["data", "log", "channel", "replication"]
    ts: int
    since: int
    """What was found before this time was found in it."""

    def ends(self, incident: Incident) -> bool:
        """Whether the incident was found in what is no more."""
        heals = _heals(incident)
        is_state = heals == "held"
        if (incident.opened_ts if is_state else incident.last_seen_ts) >= self.since:
            return False
        if self.what == "data":
            return heals != "never" and self.instance_id in instances_of(incident.finding)
        if (self.instance_id, self.channel) != (incident.instance_id, incident.channel):
            return False
        if self.what == "replication":
            return is_state and incident.rule == no_errant_gtids.name
        if self.what == "channel":
            return heals in ("held", "log")
        return heals == "log" or (heals == "executed" and self.channel is None)


class _Executed(NamedTuple):
    """A row that is not contradicted has executed these GTIDs."""

    instance_id: str
    gtids: str
    ts: int


_Step = _Ended | Finding | SubjectCheck | _Executed


@dataclass(eq=False)
class Incidents:
    """All incidents of a fleet, and how they change.

    Attributes:
        open: Those that are not over, by their ids, acknowledged or not.
        closed: Those that ended not long ago, the one that ended first in front.
        counted: The ids of the newest findings of each open incident.
        ended: What was last found to be no more of each instance.
        early: What operators asked of incidents that are not known yet, by their ids.
        cloning_since: When the clone began that may replace an instance's data.
        now_ts: The latest time seen, microseconds.
        touched: What the last step changed, by its id, and at times what goes on.
    """

    open: dict[str, Incident] = field(default_factory=dict)
    closed: dict[str, Incident] = field(default_factory=dict)
    counted: dict[str, list[str]] = field(default_factory=dict)
    ended: dict[str, list[_Ended]] = field(default_factory=dict)
    early: dict[str, IncidentControl] = field(default_factory=dict)
    cloning_since: dict[str, int] = field(default_factory=dict)
    now_ts: int = 0
    touched: dict[str, Incident] = field(default_factory=dict, metadata=TRANSIENT)
    _changes: list[IncidentChange] = field(default_factory=list, metadata=TRANSIENT)
    _grown: dict[str, list[Finding]] = field(default_factory=dict, metadata=TRANSIENT)
    _by_key: dict[IncidentKey, str] = field(default_factory=dict, metadata=TRANSIENT)
    _by_subject: dict[_Subject, set[str]] = field(default_factory=dict, metadata=TRANSIENT)

    @classmethod
    def of(cls, known: Iterable[Incident]) -> Incidents:
        """Go on from what was shown of incidents, where the state itself is lost."""
        ordered = sorted(known, key=lambda one: one.closed_ts or 0)
        return cls(
            open={one.incident_id: one for one in ordered if one.is_open},
            closed={one.incident_id: one for one in ordered if not one.is_open},
            counted={one.incident_id: [one.incident_id] for one in ordered if one.is_open},
            now_ts=max((one.closed_ts or one.last_seen_ts for one in ordered), default=0),
        )

    def absorb(
        self,
        findings: Iterable[Finding] = (),
        cuts: Iterable[Cut] = (),
        checks: Iterable[SubjectCheck] = (),
        fleet_events: Iterable[FleetEvent] = (),
        controls: Iterable[IncidentControl] = (),
        *,
        clock_us: int | None = None,
    ) -> list[IncidentChange]:
        """Take what the audit of instances and fleet brought in one step.

        Args:
            findings: New ones, in any order.
            cuts: Rows with the checks of the rules on them.
            checks: Those of rules between instances.
            fleet_events: Among them is what replaced data, logs or channels.
            controls: What operators asked for, in the order of their topic.
            clock_us: The present time: no journal's is later. None: the latest time is the present.

        Returns:
            The changes; of what is found in one step an incident grows once.
        """
        self.touched, self._changes, self._grown = {}, [], {}
        self._by_key, self._by_subject = {}, {}
        for one in self.open.values():
            self._index(one)
        found = sorted(findings, key=lambda one: one.order)
        steps: list[tuple[int, int, _Step]] = [
            *((one.ts, 0, one) for one in self._ends(fleet_events)),
            *((one.ts, 1, one) for one in found),
            *self._judged(found, cuts, checks),
        ]
        steps.sort(key=lambda one: one[:2])
        for ts, _, step in steps:
            self.now_ts = max(self.now_ts, ts)
            self._take(step)
        for name in list(self._grown):
            self._grow(name)
        for control in controls:
            self.now_ts = max(self.now_ts, control.ts)
            self._obey(control)
        self._expire(self.now_ts if clock_us is None else min(self.now_ts, clock_us))
        return self._changes

    def newest(self) -> list[Incident]:
        """Every incident that is remembered, the oldest first."""
        known = (self.closed | self.open).values()
        return sorted(known, key=lambda one: (one.opened_ts, one.incident_id))

    # What a step brings

    def _ends(self, fleet_events: Iterable[FleetEvent]) -> Iterator[_Ended]:
        for event in fleet_events:
            self.now_ts = max(self.now_ts, event.ts)
            name, body = event.instance_id, event.body
            if event.kind is FleetEventKind.BOOT:
                # As after a crash; that of a clone that ended comes after its LINEAGE.
                self.cloning_since.pop(name, None)
            elif event.kind is FleetEventKind.CLONE:
                if body.get("role") == "recipient":
                    self._follow_clone(name, body, event.ts)
            elif event.kind is FleetEventKind.LINEAGE:
                if body["reason"] == "reset":
                    yield _Ended(name, None, "log", event.ts, event.ts)
                elif body["reason"] in ("cloned", "restored"):
                    # What a clone itself has broken is of the new data.
                    began = self.cloning_since.pop(name, event.ts)
                    since = began if body["reason"] == "cloned" else event.ts
                    yield _Ended(name, None, "data", event.ts, since)
            elif event.kind is FleetEventKind.CHANNEL:
                channel, action = body["channel"], body["action"]
                if action == "reset_all":
                    yield _Ended(name, channel, "channel", event.ts, event.ts)
                elif action in _RELAY_LOG_BEGINS:
                    yield _Ended(name, channel, "log", event.ts, event.ts)
            elif event.kind is FleetEventKind.STATUS and not body["channels"]:
                yield _Ended(name, None, "replication", event.ts, event.ts)

    def _follow_clone(self, name: str, body: Mapping[str, Any], ts: int) -> None:
        """What is found after one that has failed is of data that a later one replaces."""
        if body.get("step") == "begin":
            self.cloning_since[name] = ts
        elif body.get("step") == "end" and body.get("error") is not None:
            self.cloning_since.pop(name, None)

    def _judged(
        self, found: Sequence[Finding], cuts: Iterable[Cut], checks: Iterable[SubjectCheck]
    ) -> Iterator[tuple[int, int, _Step]]:
        """What collections say of rules that are, or were, broken; what is broken comes first."""
        known: list[Finding | Incident] = [*self.open.values(), *self.closed.values(), *found]
        wanted = {_subject(one) for one in known}
        lacking = {one.instance_id for one in known if _heals(one) == "executed"}
        subjects = {subject[1:] for subject in wanted}
        shown = list(checks) if wanted else []
        for cut in cuts if wanted else ():
            name, channel, ts = cut.instance_id, cut.channel, cut.ts
            if (name, channel) in subjects:
                shown += (SubjectCheck(name, channel, cut.collection_id, ts, c) for c in cut.checks)
            is_sound = channel is None and cut.verdict != Verdict.INCONSISTENT.value
            if name in lacking and is_sound and cut.gtid_executed:
                yield ts, 3, _Executed(name, cut.gtid_executed, ts)
        for one in shown:
            if (one.check.rule, one.instance_id, one.channel) in wanted:
                yield one.ts, 2 if one.check.outcome is Outcome.BROKEN else 3, one

    def _take(self, step: _Step) -> None:
        if isinstance(step, Finding):
            self._found(step)
        elif isinstance(step, SubjectCheck):
            self._checked(step)
        elif isinstance(step, _Executed):
            for one in self._all_open():
                self._compare(one, step)
        else:
            earlier = self.ended.get(step.instance_id, ())
            others = [one for one in earlier if one[1:3] != step[1:3]]
            self.ended[step.instance_id] = [*others, step]
            for one in self._all_open():
                self._supersede(one, step)

    # Opening and growing

    def _found(self, finding: Finding) -> None:
        name, known = finding.finding_id, self._by_key.get(key_of(finding))
        if known is not None:
            if name not in self.counted[known]:
                self.counted[known] = [*self.counted[known][1 - COUNTED_MAX :], name]
                self._grown.setdefault(known, []).append(finding)
            return
        ended = self.closed.get(name)
        if ended is None:
            self._open(_opened(finding), IncidentChangeKind.OPENED, finding.ts)
        elif finding.ts > ended.last_seen_ts:
            self._reopen(ended, finding.ts, count=ended.count + 1)
        else:
            return  # the journal repeats what is over
        for instance_id in sorted(instances_of(finding)):
            for ended_then in self.ended.get(instance_id, ()):
                if name in self.open:
                    self._supersede(self.open[name], ended_then)
        if name in self.open and name in self.early:
            self._obey(self.early.pop(name))

    def _grow(self, name: str) -> None:
        """Let an open incident grow by what was found of it in this step."""
        found = self._grown.pop(name, [])
        if found:
            one = self.open[name]
            newest = max(found, key=lambda finding: finding.order)
            gtids = _gtids([one.witness, *(finding.witness for finding in found)])
            grown = replace(
                one,
                last_seen_ts=max(one.last_seen_ts, newest.ts),
                count=one.count + len(found),
                witness=newest.witness if gtids is None else str(gtids),
            )
            self._put(grown, IncidentChangeKind.GROWN, newest.ts)

    def _reopen(self, one: Incident, ts: int, **changes: Any) -> None:
        del self.closed[one.incident_id]
        again = replace(
            one, state=IncidentState.OPEN, closed_ts=None, last_seen_ts=ts,
            acknowledgement=None, **changes,
        )  # fmt: skip
        self._open(again, IncidentChangeKind.REOPENED, ts)

    def _open(self, one: Incident, kind: IncidentChangeKind, ts: int) -> None:
        self._index(one)
        self.counted[one.incident_id] = [one.incident_id]
        self._put(one, kind, ts)

    # What ends one

    def _checked(self, said: SubjectCheck) -> None:
        subject = said.check.rule, said.instance_id, said.channel
        names, outcome = sorted(self._by_subject.get(subject, ())), said.check.outcome
        for name in names:
            self._grow(name)
            one = self.open[name]
            if _heals(one) != "held" or said.ts <= one.last_seen_ts:
                continue
            if outcome is Outcome.HOLDS:
                self._close(one, IncidentState.RESOLVED, said.ts)
            elif outcome is Outcome.BROKEN:
                self._see(one, said.ts)
        if outcome is Outcome.BROKEN and not names:
            # What was reported is not found again: the comparison only says that it is broken.
            over = [one for one in self.closed.values() if _subject(one) == subject]
            if over and (over[-1].closed_ts or 0) < said.ts and _heals(over[-1]) == "held":
                self._reopen(over[-1], said.ts)

    def _see(self, one: Incident, ts: int) -> None:
        """It goes on, as it was: that is touched now and then."""
        seen = self.open[one.incident_id] = replace(one, last_seen_ts=ts)
        # A power of two: the ends of longer parts are ends of shorter ones.
        every_us = 1 << max((ts - one.opened_ts) // SEEN_SHARE, 1).bit_length() - 1
        every_us = min(SEEN_EVERY_US, every_us)
        is_due = ts // every_us > one.last_seen_ts // every_us
        if is_due or one.incident_id in self.touched:
            self.touched[one.incident_id] = seen

    def _compare(self, one: Incident, row: _Executed) -> None:
        if one.instance_id == row.instance_id and _heals(one) == "executed":
            self._grow(one.incident_id)
            one = self.open[one.incident_id]
            missing, executed = _gtids([one.witness]), _gtids([row.gtids])
            if missing is None or executed is None or one.last_seen_ts >= row.ts:
                return
            if missing <= executed:
                self._close(one, IncidentState.RESOLVED, row.ts)

    def _supersede(self, one: Incident, ended: _Ended) -> None:
        self._grow(one.incident_id)
        one = self.open[one.incident_id]
        if ended.ends(one):
            self._close(one, IncidentState.SUPERSEDED, ended.ts)

    def _close(self, one: Incident, state: IncidentState, ts: int) -> None:
        name = one.incident_id
        del self.open[name], self.counted[name], self._by_key[key_of(one.finding)]
        self._by_subject[_subject(one)].discard(name)
        over = replace(one, state=state, closed_ts=ts)
        self.closed[name] = over
        self._put(over, IncidentChangeKind(state.value), ts)

    # What operators ask for

    def _obey(self, control: IncidentControl) -> None:
        if control.action is ControlAction.RETIRE:
            for one in self._all_open():
                if one.instance_id == control.target:
                    self._close(one, IncidentState.SUPERSEDED, control.ts)
            return
        if control.target not in self.open:
            if control.target not in self.closed:
                # A job that begins anew reads these before it comes to what they are about.
                self.early[control.target] = control
                if len(self.early) > EARLY_MAX:
                    del self.early[next(iter(self.early))]
            return
        one = self.open[control.target]
        if control.action is ControlAction.ACK:
            known = Acknowledgement(control.by, control.why, control.ts, control.until_ts)
            acknowledged = replace(one, state=IncidentState.ACKNOWLEDGED, acknowledgement=known)
            self._put(acknowledged, IncidentChangeKind.ACKNOWLEDGED, control.ts)
        elif one.acknowledgement is not None:
            self._take_back(one, control.ts)

    def _take_back(self, one: Incident, ts: int) -> None:
        counts_again = replace(one, state=IncidentState.OPEN, acknowledgement=None)
        self._put(counts_again, IncidentChangeKind.REOPENED, ts)

    def _expire(self, now_ts: int) -> None:
        """Acknowledgements run out, and what was over long ago is forgotten."""
        for one in self._all_open():
            until = None if one.acknowledgement is None else one.acknowledgement.until_ts
            if until is not None and until <= now_ts:
                self._take_back(one, until)
        oldest = now_ts - CLOSED_KEPT_US
        surplus = len(self.closed) - CLOSED_MAX
        for number, one in enumerate(list(self.closed.values())):
            if number < surplus or (one.closed_ts or 0) < oldest:
                del self.closed[one.incident_id]

    # Bookkeeping

    def _all_open(self) -> list[Incident]:
        return list(self.open.values())

    def _index(self, one: Incident) -> None:
        self._by_key[key_of(one.finding)] = one.incident_id
        self._by_subject.setdefault(_subject(one), set()).add(one.incident_id)

    def _put(self, one: Incident, kind: IncidentChangeKind, ts: int) -> None:
        if one.is_open:
            self.open[one.incident_id] = one
        self.touched[one.incident_id] = one
        self._changes.append(IncidentChange(kind, one, ts))

    def to_bytes(self) -> bytes:
        """The state."""
        return encode(Incidents, self)

    def restore(self, data: Bytes) -> None:
        """Go on from the state that ``to_bytes`` gave.

        Raises:
            StateVersionError: Another version of tallystick has written the bytes.
            StateDamagedError: They are cut short, or have changed.
        """
        restore(self, data, "the incidents")


def incidents_of_history(
    findings: Iterable[Finding],
    cuts: Iterable[Cut],
    checks: Iterable[SubjectCheck],
    fleet_events: Iterable[FleetEvent],
) -> list[Incident]:
    """The incidents of a finished history, the oldest first.

    Args:
        findings: All findings.
        cuts: All rows.
        checks: Those of rules between instances.
        fleet_events: Those of all instances.
    """
    incidents = Incidents()
    incidents.absorb(findings, cuts, checks, fleet_events)
    return sorted(incidents.touched.values(), key=lambda one: (one.opened_ts, one.incident_id))


def _opened(finding: Finding) -> Incident:
    return Incident(
        incident_id=finding.finding_id,
        rule=finding.rule,
        case=finding.case,
        severity=finding.severity,
        instance_id=finding.instance_id,
        channel=finding.channel,
        cause=cause_of(finding),
        state=IncidentState.OPEN,
        opened_ts=finding.ts,
        last_seen_ts=finding.ts,
        closed_ts=None,
        count=1,
        witness=finding.witness,
        finding=finding,
    )


def _subject(one: Finding | Incident) -> _Subject:
    return one.rule, one.instance_id, one.channel


def _heals(one: Finding | Incident) -> Heals:
    """What ends the breach; of a rule that is not known any more nothing does."""
    return RULES[one.rule].healed_by(one.case) if one.rule in RULES else "never"


def _gtids(texts: Sequence[str]) -> GtidSet | None:
    """The union of sets in text; None where one is none."""
    try:
        sets = [GtidSet.parse(text) for text in texts]
    except GtidSetParseError:
        return None
    return GtidSet(chain.from_iterable(sets)) if all(sets) else None
