"""An instance as a replica: its channels, and what they have queued."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tallystick.coordinates.audit.comparison import (
    Coordinates,
    GroupsQueued,
    QueuedRun,
    RunningRecovery,
    Uncounted,
)
from tallystick.coordinates.audit.journal_position import JournalPosition
from tallystick.coordinates.audit.topology import source_key
from tallystick.coordinates.events.log_status import GROUP_REPLICATION
from tallystick.coordinates.logs.sid_table import SidTable
from tallystick.coordinates.values.binlog import parse_log_file_name
from tallystick.coordinates.values.errors import CoordinateError
from tallystick.coordinates.values.growing_set import GrowingGtidSet
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tallystick.coordinates.audit.fleet_events import FleetEvent

CONNECTS = frozenset({"reconnect", "start_receiver"})
BEGINS = frozenset({"change_source", "reset", "reset_all", "relay_log_recovery"})
FORGETS_COORDINATES = frozenset({"change_source", "reset", "reset_all"})
NAMED_MAX = 64
RESETS_MAX = 8
"""So many of the newest are kept apart; what is older counts with the oldest of them."""

FirstQueued = tuple[str, int, int, str]


class NamedSource(NamedTuple):
    """From ``ts`` on the source of that key is the server of that `server_uuid`, None not known."""

    ts: int
    key: str
    server_uuid: str | None


@dataclass(slots=True)
class Run:
    """Groups queued from one file since the last row, in the pieces in which they came."""

    base_name: str | None
    file_number: int
    connects: bool
    begins: bool
    asks_anew: bool
    sender: int | None = None
    between: tuple[str, ...] = ()
    ends: list[npt.NDArray[Any]] = field(default_factory=list)
    sid: list[npt.NDArray[Any]] = field(default_factory=list)
    gno: list[npt.NDArray[Any]] = field(default_factory=list)
    after: list[tuple[int, int]] = field(default_factory=list)

    def compact(self) -> None:
        """Bring each column into one array: so it is saved."""
        for column in (self.ends, self.sid, self.gno):
            column[:] = [_joined(column)]


@dataclass(frozen=True, slots=True)
class FormerRead:
    """What a channel had read when it was given, or found, another source.

    Behind one address another server may answer, and a receiver may go over to another source by
    itself: until it has received something, the row still has the previous coordinates.

    Attributes:
        before: In the last row before; None: not known.
        first: In the first row after it; None: there was none yet.
    """

    before: Coordinates | None
    first: Coordinates | None = None

    def may_be(self, read: Coordinates | None) -> bool:
        """Whether coordinates may still be of the former source."""
        if self.first not in (None, read):
            return False
        if read is None or self.before is None:
            return True
        try:
            base_name, number = parse_log_file_name(read[0])
            base_before, number_before = parse_log_file_name(self.before[0])
        except CoordinateError:
            return bool(read[0])  # without a file the relay logs are gone, too
        is_later = (number, read[1]) >= (number_before, self.before[1])
        return base_name == base_before and is_later


@dataclass(slots=True)
class ReplicaChannel:
    """One channel.

    Attributes:
        is_listed: Whether a log_status row has named it.
        coordinates_ts: Since when its coordinates are of the present source.
        retrieved_ts: Since when its relay log grows from nothing.
        queued_ts: Time of the last row: what has not been handed on was queued after it.
        queued_count: How many groups have not been handed on.
        connects, begins: What happened since the last group queued.
        asks_anew: It began anew since then, or the server started, by auto-positioning, and no
            record is missing.
        compared_ts: Since when other rules compare what came before its first queued groups, None:
            they do not. It was seen to ask for all that it lacked, as it began anew or the server
            started, or its data were replaced.
        unproven: What the server had executed or received when the channel last began anew, or the
            server started, as far as no row has shown it since.
        earlier_runs: How many of `runs` were queued before then.
        is_filtered: Whether groups of the source are left out, or may be.
        ignores_servers: Whether its receiver does, or may: these are executed under no GTID.
        auto_position: None not known.
        is_put_by_position: Whether the record of its source says so, whatever rows show.
        is_reset: RESET REPLICA has made it forget its position, and it has not started since.
        begun_ts: When its relay log was last seen to begin anew: what is in it came later.
        first_queued: The first group since the instance's data was cloned.
        is_first_held: Whether neither it nor the channel's relay log may have been given up since.
        received: GTIDs of everything that it has ever queued.
        received_count: How many groups that were, those without a GTID too.
        read: Source coordinates that the receiver had in the last row.
        former_read: Those of when another source was found, until they are of that one.
        executes_former: Whether what the applier executes may still be of the source before.
        may_execute_former: The same, where nothing of the present one is known to be executed.
    """

    name: str
    lineage: int = 0
    source_instance: str | None = None
    source_uuid: str | None = None
    source_server_id: int | None = None
    is_filtered: bool = False
    ignores_servers: bool = False
    is_listed: bool = False
    coordinates_ts: int | None = None
    retrieved_ts: int | None = None
    queued_ts: int = -1
    queued_count: int = 0
    connects: bool = True
    begins: bool = True
    asks_anew: bool = False
    auto_position: bool | None = None
    is_put_by_position: bool = False
    is_reset: bool = False
    begun_ts: int = -1
    compared_ts: int | None = None
    first_queued: FirstQueued | None = None
    is_first_held: bool = False
    received: GrowingGtidSet = field(default_factory=GrowingGtidSet)
    received_count: int = 0
    runs: list[Run] = field(default_factory=list)
    unproven: GtidSet = GtidSet.EMPTY
    earlier_runs: int = 0
    read: Coordinates | None = None
    former_read: FormerRead | None = None
    executes_former: bool = False
    may_execute_former: bool = False

    @property
    def key(self) -> str | None:
        """The source, as far as known."""
        return source_key(self.source_instance, self.source_uuid)

    @property
    def has_source(self) -> bool:
        """Whether the channel is of the kind that has one."""
        return not self.name.startswith(GROUP_REPLICATION)

    @property
    def is_of_group(self) -> bool:
        """Whether all members of a group send it: its Source_UUID is no server's."""
        return self.name == f"{GROUP_REPLICATION}applier"

    def change_source(self, body: Mapping[str, Any]) -> None:
        """CHANGE REPLICATION SOURCE."""
        uuid = body.get("source_uuid")
        instance = body.get("source_instance")
        before = self.key
        self.source_instance = str(instance) if instance else None
        self.source_uuid = str(uuid).lower() if uuid else None
        if before not in (None, self.key):
            self._leave_source()
        self.source_server_id = None
        self.is_filtered = bool(body.get("filtered") or body.get("ignore_server_ids"))
        self.ignores_servers = self.is_filtered
        self.auto_position = body.get("auto_position", True)
        self.is_put_by_position = not self.auto_position
        self.is_reset = False

    def find_source(self, uuid: str, instance: str | None) -> None:
        """A row names the server that sends: what was queued since the last row may be of both."""
        before = self.source_uuid
        self.source_uuid = uuid or before
        if before in (None, self.source_uuid):
            self.source_instance = instance or self.source_instance
            return
        former, self.source_instance = self.key, instance
        self._leave_source()
        for run in self.runs:
            run.between = (*run.between, *(key for key in (former, self.key) if key is not None))
        self.connects, self.asks_anew = True, self.auto_position is True
        # At the latest before the groups of the last sender the new one was asked.
        last = [*takewhile(lambda run: run.sender == self.runs[-1].sender, reversed(self.runs))]
        for run in last[-1:]:
            run.connects, run.asks_anew = True, self.asks_anew

    def _leave_source(self) -> None:
        self.former_read = FormerRead(self.read)
        self.executes_former = True

    def place(self, read: Coordinates | None, *, executes_former: bool) -> frozenset[str]:
        """Take a row's coordinates.

        Args:
            read: The receiver's.
            executes_former: Whether those of the applier may be of the source before: it has not
                passed what was in the relay log when the channel found its present one.

        Returns:
            As ``former``.
        """
        self.read, self.executes_former = read, executes_former
        among = self.former(read)
        if self.former_read is not None:
            first = read if self.former_read.first is None else self.former_read.first
            self.former_read = replace(self.former_read, first=first) if "read" in among else None
        return among

    def former(self, read: Coordinates | None) -> frozenset[str]:
        """Which of "read" and "executed" may still be of the source that the channel had before."""
        is_read = self.former_read is not None and self.former_read.may_be(read)
        return frozenset(
            name
            for name, may_be in (("read", is_read), ("executed", self.executes_former))
            if may_be
        )

    def show_auto_position(self, *, is_on: bool) -> None:
        """A row shows how the channel asks: a record of its change may have left that out."""
        self.auto_position = is_on
        if not is_on:
            self.asks_anew = False
            for run in self.runs:
                run.asks_anew = False

    def begin_anew(self, ts: int, unproven: GtidSet, *, is_moved: bool) -> None:
        """What it had received is given up, and the source is asked for what is missing.

        Args:
            ts: When.
            unproven: What the replica had executed or received, as far as no row has shown it.
            is_moved: Whether somebody may have put it elsewhere: by position relay log recovery
                alone goes on where the applier was, so with nothing left out.
        """
        self.connects = True
        self.begins |= is_moved or self.auto_position is not False
        self.begun_ts = ts
        self.asks_anew = self.auto_position is True
        self._doubt(unproven)

    def start(self, unproven: GtidSet) -> None:
        """The server starts: what a crash took, the source is asked for by GTID set."""
        self.connects = True
        if not self.begins:
            self.asks_anew = self.auto_position is True
        self._doubt(unproven)

    def _doubt(self, unproven: GtidSet) -> None:
        self.unproven = unproven
        self.is_first_held = False
        self.earlier_runs = len(self.runs)

    def lose(self) -> None:
        """Part of the relay log is missing: groups may have come that are not shown."""
        self.begins = True
        self.asks_anew = False

    def queue(
        self, body: Mapping[str, Any], arrays: Mapping[str, Any], sid: Any, after: int
    ) -> None:
        """Complete groups were queued after a time; `sid` indexes the instance's table."""
        base_name, number = body["source_base_name"], body["source_file_number"]
        sender = body.get("sender_server_id")
        ends = arrays["group_source_end"]
        if not len(ends):
            return
        last = self.runs[-1] if self.runs else None
        file = base_name, number, sender
        is_new = last is None or (last.base_name, last.file_number, last.sender) != file
        if last is None or is_new or self.connects or self.begins:
            last = Run(base_name, number, self.connects, self.begins, self.asks_anew, sender)
            self.runs.append(last)
            self.connects = self.begins = self.asks_anew = False
        after = max(after, self.begun_ts)
        if not last.after or last.after[-1][1] < after:
            last.after.append((sum(map(len, last.ends)), after))
        last.ends.append(ends)
        last.sid.append(sid)
        last.gno.append(arrays["group_gno"])
        self.queued_count += len(ends)

    def hand_on(
        self,
        at: JournalPosition,
        sids: list[str],
        executed: tuple[GtidSet, ...],
        *,
        shown: tuple[GtidSet, ...],
        server_uuid: str | None,
        is_row: bool,
    ) -> GroupsQueued | None:
        """What was queued since the last call; `shown`: what a row says that the server has."""
        since, self.queued_ts = self.queued_ts, at.ts
        for part in shown:
            self.unproven = self.unproven - part
        if not self.runs:
            return None
        runs = tuple(
            QueuedRun(
                base_name=run.base_name,
                file_number=run.file_number,
                ends=_joined(run.ends),
                sids=tuple(sids),
                sid=_joined(run.sid),
                gno=_joined(run.gno),
                connects=run.connects,
                begins=run.begins,
                asks_anew=run.asks_anew,
                after=tuple(run.after),
                between=run.between,
                unproven=self.unproven if number >= self.earlier_runs else GtidSet.EMPTY,
                sender=run.sender,
            )
            for number, run in enumerate(self.runs)
        )
        asked = [run.after[0][1] for run in self.runs if run.asks_anew]
        self.compared_ts = asked[-1] if asked else self.compared_ts
        self.runs = []
        self.queued_count = self.earlier_runs = 0
        parts = (*executed, *shown)
        return GroupsQueued(at, since, runs, parts, is_row, self.ignores_servers, server_uuid)


