"""Measure blocks: encoding, decoding, and where compression pays.

Prints one JSON object a line. Run it with nothing else on the machine:

    python benchmarks/codec.py
"""

from __future__ import annotations

import gzip
import json
import statistics
import time
from collections.abc import Callable
from itertools import islice
from typing import Any

import pyarrow as pa

from tallystick.coordinates.events.block_codec import decode_block, encode_block
from tallystick.coordinates.events.json_lines import blocks_from_lines
from tallystick.coordinates.events.json_lines_writer import block_to_lines
from tallystick.producers.load.history import LoadPlan, journal_blocks

BLOCK_SIZE = 4096
REPEATS = 200
BATCH_BLOCKS = 60


def median_us(work: Callable[[], Any], repeats: int = REPEATS) -> float:
    """Median time of ``work`` in microseconds."""
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return round(statistics.median(times) * 1e6, 1)


def show(**figures: Any) -> None:
    """Print one line of results."""
    print(json.dumps(figures))


def main() -> None:
    """Measure and print."""
    plan = LoadPlan(sources=1, block_size=BLOCK_SIZE)
    block = next(b for b in journal_blocks(plan) if len(b) == BLOCK_SIZE)
    value = encode_block(block)
    show(
        what="block",
        records=len(block),
        bytes=len(value),
        encode_us=median_us(lambda: encode_block(block)),
        decode_us=median_us(lambda: decode_block(value)),
    )
    for codec in ("lz4", "zstd"):
        whole = pa.Codec(codec)
        packed = whole.compress(value)
        show(
            what=f"whole message compressed, as Kafka does: {codec}",
            bytes=len(packed),
            compress_us=median_us(lambda w=whole: w.compress(value)),
            decompress_us=median_us(lambda w=whole, p=packed: w.decompress(p, len(value))),
        )
    packed = gzip.compress(value)
    show(
        what="whole message compressed, as kafka-python does: gzip",
        bytes=len(packed),
        compress_us=median_us(lambda: gzip.compress(value), 10),
        decompress_us=median_us(lambda: gzip.decompress(packed), 10),
    )
    lines = list(block_to_lines(block))
    show(
        what="JSON Lines",
        records=len(lines),
        bytes=sum(len(line) + 1 for line in lines),
        write_us=median_us(lambda: list(block_to_lines(block)), 10),
        read_us=median_us(lambda: list(blocks_from_lines(lines)), 10),
    )
    begun = time.perf_counter()
    events = sum(len(b) for b in islice(journal_blocks(plan), 50 * BATCH_BLOCKS))
    seconds = time.perf_counter() - begun
    show(what="generated", events=events, events_per_s=round(events / seconds))


if __name__ == "__main__":
    main()
