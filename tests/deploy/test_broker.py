"""A real broker: how it starts, how it ends, and what it makes of leftovers."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tallystick.deploy import broker as subject
from tallystick.deploy.broker import (
    LocalBroker,
    live_brokers,
    new_cluster_id,
    server_properties,
)
from tallystick.deploy.errors import BrokerError
from tallystick.deploy.ports import free_base_port
from tallystick.deploy.processes import ProcessName, wait_until


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One directory for all brokers of this module; whatever is left in it is stopped."""
    directory = tmp_path_factory.mktemp("lived in, é")
    yield directory
    LocalBroker(directory).stop()


@pytest.mark.broker
def test_it_starts_answers_and_stops(home: Path) -> None:
    """Within the block it answers on the loopback address; afterwards nothing is left."""
    lines: list[str] = []
    with LocalBroker(home, port=0, progress=lines.append) as started:
        status = started.status()
        assert status.is_running
        assert status.is_answering
        assert started.bootstrap_servers == status.bootstrap_servers
        assert status.port is not None
        assert live_brokers(status.port) == 1
        with pytest.raises(BrokerError, match=rf"already: process {status.process.pid}, port") as e:
            LocalBroker(home, port=0).start()
        assert str(e.value).endswith(f"tallystick broker stop --directory {home.parent}")
        assert started.status().is_answering  # the refused second start did it no harm
    assert not started.status().is_running
    assert not status.process.is_running()
    assert live_brokers(status.port) == 0
    assert not (home / "broker.json").exists()
    assert any("formatting" in line for line in lines)
    with pytest.raises(BrokerError, match=f"tallystick broker start --directory {home.parent}"):
        _ = started.bootstrap_servers


@pytest.mark.broker
def test_leftovers_of_a_killed_broker_do_not_hinder_the_next(home: Path) -> None:
    """After kill -9 the same directory starts again, with its data or, asked so, without."""
    first = LocalBroker(home, port=0)
    first.start()
    process = first.status().process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    assert wait_until(lambda: not process.is_running(), 10)
    assert not first.status().is_running
    kept = (home / "data" / "meta.properties").read_text()
    with LocalBroker(home, port=0) as second:
        assert second.status().is_answering
        assert kept == (home / "data" / "meta.properties").read_text()
    with LocalBroker(home, port=0, is_fresh=True) as third:
        assert third.status().is_answering
        assert kept != (home / "data" / "meta.properties").read_text()


@pytest.mark.broker
def test_it_can_outlive_its_owner_and_be_stopped_by_another(home: Path) -> None:
    """As `tallystick broker start` and `stop` use it: two processes, one directory."""
    port = free_base_port(2)
    start = (
        "import sys; from pathlib import Path; from deploy.broker import LocalBroker\n"
        "LocalBroker(Path(sys.argv[1]), port=int(sys.argv[2]), dies_with_owner=False).start()"
    )
    subprocess.run([sys.executable, "-c", start, str(home), str(port)], check=True, timeout=120)
    other = LocalBroker(home)
    status = other.status()
    assert (port, True) == (status.port, status.is_answering)
    assert other.stop()
    assert not other.status().is_running
    assert not other.stop()


