"""No engine: a confluent-kafka consumer, and the checks. Nothing is kept, so a crash loses all."""

from __future__ import annotations

import sys

from confluent_kafka import Consumer, Producer

from benchmarks.others.kinds import KINDS, AnyChecks


def main() -> None:
    """Read until it is stopped."""
    servers, topic, results, _, kind = sys.argv[1:]
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": results, "enable.auto.commit": False,
         "auto.offset.reset": "earliest"}
    )  # fmt: skip
    producer = Producer({"bootstrap.servers": servers})
    consumer.subscribe([topic])
    of_instance: dict[bytes, AnyChecks] = {}
    while True:
        for message in consumer.consume(2_000, 0.1):
            if message.error():
                raise SystemExit(str(message.error()))
            key = message.key()
            checks = of_instance.get(key)
            if checks is None:
                checks = of_instance[key] = KINDS[kind](key.decode())
            result = checks.take(message.value())
            if result is not None:
                producer.produce(results, result)
        producer.poll(0)


if __name__ == "__main__":
    main()
