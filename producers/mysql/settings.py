"""Which servers, how to reach them and as whom: ``servers.toml``, NAME=HOST:PORT, secrets.

A password comes from the environment or from a file that others cannot read; there is no way to
give one as an argument or as a value of ``servers.toml``. The more specific origin goes first:
``TALLYSTICK_MYSQL_PASSWORD_<NAME>``, the server's ``password_file`` or ``option_file``,
``TALLYSTICK_MYSQL_PASSWORD``.
"""

from __future__ import annotations

import configparser
import os
import re
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator

from tallystick.producers.given_files import GivenPath
from tallystick.producers.mysql.errors import ServerSettingsError
from tallystick.producers.secret_file import read_secret_file
from tallystick.producers.toml_file import read_toml

RELAY_LOG_TOKEN_VARIABLE = "TALLYSTICK_RELAY_LOG_TOKEN"  # noqa: S105  its name, not its value
TOKEN_LENGTH_MIN = 16
PASSWORD_VARIABLE = "TALLYSTICK_MYSQL_PASSWORD"  # noqa: S105  its name, not its value
USER_DEFAULT = "tallystick"
PORT_DEFAULT = 3306
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_SHOWN_MAX = 80

TlsMode = Literal["disabled", "preferred", "required", "verify_ca", "verify_identity"]
"""As ``--ssl-mode`` of the MySQL client."""

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Host = Annotated[str, Field(pattern=r"^[A-Za-z0-9._:%-]{1,255}$")]
Port = Annotated[int, Field(ge=1, le=65_535)]
ServerId = Annotated[int, Field(ge=1, le=2**32 - 1)]

_READER = r"^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]{1,255}):[0-9]{1,5}$"
_SERVER_ID_FIRST = 0xF000_0000


def _dump_server_id() -> int:
    """A server id that no server of the fleet is likely to have: two of one id cut each other."""
    return _SERVER_ID_FIRST + secrets.randbelow(0x0FFF_FFFF)


