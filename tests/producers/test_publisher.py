"""Sinks without a broker: splitting, lingering, and what happens when nothing answers."""

from __future__ import annotations

import sys
import time
from typing import Any

import pytest

from tallystick.coordinates.events._packed_block import RECORDS_MAX
from tallystick.coordinates.events.block_codec import decode_block
from tallystick.coordinates.events.collect_request import (
    CollectRequest,
    CollectRequestError,
    encode_request,
    parse_request,
)
from tallystick.coordinates.events.journal import (
    Block,
    BlockBuilder,
    RecordType,
    Stream,
    concatenate,
)
from tallystick.coordinates.values.binlog import EventType
from tallystick.coordinates.values.errors import MissingExtraError
from tallystick.producers import kafka_clients
from tallystick.producers.collect_requests import CollectRequests
from tallystick.producers.kafka_clients import confluent
from tallystick.producers.kafka_clients.choice import default_client, kafka_client
from tallystick.producers.kafka_clients.errors import BrokerUnreachableError, TopicError
from tallystick.producers.kafka_topics import ensure_topics, tallystick_topics
from tallystick.producers.publisher import (
    BlockLinger,
    DeliveryError,
    KafkaSettings,
    MemorySink,
    split_to_size,
)

NOBODY = "127.0.0.1:9"  # discard: nothing listens on it here
SAID = f"'{NOBODY}'.*To fix: tallystick broker start --port 9$"


def make_block(records: int, instance_id: str = "a", first_sequence: int = 0) -> Block:
    builder = BlockBuilder(instance_id, epoch=2, first_sequence=first_sequence)
    for i in range(records):
        builder.log_event(
            Stream.BINLOG, EventType.XID, file="binlog.000001", start=4 + 31 * i, length=31, ts=i
        )
    return builder.build()


def test_a_block_too_large_for_a_message_is_split_in_order():
    """Each piece fits, and together they are the block again."""
    block = make_block(5000)
    pieces = list(split_to_size(block, 4_000, "t"))
    assert len(pieces) == 8
    assert all(len(value) < 4_000 for _, value in pieces)
    again = concatenate([decode_block(value) for _, value in pieces])
    assert again.first_sequence == block.first_sequence
    assert again.columns["start"].tolist() == block.columns["start"].tolist()


def test_a_block_that_fits_is_one_message():
    """Splitting happens only for need."""
    assert len(list(split_to_size(make_block(5000), 1_000_000, "t"))) == 1


