"""Origins that are not remembered are compared by their sums over runs of numbers."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.coordinates.audit import forgotten_origins, origins
from tallystick.coordinates.audit.journal_position import JournalPosition
from tallystick.coordinates.audit.origins import OriginColumns, Origins
from tallystick.coordinates.state_codec import decode, encode
from tallystick.coordinates.values.gtid import GtidSet

A = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"
LOG = ("binlog", 0)
RUN = 4


@pytest.fixture(autouse=True, scope="module")
def small():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forgotten_origins, "RUN", RUN)
        patch.setattr(origins, "RUN", RUN)
        patch.setattr(origins, "ORIGINS_MAX", 5 * RUN)
        yield


class Claimed:
    """What two instances claim, and what is said of it."""

    def __init__(self) -> None:
        self.origins = Origins()
        self.contradicted = GtidSet.EMPTY
        self.ts = 0

    def claim(
        self, name: str, gnos: Iterable[int], other: int | None = None, later: int = 0
    ) -> None:
        """A row follows; one GTID, or all that are made later, may have another origin."""
        gno = np.array(list(gnos), dtype=np.int64)
        columns = OriginColumns(
            gno,
            np.ones(len(gno), dtype=np.int64),
            gno * 1000 + (gno == other) + 500 * later,
            np.zeros(len(gno), dtype=np.bool_),
        )
        self.ts += 1
        if len(gno):
            self.origins.claim(name, LOG, A, columns)
        self.row(name)

    def row(self, name: str) -> None:
        self.origins.row(name, 0, JournalPosition(self.ts, 0, self.ts, None))
        for one in self.origins.instances:
            self.origins.reached(one, self.ts)
        for found in self.origins.contradictions(list(self.origins.instances)):
            self.contradicted = self.contradicted | found.gtids
        self.origins.forget_lowest()

    def end(self) -> None:
        for name in self.origins.instances:
            self.origins.end(name)
            self.row(name)

    @property
    def uncompared(self) -> str:
        found = GtidSet.EMPTY
        for one in self.origins.uncompared:
            found = found | one.gtids
        return str(found).removeprefix(f"{A}:")


def test_a_replica_far_behind_is_compared():
    """It claims what its source did long ago, numbers of two runs at a time."""
    claimed = Claimed()
    claimed.claim("s", range(1, 81))
    assert claimed.origins.size <= 5 * RUN
    for begin in range(1, 81, 3):
        claimed.claim("r", range(begin, min(begin + 3, 81)))
    claimed.end()
    assert ("", GtidSet.EMPTY) == (claimed.uncompared, claimed.contradicted)


def test_one_that_claims_otherwise_is_named_when_its_run_is_whole():
    """Which of the run it is cannot be told."""
    claimed = Claimed()
    claimed.claim("s", range(1, 81))
    claimed.claim("r", range(1, 19), other=18)
    assert "" == claimed.uncompared
    claimed.claim("r", range(19, 20))
    assert "16-19" == claimed.uncompared
    claimed.claim("r", range(20, 81))
    claimed.end()
    assert ("16-19", GtidSet.EMPTY) == (claimed.uncompared, claimed.contradicted)


def test_a_run_that_is_claimed_in_part_is_named_when_others_follow_or_at_the_end():
    """The log lacks a GTID, as of a replica that was made from a backup."""
    claimed = Claimed()
    claimed.claim("s", range(1, 81))
    claimed.claim("r", range(6, 15))
    claimed.claim("r", range(16, 27))
    assert "" == claimed.uncompared
    claimed.end()
    assert "6-7,12-14,24-26" == claimed.uncompared.replace(":", ",")


def test_numbers_that_no_log_claims_any_more_are_given_anew():
    """RESET on both servers."""
    claimed = Claimed()
    for name in "sr":
        claimed.claim(name, range(1, 81))
    for name in "sr":
        claimed.origins.end_logs(name, None, claimed.ts)
        claimed.row(name)
        claimed.row(name)
    for name in "sr":
        claimed.claim(name, range(1, 31), other=9)
    claimed.end()
    assert ("", GtidSet.EMPTY) == (claimed.uncompared, claimed.contradicted)


@given(
    before=st.integers(1, 100),
    steps=st.lists(st.tuples(st.booleans(), st.integers(1, 60)), max_size=20),
)
def test_a_healthy_fleet_is_not_accused_after_a_reset(before, steps):
    """Origins from before RESET remain in a layer, later ones are in another."""
    claimed = Claimed()
    for name in "sr":
        claimed.claim(name, range(1, before + 1))
    for name in "sr":
        claimed.origins.end_logs(name, None, claimed.ts)
        claimed.row(name)
        claimed.row(name)
    at = {"s": 1, "r": 1}
    for is_source, count in [*steps, (True, 150), (False, 150)]:
        name = "s" if is_source else "r"
        end = min(at[name] + count, 151)
        claimed.claim(name, range(at[name], end), later=1)
        at[name] = end
    claimed.end()
    assert not claimed.contradicted


def test_of_a_number_with_two_origins_there_is_no_sum():
    """The runs of a sid with contradictions are not compared by sums."""
    claimed = Claimed()
    claimed.claim("s", range(1, 9))
    claimed.claim("t", range(1, 9), other=3)
    assert f"{A}:3" == str(claimed.contradicted)
    claimed.claim("s", range(9, 81))
    claimed.claim("r", range(1, 9))
    claimed.end()
    assert "3" in claimed.uncompared or "1-" in claimed.uncompared


@pytest.mark.parametrize(("other", "left", "found"), [(3, "1-2:4-8", f"{A}:3"), (None, "1-8", "")])
def test_another_origin_that_is_remembered_is_found_in_a_third_log(other, left, found):
    """The first ones are forgotten; it has a place of its own."""
    claimed = Claimed()
    claimed.claim("s", range(1, 9))
    claimed.claim("t", range(1, 9), other=3)
    claimed.claim("s", range(9, 81))
    claimed.contradicted = GtidSet.EMPTY
    claimed.claim("u", range(1, 9), other)
    assert (left, found) == (claimed.uncompared, str(claimed.contradicted))


@settings(max_examples=200, deadline=None)
@given(
    steps=st.lists(st.tuples(st.booleans(), st.integers(1, 30)), min_size=1, max_size=40),
    other=st.none() | st.integers(1, 120),
    saved=st.booleans(),
)
def test_what_differs_is_found_or_named_and_nothing_else(steps, other, saved):
    """However a source and a replica behind it, or before it, go on in turn to the same end."""
    claimed, at = Claimed(), {"s": 1, "r": 1}
    for is_source, count in [*steps, (True, 120), (False, 120)]:
        name = "s" if is_source else "r"
        end = min(at[name] + count, 121)
        claimed.claim(name, range(at[name], end), other if name == "r" else None)
        at[name] = end
        if saved:
            claimed.origins = decode(Origins, encode(Origins, claimed.origins), "origins")
    claimed.end()
    differs = GtidSet.EMPTY if other is None else GtidSet.parse(f"{A}:{other}")
    named = claimed.uncompared and GtidSet.parse(f"{A}:{claimed.uncompared}")
    if other is None:
        assert not named
        assert not claimed.contradicted
    elif claimed.contradicted:
        assert differs == claimed.contradicted
    else:
        assert differs - named == GtidSet.EMPTY
        assert named.count() <= RUN


def test_logs_that_end_without_a_row_are_remembered_no_longer_than_rows():
    """A server that is reset again and again, and never answers, takes no more memory."""
    instance = origins.InstanceOrigins()
    for ts in range(3 * origins.STATES_MAX):
        instance.go_on(ts)
    assert len(instance.states) <= origins.STATES_MAX
    assert instance.forgotten_ts == instance.states[0].ts


def test_of_runs_that_a_log_claims_in_part_the_lowest_is_named_when_they_are_many():
    """Appliers side by side are in two at most; the others will not become whole."""
    claimed = Claimed()
    claimed.claim("s", range(1, 81))
    for gno in (5, 9, 13, 17):
        claimed.claim("r", [gno])
    assert "" == claimed.uncompared
    claimed.claim("r", [21])
    assert "5" == claimed.uncompared
    claimed.claim("r", [10, 11])
    assert "5" == claimed.uncompared


def test_of_runs_whose_sums_are_too_many_the_lowest_cannot_be_compared(monkeypatch):
    """The sums of a fleet are bounded; those of the newest runs are kept."""
    monkeypatch.setattr(forgotten_origins, "SUMS_MAX", 3)
    claimed = Claimed()
    claimed.claim("s", range(1, 41))
    claimed.claim("r", range(1, 41), other=21)
    assert "1-15:20-23" == claimed.uncompared


@pytest.mark.parametrize("has_two", [False, True])
def test_a_number_that_is_forgotten_after_others_of_its_run_cannot_be_compared(has_two):
    """A log may have claimed these already; another number may have had two origins."""
    claimed = Claimed()
    claimed.claim("s", [gno for gno in range(1, 81) if gno != 5])
    claimed.claim("r", [4, 6, 7])
    claimed.claim("s", [5])
    if has_two:
        claimed.claim("t", [5], other=5)
    claimed.claim("s", range(81, 121))
    assert "" == claimed.uncompared
    claimed.claim("r", [5])
    assert "5" == claimed.uncompared


def test_a_run_of_which_one_log_alone_claims_a_part_after_a_reset_has_no_sum():
    """The other numbers of it are given anew; of whole runs the sums stay."""
    claimed = Claimed()
    claimed.claim("r", range(1, 81))
    claimed.claim("s", range(6, 81))
    claimed.origins.end_logs("r", None, claimed.ts)
    claimed.row("r")
    claimed.row("r")
    claimed.claim("r", [6])
    assert "6" == claimed.uncompared
    claimed.claim("r", range(8, 12))
    assert "6" == claimed.uncompared


@pytest.mark.parametrize(("other", "uncompared"), [(1, "1"), (None, "")])
def test_of_two_origins_the_later_is_in_doubt_against_rows_that_are_forgotten(
    monkeypatch, other, uncompared
):
    """An instance that lags behind one whose rows of that time are not remembered."""
    monkeypatch.setattr(origins, "STATES_MAX", 8)
    claimed = Claimed()
    claimed.claim("s", [1, 2])
    claimed.claim("t", [1], other=1)
    for _ in range(20):
        claimed.claim("s", [])
    claimed.ts = 2
    claimed.claim("r", [1, 2], other)
    assert uncompared == claimed.uncompared


@pytest.mark.parametrize(("other", "found"), [(None, f"{A}:1"), (1, "")])
def test_of_a_number_that_a_log_has_twice_the_second_origin_counts(other, found):
    """In one block, as in two."""
    claimed = Claimed()
    twice = OriginColumns(
        np.array([2, 1, 1]),
        np.ones(3, dtype=np.int64),
        np.array([2000, 1000, 1001]),
        np.zeros(3, dtype=np.bool_),
    )
    claimed.origins.claim("s", LOG, A, twice)
    claimed.row("s")
    claimed.claim("r", [1, 2], other)
    assert found == str(claimed.contradicted)
