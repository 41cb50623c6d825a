"""The packed form of a block: what its columns have in common once, and the rest in few bytes.

Columns hardly vary within a block: its records are of one log file and of one second. So a column
is written as its least number, and for each record by how much that is exceeded, in as few bytes as
hold it. A column of equal numbers has no bytes at all (``docs/journal.md``, Blocks).
"""

from __future__ import annotations

import json
from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Any

import numpy as np

from tallystick.coordinates.events._block_parts import CLUSTER, BlockParts, check_version
from tallystick.coordinates.events.journal import ABSENT, COLUMNS, SCHEMA_VERSION
from tallystick.coordinates.values.errors import BlockError

if TYPE_CHECKING:
    import numpy.typing as npt

    from tallystick.coordinates.events.journal import Block, Columns

MAGIC = b"TSpk"
RECORDS_MAX = 2**16
"""No block has more: what a column has in common takes no bytes, so bytes alone would not limit
what a block unpacks to."""

_HEAD = Struct("<4sI")
"""Before the head: magic, and how many bytes the head has."""
_ALIGNMENT = 8
"""Columns begin at a multiple of it."""
_CODES: dict[int, np.dtype[Any]] = {
    8: np.dtype("<i8"),
    4: np.dtype("<u4"),
    2: np.dtype("<u2"),
    1: np.dtype("u1"),
}
"""Bytes of a number, and their type, in the order in which columns follow each other."""
_PLAIN = 8
"""Of this width are numbers as they are, which differ by more than four bytes hold."""
_KEPT_MAX = 2**16
"""Columns of equal numbers below this are kept: of types, flags, indices, and what is absent."""
_UINT32_MAX = 2**32 - 1
_INT64_MAX = 2**63 - 1

_DICTIONARIES = {"channel": "channels", "file": "files", "sid": "sids"}
_NUMBERS = ("schema_version", "epoch", "first_sequence", "count")
_HEAD_FIELDS: dict[str, tuple[type, type | None]] = {
    **dict.fromkeys(_NUMBERS, (int, None)),
    **dict.fromkeys(("instance_id", CLUSTER), (str, None)),
    **dict.fromkeys((*_DICTIONARIES.values(), "texts"), (list, str)),
    **dict.fromkeys(("least", "widths", "text_at"), (list, int)),
}
_RANGES = {
    name: (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)) for name, dtype in COLUMNS.items()
}
_least, _greatest = np.minimum.reduce, np.maximum.reduce


# Writing


def pack_block(block: Block) -> bytes:
    """A block of 1 to ``RECORDS_MAX`` records in the packed form, without a checksum."""
    least, widths = [], []
    rows: dict[int, list[bytes]] = {width: [] for width in _CODES}
    for name in COLUMNS:
        base, width, codes = _pack(block.columns[name])
        least.append(base)
        widths.append(width)
        if width:
            rows[width].append(codes.tobytes())
    head = {
        "schema_version": SCHEMA_VERSION,
        "instance_id": block.instance_id,
        **({CLUSTER: block.cluster} if block.cluster else {}),
        "epoch": block.epoch,
        "first_sequence": block.first_sequence,
        "count": len(block),
        "channels": block.channels,
        "files": block.files,
        "sids": block.sids,
        "least": least,
        "widths": widths,
        "text_at": list(block.texts),
        "texts": list(block.texts.values()),
    }
    text = json.dumps(head, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-(_HEAD.size + len(text)) % _ALIGNMENT)
    columns = b"".join(codes for of_width in rows.values() for codes in of_width)
    return b"".join((_HEAD.pack(MAGIC, len(text)), text, columns))


def _pack(column: npt.NDArray[Any]) -> tuple[int, int, npt.NDArray[Any]]:
    """The number that code 1 stands for, the bytes of a code, and the codes; 0 is ABSENT."""
    if len(column) == 1:
        return int(column[0]), 0, column
    low, high = int(_least(column)), int(_greatest(column))
    if low == high:
        return low, 0, column
    least = low
    if low == ABSENT:
        # As unsigned numbers those that are absent are the greatest.
        column = np.ascontiguousarray(column, dtype=np.int64)
        least = int(_least(column.view(np.uint64)))
    span = high - least + 1
    if low < ABSENT or span > _UINT32_MAX:
        return 0, _PLAIN, column.astype(_CODES[_PLAIN])
    width = 1 if span < 2**8 else 2 if span < 2**16 else 4
    codes = np.subtract(column, least - 1, dtype=np.int64)
    if low == ABSENT:
        np.maximum(codes, 0, out=codes)
    return least, width, codes.astype(_CODES[width])


# Reading


def read_packed(data: memoryview) -> BlockParts:
    """Read the packed form.

    Raises:
        BlockError: The bytes have another one.
    """
    head, at = _read_head(data)
    count = head["count"]
    if not 0 < count <= RECORDS_MAX:
        raise BlockError(f"a packed block of {count} records: expected 1 to {RECORDS_MAX}")
    columns, bounds = _unpack(data, at, count, head["least"], head["widths"])
    for name, key in _DICTIONARIES.items():
        low, high = bounds[name]
        if low < ABSENT or high >= len(head[key]):
            raise BlockError(
                f"a packed block whose column {name!r} has indices from {low} to {high}: expected"
                f" {ABSENT} to {len(head[key]) - 1}, as it has {len(head[key])} {key}"
            )
    metadata = {name: b"%d" % head[name] for name in _NUMBERS}
    metadata["instance_id"] = head["instance_id"].encode()
    if head[CLUSTER]:
        metadata[CLUSTER] = head[CLUSTER].encode()
    return BlockParts(
        metadata=metadata,
        columns=columns,
        dictionaries={name: head[key] for name, key in _DICTIONARIES.items()},
        texts=_texts(head["text_at"], head["texts"], count),
        bounds=bounds,
    )


