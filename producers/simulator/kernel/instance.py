"""A simulated server: its identity, its journal, and the components that it is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tallystick.producers.simulator.kernel.components import Components

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.journal_writer import JournalWriter


@dataclass(slots=True, eq=False)
class Instance(Components):
    """One server. Binary log, GTID sets, InnoDB and so on are components.

    Attributes:
        instance_id: Its key in journals.
        server_uuid: ``server_uuid``.
        server_id: ``server_id``.
        version: Of the server software.
        journal: Where its records are written.
        variables: System variables.
        is_running: Whether the server is up.
        blocked_until: No scheduled act touches the instance before this moment.
    """

    instance_id: str
    server_uuid: str
    server_id: int
    version: str
    journal: JournalWriter
    variables: dict[str, Any]
    is_running: bool = True
    blocked_until: int = 0

    def __repr__(self) -> str:
        return f"Instance({self.instance_id!r})"
