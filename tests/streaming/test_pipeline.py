"""The auditor and collector queries in real Spark, with and without a real Kafka broker."""

from __future__ import annotations

import json
import os
import stat
import threading
import time
import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from jsonschema import validate
from streaming_journals import history, make_topics, produce, read_topic, send_raw

from tallystick.campaign import scenario_of
from tallystick.coordinates.audit.collection_checks import collections_of
from tallystick.coordinates.audit.instance import InstanceAudit
from tallystick.coordinates.audit.replay import audit_history
from tallystick.coordinates.events.block_codec import encode_block
from tallystick.coordinates.events.incident_control import (
    ControlAction,
    IncidentControl,
    encode_control,
)
from tallystick.coordinates.events.journal import cut_into_blocks
from tallystick.coordinates.events.json_lines import blocks_from_lines
from tallystick.coordinates.results import Finding, ObservationCode, Verdict
from tallystick.coordinates.rules.explanation import finding_document, observation_text
from tallystick.producers.kafka_clients.choice import kafka_client
from tallystick.producers.simulator.assemble import simulate
from tallystick.producers.simulator.kernel.scenario import Scenario
from tallystick.streaming import auditor, message_limit, table_reader
from tallystick.streaming.auditor import BlockAuditor, audit_blocks, buckets_of
from tallystick.streaming.checkpoint import CheckpointLocation, Layout
from tallystick.streaming.collector import start_collector
from tallystick.streaming.fleet import FleetStep
from tallystick.streaming.progress import Metrics
from tallystick.streaming.restarts import drain
from tallystick.streaming.rounds import Deadline
from tallystick.streaming.runner import AuditJob, JobSettings
from tallystick.streaming.schema import BLOCK_ROWS, SEGMENTS, VERSION_NAME
from tallystick.streaming.table_sink import TableSink
from tests.support.wrong_clocks import WRONG_CLOCKS, whole_journals

REAL_JOURNALS = Path(__file__).parents[1] / "real_journals"
SHUFFLE_PARTITIONS = 2
INSTANCES = ("a", "b", "c")
BLOCKS = [
    history("a", 5, broken=frozenset({1, 4})),
    history("b", 5, broken=frozenset()),
    history("c", 5, broken=frozenset({2})),
]
DEADLINE_S = 480


@dataclass
class Answer:
    verdict: Verdict = Verdict.CONSISTENT


ORIGIN = {"fleet", "cluster", "detected_at", "link"}
DOCS = Path(__file__).parents[2] / "docs"


def as_the_schema_says(name, servers, topics) -> list[dict]:
    """What is in a topic, held against its schema."""
    schema = json.loads((DOCS / f"{name}.schema.json").read_text("utf-8"))
    messages = read_topic(servers, topics[f"{name}_topic"])
    documents = [json.loads(message.value()) for message in messages]
    for message, document in zip(messages, documents, strict=True):
        assert [("schema_version", b"1")] == message.headers()
        validate(document, schema)
    return documents


def core_findings() -> list[Finding]:
    """The findings of the pure core on whole journals."""
    outputs = [InstanceAudit(block.instance_id).absorb(block) for block in BLOCKS]
    found = [finding for output in outputs for finding in output.findings]
    return sorted(found, key=lambda finding: finding.order)


EXPECTED = core_findings()


