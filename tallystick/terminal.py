"""What a user sees: results on stdout, notices and progress on stderr, nothing acts on a terminal.

Text from instances, files and brokers is escaped here; rich's markup is switched off throughout.
"""

from __future__ import annotations

import io
import json
import os
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, cast, final

from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text

from tallystick.expectations.neutral import printable

STANDARD_STREAM = "-"
"""The name of a file that is standard input or standard output."""


class Command(str):
    """A line that is copied from a terminal: it is not folded."""

    __slots__ = ()


Line = str | tuple[str, str]
"""A line of a result: a text, or a text with its style."""
_WIDTH_OF_A_FILE = 100_000


class _Console(Console):
    """A console that lets a closed pipe out: rich would end the process with 1, a verdict here."""

    def on_broken_pipe(self) -> None:
        """Let the error go on to whoever ends the command."""
        raise BrokenPipeError


@final
class _Notices(io.TextIOBase):
    """Standard error. A disk that is full of notices changes nothing of how a command ends.

    As it is when this is made: while progress is shown, rich puts itself in its place, and would
    be handed what it has written itself.
    """

    def __init__(self) -> None:
        self._stream = sys.stderr

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stream.encoding

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()

    def write(self, text: str) -> int:
        self._try(lambda: self._stream.write(text))
        return len(text)

    def flush(self) -> None:
        self._try(self._stream.flush)

    def _try(self, act: Callable[[], object]) -> None:
        try:
            act()
        except BrokenPipeError:
            raise  # as of standard output: nobody watches
        except OSError:
            # What is left in buffers would fail once more when Python ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())


def _console(*, stderr: bool) -> Console:
    file = cast("IO[str]", _Notices()) if stderr else None
    return _Console(
        file=file, stderr=stderr, markup=False, highlight=False, emoji=False, soft_wrap=True
    )


def escaped(text: object) -> str:
    """Text with everything visible that a terminal or a reader's eye could be misled by."""
    return printable(str(text))


def show(*lines: Line) -> None:
    """Write lines of a result.

    On a terminal a line that is too long goes on below, indented deeper, unless it is a command; a
    file gets it whole.
    """
    out = _console(stderr=False)
    for line in lines:
        text, style = line if isinstance(line, tuple) else (line, "")
        is_whole = isinstance(text, Command)
        for piece in [escaped(text)] if is_whole else _folded(escaped(text), out):
            out.print(Text(piece, style=style))


def _folded(line: str, out: Console) -> list[str]:
    if not out.is_terminal or len(line) <= out.width:
        return [line]
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    return textwrap.wrap(
        line,
        out.width,
        subsequent_indent=indent,
        drop_whitespace=True,
        break_on_hyphens=False,
    )


def show_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Write a result as a table, its cells folded at a terminal's width; a file gets them whole.

    A cell that is a pair is a text with its style.
    """
    out = _console(stderr=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=not out.is_terminal)
    for row in rows:
        table.add_row(*map(_cell, row))
    if out.is_terminal:
        out.print(table)
        return
    out.width = _WIDTH_OF_A_FILE
    with out.capture() as capture:
        out.print(table)
    sys.stdout.writelines(f"{line.rstrip()}\n" for line in capture.get().splitlines())


def _cell(cell: object) -> Text:
    text, style = cell if isinstance(cell, tuple) else (cell, "")
    # Line breaks are ours: each line is escaped by itself.
    return Text("\n".join(map(escaped, str(text).split("\n"))), style=style)


def show_text(text: str) -> None:
    """Write a whole document as it is, in UTF-8, which it says of itself, whatever the terminal's.

    What UTF-8 cannot spell (a lone surrogate, which JSON can) becomes an escape.
    """
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace"))
    sys.stdout.flush()


def show_json(document: Any) -> None:
    """Write one JSON document on one line; what is not ASCII is escaped by JSON itself."""
    show_text(json.dumps(document, separators=(",", ":")) + "\n")


def notice(text: object) -> None:
    """Write one line to stderr."""
    _console(stderr=True).print(Text(f"tallystick: {escaped(text)}"))


@final
class Progress:
    """What a long command does: a line that changes on a terminal, lines that stay elsewhere."""

    def __init__(self, status: Status | None, console: Console) -> None:
        self._status = status
        self._console = console
        self._last = ""

    def now(self, text: str) -> None:
        """Show what happens now."""
        text = escaped(text)
        if self._status is not None:
            self._status.update(Text(text))
        elif text != self._last:
            self._console.print(Text(f"tallystick: {text}"))
        self._last = text

    def done(self, text: str) -> None:
        """Show what has happened, in a line that stays."""
        self._console.print(Text(f"tallystick: {escaped(text)}"))

    def count(self, text: str) -> None:
        """Show numbers that change all the time, where a line can change."""
        if self._status is not None:
            self._status.update(Text(escaped(text)))


@contextmanager
def progress(first: str) -> Iterator[Progress]:
    """Show progress on stderr while the block runs."""
    console = _console(stderr=True)
    if console.is_terminal:
        with console.status(Text(escaped(first))) as status:
            yield Progress(status, console)
    else:
        shown = Progress(None, console)
        shown.now(first)
        yield shown
