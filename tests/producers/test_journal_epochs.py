"""Which epoch a journal takes in a topic, and that one producer alone writes it."""

from __future__ import annotations

import threading
import time
import uuid
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from tallystick.coordinates.events.block_codec import block_headers, encode_block
from tallystick.coordinates.events.epoch_claim import EpochClaim, encode_claim, parse_claim
from tallystick.coordinates.events.journal import Block, BlockBuilder, RecordType
from tallystick.producers import journal_epochs, journal_reader
from tallystick.producers.collect_requests import CollectRequests
from tallystick.producers.journal_epochs import EpochClaims, next_epochs
from tallystick.producers.journal_resume import published_since
from tallystick.producers.kafka_clients.choice import CLIENTS, kafka_client
from tallystick.producers.kafka_clients.errors import BrokerUnreachableError
from tallystick.producers.kafka_topics import ensure_topics, tallystick_topics
from tallystick.producers.publisher import KafkaSettings
from tests.producers.test_publisher import make_block
from tests.support.memory_topic import MemoryTopic
from tests.support.tails import wait_for

AHEAD = 2**40
"""An epoch beyond any time in seconds."""


@pytest.fixture
def prefix(broker):
    name = f"t{uuid.uuid4().hex[:8]}"
    ensure_topics(broker.bootstrap_servers, tallystick_topics(3, name))
    return name


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b'{"collection_id":"epoch_claim","requested_at":1}',
        b'{"epoch_claim":[]}',
        b'{"epoch_claim":{"instance_id":"a","epoch":"7","writer":"w"}}',
        b'{"epoch_claim":{"instance_id":"a","epoch":7}}',
        b'{"epoch_claim"',
        pytest.param(b'{"epoch_claim":' + b"[" * 100_000, id="deeply nested"),
    ],
)
def test_what_is_no_claim_is_none(value) -> None:
    assert parse_claim(value) is None
    claim = EpochClaim("a", 7, "w")
    assert parse_claim(encode_claim(claim)) == claim


@pytest.fixture
def topic(monkeypatch):
    """A topic whose clock is everybody's."""
    made = MemoryTopic()
    for module in (journal_epochs, journal_reader):
        made.set_clock(monkeypatch, module.time)
    return made


def put(topic: MemoryTopic, block: Block, age_s: float = 0.0, headers: Any = None) -> None:
    given = block_headers(block) if headers is None else headers
    topic.put(encode_block(block), block.instance_id.encode(), given, age_s=age_s)


@pytest.mark.parametrize("at_once", [1, None])
def test_the_whole_topic_is_read_for_an_instance_that_was_silent_for_an_hour(topic, at_once):
    """For the others the last hour is enough; a foreign message of the same key counts nothing."""
    topic.at_once = at_once
    put(topic, replace(make_block(1, "silent"), epoch=AHEAD + 1), 9_000)
    put(topic, replace(make_block(1, "silent"), epoch=AHEAD), 8_000)
    put(topic, replace(make_block(1, "observed"), epoch=AHEAD + 7), 3_601)
    put(topic, replace(make_block(1, "observed"), epoch=AHEAD), 3_599)
    put(topic, replace(make_block(1, "of the past"), epoch=5), 30)
    topic.put(b"no block", b"of the past")
    client: Any = topic
    assert {"observed": AHEAD + 1} == next_epochs("b", ["observed"], "t", client)
    begun = int(topic.now)
    assert [(begun - 3_600) * 1_000] == topic.opened
    found = next_epochs("b", ["observed", "silent", "new", "of the past"], "t", client)
    assert (AHEAD + 1, AHEAD + 2) == (found["observed"], found["silent"])
    assert begun <= found["new"] <= topic.now
    assert found["of the past"] == found["new"]
    assert [(begun - 3_600) * 1_000, 0] == [topic.opened[0], topic.opened[-1]]


@pytest.mark.parametrize(
    ("read", "limit_s"),
    [
        (lambda client: next_epochs("b", ["a"], "t", client), 600),
        (lambda client: published_since("b", ["a"], 0, "t", client), 15),
        (lambda client: EpochClaims("b", client=client).claim({"a": 7}), 15),
    ],
)
def test_a_topic_that_is_not_read_to_its_end_is_an_error(topic, monkeypatch, read, limit_s):
    """In place of an epoch that somebody has, or of half a journal."""
    put(topic, make_block(1, "a"))
    topic.at_once = 0
    begun = topic.now
    with pytest.raises(BrokerUnreachableError, match="not read"):
        read(topic)
    assert limit_s <= topic.now - begun <= limit_s + 1


