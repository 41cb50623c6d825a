"""Evidence that rules between instances judge: what a replica shows at one time."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tallystick.coordinates.audit.journal_position import JournalPosition
from tallystick.coordinates.values.gtid import GtidSet

IntArray = npt.NDArray[np.int64]
Coordinates = tuple[str, int]
"""(file name, position) as a server prints them."""


@dataclass(frozen=True, slots=True)
class ChannelRow:
    """What one log_status row of a replica shows of a channel."""

    instance_id: str
    at: JournalPosition
    server_id: int | None
    retrieved: GtidSet | None
    has: GtidSet | None
    """Executed or retrieved by the replica, None not known."""
    read: Coordinates | None
    executed: Coordinates | None
    auto_position: bool
    coordinates_ts: int | None
    """Since when the coordinates are of the present source, None not known."""
    retrieved_ts: int | None
    """Since when the retrieved set grows from nothing, None not known."""
    received_at: int | None
    """When the observer was asked for it, by its own clock, None not known."""
    gtid_executed: GtidSet | None
    """Of the replica; None not known, or the receiver leaves out groups of its source."""
    own_pending: GtidSet | None
    """What its binary log has of its own GTIDs and gtid_executed has not, None not known."""
    logs_everything: bool
    """Whether the replica logs what it applies."""
    queued: GtidSet
    """GTIDs of what was seen to be queued in the channel's relay log."""
    compared_ts: int | None
    """Since when other rules compare what came before that: relay_mirrors_source where it was seen
    to ask for all that it lacked, rules on clones and restores where its data were replaced."""
    ignores_servers: bool
    former: frozenset[str]
    """Which coordinates, "read" or "executed", may still be of the channel's previous source."""
    may_execute_former: bool
    """Whether the executed ones may be of an earlier source because nothing of the present one is
    known to be executed: what is right is so of either."""
    shows_progress: bool
    """Whether the replica status says how far the applier is, in a log that is known."""
    is_connected: bool
    """Whether its receiver is connected: what the source has sent may be under way."""
    is_held_back: bool
    """Whether a backup's lock held its receiver back at or before the row."""
    relay: Coordinates | None
    """Where the channel's relay log ends, None not known."""
    seen: GtidSet
    """What the replica's binary log and the relay log held when the row came, as far as read."""
    received_count: int
    """How many groups the relay log had got by then, as far as read."""


class Uncounted(NamedTuple):
    """What a server had executed before RESET BINARY LOGS AND GTIDS, which was at `ts`."""

    ts: int
    gtids: GtidSet


@dataclass(frozen=True, slots=True)
class ReplicaExecuted:
    """What one log_status row of a replica shows as executed.

    Attributes:
        executed: All but what SET gtid_purged gave it.
        assigned: What that gave it.
        skipped: What of that it had not received, though it was a replica already.
        retrieved: By all channels, None not known.
        before: What it had executed at the first row of its journal: channels that were gone by
            then may have brought it.
        uncounted: What it had executed before a RESET BINARY LOGS AND GTIDS, and has executed again
            since, or is connected and will be sent again, each with when that was; its data are
            the same.
    """

    instance_id: str
    at: JournalPosition
    executed: GtidSet
    server_uuid: str | None
    group_uuid: str | None
    retrieved: GtidSet | None
    assigned: GtidSet
    skipped: GtidSet
    before: GtidSet
    uncounted: tuple[Uncounted, ...]


@dataclass(frozen=True, slots=True)
class MemberRow:
    """What one log_status row of an instance shows of it as a member of a cluster.

    Attributes:
        executed: Everything; `assigned` of it came by SET gtid_purged.
        own: What it has numbered itself.
        is_attached: Whether it has a channel, other than those of its group.
        cluster: None not known.
        group_uuid: Of its replication group, None: it is in none.
        writes_anonymous: Whether it has logged groups without GTIDs that may be its own.
    """

    instance_id: str
    at: JournalPosition
    executed: GtidSet
    assigned: GtidSet
    own: GtidSet
    is_attached: bool
    cluster: str | None
    group_uuid: str | None
    writes_anonymous: bool


