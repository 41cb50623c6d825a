"""Three real brokers of one cluster, each a process of its own that can be restarted."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import final

from tallystick.deploy.broker import (
    HOST,
    LOG4J2_FILE,
    PROPERTIES,
    live_brokers,
    new_cluster_id,
    server_properties,
)
from tallystick.deploy.class_archives import with_archive
from tallystick.deploy.jars import BROKER, broker_classpath
from tallystick.deploy.ports import free_base_port
from tallystick.deploy.preflight import java_command, java_environment
from tallystick.deploy.processes import wait_until

NODES = 3
DEADLINE_S = 120


@final
class BrokerCluster:
    """Each node is broker and controller; topics may have three replicas."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._ports = [free_base_port(2) for _ in range(NODES)]
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._cluster_id = new_cluster_id()
        self._java = java_command()
        self._classpath = os.pathsep.join(map(str, broker_classpath(print)))

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{HOST}:{port}" for port in self._ports)

    def __enter__(self) -> BrokerCluster:
        try:
            for node, formatting in enumerate([self._format(node) for node in range(NODES)]):
                assert formatting.wait(DEADLINE_S) == 0, (self._home(node) / "log").read_text()
                self._start(node)
            self._wait_for_all()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()

    def restart(self, node: int, number: signal.Signals) -> None:
        """End one node, start it anew, and return when the cluster is whole."""
        self._processes[node].send_signal(number)
        self._processes[node].wait(DEADLINE_S)
        self._start(node)
        self._wait_for_all()

    def _wait_for_all(self) -> None:
        assert wait_until(
            lambda: all(live_brokers(port) == NODES for port in self._ports), DEADLINE_S
        ), "the brokers are not all there"

    def _home(self, node: int) -> Path:
        return self.directory / str(node)

    def _format(self, node: int) -> subprocess.Popen[bytes]:
        home, port = self._home(node), self._ports[node]
        home.mkdir(parents=True)
        shutil.copyfile(LOG4J2_FILE, home / LOG4J2_FILE.name)
        voters = ",".join(f"{n + 1}@{HOST}:{p + 1}" for n, p in enumerate(self._ports))
        lines = dict(
            line.split("=", 1) for line in server_properties(port, port + 1).splitlines()
        ) | {
            "node.id": str(node + 1),
            "controller.quorum.voters": voters,
            "offsets.topic.replication.factor": "3",
            "transaction.state.log.replication.factor": "3",
            "min.insync.replicas": "2",
            # A node that ends hands its partitions over first.
            "controlled.shutdown.enable": "true",
            # One that is killed may come again only when its session is over.
            "broker.session.timeout.ms": "3000",
            "broker.heartbeat.interval.ms": "500",
        }
        text = "".join(f"{key}={value}\n" for key, value in lines.items())
        (home / PROPERTIES).write_text(text, "ascii")
        arguments = ("--cluster-id", self._cluster_id, "--config", PROPERTIES)
        return self._run(node, "kafka.tools.StorageTool", "format", *arguments)

    def _start(self, node: int) -> None:
        self._processes[node] = self._run(node, "kafka.Kafka", PROPERTIES)

    def _run(self, node: int, *command: str) -> subprocess.Popen[bytes]:
        home = self._home(node)
        with (home / "log").open("ab") as log:
            return subprocess.Popen(
                [
                    str(self._java),
                    "-Xmx256m",
                    f"-Dlog4j2.configurationFile={LOG4J2_FILE.name}",
                    *with_archive(BROKER),
                    *("-cp", self._classpath),
                    *command,
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=home,
                env=java_environment(),
                start_new_session=True,
            )
