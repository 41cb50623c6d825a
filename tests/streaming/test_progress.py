"""Metrics: plain numbers, and nothing that goes wrong with them reaches the job."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tallystick.streaming.progress import Metrics, ProgressListener, auditor_gauges, lag_blocks

PROGRESS = {
    "name": "auditor",
    "batchDuration": 120,
    "numInputRows": 9,
    "stateOperators": [{"memoryUsedBytes": 4096}],
    "sources": [
        {
            "endOffset": {"journal": {"0": 5, "1": 7}},
            "latestOffset": {"journal": {"0": 11, "1": 10, "2": 1}},
            "metrics": {"maxOffsetsBehindLatest": "6", "avgOffsetsBehindLatest": "4.5"},
        },
        {
            "endOffset": {"collect": {"0": 5}},
            "latestOffset": {"collect": {"0": 9}},
            "metrics": {"maxOffsetsBehindLatest": "1", "avgOffsetsBehindLatest": "1"},
        },
    ],
}


def listener(metrics: Metrics) -> ProgressListener:
    return ProgressListener(
        metrics, auditor_name="auditor", collector_name="collector", journal_topic="journal"
    )


def test_the_lag_of_all_partitions_is_told():
    """The query commits no offsets, so this is the only position that is kept."""
    gauges = auditor_gauges(PROGRESS, "journal")
    assert (6, 9) == (gauges["lag_blocks_max"], gauges["lag_blocks_sum"])
    assert (4096, 120) == (gauges["state_memory_bytes"], gauges["micro_batch_ms"])


def test_requests_of_the_collector_are_counted():
    """One row of its query is one request."""
    metrics = Metrics()
    for rows in (1, 1, 0):
        listener(metrics).progressed({"name": "collector", "numInputRows": rows})
    assert metrics.snapshot()["collections_requested"] == 2


@pytest.mark.parametrize("progress", [{}, {"name": "auditor"}, PROGRESS])
def test_the_listener_never_raises(progress):
    """Whatever Spark sends, and whatever the callable does."""

    def report(_metrics):
        raise RuntimeError("no display")

    metrics = Metrics(report)
    listener(metrics).progressed(progress)
    metrics.count(blocks=2)
    assert metrics.snapshot()["blocks"] == 2


def test_every_change_is_reported_and_unknown_names_are_our_mistake():
    """A misspelt metric is seen in the first test, not on a dashboard."""
    reported = []
    metrics = Metrics(reported.append)
    metrics.count(blocks=1)
    metrics.set(collections_open=4)
    assert [(1, 0), (1, 4)] == [(m["blocks"], m["collections_open"]) for m in reported]
    with pytest.raises(KeyError):
        metrics.count(blokcs=1)
    with pytest.raises(KeyError):
        metrics.set(blokcs=1)


def test_watchers_are_shown_progress_and_empty_polls():
    """Lag by partition with a micro-batch; a poll that found nothing is progress, too."""
    shown = []
    watcher = SimpleNamespace(progressed=lambda *values: shown.append(values))
    listens = listener(Metrics(watchers=[watcher]))
    for name in ("auditor", "collector"):
        listens.onQueryStarted(SimpleNamespace(name=name, id=f"id of {name}"))
    listens.progressed(PROGRESS)
    listens.onQueryIdle(SimpleNamespace(id="id of auditor"))
    listens.onQueryIdle(SimpleNamespace(id="id of collector"))
    assert [({0: 6, 1: 3, 2: 1}, 0.12), (None, None)] == shown


@pytest.mark.parametrize("latest", [{}, {"latestOffset": None}, {"latestOffset": 7}])
def test_lag_that_spark_does_not_report_is_not_made_up(latest):
    """Its sources report no newest offset before they have read."""
    source = {"endOffset": {"journal": {"0": 5}}, **latest}
    assert lag_blocks({"sources": [source]}, "journal") is None


def test_numbers_are_added_or_set_and_reported_after_each_change():
    """All of them, as they are then."""
    reported = []
    metrics = Metrics(reported.append)
    metrics.count(blocks=2, records=5)
    metrics.count(blocks=1)
    metrics.set(is_waiting=1)
    metrics.set(is_waiting=0, lag_blocks_max=7)
    assert [2, 3, 3, 3] == [one["blocks"] for one in reported]
    assert [0, 0, 1, 0] == [one["is_waiting"] for one in reported]
    assert {"blocks": 3, "records": 5, "lag_blocks_max": 7} == {
        name: value for name, value in metrics.snapshot().items() if value
    }
