"""May a backup of an instance, a clone from it, or its promotion be made now?

Yes only where every check that is needed says so by evidence that is young enough; what was not
read, or is too old, is undecided. Breaches are the audit's: its checks and its incidents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from tallystick.coordinates.answers.diff import ERRANT_RULE, errant_on
from tallystick.coordinates.answers.purpose import MAX_AGE_S, Purpose
from tallystick.coordinates.audit.row import decisive
from tallystick.coordinates.results import IncidentState, Outcome, Verdict
from tallystick.coordinates.rules.explanation import check_text, moment, shorten_gtids
from tallystick.coordinates.rules.identity import instances_of
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from tallystick.coordinates.answers.evidence import Evidence, InstanceEvidence
    from tallystick.coordinates.audit.cut import Cut

AHEAD_S = 5.0
"""So much a clock may be ahead of the one that asks."""
STORED_RULE = "relay_info_updated_with_commit"
DATA_RULES = (
    "clone_recipient_steps_complete",
    "failed_clone_not_resumed",
    "replay_continues_image",
)
"""Undecided on a row while a clone into the server or a recovery goes on, or has failed."""


class Answer(str, Enum):
    """Of a check, and of all together."""

    YES = "yes"
    NO = "no"
    UNDECIDED = "undecided"


Said = tuple[Answer, str]
"""An answer, and the sentence that gives its reason."""


@dataclass(frozen=True, slots=True)
class Need:
    """A check, and what it is needed for; docs/answers.md has this table.

    Attributes:
        text: What it asks.
        purposes: What needs it.
        why: Why, with where MySQL's documentation has it.
    """

    text: str
    purposes: frozenset[Purpose]
    why: str


_ALL = frozenset(Purpose)
_COPY = frozenset({Purpose.BACKUP, Purpose.CLONE})
_FAILOVER = frozenset({Purpose.FAILOVER})
NEEDS = {
    "evidence": Need(
        "its newest row is young enough, answers the newest request, and was judged",
        _ALL,
        "all other checks are as of that row",
    ),
    "data_whole": Need(
        "no clone into it and no recovery of it goes on, or has failed after it dropped the data",
        _ALL,
        "half of the data would be copied or served, with a gtid_executed that says nothing of it"
        " (Cloning Remote Data)",
    ),
    "no_open_incident": Need(
        "no incident of it is open that nobody has acknowledged",
        _ALL,
        "an open incident says that its records contradict each other",
    ),
    "no_errant_gtids": Need(
        "all that it has executed, its sources have executed, or its channels have received",
        _ALL,
        "a copy and a promoted replica hand errant transactions on (Restrictions on Replication"
        " with GTIDs; Using GTIDs for Failover and Scaleout)",
    ),
    "row_not_torn": Need(
        "position and gtid_executed of its row are one state",
        frozenset({Purpose.BACKUP}),
        "a backup takes its coordinates from such a row (The log_status Table); a clone makes its"
        " own (Cloning for Replication)",
    ),
    "info_crash_safe": Need(
        "each channel asks by GTID set, or stores its positions in a table with each commit",
        _COPY,
        "a copy goes on from what its data hold (Handling an Unexpected Halt of a Replica)",
    ),
    "source_logs_there": Need(
        "its sources have purged nothing that it has not executed",
        _COPY,
        "a copy has no relay logs and asks its sources for what it has not executed; what is purged"
        " ends its receiver with error 1236 (system variable gtid_purged)",
    ),
    "threads_running": Need(
        "receiver and applier of each channel run",
        _FAILOVER,
        "one that is stopped does not follow its source (SHOW REPLICA STATUS Statement)",
    ),
    "has_binlog": Need(
        "it writes a binary log",
        _FAILOVER,
        "its replicas are sent what it logs (Switching Sources During Failover)",
    ),
    "nothing_filtered": Need(
        "no channel of it, or of its sources, leaves changes out",
        _FAILOVER,
        "what filters and ignored server ids leave out is executed as empty transactions, or not"
        " at all (How Servers Evaluate Replication Filtering Rules)",
    ),
    "received_applied": Need(
        "all that its channels have received is executed",
        _FAILOVER,
        "a promoted replica first applies its relay logs (Switching Sources During Failover)",
    ),
    "nothing_missing": Need(
        "it has executed all that its sources have, as of their newest rows",
        _FAILOVER,
        "what is missing is lost by the promotion (Switching Sources During Failover)",
    ),
    "replicas_logs_there": Need(
        "it has purged nothing that a replica of it, or of its sources, lacks",
        _FAILOVER,
        "these will ask it for what they lack (Using GTIDs for Failover and Scaleout; system"
        " variable gtid_purged)",
    ),
}
"""By the name of the check, in the order in which they are shown."""


class Checked(NamedTuple):
    """A check that was made.

    Attributes:
        name: In ``NEEDS``.
        answer: What it says.
        sentence: Why.
    """

    name: str
    answer: Answer
    sentence: str

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {"check": self.name, "answer": self.answer.value, "sentence": self.sentence}


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether an instance is ready.

    Attributes:
        purpose: For what.
        instance_id: Which one.
        checks: Those that are needed, in the order of ``NEEDS``.
        age_s: How old its row is; None: there is none.
        max_age_s: How old evidence may be.
    """

    purpose: Purpose
    instance_id: str
    checks: tuple[Checked, ...]
    age_s: float | None
    max_age_s: float

    @property
    def answer(self) -> Answer:
        """Undecided without evidence of the instance itself; else no beats undecided beats yes."""
        answers = {one.name: one.answer for one in self.checks}
        if answers["evidence"] is not Answer.YES:
            return Answer.UNDECIDED
        worst = (Answer.NO, Answer.UNDECIDED)
        return next((one for one in worst if one in answers.values()), Answer.YES)

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "purpose": self.purpose.value,
            "instance": self.instance_id,
            "answer": self.answer.value,
            "age_s": None if self.age_s is None else round(self.age_s, 3),
            "max_age_s": self.max_age_s,
            "checks": [one.to_dict() for one in self.checks],
        }


