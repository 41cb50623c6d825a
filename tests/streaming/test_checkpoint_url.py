"""Spark's checkpoints at a URL: what is beside them, whose they are, and the job that uses them.

The URL is one of Hadoop's local file system, which is reached by the session's JVM as any other;
``tests/end_to_end/test_hdfs.py`` has a real HDFS.
"""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest
from streaming_journals import history, make_topics, produce
from test_crash import INSTANCES, Job

from tallystick.coordinates.audit.instance import InstanceAudit
from tallystick.coordinates.values.checksum import seal_document, unseal_document
from tallystick.streaming import table_reader
from tallystick.streaming.checkpoint import (
    CheckpointLocation,
    Layout,
    mark_rebuilt,
    set_aside,
    spark_checkpoint_of,
)
from tallystick.streaming.errors import CheckpointError
from tallystick.streaming.fence import FENCE, compare_fence, make_fence
from tallystick.streaming.progress import Metrics
from tallystick.streaming.runner import AuditJob, JobSettings
from tallystick.streaming.spark_files import HadoopFiles

PARTS = 2


@pytest.fixture
def root(tmp_path) -> Path:
    """Where the URL is."""
    return tmp_path / "elsewhere"


@pytest.fixture
def layout(root) -> Layout:
    return Layout(PARTS, "t", root.as_uri())


def plan(root: Path, location: CheckpointLocation, number: int) -> None:
    """As Spark does before it runs a micro-batch."""
    offsets = root / location.run_id / "auditor" / "offsets" / str(number)
    offsets.parent.mkdir(parents=True, exist_ok=True)
    offsets.write_text('v1\n{"batchTimestampMs":1700000000123}\n{"t":{"0":17}}')


def run(spark, settings: JobSettings, **more) -> dict[str, float]:
    layout = Layout(PARTS, settings.journal_topic, settings.spark_checkpoint)
    with CheckpointLocation(settings.checkpoint, layout) as checkpoint:
        return AuditJob(spark, settings, checkpoint, None, Metrics(), **more).run(threading.Event())


def test_a_job_goes_on_from_a_url(spark, broker, tmp_path, root):
    """Killed and started again it finds what the core finds; another directory is refused."""
    servers = broker.bootstrap_servers
    topics = make_topics(servers)
    blocks = [history(name, 5, broken=frozenset({1, 3})) for name in INSTANCES]
    outputs = [InstanceAudit(block.instance_id).absorb(block) for block in blocks]
    expected = {finding.finding_id for output in outputs for finding in output.findings}
    produce(servers, topics["journal_topic"], blocks, 40)
    given = {
        "bootstrap_servers": servers,
        "instances": INSTANCES,
        "available_now": True,
        "max_messages": 4,
        "spark_checkpoint": root.as_uri(),
        **topics,
    }
    home = tmp_path / "one"
    home.mkdir()
    with Job(home, **given) as job:
        job.wait_for(2)  # the first one is committed then
        job.kill_all()
    killed_in = CheckpointLocation(home / "checkpoint", Layout(PARTS, "")).next_batch_id()
    assert killed_in
    settings = JobSettings(
        checkpoint=home / "checkpoint", output=home / "out", history_ends=True, **given
    )
    metrics = run(spark, settings)
    found = table_reader.read_findings(home / "out")
    assert expected == {one.finding_id for one in found}
    assert len(expected) == len(found)
    assert 0 < metrics["records"] < sum(map(len, blocks)), "it went on"
    assert not (home / "checkpoint" / "auditor").exists()
    other = JobSettings(checkpoint=tmp_path / "two", output=tmp_path / "out", **given)
    with pytest.raises(CheckpointError, match=rf"{FENCE}' names another audit, .*/one/checkpoint'"):
        run(spark, other)


def test_spark_files_at_a_url_are_read_as_those_in_a_directory(spark, tmp_path, root):
    """By Hadoop: what was planned and when, and where the journal began."""
    layout = Layout(PARTS, "t", root.as_uri())
    with CheckpointLocation(tmp_path / "one", layout) as location:
        location.connect(spark)
        assert f"{root.as_uri()}/{location.run_id}/auditor" == location.auditor
        assert f"{root.as_uri()}/{location.run_id}/collector" == location.collector
        assert -1 == location.last_planned()
        first = root / location.run_id / "auditor" / "sources" / "0" / "0"
        first.parent.mkdir(parents=True)
        first.write_text('v1\n{"t":{"0":5}}')
        for number in (9, 10):
            plan(root, location, number)
        assert 10 == location.last_planned()
        assert 1_700_000_000_123_000 == location.batch_time_us(9)
        [planned] = location.planned_offsets(10)
        assert (17, 17) == (planned.start, planned.end)
        plan(root, location, 0)
        [planned] = location.planned_offsets(0)
        assert (5, 17) == (planned.start, planned.end)
        with pytest.raises(CheckpointError, match=r"offsets/11' is damaged"):
            location.batch_time_us(11)


