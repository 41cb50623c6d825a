"""servers.toml, NAME=HOST:PORT and secrets: what is meant, and what is refused by name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tallystick.producers.given_files import BYTES_MAX
from tallystick.producers.mysql.errors import ServerSettingsError
from tallystick.producers.mysql.settings import load_servers, password_variable

SECRET = "s3cret-'\"é"


@pytest.fixture(autouse=True)
def no_passwords_around(monkeypatch):
    for name in list(os.environ):
        if name.startswith("TALLYSTICK_MYSQL_"):
            monkeypatch.delenv(name)


def config(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "servers.toml"
    path.write_text(text, "utf-8")
    return path


def secret_file(tmp_path: Path, text: str, mode: int = 0o600) -> Path:
    path = tmp_path / "secret"
    path.write_text(text, "utf-8")
    path.chmod(mode)
    return path


@pytest.mark.parametrize(
    ("text", "name", "user", "address"),
    [
        ("a=db1:3307", "a", "tallystick", "db1:3307"),
        ("a=db1", "a", "tallystick", "db1:3306"),
        ("source-a=me@10.0.0.1:3306", "source-a", "me", "10.0.0.1:3306"),
        ("a=[::1]:3308", "a", "tallystick", "[::1]:3308"),
        ("a=/run/mysqld.sock", "a", "tallystick", "/run/mysqld.sock"),
        ("a=me@/run/mysqld.sock", "a", "me", "/run/mysqld.sock"),
    ],
)
def test_a_server_is_given_in_one_word(text, name, user, address):
    """Name, account, host, port or socket; what is left out has MySQL's default."""
    (server,) = load_servers(None, [text])
    assert (name, user, address) == (server.name, server.user, server.address)
    assert server.password is None


@pytest.mark.parametrize(
    "text",
    ["", "a", "a=", "=db1", "a=db1:", "a=db1:port", "a=db1:99999", "a=::1", "a b=db1", "a=d b",
     "a=me@", "a/b=db1", "a=@db1"],
)  # fmt: skip
def test_another_word_is_refused(text):
    """The error says what a server is given as."""
    with pytest.raises(ServerSettingsError, match=r"--server.*expected"):
        load_servers(None, [text])


def test_a_password_in_an_argument_is_refused_and_not_repeated():
    """Arguments are seen by everybody on the machine: the error says where it belongs."""
    with pytest.raises(ServerSettingsError, match="TALLYSTICK_MYSQL_PASSWORD_A") as refused:
        load_servers(None, ["a=me:hunter2@db1:3306"])
    assert "hunter2" not in str(refused.value)


def test_a_file_of_servers_is_read_with_its_defaults(tmp_path):
    """[defaults] hold for each server, a server's own keys go first, paths start at the file."""
    path = config(
        tmp_path,
        """
        [defaults]
        user = "auditor"
        tls = "verify_ca"
        ca = "ca.pem"
        [servers.source-a]
        host = "db1"
        [servers.replica]
        host = "db2"
        port = 3307
        tls = "required"
        user = "other"
        relay_log_dir = "/var/lib/mysql"
        server_id = 77
        cluster = "other"
        """,
    )
    source, replica, third = load_servers(path, ["third=db3"], "shop")
    assert ("source-a", "db1", 3306, "auditor", "verify_ca", tmp_path / "ca.pem") == (
        source.name,
        source.host,
        source.port,
        source.user,
        source.tls,
        source.ca,
    )
    assert [server.cluster for server in (source, replica, third)] == ["shop", "other", "shop"]
    assert ("db2:3307", "other", "required", Path("/var/lib/mysql"), 77) == (
        replica.address,
        replica.user,
        replica.tls,
        replica.relay_log_dir,
        replica.server_id,
    )
    assert ("third", "db3", "auditor", "verify_ca") == (
        third.name,
        third.host,
        third.user,
        third.tls,
    )


TOKEN = "a token for tests only"


def test_a_relay_log_reader_has_its_token_from_a_file_or_the_environment(tmp_path, monkeypatch):
    """A server's own way to its relay logs replaces that of the defaults; no token is shown."""
    monkeypatch.setenv("TALLYSTICK_RELAY_LOG_TOKEN", f"{TOKEN}, of the environment")
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    (tmp_path / "token").chmod(0o600)
    path = config(
        tmp_path,
        """
        [defaults]
        relay_log_reader = "[::1]:9475"
        relay_log_ca = "ca.pem"
        [servers.a]
        [servers.b]
        relay_log_reader = "db2.example:9476"
        relay_log_token_file = "token"
        [servers.c]
        relay_log_dir = "/var/lib/mysql"
        """,
    )
    a, b, c = load_servers(path, ())
    assert ("[::1]:9475", "db2.example:9476") == (
        a.relay_log_reader.address,
        b.relay_log_reader.address,
    )
    assert (tmp_path / "ca.pem", "::1") == (a.relay_log_reader.ca, a.relay_log_reader.host)
    tokens = [one.relay_log_reader.token.get_secret_value() for one in (a, b)]
    assert [f"{TOKEN}, of the environment", TOKEN] == tokens
    assert (None, Path("/var/lib/mysql")) == (c.relay_log_reader, c.relay_log_dir)
    assert TOKEN not in repr((a, b))


