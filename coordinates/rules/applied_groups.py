"""Tier 3: did a replica execute each anonymous transaction once?

With GTIDs the server itself skips what it has executed. Without them the stored position alone
decides: one that is too old after a start makes the applier execute a transaction again, one that
is too new leaves it out. Both logs show whose transaction it was by the origin's server id and
commit time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tallystick.coordinates.audit.fleet_events import FleetEventKind
from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.channel import POSITION_WRAPPED
from tallystick.coordinates.rules.families import Family, Lack
from tallystick.coordinates.rules.outcomes import HOLDS, Broken, RowAnswer, Undecided
from tallystick.coordinates.rules.registry import Case, Rule, reason, register
from tallystick.coordinates.rules.statements import APPLIER_STORED, REPLICA_STATUS
from tallystick.coordinates.values.binlog import WRAP, EventType

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tallystick.coordinates.audit.fleet_events import FleetEvent
    from tallystick.coordinates.values.binlog import LogCoordinates

NOT_LOGGED = reason("applied_not_logged", "the replica does not log what it executes", Lack.SETTING)
RELAY_UNSEEN = reason(
    "applied_relay_unseen", "no event of the channel's relay log was seen", Lack.RELAY_LOG
)
START_FORGOTTEN = reason(
    "applied_start_forgotten",
    "more transactions followed the last one before the start than are remembered",
    Lack.MEMORY,
)
PASSED_UNLOGGED = reason(
    "applied_passed_unlogged",
    "the applier has passed {count:n transaction} that the replica has not logged, the first ending"
    " at {first} of the source: what was skipped on purpose, or changed nothing, is not logged"
    " without a GTID",
    Lack.SETTING,
)

APPLIED_BEFORE = reason(
    "applied_before",
    "the replica has executed {count:n transaction} again, the first ending at {first} of the"
    " source, since RESET REPLICA or CHANGE REPLICATION SOURCE: that is right only where its data"
    " were put back meanwhile",
    Lack.SETTING,
)

ORIGINS_UNKNOWN = reason(
    "applied_origins_unknown",
    "a transaction without a GTID has no server_id or no original_commit_timestamp (MySQL 5.7"
    " writes none), by which it is recognised in the other log",
    Lack.SETTING,
)
LOG_END_UNKNOWN = reason(
    "applied_log_end_unknown",
    "where the binary log ended after a crash is not known: nothing shows which transactions of the"
    " relay log it still had",
    Lack.BINARY_LOG,
)
CRASH_UNFOLLOWED = reason(
    "applied_crash_unfollowed",
    "the replica crashed, its relay log info is not in an InnoDB table, and nothing shows with"
    " which transaction the applier went on",
    Lack.SETTING,
)
OVER_START_FILTERED = reason(
    "applied_over_start_filtered",
    "over a start the applier has passed {count:n transaction}, the first ending at {first} of the"
    " source, and did not log {count:it|them}: that is right only where the channel's filters leave"
    " {count:it|them} out",
    Lack.SETTING,
)
APPLIED_BY_TWO = reason(
    "applied_by_two_channels",
    "the replica has executed {count:n transaction} twice, the first ending at {first} of the"
    " source, as another channel has brought {count:it|them} too: that is right only where filters"
    " leave each of them a part",
    Lack.SETTING,
)
GOES_ROUND = reason(
    "applied_goes_round",
    "the replica has received and executed {count:n transaction} three times or more, the first"
    " ending at {first} of the source: without a GTID a transaction goes round in a ring for ever"
    " where no server has the server_id that it has, unless the source itself has executed"
    " {count:it|them} again on purpose",
    Lack.SETTING,
)

APPLIED_EXACTLY_ONCE = register(
    Rule(
        number=83,
        name="applied_exactly_once",
        tier=3,
        scope="T",
        family=Family.INFO_TABLES,
        severity=Severity.CRITICAL,
        heals="data",
        claim=(
            "Over a start, an applier without GTIDs executes each InnoDB transaction of its relay"
            " log once: it goes on right after the last one that the replica committed."
        ),
        why=(
            "A transactional repository commits the position with the transaction. A file or a"
            " MyISAM table is written after the commit, so a crash in between repeats it; one"
            " that is too new leaves transactions out. Changes without a transaction are repeated"
            " with every kind of repository, which is expected and not judged. With GTIDs the"
            " server skips what it has executed."
        ),
        undecided_when=(
            "the replica does not log what it executes, no event of the relay log was seen,"
            " transactions have no server_id or no original_commit_timestamp (MySQL 5.7), where the"
            " binary log ended after a crash is not known, the executed position is beyond 2^32,"
            " modulo which a relay log names positions, or more"
            " transactions came between a start and the next row than are remembered; or, away"
            " from a start, one that the applier has passed is not logged between others, or one is"
            " logged again since the channel was begun anew by a command, came on two channels and"
            " is logged twice, or came three times and is logged as often; or, of a channel with"
            " filters, one is not logged over a start. Two transactions of one server with one"
            " commit time are left out, and what filters may have left out away from a start"
        ),
        sources=("WL#2775, motivation 2 and REQ-5", "MySQL manual: relay_log_recovery"),
        remedy=(
            "Compare the changed rows with the source and repair or rebuild the replica. Then use"
            " GTIDs with auto-positioning, or at least relay_log_info_repository=TABLE in InnoDB"
            " with relay_log_recovery=ON."
        ),
        verify=(REPLICA_STATUS, APPLIER_STORED),
        cases={
            "applied_again": Case(
                (
                    "After a start the replica executed {count:n transaction} again; the first"
                    " ends at {first} of the source."
                ),
                "{count:n transaction} logged twice",
                "binary log of the replica",
                "each transaction once",
                "relay log, by server id and original_commit_timestamp",
            ),
            "applied_not_at_all": Case(
                (
                    "Since the start the applier has left {count:n transaction} out; the first"
                    " ends at {first} of the source."
                ),
                "{count:n transaction} not logged",
                "binary log of the replica",
                "each transaction once",
                "relay log, by server id and original_commit_timestamp",
            ),
        },
    )
)

REMEMBERED_MAX = 4096
ROUNDS_MIN = 3
"""Two transactions of one server may well have one commit time, three will hardly have."""

Origin = tuple[int, int]
"""server_id and original_commit_timestamp of a transaction."""
SourceEnd = tuple[str, int, int]
"""Base name, file number and end in the source's binary log."""


