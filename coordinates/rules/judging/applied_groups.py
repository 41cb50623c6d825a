"""Judging whether a replica executed each anonymous transaction once (invariant 83).

With GTIDs the server itself skips what it has executed. Without them the stored position alone
decides: one that is too old after a start makes the applier execute a transaction again, one that
is too new leaves it out. Both logs tell whose transaction it was by the origin's server id and
commit time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tallystick.coordinates.audit.fleet_events import FleetEventKind
from tallystick.coordinates.rules.replication_info import APPLIED_EXACTLY_ONCE
from tallystick.coordinates.values.binlog import EventType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tallystick.coordinates.audit.fleet_events import FleetEvent
    from tallystick.coordinates.rules.judging.channel import ChannelOfRow

REMEMBERED_MAX = 4096
ABSENT = -1

Origin = tuple[int, int]
"""server_id and original_commit_timestamp of a transaction."""
SourcePlace = tuple[str, int, int]
"""Base name, file number and end in the source's binary log."""


@dataclass(slots=True)
class _Received:
    """An anonymous transaction of a relay log.

    Attributes:
        channel: Whose relay log.
        place: Where it ends in the source's binary log.
        is_judged: Whether an XID ends it: a change of InnoDB, safe with a transactional repository.
        is_ambiguous: Another place or channel has the same origin: nothing is said of it.
        is_told: Reported already.
    """

    channel: str
    place: SourcePlace
    is_judged: bool
    is_ambiguous: bool = False
    is_told: bool = False


