"""Metrics and probes: what a scrape reads, what a probe answers, and how many series there are."""

from __future__ import annotations

import http.client
import socket
import threading
import time
import urllib.error
import urllib.request
from contextlib import suppress
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tallystick.coordinates.audit.cut import Cut
from tallystick.coordinates.results import Incident, IncidentState, Severity, Verdict
from tallystick.coordinates.rules.catalogue import RULES
from tallystick.deploy.ports import free_base_port
from tallystick.errors import MisuseError
from tallystick.runs import metric_families, metrics_listener
from tallystick.runs.health import JobHealth
from tallystick.runs.metric_families import FAMILIES
from tallystick.runs.metrics import JobMetrics
from tallystick.runs.metrics_listener import MetricsListener
from tallystick.streaming.answers import Member
from tallystick.streaming.progress import COUNTERS, GAUGES
from tallystick.streaming.rounds import Round
from tallystick.streaming.watch import StepReport
from tests.support.results import finding

HOST = "127.0.0.1"
NOW = "tallystick_verdict_now"
SECOND = 1_000_000
DELIVERED = 1_700_000_000 * SECOND
EMPTY = StepReport(
    delivered_us=DELIVERED, findings=(), incidents=(), rounds=(), validations=(), members={},
    verdict_now=Verdict.UNDECIDED, verdict_period=Verdict.UNDECIDED,
)  # fmt: skip


