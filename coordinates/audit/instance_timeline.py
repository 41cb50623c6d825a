"""What the fleet's audit remembers of one instance's journal: its binary log, and earlier states.

Comparisons ask for the state of a journal *as of* a time, because instances are absorbed in any
interleaving. So at every fleet event whose position does not depend on how the journal was cut
into blocks the timeline takes a `Snapshot`; the one that answers a question about time `t` is the
first at or after `t`. Where a journal takes something back (a crash, a new lineage) the snapshot is
taken before, and what was taken back is kept as a `Loss`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tallystick.coordinates.audit.observer_clock import ObserverClock
from tallystick.coordinates.audit.packed_events import BinlogGroups, GtidRuns
from tallystick.coordinates.audit.timeline_file import BinlogFile
from tallystick.coordinates.audit.timeline_snapshot import Identity, Loss, Snapshot, States
from tallystick.coordinates.logs.sid_table import SidTable
from tallystick.coordinates.state_codec import TRANSIENT
from tallystick.coordinates.values.binlog import format_log_file_name
from tallystick.coordinates.values.growing_set import GrowingGtidSet
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from tallystick.coordinates.audit.fleet_events import FleetEvent

    IntArray = npt.NDArray[np.int64]

EVENTS_MIN = 2**17
"""The newest events of one instance that are remembered in any case; older ones while needed."""
LOSSES_MAX = 16
IMAGES_MAX = 32
"""Backup images, clones and positions with checksums remembered of one instance."""
ADMINISTERED_MAX = 16
HEARTBEATS_MAX = 2
"""Of heartbeats that follow each other the first and the last are states: all states are equal."""


LogPosition = tuple[int, int, int]
"""Binlog lineage, file number and position."""


@dataclass(slots=True, eq=False)
class InstanceTimeline(SidTable):
    """One instance's journal, as its fleet events have reported it so far."""

    instance_id: str
    clock: ObserverClock = field(default_factory=ObserverClock)
    known_ts: int = -1
    open_ts: int | None = None
    is_log_awaited: bool = False
    """Whether nothing was logged since a row or a heartbeat."""
    heartbeats: int = 0
    """How many of its last events showed nothing but the time, up to ``HEARTBEATS_MAX``, of which
    the first and the last are states."""
    identities: list[Identity] = field(default_factory=list)
    cluster: str | None = None
    """The cluster that its producer counts it to, None not known."""
    version: str | None = None
    group_uuid: str | None = None
    server_id: int | None = None
    server_ids: set[int] = field(default_factory=set)
    """All that it ever had, as far as known."""
    files: dict[tuple[int, int], BinlogFile] = field(default_factory=dict)
    event_count: int = 0
    given_up: LogPosition | None = None
    """Up to where events were forgotten that a replica still needed."""
    lineage: int = 0
    lineage_ts: int | None = None
    log_since_ts: int | None = None
    """Since when the binary log is known to be the one that it is; None: nothing is known yet."""
    base_name: str | None = None
    former_names: set[str] = field(default_factory=set)
    """Base names of the logs that have ended; "" among them: not all are known."""
    file_number: int = 0
    oldest: int = 0
    """Number of the oldest file after the last purge, 0 not known."""
    grouped: GrowingGtidSet = field(default_factory=GrowingGtidSet)
    previous: GtidSet = GtidSet.EMPTY
    is_complete: bool = False
    declared: GtidSet = GtidSet.EMPTY
    beyond: GtidSet = GtidSet.EMPTY
    row_ts: int | None = None
    has_row: bool = False
    purged: GtidSet | None = None
    logs_everything: bool = True
    sources: tuple[str, ...] = ()
    named: set[str] = field(default_factory=set)
    """Keys of all sources that it ever had."""
    writes_anonymous: bool = False
    """Whether it has logged groups without GTIDs that may be its own, since its data were made."""
    shows_executed: bool = False
    _administered: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)
    """When channels were given other sources, and which."""
    losses: list[Loss] = field(default_factory=list)
    loss_count: int = 0
    states: States = field(default_factory=States)
    redo_copied: dict[tuple[str, str, int], int] = field(default_factory=dict)
    """By recipient and coordinates of clones: at which LSN, at the least, the copy of the redo log
    ended, -1 not known."""
    images: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Summaries of backup images by their ids, the newest last, each with its ``lineage``."""
    checksums: list[tuple[int, str, int, list[dict[str, Any]]]] = field(default_factory=list)
    """Binlog lineage, file, position, and the tables there."""
    _logged_cache: tuple[GtidSet, GtidSet, GtidSet] | None = field(default=None, metadata=TRANSIENT)

    # Names

    def identify(self, event: FleetEvent, server_uuid: str | None, server_id: int | None) -> bool:
        """Take over what the instance said of itself; True when its `server_uuid` is news."""
        if isinstance(server_id, int):
            self.server_id = server_id
            self.server_ids.add(server_id)
        if not server_uuid:
            return False
        last = self.identities[-1] if self.identities else None
        if last is not None and last.server_uuid == server_uuid:
            return False
        self.identities.append(
            Identity(
                server_uuid,
                event.ts,
                event.ts,
                event.epoch,
                event.sequence,
                event.body.get("collection_id"),
            )
        )
        return True

    def reached(self, ts: int) -> None:
        """A fleet event of `ts` was absorbed."""
        if ts > self.known_ts:
            self.known_ts = ts
            if self.identities:
                self.identities[-1] = self.identities[-1]._replace(until=ts)

    def ended(self, ts: int) -> None:
        """Nothing will follow: all that happened up to `ts` is known."""
        self.known_ts = max(self.known_ts, ts)

    def uuids_until(self, ts: int) -> list[str]:
        """Every `server_uuid` reported up to `ts`; the first one if none was yet."""
        known = [identity.server_uuid for identity in self.identities if identity.ts <= ts]
        return known or [identity.server_uuid for identity in self.identities[:1]]

    def uuid_at(self, ts: int) -> str | None:
        """The `server_uuid` at `ts`; before the first report that one."""
        for identity in reversed(self.identities):
            if identity.ts <= ts:
                return identity.server_uuid
        return self.identities[0].server_uuid if self.identities else None

    # The binary log grows

    def log(self, event: FleetEvent, columns: BinlogGroups) -> None:
        """A run of events of one file."""
        body = event.body
        self._enter_lineage(body["binlog_lineage"], event.ts)
        file = self._file(body["base_name"], body["file_number"])
        event_ends = event.arrays["event_ends"].astype(np.int64, copy=False)
        self.event_count += file.append(body["start"], event_ends, columns)

    def log_anonymous(self, server_ids: list[int]) -> None:
        """The first groups without GTIDs were logged that may be its own.

        Args:
            server_ids: Whose they are, -1 not known.
        """
        self.writes_anonymous = not {-1, *self.server_ids}.isdisjoint(server_ids)

    def _file(self, base_name: str, number: int) -> BinlogFile:
        self.base_name = base_name
        if number > self.file_number:
            self._seal()
            self.file_number = number
        key = self.lineage, number
        file = self.files.get(key)
        if file is None:
            file = self.files[key] = BinlogFile(self.lineage, number)
        return file

    def _enter_lineage(self, lineage: int, ts: int) -> None:
        if lineage == self.lineage:
            return
        if self.lineage == 0 and self.base_name is None and self.lineage_ts is None:
            self.lineage = lineage
            return
        self.begin_lineage(lineage, ts, "unseen")

    def _seal(self) -> None:
        file = self.files.get((self.lineage, self.file_number))
        if file is not None:
            file.seal()

    def has_more_than_newest(self) -> bool:
        """Whether so many events are remembered that the oldest may be forgotten."""
        if self.event_count <= EVENTS_MIN:
            return False
        return self.event_count - self.files[min(self.files)].oldest()[0] >= EVENTS_MIN

    def forget_oldest(self, needed: LogPosition | None, bytes_max: int | None = None) -> bool:
        """Forget the oldest events, but for the newest and those that replicas need.

        Args:
            needed: From where on they need them, None: nowhere.
            bytes_max: How many bytes what is needed may take.

        Returns:
            Whether more than the newest is kept, because it is needed.
        """
        for key in sorted(self.files):
            file = self.files[key]
            while True:
                count, end, groups = file.oldest()
                if self.event_count - count < EVENTS_MIN:
                    return False
                if needed is not None and not self._is_passed((*key, end), groups, needed):
                    if bytes_max is None or self.byte_count <= bytes_max:
                        return True
                    self.given_up = (*key, end)
                is_all = count == file.event_count
                if is_all and key == (self.lineage, self.file_number):
                    return False
                self.event_count -= count
                if is_all:
                    self._forget_losses(key)
                    del self.files[key]
                    break
                file.forget_oldest()
        return False

    def _is_passed(self, end: LogPosition, groups: int, needed: LogPosition) -> bool:
        """Whether a group ends after the oldest events of a file, but before what is needed.

        What is needed may be inside the group that follows.

        Args:
            end: Where these events end.
            groups: How many groups they complete.
            needed: What is needed.
        """
        if end >= needed:
            return False
        first, last, position = end[:2], needed[:2], needed[2]
        for key, file in self.files.items():
            if first <= key <= last:
                count = file.count_groups(position) if key == last else file.group_count
                if count > (groups if key == first else 0):
                    return True
        return False

    @property
    def byte_count(self) -> int:
        """About how many bytes the remembered events take."""
        return sum(file.byte_count for file in self.files.values())

    def is_given_up(self, lineage: int, number: int, position: int) -> bool:
        """Whether a position was forgotten although a replica still needed it."""
        given_up = self.given_up
        return (
            given_up is not None and lineage == given_up[0] and (number, position) <= given_up[1:]
        )

    def head(self, body: Mapping[str, Any], ts: int) -> None:
        """PREVIOUS_GTIDS of a file."""
        self._enter_lineage(body["binlog_lineage"], ts)
        gtids = GtidSet.parse(body["gtid_set"])
        self._file(body["base_name"], body["file_number"]).previous = gtids
        if self.is_complete:
            self.previous = self.previous | gtids
            return
        # Anew after a gap: what was known before may be of a lineage that ended unseen.
        self.beyond = self.beyond | self.logged()
        self.previous = gtids
        self.grouped = GrowingGtidSet()
        self.is_complete = True

    def logged(self) -> GtidSet:
        """L as far as known."""
        grouped = self.grouped.freeze()
        cache = self._logged_cache
        if cache is None or cache[0] is not grouped or cache[1] is not self.previous:
            cache = self._logged_cache = (grouped, self.previous, self.previous | grouped)
        return cache[2]

    @property
    def marked_ts(self) -> int:
        """Up to when the journal is known for comparisons, as soon as that instant is over."""
        return max(-1 if self.open_ts is None else self.open_ts, self.states.last_ts)

    # What is taken back

    def end_file(self, body: Mapping[str, Any], ts: int) -> GtidSet:
        """A file is complete; after a crash what was beyond its recovered end never was.

        Returns:
            The GTIDs that the crash took back.
        """
        self._enter_lineage(body["binlog_lineage"], ts)
        number, end = body["file_number"], body["end"]
        later = [k for k in self.files if k[0] == self.lineage and k[1] > number]
        file = self.files.get((self.lineage, number))
        if file is not None and file.end < end:
            file.skip_to(end)
        if file is not None:
            file.next_number = body["next_number"] or 0
        lost = GtidSet.EMPTY
        if not later and (file is None or file.end <= end):
            return lost
        self._leave_known(ts)
        self.loss_count += 1
        for key in sorted(later):
            lost = lost | self._lose(self.files[key], 0, ts)
            del self.files[key]
        if file is not None and file.end > end:
            lost = lost | self._lose(file, end, ts)
        self.file_number = number
        self.declared = GtidSet.EMPTY
        self.row_ts = None
        self.shows_executed = False
        return lost

    def _leave_known(self, ts: int, *, of_another_log: bool = False) -> None:
        """Something is taken back, or missing, or another log begins, as is recorded at `ts`.

        An observer records a start, a RESET, or of what it missed, when it has come back: what
        happened since it knew the journal, groups of the new boot among it, is after that.
        """
        known_ts = self.marked_ts
        self.take_snapshot(known_ts)
        if ts > known_ts:
            kept = self.is_complete, self.base_name
            self.is_complete = False
            if of_another_log:
                self.base_name = None
            self.take_snapshot(ts)
            self.is_complete, self.base_name = kept

    def _lose(self, file: BinlogFile, end: int, ts: int) -> GtidSet:
        known_from = max((last for _, last in file.holes if last > end), default=end)
        lost = file.truncate(end)
        groups = lost.groups
        self.event_count -= len(lost.ends)
        loss = Loss(ts, self.loss_count, file.lineage, file.file_number, known_from, lost)
        self.losses = [*self.losses[1 - LOSSES_MAX :], loss]
        named = groups.sid >= 0
        gtids = GtidSet.from_groups(self.sids, groups.sid[named], groups.gno[named])
        if gtids:
            self.beyond = self.beyond | gtids
            self.grouped = GrowingGtidSet(self.grouped.freeze() - gtids)
        return gtids

    def _forget_losses(self, of_file: tuple[int, int]) -> None:
        """Put together from what was taken out of it alone, the file would lack the rest."""
        self.losses = [x for x in self.losses if (x.lineage, x.file_number) != of_file]

    def begin_lineage(self, lineage: int, ts: int, reason: str) -> None:
        """RESET, clone or restore: the binary log begins anew; or it goes on in other names.

        A RESET is noticed; a clone or a restore is what the data after it are said to be. Of a log
        that goes on the state at `ts` is that after all that was read then.
        """
        if reason == "reset":
            self._leave_known(max(ts, self.known_ts), of_another_log=True)
        elif reason != "renamed":
            self.take_snapshot(max(ts, self.known_ts))
        self._leave_lineage(lineage)
        self.lineage_ts = self.log_since_ts = ts

    def _leave_lineage(self, lineage: int) -> None:
        """What follows is held against nothing that was logged."""
        self.loss_count += 1
        self.beyond = self.beyond | self.logged()
        self._seal()
        self.lineage = lineage
        self.former_names.add(self.base_name or "")
        self.base_name = None
        self.file_number = self.oldest = 0
        self.grouped = GrowingGtidSet()
        self.previous = GtidSet.EMPTY
        self.is_complete = False
        self.declared = GtidSet.EMPTY
        self.row_ts = None
        self.shows_executed = False

    def miss(self, lineage: int, ts: int) -> None:
        """Events are missing; in a new lineage maybe a RESET, and whatever else a journal shows."""
        self._leave_known(ts, of_another_log=True)
        self.has_row = False
        file = self.files.get((self.lineage, self.file_number))
        if file is not None:
            file.is_open_ended = True
        if lineage != self.lineage:
            self._leave_lineage(lineage)
            self.former_names.add("")
            self.log_since_ts = ts
            self.server_id = self.group_uuid = None
            return
        self.loss_count += 1
        self.is_complete = False
        self.row_ts = None
        self.shows_executed = False

    # What is said beside the log

    def purge(self, body: Mapping[str, Any], ts: int) -> None:
        """PURGE: files before one are gone."""
        self._enter_lineage(body["binlog_lineage"], ts)
        if body["base_name"] == self.base_name:
            self.oldest = body["file_number"]

    def before_file(self, lineage: int, number: int) -> GtidSet:
        """Previous_gtids of a file, which is purged once it is the oldest; empty if not known."""
        file = self.files.get((lineage, number))
        return GtidSet.EMPTY if file is None or file.previous is None else file.previous

    def assign(self, gtids: GtidSet) -> None:
        """SET gtid_purged."""
        self.declared = self.declared | gtids
        self.beyond = self.beyond | gtids

    def row(
        self,
        executed: GtidSet | None,
        purged: GtidSet | None,
        logs_everything: bool,
        sources: tuple[str, ...],
        ts: int,
        *,
        fallen: GtidSet | None = None,
    ) -> None:
        """A log_status row; `fallen`: its gtid_executed, not accepted because it has shrunk."""
        logged = self.logged()
        for gtids in (executed, purged, fallen):
            if gtids is not None and not gtids <= logged:
                extra = gtids - logged
                self.declared = self.declared | extra
                self.beyond = self.beyond | extra
        self.purged = purged
        self.logs_everything = logs_everything
        self.sources = sources
        self.named.update(sources)
        self.shows_executed = self.shows_executed or executed is not None or fallen is not None
        if executed is not None:
            self.has_row = True
            self.row_ts = ts

    def administer_sources(self, sources: tuple[str, ...], ts: int) -> None:
        """Channels were removed or given another source since the last row."""
        self.sources = sources
        self.named.update(sources)
        self._administered = [*self._administered, (ts, sources)][-ADMINISTERED_MAX:]

    def sources_at(self, ts: int) -> tuple[str, ...]:
        """Keys of the sources at `ts`, as the last row or what was done since then says."""
        state = self.states.until(ts)
        since, sources = (-1, ()) if state is None else (state.ts, state.sources)
        done = (then for at, then in reversed(self._administered) if since <= at <= ts)
        return next(done, sources)

    def copy_redo(self, body: Mapping[str, Any]) -> None:
        """The redo log was copied to a recipient up to an LSN."""
        position = body.get("binlog_position")
        file = None if position is None else body.get("binlog_file")
        key = str(body.get("peer")), str(file), position or 0
        lsn = -1 if body.get("lsn") is None else int(body["lsn"])
        self.redo_copied[key] = min(lsn, self.redo_copied.get(key, lsn))
        while len(self.redo_copied) > IMAGES_MAX:
            del self.redo_copied[next(iter(self.redo_copied))]

    def positions_read(self, recipient: str) -> list[tuple[str, int]]:
        """All that was read for the clones of a recipient; none where it may not be all."""
        named = [coordinates for coordinates in self.redo_copied if coordinates[1] != "None"]
        is_all = len(named) == len(self.redo_copied) < IMAGES_MAX
        of_another = [peer for peer, *_ in named if peer != recipient]
        if not is_all or "None" in of_another:
            return []
        return [(file, position) for peer, file, position in named if peer == recipient]

    def image(self, body: Mapping[str, Any]) -> None:
        """A backup image was taken here.

        Of one made under locks the channels do not count: what is restored of them is what their
        repositories held, on a replica with workers an earlier position.
        """
        is_under_locks = "coordinates_from" in body
        names = ("binlog_file", "binlog_position", "gtid_executed", "tables", "coordinates_from")
        image = {name: body.get(name) for name in (*names, "logged")}
        image["channels"] = None if is_under_locks else body.get("channels")
        image["lineage"], backup_id = body["binlog_lineage"], body["backup_id"]
        self.images.setdefault(backup_id, []).append(image)
        if sum(map(len, self.images.values())) > IMAGES_MAX:
            first_id, images = next(iter(self.images.items()))
            del images[0]
            if not images:
                del self.images[first_id]

    def image_for(self, restore: Mapping[str, Any]) -> dict[str, Any] | None:
        """The image that a server was restored from, None not known.

        One name may be given to an image each night: the restore says by its coordinates which one
        it is of. One that names those of none is held against the newest.
        """
        images = self.images.get(restore["backup_id"], [])
        names = ("binlog_file", "binlog_position")
        same = [one for one in images if all(restore.get(n) in (None, one[n]) for n in names)]
        found = same or images
        return found[-1] if found else None

    def check_sums(self, body: Mapping[str, Any]) -> None:
        """Checksums of the tables were computed here."""
        coordinates = body["binlog_lineage"], body["binlog_file"], body["binlog_position"]
        self.checksums = [*self.checksums, (*coordinates, body["tables"])][-IMAGES_MAX:]

    def checksums_at(
        self, lineage: int, coordinates: tuple[str, int]
    ) -> list[dict[str, Any]] | None:
        """The tables where the log ends at coordinates, None not known."""
        known = (tables for *where, tables in self.checksums if where == [lineage, *coordinates])
        return next(known, None)

    # Earlier states

    def take_snapshot(self, ts: int) -> None:
        """Remember the journal as it is."""
        file = self.files.get((self.lineage, self.file_number))
        self.states.add(
            Snapshot(
                ts=ts,
                losses=self.loss_count,
                lineage=self.lineage,
                lineage_ts=self.lineage_ts,
                base_name=self.base_name,
                file_number=self.file_number,
                end=0 if file is None else file.end,
                logged=self.logged(),
                is_complete=self.is_complete,
                declared=self.declared,
                beyond=self.beyond,
                row_ts=self.row_ts,
                has_row=self.has_row,
                purged=self.purged,
                logs_everything=self.logs_everything,
                server_id=self.server_id,
                sources=self.sources,
                shows_executed=self.shows_executed,
                log_since_ts=-1 if self.log_since_ts is None else self.log_since_ts,
                oldest=self.oldest,
                is_named_anew=self.former_names.isdisjoint({"", self.base_name}),
            )
        )

    def was_lost_before_answer(self, ts: int) -> bool:
        """Whether the states since `ts` end at a loss, so that waiting brings nothing."""
        first = self.states.first_since(ts)
        return first is not None and first.losses != self.loss_count

    def file_at(
        self, state: Snapshot, number: int, since: int | None = None
    ) -> tuple[BinlogFile | None, int]:
        """A file of the lineage of a state, and how many of its groups the state still had.

        Args:
            state: As of when: what was taken back later is there.
            number: The file's number.
            since: With it, what was taken back at this time or later is there, too.
        """
        file = self.files.get((state.lineage, number))
        kept = 0 if file is None else file.group_count
        losses = [
            loss
            for loss in self.losses
            if (loss.lineage, loss.file_number) == (state.lineage, number)
            and (loss.number > state.losses or (since is not None and loss.ts >= since))
        ]
        if losses:
            file = BinlogFile(state.lineage, number) if file is None else file.copy()
        for loss in reversed(losses):
            assert file is not None
            if loss.known_from > file.end:
                file.skip_to(loss.known_from)
            file.give_back(loss.events)
            if loss.number > state.losses:
                kept = file.group_count
        return file, kept

    def place_of(self, sid: str, gno: int) -> str | None:
        """Where the group of a GTID ends in the present binary log, None if not remembered."""
        if self.base_name is None or sid not in self.sids:
            return None
        index = self.sids.index(sid)
        for lineage, number in sorted(self.files, reverse=True):
            if lineage == self.lineage:
                end = self.files[lineage, number].end_of_group(index, gno)
                if end is not None:
                    return f"{format_log_file_name(self.base_name, number)}:{end}"
        return None

    def logs_anonymous(self, state: Snapshot) -> bool:
        """Whether the lineage of a state has anonymous groups, as far as remembered."""
        return any(
            file.has_anonymous_group
            for (lineage, _), file in self.files.items()
            if lineage == state.lineage
        )

    def runs_until(self, state: Snapshot, end: tuple[int, int]) -> GtidRuns:
        """GTIDs of the remembered groups of a state's lineage up to a file number and position."""
        found: list[GtidRuns] = []
        for lineage, number in sorted(self.files):
            if lineage != state.lineage or number > end[0]:
                continue
            file, kept = self.file_at(state, number)
            assert file is not None
            if number == end[0]:
                kept = min(kept, file.count_groups(end[1], "right"))
            found += file.runs(kept)
        return GtidRuns.joined(found)

    def assume_known(self, ts: int) -> None:
        """Until `assume_unknown`, answer as if the journal were known up to `ts` as it is."""
        self.take_snapshot(max(ts, self.known_ts))

    def assume_unknown(self) -> None:
        """Take back `assume_known`."""
        self.states.forget_last()
