"""A topic in memory, with the time of each message, and the clock by which it is read."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from tallystick.producers.kafka_clients.protocol import Message


@dataclass
class MemoryTopic:
    """A client whose brokers have one topic.

    Attributes:
        now: Seconds since 1970. Who reads waits as long as it may.
        messages: By time in seconds, in the order in which they were sent.
        opened: From which time each reader was to read on, in milliseconds.
        readers: Those readers.
        at_once: So many messages are read at once, None: all.
    """

    now: float = 1_800_000_000.0
    messages: list[tuple[float, Message]] = field(default_factory=list)
    opened: list[int | None] = field(default_factory=list)
    readers: list[MemoryReader] = field(default_factory=list)
    at_once: int | None = None

    def put(
        self,
        value: bytes | None,
        key: bytes | None = None,
        headers: Collection[tuple[str, bytes]] = (),
        *,
        age_s: float = 0.0,
    ) -> None:
        """A message that came some time ago."""
        message = Message("t", 0, len(self.messages), key, value, headers)
        self.messages.append((self.now - age_s, message))

    def send(self, _servers: str, _topic: str, key: bytes, value: bytes) -> None:
        """A message comes now."""
        self.put(value, key)

    def open_reader(
        self, _servers: str, _topic: str, *, since_ms: int | None, after_gap: str = "earliest"
    ) -> MemoryReader:
        self.opened.append(since_ms)
        since_s = float("inf") if since_ms is None else since_ms / 1_000
        later = [n for n, (at, _) in enumerate(self.messages) if at >= since_s]
        end = len(self.messages)
        self.readers.append(MemoryReader(self, later[0] if later else end, end, after_gap))
        return self.readers[-1]

    def set_clock(self, monkeypatch: Any, time_module: Any) -> None:
        """Its time is everybody's."""
        monkeypatch.setattr(time_module, "monotonic", lambda: self.now)
        monkeypatch.setattr(time_module, "time_ns", lambda: int(self.now * 1e9))


@dataclass
class MemoryReader:
    """Reads a topic from a message on."""

    topic: MemoryTopic
    at: int
    end: int
    after_gap: str
    is_closed: bool = False

    @property
    def is_past_start(self) -> bool:
        return self.at >= self.end

    def read(self, timeout_s: float) -> Sequence[Message]:
        self.topic.now += timeout_s
        found = self.topic.messages[self.at :][: self.topic.at_once]
        self.at += len(found)
        return [message for _, message in found]

    def close(self) -> None:
        self.is_closed = True
