"""The whole period of a result in equal parts: the worst of each, and holes where nothing is known.

Positions are shares of the width, so that a strip is as wide as there is room, and its text is not
stretched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import groupby, pairwise

import numpy as np
from numpy.typing import NDArray

from tallystick.coordinates.results import Finding, Verdict
from tallystick.coordinates.rules.explanation import moment
from tallystick.runs.breaches import Breach
from tallystick.runs.result import RunResult

PARTS = 120
STRIPS_MAX = 24
FLEET = "Fleet"
_NOTHING, _GOOD, _OPEN, _BAD = range(4)
_TONES = {_GOOD: "good", _OPEN: "open", _BAD: "bad"}
_WORDS = {"good": "consistent", "open": "undecided", "bad": "inconsistent",
          "silent": "nobody answered"}  # fmt: skip
_TICKS_MAX = 6
_MINUTE = 60_000_000
_STEPS = (
    *(1_000_000 * n for n in (1, 5, 15)),
    *(_MINUTE * n for n in (1, 5, 15, 60, 180, 360, 720)),
    *(_MINUTE * 1440 * n for n in (1, 2, 7, 14, 30, 91, 182, 365)),
)
_A_YEAR_US = 365 * 1440 * _MINUTE


@dataclass(frozen=True, slots=True)
class Run:
    """Parts of one kind beside each other; ``x`` and ``width`` are percent.

    ``tone`` is good, open, bad or silent; ``href`` leads to what was found.
    """

    x: float
    width: float
    tone: str
    title: str
    href: str | None


@dataclass(frozen=True, slots=True)
class Strip:
    """One instance over the period; ``now`` is None where nothing is known of it."""

    name: str
    now: Verdict | None
    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark of the time axis."""

    x: float
    text: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """The strips, the fleet's first, then those in trouble."""

    first: int
    last: int
    strips: tuple[Strip, ...]
    left_out: int
    ticks: tuple[Tick, ...]


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of collections, as columns.

    ``is_answered``: it is undecided, although the instance has answered.
    """

    instance: NDArray[np.int64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    level: NDArray[np.int64]
    is_answered: NDArray[np.bool_]


def draw_timeline(
    result: RunResult,
    breaches: Sequence[Breach],
    now: dict[str, Verdict],
    anchor: Callable[[Finding], str],
) -> Timeline | None:
    """Draw the whole period; None where nothing was collected.

    Args:
        result: What was collected.
        breaches: What was broken, and for how long it counted.
        now: The verdict on each instance, with which its strip ends.
        anchor: Where the page shows a finding.
    """
    if not result.collections:
        return None
    names = sorted({cut.instance_id for cut in result.cuts} | set(now) | _of_history(result))
    rows = _rows(result, {name: n for n, name in enumerate(names)})
    first, last = int(rows.first.min()), int(rows.last.max())
    level = np.zeros((len(names), PARTS), np.int64)
    answered = np.zeros(level.shape, np.bool_)
    _fill(level, answered, rows, first, last)
    of_instance: dict[str, list[Breach]] = {}
    for breach in breaches:
        for name in breach.instances:
            of_instance.setdefault(name, []).append(breach)
    strips = []
    for n, name in enumerate(names):
        at = _covered(of_instance.get(name, ()), first, last)
        level[n, list(at)] = _BAD
        strips.append(
            Strip(
                name,
                now.get(name),
                tuple(_runs(level[n], answered[n], at, first, last, anchor=anchor)),
            )
        )
    in_all = _covered(breaches, first, last)
    # Of the fleet nobody answered only where no instance did.
    has_answer = np.logical_or.reduce(answered | (level == _GOOD) | (level == _BAD))
    fleet = Strip(
        FLEET,
        result.verdict_now,
        tuple(_runs(np.maximum.reduce(level), has_answer, in_all, first, last, anchor=anchor)),
    )
    order = sorted(strips, key=lambda strip: (_mildness(strip), strip.name))
    return Timeline(
        first,
        last,
        (fleet, *order[:STRIPS_MAX]),
        max(0, len(order) - STRIPS_MAX),
        tuple(_ticks(first, last)),
    )


def _of_history(result: RunResult) -> set[str]:
    return set() if result.history is None else set(result.history.by_instance)


def _rows(result: RunResult, number: dict[str, int]) -> _Rows:
    """Rows in detail, and before them the hours'."""
    begins = [min(cut.ts for cut in rows) for rows in result.collections]
    gaps = sorted(later - earlier for earlier, later in pairwise(begins))
    usual = max(1, gaps[len(gaps) // 2]) if gaps else 1
    # A collection counts until the next one, but not over a hole.
    ends = [min(later, begun + 2 * usual) for begun, later in pairwise(begins)] + [
        max(*(cut.ts for cut in result.newest_cuts), begins[-1] + 1)
    ]
    columns: list[tuple[int, int, int, int, bool]] = []
    for begun, ended, rows in zip(begins, ends, result.collections, strict=True):
        columns += [
            (
                number[cut.instance_id],
                begun,
                max(begun, ended - 1),
                _OPEN if cut.verdict == Verdict.UNDECIDED.value else _GOOD,
                cut.answer == "row" and cut.verdict == Verdict.UNDECIDED.value,
            )
            for cut in rows
        ]
    made = np.array(columns, np.int64).T
    if result.history is not None:
        of_hours = result.history.rows_before(begins[0], number)
        made = np.concatenate((of_hours, made), axis=1)
    return _Rows(made[0], made[1], made[2], made[3], made[4].astype(np.bool_))


def _fill(
    level: NDArray[np.int64], answered: NDArray[np.bool_], rows: _Rows, first: int, last: int
) -> None:
    """The worst of each instance and part."""
    begins, ends = _parts(rows.first, first, last), _parts(rows.last, first, last)
    for step in range(int((ends - begins).max()) + 1):
        reaches = begins + step <= ends
        where = rows.instance[reaches], begins[reaches] + step
        np.maximum.at(level, where, rows.level[reaches])
        np.logical_or.at(answered, where, rows.is_answered[reaches])


def _covered(breaches: Iterable[Breach], first: int, last: int) -> dict[int, Breach]:
    """The parts in which something was broken, with what broke first."""
    length = max(1, last - first + 1)

    def part(ts: int) -> int:
        return min((min(max(ts, first), last) - first) * PARTS // length, PARTS - 1)

    at: dict[int, Breach] = {}
    for breach in sorted(breaches, key=lambda one: one.begins):
        ends = last if breach.ends is None else breach.ends
        for number in range(part(breach.begins), part(ends) + 1):
            at.setdefault(number, breach)
        if breach.ends is None:
            break  # what began later adds nothing
    return at


def _parts(times: NDArray[np.int64], first: int, last: int) -> NDArray[np.int64]:
    within = np.clip(times, first, last) - first
    # In floating point: a hostile clock's period times the parts is beyond 64 bits.
    shares = within / max(1, last - first + 1)
    return np.minimum(shares * PARTS, PARTS - 1).astype(np.int64)


def _runs(
    level: NDArray[np.int64],
    answered: NDArray[np.bool_],
    at: dict[int, Breach],
    first: int,
    last: int,
    *,
    anchor: Callable[[Finding], str],
) -> Iterator[Run]:
    kinds = [(int(level[part]), bool(answered[part]), at.get(part)) for part in range(PARTS)]
    for (worst, has_answer, breach), same in groupby(range(PARTS), key=kinds.__getitem__):
        if worst == _NOTHING:
            continue
        parts = list(same)
        tone = "silent" if worst == _OPEN and not has_answer else _TONES[worst]
        begun, ended = (
            moment(int(first + part * (last - first) / PARTS)) for part in (parts[0], parts[-1] + 1)
        )
        about = _WORDS[tone] if breach is None else f"{_WORDS[tone]}: {breach.finding.rule}"
        yield Run(
            round(100 * parts[0] / PARTS, 3),
            round(100 * len(parts) / PARTS, 3),
            tone,
            f"{begun} to {ended}, {about}",
            None if breach is None else f"#{anchor(breach.finding)}",
        )


def _mildness(strip: Strip) -> tuple[int, int]:
    """What is worst now, then what was worst ever, comes first."""
    order = (Verdict.INCONSISTENT, Verdict.UNDECIDED, None, Verdict.CONSISTENT)
    tones = {run.tone for run in strip.runs}
    return order.index(strip.now), 0 if "bad" in tones else 1 + (tones <= {"good"})


def _ticks(first: int, last: int) -> Iterator[Tick]:
    length = last - first
    step = next((n for n in _STEPS if length / n <= _TICKS_MAX), None)
    if step is None or length <= 0:
        return
    for ts in range(-(-first // step) * step, last + 1, step):
        share = 100 * (ts - first) / length
        if 5 <= share <= 88:
            yield Tick(round(share, 3), _tick_text(ts, step))


def _tick_text(ts: int, step: int) -> str:
    if 0 <= ts < _A_YEAR_US:
        return f"{ts / 1e6:g} s"
    at = datetime.fromtimestamp(ts / 1e6, timezone.utc)
    if step >= 1440 * _MINUTE:
        return f"{at:%Y-%m-%d}"
    if at.hour == at.minute == at.second == 0:
        return f"{at:%m-%d}"
    return f"{at:%H:%M}" if step >= _MINUTE else f"{at:%H:%M:%S}"
