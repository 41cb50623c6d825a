"""What was done to a replica's channels, as two answers to collections show it.

A collector does not see CHANGE REPLICATION SOURCE and RESET REPLICA; it sees that a channel has
another source, or that its relay log began anew. The records that the journal wants for it are
in front of the row that showed it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, final

from tallystick.coordinates.values.binlog import LogCoordinates, parse_log_file_name
from tallystick.coordinates.values.errors import CoordinateError, GtidSetParseError
from tallystick.coordinates.values.gtid import GtidSet

GROUP_REPLICATION = frozenset({"group_replication_applier", "group_replication_recovery"})
"""Channels that the plugin makes; no CHANGE REPLICATION SOURCE describes their source."""

_OF_SOURCE = ("Source_UUID", "Source_Host", "Source_Port", "Auto_Position")

_UNKNOWN: dict[str, Any] = dict.fromkeys((*_OF_SOURCE, "Retrieved_Gtid_Set", "read", "relay"))


@final
class ChannelWatch:
    """The channels of one replica.

    Attributes:
        known: What the last answer showed of each channel.
    """

    def __init__(self, known: Mapping[str, dict[str, Any]] | None = None) -> None:
        self.known: dict[str, dict[str, Any]] = dict(known or {})

    def note(
        self,
        body: Mapping[str, Any],
        sources: Iterable[Mapping[str, Any]],
        *,
        may_be_reset: bool = True,
    ) -> list[dict[str, Any]]:
        """Take an answer; return the ``channel`` records that belong in front of it.

        Args:
            body: Of a ``log_status`` record.
            sources: Bodies of ``change_source`` records, as the server describes its channels.
            may_be_reset: Whether a relay log may have begun anew unseen: else one that is shorter
                than it was has lost what it lacks.
        """
        status = body.get("replica_status")
        if not isinstance(status, list) or "row" not in body:
            return []
        described = {str(source["channel"]).lower(): dict(source) for source in sources}
        relays = relay_coordinates(body)
        records: list[dict[str, Any]] = []
        now: dict[str, dict[str, Any]] = {}
        for row in status:
            name, channel = _shown(row)
            channel["relay"] = _position(*relays.get(name, (None, None)))
            channel["is_empty"] = relays.get(name) == ("", 0)
            before = self.known.get(name)
            if name not in relays and before is not None:
                # Removed between status and row: what was there before is still what is known.
                channel["relay"], channel["is_empty"] = before["relay"], before.get("is_empty")
            if not channel["Source_UUID"] and before is not None:
                # Not connected since a start of the server.
                channel["Source_UUID"] = before["Source_UUID"]
            is_reported = before is not None and before.get("is_renewed")
            action = None if before is None or is_reported else _action(before, channel)
            if action == "reset" and not may_be_reset:
                action = None
            if before is None or action == "change_source":
                body = {"channel": name, "auto_position": channel["Auto_Position"] in (1, "1")}
                records.append({**body, **described.get(name, {}), "action": "change_source"})
            elif action is not None:
                records.append({"channel": name, "action": action})
            elif channel["executed"] is None:
                channel["executed"] = before.get("executed")
                channel["has_lost_gtids"] = before.get("has_lost_gtids")
            now[name] = channel
        gone = sorted(self.known.keys() - now.keys())
        records += [{"channel": name, "action": "reset_all"} for name in gone]
        self.known = now
        return records

    def renewed(self, name: str) -> None:
        """What was done to the channel has been recorded: the next answer is no news of it."""
        self.known[name] = {**self.known.get(name, _UNKNOWN), "is_renewed": True}

    def removed(self, name: str) -> None:
        """The channel is gone, and that has been recorded."""
        self.known.pop(name, None)

    def lost_gtids(self) -> None:
        """The replica's binary log began anew, and with it what it has executed."""
        for name, channel in self.known.items():
            self.known[name] = {**channel, "has_lost_gtids": True}

    def forget_received(self, name: str) -> None:
        """The channel's relay log begins anew, and that has been recorded."""
        channel = self.known.get(name)
        if channel is not None:
            self.known[name] = {**channel, "Retrieved_Gtid_Set": "", "relay": None, "read": None}


