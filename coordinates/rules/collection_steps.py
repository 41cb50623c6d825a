"""Tier 3: does a collection take every step of WL#9452, and is its row what it collected?

The steps come from `collection` records (docs/journal.md); their order is judged in `collection`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.families import Family
from tallystick.coordinates.rules.outcomes import Broken
from tallystick.coordinates.rules.protocol_steps import (
    UNDECIDED_WHEN,
    Forgotten,
    Unended,
    Wait,
    note_begin_unseen,
    report_missing,
    step_missing,
)
from tallystick.coordinates.rules.registry import Case, Rule, register
from tallystick.coordinates.rules.statements import COLLECTORS, LSNS
from tallystick.coordinates.state_codec import COLLABORATOR

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tallystick.coordinates.audit.reporter import Reporter
    from tallystick.coordinates.events.log_status import ServerState

COLLECTION_STEPS_COMPLETE = register(
    Rule(
        number=120,
        name="collection_steps_complete",
        tier=3,
        scope="T",
        family=Family.COLLECTION,
        severity=Severity.CRITICAL,
        heals="never",
        claim=(
            "A collection locks the channel map, the binary log, the GTID state and each channel"
            " and engine, then collects all that it has locked, which is what its row has, and then"
            " unlocks; it takes the locks of the collector and of the plugins if earlier ones did,"
            " brings no row after an error, and leaves its state."
        ),
        why=(
            "What is collected without its lock, or before or after the others are locked, may"
            " change while these are read, so the row is not one instant. What is not collected is"
            " missing from the row, and a backup that is cut by a row without a channel has none of"
            " its relay log. A session that never leaves keeps everybody waiting who commits or"
            " collects next. Ten seconds are given to a session that has begun to collect, because"
            " it waits for nobody any more."
        ),
        undecided_when=UNDECIDED_WHEN,
        sources=("WL#9452, F-1.2 to F-1.4, High Level Specification and Step-3",),
        remedy=(
            "Discard the row and all that was cut by it. If a collection hangs, end its session"
            " (KILL), and report the steps with the server's version."
        ),
        verify=(COLLECTORS,),
        cases={
            **step_missing("WL#9452, Step-3"),
            "locked_late": Case(
                "The collection locked {resource} only after it had {begun}.",
                "lock of {resource}",
                "steps of the collection",
                "every lock before the first collection, and all of them held together",
                "WL#9452, Step-3 (e) to (g)",
            ),
            "collected_late": Case(
                "The collection collected {resource} only after it had {begun}.",
                "collection of {resource}",
                "steps of the collection",
                "all collected before the first unlock",
                "WL#9452, Step-3 (f) and (g)",
            ),
            "row_after_error": Case(
                "Collection {witness} failed, and brought a row nevertheless.",
                "a row",
                "log_status of this collection",
                "an error and no row",
                "WL#9452, Step-3 (f) and (k)",
            ),
            "left_out_of_row": Case(
                "The row does not have {absent:list}, which the collection had collected.",
                "nothing of {absent:list}",
                "log_status of this collection",
                "{absent:list}",
                "steps of the collection",
            ),
            "never_left": Case(
                "The collection took no step for {waited:seconds} and has not left its state.",
                "{last} as its last step",
                "steps of the collection",
                "leave",
                "WL#9452, F-1.4",
            ),
        },
    )
)

ROW_LSN_AS_COLLECTED = register(
    Rule(
        number=121,
        name="row_lsn_as_collected",
        tier=3,
        scope="T",
        family=Family.COLLECTION,
        severity=Severity.CRITICAL,
        heals="never",
        claim="The LSN in a row is the one at which the collection had collected it.",
        why=(
            "The engine's log stands still from its lock to its unlock, and the row is read in"
            " between: a copy of the redo log up to another LSN has more or less than the binary"
            " log's position and the GTID set of the same row."
        ),
        undecided_when=(
            "the engine's steps of this collection were not observed, or they do not name the LSN"
        ),
        sources=("WL#9452, F-1.2.4 and F-2.4",),
        remedy="Discard the row: copy the redo log up to the LSN of another collection.",
        verify=(LSNS,),
        cases={
            "lsn_differs": Case(
                "The row has LSN {lsn}, but InnoDB's log was at {collected} when it was collected.",
                "{lsn}",
                "STORAGE_ENGINES of the row",
                "{collected}",
                "steps of the collection",
            )
        },
    )
)

_INNODB: Final = "engine:InnoDB"
_DEMANDED: Final = (
    "lock of channel_map",
    "collection of binlog",
    "collection of gtid_state",
)
"""What a collection does before it leaves, unless it failed."""
_PLUGINS: Final = "LOCK_plugin"
_OWN: Final = ("LOCK_collect_instance_log", _PLUGINS)
"""Locks that guard what the collector works with, not what its row has."""
NEVER_LEFT_US: Final = 10_000_000
_RUNS_MAX: Final = 16


@dataclass(slots=True)
class _Run:
    """One collection since it entered.

    Attributes:
        taken: The steps, as the protocol names them.
        held: Resources that are locked.
        last: Its last step, and when that was.
        begun: What it did first of collecting and unlocking, as a finding says it.
        released: The first lock of a log, or around them, that it released; empty: none.
        lsn: InnoDB's, when its log was locked and collected.
        is_reported: Whether a finding on its steps was reported.
    """

    collection_id: str
    session: Any
    last: tuple[str, int]
    taken: list[str] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    begun: str = ""
    released: str = ""
    lsn: int | None = None
    has_failed: bool = False
    has_left: bool = False
    is_reported: bool = False


@dataclass(eq=False)
class CollectionSteps:
    """The collections of one instance, as long as a row of theirs may come."""

    _reporter: Reporter = field(metadata=COLLABORATOR)
    _runs: list[_Run] = field(default_factory=list)
    _own: list[str] = field(default_factory=list)
    """Those of the collector's own locks that were recorded."""
    _enters_are_recorded: bool = False
    _unentered: list[str] = field(default_factory=list)
    """Collections whose locks are recorded and whose entering is not, though others' is."""
    forgotten: Forgotten = field(default_factory=Forgotten)

    def step(self, body: Mapping[str, Any], ts: int) -> None:
        """Take one ``collection`` record."""
        step, resource = body["step"], body.get("resource", "")
        key = body["collection_id"], body["session"]
        if step == "enter":
            self._enters_are_recorded = True
            if len(self._runs) >= _RUNS_MAX:
                self._forget_one()
            self._runs.append(_Run(*key, (step, ts)))
            return
        for run in reversed(self._runs):
            if (run.collection_id, run.session) == key and not run.has_left:
                break
        else:
            self._step_of_unknown(step, *key)
            return
        run.last = (f"{step} {resource}".strip(), ts)
        if resource == _INNODB and step in ("lock", "collect"):
            run.lsn = body.get("lsn", run.lsn)
        if step == "lock":
            self._lock(run, resource)
        elif step == "unlock" and resource in run.held:
            self._unlock(run, resource)
        elif step == "collect":
            self._collect(run, resource)
        elif step == "error":
            run.has_failed = True
        elif step == "leave":
            self._leave(run)

    def _step_of_unknown(self, step: str, collection_id: str, session: Any) -> None:
        if step == "leave":
            self.forgotten.ended(_name(collection_id, session))
        elif step == "lock" and self._enters_are_recorded and not self.forgotten:
            others = [one for one in self._unentered if one != collection_id]
            self._unentered = [*others[1 - _RUNS_MAX :], collection_id]

    def _forget_one(self) -> None:
        # The row of one that has left, if it has one, came before so many others were entered.
        left = next((run for run in self._runs if run.has_left), None)
        forgotten = left or self._runs[0]
        self._runs.remove(forgotten)
        if left is None:
            self.forgotten.drop(
                self._reporter,
                COLLECTION_STEPS_COMPLETE,
                ROW_LSN_AS_COLLECTED,
                what="collections",
                kept=_RUNS_MAX,
                at=f"collection {forgotten.collection_id}",
                names=[_name(forgotten.collection_id, forgotten.session)],
                collection_id=forgotten.collection_id,
            )

    def time_anew(self, ts: int) -> None:
        """How long ago something was is not known: it counts from now on."""
        for run in self._runs:
            run.last = run.last[0], ts

    def _lock(self, run: _Run, resource: str) -> None:
        run.held.append(resource)
        run.taken.append(f"lock of {resource}")
        if run.begun and not run.has_failed and resource != _PLUGINS:
            broken = Broken("locked_late", witness=resource, resource=resource, begun=run.begun)
            self._report_broken(run, broken)

    def _unlock(self, run: _Run, resource: str) -> None:
        run.held.remove(resource)
        if resource != _PLUGINS:
            # That one is given back as soon as the engines are listed, before the logs are locked.
            run.released = run.released or f"unlocked {resource}"
            run.begun = run.begun or run.released

    def _collect(self, run: _Run, resource: str) -> None:
        run.taken.append(f"collection of {resource}")
        run.begun = run.begun or f"collected {resource}"
        if resource not in run.held and not run.released:
            self._report(run, f"collection of {resource}", [f"lock of {resource}"])
        elif run.released and not run.has_failed:
            broken = Broken(
                "collected_late", witness=resource, resource=resource, begun=run.released
            )
            self._report_broken(run, broken)

    def _leave(self, run: _Run) -> None:
        run.has_left = True
        if run.has_failed:
            return
        locked = [step.removeprefix("lock of ") for step in run.taken if step.startswith("lock of")]
        logs = (name for name in locked if name not in (*_OWN, "channel_map"))
        demanded = [*_DEMANDED, *(f"lock of {name}" for name in self._own)]
        demanded += (f"collection of {name}" for name in logs)
        missing = [step for step in dict.fromkeys(demanded) if step not in run.taken]
        self._report(run, "leave", missing)
        self._own = [name for name in _OWN if name in self._own or name in locked]

    def answered(self, body: Mapping[str, Any], state: ServerState | None, ts: int) -> None:
        """Take one ``log_status`` record.

        Args:
            body: The record.
            state: Its row, None without one.
            ts: Its moment.
        """
        name = body["collection_id"]
        runs = [run for run in self._runs if run.collection_id == name]
        if state is None:
            # The client was refused, timed out or killed: how far its session came is its own.
            self._runs = [run for run in self._runs if run not in runs or run.has_failed]
            return
        if name in self._unentered:
            self._unentered = [one for one in self._unentered if one != name]
            if not runs:
                note_begin_unseen(
                    self._reporter,
                    COLLECTION_STEPS_COMPLETE,
                    ROW_LSN_AS_COLLECTED,
                    what=f"collection {name}",
                    step="row",
                    at=name,
                    collection_id=name,
                )
        if len(runs) == 1 and runs[0].has_failed:
            self._report_broken(runs[0], Broken("row_after_error", witness=name))
        elif len(runs) == 1:
            self._judge_row(runs[0], state)
        self._judge_time(ts)

    def lsn_of(self, collection_id: str) -> int | None:
        """Where the collection has collected InnoDB's log, None if that is not known."""
        found = [run.lsn for run in self._runs if run.collection_id == collection_id]
        return found[0] if len(found) == 1 else None

    def _judge_row(self, run: _Run, state: ServerState) -> None:
        listed = sorted(name for name, channel in state.channels.items() if channel.is_listed)
        taken = {step.lower() for step in run.taken}
        logs = [f"channel:{name}" for name in listed]
        logs += [f"engine:{name}" for name in state.engines or ()]
        missing = [f"collection of {log}" for log in logs]
        self._report(run, "row", [step for step in missing if step.lower() not in taken])
        absent = _left_out(run, state)
        if absent:
            self._report_broken(run, Broken("left_out_of_row", witness=absent[0], absent=absent))
        if run.lsn is not None and state.lsn is not None and run.lsn != state.lsn:
            self._reporter.broken(
                ROW_LSN_AS_COLLECTED,
                Broken("lsn_differs", witness=state.lsn, lsn=state.lsn, collected=run.lsn),
                at=run.collection_id,
                collection_id=run.collection_id,
            )

    def _judge_time(self, ts: int) -> None:
        """The server has answered at this moment: sessions that wait for nobody have ended."""
        for run in self._runs:
            last, since = run.last
            has_begun = run.has_failed or any(s.startswith("collection of") for s in run.taken)
            if has_begun and not run.has_left and ts - since > NEVER_LEFT_US:
                run.has_left = True
                self._reporter.broken(
                    COLLECTION_STEPS_COMPLETE,
                    Broken("never_left", witness=last, waited=ts - since, last=last),
                    at=run.collection_id,
                    collection_id=run.collection_id,
                    excess_us=ts - since - NEVER_LEFT_US,
                )

    def _report_broken(self, run: _Run, broken: Broken) -> None:
        """Report that the steps are wrong, once in a collection."""
        if run.is_reported:
            return
        run.is_reported = True
        self._reporter.broken(
            COLLECTION_STEPS_COMPLETE, broken, at=run.collection_id, collection_id=run.collection_id
        )

    def _report(self, run: _Run, step: str, missing: list[str]) -> None:
        """Report what is missing, once in a collection."""
        if missing and not run.is_reported:
            run.is_reported = True
            report_missing(
                self._reporter,
                COLLECTION_STEPS_COMPLETE,
                subject=f"Collection {run.collection_id}",
                step=step,
                missing=missing,
                at=run.collection_id,
                collection_id=run.collection_id,
            )

    def unended(self) -> Iterator[Unended]:
        """The collections that hold something and have not left."""
        for run in self._runs:
            if not run.has_left and not run.has_failed and run.held:
                yield Unended(
                    COLLECTION_STEPS_COMPLETE,
                    f"collection {run.collection_id}",
                    run.last[1],
                    stops=Wait.COMMITS,
                    collection_id=run.collection_id,
                )

    def interrupted(self) -> None:
        """The server ended, or records were lost: no collection goes on."""
        self._runs, self._unentered, self.forgotten = [], [], Forgotten()


def _name(collection_id: str, session: Any) -> str:
    return f"{collection_id} of session {session}"


def _left_out(run: _Run, state: ServerState) -> list[str]:
    """The channels and engines that were collected and are not in the row."""
    listed: set[str] = set()
    if state.lists_channels:
        listed |= {f"channel:{name}" for name, c in state.channels.items() if c.is_listed}
    if state.engines is not None:
        listed |= {f"engine:{name.lower()}" for name in state.engines}
    readable = (
        *(("channel:",) if state.lists_channels else ()),
        *(("engine:",) if state.engines is not None else ()),
    )
    collected = (step.removeprefix("collection of ") for step in run.taken)
    return [log for log in collected if log.startswith(readable) and log.lower() not in listed]
