"""Sinks, topics and requests on a real broker; what one client writes, the other reads."""

from __future__ import annotations

import time
import uuid
from collections import Counter

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer, KafkaProducer

from tallystick.coordinates.events.block_codec import decode_block
from tallystick.coordinates.events.collect_request import CollectRequest, encode_request
from tallystick.coordinates.events.journal import concatenate
from tallystick.producers.collect_requests import CollectRequests
from tallystick.producers.kafka_clients.choice import CLIENTS, kafka_client
from tallystick.producers.kafka_clients.errors import TopicError
from tallystick.producers.kafka_topics import ensure_topics, tallystick_topics
from tallystick.producers.load.history import LoadPlan
from tallystick.producers.load.run import LoadOptions, run_load
from tallystick.producers.publisher import DeliveryError, KafkaSettings
from tests.producers.test_publisher import make_block

DEADLINE_S = 60.0


@pytest.fixture
def topics(broker):
    """The topics of a deployment of the test's own, and the broker's address."""
    prefix = f"t{uuid.uuid4().hex[:8]}"
    ensure_topics(broker.bootstrap_servers, tallystick_topics(3, prefix))
    return broker.bootstrap_servers, prefix


def read_with_kafka_python(servers, topic, count):
    consumer = KafkaConsumer(
        topic, bootstrap_servers=servers, group_id=None, auto_offset_reset="earliest"
    )
    found, deadline = [], time.monotonic() + DEADLINE_S
    while len(found) < count and time.monotonic() < deadline:
        for records in consumer.poll(timeout_ms=200).values():
            found += [(r.partition, r.key, r.value, list(r.headers)) for r in records]
    consumer.close()
    assert len(found) == count, f"{len(found)} of {count} messages within {DEADLINE_S} s"
    return found


def read_with_confluent(servers, topic, count):
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": uuid.uuid4().hex,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    found, deadline = [], time.monotonic() + DEADLINE_S
    while len(found) < count and time.monotonic() < deadline:
        for m in consumer.consume(100, timeout=0.2):
            assert m.error() is None
            found.append((m.partition(), m.key(), m.value(), m.headers()))
    consumer.close()
    assert len(found) == count, f"{len(found)} of {count} messages within {DEADLINE_S} s"
    return found


def journals_of(messages):
    """The journal of each instance, out of messages in the order of their partitions."""
    blocks = {}
    for _, key, value, headers in messages:
        block = decode_block(value, key=key, headers=headers)
        blocks.setdefault(block.instance_id, []).append(block)
    return {name: concatenate(parts) for name, parts in blocks.items()}


@pytest.mark.parametrize(
    ("writer", "compression", "read"),
    [
        ("confluent-kafka", "lz4", read_with_kafka_python),
        ("confluent-kafka", "gzip", read_with_kafka_python),
        ("confluent-kafka", "none", read_with_confluent),
        ("kafka-python", "lz4", read_with_confluent),
        ("kafka-python", "none", read_with_confluent),
    ],
)
def test_what_one_client_wrote_the_other_reads(topics, writer, compression, read):
    """Keys, headers, order within an instance, and every byte."""
    servers, prefix = topics
    settings = KafkaSettings(
        bootstrap_servers=servers,
        topic=f"{prefix}.journal",
        compression=compression,
        message_bytes_max=3_500,
    )
    deliveries = []
    sink = kafka_client(writer).open_sink(settings, deliveries.append)
    names = ["a", "b", "c", "d"]
    for part in range(3):
        for name in names:
            sink.send(make_block(1000, name, first_sequence=1000 * part))
    sink.flush()
    assert sum(d.count for d in deliveries) == 12_000
    assert all(d.latency_s > 0 for d in deliveries)
    messages = read(servers, settings.topic, len(deliveries))
    sink.close()
    assert len(messages) == 12 * 4
    journals = journals_of(messages)
    assert {name: len(journal) for name, journal in journals.items()} == dict.fromkeys(names, 3000)
    assert journals["a"].columns["start"].tolist() == [4 + 31 * (i % 1000) for i in range(3000)]
    with pytest.raises(ValueError, match="closed"):
        sink.send(make_block(1))


