"""Whether two addresses lead to one server: a server_uuid may be of a copied data directory."""

from __future__ import annotations

import secrets
from contextlib import closing
from typing import TYPE_CHECKING

from tallystick.producers.mysql.errors import MysqlError
from tallystick.producers.mysql.statements import Refused, Session

if TYPE_CHECKING:
    from tallystick.producers.mysql.settings import ServerSettings


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
