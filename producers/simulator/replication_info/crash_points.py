"""Where a replica may die between two steps that the document keeps apart.

A plan waits in the instance for its step; then the server is gone in the middle of whatever act
was going on, and what it had in memory with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.transactions import Group, GroupKind
    from tallystick.producers.simulator.server.channels import Channel


class CrashPoint(str, Enum):
    """The steps, in the order in which one transaction meets them."""

    BETWEEN_RELAY_LOG_AND_MASTER_INFO = "events are in the relay log, master info is not flushed"
    BETWEEN_EXECUTION_AND_BINARY_LOG = "a group is executed, nothing of it is logged"
    BETWEEN_BINARY_LOG_AND_COMMIT = "a group is logged and prepared, not committed"
    BETWEEN_COMMIT_AND_POSITION = "a group is committed, its position is not written"
    INSIDE_FILE_WRITE = "the first lines of the relay log info file are new, the others old"
    BEHIND_POSITION = "the position is written"
    BETWEEN_REPOSITORIES = "master info is written, relay log info is not"
    BETWEEN_FILL_AND_DELETE = "a start has filled one repository, the other still holds data"


class InstanceCrashedError(Exception):
    """A server died in the middle of an act."""

    def __init__(self, instance: Instance, *, power_cut: bool) -> None:
        super().__init__(f"{instance!r} crashed")
        self.instance = instance
        self.power_cut = power_cut


@dataclass(slots=True)
class CrashPlan:
    """What an instance waits for.

    Attributes:
        point: The step.
        passes: How often the step is passed unharmed before.
        power_cut: Whether the machine dies with the server, and its caches too.
        kinds: Kinds of groups that count; None: all.
    """

    point: CrashPoint
    passes: int = 0
    power_cut: bool = False
    kinds: tuple[GroupKind, ...] | None = None


def reach(channel: Channel | None, point: CrashPoint, group: Group | None = None) -> None:
    """A channel's work has come to a step; a client's has no channel, and no such steps.

    Raises:
        InstanceCrashedError: The plan of its instance was waiting for it.
    """
    if channel is None:
        return
    instance = channel.replica
    plan = instance.get(CrashPlan)
    if plan is None or plan.point is not point or not _counts(plan, group):
        return
    if plan.passes:
        plan.passes -= 1
        return
    instance.remove(CrashPlan)
    raise InstanceCrashedError(instance, power_cut=plan.power_cut)


def is_next(channel: Channel | None, point: CrashPoint, group: Group | None = None) -> bool:
    """Whether ``reach`` would end the instance."""
    plan = None if channel is None else channel.replica.get(CrashPlan)
    return plan is not None and plan.point is point and _counts(plan, group) and not plan.passes


def _counts(plan: CrashPlan, group: Group | None) -> bool:
    return group is None or plan.kinds is None or group.kind in plan.kinds
