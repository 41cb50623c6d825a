"""Traps of clones (WL#9211): legal histories in which a clone looks wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tallystick.producers.simulator import administration, commit, trap_acts, workload
from tallystick.producers.simulator.clone import cloning, distributed_recovery
from tallystick.producers.simulator.clone.clone_status import STAGES, State
from tallystick.producers.simulator.clone.cloning import CrashPoint
from tallystick.producers.simulator.clone.donor import END_STEPS
from tallystick.producers.simulator.model import GroupKind
from tallystick.producers.simulator.trap import Trap

if TYPE_CHECKING:
    from tallystick.producers.simulator.engine import Fleet
    from tallystick.producers.simulator.model import Channel, Group, Instance

_SECOND = 1_000_000
_RECIPIENT_CRASHES = tuple(CrashPoint("recipient", stage) for stage in STAGES)
_DONOR_CRASHES = tuple(
    CrashPoint("donor", step)
    for step in ("DROP DATA", "FILE COPY", "PAGE COPY", *END_STEPS, "FILE SYNC", "RESTART")
)
_MS = 1_000


def _channel(fleet: Fleet, recipient: str = "replica-a1") -> Channel:
    return next(iter(fleet.instances[recipient].channels.values()))


def _at(fleet: Fleet, ms: int, act: Any, *args: object) -> None:
    fleet.schedule(fleet.start_ts + ms * _MS, None, act, *args)


def _tell_persisters(fleet: Fleet) -> None:
    for instance in fleet.instances.values():
        instance.tells_gtid_persister = True


def _clone(fleet: Fleet, *crashes: CrashPoint) -> None:
    channel = _channel(fleet)
    status = channel.replica.clone_status
    if status is not None and status.state is not State.COMPLETED:
        # One clone at a time; one that has failed is issued again by whoever issued it.
        fleet.schedule(fleet.now + 100 * _MS, None, _clone, *crashes)
        return
    cloning.clone(fleet, channel, crashes=crashes)


def crash_recipient(fleet: Fleet) -> None:
    """The recipient crashes at every stage, in a later one each time."""
    _tell_persisters(fleet)
    _at(fleet, 500, _clone, *_RECIPIENT_CRASHES)


def crash_donor(fleet: Fleet) -> None:
    """The donor crashes at every stage and at every step of the end."""
    _at(fleet, 400, _clone, *_DONOR_CRASHES)


def clone_under_load(fleet: Fleet) -> None:
    """Many commits, unordered and slow, while the clone ends; the donor persists GTIDs."""
    fleet.commit_stage_us = (2_000, 80_000)
    _tell_persisters(fleet)
    _at(fleet, 1_500, _clone)


def clone_by_position(fleet: Fleet) -> None:
    """US-1.3: without auto-position the channel starts at the cloned place."""
    _at(fleet, 1_700, _clone)


def clone_semi_sync(fleet: Fleet) -> None:
    """F-4: before and behind the clone the donor waits for acknowledgements."""
    trap_acts.semi_sync(fleet)
    _at(fleet, 1_500, _clone)


def clone_with_xa(fleet: Fleet) -> None:
    """XA transactions are prepared before, while and behind the clone, and committed later."""
    source = fleet.instances["source-a"]
    for ms in range(300, 2_700, 150):
        _at(fleet, ms, _prepare, source)
    _at(fleet, 1_000, _clone)


def _prepare(fleet: Fleet, instance: Instance) -> None:
    if instance.is_running:
        group = workload.make_group(fleet.rng, GroupKind.XA_PREPARE, instance.server_id, fleet.now)
        commit.commit(fleet, instance, group)
        fleet.schedule(fleet.now + _SECOND, None, _end_xa, instance, group)


def _end_xa(fleet: Fleet, instance: Instance, prepared: Group) -> None:
    if not instance.is_running or prepared not in instance.prepared_xa:
        fleet.schedule(fleet.now + _SECOND // 5, None, _end_xa, instance, prepared)
        return
    fleet.write(instance, GroupKind.XA_COMMIT, xa_of=prepared)


def clone_of_a_clone(fleet: Fleet) -> None:
    """A replica clones the source, the next one clones the clone and follows it."""
    _at(fleet, 600, _clone)
    _at(fleet, 1_900, _clone_the_clone)


def _clone_the_clone(fleet: Fleet) -> None:
    donor = fleet.instances["replica-a1"]
    if donor.awaits_clone or donor.clone_status is None:
        _again(fleet, _clone_the_clone)
        return
    cloning.clone(fleet, _channel(fleet, "replica-a2"), donor=donor)


def _again(fleet: Fleet, act: Any, *args: object) -> None:
    fleet.schedule(fleet.now + 50 * _MS, None, act, *args)


def clone_and_fail_over(fleet: Fleet) -> None:
    """A clone becomes the source of all others soon behind it."""
    _at(fleet, 300, _clone)
    trap_acts.fail_over(fleet)


def clone_and_upgrade(fleet: Fleet) -> None:
    """The recipient, then the donor are upgraded behind the clone, as any server is."""
    _at(fleet, 400, _clone)
    for ms, name in ((2_300, "replica-a1"), (3_200, "source-a")):
        _at(fleet, ms, _upgrade, fleet.instances[name])


def _upgrade(fleet: Fleet, instance: Instance) -> None:
    if instance.awaits_clone or not instance.is_running or instance.blocked_until > fleet.now:
        _again(fleet, _upgrade, instance)
        return
    trap_acts.upgrade_now(fleet, instance)


def clone_refused(fleet: Fleet) -> None:
    """The recipient is a release ahead: 3864, and it goes on as the replica that it was."""
    _at(fleet, 500, _upgrade, fleet.instances["replica-a1"])
    _at(fleet, 1_600, _clone)


def clone_across_modes(fleet: Fleet) -> None:
    """F-6: a donor of OFF_PERMISSIVE, then ON_PERMISSIVE; a recipient of ON."""
    channel = _channel(fleet)
    _at(fleet, 600, _leave_mode, channel)


def _leave_mode(fleet: Fleet, channel: Channel) -> None:
    donor = channel.source
    if not (donor.is_running and channel.replica.is_running):
        _again(fleet, _leave_mode, channel)
        return
    if donor.variables["gtid_mode"] != "ON":
        _clone(fleet)  # the fleet is elsewhere already
        return
    administration.stop_replication(fleet, channel)
    for mode in ("ON_PERMISSIVE", "OFF_PERMISSIVE"):
        commit.finish_all(fleet, donor)
        administration.set_variables(donor, gtid_mode=mode)
    fleet.schedule(fleet.now + 600 * _MS, None, _clone)
    fleet.schedule(fleet.now + 700 * _MS, donor, _enter_mode, donor)


def _enter_mode(fleet: Fleet, donor: Instance) -> None:
    if not donor.is_running:
        _again(fleet, _enter_mode, donor)
        return
    commit.finish_all(fleet, donor)
    administration.set_variables(donor, gtid_mode="ON_PERMISSIVE")


def clone_into_group(fleet: Fleet) -> None:
    """F-3: a member that has left comes back when the binary logs that it lacks are purged."""
    trap_acts.number_by_group(fleet)
    channel = _channel(fleet)
    _at(fleet, 900, _leave_group, channel)


def _leave_group(fleet: Fleet, channel: Channel) -> None:
    if not channel.replica.is_running:
        _again(fleet, _leave_group, channel)
        return
    administration.reset_replica(fleet, channel, everything=True)
    fleet.schedule(fleet.now + 700 * _MS, None, _purge_and_join, channel)


def _purge_and_join(fleet: Fleet, channel: Channel) -> None:
    donor = channel.source
    if not (donor.is_running and channel.replica.is_running):
        _again(fleet, _purge_and_join, channel)
        return
    administration.flush_binary_logs(fleet, donor)
    administration.purge_binary_logs(fleet, donor)
    distributed_recovery.join(fleet, channel, donor)


_PAIR = {"topology": "pair", "auto_position": True, "acts": False, "duration_ms": 4_000}
"""With the duration no trap goes together with one whose clone fails on the same channel."""

TRAPS = (
    Trap(
        "clone_recipient_crashes",
        "T34",
        "a clone fails at every stage of the copy and is issued again; recovery is begun twice",
        {**_PAIR, "duration_ms": 6_000, "max_binlog_size": 1 << 16},
        crash_recipient,
    ),
    Trap(
        "clone_donor_crashes",
        "T34",
        "the donor crashes at every stage and at every step of the end of a clone",
        {**_PAIR, "duration_ms": 8_000},
        crash_donor,
    ),
    Trap(
        "clone_under_load",
        "T34",
        "commits are unordered before and behind the end of a clone, and ordered in between",
        {**_PAIR, "profile": "mysql-8.0", "order_commits": False, "writes_per_second": 40.0},
        clone_under_load,
    ),
    Trap(
        "clone_by_position",
        "T34",
        "a clone without auto-position starts in the middle of its donor's file",
        {"topology": "pair", "auto_position": False, "writes_per_second": 10.0},
        clone_by_position,
    ),
    Trap(
        "clone_semi_sync",
        "T34",
        "the donor waits for the acknowledgement of a recipient that is being cloned",
        {**_PAIR, "profile": "mysql-8.0", "writes_per_second": 20.0},
        clone_semi_sync,
    ),
    Trap(
        "clone_xa",
        "T34",
        "XA transactions are prepared in the donor's data and committed behind the clone",
        _PAIR,
        clone_with_xa,
    ),
    Trap(
        "clone_of_a_clone",
        "T34",
        "a clone is cloned in its turn: two servers have data of a third",
        {"topology": "star", "auto_position": True, "acts": False},
        clone_of_a_clone,
    ),
    Trap(
        "clone_then_failover",
        "T34",
        "a clone becomes the source: GTIDs that its own binary log never had are purged there",
        _PAIR,
        clone_and_fail_over,
    ),
    Trap(
        "clone_then_upgrade",
        "T34",
        "a clone is upgraded like any server",
        _PAIR,
        clone_and_upgrade,
    ),
    Trap(
        "clone_refused",
        "T34",
        "the version differs: error 3864, nothing is dropped, replication goes on",
        _PAIR,
        clone_refused,
    ),
    Trap(
        "clone_across_modes",
        "T34",
        "donor and recipient differ in gtid_mode: anonymous groups in front of the position",
        {"topology": "pair", "auto_position": False, "acts": False},
        clone_across_modes,
    ),
    Trap(
        "clone_into_group",
        "T34",
        "a member comes back to its group by a clone, as the logs that it lacks are purged",
        _PAIR,
        clone_into_group,
    ),
)
