"""What the steps of a protocol demand of each other: which must have been taken before which.

Each protocol of the design documents is declared once, beside the machine that follows it. A step
is demanded only in a run whose beginning was recorded, and only by a step that was reached: a run
that ended with an error, with its server, or where records are missing, was broken off and is not
incomplete.
"""

from __future__ import annotations

import typing
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, TypeVar

from tallystick.coordinates.results import ObservationCode
from tallystick.coordinates.rules.families import Lack
from tallystick.coordinates.rules.outcomes import Broken, Undecided
from tallystick.coordinates.rules.registry import RULES, Case, reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tallystick.coordinates.audit.reporter import Reporter
    from tallystick.coordinates.rules.outcomes import Reason
    from tallystick.coordinates.rules.registry import Rule

UNDECIDED_WHEN = (
    "the first step of the run was not observed, the journal has a gap in it or ends before the"
    " step that demands another, or the run was broken off by an error, a kill or the server's end;"
    " a run that has begun and not ended is named in each collection"
)


FORGOTTEN = reason(
    "steps_forgotten",
    "there are more than {kept} {what}: the oldest are not remembered, and what follows of them is"
    " not judged",
    Lack.MEMORY,
)


NOT_ENDED = reason(
    "steps_not_ended", "{what} has not ended yet: whether it does is still to come", Lack.BACKUP
)
BEGIN_UNSEEN = reason(
    "begin_unseen",
    "the journal has the {step} of {what} and no beginning that it belongs to: what was between"
    " them is not judged",
    Lack.BACKUP,
)
HELD_LONG = reason(
    "held_long",
    "{what} has been held for {held:seconds}, and commits wait for it: whether it is released is"
    " still to come",
    Lack.BACKUP,
)
READ_LOCK_HELD_LONG = reason(
    "read_lock_held_long",
    "{what} has been held for {held:seconds}, and commits wait for it, as during a copy of the"
    " files: whether it is released is still to come",
    Lack.BACKUP,
)
BACKUPS_OVERLAP = reason(
    "backups_overlap",
    "backup {backup} and another one had begun and not ended, and what {step} lacks may be the"
    " other one's",
    Lack.BACKUP,
)
INSTANCE_LOCK_IN_DOUBT = reason(
    "instance_lock_in_doubt",
    "a backup failed while the instance lock was held, and whether that was its own, and is"
    " released, is not known",
    Lack.BACKUP,
)
HELD_LONG_US = 10_000_000
"""A backup holds what commits wait for only while it notes coordinates."""


class Wait(IntEnum):
    """What waits for the end of something; the first counts where several go on."""

    COMMITS = 0
    """All commits, so that it takes moments."""
    COMMITS_FOR_LONG = 1
    """All commits, though it may take as long as a copy of the files."""
    NOTHING = 2


class _Begun(typing.Protocol):
    """A run that has begun.

    Attributes:
        since: When.
    """

    since: int


Run = TypeVar("Run", bound=_Begun)


@dataclass(frozen=True, slots=True)
class Unended:
    """What has begun and not ended: nobody knows yet whether it will.

    Attributes:
        rule: Which says that it does.
        what: As a reason names it.
        since: When it began.
        stops: What waits until it ends.
        collection_id: The collection that it is of.
    """

    rule: Rule
    what: str
    since: int
    stops: Wait = Wait.NOTHING
    collection_id: str = ""

    def undecided(self, ts: int) -> Undecided:
        """Why its rule is undecided at a moment."""
        held = ts - self.since
        if self.stops is Wait.NOTHING or held <= HELD_LONG_US:
            return Undecided(NOT_ENDED, what=self.what)
        why = HELD_LONG if self.stops is Wait.COMMITS else READ_LOCK_HELD_LONG
        return Undecided(why, what=self.what, held=held)


def begin_run(runs: dict[str, Run], name: str, run: Run, most: int) -> str | None:
    """A run begins.

    One that has begun under its name and not ended goes on under a name that no step has: only what
    ends all runs ends it.

    Args:
        runs: Those that have begun and not ended, by name; changed in place.
        name: Its name.
        run: The run.
        most: How many are remembered.

    Returns:
        The name of the one that is forgotten for it.
    """
    before = runs.pop(name, None)
    if before is not None:
        runs[f"{name} of {before.since}"] = before
    forgotten = next(iter(runs)) if len(runs) >= most else None
    if forgotten is not None:
        del runs[forgotten]
    runs[name] = run
    return forgotten


