"""Blocks in the packed form: what somebody else may have written into one."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.coordinates.events._block_parts import bounds_of
from tallystick.coordinates.events._packed_block import (
    RECORDS_MAX,
    pack_block,
    read_head,
    read_packed,
)
from tallystick.coordinates.events.block_codec import decode_block, encode_block, seal
from tallystick.coordinates.events.journal import COLUMNS, Block, BlockBuilder, RecordType, Stream
from tallystick.coordinates.values.binlog import EventType
from tallystick.coordinates.values.errors import BlockError
from tests.support.block_samples import SID, make_block, same, without_records
from tests.support.packed_blocks import HEAD, head_of, packed

TS, START = (list(COLUMNS).index(name) for name in ("ts", "start"))


def heartbeat(ts: int = 1_700_000_000_000_000) -> bytes:
    """A block of one record, all of whose columns are equal numbers."""
    builder = BlockBuilder("a", epoch=1, first_sequence=7)
    builder.server_record(RecordType.HEARTBEAT, {}, ts=ts)
    return encode_block(builder.build())


def test_a_heartbeat_takes_few_bytes():
    """A quiet server's messages are of one: 3 kB as plain columns with their names."""
    data = heartbeat()
    assert head_of(data)[1] == b""
    assert len(data) < 220


@pytest.mark.parametrize("name", ["a" * length for length in range(1, 10)])
def test_columns_begin_at_a_multiple_of_eight(name):
    """However long the head is, blanks fill it up."""
    data = encode_block(replace(make_block(), instance_id=name))
    end = HEAD.size + HEAD.unpack_from(data)[1]
    assert end % 8 == 0
    assert len(data[:end].rpartition(b"}")[2]) < 8


def test_columns_take_as_few_bytes_as_hold_them():
    """One byte up to a difference of 254 (0 is absent), two up to 65,534, four, else all eight."""
    for most, width in ((254, 1), (255, 2), (2**16 - 2, 2), (2**16 - 1, 4), (2**32 - 2, 4),
                        (2**32 - 1, 8), (2**62, 8)):  # fmt: skip
        builder = BlockBuilder("a")
        for start in (4, 4 + most):
            builder.log_event(
                Stream.BINLOG, EventType.XID, file="b.1", start=start, length=31, ts=5, value=7
            )
        block = builder.build()
        data = encode_block(block)
        head, columns = head_of(data)
        assert head["widths"][START] == width == sum(head["widths"])
        assert len(columns) == 2 * width
        assert same(block, decode_block(data))


@pytest.mark.parametrize("least", [0, 1, 200, 2**40, 2**63 - 3])
def test_absent_numbers_do_not_widen_a_column(least):
    """One absent number among large ones that are near each other."""
    block = make_block()
    columns = dict(block.columns)
    columns["value"] = np.array([-1, least, least + 1, least + 2, -1], dtype=np.int64)
    block = replace(block, columns=columns)
    data = encode_block(block)
    assert head_of(data)[0]["widths"][-1] == 1
    assert same(block, decode_block(data))


