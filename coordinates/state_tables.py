"""What the document of a saved state refers to by number: numpy arrays, and GTID sets."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from tallystick.coordinates.values.gtid import GtidSet

_NARROW_MIN = 1024
"""Arrays shorter than this are stored as they are."""

Array = npt.NDArray[Any]


class Writer:
    """What one document refers to by number.

    Attributes:
        index: How each array is stored.
        raw: The arrays.
        sets: Each GTID set as text; where sources have many intervals, the text of the others, and
            of each of these its first boundary, and the number of the array of distances between
            the following ones.
    """

    def __init__(self) -> None:
        self.index: list[Any] = []
        self.raw: list[bytes] = []
        self.sets: list[Any] = []
        self._equal: dict[GtidSet, int] = {}
        self._distances: dict[tuple[str, bytes], int] = {}
        self._known: dict[int, tuple[int, GtidSet]] = {}

    def array(self, array: Array) -> int:
        """Enter an array; the integers of a long one take the narrowest room."""
        dtype = array.dtype.str
        if dtype[0] == ">":
            array = array.astype(array.dtype.newbyteorder("<"))
            dtype = array.dtype.str
        if array.ndim != 1 or len(array) >= _NARROW_MIN:
            stored, base = _narrowed(array)
            self.index.append((dtype, array.shape, stored.dtype.str, base))
            self.raw.append(stored.tobytes())
        else:
            self.index.append((dtype, len(array)))
            self.raw.append(array.tobytes())
        return len(self.raw) - 1

    def gtids(self, gtids: GtidSet) -> int:
        """Enter a set: equal sets are written once."""
        known = self._known.get(id(gtids))
        if known is None:
            number = self._equal.setdefault(gtids, len(self.sets))
            if number == len(self.sets):
                self.sets.append(self._set(gtids))
            # The set is kept, so that no other one gets its id meanwhile.
            known = self._known[id(gtids)] = (number, gtids)
        return known[0]

    def _set(self, gtids: GtidSet) -> Any:
        few, many = gtids.parts()
        if not many:
            return str(few)
        return str(few), [(sid, int(of[0]), self._steps(of)) for sid, of in many.items()]

    def _steps(self, bounds: Array) -> int:
        """Distances in the narrowest room; equal ones once, as sets differ in few sources."""
        steps = bounds[1:] - bounds[:-1]
        narrow = steps.astype(np.min_scalar_type(steps.max()))
        key = narrow.dtype.str, narrow.tobytes()
        if key not in self._distances:
            self._distances[key] = self.array(narrow)
        return self._distances[key]


class Reader:
    """The arrays and sets that a document refers to.

    Attributes:
        whole: Has the collaborators of the parts that are read, by their names.
    """

    def __init__(self, whole: Any, sets: list[Any], index: list[Any], raw: memoryview) -> None:
        self.whole = whole
        self.arrays: list[Array] = []
        offset = 0
        for dtype, shape, *narrowed in index:
            if narrowed:
                stored, base = narrowed
                count = math.prod(shape) - (base is not None)
                column = np.frombuffer(raw, stored, count, offset)
                self.arrays.append(_widened(column, dtype, shape, base))
            else:
                column = np.frombuffer(raw, dtype, shape, offset)
                self.arrays.append(column.copy())
            offset += column.nbytes
        if offset != len(raw):
            raise ValueError(f"{len(raw)} bytes of arrays, expected {offset}")
        self.sets = [
            GtidSet.parse(one) if isinstance(one, str) else self._set(*one) for one in sets
        ]

    def _set(self, few: str, many: list[tuple[str, int, int]]) -> GtidSet:
        bounds = {
            sid: np.cumsum(np.concatenate(([first], self.arrays[number])), dtype=np.int64)
            for sid, first, number in many
        }
        return GtidSet.from_parts(GtidSet.parse(few), bounds)


def _narrowed(array: Array) -> tuple[Array, int | None]:
    """An array of integers in fewer bytes, and its first value if these are the differences."""
    if array.dtype.kind not in "iu" or array.ndim != 1:
        return array, None
    narrow = np.promote_types(np.min_scalar_type(array.min()), np.min_scalar_type(array.max()))
    if array.dtype == np.int64 and narrow.itemsize > 1:
        steps = array[1:] - array[:-1]
        low, high = int(steps.min()), int(steps.max())
        if low >= 0 and high < 2**32 and np.min_scalar_type(high).itemsize < narrow.itemsize:
            return steps.astype(np.min_scalar_type(high)), int(array[0])
    if narrow.kind in "iu" and narrow.itemsize < array.dtype.itemsize:
        return array.astype(narrow), None
    return array, None


def _widened(column: Array, dtype: str, shape: list[int], base: int | None) -> Array:
    """Inverse of `_narrowed`; always a copy of its own, which may be written to."""
    if base is None:
        return column.astype(dtype).reshape(shape)
    whole = np.empty(shape, dtype=dtype)
    whole[0] = base
    np.cumsum(column, out=whole[1:], dtype=dtype)
    whole[1:] += base
    return whole
