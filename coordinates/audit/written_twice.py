"""GTIDs that were written twice, where no field of the events tells two transactions apart.

Without ``original_commit_timestamp``, which MySQL 5.7 does not write, two logs agree about every
GTID that both have. That is right of a copy. It need not be where a GTID was written twice: by one
server, again after a crash, RESET or a restore took it out of its binary log while others kept it;
or by two servers, one of which was given the other's GTID (GTID_NEXT). What a server has received
under its own server_id, and what was replayed into it, is a copy.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tallystick.coordinates.audit.journal_position import JournalPosition
from tallystick.coordinates.values._gtid_text import UUID_LENGTH
from tallystick.coordinates.values.growing_set import GrowingGtidSet
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import numpy.typing as npt

STATES_MAX = 128
FORMER_MAX = 8
"""Of the times that something was taken out of a binary log the newest are kept apart."""
FILES_MAX = 16
"""Of so many files of sources it is remembered what was received from them."""


class Written(NamedTuple):
    """Groups of one sid and one file without an origin: number, whether it is empty, its end."""

    sid: str
    gno: npt.NDArray[Any]
    is_empty: npt.NDArray[np.bool_]
    file: str
    end: npt.NDArray[Any]


class WrittenTwice(NamedTuple):
    """GTIDs that were written twice, as a row of an instance shows it.

    Attributes:
        first, second: Where, in words; "" is in the present binary log of an instance.
        writers: These instances.
    """

    instance_id: str
    at: JournalPosition
    gtids: GtidSet
    first: str
    second: str
    writers: tuple[str, str]


@dataclass(slots=True, eq=False)
class Former:
    """What a server had written, and its binary log has no more.

    Attributes:
        ts: Up to when it is known to have had it.
        where: Where it was.
        shown: What of it a row had shown as executed before a crash took it.
        file: That a crash took it from, "" not by a crash.
        again: What of it the server has written once more.
        place: Where the first of that is.
    """

    ts: int
    where: str
    gtids: GtidSet
    file: str = ""
    shown: GtidSet = GtidSet.EMPTY
    again: GrowingGtidSet = field(default_factory=GrowingGtidSet)
    place: str = ""


class Again(NamedTuple):
    """What a server has written once more, as of a state."""

    ts: int
    where: str
    file: str
    place: str
    gtids: GtidSet


class Received(NamedTuple):
    """What was received from one file of a source, and from no other file since."""

    source_uuid: str
    file: str
    gtids: GtidSet


class State(NamedTuple):
    """As of `ts`; without a row the binary log has begun anew, and nothing is executed."""

    ts: int
    at: JournalPosition | None
    written: GtidSet
    empty: GtidSet
    again: tuple[Again, ...]
    executed: GtidSet
    received: tuple[Received, ...]


@dataclass(slots=True, eq=False)
class Writer:
    """One server.

    Attributes:
        written, empty: What its binary log has under its own server_id, and what of that is empty.
        copied: What it has received under its own server_id, or none: of that its log has copies.
        names_others: Whether some of that has another server's UUID.
        noted: What its next row is to report, its own journal shows it: by where the first is,
            where the second is, and which GTIDs.
        received_empty: Empty groups that it has received.
        received: What is reported as written and received from another server, too.
        received_from: What it has received, by the server_uuid of a source and the file's name;
            "" where that is forgotten.
        has_forgotten: Whether older states are forgotten.
    """

    server_uuid: str | None = None
    written: GrowingGtidSet = field(default_factory=GrowingGtidSet)
    empty: GrowingGtidSet = field(default_factory=GrowingGtidSet)
    copied: GrowingGtidSet = field(default_factory=GrowingGtidSet)
    names_others: bool = False
    former: list[Former] = field(default_factory=list)
    noted: dict[str, tuple[str, GtidSet]] = field(default_factory=dict)
    received_empty: GrowingGtidSet = field(default_factory=GrowingGtidSet)
    received: GtidSet = GtidSet.EMPTY
    received_from: dict[tuple[str, str], GrowingGtidSet] = field(default_factory=dict)
    states: list[State] = field(default_factory=list)
    has_forgotten: bool = False

    @property
    def is_in_doubt(self) -> bool:
        """Whether what it wrote is to be compared with what others have."""
        return self.names_others or any(one.again.interval_count() for one in self.former)

    def write(self, groups: Written, server_uuid: str | None) -> None:
        """It has written groups."""
        sid, gno, is_empty, file, end = groups
        self.server_uuid = server_uuid
        self.names_others |= sid[:UUID_LENGTH] != server_uuid
        self.written.add_gnos(sid, gno)
        if is_empty.any():
            self.empty.add_gnos(sid, gno[is_empty])
        for one in self.former:
            hit = one.gtids.contains_gnos(sid, gno)
            if not hit.any():
                continue
            place = f"by it again, up to {file}:{end[hit][0]}"
            one.place = one.place or place
            one.again.add_gnos(sid, gno[hit])
            hit &= one.shown.contains_gnos(sid, gno)
            if hit.any():
                self._note(one.where, place, sid, gno[hit])

    def receive(
        self,
        sid: str,
        gno: npt.NDArray[Any],
        is_own: npt.NDArray[np.bool_],
        is_empty: npt.NDArray[np.bool_],
    ) -> None:
        """It has received groups: which may be of its own, which are empty."""
        if is_own.any():
            self.copied.add_gnos(sid, gno[is_own])
        if is_empty.any():
            self.received_empty.add_gnos(sid, gno[is_empty])

    def receive_from(self, source_uuid: str, file: str, sid: str, gno: npt.NDArray[Any]) -> None:
        """It has received groups from a file of a source: what came before from another is gone."""
        for before, gtids in self.received_from.items():
            if gtids.contains_any(sid, gno):
                left = gtids.freeze() - GtidSet.from_gnos(sid, gno)
                self.received_from[before] = GrowingGtidSet(left)
        self.received_from.setdefault((source_uuid, file), GrowingGtidSet()).add_gnos(sid, gno)
        known = [one for one in self.received_from if one[1]]
        if len(known) > FILES_MAX:
            gtids = self.received_from.pop(known[0])
            forgotten = self.received_from.setdefault((known[0][0], ""), GrowingGtidSet())
            forgotten.add_set(gtids.freeze())

    def _note(self, first: str, second: str, sid: str, gno: npt.NDArray[Any]) -> None:
        # Of many the place of the first: which that is does not depend on how runs are cut.
        place, twice = self.noted.get(first, (second, GtidSet.EMPTY))
        of_sid = np.zeros(len(gno), dtype=np.int32)
        self.noted[first] = place, twice | GtidSet.from_groups([sid], of_sid, gno)

    def begin_anew(self, ts: int, where: str) -> None:
        """Its binary log begins anew: what it wrote is gone, and what it has executed."""
        self._leave(Former(ts, where, self.written.freeze()))
        self.written, self.empty = GrowingGtidSet(), GrowingGtidSet()
        self.names_others = False
        self.received_from = {}
        nothing = GtidSet.EMPTY
        self._add(State(ts, None, nothing, nothing, self._again(), nothing, ()))

    def take_back(self, ts: int, where: str, file: str, lost: GtidSet, shown: GtidSet) -> None:
        """A crash took groups out of a file of its binary log."""
        lost = lost & self.written.freeze()
        self._leave(Former(ts, where, lost, file, shown & lost))
        self.written = GrowingGtidSet(self.written.freeze() - lost)
        self.empty = GrowingGtidSet(self.empty.freeze() - lost)

    def _leave(self, former: Former) -> None:
        if not former.gtids:
            return
        self.former.append(former)
        if len(self.former) > FORMER_MAX:
            older, newer = self.former[:2]
            older.gtids, older.shown = older.gtids | newer.gtids, older.shown | newer.shown
            older.again.add_set(newer.again.freeze())
            older.place = older.place or newer.place
            older.file = ""
            del self.former[1]

    def take_noted(
        self, received: Mapping[str, GrowingGtidSet]
    ) -> Iterator[tuple[str, str, GtidSet]]:
        """What its own journal shows as written twice, once: where, where again, and what.

        Args:
            received: What each channel has received.
        """
        copied = self.copied.freeze()
        noted, self.noted = self.noted, {}
        for first, (second, gtids) in noted.items():
            yield first, second, gtids - copied
        written, empty = self.written.freeze() - copied, self.empty.freeze()
        if not written:
            return
        for name, of_channel in sorted(received.items()):
            twice = (written & of_channel.freeze()) - (empty & self.received_empty.freeze())
            twice = twice - self.received
            self.received = self.received | twice
            yield "", f"by another server, as received by channel {name or '(default)'}", twice

    def row(self, at: JournalPosition, executed: GtidSet) -> None:
        """A row shows what it has executed."""
        written, empty = self.written.freeze() - self.copied.freeze(), self.empty.freeze()
        received = tuple(
            Received(*key, gtids.freeze()) for key, gtids in self.received_from.items()
        )
        self._add(State(at.ts, at, written, empty, self._again(), executed, received))

    def _again(self) -> tuple[Again, ...]:
        copied = self.copied.freeze()
        return tuple(
            Again(one.ts, one.where, one.file, one.place, one.again.freeze() - one.shown - copied)
            for one in self.former
            if one.place
        )

    def _add(self, state: State) -> None:
        if self.states:
            state = state._replace(ts=max(state.ts, self.states[-1].ts))
        self.states.append(state)
        if len(self.states) > STATES_MAX:
            del self.states[: STATES_MAX // 4]
            self.has_forgotten = True

    def state_at(self, ts: int) -> State | None:
        """The last state at or before a time."""
        at = bisect_right(self.states, ts, key=lambda state: state.ts)
        return self.states[at - 1] if at else None

    def kept(self, since: int, until: int) -> GtidSet:
        """What it had executed before a time, and at each of its rows until another."""
        first = bisect_right(self.states, since - 1, key=lambda state: state.ts) - 1
        if first < 0 and not self.has_forgotten:
            return GtidSet.EMPTY
        states = [one for one in self.states[max(first, 0) :] if one.ts <= until]
        found = states[0].executed if states else GtidSet.EMPTY
        for state in states[1:]:
            found = found & state.executed
        return found


@dataclass(eq=False)
class Writers:
    """What the servers of a fleet have written by themselves without an origin."""

    servers: dict[str, Writer] = field(default_factory=dict)
    scanned: dict[tuple[str, str], int] = field(default_factory=dict)
    reported: dict[tuple[str, str], GtidSet] = field(default_factory=dict)
    found: list[WrittenTwice] = field(default_factory=list)
    """What has not been reported yet."""

    def server(self, instance_id: str) -> Writer:
        """One server, entered if new: one of whose groups the origin is not known."""
        found = self.servers.get(instance_id)
        if found is None:
            found = self.servers[instance_id] = Writer()
        return found

    def forget(self, instance_id: str) -> None:
        """What is known of it is of another journal."""
        self.servers.pop(instance_id, None)
        self.scanned = {pair: ts for pair, ts in self.scanned.items() if instance_id not in pair}
        self.reported = {
            pair: one for pair, one in self.reported.items() if instance_id not in pair
        }

    def begin_anew(self, instance_id: str, ts: int, where: str) -> None:
        """The binary log of an instance begins anew, or all of its data."""
        if instance_id in self.servers:
            self.servers[instance_id].begin_anew(ts, where)

    def take_back(
        self,
        instance_id: str,
        ts: int,
        where: str,
        *,
        file: str,
        lost: GtidSet,
        shown: GtidSet,
    ) -> None:
        """A crash took groups out of a binary log file of an instance."""
        if instance_id in self.servers:
            self.servers[instance_id].take_back(ts, where, file, lost, shown)

    def row(
        self,
        instance_id: str,
        at: JournalPosition,
        executed: GtidSet,
        received: Mapping[str, GrowingGtidSet],
    ) -> None:
        """A log_status row of an instance, or the end of its journal; and its channels."""
        server = self.servers.get(instance_id)
        if server is None:
            return
        server.row(at, executed)
        reported = [gtids for pair, gtids in self.reported.items() if instance_id in pair]
        for first, second, noted in server.take_noted(received):
            gtids = reduce(GtidSet.__sub__, reported, noted)
            if gtids:
                writers = instance_id, instance_id
                self.found.append(WrittenTwice(instance_id, at, gtids, first, second, writers))

    def compare(self, moved: Iterable[str], known: dict[str, int]) -> None:
        """Compare what servers wrote, as far as the journals of both are known."""
        doubtful = {name for name, server in self.servers.items() if server.is_in_doubt}
        if not doubtful:
            return
        pairs = {
            (min(a, b), max(a, b))
            for a in self.servers.keys() & set(moved)
            for b in self.servers
            if a != b and (a in doubtful or b in doubtful)
        }
        for pair in sorted(pairs):
            self._scan(pair, min(known[name] for name in pair))

    def _scan(self, pair: tuple[str, str], end: int) -> None:
        first, second = pair
        one, two = self.servers[first], self.servers[second]
        begin = self.scanned.get(pair, -1)
        if end <= begin:
            return
        self.scanned[pair] = end
        for ts in sorted({s.ts for s in (*one.states, *two.states) if begin < s.ts <= end}):
            a, b = one.state_at(ts), two.state_at(ts)
            if a is None or b is None:
                continue
            for mine, name, theirs, other in ((b, second, a, first), (a, first, b, second)):
                at = mine.at
                if at is None:
                    continue
                writers = name, other
                if mine.ts == ts:
                    of_both = (mine.written & theirs.written) - (mine.empty & theirs.empty)
                    of_both = of_both - one.received - two.received
                    self._report(pair, WrittenTwice(name, at, of_both, "", "", writers))
                writer_uuid = self.servers[other].server_uuid
                for again in _kept_by(self.servers[name], mine, theirs, writer_uuid):
                    where = f"{again.where}, and instance {name} has executed that"
                    twice = again.gtids, where, again.place
                    self._report(pair, WrittenTwice(name, at, *twice, writers))

    def _report(self, pair: tuple[str, str], twice: WrittenTwice) -> None:
        before = self.reported.get(pair, GtidSet.EMPTY)
        gtids = twice.gtids - before
        if gtids:
            self.reported[pair] = before | gtids
            self.found.append(twice._replace(gtids=gtids))


def _kept_by(
    server: Writer, state: State, writer: State, writer_uuid: str | None
) -> Iterator[Again]:
    """What a server has executed before another one wrote it once more, and has still.

    Its rows show that, or the file of the other one from which it has received it.
    """
    for again in writer.again:
        had = server.kept(again.ts, state.ts)
        for source_uuid, file, gtids in state.received:
            if source_uuid == writer_uuid and file in {"", again.file}:
                had = had | (gtids & state.executed)
        found = again.gtids & had
        if found:
            yield again._replace(gtids=found)
