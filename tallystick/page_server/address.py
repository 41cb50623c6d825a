"""Where the page is served, and the token that it needs there."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tallystick.errors import MisuseError
from tallystick.producers.secret_file import read_secret_file

_TOKEN_MIN = 16


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen.

    Attributes:
        host: An IP address, or ``localhost``.
        port: 0: any free one.
    """

    host: str
    port: int

    @classmethod
    def of(cls, text: str) -> Address:
        """Read ``ADDRESS:PORT``.

        Raises:
            MisuseError: It is none.
        """
        try:
            parts = urlsplit(f"//{text}")
            host, port = parts.hostname, parts.port
            if host != "localhost":
                ipaddress.ip_address(host or "")
        except ValueError:
            host = port = None
        if host is None or port is None:
            raise MisuseError(f"expected ADDRESS:PORT with an IP address, found {text!r}")
        return cls(host, port)

    def __str__(self) -> str:
        """As it is given; an IPv6 address in brackets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def not_listened_on(self, error: OSError) -> MisuseError:
        """The error of a port that is taken, or of an address that this machine does not have.

        Python's own text says the address once more, in a form that depends on who listens.
        """
        why = os.strerror(error.errno) if error.errno else error
        return MisuseError(f"{self} cannot be listened on: {why}")

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback


def read_token(path: Path | None, address: Address) -> str | None:
    """The token from a file; None on loopback without a file.

    Raises:
        MisuseError: One is needed, or the file has none that is long enough, or others can read it.
    """
    if path is None:
        if address.is_loopback:
            return None
        raise MisuseError(
            f"{address.host} is no loopback address: expected a token for it, in the file that"
            " --serve-token-file names"
        )
    token = read_secret_file(
        path, lambda reason: MisuseError(f"--serve-token-file: {reason}")
    ).strip()
    if len(token) < _TOKEN_MIN:
        raise MisuseError(f"--serve-token-file: expected {_TOKEN_MIN} characters or more")
    return token
