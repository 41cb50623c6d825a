"""Journals by hand: a notation for histories whose offsets, sizes and sets are right by counting.

`Journal` writes the records of one instance as JSON Lines has them. Everything it writes by itself
is legal; a test alters the one thing that it is about in the record that a call gives back. No part
of the auditor is used here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tallystick.coordinates.audit.cut import Cut
from tallystick.coordinates.audit.fleet_events import FleetEvent
from tallystick.coordinates.audit.instance import InstanceAudit
from tallystick.coordinates.events.json_lines import blocks_from_lines
from tallystick.coordinates.results import Check, Finding, Observation, ObservationCode
from tallystick.coordinates.rules.explanation import (
    check_text,
    explain,
    observation_text,
    reason_text,
)

UUID_A = "aaaaaaaa-0000-0000-0000-000000000001"
UUID_B = "bbbbbbbb-0000-0000-0000-000000000002"
UUID_C = "cccccccc-0000-0000-0000-000000000003"

Record = dict[str, Any]
GtidText = str

ARTIFICIAL, OWN = 32, 64
"""Header flags: an artificial event, an event that the replica itself wrote into a relay log."""

FORMS: dict[str, tuple[tuple[str, int, str | None], ...]] = {
    "rows": (
        ("QUERY", 75, "BEGIN"),
        ("TABLE_MAP", 50, None),
        ("WRITE_ROWS", 65, None),
        ("XID", 31, None),
    ),
    "empty": (("QUERY", 75, "BEGIN"), ("QUERY", 76, "COMMIT")),
    "myisam": (
        ("QUERY", 75, "BEGIN"),
        ("TABLE_MAP", 50, None),
        ("WRITE_ROWS", 65, None),
        ("QUERY", 76, "COMMIT"),
    ),
    "statement": (
        ("QUERY", 75, "BEGIN"),
        ("INTVAR", 32, None),
        ("QUERY", 120, "STATEMENT"),
        ("XID", 31, None),
    ),
    "myisam_statement": (
        ("QUERY", 75, "BEGIN"),
        ("QUERY", 120, "STATEMENT"),
        ("QUERY", 76, "COMMIT"),
    ),
    "ddl": (("QUERY", 120, "STATEMENT"),),
    "ddl_preamble": (("RAND", 35, None), ("USER_VAR", 40, None), ("QUERY", 120, "STATEMENT")),
    "ddl_rows_query": (("ROWS_QUERY", 60, None), ("QUERY", 120, "STATEMENT")),
    "payload": (("TRANSACTION_PAYLOAD", 200, None),),
    "xa_prepare": (
        ("QUERY", 80, "XA START"),
        ("TABLE_MAP", 50, None),
        ("WRITE_ROWS", 65, None),
        ("QUERY", 80, "XA END"),
        ("XA_PREPARE", 40, None),
    ),
    "xa_commit": (("QUERY", 80, "XA COMMIT"),),
    "xa_rollback": (("QUERY", 80, "XA ROLLBACK"),),
    "rolled_back": (
        ("QUERY", 75, "BEGIN"),
        ("TABLE_MAP", 50, None),
        ("WRITE_ROWS", 65, None),
        ("QUERY", 78, "ROLLBACK"),
    ),
}
"""Bodies of groups: type, length, query verb of each event after the opening one."""


@dataclass
class Gtids:
    """A set counted one by one: counter to its numbers."""

    numbers: dict[str, set[int]] = field(default_factory=dict)

    def add(self, gtid: GtidText | None) -> None:
        if gtid is not None:
            sid, _, gno = gtid.rpartition(":")
            self.numbers.setdefault(sid, set()).add(int(gno))

    def remove(self, gtid: GtidText) -> None:
        sid, _, gno = gtid.rpartition(":")
        self.numbers[sid].discard(int(gno))

    def copy(self) -> Gtids:
        return Gtids({sid: set(gnos) for sid, gnos in self.numbers.items()})

    def __str__(self) -> str:
        """The set as a server prints it: one UUID a line, its tags after it."""
        parts: dict[str, list[str]] = {}
        for sid in sorted(s for s, gnos in self.numbers.items() if gnos):
            uuid, _, tag = sid.partition(":")
            pieces = parts.setdefault(uuid, [])
            if tag:
                pieces.append(tag)
            pieces += _ranges(sorted(self.numbers[sid]))
        return ",\n".join(":".join([uuid, *pieces]) for uuid, pieces in parts.items())


def _ranges(gnos: list[int]) -> list[str]:
    found: list[list[int]] = []
    for gno in gnos:
        if found and found[-1][1] == gno - 1:
            found[-1][1] = gno
        else:
            found.append([gno, gno])
    return [str(a) if a == b else f"{a}-{b}" for a, b in found]


def read_gtids(text: str) -> Gtids:
    """A set printed as ``uuid:1-3:7,uuid:tag:1``."""
    made = Gtids()
    for part in filter(None, text.replace("\n", "").split(",")):
        uuid, *pieces = part.split(":")
        sid = uuid
        for piece in pieces:
            if not piece[0].isdigit():
                sid = f"{uuid}:{piece}"
                continue
            first, _, last = piece.partition("-")
            made.numbers.setdefault(sid, set()).update(range(int(first), int(last or first) + 1))
    return made


class Log:
    """One log of the instance; every call appends legal events after the last one."""

    def __init__(self, journal: Journal, base_name: str, number: int, channel: str | None) -> None:
        self.journal = journal
        self.base_name = base_name
        self.number = number
        self.channel = channel
        self.end = 4
        self.gtids = Gtids()

    @property
    def file(self) -> str:
        return f"{self.base_name}.{self.number:06d}"

    @property
    def coordinates(self) -> tuple[str, int]:
        return self.file, self.end

    def event(self, event_type: str | int, length: int, **fields: Any) -> Record:
        """One event after the last one; ``log_pos`` is its end unless given."""
        kind = {"kind": "binlog"} if self.channel is None else {"kind": "relay"}
        record = self.journal.record(
            kind["kind"],
            file=self.file,
            start=self.end,
            length=length,
            type=event_type,
            **({} if self.channel is None else {"channel": self.channel}),
        )
        self.end += length
        record["log_pos"] = self.end % 2**32
        record.update(fields)
        return record

    def open(self, number: int | None = None, previous: str | None = None, **flags: int) -> Record:
        """The head of a new file, which begins at 4; gives PREVIOUS_GTIDS."""
        if number is not None:
            self.number = number
        self.end = 4
        self.event("FORMAT_DESCRIPTION", 122, **flags)
        text = str(self.gtids).replace("\n", "") if previous is None else previous
        return self.event(
            "PREVIOUS_GTIDS", 31 + 40 * text.count("-0000-0000-"), gtid_set=text, **flags
        )


class Binlog(Log):
    """The binary log."""

    def __init__(self, journal: Journal, base_name: str = "binlog", number: int = 1) -> None:
        super().__init__(journal, base_name, number, None)
        self.sequence_number = 0
        self.groups: list[list[Record]] = []

    def open(self, number: int | None = None, previous: str | None = None, **flags: int) -> Record:
        self.sequence_number = 0
        return super().open(number, previous, **flags)

    def group(self, gtid: GtidText | None = "", form: str = "rows", **opener: Any) -> list[Record]:
        """One group; gtid ``""``: the next one of the own UUID, None: anonymous."""
        body = FORMS[form]
        self.sequence_number += 1
        length = 79 + sum(size for _, size, _ in body)
        if gtid == "":
            used = self.journal.used.numbers.get(self.journal.uuid, set())
            gtid = f"{self.journal.uuid}:{max(used, default=0) + 1}"
        fields: dict[str, Any] = {
            "last_committed": self.sequence_number - 1,
            "sequence_number": self.sequence_number,
            "transaction_length": length,
            "server_id": self.journal.server_id,
            "original_commit_timestamp": self.journal.ts,
        }
        if gtid is None:
            kind = "ANONYMOUS_GTID"
        else:
            kind = "GTID_TAGGED" if gtid.count(":") == 2 else "GTID"
            fields["gtid"] = gtid
        made = [self.event(kind, 79, **fields | opener)]
        for event_type, size, query in body:
            made.append(self.event(event_type, size, **({"query": query} if query else {})))
        self.gtids.add(gtid)
        self.journal.used.add(gtid)
        self.journal.executed.add(gtid)
        self.groups.append(made)
        return made

    def rotate(self, number: int | None = None) -> Record:
        """ROTATE and the head of the next file, or of that number; gives the ROTATE."""
        number = self.number + 1 if number is None else number
        record = self.event("ROTATE", 44, next_file=f"{self.base_name}.{number:06d}")
        self.open(number)
        return record

    def stop(self) -> Record:
        return self.event("STOP", 23)


class RelayLog(Log):
    """The relay log of one channel."""

    def __init__(self, journal: Journal, channel: str, base_name: str, number: int = 1) -> None:
        super().__init__(journal, base_name, number, channel)
        self.source: tuple[str, int] | None = None
        self.flushed: tuple[str, int] | None = None

    def open(self, number: int | None = None, previous: str | None = None, **flags: int) -> Record:
        record = super().open(number, previous, flags=OWN)
        self.flush()
        return record

    def connect(self, file: str = "binlog.000001", position: int = 4) -> None:
        """What a new connection writes: an artificial ROTATE and the source's FDE."""
        self.event(
            "ROTATE", 46, log_pos=0, flags=ARTIFICIAL, next_file=file, next_position=position
        )
        self.event("FORMAT_DESCRIPTION", 122, log_pos=126)
        self.source = file, position
        self.flush()

    def flush(self) -> None:
        """The receiver flushes its positions: what log_status will show."""
        self.flushed = self.coordinates

    def copy(self, events: Iterable[Record]) -> list[Record]:
        """Receive a source's events: they keep everything but their position."""
        made, pending = [], None
        for event in events:
            kept = {
                key: value
                for key, value in event.items()
                if key not in ("kind", "instance", "ts", "file", "start", "length", "type")
            }
            made.append(self.event(event["type"], event["length"], **kept))
            if event["type"] in ("GTID", "GTID_TAGGED"):
                pending = event["gtid"]
            elif event["type"] == "ANONYMOUS_GTID":
                pending = None
            self.source = event["file"], event["start"] + event["length"]
        self.gtids.add(pending)
        self.flush()
        return made

    def rotate(self) -> Record:
        """The relay log's own ROTATE and the head of its next file."""
        record = self.event(
            "ROTATE", 49, flags=OWN, next_file=f"{self.base_name}.{self.number + 1:06d}"
        )
        self.open(self.number + 1)
        return record


