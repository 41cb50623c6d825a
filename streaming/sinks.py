"""Where results go in Kafka: findings, changes of incidents, and dead letters.

Every write may be done again by a retried micro-batch: a finding's key is its id, which stays, as
the ``change_id`` of a change does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from tallystick.coordinates.rules.topic_messages import Origin, finding_message, incident_message
from tallystick.coordinates.values.topics import (
    DEAD_LETTER_TOPIC,
    FINDINGS_TOPIC,
    INCIDENTS_TOPIC,
)
from tallystick.streaming.schema import DEAD_LETTER, DEAD_LETTER_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

    from tallystick.coordinates.results import Finding, IncidentChange
    from tallystick.coordinates.rules.topic_messages import Message

WRITE_TIMEOUTS = {
    "kafka.request.timeout.ms": "10000",
    "kafka.delivery.timeout.ms": "30000",
    "kafka.max.block.ms": "30000",
}
"""A broker that does not answer is reported within these, not after Kafka's own two minutes."""
_EACH_ALONE = {"kafka.batch.size": "0"}
"""Kafka's producer splits a batch that a topic finds too large, and its flush, and so Spark, does
not wait for the parts: that they are refused, too, would pass unseen."""
REASON_BYTES_MAX = 2_000
_TOO_LARGE = "RecordTooLarge"
_NOT_TAKEN = re.compile(
    f"{_TOO_LARGE}|AuthorizationException|UnknownTopicOrPartition|not present in metadata"
)
"""Why a topic does not take messages although its brokers are there."""

_MESSAGES = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field(
            "headers",
            pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])),
        ),
    ]
)


@dataclass(frozen=True, slots=True)
class DeadLetterRow:
    """A message that could not be read, as it leaves the auditor.

    ``length``: of its value, of which ``value`` may be the beginning. ``key``: the beginning of
    its key. ``kind``: of which topic it is, by the name in ``schema``. ``cluster``: as a header has
    it.
    """

    instance_id: str
    reason: str
    value: bytes | None
    headers: list[tuple[str, bytes]]
    partition: int
    offset: int
    length: int = 0
    key: bytes | None = None
    kind: str = DEAD_LETTER
    cluster: str = ""


class KafkaSink:
    """Writes findings, changes of incidents, dead letters with Spark's Kafka sink; at least once.

    Args:
        spark: The session.
        bootstrap_servers: The brokers.
        options: How they are spoken to.
        read_topics: Named in dead letters as where they came from, by their ``kind``.
        findings_topic: Key ``finding_id``, value the finding as JSON.
        incidents_topic: Key ``incident_id``, value the change with the whole incident as JSON.
        dead_letter_topic: The message as it was; the headers have the reason and the origin.
    """

    def __init__(
        self,
        spark: SparkSession,
        bootstrap_servers: str,
        *,
        options: Mapping[str, str],
        read_topics: Mapping[str, str],
        findings_topic: str = FINDINGS_TOPIC,
        incidents_topic: str = INCIDENTS_TOPIC,
        dead_letter_topic: str = DEAD_LETTER_TOPIC,
    ) -> None:
        self._spark = spark
        self._options = {
            "kafka.bootstrap.servers": bootstrap_servers,
            **WRITE_TIMEOUTS,
            **options,
        }
        self._read_topics = read_topics
        self._findings_topic = findings_topic
        self._incidents_topic = incidents_topic
        self._dead_letter_topic = dead_letter_topic

    def publish(
        self, findings: Sequence[Finding], changes: Sequence[IncidentChange], origin: Origin
    ) -> None:
        """Write findings and changes of incidents, each in the order of its list, by one job."""
        self._write(
            [
                *(_row(self._findings_topic, finding_message(one, origin)) for one in findings),
                *(_row(self._incidents_topic, incident_message(one, origin)) for one in changes),
            ]
        )

    def publish_dead_letters(self, letters: Sequence[DeadLetterRow]) -> str:
        """Write dead letters: the old key, value and headers, and ours beside them.

        Where the topic's limit is lower than usual, values are left out.

        Returns:
            Why they cannot be written, empty if they are.
        """
        for kept in (DEAD_LETTER_BYTES_MAX, 0):
            messages = [self._dead_letter(letter, kept) for letter in letters]
            try:
                self._write(messages, _EACH_ALONE)
            except (PySparkException, Py4JError) as error:
                found = _NOT_TAKEN.search(str(error))
                if found is None:
                    raise
                if kept and found.group() == _TOO_LARGE:
                    continue
                return f"{found.group()} of {self._dead_letter_topic!r}"
            break
        return ""

    def _dead_letter(self, letter: DeadLetterRow, kept: int) -> dict[str, Any]:
        value = letter.value
        ours = {
            "tallystick.reason": letter.reason.encode("utf-8", "replace")[:REASON_BYTES_MAX],
            "tallystick.topic": self._read_topics[letter.kind].encode(),
            "tallystick.partition": b"%d" % letter.partition,
            "tallystick.offset": b"%d" % letter.offset,
        }
        if value is not None:
            value = value[:kept]
            if len(value) < letter.length:
                ours["tallystick.bytes"] = b"%d" % letter.length
        headers = [*((k, v) for k, v in letter.headers if k not in ours and kept), *ours.items()]
        return {
            "topic": self._dead_letter_topic,
            "key": letter.key if kept else None,
            "value": value,
            "headers": [{"key": k, "value": v} for k, v in headers],
        }

    def _write(
        self, messages: list[dict[str, Any]], options: Mapping[str, str] | None = None
    ) -> None:
        if not messages:
            return
        frame = self._spark.createDataFrame(pa.Table.from_pylist(messages, schema=_MESSAGES))
        (
            frame.coalesce(1)
            .write.format("kafka")
            .options(**self._options, **(options or {}))
            .option("includeHeaders", "true")
            .save()
        )


def _row(topic: str, message: Message) -> dict[str, Any]:
    headers = [{"key": key, "value": value} for key, value in message.headers]
    return {"topic": topic, "key": message.key, "value": message.value, "headers": headers}
