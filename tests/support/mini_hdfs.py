"""A real HDFS on this machine: a name node and a data node in one process, Hadoop's MiniDFSCluster.

Its jars are fetched, pinned and verified as those of the job are; what is missing in them is in
pyspark's.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import final

import pyspark

from tallystick.deploy.jars import Jar, cache_directory, prepare
from tallystick.deploy.preflight import java_command, java_environment
from tallystick.deploy.processes import wait_until

JARS = (
    Jar(
        "org.apache.hadoop",
        "hadoop-client-minicluster",
        "3.4.1",
        "5b90be54a39d856f237a4530e25f62aea4b67c180c73b5cfb1aff35c502b2d29",
    ),
    Jar(
        "junit",
        "junit",
        "4.13.2",
        "8e495b634469d64fb8acfa3495a065cbacc8a0fff55ce1e31007be4c16dc57d3",
    ),
)
DEADLINE_S = 120


@final
class MiniHdfs:
    """A file system that ends with the block, and with what is in it.

    Args:
        directory: Of its files.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def __enter__(self) -> MiniHdfs:
        self._directory.mkdir(parents=True)
        jars = prepare(JARS, cache_directory() / "mini-hdfs")
        of_pyspark = Path(pyspark.__file__).parent / "jars" / "*"
        java = java_command()
        assert java is not None
        with (self._directory / "hdfs.log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *(java, "-cp", os.pathsep.join(map(str, (*jars, of_pyspark)))),
                    "org.apache.hadoop.test.MiniDFSClusterManager",
                    *("-format", "-datanodes", "1", "-nnport", "0"),
                    *("-writeDetails", str(self._directory / "details.json")),
                ],
                cwd=self._directory,
                env=java_environment(),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            assert wait_until(self._has_started, DEADLINE_S), "HDFS has not started"
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    @property
    def url(self) -> str:
        """Of its root, without a slash at the end."""
        return f"hdfs://127.0.0.1:{self._port}"

    def _has_started(self) -> bool:
        assert self._process.poll() is None, (self._directory / "hdfs.log").read_text("utf-8")
        with contextlib.suppress(OSError, ValueError):
            details = json.loads((self._directory / "details.json").read_text("utf-8"))
            self._port = int(details["namenode_port"])
            return True
        return False
