"""A server whose binary log gets a transaction at a time, with a log_status row after each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tallystick.coordinates.events.journal import (
    Block,
    BlockBuilder,
    QueryVerb,
    RecordType,
    Stream,
)
from tallystick.coordinates.values.innodb import advance_lsn

FILE = "binlog.000001"
LSN = 19_000_000
UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def journal(
    instance_id: str, count: int, ts: int, *, before: str = "", ahead: int = 0
) -> Iterator[Block]:
    """Blocks of one transaction and one row each; a start in the first.

    Args:
        instance_id: Whose.
        count: How many.
        ts: Time of the start, microseconds.
        before: What was executed before, of sources that sort before the server's own.
        ahead: By how many GTIDs each row claims more than was logged.
    """
    builder, position = BlockBuilder(instance_id), 4
    builder.server_record(
        RecordType.START,
        {"server_uuid": UUID, "server_id": 1, "version": "8.0.31", "profile": "wl9452",
         "variables": {"gtid_mode": "ON", "log_bin": True}},
        ts=ts,
    )  # fmt: skip

    def log(code: int, length: int, **fields: Any) -> None:
        nonlocal position
        builder.log_event(
            Stream.BINLOG, code, start=position, length=length, log_pos=position + length,
            file=FILE, ts=ts, server_id=1, **fields,
        )  # fmt: skip
        position += length

    log(15, 122)
    log(35, 31 + len(before), text=before)
    for gno in range(1, count + 1):
        ts += 1_000
        log(33, 79, sid=UUID, gno=gno, last_committed=gno - 1, sequence_number=gno,
            transaction_length=110)  # fmt: skip
        log(2, 31, query=QueryVerb.STATEMENT)
        last = gno + ahead
        own = f"{UUID}:1-{last}" if last > 1 else f"{UUID}:1"
        row = {
            "SERVER_UUID": UUID,
            "LOCAL": {"gtid_executed": ",".join(filter(None, (before, own))),
                      "binary_log_file": FILE, "binary_log_position": position},
            "REPLICATION": {"channels": []},
            "STORAGE_ENGINES": {"InnoDB": {"LSN": advance_lsn(LSN, gno), "LSN_checkpoint": LSN}},
        }  # fmt: skip
        body = {
            "collection_id": f"{instance_id}-{gno}",
            "requested_at": ts,
            "gtid_purged": before,
            "row": row,
        }
        builder.server_record(RecordType.LOG_STATUS, body, ts=ts)
        yield builder.build()
