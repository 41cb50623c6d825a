"""Who must answer requests for collections, and who has not: counted on the job's wall clock.

A journal that does not go on has no time to measure, so a dead producer is seen by the requests
that it leaves unanswered. An instance becomes a member by its start or by an answer, never by a
message that merely has a key; it is none any more from its retirement to its next start.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from tallystick.coordinates.events.incident_control import ControlAction, IncidentControl
from tallystick.coordinates.results import Acknowledgement

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

ANSWER_US = 5_000_000
"""What an answer may take through Kafka and a busy job before its request counts as unanswered."""


@dataclass(slots=True)
class Member:
    """An instance that must answer.

    Attributes:
        answered_us: When the job read its last answer, by the job's clock; None: never.
        last_ts: Of that answer, by the clock of its observer.
        unanswered: How many requests have been read since.
        since_us: When the job read the first of them.
        silent_us: When it read the one with which the instance became silent.
        row_ts: Of its last answer with a row, by the clock of its observer.
        unread: How many answers without a row have come since.
        unread_since_us: When the job read the first of them.
        problem: What the last of them says; empty: it has a row.
        absent_as: ``SILENT`` or ``UNREADABLE``, until there is a row again; empty: it is there.
        absent_since_us: When that began.
        since_ts: When it started, or the first collection that it answered began, in the time of
            journals: it is expected in collections from then on.
    """

    answered_us: int | None = None
    last_ts: int | None = None
    unanswered: int = 0
    since_us: int = 0
    silent_us: int | None = None
    row_ts: int | None = None
    unread: int = 0
    unread_since_us: int = 0
    problem: str = ""
    absent_as: str = ""
    absent_since_us: int = 0
    since_ts: int = 0


SILENT, UNREADABLE, POISONED = "instance_silent", "instance_unreadable", "messages_unreadable"
"""An instance leaves requests unanswered; its observer answers that there is no row; too many
messages cannot be read, whoever has sent them."""

UNREADABLE_WINDOW_US = 600_000_000
"""Messages that cannot be read are counted over so long."""
_COUNTED_US = 60_000_000
_REASON_MAX = 300
_NOBODY = ""


class Absence(NamedTuple):
    """A time without a row of an instance, in which nothing is known of it.

    Attributes:
        rule: ``SILENT`` or ``UNREADABLE``, as it began; or ``POISONED``.
        instance_id: Of whom; empty: nobody knows.
        since_us: When it began, by the job's clock.
        last_ts: Of the last answer, or of the last row; None: there was none.
        problem: Why there is no row, or a message cannot be read; empty where nobody answers.
        acknowledgement: Who knows of it.
    """

    rule: str
    instance_id: str
    since_us: int
    last_ts: int | None
    problem: str
    acknowledgement: Acknowledgement | None = None

    @property
    def incident_id(self) -> str:
        """Its name, by which it can be acknowledged."""
        text = f"{self.rule} {self.instance_id} {self.since_us}"
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


@dataclass(eq=False)
class Answers:
    """The members of a fleet, and the requests that they leave unanswered.

    Attributes:
        members: By instance.
        retired: Instances that are no members any more, and since when; -1: since all that has
            been read.
        strangers: Instances that were named because they are not listed.
        beyond: Instances that were named because they are too many, where none are listed.
        acknowledged: Absences that somebody knows of, by their names.
        unreadable: How many messages could not be read, by the time of the job's clock at which the
            counting began.
        poisoned_us: Since when these are too many; None: they are not.
        poison: Why one of them cannot be read.
    """

    members: dict[str, Member] = field(default_factory=dict)
    retired: dict[str, int] = field(default_factory=dict)
    strangers: dict[str, None] = field(default_factory=dict)
    beyond: dict[str, None] = field(default_factory=dict)
    acknowledged: dict[str, Acknowledgement] = field(default_factory=dict)
    unreadable: dict[int, int] = field(default_factory=dict)
    poisoned_us: int | None = None
    poison: str = ""

    def start(self, instance_id: str, ts: int) -> None:
        """An instance has started, which makes it a member."""
        if ts > self.retired.get(instance_id, -1):
            self.retired.pop(instance_id, None)
            self.members.setdefault(instance_id, Member(since_ts=ts))

    def retire(self, instance_id: str, ts: int) -> None:
        """An instance need not answer until it starts anew."""
        self.retired[instance_id] = max(ts, self.retired.get(instance_id, 0))
        self.members.pop(instance_id, None)
        self.beyond.pop(instance_id, None)

    def catch_up(self) -> None:
        """All that was there has been read: the next start comes later, by whatever clock."""
        self.retired = dict.fromkeys(self.retired, -1)

    def ask(self, asked: Iterable[str] | None, now_us: int, unanswered_max: int) -> None:
        """A request was read; of all members, or of those asked."""
        for name in self.expected(asked):
            member = self.members[name]
            member.unanswered += 1
            if member.unanswered == 1:
                member.since_us = now_us
            if member.unanswered == unanswered_max:
                member.silent_us = now_us

    def answer(self, instance_id: str, ts: int, now_us: int, problem: str = "") -> None:
        """An answer was read: whatever it answers, its producer is alive.

        Args:
            instance_id: Whose.
            ts: When it was written, by the clock of its observer.
            now_us: The job's clock.
            problem: Why it has no row; empty: it has one.
        """
        if instance_id in self.retired:
            return
        known = self.members.setdefault(instance_id, Member(since_ts=ts))
        ts = ts if known.last_ts is None else max(ts, known.last_ts)
        member = Member(now_us, ts, row_ts=ts, since_ts=known.since_ts)
        if problem:
            member.row_ts, member.problem, member.unread = known.row_ts, problem, known.unread + 1
            member.unread_since_us = known.unread_since_us if known.unread else now_us
            member.absent_as, member.absent_since_us = known.absent_as, known.absent_since_us
        self.members[instance_id] = member

    def note_answered(self, instances: Iterable[str], began_ts: int) -> None:
        """Instances have answered a collection, so they are expected in all that began later."""
        for name in instances:
            if (member := self.members.get(name)) is not None:
                member.since_ts = min(member.since_ts, began_ts)

    def note_unreadable(self, reasons: Sequence[str], now_us: int, unreadable_max: int) -> None:
        """Count messages that cannot be read; too many are so until none has come for long enough.

        Args:
            reasons: Why, one a message.
            now_us: The job's clock.
            unreadable_max: More than so many in ``UNREADABLE_WINDOW_US`` are too many. It may be
                lower than before: what was counted then is too many with the next of them.
        """
        began = now_us - now_us % _COUNTED_US
        self.unreadable[began] = self.unreadable.get(began, 0) + len(reasons)
        after = now_us - UNREADABLE_WINDOW_US
        self.unreadable = {at: n for at, n in self.unreadable.items() if n and at > after}
        total = sum(self.unreadable.values())
        if not total:
            self.poisoned_us = None
        elif reasons and total > unreadable_max and self.poisoned_us is None:
            self.poisoned_us, self.poison = now_us, reasons[-1][:_REASON_MAX]

    def expected(self, asked: Iterable[str] | None, began_ts: int | None = None) -> set[str]:
        """Who must answer a collection.

        Args:
            asked: Instances; None: all.
            began_ts: When its first answer was written, in the time of journals: an instance that
                was not there yet need not answer. None: not known.
        """
        names = self.members.keys() if asked is None else self.members.keys() & set(asked)
        return {n for n in names if began_ts is None or self.members[n].since_ts <= began_ts}

    def silent(self, now_us: int) -> set[str]:
        """Members that have left as many requests unanswered as is too many."""
        return {
            name
            for name, member in self.members.items()
            if member.silent_us is not None and member.silent_us + ANSWER_US <= now_us
        }

    def last_ts(self, instance_id: str) -> int | None:
        """When its last answer was written, by the clock of its observer."""
        member = self.members.get(instance_id)
        return None if member is None else member.last_ts

    def absences(self, now_us: int, unanswered_max: int) -> dict[str, Absence | None]:
        """Note who is absent now, by instance; None: who is there, or need not be.

        Args:
            now_us: The job's clock.
            unanswered_max: An instance is absent after so many answers without a row, too.

        Returns:
            Also those that were absent; of the others it is not known yet. Messages that cannot be
            read are of nobody.
        """
        silent = self.silent(now_us)
        for name, member in self.members.items():
            if member.absent_as:
                continue
            if name in silent:
                member.absent_as, member.absent_since_us = SILENT, member.since_us
            elif member.unread >= unanswered_max:
                member.absent_as, member.absent_since_us = UNREADABLE, member.unread_since_us
        there = [name for name, one in self.members.items() if one.row_ts is not None]
        return dict.fromkeys((*self.retired, *there, _NOBODY)) | self._absent(now_us)

    def _absent(self, now_us: int) -> dict[str, Absence | None]:
        found: dict[str, Absence | None] = {}
        for name, one in self.members.items():
            if one.absent_as:
                last_ts = one.last_ts if one.absent_as == SILENT else one.row_ts
                absence = Absence(one.absent_as, name, one.absent_since_us, last_ts, one.problem)
                found[name] = self._known(absence, now_us)
        if self.poisoned_us is not None:
            absence = Absence(POISONED, _NOBODY, self.poisoned_us, None, self.poison)
            found[_NOBODY] = self._known(absence, now_us)
        return found

    def _known(self, one: Absence, now_us: int) -> Absence:
        known = self.acknowledged.get(one.incident_id)
        is_over = known is None or (known.until_ts is not None and known.until_ts <= now_us)
        return one if is_over else one._replace(acknowledgement=known)

    def obey(self, controls: Iterable[IncidentControl]) -> Iterator[IncidentControl]:
        """Take what operators ask of absences; what was asked of earlier ones is forgotten.

        Args:
            controls: In the order of their topic.

        Yields:
            What is not about one of them.
        """
        names = {one.incident_id for one in self._absent(0).values() if one is not None}
        self.acknowledged = {n: known for n, known in self.acknowledged.items() if n in names}
        for one in controls:
            if one.target not in names or one.action is ControlAction.RETIRE:
                yield one
            elif one.action is ControlAction.ACK:
                known = Acknowledgement(one.by, one.why, one.ts, one.until_ts)
                self.acknowledged[one.target] = known
            else:
                self.acknowledged.pop(one.target, None)