def test_what_was_published_is_read_back_without_what_an_audit_would_leave_out(topic):
    """Blocks of others, of another time, and those of which a record cannot be read."""
    unreadable = BlockBuilder("a", epoch=2)
    unreadable.server_record(RecordType.LOG_STATUS, {"row": "none"}, ts=1)
    good = BlockBuilder("a", epoch=2, first_sequence=4)
    good.server_record(RecordType.GAP, {"reason": "x"}, channel="", ts=1)
    put(topic, make_block(3, "a"), 10)
    put(topic, unreadable.build(), 5)
    put(topic, make_block(2, "b"), 5)
    put(topic, good.build(), 5, headers=())
    topic.put(None, b"a")
    client: Any = topic
    found = published_since("b", ["a", "c"], 0, "t", client)
    assert {"a": [0, 4], "c": []} == {
        name: [block.first_sequence for block in blocks] for name, blocks in found.items()
    }
    later_ms = int((topic.now - 8) * 1_000)
    assert [4] == [
        b.first_sequence for b in published_since("b", ["a"], later_ms, "t", client)["a"]
    ]


def claimed_by(topic: MemoryTopic, name: str, epoch: int, age_s: float = 0.0) -> None:
    topic.put(encode_claim(EpochClaim(name, epoch, "somebody else")), name.encode(), age_s=age_s)


def test_a_claim_of_the_last_minute_is_read_at_the_start(topic):
    """Its producer may have written nothing yet; an older one has written, or has ended."""
    claimed_by(topic, "a", 9, age_s=61)
    claimed_by(topic, "b", 9, age_s=59)
    topic.put(b"no claim", b"b")
    claimed_by(topic, "b", 8)
    client: Any = topic
    claims = EpochClaims("s", client=client)
    assert {"a": 1, "b": 10, "c": 0} == claims.claim({"a": 1, "b": 1, "c": 0})
    claimed_by(topic, "a", 1)
    claimed_by(topic, "b", 9)
    begun = topic.now
    assert ["a"] == list(claims.poll())
    assert {} == claims.poll()
    assert begun == topic.now, "who polls writes a journal, and does not wait"
    claims.close()
    assert topic.readers[0].is_closed
    assert "latest" == topic.readers[0].after_gap


def test_a_journal_that_goes_on_keeps_an_epoch_that_its_last_process_claimed(topic):
    """It is no epoch of somebody else's: neither is a higher one taken, nor does this one end."""
    claimed_by(topic, "a", 9, age_s=5)
    client: Any = topic
    claims = EpochClaims("s", client=client)
    assert {"a": 9} == claims.claim({"a": 9}, going_on=["a"])
    assert {} == claims.poll()


def test_what_ended_a_journal_that_is_claimed_anew_is_forgotten(topic):
    """Of the others it is kept, until it was polled."""
    client: Any = topic
    claims = EpochClaims("s", client=client)
    claims.claim({"a": 1, "b": 1})
    claimed_by(topic, "a", 5)
    claimed_by(topic, "b", 5)
    claims.claim({"c": 1})
    assert {"a": 6} == claims.claim({"a": 6})
    assert ["b"] == list(claims.poll())


def test_a_journal_that_is_claimed_anew_is_compared_with_claims_since(topic):
    """What was read with an earlier claim says nothing of them."""
    client: Any = topic
    claims = EpochClaims("s", client=client)
    claims.claim({"a": 1})
    claimed_by(topic, "a", 5)
    assert {"a": 6} == claims.claim({"a": 3})


def test_an_earlier_claim_of_ones_own_is_not_taken_for_the_last_one(topic):
    """Nobody waits for it any longer, and what others have claimed since comes after it."""
    client: Any = topic
    claims = EpochClaims("s", client=client)
    topic.at_once = 0
    with pytest.raises(BrokerUnreachableError):
        claims.claim({"a": 7})
    claimed_by(topic, "a", 8)
    topic.at_once = 1
    assert {"a": 9} == claims.claim({"a": 8})


def test_a_clock_that_shows_the_first_hour_of_1970_asks_for_no_time_before_it(topic):
    """Kafka takes a negative time for one of its marks: -1 is the end of a partition."""
    topic.now = 10
    client: Any = topic
    next_epochs("b", ["a"], "t", client)
    EpochClaims("b", client=client)
    CollectRequests("b", clock_us=lambda: 10_000_000, age_max_s=60, notice=print, client=client)
    assert {0} == set(topic.opened)


