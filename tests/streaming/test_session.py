"""What Spark is started with."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock
from zipimport import zipimporter

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext

from tallystick.streaming.errors import SessionError
from tallystick.streaming.session import (
    G1_REGION_MB,
    SessionSettings,
    jvm_end,
    session_conf,
    submitted_conf,
)


def conf(**settings):
    return session_conf(SessionSettings((), Path("spark.log"), **settings), Path("/log4j2"))


def test_more_properties_are_set():
    """Those that the job does not need."""
    assert "7g" == conf(properties={"spark.executor.memory": "7g"})["spark.executor.memory"]


@pytest.mark.parametrize("name", ["spark.master", "spark.driver.memory", "spark.driver.host"])
def test_a_property_of_the_job_is_refused(name):
    """Its own value is what it needs."""
    with pytest.raises(SessionError, match=f"'{name}' is set by tallystick itself"):
        conf(properties={name: "x"})


def test_executors_keep_little_freed_memory_unless_a_property_says_otherwise():
    """The C library's own limit is for programs that have few threads."""
    name = "spark.executorEnv.MALLOC_ARENA_MAX"
    assert "4" == conf(master="spark://m:7077")[name]
    assert "9" == conf(properties={name: "9"})[name]
    settings = SessionSettings((), Path("spark.log"))
    assert "4" == submitted_conf(settings, {})[name]
    assert "9" == submitted_conf(settings, {name: "9"})[name]


def test_the_jvm_keeps_little_freed_memory(spark):
    """As its executors; the variable is of its environment, not of the driver's."""
    assert "4" == spark._jvm.System.getenv("MALLOC_ARENA_MAX")
    assert "MALLOC_ARENA_MAX" not in os.environ


def test_on_a_cluster_the_driver_says_where_it_is():
    """On this machine it is on loopback."""
    assert "127.0.0.1" == conf()["spark.driver.host"]
    properties = {"spark.driver.host": "audit-1"}
    assert "audit-1" == conf(master="spark://m:7077", properties=properties)["spark.driver.host"]


def test_executors_of_this_machine_are_like_its_driver():
    """Their jars, their JVM's options, and none has a task before all are there."""
    master = "local-cluster[3, 1, 700]"
    jars = Path("/a.jar"), Path("/b.jar")
    found = session_conf(SessionSettings(jars, Path("/d/l"), master=master), Path("/log4j2"))
    assert "127.0.0.1" == found["spark.driver.host"]
    assert "/a.jar:/b.jar" == found["spark.executor.extraClassPath"]
    assert "700m" == found["spark.executor.memory"]
    assert "3" == found["spark.cores.max"]
    assert "1.0" == found["spark.scheduler.minRegisteredResourcesRatio"]
    assert "true" == found["spark.authenticate"]
    assert "size" == found["spark.executor.logs.rolling.strategy"]
    options = found["spark.executor.extraJavaOptions"]
    assert "-XX:+ExitOnOutOfMemoryError" in options
    assert "file:///d/executors/log4j2.properties" in options
    assert not any(name.startswith("spark.executor.") for name in conf() if "Env" not in name)


@pytest.mark.parametrize("name", ["spark.driver", "spark.executor"])
def test_only_a_run_that_lasts_optimises_its_code(name):
    """What that costs in the first minutes comes back in the hours after them."""
    quick = "-XX:TieredStopAtLevel=1"
    settings = {"master": "local-cluster[2,1,900]"}
    assert quick in conf(**settings)[f"{name}.extraJavaOptions"]
    assert quick not in conf(**settings, is_lasting=True)[f"{name}.extraJavaOptions"]


@pytest.mark.parametrize(
    ("master", "has_one_thread"), [("local[2]", False), ("local-cluster[2,1,900]", True)]
)
def test_garbage_of_executors_on_this_machine_is_collected_by_one_thread(master, has_one_thread):
    """Java chooses for a JVM that does all; buffers of a micro-batch fit into the regions of G1."""
    options = conf(master=master)["spark.driver.extraJavaOptions"].split()
    assert has_one_thread is ("-XX:+UseSerialGC" in options)
    assert has_one_thread is not (f"-XX:G1HeapRegionSize={G1_REGION_MB}m" in options)


@pytest.mark.parametrize(
    ("settings", "is_whole"),
    [
        ({"is_lasting": True}, True),
        ({"is_lasting": False}, False),
        ({"is_lasting": True, "master": "local-cluster[2,1,900]"}, False),
        ({"is_lasting": True, "master": "spark://m:7077"}, False),
    ],
)
def test_a_run_that_lasts_takes_the_heap_of_a_single_jvm_as_a_whole(settings, is_whole):
    """It does not grow afterwards; the driver of executors needs little of it."""
    options = conf(memory="3g", **settings)["spark.driver.extraJavaOptions"].split()
    assert is_whole is ("-Xms3g" in options)
    assert is_whole is ("-XX:+AlwaysPreTouch" in options)


