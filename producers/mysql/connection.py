"""A connection to one server: its errors as ours, its limits, and which servers are refused.

PyMySQL is the extra ``mysql``; it is imported when a server is asked and not before.
"""

from __future__ import annotations

import ipaddress
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.values.errors import install_extra
from tallystick.producers.mysql.dialect import Dialect
from tallystick.producers.mysql.errors import (
    MysqlError,
    OtherServerError,
    RsaMissingError,
    UnsupportedServerError,
    code_and_message,
)

if TYPE_CHECKING:
    from pymysql.connections import Connection

    from tallystick.producers.mysql.settings import ServerSettings

CONNECT_TIMEOUT_S = 10.0
STATEMENT_TIMEOUT_S = 20.0
"""The longest that a statement may take until its connection is given up."""
_SELECT_TIMEOUT_MS = 15_000
_LOCK_WAIT_S = 5

_SESSION = (
    f"SET SESSION max_execution_time = {_SELECT_TIMEOUT_MS}, lock_wait_timeout = {_LOCK_WAIT_S},"
    f" innodb_lock_wait_timeout = {_LOCK_WAIT_S}, transaction_read_only = ON,"
    " time_zone = '+00:00'"
)
_TIMED_OUT = frozenset({1205, 3024})
"""Lock wait, max_execution_time: the server ended the statement."""
_INSISTS_ON_TLS = frozenset({1045, 3159})
"""Access denied, as to an account that requires it; ER_SECURE_TRANSPORT_REQUIRED."""
_HOSTS_OF_SOCKET = frozenset({"%", "localhost"})
"""The hosts of accounts that a session through the Unix socket can be of."""


def connect(
    settings: ServerSettings,
    *,
    statement_timeout_s: float = STATEMENT_TIMEOUT_S,
    server_uuid: str | None = None,
) -> Connection[Any]:
    """Connect to a server that is supported.

    The session can write nothing, and waits for no lock longer than seconds.

    Args:
        settings: The server.
        statement_timeout_s: How long the server may be silent before the connection is given up.
        server_uuid: Of the server that an earlier connection led to; None: there was none.

    Raises:
        RsaMissingError: The password needs RSA, and its package is not installed.
        UnsupportedServerError: The server is no MySQL, or too old.
        OtherServerError: The address led to another server.
        MysqlError: It cannot be reached, refuses the account or has no TLS that was asked for.
    """
    import pymysql

    connection = pymysql.connections.Connection(
        host=settings.host,
        port=settings.port,
        unix_socket=None if settings.unix_socket is None else str(settings.unix_socket),
        user=settings.user,
        # As bytes: PyMySQL would encode text as Latin-1, and quote it where it cannot.
        password=_password(settings),
        charset="utf8mb4",
        autocommit=True,
        connect_timeout=CONNECT_TIMEOUT_S,
        read_timeout=statement_timeout_s,
        write_timeout=CONNECT_TIMEOUT_S,
        program_name="tallystick",
        defer_connect=True,
        **_tls(settings),
    )
    try:
        connection.connect()
        dialect_of(connection)
        with connection.cursor() as cursor:
            cursor.execute(_SESSION)
        if server_uuid is not None:
            _require_server(connection, settings, server_uuid)
    except OtherServerError:
        connection.close()
        raise
    except UnsupportedServerError as error:
        connection.close()
        raise UnsupportedServerError(f"{_where(settings)}: {error}") from None
    except Exception as error:  # noqa: BLE001  what a stranger sends may raise anything
        _refuse_unsupported(connection, settings)
        raise mysql_error(error, settings, "cannot connect") from None
    return connection