def long_block(count: int = 1200, **changes: Any) -> Block:
    """Transactions of three events each, and a log_status row in the middle."""
    builder, position = BlockBuilder("a"), 4
    for i in range(count // 3):
        if 3 * i == count // 2:
            builder.server_record(RecordType.HEARTBEAT, {}, ts=i)
        opener = {"sid": SID, "gno": i + 1, "last_committed": i, "sequence_number": i + 1}
        for code, length, more in ((33, 79, opener), (2, 75, {"query": 1}), (16, 31, {})):
            builder.log_event(
                Stream.BINLOG, code, file="b.1", start=position, length=length,
                log_pos=(position + length) % 2**32, ts=i, checksum=i * 7919 % 2**32,
                **{**more, **changes},
            )  # fmt: skip
            position += length
    return builder.build()


def test_what_follows_from_other_records_is_not_written():
    """Most numbers of a long block of transactions: a byte or two of each event are left."""
    block = long_block()
    data = encode_block(block)
    head, _ = head_of(data)
    assert (head["run_at"], head["run_start"]) == ([0, 600, 601], [4, -1, 37_004])
    assert head["log_pos_after"] == [0]
    by_name = dict(zip(COLUMNS, zip(head["widths"], head["masks"], strict=True), strict=True))
    assert by_name["start"] == by_name["log_pos"] == (0, 0)
    assert by_name["sid"] == (0, 1)
    assert by_name["gno"] == by_name["sequence_number"] == by_name["last_committed"] == (2, 1)
    assert len(data) < 15 * len(block)
    assert same(block, decode_block(data))


@pytest.mark.parametrize("first", [0, 1, 7, 100])
@pytest.mark.parametrize("count", [511, 512, 513, 900])
def test_long_blocks_cut_anywhere_are_read_back(first, count):
    """Masks end within a byte, and runs where a block begins."""
    piece = long_block().take(first, first + count)
    assert same(piece, decode_block(encode_block(piece)))


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_any_numbers_of_a_long_block_are_read_back(data):
    """Starts that leap, absent numbers anywhere, log_pos that does not follow."""
    block = long_block()
    columns = dict(block.columns)
    for name in data.draw(st.lists(st.sampled_from(["start", "log_pos", "value", "gno"]))):
        column = columns[name] = columns[name].copy()
        at = data.draw(st.lists(st.integers(0, len(column) - 1), max_size=30))
        most = {"start": 2**62, "log_pos": 2**32 - 1}.get(name, 2**63 - 2)
        column[at] = data.draw(st.integers(-1, most))
    changed = replace(block, columns=columns)
    form = memoryview(pack_block(changed))
    parts = read_packed(form, *read_head(form))
    assert all(np.array_equal(parts.columns[name], columns[name]) for name in COLUMNS)
    assert parts.bounds == bounds_of(columns)


def test_positions_beyond_four_gigabytes():
    """``log_pos`` has four bytes, and begins again at 0."""
    block = long_block()
    columns = dict(block.columns)
    columns["start"] = np.where(
        block.columns["start"] >= 0, block.columns["start"] + 2**32 - 500, -1
    )
    ends = columns["start"] + columns["length"]
    columns["log_pos"] = np.where(columns["start"] >= 0, ends % 2**32, -1)
    block = replace(block, columns=columns)
    data = encode_block(block)
    assert head_of(data)[0]["log_pos_after"] == [0]
    assert same(block, decode_block(data))


def test_runs_begin_with_the_first_record():
    """Nothing says where the records before would begin."""
    head, columns = head_of(encode_block(long_block()))
    assert head["run_at"][0] == 0
    head["run_at"][0] = 1
    with pytest.raises(BlockError, match="3 runs that begin at"):
        decode_block(packed(head, columns))


def test_nothing_comes_after_the_columns():
    """Nor is a byte of them missing."""
    head, columns = head_of(encode_block(long_block()))
    for wrong in (columns + b"\0", columns[:-1]):
        with pytest.raises(BlockError, match="columns end at byte"):
            decode_block(packed(head, wrong))


def test_a_mask_of_no_record_is_refused():
    """Nothing would be in its columns."""
    head, _ = head_of(heartbeat())
    head["masks"][TS] = 1
    with pytest.raises(BlockError, match="a mask of no record"):
        decode_block(packed(head, bytes(8)))
    data = packed(head, b"\x80" + bytes(7))
    assert same(decode_block(heartbeat()), decode_block(data))


def test_how_many_records_a_block_has():
    """None and too many are not written; nor are they read, whatever memory they would take."""
    builder = BlockBuilder("a")
    for _ in range(RECORDS_MAX + 1):
        builder.server_record(RecordType.HEARTBEAT, {}, ts=1)
    block = builder.build()
    largest = block.take(0, RECORDS_MAX)
    assert same(largest, decode_block(encode_block(largest)))
    for wrong in (block, without_records(block)):
        with pytest.raises(ValueError, match=f"expected 1 to {RECORDS_MAX} records"):
            encode_block(wrong)
    head, _ = head_of(heartbeat())
    for count in (0, -1, RECORDS_MAX + 1, 10**18):
        with pytest.raises(BlockError, match=f"of {count} records: expected 1 to"):
            decode_block(packed(head | {"count": count}, b""))


def test_equal_numbers_take_no_memory():
    """A few bytes may say that thousands of records are equal; that is all that is kept of them."""
    head, _ = head_of(heartbeat())
    data = packed(head | {"count": RECORDS_MAX, "text_at": [], "texts": []}, b"")
    tracemalloc.start()
    try:
        block = decode_block(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(block) == RECORDS_MAX
    assert peak < 1 << 18


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema_version": 1}, "schema version b'1': expected 2"),
        ({"schema_version": "2"}, "schema version None: expected 2"),
        ({"epoch": None}, r"Expected `int`, got `null` - at `\$.epoch`"),
        ({"epoch": True}, r"Expected `int`, got `bool` - at `\$.epoch`"),
        ({"epoch": 1.0}, r"Expected `int`, got `float` - at `\$.epoch`"),
        ({"epoch": -1}, "epoch is b'-1'"),
        ({"epoch": 2**63}, "epoch is b'9223372036854775808'"),
        ({"first_sequence": 2**63 - 1}, "sequence numbers end"),
        ({"instance_id": 7}, r"Expected `str`, got `int` - at `\$.instance_id`"),
        ({"instance_id": ""}, "text that is not empty"),
        ({"instance_id": "a\nb"}, "printable text"),
        ({"instance_id": "\ud800"}, "head cannot be read: .*surrogate"),
        ({"cluster": "\x1b[2J"}, "printable text"),
        ({"cluster": ["x"]}, r"Expected `str`, got `array` - at `\$.cluster`"),
        ({"files": "ab"}, r"Expected `array`, got `str` - at `\$.files`"),
        ({"files": ["b.1", 3]}, r"Expected `str`, got `int` - at `\$.files\[1\]`"),
        ({"files": ["b.1", "b.1"]}, "column 'file': its dictionary repeats"),
        ({"files": ["\udfff"]}, "head cannot be read: .*surrogate"),
        ({"texts": [None]}, r"Expected `str`, got `null` - at `\$.texts\[0\]`"),
        ({"texts": ["\ud83d"]}, "head cannot be read"),
        ({"texts": []}, "0 texts, of the records"),
        ({"text_at": [1]}, "1 texts, of the records .1.: expected one for each of them, below 1"),
        ({"text_at": [-1]}, "of the records"),
        ({"text_at": [0, 0], "texts": ["{}", "{}"]}, "of the records"),
        ({"text_at": [False]}, r"Expected `int`, got `bool` - at `\$.text_at\[0\]`"),
        ({"widths": [0] * 18}, "19 least numbers, 18 widths, 19 masks: expected 19 each"),
        ({"least": [0] * 20}, "20 least numbers, 19 widths"),
        ({"widths": [3] + [0] * 18}, "expected 0, 1, 2, 4, 8"),
        ({"widths": [-1] + [0] * 18}, "expected 0, 1, 2, 4, 8"),
        ({"widths": [1] + [0] * 18}, "columns end at byte"),
        ({"masks": [0] * 18 + [1]}, "with the masks"),
        ({"masks": [0] * 18 + [-1]}, "with the masks"),
        ({"masks": [10**9] * 19}, "with the masks"),
        ({"run_at": [0]}, "0 runs that begin at"),
        ({"run_start": [0]}, "1 runs that begin at"),
        ({"run_at": [1], "run_start": [4]}, "1 runs that begin at .1.: expected 0"),
        ({"run_at": [0, 1], "run_start": [4, 4]}, "2 runs that begin at"),
        ({"run_at": [0], "run_start": [-2]}, "with runs from"),
        ({"run_at": [0], "run_start": [2**63]}, "with runs from"),
        ({"log_pos_after": [-1]}, "log_pos_after is"),
        ({"log_pos_after": [2**32]}, "log_pos_after is"),
        ({"log_pos_after": [0, 0]}, "log_pos_after is"),
        ({"log_pos_after": 0}, r"Expected `array`, got `int` - at `\$.log_pos_after`"),
        ({"more": 1}, "unknown field `more`"),
    ],
)
def test_a_head_that_does_not_fit_is_refused(changes, message):
    """Each field has its type, and nothing else is there."""
    head, columns = head_of(heartbeat())
    with pytest.raises(BlockError, match=message):
        decode_block(packed(head | changes, columns))


