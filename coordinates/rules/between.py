"""Rules between instances: how one is declared, what it is given, and what several of them share.

Such a rule judges one piece of evidence of a replica against the journals of its sources. Declaring
it enters it into COMPARISONS, and by that the fleet's audit queues evidence of its type for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final

from tallystick.coordinates.rules.families import Lack
from tallystick.coordinates.rules.outcomes import HOLDS, Broken, Holds, Undecided, Waiting
from tallystick.coordinates.rules.registry import Rule, reason, register
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tallystick.coordinates.audit.instance_timeline import InstanceTimeline
    from tallystick.coordinates.audit.timeline_snapshot import Snapshot
    from tallystick.coordinates.audit.topology import Fleet
    from tallystick.coordinates.rules.outcomes import Reason

# What a rule is given and answers


@dataclass(frozen=True, slots=True)
class Standstill:
    """A receiver that is connected, and whose relay log has not grown since an earlier row.

    Attributes:
        read, relay: Source and relay coordinates.
        received_count: How many groups the relay log has been seen to get.
        lineage, logged: The source's binary log, and what it held at that row.
        owed: What it has logged since, and the replica does not have.
        owed_ts: Since when that is known to be logged.
        unread_ts: Since when groups without GTIDs are known to be logged after ``read``; 0: none.
        is_reported: Whether that has been reported.
    """

    read: tuple[str, int]
    relay: tuple[str, int]
    received_count: int
    lineage: int
    logged: GtidSet
    owed: GtidSet = GtidSet.EMPTY
    owed_ts: int = 0
    unread_ts: int = 0
    is_reported: bool = False

    def goes_on(self, now: Standstill) -> bool:
        """Whether nothing has moved since, and the source has the same binary log."""
        before = self.read, self.relay, self.received_count, self.lineage
        return before == (now.read, now.relay, now.received_count, now.lineage)


@dataclass(frozen=True, slots=True)
class Memory:
    """What a rule remembers of earlier comparisons of the same instance, channel and sources."""

    reported: GtidSet = GtidSet.EMPTY
    """GTIDs that have been reported."""
    reported_at: frozenset[str] = frozenset()
    """Coordinates that have been reported."""
    lineage: int = -1
    """Binlog lineage of the source that the positions below are of."""
    last: tuple[int, int] | None = None
    """Source file number and position after the last group queued since the last connect."""
    high: tuple[int, int] | None = None
    """The highest one since the channel began."""

    suspected: GtidSet = GtidSet.EMPTY
    """GTIDs that are contradicted if the next row shows them as this one did."""
    executed: GtidSet = GtidSet.EMPTY
    """What that row showed as executed."""
    standstill: Standstill | None = None
    """Of the receiver, at the last row."""

    def without_positions(self) -> Memory:
        """Positions are of a log that is not known any more."""
        return replace(self, lineage=-1, last=None, high=None)


@final
@dataclass(frozen=True, slots=True)
class StillBroken:
    """The rule is broken as reported before: no other finding."""


STILL_BROKEN: Final = StillBroken()


@dataclass(frozen=True, slots=True)
class Against:
    """What evidence is compared with: the sources' journals, the rule's own memory, the fleet."""

    sources: Sequence[InstanceTimeline]
    memory: Memory
    fleet: Fleet
    uncertain_us: int = 0
    """By how much the evidence may be of an earlier time than it has."""
    is_overdue: bool = False
    """Whether nothing more is waited for."""

    @property
    def source(self) -> InstanceTimeline:
        """The source, when there is but one."""
        return self.sources[0]

    def may_be_of_another_log(self, state: Snapshot, ts: int) -> bool:
        """Whether evidence of `ts` may be older than the binary log that a state shows.

        Of a log that begins later it proves nothing, nor of one that may have begun unseen.
        """
        return state.log_since_ts >= ts - self.uncertain_us

    def remember(self, answer: Settled | Waiting, **changes: Any) -> Remembered:
        """An answer, and the memory with some fields changed."""
        return Remembered(answer, replace(self.memory, **changes))

    def report(self, fresh: GtidSet, broken: Broken) -> Remembered:
        """A contradiction in GTIDs, which are not reported again."""
        return self.remember(broken, reported=self.memory.reported | fresh)

    def nothing_new(self, wrong: GtidSet) -> Holds | StillBroken:
        """The answer where all GTIDs that are wrong have been reported."""
        return HOLDS if wrong.isdisjoint(self.memory.reported) else STILL_BROKEN

    def fresh(self, found: Iterable[Broken]) -> tuple[Broken, ...]:
        """Contradictions at coordinates that have not been reported."""
        return tuple(broken for broken in found if broken.at not in self.memory.reported_at)

    def report_at(self, found: Sequence[Broken]) -> Compared:
        """Contradictions at coordinates, each of which is reported once."""
        if not found:
            return HOLDS
        fresh = self.fresh(found)
        at = frozenset(str(broken.at) for broken in fresh)
        return (
            self.remember(fresh, reported_at=self.memory.reported_at | at)
            if fresh
            else STILL_BROKEN
        )


class Remembered(NamedTuple):
    """An answer, with what the rule's memory is afterwards."""

    answer: Settled | Waiting
    memory: Memory


