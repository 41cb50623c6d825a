"""Rpl_info_handler: the one interface of every repository in which replication info may be kept.

When a write happens, and what a crash leaves of it, is what the two kinds differ in (REQ-3).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.events.journal import RecordType
from tallystick.producers.simulator.kernel.bus import Permit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallystick.producers.simulator.kernel.world import World
    from tallystick.producers.simulator.replication_info.rpl_info_fields import RplInfoFields
    from tallystick.producers.simulator.server.channels import Channel

INFO_WRITE: Permit[[World, Channel, str, str]] = Permit(
    "before a row of an info repository is written; False: it stays as it was"
)


class Repository(str, Enum):
    """Values of the options master_info_repository and relay_log_info_repository."""

    FILE = "FILE"
    TABLE = "TABLE"


@dataclass(frozen=True, slots=True)
class Written:
    """A write that was made.

    Attributes:
        is_durable: Whether it outlives a power cut.
    """

    is_durable: bool


class RplInfoHandler(ABC):
    """Persistence of the info of one channel.

    Attributes:
        kind: FILE or TABLE.
        sync_counter: Flushes since the last one that the period forced.
    """

    kind: Repository

    def __init__(self) -> None:
        self.sync_counter = 0

    @property
    @abstractmethod
    def is_transactional(self) -> bool:
        """Whether a write commits, or is rolled back, with the data."""

    @abstractmethod
    def check_info(self) -> bool:
        """do_check_info(): whether there is data."""

    @abstractmethod
    def init_info(self) -> RplInfoFields | None:
        """do_init_info(): what is stored; None without data.

        Raises:
            TornInfoError: It cannot be read.
        """

    @abstractmethod
    def flush_info(
        self, fields: RplInfoFields, *, force: bool, sync_period: int, count: int = 1
    ) -> Written | None:
        """do_flush_info(): write, at once or by the period.

        Args:
            fields: What is to be stored.
            force: Whether the moment itself asks for it (REQ-3 i to iii, REQ-5 i and ii).
            sync_period: After how many counts a write is forced; 0: never.
            count: How many events or transactions this flush stands for.

        Returns:
            None when nothing was written.
        """

    @abstractmethod
    def reset_info(self) -> None:
        """do_reset_info(): no data from now on."""

    @abstractmethod
    def end_info(self) -> None:
        """do_end_info(): a clean end; everything is on disk after it."""

    def is_skipped(self, sync_period: int, count: int) -> bool:
        """Count a flush that nothing forces, where it writes nothing; else it is still to be made.

        A file is written at each flush.
        """
        return False

    def is_period_over(self, sync_period: int, count: int) -> bool:
        """Count a flush."""
        self.sync_counter += count
        return bool(sync_period) and self.sync_counter >= sync_period


def record_write(
    channel: Channel, table: str, reason: str, row: Mapping[str, Any], *, is_durable: bool = True
) -> None:
    """Write the record of a write to a repository."""
    body: dict[str, Any] = {"table": table, "channel": channel.name, "reason": reason, "row": row}
    if not is_durable:
        body["durable"] = False
    channel.replica.journal.record(RecordType.INFO_WRITE, body, channel.name)
