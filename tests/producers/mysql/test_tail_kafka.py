"""What a killed tail finds in the topic, and the whole of it as a command."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import uuid

import pytest

from tallystick.coordinates.audit.replay import audit_history
from tallystick.coordinates.events.collect_request import CollectRequest
from tallystick.coordinates.events.journal import concatenate
from tallystick.coordinates.results import Verdict
from tallystick.producers.journal_reader import JournalReader, send_request
from tallystick.producers.journal_resume import published_since
from tallystick.producers.kafka_clients.choice import CLIENTS, kafka_client
from tallystick.producers.kafka_clients.errors import TopicError
from tallystick.producers.kafka_topics import ensure_topics, tallystick_topics
from tallystick.producers.mysql.tail_state import TailState
from tallystick.producers.mysql_lab.layout import SOURCE_A
from tallystick.producers.mysql_lab.load import LoadPlan
from tallystick.producers.publisher import KafkaSettings
from tests.producers.test_publisher import make_block
from tests.support.tails import wait_for


@pytest.fixture
def prefix(broker):
    name = f"t{uuid.uuid4().hex[:8]}"
    ensure_topics(broker.bootstrap_servers, tallystick_topics(3, name))
    return name


@pytest.mark.parametrize("client", CLIENTS)
def test_blocks_published_since_a_time_are_read_back(broker, prefix, client) -> None:
    """All of the instances that are asked for, in order, and none from before."""
    topic = f"{prefix}.journal"
    sink = kafka_client("confluent-kafka").open_sink(
        KafkaSettings(bootstrap_servers=broker.bootstrap_servers, topic=topic),
    )
    sink.send(make_block(3, "a"))
    sink.send(make_block(3, "b"))
    sink.flush()
    time.sleep(0.005)  # messages bear milliseconds
    between = time.time_ns() // 1_000_000
    later = make_block(3, "a", first_sequence=3)
    sink.send(later)
    sink.close()
    everything = published_since(broker.bootstrap_servers, ["a"], 0, topic, kafka_client(client))
    assert [block.first_sequence for block in everything["a"]] == [0, later.first_sequence]
    since = published_since(
        broker.bootstrap_servers, ["a", "c"], between, topic, kafka_client(client)
    )
    assert [block.first_sequence for block in since["a"]] == [later.first_sequence]
    assert since["c"] == []
    later_ms = between + 3_600_000
    assert (
        published_since(broker.bootstrap_servers, ["a"], later_ms, topic, kafka_client(client))["a"]
        == []
    )


@pytest.mark.parametrize("client", CLIENTS)
def test_a_topic_that_is_not_there_is_told(broker, client) -> None:
    """As every reader of the journal does."""
    with pytest.raises(TopicError, match="no-such"):
        published_since(broker.bootstrap_servers, ["a"], 0, "no-such.journal", kafka_client(client))


def test_a_tail_killed_under_load_goes_on_without_a_gap(
    broker, prefix, mysqld, tmp_path, monkeypatch
) -> None:
    """Kill -9 of the command, another start, SIGTERM: one journal, consistent, in one epoch.

    The clock was set back by an hour between the first one's last save and its end.
    """
    command = [
        *(sys.executable, "-m", "tallystick.cli", "tail"),
        *("--config", str(mysqld.config_file), "--directory", str(tmp_path / "state")),
        *("--bootstrap-servers", broker.bootstrap_servers, "--topic-prefix", prefix),
    ]
    journal: list = []
    reader = JournalReader(
        broker.bootstrap_servers, topic=f"{prefix}.journal", notice=print, instance_id=SOURCE_A
    )

    def read() -> int:
        journal.extend(reader.poll(0.2))
        return sum(len(block) for block in journal)

    running_load = mysqld.make_load(LoadPlan((SOURCE_A,), rate=40, seconds=900))
    running_load.start()
    try:
        first = subprocess.Popen(command, stderr=subprocess.PIPE)
        states = tmp_path / "state"
        wait_for(lambda: read() > 500 and list(states.rglob("*.json")), lambda: f"{read()} records")
        saved = {path: TailState.load(path) for path in states.rglob("*.json")}
        seen = read()
        wait_for(lambda: read() > seen + 200, lambda: f"{read()} records, {seen} before")
        first.kill()
        first.communicate()
        later_ns = time.time_ns() + 3_600_000_000_000
        with monkeypatch.context() as clock:
            clock.setattr(time, "time_ns", lambda: later_ns)
            for path, state in saved.items():
                state.save(path)
        before = read()
        second = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        wait_for(lambda: read() > before + 500, lambda: f"{read()} records, {before} before")
        request = CollectRequest("c1", time.time_ns() // 1_000)
        send_request(broker.bootstrap_servers, request, f"{prefix}.collect")
        wait_for(
            lambda: read() and any('"c1"' in t for b in journal for t in b.texts.values()),
            lambda: "no answer",
        )
    finally:
        running_load.stop()
        running_load.finish()
    second.send_signal(signal.SIGTERM)
    _, said = second.communicate()
    assert second.returncode == 0, said
    counts = [read() for _ in range(5)]
    while counts[-5] != counts[-1]:  # all is in the topic: it is read when nothing more comes
        counts.append(read())
    reader.close()
    assert len({block.epoch for block in journal}) == 1
    assert len(concatenate(journal)) > 1000
    result = audit_history(journal)
    assert result.findings == []
    assert result.verdict is Verdict.CONSISTENT


def test_a_second_tail_of_a_server_ends_the_first_and_accuses_nobody(
    broker, prefix, mysqld, tmp_path
) -> None:
    """From another directory, while the first one runs: it begins anew, in a higher epoch."""
    journal: list = []
    reader = JournalReader(broker.bootstrap_servers, topic=f"{prefix}.journal", notice=print)

    def tail(directory: str) -> subprocess.Popen:
        command = [
            *(sys.executable, "-m", "tallystick.cli", "tail"),
            *("--config", str(mysqld.config_file), "--directory", str(tmp_path / directory)),
            *("--bootstrap-servers", broker.bootstrap_servers, "--topic-prefix", prefix),
        ]
        return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    def answered(name: str, epochs: set[int]) -> bool:
        """Whether all have answered a collection in an epoch that is none of these."""
        journal.extend(reader.poll(0.2))
        found = {
            block.instance_id
            for block in journal
            if block.epoch not in epochs and any(f'"{name}"' in t for t in block.texts.values())
        }
        return len(found) == len(mysqld.servers)

    def ask(name: str) -> None:
        request = CollectRequest(name, time.time_ns() // 1_000)
        send_request(broker.bootstrap_servers, request, f"{prefix}.collect")

    running_load = mysqld.make_load(LoadPlan((SOURCE_A,), rate=20, seconds=900))
    running_load.start()
    try:
        first = tail("one")
        ask("c1")
        wait_for(lambda: answered("c1", set()), lambda: "the first has not answered")
        epochs = {block.epoch for block in journal}
        second = tail("two")
        _, said = first.communicate(timeout=60)
        assert first.returncode == 76, said
        assert "another producer writes its journal now" in said
        for name in ("c2", "c3"):
            ask(name)
            wait_for(lambda name=name: answered(name, epochs), lambda: "no answer of the second")
    finally:
        running_load.stop()
        running_load.finish()
    second.send_signal(signal.SIGTERM)
    _, said = second.communicate(timeout=60)
    assert second.returncode == 0, said
    while more := reader.poll(2.0):
        journal.extend(more)
    reader.close()
    result = audit_history(journal)
    assert [(f.rule, f.instance_id, f.at) for f in result.findings] == []
    assert result.verdict is Verdict.UNDECIDED
    later = [cut for cut in result.cuts if cut.collection_id in ("c2", "c3")]
    assert {cut.instance_id for cut in later} == set(mysqld.servers)