class Journal:
    """The journal of one instance.

    Args:
        instance: Its key.
        uuid: Its ``server_uuid``.
        server_id: Its server id.
        profile: As in ``start``.
        version: As in ``start``.
        variables: As in ``start``.
    """

    def __init__(
        self,
        instance: str = "a",
        uuid: str = UUID_A,
        server_id: int = 1,
        *,
        profile: str = "mysql-8.0",
        version: str = "8.0.31",
        **variables: Any,
    ) -> None:
        self.instance = instance
        self.uuid = uuid
        self.server_id = server_id
        self.profile = profile
        self.version = version
        self.variables = {"gtid_mode": "ON", "log_bin": True} | variables
        self.records: list[Record] = []
        self.ts = 0
        self.lsn = 19_000_012
        self.used = Gtids()
        self.executed = Gtids()
        self.purged = ""
        self.binlog = Binlog(self)
        self.relays: dict[str, RelayLog] = {}
        self.collections = 0

    def lines(self) -> list[str]:
        """The records as JSON Lines."""
        return [json.dumps(record) for record in self.records]

    # Facts

    def record(self, kind: str, **fields: Any) -> Record:
        """Append any record, one millisecond after the last one."""
        self.ts += 1_000
        record = {"kind": kind, "instance": self.instance, "ts": self.ts, **fields}
        self.records.append(record)
        return record

    def start(self, **fields: Any) -> Record:
        return self.record(
            "start",
            **{
                "server_uuid": self.uuid,
                "server_id": self.server_id,
                "version": self.version,
                "profile": self.profile,
                "variables": self.variables,
            }
            | fields,
        )

    def begin(self) -> Journal:
        """A start and the head of the first binary log file."""
        self.start()
        self.binlog.open()
        return self

    def groups(self, count: int, form: str = "rows") -> Journal:
        """Groups of the own UUID."""
        for _ in range(count):
            self.binlog.group(form=form)
        return self

    def relay(self, channel: str = "", base_name: str = "relay", number: int = 1) -> RelayLog:
        """A channel with a relay log, its head written."""
        made = self.relays[channel] = RelayLog(self, channel, base_name, number)
        made.open()
        return made

    def wait(self, seconds: float) -> Journal:
        """Time passes."""
        self.ts += int(seconds * 1_000_000)
        return self

    # Rows

    def row(self, **beside: Any) -> Record:
        """A log_status row that says what is so; ``beside``: what was read with it."""
        self.collections += 1
        self.lsn += 512
        local: dict[str, Any] = {"gtid_executed": str(self.executed)}
        if self.variables["log_bin"]:
            local["binary_log_file"], local["binary_log_position"] = self.binlog.coordinates
        channels = [
            {
                "channel_name": name,
                "relay_log_file": relay.flushed[0] if relay.flushed else "",
                "relay_log_position": relay.flushed[1] if relay.flushed else 0,
            }
            for name, relay in self.relays.items()
        ]
        return self.record(
            "log_status",
            collection_id=f"c{self.collections}",
            row={
                "SERVER_UUID": self.uuid,
                "LOCAL": local,
                "REPLICATION": {"channels": channels},
                "STORAGE_ENGINES": {"InnoDB": {"LSN": self.lsn, "LSN_checkpoint": self.lsn - 512}},
            },
            **{"gtid_purged": self.purged} | beside,
        )

    def replica_status(self, **changes: Any) -> list[Record]:
        """SHOW REPLICA STATUS with everything applied; ``changes`` go to every channel."""
        rows = []
        for name, relay in self.relays.items():
            file, position = relay.source or ("", 4)
            rows.append(
                {
                    "Channel_Name": name,
                    "Relay_Log_File": relay.file,
                    "Relay_Log_Pos": relay.end,
                    "Source_Log_File": file,
                    "Read_Source_Log_Pos": position,
                    "Relay_Source_Log_File": file,
                    "Exec_Source_Log_Pos": position,
                    "Retrieved_Gtid_Set": str(relay.gtids),
                    "Replica_IO_Running": "Yes",
                    "Replica_SQL_Running": "Yes",
                    "Auto_Position": 1,
                }
                | changes
            )
        return rows