@dataclass(slots=True)
class _Received:
    """An anonymous transaction of a relay log.

    Attributes:
        channel: Whose relay log.
        end: Where it ends in the source's binary log.
        is_judged: Whether an XID ends it: a change of InnoDB, safe with a transactional repository.
        last_end: Where it ended when it was received last.
        copies: At how many ends it was received, of the same channel.
        is_shared: Whether another channel has brought it, too.
        is_reported: Reported already.
    """

    channel: str
    end: SourceEnd
    is_judged: bool
    last_end: SourceEnd
    copies: int = 1
    is_shared: bool = False
    is_reported: bool = False

    @property
    def is_ambiguous(self) -> bool:
        """Another end or channel has the same origin: it is not compared."""
        return self.copies > 1 or self.is_shared


_Groups = list[tuple[Origin, _Received]]
# As sids.min(), but without a call of Python's for each of many small arrays.
_min = np.minimum.reduce


@dataclass(slots=True)
class AppliedGroups:
    """The anonymous transactions that an instance received, and those that it logged.

    Attributes:
        received: By origin, in order of their first receipt.
        logged: Where the own binary log has each origin: file number, end, and number of the boot.
        boots: How many starts there were.
        resumed: For each channel, the furthest position executed at the last start.
        edges: For each channel the origin of what is there, until it is judged what followed it.
        forgotten: Channels in which it was forgotten before: only the next start is judged again.
        logged_before: Where it has those from before a channel was begun anew: file number, end.
        has_gaps: Channels in which transactions are missing away from any start: filters leave
            them out there.
        passed: For each channel how many of them were seen, and where the first ends.
        unnamed: Channels in which one that is judged has no origin.
        logs_unnamed: Whether the own binary log has one that may be another server's.
        end_unknown: Channels that had received some when the own binary log was cut nobody knows
            where.
        unfollowed: Channels of which nothing shows where a crash let them go on, and that have no
            transactional repository.
    """

    received: dict[Origin, _Received] = field(default_factory=dict)
    logged: dict[Origin, list[tuple[int, int, int]]] = field(default_factory=dict)
    logged_before: dict[Origin, tuple[int, int]] = field(default_factory=dict)
    resumed: dict[str, SourceEnd] = field(default_factory=dict)
    edges: dict[str, Origin] = field(default_factory=dict)
    forgotten: set[str] = field(default_factory=set)
    has_gaps: set[str] = field(default_factory=set)
    passed: dict[str, tuple[int, str]] = field(default_factory=dict)
    unnamed: set[str] = field(default_factory=set)
    logs_unnamed: bool = False
    end_unknown: set[str] = field(default_factory=set)
    unfollowed: set[str] = field(default_factory=set)
    boots: int = 0

    def learn(self, fleet_events: Sequence[FleetEvent], own_server_id: int | None) -> None:
        """Take what was read of the logs since the last call."""
        for event in fleet_events:
            if event.kind is FleetEventKind.LINEAGE and event.body["reason"] == "renamed":
                self._number_anew()
            sids = event.arrays.get("group_sid")
            if sids is None or not len(sids) or _min(sids) >= 0:
                continue
            if event.kind is FleetEventKind.RECEIVED:
                self._receive(event)
            else:
                self._log(event, own_server_id)
        # Not before: both logs show together whether an edge was passed.
        self._forget_oldest(self.logged)
        self._forget_oldest(self.received)

    def _receive(self, event: FleetEvent) -> None:
        arrays, body = event.arrays, event.body
        channel, base_name = body["channel"], body["source_base_name"]
        for sid, kind, server_id, commit_ts, end in zip(
            *(
                arrays[name].tolist()
                for name in (
                    "group_sid",
                    "group_type",
                    "group_server_id",
                    "group_commit_ts",
                    "group_source_end",
                )
            ),
            strict=True,
        ):
            if sid >= 0:
                continue
            if commit_ts <= 0 or server_id < 0:
                if kind == EventType.XID:
                    self.unnamed.add(channel)
                continue
            if end < 0 or base_name is None:
                continue
            origin = (server_id, commit_ts)
            source_end = (base_name, body["source_file_number"], end)
            known = self.received.get(origin)
            if known is None:
                is_judged = kind == EventType.XID
                self.received[origin] = _Received(channel, source_end, is_judged, source_end)
            elif known.channel != channel:
                known.is_shared = True
            elif not _is_same_end(known.last_end, source_end):
                known.copies += 1
                known.last_end = source_end

    def _log(self, event: FleetEvent, own_server_id: int | None) -> None:
        arrays = event.arrays
        ends = arrays["event_ends"][arrays["group_event"]].tolist()
        for sid, server_id, commit_ts, end in zip(
            arrays["group_sid"].tolist(),
            arrays["group_server_id"].tolist(),
            arrays["group_commit_ts"].tolist(),
            ends,
            strict=True,
        ):
            if sid >= 0 or server_id == own_server_id:
                continue
            if commit_ts <= 0 or server_id < 0:
                self.logs_unnamed = True
            else:
                origin = (server_id, commit_ts)
                self.logged.setdefault(origin, []).append(
                    (event.body["file_number"], end, self.boots)
                )

    def _forget_oldest(self, remembered: dict[Origin, Any]) -> None:
        while len(remembered) > REMEMBERED_MAX:
            oldest = next(iter(remembered))
            for channel in [name for name, edge in self.edges.items() if edge == oldest]:
                del self.edges[channel]
                if not self._is_passed(channel, oldest):
                    self.forgotten.add(channel)
            del remembered[oldest]
            if remembered is self.logged:
                self.received.pop(oldest, None)  # else it would look as if it was not logged

    def _is_passed(self, channel: str, edge: Origin) -> bool:
        """Whether the applier went on right after what was there at the start."""
        last = self.received.get(edge)
        if last is None or {boot for *_, boot in self.logged.get(edge, ())} & {self.boots}:
            return False
        following = next(
            (
                origin
                for origin, one in self.received.items()
                if one.channel == channel and one.is_judged and one.end > last.end
            ),
            None,
        )
        boots = [] if following is None else [boot for *_, boot in self.logged.get(following, ())]
        return boots == [self.boots]

    def _number_anew(self) -> None:
        """Files of another base name follow: all that was logged is in an older file."""
        self.logged = {
            origin: [(0, end, boot) for _, end, boot in ends]
            for origin, ends in self.logged.items()
        }
        self.logged_before = {origin: (0, end) for origin, (_, end) in self.logged_before.items()}

    def started(
        self, recovered: tuple[int, int] | None, *, crashed: bool, is_transactional: bool
    ) -> None:
        """A boot: what lies beyond the recovered end of the binary log never was.

        Args:
            recovered: That end, as file number and position; None: not known.
            crashed: Whether the boot before has crashed.
            is_transactional: Whether its relay log info committed with the transactions.
        """
        self.boots += 1
        if crashed:
            received = {one.channel for one in self.received.values() if one.is_judged}
            if not is_transactional:
                self.unfollowed |= self.unnamed
                if recovered is None or self.logs_unnamed:
                    self.unfollowed |= received
            if recovered is None:
                end_unknown, unfollowed = self.end_unknown | received, self.unfollowed
                self.forget()
                self.end_unknown, self.unfollowed = end_unknown, unfollowed
                return
            self.logged = {
                origin: kept
                for origin, ends in self.logged.items()
                if (kept := [end for end in ends if end[:2] <= recovered])
            }
            self.logged_before = {
                origin: end for origin, end in self.logged_before.items() if end <= recovered
            }
        self.resumed, self.edges, self.forgotten = {}, {}, set()
        for origin, one in self.received.items():
            if origin in self.logged:
                last = self.resumed.get(one.channel)
                if last is None or (last[0] == one.end[0] and last < one.end):
                    self.resumed[one.channel] = one.end
                    self.edges[one.channel] = origin

    def begin_channel(self) -> None:
        """A channel was begun anew by a command: where it goes on, the data may not be."""
        ends = {origin: ends[-1][:2] for origin, ends in self.logged.items()}
        before = self.logged_before | ends
        self.forget()
        self.logged_before = before
        while len(self.logged_before) > REMEMBERED_MAX:
            del self.logged_before[next(iter(self.logged_before))]

    def forget(self) -> None:
        """Records are missing, or the log began anew."""
        self.logged_before = {}
        self.received = {}
        self.logged = {}
        self.resumed, self.edges, self.forgotten = {}, {}, set()
        self.has_gaps, self.passed = set(), {}
        self.unnamed, self.logs_unnamed = set(), False
        self.end_unknown, self.unfollowed = set(), set()

    def judge(
        self,
        channel: str,
        executed: LogCoordinates | None,
        *,
        logs_everything: bool,
        is_seen: bool,
        is_filtered: bool,
        others_are_filtered: bool,
    ) -> RowAnswer:
        """Judge the transactions of one channel at a row.

        Args:
            channel: Its name.
            executed: Up to where of the source's binary log the applier is, None when not known.
            logs_everything: Whether the replica logs what it executes.
            is_seen: Whether events of the channel's relay log were seen.
            is_filtered: Whether the channel leaves transactions out.
            others_are_filtered: Whether another channel does.
        """
        if not logs_everything:
            return Undecided(NOT_LOGGED)
        if not is_seen:
            return Undecided(RELAY_UNSEEN)
        mine = [
            (origin, received)
            for origin, received in self.received.items()
            if received.channel == channel and received.is_judged and not received.is_ambiguous
        ]
        twice = [
            (origin, received)
            for origin, received in mine
            if not received.is_reported
            and len({boot for *_, boot in self.logged.get(origin, ())}) > 1
        ]
        is_wrapped = executed is not None and self._is_wrapped(channel, executed)
        omitted: _Groups = []
        filtered: _Groups = []
        if not is_wrapped:
            passed = _passed(executed, mine)
            if is_filtered:
                filtered, _ = self._over_start(channel, passed)
            else:
                omitted = self._omitted(channel, passed)
                self._note_passed(channel, passed, omitted)
        case, what = ("applied_again", "again") if twice else ("applied_not_at_all", "left out")
        found = twice or omitted
        self._settle(channel, mine)
        if filtered and not found:
            for _, received in filtered:
                received.is_reported = True
            first = _text(filtered[0][1].end)
            return Undecided(OVER_START_FILTERED, count=len(filtered), first=first)
        if not found and is_wrapped and not is_filtered:
            return Undecided(POSITION_WRAPPED)
        if not found:
            repeated = None
            if not (is_filtered or others_are_filtered):
                repeated = self._repeated(channel)
            return repeated or self._undecided(channel, mine) or HOLDS
        for _, received in found:
            received.is_reported = True
        first = _text(found[0][1].end)
        return Broken(case, witness=first, at=f"{what} {first}", first=first, count=len(found))

    def count_unlogged(self, ends: Iterable[tuple[str | None, int, int]]) -> int:
        """How many of the transactions that end there in a source's log are not known as logged."""
        logged = {one.end for origin, one in self.received.items() if origin in self.logged}
        return sum(end not in logged for end in ends)

    def _repeated(self, channel: str) -> Undecided | None:
        """What was brought and executed more often than its source can have committed it."""
        judged = [
            (received, len(self.logged.get(origin, ())))
            for origin, received in self.received.items()
            if received.channel == channel and received.is_judged and received.is_ambiguous
        ]
        for why, again in (
            (
                APPLIED_BY_TWO,
                [one for one, times in judged if one.is_shared and times > one.copies],
            ),
            (GOES_ROUND, [one for one, times in judged if min(one.copies, times) >= ROUNDS_MIN]),
        ):
            if again:
                return Undecided(why, count=len(again), first=_text(again[0].end))
        return None

    def _undecided(self, channel: str, mine: _Groups) -> Undecided | None:
        if channel in self.forgotten:
            return Undecided(START_FORGOTTEN)
        if channel in self.unfollowed:
            return Undecided(CRASH_UNFOLLOWED)
        if self.logged_before:
            again = [
                received
                for origin, received in mine
                if origin in self.logged_before and origin in self.logged
            ]
            if again:
                return Undecided(APPLIED_BEFORE, count=len(again), first=_text(again[0].end))
        if channel in self.passed:
            count, first = self.passed[channel]
            return Undecided(PASSED_UNLOGGED, count=count, first=first)
        if channel in self.end_unknown:
            return Undecided(LOG_END_UNKNOWN)
        is_unnamed = channel in self.unnamed or (self.logs_unnamed and bool(mine))
        return Undecided(ORIGINS_UNKNOWN) if is_unnamed else None

    def _note_passed(self, channel: str, passed: _Groups, omitted: _Groups) -> None:
        """Count those that are not logged between others, but for what a start has left out."""
        done = [at for at, (origin, _) in enumerate(passed) if origin in self.logged]
        between = passed[done[0] : done[-1]] if done else []
        for origin, received in between:
            if origin not in self.logged and not received.is_reported:
                if (origin, received) in omitted:
                    continue
                received.is_reported = True
                count, first = self.passed.get(channel, (0, _text(received.end)))
                self.passed[channel] = count + 1, first

    def _settle(self, channel: str, mine: list[tuple[Origin, _Received]]) -> None:
        """What followed the start was judged, if anything did."""
        last = self.resumed.get(channel)
        if channel in self.edges and any(
            last is not None and received.end > last and origin in self.logged
            for origin, received in mine
        ):
            del self.edges[channel]

    def _is_wrapped(self, channel: str, executed: LogCoordinates) -> bool:
        """Whether what was received may be before or after a position that is beyond 2^32."""
        at = executed.base_name, executed.file_number, executed.position
        ends = {one.end for one in self.received.values() if one.channel == channel}
        is_in_file = any(end[:2] == at[:2] for end in ends)
        return executed.position >= WRAP and is_in_file and at not in ends

    def _omitted(self, channel: str, passed: _Groups) -> _Groups:
        """What a start has left out, unless transactions are missing away from any start too."""
        if channel in self.has_gaps:
            return []
        inside, absent = self._over_start(channel, passed)
        if len(inside) < absent:
            self.has_gaps.add(channel)
            return []
        return inside

    def _over_start(self, channel: str, passed: _Groups) -> tuple[_Groups, int]:
        """What is missing between the last transaction before a start and the first after it.

        Returns:
            Those, and how many are missing in all.
        """
        done = [at for at, (origin, _) in enumerate(passed) if origin in self.logged]
        absent = [
            (at, item)
            for at, item in enumerate(passed)
            if item[0] not in self.logged and not item[1].is_reported and done and at > done[0]
        ]
        if not absent:
            return [], 0
        resumed = self.resumed.get(channel)
        before = [at for at in done if resumed is not None and passed[at][1].end <= resumed]
        after = [at for at in done if at > (before[-1] if before else -1)]
        if not before or not after:
            # What is not followed by an executed transaction may still come.
            return [], 0
        inside = [item for at, item in absent if before[-1] < at < after[0]]
        return inside, len([at for at, _ in absent if at < after[-1]])


def _passed(executed: LogCoordinates | None, mine: _Groups) -> _Groups:
    """Those up to where the applier is, in the source's order."""
    if executed is None:
        return []
    where = executed.file_number, executed.position
    passed = [
        item for item in mine if item[1].end[0] == executed.base_name and item[1].end[1:] <= where
    ]
    return sorted(passed, key=lambda item: item[1].end)


def _is_same_end(one: SourceEnd, other: SourceEnd) -> bool:
    """A relay log names positions modulo 2^32."""
    return one[:2] == other[:2] and (one[2] - other[2]) % WRAP == 0


def _text(end: SourceEnd) -> str:
    return f"{end[0]}.{end[1]:06d}:{end[2]}"
