"""The packed form of a block: what its columns have in common once, and the rest in few bytes.

Columns hardly vary within a block: its records are of one log file and of one second. So a column
is written as its least number, and for each record by how much that is exceeded, in as few bytes as
hold it. A column of equal numbers has no bytes, one that most records lack has none for those, and
where an event begins follows from the one before (``docs/journal.md``, Blocks).
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from tallystick.coordinates.events._block_parts import CLUSTER, BlockParts, check_version
from tallystick.coordinates.events.journal import ABSENT, COLUMNS, SCHEMA_VERSION
from tallystick.coordinates.values.errors import BlockError, one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy.typing as npt

    from tallystick.coordinates.events.journal import Block, Columns

    Column = npt.NDArray[Any]

MAGIC = b"TSpk"
RECORDS_MAX = 2**13
"""No block has more: what a column has in common takes no bytes, so bytes alone would not limit
what a block unpacks to."""

_HEAD = Struct("<4sI")
"""Before the head: magic, and how many bytes the head has."""
_ALIGNMENT = 8
"""Masks and codes begin at a multiple of it."""
_CODES: dict[int, np.dtype[Any]] = {
    8: np.dtype("<i8"), 4: np.dtype("<u4"), 2: np.dtype("<u2"), 1: np.dtype("u1")
}  # fmt: skip
"""Bytes of a code, and their type."""
_PLAIN = 8
"""Of this width are numbers as they are, which differ by more than four bytes hold."""
_FEW = 512
"""Of fewer records masks and runs would save less than it takes to read them."""
_RECORDS_OF_A_RUN = 64
"""A run takes a few bytes of the head, so runs have as many records, or are not written."""
_KEPT_MAX = 2**16
"""Columns of equal numbers below this are kept: of types, flags, indices, and what is absent."""
_UINT32_MAX = 2**32 - 1
_INT64_MAX = 2**63 - 1

_NAMES = tuple(COLUMNS)
_TS = _NAMES.index("ts")
_RANGES = {
    name: (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)) for name, dtype in COLUMNS.items()
}
_NOTHING = (0,) * len(COLUMNS)
_least, _greatest = np.minimum.reduce, np.maximum.reduce


class Head(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """What is in front of a block's masks and codes, as JSON (``docs/journal.md``, Blocks)."""

    schema_version: int
    instance_id: str
    cluster: str = ""
    epoch: int
    first_sequence: int
    count: int
    channels: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    sids: tuple[str, ...] = ()
    least: tuple[int, ...]
    widths: tuple[int, ...] = _NOTHING
    masks: tuple[int, ...] = _NOTHING
    run_at: tuple[int, ...] = ()
    run_start: tuple[int, ...] = ()
    log_pos_after: tuple[int, ...] = ()
    text_at: tuple[int, ...] = ()
    texts: tuple[str, ...] = ()


class _Version(msgspec.Struct):
    schema_version: Any = None


_read_head = msgspec.json.Decoder(Head).decode
_read_version = msgspec.json.Decoder(_Version).decode
_write_head = msgspec.json.Encoder().encode


# Writing


def pack_block(block: Block) -> bytes:
    """A block of 1 to ``RECORDS_MAX`` records in the packed form, without a checksum."""
    run_at, run_start = _runs(block.columns)
    log_pos_after = _log_pos_after(block.columns)
    masks: dict[bytes, int] = {}
    parts: dict[tuple[int, int], list[bytes]] = {}
    packed = []
    for name in COLUMNS:
        follows = (name == "start" and run_at) or (name == "log_pos" and log_pos_after)
        column = _Packed(ABSENT) if follows else _pack(block.columns[name], masks)
        packed.append(column)
        if column.width:
            parts.setdefault((-column.width, column.mask), []).append(column.codes)
    head = Head(
        schema_version=SCHEMA_VERSION,
        instance_id=block.instance_id,
        cluster=block.cluster,
        epoch=block.epoch,
        first_sequence=block.first_sequence,
        count=len(block),
        channels=block.channels,
        files=block.files,
        sids=block.sids,
        least=tuple(column.least for column in packed),
        widths=_or_nothing(column.width for column in packed),
        masks=_or_nothing(column.mask for column in packed),
        run_at=tuple(run_at),
        run_start=tuple(run_start),
        log_pos_after=tuple(log_pos_after),
        text_at=tuple(block.texts),
        texts=tuple(block.texts.values()),
    )
    text = _write_head(head)
    text += b" " * (-(_HEAD.size + len(text)) % _ALIGNMENT)
    bits = b"".join(masks)
    bits += bytes(-len(bits) % _ALIGNMENT)
    codes = (one for _, of_part in sorted(parts.items()) for one in of_part)
    return b"".join((_HEAD.pack(MAGIC, len(text)), text, bits, *codes))


