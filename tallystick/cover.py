"""A pairwise cover: few healthy scenarios in which every pair of circumstances occurs.

A circumstance is a negative case, or a value of a setting. Drawn at random, most pairs of them
would never meet. Each row of the cover has one value of every setting and up to three negative
cases; rows are chosen greedily, so that each has many pairs that no earlier one has.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tallystick.producers.simulator.kernel.scenario import PROFILES, TOPOLOGIES, Scenario
from tallystick.producers.simulator.negatives import (
    AT_LEAST,
    NEGATIVES,
    Negative,
    with_options,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

NEGATIVES_MAX: Final = 3
SETTINGS: Final[Mapping[str, tuple[Any, ...]]] = {
    "profile": PROFILES,
    "topology": tuple(name for name in TOPOLOGIES if name != "demo"),
    "gtid_mode": ("ON", "ON_PERMISSIVE", "OFF_PERMISSIVE", "OFF"),
    "auto_position": (True, False),
    "applier_workers": (0, 4),
    "preserve_commit_order": (True, False),
    "order_commits": (True, False),
    "max_binlog_size": (4_096, 16_384, 1 << 20),
    "first_file_number": (1, 999_998),
    "acts": (True, False),
    "lock_steps": (True, False),
    "redo_events": (True, False),
}
_NEGATIVE: Final = "negative"


class Circumstance(NamedTuple):
    """A setting's name and value, or ``negative`` and a case's name."""

    name: str
    value: Any

    def options(self) -> dict[str, Any]:
        """Fields of the scenario that it decides, its load apart."""
        if self.name == _NEGATIVE:
            options = NEGATIVES[self.value].options
            return {key: value for key, value in options.items() if key not in AT_LEAST}
        return {self.name: self.value}


class CoverCount(NamedTuple):
    """How much of all that can be together was together.

    Attributes:
        settings: Pairs of values of settings: those met, and those that can be.
        mixed: Pairs of a negative case and a value of a setting.
        negatives: Pairs of negative cases.
        triples: How many triples of negative cases were met.
    """

    settings: tuple[int, int]
    mixed: tuple[int, int]
    negatives: tuple[int, int]
    triples: int

    @property
    def is_whole(self) -> bool:
        """Whether every pair was met."""
        return all(met == can for met, can in self[:3])


_ALL: Final = (
    *(Circumstance(name, value) for name, values in SETTINGS.items() for value in values),
    *(Circumstance(_NEGATIVE, name) for name in NEGATIVES),
)
_NUMBERS: Final = {circumstance: number for number, circumstance in enumerate(_ALL)}


def scenario_of(seed: int) -> Scenario:
    """The scenario of a seed: the rows of the cover in turn."""
    rows = cover()
    row = rows[seed % len(rows)]
    settings = {_ALL[n].name: _ALL[n].value for n in row if _ALL[n].name != _NEGATIVE}
    negatives = tuple(_ALL[n].value for n in row if _ALL[n].name == _NEGATIVE)
    return with_options(Scenario(seed=seed, negatives=negatives, **settings))


@cache
def cover() -> tuple[tuple[int, ...], ...]:
    """The rows, each the numbers of its circumstances in order; always the same ones."""
    rng = Random("cover")  # noqa: S311 - seeded, decides no secret
    fitting = _fitting()
    missing = list(fitting)
    rows = []
    while any(missing):
        first = rng.choice([n for n, others in enumerate(missing) if others])
        row = _row([first], fitting, missing, rng)
        for a, b in combinations(row, 2):
            missing[a] &= ~(1 << b)
            missing[b] &= ~(1 << a)
        rows.append(tuple(sorted(row)))
    return tuple(rows)


def count(scenarios: Iterable[Scenario]) -> CoverCount:
    """What some scenarios cover."""
    pairs: set[tuple[int, int]] = set()
    triples: set[tuple[int, ...]] = set()
    for scenario in scenarios:
        row = sorted(_circumstances(scenario))
        pairs.update(combinations(row, 2))
        triples.update(combinations([n for n in row if _ALL[n].name == _NEGATIVE], 3))
    met, can = [0, 0, 0], [0, 0, 0]
    for a, others in enumerate(_fitting()):
        for b in range(a + 1, len(_ALL)):
            if others >> b & 1:
                kind = (_ALL[a].name == _NEGATIVE) + (_ALL[b].name == _NEGATIVE)
                can[kind] += 1
                met[kind] += (a, b) in pairs
    of_kind = list(zip(met, can, strict=True))
    return CoverCount(of_kind[0], of_kind[1], of_kind[2], len(triples))


def _circumstances(scenario: Scenario) -> list[int]:
    named = [Circumstance(name, getattr(scenario, name)) for name in SETTINGS]
    named += [Circumstance(_NEGATIVE, name) for name in scenario.negatives]
    return [_NUMBERS[one] for one in named if one in _NUMBERS]


def _row(row: list[int], fitting: list[int], missing: list[int], rng: Random) -> list[int]:
    """Add to a row what has most missing pairs with it, as long as something fits."""
    while True:
        has_room = sum(_ALL[n].name == _NEGATIVE for n in row) < NEGATIVES_MAX
        mask = sum(1 << n for n in row)
        fits = [
            n
            for n in range(len(_ALL))
            if fitting[n] & mask == mask and (has_room or _ALL[n].name != _NEGATIVE)
        ]
        if not fits:
            return row
        rng.shuffle(fits)
        row.append(max(fits, key=lambda n: ((missing[n] & mask).bit_count(), missing[n] != 0)))


@cache
def _fitting() -> list[int]:
    """For each circumstance those that can be together with it, as bits of a number."""
    fitting = [0] * len(_ALL)
    for (a, one), (b, other) in combinations(enumerate(_ALL), 2):
        if _fit(one, other):
            fitting[a] |= 1 << b
            fitting[b] |= 1 << a
    return fitting


def _may_meet(one: type[Negative], other: type[Negative]) -> bool:
    return other.name not in one.excludes and one.name not in other.excludes


def _fit(one: Circumstance, other: Circumstance) -> bool:
    mine, theirs = one.options(), other.options()
    if one.name == other.name != _NEGATIVE:
        return False
    if one.name == other.name and not _may_meet(NEGATIVES[one.value], NEGATIVES[other.value]):
        return False
    if any(mine[key] != theirs[key] for key in mine.keys() & theirs.keys()):
        return False
    both = mine | theirs
    by_gtid = both.get("auto_position", False)
    return not by_gtid or both.get("gtid_mode", "ON") == "ON"
