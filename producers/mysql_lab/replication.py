"""The lab's replication: channels are made once, watched, and stopped or started for a fault."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from tallystick.producers.mysql_lab.accounts import REPLICATION, Accounts
from tallystick.producers.mysql_lab.errors import LabError
from tallystick.producers.mysql_lab.layout import CHANNELS, LabChannel, channels_of
from tallystick.producers.mysql_lab.sessions import HOST, Address, Session, session

SETTLE_DEADLINE_S = 30.0
POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class ChannelStatus:
    """What a replica reports of one channel.

    Attributes:
        channel_name: the channel's name; the default channel's is empty.
        source_port: the port of its source.
        receiver: Replica_IO_Running: Yes, No or Connecting.
        applier: Replica_SQL_Running: Yes or No.
        error: the last error of either, empty when there is none.
    """

    channel_name: str
    source_port: int
    receiver: str
    applier: str
    error: str

    @property
    def is_running(self) -> bool:
        """Whether it receives and applies."""
        return self.receiver == self.applier == "Yes"


def channel_statuses(replica: Session) -> list[ChannelStatus]:
    """Asks a server for its channels."""
    return [
        ChannelStatus(
            str(row["Channel_Name"]),
            int(row["Source_Port"]),
            str(row["Replica_IO_Running"]),
            str(row["Replica_SQL_Running"]),
            " ".join(f"{row['Last_IO_Error']} {row['Last_SQL_Error']}".split()),
        )
        for row in replica.rows("SHOW REPLICA STATUS")
    ]


def make_channels(addresses: Mapping[str, Address], accounts: Accounts) -> None:
    """Makes the channels of the layout and starts them; returns when they run.

    Raises:
        LabError: a server refuses, or a channel does not run in time.
    """
    for channel in CHANNELS:
        with session(addresses[channel.replica]) as replica:
            make_channel(replica, addresses[channel.source], accounts, channel.channel_name)
    wait_for_channels(addresses)


def make_channel(replica: Session, source: Address, accounts: Accounts, channel_name: str) -> None:
    """Makes a channel that asks by GTID set, and starts it.

    Raises:
        LabError: the server refuses.
    """
    replica.run(
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST = %s, SOURCE_PORT = %s, SOURCE_USER = %s,"
        " SOURCE_PASSWORD = %s, SOURCE_AUTO_POSITION = 1, SOURCE_SSL = 1, SOURCE_SSL_CA = %s,"
        " SOURCE_CONNECT_RETRY = 1, SOURCE_RETRY_COUNT = 86400, SOURCE_HEARTBEAT_PERIOD = 1"
        " FOR CHANNEL %s",
        (
            HOST,
            source.port,
            REPLICATION,
            accounts.replication,
            # Every server's copy has it, relative to its own data directory.
            "ca.pem",
            channel_name,
        ),
    )
    start_channel(replica, channel_name)


def start_channel(replica: Session, channel_name: str) -> None:
    """Starts receiver and applier of a channel."""
    replica.run("START REPLICA FOR CHANNEL %s", (channel_name,))


def stop_channel(replica: Session, channel_name: str) -> None:
    """Stops receiver and applier of a channel."""
    replica.run("STOP REPLICA FOR CHANNEL %s", (channel_name,))


def wait_for_channels(
    addresses: Mapping[str, Address], deadline_s: float = SETTLE_DEADLINE_S
) -> None:
    """Returns when every channel of the layout receives and applies.

    Raises:
        LabError: one does not in time; the message has what the replica reports of it.
    """
    end = time.monotonic() + deadline_s
    for name in dict.fromkeys(channel.replica for channel in CHANNELS):
        with session(addresses[name]) as replica:
            while True:
                found = channel_statuses(replica)
                if len(found) == len(channels_of(name)) and all(one.is_running for one in found):
                    break
                if time.monotonic() >= end:
                    raise LabError(f"Replication does not run on {name!r}: {_status_text(found)}")
                time.sleep(POLL_S)


def wait_until_applied(
    source: Session, replica: Session, channel: LabChannel, deadline_s: float = SETTLE_DEADLINE_S
) -> str:
    """Returns what the source has executed, when the replica has too.

    Raises:
        LabError: the replica does not get there in time.
    """
    wanted = source.gtid_executed()
    # WAIT_FOR_EXECUTED_GTID_SET answers 1 at its own deadline, in seconds.
    if replica.value("SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, %s)", (wanted, deadline_s)) != 0:
        raise LabError(
            f"{channel.replica!r} has not executed all of {channel.source!r} within "
            f"{deadline_s:.0f} s: {_status_text(channel_statuses(replica))}"
        )
    return wanted


def _status_text(statuses: list[ChannelStatus]) -> str:
    return "; ".join(
        f"channel {one.channel_name!r}: receiver {one.receiver}, applier {one.applier}, "
        f"{one.error or 'no error'}"
        for one in statuses
    )