def _or_nothing(numbers: Iterable[int]) -> tuple[int, ...]:
    """They, or the default itself, which is not written."""
    found = tuple(numbers)
    return found if any(found) else _NOTHING


def _runs(columns: Columns) -> tuple[list[int], list[int]]:
    """The records that do not begin where the one before ends, and where they do."""
    start, length = columns["start"], columns["length"]
    if len(start) < _FEW:
        return [], []
    begins = (start[1:] != start[:-1] + length[:-1]).nonzero()[0] + 1
    if _RECORDS_OF_A_RUN * len(begins) > len(start):
        return [], []
    at = [0, *begins.tolist()]
    return at, start[at].tolist()


def _log_pos_after(columns: Columns) -> list[int]:
    """How far ``log_pos`` is after the end of its event, if it is always as far."""
    log_pos, start, length = columns["log_pos"], columns["start"], columns["length"]
    placed = (start >= 0).nonzero()[0]
    if len(start) < _FEW or not len(placed):
        return []
    first = placed[0]
    after = (int(log_pos[first]) - int(start[first]) - int(length[first])) & _UINT32_MAX
    return [after] if np.array_equal(log_pos, _log_pos(start, length, after)) else []


class _Packed(NamedTuple):
    """A column: the number of code 1, bytes of a code, the number of its mask, and the codes."""

    least: int
    width: int = 0
    mask: int = 0
    codes: bytes = b""


def _pack(column: Column, masks: dict[bytes, int]) -> _Packed:
    if len(column) == 1:
        return _Packed(int(column[0]))
    low, high = int(_least(column)), int(_greatest(column))
    if low == high:
        return _Packed(low)
    mask = 0
    if low == ABSENT and len(column) >= _FEW:
        present = column != ABSENT
        if 2 * np.count_nonzero(present) <= len(column):
            mask = masks.setdefault(np.packbits(present).tobytes(), len(masks) + 1)
            column = column[present]
            low, high = int(_least(column)), int(_greatest(column))
            if low == high:
                return _Packed(low, mask=mask)
    least = low
    if low == ABSENT:
        # As unsigned numbers those that are absent are the greatest.
        column = np.ascontiguousarray(column, dtype=np.int64)
        least = int(_least(column.view(np.uint64)))
    span = high - least + 1
    if low < ABSENT or span > _UINT32_MAX:
        return _Packed(0, _PLAIN, mask, column.astype(_CODES[_PLAIN]).tobytes())
    width = 1 if span < 2**8 else 2 if span < 2**16 else 4
    codes = np.subtract(column, least - 1, dtype=np.int64)
    if low == ABSENT:
        np.maximum(codes, 0, out=codes)
    return _Packed(least, width, mask, codes.astype(_CODES[width]).tobytes())


# Reading


def read_packed(data: memoryview, head: Head, at: int) -> BlockParts:
    """Read the packed form.

    Args:
        data: All of it.
        head: Its head.
        at: Where the head ends.

    Raises:
        BlockError: The bytes have another one.
    """
    count = head.count
    if not 0 < count <= RECORDS_MAX:
        raise BlockError(f"a packed block of {count} records: expected 1 to {RECORDS_MAX}")
    columns, bounds = _unpack(data, at, head)
    _follow(columns, bounds, head)
    _check_indices(bounds, head)
    return BlockParts(
        metadata=metadata_of(head),
        columns={name: columns[name] for name in _NAMES},
        dictionaries=_dictionaries(head),
        texts=_texts(head.text_at, head.texts, count),
        bounds=bounds,
    )


