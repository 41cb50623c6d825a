"""A topic in memory, on the way to which messages are lost and damaged, and producers that crash.

Producers go on as ``tail`` does, from what they saved and what they find of theirs in the topic.
"""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random

from tallystick.coordinates.events.block_codec import block_headers, decode_block, encode_block
from tallystick.coordinates.events.journal import Block
from tallystick.coordinates.values.errors import BlockError
from tallystick.producers.mysql.tail_state import TailState
from tallystick.servers.tailing import resumed as producer_resumed

CANARY = "canary"
"""Nothing of its journal is ever lost."""
PARTITIONS = 2
LOSSES = ("dropped", "delayed", "cut", "flipped", "key flipped", "header flipped")


class CrashError(Exception):
    """A process was killed here."""


@dataclass
class Crashes:
    """Where processes are killed; each step is passed by its name."""

    rng: Random
    chance: float
    hit: Counter[str] = field(default_factory=Counter)

    def at(self, step: str) -> None:
        if self.rng.random() < self.chance:
            self.hit[step] += 1
            raise CrashError(step)


@dataclass(frozen=True)
class Message:
    key: bytes
    value: bytes
    headers: list[tuple[str, bytes]]


def flipped_bit(data: bytes, rng: Random) -> bytes:
    changed = bytearray(data)
    bit = rng.randrange(8 * len(data))
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


class Topic:
    """Partitions as lists of messages, and what happened to these on the way.

    Attributes:
        lost: How many blocks were lost to their instance, by what.
    """

    def __init__(self, rng: Random, rates: dict[str, float]) -> None:
        self.partitions: list[list[Message]] = [[] for _ in range(PARTITIONS)]
        self.lost: Counter[str] = Counter()
        self._rng = rng
        self._rates = rates
        self._held: dict[bytes, tuple[int, Message]] = {}
        self._dropped: list[Block] = []

    def append(self, block: Block, *, may_vanish: bool) -> None:
        key = block.instance_id.encode()
        message = Message(key, encode_block(block), block_headers(block))
        rng, happened = self._rng, self._draw()
        if key == CANARY.encode() and happened in LOSSES:
            happened = ""
        if happened in ("dropped", "delayed") and not may_vanish:
            happened = ""
        if happened == "delayed" and key not in self._held:
            self._held[key] = block.next_sequence, message
            return
        if happened == "dropped":
            self._dropped.append(block)
            return
        if happened == "cut":
            message = replace(message, value=message.value[: rng.randrange(len(message.value))])
        elif happened == "flipped":
            message = replace(message, value=flipped_bit(message.value, rng))
        elif happened == "key flipped":
            message = replace(message, key=flipped_bit(key, rng))
        elif happened == "header flipped":
            headers = list(message.headers)
            at = rng.randrange(len(headers))
            name, value = headers[at]
            headers[at] = (name, flipped_bit(value, rng))
            message = replace(message, headers=headers)
        self.lost[happened] += happened in LOSSES[2:]
        partition = self.partitions[key[-1] % PARTITIONS]
        partition += [message] * (2 if happened == "doubled" else 1)
        if key in self._held:
            end, late = self._held.pop(key)
            # Overtaken; unless its producer has sent the same again.
            self.lost["delayed"] += block.first_sequence >= end
            partition.append(late)

    def _draw(self) -> str:
        at = self._rng.random()
        for name, rate in self._rates.items():
            if at < rate:
                return name
            at -= rate
        return ""

    def release(self) -> None:
        """What was held back comes now; what was dropped, and not sent again, is lost."""
        for block in self._dropped:
            sent = [
                range(other.first_sequence, other.next_sequence)
                for other in self.published(block.instance_id)
                if other.epoch == block.epoch
            ]
            numbers = range(block.first_sequence, block.next_sequence)
            self.lost["dropped"] += any(all(n not in some for some in sent) for n in numbers)
        for key, (_, message) in self._held.items():
            self.partitions[key[-1] % PARTITIONS].append(message)
        self._held.clear()

    def published(self, instance_id: str) -> list[Block]:
        """As ``published_since`` reads them."""
        found = []
        for message in (m for partition in self.partitions for m in partition):
            if message.key == instance_id.encode():
                try:
                    found.append(
                        decode_block(message.value, key=message.key, headers=message.headers)
                    )
                except BlockError:
                    continue
        return found


# A producer


class Producer:
    """Brings one journal into the topic; what it is beyond ``saved`` dies with its process."""

    def __init__(self, journal: Block, topic: Topic, crashes: Crashes, rng: Random) -> None:
        self.name = journal.instance_id
        self._journal = journal
        self._topic = topic
        self._crashes = crashes
        self._rng = rng
        self._size = rng.choice((48, 128, 256))
        self._epoch_begins = {journal.epoch: 0}
        self._sent = 0
        self._saved = TailState(epoch=journal.epoch)
        self._state = copy.deepcopy(self._saved)

    @property
    def _at(self) -> int:
        return self._epoch_begins[self._state.epoch] + self._state.next_sequence

    @property
    def is_done(self) -> bool:
        return self._at >= len(self._journal)

    def step(self) -> None:
        """Send a block, and save now and then."""
        try:
            at, end = self._at, min(self._at + self._size, len(self._journal))
            block = replace(
                self._journal.take(at, end),
                epoch=self._state.epoch,
                first_sequence=self._state.next_sequence,
            )
            self._crashes.at("producer built")
            self._sent = max(self._sent, end)
            self._crashes.at("producer sent")
            self._topic.append(block, may_vanish=0 < at and end < len(self._journal))
            self._crashes.at("producer acknowledged")
            self._state.next_sequence = block.next_sequence
            if self._rng.random() < 0.4 or self.is_done:
                self._saved = copy.deepcopy(self._state)
                self._crashes.at("producer saved")
        except CrashError:
            self._restart()

    def _restart(self) -> None:
        published = self._topic.published(self.name)
        state, _ = producer_resumed(copy.deepcopy(self._saved), published)
        if state is None:
            state = TailState(epoch=max(self._epoch_begins) + 1)
            self._topic.lost["new epoch"] += 1
            self._epoch_begins[state.epoch] = self._sent
        self._state, self._saved = state, copy.deepcopy(state)
