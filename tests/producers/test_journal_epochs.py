"""Which epoch a journal takes in a topic, and that one producer alone writes it."""

from __future__ import annotations

import threading
import time
import uuid
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from tallystick.coordinates.events.epoch_claim import EpochClaim, encode_claim, parse_claim
from tallystick.producers.journal_epochs import EpochClaims, next_epochs
from tallystick.producers.kafka_clients.choice import CLIENTS, kafka_client
from tallystick.producers.kafka_topics import ensure_topics, tallystick_topics
from tallystick.producers.publisher import KafkaSettings
from tests.producers.test_publisher import make_block
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
    ],
)
def test_what_is_no_claim_is_none(value) -> None:
    assert parse_claim(value) is None
    claim = EpochClaim("a", 7, "w")
    assert parse_claim(encode_claim(claim)) == claim


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
