"""The stream, without Spark: micro-batches of any size find what a replay of the topic finds."""

from __future__ import annotations

from functools import lru_cache
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.coordinates.audit.replay import audit_history
from tallystick.coordinates.events._message_headers import headers_json
from tallystick.coordinates.events.block_codec import block_headers, encode_block
from tallystick.coordinates.events.journal import cut_into_blocks
from tallystick.coordinates.results import Finding, Observation
from tallystick.coordinates.rules.observations import NOT_ANSWERED
from tallystick.streaming.bucket import Judging
from tallystick.streaming.instance_step import BlockRow, JournalKey
from tallystick.streaming.orders import Orders
from tests.support.audit_steps import BucketState, MemoryFleetStore, MemoryStore
from tests.support.orders import STORED, Journals, journals_of

SEEDS = (0, 4, 63, 167, 201)
BACKLOG = Orders("a step", is_caught_up=False)


@lru_cache
def replayed(history: str | int) -> list[Any]:
    """What an audit of the whole topic finds, partition after partition."""
    result = audit_history(block for blocks in journals_of(history).values() for block in blocks)
    return _shown(result.findings, result.observations)


def streamed(journals: Journals, size: int, random: Random) -> list[Any]:
    """What the job finds: each micro-batch has some next blocks of each instance, or none."""
    rows = {
        JournalKey(blocks[0].cluster, name): [
            BlockRow(encode_block(part), headers_json(block_headers(part)), 0, 0)
            for block in blocks
            for part in cut_into_blocks(block, size)
        ]
        for name, blocks in journals.items()
    }
    state = BucketState()
    findings: list[Finding] = []
    observations: list[Observation] = []
    while any(rows.values()):
        messages = {}
        for key in sorted(rows):
            count = random.choice((0, 1, 2, 5))
            of, rows[key] = rows[key][:count], rows[key][count:]
            messages[key] = [BlockRow(r.value, r.headers, 0, at) for at, r in enumerate(of)]
        bucket, audits = state.bucket(Judging()), MemoryStore(state.audits)
        fleets = MemoryFleetStore(state.fleets)
        results, outputs = bucket.step(messages, BACKLOG, audits, fleets)
        state = BucketState(bucket.numbers, tuple(audits.read()), tuple(fleets.read()))
        for output in (*results.values(), *outputs.values()):
            findings += output.findings
            observations += output.observations
    ends = state.bucket(Judging()).finish(BACKLOG, goes_on=False)
    for end in (*ends.instances, *ends.clusters.values()):
        findings += end.findings
        observations += end.observations
    return _shown(findings, observations)


def _shown(findings: list[Finding], observations: list[Observation]) -> list[Any]:
    """Findings as first seen, and what is undecided, in an order of their own.

    Answers that never came are reported by the rounds of the job, and at the end of a replay.
    """
    found = {finding.finding_id: finding.to_dict() for finding in reversed(findings)}
    seen = [str(one.to_dict()) for one in observations if one.reason != NOT_ANSWERED.code]
    return [sorted(found.items()), sorted(seen)]


@settings(max_examples=20, deadline=None)
@given(st.sampled_from((*STORED, *SEEDS)), st.sampled_from((40, 500, 4096)), st.integers(0, 2**32))
def test_the_stream_finds_what_a_replay_finds(history: str | int, size: int, order: int) -> None:
    """Whichever instance is ahead, and however often the state is saved."""
    assert streamed(journals_of(history), size, Random(order)) == replayed(history)
