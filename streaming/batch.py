"""The rows that left the auditor in one micro-batch, sorted out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.audit.finding_collector import FleetOutput
from tallystick.coordinates.audit.fleet_events import (
    FleetEvent,
    FleetEventKind,
    decode_fleet_events,
)
from tallystick.coordinates.events.collect_request import (
    CollectRequest,
    CollectRequestError,
    parse_request,
)
from tallystick.coordinates.events.epoch_claim import parse_claim
from tallystick.coordinates.events.incident_control import (
    IncidentControl,
    IncidentControlError,
    parse_control,
)
from tallystick.coordinates.results import Finding, Observation, ObservationCode
from tallystick.coordinates.rules.observations import (
    MESSAGE_UNREADABLE,
    MESSAGES_UNREADABLE,
    OTHERS_UNREADABLE,
)
from tallystick.coordinates.state_codec import decode
from tallystick.coordinates.values.json_bytes import of_json
from tallystick.streaming.doubts import doubt
from tallystick.streaming.instance_step import JournalKey
from tallystick.streaming.journal_holes import Read
from tallystick.streaming.schema import (
    CLUSTER,
    CONTROL,
    DEAD_LETTER,
    NOT_LISTED,
    QUIET,
    QUIET_COLUMNS,
    READ,
    REQUEST,
    RESULT,
    decode_document,
)
from tallystick.streaming.sinks import DeadLetterRow

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping

    import pyarrow as pa

    from tallystick.coordinates.audit.cut import Cut
    from tallystick.coordinates.results import SubjectCheck


UNKNOWN_KEYS_MAX = 20
"""So many keys of unreadable messages are named in a micro-batch; all messages are counted."""


@dataclass(slots=True)
class BatchContent:
    """The rows that left the auditor in one micro-batch, sorted out."""

    blocks: int = 0
    records: int = 0
    bytes: int = 0
    findings: list[Finding] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)
    cuts: list[Cut] = field(default_factory=list)
    checks: list[SubjectCheck] = field(default_factory=list)
    """Of rules between instances."""
    waiting: dict[str, list[SubjectCheck]] = field(default_factory=dict)
    """What is not compared yet, by bucket and cluster."""
    fleet_events: list[FleetEvent] = field(default_factory=list)
    """Those that membership and incidents follow from."""
    journals: list[JournalKey] = field(default_factory=list)
    """Those that go on, each instance's in the order of its messages."""
    fleet_bytes: dict[int, int] = field(default_factory=dict)
    """What is kept of comparisons, by bucket."""
    dead_letters: list[DeadLetterRow] = field(default_factory=list)
    requests: list[CollectRequest] = field(default_factory=list)
    controls: list[IncidentControl] = field(default_factory=list)
    read: dict[int, Read] = field(default_factory=dict)
    """What was read of the journal topic, by partition."""
    messages: int = 0
    message_bytes: int = 0
    """All that was read of the journal topic, whatever it is."""
    strangers: Counter[str] = field(default_factory=Counter)
    """Blocks of instances that are not listed."""

    @property
    def instances(self) -> set[str]:
        """The instances of which something has come; messages of no instance are of none."""
        return {one.instance_id for one in self._of_instances()} - {""}

    def _of_instances(self) -> Iterator[FleetEvent | Finding | Observation | Cut | SubjectCheck]:
        return chain(self.findings, self.observations, self.cuts, self.checks, self.fleet_events)

    def add_journal(self, row: Mapping[str, Any]) -> None:
        """Append what the messages of an instance have brought."""
        self.blocks += row["blocks"]
        self.records += row["records"]
        self.bytes += row["bytes"]
        if row["document"] is not None:
            findings, observations, cuts = decode_document(row["document"])
            self.findings += findings
            self.observations += observations
            self.cuts += cuts
        if row["fleet_events"] is not None:
            self.fleet_events += decode_fleet_events(row["fleet_events"])
        name = row["instance_id"]
        if row["ts"] is not None:
            at = row["epoch"], row["sequence"], row["ts"]
            self.fleet_events.append(FleetEvent(FleetEventKind.TIME, name, *at, {}))
        if row["offset"] >= 0:
            self.journals.append(JournalKey(row["cluster"], name))

    def add_cluster(self, output: FleetOutput) -> None:
        """Append what comparing the instances of a cluster has brought."""
        self.findings += output.findings
        self.observations += output.observations
        self.checks += output.checks

    def leave_out(self, names: Container[str]) -> None:
        """Take out what is of some instances."""
        self.keep(lambda one: one.instance_id not in names)
        self.journals = [one for one in self.journals if one.instance_id not in names]

    def keep(
        self, is_kept: Callable[[FleetEvent | Finding | Observation | Cut | SubjectCheck], bool]
    ) -> None:
        """Take out what is of instances, but for what is to be kept."""
        self.findings = list(filter(is_kept, self.findings))
        self.observations = list(filter(is_kept, self.observations))
        self.cuts = list(filter(is_kept, self.cuts))
        self.checks = list(filter(is_kept, self.checks))
        self.waiting = {where: list(filter(is_kept, of)) for where, of in self.waiting.items()}
        self.fleet_events = list(filter(is_kept, self.fleet_events))