def ready_document(found: Readiness, evidence: Evidence) -> dict[str, Any]:
    """The answer as one JSON document; docs/answers.md has its keys."""
    asked = f"{found.purpose.value} {found.instance_id}"
    is_decided = found.answer is not Answer.UNDECIDED
    return evidence.document("ready", asked, is_decided=is_decided) | found.to_dict()


def ready(
    purpose: Purpose, instance_id: str, evidence: Evidence, max_age_s: float = MAX_AGE_S
) -> Readiness:
    """Make the checks that a purpose needs.

    Args:
        purpose: Which.
        instance_id: One that the evidence knows.
        evidence: What is known.
        max_age_s: How old it may be.
    """
    asked = _Asked(evidence, evidence.instances[instance_id], max_age_s)
    checks = [
        Checked(name, *_CHECKS[name](asked))
        for name, need in NEEDS.items()
        if purpose in need.purposes
    ]
    one = asked.one
    age_s = None if one.row is None else evidence.age_s(one.since_us)
    return Readiness(purpose, instance_id, tuple(checks), age_s, max_age_s)


@dataclass(frozen=True, slots=True)
class _Asked:
    evidence: Evidence
    one: InstanceEvidence
    max_age_s: float

    def doubt(self, one: InstanceEvidence) -> str:
        """Why what is known of an instance does not count; empty: it does."""
        name = one.instance_id
        if one.row is None:
            return f"no row of {name} is known" + (f": {one.problem}" if one.problem else "")
        if one.problem:
            return one.problem
        if why := self.too_old(one.since_us):
            return f"the row of {name} is {why}"
        if one.row.reason or one.row.verdict == Verdict.UNDECIDED.value:
            return f"the row of {name} could not be judged{_why(one.row)}"
        return ""

    def too_old(self, since_us: int) -> str:
        """Why evidence of a time does not count; empty: it does."""
        age_s = self.evidence.age_s(since_us)
        if not age_s <= self.max_age_s:  # a limit that is no number admits nothing
            return f"{age_s:,.0f} s old, at most {self.max_age_s:,g} s count"
        if age_s < -AHEAD_S:
            return f"of a time that comes in {-age_s:,.0f} s by the clock of this machine"
        return ""

    def sources(self) -> Iterator[tuple[Cut, InstanceEvidence | None]]:
        """Each channel, and who its source is; None: that is not known."""
        for channel in self.one.channels:
            name = self.evidence.by_uuid.get(channel.source_uuid or "")
            yield channel, None if name is None else self.evidence.instances[name]


