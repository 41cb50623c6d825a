"""Judging what a row says of each replication channel (invariants 28-36 and 46)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick.coordinates.audit.row_evidence import channel_evidence
from tallystick.coordinates.rules.applied_groups import APPLIED_EXACTLY_ONCE
from tallystick.coordinates.rules.channel import (
    ChannelEvidence,
    applied_relay_gtids_executed,
    applied_within_flushed,
    channel_positions_monotone,
    exec_source_pos_within_read,
    relay_position_on_written_boundary,
    retrieved_matches_relay,
)
from tallystick.coordinates.rules.columns import same_family
from tallystick.coordinates.rules.judging.channel import ChannelOfRow
from tallystick.coordinates.rules.judging.replication_info_rows import (
    judge_flush_points,
    judge_paired,
    judge_stored_applied,
    judge_stored_read,
)
from tallystick.coordinates.rules.judging.row import note_fall
from tallystick.coordinates.rules.registry import rules_on

if TYPE_CHECKING:
    from tallystick.coordinates.audit.row_evidence import Row
    from tallystick.coordinates.rules.applied_groups import AppliedGroups
    from tallystick.coordinates.rules.registry import Rule


RULES = rules_on(ChannelEvidence)


def judge_channel_rows(row: Row, applied: AppliedGroups) -> dict[str, ChannelEvidence]:
    """Judge every channel that the row, or what was read beside it, tells of."""
    views = {}
    for name, state in row.state.channels.items():
        relay = row.relays.get(name)
        if relay is not None and relay.base_name is None:
            relay = None
        history = row.baselines.channel(name)
        if relay is not None and relay.lineage != history.lineage:
            row.baselines.begin_channel_lineage(name, relay.lineage)
        channel = ChannelOfRow(row, name, state, relay, history)
        _follow(channel)
        views[name] = evidence = channel_evidence(row, state, relay, history)
        row.judgement.ask(RULES, evidence, name)
        _remember(channel, evidence)
        judge_stored_read(channel)
        judge_paired(channel)
        judge_stored_applied(channel)
        judge_flush_points(channel)
        answer = applied.judge(
            name,
            state.executed,
            logs_everything=row.server.logs_everything,
            is_seen=relay is not None,
            is_filtered=history.is_filtered,
        )
        row.judgement.take(APPLIED_EXACTLY_ONCE, answer, name)
        _accept(channel)
    return views


# Over time


def _follow(channel: ChannelOfRow) -> None:
    """Forget baselines that do not bound what the row says."""
    state, history = channel.state, channel.baselines
    if state.relay_is_empty:
        history.relay = history.executed = None
    if channel.relay is not None and channel.relay.steps_back != history.steps_back:
        # A new connection by GTID set begins at an earlier file; Ex follows it back.
        history.steps_back = channel.relay.steps_back
        history.executed = None


def _remember(channel: ChannelOfRow, evidence: ChannelEvidence) -> None:
    """What was reported, and what the next row is compared with."""
    history, relay = channel.baselines, channel.relay
    for name, value in evidence.monotone().items():
        previous = evidence.previous.get(name)
        if note_fall(
            history.fallen, name, value, previous if same_family(previous, value) else None
        ):
            break
    if relay is None:
        return
    if (
        evidence.applied is not None
        and evidence.passed is not None
        and evidence.gtid_executed is not None
    ):
        history.applied_lost = history.applied_lost | evidence.not_executed()
        relay.drop_applied(evidence.applied.file_number, evidence.applied.position)
    if evidence.retrieved is not None and relay.received_is_complete:
        history.received = relay.received.freeze()


_RELAY_RULES = (relay_position_on_written_boundary, applied_within_flushed)


def _accept(channel: ChannelOfRow) -> None:
    """Values that failed no tier become baselines; the others are withheld from tier 4 (R1)."""
    state, history, judgement = channel.state, channel.baselines, channel.row.judgement
    name = channel.name

    def failed(*rules: Rule) -> bool:
        return judgement.is_broken(*rules, channel=name)

    if state.relay is not None and not failed(*_RELAY_RULES, channel_positions_monotone):
        history.relay = state.relay
    if failed(applied_within_flushed, applied_relay_gtids_executed):
        state.applied = None
    elif state.applied is not None:
        history.applied = state.applied
    if failed(exec_source_pos_within_read, channel_positions_monotone):
        state.executed = None
    elif state.executed is not None:
        history.executed = state.executed
    if failed(retrieved_matches_relay):
        state.retrieved = None
    if state.source_uuid is not None:
        history.source_uuid = state.source_uuid
    if state.auto_position is not None:
        history.auto_position = state.auto_position