def sort_out(table: pa.Table) -> BatchContent:
    """Split the auditor's rows (``schema.AUDIT_ROWS``) by what they are.

    Instances come in the order of their ids, each with its journal's order, so that nothing depends
    on which of Spark's tasks ended first.
    """
    content = BatchContent()
    known: set[JournalKey] = set()
    # What is of no cluster may be of several buckets.
    clusters: list[tuple[tuple[str, int], FleetOutput]] = []
    rows = [one for row in table.to_pylist() for one in _results_of(row)]
    rows.sort(key=lambda row: (row["instance_id"], row["partition"] or 0, row["offset"] or 0))
    for row in rows:
        if row["kind"] == REQUEST:
            if parse_claim(row["value"]) is not None:
                continue
            try:
                content.requests.append(parse_request(row["value"]))
            except CollectRequestError as error:
                content.dead_letters.append(_dead_letter(row, f"collect topic: {error}"))
        elif row["kind"] == CONTROL:
            try:
                content.controls.append(parse_control(row["value"]))
            except IncidentControlError as error:
                content.dead_letters.append(_dead_letter(row, f"control topic: {error}"))
        elif row["kind"] == READ:
            read = content.read.get(row["partition"], Read(row["offset"], 0))
            content.read[row["partition"]] = Read(
                min(read.first, row["offset"]), read.count + row["blocks"]
            )
            content.messages += row["blocks"]
            content.message_bytes += row["bytes"]
        elif row["kind"] == NOT_LISTED:
            content.strangers[row["instance_id"]] += row["blocks"]
        elif row["kind"] == CLUSTER:
            content.fleet_bytes[row["partition"]] = row["bytes"]
            key = row["cluster"], row["partition"]
            output = decode(FleetOutput, row["document"], "the comparisons")
            clusters.append((key, output))
        elif row["kind"] == DEAD_LETTER:
            letter = _dead_letter(row, row["reason"])
            content.dead_letters.append(letter)
        else:
            known.add(JournalKey(row["cluster"], row["instance_id"]))
            content.add_journal(row)
    for (cluster, bucket), output in sorted(clusters, key=itemgetter(0)):
        content.add_cluster(output)
        content.waiting[f"{bucket}/{cluster}"] = output.waiting
    content.observations += _under_no_instance(content.dead_letters, known)
    return content


def _results_of(row: dict[str, Any]) -> Iterable[dict[str, Any]]:
    """A row, or the results in it."""
    if row["kind"] != QUIET:
        return [row]
    bare: dict[str, Any] = {"kind": RESULT, "document": None, "fleet_events": None}
    results = of_json(row["document"])
    return [bare | dict(zip(QUIET_COLUMNS, values, strict=True)) for values in results]


def _under_no_instance(
    letters: Iterable[DeadLetterRow], known: set[JournalKey]
) -> list[Observation]:
    """Messages that no instance's audit can report: nothing was ever read under their keys.

    One observation a key, and at most so many that a flood of keys cannot fill the tables.
    """
    first: dict[str, DeadLetterRow] = {}
    count: Counter[str] = Counter()
    for letter in letters:
        if (
            letter.kind == DEAD_LETTER
            and JournalKey(letter.cluster, letter.instance_id) not in known
        ):
            first.setdefault(letter.instance_id, letter)
            count[letter.instance_id] += 1
    code = ObservationCode.BLOCK_UNREADABLE
    found = []
    for name, letter in list(first.items())[:UNKNOWN_KEYS_MAX]:
        at = f"partition {letter.partition}, offset {letter.offset}"
        data: dict[str, str | int] = {"error": letter.reason, "key": name, "count": count[name]}
        found.append(doubt(code, at, MESSAGES_UNREADABLE if name else MESSAGE_UNREADABLE, **data))
    others = list(first)[UNKNOWN_KEYS_MAX:]
    if others:
        at = f"{len(others)} further keys"
        messages = sum(count[name] for name in others)
        found.append(doubt(code, at, OTHERS_UNREADABLE, keys=len(others), count=messages))
    return found


def _dead_letter(row: dict[str, Any], reason: str) -> DeadLetterRow:
    return DeadLetterRow(
        instance_id=row["instance_id"],
        reason=reason,
        key=row["key"],
        value=row["value"],
        length=row["bytes"] or 0,
        headers=[(header["key"], header["value"]) for header in row["headers"] or ()],
        partition=row["partition"],
        offset=row["offset"],
        kind=row["kind"],
        cluster=row["cluster"] or "",
    )