@dataclass
class Audited:
    """What the audit of one instance's records said."""

    findings: list[Finding] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)
    cuts: list[Cut] = field(default_factory=list)
    fleet_events: list[FleetEvent] = field(default_factory=list)
    audit: InstanceAudit | None = None

    @property
    def broken(self) -> list[str]:
        """Names of the broken rules, each once, in alphabetic order."""
        return sorted({finding.rule for finding in self.findings})

    @property
    def codes(self) -> list[ObservationCode]:
        return [observation.code for observation in self.observations]

    @property
    def verdicts(self) -> list[str]:
        return [cut.verdict for cut in self.cuts if cut.scope == "instance"]

    def undecided(self, scope: str = "instance") -> dict[str, str]:
        """What the last row of a scope left undecided, with the reasons."""
        last = [cut for cut in self.cuts if cut.scope == scope][-1]
        return {check.rule: reason_text(check) for check in last.undecided}

    @property
    def checks(self) -> list[Check]:
        return [check for cut in self.cuts for check in cut.checks]

    def take(self, output: Any) -> None:
        self.findings += output.findings
        self.observations += output.observations
        self.cuts += output.cuts
        self.fleet_events += output.fleet_events


def show(
    findings: Iterable[Finding], observations: Iterable[Observation], checks: Iterable[Check]
) -> None:
    """Make all texts: each finds the values that it names, and each finding has a place."""
    texts = [*map(observation_text, observations), *map(check_text, checks)]
    for finding in findings:
        explanation = explain(finding)
        assert explanation.at
        texts.append(explanation.sentence)
    assert [] == [text for text in texts if "None" in text]


def audit(
    records: Journal | Iterable[Record],
    block_size: int = 4096,
    disabled: frozenset[str] = frozenset(),
) -> Audited:
    """Audit one instance's records, read as the JSON Lines that they are."""
    if isinstance(records, Journal):
        records = records.records
    lines = [json.dumps(record) for record in records]
    result = Audited()
    for block in blocks_from_lines(lines, block_size=block_size):
        if result.audit is None:
            result.audit = InstanceAudit(block.instance_id, disabled)
        result.take(result.audit.absorb(block))
    assert result.audit is not None
    result.take(result.audit.finish())
    show(result.findings, result.observations, result.checks)
    return result
