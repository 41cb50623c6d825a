"""A record's hash is of its content, wherever its block begins and however it numbers names."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tallystick.coordinates.audit import recent_records
from tallystick.coordinates.audit.recent_records import RecentRecords, record_hashes
from tallystick.coordinates.events.journal import (
    COLUMNS,
    INDEX_COLUMNS,
    Block,
    concatenate,
    cut_into_blocks,
)
from tallystick.coordinates.events.json_lines import blocks_from_lines
from tests.support.journals import UUID_A, Journal


def block_of() -> Block:
    """A journal with texts, file names and GTIDs."""
    journal = Journal("a", UUID_A, 1).begin()
    journal.groups(5)
    journal.row()
    return concatenate([*blocks_from_lines(journal.lines())])


@pytest.mark.parametrize("size", [1, 2, 7])
def test_hashes_do_not_depend_on_blocks(size):
    """Small blocks name only what is in them."""
    block = block_of()
    whole, parts = record_hashes([block]), cut_into_blocks(block, size)
    assert len(set(whole.tolist())) == len(block)
    assert record_hashes(parts).tolist() == whole.tolist()
    assert np.concatenate([record_hashes([one]) for one in parts]).tolist() == whole.tolist()


@pytest.mark.parametrize("name", [name for name in COLUMNS if name not in INDEX_COLUMNS])
def test_each_value_counts(name):
    """One value of one record is another: only that record's hash is."""
    block = block_of()
    column = block.columns[name].copy()
    column[3] += 1
    changed = replace(block, columns=block.columns | {name: column})
    assert (record_hashes([changed]) != record_hashes([block])).nonzero()[0].tolist() == [3]


def test_it_counts_which_column_has_a_value():
    """An event that begins one byte later and is one byte shorter is another event."""
    block = block_of()
    start, length = (block.columns[name].copy() for name in ("start", "length"))
    start[3], length[3] = start[3] + 1, length[3] - 1
    changed = replace(block, columns=block.columns | {"start": start, "length": length})
    assert (record_hashes([changed]) != record_hashes([block])).nonzero()[0].tolist() == [3]


def test_each_name_and_text_counts():
    """Names are hashed, not their indices."""
    block = block_of()
    files = tuple(name + "0" for name in block.files)
    named = (block.columns["file"] >= 0).nonzero()[0].tolist()
    other = record_hashes([replace(block, files=files)])
    assert (other != record_hashes([block])).nonzero()[0].tolist() == named
    texts = {row: text + " " for row, text in block.texts.items()}
    other = record_hashes([replace(block, texts=texts)])
    assert (other != record_hashes([block])).nonzero()[0].tolist() == sorted(texts)


@pytest.mark.parametrize("remembered", [5, 1000])
def test_what_is_remembered_of_records_that_come_again_is_compared(monkeypatch, remembered):
    """The first that differs is named by its number, however many older ones are forgotten."""
    monkeypatch.setattr(recent_records, "RECENT_MAX", remembered)
    block = replace(block_of(), first_sequence=7)
    recent = RecentRecords(next_sequence=7)
    recent.add(block)
    forgotten = max(0, len(block) - remembered)
    assert recent.compare(block) == (None, forgotten)
    ts = block.columns["ts"].copy()
    ts[-2:] += 1
    changed = replace(block, columns=block.columns | {"ts": ts})
    assert recent.compare(changed) == (block.next_sequence - 2, forgotten)


@pytest.mark.parametrize("is_compacted", [True, False])
@pytest.mark.parametrize(("remembered", "size"), [(5, 3), (7, 1), (1000, 2)])
def test_what_came_in_many_blocks_is_remembered_alike(monkeypatch, remembered, size, is_compacted):
    """Of the last records each that comes again is compared, whatever its block."""
    monkeypatch.setattr(recent_records, "RECENT_MAX", remembered)
    whole, recent = block_of(), RecentRecords()
    blocks = cut_into_blocks(whole, size)
    for number, block in enumerate(blocks):
        recent.add(block)
        if is_compacted and number % 2:
            recent.compact()
    for block in (*blocks, whole):
        forgotten = len(whole) - remembered - block.first_sequence
        assert recent.compare(block) == (None, min(max(0, forgotten), len(block)))


def test_nothing_is_known_of_what_came_before_a_hole():
    """What comes late may be of the hole: it is compared with nothing."""
    block = replace(block_of(), first_sequence=7)
    recent = RecentRecords(next_sequence=7)
    recent.add(block)
    recent.compact()
    later = replace(block, first_sequence=100)
    recent.add(later)
    late = replace(block, first_sequence=100 - len(block))
    assert recent.compare(late) == (None, len(block))
    assert recent.compare(later) == (None, 0)
