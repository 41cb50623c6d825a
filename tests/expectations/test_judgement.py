"""Cells, judgements and tallies."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tallystick.expectations.judgement import (
    JudgedRow,
    Judgement,
    Outcome,
    Tally,
    UnreadableCellError,
    encode_judgement,
    read_cell,
)


@pytest.mark.parametrize("null", [None, float("nan"), pd.NA, pd.NaT])
@pytest.mark.parametrize("kind", [str, int])
def test_every_null_is_none(null, kind):
    """NULL has many faces in pandas."""
    assert read_cell(null, kind) is None


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        (5, 5),
        (2**63 - 1, 2**63 - 1),
        ("9223372036854775807", 2**63 - 1),
        (157.0, 157),
        ("157.0", 157),
        (pd.array([7], dtype="Int64")[0], 7),
        (float(2**53 - 1), 2**53 - 1),
    ],
)
def test_integers_of_any_engine_are_exact(cell, expected):
    """Integers arrive as they were written."""
    assert expected == read_cell(cell, int)


@pytest.mark.parametrize(
    "cell",
    [
        *(float(2**53), -float(2**53), 1.5, "1.5", "many", True, np.True_, float("inf")),
        *("inf", "nan", [1], b"1"),
    ],
)
def test_what_is_no_exact_integer_is_no_evidence(cell):
    """A float past 2^53 may be another number than the one that was meant."""
    with pytest.raises(UnreadableCellError):
        read_cell(cell, int)


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        *((True, True), (False, False), (np.True_, True), (np.False_, False)),
        *(("true", True), ("false", False), (None, None), (pd.NA, None), (float("nan"), None)),
        (pd.array([True], dtype="boolean")[0], True),
    ],
)
def test_truth_of_any_engine_is_read(cell, expected):
    """And NULL is neither."""
    assert expected is read_cell(cell, bool)


@pytest.mark.parametrize("cell", ["True", "yes", "", 1, 0, 1.0])
def test_what_is_no_truth_is_no_evidence(cell):
    """A number may be something else."""
    with pytest.raises(UnreadableCellError, match="expected true or false, found"):
        read_cell(cell, bool)


def test_a_number_is_no_text():
    """Nothing is turned into text silently; what is shown of it is cut short."""
    with pytest.raises(UnreadableCellError) as caught:
        read_cell(10**80, str)
    assert f"expected text, found '1{'0' * 59}' (int)" == str(caught.value)
    with pytest.raises(UnreadableCellError, match="expected text, found '5'"):
        read_cell(5, str)


def test_a_tally_accounts_for_every_row_and_sorts_its_lists():
    """Counts add up; the lists are in the order of the keys, cut to the wanted length."""
    encoded = [
        encode_judgement(("c", key, None), Judgement(outcome, "said", "w"))
        for key, outcome in (
            ("b", Outcome.BROKEN),
            ("a", Outcome.BROKEN),
            ("c", Outcome.BROKEN),
            ("d", Outcome.UNDECIDED),
            ("e", Outcome.HELD),
            ("f", Outcome.NOT_APPLICABLE),
        )
    ]
    tally = Tally.of(encoded, 2)
    assert (tally.rows, tally.held, tally.broken, tally.undecided, tally.not_applicable) == (
        *(6, 1, 3),
        *(1, 1),
    )
    assert tally.broken_rows == (
        JudgedRow(("c", "a", None), "said", "w"),
        JudgedRow(("c", "b", None), "said", "w"),
    )
    assert tally == Tally.from_dict(tally.to_dict())


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ("HB", Outcome.BROKEN),
        ("UB", Outcome.BROKEN),
        ("HU", Outcome.UNDECIDED),
        ("NU", Outcome.UNDECIDED),
        ("HN", Outcome.HELD),
        ("N", Outcome.NOT_APPLICABLE),
        ("", Outcome.UNDECIDED),
    ],
)
def test_the_outcome_of_a_table(outcomes, expected):
    """Broken beats undecided beats held; no rows are no evidence."""
    encoded = [encode_judgement(("k",), Judgement(Outcome(letter))) for letter in outcomes]
    assert expected is Tally.of(encoded, 5).outcome()


@pytest.mark.parametrize(
    ("outcomes", "mostly", "expected"),
    [
        ("HB", 0.5, Outcome.HELD),
        ("HBB", 0.5, Outcome.BROKEN),
        ("HU", 0.5, Outcome.HELD),
        # What is undecided may turn out to hold.
        ("UB", 0.5, Outcome.UNDECIDED),
        ("HUBB", 0.5, Outcome.UNDECIDED),
        ("UBB", 0.5, Outcome.BROKEN),
        # Rows that the rule does not apply to do not count.
        ("HBNNNN", 0.5, Outcome.HELD),
        ("HBBNNN", 0.5, Outcome.BROKEN),
        # Nothing that held is no evidence, whatever share is enough.
        ("UB", 0.0, Outcome.UNDECIDED),
    ],
)
def test_the_outcome_of_a_table_of_which_a_share_must_hold(outcomes, mostly, expected):
    """Of the rows that the rule applies to."""
    encoded = [encode_judgement(("k",), Judgement(Outcome(letter))) for letter in outcomes]
    assert expected is Tally.of(encoded, 5).outcome(mostly)
