"""Which transaction a GTID names, according to every log of the fleet.

A GTID event carries the server id and the commit time of its origin, and every log copies both
unchanged. Where logs of one time disagree, two transactions carry one GTID. Logs of different times
may well disagree: after RESET the numbers begin again. So claims end with their log's lineage, and
count from the next log_status row of their instance.

All values are kept once, in layers: layer 0 holds the first value seen of each GTID, layer 1 the
first that differed from it, and so on. What an instance claims is then a GTID set for each layer,
and a contradiction is what one instance claims in one layer and another in another. With what a
layer has forgotten while a log claims it, later claims are compared by runs of numbers
(``forgotten_origins``); where that does not show that they agree, they are reported as not
compared.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tallystick.coordinates.audit.forgotten_origins import (
    RUN,
    ForgottenOrigins,
    OpenRuns,
    hashes_of,
    numbers_of,
)
from tallystick.coordinates.audit.journal_position import JournalPosition
from tallystick.coordinates.audit.written_twice import Writers
from tallystick.coordinates.state_codec import TRANSIENT
from tallystick.coordinates.values.growing_set import GrowingGtidSet
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

IntArray = npt.NDArray[np.int64]

ORIGINS_MAX = 2**18
"""GTIDs whose origin is remembered in the whole fleet; the lowest numbers are forgotten first."""
STATES_MAX = 128
BINLOG = "binlog"
_LOST = -1
"""In place of a lineage: what crashes took out of the log of the present one."""
_NONE = GtidSet.EMPTY


class Claim(NamedTuple):
    """What one log claims in one layer; `empty` are those of its `gtids` that change nothing."""

    layer: int
    gtids: GtidSet
    empty: GtidSet


Claims = tuple[Claim, ...]
"""Those of one log."""


class Origin(NamedTuple):
    """Where a transaction was first committed."""

    server_id: int
    commit_ts: int


class OriginColumns(NamedTuple):
    """Groups of one sid: GNO and origin of each, and whether the log has no change under it."""

    gno: IntArray
    server_id: IntArray
    commit_ts: IntArray
    is_empty: npt.NDArray[np.bool_]

    def take(self, which: npt.NDArray[Any]) -> OriginColumns:
        """Some of the groups."""
        return OriginColumns(*(column[which] for column in self))


class Contradiction(NamedTuple):
    """Two instances that claim different origins of `gtids` since `ts`.

    With `is_hidden` one of them has a change under these, and the other an empty group. With
    `is_lost` an instance has given out again what a crash took out of its binary log.
    """

    ts: int
    first: str
    second: str
    gtids: GtidSet
    at: JournalPosition
    shown_by: str
    is_hidden: bool
    is_lost: bool


class Uncompared(NamedTuple):
    """What an instance has claimed until a row, and nobody can say whether that is right."""

    instance_id: str
    at: JournalPosition
    gtids: GtidSet


@dataclass(slots=True, eq=False)
class _Layer:
    """Origins by ascending GNO, in arrays that grow by doubling.

    They differ by their commit time: a log that is executed again (`mysqlbinlog | mysql`) keeps it,
    and names the server that executes it as the writer.
    """

    size: int = 0
    gno: IntArray = field(default_factory=lambda: np.empty(64, dtype=np.int64))
    server_id: npt.NDArray[np.uint32] = field(default_factory=lambda: np.empty(64, dtype=np.uint32))
    commit_ts: IntArray = field(default_factory=lambda: np.empty(64, dtype=np.int64))

    def compact(self) -> None:
        """Give the room up that is not in use: it is not saved."""
        for name in ("gno", "server_id", "commit_ts"):
            setattr(self, name, getattr(self, name)[: self.size])

    def take(self, groups: OriginColumns) -> npt.NDArray[np.bool_] | None:
        """Enter ascending, distinct GNOs; returns which ones are known with another origin."""
        gno, server_id, commit_ts, _ = groups
        size = self.size
        if not size or gno[0] > self.gno[size - 1]:
            self._append(gno, server_id, commit_ts)
            return None
        at = self.gno[:size].searchsorted(gno)
        known = self.gno[np.minimum(at, size - 1)] == gno
        if _all(known):
            differs = self.commit_ts[at] != commit_ts
            return differs if _any(differs) else None
        at = at[known]
        fresh = ~known
        result = np.zeros(len(gno), dtype=np.bool_)
        result[known] = self.commit_ts[at] != commit_ts[known]
        self._append(gno[fresh], server_id[fresh], commit_ts[fresh])
        if self.gno[size] < self.gno[size - 1]:
            order = np.argsort(self.gno[: self.size], kind="stable")
            for name in ("gno", "server_id", "commit_ts"):
                column = getattr(self, name)
                column[: self.size] = column[: self.size][order]
        return result if _any(result) else None

    def _append(self, gno: IntArray, server_id: IntArray, commit_ts: IntArray) -> None:
        size = self.size + len(gno)
        if size > len(self.gno):
            room = max(2 * len(self.gno), size)
            for name in ("gno", "server_id", "commit_ts"):
                setattr(self, name, np.resize(getattr(self, name)[: self.size], room))
        part = slice(self.size, size)
        self.gno[part] = gno
        self.server_id[part] = server_id
        self.commit_ts[part] = commit_ts
        self.size = size

    def find(self, gno: int) -> Origin | None:
        at = int(np.searchsorted(self.gno[: self.size], gno))
        if at == self.size or self.gno[at] != gno:
            return None
        return Origin(int(self.server_id[at]), int(self.commit_ts[at]))

    def same(self, groups: OriginColumns) -> npt.NDArray[np.bool_]:
        """Which groups are known with this origin."""
        gno, _, commit_ts, _ = groups
        if not self.size:
            return np.zeros(len(gno), dtype=np.bool_)
        at = np.minimum(self.gno[: self.size].searchsorted(gno), self.size - 1)
        same: npt.NDArray[np.bool_] = (self.gno[at] == gno) & (self.commit_ts[at] == commit_ts)
        return same

    def forget_lowest(self) -> tuple[IntArray, npt.NDArray[np.uint64]]:
        """Forget about half, whole runs if possible; returns which, and a hash of each origin."""
        dropped = (self.size + 1) // 2
        begin = int(self.gno[dropped - 1]) // RUN * RUN
        dropped = int(self.gno[: self.size].searchsorted(begin)) or dropped
        forgotten = self.gno[:dropped]
        hashes = hashes_of(forgotten, self.commit_ts[:dropped])
        for name in ("gno", "server_id", "commit_ts"):
            setattr(self, name, getattr(self, name)[dropped : self.size].copy())
        self.size -= dropped
        return forgotten, hashes


@dataclass(slots=True, eq=False)
class _Log:
    """What one log (a binary log lineage, a channel lineage) claims."""

    all: GrowingGtidSet = field(default_factory=GrowingGtidSet)
    odd: dict[int, GrowingGtidSet] = field(default_factory=dict)
    empty: dict[int, GrowingGtidSet] = field(default_factory=dict)
    open_runs: OpenRuns = field(default_factory=OpenRuns)
    otherwise: GrowingGtidSet = field(default_factory=GrowingGtidSet)
    """Of runs whose origins are forgotten and were others: of which GTIDs is not known."""

    def take(self, layer: int, sid: str, groups: OriginColumns) -> None:
        """The log claims groups in a layer."""
        if layer:
            self.odd.setdefault(layer, GrowingGtidSet()).add_gnos(sid, groups.gno)
        if _any(groups.is_empty):
            empty = self.empty.setdefault(layer, GrowingGtidSet())
            empty.add_gnos(sid, groups.gno[groups.is_empty])

    def take_back(self, gtids: GtidSet) -> None:
        """The log never held these groups."""
        self.all = GrowingGtidSet(self.all.freeze() - gtids)
        self.otherwise = GrowingGtidSet(self.otherwise.freeze() - gtids)
        self.odd = {n: GrowingGtidSet(odd.freeze() - gtids) for n, odd in self.odd.items()}
        self.empty = {n: GrowingGtidSet(empty.freeze() - gtids) for n, empty in self.empty.items()}

    def keep(self, claims: Claims, gtids: GtidSet) -> None:
        """Claim those of some GTIDs that another log has claimed."""
        for layer, claimed, empty in claims:
            kept = claimed & gtids
            self.all.add_set(kept)
            for of_layer, part in ((self.odd if layer else {}, kept), (self.empty, kept & empty)):
                if part:
                    of_layer.setdefault(layer, GrowingGtidSet()).add_set(part)

    def claims(self) -> Claims:
        odd = [self._claim(layer, gtids.freeze()) for layer, gtids in sorted(self.odd.items())]
        first = self.all.freeze()
        for claim in odd:
            first = first - claim.gtids
        return (self._claim(0, first), *odd)

    def _claim(self, layer: int, gtids: GtidSet) -> Claim:
        return Claim(layer, gtids, self.empty[layer].freeze() if layer in self.empty else _NONE)


class _State(NamedTuple):
    """Claims of all logs of an instance from `ts` on.

    ``otherwise``: what they claim otherwise than a log whose origins are forgotten, by whole runs.
    ``lost``: what a crash took out of its binary log though a row had shown it as executed.
    """

    ts: int
    at: JournalPosition | None
    lineage: int
    logs: tuple[Claims, ...]
    otherwise: GtidSet
    lost: Claims


@dataclass(slots=True, eq=False)
class InstanceOrigins:
    """What the logs of one instance claim."""

    logs: dict[tuple[str, int], _Log] = field(default_factory=dict)
    lost: _Log = field(default_factory=_Log)
    """What crashes took out of its binary log though a row had shown it as executed."""
    states: list[_State] = field(default_factory=list)
    lineage: int = 0
    known_ts: int = -1
    lacking: frozenset[str] = frozenset()
    """The fields of an origin that its journal does not name of some group."""
    forgotten_ts: int = -1
    """Which states it had before this time is forgotten."""
    has_forgotten_odd: bool = False
    """Whether there was a GTID with more than one origin in one of them."""
    emptied: GrowingGtidSet = field(default_factory=GrowingGtidSet)
    """Reported as applied without the change that its relay log has."""
    uncompared: GrowingGtidSet = field(default_factory=GrowingGtidSet)
    """Claimed since the last row, and claimed before by a log whose origin is forgotten."""

    def remember(self, ts: int, at: JournalPosition | None) -> None:
        """A row makes all claims count; without a row those that counted go on, if they live."""
        self._add(ts, at, tuple(log.claims() for log in self.logs.values()))

    def go_on(self, ts: int) -> None:
        """Logs have ended: of the others, claims that counted go on to count until the next row."""
        last = self.states[-1].logs if self.states else ()
        self._add(ts, None, tuple(_common(log.claims(), last) for log in self.logs.values()))

    def _add(self, ts: int, at: JournalPosition | None, logs: tuple[Claims, ...]) -> None:
        # A row that had to wait for its position comes with the time at which it was read.
        ts = max(ts, self.states[-1].ts) if self.states else ts
        lost = self.lost.claims()
        self.states.append(_State(ts, at, self.lineage, logs, self._otherwise(), lost))
        if len(self.states) > STATES_MAX:
            dropped = STATES_MAX // 4
            self.has_forgotten_odd |= _are_odd(self.states[:dropped])
            del self.states[:dropped]
            self.forgotten_ts = self.states[0].ts

    def state_at(self, ts: int) -> _State | None:
        """The claims that count at a time."""
        at = bisect_right(self.states, ts, key=lambda state: state.ts)
        return self.states[at - 1] if at else None

    def claimed(self, since_ts: int) -> Iterator[GtidSet]:
        """What its logs claim, and have claimed since a time."""
        for log in (self.lost, *self.logs.values()):
            yield log.all.freeze()
        first = bisect_right(self.states, since_ts, key=lambda state: state.ts) - 1
        for state in self.states[max(first, 0) :]:
            yield from (claim.gtids for claims in (*state.logs, state.lost) for claim in claims)

    def applied_empty(self, filtered: Collection[str]) -> GtidSet:
        """What a relay log has a change under and the binary log, of the same origin, has not.

        Args:
            filtered: Streams of relay logs whose channels may leave changes out.
        """
        found = _NONE
        empty = {
            claim.layer: claim.gtids & claim.empty
            for (stream, _), log in self.logs.items()
            if stream == BINLOG and log.empty
            for claim in log.claims()
        }
        for (stream, _), log in self.logs.items() if empty else ():
            if stream == BINLOG:
                continue
            for layer, gtids, unchanged in log.claims():
                if stream in filtered:
                    empty[layer] = empty.get(layer, _NONE) - gtids
                else:
                    found = found | (gtids - unchanged) & empty.get(layer, _NONE)
        return GtidSet(chain.from_iterable(found & gtids for gtids in empty.values()))

    @property
    def is_odd(self) -> bool:
        """Whether there is a GTID with more than one origin."""
        return self.has_forgotten_odd or _are_odd(self.states)

    def _otherwise(self) -> GtidSet:
        found = GtidSet.EMPTY
        for log in self.logs.values():
            found = found | log.otherwise.freeze()
        return found

    def otherwise_at(self, at: JournalPosition) -> GtidSet:
        """What its logs claimed at a row otherwise than a log whose origins are forgotten."""
        # By the row, not by its time: a RESET that was noticed later counts from the row on.
        of_row = (state for state in self.states if state.at == at)
        state = next(of_row, None) or next(iter(self.states), None)
        return GtidSet.EMPTY if state is None else state.otherwise

    def claimed_at(self, state: _State, against: InstanceOrigins) -> GtidSet:
        """What may differ in a state of this instance from one that the other has forgotten."""
        claims = [claim for of_log in state.logs for claim in of_log]
        found = _NONE
        for claim in claims:
            if claim.layer or against.has_forgotten_odd:
                found = found | claim.gtids
        return found


@dataclass(eq=False)
class Origins:
    """The origins of GTIDs that the fleet's logs claim."""

    layers: dict[str, list[_Layer]] = field(default_factory=dict)
    size: int = 0
    forgotten: ForgottenOrigins = field(default_factory=ForgottenOrigins)
    uncompared: list[Uncompared] = field(default_factory=list)
    """What has not been reported yet."""
    emptied: list[Uncompared] = field(default_factory=list)
    """The same of what was applied without its change."""
    is_contested: bool = False
    instances: dict[str, InstanceOrigins] = field(default_factory=dict)
    scanned: dict[tuple[str, str], int] = field(default_factory=dict)
    reported: set[tuple[str, str, str, int, int, bool]] = field(default_factory=set)
    writers: Writers = field(default_factory=Writers)
    """Of groups whose origin is not known."""
    _is_pruned: bool = field(default=False, metadata=TRANSIENT)
    """Whether it has been found out since the last settling what is not claimed any more."""

    def instance(self, instance_id: str) -> InstanceOrigins:
        """The claims of one instance."""
        found = self.instances.get(instance_id)
        if found is None:
            found = self.instances[instance_id] = InstanceOrigins()
        return found

    def forget(self, instance_id: str) -> None:
        """What the instance's logs claim is not known any more."""
        self.instances.pop(instance_id, None)
        self.scanned = {pair: ts for pair, ts in self.scanned.items() if instance_id not in pair}
        # Its lineages are numbered anew: the same key would be another contradiction.
        self.reported = {key for key in self.reported if instance_id not in key[:2]}
        self.writers.forget(instance_id)

    def claim(
        self, instance_id: str, log: tuple[str, int], sid: str, groups: OriginColumns
    ) -> bool:
        """A log holds groups of one sid; an origin of -1 is not known and claims nothing.

        Returns:
            Whether there are such.
        """
        known = 0
        for part in _distinct(groups):
            known += len(part.gno)
            self._enter(instance_id, log, sid, part)
        if known == len(groups.gno):
            return False
        self.instance(instance_id).lacking |= _fields_lacking(groups)
        return True

    def _enter(
        self, instance_id: str, log: tuple[str, int], sid: str, groups: OriginColumns
    ) -> None:
        instance = self.instance(instance_id)
        holder = instance.logs.get(log)
        if holder is None:
            holder = instance.logs[log] = _Log()
        layers = self.layers.get(sid)
        if layers is None:
            layers = self.layers[sid] = [_Layer()]
        if self.forgotten.gtids.contains_any(sid, groups.gno):
            groups = self._enter_forgotten(instance, holder, sid, groups)
            if not len(groups.gno):
                return
        holder.all.add_gnos(sid, groups.gno)
        number = 0
        while True:
            layer = layers[number]
            before = layer.size
            differs = layer.take(groups)
            self.size += layer.size - before
            holder.take(number, sid, groups if differs is None else groups.take(~differs))
            if differs is None:
                break
            self.is_contested = True
            groups = groups.take(differs)
            number += 1
            if number == len(layers):
                layers.append(_Layer())

    def _enter_forgotten(
        self, instance: InstanceOrigins, holder: _Log, sid: str, groups: OriginColumns
    ) -> OriginColumns:
        """Enter those whose origin may be a forgotten one; returns the others."""
        self._forget_unclaimed()
        which = self.forgotten.gtids.freeze().contains_gnos(sid, groups.gno)
        others, groups = groups.take(~which), groups.take(which)
        for number, layer in enumerate(self.layers[sid]):
            same = layer.same(groups)
            here, groups = groups.take(same), groups.take(~same)
            if len(here.gno):
                holder.all.add_gnos(sid, here.gno)
                holder.take(number, sid, here)
        has_sum = self.forgotten.has_sum(sid, groups.gno)
        # Without one they claim nothing: of which layer they would be is not known.
        instance.uncompared.add_gnos(sid, groups.gno[~has_sum])
        groups = groups.take(has_sum)
        if len(groups.gno):
            holder.all.add_gnos(sid, groups.gno)
            holder.take(0, sid, groups)
            hashes = hashes_of(groups.gno, groups.commit_ts)
            otherwise, left = holder.open_runs.take(sid, groups.gno, hashes, self.forgotten)
            for run in left:
                self._leave_run(instance, holder, sid, run)
            for run in otherwise:
                gnos = self._leave_run(instance, holder, sid, run)
                holder.otherwise.add_gnos(sid, gnos)
        return others

    def _leave_run(self, instance: InstanceOrigins, holder: _Log, sid: str, run: int) -> IntArray:
        """Name what the log claims of a run; returns these numbers."""
        gnos = numbers_of(run)
        of_log, forgotten = holder.all.freeze(), self.forgotten.gtids.freeze()
        claimed = of_log.contains_gnos(sid, gnos) & forgotten.contains_gnos(sid, gnos)
        instance.uncompared.add_gnos(sid, gnos[claimed])
        found: IntArray = gnos[claimed]
        return found

    def end(self, instance_id: str) -> None:
        """Nothing follows: runs that an instance has begun to claim stay so."""
        instance = self.instance(instance_id)
        for holder in instance.logs.values():
            for sid, runs in holder.open_runs.sums.items():
                for run in runs:
                    self._leave_run(instance, holder, sid, run)
            holder.open_runs = OpenRuns()

    def _forget_unclaimed(self) -> None:
        """What no log claims any more, as after RESET everywhere, is claimed anew."""
        if self._is_pruned:
            return
        self._is_pruned = True
        known_ts = min(one.known_ts for one in self.instances.values())
        claimed = GrowingGtidSet()
        for one in self.instances.values():
            for gtids in one.claimed(known_ts):
                claimed.add_set(gtids)
        self.forgotten.keep_only(claimed.freeze())

    def forget_lowest(self) -> None:
        """Forget what is beyond the bound, the lowest numbers first."""
        self._is_pruned = False
        while self.size > ORIGINS_MAX:
            sid, largest = max(
                ((sid, layer) for sid, layers in self.layers.items() for layer in layers),
                key=lambda x: x[1].size,
            )
            gnos, hashes = largest.forget_lowest()
            self.size -= len(gnos)
            if len(self.layers[sid]) > 1:
                self.forgotten.take_without_sum(sid, gnos)
                continue
            self.forgotten.take(sid, gnos, hashes)
            for log in (log for one in self.instances.values() for log in one.logs.values()):
                if log.all.contains_any(sid, gnos):
                    mine = log.all.freeze().contains_gnos(sid, gnos)
                    log.open_runs.begin(sid, gnos[mine], hashes[mine], self.forgotten)

    def end_logs(self, instance_id: str, stream: str | None, ts: int) -> None:
        """The logs of one stream of the instance (all of them for None) begin anew."""
        instance = self.instance(instance_id)
        ended = [key for key in instance.logs if stream is None or key[0] == stream]
        if stream in (None, BINLOG):
            instance.lost = _Log()
        for key in ended:
            del instance.logs[key]
        if ended:
            instance.go_on(ts)

    def take_back(
        self, instance_id: str, log: tuple[str, int], gtids: GtidSet, shown: GtidSet, ts: int
    ) -> None:
        """A crash took groups out of a log: the numbers of those not `shown` may name others."""
        instance = self.instance(instance_id)
        holder = instance.logs.get(log)
        if holder is not None:
            instance.lost.keep(holder.claims(), gtids & shown)
            holder.take_back(gtids)
            instance.go_on(ts)

    def row(
        self, instance_id: str, lineage: int, at: JournalPosition, filtered: Collection[str] = ()
    ) -> None:
        """A log_status row of the instance: its claims so far count from here on.

        Args:
            instance_id: The instance.
            lineage: Of its binary log.
            at: The row.
            filtered: Streams of relay logs whose channels may leave changes out.
        """
        instance = self.instance(instance_id)
        emptied = instance.applied_empty(filtered) - instance.emptied.freeze()
        if emptied:
            instance.emptied.add_set(emptied)
            self.emptied.append(Uncompared(instance_id, at, emptied))
        instance.lineage = lineage
        instance.remember(at.ts, at)
        gtids, instance.uncompared = instance.uncompared.freeze(), GrowingGtidSet()
        if gtids:
            self.uncompared.append(Uncompared(instance_id, at, gtids))

    def reached(self, instance_id: str, ts: int) -> None:
        """Everything of the instance up to `ts` is known."""
        instance = self.instance(instance_id)
        instance.known_ts = max(instance.known_ts, ts)

    # Contradictions

    def compare_writers(self, moved: Iterable[str], known_ts: int | None = None) -> None:
        """Compare what servers have written without an origin; the arguments as below."""
        times = {name: one.known_ts for name, one in self.instances.items()}
        self.writers.compare(moved, times if known_ts is None else dict.fromkeys(times, known_ts))

    def contradictions(
        self, moved: Iterable[str], known_ts: int | None = None
    ) -> list[Contradiction]:
        """What pairs of instances contradict each other in, as far as both are known.

        Args:
            moved: Instances whose journal has grown.
            known_ts: Up to when both are taken as known, whatever they are.
        """
        if not self.is_contested:
            return []
        found: list[Contradiction] = []
        names = sorted(self.instances)
        odd = {name: self.instances[name].is_odd for name in names}
        for pair in sorted({(min(a, b), max(a, b)) for a in moved for b in names}):
            if odd[pair[0]] or odd[pair[1]]:
                found += self._scan(*pair, known_ts)
        return found

    def _scan(self, first: str, second: str, known_ts: int | None) -> list[Contradiction]:
        one, two = self.instances[first], self.instances[second]
        begin = self.scanned.get((first, second), -1)
        end = min(one.known_ts, two.known_ts) if known_ts is None else known_ts
        if end <= begin:
            return []
        self.scanned[first, second] = end
        found = []
        for ts in sorted({s.ts for s in (*one.states, *two.states) if begin < s.ts <= end}):
            a, b = one.state_at(ts), two.state_at(ts)
            if a is None or b is None:
                for late, state, other in ((first, a, two), (second, b, one)):
                    if state is not None and state.ts == ts < other.forgotten_ts:
                        self._leave_uncompared(late, state, other)
                continue
            shown = (second, b) if b.ts == ts and b.at is not None else (first, a)
            if shown[1].at is None:
                continue
            sides = [(b.logs, b.lineage)]
            if first == second and a.lost:
                sides.append(((a.lost,), _LOST))
            for theirs, lineage in sides:
                for is_hidden, part in _contradicting(a.logs, theirs):
                    key = first, second, part.sids()[0], a.lineage, lineage, is_hidden
                    if key in self.reported:
                        continue
                    self.reported.add(key)
                    found.append(
                        Contradiction(
                            ts,
                            first,
                            second,
                            part,
                            shown[1].at,
                            shown[0],
                            is_hidden,
                            is_lost=lineage == _LOST,
                        )
                    )
        return found

    def _leave_uncompared(self, late: str, state: _State, other: InstanceOrigins) -> None:
        gtids = self.instances[late].claimed_at(state, other)
        if gtids and state.at is not None:
            found = Uncompared(late, state.at, gtids)
            if found not in self.uncompared:
                self.uncompared.append(found)

    def differing(self, first: str, first_ts: int, second: str, second_ts: int) -> GtidSet:
        """GTIDs of which two instances share no claim of the origin, each at its own time.

        A replica that hid a group by an empty one has the source's own claim in its relay log.
        """
        if not self.is_contested:
            return GtidSet.EMPTY
        one = self.instance(first).state_at(first_ts)
        two = self.instance(second).state_at(second_ts)
        if one is None or two is None:
            return GtidSet.EMPTY
        return _differing(one.logs, two.logs) - _agreeing(one.logs, two.logs)

    def made_by(self, instance_id: str, gtids: GtidSet, ts: int, server_id: int) -> GtidSet:
        """Those of some GTIDs that an instance's logs claim for transactions of a server."""
        state = self.instance(instance_id).state_at(ts)
        found = GrowingGtidSet()
        for layer, claimed in _by_layer(state.logs if state is not None else ()).items():
            for sid in (claimed & gtids).sids():
                origins = self.layers[sid][layer]
                gnos = origins.gno[: origins.size][origins.server_id[: origins.size] == server_id]
                mine = (claimed & gtids).contains_gnos(sid, gnos)
                found.add_gnos(sid, gnos[mine])
        return found.freeze()

    def commit_ts(self, sid: str, gno: int) -> int | None:
        """When the transaction of a GTID was committed, if all logs that were read agree on it."""
        found = (layer.find(gno) for layer in self.layers.get(sid, ()))
        known = {origin.commit_ts for origin in found if origin is not None}
        return known.pop() or None if len(known) == 1 else None

    def origins_in(
        self, instance_id: str, sid: str, gno: int, ts: int
    ) -> list[tuple[Origin, str | None]]:
        """What an instance's logs claim of one GTID at `ts`, each with the stream of such a log.

        None: of a log that has ended since, or lost it.
        """
        instance = self.instance(instance_id)
        state = instance.state_at(ts)
        wanted = np.array([gno], dtype=np.int64)

        def layers(claims: Claims) -> set[int]:
            return {claim.layer for claim in claims if claim.gtids.contains_gnos(sid, wanted)[0]}

        streams: dict[int, str | None] = {}
        for claims in (*state.logs, state.lost) if state is not None else ():
            streams |= dict.fromkeys(layers(claims))
        for (stream, _), log in sorted(instance.logs.items(), key=itemgetter(0), reverse=True):
            streams |= dict.fromkeys(layers(log.claims()) & streams.keys(), stream)
        found = ((self.layers[sid][layer].find(gno), one) for layer, one in streams.items())
        return sorted((origin, one) for origin, one in found if origin is not None)