def _why(row: Cut) -> str:
    if checks := decisive(row):
        return f": {check_text(checks[0])}"
    return f" ({row.reason})" if row.reason else ""


def _named(channel: Cut) -> str:
    return f"channel {channel.channel or '(default)'}"


def _some(gtids: GtidSet) -> str:
    return shorten_gtids(str(gtids))


def _evidence(asked: _Asked) -> Said:
    if why := asked.doubt(asked.one):
        return Answer.UNDECIDED, why
    assert asked.one.row is not None
    return Answer.YES, f"its row of {moment(asked.one.row.ts)} was judged"


def _data_whole(asked: _Asked) -> Said:
    if asked.one.row is None:
        return Answer.UNDECIDED, "no row of it is known"
    doubts = [check_text(one) for one in asked.one.row.undecided if one.rule in DATA_RULES]
    if doubts:
        return Answer.UNDECIDED, "; ".join(doubts)
    return Answer.YES, "no clone into it and no recovery of it goes on, or has failed"


def _no_open_incident(asked: _Asked) -> Said:
    name, row = asked.one.instance_id, asked.one.row
    of_it = [one for one in asked.evidence.incidents if name in instances_of(one.finding)]
    found = [one for one in of_it if one.state is IncidentState.OPEN]
    if found:
        texts = (f"{i.rule} since {moment(i.opened_ts)} ({i.incident_id[:12]})" for i in found)
        return Answer.NO, f"open: {', '.join(texts)}"
    if row is None:
        return Answer.UNDECIDED, "no row of it is known"
    # The tables of rows and of incidents are not written at one instant.
    known = {one.rule for one in of_it if one.state is IncidentState.ACKNOWLEDGED}
    broken = {rule for cut in (row, *asked.one.channels) for rule in cut.names(Outcome.BROKEN)}
    if broken - known:
        return Answer.NO, f"its row breaks {', '.join(sorted(broken - known))}"
    if known:
        return Answer.YES, f"acknowledged: {', '.join(sorted(known))}"
    return Answer.YES, "none is open"


def _no_errant_gtids(asked: _Asked) -> Said:
    one, evidence = asked.one, asked.evidence
    if one.executed is None:
        return Answer.UNDECIDED, "what it has executed is not known"
    for name, errant in errant_on(evidence):
        if hit := errant & one.executed:
            return Answer.NO, f"it has executed {_some(hit)}, which is errant on {name}"
    if not one.channels:
        return Answer.YES, "it replicates from nobody"
    # What is errant on a source of it comes from there, and is none compared with that source.
    for name in dict.fromkeys((one.instance_id, *evidence.upstreams_of(one.instance_id))):
        known = evidence.instances[name]
        if known.channels and (why := _errant_doubt(asked, known)):
            of = "" if known is one else f"of {name}, which it replicates from: "
            return Answer.UNDECIDED, f"{of}{why}"
    return Answer.YES, "its sources have executed, or its channels received, all that it executed"


def _errant_doubt(asked: _Asked, one: InstanceEvidence) -> str:
    """Why something that a replica has executed may be errant and not found yet; empty: nothing."""
    evidence, name = asked.evidence, one.instance_id
    check = evidence.checks.get((name, ERRANT_RULE))
    if why := _without_gtids(one) or asked.doubt(one):
        return why
    if check is None:
        return f"{ERRANT_RULE} was not judged"
    if why := asked.too_old(check.ts):
        return f"{ERRANT_RULE} was judged on a row that is {why}"
    if check.check.outcome is Outcome.UNDECIDED:
        return check_text(check.check)
    # A check shows a breach for good; the incident says whether it is over.
    of_it = [i for i in evidence.incidents if i.rule == ERRANT_RULE and i.instance_id == name]
    if check.check.outcome is Outcome.BROKEN and not of_it:
        return f"{ERRANT_RULE} is broken, and its incident is not known"
    # The rule may have been judged on an earlier row than the newest one.
    rest = one.executed or GtidSet.EMPTY
    for known in (evidence.instances[upstream] for upstream in evidence.upstreams_of(name)):
        if known is not one and known.executed is not None and not asked.doubt(known):
            rest = rest - known.executed
    for known_gtids in (*one.retrieved.values(), *(found for _, found in errant_on(evidence))):
        rest = rest - (known_gtids or GtidSet.EMPTY)
    if not rest:
        return ""
    return (
        f"where {_some(rest)} came from is not known: it is executed there, not received by a"
        " channel, and no source whose newest row counts has executed it"
    )