def is_all_of_a_record(data: memoryview, head: Head, at: int) -> bool:
    """Whether a head says all of a block, which has one record."""
    return (
        head.count == 1
        and len(data) == at
        and len(head.least) == len(COLUMNS)
        and head.widths == head.masks == _NOTHING
        and not (head.run_at or head.run_start or head.log_pos_after)
    )


def goes_on(before: Head, head: Head) -> bool:
    """Whether the record of a head comes right after another's, and its indices mean the same."""
    return (
        before.first_sequence + 1 == head.first_sequence
        and before.epoch == head.epoch
        and before.instance_id == head.instance_id
        and before.cluster == head.cluster
        and before.channels == head.channels
        and before.files == head.files
        and before.sids == head.sids
    )


def join_records(heads: Sequence[Head]) -> BlockParts:
    """Blocks of one record, of which each goes on after the one before, as one.

    Raises:
        BlockError: One of them cannot be.
    """
    first = heads[0]
    at_any_time = {(*head.least[:_TS], 0, *head.least[_TS + 1 :]) for head in heads}
    columns: Columns = {}
    bounds: dict[str, tuple[int, int]] = {}
    differ: Iterable[int] = range(len(_NAMES))
    if len(at_any_time) == 1:
        # Heartbeats differ by their times alone; what else they have, those of all servers have.
        equal_columns, equal_bounds = _equal_columns(at_any_time.pop(), len(heads))
        columns |= equal_columns
        bounds |= equal_bounds
        differ = [_TS]
    for at in differ:
        name, numbers = _NAMES[at], [head.least[at] for head in heads]
        low, high = bounds[name] = min(numbers), max(numbers)
        _check_range(name, low, high)
        columns[name] = np.array(numbers, dtype=COLUMNS[name])
    _check_indices(bounds, first)
    texts = [_texts(head.text_at, head.texts, 1) for head in heads]
    return BlockParts(
        metadata=metadata_of(first) | {"count": b"%d" % len(heads)},
        columns=columns,
        dictionaries=_dictionaries(first),
        texts={at: text for at, found in enumerate(texts) for text in found.values()},
        bounds=bounds,
    )


@lru_cache(maxsize=1024)
def _equal_columns(
    numbers: tuple[int, ...], count: int
) -> tuple[Columns, dict[str, tuple[int, int]]]:
    """Columns, each of equal numbers, and their bounds."""
    named = dict(zip(_NAMES, numbers, strict=True))
    columns = {name: _equal(name, number, count) for name, number in named.items()}
    return columns, {name: (number, number) for name, number in named.items()}


def metadata_of(head: Head) -> dict[str, bytes]:
    """What a message's headers have of it."""
    metadata = {
        "schema_version": b"%d" % head.schema_version,
        "instance_id": head.instance_id.encode(),
        "epoch": b"%d" % head.epoch,
        "first_sequence": b"%d" % head.first_sequence,
        "count": b"%d" % head.count,
    }
    if head.cluster:
        metadata[CLUSTER] = head.cluster.encode()
    return metadata


def _dictionaries(head: Head) -> dict[str, tuple[str, ...]]:
    return {"channel": head.channels, "file": head.files, "sid": head.sids}


def _check_indices(bounds: Mapping[str, tuple[int, int]], head: Head) -> None:
    for name, values in _dictionaries(head).items():
        low, high = bounds[name]
        if low < ABSENT or high >= len(values):
            raise BlockError(
                f"a packed block whose column {name!r} has indices from {low} to {high}: expected"
                f" {ABSENT} to {len(values) - 1}, as it has {len(values)} {name}s"
            )


