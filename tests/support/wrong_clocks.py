"""Journals whose times are those of a wrong clock: the same records, in the same order."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from random import Random

import numpy as np
import numpy.typing as npt

from tallystick.coordinates.events.journal import (
    Block,
    BlockBuilder,
    RecordType,
    Stream,
    concatenate,
)

Times = npt.NDArray[np.int64]
Shown = Callable[[Times, int], Times]
"""From true times, and when the clock was set, to those that it shows."""
Tamper = Callable[[Block, Random], Block]

HOUR_US = 3_600_000_000


def whole_journals(blocks: Iterable[Block]) -> dict[str, Block]:
    """Each instance's journal as one block."""
    parts: dict[str, list[Block]] = {}
    for block in blocks:
        parts.setdefault(block.instance_id, []).append(block)
    return {name: concatenate(of_one) for name, of_one in parts.items()}


def one_record(factor: int, shift: int) -> Tamper:
    """One record has another time: a multiple of its own, and some more."""

    def tamper(block: Block, rng: Random) -> Block:
        times = block.columns["ts"].copy()
        at = rng.randrange(1, len(times))
        times[at] = factor * int(times[at]) + shift
        return replace(block, columns={**block.columns, "ts": times})

    return tamper


def clock_set(shown: Shown) -> Tamper:
    """From some record on the clock shows other times; receipt of requests is by it, too."""

    def tamper(block: Block, rng: Random) -> Block:
        first = rng.randrange(1, len(block))
        return _shown_from(block, first, shown, is_received=True)

    return tamper


def goes_on(shown: Shown) -> Tamper:
    """From some record on another process observes, by a clock that shows other times."""

    def tamper(block: Block, rng: Random) -> Block:
        first = rng.randrange(1, len(block))
        builder = BlockBuilder(
            block.instance_id, epoch=block.epoch, first_sequence=first, cluster=block.cluster
        )
        ts = int(block.columns["ts"][first])
        builder.server_record(RecordType.OBSERVER, {"clock": "the second one"}, ts=ts)
        rest = replace(block.take(first, len(block)), first_sequence=first + 1)
        return _shown_from(
            concatenate([block.take(0, first), builder.build(), rest]),
            first,
            shown,
            is_received=True,
        )

    return tamper


def always(shown: Shown, *, is_received: bool = True) -> Tamper:
    """The clock shows other times; or receipt is by another, as where someone changed records."""

    def tamper(block: Block, _: Random) -> Block:
        return _shown_from(block, 0, shown, is_received=is_received)

    return tamper


def ahead(ahead_us: int) -> Shown:
    """By so much; negative: behind."""

    def shown(ts: Times, _: int) -> Times:
        return ts + ahead_us

    return shown


def backward(ts: Times, since: int) -> Times:
    """As much earlier as it should be later."""
    return 2 * since - ts


def nanoseconds(ts: Times, _: int) -> Times:
    """In another unit."""
    return ts * 1_000


def asked_otherwise(block: Block, since: int, ahead_us: int) -> Block:
    """The clock of who asks was set: what is asked from some time on was asked so much later."""
    texts = dict(block.texts)
    for row, text in block.texts.items():
        body = json.loads(text) if '"requested_at"' in text else {}
        if body.get("requested_at", 0) >= since:
            texts[row] = json.dumps(body | {"requested_at": body["requested_at"] + ahead_us})
    return replace(block, texts=texts)


def _shown_from(block: Block, first: int, shown: Shown, *, is_received: bool) -> Block:
    times = block.columns["ts"].copy()
    since = int(times[first])
    times[first:] = shown(times[first:], since)
    texts = dict(block.texts)
    is_server = block.columns["stream"] == Stream.SERVER
    rows = (is_server & (block.columns["type"] == RecordType.LOG_STATUS)).nonzero()[0].tolist()
    for row in rows if is_received else []:
        body = json.loads(texts[row])
        if row >= first and "received_at" in body:
            body["received_at"] = int(shown(np.array([body["received_at"]]), since)[0])
            texts[row] = json.dumps(body)
    return replace(block, columns={**block.columns, "ts": times}, texts=texts)


WRONG_CLOCKS: dict[str, Tamper] = {
    "an_hour_ahead_once": one_record(1, HOUR_US),
    "an_hour_behind_once": one_record(1, -HOUR_US),
    "nanoseconds_once": one_record(1_000, 0),
    "the_greatest_number_once": one_record(0, 2**63 - 1),
    "the_least_number_once": one_record(0, -(2**63)),
    "zero_once": one_record(0, 0),
    "negative_once": one_record(-1, 0),
    "set_an_hour_ahead": clock_set(ahead(HOUR_US)),
    "set_back_an_hour": clock_set(ahead(-HOUR_US)),
    "set_ahead_a_little": clock_set(ahead(1_500_000)),
    "set_ahead_twelve_seconds": clock_set(ahead(12_000_000)),
    "set_ahead_a_minute": clock_set(ahead(59_000_000)),
    "set_back_a_little": clock_set(ahead(-300_000)),
    "set_back_three_seconds": clock_set(ahead(-3_000_000)),
    "set_back_a_minute": clock_set(ahead(-59_000_000)),
    "stands_still": clock_set(np.minimum),
    "runs_backward": clock_set(backward),
    "an_hour_ahead": always(ahead(HOUR_US)),
    "an_hour_behind": always(ahead(-HOUR_US)),
    "three_seconds_ahead": always(ahead(3_000_000)),
    "three_seconds_behind": always(ahead(-3_000_000)),
    "goes_on_three_seconds_ahead": goes_on(ahead(3_000_000)),
    "goes_on_three_seconds_behind": goes_on(ahead(-3_000_000)),
    "goes_on_half_a_minute_ahead": goes_on(ahead(30_000_000)),
    "goes_on_half_a_minute_behind": goes_on(ahead(-30_000_000)),
    "goes_on_an_hour_ahead": goes_on(ahead(HOUR_US)),
    "goes_on_an_hour_behind": goes_on(ahead(-HOUR_US)),
    "a_minute_ahead": always(ahead(59_000_000)),
    "a_minute_behind": always(ahead(-59_000_000)),
    "nanoseconds": always(nanoseconds),
    "shifted_a_second": always(ahead(1_100_000), is_received=False),
    "shifted_three_seconds": always(ahead(3_000_000), is_received=False),
    "shifted_back_three_seconds": always(ahead(-3_000_000), is_received=False),
    "shifted_a_minute": always(ahead(59_000_000), is_received=False),
    "shifted_back_a_minute": always(ahead(-59_000_000), is_received=False),
    "shifted_an_hour": always(ahead(HOUR_US), is_received=False),
    "shifted_back_an_hour": always(ahead(-HOUR_US), is_received=False),
}
