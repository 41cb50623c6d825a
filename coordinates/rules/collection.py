"""Tier 3: does a collection inside the server keep its protocol (WL#9452, Steps 3 and 4)?

The steps come from `collection` records (docs/journal.md), which a simulated or an instrumented
server writes; without them none of these is decided. One collection is a state machine: IDLE,
ENTERING while locks are taken, COLLECTING, LEAVING while they are released. Steps of collections
interleave only by sessions that wait.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.families import Family
from tallystick.coordinates.rules.outcomes import Broken
from tallystick.coordinates.rules.protocol_steps import Forgotten
from tallystick.coordinates.rules.registry import Case, Rule, register
from tallystick.coordinates.rules.statements import COLLECTORS
from tallystick.coordinates.state_codec import COLLABORATOR, reset

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallystick.coordinates.audit.reporter import Reporter

_ORDER = "order of WL#9452: channel map, plugins, channels, binary log, GTID state, engines"
PROGRESS = {
    "binlog_written": "A binary log event was written",
    "binlog_reset": "The binary log was reset",
    "gtid_purged_assigned": "gtid_purged was assigned",
    "channel_administered": "Channel {name!r} was administered ({action})",
    "positions_flushed": "The receiver flushed its positions",
}
"""What moves the state of the logs: case of ``no_progress_while_locked`` to its words."""

COLLECTION_LOCK_ORDER = register(
    Rule(
        number=51,
        name="collection_lock_order",
        tier=3,
        scope="T",
        family=Family.COLLECTION,
        severity=Severity.ERROR,
        heals="never",
        claim=(
            "One collector at a time takes its locks in the fixed order: collector, channel map,"
            " plugins, channels, binary log, GTID state, storage engines."
        ),
        why=(
            "Committing sessions and channel threads take the same locks in the same direction, so"
            " nobody waits in a circle. The receiver writes a table after it takes its own lock,"
            " which is why channels come before the engines."
        ),
        undecided_when=(
            "the lock steps of the collection were not observed, or the journal has a gap among"
            " them"
        ),
        sources=("WL#9452, High Level Specification and Step-3",),
        remedy=(
            "Collect with one client until the server is repaired. If sessions hang, end the"
            " collecting session first, and report the order of locks with the server's version."
        ),
        verify=(COLLECTORS,),
        cases={
            "lock_held_by_other": Case(
                "The collection locked {resource} while collection {other} held it.",
                "{resource}",
                "steps of the collection",
                "one collector at a time",
                "LOCK_collect_instance_log",
            ),
            "wrong_first_lock": Case(
                "The collection began with a lock of {resource}.",
                "{resource}",
                "steps of the collection",
                "LOCK_collect_instance_log or the channel map first",
                _ORDER,
            ),
            "lock_out_of_order": Case(
                "The collection locked {resource} after {held:list}.",
                "{resource}",
                "steps of the collection",
                "before what it already holds",
                _ORDER,
            ),
        },
    )
)

COLLECTION_UNLOCK_COMPLETE = register(
    Rule(
        number=52,
        name="collection_unlock_complete",
        tier=3,
        scope="T",
        family=Family.COLLECTION,
        severity=Severity.CRITICAL,
        heals="never",
        claim=(
            "Every lock that a collection takes is released: that of the plugins before a log is"
            " locked, those of the logs in any order, then the channel map, then the collector's;"
            " also when it ends with an error or its client has gone."
        ),
        why=(
            "On every way out the server walks its list of resources, forwards in the document and"
            " backwards in MySQL 8.0, then releases the channel map and the collector's lock. One"
            " that stays stops commits or channel administration for good. LOCK_plugin is given"
            " back early, once the engines are listed."
        ),
        undecided_when=(
            "the steps of the collection were not observed to their end, or the journal has a gap"
            " among them; a boot that ends in between takes its locks with it"
        ),
        sources=("WL#9452, NF-1, F-1.4 and Step-3 (g) to (j)",),
        remedy=(
            "Look in performance_schema.metadata_locks and the process list for who waits. A mutex"
            " that was left locked goes only with a restart of the server; stop collecting until"
            " it is patched."
        ),
        verify=(COLLECTORS,),
        cases={
            "released_unheld": Case(
                "The collection released {resource}, which it did not hold.",
                "{resource}",
                "steps of the collection",
                "a lock that is held",
                "locks taken before",
            ),
            "released_out_of_order": Case(
                "The collection released {resource} and still held {held:list}.",
                "{resource}",
                "steps of the collection",
                "{held:list} before it",
                "WL#9452, Step-3 (g) to (j)",
            ),
            "plugins_kept": Case(
                "The collection locked {resource} and still held LOCK_plugin.",
                "LOCK_plugin held at the lock of {resource}",
                "steps of the collection",
                "LOCK_plugin released once the engines are listed",
                "WL#9452, High Level Specification (2) and Step-3 (d)",
            ),
            "left_locked": Case(
                "When the collection left, it still held {held:list}.",
                "{held:list}",
                "steps of the collection",
                "nothing locked",
                "end of the collection",
            ),
        },
    )
)

NO_PROGRESS_WHILE_LOCKED = register(
    Rule(
        number=53,
        name="no_progress_while_locked",
        tier=3,
        scope="T",
        family=Family.COLLECTION,
        severity=Severity.CRITICAL,
        heals="never",
        claim=(
            "Between the last lock and the first unlock of a collection nothing is logged or"
            " executed, no channel is changed and no receiver flushes its positions; the log of a"
            " locked engine stands still, and so does, after the first unlock or an error, what is"
            " still locked."
        ),
        why=(
            "Each of these acts needs a lock that the collection holds: LOCK_log, the lock of the"
            " GTID state, the channel map, Master_info::data_lock, and in InnoDB room in the log"
            " buffer. Relay events may still be written, but their positions wait. If one act goes"
            " on, the row is not one instant."
        ),
        undecided_when=(
            "the collection's last lock or first unlock was not observed, or the journal has a gap"
            " between them; an engine's log, when the steps do not report its LSN"
        ),
        sources=("WL#9452, F-2.1 to F-2.5",),
        remedy=(
            "Discard the row and all that was cut by it. If it comes back, take backups under FLUSH"
            " TABLES WITH READ LOCK with the appliers stopped, and report the server's version."
        ),
        verify=(COLLECTORS,),
        cases={
            "engine_log_moved": Case(
                "The log of {engine} moved from LSN {locked_at} to {lsn} between its lock and its"
                " unlock by the collection.",
                "LSN {lsn}",
                "steps of the collection",
                "LSN {locked_at}",
                "when the engine's log was locked, WL#9452, F-2.4",
            ),
            **{
                code: Case(
                    f"{what} while the collection held a lock that stops it.",
                    what,
                    "steps of the collection",
                    "no log event, no executed GTID, no channel administration, no flush",
                    "collecting state of WL#9452, F-2",
                )
                for code, what in PROGRESS.items()
            },
        },
    )
)

COLLECTION_WITHIN_BUDGET = register(
    Rule(
        number=54,
        name="collection_within_budget",
        tier=3,
        scope="T",
        family=Family.COLLECTION,
        severity=Severity.WARNING,
        heals="never",
        claim=(
            "A collection leaves its state within its budget, one second unless configured"
            " otherwise, after it entered."
        ),
        why=(
            "While the locks are held every commit waits, so the server copies a few values from"
            " memory and lets go; healthy ones take well under a second. Long holding is mostly"
            " waiting for a huge group that is being written, with other locks already taken."
        ),
        undecided_when=(
            "entering or leaving was not observed, their times are not known because of a gap, or"
            " no later answer shows that the clock was not set meanwhile"
        ),
        sources=("WL#9452, introduction", "WL#9211, NF-1"),
        remedy=(
            "Look for very large transactions, slow syncs of the binary log's disk and many"
            " channels; collect less often, or in quieter hours, until they are gone."
        ),
        verify=(COLLECTORS,),
        cases={
            "collection_too_long": Case(
                "The collection held its state for {spent:seconds}.",
                "{spent:seconds}",
                "steps of the collection",
                "at most {budget:seconds}",
                "budget of a collection",
            ),
        },
    )
)

COLLECT_LOCK = "LOCK_collect_instance_log"
CHANNEL_MAP = "channel_map"
_PLUGINS = "LOCK_plugin"
_RANKS = {
    COLLECT_LOCK: 0,
    CHANNEL_MAP: 1,
    _PLUGINS: 2,
    "channel": 3,
    "binlog": 4,
    "gtid_state": 5,
    "engine": 6,
}
"""Order of taking, by the part of the resource's name before the colon (domain of WL#9452)."""
_STOPPED_BY = {
    "binlog_written": "binlog",
    "binlog_reset": "binlog",
    "gtid_purged_assigned": "gtid_state",
    "channel_administered": CHANNEL_MAP,
}
"""Case of progress to the lock that alone stops it, whichever others are held."""
BUDGET_US = 1_000_000
OPEN_MAX = 16


