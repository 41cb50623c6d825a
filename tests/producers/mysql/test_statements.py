"""Statements of a session: what a refusal is, and what the end of the connection."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import pytest
from pydantic import SecretStr

from tallystick.producers.mysql import statements
from tallystick.producers.mysql.errors import MysqlError
from tallystick.producers.mysql.settings import ServerSettings
from tallystick.producers.mysql.statements import Refused, Session

pymysql = pytest.importorskip("pymysql")


class Failing:
    """A connection on which every statement fails with an error of the server, or of its client."""

    def __init__(self, code: int) -> None:
        self.code = code
        self.open = True

    def cursor(self) -> AbstractContextManager[Failing]:
        return nullcontext(self)

    def execute(self, statement: str) -> None:
        raise pymysql.err.OperationalError(self.code, f"{statement} failed")

    def close(self) -> None:
        self.open = False


def failing(monkeypatch: pytest.MonkeyPatch, code: int) -> tuple[Session, Failing]:
    connection = Failing(code)
    monkeypatch.setattr(statements, "connect", lambda _, **_more: connection)
    monkeypatch.setattr(statements, "dialect_of", lambda _: None)
    monkeypatch.setattr(statements, "server_uuid_of", lambda _: "")
    return Session(ServerSettings(name="a", user="me", password=SecretStr("x"))), connection


@pytest.mark.parametrize("code", [1045, 1064, 1142, 1227, 1317, 1999, 3000, 3024])
def test_a_server_that_refuses_a_statement_is_still_there(
    monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    session, connection = failing(monkeypatch, code)
    refused = session.ask("SELECT 1")
    assert isinstance(refused, Refused)
    assert (code, "SELECT 1 failed", True) == (refused.code, refused.message, connection.open)


@pytest.mark.parametrize(
    "code",
    [
        *(1053, 1077, 1152, 1158, 1159, 1160, 1161, 1927, 3032, 3169, 4031),
        *(2000, 2006, 2013, 2999),
    ],
)
def test_an_error_that_ends_the_session_is_no_refusal(
    monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """Of the server as of the client library: the next statement needs another connection."""
    session, connection = failing(monkeypatch, code)
    with pytest.raises(MysqlError, match=f"{code}"):
        session.ask("SELECT 1")
    assert not connection.open