@pytest.mark.parametrize(
    ("token", "said"),
    [(None, "TALLYSTICK_RELAY_LOG_TOKEN: expected"), ("short", "16 characters or more")],
)
def test_a_relay_log_reader_needs_a_token(tmp_path, monkeypatch, token, said):
    """One that cannot be guessed."""
    monkeypatch.delenv("TALLYSTICK_RELAY_LOG_TOKEN", raising=False)
    if token is not None:
        monkeypatch.setenv("TALLYSTICK_RELAY_LOG_TOKEN", token)
    path = config(tmp_path, "[servers.a]\nrelay_log_reader = 'db2:9475'")
    with pytest.raises(ServerSettingsError, match=f"relay_log_token_file of 'a'.*{said}"):
        load_servers(path, ())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[servers.a]\nrelay_log_reader = 'db2'", "expected HOST:PORT, found 'db2'"),
        (
            "[servers.a]\nrelay_log_reader = 'db2:1'\nrelay_log_dir = '/x'",
            "relay_log_dir and relay_log_reader are both given",
        ),
        ("[servers.a]\nhost = 1", r"servers\.a\.host: expected a host name or address, found 1"),
        (
            "[servers.a]\nrelay_log_dir = ''",
            r"servers\.a\.relay_log_dir: expected the path.*found ''",
        ),
        ("[servers.a]\nca = ''", r"servers\.a\.ca: expected the path of a PEM file, found ''"),
        ("#" * (BYTES_MAX + 1), "cannot be read: it is longer than 8 MiB"),
        ("[servers.a]\nport = 0", r"servers\.a\.port: expected an integer from 1 to 65535"),
        ("[servers.a]\ntls = 'yes'", r"servers\.a\.tls: expected one of disabled, preferred"),
        ("[servers.a]\nhosts = 'x'", r"servers\.a: expected one of host, port.*found 'hosts'"),
        ("[servers]\na = 'x'", r"servers\.a: expected a table"),
        ("servers = 1", "expected a table"),
        ("[server.a]\nhost = 'x'", r"expected \[defaults\] and \[servers.NAME\], found 'server'"),
        ("[servers.'a b']\nhost = 'x'", "expected a name of letters.*found 'a b'"),
        ("[defaults]\nuser = ''", r"defaults\.user: expected an account name"),
        ("", "no server is given"),
        ("[servers.a", "is no TOML"),
        ("a = " + "[" * 100_000, "is no TOML: nested too deeply"),
        ("[servers.a]\npassword_file = 'x\\u0000'".replace("'", '"'), "is no TOML: a NUL"),
        ("[servers.a]\npassword_file='x'\noption_file='y'", "both given"),
        (
            "[servers.a]\ntls='verify_ca'\nunix_socket='/run/s'",
            "a Unix socket has no certificate",
        ),
    ],
)
def test_a_mistake_in_the_file_is_named(tmp_path, text, said):
    """File, key, and what was expected."""
    path = config(tmp_path, text)
    with pytest.raises(ServerSettingsError, match=said) as refused:
        load_servers(path, [])
    assert str(path) in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path):
    """The error of the system stands after the path."""
    with pytest.raises(ServerSettingsError, match=r"servers\.toml' cannot be read: No such file"):
        load_servers(tmp_path / "servers.toml", [])


def test_a_password_in_the_file_is_refused_and_not_repeated(tmp_path):
    """servers.toml is passed around: it says where the secret lies, not what it is."""
    path = config(tmp_path, f"[servers.a]\npassword = {SECRET[:6]!r}")
    with pytest.raises(ServerSettingsError, match=r"servers\.a\.password: expected no") as refused:
        load_servers(path, [])
    assert SECRET[:6] not in str(refused.value)


