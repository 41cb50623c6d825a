"""One JSON message an event, into columns: what reading such a journal costs without an engine.

Imports the core alone, so it runs in the environments of other engines too.
"""

from __future__ import annotations

from typing import Any

from tallystick.coordinates.events.journal import (
    BlockBuilder,
    QueryVerb,
    RecordType,
    RedoType,
    Stream,
)
from tallystick.coordinates.events.json_lines import REDO_FIELDS
from tallystick.coordinates.values.binlog import EventType

_CODES = {each.name: int(each) for each in EventType}
_VERBS = {each.name.replace("XA_", "XA "): each for each in QueryVerb}
_STREAMS = {"binlog": Stream.BINLOG, "relay": Stream.RELAY}
_ENVELOPE = frozenset({"kind", "instance", "cluster", "ts", "epoch", "sequence"})
_KEPT = ("log_pos", "server_id", "checksum", "last_committed", "sequence_number",
         "transaction_length", "original_commit_timestamp", "flags")  # fmt: skip


def add_record(builder: BlockBuilder, record: dict[str, Any]) -> None:
    """One parsed message into columns, without any of the checks that a block's reader makes."""
    if record["kind"] == "redo":
        fields: dict[str, Any] = {name: record[name] for name in REDO_FIELDS if name in record}
        builder.redo_event(RedoType[record["type"]], fields.pop("lsn"), ts=record["ts"], **fields)
        return
    stream = _STREAMS.get(record["kind"])
    if stream is None:
        kind = RecordType[record["kind"].upper()]
        body = {name: value for name, value in record.items() if name not in _ENVELOPE}
        builder.server_record(kind, body, ts=record["ts"], channel=body.get("channel"))
        return
    fields = {name: record[name] for name in _KEPT if name in record}
    if "gtid" in record:
        fields["sid"], _, gno = record["gtid"].rpartition(":")
        fields["gno"] = int(gno)
    elif "query" in record:
        fields["query"] = _VERBS[record["query"]]
    elif "next_file" in record:
        fields["text"], fields["value"] = record["next_file"], record.get("next_position", 4)
    elif "gtid_set" in record:
        fields["text"] = record["gtid_set"]
    builder.log_event(
        stream, _CODES[record["type"]], file=record["file"], start=record["start"],
        length=record["length"], ts=record["ts"], channel=record.get("channel"), **fields,
    )  # fmt: skip