@pytest.mark.broker
def test_it_dies_with_an_owner_that_is_killed(home: Path) -> None:
    """An owner ended by kill -9 leaves no broker behind."""
    hold = (
        "import sys; from pathlib import Path; from deploy.broker import LocalBroker\n"
        "LocalBroker(Path(sys.argv[1]), port=0).start(); print('up', flush=True)\n"
        "sys.stdin.read()"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", hold, str(home)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert owner.stdout.readline() == b"up\n"
        process = LocalBroker(home).status().process
        assert process is not None
    finally:
        owner.kill()
        owner.communicate()
    assert wait_until(lambda: not process.is_running(), 10)


@pytest.mark.broker
def test_an_interrupt_of_the_terminal_does_not_reach_it(broker: LocalBroker) -> None:
    """It is in a session of its own, where a terminal's Ctrl-C is not delivered."""
    process = broker.status().process
    assert process is not None
    assert os.getsid(process.pid) == process.pid
    assert os.getsid(process.pid) != os.getsid(0)


@pytest.mark.broker
def test_a_broker_that_cannot_start_is_quoted(tmp_path: Path) -> None:
    """Its last message is in the error, and no process is left."""
    data = tmp_path / "data"
    data.mkdir()
    (data / "meta.properties").write_text("version=1\nnode.id=77\ncluster.id=other\n")
    refused = LocalBroker(tmp_path, port=0)
    with pytest.raises(BrokerError, match=r"before it answered[\s\S]*77"):
        refused.start()
    assert not refused.status().is_running


def test_a_taken_port_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The port is named, with how to find who has it; nothing was started."""
    monkeypatch.setattr(subject, "broker_classpath", lambda _: [])
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(BrokerError, match=rf"Port {port} on 127\.0\.0\.1.*To fix: ") as caught:
            LocalBroker(tmp_path, port=port).start()
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "broker.json").exists()


def test_a_recycled_pid_is_not_taken_for_the_broker(tmp_path: Path) -> None:
    """A process of the noted pid that was started at another time is never signalled."""
    bystander = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE
    )
    try:
        name = ProcessName.of(bystander.pid)
        assert name is not None
        stale = {
            "pid": name.pid,
            "boot_id": name.boot_id,
            "started_ticks": name.started_ticks - 1,
            "port": 1,
            "is_secure": False,
        }
        (tmp_path / "broker.json").write_text(json.dumps(stale))
        found = LocalBroker(tmp_path)
        assert not found.status().is_running
        assert not found.stop()
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.communicate()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}', '{"pid": "x", "port": null}'])
def test_a_damaged_note_means_that_nothing_runs(tmp_path: Path, text: str) -> None:
    """Whatever a crash left of the note, it is no obstacle."""
    (tmp_path / "broker.json").write_text(text)
    assert not LocalBroker(tmp_path).status().is_running


@pytest.mark.parametrize("port", [-1, 65535, 70000])
def test_a_port_that_cannot_be_is_refused(tmp_path: Path, port: int) -> None:
    """The controller has the next port, so the last one is no broker's."""
    with pytest.raises(BrokerError, match=f"{port}; expected 1 to 65534"):
        LocalBroker(tmp_path, port=port)


@pytest.mark.broker
def test_an_interrupt_right_after_its_start_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut before the note of its process is written, the start takes its child with it."""
    started: list[int] = []

    def interrupt(pid: int) -> None:
        started.append(pid)
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(ProcessName, "of", staticmethod(interrupt))
    with pytest.raises(KeyboardInterrupt):
        LocalBroker(tmp_path, port=0).start()
    assert len(started) == 1
    assert ProcessName.of(started[0]) is None


def test_everything_listens_on_loopback_only() -> None:
    """No address of the configuration is another than 127.0.0.1."""
    lines = server_properties(19092, 19093).splitlines()
    addresses = [line for line in lines if "listeners=" in line or "voters=" in line]
    assert [
        "controller.quorum.voters=1@127.0.0.1:19093",
        "listeners=PLAINTEXT://127.0.0.1:19092,CONTROLLER://127.0.0.1:19093",
        "advertised.listeners=PLAINTEXT://127.0.0.1:19092",
    ] == addresses


def test_cluster_ids_have_kafkas_form() -> None:
    """22 characters of URL-safe base64, never one that reads as an option."""
    made = {new_cluster_id() for _ in range(500)}
    assert len(made) == 500
    assert {22} == {len(text) for text in made}
    assert not any(text.startswith("-") for text in made)


def test_a_listener_that_is_no_broker_does_not_count() -> None:
    """Something that accepts and says nothing, or hangs up, is 0 live brokers."""
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        assert live_brokers(mute.getsockname()[1], timeout_s=0.2) == 0
