"""The epochs of journals in Kafka: which one comes next, and that one producer alone writes it.

A new journal takes an epoch above all that the topic has of its instance. Two producers that begin
at once would take the same one, and one that was thought dead may still write. So each producer
claims its epochs in the collect topic before it writes, and reads its claim back: the claims of an
instance are in one partition, so all read them in one order, and the last one of the highest epoch
counts. Who reads a later claim of somebody else's ends. docs/decisions/0018-epochs.md.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, final
from uuid import uuid4

from tallystick.coordinates.events.epoch_claim import EpochClaim, encode_claim, parse_claim
from tallystick.coordinates.values.topics import COLLECT_TOPIC, JOURNAL_TOPIC
from tallystick.producers.journal_reader import written_since
from tallystick.producers.kafka_clients.choice import kafka_client
from tallystick.producers.kafka_clients.errors import BrokerUnreachableError, SupersededError

if TYPE_CHECKING:
    from tallystick.producers.kafka_clients.protocol import KafkaClient

_LOOK_BACK_MS = 3_600_000
"""So much of the topic is read first: it has all instances that are being observed."""
_CLAIMED_MS = 60_000
"""Claims so old are read back at the start: of a producer that has written nothing yet."""
_DEADLINE_S = 15.0
_READ_DEADLINE_S = 600.0


def next_epochs(
    bootstrap_servers: str,
    instance_ids: Collection[str],
    topic: str = JOURNAL_TOPIC,
    client: KafkaClient | None = None,
) -> dict[str, int]:
    """For each instance an epoch above all that the topic has of it.

    It is the seconds since 1970, where that is higher: so a topic that is made anew, or has lost
    what is old, does not begin again with epochs that an audit has read before.

    Args:
        bootstrap_servers: ``host:port``, comma-separated.
        instance_ids: Whose.
        topic: The journal topic. Of an instance that was not written in the last hour all is read.
        client: None: the default one, without properties.

    Raises:
        BrokerUnreachableError: No broker answers, or not to the end.
        TopicError: The topic does not exist.
    """
    now_ms = time.time_ns() // 1_000_000
    epochs = dict.fromkeys(instance_ids, now_ms // 1_000)
    missing = set(epochs)
    for since_ms in (max(0, now_ms - _LOOK_BACK_MS), 0):
        if not missing:
            break
        found = written_since(
            bootstrap_servers, missing, since_ms, topic, client, deadline_s=_READ_DEADLINE_S
        )
        for block in found:
            epochs[block.instance_id] = max(epochs[block.instance_id], block.epoch + 1)
            missing.discard(block.instance_id)
    return epochs


@final
class EpochClaims:
    """The epochs that this process claims, and what others claim.

    Args:
        bootstrap_servers: ``host:port``, comma-separated.
        topic: The collect topic.
        client: None: the default one, without properties.

    Raises:
        BrokerUnreachableError: No broker answers.
        TopicError: The topic does not exist.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        topic: str = COLLECT_TOPIC,
        client: KafkaClient | None = None,
    ) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._writer = str(uuid4())
        self._topic = topic
        self._client = client or kafka_client()
        self._claimed: dict[str, int] = {}
        self._others: dict[str, int] = {}
        """The highest epochs that others have claimed, as far as the topic was read."""
        self._before: dict[str, int] = {}
        """The same when our own claim was read back, of those that were."""
        self._later: dict[str, SupersededError] = {}
        since_ms = max(0, time.time_ns() // 1_000_000 - _CLAIMED_MS)
        self._reader = self._client.open_reader(
            bootstrap_servers, topic, since_ms=since_ms, after_gap="latest"
        )

    def claim(self, epochs: Mapping[str, int], going_on: Collection[str] = ()) -> dict[str, int]:
        """Claim epochs, or higher ones where others have; returns when they are this process's.

        Args:
            epochs: By instance.
            going_on: Instances whose journals go on in an epoch that was claimed before. A higher
                one in the answer means that somebody else has begun their journals anew.

        Raises:
            BrokerUnreachableError: The claims were not acknowledged, or not read back.
        """
        wanted = dict(epochs)
        while wanted:
            self._send(wanted)
            self._claimed |= wanted
            self._before = {k: v for k, v in self._before.items() if k not in wanted}
            self._later = {k: v for k, v in self._later.items() if k not in wanted}
            deadline = time.monotonic() + _DEADLINE_S
            while not wanted.keys() <= self._before.keys():
                if time.monotonic() > deadline:
                    reason = f"claims of epochs in {self._topic!r} were not read back"
                    raise BrokerUnreachableError(self._bootstrap_servers, reason)
                self._read(0.2)
            wanted = {
                name: before + 1
                for name, epoch in wanted.items()
                if (before := self._before[name]) >= epoch + (name in going_on)
            }
        return {name: self._claimed[name] for name in epochs}

    def _send(self, epochs: Mapping[str, int]) -> None:
        for name, epoch in epochs.items():
            value = encode_claim(EpochClaim(name, epoch, self._writer))
            self._client.send(self._bootstrap_servers, self._topic, name.encode(), value)

    def poll(self) -> dict[str, SupersededError]:
        """The instances whose journals others have claimed since the last call."""
        self._read(0.0)
        later, self._later = self._later, {}
        return later

    def _read(self, timeout_s: float) -> None:
        for message in self._reader.read(timeout_s):
            claim = parse_claim(message.value)
            if claim is None:
                continue
            name, others = claim.instance_id, self._others.get(claim.instance_id, -1)
            if claim.writer == self._writer:
                # Not one that was sent before, of which nobody waits any longer.
                if claim.epoch == self._claimed[name]:
                    self._before[name] = others
                continue
            self._others[name] = max(claim.epoch, others)
            if name in self._before and claim.epoch >= self._claimed[name]:
                self._later[name] = SupersededError(name, claim.epoch, self._claimed[name])

    def close(self) -> None:
        """Let go of the connections."""
        self._reader.close()
