"""What goes wrong with a real server, in a sentence that names it.

AuditError                    coordinates.values.errors
├── ServerSettingsError       servers.toml, a --server or a secret's file cannot be what was meant
└── MysqlError                a server cannot be asked, or does not answer as MySQL does
    ├── OtherServerError      the address led to another server than before
    ├── RsaMissingError       the password needs RSA, and its package is not installed
    └── UnsupportedServerError   it is no MySQL, or too old to have log_status
"""

from __future__ import annotations

from typing import Any

from tallystick.coordinates.values.errors import AuditError

UINT16_RANGE = 1 << 16
MESSAGE_LENGTH_MAX = 300


class ServerSettingsError(AuditError, ValueError):
    """A server's settings cannot be what was meant; the message has where and what is expected."""


class MysqlError(AuditError):
    """A server cannot be asked; the message has what, where and what was expected.

    Attributes:
        code: The server's or the client library's error number, None where there is none.
        is_timeout: The server did not answer in time.
    """

    def __init__(self, message: str, *, code: int | None = None, is_timeout: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.is_timeout = is_timeout


class OtherServerError(MysqlError):
    """The address led to another server than an earlier connection to it."""


class RsaMissingError(MysqlError):
    """The package for RSA, the extra ``mysql``, is not installed, and the password needs it."""


class UnsupportedServerError(MysqlError):
    """The server is no MySQL, or a version without ``performance_schema.log_status``."""


def code_and_message(error: BaseException) -> tuple[int | None, str]:
    """An error of the client library as its number and one line of bounded text.

    PyMySQL reads the server's two bytes as a signed number, so 50 000 and more come as negative.
    """
    arguments: tuple[Any, ...] = error.args
    code = arguments[0] if arguments and type(arguments[0]) is int else None
    if code is not None and code < 0:
        code += UINT16_RANGE
    message = str(arguments[1]) if code is not None and len(arguments) > 1 else str(error)
    message = " ".join(message.split()) or type(error).__name__
    if len(message) > MESSAGE_LENGTH_MAX:
        message = f"{message[:MESSAGE_LENGTH_MAX]}…"
    return code, message
