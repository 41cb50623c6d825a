"""Hostile records: whatever JSON says, the audit answers with values, and goes on."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.campaign import scenario_of
from tallystick.coordinates.audit.instance import AuditOutput, InstanceAudit
from tallystick.coordinates.events.block_codec import decode_block, encode_block
from tallystick.coordinates.events.journal import Block, BlockBuilder, RecordType
from tallystick.coordinates.events.json_lines import blocks_from_lines
from tallystick.coordinates.results import ObservationCode
from tallystick.coordinates.rules.explanation import observation_text
from tallystick.producers.simulator.assemble import simulate
from tests.support.journals import ARTIFICIAL, UUID_A, UUID_B, Journal
from tests.support.rule_cases import apply, replica
from tests.support.rule_cases_of_channels import master_info, relay_info

HOSTILE: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1,
    2**63,
    10**400,
    1.5,
    float("nan"),
    float("inf"),
    "",
    "x",
    "0" * 40,
    "binlog.000001",
    "../../etc/passwd.000001",
    "binlog.99999999999999999999999",
    f"{UUID_A}:1",
    f"{UUID_A}:1-9223372036854775806",
    f"{UUID_A}:tag:1",
    "<script>\u202e\x00\ud800",
    [],
    [[]],
    [None],
    [{}],
    {},
    {"": {"": []}},
    "[" * 100_000,
    '{"gtid_executed": NaN, "gtid_executed": 1}',
]


def bodies() -> Iterator[tuple[RecordType, dict[str, Any]]]:
    """One body of each form that the simulator writes, negative cases and protocols among them."""
    seen = set()
    for seed in (0, 2, 8, 14, 22, 28, 40, 95, 107, 121, 131, 139, 147):
        for block in simulate(scenario_of(seed)).blocks(512):
            for index in range(len(block)):
                if block.columns["stream"][index]:
                    continue
                record_type = RecordType(int(block.columns["type"][index]))
                body = block.body(index)
                form = (record_type, *sorted(body), body.get("step"), body.get("action"))
                if form not in seen:
                    seen.add(form)
                    yield record_type, body


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every position within a JSON value."""
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from paths(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value[:2]):
            yield from paths(inner, (*path, index))


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """The value with another one at a position."""
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


@functools.cache
def places() -> list[tuple[RecordType, dict[str, Any], tuple[Any, ...]]]:
    """Every position in every body."""
    return [
        (record_type, body, path)
        for record_type, body in bodies()
        for path in paths(body)
        if path  # a body that is no object is another test
    ]


def known_instance() -> bytes:
    """The state of a replica that has seen a little of everything."""
    journal = Journal("a", UUID_B, 2).begin().groups(2)
    journal.record("channel", channel="", action="change_source", source_uuid=UUID_A)
    relay = journal.relay()
    relay.connect()
    relay.copy(Journal().begin().groups(1).binlog.groups[0])
    journal.row(replica_status=journal.replica_status())
    audit = InstanceAudit("a")
    for block in blocks_from_lines(journal.lines()):
        audit.absorb(block)
    return audit.to_bytes()


KNOWN = known_instance()


def absorbed(*records: tuple[int, str]) -> tuple[AuditOutput, InstanceAudit]:
    """What the known instance says of events with these texts, and of a row after them."""
    audit = InstanceAudit.from_bytes(KNOWN)
    builder = BlockBuilder("a", first_sequence=audit.next_sequence)
    for number, _ in enumerate(records):
        builder.server_record(RecordType.HEARTBEAT, {"n": number}, ts=10**12 + number)
    block = builder.build()
    for number, (record_type, text) in enumerate(records):
        block.columns["type"][number] = record_type
        block.texts[number] = text  # type: ignore[index]
    output = audit.absorb(block)
    again = InstanceAudit.from_bytes(audit.to_bytes())
    assert again.to_bytes() == audit.to_bytes()
    return output, again


