"""The rows that left the auditor in one micro-batch, sorted out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.audit.fleet_events import FleetEvent, decode_fleet_events
from tallystick.coordinates.events.collect_request import (
    CollectRequest,
    CollectRequestError,
    parse_request,
)
from tallystick.coordinates.events.incident_control import (
    IncidentControl,
    IncidentControlError,
    parse_control,
)
from tallystick.coordinates.results import Finding, Observation, ObservationCode
from tallystick.coordinates.rules.observations import MESSAGE_UNREADABLE
from tallystick.streaming.journal_holes import Read
from tallystick.streaming.schema import (
    CONTROL,
    DEAD_LETTER,
    NOT_LISTED,
    READ,
    REQUEST,
    decode_document,
)
from tallystick.streaming.sinks import DeadLetterRow

if TYPE_CHECKING:
    import pyarrow as pa

    from tallystick.coordinates.audit.cut import Cut
    from tallystick.coordinates.rules.outcomes import Reason


@dataclass(slots=True)
class BatchContent:
    """The rows that left the auditor in one micro-batch, sorted out."""

    blocks: int = 0
    records: int = 0
    bytes: int = 0
    findings: list[Finding] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)
    cuts: list[Cut] = field(default_factory=list)
    fleet_events: list[FleetEvent] = field(default_factory=list)
    dead_letters: list[DeadLetterRow] = field(default_factory=list)
    requests: list[CollectRequest] = field(default_factory=list)
    controls: list[IncidentControl] = field(default_factory=list)
    read: dict[int, Read] = field(default_factory=dict)
    """What was read of the journal topic, by partition."""
    strangers: Counter[str] = field(default_factory=Counter)
    """Blocks of instances that are not listed."""


def sort_out(table: pa.Table) -> BatchContent:
    """Split the auditor's rows (``schema.AUDIT_ROWS``) by what they are.

    Instances come in the order of their ids, each with its journal's order, so that nothing depends
    on which of Spark's tasks ended first.
    """
    content = BatchContent()
    rows = table.to_pylist()
    rows.sort(key=lambda row: (row["instance_id"], row["partition"] or 0, row["offset"] or 0))
    for row in rows:
        if row["kind"] == REQUEST:
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
            known = content.read.get(row["partition"], Read(row["offset"], 0))
            content.read[row["partition"]] = Read(
                min(known.first, row["offset"]), known.count + row["blocks"]
            )
        elif row["kind"] == NOT_LISTED:
            content.strangers[row["instance_id"]] += row["blocks"]
        elif row["kind"] == DEAD_LETTER:
            letter = _dead_letter(row, row["reason"])
            content.dead_letters.append(letter)
            if not letter.instance_id:
                # No instance's audit can report a message without a key, so it is reported here.
                at = f"partition {letter.partition}, offset {letter.offset}"
                code = ObservationCode.BLOCK_UNREADABLE
                content.observations.append(
                    doubt(code, at, MESSAGE_UNREADABLE, error=letter.reason)
                )
        else:
            findings, observations, cuts = decode_document(row["document"])
            content.blocks += row["blocks"]
            content.records += row["records"]
            content.bytes += row["bytes"]
            content.findings += findings
            content.observations += observations
            content.cuts += cuts
            content.fleet_events += decode_fleet_events(row["fleet_events"])
    return content


def _dead_letter(row: dict[str, Any], reason: str) -> DeadLetterRow:
    return DeadLetterRow(
        instance_id=row["instance_id"],
        reason=reason,
        value=row["value"],
        headers=[(header["key"], header["value"]) for header in row["headers"] or ()],
        partition=row["partition"],
        offset=row["offset"],
    )


def doubt(code: ObservationCode, at: str, reason: Reason, **data: Any) -> Observation:
    """What leaves the run undecided and is about no single instance."""
    return Observation(
        code=code,
        instance_id="",
        channel=None,
        at=at,
        reason=reason.code,
        data=data,
        rules=(),
        is_undecided=True,
        collection_id=None,
        epoch=0,
        sequence=0,
        ts=0,
    )