def went_on(status: Iterable[Mapping[str, Any]], again: Iterable[Mapping[str, Any]]) -> bool:
    """Whether no channel began anew between two SHOW REPLICA STATUS, as far as they show it."""
    before, now = dict(map(_shown, status)), dict(map(_shown, again))
    return before.keys() == now.keys() and not any(
        _action(before[name], channel) for name, channel in now.items()
    )


def _shown(row: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """A channel's name, and what a row of SHOW REPLICA STATUS has of it."""
    return str(row.get("Channel_Name") or "").lower(), {
        **{key: row.get(key) for key in _OF_SOURCE},
        "Retrieved_Gtid_Set": row.get("Retrieved_Gtid_Set"),
        "read": _position(row.get("Source_Log_File"), row.get("Read_Source_Log_Pos")),
        "relay": _position(row.get("Relay_Log_File"), row.get("Relay_Log_Pos")),
        "is_empty": False,
        "executed": _position(row.get("Relay_Source_Log_File"), row.get("Exec_Source_Log_Pos")),
    }


def relay_coordinates(body: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Relay log file and position of each channel that the row of an answer names."""
    replication = body["row"].get("REPLICATION") or {}
    channels = replication.get("channels") if isinstance(replication, dict) else None
    return {
        str(channel.get("channel_name", "")).lower(): (
            channel.get("relay_log_file"),
            channel.get("relay_log_position"),
        )
        for channel in channels or ()
        if isinstance(channel, dict)
    }


def read_coordinates(status: Iterable[Mapping[str, Any]]) -> dict[str, LogCoordinates]:
    """Up to where the receivers that run have read their sources' logs, by channel.

    Of one that does not run, these may be coordinates that CHANGE REPLICATION SOURCE has named.
    """
    each = (_shown(row) for row in status if row.get("Replica_IO_Running") == "Yes")
    return {name: LogCoordinates(*channel["read"]) for name, channel in each if channel["read"]}


def _position(file: Any, position: Any) -> list[Any] | None:
    try:
        base_name, number = parse_log_file_name(str(file))
        return [base_name, number, int(position)]
    except (CoordinateError, TypeError, ValueError):
        return None


def _action(before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    changed = {key for key in _OF_SOURCE if before[key] != now[key]}
    if not before["Source_UUID"]:
        changed.discard("Source_UUID")
    if changed and not _keeps_relay_log(before, now, changed):
        return "change_source"
    if now["is_empty"]:
        return None if before["is_empty"] else "reset"
    if _has_fallen(before["relay"], now["relay"]) or _has_shrunk(before, now):
        return "reset"
    if before.get("has_lost_gtids") and _has_fallen(before.get("executed"), now["executed"]):
        # Received from the beginning, the relay log may have outgrown the one before.
        return "reset"
    if now["Auto_Position"] not in (1, "1") and _has_fallen(before["read"], now["read"]):
        return "reconnect"
    return None


def _keeps_relay_log(before: Mapping[str, Any], now: Mapping[str, Any], changed: set[str]) -> bool:
    """Whether no command gave the channel its other source: its relay logs go on.

    Behind one address another server may answer, and SOURCE_CONNECTION_AUTO_FAILOVER changes the
    address, too. The rows name the source; CHANGE REPLICATION SOURCE TO another address gives up
    what was retrieved.
    """
    if "Auto_Position" in changed or not now["relay"]:
        return False
    is_by_address = changed == {"Source_UUID"}
    if not (is_by_address or before["Retrieved_Gtid_Set"]):
        return False
    return not (_has_fallen(before["relay"], now["relay"]) or _has_shrunk(before, now))


def _has_fallen(before: list[Any] | None, now: list[Any] | None) -> bool:
    return bool(before and now and before[0] == now[0] and now[1:] < before[1:])


def _has_shrunk(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """A receiver only adds to what it has retrieved, until it begins anew."""
    try:
        old = GtidSet.parse(before["Retrieved_Gtid_Set"])
        new = GtidSet.parse(now["Retrieved_Gtid_Set"])
    except (GtidSetParseError, TypeError):
        return False
    return not old <= new