Settled = Holds | StillBroken | Broken | tuple[Broken, ...] | Undecided
"""What ends a comparison; several contradictions at once as a tuple."""

Compared = Settled | Waiting | Remembered
"""What a rule between instances answers."""


def settled(answer: Compared) -> Settled | Waiting:
    """An answer without what is remembered with it."""
    return answer.answer if isinstance(answer, Remembered) else answer


# Declaring a rule


class Comparison(NamedTuple):
    """A predicate between instances.

    Attributes:
        rule: What it judges.
        evidence: The type of evidence that it takes.
        judge: ``(evidence, against)`` to the answer.
        leaves_undecided: Whether the rule stays undecided where the evidence does not suffice;
            not so where a row has decided it already, and this can but add a contradiction.
        doubts: Codes of reasons with which it stays undecided all the same.
    """

    rule: Rule
    evidence: type
    judge: Callable[..., Compared]
    leaves_undecided: bool = True
    doubts: frozenset[str] = frozenset()

    def is_left_by(self, answer: Undecided) -> bool:
        """Whether the rule is undecided with this answer."""
        return self.leaves_undecided or answer.reason.code in self.doubts


COMPARISONS: dict[str, Comparison] = {}
"""By the name of the predicate, which is the rule's where it is the rule's first."""


def between(evidence: type, **attributes: Any) -> Callable[[Callable[..., Compared]], Rule]:
    """Make a rule between instances of a predicate: it has the function's name.

    Args:
        evidence: The type that the predicate takes, one of ``coordinates.audit.comparison``.
        attributes: Those of ``Rule``, without ``name``, ``scope`` and ``judge``.
    """

    def decorate(judge: Callable[..., Compared]) -> Rule:
        rule = register(Rule(name=judge.__name__, scope="X", judge=judge, **attributes))
        COMPARISONS[rule.name] = Comparison(rule, evidence, judge)
        return rule

    return decorate


def adds_to(
    rule: Rule, evidence: type, *, doubts: Iterable[Reason] = ()
) -> Callable[[Callable[..., Compared]], Callable[..., Compared]]:
    """Make a predicate between instances one more way to break a rule on rows.

    Args:
        rule: The rule.
        evidence: The type that the predicate takes.
        doubts: Reasons with which the rule is undecided, and the verdict too.
    """

    def decorate(judge: Callable[..., Compared]) -> Callable[..., Compared]:
        codes = frozenset(doubt.code for doubt in doubts)
        COMPARISONS[judge.__name__] = Comparison(
            rule, evidence, judge, leaves_undecided=False, doubts=codes
        )
        return judge

    return decorate


# What several rules share

ANONYMOUS = "an anonymous group"

