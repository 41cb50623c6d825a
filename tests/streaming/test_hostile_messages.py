"""Whatever a message has, nothing is raised, and an instance's step goes on after it."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.campaign import scenario_of
from tallystick.commands.journal import _lines
from tallystick.coordinates.audit.fleet import FleetAudit
from tallystick.coordinates.audit.fleet_events import FleetEvent, decode_fleet_events
from tallystick.coordinates.audit.replay import audit_history
from tallystick.coordinates.events.block_codec import decode_block, encode_block, seal
from tallystick.coordinates.events.journal import (
    Block,
    BlockBuilder,
    RecordType,
    Stream,
    cut_into_blocks,
)
from tallystick.coordinates.events.json_lines import blocks_from_lines
from tallystick.coordinates.results import ObservationCode
from tallystick.coordinates.rules.observations import REFUSALS
from tallystick.coordinates.values.errors import BlockError
from tallystick.producers.simulator.assemble import simulate
from tallystick.streaming.instance_step import BlockRow, KeyResult
from tallystick.streaming.schema import decode_document
from tests.support.audit_steps import audit_rows

SEAL_BYTES = 8
SEEDS = (0, 4, 12, 26)
HOSTILE = (
    None, True, -1, 0, 1.5, 1e308, 2**31, 2**62, 2**63 - 1, 2**63, -(2**70), "", "x", "\0",
    "\u202e", "binlog.000001", "<script>", "9" * 400, "x" * 5_000, [], {}, [None],
    {"a": {}}, [["x"]] * 3,
)  # fmt: skip
NUMBERS = (-1, 0, 1, 2, 4, 15, 33, 34, 35, 255, 2**31 - 1, 2**32 - 1, 2**62, 2**63 - 2, 2**63 - 1)


@lru_cache
def journals(seed: int) -> dict[str, list[Block]]:
    """The blocks of a seed's fleet, by instance."""
    return {
        name: cut_into_blocks(replace(journal, cluster=""), 64)
        for name, journal in simulate(scenario_of(seed)).journals.items()
    }


def with_flipped_bits(draw: st.DrawFn, block: Block) -> bytes:
    """Sealed afterwards: what a producer with bad memory sends."""
    stream = bytearray(encode_block(block)[:-SEAL_BYTES])
    for _ in range(draw(st.integers(1, 4))):
        stream[draw(st.integers(0, len(stream) - 1))] ^= 1 << draw(st.integers(0, 7))
    return seal(bytes(stream))


def with_other_numbers(draw: st.DrawFn, block: Block) -> bytes:
    columns = dict(block.columns)
    for name in draw(st.lists(st.sampled_from(sorted(columns)), min_size=1, max_size=4)):
        column = columns[name] = columns[name].copy()
        first = draw(st.integers(0, len(column) - 1))
        kind = np.iinfo(column.dtype)
        value = max(kind.min, min(draw(st.sampled_from(NUMBERS)), kind.max))
        column[first : draw(st.sampled_from((first + 1, len(column))))] = value
    try:
        return encode_block(replace(block, columns=columns))
    except (ValueError, IndexError):  # no dictionary has such an index
        return b""


def with_other_values(draw: st.DrawFn, block: Block) -> bytes:
    records = np.flatnonzero(block.columns["stream"] == Stream.SERVER).tolist()
    texts = dict(block.texts)
    for index in draw(st.lists(st.sampled_from(records), max_size=3)) if records else ():
        if draw(st.booleans()):
            body: Any = json.loads(block.texts.get(index, "{}"))
            texts[index] = json.dumps(put(draw, body, draw(st.sampled_from(HOSTILE))))
        else:
            texts[index] = draw(st.sampled_from(("", "[]", "{", "null", "NaN", "[" * 50_000)))
    return encode_block(replace(block, texts=texts))


def put(draw: st.DrawFn, value: Any, new: Any) -> Any:
    """The value with another one somewhere in it."""
    if not isinstance(value, (dict, list)) or not value or draw(st.integers(0, 3)) == 0:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    at = draw(st.sampled_from(sorted(copy) if isinstance(copy, dict) else range(len(copy))))
    copy[at] = put(draw, copy[at], new)
    return copy


