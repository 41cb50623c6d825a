"""slave_worker_info: what the workers of a multi-threaded applier add to relay log info.

slave_relay_log_info is a low-water mark, moved at checkpoints. Each worker's row commits with its
groups and says which groups after the checkpoint it has done, as bits. After a crash the bits of
all workers together show the gaps; these are filled before the applier goes on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tallystick.producers.simulator.replication_info import relay_log_info
from tallystick.producers.simulator.replication_info.rpl_info_fields import RplInfoFields
from tallystick.producers.simulator.replication_info.rpl_info_file import InfoFile, RplInfoFile
from tallystick.producers.simulator.replication_info.rpl_info_handler import (
    Repository,
    record_write,
)
from tallystick.producers.simulator.replication_info.rpl_info_table import RplInfoTable
from tallystick.producers.simulator.replication_info.rpl_info_table_access import (
    InfoRepositories,
    system_table,
)
from tallystick.producers.simulator.server.channels import Applier, QueuedGroup

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.replication_info.rpl_info_fields import Columns
    from tallystick.producers.simulator.replication_info.rpl_info_handler import RplInfoHandler
    from tallystick.producers.simulator.server.channels import Channel

TABLE: Final = "slave_worker_info"
COLUMNS: Final[Columns] = (
    ("Id", int),
    ("Relay_log_name", str),
    ("Relay_log_pos", int),
    ("Master_log_name", str),
    ("Master_log_pos", int),
    ("Checkpoint_relay_log_name", str),
    ("Checkpoint_relay_log_pos", int),
    ("Checkpoint_master_log_name", str),
    ("Checkpoint_master_log_pos", int),
    ("Checkpoint_seqno", int),
    ("Checkpoint_group_size", int),
    ("Checkpoint_group_bitmap", str),
    ("Channel_name", str),
)
_GROUP_SIZE: Final = 64
"""Bytes of the bitmap: replica_checkpoint_group is 512 groups."""


@dataclass(slots=True)
class Worker:
    """The groups that one worker has done; its row names the furthest of them.

    Attributes:
        number: From 1.
        handler: Where it is stored.
        done: Groups after the last checkpoint that it has done.
    """

    number: int
    handler: RplInfoHandler
    done: list[QueuedGroup] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Workers:
    """The workers of a channel's applier; none while one thread applies.

    Attributes:
        workers: The workers.
        next_worker: Index of the worker whose turn is next.
    """

    workers: list[Worker] = field(default_factory=list)
    next_worker: int = 0


def initialise(channel: Channel) -> None:
    """Assemble the workers of a channel; what earlier ones stored stays until ``forget``."""
    count = int(channel.replica.variables["replica_parallel_workers"])
    numbers = range(1, count + 1) if count > 1 else ()
    channel[Workers].workers = [Worker(number, _handler(channel, number)) for number in numbers]
    channel[Workers].next_worker = 0


def group_committed(channel: Channel, queued: QueuedGroup, reason: str) -> None:
    """A worker has committed a group: its row goes with the transaction, and is recorded."""
    fields = store(channel, queued)
    if fields is None:
        return
    record_write(channel, TABLE, reason, fields.values)


def store(channel: Channel, queued: QueuedGroup) -> RplInfoFields | None:
    """Put a group into the row of the worker whose turn it is; None: it is passed already."""
    if not channel[Workers].workers:
        initialise(channel)
    groups = [item for item in channel.pending if isinstance(item, QueuedGroup)]
    if queued not in groups:
        return None
    worker = channel[Workers].workers[channel[Workers].next_worker]
    channel[Workers].next_worker = (channel[Workers].next_worker + 1) % len(
        channel[Workers].workers
    )
    # A checkpoint shifts the bitmap: what it passed is forgotten.
    numbers = {id(group): number for number, group in enumerate(groups)}
    worker.done = sorted(
        (group for group in (*worker.done, queued) if id(group) in numbers),
        key=lambda group: numbers[id(group)],
    )
    fields = _fields(channel, worker, [numbers[id(group)] for group in worker.done])
    worker.handler.flush_info(fields, force=True, sync_period=0)
    return fields


def forget(channel: Channel) -> None:
    """The rows of workers mean nothing any more: applying begins anew, without gaps."""
    instance = channel.replica
    table = instance[InfoRepositories].tables.get(TABLE)
    for key in [] if table is None else list(table.rows):
        if table is not None and key[0] == channel.name:
            RplInfoTable(table, key).reset_info()
    for file in instance[InfoRepositories].files.values():
        if file.name.startswith(_file_name(channel.name, "")):
            file.remove()
    channel[Workers].workers = []


def groups_done(channel: Channel, groups: list[QueuedGroup]) -> set[int]:
    """Indices of groups that workers had committed (mts_recovery_groups).

    The last group of a worker's row is at Checkpoint_seqno in its bitmap; the groups before it
    are before it, whatever checkpoint the row still names.

    Args:
        channel: The channel.
        groups: The groups of its relay log after the low-water mark.
    """
    numbers = {(group.source_file, group.logged.end): at for at, group in enumerate(groups)}
    done = set()
    for fields in rows(channel):
        values = fields.values
        last = numbers.get((values["Master_log_name"], values["Master_log_pos"]))
        if last is None:
            continue
        bits = int.from_bytes(bytes.fromhex(values["Checkpoint_group_bitmap"]), "little")
        first = values["Checkpoint_seqno"] - last
        done |= {at for at in range(len(groups)) if first + at >= 0 and bits >> (first + at) & 1}
    return done


def rows(channel: Channel) -> list[RplInfoFields]:
    """What the workers of a channel have stored."""
    found = (worker.handler.init_info() for worker in channel[Workers].workers)
    return [fields for fields in found if fields is not None]


def shown_rows(instance: Instance) -> list[dict[str, Any]]:
    """The table, as SELECT shows it."""
    table = instance[InfoRepositories].tables.get(TABLE)
    return [] if table is None else [dict(row) for _, row in sorted(table.rows.items())]


def _fields(channel: Channel, worker: Worker, numbers: list[int]) -> RplInfoFields:
    queued = worker.done[-1]
    relay_name, relay_pos, source_name, source_pos = channel[Applier].group_end
    bitmap = sum(1 << number for number in numbers).to_bytes(_GROUP_SIZE, "little")
    return RplInfoFields(
        COLUMNS,
        {
            "Id": worker.number,
            "Relay_log_name": f"./{queued.relay_file.name}",
            "Relay_log_pos": queued.end,
            "Master_log_name": queued.source_file,
            "Master_log_pos": queued.logged.end,
            "Checkpoint_relay_log_name": f"./{relay_name}" if relay_name else "",
            "Checkpoint_relay_log_pos": relay_pos,
            "Checkpoint_master_log_name": source_name,
            "Checkpoint_master_log_pos": source_pos,
            "Checkpoint_seqno": numbers[-1],
            "Checkpoint_group_size": _GROUP_SIZE,
            # In hexadecimal, without the empty bytes at the end.
            "Checkpoint_group_bitmap": bitmap.rstrip(b"\0").hex(),
            "Channel_name": channel.name,
        },
    )


def _handler(channel: Channel, number: int) -> RplInfoHandler:
    instance = channel.replica
    if Repository(instance.variables[relay_log_info.OPTION]) is Repository.FILE:
        name = _file_name(channel.name, str(number))
        if name not in instance[InfoRepositories].files:
            instance[InfoRepositories].files[name] = InfoFile(name)
        return RplInfoFile(instance[InfoRepositories].files[name], COLUMNS)
    table = system_table(instance, TABLE, COLUMNS)
    return RplInfoTable(table, (channel.name, number))


def _file_name(channel_name: str, number: str) -> str:
    middle = f"-{channel_name}" if channel_name else ""
    return f"worker-relay-log{middle}.info.{number}"