@dataclass(slots=True)
class AppliedGroups:
    """The anonymous transactions that an instance received, and those that it logged.

    Attributes:
        received: By origin, in order of their first receipt.
        logged: Where the own binary log has each origin: file number, end, and number of the boot.
        boots: How many starts there were.
        resumed: For each channel, the furthest place executed at the last start.
        has_gaps: Channels in which transactions are missing away from any start: filters leave
            them out there.
    """

    received: dict[Origin, _Received] = field(default_factory=dict)
    logged: dict[Origin, list[tuple[int, int, int]]] = field(default_factory=dict)
    resumed: dict[str, SourcePlace] = field(default_factory=dict)
    has_gaps: set[str] = field(default_factory=set)
    boots: int = 0

    def learn(self, fleet_events: Sequence[FleetEvent], own_server_id: int | None) -> None:
        """Take what was read of the logs since the last call."""
        for fact in fleet_events:
            if fact.kind is FleetEventKind.RECEIVED and -1 in fact.arrays["group_sid"]:
                self._receive(fact)
            elif fact.kind is FleetEventKind.LOGGED and -1 in fact.arrays["group_sid"]:
                self._log(fact, own_server_id)

    def _receive(self, fact: FleetEvent) -> None:
        arrays, body = fact.arrays, fact.body
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
            if sid >= 0 or commit_ts <= 0 or end < 0 or base_name is None:
                continue
            origin = (server_id, commit_ts)
            place = (base_name, body["source_file_number"], end)
            known = self.received.get(origin)
            if known is None:
                self.received[origin] = _Received(channel, place, kind == EventType.XID)
            elif (known.channel, known.place) != (channel, place):
                known.is_ambiguous = True
        while len(self.received) > REMEMBERED_MAX:
            del self.received[next(iter(self.received))]

    def _log(self, fact: FleetEvent, own_server_id: int | None) -> None:
        arrays = fact.arrays
        ends = arrays["event_ends"][arrays["group_event"]].tolist()
        for sid, server_id, commit_ts, end in zip(
            arrays["group_sid"].tolist(),
            arrays["group_server_id"].tolist(),
            arrays["group_commit_ts"].tolist(),
            ends,
            strict=True,
        ):
            if sid < 0 and commit_ts > 0 and server_id != own_server_id:
                origin = (server_id, commit_ts)
                self.logged.setdefault(origin, []).append(
                    (fact.body["file_number"], end, self.boots)
                )
        while len(self.logged) > REMEMBERED_MAX:
            del self.logged[next(iter(self.logged))]

    def started(self, recovered: tuple[int, int] | None, *, crashed: bool) -> None:
        """A boot: what lies beyond the recovered end of the binary log never was."""
        self.boots += 1
        if crashed:
            if recovered is None:
                self.forget()
                return
            self.logged = {
                origin: kept
                for origin, places in self.logged.items()
                if (kept := [place for place in places if place[:2] <= recovered])
            }
        self.resumed = {}
        for origin, received in self.received.items():
            if origin in self.logged:
                last = self.resumed.get(received.channel)
                if last is None or (last[0] == received.place[0] and last < received.place):
                    self.resumed[received.channel] = received.place

    def forget(self) -> None:
        """Records are missing, a channel was sent to another place, or the log began anew."""
        self.received = {}
        self.logged = {}
        self.resumed = {}
        self.has_gaps = set()

    # The judge

    def judge(self, channel: ChannelOfRow) -> None:
        """Judge the transactions of one channel at a row."""
        rule = APPLIED_EXACTLY_ONCE
        if not channel.row.server.logs_everything:
            channel.undecided(rule, "the replica does not log what it executes")
            return
        if channel.relay is None:
            channel.undecided(rule, "no event of the channel's relay log was seen")
            return
        mine = [
            (origin, received)
            for origin, received in self.received.items()
            if received.channel == channel.name and received.is_judged and not received.is_ambiguous
        ]
        twice = [
            (origin, received)
            for origin, received in mine
            if not received.is_told and len({boot for *_, boot in self.logged.get(origin, ())}) > 1
        ]
        omitted = self._omitted(channel, mine)
        if not twice and not omitted:
            channel.holds(rule)
            return
        for _, received in twice or omitted:
            received.is_told = True
        place = _text((twice or omitted)[0][1].place)
        count = len(twice or omitted)
        channel.broken(
            rule,
            at=f"{'again' if twice else 'left out'} {place}",
            sentence=f"After a start the replica executed {count} transactions again that it had "
            f"committed, the first of them the one that ends at {place} of the source."
            if twice
            else f"Since the start the applier has passed {count} transactions without executing "
            f"them, the first of them the one that ends at {place} of the source.",
            observed=f"{count} transactions {'logged twice' if twice else 'not logged'}",
            observed_in="binary log of the replica",
            expected="each transaction once",
            expected_in="relay log, by server id and original_commit_timestamp",
            witness=place,
        )

    def _omitted(
        self, channel: ChannelOfRow, mine: list[tuple[Origin, _Received]]
    ) -> list[tuple[Origin, _Received]]:
        """What lies between the last transaction before a start and the first one behind it."""
        executed = channel.state.executed
        if executed is None or channel.baselines.is_filtered or channel.name in self.has_gaps:
            return []
        passed = [
            (origin, received)
            for origin, received in mine
            if received.place[0] == executed.base_name
            and received.place[1:] <= (executed.file_number, executed.position)
        ]
        passed.sort(key=lambda item: item[1].place)
        done = [at for at, (origin, _) in enumerate(passed) if origin in self.logged]
        absent = [
            (at, item)
            for at, item in enumerate(passed)
            if item[0] not in self.logged and not item[1].is_told and done and at > done[0]
        ]
        if not absent:
            return []
        resumed = self.resumed.get(channel.name)
        before = [at for at in done if resumed is not None and passed[at][1].place <= resumed]
        behind = [at for at in done if at > (before[-1] if before else -1)]
        if not before or not behind:
            # What is not followed by an executed transaction may still come.
            return []
        inside = [item for at, item in absent if before[-1] < at < behind[0]]
        if len(inside) < len([at for at, _ in absent if at < behind[-1]]):
            self.has_gaps.add(channel.name)
            return []
        return inside


def _text(place: SourcePlace) -> str:
    return f"{place[0]}.{place[1]:06d}:{place[2]}"
