"""What the server does beside a collection, as the order of its locks.

Each operation of WL#9452's NF-1 is a list of threads for ``tests.support.interleavings``. The
orders are those of MySQL 8.0 (the function that takes them is named) or, where marked "WL#9452",
those that the document names. Only locks that can meet a lock of the collection, directly or
through another operation here, are part of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick.producers.simulator.log_status.latches import (
    CHANNEL_MAP,
    GLOBAL_SID_LOCK,
    LOCK_LOG,
    LOCK_PLUGIN,
    LOG_BUFFER,
    LOG_CHECKPOINTER,
    data_lock,
)
from tests.support.interleavings import (
    Step,
    Thread,
    add,
    change,
    release,
    share,
    take,
    wait_for,
    wait_for_none,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

BINARY_LOG = "binary log"
GTID_EXECUTED = "gtid_executed"
CHANNELS = "channels"
CHANNEL_ADMINISTRATION = "channel administration"
RECEIVER_FLUSH = "receiver positions"
LSN = "lsn"
LSN_CHECKPOINT = "lsn_checkpoint"
FROZEN = frozenset(
    {
        BINARY_LOG,  # F-2.1
        GTID_EXECUTED,  # F-2.2
        CHANNELS,  # F-2.3
        CHANNEL_ADMINISTRATION,  # High Level Specification, 1)
        LSN,  # F-2.4
        LSN_CHECKPOINT,  # F-2.4
        RECEIVER_FLUSH,  # F-2.5
    }
)
"""What must stand still between the last lock and the first unlock of a collection."""

RELAY_LOG = "relay log events"
"""May grow under the collection's locks: WL#9452, Step-1."""

_DATA_LOCK = data_lock("a")
_RELAY_LOCK_LOG = "relay LOCK_log:a"
_RUN_LOCK = "run_lock:a"
_LOCK_INDEX = "LOCK_index"
_LOCK_SYNC = "LOCK_sync"
_LOCK_COMMIT = "LOCK_commit"
_LOCK_PLUGIN_INSTALL = "LOCK_plugin_install"
_BACKUP_LOCK = "backup lock"
_GLOBAL_READ_LOCK = "global read lock"
_COMMIT_LOCK = "commit lock"
_PREPARED = "prepared XIDs"
_REDO_ROOM = "room in the redo log"

# A mini-transaction shares the log buffer while it reserves and copies (log_buffer_s_lock_enter).
_INNODB_WRITE = [share(LOG_BUFFER), change(LSN), *release(LOG_BUFFER)]

# flush_master_info(): the relay log's LOCK_log, then data_lock; then the table's row, which
# WL#9452 (High Level Specification, 3) gives as the reason for channels before engines; at the end
# update_flushed_relay_log_info() (Step-1).
_FLUSH_MASTER_INFO = [
    take(_RELAY_LOCK_LOG),
    take(_DATA_LOCK),
    *_INNODB_WRITE,
    change(RECEIVER_FLUSH),
    *release(_DATA_LOCK, _RELAY_LOCK_LOG),
]

# queue_event() and after_write_to_relay_log(): the event under the relay log's LOCK_log, the
# retrieved set under data_lock inside it; then the flush.
_RECEIVE = [
    take(_RELAY_LOCK_LOG),
    change(RELAY_LOG),
    take(_DATA_LOCK),
    *release(_DATA_LOCK, _RELAY_LOCK_LOG),
    *_FLUSH_MASTER_INFO,
]

# MYSQL_BIN_LOG::ordered_commit(): each stage's mutex is given up before the next one is taken.
# Sessions between the stages count as prepared XIDs until their engines have committed.
_FLUSH_STAGE = [
    take(LOCK_LOG),
    share(GLOBAL_SID_LOCK),  # assign_automatic_gtids_to_flush_group()
    *release(GLOBAL_SID_LOCK),
    change(BINARY_LOG),
    add(_PREPARED),
    *release(LOCK_LOG),
]
_SYNC_STAGE = [take(_LOCK_SYNC), *release(_LOCK_SYNC)]
_UPDATE_GTID_EXECUTED = [  # Gtid_state::update_commit_group()
    share(GLOBAL_SID_LOCK),
    change(GTID_EXECUTED),
    *release(GLOBAL_SID_LOCK),
    add(_PREPARED, -1),
]


def _transaction(*steps: Step | list[Step]) -> tuple[Step, ...]:
    """The metadata locks that FLUSH TABLES WITH READ LOCK waits for, around a transaction."""
    inner = [step for part in steps for step in (part if isinstance(part, list) else [part])]
    return (
        share(_GLOBAL_READ_LOCK),
        share(_COMMIT_LOCK),
        *inner,
        *release(_COMMIT_LOCK, _GLOBAL_READ_LOCK),
    )


