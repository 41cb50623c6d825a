"""Tier 3: do donor and recipient of a clone take every step of WL#9211?

The steps come from `clone` records (docs/journal.md); what they do is judged in `clone`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tallystick.coordinates.events.journal import CLONE_STAGES
from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.clone import replaces_data
from tallystick.coordinates.rules.families import Family
from tallystick.coordinates.rules.protocol_steps import (
    UNDECIDED_WHEN,
    Forgotten,
    Protocol,
    Unended,
    begin_run,
    note_begin_unseen,
    report_missing,
    step_missing,
)
from tallystick.coordinates.rules.registry import Rule, register
from tallystick.coordinates.rules.statements import (
    CLONE_PROGRESS,
    CLONE_STATUS,
    COMMIT_ORDER,
    INSTANCE_LOCK,
)
from tallystick.coordinates.state_codec import COLLABORATOR

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tallystick.coordinates.audit.reporter import Reporter

CLONE_DONOR_STEPS_COMPLETE = register(
    Rule(
        number=126,
        name="clone_donor_steps_complete",
        tier=3,
        scope="T",
        family=Family.CLONE,
        severity=Severity.CRITICAL,
        heals="never",
        claim=(
            "Before the donor of a clone reads the position for it, it has forced the order of"
            " commits, awaited what was prepared out of order and blocked external XA, and none of"
            " it is released yet; before the clone ends the position is read and all is released."
        ),
        why=(
            "Only while commits follow the binary log and XA waits does the TRX_SYS page name a"
            " position that the data have reached, with nothing missing before it. What stays"
            " forced or blocked after the end slows the donor down or stops its XA for good."
        ),
        undecided_when=UNDECIDED_WHEN
        + "; of a donor that records no such step, or has no binary log, none is demanded",
        sources=("WL#9211, Clone PHY binary log position",),
        remedy=(
            "Treat the clone's position as wrong: replicate by GTID after comparing gtid_executed,"
            " or clone again. If the donor still holds XA back, restart it."
        ),
        verify=(COMMIT_ORDER, INSTANCE_LOCK),
        cases=step_missing("WL#9211, Clone PHY binary log position"),
    )
)

CLONE_RECIPIENT_STEPS_COMPLETE = register(
    Rule(
        number=127,
        name="clone_recipient_steps_complete",
        tier=3,
        scope="T",
        family=Family.CLONE,
        severity=Severity.CRITICAL,
        heals="data",
        claim=(
            "A clone that completes has passed every stage between the first and the last that it"
            " records: file copy, page copy, redo copy, file sync, restart, recovery; and where it"
            " replaces the recipient's data, before them the drop of those."
        ),
        why=(
            "Pages that changed during the file copy come with the page copy, what changed after"
            " that with the redo copy: without one of them the data are of several moments, and"
            " no later stage notices."
        ),
        undecided_when=UNDECIDED_WHEN + "; of a recipient that records no stage none is demanded",
        sources=("WL#9211, US-1", "MySQL manual: The clone_progress Table"),
        remedy="Do not use the recipient: clone again.",
        verify=(CLONE_STATUS, CLONE_PROGRESS),
        cases=step_missing("stages of clone_progress"),
    )
)

_BEFORE: Final = ("order_forced", "prepared_awaited", "donor_blocked")
_AFTER: Final = ("position_read", "donor_released", "order_released")
_DONOR: Final = Protocol(
    needs={"position_read": _BEFORE, "end": _AFTER},
    ends={
        "donor_released": ("donor_blocked",),
        "order_released": ("order_forced", "prepared_awaited"),
    },
)
_SYNCHRONIZING: Final = frozenset({*_BEFORE, *_AFTER})
"""Steps of which a donor that records one records all."""


_CLONES_MAX: Final = 64


@dataclass(slots=True)
class _Given:
    """A clone that the instance gives: when it began, and the donor's steps in force."""

    since: int
    steps: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Taken:
    """A clone that the instance takes.

    Attributes:
        since: When it began.
        replaces_data: Whether it replaces the instance's own data.
        stages: Those it has entered.
        is_over: Whether a start has ended it, so that nobody waits for its end.
    """

    since: int
    replaces_data: bool
    stages: list[str] = field(default_factory=list)
    is_over: bool = False


