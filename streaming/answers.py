"""Who must answer requests for collections, and who has not: counted on the job's wall clock.

A journal that does not go on has no time to measure, so a dead producer is seen by the requests
that it leaves unanswered. An instance becomes a member by its start or by an answer, never by a
message that merely has a key; it is none any more from its retirement to its next start.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

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
    """

    answered_us: int | None = None
    last_ts: int | None = None
    unanswered: int = 0
    since_us: int = 0
    silent_us: int | None = None


@dataclass(eq=False)
class Answers:
    """The members of a fleet, and the requests that they leave unanswered.

    Attributes:
        members: By instance.
        retired: Instances that are no members any more, and since when.
        strangers: Instances that were named because they are not listed.
    """

    members: dict[str, Member] = field(default_factory=dict)
    retired: dict[str, int] = field(default_factory=dict)
    strangers: dict[str, None] = field(default_factory=dict)

    def start(self, instance_id: str, ts: int) -> None:
        """An instance has started, which makes it a member."""
        if ts > self.retired.get(instance_id, -1):
            self.retired.pop(instance_id, None)
            self.members.setdefault(instance_id, Member())

    def retire(self, instance_id: str, ts: int) -> None:
        """An instance need not answer until it starts anew."""
        self.retired[instance_id] = max(ts, self.retired.get(instance_id, 0))
        self.members.pop(instance_id, None)

    def ask(self, asked: Iterable[str] | None, now_us: int, unanswered_max: int) -> None:
        """A request was read; of all members, or of those asked."""
        for name in self.expected(asked):
            member = self.members[name]
            member.unanswered += 1
            if member.unanswered == 1:
                member.since_us = now_us
            if member.unanswered == unanswered_max:
                member.silent_us = now_us

    def answer(self, instance_id: str, ts: int, now_us: int) -> None:
        """An answer was read: whatever it answers, its producer is alive."""
        if instance_id in self.retired:
            return
        last = self.members.setdefault(instance_id, Member()).last_ts
        ts = ts if last is None else max(ts, last)
        self.members[instance_id] = Member(answered_us=now_us, last_ts=ts)

    def expected(self, asked: Iterable[str] | None) -> set[str]:
        """The members among those asked; None: all."""
        return set(self.members) if asked is None else self.members.keys() & set(asked)

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
