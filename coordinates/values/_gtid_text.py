"""The text of GTIDs and GTID sets as a MySQL server reads and prints it.

Reading follows the server's own scanner, including what the manual does not mention: blanks
around every token, hexadecimal and octal numbers, reversed intervals that mean nothing, commas that
separate nothing. No pattern here can match one run of blanks or digits in two ways, so hostile
input costs time in its length and no more.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import cast

import numpy as np

from tallystick.coordinates.values._gno_bounds import GNO_END, Bounds, as_ints
from tallystick.coordinates.values.errors import GtidSetParseError

UUID_LENGTH = 36
TAG_LENGTH_MAX = 32

# The six characters that isspace() knows in the C locale. Python's \s and str.strip() know more.
_BLANK = r"[ \t\n\v\f\r]*"
_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
# What strtoll() takes with base 0; a minus sign only where zero is allowed, at an interval's end.
_NUMBER = r"\+?(?:0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)"
_MINUS_ZERO = r"-0(?:[xX]0+|0*)"
_TAG = rf"[a-zA-Z_][a-zA-Z0-9_]{{0,{TAG_LENGTH_MAX - 1}}}"
_ITEM_END = r"(?=[:,]|\Z)"

_match_blank = re.compile(_BLANK).match
_match_separators = re.compile(r"[, \t\n\v\f\r]*").match
_match_uuid = re.compile(_UUID).match
_match_uuid_alone = re.compile(_UUID).fullmatch
_match_sid = re.compile(rf"{_UUID}(?::{_TAG})?").fullmatch
_match_item = re.compile(
    rf":{_BLANK}(?:(?P<first>{_NUMBER}){_BLANK}"
    rf"(?P<dash>-{_BLANK}(?:(?P<last>{_NUMBER}|{_MINUS_ZERO}){_BLANK})?)?"
    rf"|(?P<tag>{_TAG}){_BLANK}){_ITEM_END}"
).match
# A run of intervals in the form that servers print, each number far enough below the limit to need
# no check. Nearly all text is this, and it is cut with plain string methods.
_PRINTED_NUMBER = r"[1-9][0-9]{0,17}"
_match_run = re.compile(rf"(?::{_PRINTED_NUMBER}(?:-{_PRINTED_NUMBER})?{_ITEM_END})+").match
_match_gtid = re.compile(
    rf"{_BLANK}(?P<uuid>{_UUID}){_BLANK}(?::{_BLANK}(?P<tag>{_TAG}){_BLANK})?"
    rf":{_BLANK}(?P<gno>{_NUMBER}){_BLANK}"
).fullmatch
# In @@gtid_owned each GNO is followed by the thread that owns it. Between two UUIDs the server
# (8.0.31) prints nothing at all, so the thread ends where what follows has the form of a UUID.
_owner = re.compile(
    rf"(?P<gno>:{_BLANK}[0-9]+)(?P<owner>#[0-9]+?)(?=(?P<uuid>{_UUID})|{_BLANK}(?:[:,]|\Z))"
)

# From so many characters on a call of numpy costs less than reading number after number.
_LONG_RUN = 512
_COLON, _DASH = ord(":"), ord("-")

_QUOTED_MAX = 48


def require_text(text: object, what: str) -> str:
    """Return the text up to its first NUL, where the server stops reading.

    Raises:
        TypeError: It is no `str`. Bytes are the caller's to decode, and SQL NULL is no set.
    """
    if not isinstance(text, str):
        raise TypeError(f"{what} must be str, not {type(text).__name__}")
    return text.partition("\0")[0] if "\0" in text else text


def read_set(text: str, *, tags: bool) -> dict[str, list[int]]:
    """Read a GTID set into flat interval lists, ends exclusive, in the order of the text.

    Args:
        text: Without NUL.
        tags: Whether tags are known; servers before 8.3 reject them.

    Returns:
        By source identifier (`uuid` or `uuid:tag`, lower case); never an empty list.

    Raises:
        GtidSetParseError: The text breaks the grammar.
    """
    found: dict[str, list[int]] = {}
    length = len(text)
    at = _end(_match_separators(text, 0))
    while at < length:
        uuid_match = _match_uuid(text, at)
        if uuid_match is None:
            raise _malformed(text, at, "a UUID (8-4-4-4-12 hexadecimal digits)")
        uuid = sid = uuid_match.group().lower()
        at = _end(_match_blank(text, uuid_match.end()))
        while at < length and text[at] == ":":
            run = _match_run(text, at)
            if run is not None:
                _add_printed(found, sid, run.group())
                at = run.end()
                continue
            item = _match_item(text, at)
            if item is None or (item["tag"] and not tags):
                raise _malformed_item(text, at, tags=tags)
            if item["tag"]:
                sid = f"{uuid}:{item['tag'].lower()}"
            else:
                _add_interval(found, sid, text, item)
            at = item.end()
        if at < length and text[at] != ",":
            raise _malformed(text, at, "':', ',' or the end of the set")
        at = _end(_match_separators(text, at))
    return found


def read_gtid(text: str, *, tags: bool) -> tuple[str, str, int]:
    """Read one GTID into its UUID, its tag (`""` when it has none) and its GNO.

    Raises:
        GtidSetParseError: The text is no GTID.
    """
    match = _match_gtid(text)
    if match is None or (match["tag"] and not tags):
        form = "UUID:[TAG:]NUMBER" if tags else "UUID:NUMBER (tags exist from server 8.3)"
        raise GtidSetParseError(f"malformed GTID {_quote(text)}: expected {form}")
    gno = _number(match["gno"])
    if not 0 < gno < GNO_END:
        raise GtidSetParseError(
            f"malformed GTID {_quote(text)}: expected a number from 1 to {GNO_END - 1},"
            f" found {_quote(match['gno'])} at offset {match.start('gno')}"
        )
    return match["uuid"].lower(), (match["tag"] or "").lower(), gno


def read_sid(sid: str) -> str:
    """Return a source identifier in lower case.

    Raises:
        GtidSetParseError: It is neither `uuid` nor `uuid:tag`.
    """
    return _read_sid(require_text(sid, "a source identifier"))


# A fleet has few of them, and every set names some.
@lru_cache(maxsize=4096)
def _read_sid(sid: str) -> str:
    if _match_sid(sid) is None:
        raise GtidSetParseError(
            f"malformed source identifier {_quote(sid)}: expected UUID or UUID:TAG"
        )
    return sid.lower()


def is_uuid(text: object) -> bool:
    """Whether it is the text of a UUID, without a tag or blanks."""
    return isinstance(text, str) and _match_uuid_alone(text) is not None


def blank_owners(text: str) -> str:
    """Make a GTID set of the text of @@gtid_owned, without a change of any offset."""

    def blank_owner(match: re.Match[str]) -> str:
        separator = "," if match["uuid"] else " "
        return match["gno"] + separator.ljust(len(match["owner"]))

    return _owner.sub(blank_owner, text)


def print_set(bounds_by_sid: dict[str, Bounds]) -> str:
    """Print sorted sids in the canonical form: a UUID once, then its tags; `,` between UUIDs."""
    pieces: list[str] = []
    previous_uuid = ""
    for sid, bounds in bounds_by_sid.items():
        uuid, tag = sid[:UUID_LENGTH], sid[UUID_LENGTH:]
        if uuid != previous_uuid:
            pieces.append(f",{uuid}" if pieces else uuid)
            previous_uuid = uuid
        pieces.append(tag)
        numbers = as_ints(bounds)
        pieces += [
            f":{start}" if end - start == 1 else f":{start}-{end - 1}"
            for start, end in zip(numbers[0::2], numbers[1::2], strict=True)
        ]
    return "".join(pieces)


def _end(match: re.Match[str] | None) -> int:
    assert match is not None  # patterns that also match nothing
    return match.end()


def _add_printed(found: dict[str, list[int]], sid: str, run: str) -> None:
    flat = found.setdefault(sid, [])
    if len(run) > _LONG_RUN:
        flat += _long_run(run)
    else:
        _read_run(run, flat)
    if not flat:
        del found[sid]


def _read_run(run: str, flat: list[int]) -> None:
    for piece in run[1:].split(":"):
        first, _, last = piece.partition("-")
        start = int(first)
        end = int(last) + 1 if last else start + 1
        if end > start:
            flat += (start, end)


def _long_run(run: str) -> list[int]:
    """The same, by columns: numpy reads all numbers at once."""
    signs = np.frombuffer(run.encode("ascii"), np.uint8)
    begins = signs[(signs == _COLON) | (signs == _DASH)] == _COLON
    numbers = np.fromstring(run[1:].replace("-", ":"), dtype=np.int64, sep=":")
    bounds = np.stack((numbers[begins], numbers[np.roll(begins, -1)] + 1), axis=1)
    return cast("list[int]", bounds[bounds[:, 0] < bounds[:, 1]].ravel().tolist())


def _add_interval(found: dict[str, list[int]], sid: str, text: str, item: re.Match[str]) -> None:
    first = _number(item["first"])
    # A dash without a number reads as the number 0, hence as a reversed interval, which is empty.
    last = first if item["dash"] is None else _number(item["last"] or "0")
    for name, value, lowest in (("first", first, 1), ("last", last, 0)):
        if not lowest <= value < GNO_END:
            raise _malformed(text, item.start(name), f"a number from {lowest} to {GNO_END - 1}")
    if first <= last:
        found.setdefault(sid, []).extend((first, last + 1))


def _number(digits: str) -> int:
    """Convert digits as strtoll() does with base 0; what is too large becomes `GNO_END`."""
    digits = digits.lstrip("+-")
    base = 10
    if digits[:2] in ("0x", "0X"):
        base, digits = 16, digits[2:]
    elif digits[0] == "0":
        base = 8
    digits = digits.lstrip("0") or "0"
    # 2**63 has 21 octal digits. The limit keeps int() from the quadratic cost of long decimal text.
    return GNO_END if len(digits) > 22 else min(int(digits, base), GNO_END)


def _malformed_item(text: str, at: int, *, tags: bool) -> GtidSetParseError:
    expected = "an interval or a tag" if tags else "an interval (tags exist from server 8.3)"
    return _malformed(text, _end(_match_blank(text, at + 1)), f"{expected} after ':'")


def _malformed(text: str, at: int, expected: str) -> GtidSetParseError:
    found = _quote(text[at : at + _QUOTED_MAX + 1]) if at < len(text) else "the end of the text"
    return GtidSetParseError(
        f"malformed GTID set at offset {at} of {len(text)}: expected {expected}, found {found}"
    )


def _quote(text: str) -> str:
    return repr(text if len(text) <= _QUOTED_MAX else text[:_QUOTED_MAX] + "…")