def test_the_more_specific_origin_of_a_password_goes_first(tmp_path, monkeypatch):
    """The server's own variable, then its file, then the variable for all."""
    path = config(
        tmp_path,
        f"[servers.a-1]\npassword_file = {str(secret_file(tmp_path, SECRET + chr(10)))!r}\n"
        "[servers.b]\nhost = 'x'\n",
    )
    monkeypatch.setenv("TALLYSTICK_MYSQL_PASSWORD", "for all")

    def passwords() -> list[str]:
        return [s.password.get_secret_value() for s in load_servers(path, [])]

    assert [SECRET, "for all"] == passwords()
    monkeypatch.setenv("TALLYSTICK_MYSQL_PASSWORD_A_1", "its own")
    assert ["its own", "for all"] == passwords()


def test_an_option_file_gives_account_and_password(tmp_path):
    """[client] as the MySQL client reads it; other groups are not ours."""
    text = f"# mine\n[mysqld]\nuser=x\nskip-networking\n[client]\nuser = me\npassword='{SECRET}'\n"
    option_file = secret_file(tmp_path, text)
    path = config(tmp_path, f"[servers.a]\noption_file = {str(option_file)!r}\n")
    (server,) = load_servers(path, [])
    assert ("me", SECRET) == (server.user, server.password.get_secret_value())


@pytest.mark.parametrize("mode", [0o604, 0o644, 0o660, 0o602])
@pytest.mark.parametrize("key", ["password_file", "option_file"])
def test_a_secret_that_others_can_read_or_change_is_refused(tmp_path, key, mode):
    """The error has the mode and how to fix it."""
    path = config(tmp_path, f"[servers.a]\n{key} = {str(secret_file(tmp_path, 'x', mode))!r}\n")
    with pytest.raises(ServerSettingsError, match=rf"{key} of 'a'.*mode {mode:04o}.*chmod 600"):
        load_servers(path, [])


def test_a_secret_in_a_pipe_is_refused(tmp_path):
    """It would be waited for until somebody writes."""
    os.mkfifo(tmp_path / "pipe", 0o600)
    path = config(tmp_path, "[servers.a]\npassword_file = 'pipe'\n")
    with pytest.raises(ServerSettingsError, match="password_file of 'a': expected a regular file"):
        load_servers(path, [])


@pytest.mark.parametrize("text", ["", "\n", "two\nlines\n", "nul\0"])
def test_a_file_that_holds_more_or_less_than_a_password_is_refused(tmp_path, text):
    """One line, and nothing of it is shown."""
    path = config(tmp_path, f"[servers.a]\npassword_file = {str(secret_file(tmp_path, text))!r}\n")
    with pytest.raises(ServerSettingsError, match="the password alone") as refused:
        load_servers(path, [])
    assert "lines" not in str(refused.value)


def test_an_option_file_that_is_none_is_refused_and_not_quoted(tmp_path):
    """A parser's message quotes the line, which may be the password."""
    path = config(
        tmp_path,
        f"[servers.a]\noption_file = {str(secret_file(tmp_path, 'hunter2'))!r}\n",
    )
    with pytest.raises(ServerSettingsError, match=r"line 1: expected \[group\]") as refused:
        load_servers(path, [])
    assert "hunter2" not in str(refused.value)


def test_no_form_of_the_settings_shows_a_password(monkeypatch):
    """repr, str, JSON and errors of validation."""
    monkeypatch.setenv("TALLYSTICK_MYSQL_PASSWORD", SECRET)
    (server,) = load_servers(None, ["a=db1"])
    shown = [repr(server), str(server), server.model_dump_json(), f"{server}", repr([server])]
    assert [] == [text for text in shown if SECRET in text or SECRET[:6] in text]


def test_two_servers_with_one_variable_are_refused(monkeypatch):
    """a-b and a_b have one name in the environment: neither gets the other's password."""
    assert password_variable("a-b") == password_variable("a_b")
    assert ["a-b", "a_b"] == [s.name for s in load_servers(None, ["a-b=x", "a_b=y"])]
    monkeypatch.setenv(password_variable("a-b"), SECRET)
    with pytest.raises(ServerSettingsError, match="expected the password of one server") as refused:
        load_servers(None, ["a-b=x", "a_b=y"])
    assert SECRET not in str(refused.value)


def test_two_servers_of_one_name_are_refused(tmp_path):
    """A name is the instance's key."""
    with pytest.raises(ServerSettingsError, match="'a' is given twice"):
        load_servers(config(tmp_path, "[servers.a]\nhost='x'"), ["a=y"])


def test_dump_connections_have_ids_apart_from_servers_and_from_each_other():
    """A server ends the dump of a replica when another one comes with its id."""
    first, second = load_servers(None, ["a=x", "b=y"])
    assert first.server_id != second.server_id
    assert min(first.server_id, second.server_id) >= 0xF000_0000