def _one(name: str, *steps: Step) -> tuple[Thread, ...]:
    return (Thread(name, steps),)


def collection(name: str, plan: Iterable[Step]) -> Thread:
    """A collection, with the locks that the simulator took."""
    return Thread(name, tuple(plan), FROZEN)


def operations(plan: tuple[Step, ...]) -> dict[str, tuple[Thread, ...]]:
    """Every operation that a collection must not deadlock with; ``plan`` is that of another."""
    return {
        "another collection": (collection("another collection", plan),),
        # start_slave_cmd(): channel map for writing; data_lock while the repositories are read;
        # then it waits, with run_lock given up by the condition, until the receiver runs.
        "START REPLICA": (
            Thread(
                "START REPLICA",
                (
                    take(CHANNEL_MAP),
                    take(_RUN_LOCK),
                    take(_DATA_LOCK),
                    *release(_DATA_LOCK),
                    add("start asked"),
                    *release(_RUN_LOCK),
                    wait_for("receiver runs"),
                    change(CHANNEL_ADMINISTRATION),
                    *release(CHANNEL_MAP),
                ),
            ),
            Thread(
                "receiver that starts",
                (
                    wait_for("start asked"),
                    take(_RUN_LOCK),
                    add("receiver runs"),
                    *release(_RUN_LOCK),
                    take(_RELAY_LOCK_LOG),
                    change(RELAY_LOG),
                    *release(_RELAY_LOCK_LOG),
                ),
            ),
        ),
        # stop_slave_cmd(): channel map for reading, held until the receiver, which flushes its
        # positions a last time, is gone.
        "STOP REPLICA": (
            Thread(
                "STOP REPLICA",
                (
                    share(CHANNEL_MAP),
                    take(_RUN_LOCK),
                    add("stop asked"),
                    *release(_RUN_LOCK),
                    wait_for("receiver gone"),
                    change(CHANNEL_ADMINISTRATION),
                    *release(CHANNEL_MAP),
                ),
            ),
            Thread(
                "receiver that stops",
                (
                    wait_for("stop asked"),
                    *_FLUSH_MASTER_INFO,
                    take(_RUN_LOCK),
                    add("receiver gone"),
                    *release(_RUN_LOCK),
                ),
            ),
        ),
        # change_master(): channel map for writing, run_lock, then the repositories.
        "CHANGE REPLICATION SOURCE": _one(
            "CHANGE REPLICATION SOURCE",
            take(CHANNEL_MAP),
            take(_RUN_LOCK),
            *_FLUSH_MASTER_INFO,
            change(CHANNEL_ADMINISTRATION),
            *release(_RUN_LOCK, CHANNEL_MAP),
        ),
        # add_new_channel(): the same map, then the new channel's row.
        "creation of a channel": _one(
            "creation of a channel",
            take(CHANNEL_MAP),
            change(CHANNELS),
            *_INNODB_WRITE,
            *release(CHANNEL_MAP),
        ),
        # reset_slave(): channel map for writing, run_lock, the relay log anew, the repositories.
        "RESET REPLICA": _one(
            "RESET REPLICA",
            take(CHANNEL_MAP),
            take(_RUN_LOCK),
            *_FLUSH_MASTER_INFO,
            change(CHANNEL_ADMINISTRATION),
            *release(_RUN_LOCK, CHANNEL_MAP),
        ),
        "RESET REPLICA ALL": _one(
            "RESET REPLICA ALL",
            take(CHANNEL_MAP),
            take(_RUN_LOCK),
            take(_DATA_LOCK),
            *_INNODB_WRITE,
            *release(_DATA_LOCK, _RUN_LOCK),
            change(CHANNELS),
            *release(CHANNEL_MAP),
        ),
        # flush_relay_logs_cmd(): channel map for reading, then the relay log's rotation.
        "FLUSH RELAY LOGS": _one(
            "FLUSH RELAY LOGS",
            share(CHANNEL_MAP),
            take(_RELAY_LOCK_LOG),
            take(_DATA_LOCK),
            change(CHANNEL_ADMINISTRATION),
            *release(_DATA_LOCK, _RELAY_LOCK_LOG, CHANNEL_MAP),
        ),
        "receiver": _one("receiver", *_RECEIVE),
        "commit": _one(
            "commit",
            *_transaction(
                _INNODB_WRITE,  # prepare
                _FLUSH_STAGE,
                _SYNC_STAGE,
                take(_LOCK_COMMIT),
                _INNODB_WRITE,
                _UPDATE_GTID_EXECUTED,
                release(_LOCK_COMMIT),
            ),
        ),
        "non-transactional change": _one(
            "non-transactional change",
            *_transaction(
                change("MyISAM data"),
                _FLUSH_STAGE,
                _SYNC_STAGE,
                take(_LOCK_COMMIT),
                _UPDATE_GTID_EXECUTED,
                release(_LOCK_COMMIT),
            ),
        ),
        # MYSQL_BIN_LOG::new_file_impl(): under LOCK_log it waits for every prepared XID, then saves
        # the last file's GTIDs to mysql.gtid_executed.
        "FLUSH BINARY LOGS": _one(
            "FLUSH BINARY LOGS",
            take(LOCK_LOG),
            wait_for_none(_PREPARED),
            take(_LOCK_INDEX),
            share(GLOBAL_SID_LOCK),
            *release(GLOBAL_SID_LOCK),
            *_INNODB_WRITE,
            change(BINARY_LOG),
            *release(_LOCK_INDEX, LOCK_LOG),
        ),
        # MYSQL_BIN_LOG::reset_logs(): LOCK_log, LOCK_index, the SID lock for writing; under it
        # Gtid_state::clear() empties the table.
        "RESET MASTER": _one(
            "RESET MASTER",
            take(LOCK_LOG),
            take(_LOCK_INDEX),
            take(GLOBAL_SID_LOCK),
            *_INNODB_WRITE,
            change(BINARY_LOG),
            change(GTID_EXECUTED),
            *release(GLOBAL_SID_LOCK, _LOCK_INDEX, LOCK_LOG),
        ),
        # MYSQL_BIN_LOG::purge_logs(): LOCK_index, then the lost GTIDs.
        "PURGE BINARY LOGS": _one(
            "PURGE BINARY LOGS",
            take(_LOCK_INDEX),
            take(GLOBAL_SID_LOCK),
            change("gtid_purged"),
            *release(GLOBAL_SID_LOCK, _LOCK_INDEX),
        ),
        # WL#9452, High Level Specification, 5), with Gtid_state::add_lost_gtids(): the table is
        # written with the SID lock held.
        "SET GTID_EXECUTED / GTID_PURGED": _one(
            "SET GTID_EXECUTED / GTID_PURGED",
            take(GLOBAL_SID_LOCK),
            *_INNODB_WRITE,
            change(GTID_EXECUTED),
            *release(GLOBAL_SID_LOCK),
        ),
        # mysql_install_plugin(): the row of mysql.plugin is written, and the engine initialised,
        # with LOCK_plugin given up.
        "INSTALL PLUGIN": _one(
            "INSTALL PLUGIN",
            take(_LOCK_PLUGIN_INSTALL),
            take(LOCK_PLUGIN),
            *release(LOCK_PLUGIN),
            *_INNODB_WRITE,
            take(LOCK_PLUGIN),
            change("plugins"),
            *release(LOCK_PLUGIN, _LOCK_PLUGIN_INSTALL),
        ),
        "UNINSTALL PLUGIN": _one(
            "UNINSTALL PLUGIN",
            take(_LOCK_PLUGIN_INSTALL),
            take(LOCK_PLUGIN),
            change("plugins"),
            *release(LOCK_PLUGIN),
            *_INNODB_WRITE,
            *release(_LOCK_PLUGIN_INSTALL),
        ),
        # log_wait_for_space(): whoever finds the redo log full waits for a checkpoint, and goes on
        # sharing the log buffer meanwhile; log_checkpointer() needs its own mutex to make room.
        "InnoDB workload": (
            Thread(
                "workload",
                (
                    share(LOG_BUFFER),
                    wait_for(_REDO_ROOM),
                    add(_REDO_ROOM, -1),
                    change(LSN),
                    *release(LOG_BUFFER),
                ),
            ),
            Thread(
                "checkpointer",
                (
                    take(LOG_CHECKPOINTER),
                    change(LSN_CHECKPOINT),
                    add(_REDO_ROOM),
                    *release(LOG_CHECKPOINTER),
                ),
            ),
        ),
        # F-4; FLUSH TABLES WITH READ LOCK takes the global read lock, then the commit lock.
        "backup of F-4": (
            collection(
                "backup of F-4",
                (
                    take(_BACKUP_LOCK),
                    take(_GLOBAL_READ_LOCK),
                    take(_COMMIT_LOCK),
                    *plan,
                    *release(_COMMIT_LOCK, _GLOBAL_READ_LOCK, _BACKUP_LOCK),
                ),
            ),
        ),
    }