WAYS = (with_flipped_bits, with_other_numbers, with_other_values)


@st.composite
def attacked(draw: st.DrawFn) -> tuple[dict[str, list[bytes]], str]:
    """The messages of a fleet, some of one instance attacked; and of which."""
    fleet = journals(draw(st.sampled_from(SEEDS)))
    messages = {name: list(map(encode_block, blocks)) for name, blocks in fleet.items()}
    victim = draw(st.sampled_from(sorted(fleet)))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(fleet[victim]) - 1))
        messages[victim][at] = draw(st.sampled_from(WAYS))(draw, fleet[victim][at])
    return messages, victim


def absorbed(name: str, messages: list[bytes]) -> list[KeyResult]:
    """What an instance's messages bring, in two micro-batches."""
    state, results = None, []
    for numbers in (range(len(messages) // 2), range(len(messages) // 2, len(messages))):
        rows = [BlockRow(messages[number], None, 0, number) for number in numbers]
        state, result = audit_rows(state, name, rows)
        results.append(result)
    return results


@settings(deadline=None, max_examples=40)
@given(attacked())
def test_an_attacked_instance_stops_nobody(given_: tuple[dict[str, list[bytes]], str]):
    """No block of it raises, the others' results are as ever, and the fleet's step takes all."""
    messages, victim = given_
    steps: list[list[FleetEvent]] = [[], []]
    for name, of_instance in messages.items():
        for events, result in zip(steps, absorbed(name, of_instance), strict=True):
            findings, observations = result.findings, result.observations
            if result.document is not None:
                decode_document(result.document)
            assert not [o for o in observations if o.reason in REFUSALS]
            if result.events_document is not None:
                decode_fleet_events(result.events_document)
            events.extend(result.fleet_events)
            if name != victim:
                unreadable = [o for o in observations if o.code is ObservationCode.BLOCK_UNREADABLE]
                assert (findings, unreadable, result.dead_letters) == ([], [], [])
    fleet = FleetAudit()
    for step in steps:
        fleet.absorb(step)
    FleetAudit.from_bytes(fleet.to_bytes()).finish()


@settings(deadline=None, max_examples=40)
@given(attacked())
def test_a_journal_of_attacked_messages_is_printed(given_: tuple[dict[str, list[bytes]], str]):
    """Each line that is printed can be read, and a record that cannot is left out with a notice."""
    messages, victim = given_
    for message in messages[victim]:
        try:
            block = decode_block(message)
        except BlockError:
            continue
        skipped: list[object] = []
        lines = list(_lines(block))
        list(blocks_from_lines(lines, on_bad_line=skipped.append))


@pytest.mark.parametrize("text", ["[]", "{", "[" * 100_000])
def test_a_record_that_cannot_be_printed_is_named(capsys: pytest.CaptureFixture[str], text: str):
    """Its number is missing in what is printed, so a replay sees a gap there and nowhere else."""
    block = next(iter(journals(0).values()))[0]
    broken = replace(block, texts={**block.texts, 0: text})
    lines = list(_lines(broken))
    assert len(lines) == len(block) - 1
    [notice] = capsys.readouterr().err.splitlines()
    assert f"skipped: record {block.first_sequence} of instance {block.instance_id!r}" in notice
    [read] = blocks_from_lines(lines)
    assert read.first_sequence == block.first_sequence + 1


def test_nothing_waits_for_a_journal_without_a_server():
    """A heartbeat under an unknown key, then silence: all that held before still does."""
    blocks = [block for of_instance in journals(0).values() for block in of_instance]
    stranger = BlockBuilder("stranger")
    stranger.server_record(RecordType.HEARTBEAT, {}, ts=int(blocks[0].columns["ts"][0]))
    expected = audit_history(blocks, goes_on=True)
    result = audit_history([*blocks, stranger.build()], goes_on=True)
    assert any(one.check.rule == "gtid_origin_agreement" for one in expected.checks)
    assert (result.checks, result.findings) == (expected.checks, expected.findings)
    assert result.observations == expected.observations
