"""What every judge of a row looks at, and how a value may fall against the row before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallystick.coordinates.audit.baselines import Baselines
    from tallystick.coordinates.audit.server import Server
    from tallystick.coordinates.events.log_status import ServerState
    from tallystick.coordinates.logs.binlog_reader import BinlogReader
    from tallystick.coordinates.logs.relay_reader import RelayReader
    from tallystick.coordinates.rules.judging.judgement import Judgement
    from tallystick.coordinates.values.binlog import LogCoordinates

UNREADABLE = "the row's value is missing or could not be read"
FIRST_POSITION = 4
"""Where the first event of every log file starts."""


@dataclass(slots=True)
class Row:
    """One log_status row and the instance's accounts at its place."""

    collection_id: str
    ts: int
    body: Mapping[str, Any]
    state: ServerState
    server: Server
    binlog: BinlogReader
    relays: Mapping[str, RelayReader]
    baselines: Baselines
    judgement: Judgement


def same_family(left: LogCoordinates | None, right: LogCoordinates | None) -> bool:
    """Whether two coordinates are both known and comparable."""
    return left is not None and right is not None and left.base_name == right.base_name


def falls(fallen: dict[str, Any], name: str, value: Any, before: Any) -> bool:
    """Whether ``value`` fell against ``before`` and nobody has said so yet (reading rule R3).

    A fall is told once: when the next value goes on from the fallen one, history has changed, and
    the new line is accepted. ``fallen`` remembers the fallen value by ``name``.
    """
    if before is None or before <= value:
        fallen.pop(name, None)
        return False
    last = fallen.get(name)
    if last is not None and last <= value:
        del fallen[name]
        return False
    fallen[name] = value
    return True
