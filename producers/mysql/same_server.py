"""Whether two addresses lead to one server: a server_uuid may be of a copied data directory."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterable
from contextlib import closing
from typing import TYPE_CHECKING, final

from tallystick.producers.mysql.errors import MysqlError, OtherServerError
from tallystick.producers.mysql.statements import Refused, Session

if TYPE_CHECKING:
    from tallystick.producers.mysql.settings import ServerSettings


@final
class FollowedServers:
    """Which server each name leads to, of all that a process follows; for several threads.

    Args:
        settings: All of them.
    """

    def __init__(self, settings: Iterable[ServerSettings] = ()) -> None:
        self.settings = tuple(settings)
        self._led: dict[str, tuple[ServerSettings, str]] = {}
        self._lock = threading.Lock()

    def lead(self, settings: ServerSettings, server_uuid: str) -> None:
        """Note to which server a name leads, as names move.

        Raises:
            OtherServerError: That server is followed under another name.
        """
        with self._lock:
            self._led.pop(settings.name, None)
            for other, uuid in self._led.values():
                if uuid == server_uuid and is_one_server(settings, other):
                    raise OtherServerError(
                        f"server {settings.name!r} ({settings.address}): leads to the server that"
                        f" is followed as {other.name!r}, with the server_uuid {server_uuid};"
                        " expected each server under one name"
                    )
            self._led[settings.name] = settings, server_uuid


def is_one_server(first: ServerSettings, second: ServerSettings) -> bool:
    """Whether a lock by name that one session holds is held for a session at the other address.

    Such locks are of one server and of no data; the name is a random one. Where it cannot be seen
    the servers count as two.
    """
    name = f"tallystick-{secrets.token_hex(16)}"
    with closing(Session(first)) as holder, closing(Session(second)) as looker:
        try:
            if _number(holder, f"SELECT GET_LOCK('{name}', 0) AS found") != 1:
                return False
            owner = _number(holder, "SELECT CONNECTION_ID() AS found")
            return owner is not None and owner == _number(
                looker, f"SELECT IS_USED_LOCK('{name}') AS found"
            )
        except MysqlError:
            return False


def _number(session: Session, statement: str) -> int | None:
    rows = session.ask(statement)
    if isinstance(rows, Refused) or not rows or rows[0]["found"] is None:
        return None
    return int(rows[0]["found"])
