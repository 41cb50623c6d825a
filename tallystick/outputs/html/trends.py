"""How far each replica is from its source, now and over the collections in detail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tallystick.coordinates.audit.cut import Cut
from tallystick.coordinates.values.errors import GtidSetParseError
from tallystick.coordinates.values.gtid import GtidSet
from tallystick.runs.result import Edge, RunResult

HEIGHT = 24
_COLLECTIONS_MAX = 60
_SIDS_MAX = 6
_PIECES_MAX = 30
_PIECE_MIN = 2.5


@dataclass(frozen=True, slots=True)
class Trend:
    """A number over collections.

    Attributes:
        name: What is counted.
        newest: The newest number.
        most: The greatest one.
        lines: Pieces of the line as points of SVG, x and y from 0 to 100 and to ``HEIGHT``; where
            nothing is known, there is a hole.
    """

    name: str
    newest: int
    most: int
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """Numbers beside each other: in ``both`` sets, only on the source, or only ``here``."""

    x: float
    width: float
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Difference:
    """What a replica and its sources have executed: a row for each UUID in which they differ."""

    sources: tuple[str, ...]
    missing: int
    surplus: int
    rows: tuple[tuple[str, tuple[Piece, ...]], ...]
    left_out: int


@dataclass(frozen=True, slots=True)
class Trends:
    """Of one instance."""

    lines: tuple[Trend, ...]
    difference: Difference | None


def trends_of(result: RunResult, names: Sequence[str]) -> Mapping[str, Trends]:
    """The trends of some instances."""
    wanted = set(names)
    sources: dict[str, list[Edge]] = {}
    for edge in result.topology:
        if edge.replica in wanted:
            sources.setdefault(edge.replica, []).append(edge)
    shown = result.collections[-_COLLECTIONS_MAX:]
    table = [
        {cut.instance_id: cut for cut in rows if cut.scope == "instance" and cut.answer == "row"}
        for rows in shown
    ]
    newest = {cut.instance_id: cut for cut in result.closed_cuts if cut.channel is None}
    made = {}
    for name in names:
        edges = {edge.source: edge for edge in sources.get(name, ())}
        lags = {source: [_lag(rows, source, name) for rows in table] for source in edges}
        of_commits = [rows[name].commit_lag if name in rows else None for rows in table]
        lines = [_trend(f"Not executed of {source}", lag) for source, lag in lags.items()]
        lines.append(_trend("Logged, not executed", of_commits))
        difference = _difference(newest, sorted(edges), name)
        made[name] = Trends(tuple(filter(None, lines)), difference)
    return made


@lru_cache(maxsize=4096)
def _parsed(text: str) -> GtidSet | None:
    try:
        return GtidSet.parse(text)
    except GtidSetParseError:
        return None


def _executed(rows: Mapping[str, Cut], name: str) -> GtidSet | None:
    text = rows[name].gtid_executed if name in rows else None
    return None if text is None else _parsed(text)


def _lag(rows: Mapping[str, Cut], source: str, replica: str) -> int | None:
    mine, theirs = _executed(rows, replica), _executed(rows, source)
    return None if mine is None or theirs is None else (theirs - mine).count()


def _trend(name: str, numbers: Sequence[int | None]) -> Trend | None:
    known = [number for number in numbers if number is not None]
    if not known or not any(known):
        return None
    most, step = max(known), 100 / max(1, len(numbers) - 1)
    lines: list[list[str]] = [[]]
    for n, number in enumerate(numbers):
        if number is None:
            lines.append([])
        else:
            y = HEIGHT - 2 - (HEIGHT - 4) * number / most
            lines[-1].append(f"{round(step * n, 2)},{round(y, 2)}")
    return Trend(name, known[-1], most, tuple(" ".join(line) for line in lines if len(line) > 1))


def _difference(rows: Mapping[str, Cut], sources: Sequence[str], replica: str) -> Difference | None:
    mine, theirs = _executed(rows, replica), GtidSet()
    for source in sources:
        executed = _executed(rows, source)
        if executed is None:
            return None
        theirs |= executed
    if mine is None or not sources or mine == theirs:
        return None
    missing, surplus = theirs - mine, mine - theirs
    parts = [("both", mine & theirs), ("there", missing), ("here", surplus)]
    sids = sorted({*missing.sids(), *surplus.sids()})
    drawn = tuple((sid, _pieces(sid, parts)) for sid in sids[:_SIDS_MAX])
    left_out = max(0, len(sids) - _SIDS_MAX)
    return Difference(tuple(sources), missing.count(), surplus.count(), drawn, left_out)


def _pieces(sid: str, parts: Sequence[tuple[str, GtidSet]]) -> tuple[Piece, ...]:
    """Intervals in order; each is wide enough to be seen, so they are not to scale."""
    intervals = sorted(
        (first, last, kind) for kind, of in parts for name, first, last in of if name == sid
    )[-_PIECES_MAX:]
    total = sum(last - first + 1 for first, last, _ in intervals)
    room = 100 - _PIECE_MIN * len(intervals)
    pieces, x = [], 0.0
    for first, last, kind in intervals:
        width = _PIECE_MIN + room * (last - first + 1) / total
        text = f"{first}" if first == last else f"{first}-{last}"
        pieces.append(Piece(round(x, 3), round(width, 3), kind, text))
        x += width
    return tuple(pieces)
