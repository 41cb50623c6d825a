"""Connecting: who is refused by its greeting, and what an error says."""

from __future__ import annotations

import os
import socket

import pytest
from pydantic import SecretStr

from tallystick.deploy.mysql_server import mysql_server
from tallystick.deploy.mysqld import LocalMysqld
from tallystick.producers.mysql.connection import connect, connect_for_stream
from tallystick.producers.mysql.errors import MysqlError, UnsupportedServerError, code_and_message
from tallystick.producers.mysql.settings import ServerSettings, load_servers
from tallystick.producers.mysql_lab.layout import REPLICA_1, REPLICA_2, SERVERS
from tallystick.producers.mysql_lab.sessions import session
from tests.support.mysql_greeting import greeting, greeting_with, packet

pytest.importorskip("pymysql")
PASSWORD = "hunter2-é-€"


def settings(port: int, **more: object) -> ServerSettings:
    return ServerSettings(name="a", port=port, user="me", password=SecretStr(PASSWORD), **more)


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("5.5.5-10.11.6-MariaDB-1:10.11.6+maria~ubu2204-log", "is MariaDB"),
        ("11.4.2-MariaDB", "is MariaDB"),
        ("5.7.44-log", "older than 8.0.11"),
        ("8.0.11-TiDB-v7.5.1", "is TiDB"),
    ],
)
def test_a_server_that_is_not_supported_is_refused_by_its_greeting(version, said):
    """One sentence with server, product and what was expected, whatever the login would say."""
    with (
        greeting_with(greeting(version)) as server,
        pytest.raises(UnsupportedServerError, match=said) as refused,
    ):
        connect(settings(server.port))
    sentence = str(refused.value)
    assert f"server 'a' (127.0.0.1:{server.port}, user 'me')" in sentence
    assert "expected MySQL or Percona Server" in sentence
    assert "\n" not in sentence


@pytest.mark.parametrize("tls", ["required", "verify_ca", "verify_identity"])
def test_a_server_without_the_tls_that_was_asked_for_hears_nothing(tls):
    """Neither account nor password leave before TLS."""
    refused = "SSL is required but the server doesn't support it"
    with greeting_with(greeting("8.0.31")) as server, pytest.raises(MysqlError, match=refused):
        connect(settings(server.port, tls=tls))
    assert [b""] == server.heard


@pytest.mark.parametrize(
    "first",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\x01\0\0\0\x0a",
        b"\x05\0\0\0\x0a8.0\0",
        b"\x00\0\0\0",
        greeting("x.y.z"),
        greeting("8.0.31")[:-30],
        b"",
    ],
)
def test_what_is_no_mysql_server_is_an_error_of_ours(first):
    """Whatever it sends, the message names the server."""
    with greeting_with(first) as server, pytest.raises(MysqlError) as failed:
        connect(settings(server.port))
    assert f"server 'a' (127.0.0.1:{server.port}, user 'me')" in str(failed.value)
    assert PASSWORD not in str(failed.value)


@pytest.mark.parametrize(
    ("code", "tried"), [(1045, "SSL"), (3159, "SSL"), (1044, "1044"), (1049, "1049")]
)
def test_a_stream_tries_tls_where_the_server_may_insist_on_it(code, tried):
    """Access denied to the account may be that; to a database it is not."""
    refusal = packet(2, b"\xff" + code.to_bytes(2, "little") + b"#28000No")
    with (
        greeting_with(greeting("8.0.31", has_tls=True), refusal) as server,
        pytest.raises(MysqlError, match=tried),
    ):
        connect_for_stream(settings(server.port))


def test_a_port_where_nobody_listens_is_named():
    """Server, address, and the system's own words."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(MysqlError, match=rf"server 'a' \(127.0.0.1:{port}.*refused") as failed:
        connect(settings(port))
    assert not failed.value.is_timeout


def test_an_error_of_the_server_is_one_bounded_line_with_its_number():
    """Numbers from 32 768 on, which the client reads as negative, are reported as the server's."""
    assert (53_536, "a b") == code_and_message(Exception(-12_000, "a\n b"))
    code, message = code_and_message(Exception(1227, "x" * 1000))
    assert (1227, 301) == (code, len(message))
    assert (None, "ValueError") == code_and_message(ValueError())