def _rank(resource: str) -> int | None:
    return _RANKS.get(resource.split(":", 1)[0])


def _name(collection_id: str, session: Any) -> str:
    return f"{collection_id} of session {session}"


@dataclass(slots=True)
class _Round:
    """One collection between enter and leave."""

    collection_id: str
    session: Any
    entered_at: int
    held: list[str] = field(default_factory=list)
    is_frozen: bool = False
    locks_no_more: bool = False
    """Whether an error has come, or something was unlocked: each lock stops what it alone stops."""
    moved: tuple[str, dict[str, str]] | None = None
    """Case and values of the progress since the last lock."""
    lsns: dict[str, int] = field(default_factory=dict)
    """Engine to the LSN of its log when the collection had locked it, if the step has it."""
    broken: list[str] = field(default_factory=list)


@dataclass(eq=False)
class CollectionProtocol:
    """The collections of one instance as their steps show them."""

    _reporter: Reporter = field(metadata=COLLABORATOR)
    _rounds: list[_Round] = field(default_factory=list)
    forgotten: Forgotten = field(default_factory=Forgotten)

    @property
    def is_open(self) -> bool:
        """Whether any collection is between enter and leave."""
        return bool(self._rounds)

    def step(self, body: Mapping[str, Any], ts: int) -> None:
        """Take one ``collection`` record."""
        step, resource = body["step"], body.get("resource", "")
        key = body["collection_id"], body["session"]
        if step == "enter":
            if len(self._rounds) >= OPEN_MAX:
                self._forget(self._rounds.pop(0))
            self._rounds.append(_Round(*key, ts))
            return
        for round_ in reversed(self._rounds):
            if (round_.collection_id, round_.session) == key:
                break
        else:
            # Its beginning was not seen: without evidence nothing is judged.
            if step == "leave":
                self.forgotten.ended(_name(*key))
            return
        if isinstance(body.get("lsn"), int):
            self._engine_log(round_, resource, body["lsn"])
        if step == "lock":
            self._lock(round_, resource)
        elif step == "collect":
            self._collect(round_)
        elif step == "error":
            self._fail(round_)
        elif step == "unlock":
            self._unlock(round_, resource)
        elif step == "leave":
            self._leave(round_, ts)

    def _forget(self, round_: _Round) -> None:
        self.forgotten.drop(
            self._reporter,
            COLLECTION_LOCK_ORDER,
            COLLECTION_UNLOCK_COMPLETE,
            NO_PROGRESS_WHILE_LOCKED,
            COLLECTION_WITHIN_BUDGET,
            what="collections",
            kept=OPEN_MAX,
            at=f"collection {round_.collection_id}",
            names=[_name(round_.collection_id, round_.session)],
            collection_id=round_.collection_id,
        )

    def _lock(self, round_: _Round, resource: str) -> None:
        rank = _rank(resource)
        highest = max((_rank(r) or 0 for r in round_.held), default=-1)
        others = [r for r in self._rounds if r is not round_ and resource in r.held]
        if _PLUGINS in round_.held and rank is not None and rank > _RANKS[_PLUGINS]:
            broken = Broken("plugins_kept", witness=resource, resource=resource)
            self._report(round_, COLLECTION_UNLOCK_COMPLETE, broken)
        held = list(round_.held)
        round_.held.append(resource)
        round_.moved = None
        if others:
            other = others[0].collection_id
            broken = Broken("lock_held_by_other", witness=resource, resource=resource, other=other)
        elif highest < 0 and (rank is None or rank > 1):
            broken = Broken("wrong_first_lock", witness=resource, resource=resource)
        elif rank is None or rank < highest:
            broken = Broken("lock_out_of_order", witness=resource, resource=resource, held=held)
        else:
            return
        self._report(round_, COLLECTION_LOCK_ORDER, broken)

    def _engine_log(self, round_: _Round, resource: str, lsn: int) -> None:
        """The log of an engine must not move while it is locked."""
        locked_at = round_.lsns.setdefault(resource, lsn)
        if lsn != locked_at:
            engine = resource.removeprefix("engine:")
            self._report(
                round_,
                NO_PROGRESS_WHILE_LOCKED,
                Broken(
                    "engine_log_moved",
                    witness=f"LSN {lsn}",
                    engine=engine,
                    lsn=lsn,
                    locked_at=locked_at,
                ),
            )

    def _collect(self, round_: _Round) -> None:
        if round_.moved is not None:
            self._report_progress(round_, *round_.moved)
        round_.is_frozen = True

    def _fail(self, round_: _Round) -> None:
        """No other lock is taken: what is locked by now stands still until it is released."""
        round_.locks_no_more = True
        if round_.moved is not None and _STOPPED_BY.get(round_.moved[0]) in round_.held:
            self._report_progress(round_, *round_.moved)

    def _unlock(self, round_: _Round, resource: str) -> None:
        if resource not in round_.held:
            broken = Broken("released_unheld", witness=resource, resource=resource)
            self._report(round_, COLLECTION_UNLOCK_COMPLETE, broken)
            return
        round_.held.remove(resource)
        if resource == _PLUGINS:
            # Released as soon as the engines are listed, before anything is frozen.
            return
        round_.is_frozen, round_.locks_no_more = False, True
        round_.moved = None
        held = list(round_.held)
        if resource in (COLLECT_LOCK, CHANNEL_MAP) and set(held) - {COLLECT_LOCK}:
            broken = Broken("released_out_of_order", witness=resource, resource=resource, held=held)
            self._report(round_, COLLECTION_UNLOCK_COMPLETE, broken)

    def time_anew(self, ts: int) -> None:
        """How long ago something was is not known: it counts from now on."""
        for round_ in self._rounds:
            round_.entered_at = ts

    def _leave(self, round_: _Round, ts: int) -> None:
        self._rounds.remove(round_)
        if round_.held:
            held = list(round_.held)
            broken = Broken("left_locked", witness=", ".join(held), held=held)
            self._report(round_, COLLECTION_UNLOCK_COMPLETE, broken)
        spent = ts - round_.entered_at
        if spent > BUDGET_US:
            broken = Broken(
                "collection_too_long", witness=f"{spent / 1e6:.3f} s", spent=spent, budget=BUDGET_US
            )
            self._report(round_, COLLECTION_WITHIN_BUDGET, broken, spent - BUDGET_US)

    def progress(self, case: str, **values: str) -> None:
        """Something moved; between the last lock and the first unlock nothing may.

        After that, or an error, each lock that is still held stops what it alone stops.

        Args:
            case: What it was, of ``PROGRESS``.
            values: What its words name.
        """
        for round_ in self._rounds:
            is_stopped = round_.locks_no_more and _STOPPED_BY.get(case) in round_.held
            if round_.is_frozen or is_stopped:
                self._report_progress(round_, case, values)
            elif round_.held:
                # Whether the last lock taken was the last of all is known when collecting begins.
                round_.moved = case, values

    def _report_progress(self, round_: _Round, case: str, values: Mapping[str, str]) -> None:
        broken = Broken(case, witness=PROGRESS[case].format(**values), **values)
        self._report(round_, NO_PROGRESS_WHILE_LOCKED, broken)

    def _report(
        self, round_: _Round, rule: Rule, broken: Broken, excess_us: int | None = None
    ) -> None:
        """Report a broken rule once in a collection."""
        if rule.name in round_.broken:
            return
        round_.broken.append(rule.name)
        self._reporter.broken(
            rule,
            broken,
            at=round_.collection_id,
            collection_id=round_.collection_id,
            excess_us=excess_us,
        )

    def interrupted(self) -> None:
        """The server ended, or records were lost: what a collection still held is unknown."""
        reset(self)
