"""Requests for collections, and which of them have waited in the topic."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.coordinates.events.collect_request import CollectRequest, encode_request
from tallystick.coordinates.events.epoch_claim import EpochClaim, encode_claim
from tallystick.producers import collect_requests
from tallystick.producers.collect_requests import FETCH_S, PAUSE_S, CollectRequests
from tests.support.memory_topic import MemoryTopic


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> MemoryTopic:
    found = MemoryTopic()
    found.set_clock(monkeypatch, collect_requests.time)
    return found


def reading(topic: MemoryTopic, age_max_s: float = 0, notices: list[str] | None = None) -> Any:
    client: Any = topic
    return CollectRequests(
        "b",
        clock_us=lambda: int(topic.now * 1_000_000),
        age_max_s=age_max_s,
        notice=[].append if notices is None else notices.append,
        client=client,
    )


def put(topic: MemoryTopic, name: str, *, age_s: float = 0.0) -> None:
    topic.put(encode_request(CollectRequest(name, int((topic.now - age_s) * 1_000_000))))


def waited(requests: CollectRequests, topic: MemoryTopic, name: str) -> bool:
    put(topic, name)
    [request] = requests.poll(0.2)
    assert request.collection_id == name
    return request.has_waited


def test_what_was_there_at_the_start_or_came_in_a_pause_has_waited(topic: MemoryTopic):
    """Its receipt shows how long the process was away, not how far clocks differ."""
    requests = reading(topic)
    topic.now += 60
    assert waited(requests, topic, "before the start")
    for _ in range(int(FETCH_S / 0.2)):
        requests.poll(0.2)
    assert not waited(requests, topic, "at once")
    topic.now += PAUSE_S
    assert not waited(requests, topic, "soon")
    topic.now += PAUSE_S + 0.1
    assert waited(requests, topic, "after a pause")
    assert waited(requests, topic, "fetched with it")


def test_a_backlog_has_waited_however_long_it_takes_to_read(topic: MemoryTopic):
    """Until all is read that was there when the reader was made."""
    for n in range(int(2 * FETCH_S / 0.2)):
        put(topic, f"old {n}")
    requests = reading(topic)
    topic.at_once = 1
    while not topic.readers[0].is_past_start:
        [request] = requests.poll(0.2)
    assert request.has_waited
    assert not waited(requests, topic, "new")


def test_what_was_asked_too_long_before_the_start_is_not_answered(topic: MemoryTopic):
    """With a notice each; what comes later is answered, whatever the clock of who asks shows."""
    put(topic, "older than what is read", age_s=0)
    topic.now += 100
    topic.put(encode_request(CollectRequest("too old", int((topic.now - 63.5) * 1_000_000))))
    topic.put(encode_claim(EpochClaim("a", 7, "somebody")))
    topic.put(b"no request")
    put(topic, "just not too old", age_s=60)
    notices: list[str] = []
    requests = reading(topic, 60, notices)
    assert ["just not too old"] == [one.collection_id for one in requests.poll(0.2)]
    old, malformed = notices
    assert old == (
        "topic 't', partition 0, offset 1: skipped, collection 'too old' was requested 3.5 s too"
        " long ago"
    )
    assert malformed.startswith("topic 't', partition 0, offset 3: skipped, it is no request: ")
    assert (1, 1) == (requests.malformed, requests.stale)
    put(topic, "by a clock that is slow", age_s=3_600)
    assert ["by a clock that is slow"] == [one.collection_id for one in requests.poll(0.2)]
    requests.close()
    assert topic.readers[0].is_closed
    assert "latest" == topic.readers[0].after_gap