@dataclass(frozen=True, slots=True, eq=False)
class QueuedRun:
    """Groups queued one after the other from one file of the source.

    Attributes:
        base_name, file_number: The source's file; base name None: not known.
        ends: Position of the source after each group, -1 not known.
        sids: Table that `sid` refers to; there -1 is an anonymous group.
        sid, gno: GTID of each group.
        connects: The receiver connected before the first of them.
        begins: The channel began anew before the first of them.
        asks_anew: Then, or at a start of the replica, it asked by auto-positioning, and no record
            is missing since: what the replica lacked, the source sends first.
        after: Times after which the groups were queued, as far as known: from which of them on
            counts which, in order.
        unproven: What the replica had executed or received before it asked anew, as far as no row
            shows it since: it may have lost that.
        sender: server_id of the server that sent them, None not known.
        between: Keys of the sources one of which has sent them, where a row has shown another one
            than the row before; else empty.
    """

    base_name: str | None
    file_number: int
    ends: IntArray
    sids: tuple[str, ...]
    sid: npt.NDArray[np.int32]
    gno: IntArray
    connects: bool
    begins: bool
    asks_anew: bool = False
    after: tuple[tuple[int, int], ...] = ()
    unproven: GtidSet = GtidSet.EMPTY
    sender: int | None = None
    between: tuple[str, ...] = ()

    def count_until(self, ts: int) -> int:
        """How many groups, from the first on, may have been queued at `ts` or before."""
        later = (index for index, after in self.after if after > ts)
        return next(later, len(self.ends))

    def part(self, begin: int, end: int) -> QueuedRun:
        """Some of the groups; what came before the first of them is not known unless it is ours."""
        known = [(max(at - begin, 0), after) for at, after in self.after if at < end]
        return replace(
            self,
            ends=self.ends[begin:end],
            sid=self.sid[begin:end],
            gno=self.gno[begin:end],
            connects=self.connects and not begin,
            begins=self.begins and not begin,
            asks_anew=self.asks_anew and not begin,
            after=tuple(dict(known).items()),
        )


@dataclass(frozen=True, slots=True)
class GroupsQueued:
    """What a channel has queued since the log_status row before."""

    at: JournalPosition
    since_ts: int
    """Time of that row: none of the groups was queued before it."""
    runs: tuple[QueuedRun, ...]
    executed: tuple[GtidSet, ...]
    """Everything the replica is known to have executed or received, in parts."""
    is_row: bool
    """Whether a row ends it, so that `executed` holds what the journal may have missed."""
    ignores_servers: bool
    server_uuid: str | None
    """The replica's own."""
    earlier_us: int = 0
    """By how much the groups may have been queued before the times that their runs have."""

    @property
    def group_count(self) -> int:
        """How many groups."""
        return sum(len(run.ends) for run in self.runs)


@dataclass(frozen=True, slots=True)
class CloneMade:
    """What clone_status of a recipient shows, and the end of its redo log."""

    at: JournalPosition
    clone_ts: int
    coordinates: Coordinates
    executed: GtidSet
    recipient: str
    recovered_lsn: int | None
    is_whole: bool
    """Whether it began at `clone_ts`, and was not under way when the journal of it began."""


@dataclass(frozen=True, slots=True)
class CloneResumed:
    """The first group that a recipient received after a clone."""

    at: JournalPosition
    clone: CloneMade
    first_queued: tuple[str, int, int, str]
    """Source base name, file number, position after the group (-1 not known), GTID ("" anonymous).
    """
    is_first: bool
    """Whether none came before it: the journal had the clone before the recipient received."""
    retrieved: GtidSet
    """What the row shows of the channel's; empty: it does not tell what came before that group."""
    has: GtidSet
    """What the row shows as received or executed."""


@dataclass(frozen=True, slots=True)
class ImageChannel:
    """What the summary of an image says of a channel of the replica that it was taken of.

    Attributes:
        read, executed: Coordinates in the source's log, None not in it.
        coordinates_ts: Since when they are of the present source, None not known.
        ignores_servers: Whether its receiver leaves out groups of its source, or may.
        former: Which of them may still be of the channel's previous source.
        may_execute_former: As of a row.
    """

    instance_id: str
    at: JournalPosition
    backup_id: str
    read: Coordinates | None
    executed: Coordinates | None
    coordinates_ts: int | None
    ignores_servers: bool
    former: frozenset[str]
    may_execute_former: bool