def assert_sound(output: AuditOutput) -> None:
    """Everything said can be written down for others."""
    for said in (*output.findings, *output.observations):
        json.dumps(said.to_dict(), ensure_ascii=False).encode()
    for cut in output.cuts:
        json.dumps(cut.to_dict(), ensure_ascii=False).encode()


HEALTHY_ROW = json.dumps(
    {"collection_id": "after", "row": Journal("a", UUID_B).begin().row()["row"]}
)


@settings(deadline=None, max_examples=400)
@given(st.deferred(lambda: st.sampled_from(places())), st.sampled_from(HOSTILE))
def test_any_value_at_any_place_of_any_fact_is_answered(position, value):
    """Wrong types, huge numbers and deep texts give findings or observations, never a crash."""
    record_type, body, path = position
    text = json.dumps(replaced(body, path, value))
    output, _ = absorbed((record_type, text), (RecordType.LOG_STATUS, HEALTHY_ROW))
    assert_sound(output)
    assert [cut for cut in output.cuts if cut.collection_id == "after"]


@settings(deadline=None, max_examples=100)
@given(
    st.sampled_from(list(RecordType)),
    st.recursive(
        st.sampled_from([value for value in HOSTILE if not isinstance(value, (list, dict))]),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner),
        max_leaves=5,
    ),
)
def test_any_json_as_a_body_is_answered(record_type, body):
    """What is no object, or one of unknown keys, is reported as unreadable."""
    output, _ = absorbed((record_type, json.dumps(body)))
    assert_sound(output)


