"""What a producer shows to a scrape: what was acknowledged, bounded, as Prometheus reads it."""

from __future__ import annotations

import socket
import urllib.request
from pathlib import Path
from urllib.error import HTTPError

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tallystick.deploy.ports import free_base_port
from tallystick.errors import MisuseError
from tallystick.producers.publisher import Delivery
from tallystick.runs.producer_metrics import INSTANCES_MAX, OTHER, PREFIX, ProducerMetrics

DOCS = Path(__file__).parents[3] / "docs" / "operations.md"


def scraped(port: int) -> dict[tuple[str, str | None], float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    return {
        (sample.name, sample.labels.get("instance")): sample.value
        for family in families
        for sample in family.samples
    }


def test_what_kafka_acknowledged_is_counted():
    """By instance, with when that was, and the answers that the producer counts itself."""
    metrics = ProducerMetrics(clock=lambda: 1_700_000_000.0)
    metrics.delivered(Delivery("a", 10, 500, 0.02))
    metrics.delivered(Delivery("a", 1, 50, 0.3))
    metrics.delivered(Delivery('b"\n', 2, 60, 0.3))
    metrics.answers = lambda: {"a": 4}
    metrics.outages = 3
    port = free_base_port(1)
    metrics.serve("127.0.0.1", port)
    found = scraped(port)
    shown = {name.removeprefix(PREFIX): v for (name, of), v in found.items() if of == "a"}
    assert shown == {
        "blocks_total": 2,
        "records_total": 11,
        "value_bytes_total": 550,
        "last_delivery_timestamp_seconds": 1_700_000_000.0,
        "answers_total": 4,
    }
    assert found[f"{PREFIX}blocks_total", 'b"\n'] == 1
    assert found[f"{PREFIX}delivery_latency_seconds_count", None] == 3
    assert found[f"{PREFIX}outages_total", None] == 3
    described = {name for name, _ in found} - {f"{PREFIX}delivery_latency_seconds_created"}
    page = DOCS.read_text("utf-8")
    for name in described:
        assert name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count") in page


def test_series_are_bounded():
    """What comes beyond the bound is counted together."""
    metrics = ProducerMetrics()
    for number in range(INSTANCES_MAX + 5):
        metrics.delivered(Delivery(f"i{number}", 1, 1, 0.1))
    blocks = next(one for one in metrics.collect() if one.name == f"{PREFIX}blocks")
    by_instance = {sample.labels["instance"]: sample.value for sample in blocks.samples}
    assert (INSTANCES_MAX + 1, 5) == (len(by_instance), by_instance[OTHER])


def test_a_scrape_reads_them_and_there_are_no_probes():
    """Of a producer its heartbeats are watched."""
    port = free_base_port(1)
    ProducerMetrics().serve("127.0.0.1", port)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        assert PREFIX.encode() in answer.read()
    with pytest.raises(HTTPError, match="404"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=30)


def test_a_port_in_use_is_one_sentence():
    """Before anything is sent."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(MisuseError, match=f"127.0.0.1:{port} cannot be listened on"):
            ProducerMetrics().serve("127.0.0.1", port)
