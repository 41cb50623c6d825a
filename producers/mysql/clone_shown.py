"""What a server shows of the clone that its data came with, and which server was its donor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from tallystick.producers.mysql.settings import LOOPBACK

if TYPE_CHECKING:
    from tallystick.producers.mysql.settings import ServerSettings

OWN_DATA = "LOCAL INSTANCE"
"""Column DESTINATION of a clone that replaces the recipient's data; else it names a directory."""


class CloneShown(NamedTuple):
    """What clone_status shows; it has a row for the last clone alone.

    Attributes:
        begun: When the clone began that the server's data came with, seconds of its clock; empty:
            they came with none; None: that cannot be seen.
        state, begin_time, source: As in the row; empty: there is none.
        port: Where the server says that it listens.
    """

    begun: str | None
    state: str = ""
    begin_time: str = ""
    source: str = ""
    port: int = 0

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> CloneShown:
        """Those of a row with `begun` and `port` beside its columns."""
        state = str(row["STATE"])
        has_come = state == "Completed" and row["DESTINATION"] == OWN_DATA
        begun = str(row["begun"]) if has_come else ""
        return cls(begun, state, str(row["BEGIN_TIME"]), str(row["SOURCE"]), int(row["port"]))

    @property
    def is_settled(self) -> bool:
        """Whether no other clone may have come as far as its coordinates."""
        return self.begun is not None and self.state != "In Progress"

    def is_in(self, answer: Mapping[str, Any]) -> bool:
        """Whether an answer to a collection shows the same."""
        if any(part.get("part") == "clone_status" for part in answer.get("unread") or ()):
            return False
        row = answer.get("clone_status") or {}
        return (row.get("STATE", ""), row.get("BEGIN_TIME", "")) == (self.state, self.begin_time)


NOT_SHOWN = CloneShown(None)


def donor_of(
    clone: CloneShown, recipient: ServerSettings, servers: Iterable[ServerSettings]
) -> str | None:
    """Which of the servers is at the address that a recipient has cloned from; None: not known.

    A loopback address is of the recipient's own machine. It names a server only where the
    recipient is at the port that it listens on: else something forwards ports, and others too.
    """
    host, _, port = clone.source.rpartition(":")
    host = host.strip("[]").lower()
    if host in LOOPBACK:
        if recipient.unix_socket is None and recipient.port != clone.port:
            return None
        host = recipient.host
    found = [
        server.name
        for server in servers
        if server.name != recipient.name
        and server.unix_socket is None
        and (_machine(server.host), str(server.port)) == (_machine(host), port)
    ]
    return found[0] if len(found) == 1 else None


def _machine(host: str) -> str:
    host = host.lower()
    return "localhost" if host in LOOPBACK else host
