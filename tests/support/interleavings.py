"""Every interleaving of threads that take locks: a small explicit-state model checker.

A thread is a list of steps. All that a state needs is how far each thread has come, because what
it holds and what it has added to the counters follows from that. Steps only go forward, so every
run ends: with all threads done, or with none that can go on, which is a deadlock.

Who wants a lock alone announces it first, and from then on nobody is let in to share it. A run in
which the announcement comes right before the taking is one without such preference; so both kinds
of rwlocks are explored at once. Nothing else is left out or taken together.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Do(Enum):
    """What a step does."""

    TAKE = auto()
    """Take a lock alone."""
    SHARE = auto()
    """Take a lock together with others that share it."""
    RELEASE = auto()
    CHANGE = auto()
    """Change something that a frozen thread may rely on."""
    COLLECT = auto()
    """Read what is frozen."""
    ADD = auto()
    """Add to a counter."""
    AWAIT = auto()
    """Wait until a counter is at least as large."""
    AWAIT_NONE = auto()
    """Wait until a counter is zero."""
    ANNOUNCE = auto()
    """Part of TAKE of a lock that others share: from now on nobody is let in."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a thread."""

    do: Do
    what: str
    amount: int = 1

    def __str__(self) -> str:
        return f"{self.do.name} {self.what}"


def take(lock: str) -> Step:
    return Step(Do.TAKE, lock)


def share(lock: str) -> Step:
    return Step(Do.SHARE, lock)


def release(*locks: str) -> list[Step]:
    return [Step(Do.RELEASE, lock) for lock in locks]


def change(what: str) -> Step:
    return Step(Do.CHANGE, what)


def add(counter: str, amount: int = 1) -> Step:
    return Step(Do.ADD, counter, amount)


def wait_for(counter: str, least: int = 1) -> Step:
    return Step(Do.AWAIT, counter, least)


