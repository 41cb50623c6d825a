"""Hostile text becomes harmless and stays distinct."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallystick.expectations.neutral import neutralise, printable, restore, reveal

ANY_TEXT = st.text(st.characters(exclude_categories=()))


@given(ANY_TEXT)
def test_neutral_text_is_reversible_and_inert(text):
    """No markup, no template, nothing invisible; and the text can be had back exactly."""
    neutral = neutralise(text)
    assert not set("<>&\"'`$") & set(neutral)
    assert all(c in "\n\t\r" or unicodedata.category(c) not in ("Cc", "Cf", "Cs") for c in neutral)
    assert text == restore(neutral)


@given(ANY_TEXT)
def test_printable_text_cannot_move_a_cursor(text):
    """One line, no escape sequences, no direction changes; any terminal can print it."""
    shown = printable(text)
    assert all(unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Zl", "Zp") for c in shown)
    shown.encode("utf-8")


@pytest.mark.parametrize(
    ("text", "revealed", "printed"),
    [
        ("a\x07b", "a⟨U+0007⟩b", "a\\x07b"),
        ("a\u202eb", "a⟨U+202E⟩b", "a\\u202eb"),
        ("\ue000\u2028", "⟨U+E000⟩⟨U+2028⟩", "\\ue000\\u2028"),
        ("a\r\n\tb c", "a\r\n\tb c", "a\\r\\n\\tb c"),
        ("źródło <1>", "źródło <1>", "źródło <1>"),
        ("é\ud800", "é⟨U+D800⟩", "é\\ud800"),
    ],
)
def test_what_cannot_be_seen_is_shown(text, revealed, printed):
    """On a page, which escapes markup itself and keeps blanks; and on one line of a terminal."""
    assert revealed == reveal(text)
    assert printed == printable(text)


def test_ordinary_text_is_left_as_it_is():
    """GTID sets, coordinates and names in any script need no marks."""
    for text in ("aaaaaaaa-0000-0000-0000-000000000001:1-5,\n7", "binlog.000001:4", "źródło-1"):
        assert text == neutralise(text)
