"""Master_info: what the receiver of a channel knows, and when it is stored (REQ-3).

The position that is read, and how to reach the source: the 33 columns of slave_master_info.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Final

from tallystick.producers.simulator.replication_info.rpl_info_fields import (
    NUMBER_OF_LINES,
    RplInfoFields,
)
from tallystick.producers.simulator.server.channels import Receiver

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallystick.producers.simulator.replication_info.rpl_info_fields import Columns
    from tallystick.producers.simulator.replication_info.rpl_info_handler import (
        RplInfoHandler,
        Written,
    )
    from tallystick.producers.simulator.server.channels import Channel

TABLE: Final = "slave_master_info"
OPTION: Final = "master_info_repository"
COLUMNS: Final[Columns] = (
    (NUMBER_OF_LINES, int),
    ("Master_log_name", str),
    ("Master_log_pos", int),
    ("Host", str),
    ("User_name", str),
    ("User_password", str),
    ("Port", int),
    ("Connect_retry", int),
    ("Enabled_ssl", int),
    ("Ssl_ca", str),
    ("Ssl_capath", str),
    ("Ssl_cert", str),
    ("Ssl_cipher", str),
    ("Ssl_key", str),
    ("Ssl_verify_server_cert", int),
    ("Heartbeat", float),
    ("Bind", str),
    ("Ignored_server_ids", str),
    ("Uuid", str),
    ("Retry_count", int),
    ("Ssl_crl", str),
    ("Ssl_crlpath", str),
    ("Enabled_auto_position", int),
    ("Channel_name", str),
    ("Tls_version", str),
    ("Public_key_path", str),
    ("Get_public_key", int),
    ("Network_namespace", str),
    ("Master_compression_algorithm", str),
    ("Master_zstd_compression_level", int),
    ("Tls_ciphersuites", str),
    ("Source_connection_auto_failover", int),
    ("Gtid_only", int),
)
_ABSENT: Final[Mapping[str, Any]] = dict.fromkeys(name for name, _ in COLUMNS)
PASSWORD: Final = "User_password"  # noqa: S105 - the name of a column
"""The one column that never leaves the server."""


class MasterInfo:
    """What the receiver keeps of a channel.

    Attributes:
        handler: Where it is stored.
        connection: What CHANGE REPLICATION SOURCE said, by column, with every column: the server's
            own defaults where it said nothing, whatever defaults the table's columns have (REQ-1).
    """

    def __init__(self, handler: RplInfoHandler, connection: dict[str, Any]) -> None:
        self.handler = handler
        self.connection = connection

    def fields(self, channel: Channel) -> RplInfoFields:
        """What a write stores now."""
        ignored = channel[Receiver].ignore_server_ids
        return RplInfoFields(
            COLUMNS,
            self.connection
            | {
                NUMBER_OF_LINES: len(COLUMNS),
                "Master_log_name": channel[Receiver].read[0],
                "Master_log_pos": channel[Receiver].read[1],
                "Ignored_server_ids": " ".join(map(str, (len(ignored), *ignored))),
                "Uuid": channel.source.server_uuid,
                "Enabled_auto_position": int(channel.auto_position),
                "Channel_name": channel.name,
                "Gtid_only": 0,
            },
        )

    def flush(self, channel: Channel, *, force: bool, count: int = 1) -> Written | None:
        """flush_info(): store the position read, at once or every sync_source_info events."""
        period = int(channel.replica.variables.get("sync_source_info", 0))
        if not force and self.handler.is_skipped(period, count):
            return None
        return self.handler.flush_info(
            self.fields(channel), force=force, sync_period=period, count=count
        )

    def stored(self) -> tuple[str, int]:
        """The coordinates in the repository; those of a fresh row without data."""
        fields = self.handler.init_info()
        if fields is None:
            return "", 4
        return fields.values["Master_log_name"], fields.values["Master_log_pos"]

    def read_back(self, channel: Channel) -> None:
        """init_info(): begin with what is stored.

        Raises:
            TornInfoError: A file cannot be read.
        """
        fields = self.handler.init_info()
        if fields is None:
            channel[Receiver].read = ("", 4)
            return
        values = fields.values
        self.connection = dict(values)
        channel[Receiver].read = (values["Master_log_name"], values["Master_log_pos"])
        channel.auto_position = bool(values["Enabled_auto_position"])
        channel[Receiver].ignore_server_ids = tuple(
            map(int, values["Ignored_server_ids"].split()[1:])
        )


@dataclass(frozen=True, slots=True)
class _Tls:
    """One way to connect: without TLS, with the authority's certificate, with own ones."""

    enabled: int
    authority: str | None = None
    own: bool = False


_TLS = (_Tls(0), _Tls(0), _Tls(1, "ca.pem"), _Tls(1, "ca.pem", own=True))


def connection(seed: int, channel: Channel) -> dict[str, Any]:
    """How a channel reaches its source; it differs from channel to channel."""
    rng = Random(f"connection {seed} {channel.replica.instance_id} {channel.name}")
    tls = rng.choice(_TLS)
    zstd = rng.random() < 0.25
    return {
        **_ABSENT,
        "Host": channel.source.instance_id,
        "User_name": rng.choice(("replication", "repl", "replica_user")),
        PASSWORD: f"{rng.getrandbits(96):024x}",
        "Port": rng.choice((3306, 3306, 3307, 33060)),
        "Connect_retry": rng.choice((60, 60, 10)),
        "Enabled_ssl": tls.enabled,
        "Ssl_ca": tls.authority or "",
        "Ssl_capath": "/etc/mysql/ca" if tls.own else "",
        "Ssl_cert": "client-cert.pem" if tls.own else "",
        "Ssl_cipher": "ECDHE-RSA-AES256-GCM-SHA384" if tls.own else "",
        "Ssl_key": "client-key.pem" if tls.own else "",
        "Ssl_verify_server_cert": int(tls.own),
        "Heartbeat": rng.choice((30.0, 30.0, 5.0, 0.5)),
        "Bind": "",
        "Retry_count": rng.choice((86_400, 86_400, 10)),
        "Ssl_crl": "crl.pem" if tls.own else "",
        "Ssl_crlpath": "",
        "Tls_version": "TLSv1.2,TLSv1.3" if tls.enabled else "",
        "Public_key_path": "",
        "Get_public_key": int(not tls.enabled),
        "Network_namespace": "",
        "Master_compression_algorithm": "zstd,uncompressed" if zstd else "uncompressed",
        "Master_zstd_compression_level": 3,
        "Tls_ciphersuites": None,
        "Source_connection_auto_failover": 0,
    }
