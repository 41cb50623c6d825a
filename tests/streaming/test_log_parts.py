"""Entries of a log, several to a row of its list state."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tallystick.streaming import log_parts
from tallystick.streaming.audit_log import ENTRY_COST_MAX, Entry, head_checksum
from tallystick.streaming.log_parts import entries_of, parts_of
from tallystick.streaming.session import G1_REGION_MB


def entry(number, names="[]", data=b"", kind="rows"):
    return Entry(number, kind, names, data, head_checksum(number, kind, names))


ENTRIES = st.lists(
    st.builds(entry, st.integers(0, 2**62), st.text(), st.binary(max_size=40), st.text(max_size=9)),
    max_size=9,
)


def read(parts):
    return [one for part in parts for one in entries_of(part)]


@given(ENTRIES)
def test_entries_are_read_as_they_were_written(entries):
    assert entries == read(parts_of(entries))


def test_a_row_has_as_many_entries_as_fit(monkeypatch):
    """RocksDB copies a list once for each row; but one row is not everything."""
    monkeypatch.setattr(log_parts, "PART_BYTES", 1000)
    entries = [entry(number, data=bytes(400)) for number in range(5)]
    entries.append(entry(5, data=bytes(3000)))
    parts = [*parts_of(entries)]
    assert [2, 2, 1, 1] == [len([*entries_of(part)]) for part in parts]
    assert entries == read(parts)
    assert max(map(len, parts[:-1])) <= 1000
    assert [] == [*parts_of([])]


def test_rows_grow_with_what_is_written_at_once(monkeypatch):
    """Many states are no many rows, and yet none has more than Spark can take."""
    monkeypatch.setattr(log_parts, "PART_BYTES", 1000)
    monkeypatch.setattr(log_parts, "PART_BYTES_MAX", 100_000)
    entries = [entry(number, data=bytes(400)) for number in range(500)]
    parts = [*parts_of(entries)]
    assert log_parts.PARTS_MAX <= len(parts) <= log_parts.PARTS_MAX + 2
    assert entries == read(parts)
    entries *= 10
    assert 90_000 < max(map(len, parts_of(entries))) <= 100_000


def test_a_row_is_no_burden_to_the_heap():
    """Spark copies it into twice its length; beyond half of a region it would be humongous."""
    assert 2 * log_parts.PART_BYTES < G1_REGION_MB << 20 >> 1
    assert ENTRY_COST_MAX < log_parts.PART_BYTES


def test_an_entry_that_is_cut_short_is_left_out():
    entries = [entry(1, data=bytes(40)), entry(2, data=bytes(300))]
    ends = [len(b"".join(parts_of(entries[:count]))) for count in range(3)]
    part = b"".join(parts_of(entries))
    for length in range(len(part)):
        assert [*entries_of(part[:length])] == entries[: sum(end <= length for end in ends) - 1]


@given(ENTRIES, st.data())
def test_damage_is_no_other_entry(entries, data):
    """Whatever is changed or missing: each entry is as it was, is missing, or fails its check."""
    part = b"".join(parts_of(entries))
    at = data.draw(st.integers(0, max(len(part) - 1, 0)))
    changed = data.draw(st.sampled_from([part[:at], part[:at] + b"\xff" + part[at + 1 :]]))
    whole = [one for one in entries_of(changed) if head_checksum(*one[:3]) == one.check]
    # What data holds has a checksum of its own.
    heads = [one._replace(data=b"") for one in entries]
    assert all(one._replace(data=b"") in heads for one in whole)
