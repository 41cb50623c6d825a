"""The binary form of GTID sets: in PREVIOUS_GTIDS events and in the dump protocol.

Plain: the number of sids, and for each its UUID, the number of intervals and the intervals, end
exclusive. Tagged (server 8.3): the number of sids between two bytes 1, and after each UUID its tag.
"""

from __future__ import annotations

import struct

import numpy as np

from tallystick.coordinates.values._gno_bounds import GNO_MIN, Bounds, as_array, pack
from tallystick.coordinates.values._gtid_text import TAG_LENGTH_MAX, UUID_LENGTH, read_sid
from tallystick.coordinates.values.errors import GtidSetParseError

_U64 = struct.Struct("<Q")
_TAGGED = 1


def write_set(bounds_by_sid: dict[str, Bounds]) -> bytes:
    """Write sorted sources; the tagged form only if a tag occurs, as servers do."""
    is_tagged = any(len(sid) > UUID_LENGTH for sid in bounds_by_sid)
    header = len(bounds_by_sid)
    if is_tagged:
        header = _TAGGED << 56 | header << 8 | _TAGGED
    pieces = [_U64.pack(header)]
    for sid, bounds in bounds_by_sid.items():
        pieces.append(bytes.fromhex(sid[:UUID_LENGTH].replace("-", "")))
        if is_tagged:
            tag = sid[UUID_LENGTH + 1 :].encode("ascii")
            # The server's variable-length code for a number below 64 is the number doubled.
            pieces += (bytes((2 * len(tag),)), tag)
        pieces.append(_U64.pack(len(bounds) // 2))
        pieces.append(as_array(bounds).astype("<i8", copy=False).tobytes())
    return b"".join(pieces)


def read_set(encoded: bytes) -> dict[str, Bounds]:
    """Read sources and sort them: clients of the dump protocol write them in any order.

    Raises:
        GtidSetParseError: They are cut short, too long, or hold what no server writes.
    """
    reader = _Reader(encoded)
    header = reader.u64("the number of sids")
    is_tagged = header >> 56 == _TAGGED and header & 0xFF == _TAGGED
    if header >> 56 and not is_tagged:
        raise reader.malformed(0, f"a known format, found the header {header:#018x}")
    sid_count = header >> 8 & (1 << 48) - 1 if is_tagged else header
    found: dict[str, Bounds] = {}
    for _ in range(sid_count):
        begin = reader.at
        sid = reader.sid(is_tagged=is_tagged)
        if sid in found:
            raise reader.malformed(begin, f"each sid once, found {sid!r} again")
        found[sid] = reader.bounds()
    reader.require_end()
    return dict(sorted(found.items()))


class _Reader:
    """Walks over an encoded set; errors name the byte."""

    def __init__(self, encoded: bytes) -> None:
        if not isinstance(encoded, (bytes, bytearray, memoryview)):
            raise TypeError(f"an encoded GTID set must be bytes, not {type(encoded).__name__}")
        self._encoded = bytes(encoded)
        self.at = 0

    def take(self, length: int, what: str) -> bytes:
        taken = self._encoded[self.at : self.at + length]
        if len(taken) < length:
            raise self.malformed(
                self.at, f"{length} bytes of {what}, found {len(self._encoded) - self.at}"
            )
        self.at += length
        return taken

    def u64(self, what: str) -> int:
        value: int = _U64.unpack(self.take(8, what))[0]
        return value

    def sid(self, *, is_tagged: bool) -> str:
        digits = self.take(16, "a UUID").hex()
        uuid = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
        if not is_tagged:
            return uuid
        begin = self.at
        doubled = self.take(1, "a tag length")[0]
        if doubled % 2 or doubled > 2 * TAG_LENGTH_MAX:
            raise self.malformed(
                begin, f"twice a tag length up to {TAG_LENGTH_MAX}, found {doubled}"
            )
        tag = self.take(doubled // 2, "a tag").decode("latin-1")
        if not tag:
            return uuid
        try:
            sid = read_sid(f"{uuid}:{tag}")
        except GtidSetParseError:
            sid = ""
        if sid != f"{uuid}:{tag}":
            raise self.malformed(begin + 1, f"a tag in lower case, found {tag!r}")
        return sid

    def bounds(self) -> Bounds:
        begin = self.at
        interval_count = self.u64("the number of intervals")
        if not interval_count:
            raise self.malformed(begin, "at least one interval, found none")
        begin = self.at
        # Numbers from 2**63 on come out negative, and so break the ascending order.
        numbers = np.frombuffer(self.take(16 * interval_count, "intervals"), dtype="<i8")
        is_wrong = np.concatenate(([numbers[0] < GNO_MIN], numbers[1:] <= numbers[:-1]))
        wrong = np.flatnonzero(is_wrong)
        if len(wrong):
            index = int(wrong[0])
            raise self.malformed(
                begin + 8 * index,
                "numbers from 1 that ascend and end below 2**63,"
                f" found {int(numbers[index])} as number {index + 1} of its sid",
            )
        return pack(numbers)

    def require_end(self) -> None:
        if self.at != len(self._encoded):
            raise self.malformed(
                self.at, f"the end, found {len(self._encoded) - self.at} bytes more"
            )

    def malformed(self, at: int, expected: str) -> GtidSetParseError:
        return GtidSetParseError(f"malformed GTID set encoding at byte {at}: expected {expected}")
