"""Messages that nobody can read, in a real topic: each stays with its key, and the job goes on."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from streaming_journals import (
    history,
    make_topics,
    produce,
    read_topic,
    send_block,
    send_raw,
)

from tallystick.coordinates.audit.instance import InstanceAudit
from tallystick.coordinates.events.block_codec import BLOCK_BYTES_MAX, block_headers, encode_block
from tallystick.coordinates.events.journal import Block, BlockBuilder, RecordType, cut_into_blocks
from tallystick.coordinates.results import ObservationCode
from tallystick.streaming import source, table_reader
from tallystick.streaming.checkpoint import CheckpointLocation, Layout
from tallystick.streaming.progress import Metrics
from tallystick.streaming.runner import AuditJob, JobSettings

BLOCKS = {name: history(name, 6, broken=frozenset({1, 4})) for name in ("a", "b", "c")}
PIECES = {name: cut_into_blocks(block, 100) for name, block in BLOCKS.items()}
HALF = len(PIECES["a"]) // 2
MESSAGE_BYTES_MAX = 1_048_588
ZEROS = 40_000_000
STRANGER = "<script>alert('x')</script>"


def producer(servers: str, **settings) -> Producer:
    return Producer({"bootstrap.servers": servers, "message.max.bytes": 10**9, **settings})


def with_flipped_sid(block: Block) -> bytes:
    """A block of a producer whose memory has one bit flipped: a dash is no dash any more."""
    return encode_block(replace(block, sids=(block.sids[0].replace("-", "m", 1),)))


def send_poison(servers: str, journal: str, zeros: int) -> int:
    """One of each kind under the key a, and some under the keys of strangers; how many it is."""
    plain, packed = producer(servers), producer(servers, **{"compression.type": "lz4"})
    piece = PIECES["a"][0]
    plain.produce(journal, with_flipped_sid(piece), b"a", headers=block_headers(piece))
    # As large as a message may be, and not because of its value.
    plain.produce(journal, b"rubbish", b"a", headers=[("h", bytes(1_048_000))])
    plain.produce(journal, b"rubbish", b"a", headers=[(f"h{n}", b"v") for n in range(10_000)])
    plain.produce(journal, bytes(1_048_000), b"a")
    plain.produce(journal, b"rubbish", bytes(range(1, 127)) * 8_000)
    plain.produce(journal, b"rubbish", b"line\nof\x1b[2Jlog")
    for number in range(50):
        plain.produce(journal, b"rubbish", b"stranger %d" % number)
    for number in range(zeros):
        packed.produce(journal, bytes(ZEROS), b"zeros %d" % (number % 2))
        assert packed.flush(60) == 0
    stranger = BlockBuilder(STRANGER)
    stranger.server_record(RecordType.HEARTBEAT, {}, ts=1_000_001)
    send_block(plain, journal, stranger.build())
    assert plain.flush(60) == 0
    return 56 + zeros


def core_findings() -> list:
    """What the core finds in the journals of b and c, which no poison is in."""
    outputs = [InstanceAudit(name).absorb(BLOCKS[name]) for name in ("b", "c")]
    return sorted((f for one in outputs for f in one.findings), key=lambda finding: finding.order)


def run(spark, settings: JobSettings) -> dict[str, float]:
    with CheckpointLocation(settings.checkpoint, Layout(2, settings.journal_topic)) as checkpoint:
        job = AuditJob(spark, settings, checkpoint, None, Metrics())
        return job.run(threading.Event())


@pytest.mark.parametrize("limit", [MESSAGE_BYTES_MAX, 20_000, 50])
def test_poison_stays_with_its_key(spark, broker, tmp_path, limit: int):
    """Poison at the beginning, between the blocks, and after a restart: b and c are judged."""
    servers = broker.bootstrap_servers
    topics = make_topics(servers, partitions=2)
    journal, letters = topics["journal_topic"], topics["dead_letter_topic"]
    if limit != MESSAGE_BYTES_MAX:
        resource = ConfigResource(
            ResourceType.TOPIC, letters, set_config={"max.message.bytes": str(limit)}
        )
        admin = AdminClient({"bootstrap.servers": servers})
        for done in admin.alter_configs([resource]).values():
            done.result(30)
    settings = JobSettings(servers, tmp_path / "cp", tmp_path / "out", available_now=True, **topics)
    sent, zeros = 0, 60 if limit == MESSAGE_BYTES_MAX else 2
    for pieces in (slice(0, HALF), slice(HALF, None)):
        sent = send_poison(servers, journal, zeros)
        produce(servers, journal, [p for n in "abc" for p in PIECES[n][pieces]], 100)
        metrics = run(spark, settings)
        assert metrics["dead_letters"] == sent
        assert metrics["dead_letters_lost"] == (sent if limit == 50 else 0)
    found = [f for f in table_reader.read_findings(tmp_path / "out") if f.instance_id != "a"]
    assert found == core_findings()
    _check_observations(tmp_path / "out", is_lost=limit == 50)
    validated = table_reader.read_validations(tmp_path / "out")
    assert {(row["missing"], row["instances"]) for row in validated} == {(0, 3)}
    messages = read_topic(servers, letters)
    # What fits is written before what does not is found to be too large: at least once.
    assert len({_position(m) for m in messages}) == (0 if limit == 50 else 2 * sent)
    for message in messages:
        headers = dict(message.headers())
        assert headers["tallystick.reason"]
        size = sum(map(len, (message.key() or b"", message.value() or b"", *headers.values())))
        assert size < limit
    if limit == MESSAGE_BYTES_MAX:
        _check_letters(messages, journal)


@pytest.mark.parametrize("topic", ["collect_topic", "control_topic"])
def test_a_flood_of_requests_comes_in_parts(spark, broker, tmp_path, monkeypatch, topic: str):
    """Not all of them at once."""
    monkeypatch.setattr(source, "REQUESTS_MAX", 10)
    servers = broker.bootstrap_servers
    topics = make_topics(servers)
    for _ in range(30):
        send_raw(servers, topics[topic], b"key", b"rubbish")
    settings = JobSettings(servers, tmp_path / "cp", tmp_path / "out", available_now=True, **topics)
    metrics = run(spark, settings)
    assert (30, 3) == (metrics["dead_letters"], metrics["micro_batches"])


def _check_observations(out, *, is_lost: bool) -> None:
    seen = table_reader.observations_of(table_reader.read_observations(out))
    unreadable = [o for o in seen if o.code is ObservationCode.BLOCK_UNREADABLE]
    assert {o.instance_id for o in unreadable} == {"", "a"}
    assert all(o.is_undecided for o in unreadable)
    assert {o.data["key"] for o in unreadable if "key" in o.data} >= {"line\nof\x1b[2Jlog"}
    # No flood of keys fills the tables.
    assert len([o for o in unreadable if not o.instance_id]) < 2 * 60
    lost = [o for o in seen if o.code is ObservationCode.DEAD_LETTERS_LOST]
    assert bool(lost) is is_lost


def _position(message) -> tuple[bytes, bytes]:
    headers = dict(message.headers())
    return headers["tallystick.partition"], headers["tallystick.offset"]


def _check_letters(messages: list, journal: str) -> None:
    zeros = [m for m in messages if (m.key() or b"").startswith(b"zeros")]
    assert len(zeros) == 120
    for message in zeros:
        headers = dict(message.headers())
        assert headers["tallystick.bytes"] == b"%d" % ZEROS
        assert headers["tallystick.topic"] == journal.encode()
        assert f"at most {BLOCK_BYTES_MAX}".encode() in headers["tallystick.reason"]
    flipped = [m for m in messages if b"malformed source" in dict(m.headers())["tallystick.reason"]]
    assert [m.value() for m in flipped] == [with_flipped_sid(PIECES["a"][0])] * 2
    many = [m for m in messages if dict(m.headers()).get("tallystick.headers") == b"10000"]
    assert len(many) == 2