@pytest.mark.parametrize("name", ["epoch", "count", "instance_id", "least"])
def test_a_head_without_a_field_is_refused(name):
    """The error names it."""
    head, columns = head_of(heartbeat())
    del head[name]
    with pytest.raises(BlockError, match=f"missing required field `{name}`"):
        decode_block(packed(head, columns))


@pytest.mark.parametrize(
    ("row", "number", "message"),
    [
        (0, 256, "column 'stream' has numbers from 256 to 256: expected 0 to 255"),
        (1, -1, "column 'type' has numbers from -1"),
        (2, 2**16, "column 'flags' has numbers from 65536"),
        (TS, 2**63, "column 'ts' has numbers from 9223372036854775808"),
        (TS, -2, "ts -2"),
        (5, 0, "column 'channel' has indices from 0 to 0: expected -1 to -1, as it has 0 channels"),
        (5, -2, "column 'channel' has indices from -2"),
        (5, 2**31, "column 'channel' has numbers from 2147483648"),
    ],
)
def test_equal_numbers_that_a_column_cannot_hold_are_refused(row, number, message):
    """None is taken for another one, as fewer bytes would make it."""
    head, columns = head_of(heartbeat())
    head["least"][row] = number
    with pytest.raises(BlockError, match=message):
        decode_block(packed(head, columns))