def _unpack(data: memoryview, at: int, head: Head) -> tuple[Columns, dict[str, tuple[int, int]]]:
    """The columns, but for those that follow from others, and their bounds."""
    count, least, widths, masks = head.count, head.least, head.widths, head.masks
    if not len(least) == len(widths) == len(masks) == len(COLUMNS):
        raise BlockError(
            f"a packed block with {len(least)} least numbers, {len(widths)} widths, {len(masks)}"
            f" masks: expected {len(COLUMNS)} each"
        )
    if not {0, *_CODES}.issuperset(widths):
        raise BlockError(f"a packed block of widths {str([*widths])[:80]}: expected 0, 1, 2, 4, 8")
    present, at = _read_masks(data, at, count, masks)
    counts = [count, *map(len, present)]
    end = at + sum(width * counts[mask] for width, mask in zip(widths, masks, strict=True))
    if len(data) != end:
        raise BlockError(f"a packed block of {len(data)} bytes whose columns end at byte {end}")
    # What has one width and mask lies together: each step is made for all of it at once.
    groups: dict[tuple[int, int], list[int]] = {}
    for row, (width, mask) in enumerate(zip(widths, masks, strict=True)):
        groups.setdefault((-width, mask), []).append(row)
    columns: Columns = {}
    bounds: dict[str, tuple[int, int]] = {}
    for (width, mask), rows in sorted(groups.items()):
        names, numbers = [_NAMES[row] for row in rows], [least[row] for row in rows]
        if not width and not mask:
            for name, number in zip(names, numbers, strict=True):
                columns[name], bounds[name] = _equal(name, number, count), (number, number)
            continue
        values: Sequence[Any] = numbers
        ends = [(number, number) for number in numbers]
        if width:
            codes = np.frombuffer(data, _CODES[-width], counts[mask] * len(rows), at)
            at += codes.nbytes
            values, ends = _numbers(codes.reshape(len(rows), -1), numbers)
        if counts[mask] < count:
            ends = [(min(low, ABSENT), max(high, ABSENT)) for low, high in ends]
        for name, of_present, (low, high) in zip(names, values, ends, strict=True):
            _check_range(name, low, high)
            column = of_present
            if mask:
                column = np.full(count, ABSENT, COLUMNS[name])
                column[present[mask - 1]] = of_present
            columns[name] = column.astype(COLUMNS[name], copy=False)
            bounds[name] = low, high
    return columns, bounds


def _read_masks(
    data: memoryview, at: int, count: int, masks: Sequence[int]
) -> tuple[list[Column], int]:
    """Of each mask the records that it has, and where the masks end."""
    number = max(masks)
    if not number and not any(masks):
        return [], at
    size = (count + 7) // 8
    end = at + number * size
    if not 0 <= min(masks) <= number <= len(COLUMNS) or end > len(data):
        raise BlockError(f"a packed block of {len(data)} bytes with the masks {str([*masks])[:80]}")
    bits = np.frombuffer(data, np.uint8, number * size, at).reshape(number, size)
    present = [row.nonzero()[0] for row in np.unpackbits(bits, axis=1, count=count)]
    if not all(map(len, present)):
        raise BlockError("a packed block with a mask of no record")
    return present, end + (-(end - at) % _ALIGNMENT)


def _numbers(codes: Column, least: list[int]) -> tuple[Any, list[tuple[int, int]]]:
    """What columns of codes stand for, and the bounds of each."""
    lows, highs = _least(codes, axis=1).tolist(), _greatest(codes, axis=1).tolist()
    if codes.itemsize == _PLAIN:
        return codes, list(zip(lows, highs, strict=True))
    bases = [number - 1 for number in least]
    if min(bases) < ABSENT or max(bases) >= _INT64_MAX:
        raise BlockError(
            f"a packed block with codes from {str(least)[:80]}: expected 0 to {_INT64_MAX}"
        )
    values = codes + np.array(bases, dtype=np.int64)[:, np.newaxis]
    if 0 in lows:
        np.putmask(values, codes == 0, ABSENT)
    lows, highs = (
        [code + base if code else ABSENT for code, base in zip(ends, bases, strict=True)]
        for ends in (lows, highs)
    )
    return values, list(zip(lows, highs, strict=True))


def _equal(name: str, number: int, count: int) -> Column:
    """A column of equal numbers."""
    make = _equal_column if -_KEPT_MAX < number < _KEPT_MAX else _equal_column.__wrapped__
    return make(name, number, count)


