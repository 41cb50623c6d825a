"""The Log Position Lock (WL#9452), shown: one query freezes all logs of a server for a moment.

Collections come every second. What is issued inside a collection, by other sessions, waits until
the state has been left.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from tallystick.producers.simulator.backup import backup_session, restore
from tallystick.producers.simulator.backup.outer_locks import (
    GLOBAL_READ,
    INSTANCE,
    OuterLocks,
)
from tallystick.producers.simulator.backup.restore import can_be_cut
from tallystick.producers.simulator.innodb import redo_log
from tallystick.producers.simulator.innodb.redo_log import Innodb
from tallystick.producers.simulator.kernel.gtid_intervals import GtidIntervals
from tallystick.producers.simulator.log_status import latches
from tallystick.producers.simulator.log_status.collection import ANSWERED
from tallystick.producers.simulator.log_status.latches import Latches
from tallystick.producers.simulator.log_status.log_status_query import (
    COLLECT_STEP,
    LogStatus,
    LogStatusQuery,
    OutOfMemory,
)
from tallystick.producers.simulator.log_status.storage_engines import Handlerton, StorageEngines
from tallystick.producers.simulator.replication_info.master_info import MasterInfo
from tallystick.producers.simulator.scenarios.design_scenario import (
    Claim,
    DesignScenario,
    text_of,
)
from tallystick.producers.simulator.server import administration, clients, receiver
from tallystick.producers.simulator.server.binary_log import BinaryLog
from tallystick.producers.simulator.server.channels import ChannelMap, Receiver, RelayLog
from tallystick.producers.simulator.server.commit_queue import CommitQueue
from tallystick.producers.simulator.server.gtid_state import GtidState

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.world import World
    from tallystick.producers.simulator.server.channels import Channel, QueuedGroup, RelayFile

_SOURCE, _REPLICA = "source-a", "hub"
_LATER_US = 10_000
_FIRST_COPY = 6
_RESTORE_AFTER_US = 500_000
_LOOK_US = 2_000
_SETTLED_US = 1_000_000
_OLD_SERVER = "11111111-2222-3333-4444-555555555555"
"""server_uuid of a server that is gone; its transactions are assigned, never logged."""


def _arrange(fleet: World) -> None:
    """Say what happens inside which answer; the collections themselves come from outside."""
    # Compiled in like MyISAM, and like it without the three functions.
    fleet.instances[_REPLICA][StorageEngines].installed["ARCHIVE"] = Handlerton("ARCHIVE")
    acts: dict[tuple[str, int], Callable[[World, Instance, dict[str, Any]], None]] = {
        (_REPLICA, 1): _show_row,
        (_REPLICA, 2): _administer_channels,
        (_SOURCE, 2): _write_and_administer_logs,
        (_REPLICA, 3): _receive_and_assign,
        (_SOURCE, 3): _assign_gtids,
        ("source-b", 3): _assign_gtids,
        (_REPLICA, 4): _see_the_failure,
        (_SOURCE, 4): _collect_under_both_locks,
        (_REPLICA, 5): _see_the_refusal,
        (_REPLICA, 9): _show_what_is_left,
    }
    counts: dict[str, int] = {}

    def listen(instance: Instance, body: dict[str, Any]) -> None:
        number = counts[instance.instance_id] = counts.get(instance.instance_id, 0) + 1
        act = acts.get((instance.instance_id, number))
        if act is not None:
            act(fleet, instance, body)
        if instance is replica and number >= _FIRST_COPY and not copied and can_be_cut(instance):
            copied.append(number)
            _copy_and_restore(fleet, instance, body)

    def catch_receiver(_: World, instance: Instance, __: str, step: str, ___: str | None) -> bool:
        """The receiver has written and not flushed when the session takes data_lock."""
        if instance is replica and step == "enter" and not caught:
            channel = instance[ChannelMap].channels["a"]
            clients.write(fleet, channel.source)
            caught.append(receiver.write_first_event(channel))
        return True

    copied: list[int] = []
    caught: list[QueuedGroup | None] = []
    replica = fleet.instances[_REPLICA]
    # The document flushes positions with each event: the row of the table is never older than F_c.
    administration.set_variables(replica, sync_source_info=1)
    _go_by_position(fleet, replica[ChannelMap].channels["b"])
    fleet.bus.connect(ANSWERED, listen)
    fleet.bus.connect(COLLECT_STEP, catch_receiver)
    second = 1_000_000
    # So that the fourth collection finds the locks held.
    source, before = fleet.instances[_SOURCE], backup_session.HELD_US // 2
    fleet.schedule(fleet.start_ts + 4 * second - before, source, _back_up, source)
    fleet.schedule(fleet.start_ts + 3 * second + second // 2, replica, _run_out_of_memory, replica)
    for at, privileges in ((9, "no_backup_admin"), (11, "all")):
        fleet.schedule(fleet.start_ts + at * second // 2, replica, _grant, replica, privileges)


# Collection 1: what the row shows


def _show_row(fleet: World, instance: Instance, body: dict[str, Any]) -> None:
    row = body["row"]
    local, engines = row["LOCAL"], row["STORAGE_ENGINES"]
    position = f"{local['binary_log_file']}:{local['binary_log_position']}"
    fleet.show(
        "F-1.2",
        instance,
        f"SERVER_UUID {row['SERVER_UUID']}, {position}, "
        f"{len(row['REPLICATION']['channels'])} channels, LSN {engines['InnoDB']['LSN']}",
    )
    if (
        instance[GtidState].logged == instance[GtidState].executed
        and not instance[CommitQueue].in_commit
    ):
        fleet.show(
            "F-1.2.2",
            instance,
            f"{position} is the end of the log, {_executed(instance)} are all that were logged up "
            "to there or assigned",
        )
    for shown in row["REPLICATION"]["channels"]:
        _show_channel(fleet, instance[ChannelMap].channels[shown["channel_name"]], shown)
    fleet.show(
        "F-1.2.4",
        instance,
        f"installed {', '.join(instance[StorageEngines].installed)}; shown {', '.join(engines)}: "
        f"LSN {engines['InnoDB']['LSN']}, checkpoint {engines['InnoDB']['LSN_checkpoint']}",
    )
    held = tuple(instance[Latches].held)
    if held == _locked(instance):
        fleet.show("F-1.3", instance, f"while the row is made the session holds {', '.join(held)}")
    _then(fleet, instance, _show_what_is_held)
    _collect_again(fleet, instance, body["collection_id"])


def _show_channel(fleet: World, channel: Channel, shown: dict[str, Any]) -> None:
    """A channel whose receiver has written an event and waits for data_lock to flush it."""
    flushed = shown["relay_log_file"], shown["relay_log_position"]
    written, stored = channel[RelayLog].files[-1], channel[MasterInfo].stored()
    unflushed = channel.partial_group
    if unflushed is None:
        return
    where = unflushed.relay_file.name, unflushed.start
    is_stored = stored == (unflushed.source_file, unflushed.logged.start)
    if flushed == where != (written.name, written.end) and is_stored:
        fleet.show(
            "F-1.2.3",
            channel.replica,
            f"channel {channel.name!r}: the receiver has written its relay log up to "
            f"{written.name}:{written.end} and not flushed that; the row says {text_of(flushed)}, "
            f"slave_master_info {text_of(stored)}, which is the same event of the source",
        )


def _locked(instance: Instance) -> tuple[str, ...]:
    """What a collection holds while it makes the row, in the order of the document."""
    return (
        latches.LOCK_COLLECT_INSTANCE_LOG,
        latches.CHANNEL_MAP,
        *(latches.data_lock(channel.name) for channel in instance[ChannelMap].configured),
        latches.LOCK_LOG,
        latches.GLOBAL_SID_LOCK,
        latches.LOG_BUFFER,
        latches.LOG_CHECKPOINTER,
    )


def _show_what_is_held(fleet: World, instance: Instance) -> None:
    if not instance[Latches].held:
        fleet.show("F-1.4", instance, "no lock is held after the answer")


def _collect_again(fleet: World, instance: Instance, collection_id: str) -> None:
    """Another client reads the table while the first still holds its locks."""
    asked = instance.journal.last_ts

    def answered(row: dict[str, Any]) -> None:
        waited = instance.journal.last_ts - asked
        if not waited:
            return
        fleet.show(
            "NF-1 second collection",
            instance,
            f"a second session waited for LOCK_collect_instance_log and had its row {waited} µs "
            f"later: {row['LOCAL']['binary_log_file']}:{row['LOCAL']['binary_log_position']}",
        )

    LogStatusQuery(fleet, instance, f"{collection_id}, a second session", answered, _fail).begin()


def _fail(error: dict[str, Any]) -> None:
    raise AssertionError(f"expected a row, got {error!r}")


# Collections 2 and 3: what is issued while the locks are held waits


def _write_and_administer_logs(fleet: World, instance: Instance, body: dict[str, Any]) -> None:
    _watch(fleet, instance)
    _issue(
        fleet,
        instance,
        "F-2.1",
        "COMMIT",
        needs=latches.LOCK_LOG,
        act=partial(clients.write, fleet),
        read=_position,
    )
    _issue(
        fleet,
        instance,
        "NF-1 binary log",
        "FLUSH BINARY LOGS",
        needs=latches.LOCK_LOG,
        act=lambda at: administration.flush_binary_logs(fleet, at),
        read=_position,
    )
    _issue(
        fleet,
        instance,
        "F-2.4",
        "a mini-transaction of InnoDB",
        needs=latches.LOG_BUFFER,
        act=lambda at: redo_log.add_redo(at, 500),
        read=_lsn,
    )


def _administer_channels(fleet: World, instance: Instance, body: dict[str, Any]) -> None:
    _watch(fleet, instance)
    channel = instance[ChannelMap].channels["a"]
    source = channel.source

    def remove(at: Instance) -> None:
        administration.reset_replica(fleet, channel, everything=True)

    def create(at: Instance) -> None:
        administration.add_channel(fleet, at, "a", source)

    def names(at: Instance) -> str:
        configured = [channel.name for channel in at[ChannelMap].configured]
        return f"channels {', '.join(configured) or 'none'}"

    for statement, act in (
        ("RESET REPLICA ALL FOR CHANNEL 'a'", remove),
        ("CHANGE REPLICATION SOURCE FOR CHANNEL 'a'", create),
    ):
        _issue(
            fleet,
            instance,
            "F-2.3",
            statement,
            needs=latches.CHANNEL_MAP,
            act=act,
            read=names,
        )


def _receive_and_assign(fleet: World, instance: Instance, body: dict[str, Any]) -> None:
    channel = instance[ChannelMap].channels["a"]
    before = channel[Receiver].flushed
    clients.write(fleet, channel.source)
    if latches.data_lock("a") in instance[Latches].held:
        fleet.schedule(
            fleet.now + _LATER_US,
            instance,
            _show_receiver,
            channel,
            before,
            channel[Receiver].read,
        )
    _assign_gtids(fleet, instance, body)


def _show_receiver(
    fleet: World, channel: Channel, flushed: tuple[str, int], read: tuple[str, int]
) -> None:
    fleet.show(
        "F-2.5",
        channel.replica,
        f"channel {channel.name!r}: a group was logged at {channel.source.instance_id} while the "
        f"row was made; flushed then {text_of(flushed)} for the source's {text_of(read)}, later "
        f"{text_of(channel[Receiver].flushed)} for {text_of(channel[Receiver].read)}",
    )


def _assign_gtids(fleet: World, instance: Instance, body: dict[str, Any]) -> None:
    added = GtidIntervals.of((_OLD_SERVER, 1, 7))
    _issue(
        fleet,
        instance,
        "F-2.2",
        "SET gtid_purged = '+…:1-7'",
        needs=latches.GLOBAL_SID_LOCK,
        act=lambda at: administration.set_gtid_purged(fleet, at, added),
        read=_executed,
    )


def _issue(
    fleet: World,
    instance: Instance,
    requirement: str,
    statement: str,
    *,
    needs: str,
    act: Callable[[Instance], object],
    read: Callable[[Instance], str],
) -> None:
    """A session issues a statement that needs what another holds; it is done when that is free."""
    issued = instance.journal.last_ts
    if needs not in instance[Latches].held:
        act(instance)
        return

    def go_on(fleet: World) -> None:
        waited, before = instance.journal.moment() - issued, read(instance)
        act(instance)
        fleet.show(
            requirement,
            instance,
            f"{statement}, issued while {needs} was held, waited {waited} µs, then moved {before} "
            f"to {read(instance)}",
        )

    fleet.schedule(fleet.now, instance, go_on)


def _watch(fleet: World, instance: Instance) -> None:
    """Compare when the locks are free, before anything that waited goes on."""
    before = _state(instance)

    def compare(fleet: World) -> None:
        if _state(instance) == before:
            fleet.show(
                "F-2", instance, f"{', '.join(before)}; all as before when the locks were free"
            )

    fleet.schedule(fleet.now, instance, compare)


def _state(instance: Instance) -> list[str]:
    """Where each of the logs is that the state blocks."""
    channels = instance[ChannelMap].configured
    return [
        _position(instance),
        _executed(instance),
        *(f"channel {c.name!r} flushed at {text_of(c[Receiver].flushed)}" for c in channels),
        _lsn(instance),
    ]


# Collection 4 at a source: inside LOCK INSTANCE FOR BACKUP and FLUSH TABLES WITH READ LOCK


def _back_up(fleet: World, instance: Instance) -> None:
    began = fleet.now
    collected: list[str] = []

    def collect(row: dict[str, Any]) -> None:
        local = row["LOCAL"]
        collected.append(f"{local['binary_log_file']}:{local['binary_log_position']}")
        clients.write(fleet, instance)

    def end() -> None:
        if collected == [_position(instance)]:
            fleet.show(
                "F-4",
                instance,
                "LOCK INSTANCE FOR BACKUP, FLUSH TABLES WITH READ LOCK, the row "
                f"{collected[0]}, UNLOCK TABLES, UNLOCK INSTANCE: {fleet.now - began} µs, and the "
                "log still ends there, though a client has asked to commit",
            )

    backup_session.back_up(fleet, instance, collect, end)


def _collect_under_both_locks(fleet: World, instance: Instance, body: dict[str, Any]) -> None:
    locks = instance.get(OuterLocks)
    if locks is not None and locks.held == [INSTANCE, GLOBAL_READ]:
        local = body["row"]["LOCAL"]
        fleet.show(
            "F-4",
            instance,
            f"another session collects while the backup holds {' and '.join(locks.held)}: "
            f"{local['binary_log_file']}:{local['binary_log_position']}",
        )


# Collection 6 of the replica: a copy by the row, and a server of it


def _go_by_position(fleet: World, channel: Channel) -> None:
    """No GTID set hides a position that is wrong."""
    administration.stop_replication(fleet, channel)
    channel.auto_position = False
    administration.change_source(fleet, channel, channel.source)
    administration.start_replication(fleet, channel)


def _copy_and_restore(fleet: World, instance: Instance, body: dict[str, Any]) -> None:
    copy = restore.copy_logs(instance, body["row"])
    fleet.schedule(fleet.now + _RESTORE_AFTER_US, instance, _restore, instance, copy)


def _restore(fleet: World, instance: Instance, copy: restore.LogCopy) -> None:
    restore.restore(fleet, instance, copy)
    for copied in copy.channels:
        fleet.schedule(fleet.now + _LOOK_US, instance, _follow, copied, [], copy)


def _follow(
    fleet: World, copied: restore.CopiedChannel, files: list[RelayFile], copy: restore.LogCopy
) -> None:
    """Keep relay files in sight that appliers purge; in the end compare with the source."""
    channel = copied.channel
    last = copied.relay_files[-1].number
    if channel.replica.is_running:
        files += [f for f in channel[RelayLog].files if f.number > last and f not in files]
    if not channel.replica.is_running or fleet.now < fleet.load_ends_at + _SETTLED_US:
        fleet.schedule(fleet.now + _LOOK_US, channel.replica, _follow, copied, files, copy)
        return
    received = [group.logged for file in files for group in file.groups if group.is_complete]
    position = copy.position_read(channel)
    logged = restore.logged_since(channel.source, position)
    if received == logged:
        fleet.show(
            "restore from the row",
            channel.replica,
            f"channel {channel.name!r}: relay log copied up to {text_of(copied.flushed)}, "
            f"{copied.unapplied} of its groups not applied; the copied repository says "
            f"{text_of(position)}, after which {channel.source.instance_id} logged {len(logged)} "
            f"groups; the restored receiver got these {len(received)}, each once, in their order",
        )


# Collections 4 to 6: errors


def _run_out_of_memory(fleet: World, instance: Instance) -> None:
    instance[LogStatus].out_of_memory = OutOfMemory("collect", "gtid_state")


def _grant(fleet: World, instance: Instance, privileges: str) -> None:
    instance[LogStatus].privileges = privileges


def _see_the_failure(fleet: World, instance: Instance, body: dict[str, Any]) -> None:
    error = body.get("error")
    if error and not instance[Latches].held:
        fleet.show("I-3", instance, f"error {error['code']}, {error['message']}; no lock is held")


def _see_the_refusal(fleet: World, instance: Instance, body: dict[str, Any]) -> None:
    error = body.get("error")
    if error and not instance[Latches].held:
        text = f"error {error['code']}, {error['message']}; nothing was locked"
        fleet.show("I-2", instance, text)


def _show_what_is_left(fleet: World, instance: Instance, body: dict[str, Any]) -> None:
    local = body["row"]["LOCAL"]
    if all(
        c.source[GtidState].executed.is_subset(instance[GtidState].executed)
        for c in instance[ChannelMap].channels.values()
    ):
        sources = [c.source.instance_id for c in instance[ChannelMap].channels.values()]
        fleet.show(
            "F-3",
            instance,
            f"after failure, refusal, restore and the end of the load: {local['binary_log_file']}:"
            f"{local['binary_log_position']}, {_executed(instance)}, nothing is missing of what "
            f"{' and '.join(sources)} executed",
        )


def _then(fleet: World, instance: Instance, act: Callable[..., None]) -> None:
    """As soon as the instance has left the state."""
    fleet.schedule(fleet.now, instance, act, instance)


def _executed(instance: Instance) -> str:
    count = sum(last - first + 1 for _, first, last in instance[GtidState].executed)
    return f"{count:,} executed GTIDs"


def _lsn(instance: Instance) -> str:
    return f"LSN {instance[Innodb].lsn}"


def _position(instance: Instance) -> str:
    return text_of(instance[BinaryLog].position)


SCENARIO = DesignScenario(
    name="log_status",
    design="WL#9452",
    title="Log Position Lock",
    options={
        "topology": "multi_source",
        "profile": "wl9452",
        "duration_ms": 8_000,
        "collection_interval_ms": 1_000,
        "writes_per_second": 8.0,
        "acts": False,
    },
    arrange=_arrange,
    claims=(
        Claim(
            "F-1.2",
            "One row names the server and where all of its logs are.",
            ("log_status_row_complete", "server_uuid_unique"),
        ),
        Claim(
            "F-1.2.2",
            "The binary log's coordinates and gtid_executed are of one moment.",
            (
                "executed_within_logged",
                "snapshot_position_within_file",
                "snapshot_position_on_group_boundary",
            ),
        ),
        Claim(
            "F-1.2.3",
            "Each channel shows where its positions were last flushed, not what was written since.",
            (
                "relay_position_on_written_boundary",
                "relay_position_matches_master_info",
                "channel_rows_unique",
            ),
        ),
        Claim(
            "F-1.2.4",
            "Engines that have the interface show their log; the others are left out.",
            ("lsn_order", "lsn_monotone", "lsn_grows_with_commits"),
        ),
        Claim(
            "F-1.3",
            "The session holds every lock, taken in the order of the document, before it collects.",
            ("collection_lock_order",),
        ),
        Claim("F-1.4", "It has left the state when it answers.", ("collection_unlock_complete",)),
        Claim(
            "F-2",
            "From the row to the release of the first lock no log moves.",
            ("no_progress_while_locked",),
        ),
        Claim(
            "F-2.1", "No commit reaches the binary log in between.", ("no_progress_while_locked",)
        ),
        Claim("F-2.2", "gtid_executed does not change.", ("no_progress_while_locked",)),
        Claim("F-2.3", "No channel is removed or created.", ("no_progress_while_locked",)),
        Claim("F-2.4", "InnoDB writes no redo.", ("no_progress_while_locked",)),
        Claim("F-2.5", "A receiver does not flush its positions.", ("no_progress_while_locked",)),
        Claim(
            "F-3",
            "What waited goes on, and the logs agree.",
            ("relay_mirrors_source", "executed_monotone", "snapshot_position_monotone"),
        ),
        Claim(
            "F-4",
            "A backup collects inside LOCK INSTANCE FOR BACKUP and FLUSH TABLES WITH READ LOCK; "
            "all others collect without.",
            ("collection_lock_order", "executed_within_logged"),
        ),
        Claim(
            "NF-1 binary log",
            "FLUSH BINARY LOGS beside a collection ends, and so does the collection.",
            ("collection_within_budget", "binlog_rotate_successor"),
        ),
        Claim(
            "NF-1 second collection",
            "One session collects at a time; the second waits and is served.",
            ("collection_lock_order", "collection_within_budget"),
        ),
        Claim(
            "restore from the row",
            "A server of the logs up to the row's positions goes on where they end: nothing is "
            "lost, nothing comes twice.",
            ("relay_mirrors_source", "master_info_not_ahead_of_relay", "retrieved_matches_relay"),
        ),
        Claim(
            "I-2",
            "Without BACKUP_ADMIN there is an error and no row.",
            ("snapshot_never_silently_empty",),
        ),
        Claim(
            "I-3",
            "An error half-way names the column and releases every lock.",
            ("collection_unlock_complete",),
        ),
    ),
)
