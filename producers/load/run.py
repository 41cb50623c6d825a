"""Send a load through a sink at a rate, and report what was achieved."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from tallystick.coordinates.events.journal import Block, BlockBuilder, RecordType
from tallystick.producers.kafka_clients.choice import kafka_client
from tallystick.producers.load.history import LoadPlan, journal_blocks
from tallystick.producers.publisher import Delivery, EventSink, KafkaSettings

if TYPE_CHECKING:
    from tallystick.producers.kafka_clients.protocol import KafkaClient

BLOCK_S = 0.1
"""At a rate a block holds the events of this many seconds at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """How much, and how fast.

    Attributes:
        plan: What is generated.
        rate: Events each second over all instances; 0: as fast as it goes.
        seconds: End after this time.
        events: End after this many events, at the end of a block. One of the two is needed.
    """

    plan: LoadPlan
    rate: float = 0.0
    seconds: float | None = None
    events: int | None = None

    def __post_init__(self) -> None:
        if self.seconds is None and self.events is None:
            raise ValueError("expected seconds, events or both, got neither")
        for name in ("rate", "seconds", "events"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < math.inf:
                raise ValueError(f"expected {name} of at least 0, got {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadReport:
    """What a load achieved.

    Attributes:
        events: Records that were acknowledged.
        blocks: Messages that were acknowledged.
        value_bytes: Bytes of their values, before Kafka compresses them.
        seconds: From the first block to the last acknowledgement.
        events_per_s: Acknowledged records each second.
        produce_p50_s: Median time from hand-over to acknowledgement of a message; None: none was
            measured. The others are higher percentiles of the same.
    """

    events: int
    blocks: int
    value_bytes: int
    seconds: float
    events_per_s: float
    produce_p50_s: float | None
    produce_p95_s: float | None
    produce_p99_s: float | None

    def as_dict(self) -> dict[str, int | float | None]:
        """For JSON."""
        return asdict(self)


def run_load(
    options: LoadOptions,
    settings: KafkaSettings,
    client: KafkaClient | None = None,
    on_delivery: Callable[[Delivery], None] | None = None,
) -> LoadReport:
    """Send a load to Kafka.

    Args:
        options: How much, and how fast.
        settings: How to reach Kafka.
        client: None: the default one, without properties.
        on_delivery: Takes each acknowledged block as it comes.

    Raises:
        DeliveryError: A block was not acknowledged.
        BrokerUnreachableError: No broker answers.
    """
    deliveries: list[Delivery] = []

    def note(one: Delivery) -> None:
        deliveries.append(one)
        if on_delivery is not None:
            on_delivery(one)

    sink = (client or kafka_client()).open_sink(settings, note)
    try:
        return drive_load(options, sink, deliveries)
    finally:
        sink.close()


def drive_load(
    options: LoadOptions,
    sink: EventSink,
    deliveries: list[Delivery],
    *,
    clock: Callable[[], float] = time.perf_counter,
    sleep: Callable[[float], None] = time.sleep,
) -> LoadReport:
    """Send a load through any sink.

    Args:
        options: How much, and how fast.
        sink: Where the blocks go.
        deliveries: Where the sink notes what was acknowledged.
        clock: Seconds that never fall.
        sleep: Waits so many seconds.
    """
    begun = clock()

    def wait(seconds: float) -> None:
        # There is time: acknowledgements are noticed when they come, not at the next block.
        until = clock() + seconds
        sink.flush()
        left_s = until - clock()
        if left_s > 0:
            sleep(left_s)

    for block in paced(
        _with_end(load_blocks(options, lambda: clock() - begun)),
        options.rate,
        lambda: clock() - begun,
        wait,
    ):
        sink.send(block)
    sink.flush()
    seconds = clock() - begun
    events = sum(delivery.count for delivery in deliveries)
    latencies = sorted(delivery.latency_s for delivery in deliveries)
    return LoadReport(
        events=events,
        blocks=len(deliveries),
        value_bytes=sum(delivery.value_bytes for delivery in deliveries),
        seconds=seconds,
        events_per_s=events / seconds if seconds > 0 else 0.0,
        produce_p50_s=percentile(latencies, 0.50),
        produce_p95_s=percentile(latencies, 0.95),
        produce_p99_s=percentile(latencies, 0.99),
    )


def load_blocks(options: LoadOptions, elapsed_s: Callable[[], float]) -> Iterator[Block]:
    """The plan's blocks until the time or the number of events is reached.

    At a rate blocks are small enough for ten of them a second.
    """
    plan = options.plan
    if options.rate:
        size = max(1, int(options.rate * BLOCK_S))
        plan = replace(plan, block_size=min(plan.block_size, size))
    sent = 0
    for block in journal_blocks(plan):
        if options.events is not None and sent >= options.events:
            return
        if options.seconds is not None and elapsed_s() >= options.seconds:
            return
        sent += len(block)
        yield block


def _with_end(blocks: Iterator[Block]) -> Iterator[Block]:
    """After the last block a heartbeat of every instance: nothing waits for more."""
    ends: dict[str, Block] = {}
    ts = 0
    for block in blocks:
        ends[block.instance_id] = block
        ts = max(ts, int(block.columns["ts"][-1]))
        yield block
    for last in ends.values():
        builder = BlockBuilder(
            last.instance_id,
            epoch=last.epoch,
            first_sequence=last.next_sequence,
            cluster=last.cluster,
        )
        builder.server_record(RecordType.HEARTBEAT, {}, ts=ts)
        yield builder.build()


def paced(
    blocks: Iterator[Block],
    rate: float,
    elapsed_s: Callable[[], float],
    wait: Callable[[float], None],
) -> Iterator[Block]:
    """Hold blocks back so that no more than ``rate`` records a second leave; 0: no limit."""
    if not rate:
        yield from blocks
        return
    sent = 0
    for block in blocks:
        early_s = sent / rate - elapsed_s()
        if early_s > 0:
            wait(early_s)
        sent += len(block)
        yield block


def percentile(ascending: list[float], share: float) -> float | None:
    """The smallest value that at least ``share`` of the values do not exceed."""
    if not ascending:
        return None
    return ascending[max(0, math.ceil(share * len(ascending)) - 1)]
