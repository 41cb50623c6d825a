"""What transport and observers do to the journals of a healthy fleet, by name.

What is lost is never the first record nor the last one: a journal that begins late, or has ended,
has no gap.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np

from tallystick.coordinates.events.journal import Block, RecordType, Stream, cut_into_blocks

Journals = Mapping[str, Block]
Cut = dict[str, list[Block]]
"""The blocks of each instance in the order in which they are delivered."""
BESIDE_THE_ROW = (
    *("requested_at", "gtid_executed_first", "gtid_executed_table", "binary_logs"),
    *("slave_master_info", "slave_relay_log_info", "slave_worker_info", "binary_logs_again"),
    *("gtid_purged", "replica_status", "gtid_owned", "prepared_xa", "innodb", "trx_sys"),
    *("clone_status", "clone_progress"),
)


def damaged(kind: str, journals: Journals, rng: Random) -> list[Block]:
    """The blocks of all journals in an order in which they may arrive, damaged."""
    longest = max(map(len, journals.values()))
    # One of a journal's blocks can be lost that is neither its first nor its last.
    size = rng.choice([size for size in (16, 48, 128) if longest > 2 * size])
    cut = {name: cut_into_blocks(journal, size) for name, journal in journals.items()}
    KINDS[kind](cut, journals, rng)
    blocks = []
    for name, mine in cut.items():
        latest = 0
        for number, block in enumerate(mine):
            latest = max(latest, int(block.columns["ts"][0]))
            blocks.append((latest, name, number, block))
    return [block for *_, block in sorted(blocks, key=lambda item: item[:3])]


def _lose_block(cut: Cut, journals: Journals, rng: Random) -> None:
    name = rng.choice([name for name in cut if len(cut[name]) > 2])
    del cut[name][rng.randrange(1, len(cut[name]) - 1)]


def _lose_blocks(cut: Cut, journals: Journals, rng: Random) -> None:
    _lose_block(cut, journals, rng)
    while rng.random() < 0.8 and any(len(mine) > 2 for mine in cut.values()):
        _lose_block(cut, journals, rng)


def _lose_range(cut: Cut, journals: Journals, rng: Random) -> None:
    name = rng.choice(list(journals))
    whole = journals[name]
    first = rng.randrange(1, len(whole) - 1)
    last = min(first + rng.choice((2, 10, 100, 1_000)), len(whole) - 1)
    _leave_out(cut, name, whole, first, last)


def _lose_record(cut: Cut, journals: Journals, rng: Random) -> None:
    """One server record; each kind of them is as likely."""
    name = rng.choice(list(journals))
    whole = journals[name]
    records = 1 + np.flatnonzero(whole.columns["stream"][1:-1] == Stream.SERVER)
    types = whole.columns["type"][records]
    chosen = rng.choice(sorted(set(types.tolist())))
    index = rng.choice(records[types == chosen].tolist())
    _leave_out(cut, name, whole, index, index + 1)


def _lose_event(cut: Cut, journals: Journals, rng: Random) -> None:
    name = rng.choice(list(journals))
    whole = journals[name]
    events = 1 + np.flatnonzero(whole.columns["stream"][1:-1] != Stream.SERVER)
    index = rng.choice(events.tolist())
    _leave_out(cut, name, whole, index, index + 1)


def _leave_out(cut: Cut, name: str, whole: Block, first: int, last: int) -> None:
    cut[name] = [whole.take(0, first), whole.take(last, len(whole))]


def _begin_late(cut: Cut, journals: Journals, rng: Random) -> None:
    name = rng.choice(list(journals))
    whole = journals[name]
    cut[name] = [whole.take(rng.randrange(1, len(whole)), len(whole))]


def _leave_instance_out(cut: Cut, journals: Journals, rng: Random) -> None:
    del cut[rng.choice(list(journals))]


def _repeat_journal(cut: Cut, journals: Journals, rng: Random) -> None:
    name = rng.choice(list(journals))
    cut[name] += cut[name]


def _repeat_block(cut: Cut, journals: Journals, rng: Random) -> None:
    mine = cut[rng.choice(list(journals))]
    number = rng.randrange(len(mine))
    mine.insert(rng.randrange(number, len(mine) + 1), mine[number])


def _swap_blocks(cut: Cut, journals: Journals, rng: Random) -> None:
    mine = cut[rng.choice([name for name in cut if len(cut[name]) > 2])]
    number = rng.randrange(1, len(mine) - 1)
    mine[number : number + 2] = mine[number + 1], mine[number]


def _begin_epoch(cut: Cut, journals: Journals, rng: Random) -> None:
    name = rng.choice(list(journals))
    whole = journals[name]
    at = rng.randrange(1, len(whole))
    later = replace(whole.take(at, len(whole)), epoch=whole.epoch + 1, first_sequence=0)
    cut[name] = [whole.take(0, at), later]


def _leave_fields_out(cut: Cut, journals: Journals, rng: Random) -> None:
    """What one of the inputs beside the row has, in all collections or in some, is not read."""
    key, share = rng.choice(BESIDE_THE_ROW), rng.choice((0.5, 1.0))

    def edit(body: dict[str, Any]) -> dict[str, Any]:
        return {k: v for k, v in body.items() if k != key or rng.random() >= share}

    for name, mine in cut.items():
        cut[name] = [_with_answers(block, edit) for block in mine]


def _time_out(cut: Cut, journals: Journals, rng: Random) -> None:
    """Some collections are answered by nobody."""

    def edit(body: dict[str, Any]) -> dict[str, Any]:
        if rng.random() < 0.6:
            return body
        return {"collection_id": body["collection_id"], "error": {"timed_out": True}}

    for name, mine in cut.items():
        cut[name] = [_with_answers(block, edit) for block in mine]


def _with_answers(block: Block, edit: Callable[[dict[str, Any]], dict[str, Any]]) -> Block:
    is_answer = block.columns["stream"] == Stream.SERVER
    is_answer &= block.columns["type"] == RecordType.LOG_STATUS
    texts = dict(block.texts)
    for index in np.flatnonzero(is_answer).tolist():
        texts[index] = json.dumps(edit(block.body(index)))
    return replace(block, texts=texts)


GAPS = {
    "block lost": _lose_block,
    "blocks lost": _lose_blocks,
    "range lost": _lose_range,
    "record lost": _lose_record,
    "event lost": _lose_event,
    "blocks swapped": _swap_blocks,
    "new epoch": _begin_epoch,
}
"""Kinds of damage that an audit has to report as a gap."""

KINDS: Mapping[str, Callable[[Cut, Journals, Random], None]] = {
    **GAPS,
    "begins late": _begin_late,
    "instance missing": _leave_instance_out,
    "journal repeated": _repeat_journal,
    "block repeated": _repeat_block,
    "fields missing": _leave_fields_out,
    "answers missing": _time_out,
}
