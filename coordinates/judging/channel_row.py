"""Judging what a row says of each replication channel (invariants 28-36 and 46)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from coordinates.binlog import EventType, LogCoordinates, format_log_file_name
from coordinates.event_window import END, FILE, MARK, SOURCE_END, SOURCE_FILE, TYPE, Mark
from coordinates.gtid import GtidSet
from coordinates.invariants.history import CHANNEL_POSITIONS_MONOTONE
from coordinates.invariants.snapshot import (
    APPLIED_RELAY_GTIDS_EXECUTED,
    APPLIED_WITHIN_FLUSHED,
    EXEC_SOURCE_POS_WITHIN_READ,
    MASTER_INFO_FLUSH_POINTS,
    MASTER_INFO_NOT_AHEAD_OF_RELAY,
    RELAY_INFO_COORDINATES_PAIRED,
    RELAY_INFO_UPDATED_WITH_COMMIT,
    RELAY_POSITION_ON_WRITTEN_BOUNDARY,
    RETRIEVED_MATCHES_RELAY,
)
from coordinates.judging.row import falls, same_family
from coordinates.relay_reader import (
    Q_END,
    Q_FILE,
    Q_GNO,
    Q_SID,
    Q_SOURCE_END,
    Q_SOURCE_FILE,
    Q_TYPE,
)

if TYPE_CHECKING:
    from coordinates.history import ChannelHistory
    from coordinates.invariants._registry import Invariant
    from coordinates.judging.row import Row
    from coordinates.log_status import ChannelState
    from coordinates.relay_reader import RelayReader

FIRST_POSITION = 4
NO_RELAY = "no event of the channel's relay log was seen"
NOT_READ = "the value was not read, or could not be read"
GTID_ONLY = "the channel does not persist positions (GTID_ONLY)"


class RelayView(NamedTuple):
    """What the journal shows of a channel at a row, for the cut."""

    end: tuple[str, int] | None
    received: GtidSet | None


class _Channel(NamedTuple):
    """One channel of one row: what the server says, the relay log, the rows before."""

    row: Row
    name: str
    state: ChannelState
    relay: RelayReader | None
    history: ChannelHistory

    def holds(self, rule: Invariant) -> None:
        self.row.judgement.holds(rule, self.name)

    def undecided(self, rule: Invariant, reason: str) -> None:
        self.row.judgement.undecided(rule, reason, self.name)

    def broken(self, rule: Invariant, **finding: Any) -> None:
        self.row.judgement.broken(rule, channel=self.name, **finding)


def judge_channel_rows(row: Row) -> dict[str, RelayView]:
    """Judge every channel that the row, or what was read beside it, tells of."""
    views = {}
    executed = row.state.executed
    for name, state in row.state.channels.items():
        relay = row.relays.get(name)
        if relay is not None and relay.base_name is None:
            relay = None
        history = row.history.channel(name)
        if relay is not None and relay.lineage != history.lineage:
            row.history.begin_channel_lineage(name, relay.lineage)
        channel = _Channel(row, name, state, relay, history)
        views[name] = _view(channel)
        _judge_flushed(channel)
        _judge_applied_within_flushed(channel)
        _judge_exec_within_read(channel)
        _judge_applied_executed(channel, executed)
        _judge_retrieved(channel)
        _judge_stored_read(channel)
        _judge_paired(channel)
        _judge_stored_applied(channel)
        _judge_flush_points(channel)
        _judge_monotone(channel)
        _accept(channel)
    return views


def _view(channel: _Channel) -> RelayView:
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


def _judge_flushed(channel: _Channel) -> None:
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


def _judge_applied_within_flushed(channel: _Channel) -> None:
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


def _judge_exec_within_read(channel: _Channel) -> None:
    state, relay = channel.state, channel.relay
    read, executed = state.read, state.executed
    rule = EXEC_SOURCE_POS_WITHIN_READ
    if state.is_gtid_only:
        channel.undecided(rule, GTID_ONLY)
    elif read is None or executed is None or not same_family(read, executed):
        channel.undecided(rule, NOT_READ)
    elif executed <= read:
        channel.holds(rule)
    elif relay is None and channel.history.auto_position is not False:
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


def _judge_applied_executed(channel: _Channel, executed: GtidSet | None) -> None:
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
    missing = passed - executed - row.binlog.logged.freeze() - channel.history.applied_lost
    if missing:
        channel.history.applied_lost = channel.history.applied_lost | missing
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


def _judge_retrieved(channel: _Channel) -> None:
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
    due = channel.history.received
    absent = GtidSet.EMPTY if due is None else due - retrieved
    channel.history.received = received
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


# Repositories


def _judge_stored_read(channel: _Channel) -> None:
    rule = MASTER_INFO_NOT_AHEAD_OF_RELAY
    state, relay = channel.state, channel.relay
    stored = state.stored_read
    if state.is_gtid_only:
        channel.undecided(rule, GTID_ONLY)
        return
    if stored is None or relay is None or relay.source_base != stored.base_name:
        channel.undecided(rule, NOT_READ if stored is None else NO_RELAY)
        return
    if (stored.file_number, stored.position) <= relay.source_high:
        channel.holds(rule)
        return
    # Skipped groups move the receiver without leaving relay events.
    if state.read is None or not same_family(state.read, stored) or stored <= state.read:
        channel.undecided(rule, "the receiver may have skipped groups beyond the relay log")
        return
    high = f"{format_log_file_name(stored.base_name, relay.source_high[0])}:{relay.source_high[1]}"
    channel.broken(
        rule,
        sentence=f"The master info repository says {stored} of the source, but the relay log ends "
        f"at {high}: after a restart what lies between would be skipped.",
        observed=stored,
        observed_in="slave_master_info, Master_log_name and Master_log_pos",
        expected=f"at most {high}",
        expected_in="source position of the last relay log event",
        witness=stored,
    )


def _judge_paired(channel: _Channel) -> None:
    rule = RELAY_INFO_COORDINATES_PAIRED
    state, relay = channel.state, channel.relay
    place, source = state.stored_applied, state.stored_executed
    if state.is_gtid_only:
        channel.undecided(rule, GTID_ONLY)
        return
    if place is None or source is None:
        channel.undecided(rule, NOT_READ)
        return
    if relay is None or relay.base_name != place.base_name:
        channel.undecided(rule, NO_RELAY)
        return
    expected = _source_place_at(relay, place)
    if expected is None or relay.source_base != source.base_name:
        channel.undecided(rule, "the group at the stored place is not remembered")
        return
    if expected[1] < 0:
        channel.undecided(rule, "the source position of the group is not known")
        return
    if expected == (source.file_number, source.position):
        channel.holds(rule)
        return
    name = format_log_file_name(source.base_name, expected[0])
    channel.broken(
        rule,
        sentence=f"The relay log info row pairs {place} with {source} of the source, but what ends "
        f"there ends at {name}:{expected[1]}.",
        observed=f"{place} with {source}",
        observed_in="slave_relay_log_info",
        expected=f"{place} with {name}:{expected[1]}",
        expected_in="relay log",
        witness=f"{source} instead of {name}:{expected[1]}",
    )


def _source_place_at(relay: RelayReader, place: LogCoordinates) -> tuple[int, int] | None:
    """Source place of the group, or of the ROTATE to a source file, that ends at a relay place."""
    queue = relay.queue()
    hits = np.flatnonzero(
        (queue[:, Q_FILE] == place.file_number) & (queue[:, Q_END] == place.position)
    )
    if len(hits):
        return int(queue[hits[-1], Q_SOURCE_FILE]), int(queue[hits[-1], Q_SOURCE_END])
    found = relay.window.find_end(place.file_number, place.position)
    if found is None:
        return None
    row = relay.window.rows()[found]
    if (row[MARK], row[TYPE]) != (Mark.FRAMING, EventType.ROTATE):
        return None
    return int(row[SOURCE_FILE]), int(row[SOURCE_END])


def _judge_stored_applied(channel: _Channel) -> None:
    """The relay log info row commits with the group: neither behind it nor beyond it.

    Groups that no XID ends need not move the row: statements that commit by themselves (ANALYZE,
    FLUSH, MyISAM, XA PREPARE, empty groups) leave it until the next commit or relay log file, and
    an atomic DDL writes it before the applied place moves.
    """
    rule = RELAY_INFO_UPDATED_WITH_COMMIT
    row, state = channel.row, channel.state
    stored, applied = state.stored_applied, state.applied
    if state.is_gtid_only:
        channel.undecided(rule, GTID_ONLY)
        return
    if not row.server.relay_log_info_is_transactional:
        channel.undecided(rule, "the relay log info repository is not transactional")
        return
    if stored is None or applied is None or not same_family(stored, applied):
        channel.undecided(rule, NOT_READ)
        return
    before = channel.history.applied
    behind = (
        before is not None
        and same_family(before, stored)
        and stored < before <= applied
        and _has_commit_between(channel, stored, before)
    )
    committed = _committed_between(channel, stored, applied)
    beyond = stored > applied and not _is_next_statement(channel, stored, applied)
    if not behind and committed is None and not beyond:
        channel.holds(rule)
        return
    expected = applied if committed is None and not behind else committed or before
    channel.broken(
        rule,
        sentence=f"The relay log info row says {stored}, but groups up to {expected} are committed."
        if not beyond
        else f"The relay log info row says {stored}, beyond {applied}, where the applier stands.",
        observed=stored,
        observed_in="slave_relay_log_info, Relay_log_name and Relay_log_pos",
        expected=expected,
        expected_in="end of the last committed group",
        witness=stored,
    )


def _has_commit_between(channel: _Channel, first: LogCoordinates, last: LogCoordinates) -> bool:
    """Whether a remembered XID lies beyond the first place and not beyond the last."""
    relay = channel.relay
    if relay is None or relay.base_name != first.base_name:
        return False
    commits = [
        int((groups[:, Q_TYPE] == EventType.XID).sum())
        for groups in (
            relay.applied_groups(first.file_number, first.position),
            relay.applied_groups(last.file_number, last.position),
        )
    ]
    return commits[1] > commits[0]


def _is_next_statement(channel: _Channel, stored: LogCoordinates, applied: LogCoordinates) -> bool:
    """Whether the stored place ends the one group behind the applied place, a statement."""
    relay = channel.relay
    if relay is None or relay.base_name != stored.base_name:
        return False
    groups = relay.applied_groups(stored.file_number, stored.position)
    more = len(groups) - len(relay.applied_groups(applied.file_number, applied.position))
    return more == 1 and int(groups[-1][Q_TYPE]) == EventType.QUERY


def _committed_between(
    channel: _Channel, stored: LogCoordinates, applied: LogCoordinates
) -> LogCoordinates | None:
    """End of a group beyond the stored place that was committed before the row was read."""
    row, relay, first = channel.row, channel.relay, channel.row.state.executed_first
    if relay is None or first is None or relay.base_name != stored.base_name:
        return None
    if row.server.workers or not channel.history.auto_position:
        return None
    others = GtidSet.EMPTY
    for name, other in row.relays.items():
        if name != channel.name:
            others = others | other.received_ever.freeze()
    groups = relay.applied_groups(applied.file_number, applied.position)
    for group in groups[::-1]:
        place = LogCoordinates(stored.base_name, int(group[Q_FILE]), int(group[Q_END]))
        if place <= stored:
            return None
        if group[Q_SID] < 0 or group[Q_TYPE] != EventType.XID:
            continue
        gtid = GtidSet.from_gnos(relay.sids[int(group[Q_SID])], group[Q_GNO : Q_GNO + 1])
        if gtid <= first and gtid.isdisjoint(others):
            return place
    return None


def _judge_flush_points(channel: _Channel) -> None:
    rule = MASTER_INFO_FLUSH_POINTS
    state = channel.state
    stored, read = state.stored_read, state.read
    if state.is_gtid_only:
        channel.undecided(rule, GTID_ONLY)
        return
    if stored is None:
        channel.undecided(rule, NOT_READ)
        return
    if not channel.history.receiver_stopped or state.receiver_runs is not False or read is None:
        channel.undecided(rule, "the receiver was not stopped since the channel began")
        return
    if stored == read or not same_family(stored, read):
        channel.holds(rule)
        return
    channel.broken(
        rule,
        sentence=f"The master info repository says {stored}, although the receiver "
        f"stopped at {read}.",
        observed=stored,
        observed_in="slave_master_info",
        expected=read,
        expected_in="Read_Source_Log_Pos when the receiver stopped",
        witness=stored,
    )


# Over time


def _judge_monotone(channel: _Channel) -> None:
    rule = CHANNEL_POSITIONS_MONOTONE
    state, history = channel.state, channel.history
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


def _accept(channel: _Channel) -> None:
    """Values that failed no tier become baselines; the others are withheld from tier 4 (R1)."""
    state, history, judgement = channel.state, channel.history, channel.row.judgement
    name = channel.name

    def failed(*rules: Invariant) -> bool:
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
