"""State and facts as bytes: what is saved is read back, and nothing else is taken for it."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallystick.coordinates.audit.fleet_events import (
    FleetEvent,
    FleetEventKind,
    decode_fleet_events,
    encode_fleet_events,
)
from tallystick.coordinates.audit.instance import InstanceAudit
from tallystick.coordinates.audit.packing import pack, unpack
from tallystick.coordinates.values.errors import StateVersionError
from tests.support.journals import Journal, audit

DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
ARRAYS = st.dictionaries(
    st.text(min_size=1, max_size=4),
    st.tuples(
        st.sampled_from(["<i8", ">i8", "<i4", "|u1"]), st.lists(st.integers(0, 100), max_size=5)
    ).map(lambda pair: np.array(pair[1], dtype=pair[0])),
    max_size=3,
)


@given(DOCUMENTS, ARRAYS)
def test_what_is_packed_is_what_is_unpacked(document, arrays):
    """Documents and arrays of either byte order come back equal."""
    read, again = unpack(b"TEST", 3, pack(b"TEST", 3, document, arrays))
    assert document == read
    assert list(arrays) == list(again)
    for name, array in arrays.items():
        assert array.dtype.kind + str(array.dtype.itemsize) == (
            again[name].dtype.kind + str(again[name].dtype.itemsize)
        )
        assert array.tolist() == again[name].tolist()


@pytest.mark.parametrize(("magic", "version"), [(b"TEST", 4), (b"ELSE", 3)])
def test_other_bytes_are_refused(magic: bytes, version: int):
    """Bytes of another kind or version are refused with both named."""
    data = pack(magic, version, {})
    with pytest.raises(StateVersionError, match=rf"b'TEST' of version 3, got {magic!r}.*{version}"):
        unpack(b"TEST", 3, data)


def test_bytes_cut_short_anywhere_are_refused():
    """No prefix of saved bytes, nor more than them, is taken for the whole."""
    data = pack(b"TEST", 3, {"a": [1, 2]}, {"x": np.arange(3), "y": np.arange(2)})
    for length in range(len(data)):
        with pytest.raises(StateVersionError):
            unpack(b"TEST", 3, data[:length])
    with pytest.raises(StateVersionError, match="go on behind their end"):
        unpack(b"TEST", 3, data + b"\0")


def test_bytes_whose_document_is_no_json_are_refused():
    """A broken document is no state, and no crash."""
    with pytest.raises(StateVersionError, match="no readable document"):
        unpack(b"TEST", 3, struct.pack("<4sHI", b"TEST", 3, 2) + b"[}")


def test_facts_come_back_as_they_were():
    """Every field and every array of every fact survives, and equal facts have equal bytes."""
    journal = Journal().begin().groups(3)
    journal.row()
    journal.binlog.rotate()
    journal.record("heartbeat")
    facts = audit(journal).fleet_events
    kinds = {
        FleetEventKind.BOOT,
        FleetEventKind.LOGGED,
        FleetEventKind.PREVIOUS,
        FleetEventKind.FILE_END,
    }
    assert kinds | {FleetEventKind.STATUS, FleetEventKind.TIME} == {fact.kind for fact in facts}
    again = decode_fleet_events(encode_fleet_events(facts))
    assert [_values(fact) for fact in facts] == [_values(fact) for fact in again]
    assert encode_fleet_events(facts) == encode_fleet_events(again)


def _values(fact: FleetEvent) -> tuple[object, ...]:
    arrays = {name: (array.dtype.str, array.tolist()) for name, array in fact.arrays.items()}
    body = json.loads(json.dumps(fact.body))
    return fact.kind, fact.instance_id, fact.epoch, fact.sequence, fact.ts, body, arrays


def test_facts_of_another_version_are_refused():
    """A driver never guesses at what newer workers hand it."""
    data = bytearray(encode_fleet_events([]))
    data[4] += 1
    with pytest.raises(StateVersionError, match="b'TSFA' of version 1"):
        decode_fleet_events(bytes(data))


def test_the_state_keeps_what_is_disabled():
    """An invariant that is switched off stays so when a state is read back."""
    audit_ = InstanceAudit("a", frozenset({"lsn_order"}))
    assert frozenset({"lsn_order"}) == InstanceAudit.from_bytes(audit_.to_bytes()).reporter.disabled


def test_the_state_stays_small_however_long_the_journal_is():
    """Thousands of groups, files and rows leave a state of bounded size."""
    journal = Journal().begin()
    sizes = []
    for _ in range(6):
        for _ in range(8):
            journal.groups(60)
            journal.row()
            journal.binlog.rotate()
        journal.record("binlog_purge", to_file=journal.binlog.file)
        result = audit(journal)
        assert result.audit is not None
        sizes.append(len(result.audit.to_bytes()))
    assert sizes[-1] < sizes[1] * 1.05