def test_a_block_of_more_records_than_a_message_may_have_is_split():
    """However few bytes they would take."""
    pieces = list(split_to_size(make_block(RECORDS_MAX + 2), 10_000_000, "t"))
    assert [len(piece) for piece, _ in pieces] == [RECORDS_MAX // 2 + 1] * 2


def test_a_record_too_large_for_a_message_is_an_error():
    """It names the record and what to raise."""
    builder = BlockBuilder("a", epoch=2, first_sequence=7)
    builder.server_record(RecordType.LOG_STATUS, {"row": "x" * 50_000}, ts=1)
    with pytest.raises(DeliveryError, match=r"from sequence 7.*max.message.bytes") as caught:
        list(split_to_size(builder.build(), 20_000, "t"))
    error = caught.value
    assert (error.topic, error.partition, error.instance_id) == ("t", None, "a")
    assert (error.epoch, error.first_sequence, error.count) == (2, 7, 1)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_block_leaves_when_it_is_full_or_has_waited():
    """Size or time, whichever comes first, and nothing leaves empty."""
    clock, sink, builder = Clock(), MemorySink(), BlockBuilder("a")
    linger = BlockLinger(builder, sink, clock=clock, block_size=3, linger_s=0.5)

    def add() -> None:
        builder.server_record(RecordType.GAP, {}, ts=1)
        linger.poll()

    linger.poll()
    assert linger.due_in_s() is None
    for _ in range(3):
        add()
    assert [len(b) for b in sink.blocks] == [3]
    assert linger.due_in_s() is None
    clock.now = 10.0
    add()
    clock.now = 10.4
    add()
    assert linger.due_in_s() == pytest.approx(0.1)
    assert len(sink.blocks) == 1
    clock.now = 10.5
    linger.poll()
    assert [len(b) for b in sink.blocks] == [3, 2]
    assert [b.first_sequence for b in sink.blocks] == [0, 3]
    add()
    linger.flush()
    linger.flush()
    assert [len(b) for b in sink.blocks] == [3, 2, 1]


def test_a_closed_sink_takes_nothing():
    """What is sent after the end would never be flushed."""
    sink = MemorySink()
    sink.close()
    with pytest.raises(ValueError, match="closed"):
        sink.send(make_block(1))


def test_an_unknown_client_is_refused():
    """The message names the two there are."""
    with pytest.raises(ValueError, match="confluent-kafka, kafka-python, got 'x'"):
        kafka_client("x")


def test_the_client_is_the_faster_one_that_is_installed(monkeypatch):
    """Without confluent-kafka there still is one; asked for by name it is a sentence."""
    assert "confluent-kafka" == default_client()
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    monkeypatch.delitem(sys.modules, confluent.__name__)
    monkeypatch.delattr(kafka_clients, "confluent")
    assert "kafka-python" == default_client()
    assert type(kafka_client()).__name__ == "KafkaPythonClient"
    said = r"names confluent-kafka, .*To fix: in a clone of tallystick: pip install '\.\[stream\]'"
    with pytest.raises(MissingExtraError, match=said):
        kafka_client("confluent-kafka")


def test_blocks_that_nobody_takes_are_an_error_and_not_lost_in_silence():
    """Without a broker each way out of the sink raises; the error names the first block."""
    settings = KafkaSettings(bootstrap_servers=NOBODY, delivery_timeout_s=0.3)
    sink = kafka_client("confluent-kafka").open_sink(settings)
    sink.send(make_block(5, first_sequence=40))
    with pytest.raises(DeliveryError, match=r"'tallystick.journal'.*instance 'a'.*sequence 40"):
        sink.flush()
    with pytest.raises(DeliveryError):
        sink.send(make_block(5, first_sequence=45))
    with pytest.raises(DeliveryError):
        sink.close()


def test_a_sender_that_never_flushes_learns_of_a_failure():
    """The next blocks raise, long before the queue is full."""
    sink = kafka_client("confluent-kafka").open_sink(
        KafkaSettings(bootstrap_servers=NOBODY, delivery_timeout_s=0.2)
    )
    deadline = time.monotonic() + 10

    def send_until_told() -> None:
        while time.monotonic() < deadline:
            sink.send(make_block(1))

    with pytest.raises(DeliveryError):
        send_until_told()


def test_a_full_queue_holds_the_sender_back():
    """Memory under way is bounded; when the messages expire, the sender learns of it."""
    settings = KafkaSettings(
        bootstrap_servers=NOBODY, delivery_timeout_s=0.3, in_flight_bytes_max=20_000
    )
    sink = kafka_client("confluent-kafka").open_sink(settings)

    def send_many() -> None:
        for i in range(50):
            sink.send(make_block(1000, first_sequence=1000 * i))

    with pytest.raises(DeliveryError, match="sequence 0,"):
        send_many()


@pytest.mark.parametrize("client", ["confluent-kafka", "kafka-python"])
def test_without_a_broker_the_error_is_one_sentence_with_the_address(client, monkeypatch):
    """It names the address and what to do, for topics, requests and sinks."""
    monkeypatch.setattr(sys.modules[type(kafka_client(client)).__module__], "DEADLINE_S", 0.5)
    with pytest.raises(BrokerUnreachableError, match=SAID):
        ensure_topics(NOBODY, tallystick_topics(1), timeout_s=0.5, client=kafka_client(client))
    with pytest.raises(BrokerUnreachableError, match=SAID):
        kafka_client(client).send(NOBODY, "t", b"k", b"v")
    with pytest.raises(BrokerUnreachableError, match=SAID):
        CollectRequests(
            NOBODY, clock_us=lambda: 0, age_max_s=1, notice=print, client=kafka_client(client)
        ).close()
    if client == "kafka-python":
        with pytest.raises(BrokerUnreachableError, match=SAID):
            kafka_client(client).open_sink(
                KafkaSettings(bootstrap_servers=NOBODY, delivery_timeout_s=0.5)
            )


def test_a_request_is_read_back():
    """For everybody and for some."""
    for instances in (None, frozenset({"a", "b"}), frozenset()):
        request = CollectRequest("c1", 5, instances)
        assert parse_request(encode_request(request)) == request
    assert CollectRequest("c", 1).concerns("x")
    assert CollectRequest("c", 1, frozenset({"a"})).concerns("a")
    assert not CollectRequest("c", 1, frozenset({"a"})).concerns("b")
    assert parse_request(b'{"collection_id":"c","requested_at":0,"later":1}') == CollectRequest(
        "c", 0
    )


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "no value"),
        (b" " * (2**20 + 1), "1048577 bytes"),
        (b"", "expected a JSON object"),
        (b"\xff", "expected a JSON object"),
        (b"[" * 100_000, "expected a JSON object"),
        (b"[]", "got b'\\[\\]'"),
        (b"{}", "collection_id"),
        (b'{"collection_id":"","requested_at":1}', "collection_id"),
        (b'{"collection_id":5,"requested_at":1}', "collection_id as text, got 5"),
        (b'{"collection_id":"c"}', "requested_at"),
        (b'{"collection_id":"c","requested_at":true}', "got True"),
        (b'{"collection_id":"c","requested_at":-1}', "got -1"),
        (b'{"collection_id":"c","requested_at":1,"instances":"a"}', "instances"),
        (b'{"collection_id":"c","requested_at":1,"instances":[1]}', "instances"),
    ],
)
def test_what_is_no_request_is_told_apart(value, message):
    """The error shows what was found, cut short."""
    with pytest.raises(CollectRequestError, match=message) as caught:
        parse_request(value)
    assert len(str(caught.value)) < 400


