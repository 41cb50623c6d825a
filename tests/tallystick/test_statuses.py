"""How a command ends by an error: its status by the kind of error, and one line for each."""

from __future__ import annotations

import errno
import subprocess
import sys

import pytest

from tallystick import process
from tallystick.coordinates.values.errors import AuditError
from tallystick.producers.kafka_clients.errors import BrokerUnreachableError
from tallystick.producers.publisher import DeliveryError, KafkaSettings, UnacknowledgedError
from tallystick.streaming.errors import CheckpointError, QueryError
from tests.producers.test_publisher import make_block

SETTINGS = KafkaSettings(bootstrap_servers="b:1")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (AuditError("x"), 2),
        (BrokerUnreachableError("b:1", "x"), 2),
        (CheckpointError("x"), 2),
        (QueryError("x"), 75),
        (DeliveryError(make_block(1), "t", 0, "x"), 75),
        (UnacknowledgedError(SETTINGS, "3 messages"), 75),
        (PermissionError(errno.EACCES, "Permission denied", "state"), 2),
        (OSError(errno.EROFS, "Read-only file system", b"state"), 2),
        (PermissionError(errno.EPERM, "Operation not permitted"), 70),
        (ValueError("x"), 70),
        (KeyboardInterrupt(), 130),
    ],
)
def test_the_kind_of_error_decides(error, status, monkeypatch, tmp_path, capsys):
    """What is known before anything runs is 2, what ends a run 75, and what is ours 70."""
    monkeypatch.chdir(tmp_path)

    def command() -> int:
        raise error

    assert status == process.run(command)
    written = capsys.readouterr().err
    assert "Traceback" not in written
    assert len(written.splitlines()) == {70: 2, 130: 0}.get(status, 1)


def test_no_command_loads_arrow_to_be_able_to_end():
    """Half a second before each one."""
    code = "import sys, tallystick.cli; print({'numpy', 'pyarrow', 'pyspark'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert "set()" == done.stdout.strip()