# As the methods of arrays, but without a call of Python's for each of many small ones.
_min, _all, _any = np.minimum.reduce, np.logical_and.reduce, np.logical_or.reduce


def _are_odd(states: Iterable[_State]) -> bool:
    return any(len(claims) > 1 for state in states for claims in (*state.logs, state.lost))


def _fields_lacking(groups: OriginColumns) -> frozenset[str]:
    of_server, of_time = groups.server_id, groups.commit_ts
    fields = {"server_id": of_server, "original_commit_timestamp": of_time}
    return frozenset(name for name, column in fields.items() if _min(column) < 0)


def _distinct(groups: OriginColumns) -> list[OriginColumns]:
    """Groups of known origin, in parts with ascending GNOs: a number twice makes two parts."""
    gno = groups.gno
    if _min(groups.server_id) < 0 or _min(groups.commit_ts) < 0:
        groups = groups.take((groups.server_id >= 0) & (groups.commit_ts >= 0))
        gno = groups.gno
        if not len(gno):
            return []
    if len(gno) == 1 or _all(gno[1:] > gno[:-1]):
        return [groups]
    groups = groups.take(np.argsort(gno, kind="stable"))
    repeats = np.concatenate(([False], groups.gno[1:] == groups.gno[:-1]))
    if not repeats.any():
        return [groups]
    return [groups.take(~repeats), *_distinct(groups.take(repeats))]