class RelayReaderSettings(BaseModel):
    """Where a relay log reader is, and what shows who it is.

    Attributes:
        token: What it and whoever asks it have in common; never sent.
        ca: Certificates of authorities as PEM; None: the system's, and on loopback no TLS.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    host: Host
    port: Port
    token: SecretStr
    ca: Path | None = None

    @property
    def address(self) -> str:
        """Host and port, for people."""
        return _address(self.host, self.port)


class ServerSettings(BaseModel):
    """One server: the instance's name, how it is reached, and as whom.

    Attributes:
        name: Our key of the instance, never its ``server_uuid``.
        password: None: the account has none. Never shown by repr, errors or logs.
        tls: As the MySQL client's ``--ssl-mode``. A Unix socket needs none; ``preferred`` is none
            for the stream of a binary log on this machine.
        ca: Certificates of authorities for ``verify_ca`` and ``verify_identity``, as PEM.
        relay_log_dir: Where its relay logs can be read here; None: they cannot.
        relay_log_reader: What reads them on another host, instead; None: nothing does.
        server_id: With which the binary log is asked for, as a replica has one.
        cluster: The cluster that it counts to, None not given.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    name: Name
    host: Host = "127.0.0.1"
    port: Port = PORT_DEFAULT
    user: Annotated[str, Field(min_length=1, max_length=32)] = USER_DEFAULT
    password: SecretStr | None = None
    tls: TlsMode = "preferred"
    ca: Path | None = None
    unix_socket: Path | None = None
    relay_log_dir: Path | None = None
    relay_log_reader: RelayReaderSettings | None = None
    server_id: ServerId = Field(default_factory=_dump_server_id)
    cluster: Name | None = None

    @property
    def address(self) -> str:
        """Where the server is, for people: the socket, or host and port."""
        if self.unix_socket is not None:
            return str(self.unix_socket)
        return _address(self.host, self.port)


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class _Entry(BaseModel):
    """A server's table in ``servers.toml``, or the defaults of all."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    host: Host | None = None
    port: Port | None = None
    user: Annotated[str, Field(min_length=1, max_length=32)] | None = None
    password_file: GivenPath | None = None
    option_file: GivenPath | None = None
    tls: TlsMode | None = None
    ca: GivenPath | None = None
    unix_socket: GivenPath | None = None
    relay_log_dir: GivenPath | None = None
    relay_log_reader: Annotated[str, Field(pattern=_READER)] | None = None
    relay_log_token_file: GivenPath | None = None
    relay_log_ca: GivenPath | None = None
    server_id: ServerId | None = None
    cluster: Name | None = None

    @model_validator(mode="after")
    def _one_secret(self) -> _Entry:
        if self.password_file is not None and self.option_file is not None:
            raise ValueError("password_file and option_file are both given")
        if self.relay_log_dir is not None and self.relay_log_reader is not None:
            raise ValueError("relay_log_dir and relay_log_reader are both given")
        return self


_NAME_EXPECTED = "a name of letters, digits, '.', '_' and '-', at most 64"
_EXPECTED = {
    "host": "a host name or address",
    "port": "an integer from 1 to 65535",
    "user": "an account name of 1 to 32 characters",
    "password_file": "the path of a file",
    "option_file": "the path of a MySQL option file",
    "tls": f"one of {', '.join(get_args(TlsMode))}",
    "ca": "the path of a PEM file",
    "unix_socket": "the path of a socket",
    "relay_log_dir": "the path of a directory",
    "relay_log_reader": "HOST:PORT",
    "relay_log_token_file": "the path of a file",
    "relay_log_ca": "the path of a PEM file",
    "server_id": "an integer from 1 to 4294967295",
    "cluster": _NAME_EXPECTED,
}
_is_name = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}").fullmatch
_SERVER = re.compile(
    r"(?P<name>[^=]+)=(?:(?P<user>[^@]*)@)?"
    r"(?:(?P<socket>/.+)|(?P<host>\[[^\]]+\]|[^:\[\]/]+)(?::(?P<port>[0-9]{1,5}))?)"
).fullmatch
_SERVER_EXPECTED = "expected NAME=[USER@]HOST[:PORT], or NAME=[USER@]/path/of/socket"


def load_servers(
    config: Path | None, servers: Sequence[str], cluster: str | None = None
) -> tuple[ServerSettings, ...]:
    """Read which servers there are, with their secrets.

    Args:
        config: A ``servers.toml``, or None.
        servers: NAME=HOST:PORT each; they come after those of the file and have its defaults.
        cluster: That of all servers for which the file has none of their own.

    Raises:
        ServerSettingsError: Something is not as expected; it names the file and the key.
    """
    defaults = _Entry()
    entries: dict[str, _Entry] = {}
    where = "--server"
    if config is not None:
        where = repr(str(config))
        defaults, entries = _read_config(config)
    for text in servers:
        name, entry = _read_server(text)
        if name in entries:
            raise ServerSettingsError(f"--server: the name {name!r} is given twice")
        entries[name] = entry
    if not entries:
        file = "--config FILE" if config is None else f"a table [servers.NAME] in {where}"
        raise ServerSettingsError(
            f"no server is given; expected {file}, or --server NAME=[USER@]HOST[:PORT]"
        )
    _refuse_ambiguous_variables(entries)
    if cluster is not None:
        defaults = defaults.model_copy(update={"cluster": cluster})
    return tuple(_settings(name, entry, defaults, where) for name, entry in entries.items())


def password_variable(name: str) -> str:
    """The environment variable of one server's password."""
    return f"{PASSWORD_VARIABLE}_{re.sub('[^A-Za-z0-9]', '_', name).upper()}"


def _refuse_ambiguous_variables(names: Mapping[str, Any]) -> None:
    owners: dict[str, str] = {}
    for name in names:
        variable = password_variable(name)
        other = owners.setdefault(variable, name)
        if other != name and variable in os.environ:
            raise ServerSettingsError(
                f"{variable}: expected the password of one server, but both {other!r} and"
                f" {name!r} have it; set a password_file for each"
            )


