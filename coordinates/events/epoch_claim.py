"""What a producer tells others before it writes a journal: that from now on it alone does.

The collect topic carries it beside the requests, since every producer reads that topic anyhow.
"""

from __future__ import annotations

import json
from typing import NamedTuple

_KEY = "epoch_claim"


class EpochClaim(NamedTuple):
    """A producer writes an instance's journal in an epoch.

    Attributes:
        instance_id: Whose journal.
        epoch: In which epoch.
        writer: The producer's own name, drawn anew by each process.
    """

    instance_id: str
    epoch: int
    writer: str


def encode_claim(claim: EpochClaim) -> bytes:
    """The value of a claim's message."""
    return json.dumps({_KEY: claim._asdict()}, separators=(",", ":")).encode()


def parse_claim(value: bytes | None) -> EpochClaim | None:
    """The claim in a message of the collect topic, None if it is none."""
    if value is None or _KEY.encode() not in value[:20]:
        return None
    try:
        body = json.loads(value)[_KEY]
        instance_id, epoch, writer = (body[name] for name in EpochClaim._fields)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    is_claim = type(epoch) is int and isinstance(instance_id, str) and isinstance(writer, str)
    return EpochClaim(instance_id, epoch, writer) if is_claim else None
