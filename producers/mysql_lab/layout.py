"""Which servers the lab has, and who replicates from whom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

COMMON_OPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "gtid-mode": "ON",
        "enforce-gtid-consistency": "ON",
        "log-bin": "binlog",
        "relay-log": "relay",
        "sync-binlog": "1",
        "innodb-flush-log-at-trx-commit": "1",
        # Small, so that five servers fit into a laptop's memory and start fast.
        "innodb-buffer-pool-size": "48M",
        "innodb-redo-log-capacity": "32M",
        # The system's contexts for asynchronous writes (fs.aio-max-nr) are few, and a server that
        # gets none does not start.
        "innodb-use-native-aio": "OFF",
        # Few commit at once: where no threads write the redo log for them, the five servers take
        # about a third less of the processors for a commit.
        "innodb-log-writer-threads": "OFF",
        "table-open-cache": "200",
        "max-connections": "100",
        # A replica sees within seconds that its source has gone; a lock is not waited for long.
        "replica-net-timeout": "4",
        "innodb-lock-wait-timeout": "2",
        # A MyISAM table that a crash has left open is repaired when it is used again.
        "myisam-recover-options": "BACKUP,FORCE",
    }
)
INITIALISE_OPTIONS: Mapping[str, str] = MappingProxyType(
    {
        name: COMMON_OPTIONS[name]
        for name in (
            "innodb-redo-log-capacity",
            "innodb-buffer-pool-size",
            "innodb-use-native-aio",
        )
    }
)


@dataclass(frozen=True, slots=True)
class LabServer:
    """A server of the lab.

    Attributes:
        name: our key of it.
        server_id: the server's id; its port is the lab's first port and this, less one.
        own_options: server options by name, beside the common ones.
    """

    name: str
    server_id: int
    own_options: Mapping[str, str]

    @property
    def options(self) -> dict[str, str]:
        """All its server options, by name."""
        return {**COMMON_OPTIONS, "server-id": str(self.server_id), **self.own_options}

    def port(self, base_port: int) -> int:
        """The port it listens on."""
        return base_port + self.server_id - 1


@dataclass(frozen=True, slots=True)
class LabChannel:
    """A replication channel of the lab.

    Attributes:
        replica: the name of the server that has the channel.
        source: the name of the server that it replicates from.
        channel_name: the channel's name; the default channel's is empty.
    """

    replica: str
    source: str
    channel_name: str = ""


def _replica(workers: int, relay_log_recovery: str = "ON") -> Mapping[str, str]:
    return MappingProxyType(
        {
            "read-only": "ON",
            "replica-parallel-workers": str(workers),
            "relay-log-recovery": relay_log_recovery,
        }
    )


SOURCE_A, SOURCE_B = "source-a", "source-b"
REPLICA_1, REPLICA_2, HUB = "replica-1", "replica-2", "hub"

SERVERS = (
    LabServer(SOURCE_A, 1, MappingProxyType({})),
    LabServer(REPLICA_1, 2, _replica(4)),
    # No workers and the default of relay_log_recovery: the applier of old, and its positions.
    LabServer(REPLICA_2, 3, _replica(0, "OFF")),
    # With threads that write its redo log, as servers have them by default.
    LabServer(SOURCE_B, 4, MappingProxyType({"innodb-log-writer-threads": "ON"})),
    LabServer(HUB, 5, _replica(2)),
)
CHANNELS = (
    LabChannel(REPLICA_1, SOURCE_A),
    LabChannel(REPLICA_2, REPLICA_1),
    LabChannel(HUB, SOURCE_A, "source_a"),
    LabChannel(HUB, SOURCE_B, "source_b"),
)
SOURCES = (SOURCE_A, SOURCE_B)
NAMES = tuple(server.name for server in SERVERS)


def channels_of(replica: str) -> tuple[LabChannel, ...]:
    """The channels that a server has."""
    return tuple(channel for channel in CHANNELS if channel.replica == replica)


def replicas_of(source: str) -> tuple[LabChannel, ...]:
    """The channels that replicate from a server."""
    return tuple(channel for channel in CHANNELS if channel.source == source)