def _settings(name: str, entry: _Entry, defaults: _Entry, where: str) -> ServerSettings:
    values = {
        **defaults.model_dump(exclude_none=True),
        **entry.model_dump(exclude_none=True),
    }
    # A server's own secret, or way to it, replaces that of the defaults.
    if entry.password_file is not None:
        values.pop("option_file", None)
    elif entry.option_file is not None:
        values.pop("password_file", None)
    if entry.relay_log_dir is not None:
        values.pop("relay_log_reader", None)
    elif entry.relay_log_reader is not None:
        values.pop("relay_log_dir", None)
    _replace_relay_reader(values, where, name)
    password_file = values.pop("password_file", None)
    option_file = values.pop("option_file", None)
    options: dict[str, str] = {}
    if option_file is not None:
        options = _read_option_file(option_file, f"{where}, option_file of {name!r}")
        if "user" in options:
            values.setdefault("user", options["user"])
    password = os.environ.get(password_variable(name))
    if password is None and password_file is not None:
        password = _read_password(password_file, f"{where}, password_file of {name!r}")
    if password is None:
        password = options.get("password")
    if password is None:
        password = os.environ.get(PASSWORD_VARIABLE)
    if values.get("tls") in {"verify_ca", "verify_identity"} and values.get("unix_socket"):
        raise ServerSettingsError(
            f"{where}, tls of {name!r}: a Unix socket has no certificate to verify"
        )
    try:
        return ServerSettings(
            name=name, password=None if password is None else SecretStr(password), **values
        )
    except ValidationError as error:
        key = str(error.errors(include_input=False)[0]["loc"][0])
        raise ServerSettingsError(
            f"{where}, {key} of {name!r}: expected {_EXPECTED.get(key, _NAME_EXPECTED)}"
        ) from None


def _replace_relay_reader(values: dict[str, Any], where: str, name: str) -> None:
    """Put the settings of a relay log reader where the entries of it are, if one is named."""
    address = values.pop("relay_log_reader", None)
    token_file, ca = values.pop("relay_log_token_file", None), values.pop("relay_log_ca", None)
    if address is None:
        return
    host, _, port = address.rpartition(":")
    token = read_relay_log_token(token_file, f"{where}, relay_log_token_file of {name!r}")
    try:
        values["relay_log_reader"] = RelayReaderSettings(
            host=host.strip("[]"), port=int(port), token=SecretStr(token), ca=ca
        )
    except ValidationError:
        raise ServerSettingsError(
            f"{where}, relay_log_reader of {name!r}: expected {_EXPECTED['relay_log_reader']}"
        ) from None


def read_relay_log_token(path: Path | None, where: str) -> str:
    """The token of a relay log reader, from a file, or else from the environment.

    Args:
        path: The file.
        where: What names it, for messages.

    Raises:
        ServerSettingsError: There is none, or it is too short.
    """
    if path is not None:
        token = _read_secret(path, where).strip()
    else:
        token = os.environ.get(RELAY_LOG_TOKEN_VARIABLE, "").strip()
        where = f"{where} or {RELAY_LOG_TOKEN_VARIABLE}"
    if len(token) < TOKEN_LENGTH_MIN:
        raise ServerSettingsError(
            f"{where}: expected the token of the relay log reader, {TOKEN_LENGTH_MIN} characters"
            " or more"
        )
    return token


# servers.toml


def _read_config(path: Path) -> tuple[_Entry, dict[str, _Entry]]:
    shown = repr(str(path))
    try:
        document = read_toml(path)
    except OSError as error:
        raise ServerSettingsError(f"{shown} cannot be read: {error.strerror}") from None
    except ValueError as error:
        # TOML's own message has the position and at most the one character that it stopped at.
        raise ServerSettingsError(f"{shown} is no TOML: {error}") from None
    for key in document:
        if key not in {"defaults", "servers"}:
            raise ServerSettingsError(
                f"{shown}: expected [defaults] and [servers.NAME], found {key!r}"
            )
    folder = path.parent
    defaults = _read_entry(document.get("defaults", {}), f"{shown}, defaults", folder)
    servers = document.get("servers", {})
    if not isinstance(servers, dict):
        raise ServerSettingsError(f"{shown}, servers: expected a table [servers.NAME] for each")
    entries = {}
    for name, table in servers.items():
        if not _is_name(name):
            raise ServerSettingsError(
                f"{shown}, servers: expected {_NAME_EXPECTED}, found {name[:_SHOWN_MAX]!r}"
            )
        entries[name] = _read_entry(table, f"{shown}, servers.{name}", folder)
    return defaults, entries


