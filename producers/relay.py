"""Hands messages on from one set of topics to another, and damages some of them on the way.

The chaos command puts it between a producer and an audit: journals go from the one's topics to the
other's, requests for collections the other way. What is damaged is drawn from a seed.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from enum import Enum
from random import Random
from typing import TYPE_CHECKING, Any, final

from confluent_kafka import Producer

from tallystick.producers.kafka_clients.choice import kafka_client
from tallystick.producers.kafka_clients.confluent import QUIET

if TYPE_CHECKING:
    from tallystick.producers.kafka_clients.protocol import Message

READ_S = 0.1
IDLE_MAX = 10
DELAY_S = 3.0
JOURNAL, COLLECT = "journal", "collect"


class Damage(Enum):
    """What is done to a message."""

    DROP = "dropped"
    DOUBLE = "doubled"
    SWAP = "swapped with the next of its instance"
    DELAY = "delayed, with all of its instance after it"
    CUT = "cut short"
    FLIP = "one bit flipped"
    POISON = "followed by bytes that are no block"


HOLES = frozenset({Damage.DROP, Damage.SWAP, Damage.CUT, Damage.FLIP, Damage.POISON})
"""After these the audit must not know all: the others change nothing."""


@final
class Relay:
    """Runs in a thread of its own until it is closed.

    Args:
        bootstrap_servers: The broker of both.
        source: Prefix of the topics that the producer uses.
        target: Prefix of those of the audit.
        seed: Decides what is damaged.
        share: Of the journal's messages that are damaged.

    Attributes:
        done: How often what was done to whom; of holes those after which another message came.
    """

    def __init__(
        self, bootstrap_servers: str, source: str, target: str, *, seed: int, share: float
    ) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._source = source
        self._target = target
        self._share = share
        self._chance = Random(f"relay {seed}")  # noqa: S311  drawn, not secret
        self._swapped: dict[bytes, Message] = {}
        self._delayed: dict[bytes, tuple[float, deque[Message]]] = {}
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="relay", daemon=True)
        self._unseen: defaultdict[bytes, Counter[tuple[Damage, str]]] = defaultdict(Counter)
        self.done: Counter[tuple[Damage, str]] = Counter()

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """Hand on what is there, and end."""
        self._is_closed.set()
        self._thread.join()

    def _run(self) -> None:
        client, servers = kafka_client(), self._bootstrap_servers
        journal = client.open_reader(servers, f"{self._source}.{JOURNAL}", since_ms=0)
        collect = client.open_reader(servers, f"{self._target}.{COLLECT}", since_ms=0)
        # Sent again until it is acknowledged, in order and once.
        out = Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "delivery.timeout.ms": 0,
                **QUIET,
            }
        )
        with closing(journal), closing(collect):
            idle = 0
            while not self._is_closed.is_set() or idle < IDLE_MAX or self._delayed:
                found = journal.read(READ_S)
                idle = 0 if found else idle + 1
                for message in found:
                    for one in self._damaged(message):
                        _forward(out, f"{self._target}.{JOURNAL}", one)
                for one in self._due():
                    _forward(out, f"{self._target}.{JOURNAL}", one)
                for one in collect.read(0.01):
                    _forward(out, f"{self._source}.{COLLECT}", one)
                out.poll(0)
        out.flush()

    def _damaged(self, message: Message) -> Iterator[Message]:
        """What goes on in place of a message."""
        key = message.key or b""
        if key in self._delayed:
            self._delayed[key][1].append(message)
            return
        before = self._swapped.pop(key, None)
        if before is not None:
            yield message
            yield before
            return
        kind = None
        if self._chance.random() < self._share:
            kind = self._chance.choice(list(Damage))
            (self._unseen[key] if kind in HOLES else self.done)[self._named(kind, key)] += 1
        else:
            # Only by what comes after it can a hole be seen.
            self.done += self._unseen.pop(key, Counter())
        if kind is Damage.SWAP:
            self._swapped[key] = message
        elif kind is Damage.DELAY:
            self._delayed[key] = time.monotonic() + DELAY_S, deque([message])
        elif kind is not Damage.DROP:
            yield from self._changed(message, kind)

    @staticmethod
    def _named(kind: Damage, key: bytes) -> tuple[Damage, str]:
        return kind, key.decode("utf-8", "replace")

    def _changed(self, message: Message, kind: Damage | None) -> Iterator[Message]:
        value = message.value or b""
        if kind is Damage.CUT:
            yield replace(message, value=value[: self._chance.randrange(len(value) or 1)])
        elif kind is Damage.FLIP and value:
            flipped = bytearray(value)
            flipped[self._chance.randrange(len(value))] ^= 1 << self._chance.randrange(8)
            yield replace(message, value=bytes(flipped))
        else:
            yield message
        if kind is Damage.DOUBLE:
            yield message
        if kind is Damage.POISON:
            yield replace(message, value=self._chance.randbytes(self._chance.randrange(2_000)))

    def _due(self) -> Iterator[Message]:
        """What was delayed for long enough."""
        now = time.monotonic()
        for key in [key for key, (due, _) in self._delayed.items() if due <= now]:
            yield from self._delayed.pop(key)[1]


def _forward(out: Any, topic: str, message: Message) -> None:
    while True:
        try:
            out.produce(topic, key=message.key, value=message.value, headers=list(message.headers))
        except BufferError:
            out.poll(READ_S)
        else:
            return
