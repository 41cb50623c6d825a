"""Binary logs that rotate, are purged, grow beyond their header's field, or do not grow."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tallystick.producers.simulator.kernel.transactions import GroupKind
from tallystick.producers.simulator.negatives.acts import SECOND_US, near, replicas, sources
from tallystick.producers.simulator.negatives.negative import Negative
from tallystick.producers.simulator.server import administration, clients, lifecycle
from tallystick.producers.simulator.server.binary_log import BinaryLog
from tallystick.producers.simulator.server.channels import ChannelMap

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.world import World

_HUGE_ROWS_LENGTH = (1 << 30) - 256
_HUGE_ROWS_COUNT = 4
_STRAY_AHEAD = 3


class FileBeyond4Gib(Negative):
    """One group of about 4 GiB; the next groups end beyond 2^32."""

    name = "file_beyond_4_gib"
    text = "the 32-bit field of the header falls while the position goes on beyond 2^32"
    options: ClassVar = {"max_binlog_size": 1 << 34, "acts": False}

    def arrange(self, fleet: World) -> None:
        for source in sources(fleet):
            near(fleet, 0.3, source, _commit_huge, source)


class _Rotations(Negative):
    """FLUSH BINARY LOGS on every instance, several times."""

    def arrange(self, fleet: World) -> None:
        for instance in fleet.instances.values():
            for fifth in (1, 2, 3, 4):
                near(fleet, fifth / 5, instance, administration.flush_binary_logs, instance)


class SevenDigits(_Rotations):
    """Numbers of binary log files pass 999999."""

    name = "seven_digits"
    text = "the suffix of the binary log grows from six to seven digits"
    options: ClassVar = {"first_file_number": 999_998}


class Purge(_Rotations):
    """FLUSH and PURGE BINARY LOGS on every instance, several times."""

    name = "purge"
    text = "PURGE: the oldest file moves up, gtid_purged grows"
    options: ClassVar = {"max_binlog_size": 4_096}

    def arrange(self, fleet: World) -> None:
        super().arrange(fleet)
        for instance in fleet.instances.values():
            for fifth in (2, 3, 4):
                near(fleet, fifth / 5 + 0.1, instance, administration.purge_binary_logs, instance)


class Rotate(_Rotations):
    """Small files that rotate by themselves too."""

    name = "rotate"
    text = "the file changes and the position falls"
    options: ClassVar = {"max_binlog_size": 4_096}


class StrayFile(_Rotations):
    """Somebody has copied a binary log file into the directory of each server."""

    name = "stray_file"
    text = "the next file's number is beyond that of a file in the directory that is not listed"

    def arrange(self, fleet: World) -> None:
        super().arrange(fleet)
        for instance in fleet.instances.values():
            log = instance[BinaryLog]
            log.stray_number = log.active.number + _STRAY_AHEAD
            near(fleet, 0.1, instance, _restart_or_rotate, instance)


class Idle(Negative):
    """Clients write next to nothing."""

    name = "idle"
    text = "positions, sets and LSN stand still between collections"
    options: ClassVar = {"writes_per_second": 0.2, "acts": False}


class NoInnodbChanges(Negative):
    """Only non-transactional and empty groups."""

    name = "no_innodb_changes"
    text = "the position grows while the LSN stands still"

    def arrange(self, fleet: World) -> None:
        fleet.pace.kinds = (GroupKind.NON_TRANSACTIONAL, GroupKind.EMPTY)


class LogReplicaUpdatesOff(Negative):
    """log_replica_updates=OFF on replicas that nobody reads from."""

    name = "log_replica_updates_off"
    text = "the position of a replica stands still, gtid_purged grows with gtid_executed"
    options: ClassVar = {"topology": "pair"}

    def arrange(self, fleet: World) -> None:
        for replica in replicas(fleet):
            if not replica[ChannelMap].subscribers:
                administration.set_variables(replica, log_replica_updates=False)


def _restart_or_rotate(fleet: World, instance: Instance) -> None:
    """Either takes the next number."""
    act = fleet.rng.choice((lifecycle.shut_down, administration.flush_binary_logs))
    act(fleet, instance)


def _commit_huge(fleet: World, instance: Instance) -> None:
    if not instance.is_running:
        fleet.schedule(fleet.now + SECOND_US // 10, None, _commit_huge, instance)
        return
    clients.write(fleet, instance, rows_length=_HUGE_ROWS_LENGTH, rows_count=_HUGE_ROWS_COUNT)