def test_both_clients_put_an_instance_into_one_partition(topics):
    """A producer may change its client without tearing a journal in two."""
    servers, prefix = topics
    names = [f"instance-{i}" for i in range(12)]
    for epoch, client in enumerate(CLIENTS):
        settings = KafkaSettings(
            bootstrap_servers=servers, topic=f"{prefix}.journal", compression="none"
        )
        sink = kafka_client(client).open_sink(settings)
        for name in names:
            sink.send(make_block(1, name, first_sequence=epoch))
        sink.close()
    messages = read_with_confluent(servers, f"{prefix}.journal", 24)
    positions = Counter((key, partition) for partition, key, _, _ in messages)
    assert set(positions.values()) == {2}
    assert len({partition for _, partition in positions}) == 3


@pytest.mark.parametrize("client", CLIENTS)
def test_a_topic_that_is_not_there_is_an_error(broker, client):
    """Nothing makes it by accident with the broker's defaults, and nothing is dropped."""
    topic = f"none{uuid.uuid4().hex[:8]}"
    settings = KafkaSettings(
        bootstrap_servers=broker.bootstrap_servers, topic=topic, delivery_timeout_s=2.0
    )
    sink = kafka_client(client).open_sink(settings)

    def send_and_flush():
        sink.send(make_block(1))
        sink.flush()

    with pytest.raises(DeliveryError, match=topic):
        send_and_flush()
    found = AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics(timeout=10)
    assert topic not in found.topics


def test_a_message_that_the_broker_refuses_is_an_error(broker):
    """The broker's limit is lower than the sink's: the failure has the block's position."""
    topic = f"small{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    new = NewTopic(topic, num_partitions=1, config={"max.message.bytes": "1500"})
    admin.create_topics([new])[topic].result(DEADLINE_S)
    settings = KafkaSettings(
        bootstrap_servers=broker.bootstrap_servers, topic=topic, compression="none"
    )
    sink = kafka_client("confluent-kafka").open_sink(settings)
    sink.send(make_block(1, first_sequence=3))
    sink.flush()
    sink.send(make_block(1000, first_sequence=4))
    with pytest.raises(DeliveryError, match=r"1000 records of instance 'a'.*sequence 4") as caught:
        sink.flush()
    assert (caught.value.partition, caught.value.first_sequence) == (0, 4)


@pytest.mark.parametrize("client", CLIENTS)
def test_topics_are_made_once(broker, client):
    """A second run changes nothing, and a check alone makes nothing."""
    prefix = f"t{uuid.uuid4().hex[:8]}"
    wanted = tallystick_topics(5, prefix)
    servers = broker.bootstrap_servers
    with pytest.raises(TopicError, match=f"'{prefix}.journal' does not exist"):
        ensure_topics(servers, wanted, create=False, client=kafka_client(client))
    assert all(
        state.is_new for state in ensure_topics(servers, wanted, client=kafka_client(client))
    )
    again = ensure_topics(
        servers, tallystick_topics(9, prefix), create=False, client=kafka_client(client)
    )
    assert (
        not kafka_client(client)
        .open_admin(servers, DEADLINE_S)
        .create(f"{prefix}.journal", 5, 1, {}, DEADLINE_S)
    )
    assert {s.name.removeprefix(prefix): (s.partitions, s.is_new) for s in again} == {
        ".journal": (5, False),
        ".collect": (1, False),
        ".findings": (1, False),
        ".incidents": (1, False),
        ".control": (1, False),
        ".deadletter": (1, False),
    }


@pytest.mark.parametrize("client", CLIENTS)
def test_a_compacted_journal_is_refused(broker, client):
    """Kafka would keep one block of each instance."""
    prefix = f"t{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    new = NewTopic(f"{prefix}.journal", num_partitions=1, config={"cleanup.policy": "compact"})
    admin.create_topics([new])[f"{prefix}.journal"].result(DEADLINE_S)
    with pytest.raises(TopicError, match=r"cleanup.policy 'compact'.*To fix"):
        ensure_topics(
            broker.bootstrap_servers, tallystick_topics(1, prefix), client=kafka_client(client)
        )


@pytest.mark.parametrize("client", CLIENTS)
def test_a_topic_that_cannot_be_made_is_an_error(broker, client):
    """More replicas than brokers."""
    prefix = f"t{uuid.uuid4().hex[:8]}"
    with pytest.raises(TopicError, match="replication factor 3"):
        ensure_topics(
            broker.bootstrap_servers,
            tallystick_topics(1, prefix),
            replication_factor=3,
            client=kafka_client(client),
        )


def produce(client, servers, topic, values):
    if client == "kafka-python":
        producer = KafkaProducer(bootstrap_servers=servers)
        for value in values:
            producer.send(topic, value)
        producer.flush()
        producer.close()
        return
    producer = Producer({"bootstrap.servers": servers})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(DEADLINE_S) == 0


