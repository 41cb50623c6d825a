"""A real MariaDB is refused with one sentence; MySQL 5.7 by its greeting (stage mysqld)."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time

import pytest

from tallystick.deploy.mysqld import greeted_version
from tallystick.deploy.ports import free_base_port
from tallystick.errors import ExitCode

DEADLINE_S = 60
PASSWORD = "hunter2"
ACCOUNT = (
    f"CREATE USER 'audit'@'127.0.0.1' IDENTIFIED BY '{PASSWORD}';"
    "GRANT ALL ON *.* TO 'audit'@'127.0.0.1';"
)


@pytest.fixture(scope="module")
def mariadb(tmp_path_factory):
    """A MariaDB of this machine, on a free port of 127.0.0.1, with an account; gives its port."""
    program, installer = shutil.which("mariadbd"), shutil.which("mariadb-install-db")
    if program is None or installer is None:
        pytest.skip("mariadbd is not installed: apt-get install mariadb-server-core")
    directory = tmp_path_factory.mktemp("mariadb")
    data, log, temporary = directory / "data", directory / "log", directory / "tmp"
    temporary.mkdir()
    # Of its own: any server that starts removes the temporary tables in the machine's directory.
    common = [f"--datadir={data}", f"--tmpdir={temporary}"]
    if os.geteuid() == 0:
        common.append("--user=root")
    installed = subprocess.run(
        [installer, "--no-defaults", "--skip-test-db", *common],
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=DEADLINE_S * 3,
    )
    assert installed.returncode == 0, installed.stdout
    (directory / "init.sql").write_text(f"{ACCOUNT}\n".replace(";G", ";\nG"))
    port = free_base_port(1)
    command = [
        program, "--no-defaults", *common, "--bind-address=127.0.0.1",
        f"--port={port}", f"--socket={data / 's'}", f"--pid-file={data / 'pid'}",
        f"--init-file={directory / 'init.sql'}",
    ]  # fmt: skip
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        end = time.monotonic() + DEADLINE_S
        while greeted_version(port) is None:
            assert process.poll() is None, log.read_text("utf-8", "replace")
            assert time.monotonic() < end, log.read_text("utf-8", "replace")
            time.sleep(0.1)
        yield port
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(DEADLINE_S)


@pytest.mark.parametrize("tls", ["preferred", "required"])
@pytest.mark.parametrize("password", [PASSWORD, "a wrong one"])
@pytest.mark.parametrize(
    "command",
    [("check",), ("check", "--rights"), ("check", "--explain"), ("tail", "--output", "-")],
)
def test_mariadb_is_refused_with_one_sentence(  # noqa: PLR0917  all with all
    mariadb, tallystick, monkeypatch, tmp_path, command, password, tls
):
    """By its greeting: also without an account, and where it has no TLS."""
    config = tmp_path / "servers.toml"
    config.write_text(f'[servers.m]\nport = {mariadb}\nuser = "audit"\ntls = "{tls}"\n')
    monkeypatch.setenv("TALLYSTICK_MYSQL_PASSWORD", password)
    ran = tallystick(*command, "--config", str(config))
    assert (ExitCode.MISUSE, "") == (ran.code, ran.out)
    sentence = ran.err.splitlines()[-1]
    assert "this server is MariaDB ('" in sentence
    assert "which has no performance_schema.log_status" in sentence
    assert sentence.endswith("expected MySQL or Percona Server 8.0, 8.4 or later")
    assert "Traceback" not in ran.err
    assert password not in ran.err


def test_the_doctor_refuses_mariadb_in_one_line(mariadb, tallystick, monkeypatch):
    """And tries nothing more of it."""
    monkeypatch.setenv("TALLYSTICK_MYSQL_PASSWORD", PASSWORD)
    ran = tallystick("doctor", "--for", "check", "--server", f"m=audit@127.0.0.1:{mariadb}")
    (line,) = [line for line in ran.out.splitlines() if line.startswith("failed ")]
    assert "this server is MariaDB" in line
    assert ExitCode.MISUSE == ran.code
