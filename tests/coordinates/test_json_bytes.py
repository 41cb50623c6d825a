"""JSON of states and results."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallystick.coordinates.values.json_bytes import of_json, to_json, to_sorted_json

texts = st.text(st.characters(exclude_categories=()), max_size=6)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


@given(values)
def test_values_come_back(value):
    """Half surrogate pairs and control characters too; and any JSON library reads them."""
    data = to_json(value)
    assert of_json(data) == value
    assert of_json(memoryview(data)) == value
    assert json.loads(data) == value
    text = to_sorted_json(value)
    assert of_json(text) == json.loads(text) == value


def test_equal_values_are_equal_texts():
    """Whatever the order in which keys were put in; half a surrogate pair changes nothing of it."""
    for text in ("é", "\ud800"):
        assert to_sorted_json({"b": text, "a": {"d": 1, "c": 2}}) == to_sorted_json(
            {"a": {"c": 2, "d": 1}, "b": text}
        )


@pytest.mark.parametrize("text", ['"\ud800"', r'"\ud800"', "[NaN]", "1e400", " {} "])
def test_what_the_standard_library_reads_beside_json_is_read(text):
    """A record's body may be written by any library."""
    assert repr(of_json(text)) == repr(json.loads(text))


def test_no_bytes_are_wasted():
    """UTF-8 instead of escapes, and no spaces."""
    assert to_json({"é": [1, (2, None)]}) == '{"é":[1,[2,null]]}'.encode()


@pytest.mark.parametrize("data", [b"", b"{", b'"\xff"', b"[1] 2"])
def test_what_is_no_json_is_a_value_error(data):
    """Cut short, no UTF-8, more than one value."""
    with pytest.raises(ValueError):
        of_json(data)