def _read_entry(table: Any, where: str, folder: Path) -> _Entry:
    if not isinstance(table, dict):
        raise ServerSettingsError(f"{where}: expected a table")
    for key in table:
        if key == "password":
            # It is in a file that is passed around: its value is not shown.
            raise ServerSettingsError(
                f"{where}.password: expected no password here but password_file, option_file or"
                f" the environment variable {PASSWORD_VARIABLE}"
            )
        if key not in _EXPECTED:
            raise ServerSettingsError(
                f"{where}: expected one of {', '.join(_EXPECTED)}, found {key[:_SHOWN_MAX]!r}"
            )
    try:
        entry = _Entry(**table)
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        if not first["loc"]:
            message = first["msg"].removeprefix("Value error, ")
            raise ServerSettingsError(f"{where}: expected one of two keys, {message}") from None
        key = str(first["loc"][0])
        raise ServerSettingsError(
            f"{where}.{key}: expected {_EXPECTED[key]}, found {repr(table[key])[:_SHOWN_MAX]}"
        ) from None
    paths = {
        key: folder / value.expanduser()
        for key, value in entry.model_dump(exclude_none=True).items()
        if isinstance(value, Path)
    }
    return entry.model_copy(update=paths)


# --server


def _read_server(text: str) -> tuple[str, _Entry]:
    match = _SERVER(text)
    if match is None:
        # Whoever writes a password there is not shown it again, and not by a log either.
        shown = text.partition("=")[0][:_SHOWN_MAX]
        raise ServerSettingsError(f"--server {shown!r}: {_SERVER_EXPECTED}")
    name, user, socket, host, port = match.group("name", "user", "socket", "host", "port")
    if not _is_name(name):
        raise ServerSettingsError(
            f"--server: expected {_NAME_EXPECTED} in front of =, found {name[:_SHOWN_MAX]!r}"
        )
    if user is not None and ":" in user:
        raise ServerSettingsError(
            f"--server {name}: a password is no part of it; expected it in the environment"
            f" variable {password_variable(name)}, or in a password_file of a servers.toml"
        )
    try:
        return name, _Entry(
            host=None if host is None else host.strip("[]"),
            port=None if port is None else int(port),
            user=user,
            unix_socket=None if socket is None else Path(socket),
        )
    except ValidationError as error:
        key = str(error.errors(include_input=False)[0]["loc"][0])
        raise ServerSettingsError(f"--server {name}: expected {_EXPECTED[key]} ({key})") from None


# Secrets


def _read_secret(path: Path, where: str) -> str:
    return read_secret_file(path, lambda reason: ServerSettingsError(f"{where}: {reason}"))


def _read_password(path: Path, where: str) -> str:
    password = _read_secret(path, where).removesuffix("\n").removesuffix("\r")
    if not password or "\n" in password or "\0" in password:
        raise ServerSettingsError(
            f"{where}: expected the password alone on the one line of {str(path)!r}"
        )
    return password


def _read_option_file(path: Path, where: str) -> dict[str, str]:
    """User and password of ``[client]``, as the MySQL client reads them."""
    parser = configparser.RawConfigParser(
        allow_no_value=True,
        strict=False,
        delimiters=("=",),
        comment_prefixes=("#", ";", "!"),
        default_section="",
    )
    text = _read_secret(path, where)
    try:
        parser.read_string(text)
    except configparser.Error as error:
        # The library's message quotes the line, which may be the password's.
        line = getattr(error, "lineno", None)
        line_text = "" if line is None else f", line {line}"
        raise ServerSettingsError(
            f"{where}: {str(path)!r}{line_text}: expected [group] and key=value lines"
        ) from None
    if not parser.has_section("client"):
        raise ServerSettingsError(f"{where}: {str(path)!r} has no group [client]")
    found = {}
    for key in ("user", "password"):
        value = parser.get("client", key, fallback=None)
        if value is not None:
            found[key] = _unquoted(value)
    return found


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
        return value[1:-1]
    return value