@dataclass(eq=False)
class CloneSteps:
    """The steps of the clones that an instance gives and takes, each by the name of its peer.

    A server has one clone at a time; one that begins shows that the one before it is over, not that
    it has ended as it should.
    """

    _reporter: Reporter = field(metadata=COLLABORATOR)
    _given: dict[str, _Given] = field(default_factory=dict)
    _taken: dict[str, _Taken] = field(default_factory=dict)
    forgotten: Forgotten = field(default_factory=Forgotten)

    def step(self, body: Mapping[str, Any], ts: int, *, logs: bool) -> None:
        """Take one ``clone`` record.

        Args:
            body: The record.
            ts: Its moment.
            logs: Whether the instance has a binary log.
        """
        if body.get("role") == "donor":
            if logs:
                self._donor_stepped(body, ts)
        elif body.get("role") == "recipient":
            self._recipient_stepped(body, ts)

    def _donor_stepped(self, body: Mapping[str, Any], ts: int) -> None:
        step = body["step"]
        if step == "begin":
            name = begin_run(self._given, _peer(body), _Given(ts), _CLONES_MAX)
            self._forget(name, CLONE_DONOR_STEPS_COMPLETE)
            return
        name = _name(self._given, body)
        if name is None:
            self._note_unbegun(CLONE_DONOR_STEPS_COMPLETE, body, ts)
            return
        given = self._given[name].steps
        if step == "end":
            del self._given[name]
            if body.get("error") is not None or _SYNCHRONIZING.isdisjoint(given):
                return
        if step in _SYNCHRONIZING or step == "end":
            missing = _DONOR.take(given, step)
            self._report(CLONE_DONOR_STEPS_COMPLETE, body, step, missing, ts)

    def _recipient_stepped(self, body: Mapping[str, Any], ts: int) -> None:
        step = body["step"]
        if step == "begin":
            taken = _Taken(ts, bool(replaces_data(body.get("destination"))))
            name = begin_run(self._taken, _peer(body), taken, _CLONES_MAX)
            self._forget(name, CLONE_RECIPIENT_STEPS_COMPLETE)
            return
        name = _name(self._taken, body)
        if name is None:
            self._note_unbegun(CLONE_RECIPIENT_STEPS_COMPLETE, body, ts)
            return
        taken = self._taken[name]
        stages = taken.stages
        if step == "stage":
            stages.append(body.get("stage", ""))
        elif step == "refused" and not stages:
            del self._taken[name]
        elif step == "end":
            del self._taken[name]
            numbers = [number for number, stage in enumerate(CLONE_STAGES) if stage in stages]
            if numbers and body.get("error") is None:
                first = 0 if taken.replaces_data else numbers[0]
                missing = [
                    stage for stage in CLONE_STAGES[first : numbers[-1]] if stage not in stages
                ]
                self._report(CLONE_RECIPIENT_STEPS_COMPLETE, body, step, missing, ts)

    def _note_unbegun(self, rule: Rule, body: Mapping[str, Any], ts: int) -> None:
        if body["step"] == "end" and body.get("error") is None and not self.forgotten:
            note_begin_unseen(
                self._reporter, rule, what=f"the {_run(body)}", step="end", at=f"clone end at {ts}"
            )

    def _forget(self, name: str | None, rule: Rule) -> None:
        if name is not None:
            self.forgotten.drop(
                self._reporter, rule, what="clones", kept=_CLONES_MAX, at=f"clone with {name}"
            )

    def _report(
        self, rule: Rule, body: Mapping[str, Any], step: str, missing: list[str], ts: int
    ) -> None:
        report_missing(
            self._reporter,
            rule,
            subject=f"The {_run(body)}",
            step=step,
            missing=missing,
            at=f"clone {step} at {ts}",
        )

    def unended(self) -> Iterator[Unended]:
        """The clones that the instance gives, and those that it takes."""
        for name, given in self._given.items():
            what = "the clone as its donor" + (f" for {name}" if name else "")
            yield Unended(CLONE_DONOR_STEPS_COMPLETE, what, given.since)
        for name, taken in self._taken.items():
            what = "the clone as its recipient" + (f" from {name}" if name else "")
            if not taken.is_over:
                yield Unended(CLONE_RECIPIENT_STEPS_COMPLETE, what, taken.since)

    def started(self, data_lineage: str | None) -> None:
        """A start ends a donor's clone; a recipient's goes on in the one over the cloned data."""
        self._given, self.forgotten = {}, Forgotten()
        for name in list(self._taken)[:-1]:
            del self._taken[name]
        for taken in self._taken.values():
            taken.is_over |= data_lineage != "cloned"


def _run(body: Mapping[str, Any]) -> str:
    peer = body.get("peer")
    return f"{body['role']} of the clone" + (f" with {peer}" if peer else "")


def _peer(body: Mapping[str, Any]) -> str:
    return str(body.get("peer", ""))


def _name(runs: Mapping[str, object], body: Mapping[str, Any]) -> str | None:
    """Of the run that a step belongs to: a name that it or the begin lacks is of the last one."""
    peer, last = _peer(body), next(reversed(list(runs)), None)
    if peer in runs:
        return peer
    return last if not (peer and last) else None