@dataclass(frozen=True, slots=True)
class ChannelPut:
    """CHANGE REPLICATION SOURCE to a position, or RESET REPLICA of a channel by position.

    Attributes:
        coordinates: The position, in the log of the source; None: where that begins.
        data_at: Coordinates, each in the log of an instance, of which the data are known to be.
        executed: Of the source, by the last row of these data; None: not known.
        executed_ts: When that was.
    """

    instance_id: str
    at: JournalPosition
    coordinates: Coordinates | None
    data_at: frozenset[tuple[str, Coordinates]]
    executed: Coordinates | None = None
    executed_ts: int = -1


@dataclass(frozen=True, slots=True)
class RestoreMade:
    """An image was restored.

    Attributes:
        body: The summary as the restored server has it: the ``restore`` record.
        server_uuid: The restored server's own, None not known.
        is_fresh: Whether it has neither logged nor received anything yet.
        given: What SET gtid_purged has given it since its data were replaced.
        again: What it has logged since, though `body` has it as executed.
    """

    at: JournalPosition
    body: dict[str, Any]
    server_uuid: str | None
    is_fresh: bool
    given: GtidSet
    again: GtidSet

    @property
    def backup_id(self) -> str:
        """Which image."""
        return str(self.body["backup_id"])


@dataclass(frozen=True, slots=True)
class RestoredServer:
    """What is known of a restored server beside what it has logged.

    Attributes:
        server_uuid: Its own, None not known.
        given: What SET gtid_purged has given it since its data were replaced.
        has_binlog: log_bin, as of its last start.
    """

    server_uuid: str | None
    given: GtidSet
    has_binlog: bool


@dataclass(frozen=True, slots=True)
class RecoveryMade:
    """A recovery that has ended, as the restored server has reported it.

    Attributes:
        begun_ts: When the replay began.
        restored: The bodies of its records, by step: ``restore``, ``replay``, ``replayed``.
        replayed: GTIDs of the groups that it logged meanwhile, "" anonymous; None: not all known.
        before: GTIDs of what it logged between ``restore`` and ``replay``; None: not all known.
        is_ordered: Whether groups must be logged in the order of the log that is replayed.
        resumed: Where in that log the replays before this one have ended, None: it is the first.
        excluded: What this one and those before it left out on purpose.
        server: The restored server.
    """

    at: JournalPosition
    begun_ts: int
    restored: dict[str, dict[str, Any]]
    replayed: tuple[str, ...] | None
    before: GtidSet | None
    is_ordered: bool
    resumed: Coordinates | None
    excluded: GtidSet
    server: RestoredServer

    @property
    def backup_id(self) -> str:
        """Which image."""
        return str(self.restored["restore"]["backup_id"])

    @property
    def image_of(self) -> str:
        """The instance that the image was taken of."""
        return str(self.restored["restore"]["peer"])

    @property
    def source(self) -> str:
        """The instance whose binary log was replayed."""
        return str(self.restored["replay"]["peer"])

    @property
    def end(self) -> Coordinates:
        """Where in that log the replay ended."""
        body = self.restored["replayed"]
        return body["to_file"], body["to_position"]

    def gtids(self, step: str, key: str = "gtid_executed") -> GtidSet | None:
        """A set of a record, None not in it."""
        text = self.restored[step].get(key)
        return None if text is None else GtidSet.parse(text)


Evidence = (
    ChannelRow
    | ReplicaExecuted
    | MemberRow
    | GroupsQueued
    | CloneMade
    | CloneResumed
    | ImageChannel
    | ChannelPut
    | RestoreMade
    | RecoveryMade
)


def at_any_time(item: Evidence, later_us: int, earlier_us: int) -> Evidence:
    """Evidence by a source's clock that is not known: read as late, and of what began as early.

    Args:
        item: The evidence, by the replica's clock.
        later_us: By how much the source's clock may be ahead of the replica's.
        earlier_us: By how much it may be behind it.
    """
    since: dict[str, Any] = {name: ts - earlier_us for name, ts in _began(item).items()}
    if isinstance(item, GroupsQueued):
        since["earlier_us"] = earlier_us
    return replace(item, at=item.at._replace(ts=item.at.ts + later_us), **since)


def first_ts(item: Evidence) -> int:
    """The earliest time of evidence: its own, or when something began that it shows."""
    return min((item.at.ts, *(ts for ts in _began(item).values() if ts >= 0)))


