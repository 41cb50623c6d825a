"""Other engines get what tallystick's audit needs, and a crash of theirs would lose nothing."""

from __future__ import annotations

import json
import shutil
from collections import defaultdict

import pytest

from benchmarks.others.checks import COLUMN_BLOCK
from benchmarks.others.continuity import add, intervals_of
from benchmarks.others.engines import ENGINES, Run, run_engine
from benchmarks.others.environments import DIRECTORY, installed
from benchmarks.others.history import BROKEN, lines_of, produce, what_was_found
from benchmarks.others.kinds import KINDS
from benchmarks.others.machine import Sample, cpu_at
from tallystick.producers.load.history import LoadPlan

PLAN = LoadPlan(sources=1, replicas=1, status_every=2000, block_size=500)
EVENTS = 12_000


def results_of(kind, lines, begun_anew=()):
    """Each instance's result; after so many messages its checks go on from what was kept."""
    of_instance = defaultdict(list)
    for name, line in lines:
        of_instance[name].append(line.encode())
    results = []
    for name, values in of_instance.items():
        checks = KINDS[kind](name)
        waiting = []
        for number, value in enumerate(values, start=1):
            waiting.append(value)
            result = checks.take(value)
            if not checks.waiting:
                waiting.clear()
            if number in begun_anew:
                checks = KINDS[kind](name, checks.saved(), waiting)
        assert result is not None
        results.append(json.loads(result))
    return what_was_found(results)


@pytest.fixture(scope="module")
def lines():
    return list(lines_of(EVENTS, PLAN))


BROKEN_RULES = {"audit": "executed_within_logged", "continuity": "executed_is_logged"}


@pytest.mark.parametrize("kind", KINDS)
def test_one_row_is_found_broken_and_others_hold(lines, kind):
    """A comparison of results without a finding would show little."""
    results = results_of(kind, lines)
    assert sum(one["records"] for one in results) == len(lines) - len(results) >= EVENTS
    for one in results:
        broken = [name.split()[0] for name in one["findings"]]
        assert broken == [BROKEN_RULES[kind]] * (one["instance"] == BROKEN)
        assert one["checks"][f"{BROKEN_RULES[kind]} holds"] >= 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("at", [1, COLUMN_BLOCK - 1, COLUMN_BLOCK, COLUMN_BLOCK + 1])
def test_checks_go_on_from_what_was_saved(lines, kind, at):
    """What an engine keeps is all that it needs after a crash."""
    assert results_of(kind, lines, {at, at + 500}) == results_of(kind, lines)


def test_an_event_that_does_not_continue_its_log_is_found(lines):
    """The small checks see a lost event of a binary log and of a relay log."""
    [binlog, relay] = (
        next(n for n, (_, line) in enumerate(lines) if is_group_of(line, kind))
        for kind in ("binlog", "relay")
    )
    kept = [one for n, one in enumerate(lines) if n not in (binlog, relay)]
    found = [name.split()[0] for one in results_of("continuity", kept) for name in one["findings"]]
    assert found.count("position_continues") == 2


def is_group_of(line, kind):
    record = json.loads(line)
    return record["kind"] == kind and "gtid" in record


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (["a:1", "a:2", "a:3-5"], [[1, 5]]),
        (["a:7", "a:1-3", "a:5"], [[1, 3], [5, 5], [7, 7]]),
        (["a:1-3", "a:5-9", "a:2-6"], [[1, 9]]),
        (["a:4-6:\n1-3"], [[1, 6]]),
        ([""], []),
    ],
)
def test_gtids_of_the_small_checks(parts, expected):
    """Intervals stay ascending and apart, in whichever order they come."""
    intervals = []
    for part in parts:
        for _, first, last in intervals_of(part):
            add(intervals, first, last)
    assert intervals == expected


def test_processor_time_between_samples_is_interpolated():
    """A measurement's ends are between two samples; before and after them nothing is known."""
    samples = [Sample(10.0, 1.0, 0.0), Sample(12.0, 2.0, 0.0), Sample(13.0, 4.0, 0.0)]
    times = (9.0, 10.0, 11.0, 12.5, 13.0, 14.0)
    assert [cpu_at(samples, at) for at in times] == [1.0, 1.0, 1.5, 3.0, 4.0, 4.0]


def why_not_installed(name):
    """Engines are installed by the benchmark, not by the tests; None: it is there."""
    if name == "bare" or (name != "kafka-streams" and installed(name)):
        return None
    if name == "kafka-streams" and shutil.which("javac") and (DIRECTORY / f"{name}-jars").exists():
        return None
    return f"not installed: python -m benchmarks.others --engine {name}"


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for name, engine in ENGINES.items() for kind in engine.kinds]
)
def test_every_engine_gives_the_same(broker, tmp_path, lines, name, kind):
    """Through a real broker."""
    reason = why_not_installed(name)
    if reason is not None:
        pytest.skip(reason)
    servers = broker.bootstrap_servers
    topic = f"history-{name}-{kind}"
    records, instances = produce(servers, topic, EVENTS, PLAN)
    run = Run(kind, servers, topic, f"{topic}-results", tmp_path / name, instances)
    found, values = run_engine(ENGINES[name], run)
    expected = sorted(results_of(kind, lines), key=lambda one: one["instance"])
    assert what_was_found(found) == expected
    assert records == sum(one["records"] for one in found)
    assert values["rate"] > 0
