"""Spark's standalone cluster on this machine: a master and workers, each a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import final
from urllib.request import urlopen

import pyspark

from tallystick.deploy.ports import free_base_port
from tallystick.deploy.preflight import java_environment
from tallystick.deploy.processes import wait_until

HOST = "127.0.0.1"
DEADLINE_S = 120
_CLASSES = "org.apache.spark.deploy"


@final
class SparkCluster:
    """A worker has one core, and so one executor of an application.

    Args:
        directory: Of its logs, and of what executors write.
        workers: How many.
        environment: Variables of master and workers, which executors have, too.
    """

    def __init__(
        self, directory: Path, workers: int = 2, environment: Mapping[str, str] | None = None
    ) -> None:
        self._directory = directory
        self._environment = environment or {}
        self._port, self._web_port = (base := free_base_port(2)), base + 1
        self._count = workers
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        return f"spark://{HOST}:{self._port}"

    def __enter__(self) -> SparkCluster:
        try:
            self._start("master", "--port", str(self._port), "--webui-port", str(self._web_port))
            self._wait_for(0)
            for number in range(self._count):
                home = self.home_of_worker(number)
                options = ("--cores", "1", "--memory", "1g", "--webui-port", "0")
                self._start("worker", *options, "--work-dir", str(home), self.url)
            self._wait_for(self._count)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            self._kill(process)

    def home_of_worker(self, number: int) -> Path:
        """Where its executors have their files, a directory for each application."""
        return self._directory / f"worker-{number}"

    def kill_worker(self, number: int) -> None:
        """Kill -9 of a worker and of its executor."""
        self._kill(self._processes[1 + number])

    @staticmethod
    def _kill(process: subprocess.Popen[bytes]) -> None:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def _start(self, role: str, *options: str) -> None:
        home = Path(pyspark.__file__).parent
        main = f"{_CLASSES}.{role}.{role.title()}"
        number = len(self._processes)
        self._directory.mkdir(parents=True, exist_ok=True)
        self._processes.append(
            subprocess.Popen(
                [str(home / "bin" / "spark-class"), main, "--host", HOST, *options],
                env=java_environment()
                | {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": HOST}
                | self._environment,
                stdout=(self._directory / f"{number}-{role}.log").open("wb"),
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        )

    def live_workers(self) -> int:
        """How many workers the master knows to be alive."""
        try:
            with urlopen(f"http://{HOST}:{self._web_port}/json/", timeout=5) as answer:
                return int(json.load(answer)["aliveworkers"])
        except (OSError, ValueError):  # not there yet, or not yet as JSON
            return -1

    def _wait_for(self, workers: int) -> None:
        met = wait_until(lambda: self.live_workers() >= workers, DEADLINE_S)
        assert met, f"{self.live_workers()} of {workers} workers"
