"""A real MySQL server on this machine beside servers that are not ours (stage mysqld)."""

from __future__ import annotations

from tallystick.deploy.mysql_server import mysql_server
from tallystick.deploy.mysqld import LocalMysqld, initialise
from tallystick.deploy.ports import free_base_port


def test_the_temporary_tables_of_other_servers_stay(mysqld, tmp_path, monkeypatch):
    """A server that starts removes every '#sql*' of its tmpdir, whoever's it is."""
    machine = tmp_path / "machine"
    machine.mkdir()
    monkeypatch.setenv("TMPDIR", str(machine))
    table = machine / "#sql-temptable-1-2-3.MAD"
    table.touch()
    program = mysql_server()
    initialise(program, tmp_path / "template", "", {})
    assert table.exists()
    server = LocalMysqld(tmp_path / "server", program, port=free_base_port(1), options={})
    server.fill_from(tmp_path / "template")
    server.launch()
    try:
        server.wait_until_answering()
    finally:
        server.request_stop()
        server.wait_for_end()
    assert table.exists()
    assert [tmp_path / name for name in ("machine", "server", "template", "template.log")] == (
        sorted(tmp_path.iterdir())
    )
