"""Rows of one session, one statement at a time, with the server's errors as ours."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from tallystick.producers.mysql.connection import connect, dialect_of, mysql_error, server_uuid_of
from tallystick.producers.mysql.errors import MysqlError, code_and_message

if TYPE_CHECKING:
    from pymysql.connections import Connection

    from tallystick.producers.mysql.dialect import Dialect
    from tallystick.producers.mysql.settings import ServerSettings

Row = dict[str, Any]

_CLIENT_ERRORS = range(2000, 3000)
"""Numbers of the client library: the connection is gone, or nothing sensible came through it."""
_CONNECTION_LOST = frozenset({1053, 1077, 1152, 1158, 1159, 1160, 1161, 1927, 3032, 3169, 4031})
"""Errors of a server that ends the session: shutdown, kill, network, offline mode."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The server's answer to a statement that it did not do; the session goes on.

    Attributes:
        code: The server's error number.
        message: Its text, one line.
        is_timeout: A lock or the statement took too long.
    """

    code: int
    message: str
    is_timeout: bool = False


@final
class Session:
    """A connection that is made anew when it was lost, to the same server.

    Args:
        settings: The server.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._connection: Connection[Any] | None = None
        self._dialect: Dialect | None = None
        self._server_uuid: str | None = None
        self._abandoned = 0
        """The server's number of a session that we gave up and that may still wait there."""

    @property
    def dialect(self) -> Dialect:
        """In which terms this server is asked.

        Raises:
            MysqlError: There is no connection, and none can be made.
        """
        self._connected()
        assert self._dialect is not None
        return self._dialect

    def ensure(self) -> None:
        """Make sure that the server answers, and that nothing of ours still waits in it.

        log_status and SHOW REPLICA STATUS wait for the channel map as long as STOP REPLICA holds
        it, and a wait for such a lock cannot be interrupted: whoever asks again after each
        time-out leaves one more session waiting there.

        Raises:
            MysqlError: It cannot be reached, is not supported any more, or an earlier statement
                still waits.
        """
        connection = self._connected()
        try:
            connection.ping(reconnect=False)
        except Exception:  # noqa: BLE001  whatever is wrong with the old one, a new one shows
            self.close()
            self._connected()
        if self._abandoned:
            self._refuse_while_waiting()

    def ask(self, statement: str) -> list[Row] | Refused:
        """Run a statement; return its rows, or why the server refuses it.

        Raises:
            MysqlError: The connection is lost, or the server did not answer in time.
        """
        import pymysql

        connection = self._connected()
        try:
            with connection.cursor() as cursor:
                cursor.execute(statement)
                names = [column[0] for column in cursor.description or ()]
                return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        except pymysql.err.Error as error:
            code, message = code_and_message(error)
            failed = mysql_error(error, self._settings, "a statement failed")
            if not code or code in _CLIENT_ERRORS or code in _CONNECTION_LOST:
                self._give_up(failed)
                raise failed from None
            return Refused(code, message, failed.is_timeout)
        except Exception as error:  # noqa: BLE001  what a stranger sends may raise anything
            failed = mysql_error(error, self._settings, "a statement failed")
            self._give_up(failed)
            raise failed from None

    def close(self) -> None:
        """End the session."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                connection.close()

    def _give_up(self, error: MysqlError) -> None:
        connection = self._connection
        self.close()
        if error.is_timeout and connection is not None:
            self._abandoned = int(connection.thread_id())  # type: ignore[no-untyped-call]
            with suppress(MysqlError):
                self.ask(f"KILL {self._abandoned:d}")

    def _refuse_while_waiting(self) -> None:
        rows = self.ask("SHOW PROCESSLIST")
        waits = isinstance(rows, Refused) or any(
            row.get("Id") == self._abandoned and row.get("Command") in {"Query", "Killed"}
            for row in rows
        )
        if waits:
            raise MysqlError(
                f"server {self._settings.name!r}: session {self._abandoned} of an earlier"
                " collection still waits there; expected it to end first",
                is_timeout=True,
            )
        self._abandoned = 0

    def _connected(self) -> Connection[Any]:
        if self._connection is None or not self._connection.open:
            self._connection = connect(self._settings, server_uuid=self._server_uuid)
            self._dialect = None
        if self._dialect is None:
            try:
                self._dialect = dialect_of(self._connection)
                self._server_uuid = server_uuid_of(self._connection)
            except MysqlError:
                raise
            except Exception as error:  # noqa: BLE001  as above
                failed = mysql_error(error, self._settings, "cannot connect")
                self.close()
                raise failed from None
        return self._connection