def _joined(chunks: list[npt.NDArray[Any]]) -> Any:
    return chunks[0] if len(chunks) == 1 else np.concatenate(chunks)


class AppliedTo(NamedTuple):
    """Executed source coordinates of a channel in its last row.

    Attributes:
        key: The source.
        ts: Time of that row.
        coordinates_ts: Since when they are of the present source, None not known.
        is_of_data: Whether its data are still those of that row, and no record is missing since.
    """

    key: str
    ts: int
    coordinates: Coordinates
    coordinates_ts: int | None
    is_of_data: bool = True


@dataclass(eq=False)
class Replica(SidTable):
    """One instance as a replica.

    Attributes:
        left: GTIDs that came through channels which are gone, while others remained.
        left_uuids: Those channels' sources.
        gone: Names of channels removed by RESET REPLICA ALL.
        assigned: GTIDs that SET gtid_purged has given it.
        skipped: What of that it had not received, though it had a channel and had shown a row
            since its data were replaced or its binary log was reset.
        given: The same, since its data were replaced or its binary log was reset.
        shown: What the last row showed as executed, since nothing may have taken it back.
        before: What the first row showed as executed since the journal, or its data, began; None:
            there was none yet.
        uncounted: What of other servers it had executed before its last RESETs BINARY LOGS AND
            GTIDS, without what SET gtid_purged named since; nothing once its data were replaced.
        data_lineage: How many data directories it has had.
        is_fresh: Whether its data directory was replaced at its last start, and it has neither
            logged nor received anything since, as far as the journal, which has no gap, shows.
        data_ts: When its data directory was last replaced, None: it was not.
        clone_peer, clone_ts: Donor of the last clone that the journal has reported, and a time
            after which its coordinates were taken: of its begin, or before that; None not known.
        clone_end_ts: When that clone was recorded as completed, None before.
        recovered_lsn: Where recovery found the end of its redo log.
        clone_is_whole: Whether its begin was reported.
        found_clone: The record of that clone where clone_status alone has shown it.
        is_clone_status_read: Whether a row has shown how that clone ended.
        resumed_from: Sources that have sent groups since that clone; a channel made later, or
            pointed elsewhere and back, goes on where another has ended.
        recovery: What has happened since its data were restored from an image.
        applied_to: By channel; a channel of which records are missing is still there.
        keeps_commit_order, has_binlog: replica_preserve_commit_order and log_bin, as of its last
            start.
        named: As which server its channels' sources were named, and since when; the newest.
        at: Position of the last fleet event that does not depend on how the journal was cut.
        all_until: Up to when all that it had received is in its journal; before a row or a
            heartbeat, when the journal began.
    """

    channels: dict[str, ReplicaChannel] = field(default_factory=dict)
    left: GtidSet = GtidSet.EMPTY
    left_uuids: list[str] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)
    assigned: GtidSet = GtidSet.EMPTY
    given: GtidSet = GtidSet.EMPTY
    skipped: GtidSet = GtidSet.EMPTY
    shown: GtidSet = GtidSet.EMPTY
    before: GtidSet | None = None
    uncounted: list[Uncounted] = field(default_factory=list)
    data_lineage: int | None = None
    is_fresh: bool = False
    data_ts: int | None = None
    clone_peer: str | None = None
    clone_ts: int | None = None
    clone_end_ts: int | None = None
    recovered_lsn: int | None = None
    clone_is_whole: bool = False
    found_clone: dict[str, Any] | None = None
    is_clone_status_read: bool = False
    resumed_from: set[str] = field(default_factory=set)
    judged_clones: set[str] = field(default_factory=set)
    recovery: RunningRecovery | None = None
    applied_to: dict[str, AppliedTo] = field(default_factory=dict)
    keeps_commit_order: bool = True
    has_binlog: bool = True
    named: list[NamedSource] = field(default_factory=list)
    at: JournalPosition | None = None
    all_until: int | None = None

    def channel(self, name: str) -> ReplicaChannel:
        """A channel, begun when new."""
        found = self.channels.get(name)
        if found is None:
            found = self.channels[name] = ReplicaChannel(name, compared_ts=self.data_ts)
            self.gone.discard(name)
        return found

    def name_source(self, channel: ReplicaChannel, ts: int) -> None:
        """A record of `ts` says which server a channel's source is, beside its name."""
        if channel.key is None or channel.source_instance is None:
            return
        last = next((one for one in reversed(self.named) if one.key == channel.key), None)
        if last is None or last.server_uuid != channel.source_uuid:
            found = NamedSource(ts, channel.key, channel.source_uuid)
            self.named = [*self.named[1 - NAMED_MAX :], found]

    def source_uuid(self, key: str, ts: int) -> str | None:
        """Which server the source of a key was at `ts`, as its channels say; None not known."""
        for one in reversed(self.named):
            if one.key == key and one.ts <= ts:
                return one.server_uuid
        return None

    def is_gone(self, said: Mapping[str, Any]) -> bool:
        """Whether a row only names a removed channel: info tables may still hold its rows."""
        return said["channel"] in self.gone and not said["source_uuid"]

    def receive(self, event: FleetEvent, sid: npt.NDArray[np.int32]) -> ReplicaChannel:
        """Groups were queued."""
        body = event.body
        self.is_fresh = False
        channel = self.channel(body["channel"])
        if body["channel_lineage"] != channel.lineage:
            channel.lineage = body["channel_lineage"]
            channel.begins = True
        if body["follows_hole"]:
            channel.lose()
        sender = channel.key or channel.name
        if self.clone_ts is not None and len(sid) and sender not in self.resumed_from:
            self.resumed_from.add(sender)
            channel.first_queued = self._first(body, event.arrays, sid)
            channel.is_first_held = True
            if sender == f"i:{self.clone_peer}":
                channel.asks_anew = False  # clone_resume_exact judges what comes first
        channel.received_count += len(sid)
        channel.queue(body, event.arrays, sid, -1 if self.all_until is None else self.all_until)
        return channel

    def _first(
        self, body: Mapping[str, Any], arrays: Mapping[str, Any], sid: npt.NDArray[np.int32]
    ) -> FirstQueued:
        gtid = f"{self.sids[sid[0]]}:{arrays['group_gno'][0]}" if sid[0] >= 0 else ""
        base_name = body["source_base_name"]
        end = -1 if base_name is None else int(arrays["group_source_end"][0])
        return base_name or "", body["source_file_number"], end, gtid

    def data_at(self) -> frozenset[tuple[str, Coordinates]]:
        """Coordinates, each in the log of an instance, of which its data are by what was recorded.

        After a restore those of the image, and where replays have ended.
        """
        if self.recovery is None:
            return frozenset()
        image = self.recovery.restored["restore"]
        said = [(image.get("peer"), image.get("binlog_file"), image.get("binlog_position"))]
        said += [
            (
                of.get("source_instance"),
                of.get("exec_source_log_file"),
                of.get("exec_source_log_pos"),
            )
            for of in image.get("channels") or ()
        ]
        known = {(str(i), (str(f), p)) for i, f, p in said if i and f and isinstance(p, int)}
        return frozenset(known | set(self.recovery.ended.items()))

    def needs(self) -> Iterator[AppliedTo]:
        """From where on its channels still need their sources' logs, as far as known."""
        for name, applied_to in self.applied_to.items():
            channel = self.channels.get(name)
            if channel is None or channel.key in (None, applied_to.key):
                yield applied_to

    def begin_data_lineage(self) -> None:
        """Another data directory: its channels are those of the copy, until recorded otherwise."""
        self.channels = {}
        self.resumed_from = set()
        self.left = self.shown = self.given = self.skipped = GtidSet.EMPTY
        self.uncounted = []
        self.before = None
        self.left_uuids = []
        self._doubt_data()
        self._forget_claimed()

    def _doubt_data(self) -> None:
        """What a row has shown as executed is of other data, or may be."""
        self.applied_to = {n: to._replace(is_of_data=False) for n, to in self.applied_to.items()}

    def _forget_claimed(self) -> None:
        """What a restore says is executed says nothing of what the server logs from now on."""
        if self.recovery is not None:
            self.recovery.claimed = GtidSet.EMPTY

    def reset(self, executed: GtidSet, ts: int) -> None:
        """RESET MASTER: what its receivers named when they connected no row need show.

        Args:
            executed: What of other servers it had executed.
            ts: When it was noticed.
        """
        self._count_given()
        found = [*self.uncounted, Uncounted(ts, executed)]
        if len(found) > RESETS_MAX:
            first, second, *newer = found
            found = [second._replace(gtids=first.gtids | second.gtids), *newer]
        self.uncounted = found
        self.shown = self.before = self.given = self.skipped = GtidSet.EMPTY
        self._forget_claimed()
        for channel in self.channels.values():
            channel.unproven = GtidSet.EMPTY
            channel.is_first_held = False

    def lose_records(self) -> None:
        """Records are missing: only what explains executed GTIDs is kept."""
        known = self.left
        for channel in self.channels.values():
            known = known | channel.received.freeze()
        self.left = known
        self._doubt_data()
        self._forget_claimed()
        self.shown = GtidSet.EMPTY
        self.uncounted = []
        self.before = None
        self.channels = {}
        self.clone_peer = self.clone_ts = self.clone_end_ts = self.found_clone = None

    def _count_given(self, purged: GtidSet = GtidSet.EMPTY) -> None:
        given = self.given | purged
        found = [Uncounted(ts, gtids - given) for ts, gtids in self.uncounted]
        self.uncounted = [one for one in found if one.gtids]

    def counted_again(
        self, values: Sequence[Mapping[str, Any]], executed: GtidSet, purged: GtidSet
    ) -> tuple[Uncounted, ...]:
        """What was executed before a RESET and has come again, or will come.

        Args:
            values: The channels of a row.
            executed: What the row shows as executed.
            purged: What it shows as purged that was not logged since the RESET: SET gtid_purged,
                whether recorded or not, has given it.
        """
        self._count_given(purged)
        if any(one.get("is_connected") and one["auto_position"] for one in values):
            return tuple(self.uncounted)
        return tuple(Uncounted(ts, gtids & executed) for ts, gtids in self.uncounted)

    def received(self) -> tuple[GtidSet, ...]:
        """What its channels have ever queued."""
        return (self.left, *(channel.received.freeze() for channel in self.channels.values()))

    def leave(self, name: str) -> None:
        """RESET REPLICA ALL: the channel is gone, and what came through it stays."""
        channel = self.channels.pop(name)
        self.applied_to.pop(name, None)
        self.gone.add(name)
        if any(other.has_source and other.is_listed for other in self.channels.values()):
            self.left = self.left | channel.received.freeze()
            if channel.source_uuid is not None and channel.source_uuid not in self.left_uuids:
                self.left_uuids.append(channel.source_uuid)

    def unexplained(self, executed: GtidSet) -> GtidSet:
        """What was executed, without what an earlier source sent."""
        rest = executed - self.left
        for server_uuid in self.left_uuids:
            rest = rest.without_uuid(server_uuid)
        return rest

    def cloned(self, body: Mapping[str, Any], ts: int) -> None:
        """A step of the clone protocol with this instance as the recipient."""
        is_found = body.get("step") == "found"
        if is_found:
            self.clone_peer = None
        if body.get("peer"):
            self.clone_peer = body["peer"]
        if body.get("step") == "begin" or is_found or self.clone_ts is None:
            for channel in self.channels.values():
                channel.first_queued = None
            self.resumed_from = set()
            self.clone_ts = body.get("not_before") if is_found else ts
            self.found_clone = dict(body) if is_found else None
            self.clone_end_ts = self.recovered_lsn = None
            self.clone_is_whole = body.get("step") == "begin"
            self.is_clone_status_read = False
        step, is_refused = body.get("step"), body.get("error") is not None
        if step in ("recovered", "found") or (step == "end" and not is_refused):
            self.clone_end_ts = ts
            self.recovered_lsn = body.get("lsn", self.recovered_lsn)
