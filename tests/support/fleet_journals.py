"""Facts of small fleets, written by hand: what the fleet's audit reads, without instance audits."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np

from tallystick.coordinates.audit.fleet import FleetAudit, FleetOutput
from tallystick.coordinates.audit.fleet_events import FleetEvent, FleetEventKind
from tallystick.coordinates.results import gravest
from tests.support.journals import show

A = "aaaaaaaa-0000-0000-0000-000000000001"
B = "bbbbbbbb-0000-0000-0000-000000000002"
C = "cccccccc-0000-0000-0000-000000000003"
EVENT_LENGTH = 100
EVENTS_OF_GROUP = 3
GROUP_LENGTH = EVENT_LENGTH * EVENTS_OF_GROUP
HEADER_END = 157


def end_of(count: int) -> int:
    """Where the `count`-th group of a file ends."""
    return HEADER_END + count * GROUP_LENGTH


class Clock:
    """One time for the whole fleet; each event takes the next."""

    def __init__(self) -> None:
        self._next = itertools.count(1)

    def tick(self) -> int:
        return next(self._next)

    def advance(self, elapsed_us: int) -> None:
        """Let time pass."""
        self._next = itertools.count(next(self._next) + elapsed_us)


class Journal:
    """Writes one instance's events; every call is a moment of its own."""

    def __init__(self, clock: Clock, name: str, uuid: str, server_id: int) -> None:
        self.clock = clock
        self.name = name
        self.uuid = uuid
        self.server_id = server_id
        self.fleet_events: list[FleetEvent] = []
        self.lineage = 0
        self.base_name = f"{name}-bin"
        self.file = 0
        self.position = 0
        self.channel_lineages: dict[str, int] = {}
        self.collections = 0
        self.commit_times: dict[str, int] = {}
        self.commit_ts = 1000
        self.empty: set[str] = set()

    def fleet_event(
        self, kind: FleetEventKind, arrays: dict[str, Any] | None = None, **body: Any
    ) -> FleetEvent:
        """Any event."""
        ts = self.clock.tick()
        made = FleetEvent(kind, self.name, 0, len(self.fleet_events), ts, body, arrays or {})
        self.fleet_events.append(made)
        return made

    def boot(
        self,
        *,
        data_lineage: int = 0,
        cluster: str | None = None,
        version: str = "8.0.31",
        **variables: Any,
    ) -> None:
        self.fleet_event(
            FleetEventKind.BOOT,
            server_uuid=self.uuid,
            server_id=self.server_id,
            version=version,
            cluster=cluster,
            variables=variables,
            data_lineage=data_lineage,
            binlog_lineage=self.lineage,
        )

    def time(self) -> None:
        self.fleet_event(FleetEventKind.TIME)

    def written_by(self, clock: str) -> None:
        self.fleet_event(FleetEventKind.OBSERVER, clock=clock)

    def gap(self) -> None:
        self.lineage += 1
        self.fleet_event(FleetEventKind.GAP, binlog_lineage=self.lineage)

    def assign(self, gtids: str) -> None:
        self.fleet_event(FleetEventKind.GTID_PURGED, added=gtids)

    # The binary log

    def _place(self) -> dict[str, Any]:
        return {
            "binlog_lineage": self.lineage,
            "base_name": self.base_name,
            "file_number": self.file,
        }

    @property
    def file_name(self) -> str:
        return f"{self.base_name}.{self.file:06}"

    def open_file(self, previous: str = "") -> None:
        """The next file, with its two header events."""
        self.file += 1
        self.position = 4
        self._events([126], [], {})
        self.fleet_event(FleetEventKind.PREVIOUS, **self._place(), gtid_set=previous)
        self._events([HEADER_END], [], {})

    def log(self, *gtids: str, server_id: int | None = None) -> None:
        """Groups of three events each; "" is an anonymous one."""
        if not gtids:
            return
        first = self.position
        ends = [first + EVENT_LENGTH * (n + 1) for n in range(EVENTS_OF_GROUP * len(gtids))]
        self._events(ends, list(gtids), {"server_id": server_id})

    def event(self, length: int = 44) -> None:
        """An event outside groups, or the first of a group that goes on."""
        self._events([self.position + length], [], {})

    def _events(self, ends: list[int], gtids: list[str], options: dict[str, Any]) -> None:
        indices = range(EVENTS_OF_GROUP - 1, EVENTS_OF_GROUP * len(gtids), EVENTS_OF_GROUP)
        columns = self._columns(gtids, options.get("server_id"))
        self.fleet_event(
            FleetEventKind.LOGGED,
            {
                "event_ends": np.array(ends, dtype=np.int64),
                "group_event": np.array(list(indices), dtype=np.int32),
                **columns[1],
            },
            **self._place(),
            start=self.position,
            sids=columns[0],
        )
        self.position = ends[-1]

    def _columns(self, gtids: list[str], server_id: int | None) -> tuple[list[str], dict[str, Any]]:
        sids = sorted({g.rpartition(":")[0] for g in gtids if g})
        own = self.server_id if server_id is None else server_id
        return sids, {
            "group_sid": np.array(
                [sids.index(g.rpartition(":")[0]) if g else -1 for g in gtids], dtype=np.int32
            ),
            "group_gno": np.array(
                [int(g.rpartition(":")[2]) if g else -1 for g in gtids], dtype=np.int64
            ),
            "group_server_id": np.full(len(gtids), own, dtype=np.int64),
            "group_commit_ts": np.array(
                [self.commit_times.get(g, self.commit_ts) for g in gtids], dtype=np.int64
            ),
            "group_is_empty": np.array([g in self.empty for g in gtids], dtype=np.bool_),
        }

    def end_file(self, end: int | None = None, left_out: int = 0) -> None:
        """The file ends here, or at ``end``; numbers are left out before the next one."""
        self.fleet_event(
            FleetEventKind.FILE_END,
            **self._place(),
            end=self.position if end is None else end,
            next_number=self.file + 1 + left_out,
        )

    def rotate(self, previous: str) -> None:
        """ROTATE, and the next file."""
        self.event()
        self.end_file()
        self.open_file(previous)

    def reset(self, reason: str = "reset") -> None:
        """RESET MASTER."""
        self.lineage += 1
        self.fleet_event(FleetEventKind.LINEAGE, binlog_lineage=self.lineage, reason=reason)
        self.file = 0
        self.open_file()

    # Channels

    def administer(self, action: str, channel: str = "", **fields: Any) -> None:
        if action in ("change_source", "reset", "reset_all", "relay_log_recovery"):
            self.channel_lineages[channel] = self.channel_lineages.get(channel, 0) + 1
        self.fleet_event(
            FleetEventKind.CHANNEL,
            channel=channel,
            action=action,
            channel_lineage=self.channel_lineages.get(channel, 0),
            **fields,
        )

    def follow(self, source: Journal, channel: str = "", **fields: Any) -> None:
        """CHANGE REPLICATION SOURCE and START REPLICA."""
        self.administer(
            "change_source",
            channel,
            source_instance=source.name,
            source_uuid=source.uuid,
            **fields,
        )
        self.administer("start_receiver", channel)

    def receive(
        self,
        source: Journal,
        *groups: tuple[int, str],
        channel: str = "",
        file: int | None = 1,
        server_id: int | None = None,
        follows_hole: bool = False,
        sender: int | None = None,
    ) -> None:
        """Groups (which of the file, GTID), or with a position of its own above 1000."""
        sids, columns = self._columns(
            [gtid for _, gtid in groups], source.server_id if server_id is None else server_id
        )
        ends = [n if n > 1000 or n < 0 else end_of(n) for n, _ in groups]
        self.fleet_event(
            FleetEventKind.RECEIVED,
            {"group_source_end": np.array(ends, dtype=np.int64), **columns},
            channel=channel,
            channel_lineage=self.channel_lineages.get(channel, 0),
            source_base_name=None if file is None else source.base_name,
            source_file_number=-1 if file is None else file,
            follows_hole=follows_hole,
            sender_server_id=sender,
            sids=sids,
        )

    # Rows

    def status(
        self,
        executed: str | None = "",
        *channels: dict[str, Any],
        purged: str | None = "",
        named: str = "",
        logs_everything: bool = True,
        own_pending: str | None = "",
        clone_status: dict[str, Any] | None = None,
    ) -> FleetEvent:
        self.collections += 1
        return self.fleet_event(
            FleetEventKind.STATUS,
            collection_id=f"c{self.collections}",
            requested_at=None,
            received_at=None,
            behind_us=0,
            server_uuid=self.uuid,
            server_id=self.server_id,
            binlog_lineage=self.lineage,
            binary_log_file=None,
            binary_log_position=None,
            gtid_executed=executed,
            gtid_purged=purged,
            gtid_purged_named=named,
            clone_status=clone_status,
            logs_everything=logs_everything,
            own_pending=own_pending,
            channels=list(channels),
        )

    def says(self, source: Journal | None, retrieved: str | None = "", **fields: Any) -> dict:
        """What a row of this instance says of one channel."""
        name = fields.pop("channel", "")
        return {
            "channel": name,
            "channel_lineage": self.channel_lineages.get(name, 0),
            "source_uuid": None if source is None else source.uuid,
            "source_instance": None,
            "auto_position": True,
            "filtered": False,
            "ignores_servers": fields.get("filtered", False),
            "retrieved_gtid_set": retrieved,
            "read_source_log_file": None,
            "read_source_log_pos": None,
            "exec_source_log_file": None,
            "exec_source_log_pos": None,
        } | fields