def wait_for_none(counter: str) -> Step:
    return Step(Do.AWAIT_NONE, counter)


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread; ``freezes`` is what must not change between its last TAKE and its first RELEASE."""

    name: str
    steps: tuple[Step, ...]
    freezes: frozenset[str] = frozenset()


@dataclass(slots=True)
class Exploration:
    """What was found; a run is a list of ``thread: step``."""

    states: int = 0
    ends: int = 0
    """1 if some run ends with all threads done, else 0."""
    frozen_states: int = 0
    """In how many states a thread relies on nothing changing."""
    deadlock: list[str] | None = None
    broken: list[str] | None = None
    """A run in which something changed that was frozen."""
    changed: set[str] = field(default_factory=set)


_X, _S, _ANNOUNCED = 1, 2, 4


@dataclass(slots=True)
class _Compiled:
    """A thread by the number of micro-steps done: what it holds, needs, and adds."""

    name: str
    labels: list[str] = field(default_factory=list)
    holds: list[int] = field(default_factory=list)
    blocked_by: list[int] = field(default_factory=list)
    waits: list[tuple[int, int | None] | None] = field(default_factory=list)
    added: list[tuple[int, ...]] = field(default_factory=list)
    changes: list[str | None] = field(default_factory=list)
    frozen: range = range(0)
    freezes: frozenset[str] = frozenset()


def _compile(
    thread: Thread, locks: dict[str, int], shared: set[str], counters: dict[str, int]
) -> _Compiled:
    compiled = _Compiled(thread.name, freezes=thread.freezes)
    held: dict[str, int] = {}
    sums = [0] * len(counters)
    mask = 0
    last_take = max((i for i, s in enumerate(thread.steps) if s.do is Do.TAKE), default=-1)
    begin = end = 0

    def close(label: str, blocked_by: int, wait: tuple[int, int | None] | None) -> None:
        """The micro-step that was possible with the state before; the state after comes next."""
        compiled.labels.append(label)
        compiled.blocked_by.append(blocked_by)
        compiled.waits.append(wait)
        compiled.changes.append(None)

    compiled.holds.append(mask)
    compiled.added.append(tuple(sums))
    for index, step in enumerate(thread.steps):
        blocked_by = 0
        wait: tuple[int, int | None] | None = None
        if step.do in {Do.TAKE, Do.SHARE}:
            assert step.what not in held, f"{thread.name} takes {step.what} twice"
            bit = 3 * locks[step.what]
            if step.do is Do.TAKE:
                if step.what in shared:
                    close(f"{thread.name}: ANNOUNCE {step.what}", 0, None)
                    compiled.holds.append(mask | _ANNOUNCED << bit)
                    compiled.added.append(tuple(sums))
                blocked_by = (_X | _S) << bit
                held[step.what] = _X << bit
            else:
                blocked_by = (_X | _ANNOUNCED) << bit
                held[step.what] = _S << bit
            mask |= held[step.what]
        elif step.do is Do.RELEASE:
            mask &= ~held.pop(step.what)
            if index > last_take and not end:
                end = len(compiled.holds)
        elif step.do is Do.ADD:
            sums[counters[step.what]] += step.amount
        elif step.do is Do.AWAIT:
            wait = (counters[step.what], step.amount)
        elif step.do is Do.AWAIT_NONE:
            wait = (counters[step.what], None)
        close(f"{thread.name}: {step}", blocked_by, wait)
        if step.do is Do.CHANGE:
            compiled.changes[-1] = step.what
        compiled.holds.append(mask)
        compiled.added.append(tuple(sums))
        if index == last_take:
            begin = len(compiled.holds) - 1
    assert not held, f"{thread.name} ends with {sorted(held)}"
    if thread.freezes:
        compiled.frozen = range(begin, end)
    return compiled


def explore(threads: Sequence[Thread]) -> Exploration:
    """Visit every state that any interleaving of the threads reaches."""
    steps = [step for thread in threads for step in thread.steps]
    locks = _numbers(s.what for s in steps if s.do in {Do.TAKE, Do.SHARE})
    counters = _numbers(s.what for s in steps if s.do in {Do.ADD, Do.AWAIT, Do.AWAIT_NONE})
    shared = {s.what for s in steps if s.do is Do.SHARE}
    compiled = [_compile(thread, locks, shared, counters) for thread in threads]
    lengths = [len(c.labels) for c in compiled]
    frozen = [(i, c) for i, c in enumerate(compiled) if c.freezes]
    done = tuple(lengths)
    start = (0,) * len(compiled)
    found = Exploration()
    came_from: dict[tuple[int, ...], tuple[tuple[int, ...], int] | None] = {start: None}
    waiting = [start]
    members = range(len(compiled))

    def run_to(state: tuple[int, ...]) -> list[str]:
        labels = []
        at = came_from[state]
        while at is not None:
            before, mover = at
            labels.append(compiled[mover].labels[before[mover]])
            at = came_from[before]
        return labels[::-1]

    while waiting:
        state = waiting.pop()
        found.states += 1
        if state == done:
            found.ends += 1
            continue
        frozen_here = [(i, c) for i, c in frozen if state[i] in c.frozen]
        found.frozen_states += bool(frozen_here)
        holds = [compiled[i].holds[state[i]] for i in members]
        is_stuck = True
        for i in members:
            at, thread = state[i], compiled[i]
            if at == lengths[i]:
                continue
            blocked_by = thread.blocked_by[at]
            if blocked_by and any(blocked_by & holds[j] for j in members if j != i):
                continue
            wait = thread.waits[at]
            if wait is not None:
                value = sum(compiled[j].added[state[j]][wait[0]] for j in members)
                if value < wait[1] if wait[1] is not None else value != 0:
                    continue
            is_stuck = False
            what = thread.changes[at]
            if what is not None:
                found.changed.add(what)
                if found.broken is None and any(
                    j != i and what in c.freezes for j, c in frozen_here
                ):
                    found.broken = [*run_to(state), thread.labels[at]]
            after = (*state[:i], at + 1, *state[i + 1 :])
            if after not in came_from:
                came_from[after] = (state, i)
                waiting.append(after)
        if is_stuck and found.deadlock is None:
            found.deadlock = [
                *run_to(state),
                *(
                    f"(stuck) {c.labels[p]}"
                    for c, p in zip(compiled, state, strict=True)
                    if p < len(c.labels)
                ),
            ]
    return found


def _numbers(names: Iterable[str]) -> dict[str, int]:
    return {name: number for number, name in enumerate(sorted(set(names)))}
