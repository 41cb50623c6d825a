"""Text from outside as text that can do nothing: reversible marks for pages, escapes for terminals.

Data Docs write the values of failing rows into their HTML as they are. So each character that could
mean something to a page, a template or a reader's eye becomes a visible mark before Great
Expectations sees it: ``<`` becomes ``⟨3C⟩``. Distinct texts stay distinct, and `restore` is exact.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_MARK_OPEN, _MARK_CLOSE = "⟨", "⟩"
_MEANINGFUL = frozenset("<>&\"'`$" + _MARK_OPEN)
# Blanks that servers print inside GTID sets stay, so that a rule reads what the server wrote.
_BLANKS = frozenset("\n\t\r ")
# Control, format (bidi, zero width), surrogate, private use, line and paragraph separator.
_INVISIBLE = frozenset(("Cc", "Cf", "Cs", "Co", "Zl", "Zp"))

_is_plain = re.compile(r"[0-9A-Za-z_.,:;/@#%()=+* \n-]*").fullmatch
_find_marks = re.compile(f"{_MARK_OPEN}([0-9A-F]+){_MARK_CLOSE}")


@lru_cache(maxsize=4096)
def _is_invisible(character: str) -> bool:
    return unicodedata.category(character) in _INVISIBLE


def neutralise(text: str) -> str:
    """Replace what a page or a template could act on by visible marks."""
    if _is_plain(text):
        return text
    return "".join(
        f"{_MARK_OPEN}{ord(c):X}{_MARK_CLOSE}"
        if c in _MEANINGFUL or (c not in _BLANKS and _is_invisible(c))
        else c
        for c in text
    )


def restore(text: str) -> str:
    """Inverse of ``neutralise``."""
    return _find_marks.sub(lambda mark: chr(int(mark[1], 16)), text)


def reveal(text: str) -> str:
    """Make visible what a reader of a page could not see; markup is for the page to escape."""
    if text.isprintable():
        return text
    return "".join(
        f"{_MARK_OPEN}U+{ord(c):04X}{_MARK_CLOSE}" if c not in _BLANKS and _is_invisible(c) else c
        for c in text
    )


def printable(text: str) -> str:
    """Escape what a terminal could act on, line ends included, for output on one line."""
    if text.isprintable():
        return text
    return "".join(_escaped(c) if _is_invisible(c) else c for c in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")