def test_only_the_journal_and_requests_keep_every_record():
    """Compaction would leave one block of each journal; findings replace themselves by key."""
    made = {t.name: (t.partitions, dict(t.settings)) for t in tallystick_topics(6, "x")}
    day_ms = 86_400_000
    kept = {"journal": 7, "collect": 1, "incidents": 30, "control": 30, "deadletter": 30}
    assert {
        f"x.{name}": (
            6 if name == "journal" else 1,
            {"cleanup.policy": "delete", "retention.ms": str(days * day_ms)},
        )
        for name, days in kept.items()
    } | {"x.findings": (1, {"cleanup.policy": "compact"})} == made
    assert ["x.findings"] == [t.name for t in tallystick_topics(6, "x") if t.is_compacted]


class Brokers:
    """A cluster of which one broker learns of a new topic some questions later."""

    def __init__(self, topics: dict[str, dict[str, str]], late: int = 0) -> None:
        self.topics = topics
        self.made: dict[str, tuple[int, int]] = {}
        self.late = late
        self.is_closed = False

    def open_admin(self, servers: str, timeout_s: float) -> Brokers:
        return self

    def partitions(self) -> dict[str, int]:
        self.late -= bool(self.made)
        seen = {name: count for name, (count, _) in self.made.items() if self.late < 0}
        return dict.fromkeys(self.topics, 3) | seen

    def create(
        self, name: str, partitions: int, replicas: int, settings: Any, timeout_s: float
    ) -> bool:
        self.made[name] = partitions, replicas
        return name != "t.control"  # which somebody else has made meanwhile

    def settings(self, topics: list[str], timeout_s: float) -> dict[str, dict[str, str]]:
        return {name: self.topics[name] for name in topics if self.topics.get(name)}

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize("late", [0, 3])
def test_topics_that_are_missing_are_made(late):
    """Those that are there keep what they have; a new one may be seen later."""
    delete = {"cleanup.policy": "delete"}
    brokers: Any = Brokers({"t.journal": delete, "t.collect": {}, "t.findings": delete}, late)
    wanted = tallystick_topics(6, "t")
    states = ensure_topics("b", wanted, client=brokers, replication_factor=2)
    new = {state.name: state.partitions for state in states if state.is_new}
    assert {"t.incidents": 1, "t.deadletter": 1} == new
    assert dict.fromkeys(("t.incidents", "t.control", "t.deadletter"), (1, 2)) == brokers.made
    assert [t.name for t in wanted] == [state.name for state in states]
    assert 3 == states[0].partitions
    assert brokers.is_closed


@pytest.mark.parametrize(
    ("brokers", "more", "said"),
    [
        (Brokers({}), {"create": False}, r"topic 't.journal' does not exist.*create the topics"),
        (
            Brokers({}, 10**9),
            {"timeout_s": 0.1},
            "topics not visible within 0.1 s at 'b': t.journal, t.collect, t.findings",
        ),
        (
            Brokers({"t.journal": {"cleanup.policy": "compact,delete"}}),
            {},
            "topic 't.journal' has cleanup.policy 'compact,delete', which drops records",
        ),
    ],
)
def test_topics_that_are_no_good_are_refused(brokers, more, said):
    """Before anything is written to them."""
    with pytest.raises(TopicError, match=said):
        ensure_topics("b", tallystick_topics(6, "t"), client=brokers, **more)
    assert bool(brokers.made) == more.get("create", True)
