"""Judging the steps of collections inside the server (invariants 51-54, WL#9452 Steps 3 and 4).

One collection is a state machine: IDLE, ENTERING while locks are taken, COLLECTING, LEAVING while
they are released. Steps of collections interleave only by sessions that wait.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.rules.collection import (
    COLLECTION_LOCK_ORDER,
    COLLECTION_UNLOCK_COMPLETE,
    COLLECTION_WITHIN_BUDGET,
    NO_PROGRESS_WHILE_LOCKED,
)
from tallystick.coordinates.state_codec import COLLABORATOR

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallystick.coordinates.audit.reporter import Reporter
    from tallystick.coordinates.rules.registry import Rule

COLLECT_LOCK = "LOCK_collect_instance_log"
_RANKS = {
    COLLECT_LOCK: 0,
    "channel_map": 1,
    "LOCK_plugin": 2,
    "channel": 3,
    "binlog": 4,
    "gtid_state": 5,
    "engine": 6,
}
"""Order of taking, by the part of the resource's name before the colon (domain of WL#9452)."""
BUDGET_US = 1_000_000
OPEN_MAX = 16


def _rank(resource: str) -> int | None:
    return _RANKS.get(resource.split(":", 1)[0])


@dataclass(slots=True)
class _Round:
    """One collection between enter and leave."""

    collection_id: str
    session: Any
    entered_at: int
    held: list[str] = field(default_factory=list)
    is_frozen: bool = False
    moved: str | None = None
    lsns: dict[str, int] = field(default_factory=dict)
    """Engine to where its log stood when the collection had locked it, if the step tells."""
    broken: list[str] = field(default_factory=list)


@dataclass(eq=False)
class CollectionProtocol:
    """The collections of one instance as their steps show them."""

    _reporter: Reporter = field(metadata=COLLABORATOR)
    _rounds: list[_Round] = field(default_factory=list)

    @property
    def is_open(self) -> bool:
        """Whether any collection is between enter and leave."""
        return bool(self._rounds)

    def step(self, body: Mapping[str, Any], ts: int) -> None:
        """Take one ``collection`` record."""
        step = body.get("step")
        key = (str(body.get("collection_id")), body.get("session"))
        resource = str(body.get("resource", ""))
        if step == "enter":
            self._rounds = [*self._rounds, _Round(*key, ts)][-OPEN_MAX:]
            return
        found = [r for r in self._rounds if (r.collection_id, r.session) == key]
        if not found:
            # Its beginning was not seen: without evidence nothing is judged.
            return
        round_ = found[-1]
        if isinstance(body.get("lsn"), int):
            self._engine_log(round_, resource, body["lsn"])
        if step == "lock":
            self._lock(round_, resource)
        elif step == "collect":
            self._collect(round_)
        elif step == "unlock":
            self._unlock(round_, resource)
        elif step == "leave":
            self._leave(round_, ts)

    def _lock(self, round_: _Round, resource: str) -> None:
        rank = _rank(resource)
        highest = max((_rank(r) or 0 for r in round_.held), default=-1)
        others = [r for r in self._rounds if r is not round_ and resource in r.held]
        held = ", ".join(round_.held) or "nothing"
        round_.held.append(resource)
        round_.moved = None
        if others:
            self._report(
                round_,
                COLLECTION_LOCK_ORDER,
                f"The collection locked {resource} while collection {others[0].collection_id} "
                "held it.",
                resource,
                "one collector at a time",
                "LOCK_collect_instance_log",
            )
        elif rank is None or rank < highest or (highest < 0 and rank > 1):
            self._report(
                round_,
                COLLECTION_LOCK_ORDER,
                f"The collection locked {resource} after {held}.",
                resource,
                "before what it already holds",
                "order of WL#9452: channel map, plugins, channels, binary log, GTID state, engines",
            )

    def _engine_log(self, round_: _Round, resource: str, lsn: int) -> None:
        """The log of an engine stands where it stood when it was locked."""
        locked_at = round_.lsns.setdefault(resource, lsn)
        engine = resource.removeprefix("engine:")
        if lsn != locked_at:
            self._report(
                round_,
                NO_PROGRESS_WHILE_LOCKED,
                f"The log of {engine} moved from LSN {locked_at} to {lsn} between its lock and its"
                " unlock by the collection.",
                f"LSN {lsn}",
                f"LSN {locked_at}",
                "when the engine's log was locked, WL#9452, F-2.4",
            )

    def _collect(self, round_: _Round) -> None:
        if round_.moved is not None:
            self._report_progress(round_, round_.moved)
        round_.is_frozen = True

    def _unlock(self, round_: _Round, resource: str) -> None:
        if resource not in round_.held:
            self._report(
                round_,
                COLLECTION_UNLOCK_COMPLETE,
                f"The collection released {resource}, which it did not hold.",
                resource,
                "a lock that is held",
                "locks taken before",
            )
            return
        last = round_.held[-1]
        round_.held.remove(resource)
        if resource == "LOCK_plugin":
            # Released as soon as the engines are listed, before anything is frozen.
            return
        round_.is_frozen = False
        round_.moved = None
        if last != resource:
            self._report(
                round_,
                COLLECTION_UNLOCK_COMPLETE,
                f"The collection released {resource} before {last}.",
                resource,
                f"{last} first",
                "reverse order of taking",
            )

    def _leave(self, round_: _Round, ts: int) -> None:
        self._rounds.remove(round_)
        if round_.held:
            held = ", ".join(round_.held)
            self._report(
                round_,
                COLLECTION_UNLOCK_COMPLETE,
                f"When the collection left, {held} was still locked.",
                held,
                "nothing locked",
                "end of the collection",
            )
        spent = ts - round_.entered_at
        if spent > BUDGET_US:
            self._report(
                round_,
                COLLECTION_WITHIN_BUDGET,
                f"The collection held its state for {spent / 1e6:.3f} s.",
                f"{spent} µs",
                f"at most {BUDGET_US} µs",
                "budget of a collection",
            )

    def progress(self, what: str) -> None:
        """Something moved; between the last lock and the first unlock nothing may."""
        for round_ in self._rounds:
            if round_.is_frozen:
                self._report_progress(round_, what)
            elif round_.held:
                # Whether the lock before was the last one is known when collecting begins.
                round_.moved = what

    def _report_progress(self, round_: _Round, what: str) -> None:
        self._report(
            round_,
            NO_PROGRESS_WHILE_LOCKED,
            f"{what} between the last lock and the first unlock of the collection.",
            what,
            "no log event, no executed GTID, no channel administration, no flush",
            "collecting state of WL#9452, F-2",
        )

    def _report(
        self,
        round_: _Round,
        rule: Rule,
        sentence: str,
        *halves: str,
    ) -> None:
        """Tell a broken rule once in a collection.

        Args:
            round_: The collection.
            rule: The rule.
            sentence: The contradiction.
            halves: What was observed, what was expected, and where that is written.
        """
        observed, expected, expected_in = halves
        if rule.name in round_.broken:
            return
        round_.broken.append(rule.name)
        self._reporter.prose(
            rule,
            at=round_.collection_id,
            collection_id=round_.collection_id,
            sentence=sentence,
            observed=observed,
            observed_in="steps of the collection",
            expected=expected,
            expected_in=expected_in,
            witness=observed,
        )

    def interrupted(self) -> None:
        """The server ended, or records were lost: what a collection still held is unknown."""
        self._rounds = []
