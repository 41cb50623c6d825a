"""Blocks as bytes: the value, key and headers of a journal message.

A block is written in the packed form (``_packed_block``); it may also come in the Arrow form
(``_arrow_block``), as earlier versions have written it and any Arrow library can. After either is
its checksum (``docs/journal.md``, Blocks), which is compared before anything is parsed, so a
changed bit is damage and never a record. The bytes may come from anybody: what is read is checked
before it is used, nothing in it is executed, and what it takes in memory is bounded by its size.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING

from tallystick.coordinates.events._arrow_block import read_arrow
from tallystick.coordinates.events._block_parts import (
    CLUSTER,
    BlockParts,
    bounds_of,
)
from tallystick.coordinates.events._field_checks import FieldError, instance_name
from tallystick.coordinates.events._message_headers import check_headers
from tallystick.coordinates.events._packed_block import (
    MAGIC,
    RECORDS_MAX,
    Head,
    goes_on,
    is_all_of_a_record,
    join_records,
    metadata_of,
    pack_block,
    read_head,
    read_packed,
)
from tallystick.coordinates.events._record_checks import check_records
from tallystick.coordinates.events.journal import SCHEMA_VERSION, Block
from tallystick.coordinates.values._gtid_text import read_sid
from tallystick.coordinates.values.checksum import checksum
from tallystick.coordinates.values.errors import BlockError, GtidSetParseError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tallystick.coordinates.events._message_headers import Headers

BLOCK_BYTES_MAX = 16 * 2**20
"""No block is larger; a producer splits long before, at its broker's limit."""
JOINED_MAX = 1024
"""So many blocks of one record are read as one at most."""

_read_number = re.compile(rb"0|[1-9][0-9]{0,18}").fullmatch
_INT64_MAX = 2**63 - 1

_SEAL_MAGIC = b"TSbl"
_SEAL = struct.Struct("<4sI")
"""After the form: magic, its checksum."""


def encode_block(block: Block) -> bytes:
    """The block as the value of a message.

    Raises:
        ValueError: It has no record, or more than ``RECORDS_MAX``.
    """
    if not 0 < len(block) <= RECORDS_MAX:
        raise ValueError(f"expected 1 to {RECORDS_MAX} records in a block, got {len(block)}")
    return seal(pack_block(block))


def seal(data: bytes | memoryview) -> bytes:
    """Either form with its checksum: the value of a message."""
    return b"".join((data, _SEAL.pack(_SEAL_MAGIC, checksum(data))))


def block_headers(block: Block) -> list[tuple[str, bytes]]:
    """The headers of the block's message; the block itself holds the same."""
    headers = [
        ("schema_version", b"%d" % SCHEMA_VERSION),
        ("instance_id", block.instance_id.encode()),
        ("epoch", b"%d" % block.epoch),
        ("first_sequence", b"%d" % block.first_sequence),
        ("count", b"%d" % len(block)),
    ]
    return [*headers, (CLUSTER, block.cluster.encode())] if block.cluster else headers


def decode_block(data: bytes, *, key: bytes | None = None, headers: Headers | None = None) -> Block:
    """Read the value of a message.

    Args:
        data: The value.
        key: The message's key, compared with the block's instance unless None.
        headers: The message's headers, compared with the block's own unless None; headers of
            other names are nobody's business here.

    Raises:
        BlockError: The bytes are no block of this version, have changed since it was made, or a
            record in it is impossible.
    """
    [(_, block)] = decode_blocks([(data, headers)], key=key)
    if isinstance(block, BlockError):
        raise block
    return block


def decode_blocks(
    messages: Iterable[tuple[bytes, Headers | None]], *, key: bytes | None = None
) -> Iterator[tuple[int, Block | BlockError]]:
    """Read the values of messages of one key, one after the other.

    To read a block of one record costs as much as to read hundreds, and a server on which nothing
    happens has only such: those that follow each other are read as one block.

    Args:
        messages: Value and headers of each, as of ``decode_block``.
        key: As there.

    Yields:
        Of how many messages, one after the other, the next block is; of several each has one
        record. Or why the next message has none.
    """
    heads: list[Head] = []
    for data, headers in messages:
        try:
            form = _unsealed(data)
            is_packed = form[: len(MAGIC)] == MAGIC
            head, at = read_head(form) if is_packed else (None, 0)
            record = head if head and is_all_of_a_record(form, head, at) else None
            if heads and not (record and goes_on(heads[-1], record) and len(heads) < JOINED_MAX):
                yield from _blocks_of_records(heads)
                heads = []
            if record:
                _check_message(metadata_of(record), key, headers)
                heads.append(record)
                continue
            parts = read_packed(form, head, at) if head else read_arrow(form)
            _check_message(parts.metadata, key, headers)
            block: Block | BlockError = _block_of(parts)
        except BlockError as error:
            yield from _blocks_of_records(heads)
            heads, block = [], error
        yield 1, block
    yield from _blocks_of_records(heads)


