"""The acts of the traps: what administrators, clients and accidents do to a healthy fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick.coordinates.events.journal import QueryVerb
from tallystick.coordinates.values.binlog import EventType
from tallystick.producers.simulator import administration, commit, workload
from tallystick.producers.simulator.clone import cloning
from tallystick.producers.simulator.gtid_intervals import GtidIntervals
from tallystick.producers.simulator.model import Group, GroupKind, OutOfMemory

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallystick.producers.simulator.engine import Fleet
    from tallystick.producers.simulator.model import Channel, Instance

_SECOND = 1_000_000
_UPGRADED_VERSION = "8.4.3"
_HUGE_ROWS_LENGTH = (1 << 30) - 256
_HUGE_ROWS_COUNT = 4
_GNO_BLOCK = 1_000_000


def nothing(fleet: Fleet) -> None:
    """The trap is made by the options of its scenario alone."""


def commit_slowly(fleet: Fleet) -> None:
    """Much time passes between flush and commit stage, as it does on a busy disk."""
    fleet.commit_stage_us = (2_000, 80_000)


def semi_sync(fleet: Fleet) -> None:
    """Sources wait for the acknowledgement of their replicas before the commit stage."""
    for channel in _channels(fleet):
        channel.semi_sync = True


def apply_slowly(fleet: Fleet) -> None:
    """Groups pile up in front of the appliers."""
    fleet.apply_us = (10_000, 50_000)


def receive_in_pieces(fleet: Fleet) -> None:
    """Receivers get most groups in pieces."""
    fleet.partial_chance = 0.6


def flush_relay_logs_when_idle(fleet: Fleet) -> None:
    """FLUSH RELAY LOGS after the load has ended and everything is applied."""
    for channel in _channels(fleet):
        fleet.schedule(
            fleet.load_ends_at + 3 * _SECOND,
            channel.replica,
            administration.flush_relay_logs,
            channel,
        )


def reset_replica(fleet: Fleet) -> None:
    """RESET REPLICA in the middle; START REPLICA a collection later."""
    for channel in _channels(fleet):
        _at(fleet, 0.4, channel.replica, administration.reset_replica, channel)
        _at(fleet, 0.7, channel.replica, _start_again, channel)


def reset_replica_all(fleet: Fleet) -> None:
    """One of several channels is given up for good."""
    channel = _channels(fleet)[-1]
    _at(fleet, 0.5, channel.replica, _give_up, channel)


def reconnect_inside_groups(fleet: Fleet) -> None:
    """The connection breaks again and again while groups arrive in pieces."""
    fleet.partial_chance = 0.6
    for channel in _channels(fleet):
        for tenth in range(2, 10):
            _at(fleet, tenth / 10, channel.replica, administration.reconnect, channel)


def recover_relay_log(fleet: Fleet) -> None:
    """A clean restart of the replica with relay_log_recovery."""
    for channel in _channels(fleet):
        channel.replica.variables["relay_log_recovery"] = True
        _at(fleet, 0.5, channel.replica, administration.shut_down, channel.replica)


def switch_binlog_off_and_on(fleet: Fleet) -> None:
    """Restart with --skip-log-bin, and again with a binary log."""
    for replica in _replicas(fleet):
        if not replica.subscribers:
            _at(fleet, 0.2, replica, _restart_without_log, replica)
            _at(fleet, 0.8, replica, _restart_with_log, replica)


def change_gtid_mode(fleet: Fleet) -> None:
    """ON, ON_PERMISSIVE, OFF_PERMISSIVE with anonymous groups, and back; step by step."""
    steps = ("ON_PERMISSIVE", "OFF_PERMISSIVE", "ON_PERMISSIVE", "ON")
    _at(fleet, 0.2, None, _set_gtid_mode, steps)


def set_gtid_purged(fleet: Fleet) -> None:
    """Every instance learns of the same transactions of a server that is gone."""
    added = GtidIntervals.of((_foreign_uuid(fleet), 1, fleet.rng.randrange(1, 500)))
    for instance in reversed(fleet.instances.values()):
        _at(fleet, 0.5, instance, administration.set_gtid_purged, instance, added)


def inject_empty_group(fleet: Fleet) -> None:
    """SET gtid_next to a GTID of a server that is gone; BEGIN; COMMIT."""
    uuid = _foreign_uuid(fleet)
    for gno, source in enumerate(_sources(fleet), 1):
        _at(fleet, 0.5, source, _commit_empty, source, uuid, gno)


def reset_binary_logs(fleet: Fleet) -> None:
    """RESET MASTER where nobody replicates from."""
    for source in _sources(fleet):
        _at(fleet, 0.5, source, administration.reset_binary_logs, source)


def restart_source(fleet: Fleet) -> None:
    """A clean restart of a source."""
    source = fleet.rng.choice(_sources(fleet))
    _at(fleet, 0.5, source, administration.shut_down, source)


def restart_replica(fleet: Fleet) -> None:
    """A clean restart of a replica, relay logs kept."""
    for replica in _replicas(fleet):
        replica.variables["relay_log_recovery"] = False
        _at(fleet, 0.5, replica, administration.shut_down, replica)


def crash_source(fleet: Fleet) -> None:
    """A source crashes while it writes a group."""
    source = fleet.rng.choice(_sources(fleet))
    _at(fleet, 0.5, source, administration.crash, source)


def crash_replica(fleet: Fleet) -> None:
    """A replica crashes while it writes a local group."""
    for replica in _replicas(fleet):
        _at(fleet, 0.5, replica, administration.crash, replica)


def write_huge_group(fleet: Fleet) -> None:
    """One group of about 4 GiB; the next groups end beyond 2^32."""
    for source in _sources(fleet):
        _at(fleet, 0.3, source, _commit_huge, source)


def rotate_often(fleet: Fleet) -> None:
    """FLUSH BINARY LOGS on every instance, several times."""
    for instance in fleet.instances.values():
        for fifth in (1, 2, 3, 4):
            _at(fleet, fifth / 5, instance, administration.flush_binary_logs, instance)


def purge_often(fleet: Fleet) -> None:
    """FLUSH and PURGE BINARY LOGS on every instance, several times."""
    rotate_often(fleet)
    for instance in fleet.instances.values():
        for fifth in (2, 3, 4):
            _at(fleet, fifth / 5 + 0.1, instance, administration.purge_binary_logs, instance)


def write_without_innodb(fleet: Fleet) -> None:
    """Only non-transactional and empty groups."""
    fleet.kinds = (GroupKind.NON_TRANSACTIONAL, GroupKind.EMPTY)


def log_no_replica_updates(fleet: Fleet) -> None:
    """log_replica_updates=OFF on replicas that nobody reads from."""
    for replica in _replicas(fleet):
        if not replica.subscribers:
            administration.set_variables(replica, log_replica_updates=False)


def fail_over(fleet: Fleet) -> None:
    """A switchover: clients stop, replicas catch up, one becomes the source of all others."""
    source = _sources(fleet)[0]
    moment = _moment(fleet, 0.4)
    fleet.clock.schedule(moment, source, _demote, source)
    fleet.schedule(moment + _SECOND, None, _promote, source)


def number_by_group(fleet: Fleet) -> None:
    """Sources number their groups as members of one group, each from its block."""
    group_name = _foreign_uuid(fleet)
    for instance in fleet.instances.values():
        administration.set_variables(instance, group_replication_group_name=group_name)
    for place, source in enumerate(_sources(fleet)):
        source.automatic_sid = group_name
        source.gno_block = 1 + place * _GNO_BLOCK
        _at(fleet, 0.3, source, _change_view, source)
        block = 1 + (place + 5) * _GNO_BLOCK
        _at(fleet, 0.6, source, _take_block, source, group_name, block)


def ignore_server_id(fleet: Fleet) -> None:
    """One of two paths is told to leave out what the source wrote."""
    channel = _channels(fleet)[-1]
    ids = tuple(source.server_id for source in _sources(fleet))
    _at(fleet, 0.3, channel.replica, _change_to_filtered, channel, ids)


def refuse_collections(fleet: Fleet) -> None:
    """Privileges go and come back; a column cannot be collected once."""
    for instance in fleet.instances.values():
        refusal = fleet.rng.choice(("no_select", "no_backup_admin", "fail"))
        _at(fleet, 0.2, instance, _refuse, instance, refusal)
        _at(fleet, 0.6, instance, _refuse, instance, "all")


def upgrade(fleet: Fleet) -> None:
    """Replicas, then sources, restart with a newer version; then GTIDs get tags."""
    for share, instances in ((0.2, _replicas(fleet)), (0.5, _sources(fleet))):
        for instance in instances:
            _at(fleet, share, instance, upgrade_now, instance)


def give_gno_back(fleet: Fleet) -> None:
    """A group gets its GNO and fails to be flushed while the next one is logged."""
    for source in _sources(fleet):
        _at(fleet, 0.5, source, _fail_flush, source)


def persist_gtids(fleet: Fleet) -> None:
    """Every instance tells what its GTID persister does; a source crashes meanwhile."""
    for instance in fleet.instances.values():
        instance.tells_gtid_persister = True
    crash_source(fleet)


def clone(fleet: Fleet) -> None:
    """A replica clones its source and resumes behind it."""
    for channel in _channels(fleet):
        _at(fleet, 0.5, None, cloning.clone, channel)


def run_xa(fleet: Fleet) -> None:
    """XA PREPARE, other groups, XA COMMIT."""
    for source in _sources(fleet):
        for share in (0.2, 0.5, 0.8):
            _at(fleet, share, source, _prepare_xa, source)


def write_compressed(fleet: Fleet) -> None:
    """binlog_transaction_compression=ON."""
    fleet.kinds = (GroupKind.COMPRESSED,)


# What happens when the moment has come


def _start_again(fleet: Fleet, channel: Channel) -> None:
    if channel.replica.is_running:
        administration.start_replication(fleet, channel)


def _give_up(fleet: Fleet, channel: Channel) -> None:
    administration.reset_replica(fleet, channel, everything=True)


def _restart_without_log(fleet: Fleet, replica: Instance) -> None:
    administration.shut_down(fleet, replica)
    replica.log_bin = replica.variables["log_bin"] = False
    replica.purged = replica.executed.copy()


def _restart_with_log(fleet: Fleet, replica: Instance) -> None:
    administration.shut_down(fleet, replica)
    replica.log_bin = replica.variables["log_bin"] = True
    files = replica.binlog.files
    # A clone that was made meanwhile has left none.
    replica.purged = (files[0].previous_gtids if files else replica.executed).copy()
    replica.purged.update(replica.table_only)


def _set_gtid_mode(fleet: Fleet, steps: tuple[str, ...]) -> None:
    """Set the next mode everywhere, once all servers run and all channels have caught up."""
    instances = fleet.instances.values()
    is_quiet = all(
        i.is_running and fleet.now >= i.blocked_until and not i.awaits_clone for i in instances
    )
    if not is_quiet or any(c.pending or c.receive_is_scheduled for c in _channels(fleet)):
        fleet.schedule(fleet.now + _SECOND // 100, None, _set_gtid_mode, steps)
        return
    for instance in instances:
        commit.finish_all(fleet, instance)
        administration.set_variables(instance, gtid_mode=steps[0])
    if steps[1:]:
        moment = _moment(fleet, 0.18, since=fleet.now)
        fleet.schedule(moment, None, _set_gtid_mode, steps[1:])


def _commit_empty(fleet: Fleet, instance: Instance, uuid: str, gno: int) -> None:
    if instance.is_running and instance.gtid_mode != "OFF":
        group = workload.make_group(fleet.rng, GroupKind.EMPTY, instance.server_id, fleet.now)
        group.sid, group.gno = uuid, gno
        commit.commit(fleet, instance, group)


def _commit_huge(fleet: Fleet, instance: Instance) -> None:
    if not instance.is_running:
        fleet.schedule(fleet.now + _SECOND // 10, None, _commit_huge, instance)
        return
    fleet.write(instance, rows_length=_HUGE_ROWS_LENGTH, rows_count=_HUGE_ROWS_COUNT)


def _demote(old: Instance) -> None:
    old.writes = False
    old.super_read_only = True


def _promote(fleet: Fleet, old: Instance) -> None:
    """As soon as every replica has everything: the group before was a second ago."""
    channels = [c for c in _channels(fleet) if c.source is old]
    if old.in_commit or not old.is_running or any(_lacks(c, old) for c in channels):
        fleet.schedule(fleet.now + _SECOND // 10, None, _promote, old)
        return
    promoted = channels[0].replica
    for channel in channels:
        administration.stop_replication(fleet, channel)
    administration.reset_replica(fleet, channels[0], everything=True)
    for channel in channels[1:]:
        administration.change_source(fleet, channel, promoted)
        administration.start_replication(fleet, channel)
    fleet.add_channel(old, "", promoted)
    promoted.writes = True


def _lacks(channel: Channel, source: Instance) -> bool:
    """Whether a replica cannot yet do without its source."""
    replica = channel.replica
    is_ready = replica.is_running and not replica.awaits_clone and not channel.pending
    return not is_ready or not source.executed.is_subset(replica.executed)


def _change_view(fleet: Fleet, instance: Instance) -> None:
    """A member joins: a view change group under the group name."""
    group = workload.make_group(fleet.rng, GroupKind.EMPTY, instance.server_id, fleet.now)
    begin, end = group.body
    view = (int(EventType.VIEW_CHANGE), int(QueryVerb.NONE), 141, fleet.rng.getrandbits(32))
    group.body = (begin, view, end)
    if instance.is_running:
        commit.commit(fleet, instance, group)


def _take_block(fleet: Fleet, instance: Instance, group_name: str, first: int) -> None:
    """The group hands out the next block of GNOs, if the member still numbers by the group."""
    if instance.automatic_sid == group_name and fleet.now < fleet.load_ends_at:
        instance.gno_block = first


def _change_to_filtered(fleet: Fleet, channel: Channel, ids: tuple[int, ...]) -> None:
    administration.stop_replication(fleet, channel)
    administration.change_source(fleet, channel, channel.source, ignore_server_ids=ids)
    administration.start_replication(fleet, channel)


def _refuse(fleet: Fleet, instance: Instance, refusal: str) -> None:
    if refusal == "fail":
        resource = fleet.rng.choice(("binlog", "engine:InnoDB"))
        instance.out_of_memory = OutOfMemory("collect", resource)
    else:
        instance.privileges = refusal


def upgrade_now(fleet: Fleet, instance: Instance) -> None:
    """Restart with a newer version."""
    administration.shut_down(fleet, instance)
    instance.version = _UPGRADED_VERSION
    if instance.writes:
        instance.automatic_sid = f"{instance.server_uuid}:batch"
        instance.gno_block = 1


def _fail_flush(fleet: Fleet, instance: Instance) -> None:
    if not instance.is_running or instance.gtid_mode != "ON":
        return
    sid = instance.automatic_sid
    given_back = instance.logged.next_free(sid, instance.gno_block)
    instance.logged.add(sid, given_back)
    fleet.write(instance)
    instance.logged.discard(sid, given_back)
    fleet.write(instance)


def _prepare_xa(fleet: Fleet, instance: Instance) -> None:
    if not instance.is_running or not instance.writes:
        return  # behind a failover clients are elsewhere
    logged = fleet.write(instance, GroupKind.XA_PREPARE)
    if logged is not None:
        _at(fleet, 0.15, None, end_xa, logged.group, GroupKind.XA_COMMIT, since=fleet.now)


def end_xa(fleet: Fleet, prepared: Group, kind: GroupKind) -> None:
    """XA COMMIT or XA ROLLBACK by a client: where clients write now, on a server that has it."""
    for instance in fleet.instances.values():
        has_it = instance.is_running and instance.writes and prepared in instance.prepared_xa
        if has_it and fleet.now >= instance.blocked_until:
            fleet.write(instance, kind, xa_of=prepared)
            return
    if fleet.now < fleet.load_ends_at:
        fleet.schedule(fleet.now + _SECOND // 10, None, end_xa, prepared, kind)


# Moments and places


def _moment(fleet: Fleet, share: float, since: int | None = None) -> int:
    load = fleet.load_ends_at - fleet.start_ts
    return (fleet.start_ts if since is None else since) + int(load * share)


def _at(
    fleet: Fleet,
    share: float,
    instance: Instance | None,
    act: Callable[..., None],
    *args: object,
    since: int | None = None,
) -> None:
    """Schedule an act when a share of the load's time has passed, give or take."""
    shift = fleet.rng.randrange(-_SECOND // 20, _SECOND // 20)
    moment = max(fleet.now + 1, _moment(fleet, share, since) + shift)
    fleet.schedule(moment, instance, act, *args)


def _channels(fleet: Fleet) -> list[Channel]:
    return [
        channel
        for instance in fleet.instances.values()
        for channel in instance.channels.values()
        if channel.is_configured
    ]


def _sources(fleet: Fleet) -> list[Instance]:
    return [instance for instance in fleet.instances.values() if instance.writes]


def _replicas(fleet: Fleet) -> list[Instance]:
    return [instance for instance in fleet.instances.values() if instance.channels]


def _foreign_uuid(fleet: Fleet) -> str:
    digits = f"{fleet.rng.getrandbits(128):032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