NOT_IN_FLEET = reason("source_not_in_fleet", "{source} is not in the fleet", Lack.SERVER)
SOURCE_ELSEWHERE = reason(
    "source_in_another_cluster",
    "{source} is instance {other} of {home}, and instances of different clusters are not compared",
    Lack.SERVER,
)
SOURCE_UNKNOWN = reason("source_unknown", "the source of the channel is not known", Lack.SERVER)
AMBIGUOUS = reason(
    "source_ambiguous", "another instance reports the same server_uuid as the source", Lack.SERVER
)
ANOTHER_SERVER = reason(
    "source_is_another_server",
    "{source} was observed as another server then, not as the channel's source {server_uuid}",
    Lack.SERVER,
)
NOT_REACHED = reason(
    "source_not_reached", "the source's journal is not known up to the row", Lack.SOURCE_LATER
)
CLOCK_UNKNOWN = reason(
    "clock_unknown",
    "{source} has not answered a request since then, so that its clock is not known",
    Lack.CLOCK,
)
CLOCKS_NOT_COMPARED = reason(
    "clocks_not_compared",
    "its journal and that of {source} are of two clocks, and no request that both have answered"
    " shows how far these are apart",
    Lack.CLOCK,
)
TAKEN_BACK = reason(
    "source_taken_back",
    "the source's journal has a gap or began anew right after the row",
    Lack.JOURNAL,
)
LOG_UNKNOWN_THEN = reason(
    "source_log_unknown_then",
    "which binary log the source had then is not known: its journal begins after that, has a gap"
    " after it in which a RESET may hide, or another log of it began",
    Lack.LINEAGE,
)
TOO_FAR_BEHIND = reason(
    "replica_too_far_behind",
    "the replica is further behind than the binary log of {source} is remembered",
    Lack.MEMORY,
)
NO_BINLOG_FILE = reason("no_binlog_file", "{file!r} is no binary log file", Lack.BINARY_LOG)
OTHER_BASE_NAME = reason(
    "other_base_name", "the source's binary log is called {base_name}, not {other}", Lack.BINARY_LOG
)


def wait_or_give_up(source: InstanceTimeline, ts: int) -> Waiting | Undecided:
    """When no state of the source answers: whether one still may."""
    return Undecided(TAKEN_BACK) if source.was_lost_before_answer(ts) else Waiting(NOT_REACHED)


def forgotten(
    source: InstanceTimeline, state: Snapshot, where: tuple[int, int], otherwise: Undecided
) -> Undecided:
    """Why a file number and position of a source are not known."""
    if source.is_given_up(state.lineage, *where):
        return Undecided(TOO_FAR_BEHIND, source=source.instance_id)
    return otherwise


def is_older_than_lineage(since: int | None, state: Snapshot) -> bool:
    """Whether what began at ``since`` may be of a binlog lineage that the source has ended."""
    return state.lineage_ts is not None and (since is None or since <= state.lineage_ts)


def may_be_of_ended_log(since: int | None, state: Snapshot) -> bool:
    """Whether coordinates in files of a state's base name may be of a log that has ended.

    Not where none of those had files of that name, as after a start with another log_bin.

    Args:
        since: Since when such coordinates are of the present source, None not known.
        state: Of that source.
    """
    return is_older_than_lineage(since, state) and not state.is_named_anew


def first_of(gtids: GtidSet) -> str:
    """The coordinates of a contradiction in a set: its first GTID, and how many there are."""
    count, first = gtids.count(), str(gtids.first(1))
    return first if count <= 1 else f"{first}, … ({count} GTIDs)"


def groups_after(
    source: InstanceTimeline, state: Snapshot, number: int, position: int
) -> Iterator[tuple[tuple[int, int], str | None]]:
    """The source's groups after a position, in order: where each ends, and its GTID.

    An anonymous group has the GTID "", a group that is not known None, and is the last.
    """
    following = number
    while following <= state.file_number:
        file, _ = source.file_at(state, following)
        if file is None or file.is_doubtful or file.observed_from > max(position, 4):
            yield (following, -1), None
            return
        for groups in file.groups_after(position):
            for end, sid, gno in zip(*(column.tolist() for column in groups), strict=True):
                yield (following, end), f"{source.sids[sid]}:{gno}" if sid >= 0 else ""
        position = 0
        following = file.following