def _blocks_of_records(heads: Sequence[Head]) -> Iterator[tuple[int, Block | BlockError]]:
    """The one block of all of them; if one of them cannot be, one of each."""
    if not heads:
        return
    try:
        yield len(heads), _block_of(join_records(heads))
    except BlockError as error:
        if len(heads) == 1:
            yield 1, error
            return
        for head in heads:
            yield from _blocks_of_records([head])


def _check_message(
    metadata: Mapping[str, bytes], key: bytes | None, headers: Headers | None
) -> None:
    """Compare a message's key and headers with what its block has."""
    if key is not None and key != metadata["instance_id"]:
        instance_id = _read_name(metadata["instance_id"], "instance")
        raise BlockError(
            f"a block of instance {instance_id!r} under the key {key[:80]!r}: expected the instance"
        )
    if headers is not None:
        check_headers(headers, metadata)


def _block_of(parts: BlockParts) -> Block:
    metadata = parts.metadata
    instance_id = _read_name(metadata["instance_id"], "instance")
    cluster = _read_name(metadata[CLUSTER], CLUSTER) if CLUSTER in metadata else ""
    epoch, first_sequence = _number(metadata, "epoch"), _number(metadata, "first_sequence")
    where = f"block of instance {instance_id!r}, epoch {epoch}, from {first_sequence}"
    _check_count(len(parts.columns["stream"]), _number(metadata, "count"), first_sequence, where)
    dictionaries = {
        name: _dictionary(values, f"{where}, column {name!r}") if values else ()
        for name, values in parts.dictionaries.items()
    }
    block = Block(
        instance_id=instance_id,
        epoch=epoch,
        first_sequence=first_sequence,
        columns=parts.columns,
        channels=dictionaries["channel"],
        files=dictionaries["file"],
        sids=_sids(dictionaries["sid"], f"{where}, column 'sid'"),
        texts=parts.texts,
        cluster=cluster,
    )
    check_records(block, parts.bounds or bounds_of(parts.columns), where)
    return block


def _unsealed(data: bytes) -> memoryview:
    """What was sealed, if it has not changed."""
    if len(data) > BLOCK_BYTES_MAX:
        raise BlockError(f"a block of {len(data)} bytes: expected at most {BLOCK_BYTES_MAX}")
    form, end = memoryview(data)[: -_SEAL.size], data[-_SEAL.size :]
    if not form or end[: len(_SEAL_MAGIC)] != _SEAL_MAGIC:
        raise BlockError(
            f"a block of {len(data)} bytes that ends with {end!r}: expected {_SEAL_MAGIC!r} and a"
            f" checksum; it is cut short or damaged, or another version has written it"
        )
    expected, found = _SEAL.unpack(end)[1], checksum(form)
    if found != expected:
        raise BlockError(
            f"a block of {len(data)} bytes that is damaged: its checksum is {found:08x}, expected"
            f" {expected:08x}"
        )
    return form


def _check_count(found: int, count: int, first_sequence: int, where: str) -> None:
    if count != found:
        raise BlockError(f"{where}: {found} records, its count says {count}")
    if not count:
        raise BlockError(f"{where}: it is empty, expected at least one record")
    if first_sequence > _INT64_MAX - count:
        raise BlockError(f"{where}: sequence numbers end at {_INT64_MAX}, it has {count} records")


def _dictionary(values: Sequence[str | None], where: str) -> tuple[str, ...]:
    known = {value: None for value in values if value is not None}
    if len(known) != len(values):
        raise BlockError(f"{where}: its dictionary repeats a value or holds a null")
    return tuple(known)


def _sids(values: tuple[str, ...], where: str) -> tuple[str, ...]:
    """Source identifiers as everything after this compares them: in lower case."""
    try:
        sids = tuple(map(read_sid, values))
    except GtidSetParseError as error:
        raise BlockError(f"{where}: {error}") from None
    if len(set(sids)) != len(sids):
        raise BlockError(f"{where}: its dictionary has one source identifier in two spellings")
    return sids


# Metadata


def _read_name(raw: bytes, of: str) -> str:
    try:
        name = raw.decode()
    except UnicodeDecodeError:
        raise BlockError(f"a block whose {of} {raw[:80]!r} is no UTF-8") from None
    try:
        return instance_name(name)
    except FieldError as error:
        raise BlockError(f"a block of {of} {repr(name)[:80]}: expected {error.expected}") from None


def _number(metadata: Mapping[str, bytes], name: str) -> int:
    raw = metadata[name]
    number = int(raw) if _read_number(raw) else -1
    if not 0 <= number <= _INT64_MAX:
        raise BlockError(f"a block whose {name} is {raw[:80]!r}: expected 0 to {_INT64_MAX}")
    return number
