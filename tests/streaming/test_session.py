"""What Spark is started with."""

from __future__ import annotations

import sys
from pathlib import Path
from zipimport import zipimporter

import pytest

from tallystick.streaming.errors import SessionError
from tallystick.streaming.session import SessionSettings, session_conf


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


def test_on_a_cluster_the_driver_says_where_it_is():
    """On this machine it is on loopback."""
    assert "127.0.0.1" == conf()["spark.driver.host"]
    properties = {"spark.driver.host": "audit-1"}
    assert "audit-1" == conf(master="spark://m:7077", properties=properties)["spark.driver.host"]


def test_workers_read_no_archive_for_each_task(spark):
    """Those on Python's path are read anew whenever it forgets what it knows of the path."""

    def archives(_):
        finders = sys.path_importer_cache.values()
        return [finder.archive for finder in finders if isinstance(finder, zipimporter)]

    tasks = spark.sparkContext.parallelize([0, 1], 2)
    assert [[], []] == tasks.map(archives).collect()
    assert [[], []] == tasks.map(archives).collect()