def _began(item: Evidence) -> dict[str, int]:
    """Since when there is what evidence shows, by fields; -1: since before the journal."""
    names = (one.name for one in fields(item) if one.name.endswith("_ts"))
    return {name: ts for name in names if (ts := getattr(item, name)) is not None}


REPLAYED_MAX = 2**16
"""Groups of one recovery that are remembered; beyond it the replay is not judged."""


@dataclass(slots=True)
class RunningRecovery:
    """What a restored server has shown so far; a log may be replayed in several steps.

    Attributes:
        restored: The bodies of its records, by step.
        logged: GTIDs that it has logged since the replay began, "" anonymous.
        before: GTIDs that it had logged since ``restore`` and until then; None: not all known.
        is_replaying: Whether a replay has begun and not ended.
        begun_ts: When that began.
        is_whole: Whether everything that it logged meanwhile was seen.
        ended: Where in the log of an instance the replays of it have ended.
        excluded: What they left out on purpose.
        claimed: What the server had executed according to ``restore``, unless it has forgotten
            that since.
    """

    restored: dict[str, dict[str, Any]]
    claimed: GtidSet = GtidSet.EMPTY
    logged: list[str] = field(default_factory=list)
    before: GtidSet | None = GtidSet.EMPTY
    is_replaying: bool = False
    begun_ts: int = -1
    is_whole: bool = True
    ended: dict[str, Coordinates] = field(default_factory=dict)
    excluded: GtidSet = GtidSet.EMPTY

    def log(self, sids: list[str], of_group: npt.NDArray[Any], gno: npt.NDArray[Any]) -> None:
        """Groups were logged; ``of_group`` indexes ``sids``, -1 anonymous."""
        if not self.is_replaying:
            if self.before is not None:
                named = of_group >= 0
                self.before |= GtidSet.from_groups(sids, of_group[named], gno[named])
            return
        if not self.is_whole:
            return
        for sid, number in zip(of_group.tolist(), gno.tolist(), strict=True):
            self.logged.append(f"{sids[sid]}:{number}" if sid >= 0 else "")
        if len(self.logged) > REPLAYED_MAX:
            self.lose()

    def take_claimed(
        self, sids: list[str], of_group: npt.NDArray[Any], gno: npt.NDArray[Any]
    ) -> GtidSet:
        """What the server logs that it should have had already; each is given once."""
        if not self.claimed:
            return GtidSet.EMPTY
        named = of_group >= 0
        found = self.claimed & GtidSet.from_groups(sids, of_group[named], gno[named])
        self.claimed = self.claimed - found
        return found

    def lose(self) -> None:
        """What was logged is not known any more."""
        if self.is_replaying:
            self.is_whole = False
            self.logged = []
        else:
            self.before = None

    def begin_replay(self, body: dict[str, Any], ts: int) -> None:
        """What is logged from now on is replayed; one that was broken off goes on."""
        if not self.is_replaying:
            self.is_replaying, self.is_whole, self.logged = True, True, []
        elif self.restored["replay"]["peer"] != body["peer"]:
            self.lose()  # which group is of which log is not known
        self.restored["replay"], self.begun_ts = body, ts
        if body.get("excluded"):
            self.excluded |= GtidSet.parse(body["excluded"])

    def end(
        self, at: JournalPosition, body: dict[str, Any], server: RestoredServer, *, is_ordered: bool
    ) -> RecoveryMade:
        """The replay has ended; another one may follow."""
        source = str(self.restored["replay"]["peer"])
        made = RecoveryMade(
            at,
            self.begun_ts,
            {**self.restored, "replayed": body},
            tuple(self.logged) if self.is_whole else None,
            self.before,
            is_ordered,
            self.ended.get(source),
            self.excluded,
            server,
        )
        self.ended[source] = max(made.resumed or made.end, made.end, key=_in_log)
        if made.replayed is None or self.before is None:
            self.before = None
        else:
            self.before |= GtidSet.parse(",".join(filter(None, made.replayed)))
        self.is_replaying, self.logged = False, []
        return made


def _in_log(coordinates: Coordinates) -> tuple[int, str, int]:
    """The order of coordinates in one log: numbers of files grow beyond six digits."""
    file, position = coordinates
    return len(file), file, position