def test_the_jvm_has_few_buffers_that_are_humongous_for_it(spark):
    """What it was given it has taken; another collector, on a small machine, does not read it."""
    bean = spark._jvm.java.lang.Class.forName("com.sun.management.HotSpotDiagnosticMXBean")
    options = spark._jvm.java.lang.management.ManagementFactory.getPlatformMXBean(bean)
    if options.getVMOption("UseG1GC").getValue() == "true":
        assert str(G1_REGION_MB << 20) == options.getVMOption("G1HeapRegionSize").getValue()


def test_an_executor_of_this_machine_has_one_core():
    """With two of them a part would change its Python worker all the time."""
    with pytest.raises(SessionError, match=r"expected executors of one core, local-cluster\[2,1,9"):
        conf(master="local-cluster[2,4,900]")


def test_workers_whose_python_is_named_have_packages_of_their_own():
    """Else they find those of the driver, which are where they are here."""
    name = "spark.executorEnv.PYTHONPATH"
    assert str(Path(__file__).parents[2]) in conf(master="spark://m:7077")[name]
    properties = {"spark.pyspark.python": "./environment/bin/python"}
    assert name not in conf(master="spark://m:7077", properties=properties)


def test_only_a_local_checkpoint_is_written_by_the_local_file_system():
    """Elsewhere Spark takes the interface that replaces files; neither has any on a cluster."""
    name = "spark.sql.streaming.checkpointFileManagerClass"
    jars = (Path("any.jar"),)

    def has_it(**settings):
        return name in session_conf(SessionSettings(jars, Path("l"), **settings), Path("/log4j2"))

    assert has_it()
    assert not has_it(is_checkpoint_local=False)
    assert not has_it(master="spark://m:7077")


def test_spark_submit_decides_what_concerns_its_jvm(monkeypatch):
    """The job adds the rest; what it needs itself may be given with the same value only."""
    settings = SessionSettings((), Path("spark.log"), shuffle_partitions=3)
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    given = {"spark.master": "spark://m:7077", "spark.sql.shuffle.partitions": "3"}
    added = submitted_conf(settings, given)
    assert added.keys().isdisjoint({"spark.master", "spark.driver.memory", "spark.jars"})
    assert "3" == added["spark.sql.shuffle.partitions"]
    assert "spark.executorEnv.PYTHONPATH" in added
    monkeypatch.setenv("PYSPARK_PYTHON", "./environment/bin/python")
    assert "spark.executorEnv.PYTHONPATH" not in submitted_conf(settings, given)
    with pytest.raises(SessionError, match=r"'spark\.sql\.shuffle\.partitions' is set by"):
        submitted_conf(settings, {"spark.sql.shuffle.partitions": "200"})


def test_the_end_of_a_jvm_of_spark_submit_is_seen_by_asking_it(monkeypatch):
    """It is no process of ours: whether it answers is all that can be told."""
    gateway = SimpleNamespace(proc=None, jvm=SimpleNamespace(System=SimpleNamespace(nanoTime=int)))
    monkeypatch.setattr(SparkContext, "_gateway", gateway)
    assert jvm_end() is None
    gateway.jvm.System.nanoTime = Mock(side_effect=Py4JNetworkError("no answer"))
    assert str(jvm_end()).startswith("Spark's JVM ended")


def test_workers_read_no_archive_for_each_task(spark):
    """Those on Python's path are read anew whenever it forgets what it knows of the path."""

    def archives(_):
        finders = sys.path_importer_cache.values()
        return [finder.archive for finder in finders if isinstance(finder, zipimporter)]

    tasks = spark.sparkContext.parallelize([0, 1], 2)
    assert [[], []] == tasks.map(archives).collect()
    assert [[], []] == tasks.map(archives).collect()


def test_the_driver_alone_has_arrow_without_an_allocator_of_its_own(tmp_path):
    """As ``tallystick audit`` imports it, here to be refused; workers inherit no variable."""
    program = (
        "import os, sys\n"
        "from tallystick.cli import run_command\n"
        "from tallystick.streaming.errors import TableError\n"
        "try:\n"
        "    run_command(['audit', '--directory', sys.argv[1]])\n"
        "except TableError:\n"
        "    import pyarrow as pa\n"
        "    left = [name for name in os.environ if 'ARROW' in name]\n"
        "    print(pa.default_memory_pool().backend_name, left)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "a%20b")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "system []\n" == run.stdout
