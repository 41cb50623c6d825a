"""Requests for collections, and which of them have waited in the topic."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from tallystick.coordinates.events.collect_request import CollectRequest, encode_request
from tallystick.producers import collect_requests
from tallystick.producers.collect_requests import FETCH_S, PAUSE_S, CollectRequests
from tallystick.producers.kafka_clients.protocol import Message


class Topic:
    """A topic in memory: its client and its reader, and the clock of both."""

    def __init__(self) -> None:
        self.now = 100.0
        self.messages: deque[Message] = deque()
        self.is_past_start = True

    def put(self, name: str) -> None:
        value = encode_request(CollectRequest(name, 5))
        self.messages.append(Message("t", 0, 0, None, value))

    def open_reader(self, *_: Any, **__: Any) -> Topic:
        return self

    def read(self, timeout_s: float) -> list[Message]:
        self.now += timeout_s
        found = list(self.messages)
        self.messages.clear()
        return found


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Topic:
    found = Topic()
    monkeypatch.setattr(collect_requests.time, "monotonic", lambda: found.now)
    return found


def reading(topic: Topic) -> CollectRequests:
    client: Any = topic
    return CollectRequests("b", clock_us=lambda: 0, age_max_s=0, notice=print, client=client)


def waited(requests: CollectRequests, topic: Topic, name: str) -> bool:
    topic.put(name)
    [request] = requests.poll(0.2)
    assert request.collection_id == name
    return request.has_waited


def test_what_was_there_at_the_start_or_came_in_a_pause_has_waited(topic: Topic):
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


def test_a_backlog_has_waited_however_long_it_takes_to_read(topic: Topic):
    """Until all is read that was there when the reader was made."""
    topic.is_past_start = False
    requests = reading(topic)
    for _ in range(int(2 * FETCH_S / 0.2)):
        requests.poll(0.2)
    assert waited(requests, topic, "old")
    topic.is_past_start = True
    assert not waited(requests, topic, "new")
