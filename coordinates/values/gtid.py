"""GTIDs and GTID sets as values: parse, print, encode, and the algebra of sets.

A *sid* is the text that names one counter: `uuid`, or `uuid:tag` from server 8.3, in lower case.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, final

import numpy as np

from tallystick.coordinates.values import _gno_bounds as gno_bounds
from tallystick.coordinates.values import _gtid_binary as gtid_binary
from tallystick.coordinates.values import _gtid_text as gtid_text
from tallystick.coordinates.values._gno_bounds import GNO_END, GNO_MIN, Bounds
from tallystick.coordinates.values._gtid_text import UUID_LENGTH
from tallystick.coordinates.values.errors import CoordinateError, GtidSetParseError

if TYPE_CHECKING:
    from numpy.typing import NDArray

SHORT_TEXT = 1024
"""Texts up to this length stay with their sets; of longer ones only the newest are remembered."""
NEWEST_TEXTS = 8
"""A row has the same sets in several places: so many serve the row that is being judged."""
FEW_GROUPS = 16
"""Up to so many GTIDs a set is built without numpy."""


@final
@dataclass(frozen=True, slots=True, order=True)
class Gtid:
    """One global transaction identifier: UUID, tag (`""` when untagged) and GNO."""

    uuid: str
    tag: str
    gno: int

    def __post_init__(self) -> None:
        sid = gtid_text.read_sid(f"{self.uuid}:{self.tag}" if self.tag else self.uuid)
        object.__setattr__(self, "uuid", sid[:UUID_LENGTH])
        object.__setattr__(self, "tag", sid[UUID_LENGTH + 1 :])
        object.__setattr__(self, "gno", _require_gno(self.gno))

    @classmethod
    def parse(cls, text: str, tags: bool = True) -> Gtid:
        """Read `uuid:gno` or `uuid:tag:gno` as the server does.

        Raises:
            GtidSetParseError: The text is no GTID, or has a tag where `tags` is false.
        """
        return cls._parse(gtid_text.require_text(text, "a GTID"), tags)

    @staticmethod
    @lru_cache(maxsize=1024)
    def _parse(text: str, tags: bool) -> Gtid:
        # The same GTID is looked up in one set after the other.
        return Gtid(*gtid_text.read_gtid(text, tags=tags))

    @property
    def sid(self) -> str:
        """The counter that numbered this GTID: `uuid` or `uuid:tag`."""
        return f"{self.uuid}:{self.tag}" if self.tag else self.uuid

    def __str__(self) -> str:
        return f"{self.sid}:{self.gno}"


@final
class GtidSet:
    """An immutable set of GTIDs in the one canonical form, so equal sets are equal values.

    The constructor takes intervals `(sid, first, last)`, both ends included, in any order,
    overlapping or not; iterating yields them in canonical order. The size is `count()`: it may
    exceed what `len()` can return, so there is none.
    """

    __slots__ = ("_bounds", "_hash", "_text")
    _bounds: dict[str, Bounds]
    _hash: int
    """Only once it was asked for."""
    _text: str
    """The same, and only if it is short."""

    EMPTY: ClassVar[GtidSet]

    def __init__(self, intervals: Iterable[tuple[str, int, int]] = ()) -> None:
        flat: dict[str, list[int]] = {}
        for sid, first, last in intervals:
            start, end = _require_gno(first), _require_gno(last) + 1
            if start >= end:
                raise CoordinateError(f"reversed interval {first}-{last} of {sid!r}")
            flat.setdefault(gtid_text.read_sid(sid), []).extend((start, end))
        object.__setattr__(self, "_bounds", _from_flat(flat))

    @classmethod
    def _of(cls, bounds: dict[str, Bounds]) -> GtidSet:
        """Wrap what is canonical already: sids ascending, no empty boundaries."""
        made = cls.__new__(cls)
        object.__setattr__(made, "_bounds", bounds)
        return made

    # Reading and printing

    @classmethod
    def parse(cls, text: str, tags: bool = True) -> GtidSet:
        """Read a GTID set in any spelling that a server accepts.

        Args:
            text: It ends at its first NUL, if it has one.
            tags: Whether the server knows tags (8.3 and later).

        Raises:
            GtidSetParseError: The text breaks the grammar; the message has position and text.
        """
        text = gtid_text.require_text(text, "a GTID set")
        return (cls._read_short if len(text) <= SHORT_TEXT else cls._read_long)(text, tags)

    @staticmethod
    def _read(text: str, tags: bool) -> GtidSet:
        return GtidSet._of(_from_flat(gtid_text.read_set(text, tags=tags)))

    @staticmethod
    @lru_cache(maxsize=1024)
    def _read_short(text: str, tags: bool) -> GtidSet:
        # A server prints the same set row after row, and one set is in several sources.
        return GtidSet._read(text, tags)

    @staticmethod
    @lru_cache(maxsize=NEWEST_TEXTS)
    def _read_long(text: str, tags: bool) -> GtidSet:
        return GtidSet._read(text, tags)

    @classmethod
    def parse_owned(cls, text: str, tags: bool = True) -> GtidSet:
        """Read `@@gtid_owned`, where `#thread` follows each GNO; the threads are dropped.

        Raises:
            GtidSetParseError: The text without owners is no GTID set.
        """
        text = gtid_text.blank_owners(gtid_text.require_text(text, "@@gtid_owned"))
        return cls.parse(text, tags)

    def __str__(self) -> str:
        try:
            return self._text
        except AttributeError:
            if not self._is_small():
                return self._print_long(self)
            text = gtid_text.print_set(self._bounds)
            if len(text) <= SHORT_TEXT:
                object.__setattr__(self, "_text", text)
            return text

    @staticmethod
    @lru_cache(maxsize=NEWEST_TEXTS)
    def _print_long(gtids: GtidSet) -> str:
        return gtid_text.print_set(gtids._bounds)

    def is_printed_as(self, text: str) -> bool:
        """Return whether a server prints the set so: canonical, but for newlines after commas."""
        return text.replace("\n", "") == str(self)

    def _is_small(self) -> bool:
        return len(self._bounds) <= FEW_GROUPS and not any(
            isinstance(bounds, np.ndarray) for bounds in self._bounds.values()
        )

    def __repr__(self) -> str:
        return f"GtidSet.parse({str(self)!r})"

    # Construction from columns of numbers

    @classmethod
    def from_bounds(cls, bounds_by_sid: Mapping[str, Sequence[int]]) -> GtidSet:
        """Build the set of boundaries `[start, end, start, end, …]`, ends exclusive.

        Args:
            bounds_by_sid: Each list strictly ascending and not empty, which is not checked again.

        Raises:
            CoordinateError: A boundary is none of a GNO.
        """
        made: dict[str, Bounds] = {}
        for sid in sorted(bounds_by_sid):
            bounds = bounds_by_sid[sid]
            if bounds[0] < GNO_MIN or bounds[-1] > GNO_END:
                _require_gno(bounds[0])
                _require_gno(bounds[-1] - 1)
            made[gtid_text.read_sid(sid)] = gno_bounds.pack(bounds)
        return cls._of(made)

    @classmethod
    def from_parts(cls, few: GtidSet, many: Mapping[str, NDArray[np.int64]]) -> GtidSet:
        """Inverse of `parts`, which is not checked."""
        packed = {sid: gno_bounds.pack(bounds) for sid, bounds in many.items()}
        return cls._of(dict(sorted({**few._bounds, **packed}.items())))

    @classmethod
    def from_gnos(cls, sid: str, gnos: NDArray[np.int64]) -> GtidSet:
        """Build the set of many GNOs of one sid; they may be unsorted and repeated.

        Raises:
            CoordinateError: A number is no GNO.
        """
        sid = gtid_text.read_sid(sid)
        gnos = _require_gnos(gnos)
        if not len(gnos):
            return cls.EMPTY
        return cls._of({sid: gno_bounds.from_ascending(np.sort(gnos, kind="stable"))})

    @classmethod
    def from_groups(
        cls, sids: Sequence[str], sid_index: NDArray[np.integer[Any]], gnos: NDArray[np.int64]
    ) -> GtidSet:
        """Build the set of the GTIDs `(sids[sid_index[i]], gnos[i])`, in any order, maybe repeated.

        Raises:
            CoordinateError: A number is no GNO, an index has no sid, or the lengths differ.
        """
        gnos = _require_gnos(gnos)
        index = np.asarray(sid_index)
        if index.shape != gnos.shape:
            raise CoordinateError(f"{index.size} sid indexes for {gnos.size} GNOs")
        if not len(gnos):
            return cls.EMPTY
        if _min(index) < 0 or _max(index) >= len(sids):
            raise CoordinateError(
                f"sid indexes from {index.min()} to {index.max()}, expected 0 to {len(sids) - 1}"
            )
        if len(gnos) <= FEW_GROUPS:
            flat: dict[str, list[int]] = {}
            for at, gno in zip(index.tolist(), gnos.tolist(), strict=True):
                flat.setdefault(gtid_text.read_sid(sids[at]), []).extend((gno, gno + 1))
            return cls._of(_from_flat(flat))
        if not (index[1:] != index[:-1]).any() and not (gnos[1:] < gnos[:-1]).any():
            sid = gtid_text.read_sid(sids[int(index[0])])
            return cls._of({sid: gno_bounds.from_ascending(gnos)})
        order = np.lexsort((gnos, index))
        index, gnos = index[order], gnos[order]
        cuts = np.concatenate(([0], (index[1:] != index[:-1]).nonzero()[0] + 1, [len(index)]))
        found: dict[str, Bounds] = {}
        for begin, end in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
            sid = gtid_text.read_sid(sids[int(index[begin])])
            bounds = gno_bounds.from_ascending(gnos[begin:end])
            found[sid] = gno_bounds.union(found[sid], bounds) if sid in found else bounds
        return cls._of(dict(sorted(found.items())))

    # Parts

    def __iter__(self) -> Iterator[tuple[str, int, int]]:
        """Return the intervals `(sid, first, last)`, both ends included, in canonical order."""
        for sid, bounds in self._bounds.items():
            numbers = gno_bounds.as_ints(bounds)
            for start, end in zip(numbers[0::2], numbers[1::2], strict=True):
                yield sid, start, end - 1

    def bounds(self) -> dict[str, list[int]]:
        """Return the boundaries of each counter as `from_bounds` takes them, in new lists."""
        return {sid: [*gno_bounds.as_ints(bounds)] for sid, bounds in self._bounds.items()}

    def parts(self) -> tuple[GtidSet, dict[str, NDArray[np.int64]]]:
        """Return the set of those counters that have few intervals, and the others' boundaries."""
        many = {sid: b for sid, b in self._bounds.items() if isinstance(b, np.ndarray)}
        if not many:
            return self, many
        return self._of({sid: b for sid, b in self._bounds.items() if sid not in many}), many

    def sids(self) -> tuple[str, ...]:
        """Return the counters that occur, in canonical order."""
        return tuple(self._bounds)

    def uuids(self) -> list[str]:
        """Return the UUIDs that occur, in canonical order, each once whatever its tags."""
        return [*dict.fromkeys(sid[:UUID_LENGTH] for sid in self._bounds)]

    def restrict(self, sid_or_uuid: str) -> GtidSet:
        """Keep one `uuid:tag`, or everything of one UUID, tagged or not."""
        wanted = gtid_text.read_sid(sid_or_uuid)
        is_uuid = len(wanted) == UUID_LENGTH
        kept = {
            sid: bounds
            for sid, bounds in self._bounds.items()
            if (sid[:UUID_LENGTH] if is_uuid else sid) == wanted
        }
        return GtidSet._of(kept)

    def without_uuid(self, uuid: str) -> GtidSet:
        """Drop everything of one UUID, tagged or not."""
        unwanted = gtid_text.read_sid(uuid)
        if len(unwanted) > UUID_LENGTH:
            raise CoordinateError(f"expected a UUID without a tag, found {uuid!r}")
        kept = {sid: b for sid, b in self._bounds.items() if sid[:UUID_LENGTH] != unwanted}
        return GtidSet._of(kept)

    def first(self, how_many: int) -> GtidSet:
        """Keep the first GTIDs in canonical order: a witness that a person can check by hand."""
        kept: dict[str, Bounds] = {}
        for sid, bounds in self._bounds.items():
            if how_many <= 0:
                break
            kept[sid] = gno_bounds.first(bounds, how_many)
            how_many -= gno_bounds.count(kept[sid])
        return GtidSet._of(kept)

    # Membership and size

    def count(self) -> int:
        """Count the GTIDs."""
        return sum(gno_bounds.count(bounds) for bounds in self._bounds.values())

    def __bool__(self) -> bool:
        return bool(self._bounds)

    def __contains__(self, gtid: object) -> bool:
        """Return whether a `Gtid`, or the text of one, is in the set.

        Raises:
            GtidSetParseError: The text is no GTID.
        """
        if not isinstance(gtid, Gtid):
            gtid = Gtid.parse(gtid)  # type: ignore[arg-type]  # anything but text is refused there
        bounds = self._bounds.get(gtid.sid)
        return bounds is not None and gno_bounds.contains(bounds, gtid.gno)

    def contains_gnos(self, sid: str, gnos: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each GNO of one sid is in the set."""
        numbers = _require_gnos(gnos)
        bounds = self._bounds.get(gtid_text.read_sid(sid))
        if bounds is None:
            return np.zeros(len(numbers), dtype=np.bool_)
        index = np.searchsorted(gno_bounds.as_array(bounds), numbers, side="right")
        return (index & 1).astype(np.bool_)

    def contains_ranges(
        self, sid: str, first: NDArray[np.int64], last: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Whether all GNOs of one sid from each of `first` to that of `last` are in the set."""
        bounds = self._bounds.get(gtid_text.read_sid(sid))
        if bounds is None:
            return np.zeros(len(first), dtype=np.bool_)
        numbers = gno_bounds.as_array(bounds)
        index = numbers.searchsorted(first, "right")
        is_in: NDArray[np.bool_] = (index & 1).astype(np.bool_)
        is_in &= numbers.searchsorted(last, "right") == index
        return is_in

    # Algebra

    def __or__(self, other: GtidSet) -> GtidSet:
        if not isinstance(other, GtidSet):
            return NotImplemented
        if not other._bounds or self is other:
            return self
        if not self._bounds:
            return other
        merged = dict(self._bounds)
        for sid, bounds in other._bounds.items():
            mine = merged.get(sid)
            merged[sid] = bounds if mine is None else gno_bounds.union(mine, bounds)
        if len(merged) > len(self._bounds):
            merged = dict(sorted(merged.items()))
        return GtidSet._of(merged)

    def __sub__(self, other: GtidSet) -> GtidSet:
        if not isinstance(other, GtidSet):
            return NotImplemented
        if not self._bounds or not other._bounds:
            return self
        kept: dict[str, Bounds] = {}
        for sid, bounds in self._bounds.items():
            theirs = other._bounds.get(sid)
            rest = bounds if theirs is None else gno_bounds.subtract(bounds, theirs)
            if len(rest):
                kept[sid] = rest
        return GtidSet._of(kept) if kept else GtidSet.EMPTY

    def __and__(self, other: GtidSet) -> GtidSet:
        if not isinstance(other, GtidSet):
            return NotImplemented
        kept: dict[str, Bounds] = {}
        for sid, bounds in self._bounds.items():
            theirs = other._bounds.get(sid)
            if theirs is not None:
                common = gno_bounds.intersect(bounds, theirs)
                if len(common):
                    kept[sid] = common
        return GtidSet._of(kept) if kept else GtidSet.EMPTY

    def isdisjoint(self, other: GtidSet) -> bool:
        """Return whether no GTID is in both sets."""
        return all(
            gno_bounds.is_disjoint(bounds, other._bounds[sid])
            for sid, bounds in self._bounds.items()
            if sid in other._bounds
        )

    # Comparison: by inclusion, as with Python's sets

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GtidSet):
            return NotImplemented
        mine, theirs = self._bounds, other._bounds
        return mine.keys() == theirs.keys() and all(
            gno_bounds.equal(bounds, theirs[sid]) for sid, bounds in mine.items()
        )

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            parts = tuple(
                (sid, bounds.tobytes() if isinstance(bounds, np.ndarray) else bounds)
                for sid, bounds in self._bounds.items()
            )
            object.__setattr__(self, "_hash", hash(parts))
            return self._hash

    def __le__(self, other: GtidSet) -> bool:
        if not isinstance(other, GtidSet):
            return NotImplemented
        for sid, bounds in self._bounds.items():
            theirs = other._bounds.get(sid)
            if theirs is None or not gno_bounds.is_subset(bounds, theirs):
                return False
        return True

    def __lt__(self, other: GtidSet) -> bool:
        if not isinstance(other, GtidSet):
            return NotImplemented
        return self <= other and self != other

    def __ge__(self, other: GtidSet) -> bool:
        if not isinstance(other, GtidSet):
            return NotImplemented
        return other <= self

    def __gt__(self, other: GtidSet) -> bool:
        if not isinstance(other, GtidSet):
            return NotImplemented
        return other < self

    # Bytes

    def encode(self) -> bytes:
        """Write the binary form of PREVIOUS_GTIDS; the tagged form only if a tag occurs."""
        return gtid_binary.write_set(self._bounds)

    @classmethod
    def decode(cls, encoded: bytes) -> GtidSet:
        """Read the binary form of PREVIOUS_GTIDS, plain or tagged.

        Raises:
            GtidSetParseError: They are cut short, too long, or hold what no server writes.
        """
        return cls._of(gtid_binary.read_set(encoded))

    def __reduce__(self) -> tuple[Callable[[bytes], GtidSet], tuple[bytes]]:
        return GtidSet.decode, (self.encode(),)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a GtidSet is immutable: cannot set {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a GtidSet is immutable: cannot delete {name!r}")


def is_canonical_server_text(text: str) -> bool:
    """Return whether a text is what a server prints: canonical, but for the newlines after commas.

    Malformed text is not canonical.
    """
    try:
        parsed = GtidSet.parse(text)
    except GtidSetParseError:
        return False
    return parsed.is_printed_as(text)


def _from_flat(flat: Mapping[str, list[int]]) -> dict[str, Bounds]:
    return {sid: gno_bounds.from_pairs(flat[sid]) for sid in sorted(flat)}


def _require_gno(gno: int) -> int:
    # A number of numpy wraps around at its limit, and does not hash and print as a plain one does.
    number = operator.index(gno)
    if not GNO_MIN <= number < GNO_END:
        raise CoordinateError(f"expected a GNO from {GNO_MIN} to {GNO_END - 1}, found {number}")
    return number


# As the methods of arrays, but without a call of Python's for each of many small ones.
_min, _max = np.minimum.reduce, np.maximum.reduce


def _require_gnos(gnos: NDArray[np.int64]) -> NDArray[np.int64]:
    numbers = np.asarray(gnos)
    if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu"):
        raise TypeError(f"expected one column of integers, found {numbers.ndim}-d {numbers.dtype}")
    # Unsigned numbers from 2**63 on become negative here, and so are refused below.
    numbers = numbers.astype(np.int64, copy=False)
    if len(numbers) and (_min(numbers) < GNO_MIN or _max(numbers) >= GNO_END):
        raise CoordinateError(
            f"expected GNOs from {GNO_MIN} to {GNO_END - 1},"
            f" found {numbers.min()} to {numbers.max()}"
        )
    return numbers


GtidSet.EMPTY = GtidSet()