def wait_until(condition, what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not (value := condition()):
        assert time.monotonic() < deadline, f"{what}: {value!r} after {DEADLINE_S} s"
        time.sleep(0.05)


def location_of(settings: JobSettings) -> CheckpointLocation:
    layout = Layout(SHUFFLE_PARTITIONS, settings.journal_topic)
    return CheckpointLocation(settings.checkpoint, layout)


def run(
    spark, settings: JobSettings, stop=None, validate=None, *, watchers=(), topic_id=None
) -> dict[str, float]:
    with location_of(settings) as checkpoint:
        metrics = Metrics(watchers=watchers)
        job = AuditJob(spark, settings, checkpoint, validate, metrics, topic_id=topic_id)
        return job.run(stop or threading.Event())


def test_a_checkpoint_is_written_without_other_processes(spark, tmp_path):
    """By a file system that starts no chmod and no readlink: files are private, with a checksum."""
    hadoop = spark._jvm.org.apache.hadoop.fs
    files = hadoop.FileSystem.get(spark._jsc.hadoopConfiguration())
    assert files.getClass().getSimpleName() == "BareLocalFileSystem"
    files.create(hadoop.Path(str(tmp_path / "one"))).close()
    assert [0o600, 0o600] == [
        stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("one", ".one.crc")
    ]
    manager = spark.conf.get("spark.sql.streaming.checkpointFileManagerClass")
    assert manager.rpartition(".")[2] == "FileSystemBasedCheckpointFileManager"


@pytest.mark.parametrize("partitions", [1, 2, 7, 40])
def test_each_partition_has_a_bucket(spark, partitions):
    """As Spark deals them out; so no executor has two while another has none."""
    buckets = spark.createDataFrame([(b,) for b in buckets_of(spark, partitions)], "bucket int")
    dealt = buckets.repartition(partitions, "bucket").selectExpr("bucket", "spark_partition_id()")
    at = dict(map(tuple, dealt.collect()))
    assert [*range(partitions)] == [at[bucket] for bucket in buckets_of(spark, partitions)]


def test_the_history_has_findings():
    """What all harnesses are compared with is not empty."""
    assert ["a", "c", "a"] == [
        f.instance_id for f in EXPECTED if f.rule == "executed_within_logged"
    ]


@pytest.mark.parametrize("cut", [(37, 40), (400, 40), (9, None)])
def test_spark_with_kafka_finds_what_the_core_finds(spark, broker, tmp_path, monkeypatch, cut):
    """Same findings in the tables and in the findings topic; each collection is validated once.

    Without a limit that is given, the query is started again with a larger one on the way.
    """
    size, limit = cut
    monkeypatch.setattr(message_limit, "MESSAGES_FIRST", 16)
    servers = broker.bootstrap_servers
    topics = make_topics(servers)
    produce(servers, topics["journal_topic"], BLOCKS, size)
    rounds = []

    def validate(cuts):
        rounds.append((cuts[0].collection_id, len(cuts)))
        return Answer()

    settings = JobSettings(
        servers, tmp_path / "cp", tmp_path / "out", instances=INSTANCES, available_now=True,
        max_messages=limit, **topics,
    )  # fmt: skip
    metrics = run(spark, settings, validate=validate)
    with location_of(settings) as checkpoint:
        last = checkpoint.message_limit().limit
    assert last == limit or (limit is None and last > message_limit.MESSAGES_FIRST)
    assert EXPECTED == table_reader.read_findings(tmp_path / "out")
    sent = as_the_schema_says("findings", servers, topics)
    assert set(finding_document(EXPECTED[0])) == set(sent[0]) - ORIGIN
    assert {f.finding_id: finding_document(f) for f in EXPECTED} == {
        one["finding_id"]: {key: value for key, value in one.items() if key not in ORIGIN}
        for one in sent
    }
    assert as_the_schema_says("incidents", servers, topics)
    assert [(f"c-{n:03d}", 3) for n in range(5)] == sorted(rounds)
    assert sum(map(len, BLOCKS)) == metrics["records"]
    assert (len(EXPECTED), 15, 5) == (
        metrics["findings"], metrics["cuts"], metrics["collections_closed"],
    )  # fmt: skip
    # What came since is audited by the next run; what was audited is not audited again.
    metrics = run(spark, settings)
    assert (0, 0) == (metrics["records"], metrics["findings"])


def test_a_wrong_clock_moves_no_other_instance(spark, broker, tmp_path):
    """One record of 2^63-1, and a clock that is set: all answers belong to their collections."""
    servers = broker.bootstrap_servers
    topics = make_topics(servers)
    right = whole_journals(simulate(scenario_of(7)).blocks(4096))
    wrong = dict(right)
    for name, clock in (
        ("source-a", "the_greatest_number_once"),
        ("replica-a1", "set_an_hour_ahead"),
    ):
        wrong[name] = WRONG_CLOCKS[clock](right[name], Random(clock))
    produce(servers, topics["journal_topic"], list(wrong.values()), 200)
    settings = JobSettings(
        servers, tmp_path / "cp", tmp_path / "out", instances=tuple(right), available_now=True,
        **topics,
    )  # fmt: skip
    run(spark, settings, validate=lambda _: Answer())
    expected = audit_history(right.values(), goes_on=True)
    found = table_reader.read_findings(tmp_path / "out")
    assert {(f.rule, f.instance_id, f.case) for f in found} == {
        (f.rule, f.instance_id, f.case) for f in expected.findings
    }
    validations = table_reader.read_validations(tmp_path / "out")
    assert [0] * len(collections_of(expected.cuts)) == [one["missing"] for one in validations]
    seen = table_reader.observations_of(table_reader.read_observations(tmp_path / "out"))
    named = [o for o in seen if o.code is ObservationCode.TIME_IMPLAUSIBLE]
    assert {(o.instance_id, o.reason) for o in named} == {
        ("source-a", "time_implausible"),
        ("source-a", "time_after_message"),
        ("replica-a1", "time_implausible"),
    }


BLOCK_SCHEMA = pa.schema(
    [("cluster", pa.string()), ("instance_id", pa.string()), ("value", pa.binary()),
     ("headers", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()),
     ("sent_us", pa.int64()),
     ("bytes", pa.int64()), ("key", pa.binary())]
)  # fmt: skip


def write_blocks(directory: Path, size: int, numbers: range) -> None:
    """Some of the histories' blocks, one of each instance a file."""
    directory.mkdir(exist_ok=True)
    pieces = {block.instance_id: cut_into_blocks(block, size) for block in BLOCKS}
    for i in numbers:
        rows = [
            {
                "cluster": "",
                "instance_id": name,
                "value": encode_block(piece),
                "headers": None,
                "partition": 0,
                "offset": i,
                "sent_us": None,
                "bytes": -1,
                "key": name.encode(),
            }
            for name, cut in pieces.items()
            for piece in cut[i : i + 1]
        ]
        path = directory / f"{i:05d}.parquet"
        pq.write_table(pa.Table.from_pylist(rows, schema=BLOCK_SCHEMA), path)
        os.utime(path, (1_700_000_000 + i, 1_700_000_000 + i))


def run_on_files(
    spark, directory: Path, tmp_path: Path, audit=audit_blocks, files: int = 3
) -> FleetStep:
    """Operator and step on rows from a directory, until there are no more."""
    stream = spark.readStream.schema(BLOCK_ROWS).option("maxFilesPerTrigger", files)
    stream = stream.parquet(str(directory))
    with CheckpointLocation(tmp_path / "cp", Layout(SHUFFLE_PARTITIONS, "")) as checkpoint:
        step = FleetStep(
            checkpoint=checkpoint,
            tables=TableSink(tmp_path / "out", checkpoint.run_id),
            kafka=None,
            validate=None,
            metrics=Metrics(),
        )
        query = (
            audit(stream)
            .writeStream.foreachBatch(step)
            .option("checkpointLocation", checkpoint.auditor)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    return step


@pytest.mark.parametrize("size", [61])
def test_spark_without_kafka_finds_what_the_core_finds(spark, tmp_path, size):
    """The same operator and step on rows from a directory, one file a micro-batch."""
    write_blocks(tmp_path / "blocks", size, range(-(-max(map(len, BLOCKS)) // size)))
    run_on_files(spark, tmp_path / "blocks", tmp_path)
    assert EXPECTED == table_reader.read_findings(tmp_path / "out")


def test_a_micro_batch_of_many_bytes_is_audited_in_steps(spark, tmp_path):
    """What a worker holds at once has a limit of bytes, and the same is found."""

    def audit_in_steps(blocks):
        return audit_blocks(blocks, BlockAuditor(step_bytes_max=1))

    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(name)
    count = -(-max(map(len, BLOCKS)) // 61)
    write_blocks(tmp_path / "blocks", 61, range(count))
    try:
        spark.conf.set(name, 4)
        run_on_files(spark, tmp_path / "blocks", tmp_path, audit_in_steps, files=count)
    finally:
        spark.conf.set(name, before)
    assert EXPECTED == table_reader.read_findings(tmp_path / "out")
    assert len(table_reader.read_cuts(tmp_path / "out")) == 5 * len(BLOCKS)
    state = spark.read.format("statestore").option("stateVarName", VERSION_NAME)
    versions = state.load(str(tmp_path / "cp" / "auditor")).select("list_element.*").collect()
    entries = [version[0] for version in versions]
    assert sum(entries) > 2 * len(entries), "each step is an entry of the log"


def test_states_that_cannot_be_read_begin_anew(spark, tmp_path):
    """Of instances, their clusters and the driver: reported, no finding, and the job goes on."""

    class Damaging(BlockAuditor):
        """Leaves states that nobody can read, and nobody who holds them."""

        def handleInputRows(self, key, rows, timerValues):  # noqa: N802, N803
            yield from super().handleInputRows(key, rows, timerValues)
            entries = list(self._store.read())
            for segment in range(SEGMENTS):
                self._store.clear(segment)
            for segment, entry in entries:
                self._store.append(segment, [entry._replace(data=b"?")])
            compared = [entry._replace(data=b"?") for entry in self._fleet.read()]
            self._fleet.clear()
            self._fleet.append(compared)
            auditor._held._buckets.clear()

    def audit_and_damage(blocks):
        return audit_blocks(blocks, processor=Damaging())

    count = -(-max(map(len, BLOCKS)) // 61)
    write_blocks(tmp_path / "blocks", 61, range(1))
    run_on_files(spark, tmp_path / "blocks", tmp_path, audit_and_damage)
    before = table_reader.read_findings(tmp_path / "out")
    [path] = (tmp_path / "cp" / "fleet").glob("*.state")
    path.write_bytes(path.read_bytes()[:-1])
    write_blocks(tmp_path / "blocks", 61, range(1, count))
    step = run_on_files(spark, tmp_path / "blocks", tmp_path)
    reported = [
        o
        for o in table_reader.observations_of(table_reader.read_observations(tmp_path / "out"))
        if o.code is ObservationCode.STATE_UNREADABLE
    ]
    assert ["", "", *INSTANCES] == sorted(o.instance_id for o in reported)
    assert {"comparisons_unreadable", "fleet_state_unreadable"} <= {o.reason for o in reported}
    assert all(o.is_undecided for o in reported)
    assert len(reported) == step._metrics.snapshot()["states_unreadable"]
    assert before == table_reader.read_findings(tmp_path / "out")
    cuts = table_reader.read_cuts(tmp_path / "out")
    assert Verdict.UNDECIDED in {cut.verdict for cut in cuts}


@pytest.mark.parametrize("home", ["east", "west", ""])
def test_instances_are_compared_with_those_of_their_cluster(spark, broker, tmp_path, home):
    """As in a replay: found at home; a source that is elsewhere leaves it undecided, and named."""
    fleet = simulate(Scenario(seed=1, topology="pair", fault="errant_write")).journals
    homes = {"source-a": "east", "replica-a1": home}
    journals = [replace(fleet[name], cluster=cluster) for name, cluster in homes.items()]
    expected = audit_history(journals)
    servers = broker.bootstrap_servers
    topics = make_topics(servers)
    produce(servers, topics["journal_topic"], journals, 100)
    settings = JobSettings(
        servers, tmp_path / "cp", tmp_path / "out", available_now=True, history_ends=True,
        max_messages=4, **topics,
    )  # fmt: skip
    metrics = run(spark, settings)
    assert metrics["state_instances"] == 2
    found = table_reader.read_findings(tmp_path / "out")
    assert {one.finding_id for one in found} == {one.finding_id for one in expected.findings}
    assert ("no_errant_gtids" in {one.rule for one in found}) == (home == "east")
    seen = table_reader.observations_of(table_reader.read_observations(tmp_path / "out"))
    named = [one for one in seen if one.reason == "source_in_another_cluster"]
    assert bool(named) == (home != "east")
    for one in named:
        assert (one.instance_id, one.is_undecided) == ("replica-a1", True)
        assert (one.data["other"], one.data["home"]) == ("source-a", "cluster east")
    assert "source_in_another_cluster" not in {
        one.reason for one in expected.observations if home == "east"
    }


def test_an_instance_that_changes_its_cluster_is_undecided_and_stops_nobody(
    spark, broker, tmp_path
):
    """Its journal goes on in the other cluster as one that begins; at home nothing waits for it."""
    fleet = simulate(Scenario(seed=1, topology="pair")).journals
    first, second = (replace(one, cluster="east") for one in fleet.values())
    middle = len(second) // 2
    moved = replace(second.take(middle, len(second)), cluster="west")
    blocks = [first, second.take(0, middle)]
    expected = audit_history([*blocks, moved])
    servers = broker.bootstrap_servers
    topics = make_topics(servers)
    settings = JobSettings(
        servers, tmp_path / "cp", tmp_path / "out", available_now=True, history_ends=True, **topics
    )
    for part in (
        [blocks[0].take(0, middle), blocks[1]],
        [blocks[0].take(middle, len(first)), moved],
    ):
        produce(servers, topics["journal_topic"], part, 100)
        run(spark, settings)
    assert (expected.findings, expected.verdict) == ([], Verdict.UNDECIDED)
    assert table_reader.read_findings(tmp_path / "out") == []
    seen = table_reader.observations_of(table_reader.read_observations(tmp_path / "out"))
    for observations in (seen, expected.observations):
        [changed] = [o for o in observations if o.reason == "journal_cluster_changed"]
        assert (changed.instance_id, changed.is_undecided) == (second.instance_id, True)


@pytest.mark.usefixtures("mistakes_are_contained")
def test_the_end_of_a_history_decides_what_waits(spark, broker, tmp_path, monkeypatch):
    """Rows that wait for more of their journal, and instances that never answered, are reported.

    Where one instance's end raises, it is undecided, and the others are not.
    """
    servers = broker.bootstrap_servers
    topics = make_topics(servers)
    block = history("a", 2, broken=frozenset(), ahead=500)
    raising = history("b", 2, broken=frozenset(), ahead=500)
    produce(servers, topics["journal_topic"], [block, raising], 100)
    core = InstanceAudit("a")
    before, end = core.absorb(block), core.finish()
    assert (["c-000"], ["c-001"]) == tuple(
        [cut.collection_id for cut in output.cuts] for output in (before, end)
    )
    settings = JobSettings(
        servers, tmp_path / "cp", tmp_path / "out", instances=("a", "b", "z"), available_now=True,
        history_ends=True, **topics,
    )  # fmt: skip
    finish = InstanceAudit.finish

    def finish_or_raise(audit):
        if audit.instance_id == "b":
            raise KeyError("nobody thought of this")
        return finish(audit)

    monkeypatch.setattr(InstanceAudit, "finish", finish_or_raise)
    run(spark, settings)
    noted = table_reader.observations_of(table_reader.read_observations(tmp_path / "out"))
    [refused] = [one for one in noted if one.reason == "end_refused"]
    assert ("b", True) == (refused.instance_id, refused.is_undecided)
    cuts = table_reader.read_cuts(tmp_path / "out")
    assert [*before.cuts, *end.cuts] == [cut for cut in cuts if cut.instance_id == "a"]
    assert ["missing", "missing"] == [cut.answer for cut in cuts if cut.instance_id == "z"]
    reported = [
        (row["collection_id"], row["missing"])
        for row in table_reader.read_validations(tmp_path / "out")
    ]
    assert [("c-000", 1), ("c-001", 1)] == reported


def test_what_cannot_be_read_goes_to_the_dead_letter_topic(spark, broker, tmp_path):
    """With its reason and its position, counted, while the rest of the journal is audited."""
    servers = broker.bootstrap_servers
    topics = make_topics(servers, partitions=1)
    journal = topics["journal_topic"]
    send_raw(servers, journal, b"a", b"rubbish")
    send_raw(servers, journal, None, encode_block(BLOCKS[0]))
    send_raw(servers, journal, b"b", None)
    send_raw(servers, journal, b"\xff\xfe", b"")
    produce(servers, journal, [BLOCKS[2]], 200)
    settings = JobSettings(servers, tmp_path / "cp", tmp_path / "out", available_now=True, **topics)
    metrics = run(spark, settings)
    letters = read_topic(servers, topics["dead_letter_topic"])
    found = {
        (
            letter.key(),
            letter.value() and letter.value()[:7],
            dict(letter.headers())["tallystick.offset"],
        )
        for letter in letters
    }
    assert {
        (b"a", b"rubbish", b"0"),
        (None, encode_block(BLOCKS[0])[:7], b"1"),
        (b"b", None, b"2"),
        (b"\xff\xfe", b"", b"3"),
    } == found
    assert all(dict(letter.headers())["tallystick.reason"] for letter in letters)
    assert (4, len(BLOCKS[2])) == (metrics["dead_letters"], metrics["records"])
    expected = [finding for finding in EXPECTED if finding.instance_id == "c"]
    assert expected == [
        f for f in table_reader.read_findings(tmp_path / "out") if f.instance_id == "c"
    ]


def test_an_acknowledgement_comes_by_its_topic(spark, broker, tmp_path):
    """Sent while the job is down, it counts when the job goes on; by the command's own message."""
    servers = broker.bootstrap_servers
    topics = make_topics(servers)
    produce(servers, topics["journal_topic"], BLOCKS, 200)
    settings = JobSettings(servers, tmp_path / "cp", tmp_path / "out", available_now=True, **topics)
    run(spark, settings)
    before = table_reader.read_incidents(tmp_path / "out")
    [one, *_] = (one for one in before if one.is_open)
    known = IncidentControl(ControlAction.ACK, one.incident_id, "dba", "known", 10**18)
    send_raw(servers, topics["control_topic"], None, encode_control(known))
    run(spark, settings)
    after = {other.incident_id: other for other in table_reader.read_incidents(tmp_path / "out")}
    assert len(before) == len(after)
    assert after[one.incident_id].acknowledgement.by == "dba"
    changes = as_the_schema_says("incidents", servers, topics)
    assert "acknowledged" == changes[-1]["kind"]
    assert changes[-1]["incident"]["finding"]["sentence"]


def test_the_collector_asks_every_interval_and_goes_on_after_a_restart(spark, broker, tmp_path):
    """Ids never stand for two collections; requests come although no journal moves."""
    servers = broker.bootstrap_servers
    topic = make_topics(servers)["collect_topic"]

    def requests() -> list[tuple[bytes, bytes]]:
        return [(message.key(), message.value()) for message in read_topic(servers, topic)]

    def ask_until(count: int):
        query = start_collector(
            spark,
            servers,
            options={},
            checkpoint_location=str(tmp_path / "collector"),
            interval_s=0.5,
            topic=topic,
        )
        wait_until(lambda: len(requests()) >= count, "requests")
        return query

    drain(ask_until(5), 30)
    assert len(set(requests())) == len(requests()), "a clean stop repeats no request"
    ask_until(8).stop()
    drain(ask_until(11), 30)
    found = list(dict.fromkeys(requests()))
    bodies = [json.loads(value) for _, value in found]
    ids = [body["collection_id"] for body in bodies]
    assert ids == [key.decode() for key, _ in found]
    assert [f"{n:06d}" for n in range(len(ids))] == [name.rpartition("-")[2] for name in ids]
    times = [body["requested_at"] for body in bodies]
    assert sorted(set(times)) == times
    assert abs(times[-1] - time.time() * 1e6) < 90_000_000
    # However late one of them is: at most one is made between two multiples of the interval.
    assert times[4] - times[0] > 1_000_000


def test_a_run_ends_when_it_is_told_to(spark, broker, tmp_path):
    """Collector and auditor run side by side; the stop waits for the running micro-batch."""
    servers = broker.bootstrap_servers
    topics = make_topics(servers)
    produce(servers, topics["journal_topic"], BLOCKS, 200)
    settings = JobSettings(
        servers, tmp_path / "cp", tmp_path / "out", collect_interval_s=0.5, **topics
    )
    stop = threading.Event()

    def stop_when_done() -> None:
        wait_until(lambda: table_reader.read_findings(tmp_path / "out") == EXPECTED, "findings")
        wait_until(lambda: len(read_topic(servers, topics["collect_topic"])) >= 2, "requests")
        stop.set()

    watcher = threading.Thread(target=stop_when_done)
    watcher.start()
    metrics = run(spark, settings, stop)
    watcher.join()
    assert [] == spark.streams.active
    assert sum(map(len, BLOCKS)) == metrics["records"]
    assert run(spark, JobSettings(
        servers, tmp_path / "cp", tmp_path / "out", available_now=True, **topics
    ))["records"] == 0  # fmt: skip


def test_a_missing_topic_is_waited_for(spark, broker, tmp_path):
    """It is reported once, and read when it is there."""
    servers = broker.bootstrap_servers
    topics = make_topics(servers)
    journal = topics["journal_topic"] = f"late{uuid.uuid4().hex[:8]}"
    settings = JobSettings(servers, tmp_path / "cp", tmp_path / "out", **topics)
    stop, reported = threading.Event(), []
    watcher = SimpleNamespace(
        started=lambda: None, ended=lambda: None, stepped=lambda _: None, waits=reported.append
    )
    thread = threading.Thread(target=lambda: run(spark, settings, stop, watchers=[watcher]))
    thread.start()
    try:
        wait_until(lambda: reported, "a report")
        admin = AdminClient({"bootstrap.servers": servers})
        admin.create_topics([NewTopic(journal, 2, 1)])[journal].result(30)
        produce(servers, journal, BLOCKS, 200)
        wait_until(lambda: table_reader.read_findings(tmp_path / "out") == EXPECTED, "findings")
        wait_until(lambda: len(reported) > 1, "the end of the outage")
    finally:
        stop.set()
        thread.join(DEADLINE_S)
    said = f"A topic is missing on the broker at {servers!r}; make the topics again."
    assert [said, None] == reported


def test_a_journal_that_was_made_anew_is_a_hole(spark, broker, tmp_path):
    """Blocks that are gone are named, not skipped in silence, and the job goes on.

    One that has as many blocks by then is known by its id.
    """
    servers = broker.bootstrap_servers
    topics = make_topics(servers, partitions=1)
    journal = topics["journal_topic"]
    asked = kafka_client("confluent-kafka").open_admin(servers, 10)

    def topic_id() -> str | None:
        return asked.topic_id(journal)

    def make_anew() -> str | None:
        admin.delete_topics([journal])[journal].result(30)
        wait_until(lambda: journal not in admin.list_topics(timeout=10).topics, "topic gone")
        wait_until(lambda: _is_made(admin, NewTopic(journal, 1, 1)), "topic made")
        wait_until(topic_id, "topic known")
        return topic_id()

    produce(servers, journal, BLOCKS, 50)
    settings = JobSettings(servers, tmp_path / "cp", tmp_path / "out", available_now=True, **topics)
    run(spark, settings, topic_id=topic_id)
    expected = len(read_topic(servers, journal))
    admin = AdminClient({"bootstrap.servers": servers})
    ids = [topic_id(), make_anew()]
    produce(servers, journal, BLOCKS[:1], 400)
    found = len(read_topic(servers, journal))
    run(spark, settings, topic_id=topic_id)
    gone = f"topic {journal!r}, partition 0: expected offset {expected}, found {found}: messages"
    anew = f"topic {journal!r} was made anew: its id was {{}}, and is {{}};"
    named = sorted([gone, anew.format(*ids)])
    assert _begin_with(holes_of(tmp_path / "out"), named)
    produce(servers, journal, BLOCKS[2:], 400)
    assert run(spark, settings, topic_id=topic_id)["blocks"] > 0
    assert _begin_with(holes_of(tmp_path / "out"), named)
    ids.append(make_anew())
    produce(servers, journal, BLOCKS, 50)
    assert run(spark, settings, topic_id=topic_id)["blocks"] > 0
    assert _begin_with(holes_of(tmp_path / "out"), sorted([*named, anew.format(*ids[1:])]))


def test_what_retention_has_passed_is_a_hole(spark, broker, tmp_path):
    """Under a job that was stopped: the next one names the offsets, and reads what is there."""
    servers = broker.bootstrap_servers
    topics = make_topics(servers, partitions=1)
    journal = topics["journal_topic"]
    produce(servers, journal, BLOCKS[:1], 50)
    settings = JobSettings(servers, tmp_path / "cp", tmp_path / "out", available_now=True, **topics)
    run(spark, settings)
    expected = len(read_topic(servers, journal))
    produce(servers, journal, BLOCKS[1:], 50)
    admin = AdminClient({"bootstrap.servers": servers})
    part = TopicPartition(journal, 0, expected + 2)
    admin.delete_records([part])[part].result(30)
    assert run(spark, settings)["blocks"] == len(read_topic(servers, journal))
    gone = f"topic {journal!r}, partition 0: expected offset {expected}, found {expected + 2}: "
    assert [True] == [text.startswith(gone) for text in holes_of(tmp_path / "out")]


def holes_of(output) -> list[str]:
    seen = table_reader.observations_of(table_reader.read_observations(output))
    assert all(one.is_undecided for one in seen if not one.instance_id)
    return [observation_text(one) for one in seen if not one.instance_id]


def _begin_with(found: list[str], beginnings: list[str]) -> bool:
    pairs = zip(sorted(found), beginnings, strict=True)
    return all(text.startswith(beginning) for text, beginning in pairs)


def _is_made(admin, topic) -> bool:
    try:
        admin.create_topics([topic])[topic.topic].result(30)
    except Exception:  # noqa: BLE001  the broker still takes the old one away
        return False
    return True


def test_what_waits_when_a_run_is_stopped_is_undecided(spark, broker, tmp_path):
    """The source of an errant group has not answered since, by a clock that is not known."""
    lines = (REAL_JOURNALS / "errant_write.jsonl").read_text("utf-8").splitlines()
    blocks, output = list(blocks_from_lines(lines)), tmp_path / "out"
    expected = audit_history(blocks, goes_on=True)
    topics = make_topics(broker.bootstrap_servers)
    produce(broker.bootstrap_servers, topics["journal_topic"], blocks, 400)
    settings = JobSettings(broker.bootstrap_servers, tmp_path / "cp", output, **topics)
    for _ in range(2):  # the second run reads nothing, and ends as the first
        stop = threading.Event()

        def stop_when_read(stop: threading.Event = stop) -> None:
            wait_until(
                lambda: (
                    output.exists() and len(table_reader.read_cuts(output)) == len(expected.cuts)
                ),
                "cuts",
            )
            stop.set()

        watcher = threading.Thread(target=stop_when_read)
        watcher.start()
        run(spark, settings, stop)
        watcher.join()
        seen = table_reader.observations_of(table_reader.read_observations(output))
        doubts = [
            {one.rules for one in observations if one.code is ObservationCode.COMPARISON_UNDECIDED}
            for observations in (seen, expected.observations)
        ]
        assert ("no_errant_gtids",) in doubts[0]
        assert doubts[0] == doubts[1]


def test_a_collection_that_nobody_answers_is_undecided(spark, broker, tmp_path):
    """The instance's collector is dead: its journal does not go on, and requests do."""
    topics = make_topics(broker.bootstrap_servers)
    produce(broker.bootstrap_servers, topics["journal_topic"], BLOCKS[1:2], 400)
    for topic in ("collect_topic", "control_topic"):
        send_raw(broker.bootstrap_servers, topics[topic], None, b"none of its messages")
    settings = JobSettings(
        broker.bootstrap_servers, tmp_path / "cp", tmp_path / "out", collect_interval_s=0.5,
        deadline=Deadline(after_us=2_000_000), **topics,
    )  # fmt: skip
    stop, output = threading.Event(), tmp_path / "out"

    def missing() -> list[str]:
        seen = (
            table_reader.observations_of(table_reader.read_observations(output))
            if output.exists()
            else []
        )
        return [o.instance_id for o in seen if o.code is ObservationCode.LOG_STATUS_MISSING]

    ended: list[dict[str, float]] = []
    thread = threading.Thread(target=lambda: ended.append(run(spark, settings, stop)))
    thread.start()
    try:
        wait_until(missing, "a collection that was not answered")
    finally:
        stop.set()
        thread.join(DEADLINE_S)
    assert {"b"} == set(missing())
    assert ended[0]["dead_letters"] == 2
    letters = read_topic(broker.bootstrap_servers, topics["dead_letter_topic"])
    assert {topics["collect_topic"].encode(), topics["control_topic"].encode()} == {
        dict(letter.headers())["tallystick.topic"] for letter in letters
    }
