"""Collections (WL#9452) in surroundings that look like trouble."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from tallystick.producers.simulator.backup import backup_session
from tallystick.producers.simulator.log_status.log_status_query import LogStatus
from tallystick.producers.simulator.negatives.negative import Negative

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.world import World


class BackupUnderReadLock(Negative):
    """The five statements of F-4 on each instance, one instance after the other."""

    name = "backup_under_read_lock"
    text = (
        "binary log and gtid_executed stand still while relay logs grow: a backup collects inside "
        "LOCK INSTANCE FOR BACKUP and FLUSH TABLES WITH READ LOCK"
    )
    options: ClassVar = {"writes_per_second": 15.0}

    def arrange(self, fleet: World) -> None:
        load = fleet.load_ends_at - fleet.start_ts
        for number, instance in enumerate(fleet.instances.values(), 1):
            for half in (0, load // 2):
                moment = fleet.start_ts + half + number * load // 20
                fleet.schedule(moment, instance, _back_up, instance)


class UnlocksInListOrder(Negative):
    """Step-3 (g) as it reads: "for each wrapper in the list, call the unlock function"."""

    name = "collection_unlocks_in_list_order"
    text = (
        "a collection releases the channels first and the engines last: the document asks for no "
        "order but that the channel map and the collector's lock come after"
    )

    def arrange(self, fleet: World) -> None:
        for instance in fleet.instances.values():
            instance[LogStatus].unlocks_backwards = False


def _back_up(fleet: World, instance: Instance) -> None:
    backup_session.back_up(fleet, instance, _copy_later, _nothing_more)


def _copy_later(row: dict[str, Any]) -> None:
    """What the row names is copied when the locks are free."""


def _nothing_more() -> None:
    """The backup is no client of ours any more."""