def _by_layer(logs: tuple[Claims, ...]) -> dict[int, GtidSet]:
    found: dict[int, GtidSet] = {}
    for claims in logs:
        for layer, gtids, _ in claims:
            found[layer] = found.get(layer, GtidSet.EMPTY) | gtids
    return found


def _differing(first: tuple[Claims, ...], second: tuple[Claims, ...]) -> GtidSet:
    """GTIDs that one side claims in one layer and the other in another."""
    result = GtidSet.EMPTY
    one, two = _by_layer(first), _by_layer(second)
    for layer, gtids in one.items():
        for other, theirs in two.items():
            if layer != other:
                result = result | (gtids & theirs)
    return result


def _contradicting(
    first: tuple[Claims, ...], second: tuple[Claims, ...]
) -> Iterator[tuple[bool, GtidSet]]:
    """What two sides claim differently, by UUID; True: one of them has no change under it."""
    gtids = _differing(first, second)
    hidden, both_empty = _without_change(first, second, gtids)
    for is_hidden, part in ((False, gtids - hidden - both_empty), (True, hidden)):
        for sid in part.sids():
            yield is_hidden, part.restrict(sid)


def _without_change(
    first: tuple[Claims, ...], second: tuple[Claims, ...], differing: GtidSet
) -> tuple[GtidSet, GtidSet]:
    """Of GTIDs of two origins those that change nothing on one side, and those on both sides."""
    if not any(claim.empty for claims in (*first, *second) for claim in claims):
        return _NONE, _NONE
    changes, hidden = _NONE, _NONE
    one, two = _by_layer(first), _by_layer(second)
    for layer, gtids in one.items():
        for other, theirs in two.items():
            if layer != other:
                both = gtids & theirs
                here, there = _empty_in(first, layer), _empty_in(second, other)
                changes = changes | (both - here - there)
                hidden = hidden | ((both & here) - there) | ((both & there) - here)
    return hidden - changes, differing - changes - hidden


def _empty_in(logs: tuple[Claims, ...], layer: int) -> GtidSet:
    """What no log of an instance has a change under: a filter may have left it out of one."""
    parts = [claim for claims in logs for claim in claims if claim.layer == layer]
    found = GtidSet(group for claim in parts for group in claim.empty)
    for claim in parts if found else ():
        found = found - (claim.gtids - claim.empty)
    return found


def _common(claims: Claims, counted: tuple[Claims, ...]) -> Claims:
    known = _by_layer(counted)
    return tuple(
        Claim(layer, gtids & known.get(layer, _NONE), empty) for layer, gtids, empty in claims
    )


def _agreeing(first: tuple[Claims, ...], second: tuple[Claims, ...]) -> GtidSet:
    """GTIDs that both sides claim in one layer."""
    result = GtidSet.EMPTY
    one, two = _by_layer(first), _by_layer(second)
    for layer in one.keys() & two.keys():
        result = result | (one[layer] & two[layer])
    return result
