"""Checks of single values of a server record: types, ranges and closed lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from tallystick.coordinates.values.binlog import parse_log_file_name
from tallystick.coordinates.values.errors import CoordinateError

INT64_MAX = 2**63 - 1
UINT32_MAX = 2**32 - 1

Check = Callable[[Any], Any]
"""Takes a value of JSON, returns it as it is kept; raises ``FieldError``."""


class FieldError(Exception):
    """A value does not fit. ``path`` grows from the inside out."""

    def __init__(
        self, expected: str, value: Any = None, path: str = "", *, shown: bool = True
    ) -> None:
        super().__init__(expected)
        self.expected = expected
        self.value = value
        self.path = path
        self.shown = shown

    def under(self, key: str) -> FieldError:
        """The same, seen from the object or list around it."""
        separator = "." if self.path and not self.path.startswith("[") else ""
        return FieldError(
            self.expected, self.value, f"{key}{separator}{self.path}", shown=self.shown
        )


def nearest(given: str, known: Iterable[str]) -> str:
    """The known name that may be meant, as a question; empty where none is near."""
    near = get_close_matches(given, list(known), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def unknown_key(key: str, known: Iterable[str]) -> FieldError:
    """The error of a key that does not belong there."""
    names = list(known)
    return FieldError(
        f"no such key{nearest(key, names)}, only {', '.join(names) or 'those of every record'}",
        path=key,
        shown=False,
    )


def missing_key(key: str, given: Iterable[str], value: str = "") -> FieldError:
    """The error of a key that must be there; one of those given may be meant for it.

    Args:
        key: What must be there.
        given: The keys that are there.
        value: What its value may be.
    """
    near = get_close_matches(key, list(given), n=1)
    hint = f", not {near[0]!r}" if near else ""
    values = f", {value}" if value else ""
    return FieldError(f"this key{hint}{values}", path=key, shown=False)


def text(value: Any) -> str:
    """Text that can be written as UTF-8."""
    if type(value) is not str:
        raise FieldError("text", value)
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise FieldError("text without lone surrogates", value) from None
    return value


def name(value: Any) -> str:
    """Text that is not empty."""
    if not text(value):
        raise FieldError("text that is not empty", value)
    return str(value)


INSTANCE_BYTES_MAX = 255


def instance_name(value: Any) -> str:
    """Our own name of a server: short, and without characters that lines and logs act upon."""
    if not name(value).isprintable() or len(value.encode()) > INSTANCE_BYTES_MAX:
        raise FieldError(f"1 to {INSTANCE_BYTES_MAX} bytes of printable text", value)
    return str(value)


def log_file(value: Any) -> str:
    """The name of a log file without a directory."""
    try:
        parse_log_file_name(text(value))
    except CoordinateError:
        raise FieldError("a log file name base.NNNNNN without a directory", value) from None
    return str(value)


CHANNEL_CHARACTERS_MAX = 64
"""Of the name of a channel, in every version that has channels."""


def channel_name(value: Any) -> str:
    """The name of a channel; servers keep it in lower case, people write it as they like."""
    if len(text(value)) > CHANNEL_CHARACTERS_MAX:
        raise FieldError(
            f"the name of a channel, at most {CHANNEL_CHARACTERS_MAX} characters", value
        )
    return str(value).lower()


def uuid_text(value: Any) -> str:
    """A UUID in lower case, as GTIDs have it; auto.cnf and people may write it in capitals."""
    return text(value).lower()


@dataclass(frozen=True, slots=True)
class Integer:
    """A check for integers of a range."""

    least: int = 0
    most: int = INT64_MAX

    def __call__(self, value: Any) -> int:
        """Check ``value``."""
        if type(value) is not int or not self.least <= value <= self.most:
            raise FieldError(f"an integer from {self.least} to {self.most}", value)
        return value


def boolean(value: Any) -> bool:
    """True or false, not 0 or 1 or "ON"."""
    if type(value) is not bool:
        raise FieldError("true or false", value)
    return value


_SWITCH = {"ON": True, "OFF": False, "YES": True, "NO": False, "1": True, "0": False}


def switch(value: Any) -> bool:
    """A boolean variable as JSON has it or as servers print it."""
    if type(value) is bool:
        return value
    kept = _SWITCH.get(str(value).upper())
    if kept is None:
        raise FieldError("true, false, ON or OFF", value)
    return kept


class OneOf:
    """A check for the values of a closed list."""

    __slots__ = ("allowed",)

    def __init__(self, *allowed: str) -> None:
        self.allowed = allowed

    def __call__(self, value: Any) -> str:
        """Check ``value``."""
        if type(value) is not str or value not in self.allowed:
            one_of = "one of " if len(self.allowed) > 1 else ""
            raise FieldError(one_of + ", ".join(self.allowed), value)
        return value


def identifier(value: Any) -> str | int:
    """A session or ticket: servers number them, others name them."""
    if type(value) is int and 0 <= value <= INT64_MAX:
        return value
    if type(value) is str:
        return name(value)
    raise FieldError("an integer from 0 or text", value)


def anything(value: Any) -> Any:
    """What a server reported: the audit judges it."""
    return value


@dataclass(frozen=True, slots=True)
class ListOf:
    """A check for lists, item by item."""

    check: Check

    def __call__(self, value: Any) -> list[Any]:
        """Check ``value``."""
        if type(value) is not list:
            raise FieldError("a list", value)
        kept = []
        for index, item in enumerate(value):
            try:
                kept.append(self.check(item))
            except FieldError as error:
                raise error.under(f"[{index}]") from None
        return kept


_PASSWORD_COLUMNS = frozenset({"user_password", "password", "master_password", "source_password"})


# The few names of a table's columns come with each of its rows.
_lowered = lru_cache(maxsize=1024)(str.lower)


def table_row(value: Any) -> dict[str, Any]:
    """Column values of a server's table; its columns differ from server to server."""
    if type(value) is not dict:
        raise FieldError("an object of column values", value)
    if not _PASSWORD_COLUMNS.isdisjoint(map(_lowered, value)):
        key = next(key for key in value if key.lower() in _PASSWORD_COLUMNS)
        raise FieldError("no password: it must not be collected", path=key, shown=False)
    return value


table_rows = ListOf(table_row)


@dataclass(frozen=True, slots=True)
class Shape:
    """An object: its fields, which of them must be there, and whether others may be."""

    fields: Mapping[str, Check]
    required: tuple[str, ...] = ()
    is_open: bool = False
    aliases: Mapping[str, str] | None = None

    def __call__(self, value: Any) -> dict[str, Any]:
        """Check the object ``value``."""
        if type(value) is not dict:
            raise FieldError("an object", value)
        fields, aliases = self.fields, self.aliases
        kept: dict[str, Any] = {}
        for name, item in value.items():
            key = aliases.get(name, name) if aliases else name
            check = fields.get(key)
            if check is None:
                if not self.is_open:
                    raise unknown_key(name, fields)
                kept[name] = item
                continue
            if item is None:
                continue
            if key in kept:
                raise FieldError(f"{key} only once, under one of its names", item, path=name)
            try:
                kept[key] = check(item)
            except FieldError as error:
                raise error.under(name) from None
        for key in self.required:
            if key not in kept:
                raise missing_key(key, ())
        return kept
