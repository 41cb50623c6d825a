"""The table of WL#2775, REQ-6: in which of its eight cells a start was, and what it did there.

What the repositories hold is read before the start and after it, and the start's own record is
read too: a cell is shown only where all three agree with the document.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tallystick.producers.simulator.kernel.world import BOOT
from tallystick.producers.simulator.replication_info import rpl_info_factory
from tallystick.producers.simulator.replication_info.rpl_info_handler import Repository
from tallystick.producers.simulator.scenarios.design_scenario import text_of
from tallystick.producers.simulator.server.channels import ChannelMap
from tallystick.producers.simulator.server.lifecycle import RECOVERED

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.world import World
    from tallystick.producers.simulator.server.channels import Channel

_KINDS = {kind.table: kind for kind in (rpl_info_factory.MASTER, rpl_info_factory.RELAY)}
_Coordinates = dict[Repository, tuple[str, int] | None]
"""Position in the source's log that each repository holds; None: it has no data."""


class StartCells:
    """Shows each cell at the first start that is in it."""

    def __init__(self, fleet: World) -> None:
        self._before: dict[tuple[str, str], _Coordinates] = {}
        self._shown: set[str] = set()
        fleet.bus.connect(BOOT, self._on_boot)
        fleet.bus.connect(RECOVERED, self._on_recovered)

    def _on_boot(self, _: World, instance: Instance, __: bool) -> bool:
        for channel in instance[ChannelMap].channels.values():
            for table in _KINDS:
                self._before[instance.instance_id, table] = _stored(channel, table)
        return True

    def _on_recovered(self, fleet: World, instance: Instance, start: dict[str, Any]) -> None:
        for found in start["repositories"]:
            channel, table = instance[ChannelMap].channels[found["channel"]], found["repository"]
            before, after = self._before[instance.instance_id, table], _stored(channel, table)
            option = Repository(found["option"])
            is_refused = None not in before.values()
            recorded = {Repository.TABLE: found["table"], Repository.FILE: found["file"]}
            cell = (
                f"REQ-6 {'T' if before[Repository.TABLE] else '!T'},"
                f"{'F' if before[Repository.FILE] else '!F'} {option.value}"
            )
            if (
                cell in self._shown
                or recorded != {one: held is not None for one, held in before.items()}
                or found["started"] is is_refused
                or bool(channel.init_error) is not is_refused
                or not _is_right(before, after, option)
            ):
                continue
            self._shown.add(cell)
            ends = f"error {channel.init_error}" if is_refused else f"the {option.value} is read"
            fleet.show(
                cell,
                instance,
                f"{table}: before the start {_text(before)}; after it {_text(after)}; {ends}",
            )


def _stored(channel: Channel, table: str) -> _Coordinates:
    kind, stored = _KINDS[table], {}
    for handler in (
        rpl_info_factory.table_handler(channel, kind),
        rpl_info_factory.file_handler(channel, kind),
    ):
        fields = handler.init_info()
        stored[handler.kind] = (
            None
            if fields is None
            else (fields.values["Master_log_name"], fields.values["Master_log_pos"])
        )
    return stored


def _is_right(before: _Coordinates, after: _Coordinates, option: Repository) -> bool:
    """Whether the start did what the document asks for in its cell."""
    if None not in before.values():
        return after == before
    chosen = after.pop(option)
    found = next((one for one in before.values() if one), None)
    is_alone = not any(after.values())
    after[option] = chosen
    return is_alone and chosen is not None and (chosen == found if found else not chosen[0])


def _text(stored: _Coordinates) -> str:
    return ", ".join(
        f"{one.value} {'has no data' if held is None else text_of(held) if held[0] else 'is fresh'}"
        for one, held in stored.items()
    )
