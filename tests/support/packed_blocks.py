"""Blocks in the packed form: their heads, and what others may have written into one."""

from __future__ import annotations

import json
import struct
from typing import Any

from tallystick.coordinates.events.block_codec import encode_block, seal
from tallystick.coordinates.events.journal import Block, BlockBuilder, RecordType

HEAD = struct.Struct("<4sI")


def head_of(data: bytes) -> tuple[dict[str, Any], bytes]:
    """The head of a block, and what comes between it and the checksum."""
    end = HEAD.size + HEAD.unpack_from(data)[1]
    head = json.loads(data[HEAD.size : end])
    return {"widths": [0] * 19, "masks": [0] * 19} | head, data[end:-8]


def packed(head: Any, columns: bytes) -> bytes:
    """A message of a head and columns."""
    text = json.dumps(head).encode()
    return seal(HEAD.pack(b"TSpk", len(text)) + text + columns)


def heartbeats(count: int) -> list[Block]:
    """What a server sends on which nothing happens: a block a second, of one record."""
    builder, blocks = BlockBuilder("a"), []
    for second in range(count):
        builder.server_record(RecordType.HEARTBEAT, {}, ts=1_000_000 * second)
        blocks.append(builder.build())
    return blocks


def heartbeat_values(count: int) -> list[bytes]:
    """Their messages."""
    return [encode_block(block) for block in heartbeats(count)]
