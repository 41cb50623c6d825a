"""Checksums of a table's files: Delta Lake's format has none, neither of its log nor of its data.

They are lines of a file beside the table's own, which engines pass over: checksum and name. A line
is added when a commit is there, never before, so a file without one is of a commit whose writer was
killed just then; the next writer adds it. What is damaged, or missing, is named before it is used.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
from typing import TYPE_CHECKING, NamedTuple

from tallystick.coordinates.values.checksum import checksum
from tallystick.coordinates.values.errors import one_line
from tallystick.streaming.errors import TableError
from tallystick.streaming.to_fix import to_rebuild

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path

    from deltalake import DeltaTable

FILE = "_checksums"
_LOG = "_delta_log"
_line = re.compile(r"([0-9a-f]{8}) (\S+)").fullmatch
_commit = re.compile(rf"{_LOG}/(\d{{20}})\.json").fullmatch
_checkpoint = re.compile(rf"{_LOG}/(\d{{20}})\.checkpoint\.parquet").fullmatch

_writing = threading.Lock()
_compared: dict[str, dict[str, tuple[int, int]]] = {}
"""By table, time of change and size of files whose checksum has agreed in this process."""


class _Written(NamedTuple):
    """What this process has written of a table's checksums.

    Attributes:
        at: Time of change and size of their file then: read again if it has others.
        version: The number of the last commit.
        names: The files of it, and maybe of earlier ones.
    """

    at: tuple[int, int]
    version: int
    names: frozenset[str]


_written: dict[str, _Written] = {}
"""By table: whoever appends each second does not read the lines of two hundred thousand commits."""


def compare_log(table: Path) -> None:
    """Compare what the table's log is read from: the newest checkpoint and all commits after it.

    Raises:
        TableError: A file of these is damaged or missing.
    """
    known = _known(table)
    newest = _newest_checkpoint(known)
    while True:
        needed = [
            name
            for name in known
            if ((found := _checkpoint(name)) and int(found[1]) == newest)
            or ((found := _commit(name)) and int(found[1]) > newest)
        ]
        try:
            return _compare(table, known, needed)
        except TableError:
            # A commit that is missing may be in a checkpoint that was written meanwhile.
            known = _known(table)
            before, newest = newest, _newest_checkpoint(known)
            if newest == before:
                raise


def _newest_checkpoint(known: Iterable[str]) -> int:
    """The number of its commit; -1: there is none."""
    return max((int(found[1]) for found in map(_checkpoint, known) if found), default=-1)


def compare_data(table: Path, names: Iterable[str]) -> None:
    """Compare the files that rows are read from.

    Raises:
        TableError: One is damaged or missing.
    """
    known = _known(table)
    _compare(table, known, (name for name in names if name in known))


def record(table: Path, delta: DeltaTable) -> None:
    """Add the files of all commits that have no checksum yet."""
    with _writing:
        _record(table, delta)


def _record(table: Path, delta: DeltaTable) -> None:
    done, known = _recorded(table)
    names: dict[str, None] = {} if known else dict.fromkeys(data_names(delta))
    # The last one again: its checkpoint may be younger than itself.
    for version in range(max(done, 0), delta.version() + 1):
        log = f"{_LOG}/{version:020d}.json"
        # An older one may be gone: what it had is in a checkpoint.
        with contextlib.suppress(FileNotFoundError):
            names |= dict.fromkeys(_added(table / log))
            names |= dict.fromkeys((log, f"{_LOG}/{version:020d}.checkpoint.parquet"))
    lines: dict[str, str] = {}
    for name in sorted(names.keys() - known):
        with contextlib.suppress(FileNotFoundError):  # most commits have no checkpoint
            lines[name] = f"{checksum((table / name).read_bytes()):08x} {name}\n"
    if lines:
        with (table / FILE).open("a", encoding="ascii") as file:
            file.write("".join(lines.values()))
    has = frozenset(lines) | (names.keys() & known)
    with contextlib.suppress(FileNotFoundError):  # none was ever written
        _written[str(table)] = _Written(_changed(table / FILE), delta.version(), has)


def _added(log: Path) -> list[str]:
    """The files that a commit adds."""
    try:
        actions = map(json.loads, log.read_bytes().splitlines())
        return [str(action["add"]["path"]) for action in actions if "add" in action]
    except (ValueError, LookupError, TypeError) as error:
        raise TableError(
            f"{str(log)!r} is damaged: {one_line(error)}. To fix: {to_rebuild(log)}"
        ) from error


def _recorded(table: Path) -> tuple[int, Collection[str]]:
    """The number of the last commit with checksums, and which files have one, at least of it."""
    written = _written.get(str(table))
    with contextlib.suppress(FileNotFoundError):
        if written is not None and written.at == _changed(table / FILE):
            return written.version, written.names
    known = _known(table)
    done = max((int(found[1]) for found in map(_commit, known) if found), default=-1)
    return done, known.keys()


def _changed(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_mtime_ns, status.st_size


def forget_removed(table: Path) -> None:
    """Drop the lines of files that are there no more."""
    with _writing:
        known = _known(table)
        there = {path.name for path in table.iterdir()}
        there |= {f"{_LOG}/{path.name}" for path in (table / _LOG).iterdir()}
        lines = [f"{known[name]} {name}\n" for name in known if name in there]
        temporary = table / f"{FILE}.tmp"
        temporary.write_text("".join(lines), "ascii")
        temporary.replace(table / FILE)


def data_names(delta: DeltaTable) -> list[str]:
    """The files that a table's rows are in."""
    return [uri.rsplit("/", 1)[-1] for uri in delta.file_uris()]


def _known(table: Path) -> dict[str, str]:
    try:
        text = (table / FILE).read_text("ascii", "replace")
    except FileNotFoundError:
        return {}
    known = {}
    for line in text.splitlines():
        found = _line(line)
        if found is None:
            raise TableError(
                f"{str(table / FILE)!r} is damaged: {line[:80]!r}, expected a checksum and the name"
                f" of a file. To fix: {to_rebuild(table)}"
            )
        known[found[2]] = found[1]
    return known


def _compare(table: Path, known: Mapping[str, str], names: Iterable[str]) -> None:
    compared = _compared.setdefault(str(table), {})
    for name in names:
        path = table / name
        try:
            at = _changed(path)
            if compared.get(name) == at:
                continue
            found = f"{checksum(path.read_bytes()):08x}"
        except FileNotFoundError:
            found = "of no file: it is missing"
        except OSError as error:
            found = f"of no file: {error.strerror}"
        if found != known[name]:
            raise TableError(
                f"{str(path)!r} is damaged: its checksum is {found}, expected {known[name]}."
                f" To fix: {to_rebuild(table)}"
            )
        compared[name] = at
    if len(compared) > 2 * len(known):
        # Files that are gone: a reader may run for months.
        _compared[str(table)] = {name: at for name, at in compared.items() if name in known}