def _unpack(
    data: memoryview, at: int, count: int, least: list[int], widths: list[int]
) -> tuple[Columns, dict[str, tuple[int, int]]]:
    """The columns, which begin at a byte of the data, and their bounds."""
    if not len(least) == len(widths) == len(COLUMNS) or not {0, *_CODES}.issuperset(widths):
        raise BlockError(
            f"a packed block with {len(least)} least numbers and widths {str(widths)[:80]}:"
            f" expected {len(COLUMNS)} each, of widths 0, 1, 2, 4 and 8"
        )
    end = at + count * sum(widths)
    if len(data) != end:
        raise BlockError(f"a packed block of {len(data)} bytes whose columns end at byte {end}")
    unpacked: list[Any] = [None] * len(COLUMNS)
    bounds = [(number, number) for number in least]
    # The columns of a width lie together: each step is made for all of them at once.
    for width, dtype in _CODES.items() if end > at else ():
        rows = [row for row, of_row in enumerate(widths) if of_row == width]
        if not rows:
            continue
        codes = np.frombuffer(data, dtype, count * len(rows), at).reshape(len(rows), count)
        at += codes.nbytes
        lows, highs = _least(codes, axis=1).tolist(), _greatest(codes, axis=1).tolist()
        values: npt.NDArray[Any] = codes
        if width != _PLAIN:
            bases = [least[row] - 1 for row in rows]
            if min(bases) < ABSENT or max(bases) >= _INT64_MAX:
                raise BlockError(
                    f"a packed block with codes above {str(bases)[:80]}: expected {ABSENT} to"
                    f" {_INT64_MAX - 1}"
                )
            values = codes + np.array(bases, dtype=np.int64)[:, np.newaxis]
            if 0 in lows:
                np.putmask(values, codes == 0, ABSENT)
            lows, highs = (
                [code + base if code else ABSENT for code, base in zip(ends, bases, strict=True)]
                for ends in (lows, highs)
            )
        for row, column, *ends in zip(rows, values, lows, highs, strict=True):
            unpacked[row], bounds[row] = column, (ends[0], ends[1])
    columns: Columns = {}
    for row, (name, column) in enumerate(zip(COLUMNS, unpacked, strict=True)):
        if column is None:
            number = least[row]
            equal = _equal_column if -_KEPT_MAX < number < _KEPT_MAX else _equal_column.__wrapped__
            columns[name] = equal(name, number, count)
        else:
            _check_range(name, *bounds[row])
            columns[name] = (
                column if column.dtype == COLUMNS[name] else column.astype(COLUMNS[name])
            )
    return columns, dict(zip(COLUMNS, bounds, strict=True))


@lru_cache(maxsize=4096)
def _equal_column(name: str, number: int, count: int) -> npt.NDArray[Any]:
    """A column of equal numbers, which share the bytes of one. Small numbers come again."""
    _check_range(name, number, number)
    buffer = number.to_bytes(8, "little", signed=True)
    return np.ndarray((count,), COLUMNS[name], buffer, 0, (0,))


def _check_range(name: str, low: int, high: int) -> None:
    lowest, highest = _RANGES[name]
    if low < lowest or high > highest:
        raise BlockError(
            f"a packed block whose column {name!r} has numbers from {low} to {high}: expected"
            f" {lowest} to {highest}"
        )


def _texts(at: list[int], texts: list[str], count: int) -> dict[int, str]:
    found = dict(zip(at, texts, strict=False))
    is_one_each = len(at) == len(texts) == len(found)
    if not is_one_each or (at and not 0 <= min(at) <= max(at) < count):
        raise BlockError(
            f"a packed block with {len(texts)} texts, of the records {str(at)[:80]}: expected one"
            f" for each of them, below {count}"
        )
    return found


def _read_head(data: memoryview) -> tuple[dict[str, Any], int]:
    """The head, each field of its type, and where it ends."""
    if len(data) < _HEAD.size:
        raise BlockError(f"a packed block of {len(data)} bytes that is cut short before its head")
    end = _HEAD.size + _HEAD.unpack_from(data)[1]
    if end > len(data):
        raise BlockError(f"a packed block of {len(data)} bytes whose head ends at byte {end}")
    try:
        text = str(data[_HEAD.size : end], "utf-8")
        head: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise BlockError(f"a packed block whose head is no JSON: {reason}") from None
    if type(head) is not dict:
        raise BlockError(f"a packed block whose head is {text[:80]!r}: expected a JSON object")
    version = head.get("schema_version")
    check_version(b"%d" % version if type(version) is int else None)
    head.setdefault(CLUSTER, "")
    if head.keys() != _HEAD_FIELDS.keys():
        name = min(head.keys() ^ _HEAD_FIELDS.keys())
        what = "without" if name in _HEAD_FIELDS else "with the unknown"
        raise BlockError(f"a packed block {what} {name[:80]!r} in its head")
    for name, (kind, of) in _HEAD_FIELDS.items():
        value = head[name]
        found: type = type(value)
        if found is not kind or (of is not None and not {of}.issuperset(map(type, value))):
            expected = kind.__name__ if of is None else f"a list of {of.__name__}"
            raise BlockError(
                f"a packed block whose {name} is {repr(value)[:80]}: expected {expected}"
            )
    # Only an escape can have brought a lone surrogate into what was UTF-8.
    if "\\u" in text:
        _check_text(head)
    return head, end


def _check_text(head: dict[str, Any]) -> None:
    for name, (kind, of) in _HEAD_FIELDS.items():
        if str in (kind, of):
            try:
                "".join(head[name]).encode()
            except UnicodeEncodeError as error:
                raise BlockError(f"a packed block whose {name} is no UTF-8: {error}") from None
