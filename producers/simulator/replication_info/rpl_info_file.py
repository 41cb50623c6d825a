"""Rpl_info_file: the repository that is a file of lines, master.info or relay-log.info.

Every flush writes to the cache of the operating system; the period decides when it is synced to
disk (REQ-3). A server that is killed leaves the cached lines, a power cut the synced ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick.producers.simulator.replication_info.rpl_info_fields import RplInfoFields
from tallystick.producers.simulator.replication_info.rpl_info_handler import (
    Repository,
    RplInfoHandler,
    Written,
)

if TYPE_CHECKING:
    from tallystick.producers.simulator.replication_info.rpl_info_fields import Columns


class InfoFile:
    """A file of a data directory: what a process reads of it, and what is on disk."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: list[str] = []
        self._on_disk: list[str] = []

    def write(self, lines: list[str]) -> None:
        """Replace the first lines; what follows them stays."""
        self.lines = [*lines, *self.lines[len(lines) :]]

    def remove(self) -> None:
        """Delete the file."""
        self.lines = []
        self.sync()

    def sync(self) -> None:
        """Everything is on disk."""
        self._on_disk = list(self.lines)

    def lose_power(self) -> None:
        """What was only cached is gone."""
        self.lines = list(self._on_disk)


class RplInfoFile(RplInfoHandler):
    """The lines of a file."""

    kind = Repository.FILE

    def __init__(self, file: InfoFile, columns: Columns) -> None:
        super().__init__()
        self.file = file
        self.columns = columns

    @property
    def is_transactional(self) -> bool:
        """A file is not."""
        return False

    def check_info(self) -> bool:
        """Whether the file exists, with data."""
        return bool(self.file.lines)

    def init_info(self) -> RplInfoFields | None:
        """What the lines say."""
        return RplInfoFields.of_lines(self.columns, self.file.lines) if self.file.lines else None

    def flush_info(
        self, fields: RplInfoFields, *, force: bool, sync_period: int, count: int = 1
    ) -> Written | None:
        """Write the lines; sync them at once, or by the period."""
        self.file.write(fields.lines())
        is_over = self.is_period_over(sync_period, count)
        if force or is_over:
            self.sync_counter = 0
            self.file.sync()
        return Written(is_durable=force or is_over)

    def write_in_part(self, fields: RplInfoFields, count: int) -> None:
        """The server dies inside the write: the first ``count`` lines are new, the others old."""
        self.file.write(fields.lines()[:count])

    def reset_info(self) -> None:
        """Delete the file."""
        self.file.remove()

    def end_info(self) -> None:
        """Sync and close the file."""
        self.file.sync()
