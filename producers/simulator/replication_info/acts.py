"""What administrators and accidents do to replication info repositories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick.producers.simulator.replication_info import relay_log_info, rpl_info_factory
from tallystick.producers.simulator.replication_info.crash_points import CrashPlan, CrashPoint
from tallystick.producers.simulator.replication_info.relay_log_info import RelayLogInfo
from tallystick.producers.simulator.replication_info.rpl_info_handler import Repository
from tallystick.producers.simulator.replication_info.rpl_info_table_access import system_table
from tallystick.producers.simulator.server import lifecycle
from tallystick.producers.simulator.server.channels import Applier

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.world import World
    from tallystick.producers.simulator.server.channels import Channel


def choose(instance: Instance, repository: Repository) -> None:
    """Both options in the configuration file; the next start goes by them."""
    instance.variables["master_info_repository"] = repository.value
    instance.variables["relay_log_info_repository"] = repository.value
    _record_kind(instance)


def alter_engine(instance: Instance, engine: str) -> None:
    """A super user alters the tables of replication info, while replication is stopped."""
    for kind in (rpl_info_factory.MASTER, rpl_info_factory.RELAY):
        system_table(instance, kind.table, kind.columns).alter_engine(engine)
    _record_kind(instance)


def _record_kind(instance: Instance) -> None:
    """The setting of ours that says whether the applier's position commits with the data."""
    table = system_table(instance, relay_log_info.TABLE, relay_log_info.COLUMNS)
    is_table = instance.variables[relay_log_info.OPTION] == Repository.TABLE.value
    instance.variables["relay_log_info_transactional"] = is_table and table.is_transactional


def restart_with(
    fleet: World, instance: Instance, repository: Repository, engine: str | None = None
) -> None:
    """A clean restart with another repository, or another engine of its tables."""
    if not instance.is_running:
        return
    lifecycle.shut_down(fleet, instance)
    if engine is not None:
        alter_engine(instance, engine)
    choose(instance, repository)


def crash_at(_: World, instance: Instance, plan: CrashPlan) -> None:
    """The instance dies when its replication next comes to the step of the plan."""
    if instance.is_running:
        instance[CrashPlan] = plan


def leave_behind(_: World, channel: Channel, repository: Repository) -> None:
    """Old relay log info lies in a repository, as after a copy from another server."""
    handler = rpl_info_factory.handler_of(channel, rpl_info_factory.RELAY, repository)
    fields = channel[RelayLogInfo].fields(channel, channel[Applier].group_end)
    handler.flush_info(fields, force=True, sync_period=0)


def remove(fleet: World, channel: Channel, repository: Repository) -> None:
    """The operator removes what lies there and starts the server anew."""
    rpl_info_factory.handler_of(channel, rpl_info_factory.RELAY, repository).reset_info()
    lifecycle.shut_down(fleet, channel.replica)


STEPS_OF_A_TRANSACTION = (
    CrashPoint.BETWEEN_RELAY_LOG_AND_MASTER_INFO,
    CrashPoint.BETWEEN_EXECUTION_AND_BINARY_LOG,
    CrashPoint.BETWEEN_BINARY_LOG_AND_COMMIT,
    CrashPoint.BETWEEN_COMMIT_AND_POSITION,
    CrashPoint.BEHIND_POSITION,
)