@dataclass(frozen=True, slots=True)
class Protocol:
    """The steps of one protocol.

    Attributes:
        needs: Step to those that must be in force when it is taken.
        ends: Step to those that are in force no more after it.
    """

    needs: Mapping[str, Sequence[str]]
    ends: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def take(self, taken: list[str], step: str) -> list[str]:
        """Take a step in a run.

        Args:
            taken: The steps in force; changed in place. What is missing counts as taken from now
                on, so that it is reported once.
            step: The step.

        Returns:
            What it needs and is not in force.
        """
        missing = [need for need in self.needs.get(step, ()) if need not in taken]
        ended = self.ends.get(step, ())
        taken[:] = [one for one in (*taken, *missing) if one not in ended and one != step]
        taken.append(step)
        return missing


def step_missing(in_: str) -> dict[str, Case]:
    """The case of a rule on completeness; ``in_`` the section of the document."""
    return {
        "step_missing": Case(
            "{subject} reached step {step} without {missing:list}.",
            "step {step}",
            "journal",
            "{missing:list} before it",
            in_,
        )
    }


def report_missing(
    reporter: Reporter,
    rule: Rule,
    *,
    subject: str,
    step: str,
    missing: Sequence[str],
    at: str,
    channel: str | None = None,
    collection_id: str | None = None,
) -> None:
    """Report steps that were left out, if there are any."""
    if not missing:
        return
    reporter.broken(
        rule,
        Broken(
            "step_missing",
            witness=", ".join(missing),
            at=at,
            subject=subject,
            step=step,
            missing=list(missing),
        ),
        channel=channel,
        collection_id=collection_id,
    )


def note_forgotten(
    reporter: Reporter,
    *rules: Rule,
    what: str,
    kept: int,
    at: str,
    collection_id: str | None = None,
) -> None:
    """Leave rules undecided of which something is forgotten that a later step may show broken.

    Args:
        reporter: Where it is noted.
        rules: The rules.
        what: Of what there are too many.
        kept: How many are remembered.
        at: What is forgotten, or what would be judged by it.
        collection_id: The collection that it is of.
    """
    note_undecided(reporter, rules, FORGOTTEN, at, collection_id, what=what, kept=kept)


def note_begin_unseen(
    reporter: Reporter,
    *rules: Rule,
    what: str,
    step: str,
    at: str,
    collection_id: str | None = None,
) -> None:
    """Leave rules undecided of a run whose end is recorded and whose beginning is not.

    Args:
        reporter: Where it is noted.
        rules: The rules.
        what: The run, as a reason names it.
        step: What is recorded of it.
        at: Its coordinates.
        collection_id: The collection that it is of.
    """
    note_undecided(reporter, rules, BEGIN_UNSEEN, at, collection_id, what=what, step=step)


def note_undecided(
    reporter: Reporter,
    rules: Iterable[Rule],
    why: Reason,
    at: str,
    collection_id: str | None = None,
    **values: Any,
) -> None:
    """Leave rules undecided for a reason, but for those that are disabled."""
    judged = tuple(rule for rule in rules if rule.name not in reporter.disabled)
    if judged:
        reporter.note(
            ObservationCode.COMPARISON_UNDECIDED,
            why,
            at=at,
            rules=judged,
            is_undecided=True,
            collection_id=collection_id,
            **values,
        )


FORGOTTEN_NAMES_MAX = 64


@dataclass(eq=False)
class Forgotten:
    """What a limit dropped of a protocol and may hide a breach, until it is known to have ended.

    Rows of log_status leave the rules undecided as long.
    """

    _rules: list[str] = field(default_factory=list)
    _what: str = ""
    _kept: int = 0
    _names: list[str] = field(default_factory=list)
    _has_more: bool = False
    """Whether more was dropped than is named: that is not seen to end."""

    def __bool__(self) -> bool:
        return self._has_more or bool(self._names)

    def drop(
        self,
        reporter: Reporter,
        *rules: Rule,
        what: str,
        kept: int,
        at: str,
        names: Sequence[str] = (),
        collection_id: str | None = None,
    ) -> None:
        """Note what is dropped, and remember it.

        Args:
            reporter: Where it is noted.
            rules: The rules that it leaves undecided.
            what: Of what there are too many.
            kept: How many are remembered.
            at: What is dropped.
            names: By which it is known again when it ends; none: only the server's end ends it.
            collection_id: The collection that it is of.
        """
        note_forgotten(reporter, *rules, what=what, kept=kept, at=at, collection_id=collection_id)
        self._rules, self._what, self._kept = [rule.name for rule in rules], what, kept
        known = list(dict.fromkeys((*self._names, *names)))
        self._has_more |= not names or len(known) > FORGOTTEN_NAMES_MAX
        self._names = known[:FORGOTTEN_NAMES_MAX]

    def ended(self, name: str) -> None:
        """What was dropped under the name has ended: it hides nothing any more."""
        if name in self._names:
            self._names.remove(name)

    def undecided(self) -> Iterator[tuple[Rule, Undecided]]:
        """What is undecided because of it."""
        if self:
            for name in self._rules:
                yield RULES[name], Undecided(FORGOTTEN, what=self._what, kept=self._kept)