def _without_gtids(one: InstanceEvidence) -> str:
    """Why sets may not show all transactions; empty: they do."""
    for channel in one.channels:
        if channel.auto_position is None:
            return f"whether {_named(channel)} asks by GTID set was not read"
        if not channel.auto_position:
            return (
                f"{_named(channel)} does not ask by GTID set (SOURCE_AUTO_POSITION): sets need not"
                " show all transactions"
            )
    return ""


def _row_not_torn(asked: _Asked) -> Said:
    row = asked.one.row
    if row is None or row.commit_lag is None:
        return Answer.UNDECIDED, "how far its position is ahead of gtid_executed is not known"
    if row.commit_lag:
        return Answer.NO, (
            f"its position is ahead of gtid_executed by {row.commit_lag:,} GTIDs: commits are under"
            " way"
        )
    return Answer.YES, "position and gtid_executed of its row are one state"


def _info_crash_safe(asked: _Asked) -> Said:
    if asked.one.row is None:
        return Answer.UNDECIDED, "no row of it is known"
    for channel in asked.one.channels:
        outcomes = {check.rule: check for check in channel.checks}
        stored = outcomes.get(STORED_RULE)
        if stored is not None and stored.outcome is Outcome.BROKEN:
            return Answer.NO, f"{_named(channel)} breaks {STORED_RULE}"
        if not channel.auto_position and (stored is None or stored.outcome is not Outcome.HOLDS):
            return Answer.UNDECIDED, (
                f"{_named(channel)} does not ask by GTID set, and that it stores its positions with"
                " each commit was not seen"
            )
    if not asked.one.channels:
        return Answer.YES, "it has no channel"
    return Answer.YES, "each channel asks by GTID set, or stores its positions with each commit"


def _source_logs_there(asked: _Asked) -> Said:
    executed = asked.one.executed
    if executed is None:
        return Answer.UNDECIDED, "what it has executed is not known"
    for channel, source in asked.sources():
        if source is None:
            return Answer.UNDECIDED, f"the source of {_named(channel)} is not known"
        if source.purged is not None and not source.purged <= executed:
            lost = _some(source.purged - executed)
            return Answer.NO, f"{source.instance_id} has purged {lost}, which it has not executed"
        if source.purged is None:
            return Answer.UNDECIDED, f"gtid_purged of {source.instance_id} is not known"
        if why := asked.doubt(source):
            return Answer.UNDECIDED, why
        if not channel.auto_position:
            return Answer.UNDECIDED, _without_gtids(asked.one)
    if not asked.one.channels:
        return Answer.YES, "it replicates from nobody"
    return Answer.YES, "its sources have in their binary logs all that it lacks"


def _threads_running(asked: _Asked) -> Said:
    if asked.one.row is None:
        return Answer.UNDECIDED, "no row of it is known"
    if not asked.one.channels:
        return Answer.NO, "it replicates from nobody: it is no replica that could be promoted"
    doubts = []
    for channel in asked.one.channels:
        for thread, state in (("receiver", channel.receiver), ("applier", channel.applier)):
            if state == "stopped":
                return Answer.NO, f"the {thread} of {_named(channel)} is stopped"
            if state != "running":
                what = "has no connection" if state else "was not read"
                doubts.append(f"the {thread} of {_named(channel)} {what}")
    if doubts:
        return Answer.UNDECIDED, ", ".join(doubts)
    return Answer.YES, "receiver and applier of each channel run"


def _has_binlog(asked: _Asked) -> Said:
    row = asked.one.row
    if row is None:
        return Answer.UNDECIDED, "no row of it is known"
    if row.binary_log_file is None:
        return Answer.NO, "its row names no binary log: no replica could follow it"
    return Answer.YES, f"it writes {row.binary_log_file}"


def _nothing_filtered(asked: _Asked) -> Said:
    one, evidence = asked.one, asked.evidence
    doubts = []
    for name in dict.fromkeys((one.instance_id, *evidence.upstreams_of(one.instance_id))):
        known = evidence.instances[name]
        of = "" if known is one else f" of {name}, which it replicates from,"
        if known.row is None:
            doubts.append(f"no row of {'it' if known is one else name} is known")
        for channel in known.channels:
            if one.server_uuid is not None and channel.source_uuid == one.server_uuid:
                continue  # in a ring: what comes from itself it has
            if channel.filtered:
                return Answer.NO, f"{_named(channel)}{of} leaves changes out, or has done so"
            if channel.filtered is None:
                doubts.append(f"whether {_named(channel)}{of} leaves changes out was not read")
    if doubts:
        return Answer.UNDECIDED, "; ".join(doubts)
    return Answer.YES, "no channel of it, or of its sources, leaves changes out"


