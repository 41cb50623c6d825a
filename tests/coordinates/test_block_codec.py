"""Blocks as bytes, in both forms: what is written is read back, and nothing else is read."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.coordinates.events.block_codec import (
    BLOCK_BYTES_MAX,
    JOINED_MAX,
    block_headers,
    decode_block,
    decode_blocks,
    encode_block,
    seal,
)
from tallystick.coordinates.events.journal import (
    ABSENT,
    COLUMNS,
    BlockBuilder,
    QueryVerb,
    RecordType,
    Stream,
    concatenate,
    cut_into_blocks,
)
from tallystick.coordinates.events.log_events import SLICE, EventColumns
from tallystick.coordinates.values.binlog import WRAP, EventType
from tallystick.coordinates.values.errors import BlockError
from tests.support.arrow_blocks import encode_arrow
from tests.support.block_samples import blocks, changed, make_block, same
from tests.support.packed_blocks import head_of, heartbeats, packed

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallystick.coordinates.events.journal import Block

    Encode = Callable[[Block], bytes]

FORMS = {"packed": encode_block, "arrow": encode_arrow}


@pytest.fixture(params=FORMS, scope="module")
def encode(request: pytest.FixtureRequest) -> Encode:
    """A writer of one of the forms."""
    return FORMS[request.param]


def test_what_is_written_is_read_back(encode):
    """A block, its key and its headers come back as they were."""
    block = make_block()
    read = decode_block(encode(block), key=b"a", headers=block_headers(block))
    assert same(block, read)


@given(blocks())
@settings(max_examples=60, deadline=None)
def test_every_possible_block_is_read_back(encode, block):
    """Whatever a producer may say arrives unchanged, also in pieces."""
    assert same(block, decode_block(encode(block), headers=block_headers(block)))
    middle = len(block) // 2
    if middle:
        piece = block.take(middle, len(block))
        assert same(piece, decode_block(encode(piece)))


IMPOSSIBLE_RECORDS = [
    ("stream", 0, 4, "stream 4: expected at most 3"),
    ("type", 0, 0, "type 0: expected a known kind"),
    ("type", 0, max(RecordType) + 1, "expected a known kind"),
    ("query", 2, 9, "query 9"),
    ("query", 2, 0, "a query verb on QUERY events"),
    ("query", 1, 1, "a query verb on QUERY events"),
    ("ts", 1, -1, "ts -1: expected microseconds"),
    ("start", 1, -1, "start -1"),
    ("start", 1, -2, "start -2"),
    ("length", 2, -5, "length -5"),
    ("length", 2, 0, "length 0: expected at least 1"),
    ("start", 2, 2**63 - 10, r"ends below 2\^63"),
    ("log_pos", 1, 2**32, "log_pos 4294967296"),
    ("server_id", 1, 2**32, "server_id 4294967296"),
    ("gno", 1, 2**63 - 1, "gno 9223372036854775807"),
    ("gno", 1, 0, "sid and GNO on GTID events"),
    ("sid", 1, -1, "sid and GNO on GTID events"),
    ("gno", 3, 5, "sid and GNO on GTID events"),
    ("file", 1, -1, "file -1: expected a log file"),
    ("channel", 3, -1, "channel -1: expected a channel"),
    ("transaction_length", 1, -2, "transaction_length -2"),
]


@pytest.mark.parametrize(("column", "index", "value", "message"), IMPOSSIBLE_RECORDS)
def test_a_record_that_cannot_be_is_refused(encode, column, index, value, message):
    """The error names the instance, the record and the value."""
    with pytest.raises(BlockError, match=f"instance 'a'.*record {70 + index} .*{message}"):
        decode_block(encode(changed(make_block(), column, index, value)))


def test_a_record_that_ends_beyond_the_last_position_is_refused_in_a_quiet_block(encode):
    """All of whose records are of the server, and have no position."""
    [block] = heartbeats(1)
    at_end = changed(changed(block, "start", 0, 2**62), "length", 0, 2**62 - 1)
    assert same(at_end, decode_block(encode(at_end)))
    with pytest.raises(BlockError, match=r"record 0 .*ends below 2\^63"):
        decode_block(encode(changed(at_end, "length", 0, 2**62)))


def test_an_event_without_its_text_is_refused(encode):
    """ROTATE and PREVIOUS_GTIDS mean nothing without their text."""
    block = dataclasses.replace(make_block(), texts={0: "{}", 4: "oops"})
    with pytest.raises(BlockError, match="record 73 has no text"):
        decode_block(encode(block))


def test_a_heartbeat_event_needs_no_place(encode):
    """Heartbeats of a dump stream are no part of any file."""
    block = make_block().take(2, 3)
    for column, value in (("type", 27), ("query", 0), ("file", -1), ("start", -1), ("length", -1)):
        block = changed(block, column, 0, value)
    assert same(block, decode_block(encode(block)))


def test_keys_and_headers_that_disagree_are_refused(encode):
    """A block under another instance's key, or beside other headers, is nobody's journal."""
    block = make_block()
    data = encode(block)
    with pytest.raises(BlockError, match="instance 'a' under the key b'b'"):
        decode_block(data, key=b"b")
    for at, name in enumerate(
        ("schema_version", "instance_id", "epoch", "first_sequence", "count")
    ):
        headers = block_headers(block)
        headers[at] = (name, b"9")
        with pytest.raises(BlockError, match=f"header '{name}' is b'9'"):
            decode_block(data, headers=headers)
        del headers[at]
        with pytest.raises(BlockError, match=f"without the header '{name}'"):
            decode_block(data, headers=headers)
    decode_block(data, headers=[*block_headers(block), ("traceparent", b"x")])


def test_epoch_and_sequence_numbers_go_up_to_the_last_of_64_bits(encode):
    """And a block whose records would be numbered beyond it is refused."""
    last = 2**63 - 1
    block = dataclasses.replace(make_block(), epoch=last)
    block = dataclasses.replace(block, first_sequence=last - len(block))
    assert same(block, decode_block(encode(block), headers=block_headers(block)))
    beyond = dataclasses.replace(block, first_sequence=block.first_sequence + 1)
    with pytest.raises(BlockError, match=f"sequence numbers end at {last}"):
        decode_block(encode(beyond))


UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def with_sids(encode: Encode, *sids: str) -> bytes:
    """A block with a group of each source identifier."""
    builder = BlockBuilder("a")
    for gno, sid in enumerate(sids, 1):
        builder.log_event(
            Stream.BINLOG, EventType.GTID, file="b.000001", start=gno, length=79, ts=gno, sid=sid,
            gno=gno,
        )  # fmt: skip
    return encode(builder.build())


def test_source_identifiers_are_checked_and_lowered(encode):
    """A flipped bit in one is no reason to stop later, and none has two spellings."""
    tagged = f"{UUID.upper()}:TAG"
    assert (UUID, f"{UUID}:tag") == decode_block(with_sids(encode, UUID.upper(), tagged)).sids
    for wrong in (UUID[1:], UUID.replace("-", "m"), f"{UUID}:", f"{UUID}:1", ""):
        with pytest.raises(BlockError, match="column 'sid': malformed source identifier"):
            decode_block(with_sids(encode, UUID, wrong))
    with pytest.raises(BlockError, match="two spellings"):
        decode_block(with_sids(encode, UUID, UUID.upper()))


def test_a_block_beyond_the_size_limit_is_refused_unread():
    """Size is looked at before anything else."""
    with pytest.raises(BlockError, match=f"expected at most {BLOCK_BYTES_MAX}"):
        decode_block(bytes(BLOCK_BYTES_MAX + 1))


@given(st.binary(max_size=200))
def test_any_bytes_are_a_block_error(data):
    """Bytes from anybody raise BlockError and nothing else."""
    with pytest.raises(BlockError):
        decode_block(data)


GOOD = {form: encode(make_block()) for form, encode in FORMS.items()}
LENGTH_MAX = max(map(len, GOOD.values()))


@pytest.fixture(params=FORMS, scope="module")
def good(request: pytest.FixtureRequest) -> bytes:
    """A block in one of the forms."""
    return GOOD[request.param]


@pytest.mark.parametrize("bit", range(8))
def test_a_block_with_one_bit_changed_is_damaged(good, bit):
    """Every bit of the stream, of its checksum, and of the name of that."""
    for at in range(len(good)):
        data = bytearray(good)
        data[at] ^= 1 << bit
        with pytest.raises(BlockError, match="damaged"):
            decode_block(bytes(data))


@given(st.data())
@settings(max_examples=400, deadline=None)
def test_a_block_cut_short_or_written_over_is_damaged(good, data):
    """Bytes that are missing at either end or inside, or were replaced by others."""
    first = data.draw(st.integers(0, len(good) - 1))
    end = data.draw(st.integers(first + 1, len(good)))
    other = data.draw(st.binary(max_size=end - first).filter(lambda new: new != good[first:end]))
    with pytest.raises(BlockError):
        decode_block(good[:first] + other + good[end:])


@given(st.integers(0, LENGTH_MAX), st.integers(1, 255), st.integers(0, LENGTH_MAX))
@settings(max_examples=400, deadline=None)
def test_garbled_streams_are_read_or_refused(good, at, flip, length):
    """Whatever somebody sealed never does anything but raise BlockError."""
    stream = good[:-8]
    data = bytearray(stream)
    data[at % len(data)] ^= flip
    for garbled in (bytes(data), stream[:length], bytes(data[:length])):
        try:
            block = decode_block(seal(garbled))
        except BlockError:
            continue
        assert len(block) == 5


def check_as_alone(messages: list[tuple[bytes, object]]) -> list[int]:
    """Messages read together: the same records and errors as one by one; of how many each is."""
    at, counts = 0, []
    for count, block in decode_blocks(messages):
        found: list[Block | str] = []
        for data, headers in messages[at : at + count]:
            try:
                found.append(decode_block(data, headers=headers))
            except BlockError as error:
                found.append(str(error))
        if isinstance(block, BlockError):
            assert found == [str(block)]
        else:
            assert all(len(one) == 1 for one in found) or count == 1
            assert same(block, concatenate(found))
        at += count
        counts.append(count)
    assert at == len(messages)
    return counts


@given(blocks(), st.data())
@settings(max_examples=60, deadline=None)
def test_blocks_that_follow_each_other_are_read_as_alone(block, data):
    """Of one record or several, in both forms; some are damaged, or have headers of another."""
    messages = []
    for piece in cut_into_blocks(block, data.draw(st.integers(1, 2))):
        value = data.draw(st.sampled_from([encode_block, encode_arrow]))(piece)
        if data.draw(st.integers(0, 5)) == 0:
            value = value[:-1]
        of = block if data.draw(st.integers(0, 5)) == 0 else piece
        messages.append((value, block_headers(of)))
    check_as_alone(messages)


def test_records_of_a_quiet_server_are_one_block():
    """As long as they follow each other, and up to a number."""
    messages = [(encode_block(one), block_headers(one)) for one in heartbeats(JOINED_MAX + 5)]
    assert check_as_alone(messages[:7]) == [7]
    assert check_as_alone(messages) == [JOINED_MAX, 5]
    assert check_as_alone(messages[:3] + messages[4:6]) == [3, 2]
    assert check_as_alone(messages[:3] + messages[:2]) == [3, 2]
    assert check_as_alone([*messages[:3], (b"rubbish", None), messages[3]]) == [3, 1, 1]
    wrong = messages[3][0], messages[4][1]
    assert check_as_alone([*messages[:3], wrong, messages[4]]) == [3, 1, 1]


@pytest.mark.parametrize(
    "change",
    [
        {"least": {"ts": -5}},
        {"least": {"ts": 2**63}},
        {"least": {"type": 99}},
        {"least": {"file": 0}},
        {"text_at": [1], "texts": ["?"]},
        {"text_at": [0], "texts": ["one", "two"]},
    ],
)
def test_an_impossible_record_among_others_is_alone(change):
    """What is before and after it is read."""
    messages = [(encode_block(one), None) for one in heartbeats(5)]
    head, _ = head_of(messages[2][0])
    for name, number in change.get("least", {}).items():
        head["least"][list(COLUMNS).index(name)] = number
    messages[2] = packed(head | {k: v for k, v in change.items() if k != "least"}, b""), None
    assert check_as_alone(messages) == [1, 1, 1, 1, 1]
    assert isinstance([*decode_blocks(messages)][2][1], BlockError)


def test_records_of_several_lives_or_instances_are_no_block():
    """Of another epoch, another instance, another cluster; or with other files."""
    first, second = heartbeats(2)
    for other in (
        dataclasses.replace(second, epoch=5),
        dataclasses.replace(second, instance_id="b"),
        dataclasses.replace(second, cluster="east"),
        dataclasses.replace(second, files=("binlog.000009",)),
    ):
        assert check_as_alone([(encode_block(one), None) for one in (first, other)]) == [1, 1]


@pytest.mark.parametrize("first", [0, 1, SLICE - 1, SLICE, SLICE + 1])
@pytest.mark.parametrize("last", [0, 2, SLICE, SLICE + 1, 2 * SLICE, 3 * SLICE - 1])
def test_records_are_made_values_once_each(first, last):
    """Wherever a run of them begins and ends, of slices that are made when they are needed."""
    block = concatenate(heartbeats(3 * SLICE - 1))
    events = EventColumns(block)
    made = [event.ts for event in events.between(first, last)]
    assert made == [1_000_000 * second for second in range(first, last)]
    assert made == [events.event(index).ts for index in range(first, last)]


def test_events_given_as_columns_stay_between_those_given_one_by_one():
    """A journal's order is that in which it was written."""

    def log(made: BlockBuilder, start: int) -> BlockBuilder:
        made.log_event(Stream.BINLOG, EventType.XID, file="b.000001", start=start, length=9, ts=1)
        return made

    columns = log(BlockBuilder("a"), 200).build().columns
    table = np.array([columns[name] for name in COLUMNS], dtype=np.int64)
    made = log(BlockBuilder("a"), 100)
    made.log_events(Stream.BINLOG, table, file="b.000001", ts=1, sids=[])
    made.server_record(RecordType.STOP, {"clean": True}, ts=1)
    block = log(made, 300).build()
    assert block.columns["start"].tolist() == [100, 200, ABSENT, 300]
    assert block.body(2) == {"clean": True}


def test_the_events_of_a_group_are_those_that_come_one_by_one():
    """Only the start and the end of each follow from the lengths; offsets wrap in ``log_pos``."""
    body = [(EventType.QUERY, QueryVerb.BEGIN, 60, 7), (EventType.XID, QueryVerb.NONE, 31, 8)]
    start, shift = WRAP + 10, 80
    alike = {"file": "r.000001", "channel": "a", "ts": 5, "server_id": 3}
    one_by_one, made = BlockBuilder("a"), BlockBuilder("a")
    for event_type, query, length, checksum in body:
        end = start + length
        one_by_one.log_event(
            Stream.RELAY,
            event_type,
            start=start,
            length=length,
            log_pos=(end - shift) % WRAP,
            checksum=checksum,
            query=query,
            **alike,
        )
        start = end
    made.group_events(Stream.RELAY, body, start=WRAP + 10, shift=shift, **alike)
    expected, block = one_by_one.build(), made.build()
    assert block.files == expected.files
    assert block.channels == expected.channels
    for name in COLUMNS:
        assert block.columns[name].tolist() == expected.columns[name].tolist(), name
    assert block.columns["log_pos"][0] == WRAP - 10