@lru_cache(maxsize=4096)
def _equal_column(name: str, number: int, count: int) -> Column:
    _check_range(name, number, number)
    # All records share the bytes of one number.
    buffer = number.to_bytes(8, "little", signed=True)
    return np.ndarray((count,), COLUMNS[name], buffer, 0, (0,))


def _check_range(name: str, low: int, high: int) -> None:
    lowest, highest = _RANGES[name]
    if low < lowest or high > highest:
        raise BlockError(
            f"a packed block whose column {name!r} has numbers from {low} to {high}: expected"
            f" {lowest} to {highest}"
        )


def _follow(columns: Columns, bounds: dict[str, tuple[int, int]], head: Head) -> None:
    """Add the columns that follow from others."""
    at, starts, after = head.run_at, head.run_start, head.log_pos_after
    followed = []
    if at or starts:
        ends = [*at[1:], head.count]
        is_ascending = all(one < end for one, end in zip(at, ends, strict=False))
        if len(at) != len(starts) or at[0] != 0 or not is_ascending:
            raise BlockError(
                f"a packed block with {len(starts)} runs that begin at {str([*at])[:80]}: expected"
                f" 0 and higher and higher records below {head.count}"
            )
        if min(starts) < ABSENT or max(starts) > _INT64_MAX:
            raise BlockError(f"a packed block with runs from {str([*starts])[:80]}")
        columns["start"] = _starts(at, starts, columns["length"])
        followed.append("start")
    if after:
        if len(after) > 1 or not 0 <= after[0] <= _UINT32_MAX:
            raise BlockError(f"a packed block whose log_pos_after is {str([*after])[:80]}")
        columns["log_pos"] = _log_pos(columns["start"], columns["length"], after[0])
        followed.append("log_pos")
    for name in followed:
        bounds[name] = int(_least(columns[name])), int(_greatest(columns[name]))


def _starts(at: Sequence[int], starts: Sequence[int], length: Column) -> Column:
    """Where records begin: in each run where the one before ends."""
    ends = np.cumsum(length)
    before = ends - length
    offsets = np.array(starts, dtype=np.int64) - before[[*at]]
    start: Column = before + np.repeat(offsets, np.diff([*at, len(length)]))
    return start


def _log_pos(start: Column, length: Column, after: int) -> Column:
    """``log_pos`` of events that are in a file: as far after their ends, in four bytes."""
    return np.where(start >= 0, (start + length + after) & _UINT32_MAX, ABSENT)


def _texts(at: Sequence[int], texts: Sequence[str], count: int) -> dict[int, str]:
    found = dict(zip(at, texts, strict=False))
    is_one_each = len(at) == len(texts) == len(found)
    if not is_one_each or (at and not 0 <= min(at) <= max(at) < count):
        raise BlockError(
            f"a packed block with {len(texts)} texts, of the records {str([*at])[:80]}: expected"
            f" one for each of them, below {count}"
        )
    return found


def read_head(data: memoryview) -> tuple[Head, int]:
    """The head, and where it ends.

    Raises:
        BlockError: The bytes begin otherwise, or it has another form.
    """
    if len(data) < _HEAD.size:
        raise BlockError(f"a packed block of {len(data)} bytes that is cut short before its head")
    end = _HEAD.size + _HEAD.unpack_from(data)[1]
    if end > len(data):
        raise BlockError(f"a packed block of {len(data)} bytes whose head ends at byte {end}")
    text = data[_HEAD.size : end]
    try:
        head = _read_head(text)
    except (ValueError, RecursionError) as error:
        _check_version(text)
        raise BlockError(f"a packed block whose head cannot be read: {one_line(error)}") from None
    if head.schema_version != SCHEMA_VERSION:
        _check_version(text)
    return head, end


def _check_version(head: memoryview) -> None:
    """That of a head which may have other fields than those of this version."""
    try:
        version = _read_version(head).schema_version
    except (ValueError, RecursionError):
        return  # it is no object
    check_version(b"%d" % version if type(version) is int else None)
