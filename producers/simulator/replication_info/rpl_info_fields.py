"""Rpl_info_fields: the values of one repository, by column, and the same as lines of a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

Columns = tuple[tuple[str, type], ...]
"""Names and types in the order of the table's columns, which is that of the file's lines."""

NUMBER_OF_LINES = "Number_of_lines"
"""The first column, and the first line of a file."""


class TornInfoError(Exception):
    """A file does not hold what its first line promises."""


@dataclass(slots=True)
class RplInfoFields:
    """A row, or what a file says.

    Attributes:
        columns: What there is to hold.
        values: One value of each column; None is SQL NULL, and an empty line.
    """

    columns: Columns
    values: dict[str, Any]

    def copy(self) -> RplInfoFields:
        """Fields of their own."""
        return RplInfoFields(self.columns, dict(self.values))

    def lines(self) -> list[str]:
        """The form of a file; the first line says how many there are."""
        return [
            "" if self.values[name] is None else str(self.values[name]) for name, _ in self.columns
        ]

    @classmethod
    def of_lines(cls, columns: Columns, lines: Sequence[str]) -> RplInfoFields:
        """Read the lines of a file.

        Raises:
            TornInfoError: There are fewer lines than the first one says, or one does not fit.
        """
        if not lines or not lines[0].isdecimal() or len(lines) < int(lines[0]):
            raise TornInfoError(f"expected {lines[:1]!r} lines, got {len(lines)}")
        if len(lines) < len(columns):
            raise TornInfoError(f"expected {len(columns)} lines, got {len(lines)}")
        values: dict[str, Any] = {}
        for (name, kind), line in zip(columns, lines, strict=False):
            try:
                values[name] = kind(line) if line or kind is str else None
            except ValueError as error:
                raise TornInfoError(f"line of {name}: {error}") from None
        return cls(columns, values)
