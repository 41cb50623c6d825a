"""Where the files of a log are read: a directory here, or one beside a server on another host.

``relay_files`` follows a log through these few questions, so that it reads the one as the other.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol, final

from tallystick.coordinates.values.binlog import format_log_file_name

LocalIdentity = tuple[int, int]
"""Device and inode."""


class LogFile(Protocol):
    """An open file of a log: what it names stays readable though its name is gone."""

    @property
    def identity(self) -> LocalIdentity:
        """What no two files have at one time."""

    def read(self, position: int, length: int) -> bytes:
        """At most so many bytes from a position on; fewer: the file ends there.

        Args:
            position: 0, or the start of an event.
            length: In bytes.

        Raises:
            OSError: They cannot be read.
        """

    def size(self) -> int:
        """Its length in bytes.

        Raises:
            OSError: It is not known.
        """

    def is_unlinked(self) -> bool:
        """Whether its name is gone, as of the last time the directory was listed, or later."""

    def close(self) -> None:
        """Let go of it."""


class LogDirectory(Protocol):
    """The files of logs, by base name and number."""

    @property
    def session(self) -> int:
        """Files that were opened in an earlier one can be read no more: they are opened again."""

    def numbers(self, base_name: str) -> list[int]:
        """The numbers of all files of a log that are there, ascending.

        Raises:
            OSError: The directory cannot be read.
        """

    def open(self, base_name: str, number: int) -> LogFile:
        """Open a file.

        Raises:
            FileNotFoundError: It is not there.
            OSError: It cannot be opened.
        """

    def close(self) -> None:
        """Let go of what it holds, but for open files."""


def numbers_of(base_name: str, names: Iterable[str]) -> list[int]:
    """The numbers of those names that are files of a log, ascending."""
    match = re.compile(re.escape(base_name) + r"\.([0-9]{6,18})").fullmatch
    return sorted(int(found[1]) for found in map(match, names) if found is not None)


@final
class LocalFile:
    """A file of this machine.

    Args:
        descriptor: Of the open file; closed with it.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        status = os.fstat(descriptor)
        self.identity = (status.st_dev, status.st_ino)

    def read(self, position: int, length: int) -> bytes:
        """At most so many bytes from a position on."""
        return os.pread(self._descriptor, length, position)

    def size(self) -> int:
        """Its length in bytes."""
        return os.fstat(self._descriptor).st_size

    def is_unlinked(self) -> bool:
        """Whether its name is gone."""
        return os.fstat(self._descriptor).st_nlink == 0

    def close(self) -> None:
        """Let go of it."""
        os.close(self._descriptor)


@final
class LocalDirectory:
    """A directory of this machine.

    Args:
        path: It.
    """

    session = 0

    def __init__(self, path: Path) -> None:
        self._path = path

    def numbers(self, base_name: str) -> list[int]:
        """The numbers of all files of a log that are there."""
        return numbers_of(base_name, (path.name for path in self._path.iterdir()))

    def open(self, base_name: str, number: int) -> LocalFile:
        """Open a file."""
        path = self._path / format_log_file_name(base_name, number)
        return LocalFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC))

    def close(self) -> None:
        """It holds nothing."""