def server_uuid_of(connection: Connection[Any]) -> str:
    """The ``server_uuid`` of a connected server."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@GLOBAL.server_uuid")
        (found,) = cursor.fetchone() or ("",)
    return str(found)


def _require_server(
    connection: Connection[Any], settings: ServerSettings, server_uuid: str
) -> None:
    """What two servers answer, as through a load balancer, is no account of one."""
    found = server_uuid_of(connection)
    if found != server_uuid:
        raise OtherServerError(
            f"{_where(settings)}: connections lead to two servers, with the server_uuids"
            f" {' and '.join(sorted((found, server_uuid)))}; expected an address of one server,"
            " not of a load balancer"
        )


def connect_for_stream(settings: ServerSettings, server_uuid: str | None = None) -> Connection[Any]:
    """Connect for a stream of the binary log, by the cheapest way to a server on this machine.

    Where TLS is no more than preferred that is the server's Unix socket, or else TCP without TLS:
    nobody is in between, and a busy log takes more of the processors that the server works with
    otherwise. An account or server that insists on TLS gets it, and so does a password that would
    need RSA without it where no package for RSA is installed.

    Args:
        settings: The server.
        server_uuid: As ``connect`` takes it.

    Raises:
        UnsupportedServerError: The server is no MySQL, or too old.
        OtherServerError: The address led to another server.
        MysqlError: As ``connect`` raises it.
    """
    is_beside = settings.unix_socket is None and is_loopback(settings.host)
    if settings.tls not in {"preferred", "disabled"} or not is_beside:
        return connect(settings, server_uuid=server_uuid)
    try:
        without_tls = settings.model_copy(update={"tls": "disabled"})
        connection = connect(without_tls, server_uuid=server_uuid)
    except MysqlError as error:
        if error.code not in _INSISTS_ON_TLS and not isinstance(error, RsaMissingError):
            raise
        connection = connect(settings, server_uuid=server_uuid)
    return _through_socket(settings, connection) or connection


def _through_socket(
    settings: ServerSettings, connection: Connection[Any]
) -> Connection[Any] | None:
    """Connect to the same server through its Unix socket, instead of a connection by TCP.

    Returns:
        None if that cannot be: the socket is another machine's, or not for this account.
    """
    try:
        identity_before = host, socket, identity = _server_identity(connection)
        if host not in _HOSTS_OF_SOCKET or not socket.is_socket():
            return None
        if socket.stat().st_uid != Path(identity[0]).stat().st_uid:
            return None  # through a tunnel, whoever is on this machine could listen there
        found = connect(settings.model_copy(update={"unix_socket": socket}))
        # Where names are not resolved, me@% comes by TCP and me@localhost through the socket.
        if _server_identity(found) != identity_before:
            found.close()
            return None
    except Exception:  # noqa: BLE001  what is wrong with the server, the connection by TCP reports
        return None
    connection.close()
    return found


def _server_identity(connection: Connection[Any]) -> tuple[str, Path, tuple[str, ...]]:
    """The account's host, the Unix socket, and what no two servers of a machine share."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT CURRENT_USER(), @@GLOBAL.socket, @@GLOBAL.datadir, @@GLOBAL.port,"
            " @@GLOBAL.server_uuid, @@GLOBAL.hostname"
        )
        account, socket, directory, *more = map(str, cursor.fetchone() or ())
    return account.rpartition("@")[2], Path(directory, socket), (directory, *more)


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, by its name or address alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def dialect_of(connection: Connection[Any]) -> Dialect:
    """The dialect of a connected server.

    Raises:
        UnsupportedServerError: The server is no MySQL, or too old.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@GLOBAL.version, @@GLOBAL.version_comment")
        version, comment = cursor.fetchone() or ("", "")
    return Dialect.of(str(version), str(comment))


def mysql_error(error: Exception, settings: ServerSettings, what: str) -> MysqlError:
    """An error of PyMySQL, or of bytes that are no MySQL, as one of ours: what, where, why.

    Args:
        error: As it was raised.
        settings: The server.
        what: What could not be done: ``cannot connect``.
    """
    import pymysql

    if isinstance(error, RuntimeError) and "cryptography" in str(error):
        return RsaMissingError(
            f"{_where(settings)}: {what}: without TLS the password goes encrypted with RSA, and"
            f" the package cryptography is not installed. {install_extra('mysql')}"
        )
    code, message = code_and_message(error)
    cause = getattr(error, "original_exception", None) or error.__context__
    is_timeout = code in _TIMED_OUT or isinstance(cause, TimeoutError)
    if isinstance(error, (pymysql.err.Error, OSError)):
        number = "" if code is None else f"error {code}: "
        text = f"{_where(settings)}: {what}: {number}{message}"
    else:
        text = (
            f"{_where(settings)}: {what}: expected MySQL's protocol,"
            f" its answer cannot be read ({type(error).__name__})"
        )
    return MysqlError(text, code=code, is_timeout=is_timeout)


def _where(settings: ServerSettings) -> str:
    return f"server {settings.name!r} ({settings.address}, user {settings.user!r})"


def _refuse_unsupported(connection: Connection[Any], settings: ServerSettings) -> None:
    """Raise what the server is, if its greeting shows that it would be refused in any case."""
    greeted = getattr(connection, "server_version", None)
    if not isinstance(greeted, str):
        return
    try:
        Dialect.of(greeted)
    except UnsupportedServerError as error:
        raise UnsupportedServerError(f"{_where(settings)}: {error}") from None


def _password(settings: ServerSettings) -> Any:
    secret = settings.password
    return b"" if secret is None else secret.get_secret_value().encode()


def _tls(settings: ServerSettings) -> dict[str, Any]:
    """PyMySQL's arguments; with a context it refuses a server that offers no TLS."""
    if settings.unix_socket is not None or settings.tls == "disabled":
        return {"ssl_disabled": True}
    if settings.tls == "preferred":
        return {}
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = settings.tls == "verify_identity"
    context.verify_mode = ssl.CERT_NONE if settings.tls == "required" else ssl.CERT_REQUIRED
    if settings.tls == "required":
        return {"ssl": context}
    try:
        if settings.ca is None:
            context.load_default_certs()
        else:
            context.load_verify_locations(str(settings.ca))
    except (OSError, ssl.SSLError) as error:
        shown = getattr(error, "strerror", None) or type(error).__name__
        raise MysqlError(
            f"{_where(settings)}: ca: expected certificates as PEM in {str(settings.ca)!r}: {shown}"
        ) from None
    return {"ssl": context}
