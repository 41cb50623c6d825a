"""Small histories for the streaming tests, and the ways to bring them to an auditor."""

from __future__ import annotations

import uuid

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tallystick.coordinates.events.block_codec import block_headers, encode_block
from tallystick.coordinates.events.journal import (
    Block,
    BlockBuilder,
    QueryVerb,
    RecordType,
    Stream,
    cut_into_blocks,
)

FILE = "binlog.000001"
GROUP = (("GTID", 33, 79), ("BEGIN", 2, 75), ("MAP", 19, 50), ("ROWS", 30, 65), ("XID", 16, 31))
GROUP_BYTES = sum(length for _, _, length in GROUP)


def server_uuid(instance_id: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, instance_id))


def history(
    instance_id: str, rounds: int, *, groups: int = 10, broken: frozenset[int], ahead: int = 0
) -> Block:
    """``rounds`` collections with ``groups`` transactions before each.

    In the rounds of ``broken`` the row claims one more executed GTID than the binary log holds
    (``executed_within_logged``). The last row is ``ahead`` bytes ahead of the journal: it waits.
    """
    source = server_uuid(instance_id)
    builder = BlockBuilder(instance_id)
    ts = 1_000_000

    def event(code: int, start: int, length: int, **fields) -> int:
        nonlocal ts
        ts += 10
        fields = {"log_pos": start + length, "server_id": 1, **fields}
        builder.log_event(
            Stream.BINLOG, code, file=FILE, start=start, length=length, ts=ts, **fields
        )
        return start + length

    body = {
        "server_uuid": source,
        "server_id": 1,
        "version": "8.0.31",
        "profile": "wl9452",
        "variables": {"gtid_mode": "ON", "log_bin": True},
    }
    builder.server_record(RecordType.START, body, ts=ts)
    position = event(15, 4, 122)
    position = event(35, position, 31, text="")
    gno = 0
    for number in range(rounds):
        for _ in range(groups):
            gno += 1
            for name, code, length in GROUP:
                fields = {}
                if name == "GTID":
                    fields = {
                        "sid": source,
                        "gno": gno,
                        "last_committed": gno - 1,
                        "sequence_number": gno,
                        "transaction_length": GROUP_BYTES,
                    }
                elif name == "BEGIN":
                    fields = {"query": QueryVerb.BEGIN}
                position = event(code, position, length, **fields)
        ts += 10
        claimed = gno + (number in broken)
        row = {
            "SERVER_UUID": source,
            "LOCAL": {
                "gtid_executed": f"{source}:1-{claimed}",
                "binary_log_file": FILE,
                "binary_log_position": position + (ahead if number == rounds - 1 else 0),
            },
            "REPLICATION": {"channels": []},
            "STORAGE_ENGINES": {"InnoDB": {"LSN": 19_000_000 + ts, "LSN_checkpoint": 19_000_000}},
        }
        body = {"collection_id": f"c-{number:03d}", "requested_at": ts - 5, "row": row}
        builder.server_record(RecordType.LOG_STATUS, body, ts=ts)
    return builder.build()


def make_topics(bootstrap_servers: str, *, partitions: int = 2) -> dict[str, str]:
    """New topics; their names as keyword arguments of ``JobSettings``."""
    prefix = f"t{uuid.uuid4().hex[:8]}"
    names = {
        f"{name}_topic": f"{prefix}.{name}"
        for name in ("journal", "collect", "control", "findings", "incidents", "dead_letter")
    }
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    topics = [
        NewTopic(name, partitions if role == "journal_topic" else 1, 1)
        for role, name in names.items()
    ]
    for made in admin.create_topics(topics).values():
        made.result(30)
    return names


def produce(bootstrap_servers: str, topic: str, blocks: list[Block], size: int) -> None:
    """Write blocks, cut into blocks of ``size`` records, instances interleaved."""
    producer = Producer({"bootstrap.servers": bootstrap_servers, "enable.idempotence": True})
    cut = [cut_into_blocks(block, size) for block in blocks]
    for i in range(max(len(pieces) for pieces in cut)):
        for pieces in cut:
            for piece in pieces[i : i + 1]:
                send_block(producer, topic, piece)
    assert producer.flush(30) == 0


def send_block(producer: Producer, topic: str, block: Block) -> None:
    producer.produce(
        topic, encode_block(block), block.instance_id.encode(), headers=block_headers(block)
    )


def send_raw(bootstrap_servers: str, topic: str, key: bytes | None, value: bytes | None) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    producer.produce(topic, value, key)
    assert producer.flush(30) == 0


def read_topic(bootstrap_servers: str, topic: str) -> list:
    """Every message that is in a topic now."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": uuid.uuid4().hex,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    consumer.subscribe([topic])
    messages, ended, partitions = [], set(), None
    while partitions is None or len(ended) < partitions:
        message = consumer.poll(30)
        assert message is not None, f"topic {topic}: {len(messages)} messages, then nothing"
        if partitions is None:
            partitions = len(consumer.list_topics(topic, 30).topics[topic].partitions)
        if message.error():
            ended.add(message.partition())
        else:
            messages.append(message)
    consumer.close()
    return messages