@pytest.mark.parametrize(
    ("row", "least", "width", "codes", "message"),
    [
        (1, 250, 1, b"\x07", "column 'type' has numbers from 256 to 256"),
        (TS, 2**63 - 2, 1, b"\x03", "column 'ts' has numbers from 9223372036854775808"),
        (TS, 2**63 + 1, 1, b"\x03", "with codes from"),
        (TS, -5, 1, b"\x03", "with codes from"),
        (TS, 0, 1, b"\x00", "ts -1"),
        (TS, 0, 8, b"\xfe" + b"\xff" * 7, "ts -2"),
        (6, 0, 1, b"\x01", "column 'file' has indices from 0 to 0"),
    ],
)
def test_codes_that_a_column_cannot_hold_are_refused(row, least, width, codes, message):
    """A code is added to what its column says, and must stay in the column's range."""
    head, _ = head_of(heartbeat())
    head["least"][row], head["widths"][row] = least, width
    with pytest.raises(BlockError, match=message):
        decode_block(packed(head, codes))


@pytest.mark.parametrize(
    "data",
    [
        b"TSpk",
        b"TSpk\xff\xff\xff\xff{}",
        b"TSpk\x02\0\0\0[]",
        b"TSpk\x01\0\0\0{",
        b"TSpk\x02\0\0\0\xff\xfe",
        HEAD.pack(b"TSpk", 200_000) + b"[" * 200_000,
        HEAD.pack(b"TSpk", 200_005) + b'{"x":' + b"[" * 200_000,
        HEAD.pack(b"TSpk", 9_000) + b"9" * 9_000,
    ],
)
def test_what_is_no_head_is_refused(data):
    """Cut short, no JSON, no object, no text, nested without end, a number without end."""
    with pytest.raises(BlockError, match=r"^a packed block .*(head|byte)"):
        decode_block(seal(data))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)


@given(st.data())
@settings(max_examples=400, deadline=None)
def test_any_head_is_read_or_refused(data):
    """One field is something else, or some numbers are."""
    head, columns = head_of(encode_block(make_block()))
    name = data.draw(st.sampled_from(sorted(head)))
    if isinstance(head[name], list) and data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(head[name]) - 1))
        head[name][at] = data.draw(st.integers(-(2**64), 2**64) | st.text(max_size=3))
    else:
        head[name] = data.draw(json_values)
    columns = data.draw(st.just(columns) | st.binary(max_size=len(columns)))
    try:
        block = decode_block(packed(head, columns))
    except BlockError:
        return
    assert len(block) == len(block.columns["ts"])
    encode_block(block)
