"""Journals that a second observer writes of servers that another one has observed before."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from random import Random

import numpy as np

from tallystick.coordinates.audit.server_records import LINEAGE_ACTIONS
from tallystick.coordinates.events.journal import (
    Block,
    BlockBuilder,
    RecordType,
    Stream,
    concatenate,
)
from tallystick.coordinates.values.binlog import parse_log_file_name
from tests.support.wrong_clocks import ahead, always

Journals = dict[str, Block]


def journals_of(blocks: Iterable[Block]) -> Journals:
    """The whole journal of each instance as one block."""
    parts: dict[str, list[Block]] = {}
    for block in blocks:
        parts.setdefault(block.instance_id, []).append(block)
    return {name: concatenate(each) for name, each in parts.items()}


def sent_again(journal: Block, first: int = 0, last: int | None = None) -> Block:
    """Records of a journal under the next epoch, from sequence number 0 on."""
    part = journal.take(first, len(journal) if last is None else last)
    return replace(part, epoch=journal.epoch + 1, first_sequence=0)


def observed_anew(journal: Block, at: int, *, from_oldest: bool = True) -> list[Block]:
    """A journal whose observer is replaced by one that knows nothing before record ``at``.

    The second one records a start with the settings of then, reads the binary log files that are
    there, or the present one alone, and goes on. All that it reads bears the time of its reading.
    """
    if not 0 < at < len(journal):
        return [journal]
    ts = int(journal.columns["ts"][at])
    start: dict[str, object] = {}
    logged: list[int] = []
    received: list[int] = []
    for index in range(at):
        stream, kind = (int(journal.columns[name][index]) for name in ("stream", "type"))
        if stream == Stream.BINLOG:
            logged.append(index)
        if stream == Stream.RELAY:
            received.append(index)
        if stream != Stream.SERVER:
            continue
        body = journal.body(index)
        if kind == RecordType.START:
            variables = {**start.get("variables", {}), **body.get("variables", {})}
            start = {**start, **body, "variables": variables}
            if start.pop("data_lineage", None) in ("cloned", "restored"):
                logged, received = [], []
            recovered = start.pop("recovered", None)
            if recovered and recovered.get("file"):
                end = parse_log_file_name(recovered["file"])[1], recovered["position"]
                logged = [i for i in logged if (_file_number(journal, i), _start(journal, i)) < end]
        elif kind == RecordType.VARIABLES and start:
            start["variables"] = {**start["variables"], **body.get("variables", {})}
        elif kind == RecordType.BINLOG_RESET:
            logged = []
        elif kind == RecordType.BINLOG_PURGE:
            oldest = parse_log_file_name(body["to_file"])[1]
            logged = [i for i in logged if _file_number(journal, i) >= oldest]
        elif kind == RecordType.CHANNEL and body.get("action") in LINEAGE_ACTIONS:
            received = []
    if not from_oldest and logged:
        newest = _file_number(journal, logged[-1])
        logged = [i for i in logged if _file_number(journal, i) == newest]
    if from_oldest and start:
        # Older files may be of another mode, as `tail` knows.
        known = start["variables"]
        start = {**start, "variables": {k: known[k] for k in known if k != "gtid_mode"}}
    epoch, name = journal.epoch + 1, journal.instance_id
    builder = BlockBuilder(name, epoch=epoch, cluster=journal.cluster)
    builder.server_record(RecordType.OBSERVER, {"clock": "the second one"}, ts=ts)
    if start:
        builder.server_record(RecordType.START, start, ts=ts)
    blocks = [builder.build()]
    again = _records(journal, logged + received, ts)
    for part in (again, journal.take(at, len(journal))):
        blocks.append(replace(part, epoch=epoch, first_sequence=blocks[-1].next_sequence))
    return [journal.take(0, at), concatenate(blocks)]


def answering_late(journal: Block, ahead_us: int) -> list[Block]:
    """A second observer, whose clock is ahead, has begun by the third row.

    It answers what the first two were asked for, with one row: that request had waited, so the
    answer does not say when it was made.
    """
    before, _, at = rows_of(journal)[:3]
    first, second = observed_anew(journal, at)
    row = rows_of(second)[0]
    body = second.body(row) | {"collection_id": journal.body(before)["collection_id"]}
    del body["requested_at"]
    body["received_at"] = int(second.columns["ts"][0])
    late = replace(second, texts={**second.texts, row: json.dumps(body)}).take(0, row + 1)
    rest = second.take(row + 1, len(second))
    again = concatenate([late, replace(rest, first_sequence=late.next_sequence)])
    return [first.take(0, before), always(ahead(ahead_us))(again, Random(0))]


def rows_of(journal: Block) -> list[int]:
    """Where its rows are."""
    is_server = journal.columns["stream"] == Stream.SERVER
    found: list[int] = (
        (is_server & (journal.columns["type"] == RecordType.LOG_STATUS)).nonzero()[0].tolist()
    )
    return found


def until(journal: Block, ts: int) -> Block:
    """The journal up to a time."""
    reached = np.maximum.accumulate(journal.columns["ts"])
    return journal.take(0, int(np.searchsorted(reached, ts, side="right")))


def changed(journal: Block, index: int) -> Block:
    """The journal with other content in one record, which may still be read."""
    columns = dict(journal.columns)
    texts = dict(journal.texts)
    if columns["stream"][index] == Stream.SERVER:
        texts[index] = json.dumps({**journal.body(index), "changed": True})
    else:
        columns["checksum"] = columns["checksum"].copy()
        columns["checksum"][index] += 1
    return replace(journal, columns=columns, texts=texts)


def _start(journal: Block, index: int) -> int:
    return int(journal.columns["start"][index])


def _file_number(journal: Block, index: int) -> int:
    return parse_log_file_name(journal.files[int(journal.columns["file"][index])])[1]


def _records(journal: Block, indices: list[int], ts: int) -> Block:
    columns = {name: column[indices] for name, column in journal.columns.items()}
    columns["ts"] = columns["ts"] * 0 + ts
    texts = {n: journal.texts[i] for n, i in enumerate(indices) if i in journal.texts}
    return replace(journal, columns=columns, texts=texts)
