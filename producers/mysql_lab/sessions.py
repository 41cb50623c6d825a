"""Clients of the lab's servers: connect, query, and raise errors of the lab."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from tallystick.producers.mysql.errors import code_and_message
from tallystick.producers.mysql_lab.accounts import ADMIN
from tallystick.producers.mysql_lab.errors import LabError

if TYPE_CHECKING:
    from pymysql.connections import Connection

HOST = "127.0.0.1"
CONNECT_TIMEOUT_S = 10.0
ANSWER_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a server of the lab.

    Attributes:
        name: the server.
        port: its port on the loopback address.
        ca: the certificate that its own is checked against.
        password: of the account root.
    """

    name: str
    port: int
    ca: Path
    password: str

    def connect(self, user: str = ADMIN, password: str | None = None) -> Connection[Any]:
        """Opens a connection that commits each statement by itself.

        Raises:
            pymysql.err.Error: it cannot be reached, or refuses the account.
            OSError: so does the network.
        """
        import pymysql

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False  # the server's own certificate names no host
        context.load_verify_locations(str(self.ca))
        return pymysql.connections.Connection(
            host=HOST,
            port=self.port,
            user=user,
            password=self.password if password is None else password,
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=CONNECT_TIMEOUT_S,
            read_timeout=ANSWER_TIMEOUT_S,
            write_timeout=CONNECT_TIMEOUT_S,
            program_name="tallystick lab",
            ssl=context,
        )


@final
class Session:
    """A connection of root that turns what goes wrong into `LabError`."""

    def __init__(self, address: Address, connection: Connection[Any]) -> None:
        self._address = address
        self._connection = connection

    def run(self, statement: str, values: Sequence[object] = ()) -> tuple[tuple[Any, ...], ...]:
        """Runs a statement; returns its rows.

        Raises:
            LabError: the server refuses it or has gone.
        """
        with _as_lab_errors(self._address, statement), self._connection.cursor() as cursor:
            cursor.execute(statement, tuple(values) or None)
            return tuple(cursor.fetchall())

    def value(self, statement: str, values: Sequence[object] = ()) -> Any:
        """Runs a statement; returns the first value of its first row."""
        return self.run(statement, values)[0][0]

    def rows(self, statement: str) -> list[dict[str, Any]]:
        """Runs a statement; returns its rows by the names of their columns."""
        with _as_lab_errors(self._address, statement), self._connection.cursor() as cursor:
            cursor.execute(statement)
            names = [column[0] for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def gtid_executed(self) -> str:
        """The server's gtid_executed, on one line."""
        return str(self.value("SELECT @@GLOBAL.gtid_executed")).replace("\n", "")


@contextmanager
def session(address: Address) -> Iterator[Session]:
    """Opens a session of root for the block.

    Raises:
        LabError: the server cannot be reached.
    """
    with _as_lab_errors(address, "connect"):
        connection = address.connect()
    with closing(connection):
        yield Session(address, connection)


@contextmanager
def _as_lab_errors(address: Address, statement: str) -> Iterator[None]:
    import pymysql

    try:
        yield
    except (pymysql.err.Error, OSError) as error:
        code, message = code_and_message(error)
        number = "" if code is None else f"error {code}: "
        # A statement may hold a password: only its first two words are shown.
        shown = " ".join(statement.split()[:2])
        raise LabError(
            f"server {address.name!r} ({HOST}:{address.port}): {shown}: {number}{message}"
        ) from None
