"""Finished histories, and the ways in which their records may reach an audit."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallystick.campaign import scenario_of
from tallystick.coordinates.events.block_codec import block_headers, decode_block, encode_block
from tallystick.coordinates.events.journal import Block, concatenate, cut_into_blocks
from tallystick.coordinates.events.json_lines import blocks_from_lines
from tallystick.coordinates.events.json_lines_writer import block_to_lines
from tallystick.producers.simulator.assemble import simulate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from random import Random

    from tallystick.coordinates.audit.replay import AuditResult

TESTS = Path(__file__).parents[1]
STORED = tuple(
    str(path.relative_to(TESTS))
    for folder in ("real_journals", "coordinates/vectors")
    for path in sorted((TESTS / folder).glob("*.jsonl"))
)

Journals = dict[str, list[Block]]
"""The blocks of each instance; a gap or a new epoch begins another one."""


@lru_cache
def journals_of(history: str | int) -> Journals:
    """A stored journal by its path, a simulated one by its seed; each ends with a heartbeat."""
    if isinstance(history, str):
        lines: Iterable[str] = (TESTS / history).read_text(encoding="utf-8").splitlines()
    else:
        blocks = simulate(scenario_of(history)).blocks(4096)
        lines = [line for block in blocks for line in block_to_lines(block)]
    found: Journals = {}
    for block in blocks_from_lines(lines, end_heartbeats=True):
        found.setdefault(block.instance_id, []).append(block)
    return {name: _joined(blocks) for name, blocks in found.items()}


def _joined(blocks: list[Block]) -> list[Block]:
    runs: list[list[Block]] = []
    for block in blocks:
        last = runs[-1][-1] if runs else None
        if last is None or (block.epoch, block.first_sequence) != (last.epoch, last.next_sequence):
            runs.append([])
        runs[-1].append(block)
    return [concatenate(run) for run in runs]


def interleaved(journals: Journals, size: int, random: Random) -> Iterator[Block]:
    """Blocks of a size; any instance may be far ahead of the others."""
    rest = {
        name: [part for block in blocks for part in cut_into_blocks(block, size)]
        for name, blocks in journals.items()
    }
    while rest:
        name = random.choice(sorted(rest))
        taken = random.choice((1, 1, 2, 20, len(rest[name])))
        yield from rest[name][:taken]
        del rest[name][:taken]
        if not rest[name]:
            del rest[name]


def as_one_file(blocks: Iterable[Block], size: int) -> Iterator[Block]:
    """The same records as JSON Lines, in this order, read in windows of a size."""
    return blocks_from_lines(_lines(blocks), block_size=size)


def _lines(blocks: Iterable[Block]) -> Iterator[str]:
    for block in blocks:
        for number, line in enumerate(block_to_lines(block), block.first_sequence):
            position = {"epoch": block.epoch, "sequence": number}
            yield json.dumps(json.loads(line) | position)


def through_kafka(blocks: Iterable[Block]) -> Iterator[Block]:
    """The same blocks as a message each, and back."""
    for block in blocks:
        key = block.instance_id.encode()
        yield decode_block(encode_block(block), key=key, headers=block_headers(block))


def content(result: AuditResult) -> dict[str, Any]:
    """Everything that an audit has brought."""
    return {
        "verdict": result.verdict,
        "findings": [finding.to_dict() for finding in result.findings],
        "observations": [observation.to_dict() for observation in result.observations],
        "cuts": result.cuts,
        "checks": result.checks,
        "incidents": [incident.to_dict() for incident in result.incidents],
        "topology": result.topology,
    }