def test_the_fence_lets_one_directory_pass(spark, tmp_path, layout):
    """Again and again; another one does not come to stay at the URL by being refused."""
    for _ in range(2):
        with CheckpointLocation(tmp_path / "one", layout) as location:
            location.connect(spark)
            with pytest.raises(CheckpointError, match="Another job runs"):
                CheckpointLocation(tmp_path / "one", layout).__enter__()
            with (
                CheckpointLocation(tmp_path / "two", layout) as other,
                pytest.raises(CheckpointError, match=rf"{FENCE}' names another audit.*one'"),
            ):
                other.connect(spark)
    with CheckpointLocation(tmp_path / "two", Layout(PARTS, "t")):
        pass


def test_a_fence_is_made_where_there_is_none(spark, tmp_path, root):
    """Who comes second, in the same moment too, finds the first one's."""
    files = HadoopFiles(spark, root.as_uri())
    assert not compare_fence(files, "one")
    assert make_fence(files, "one", tmp_path)
    assert not make_fence(files, "two", tmp_path)
    assert compare_fence(files, "one")
    with pytest.raises(CheckpointError, match="names another audit"):
        compare_fence(files, "two")


def test_a_fence_that_cannot_be_read_lets_nobody_pass(spark, tmp_path, root, layout):
    """As the one of a driver that was killed, or is still writing it."""
    root.mkdir()
    (root / FENCE).touch()
    with (
        CheckpointLocation(tmp_path / "one", layout) as location,
        pytest.raises(CheckpointError, match=rf"{FENCE}' is damaged, or is being written"),
    ):
        location.connect(spark)


def test_a_checkpoint_that_vanished_is_not_begun_anew(spark, tmp_path, root, layout):
    """All that was at the URL, or what came after an older copy of it."""
    with CheckpointLocation(tmp_path / "one", layout) as location:
        location.connect(spark)
        for number in range(3):
            plan(root, location, number)
            location.save_state(number, b"")
    with CheckpointLocation(tmp_path / "one", layout) as location:
        location.connect(spark)
        planned = root / location.run_id / "auditor" / "offsets" / "2"
    for gone in (planned, root):
        shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
        with (
            CheckpointLocation(tmp_path / "one", layout) as location,
            pytest.raises(CheckpointError, match=r"lacks Spark's checkpoint of micro-batch 2"),
        ):
            location.connect(spark)


@pytest.mark.parametrize(
    ("first", "then"), [(None, "file:///b"), ("file:///a", None), ("file:///a", "file:///b")]
)
def test_another_url_than_that_of_the_first_run_is_refused(tmp_path, first, then):
    """Before Spark starts: what the state goes on from would not be there."""
    with CheckpointLocation(tmp_path, Layout(PARTS, "t", first)):
        pass
    with (
        pytest.raises(
            CheckpointError, match=f"spark_checkpoint {first!r}, this run wants {then!r}"
        ),
        CheckpointLocation(tmp_path, Layout(PARTS, "t", then)),
    ):
        pass


def test_a_layout_of_before_has_no_url(tmp_path):
    """It goes on where it is."""
    path = tmp_path / "layout.json"
    with CheckpointLocation(tmp_path, Layout(PARTS, "t")):
        known = unseal_document(path.read_bytes())
    del known["spark_checkpoint"]
    path.write_bytes(seal_document(known))
    with CheckpointLocation(tmp_path, Layout(PARTS, "t")) as location:
        assert known["run_id"] == location.run_id


def test_a_rebuild_begins_beside_what_is_set_aside(spark, tmp_path, root, layout):
    """At the same URL, behind the same fence, as often as it is needed; no file is moved."""
    home, seen = tmp_path / "checkpoint", set()
    for number in range(3):
        with CheckpointLocation(home, layout) as location:
            location.connect(spark)
            plan(root, location, 0)
            location.save_state(0, b"")
            seen.add(location.auditor)
        aside = tmp_path / f"aside-{number}"
        set_aside(home, aside)
        mark_rebuilt(home, aside)
        assert f"{root.as_uri()}/{location.run_id}" == spark_checkpoint_of(aside)
    assert 3 == len(seen) == len(list(root.glob("*/auditor/offsets/0")))
    with (
        CheckpointLocation(tmp_path / "two", layout) as other,
        pytest.raises(CheckpointError, match="names another audit"),
    ):
        other.connect(spark)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("nowhere://host/path", "No FileSystem for scheme"),
        ("hdfs://127.0.0.1:9/path", "ConnectException"),
        ("hdfs:///path", "no host"),
        ("hdfs://host.invalid:8020/path", "UnknownHostException"),
    ],
)
def test_a_url_that_cannot_be_used_is_one_sentence(spark, tmp_path, url, reason):
    """And is not what the next run must name."""
    hadoop = spark._jsc.hadoopConfiguration()
    hadoop.set("ipc.client.connect.max.retries", "0")
    try:
        with (
            CheckpointLocation(tmp_path / "one", Layout(PARTS, "t", url)) as location,
            pytest.raises(CheckpointError, match=rf"{url}.*{reason}.*spark_checkpoint") as raised,
        ):
            location.connect(spark)
    finally:
        hadoop.unset("ipc.client.connect.max.retries")
    assert 1 == len(str(raised.value).splitlines())
    with CheckpointLocation(tmp_path / "one", Layout(PARTS, "t")):
        pass
