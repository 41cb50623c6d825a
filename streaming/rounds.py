"""Rounds: the cuts of one collection put together, until all have answered and are compared.

Pure bookkeeping, without Spark, clock or files. A collection begins with its request or with its
first answer. Its deadline is on the job's own clock, which each step is given: no journal's time
can close it, and none is needed. While a backlog is read, one journal may be far ahead of another
that is still waiting in Kafka; deadlines pass only when everything that was there has been read.

An answer is compared with journals of others, which are known that far some moments later. What
nobody has compared is no evidence: such a collection is not closed before its deadline.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tallystick.coordinates.audit.cut import Cut
from tallystick.coordinates.audit.missing_answers import missing_answer, nobody_answered
from tallystick.coordinates.events.collect_request import CollectRequest
from tallystick.coordinates.results import Observation, SubjectCheck
from tallystick.coordinates.state_codec import Bytes, encode, restore
from tallystick.streaming.answers import ANSWER_US, Absence, Answers, Member
from tallystick.streaming.membership import unknown_members

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

CLOSED_KEPT = 256
"""So many closed collections are remembered, to distinguish a late answer from a new collection."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """When an answer is not waited for any longer.

    Attributes:
        after_us: So long after the job learned of a collection, on the job's clock.
        after_collections: Or when so many later collections have answers.
        unanswered_max: An instance that leaves so many requests unanswered is silent: collections
            do not wait for it. None: no number is too large.
        unreadable_max: More messages that cannot be read in ``answers.UNREADABLE_WINDOW_US`` are an
            incident.
        journal_us: A comparison with other instances waits so long, in the time of the journal of
            the instance that is compared.
    """

    after_us: int = 30_000_000
    after_collections: int = 3
    unanswered_max: int | None = 2
    unreadable_max: int = 10
    journal_us: int = 30_000_000


@dataclass(frozen=True, slots=True)
class Round:
    """A collection that is complete, or as complete as it will be.

    Attributes:
        collection_id: Which collection.
        cuts: Its rows, by instance, scope and channel; a row of its own, with ``answer`` "missing",
            for each instance that did not answer.
        missing: Those instances.
        is_late: These answers came after the deadline; the other rows were validated before.
        ts: Journal time of its last row; without one, what that would have been.
        waiting: What was not compared by then.
    """

    collection_id: str
    cuts: list[Cut]
    missing: tuple[str, ...]
    is_late: bool
    ts: int
    waiting: tuple[SubjectCheck, ...] = ()


@dataclass(slots=True)
class _Open:
    since_us: int
    """When the job learned of it."""
    first_ts: int | None = None
    """Of its first answer."""
    requested_at: int | None = None
    asked: frozenset[str] | None = None
    """Instances; None: all."""
    cuts: dict[str, list[Cut]] = field(default_factory=dict)


@dataclass(init=False, eq=False)
class Rounds:
    """The open collections.

    Args:
        instances: Instances that must answer from the first collection on, and the only ones of
            which anything comes. None: others must once they have started or answered.
        deadline: When not to wait any longer.

    Attributes:
        answers: Who must answer, and who has not.
    """

    answers: Answers
    _open: dict[str, _Open]
    _closed: dict[str, None]
    _ahead_us: int
    _waiting: dict[str, list[SubjectCheck]]

    def __init__(self, instances: Iterable[str] = (), deadline: Deadline | None = None) -> None:
        self.answers = Answers({name: Member() for name in instances})
        self._deadline = deadline or Deadline()
        self._open = {}
        self._closed = {}
        # What journals are ahead of requests, for the time of a collection without answers.
        self._ahead_us = 0
        self._waiting = {}

    @property
    def open_count(self) -> int:
        """How many collections still wait."""
        return len(self._open)

    def absorb(
        self,
        cuts: Iterable[Cut],
        starts: Mapping[str, int],
        requests: Iterable[CollectRequest] = (),
        *,
        now_us: int,
        is_caught_up: bool = True,
        waiting: Mapping[str, list[SubjectCheck]] | None = None,
    ) -> tuple[list[Round], list[Observation]]:
        """New cuts and requests, who has started, and what is not compared yet.

        Args:
            cuts: The cuts, in any order.
            starts: Instances that have started, and when, in the time of their journals.
            requests: Collections that were asked for, in any order.
            now_us: The job's clock.
            is_caught_up: No backlog is left, so what has not come yet is late.
            waiting: What is not compared yet, by who compares it, where that has changed.

        Returns:
            The rounds that are now complete or past the deadline, oldest first, and an observation
            for each answer that is missing.
        """
        self._waiting |= waiting or {}
        self._waiting = {where: checks for where, checks in self._waiting.items() if checks}
        for name, ts in starts.items():
            self.answers.start(name, ts)
        for request in requests:
            self._ask(request, now_us)
        late: dict[str, list[Cut]] = {}
        for cut in sorted(cuts, key=_cut_order):
            self.answers.answer(cut.instance_id, cut.ts, now_us, _problem(cut))
            if cut.collection_id in self._closed:
                late.setdefault(cut.collection_id, []).append(cut)
                continue
            opened = self._open.setdefault(cut.collection_id, _Open(now_us))
            is_first = opened.first_ts is None or cut.ts < opened.first_ts
            opened.first_ts = cut.ts if is_first else opened.first_ts
            opened.cuts.setdefault(cut.instance_id, []).append(cut)
        for opened in self._open.values():
            if opened.first_ts is not None:
                self.answers.note_answered(opened.cuts, opened.first_ts)
        rounds = [
            Round(name, rows, (), is_late=True, ts=max(cut.ts for cut in rows))
            for name, rows in late.items()
        ]
        observations: list[Observation] = []
        waits = self._waiting_by_collection()
        for name, opened in list(self._open.items()):
            is_over = is_caught_up and self._is_past_deadline(name, now_us)
            if is_over or (self._is_complete(opened) and name not in waits):
                rounds += self._close(name, observations, waiting=waits.get(name, ()))
        return rounds, observations

    def absences(self, now_us: int) -> dict[str, Absence | None]:
        """Of whom nothing is known, as ``Answers.absences`` has it."""
        limit = self._deadline.unanswered_max
        return {} if limit is None else self.answers.absences(now_us, limit)

    def finish(self) -> tuple[list[Round], list[Observation]]:
        """Nothing more will come, and all is compared that can be: close what is open."""
        observations: list[Observation] = []
        rounds = [closed for name in list(self._open) for closed in self._close(name, observations)]
        return rounds, observations

    def give_up(self, now_us: int, *, is_history: bool) -> tuple[list[Round], list[Observation]]:
        """Nothing more is read, though journals go on: close what is complete, or overdue.

        What waited to be compared has been given up.

        Args:
            now_us: The job's clock.
            is_history: What was there has been read at one go, so when the job learned of a
                collection shows nothing: overdue is what was asked for so long ago, and what
                others have answered.
        """
        silent = self.answers.silent(now_us)
        is_history |= self._deadline.unanswered_max is None
        rounds: list[Round] = []
        observations: list[Observation] = []
        for name, opened in list(self._open.items()):
            since_us = opened.since_us
            if is_history:
                since_us = 0 if opened.cuts else opened.requested_at or 0
            lacking = self._lacking(opened)
            is_complete = not lacking
            if since_us + self._deadline.after_us > now_us:
                lacking &= silent
            if lacking or (is_complete and (opened.cuts or not self.answers.members)):
                rounds += self._close(name, observations, lacking)
        return rounds, observations

    def _ask(self, request: CollectRequest, now_us: int) -> None:
        name = request.collection_id
        is_new = name not in self._closed and (
            name not in self._open or self._open[name].requested_at is None
        )
        if is_new:
            opened = self._open.setdefault(name, _Open(now_us))
            opened.requested_at, opened.asked = request.requested_at, request.instances
        if is_new and self._deadline.unanswered_max is not None:
            self.answers.ask(request.instances, now_us, self._deadline.unanswered_max)

    def _lacking(self, opened: _Open) -> set[str]:
        return self.answers.expected(opened.asked, opened.first_ts) - opened.cuts.keys()

    def _is_complete(self, opened: _Open) -> bool:
        return bool(opened.cuts) and not self._lacking(opened)

    def _is_past_deadline(self, name: str, now_us: int) -> bool:
        opened, deadline = self._open[name], self._deadline
        age_us = now_us - opened.since_us
        if self._is_complete(opened):  # and waits to be compared
            return age_us >= deadline.after_us + deadline.journal_us
        if age_us >= deadline.after_us:
            return True
        lacking = self._lacking(opened)
        if age_us >= ANSWER_US and lacking and lacking <= self.answers.silent(now_us):
            return True
        if opened.first_ts is None:
            return False
        after = list(self._open)[list(self._open).index(name) + 1 :]
        later = sum(self._open[other].first_ts is not None for other in after)
        return later >= deadline.after_collections

    def _waiting_by_collection(self) -> dict[str, list[SubjectCheck]]:
        found: dict[str, list[SubjectCheck]] = {}
        for checks in self._waiting.values():
            for check in checks:
                found.setdefault(check.collection_id, []).append(check)
        return found

    def _close(
        self,
        name: str,
        observations: list[Observation],
        lacking: set[str] | None = None,
        *,
        waiting: Sequence[SubjectCheck] = (),
    ) -> Iterator[Round]:
        """Close a collection; one that only strangers were asked for leaves no round."""
        opened = self._open.pop(name)
        self._closed[name] = None
        while len(self._closed) > CLOSED_KEPT:
            del self._closed[next(iter(self._closed))]
        missing = tuple(sorted(self._lacking(opened) if lacking is None else lacking))
        if not (opened.cuts or missing) and opened.asked is not None:
            return
        cuts = [cut for rows in opened.cuts.values() for cut in rows]
        if opened.first_ts is not None and opened.requested_at is not None:
            self._ahead_us = opened.first_ts - opened.requested_at
        ts = max((cut.ts for cut in cuts), default=(opened.requested_at or 0) + self._ahead_us)
        for instance_id in missing:
            last_ts = self.answers.last_ts(instance_id)
            cut, observation = missing_answer(name, instance_id, ts, last_ts)
            cuts.append(cut)
            observations.append(observation)
        if not cuts:
            observations.append(nobody_answered(name, ts))
        observations += unknown_members(name, ts, self.answers)
        cuts.sort(key=_row_order)
        yield Round(name, cuts, missing, is_late=False, ts=ts, waiting=tuple(waiting))

    def to_bytes(self) -> bytes:
        """The state."""
        return encode(Rounds, self)

    def restore(self, data: Bytes) -> None:
        """Go on from the state that ``to_bytes`` gave.

        Raises:
            StateVersionError: Another version of tallystick has written the bytes.
            StateDamagedError: They are cut short, or have changed.
        """
        listed = self.answers.members
        restore(self, data, "the collections")
        if listed:
            answers = self.answers
            known = {name: answers.members.get(name, Member()) for name in listed}
            answers.members = {n: m for n, m in known.items() if n not in answers.retired}
            answers.strangers = {n: None for n in answers.strangers if n not in listed}
            answers.beyond = {}


def _problem(cut: Cut) -> str:
    """Why an answer has no row; one that is empty breaks a rule of its own."""
    if cut.answer in {"row", "empty"}:
        return ""
    error = "" if cut.error_code is None else f", error {cut.error_code}"
    return f"{cut.error_text or cut.answer}{error}"


def _row_order(cut: Cut) -> tuple[str, bool, str]:
    return (cut.instance_id, cut.scope != "instance", cut.channel or "")


def _cut_order(cut: Cut) -> tuple[int, str, int, int, bool, str]:
    return (cut.ts, cut.instance_id, cut.epoch, cut.sequence, cut.scope != "instance",
            cut.channel or "")  # fmt: skip