@pytest.fixture
def served():
    """Metrics and health on a port of their own, and how to read a path of it."""
    metrics, health = JobMetrics(), JobHealth()
    port = free_base_port(1)
    listener = MetricsListener(HOST, port, metrics.registry, health)

    def read(path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://{HOST}:{port}{path}", timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    yield metrics, health, read, port
    listener.close()


def by_labels(families) -> dict[tuple[str, ...], float]:
    """Values by name and label values, these in the order of the labels' names."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def scrape(metrics: JobMetrics) -> dict[tuple[str, ...], float]:
    return by_labels(metrics.registry.collect())


def incident(instance_id: str, state=IncidentState.OPEN) -> Incident:
    found = finding(instance_id=instance_id)
    return Incident(
        incident_id=found.finding_id, rule=found.rule, case=found.case, severity=Severity.ERROR,
        instance_id=instance_id, channel=None, cause={}, state=state, opened_ts=1, last_seen_ts=1,
        closed_ts=None, count=1, witness="", finding=found,
    )  # fmt: skip


def closed(*names: str, missing=(), is_late=False, ts=1) -> Round:
    cuts = [
        Cut(collection_id="c-1", instance_id=name, scope="instance", channel=None, ts=1)
        for name in (*names, *missing)
    ]
    return Round("c-1", cuts, tuple(missing), is_late=is_late, ts=ts)


def test_a_scrape_reads_what_the_job_showed(served):
    """Labels, base units and totals, as text that Prometheus reads."""
    metrics, _health, read, _port = served
    metrics.take({"records": 7, "lag_blocks_max": 3, "journal_bytes": 4_096})
    metrics.progressed({0: 4, 1: 0}, 0.7)
    found = [
        replace(finding(instance_id="a"), ts=DELIVERED - 2 * SECOND, collection_id=None),
        replace(finding(instance_id="b"), ts=DELIVERED + SECOND, collection_id="c-1"),
    ]
    metrics.stepped(
        replace(
            EMPTY, findings=found, incidents=[incident("a"), incident("a"), incident("b")],
            rounds=[closed("a"), closed("a", missing="b"), closed("b", is_late=True)],
            validations=[Verdict.CONSISTENT], verdict_now=Verdict.INCONSISTENT,
            members={"a": Member(DELIVERED, 1, 0), "b": Member(None, None, 3)},
        )
    )  # fmt: skip
    status, text = read("/metrics")
    values = by_labels(text_string_to_metric_families(text))
    rule = found[0].rule
    assert 200 == status
    assert 7 == values["tallystick_records_total",]
    assert 4_096 == values["tallystick_journal_bytes_total",]
    assert 4 == values["tallystick_lag_blocks", "0"]
    assert 2 == values["tallystick_open_incidents", "a", rule, "error"]
    assert 2 == values["tallystick_findings_total", rule]
    assert [1, 1, 1] == [
        values["tallystick_collections_total", outcome]
        for outcome in ("complete", "incomplete", "late")
    ]
    assert (1, 0) == (
        values["tallystick_verdict_now", "INCONSISTENT"],
        values["tallystick_verdict_now", "UNDECIDED"],
    )
    assert 1 == values["tallystick_verdict_period", "UNDECIDED"]
    assert DELIVERED / SECOND == values["tallystick_last_answer_timestamp_seconds", "a"]
    assert ("tallystick_last_answer_timestamp_seconds", "b") not in values
    assert 3 == values["tallystick_unanswered_requests", "b"]
    assert DELIVERED / SECOND == values["tallystick_last_collection_timestamp_seconds",]
    assert 2 == values["tallystick_detection_latency_seconds_sum", "log"]
    assert 0 == values["tallystick_detection_latency_seconds_sum", "row"]
    assert 0.7 == values["tallystick_micro_batch_duration_seconds_sum",]
    assert ("tallystick_lag_blocks_max",) not in values


def test_what_is_over_is_shown_no_more_and_what_is_known_is_apart():
    """Gauges are of now: the series of an incident ends with it."""
    metrics = JobMetrics()
    metrics.stepped(replace(EMPTY, incidents=[incident("a")]))
    known = incident("b", IncidentState.ACKNOWLEDGED)
    metrics.stepped(replace(EMPTY, incidents=[known, incident("c")]))
    shown = {key[:2] for key in scrape(metrics) if {"a", "b", "c"} & {*key}}
    assert shown == {
        ("tallystick_acknowledged_incidents", "b"), ("tallystick_open_incidents", "c"),
    }  # fmt: skip


def test_nothing_is_consistent_that_nobody_has_seen_for_long():
    """As while the broker is away. What is open goes on: its alert must not resolve by that."""
    seconds = 1_000.0
    metrics = JobMetrics(25, lambda: seconds)

    def now() -> set[str]:
        return {key[1] for key, value in scrape(metrics).items() if key[0] == NOW and value}

    metrics.stepped(replace(EMPTY, verdict_now=Verdict.CONSISTENT))
    assert {"CONSISTENT"} == now()  # a job that goes on
    closed = Round("c", [], (), is_late=False, ts=1)
    metrics.stepped(replace(EMPTY, rounds=[closed], verdict_now=Verdict.CONSISTENT))
    seconds = 1_025.0
    assert {"CONSISTENT"} == now()
    metrics.stepped(replace(EMPTY, verdict_now=Verdict.CONSISTENT))
    seconds = 1_025.1
    assert {"UNDECIDED"} == now()
    metrics.stepped(replace(EMPTY, rounds=[closed], verdict_now=Verdict.CONSISTENT))
    assert {"CONSISTENT"} == now()
    metrics.stepped(replace(EMPTY, verdict_now=Verdict.INCONSISTENT))
    seconds = 1_060.0
    assert {"INCONSISTENT"} == now()


def test_counters_are_there_before_they_grow():
    """The first finding of a rule is an increase that `rate` sees."""
    values = scrape(JobMetrics())
    assert {0.0} == {values["tallystick_findings_total", rule] for rule in RULES}
    assert 0 == values["tallystick_collections_total", "late"]
    assert 0 == values["tallystick_detection_latency_seconds_count", "log"]


def test_series_are_bounded(monkeypatch):
    """What is beyond the bound shares one series by what its metric means, and is counted."""
    monkeypatch.setattr("tallystick.runs.metrics.SERIES_MAX", 3)
    metrics = JobMetrics()
    names = [f"i{n}" for n in range(8)]
    metrics.stepped(
        replace(
            EMPTY,
            incidents=[incident(name) for name in names],
            members={name: Member((9 - n) * SECOND, 1, n) for n, name in enumerate(names)},
        )
    )
    values = scrape(metrics)
    rule = incident("a").rule
    assert 5 == values["tallystick_open_incidents", "other", rule, "error"]
    assert 2 == values["tallystick_last_answer_timestamp_seconds", "other"]
    assert 7 == values["tallystick_unanswered_requests", "other"]
    assert ("tallystick_open_incidents", "i3", rule, "error") not in values
    assert 5 == values["tallystick_folded_series", "tallystick_open_incidents"]


def test_a_label_is_never_long():
    """A hostile name of an instance does not make a scrape large."""
    metrics = JobMetrics()
    metrics.stepped(replace(EMPTY, members={"x" * 100_000: Member(SECOND, 1, 0)}))
    lengths = {len(value) for key in scrape(metrics) for value in key}
    assert max(lengths) <= metric_families.LABEL_LENGTH_MAX


def test_every_plain_number_of_the_job_has_a_metric_or_one_with_labels():
    """None is counted for nobody."""
    shown_otherwise = {
        "collections_closed", "collections_late", "findings", "lag_blocks_max", "lag_blocks_sum",
        "micro_batch_ms",
    }  # fmt: skip
    plain = {one.name for one in FAMILIES if not one.labels}
    assert shown_otherwise == {*COUNTERS, *GAUGES} - plain
    assert set(COUNTERS) & plain == {
        one.name for one in FAMILIES if one.kind == "counter" and not one.labels
    }


def test_names_follow_the_conventions():
    """Base units, no total of our own, and no label for what has no bound."""
    for one in FAMILIES:
        assert not one.name.endswith(("_ms", "_us", "_total", "_count"))
        assert set(one.labels) <= {
            "verdict", "rule", "instance", "severity", "outcome", "evidence", "partition",
            "metric", "version", "python",
        }  # fmt: skip


def test_two_runs_share_nothing():
    """Each has a registry of its own."""
    first, second = JobMetrics(), JobMetrics()
    first.take({"records": 7})
    assert ("tallystick_records_total",) not in scrape(second)


def test_probes_follow_the_progress_of_the_job(served):
    """Alive is not enough: what runs must go on, and the fleet must answer."""
    _metrics, health, read, _port = served
    assert (200, "ok\n") == read("/healthz")
    assert (503, "the queries do not run yet\n") == read("/readyz")
    health.started()
    assert (503, "no collection has been closed since the start\n") == read("/readyz")
    health.stepped(replace(EMPTY, rounds=[closed("a", missing="b")]))
    assert (200, "ok\n") == read("/readyz")
    late = closed("a", is_late=True, ts=2)
    health.stepped(replace(EMPTY, rounds=[closed(missing="ab"), late]))
    assert (503, "nobody has answered collection c-1\n") == read("/readyz")
    health.stepped(replace(EMPTY, rounds=[closed("a", ts=3)]))
    health.stepped(replace(EMPTY, rounds=[closed(missing="ab", ts=2)]))
    assert (200, "ok\n") == read("/readyz")
    health.stepped(replace(EMPTY, rounds=[closed("a", ts=5), closed(missing="ab", ts=4)]))
    assert (200, "ok\n") == read("/readyz")
    assert 200 == read("/healthz")[0]
    health.ended()
    assert (503, "the queries have ended or are to stop\n") == read("/healthz")


@pytest.mark.parametrize("step", ["progressed", "stepped", "started"])
def test_a_job_that_hangs_is_not_healthy(step):
    """Each end of a micro-batch, or of a poll that found nothing, starts the time anew."""
    now = [0.0]
    health = JobHealth(60, clock=lambda: now[0])
    now[0] = 61.0
    assert health.not_healthy() == "the queries do not run 61 s after the start"
    health.started()
    arguments = {"progressed": (None, None), "stepped": (EMPTY,), "started": ()}[step]
    getattr(health, step)(*arguments)
    now[0] = 121.0
    assert health.not_healthy() is None
    now[0] = 122.0
    text = "no micro-batch and no poll has ended for 61 s, and the limit is 60 s"
    assert (text, text) == (health.not_healthy(), health.not_ready())


def test_a_job_that_waits_for_its_broker_is_healthy_and_not_ready():
    """A restart brings no broker back; when it is back the time begins anew."""
    now = [0.0]
    health = JobHealth(60, clock=lambda: now[0])
    health.started()
    health.stepped(EMPTY)
    health.waits("The broker does not answer.")
    now[0] = 1000.0
    assert (None, "The broker does not answer.") == (health.not_healthy(), health.not_ready())
    health.waits(None)
    assert None is health.not_healthy()
    assert "The broker does not answer." != health.not_ready()
    now[0] = 1061.0
    assert "no micro-batch" in str(health.not_healthy())


def test_other_paths_and_methods(served):
    """Nothing else is served."""
    _metrics, _health, read, port = served
    assert (404, "there is /metrics, /healthz, /readyz\n") == read("/")
    connection = http.client.HTTPConnection(HOST, port, timeout=30)
    connection.request("POST", "/metrics", b"x")
    assert 405 == connection.getresponse().status


def test_a_client_that_sends_nothing_is_let_go(monkeypatch):
    """And meanwhile others are answered."""
    monkeypatch.setattr(metrics_listener._Handler, "timeout", 0.2)
    port = free_base_port(1)
    listener = MetricsListener(HOST, port, JobMetrics().registry, JobHealth())
    try:
        with socket.create_connection((HOST, port), timeout=30) as silent:
            with urllib.request.urlopen(f"http://{HOST}:{port}/healthz", timeout=30) as answer:
                assert b"ok\n" == answer.read()
            assert b"" == silent.recv(1)
    finally:
        listener.close()


def test_a_client_that_sends_slowly_is_let_go(monkeypatch):
    """However often something comes."""
    monkeypatch.setattr(metrics_listener, "LONGEST_S", 0.5)
    port = free_base_port(1)
    listener = MetricsListener(HOST, port, JobMetrics().registry)
    deadline = time.monotonic() + 30
    try:
        with socket.create_connection((HOST, port), timeout=0.05) as slow:
            with suppress(ConnectionError):
                while time.monotonic() < deadline:
                    slow.sendall(b"G")
                    with suppress(TimeoutError):
                        if not slow.recv(1):
                            break
            assert time.monotonic() < deadline
    finally:
        listener.close()


@pytest.mark.usefixtures("served")
def test_a_process_can_end_while_the_port_is_listened_on():
    """As after an error: nothing waits for the next scrape."""
    assert {True} == {one.daemon for one in threading.enumerate() if one.name == "metrics"}


def test_a_port_in_use_is_one_sentence(served):
    """With the flag that names it."""
    metrics, health, _read, port = served
    with pytest.raises(MisuseError, match=f"--metrics-port: {HOST}:{port} cannot be listened on"):
        MetricsListener(HOST, port, metrics.registry, health)
