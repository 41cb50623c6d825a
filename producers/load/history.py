"""Histories of a loaded fleet: sources, replicas, their files, and log_status rows that agree.

Each source is a cluster with its replicas.

Time goes in slots. In each, every source logs one tile; every replica receives and applies what its
source logged in the slot before; then all answer one collection, replicas first. No client, no real
clock and no randomness but the seed's.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tallystick.coordinates.events.journal import (
    FLAG_ARTIFICIAL,
    Block,
    BlockBuilder,
    RecordType,
    Stream,
    cut_into_blocks,
)
from tallystick.coordinates.values.binlog import ROTATE_EVENT_LENGTH_MIN, EventType, log_pos_field
from tallystick.producers.load import redo
from tallystick.producers.load.logs import CHANNEL, FORMAT_DESCRIPTION_LENGTH, Log, gtid_set_of
from tallystick.producers.load.tile import Lay, TileColumns, make_tile

START_US = 1_700_000_000_000_000
"""When a load's history begins, unless another time is set: results do not depend on the day."""

_FILES_KEPT = 8
# Times within a slot, from its end back: all have written before the first row is read.
_REPLICA_ROW_US, _SOURCE_ROW_US, _QUIET_US = 600, 300, 1000
_VARIABLES = {
    "gtid_mode": "ON",
    "log_bin": True,
    "log_replica_updates": True,
    "binlog_order_commits": True,
    "replica_preserve_commit_order": True,
    "replica_parallel_workers": 4,
    "max_connections": 151,
    "innodb_redo_log_capacity": redo.CAPACITY,
    "innodb_flush_log_at_trx_commit": 1,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """What to generate.

    Attributes:
        sources: How many sources.
        replicas: How many replicas each source has.
        status_every: How many events of a source lie between two of its log_status rows.
        block_size: How many records a block has at most.
        binlog_bytes_max: A log file ends after the tile that crossed this.
        seed: Decides every number.
        start_us: Time of the first record.
        epoch: The producer's epoch.
    """

    sources: int = 2
    replicas: int = 0
    status_every: int = 50_000
    block_size: int = 4096
    binlog_bytes_max: int = 64 * 2**20
    seed: int = 1
    start_us: int = START_US
    epoch: int = 0

    def __post_init__(self) -> None:
        for name in ("sources", "status_every", "block_size", "binlog_bytes_max"):
            if getattr(self, name) < 1:
                raise ValueError(f"expected {name} of at least 1, got {getattr(self, name)}")
        if self.replicas < 0:
            raise ValueError(f"expected replicas of at least 0, got {self.replicas}")


def journal_blocks(plan: LoadPlan) -> Iterator[Block]:
    """The fleet's journals without end, the instances' blocks taking turns."""
    rng = np.random.default_rng(plan.seed)
    sources = [_Source(plan, rng, number) for number in range(plan.sources)]
    replicas = [
        _Replica(plan, source, number) for source in sources for number in range(plan.replicas)
    ]
    instances = [*replicas, *sources]
    slot_us = max(s.tile.tile.duration_us for s in sources) + 2 * _QUIET_US
    ts = plan.start_us
    for instance in instances:
        yield instance.begin(ts)
    ts += _QUIET_US
    slot = 0
    while True:
        for replica in replicas:
            replica.fetch()
        pending = [instance.write(ts) for instance in instances]
        while pending:
            pending = [blocks for blocks in pending if blocks]
            for blocks in pending:
                yield blocks.pop(0)
        ts += slot_us
        slot += 1
        asked = ts - _QUIET_US
        collection = {"collection_id": f"load-{slot}", "requested_at": asked, "received_at": asked}
        for instance in instances:
            yield instance.answer(ts, collection)


class _Instance:
    """What a source and a replica share: a binary log, a redo log, an answer to collections."""

    def __init__(
        self,
        plan: LoadPlan,
        instance_id: str,
        *,
        cluster: str,
        server_id: int,
        sid: str,
        tile: TileColumns,
    ) -> None:
        self.plan = plan
        self.instance_id = instance_id
        self.cluster = cluster
        self.server_id = server_id
        self.server_uuid = _uuid(plan.seed, server_id)
        self.sid = sid
        self.tile = tile
        self.binlog = Log(Stream.BINLOG, "binlog")
        self.logged = 0
        self.next_sequence = 0
        self.salt = server_id << 16
        self.redo = redo.RedoLog()

    def _builder(self) -> BlockBuilder:
        return BlockBuilder(
            self.instance_id,
            epoch=self.plan.epoch,
            first_sequence=self.next_sequence,
            cluster=self.cluster,
        )

    def _built(self, builder: BlockBuilder) -> Block:
        self.next_sequence = builder.next_sequence + len(builder)
        return builder.build()

    def begin(self, ts: int) -> Block:
        builder = self._builder()
        clock = f"load of {self.plan.seed} from {self.plan.start_us}"
        builder.server_record(RecordType.OBSERVER, {"clock": clock}, ts=ts)
        builder.server_record(
            RecordType.START,
            {
                "server_uuid": self.server_uuid,
                "server_id": self.server_id,
                "version": "8.0.31",
                "profile": "mysql-8.0",
                "variables": _VARIABLES,
            },
            ts=ts,
        )
        self.binlog.open_file(builder, ts, self.server_id, self.sid, 0)
        self._begin_more(builder, ts)
        return self._built(builder)

    def _begin_more(self, builder: BlockBuilder, ts: int) -> None:
        """What else comes before the first slot."""

    def write(self, ts: int) -> list[Block]:
        """What the instance does in the slot that begins at ``ts``."""
        raise NotImplementedError

    def _log_tile(self, ts: int, ts_divisor: int, commit_ts: int, server_id: int) -> list[Block]:
        """Log the next tile in the binary log, and end the file if it is long enough."""
        file = self.binlog.file
        tile = self.tile.tile
        blocks = self._lay(
            self.binlog,
            Lay(
                stream=Stream.BINLOG,
                offset=file.end,
                log_pos_offset=file.end,
                first_gno=self.logged + 1,
                first_sequence_number=file.transactions + 1,
                ts=ts,
                ts_divisor=ts_divisor,
                commit_ts=commit_ts,
                server_id=server_id,
                salt=self.salt + self.logged,
            ),
        )
        file.transactions += tile.transactions
        self.logged += tile.transactions
        ended = ts + tile.duration_us // ts_divisor
        builder = self._builder()
        self.redo.commit(builder, tile.transactions, tile.total_bytes, ended)
        blocks += cut_into_blocks(self._built(builder), self.plan.block_size)
        if file.end > self.plan.binlog_bytes_max:
            builder = self._builder()
            self.binlog.open_file(builder, ended, self.server_id, self.sid, self.logged)
            if len(self.binlog.files) > _FILES_KEPT:
                del self.binlog.files[0]
                builder.server_record(
                    RecordType.BINLOG_PURGE, {"to_file": self.binlog.files[0].name}, ts=ended
                )
            blocks.append(self._built(builder))
        return blocks

    def _lay(self, log: Log, lay: Lay) -> list[Block]:
        """The tile in one log as blocks; the log's file grows by it."""
        columns = self.tile.lay(lay)
        size, events = self.plan.block_size, self.tile.tile.events
        channels = () if log.channel is None else (log.channel,)
        blocks = [
            Block(
                instance_id=self.instance_id,
                epoch=self.plan.epoch,
                first_sequence=self.next_sequence + at,
                columns={name: column[at : at + size] for name, column in columns.items()},
                channels=channels,
                files=(log.file.name,),
                sids=(self.sid,),
                texts={},
                cluster=self.cluster,
            )
            for at in range(0, events, size)
        ]
        self.next_sequence += events
        log.file.end += self.tile.tile.total_bytes
        return blocks

    def answer(self, slot_end: int, collection: dict[str, Any]) -> Block:
        """The log_status record at the end of a slot."""
        file = self.binlog.file
        executed = gtid_set_of(self.sid, self.logged)
        builder = self._builder()
        builder.server_record(
            RecordType.LOG_STATUS,
            {
                **collection,
                "gtid_executed_first": executed,
                "gtid_executed_table": executed,
                "binary_logs": [{"name": f.name, "size": f.end} for f in self.binlog.files],
                "gtid_purged": gtid_set_of(self.sid, self.binlog.files[0].gtids_before),
                "gtid_owned": "",
                "prepared_xa": "",
                "innodb": {
                    "current": self.redo.lsn,
                    "written": self.redo.lsn,
                    "flushed": self.redo.lsn,
                    "checkpoint": self.redo.checkpoint,
                },
                "row": {
                    "SERVER_UUID": self.server_uuid,
                    "LOCAL": {
                        "gtid_executed": executed,
                        "binary_log_file": file.name,
                        "binary_log_position": file.end,
                    },
                    "REPLICATION": {"channels": self._channels()},
                    "STORAGE_ENGINES": {
                        "InnoDB": {
                            "LSN": self.redo.lsn,
                            "LSN_checkpoint": self.redo.checkpoint,
                        }
                    },
                },
                **self._beside(),
            },
            ts=slot_end - self._row_us(),
        )
        return self._built(builder)

    def _row_us(self) -> int:
        raise NotImplementedError

    def _channels(self) -> list[dict[str, Any]]:
        return []

    def _beside(self) -> dict[str, Any]:
        return {}


class _Source(_Instance):
    """A server that takes the writes."""

    def __init__(self, plan: LoadPlan, rng: np.random.Generator, number: int) -> None:
        server_id = (number + 1) * 1000
        tile = TileColumns(make_tile(rng, plan.status_every))
        sid = _uuid(plan.seed, server_id)
        name = f"source-{number + 1}"
        super().__init__(plan, name, cluster=name, server_id=server_id, sid=sid, tile=tile)
        self.tiles: list[_Logged] = []

    def write(self, ts: int) -> list[Block]:
        file = self.binlog.file
        begun = _Logged(file.name, file.end, self.logged + 1, file.transactions + 1, ts)
        blocks = self._log_tile(ts, 1, ts, self.server_id)
        begun.next_file = None if self.binlog.file is file else self.binlog.file.name
        begun.file_end = file.end
        self.tiles = [begun]
        return blocks

    def _row_us(self) -> int:
        return _SOURCE_ROW_US


@dataclass(slots=True)
class _Logged:
    """Where a source logged a tile, as its replicas need it one slot later."""

    file_name: str
    offset: int
    first_gno: int
    first_sequence_number: int
    ts: int
    next_file: str | None = None
    file_end: int = 0


class _Replica(_Instance):
    """A server that follows one source by GTID."""

    def __init__(self, plan: LoadPlan, source: _Source, number: int) -> None:
        super().__init__(
            plan,
            f"{source.instance_id}-replica-{number + 1}",
            cluster=source.cluster,
            server_id=source.server_id + number + 1,
            sid=source.sid,
            tile=source.tile,
        )
        self.source = source
        self.relay = Log(Stream.RELAY, "relay-bin")
        self.read = (source.binlog.base_name + ".000001", 4)
        self.executed = self.read
        self.applied = ("", 4)
        self.stored_read = ("", 4)
        self.fetched: list[_Logged] = []

    def _begin_more(self, builder: BlockBuilder, ts: int) -> None:
        source = self.source
        for action, more in (
            (
                "change_source",
                {
                    "source_uuid": source.server_uuid,
                    "source_instance": source.instance_id,
                    "auto_position": True,
                },
            ),
            ("start_receiver", {}),
            ("start_applier", {}),
        ):
            body = {"channel": CHANNEL, "action": action, **more}
            builder.server_record(RecordType.CHANNEL, body, ts=ts, channel=CHANNEL)
        self._open_relay_file(builder, ts, self.read[0])
        self.applied = (self.relay.file.name, self.relay.file.end)
        self.executed = self.read

    def _open_relay_file(self, builder: BlockBuilder, ts: int, source_file: str) -> None:
        """A relay file of its own for each file of the source."""
        relay = self.relay
        relay.open_file(builder, ts, self.server_id, self.sid, self.logged)
        relay.write(
            builder, EventType.ROTATE, ROTATE_EVENT_LENGTH_MIN + len(source_file), ts,
            server_id=self.source.server_id, flags=FLAG_ARTIFICIAL, log_pos=0, value=4,
            text=source_file,
        )  # fmt: skip
        end = 4 + FORMAT_DESCRIPTION_LENGTH
        relay.write(
            builder, EventType.FORMAT_DESCRIPTION, FORMAT_DESCRIPTION_LENGTH, ts,
            server_id=self.source.server_id, log_pos=end,
        )  # fmt: skip
        self.read = (source_file, end)

    def fetch(self) -> None:
        """Note what the source logged in the slot before."""
        self.fetched = self.source.tiles

    def write(self, ts: int) -> list[Block]:
        blocks = []
        for logged in self.fetched:
            # Receiving takes the first half of the slot, applying the second.
            middle = ts + self.tile.tile.duration_us // 2
            blocks += self._receive(logged, ts)
            blocks += self._log_tile(middle, 2, logged.ts, self.source.server_id)
            if logged.next_file is not None:
                blocks.append(self._change_file(logged, middle + self.tile.tile.duration_us // 2))
        return blocks

    def _receive(self, logged: _Logged, ts: int) -> list[Block]:
        relay_file = self.relay.file
        blocks = self._lay(
            self.relay,
            Lay(
                stream=Stream.RELAY,
                offset=relay_file.end,
                log_pos_offset=logged.offset,
                first_gno=logged.first_gno,
                first_sequence_number=logged.first_sequence_number,
                ts=ts,
                ts_divisor=2,
                commit_ts=logged.ts,
                server_id=self.source.server_id,
                salt=self.source.salt + logged.first_gno - 1,
            ),
        )
        self.read = (logged.file_name, logged.offset + self.tile.tile.total_bytes)
        self.applied = (relay_file.name, relay_file.end)
        self.executed = self.read
        return blocks

    def _change_file(self, logged: _Logged, ts: int) -> Block:
        """The source's file ended: copy its ROTATE and go on in a new relay file."""
        assert logged.next_file is not None  # the caller's condition
        builder = self._builder()
        self.relay.write(
            builder, EventType.ROTATE, ROTATE_EVENT_LENGTH_MIN + len(logged.next_file), ts,
            server_id=self.source.server_id, log_pos=log_pos_field(logged.file_end), value=4,
            text=logged.next_file,
        )  # fmt: skip
        self._open_relay_file(builder, ts, logged.next_file)
        # Everything before is applied: relay_log_purge removes it.
        del self.relay.files[:-1]
        body = {"channel": CHANNEL, "action": "relay_purge", "to_file": self.relay.file.name}
        builder.server_record(RecordType.CHANNEL, body, ts=ts, channel=CHANNEL)
        self.applied = (self.relay.file.name, self.relay.file.end)
        self.executed = self.stored_read = (logged.next_file, 4)
        return self._built(builder)

    def _row_us(self) -> int:
        return _REPLICA_ROW_US

    def _channels(self) -> list[dict[str, Any]]:
        file = self.relay.file
        return [
            {
                "channel_name": CHANNEL,
                "relay_log_file": file.name,
                "relay_log_position": file.end,
            }
        ]

    def _beside(self) -> dict[str, Any]:
        received = gtid_set_of(self.sid, self.logged)
        return {
            "replica_status": [
                {
                    "Channel_Name": CHANNEL,
                    "Source_UUID": self.source.server_uuid,
                    "Source_Server_Id": self.source.server_id,
                    "Source_Log_File": self.read[0],
                    "Read_Source_Log_Pos": self.read[1],
                    "Relay_Log_File": self.applied[0],
                    "Relay_Log_Pos": self.applied[1],
                    "Relay_Source_Log_File": self.executed[0],
                    "Exec_Source_Log_Pos": self.executed[1],
                    "Retrieved_Gtid_Set": received,
                    "Executed_Gtid_Set": received,
                    "Auto_Position": 1,
                    "Replica_IO_Running": "Yes",
                    "Replica_SQL_Running": "Yes",
                }
            ],
            # The first is written when the relay log rotates, the second with each commit.
            "slave_master_info": [
                {
                    "Channel_name": CHANNEL,
                    "Master_log_name": self.stored_read[0],
                    "Master_log_pos": self.stored_read[1],
                    "Uuid": self.source.server_uuid,
                    "Enabled_auto_position": 1,
                }
            ],
            "slave_relay_log_info": [
                {
                    "Channel_name": CHANNEL,
                    "Relay_log_name": f"./{self.applied[0]}",
                    "Relay_log_pos": self.applied[1],
                    "Master_log_name": self.executed[0],
                    "Master_log_pos": self.executed[1],
                    "Number_of_workers": _VARIABLES["replica_parallel_workers"],
                }
            ],
        }


def _uuid(seed: int, server_id: int) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"tallystick load {seed} {server_id}"))
