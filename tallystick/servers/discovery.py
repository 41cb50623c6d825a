"""What the servers of a fleet are, before they are followed.

What each is, what its account may do, who replicates from whom, whether two names are one server,
and with which binary log file a source's journal is to begin.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import combinations

from tallystick.errors import MisuseError
from tallystick.producers.mysql.collection import Collector
from tallystick.producers.mysql.errors import MysqlError, RsaMissingError, UnsupportedServerError
from tallystick.producers.mysql.rights import RightHeld
from tallystick.producers.mysql.same_server import is_one_server
from tallystick.producers.mysql.settings import ServerSettings

PROBES_MAX = 16
OLDER_FILES_BYTES_MAX = 2**31
"""How much of the binary log before the present file is read: one full file, and some more."""


@dataclass(slots=True)
class DiscoveredServer:
    """What was learned of one server.

    Attributes:
        settings: How to connect to it.
        version: What it is; empty when it could not be asked.
        account: The MySQL account of the session.
        sources: server_uuid of the source of each of its channels.
        source_files: In which binary log files of which sources it is: server_uuid and file.
        binary_logs: Its own binary log files, oldest first, with their sizes.
        server_uuid: Its own.
        rights: What the account may do.
        problem: Why it could not be asked, empty when it could.
        rows: How many rows of log_status it returned.
        binlog_events: How many events of its binary log were read.
        relay_events: How many of its relay logs.
        unread: What could not be read, by part, with the server's error.
    """

    settings: ServerSettings
    version: str = ""
    account: str = ""
    server_uuid: str = ""
    sources: tuple[str, ...] = ()
    source_files: tuple[tuple[str, str], ...] = ()
    binary_logs: dict[str, int] = field(default_factory=dict)
    rights: list[RightHeld] = field(default_factory=list)
    problem: str = ""
    rows: int = 0
    binlog_events: int = 0
    relay_events: int = 0
    unread: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Our key of the server."""
        return self.settings.name

    @property
    def missing_rights(self) -> list[RightHeld]:
        """Those that the account lacks, or of which that is not known."""
        return [held for held in self.rights if not held.is_held]


def discover(settings: Sequence[ServerSettings]) -> tuple[DiscoveredServer, ...]:
    """Ask each server what it is and what its account may do.

    Raises:
        UnsupportedServerError: One of them is no MySQL, or too old.
        RsaMissingError: The password needs RSA, and its package is not installed.
        MysqlError: None of them can be asked.
        MisuseError: Two of them are one server.
    """
    servers = _discover_all(settings, probe)
    if all(server.problem for server in servers):
        raise MysqlError("\n".join(server.problem for server in servers))
    return servers


def discover_reachable(settings: Sequence[ServerSettings]) -> tuple[DiscoveredServer, ...]:
    """Ask those servers that are there, of whatever kind the others are.

    Raises:
        RsaMissingError: The password needs RSA, and its package is not installed.
        MisuseError: Two of them are one server.
    """
    return _discover_all(settings, _probe_any)


def _discover_all(
    settings: Sequence[ServerSettings], asked: Callable[[ServerSettings], DiscoveredServer]
) -> tuple[DiscoveredServer, ...]:
    # Side by side: one that is away takes seconds to time out.
    with ThreadPoolExecutor(max_workers=PROBES_MAX) as pool:
        servers = tuple(pool.map(asked, settings))
    refuse_repeated(servers)
    return servers


def _probe_any(settings: ServerSettings) -> DiscoveredServer:
    try:
        return probe(settings)
    except UnsupportedServerError as error:
        return DiscoveredServer(settings, problem=str(error))


def probe(settings: ServerSettings) -> DiscoveredServer:
    """Ask one server what it is and what its account may do.

    Raises:
        UnsupportedServerError: It is no MySQL, or too old.
        RsaMissingError: The password needs RSA, and its package is not installed.
    """
    server = DiscoveredServer(settings)
    collector = Collector(settings)
    try:
        start_body = collector.start_body()
        server.version, server.server_uuid = start_body["version"], start_body["server_uuid"]
        server.account = collector.account()
        server.rights = collector.rights()
        server.sources = tuple(
            body["source_uuid"] for body in collector.channels() if "source_uuid" in body
        )
        server.source_files = tuple(collector.source_files())
        server.binary_logs = collector.binary_logs()
    except (RsaMissingError, UnsupportedServerError):
        raise
    except MysqlError as error:
        server.problem = str(error)
    finally:
        collector.close()
    return server


def refuse_repeated(servers: Sequence[DiscoveredServer]) -> None:
    """Refuse two names of one server: each would seem to have the other's server_uuid.

    Raises:
        MisuseError: There are such names.
    """
    holders: dict[str, list[DiscoveredServer]] = defaultdict(list)
    for server in servers:
        if server.server_uuid:
            holders[server.server_uuid].append(server)
    for server_uuid, named in holders.items():
        for one, other in combinations(named, 2):
            if is_one_server(one.settings, other.settings):
                raise MisuseError(
                    f"{one.name!r} ({one.settings.address}) and {other.name!r}"
                    f" ({other.settings.address}) are one server, with the server_uuid"
                    f" {server_uuid}; expected each server under one name"
                )


def first_files(servers: Sequence[DiscoveredServer]) -> dict[str, str]:
    """The binary log file that each server's journal is to begin with, by our key of the server.

    That is the oldest one in which a replica still is: after a restart or rotation of an idle
    source its replicas are in a file before the present one, and their positions can be judged
    by what is there only. No more than ``OLDER_FILES_BYTES_MAX`` before the present file.
    """
    known_files = {file for server in servers for file in server.source_files}
    first = {}
    for server in servers:
        older_bytes = 0
        for file, size in list(reversed(server.binary_logs.items()))[1:]:
            older_bytes += size
            if older_bytes > OLDER_FILES_BYTES_MAX:
                break
            if (server.server_uuid, file) in known_files:
                first[server.name] = file
    return first


def asking_order(servers: Sequence[DiscoveredServer]) -> list[list[DiscoveredServer]]:
    """Servers in groups, each group before the sources of its servers.

    Servers that replicate in a ring come in the order of the settings.
    """
    by_uuid = {server.server_uuid: server for server in servers if server.server_uuid}
    left = list(servers)
    groups: list[list[DiscoveredServer]] = []
    while left:
        needed = {id(by_uuid[uuid]) for each in left for uuid in each.sources if uuid in by_uuid
                  and by_uuid[uuid] is not each}  # fmt: skip
        group = [server for server in left if id(server) not in needed] or left[:1]
        groups.append(group)
        left = [server for server in left if server not in group]
    return groups
