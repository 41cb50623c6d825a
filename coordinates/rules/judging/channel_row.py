"""Judging what a row says of each replication channel (invariants 28-36 and 46)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tallystick.coordinates.logs.event_window import END, FILE, MARK, Mark
from tallystick.coordinates.logs.relay_reader import (
    Q_GNO,
    Q_SID,
)
from tallystick.coordinates.rules.channel import (
    APPLIED_RELAY_GTIDS_EXECUTED,
    APPLIED_WITHIN_FLUSHED,
    EXEC_SOURCE_POS_WITHIN_READ,
    RELAY_POSITION_ON_WRITTEN_BOUNDARY,
    RETRIEVED_MATCHES_RELAY,
)
from tallystick.coordinates.rules.history import CHANNEL_POSITIONS_MONOTONE
from tallystick.coordinates.rules.judging.channel import GTID_ONLY, NO_RELAY, NOT_READ, ChannelOfRow
from tallystick.coordinates.rules.judging.replication_info_rows import (
    judge_flush_points,
    judge_paired,
    judge_stored_applied,
    judge_stored_read,
)
from tallystick.coordinates.rules.judging.row import FIRST_POSITION, falls, same_family
from tallystick.coordinates.values.binlog import format_log_file_name
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from tallystick.coordinates.rules.judging.applied_groups import AppliedGroups
    from tallystick.coordinates.rules.judging.row import Row
    from tallystick.coordinates.rules.registry import Rule


class RelayView(NamedTuple):
    """What the journal shows of a channel at a row, for the cut."""

    end: tuple[str, int] | None
    received: GtidSet | None


def judge_channel_rows(row: Row, applied: AppliedGroups) -> dict[str, RelayView]:
    """Judge every channel that the row, or what was read beside it, tells of."""
    views = {}
    executed = row.state.executed
    for name, state in row.state.channels.items():
        relay = row.relays.get(name)
        if relay is not None and relay.base_name is None:
            relay = None
        history = row.baselines.channel(name)
        if relay is not None and relay.lineage != history.lineage:
            row.baselines.begin_channel_lineage(name, relay.lineage)
        channel = ChannelOfRow(row, name, state, relay, history)
        views[name] = _view(channel)
        _judge_flushed(channel)
        _judge_applied_within_flushed(channel)
        _judge_exec_within_read(channel)
        _judge_applied_executed(channel, executed)
        _judge_retrieved(channel)
        judge_stored_read(channel)
        judge_paired(channel)
        judge_stored_applied(channel)
        judge_flush_points(channel)
        applied.judge(channel)
        _judge_monotone(channel)
        _accept(channel)
    return views


def _view(channel: ChannelOfRow) -> RelayView:
    relay, flushed = channel.relay, channel.state.relay
    if relay is None:
        return RelayView(None, None)
    end = None
    if flushed is not None and flushed.base_name == relay.base_name:
        last = relay.window.last_end_at_or_before(flushed.file_number, flushed.position)
        if last is not None:
            end = (format_log_file_name(flushed.base_name, last[0]), last[1])
    received = relay.received.freeze() if relay.received_is_complete else None
    return RelayView(end, received)


# Relay log coordinates


def _judge_flushed(channel: ChannelOfRow) -> None:
    state, relay = channel.state, channel.relay
    rule = RELAY_POSITION_ON_WRITTEN_BOUNDARY
    if state.relay_is_empty:
        # RESET REPLICA leaves a file of its own events: FORMAT_DESCRIPTION, PREVIOUS_GTIDS, STOP.
        if relay is None or relay.source_base is None:
            channel.holds(rule)
        else:
            channel.undecided(rule, "the channel has no relay log, but no RESET REPLICA was seen")
        return
    flushed = state.relay
    if flushed is None:
        channel.undecided(rule, NOT_READ)
        return
    if relay is None or relay.base_name != flushed.base_name:
        channel.undecided(rule, NO_RELAY)
        return
    if relay.end < 0 or relay.offsets_doubtful:
        channel.undecided(rule, "part of the relay log was missed before the row")
        return
    number, offset = flushed.file_number, flushed.position
    is_beyond = (number, offset) > (relay.file_number, relay.end)
    if not is_beyond:
        if (
            offset == FIRST_POSITION
            or relay.window.find_end(number, offset) is not None
            or relay.window.begins_at(number, offset)
        ):
            channel.holds(rule)
            return
        if not relay.window.covers(number, offset):
            channel.undecided(rule, "the place is older than the events remembered")
            return
    last = relay.window.last_end_at_or_before(number, offset)
    nearest = "none" if last is None else format_log_file_name(flushed.base_name, last[0])
    channel.broken(
        rule,
        sentence=f"The flushed relay log coordinate {flushed} "
        + ("lies beyond what is written." if is_beyond else "lies inside an event."),
        observed=flushed,
        observed_in="log_status, relay_log_file and relay_log_position",
        expected=nearest if last is None else f"{nearest}:{last[1]}",
        expected_in="last event end at or before it in the relay log",
        witness=flushed,
    )


def _judge_applied_within_flushed(channel: ChannelOfRow) -> None:
    state, relay = channel.state, channel.relay
    applied, flushed = state.applied, state.relay
    rule = APPLIED_WITHIN_FLUSHED
    if applied is None or flushed is None or not same_family(applied, flushed):
        channel.undecided(rule, NOT_READ)
        return
    if applied <= flushed:
        channel.holds(rule)
        return
    if relay is None or not relay.window.covers(flushed.file_number, flushed.position):
        channel.undecided(rule, NO_RELAY)
        return
    if channel.row.judgement.is_broken(RELAY_POSITION_ON_WRITTEN_BOUNDARY, channel=channel.name):
        channel.undecided(rule, "the flushed coordinate is wrong itself")
        return
    rows = relay.window.after(flushed.file_number, flushed.position)
    between = rows[
        (rows[:, FILE] < applied.file_number)
        | ((rows[:, FILE] == applied.file_number) & (rows[:, END] <= applied.position))
    ]
    events = int(np.isin(between[:, MARK], (Mark.NOTHING, Mark.GROUP, Mark.UNKNOWN)).sum())
    if events <= 1:
        channel.holds(rule)
        return
    channel.broken(
        rule,
        sentence=f"The applier stands at {applied}, {events} events beyond {flushed}, up to which "
        "the receiver has flushed its positions.",
        observed=applied,
        observed_in="SHOW REPLICA STATUS, Relay_Log_File and Relay_Log_Pos",
        expected=f"at most one event beyond {flushed}",
        expected_in="log_status",
        witness=applied,
    )


# Source coordinates


def _judge_exec_within_read(channel: ChannelOfRow) -> None:
    state, relay = channel.state, channel.relay
    read, executed = state.read, state.executed
    rule = EXEC_SOURCE_POS_WITHIN_READ
    if state.is_gtid_only:
        channel.undecided(rule, GTID_ONLY)
    elif read is None or executed is None or not same_family(read, executed):
        channel.undecided(rule, NOT_READ)
    elif executed <= read:
        channel.holds(rule)
    elif relay is None and channel.baselines.auto_position is not False:
        channel.undecided(rule, "by GTID set a new connection begins further back; " + NO_RELAY)
    elif relay is not None and relay.source_base != executed.base_name:
        channel.undecided(rule, NO_RELAY)
    elif relay is not None and (executed.file_number, executed.position) <= relay.source_high:
        # A new connection began further back; the applier follows when it reads of it.
        channel.holds(rule)
    else:
        channel.broken(
            rule,
            sentence=f"The applier has executed up to {executed} of the source, but the receiver "
            f"has read only up to {read}.",
            observed=executed,
            observed_in="Exec_Source_Log_Pos",
            expected=f"at most {read}",
            expected_in="Read_Source_Log_Pos",
            witness=executed,
        )


# GTIDs


def _judge_applied_executed(channel: ChannelOfRow, executed: GtidSet | None) -> None:
    """Groups before the applied place are executed: the place moves under the same lock."""
    rule = APPLIED_RELAY_GTIDS_EXECUTED
    row, relay, applied = channel.row, channel.relay, channel.state.applied
    if relay is None or applied is None or relay.base_name != applied.base_name:
        channel.undecided(rule, NO_RELAY if relay is None else NOT_READ)
        return
    if executed is None:
        channel.undecided(rule, "gtid_executed is missing, or not accepted")
        return
    groups = relay.applied_groups(applied.file_number, applied.position)
    named = groups[groups[:, Q_SID] >= 0]
    passed = GtidSet.from_groups(relay.sids, named[:, Q_SID], named[:, Q_GNO])
    missing = passed - executed - row.binlog.logged.freeze() - channel.baselines.applied_lost
    if missing:
        channel.baselines.applied_lost = channel.baselines.applied_lost | missing
        channel.broken(
            rule,
            at=str(missing.first(3)),
            sentence=f"The applier has passed {missing.first(3)} in the relay log, but it is "
            "neither executed nor logged.",
            observed=executed,
            observed_in="gtid_executed of log_status",
            expected=missing,
            expected_in=f"relay log before {applied}",
            witness=missing.first(10),
        )
    else:
        channel.holds(rule)
    relay.drop_applied(applied.file_number, applied.position)


def _judge_retrieved(channel: ChannelOfRow) -> None:
    rule = RETRIEVED_MATCHES_RELAY
    relay, retrieved = channel.relay, channel.state.retrieved
    if retrieved is None:
        channel.undecided(rule, NOT_READ)
        return
    if relay is None or not relay.received_is_complete:
        channel.undecided(rule, NO_RELAY)
        return
    received = relay.received.freeze()
    # The receiver counts a group with its last event, before it tells where that event ends.
    excess = retrieved - received - relay.arriving()
    # What came in between the reading of the status and the row may be missing from the status.
    due = channel.baselines.received
    absent = GtidSet.EMPTY if due is None else due - retrieved
    channel.baselines.received = received
    if not excess and not absent:
        channel.holds(rule)
        return
    if excess <= relay.forgotten and not absent:
        channel.undecided(rule, "the head of the relay file lacks what the files before it hold")
        return
    wrong = excess or absent
    channel.broken(
        rule,
        at=str(wrong.first(3)),
        sentence=f"Retrieved_Gtid_Set names {excess.first(3)}, which no relay log of the channel "
        "holds."
        if excess
        else f"Retrieved_Gtid_Set lacks {absent.first(3)}, which the relay log holds.",
        observed=retrieved,
        observed_in="Retrieved_Gtid_Set",
        expected=received,
        expected_in="complete groups of the relay log",
        witness=wrong.first(10),
    )


# Over time


def _judge_monotone(channel: ChannelOfRow) -> None:
    rule = CHANNEL_POSITIONS_MONOTONE
    state, history = channel.state, channel.baselines
    if state.relay_is_empty:
        history.relay = history.executed = None
    if channel.relay is not None and channel.relay.steps_back != history.steps_back:
        # A new connection by GTID set begins at an earlier file; Ex follows it back.
        history.steps_back = channel.relay.steps_back
        history.executed = None
    is_known = False
    for name, value, before, account in (
        ("relay", state.relay, history.relay, "log_status, relay log coordinates"),
        ("executed", state.executed, history.executed, "Exec_Source_Log_Pos"),
    ):
        if value is None or (name == "executed" and state.is_gtid_only):
            continue
        is_known = True
        if falls(history.fallen, name, value, before if same_family(before, value) else None):
            channel.broken(
                rule,
                sentence=f"{account}: fell from {before} to {value}.",
                observed=value,
                observed_in=f"{account}, this collection",
                expected=f"at least {before}",
                expected_in="last accepted row of the channel",
                witness=value,
            )
            return
    if is_known:
        channel.holds(rule)
    else:
        channel.undecided(rule, NOT_READ)


_RELAY_RULES = (RELAY_POSITION_ON_WRITTEN_BOUNDARY, APPLIED_WITHIN_FLUSHED)


def _accept(channel: ChannelOfRow) -> None:
    """Values that failed no tier become baselines; the others are withheld from tier 4 (R1)."""
    state, history, judgement = channel.state, channel.baselines, channel.row.judgement
    name = channel.name

    def failed(*rules: Rule) -> bool:
        return judgement.is_broken(*rules, channel=name)

    if state.relay is not None and not failed(*_RELAY_RULES, CHANNEL_POSITIONS_MONOTONE):
        history.relay = state.relay
    if failed(APPLIED_WITHIN_FLUSHED, APPLIED_RELAY_GTIDS_EXECUTED):
        state.applied = None
    elif state.applied is not None:
        history.applied = state.applied
    if failed(EXEC_SOURCE_POS_WITHIN_READ, CHANNEL_POSITIONS_MONOTONE):
        state.executed = None
    elif state.executed is not None:
        history.executed = state.executed
    if failed(RETRIEVED_MATCHES_RELAY):
        state.retrieved = None
    if state.source_uuid is not None:
        history.source_uuid = state.source_uuid
    if state.auto_position is not None:
        history.auto_position = state.auto_position
