"""Resources of a collection (WL#9452, Steps 2, 4 and 5): one wrapper for each kind of object.

A wrapper locks its object, puts what it knows into the column's JSON object, and unlocks it. It
says nothing about order or errors: that is for the query of the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tallystick.producers.simulator.log_status import latches
from tallystick.producers.simulator.log_status.latches import Latches
from tallystick.producers.simulator.server.binary_log import BinaryLog
from tallystick.producers.simulator.server.channels import Receiver
from tallystick.producers.simulator.server.gtid_state import GtidState

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.log_status.storage_engines import Handlerton
    from tallystick.producers.simulator.server.channels import Channel

LOCAL = "LOCAL"
REPLICATION = "REPLICATION"
STORAGE_ENGINES = "STORAGE_ENGINES"


class InstanceLogResource:
    """Instance_log_resource: what every resource inherits.

    Attributes:
        name: Of the resource in the journal's lock steps.
        column: That its information belongs to.
    """

    name: str
    column: str

    def __init__(self, instance: Instance, session: int, json_object: dict[str, Any]) -> None:
        self._instance = instance
        self._session = session
        self._json_object = json_object

    def lock(self) -> bool:
        """Block the resource; whether that failed."""
        raise NotImplementedError

    def unlock(self) -> None:
        """Let it go on."""
        raise NotImplementedError

    def collect_info(self) -> None:
        """Put its information into the column's object."""
        raise NotImplementedError

    def lsn(self) -> int | None:
        """Where the log of an engine ends; None for what has no LSN."""
        return None


class _LatchedResource(InstanceLogResource):
    """A resource that one latch blocks."""

    latch: str

    def lock(self) -> bool:
        self._instance[Latches].take(self.latch, self._session)
        return False

    def unlock(self) -> None:
        self._instance[Latches].release(self.latch, self._session)


class MasterInfoWrapper(_LatchedResource):
    """Instance_log_resource_mi_wrapper: a replication channel.

    It shows flushed_relay_log_info, not the end of the relay log: what the receiver has written
    but not yet put into the master info repository is left out (Step-1).
    """

    column = REPLICATION

    def __init__(
        self, instance: Instance, session: int, json_object: dict[str, Any], channel: Channel
    ) -> None:
        super().__init__(instance, session, json_object)
        self._channel = channel
        self.name = f"channel:{channel.name}"
        self.latch = latches.data_lock(channel.name)

    def collect_info(self) -> None:
        """Add the channel."""
        file, position = self._channel[Receiver].flushed
        self._json_object["channels"].append(
            {
                "channel_name": self._channel.name,
                "relay_log_file": file,
                "relay_log_position": position,
            }
        )


class BinaryLogWrapper(_LatchedResource):
    """Instance_log_resource_binlog_wrapper: MYSQL_BIN_LOG; silent while binary logging is off."""

    name = "binlog"
    column = LOCAL
    latch = latches.LOCK_LOG

    def collect_info(self) -> None:
        """Add the binary log's coordinates."""
        if self._instance[BinaryLog].is_open:
            file, position = self._instance[BinaryLog].position
            self._json_object["binary_log_file"] = file
            self._json_object["binary_log_position"] = position


class GtidStateWrapper(_LatchedResource):
    """Instance_log_resource_gtid_set_wrapper: Gtid_state, that is gtid_executed."""

    name = "gtid_state"
    column = LOCAL
    latch = latches.GLOBAL_SID_LOCK

    def collect_info(self) -> None:
        """Add gtid_executed."""
        self._json_object["gtid_executed"] = self._instance[GtidState].executed.server_text()


class HandlertonWrapper(InstanceLogResource):
    """Instance_log_resource_hton_wrapper: a storage engine, by the functions of its handlerton."""

    column = STORAGE_ENGINES

    def __init__(
        self, instance: Instance, session: int, json_object: dict[str, Any], hton: Handlerton
    ) -> None:
        super().__init__(instance, session, json_object)
        self._hton = hton
        self.name = f"engine:{hton.name}"

    def lock(self) -> bool:
        """Block the engine's log; whether the engine says that it could not."""
        lock = self._hton.lock_hton_log
        return lock is not None and lock(self._instance, self._session)

    def unlock(self) -> None:
        """Let the engine's log go on."""
        if self._hton.unlock_hton_log is not None:
            self._hton.unlock_hton_log(self._instance, self._session)

    def collect_info(self) -> None:
        """Add what the engine shows."""
        if self._hton.collect_hton_log_info is not None:
            self._hton.collect_hton_log_info(self._instance, self._json_object)

    def lsn(self) -> int | None:
        """The LSN that the engine would show now."""
        json_engines: dict[str, Any] = {}
        if self._hton.collect_hton_log_info is not None:
            self._hton.collect_hton_log_info(self._instance, json_engines)
        lsn = json_engines.get(self._hton.name, {}).get("LSN")
        return lsn if isinstance(lsn, int) else None


class InstanceLogResourceFactory:
    """Instance_log_resource_factory: wrappers of one collection, and the objects they fill."""

    def __init__(self, instance: Instance, session: int) -> None:
        self._instance = instance
        self._session = session
        self._json: dict[str, dict[str, Any]] = {
            LOCAL: {},
            REPLICATION: {"channels": []},
            STORAGE_ENGINES: {},
        }

    def wrap_channel(self, channel: Channel) -> InstanceLogResource:
        """Wrap a Master_info."""
        return MasterInfoWrapper(self._instance, self._session, self._json[REPLICATION], channel)

    def wrap_binary_log(self) -> InstanceLogResource:
        """Wrap MYSQL_BIN_LOG."""
        return BinaryLogWrapper(self._instance, self._session, self._json[LOCAL])

    def wrap_gtid_state(self) -> InstanceLogResource:
        """Wrap Gtid_state."""
        return GtidStateWrapper(self._instance, self._session, self._json[LOCAL])

    def wrap_handlerton(self, hton: Handlerton) -> InstanceLogResource:
        """Wrap a storage engine that takes part."""
        return HandlertonWrapper(self._instance, self._session, self._json[STORAGE_ENGINES], hton)

    def row(self) -> dict[str, Any]:
        """The row of performance_schema.log_status, once every wrapper has been asked."""
        return {"SERVER_UUID": self._instance.server_uuid, **self._json}