UNREADABLE = {
    "no JSON": (RecordType.START, "{"),
    "no object": (RecordType.CHANNEL, "[1]"),
    "deep": (RecordType.START, '{"variables":' + "[" * 100_000),
    "unknown key": (RecordType.BINLOG_PURGE, '{"to_file":"b.000001","why":"x"}'),
    "missing key": (RecordType.BINLOG_PURGE, "{}"),
    "wrong type": (RecordType.START, '{"server_uuid":7}'),
    "no UUID": (RecordType.START, '{"server_uuid":"here"}'),
    "no group UUID": (RecordType.VARIABLES, '{"variables":{"group_replication_group_name":"g"}}'),
    "no set": (RecordType.GTID_PURGED, '{"added":"1-5"}'),
    "surrogate": (RecordType.CHANNEL, '{"action":"reset","channel":"\\ud800"}'),
    "surrogate of a variable": (RecordType.VARIABLES, '{"variables":{"version":"\\ud800"}}'),
    "surrogate in capitals": (RecordType.VARIABLES, '{"variables":{"\\uD800":1}}'),
    "unknown kind": (99, "{}"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_fact_that_cannot_be_read_is_told_and_counts_as_a_gap(name: str):
    """Nothing is found because of it, now or at the next row."""
    output, audit = absorbed(UNREADABLE[name], (RecordType.LOG_STATUS, HEALTHY_ROW))
    assert [] == output.findings
    [reported] = [o for o in output.observations if o.code is ObservationCode.BLOCK_UNREADABLE]
    assert reported.is_undecided
    assert "could not be read" in observation_text(reported)
    assert not audit.binlog.logged_is_complete


def test_an_answer_that_cannot_be_read_is_no_gap():
    """A collection changes nothing, so one bad answer leaves the journal as known as before."""
    output, audit = absorbed((RecordType.LOG_STATUS, '{"row":{}}'))
    assert [ObservationCode.BLOCK_UNREADABLE] == [o.code for o in output.observations]
    assert "'collection_id'" in observation_text(output.observations[0])
    assert audit.binlog.logged_is_complete


COLUMNS = ("start", "length", "log_pos", "sid", "gno", "file", "sequence_number", "type", "flags",
           "last_committed", "transaction_length", "value", "query", "server_id")  # fmt: skip
NUMBERS = (-1, 0, 1, 2, 3, 4, 15, 34, 35, 2**31 - 1, 2**32 - 1, 2**62)


def logged() -> Journal:
    """A source's groups."""
    return Journal().begin().groups(40)


def received() -> Journal:
    """What a replica receives and executes between rows that say all there is of its channel."""
    journal, relay, more = replica(replica_parallel_workers=0)
    for group in more:
        stored = {
            "slave_relay_log_info": relay_info(relay),
            "slave_master_info": master_info(relay),
        }
        journal.row(replica_status=journal.replica_status(), **stored)
        apply(journal, relay, group)
        relay.rotate()
        relay.connect("binlog.000001", group[-1]["start"] + group[-1]["length"])
    journal.row(replica_status=journal.replica_status())
    return journal


LEGAL = [next(iter(blocks_from_lines(each().lines()))) for each in (logged, received)]


@settings(deadline=None, max_examples=400)
@given(st.sampled_from(LEGAL), st.data())
def test_any_numbers_in_events_are_answered(legal, data):
    """A block that the codec lets through gives findings or observations, never a crash."""
    records = st.integers(0, len(legal) - 1)
    change = st.tuples(st.sampled_from(COLUMNS), records, st.sampled_from(NUMBERS))
    block = _changed(legal, data.draw(st.lists(change, min_size=1, max_size=4)))
    audit = InstanceAudit(block.instance_id)
    try:
        decoded = decode_block(encode_block(block))
    except (ValueError, IndexError):
        return
    assert_sound(audit.absorb(decoded))
    assert InstanceAudit.from_bytes(audit.to_bytes()).to_bytes() == audit.to_bytes()


@pytest.mark.parametrize("value", NUMBERS)
@pytest.mark.parametrize("number", [0, 9, 2**62])
def test_a_relay_log_may_say_that_its_source_goes_on_anywhere(number, value):
    """By the artificial ROTATE of a new connection, after which the row is read."""
    journal, relay, _ = replica(replica_parallel_workers=0)
    stored = {"slave_relay_log_info": relay_info(relay), "slave_master_info": master_info(relay)}
    status = journal.replica_status()
    relay.event(
        "ROTATE", 46, log_pos=0, flags=ARTIFICIAL, next_file="binlog.000009", next_position=4
    )
    journal.row(replica_status=status, **stored)
    [block] = blocks_from_lines(journal.lines())
    [at] = (block.columns["value"] == 4).nonzero()[0][-1:].tolist()
    block = _changed(block, [("value", at, value)])
    block = replace(block, texts={**block.texts, at: f"binlog.{number:06d}"})
    output = InstanceAudit(block.instance_id).absorb(decode_block(encode_block(block)))
    assert_sound(output)
    assert [] == [o for o in output.observations if o.code is ObservationCode.BLOCK_UNREADABLE]


@pytest.mark.parametrize("length", [3, 99, 2**62])
def test_what_comes_from_the_very_end_of_a_file_has_no_position(length):
    """The position after it is none that a file can have."""
    journal, relay, _ = replica(replica_parallel_workers=0)
    named = 2**63 - 1 - length // 2
    relay.event(
        "ROTATE", 46, log_pos=0, flags=ARTIFICIAL, next_file="binlog.000009", next_position=named
    )
    relay.event("QUERY", length, log_pos=(named + length) % 2**32, query="BEGIN")
    journal.row(replica_status=journal.replica_status())
    [block] = blocks_from_lines(journal.lines())
    audit = InstanceAudit(block.instance_id)
    output = audit.absorb(block)
    assert_sound(output)
    assert [] == [o for o in output.observations if o.code is ObservationCode.BLOCK_UNREADABLE]
    assert InstanceAudit.from_bytes(audit.to_bytes()).to_bytes() == audit.to_bytes()


def _changed(block: Block, changes: list[tuple[str, int, int]]) -> Block:
    whole = block.take(0, len(block))
    for column, index, value in changes:
        array = whole.columns[column] = whole.columns[column].copy()
        top = 2 ** (8 * array.dtype.itemsize - (array.dtype.kind == "i")) - 1
        array[index] = min(value, top) if array.dtype.kind == "i" else max(0, min(value, top))
    return whole
