"""A message's headers as JSON are what they are as pairs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallystick.coordinates.events._message_headers import (
    check_headers,
    headers_json,
    headers_of_json,
)
from tallystick.coordinates.values.errors import BlockError

METADATA = {
    "schema_version": b"2",
    "instance_id": "d\u00e9j\u00e0".encode(),
    "epoch": b"7",
    "first_sequence": b"12",
    "count": b"1",
}
CLUSTERED = METADATA | {"cluster": b"east"}
PAIRS = st.lists(st.tuples(st.text(max_size=9), st.none() | st.binary(max_size=9)), max_size=4)


@given(PAIRS)
def test_json_has_what_the_pairs_have(pairs):
    """Whatever names and values are; a NULL stays one."""
    assert pairs == headers_of_json(headers_json(pairs))


@given(st.sampled_from((METADATA, CLUSTERED)), PAIRS, st.randoms(use_true_random=False))
def test_json_is_judged_as_the_pairs_are(metadata, others, rng):
    """In the producers' order and in any other, with headers of others between, or one changed."""
    whole = list(metadata.items())
    shuffled = [*whole, *others]
    rng.shuffle(shuffled)
    lost = [pair for pair in whole if pair[0] != rng.choice(whole)[0]]
    name, value = rng.choice(whole)
    changed = [(each, value + b"0" if each == name else of) for each, of in whole]
    for headers in (whole, shuffled, lost, changed, [*whole, ("cluster", b"west")]):
        assert refusal(headers, metadata) == refusal(headers_json(headers), metadata)


def refusal(headers, metadata):
    try:
        check_headers(headers, metadata)
    except BlockError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("metadata", [METADATA, CLUSTERED])
@pytest.mark.parametrize("name", CLUSTERED)
def test_each_header_counts(metadata, name):
    """One that is missing, and one with another value."""
    headers = list(metadata.items())
    assert not refusal(headers_json(headers), metadata)
    other = [pair for pair in headers if pair[0] != name]
    expected = name in metadata
    assert bool(refusal(headers_json(other), metadata)) == expected
    assert refusal(headers_json([*other, (name, b"99")]), metadata)