def _received_applied(asked: _Asked) -> Said:
    executed = asked.one.executed
    if executed is None:
        return Answer.UNDECIDED, "what it has executed is not known"
    for name, retrieved in asked.one.retrieved.items():
        shown = name or "(default)"
        if retrieved is None:
            return Answer.UNDECIDED, f"what channel {shown} has received is not known"
        if not retrieved <= executed:
            rest = retrieved - executed
            return Answer.NO, f"channel {shown} has received {_some(rest)}, which is not executed"
    if not asked.one.channels:
        return Answer.YES, "it has no channel"
    if why := _without_gtids(asked.one):
        return Answer.UNDECIDED, why
    return Answer.YES, "all that its channels have received is executed"


def _nothing_missing(asked: _Asked) -> Said:
    executed = asked.one.executed
    if executed is None:
        return Answer.UNDECIDED, "what it has executed is not known"
    upto = []
    by_position = _without_gtids(asked.one)
    doubts = [by_position] if by_position else []
    for channel, source in asked.sources():
        if source is None:
            doubts.append(f"the source of {_named(channel)} is not known")
            continue
        if source.row is not None and source.executed is not None:
            at = f"{source.row.binary_log_file}:{source.row.binary_log_position}"
            where = f"{source.instance_id}, {at} at {moment(source.row.ts)}"
            # Replicas are sent what is logged, executed or not.
            missing = (source.executed | (source.logged or GtidSet.EMPTY)) - executed
            if missing:
                return Answer.NO, f"it lacks {_some(missing)}, as of {where}"
            if not by_position:
                upto.append(where)
        if source.executed is None:
            doubts.append(f"what {source.instance_id} has executed is not known")
        elif why := asked.doubt(source):
            doubts.append(why)
    known = f"it has all, as of {'; '.join(upto)}" if upto else ""
    if doubts:
        after = f"; {known}" if known else ""
        return Answer.UNDECIDED, "; ".join(doubts) + after
    return (Answer.YES, known) if known else (Answer.NO, "it replicates from nobody")


def _replicas_logs_there(asked: _Asked) -> Said:
    one, evidence = asked.one, asked.evidence
    if one.purged is None:
        return Answer.UNDECIDED, "its gtid_purged is not known"
    theirs = {one.server_uuid, *(channel.source_uuid for channel in one.channels)} - {None}
    doubts, names = [], []
    for name, other in sorted(evidence.instances.items()):
        is_replica = any(channel.source_uuid in theirs for channel in other.channels)
        is_source = other.server_uuid in theirs
        if name == one.instance_id or (other.row is not None and not (is_replica or is_source)):
            continue
        # Not what it has received: another source is asked for all that is not executed.
        has = other.executed
        if has is None:
            doubts.append(f"what {name} has executed is not known")
            continue
        if not one.purged <= has:
            return Answer.NO, f"it has purged {_some(one.purged - has)}, which {name} lacks"
        if why := asked.doubt(other):
            doubts.append(why)
        names.append(name)
    if doubts:
        return Answer.UNDECIDED, "; ".join(doubts)
    lack = "lack" if len(names) > 1 else "lacks"
    return Answer.YES, f"it has purged nothing that {', '.join(names) or 'anybody'} {lack}"


_CHECKS: dict[str, Callable[[_Asked], Said]] = {
    "evidence": _evidence,
    "data_whole": _data_whole,
    "no_open_incident": _no_open_incident,
    "no_errant_gtids": _no_errant_gtids,
    "row_not_torn": _row_not_torn,
    "info_crash_safe": _info_crash_safe,
    "source_logs_there": _source_logs_there,
    "threads_running": _threads_running,
    "has_binlog": _has_binlog,
    "nothing_filtered": _nothing_filtered,
    "received_applied": _received_applied,
    "nothing_missing": _nothing_missing,
    "replicas_logs_there": _replicas_logs_there,
}