def fleet_of_two(
    *, groups: int = 3, has_row: bool = True, auto_position: bool = True
) -> tuple[Journal, Journal]:
    """A source that has logged some groups, with a row of them, and a replica that follows it."""
    clock = Clock()
    source, replica = Journal(clock, "s", A, 1), Journal(clock, "r", B, 2)
    for journal in (source, replica):
        journal.boot()
        journal.open_file()
    replica.follow(source, auto_position=auto_position)
    source.log(*(f"{A}:{n + 1}" for n in range(groups)))
    if has_row:
        source.status(f"{A}:1-{groups}")
    return source, replica


def audit(*journals: Journal, **options: Any) -> FleetOutput:
    """The whole history at once, in the order of the journals, to its end."""
    fleet = FleetAudit(**options)
    result = FleetOutput()
    for output in (*(fleet.absorb(journal.fleet_events) for journal in journals), fleet.finish()):
        result.findings += output.findings
        result.observations += output.observations
        result.checks += output.checks
    result.checks = gravest(result.checks)
    show(result.findings, result.observations, (one.check for one in result.checks))
    return result


def names(output: FleetOutput) -> list[str]:
    """Rules of the findings."""
    return sorted(finding.rule for finding in output.findings)


def split_logged(event: FleetEvent, at: int) -> list[FleetEvent]:
    """One LOGGED event cut before the event `at` into two of the same moment."""
    if event.kind is not FleetEventKind.LOGGED or not 0 < at < len(event.arrays["event_ends"]):
        return [event]
    ends = event.arrays["event_ends"]
    group_event = event.arrays["group_event"]
    kept = int((group_event < at).sum())
    parts = []
    for events, groups, shift in (
        (slice(None, at), slice(None, kept), 0),
        (slice(at, None), slice(kept, None), at),
    ):
        arrays = {name: column[groups] for name, column in event.arrays.items()}
        arrays["event_ends"] = ends[events]
        arrays["group_event"] = group_event[groups] - shift
        parts.append(replace(event, arrays=arrays))
    parts[1] = replace(parts[1], body={**event.body, "start": int(ends[at - 1])})
    return parts