@pytest.mark.parametrize("client", CLIENTS)
def test_the_next_epoch_is_above_all_in_the_topic_and_the_clock(broker, prefix, client) -> None:
    """Also where another epoch came last, and beside messages that are no blocks."""
    topic = f"{prefix}.journal"
    used = kafka_client(client)
    now_s = int(time.time())
    epochs = next_epochs(broker.bootstrap_servers, ["a", "b"], topic, used)
    assert all(now_s <= epoch <= time.time() for epoch in epochs.values())
    with closing(
        used.open_sink(KafkaSettings(bootstrap_servers=broker.bootstrap_servers, topic=topic))
    ) as sink:
        sink.send(replace(make_block(3, "a"), epoch=AHEAD))
        sink.send(replace(make_block(3, "a"), epoch=5))
    used.send(broker.bootstrap_servers, topic, b"a", b"no block", [("epoch", b"9")])
    epochs = next_epochs(broker.bootstrap_servers, ["a", "b"], topic, used)
    assert epochs["a"] == AHEAD + 1
    assert epochs["b"] <= time.time()


@pytest.mark.parametrize("client", CLIENTS)
def test_a_later_claim_ends_an_earlier_one(broker, prefix, client) -> None:
    """Of the same journal: claims of lower epochs and of other journals end nobody."""

    def opened() -> EpochClaims:
        return EpochClaims(
            broker.bootstrap_servers, topic=f"{prefix}.collect", client=kafka_client(client)
        )

    with closing(opened()) as first:
        assert first.claim({"a": 7, "b": 1}) == {"a": 7, "b": 1}
        with closing(opened()) as second:
            assert second.claim({"c": 9}) == {"c": 9}
            # Somebody may have claimed 7 and not have written yet.
            assert second.claim({"a": 7}) == {"a": 8}
            ended: dict[str, Exception] = {}

            def superseded() -> bool:
                ended.update(first.poll())
                return bool(ended)

            wait_for(superseded, lambda: "no claim was read")
            assert list(ended) == ["a"]
            assert "another producer writes its journal now (epoch 8, ours is 7)" in str(ended["a"])
            assert second.poll() == {}
            # A journal that goes on keeps its epoch, unless somebody else has begun it anew.
            with closing(opened()) as third:
                assert third.claim({"c": 9}, going_on=["c"]) == {"c": 9}
            with closing(opened()) as third:
                assert third.claim({"a": 7}, going_on=["a"]) == {"a": 9}


class ReadsLate:
    """A client whose readers bring nothing before there are some messages, then all at once."""

    def __init__(self, messages: int) -> None:
        self._client = kafka_client()
        self._messages = messages
        self.has_sent = threading.Event()

    def send(self, *given: Any) -> None:
        self._client.send(*given)
        self.has_sent.set()

    def open_reader(self, *given: Any, **named: Any) -> Any:
        reader = self._client.open_reader(*given, **named)
        read, held = reader.read, []

        def read_late(timeout_s: float) -> list[Any]:
            held.extend(read(timeout_s))
            if len(held) < self._messages:
                return []
            found = held.copy()
            held.clear()
            self._messages = 1
            return found

        reader.read = read_late
        return reader


def test_a_claim_that_is_read_together_with_ones_own_counts(broker, prefix) -> None:
    """Between a claim and a higher one others claim: what they have is not taken once more."""
    late = ReadsLate(4)
    topic = f"{prefix}.collect"
    with (
        closing(EpochClaims(broker.bootstrap_servers, topic=topic)) as first,
        closing(EpochClaims(broker.bootstrap_servers, topic=topic)) as other,
        closing(EpochClaims(broker.bootstrap_servers, topic=topic, client=late)) as slow,
    ):
        assert first.claim({"a": 5}) == {"a": 5}
        taken: dict[str, int] = {}
        thread = threading.Thread(target=lambda: taken.update(slow.claim({"a": 5})))
        thread.start()
        assert late.has_sent.wait(30)
        assert other.claim({"a": 5}) == {"a": 6}
        thread.join()
        assert taken == {"a": 7}
        assert other.poll()
        assert not slow.poll()


def test_of_those_that_begin_at_once_each_has_an_epoch_of_its_own(broker, prefix) -> None:
    """And all but the one with the highest learn that they are to end."""
    claims = [EpochClaims(broker.bootstrap_servers, topic=f"{prefix}.collect") for _ in range(4)]
    taken: dict[int, int] = {}

    def claim(number: int) -> None:
        taken[number] = claims[number].claim({"a": 5})["a"]

    threads = [threading.Thread(target=claim, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(taken.values())) == 4
    ended: set[int] = set()

    def all_but_one() -> bool:
        ended.update(number for number, each in enumerate(claims) if each.poll())
        return len(ended) == 3

    wait_for(all_but_one, lambda: f"{ended} of {taken}")
    [left] = set(range(4)) - ended
    assert taken[left] == max(taken.values())
    for each in claims:
        each.close()
