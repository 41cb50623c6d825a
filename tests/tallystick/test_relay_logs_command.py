"""``tallystick relay-logs``: what it refuses to run with."""

from __future__ import annotations

import os
import socket

import pytest

from tallystick.deploy.certificates import Authority
from tallystick.errors import ExitCode

TOKEN = "a token for tests only"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--listen", "0.0.0.0:0"), "no loopback address: expected --certificate and --key"),
        (("--listen", "db1.example:9475"), "expected ADDRESS:PORT"),
        (("--certificate", "reader.pem"), "--certificate and --key together"),
        (("--certificate", "reader.pem", "--key", "nowhere"), "No such file"),
        (("--certificate", "reader.pem", "--key", "token"), "cannot be loaded"),
        (("--token-file", "open"), "is open to others"),
        (("--token-file", "short"), "16 characters or more"),
        (("--relay-log-dir", "token"), "expected a directory"),
    ],
)
def test_what_would_be_unsafe_or_no_use_is_refused(
    tallystick, tmp_path, monkeypatch, arguments, said
):
    """With one sentence, before it listens."""
    monkeypatch.setattr(os, "nice", lambda _: None)
    secrets = {"token": (TOKEN, 0o600), "short": ("x", 0o600), "open": (TOKEN, 0o644)}
    for name, (text, mode) in secrets.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(mode)
    (tmp_path / "reader.pem").write_bytes(Authority("a").sign("reader", ("127.0.0.1",)).certificate)
    ran = tallystick("relay-logs", "--relay-log-dir", ".", "--token-file", "token", *arguments)
    assert (ExitCode.MISUSE, "") == (ran.code, ran.out)
    assert said in ran.err
    assert TOKEN not in ran.err


def test_an_address_that_is_taken_is_refused(tallystick, tmp_path, monkeypatch):
    """It is named once, with the system's own reason."""
    monkeypatch.setattr(os, "nice", lambda _: None)
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "token").chmod(0o600)
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as listener:
        address = f"[::1]:{listener.getsockname()[1]}"
        options = ("--relay-log-dir", ".", "--token-file", "token", "--listen", address)
        ran = tallystick("relay-logs", *options)
    assert (ExitCode.MISUSE, "") == (ran.code, ran.out)
    assert ran.err == f"tallystick: {address} cannot be listened on: Address already in use\n"