@pytest.mark.parametrize("client", CLIENTS)
def test_requests_are_read_from_now_on_and_recent_ones_before(topics, client):
    """Old ones are skipped at the start, unreadable ones always, both with a notice."""
    servers, prefix = topics
    topic = f"{prefix}.collect"
    other = CLIENTS[1 - CLIENTS.index(client)]
    now_us = time.time_ns() // 1000
    old = CollectRequest("old", now_us - 3_600_000_000)
    recent = CollectRequest("recent", now_us - 1_000_000, frozenset({"a"}))
    produce(other, servers, topic, [encode_request(old), b"{", encode_request(recent)])
    notices = []
    requests = CollectRequests(
        servers,
        topic=topic,
        clock_us=lambda: now_us,
        age_max_s=60,
        notice=notices.append,
        client=kafka_client(client),
    )
    new = CollectRequest("new", now_us + 5)
    produce(other, servers, topic, [encode_request(new)])
    found, deadline = [], time.monotonic() + DEADLINE_S
    while len(found) < 2 and time.monotonic() < deadline:
        found += requests.poll(0.2)
    requests.close()
    assert found == [recent, new]
    assert (requests.malformed, requests.stale) == (1, 1)
    assert [n.split(": ")[0] for n in notices] == [
        f"topic '{topic}', partition 0, offset 0",
        f"topic '{topic}', partition 0, offset 1",
    ]


@pytest.mark.parametrize("ahead_us", [0, 3_600_000_000])
@pytest.mark.parametrize("client", CLIENTS)
def test_what_is_written_right_after_the_start_is_not_missed(topics, client, ahead_us):
    """The end of an empty topic is fixed at the start; a clock that is fast skips nothing new."""
    servers, prefix = topics
    now_us = time.time_ns() // 1000
    requests = CollectRequests(
        servers,
        topic=f"{prefix}.collect",
        clock_us=lambda: now_us + ahead_us,
        age_max_s=0,
        notice=print,
        client=kafka_client(client),
    )
    # Kafka's own time of the message lies before the start: only the position counts.
    request = CollectRequest("c", now_us)
    produce("confluent-kafka", servers, f"{prefix}.collect", [encode_request(request)])
    found, deadline = [], time.monotonic() + DEADLINE_S
    while not found and time.monotonic() < deadline:
        found += requests.poll(0.2)
    requests.close()
    assert found == [request]


def test_a_topic_has_an_id_which_both_clients_show(topics):
    """One that is made anew has another; one that is not there has none."""
    servers, prefix = topics
    admins = [kafka_client(client).open_admin(servers, DEADLINE_S) for client in CLIENTS]
    ids = [
        admin.topic_id(f"{prefix}.{name}") for name in ("journal", "collect") for admin in admins
    ]
    assert all(ids)
    assert ids[0] == ids[1] != ids[2] == ids[3]
    assert [admin.topic_id("nowhere") for admin in admins] == [None, None]
    for admin in admins:
        admin.close()


def test_requests_of_a_topic_that_is_not_there_are_an_error(broker):
    """For both clients."""
    for client in CLIENTS:
        with pytest.raises(TopicError, match="'nowhere' does not exist"):
            CollectRequests(
                broker.bootstrap_servers,
                topic="nowhere",
                clock_us=lambda: 0,
                age_max_s=1,
                notice=print,
                client=kafka_client(client),
            )


@pytest.mark.parametrize("client", CLIENTS)
def test_a_load_arrives_whole(topics, client):
    """What the report counts is what lies in the topic, instance by instance without a gap."""
    servers, prefix = topics
    settings = KafkaSettings(
        bootstrap_servers=servers, topic=f"{prefix}.journal", compression="gzip"
    )
    plan = LoadPlan(sources=2, replicas=1, status_every=2000, block_size=500)
    report = run_load(LoadOptions(plan=plan, events=10_000), settings, kafka_client(client))
    assert report.events >= 10_000
    assert report.produce_p50_s <= report.produce_p95_s <= report.produce_p99_s
    messages = read_with_confluent(servers, settings.topic, report.blocks)
    assert sum(len(value) for _, _, value, _ in messages) == report.value_bytes
    journals = journals_of(messages)
    assert len(journals) == 4
    assert sum(len(journal) for journal in journals.values()) == report.events
