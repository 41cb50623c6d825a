"""Incident stories: what happens to a few servers, told as the journals that they would write.

Everything is legal by itself, as in ``Journal``; a story does the one thing that it is about.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tallystick.coordinates.audit.replay import AuditResult, audit_history
from tallystick.coordinates.events.json_lines import blocks_from_lines
from tests.support.journals import UUID_A, UUID_B, UUID_C, Gtids, Journal, Record, RelayLog

SECOND = 1_000_000


class Group(NamedTuple):
    """A group of a binary log, and what it is made of."""

    form: str
    events: list[Record]

    @property
    def gtid(self) -> str | None:
        """None: it has none."""
        return self.events[0].get("gtid")

    @property
    def origin(self) -> Record:
        """What every log has of it."""
        return {name: self.events[0][name] for name in ("server_id", "original_commit_timestamp")}

    @property
    def end(self) -> tuple[str, int]:
        """Where it ends in that log."""
        last = self.events[-1]
        return last["file"], last["start"] + last["length"]


@dataclass
class Link:
    """A channel: which groups of the source it has received, and how many of these are applied."""

    source: Server
    auto_position: bool
    sent: int = 0
    received: list[Group] = field(default_factory=list)
    applied: int = 0
    begun: tuple[str, int] = ("", 0)
    status: Record = field(default_factory=dict)


class Server(Journal):
    """One of the servers."""

    def __init__(self, story: Story, name: str, uuid: str, server_id: int, **variables: Any):
        self.story = story
        super().__init__(
            name, uuid, server_id, max_connections=151, replica_parallel_workers=4, **variables
        )
        self.binlog.base_name = f"{name}-bin"
        self.logged: list[Group] = []
        self.links: dict[str, Link] = {}

    @property
    def ts(self) -> int:
        """The time of all servers."""
        return self.story.ts

    @ts.setter
    def ts(self, ts: int) -> None:
        self.story.ts = max(ts, self.story.ts)

    def record(self, kind: str, **fields: Any) -> Record:
        """Append a record, to the story too."""
        made = super().record(kind, **fields)
        self.story.records.append(made)
        return made

    def _log(self, form: str, gtid: str | None, **opener: Any) -> None:
        self.logged.append(Group(form, self.binlog.group(gtid, form, **opener)))

    def commit(self, count: int = 1, form: str = "rows") -> None:
        """Groups of its own clients."""
        for _ in range(count):
            self._log(form, "" if self.variables["gtid_mode"] == "ON" else None)

    def has(self, gtid: str | None) -> bool:
        """Whether it has executed a group."""
        sid, _, gno = (gtid or ":0").rpartition(":")
        return int(gno) in self.executed.numbers.get(sid, ())

    # As a replica

    def administer(self, action: str, channel: str = "", **fields: Any) -> None:
        self.record("channel", channel=channel, action=action, **fields)

    def follow(self, source: Server, channel: str = "", sent: int = 0, **fields: Any) -> None:
        """CHANGE REPLICATION SOURCE and START REPLICA; so many groups of the source are had."""
        is_auto = self.variables["gtid_mode"] == "ON"
        known = {"source_instance": source.instance, "source_uuid": source.uuid}
        self.administer("change_source", channel, auto_position=is_auto, **known, **fields)
        begun = source.logged[sent - 1].end if sent else ("", 0)
        self.links[channel] = Link(source, is_auto, sent, begun=begun)
        self.start_replica(channel)

    def start_replica(self, channel: str = "") -> None:
        for thread in ("receiver", "applier"):
            self.administer(f"start_{thread}", channel)
        self.links[channel].status = {}

    def stop_replica(self, channel: str = "") -> None:
        for thread in ("receiver", "applier"):
            self.administer(f"stop_{thread}", channel)
        self.links[channel].status = {"Replica_IO_Running": "No", "Replica_SQL_Running": "No"}

    def leave(self, channel: str = "") -> None:
        """RESET REPLICA ALL."""
        self.administer("reset_all", channel)
        del self.links[channel]
        self.relays.pop(channel, None)

    def begin_relay(self, number: int, channel: str = "") -> None:
        """Another relay log, in which nothing is; what was not applied is given up."""
        link = self.links[channel]
        begun = link.received[link.applied - 1].end if link.applied else link.begun
        self.links[channel] = Link(link.source, link.auto_position, begun=begun)
        self.relays[channel] = RelayLog(self, channel, f"{self.instance}-relay", number)
        self.relays[channel].open()

    def receive(
        self, channel: str = "", until: int | None = None, skip: tuple[int, ...] = ()
    ) -> None:
        """What the source has logged since, up to a number of groups, without some of them."""
        link = self.links[channel]
        if channel not in self.relays:
            base_name = "-".join(filter(None, (self.instance, "relay", channel)))
            self.relays[channel] = RelayLog(self, channel, base_name)
            self.relays[channel].open()
        relay, known = self.relays[channel], {group.gtid for group in link.received} - {None}
        for number, group in enumerate(link.source.logged[link.sent : until], link.sent):
            link.sent = number + 1
            is_had = link.auto_position and (self.has(group.gtid) or group.gtid in known)
            if number in skip or is_had:
                continue
            file, start = group.events[0]["file"], group.events[0]["start"]
            if relay.source is None or relay.source[0] != file:
                relay.connect(file, 4 if link.auto_position else start)
            relay.copy(group.events)
            link.received.append(group)

    def apply(
        self,
        channel: str = "",
        until: int | None = None,
        skip: tuple[int, ...] = (),
        empty: tuple[int, ...] = (),
    ) -> None:
        """What was received, up to a number of groups, without some; some without their changes."""
        link = self.links[channel]
        for number, group in enumerate(link.received[link.applied : until], link.applied):
            link.applied = number + 1
            if number in skip or self.has(group.gtid):
                continue
            form = "empty" if number in empty else group.form
            self._log(form, group.gtid, **group.origin)

    def sync(self, channel: str = "") -> None:
        self.receive(channel)
        self.apply(channel)

    def replica_status(self, **changes: Any) -> list[Record]:
        """SHOW REPLICA STATUS, as far as the story has come."""
        shown = super().replica_status(**changes)
        for row in shown:
            link = self.links[row["Channel_Name"]]
            row["Source_UUID"] = link.source.uuid
            row["Auto_Position"] = int(link.auto_position)
            if link.applied < len(link.received) or not link.received:
                done = link.received[link.applied - 1].end if link.applied else link.begun
                row["Relay_Source_Log_File"], row["Exec_Source_Log_Pos"] = done
                del row["Relay_Log_File"], row["Relay_Log_Pos"]
            row.update({"Last_IO_Errno": 0, "Last_SQL_Errno": 0} | link.status)
        return shown

    # Crashes

    def crash(self, lost: int = 0) -> None:
        """A crash, after which its last groups are gone, and a start."""
        kept = self.logged[: len(self.logged) - lost]
        for group in self.logged[len(kept) :]:
            for gtids in (self.binlog.gtids, self.executed, self.used):
                if group.gtid:
                    gtids.remove(group.gtid)
        self.logged, (file, end) = kept, kept[-1].end
        self.start(crashed=True, recovered={"file": file, "position": end})
        self.binlog.open(self.binlog.number + 1)

    def restart(self) -> None:
        self.binlog.stop()
        self.record("stop")
        self.start()
        self.binlog.open(self.binlog.number + 1)

    def reset(self) -> None:
        """RESET BINARY LOGS AND GTIDS."""
        self.record("binlog_reset")
        self.executed = Gtids()
        self.binlog.gtids = Gtids()
        self.binlog.open(1)

    def assign(self, gtids: str, count: int, *, is_seen: bool = True) -> None:
        """SET gtid_purged to the first groups of a server; rows show it, if nobody sees it."""
        self.purged = f"{gtids}:1-{count}"
        if is_seen:
            self.record("gtid_purged", added=self.purged)
        for gno in range(1, count + 1):
            self.executed.add(f"{gtids}:{gno}")


class Story:
    """Some servers, and what they have written."""

    def __init__(self) -> None:
        self.ts = 0
        self.records: list[Record] = []
        self.servers: list[Server] = []
        self.collections = 0

    def server(self, name: str, uuid: str = "", **variables: Any) -> Server:
        """One more, which has its first binary log file."""
        number = len(self.servers)
        made = Server(self, name, uuid or (UUID_A, UUID_B, UUID_C)[number], number + 1, **variables)
        self.servers.append(made)
        made.begin()
        return made

    def pair(self, gtid_mode: str = "ON") -> tuple[Server, Server]:
        """A source with three groups, its replica, which has them, and a collection."""
        source, replica = (self.server(name, gtid_mode=gtid_mode) for name in ("s", "r"))
        replica.follow(source)
        source.commit(3)
        replica.sync()
        self.rows()
        return source, replica

    def rows(self, **beside: Any) -> None:
        """A collection, replicas first, ten seconds after the one before; ``beside`` of sources."""
        self.ts += 10 * SECOND
        self.collections += 1
        for server in sorted(self.servers, key=lambda one: not one.links):
            status = server.replica_status() if server.links else []
            more = {} if server.links else beside
            row = server.row(gtid_owned="", replica_status=status, **more)
            row["collection_id"] = f"c{self.collections}"
        for server in self.servers:
            server.record("heartbeat")

    def audit(self) -> AuditResult:
        """The whole of it."""
        lines = [json.dumps(record) for record in self.records]
        return audit_history(blocks_from_lines(lines, end_heartbeats=True))