def way_of(connection):
    with connection.cursor() as cursor:
        cursor.execute("SHOW STATUS LIKE 'Ssl_cipher'")
        if cursor.fetchone()[1]:
            return "tls"
    return "socket" if "UNIX" in connection.host_info else "tcp"


@pytest.mark.parametrize(
    ("host", "account", "server_insists", "tls", "way"),
    [
        ("localhost", "NONE", 0, "preferred", "socket"),
        ("%", "NONE", 0, "preferred", "socket"),
        ("127.0.0.1", "NONE", 0, "preferred", "tcp"),
        ("localhost", "NONE", 0, "required", "tls"),
        ("localhost", "SSL", 0, "preferred", "tls"),
        ("localhost", "NONE", 1, "preferred", "socket"),
        ("127.0.0.1", "NONE", 1, "preferred", "tls"),
        ("localhost", "NONE", 0, "disabled", "socket"),
    ],
)
def test_a_stream_on_this_machine_is_encrypted_where_somebody_asks_for_it(
    mysqld, *, host, account, server_insists, tls, way
):
    """The settings, the account, the server; statements are encrypted wherever that can be."""
    address = mysqld.addresses()["source-b"]
    with session(address) as admin:
        admin.run("SET sql_log_bin = 0")
        admin.run("CREATE USER me@%s IDENTIFIED BY %s REQUIRE " + account, (host, PASSWORD))
        admin.run("SET GLOBAL require_secure_transport = %s", (server_insists,))
        try:
            stream = connect_for_stream(settings(address.port, tls=tls))
            assert way == way_of(stream)
            stream.close()
            statements = connect(settings(address.port, tls=tls))
            assert ("tcp" if tls == "disabled" else "tls") == way_of(statements)
            statements.close()
        finally:
            admin.run("SET GLOBAL require_secure_transport = 0")
            admin.run("DROP USER me@%s", (host,))


def test_a_socket_where_the_name_is_another_account_is_not_used(mysqld):
    """Without name resolution me@'%' comes by TCP; me@localhost may have none of its rights."""
    (of,) = (server for server in SERVERS if server.name == "source-b")
    address, directory = mysqld.addresses()[of.name], mysqld.servers[of.name].directory
    without_names = {**of.options, "skip-name-resolve": "ON"}
    server = LocalMysqld(directory, mysql_server(), port=address.port, options=without_names)
    with session(address) as admin:
        admin.run("SET sql_log_bin = 0")
        for host in ("%", "localhost"):
            admin.run("CREATE USER me@%s IDENTIFIED BY %s", (host, PASSWORD))
    mysqld.stop(of.name)
    server.launch()
    try:
        server.wait_until_answering()
        stream = connect_for_stream(settings(address.port))
        assert way_of(stream) == "tcp"
        stream.close()
    finally:
        server.request_stop()
        server.wait_for_end()
        mysqld.restart(of.name)
        with session(address) as admin:
            admin.run("SET sql_log_bin = 0")
            admin.run("DROP USER me@'%', me@localhost")


@pytest.mark.parametrize("stands_there", ["nothing", "another server's", "another user's"])
def test_a_socket_that_is_not_the_servers_is_not_used(mysqld, stands_there):
    """As where the server is in a container: what it says of its files is of another machine."""
    of = {server.name: server for server in load_servers(mysqld.config_file, ())}
    sockets = {}
    for name in (REPLICA_1, REPLICA_2):
        with session(mysqld.addresses()[name]) as admin:
            ((path,),) = admin.run("SELECT @@GLOBAL.socket")
            sockets[name] = mysqld.directory / name / "data" / path
    own, aside = sockets[REPLICA_1], sockets[REPLICA_1].with_suffix(".aside")
    if stands_there == "another user's" and os.geteuid() != 0:
        pytest.skip("to give a file to another user takes root")
    owner = own.stat().st_uid
    own.rename(aside)
    try:
        if stands_there == "another server's":
            own.symlink_to(sockets[REPLICA_2])
        elif stands_there == "another user's":
            own.symlink_to(aside)
            os.chown(aside, owner + 1, -1)
        stream = connect_for_stream(of[REPLICA_1])
        assert way_of(stream) == "tcp"
        stream.close()
    finally:
        own.unlink(missing_ok=True)
        if aside.stat().st_uid != owner:
            os.chown(aside, owner, -1)
        aside.rename(own)
    stream = connect_for_stream(of[REPLICA_1])
    assert way_of(stream) == "socket"
    stream.close()
