"""Judging what a row shows of the replication info repositories (invariants 33-36)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tallystick.coordinates.logs.event_window import (
    END,
    MARK,
    SOURCE_END,
    SOURCE_FILE,
    START,
    TYPE,
    Mark,
)
from tallystick.coordinates.logs.relay_reader import (
    Q_END,
    Q_FILE,
    Q_GNO,
    Q_SID,
    Q_SOURCE_END,
    Q_SOURCE_FILE,
    Q_TYPE,
)
from tallystick.coordinates.rules.judging.channel import GTID_ONLY, NO_RELAY, NOT_READ, ChannelOfRow
from tallystick.coordinates.rules.judging.row import same_family
from tallystick.coordinates.rules.replication_info import (
    MASTER_INFO_FLUSH_POINTS,
    MASTER_INFO_NOT_AHEAD_OF_RELAY,
    RELAY_INFO_COORDINATES_PAIRED,
    RELAY_INFO_UPDATED_WITH_COMMIT,
)
from tallystick.coordinates.values.binlog import EventType, LogCoordinates, format_log_file_name
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from tallystick.coordinates.logs.relay_reader import RelayReader


def judge_stored_read(channel: ChannelOfRow) -> None:
    """The stored read position is not beyond what the relay log has received."""
    rule = MASTER_INFO_NOT_AHEAD_OF_RELAY
    state, relay = channel.state, channel.relay
    stored = state.stored_read
    if state.is_gtid_only:
        channel.undecided(rule, GTID_ONLY)
        return
    if stored is None or relay is None or relay.source_base != stored.base_name:
        channel.undecided(rule, NOT_READ if stored is None else NO_RELAY)
        return
    if relay.source_high[0] < 1:
        channel.undecided(rule, NO_RELAY)  # a new lineage that has received nothing yet
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


def judge_paired(channel: ChannelOfRow) -> None:
    """The stored relay place and the stored source place name one event."""
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
    if _has_moved_on(channel, relay, expected, source):
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


def _has_moved_on(
    channel: ChannelOfRow, relay: RelayReader, at: tuple[int, int], source: LogCoordinates
) -> bool:
    """Whether the applier may have gone on from a source place to another one without a group.

    What the receiver ignores, in a ring the replica's own groups, leaves nothing in the relay log.
    """
    place, read = channel.state.stored_applied, channel.state.read
    if place is None or source.file_number != at[0] or source.position < at[1]:
        return False
    queue = relay.queue()[len(relay.applied_groups(place.file_number, place.position)) :]
    is_same_file = len(queue) > 0 and queue[0, Q_SOURCE_FILE] == at[0]
    if is_same_file and at[1] < queue[0, Q_SOURCE_END] <= source.position:
        return False
    rows = relay.window.after(place.file_number, place.position)
    rows = rows[np.isin(rows[:, MARK], (Mark.NOTHING, Mark.GROUP, Mark.UNKNOWN))]
    if len(rows) and rows[0, SOURCE_FILE] == at[0] and rows[0, SOURCE_END] > at[1]:
        return source.position <= int(rows[0, SOURCE_END] - (rows[0, END] - rows[0, START]))
    # Nothing of that file is behind it, or a new connection began further back.
    is_back = (relay.source_number, relay.source_end) < at
    return is_back or read is None or not same_family(read, source) or source <= read


def judge_stored_applied(channel: ChannelOfRow) -> None:
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
    before = channel.baselines.applied
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
    if beyond and channel.relay is None:
        # An atomic DDL may be under way: the relay log would show it.
        channel.undecided(rule, NO_RELAY)
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


def _has_commit_between(channel: ChannelOfRow, first: LogCoordinates, last: LogCoordinates) -> bool:
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


def _is_next_statement(
    channel: ChannelOfRow, stored: LogCoordinates, applied: LogCoordinates
) -> bool:
    """Whether the stored place ends the one group behind the applied place, a statement."""
    relay = channel.relay
    if relay is None or relay.base_name != stored.base_name:
        return False
    groups = relay.applied_groups(stored.file_number, stored.position)
    more = len(groups) - len(relay.applied_groups(applied.file_number, applied.position))
    return more == 1 and int(groups[-1][Q_TYPE]) == EventType.QUERY


def _committed_between(
    channel: ChannelOfRow, stored: LogCoordinates, applied: LogCoordinates
) -> LogCoordinates | None:
    """End of a group beyond the stored place that was committed before the row was read."""
    row, relay, first = channel.row, channel.relay, channel.row.state.executed_first
    if relay is None or first is None or relay.base_name != stored.base_name:
        return None
    if row.server.workers or not channel.baselines.auto_position:
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


def judge_flush_points(channel: ChannelOfRow) -> None:
    """A stopped receiver has stored where it stopped."""
    rule = MASTER_INFO_FLUSH_POINTS
    state = channel.state
    stored, read = state.stored_read, state.read
    if state.is_gtid_only:
        channel.undecided(rule, GTID_ONLY)
        return
    if stored is None:
        channel.undecided(rule, NOT_READ)
        return
    stopped_at = channel.baselines.receiver_stopped_at
    if stopped_at is None or state.receiver_runs is not False or read is None:
        channel.undecided(rule, "the receiver was not stopped since the channel began")
        return
    requested_at = channel.row.body.get("requested_at")
    if isinstance(requested_at, int) and stopped_at >= requested_at:
        channel.undecided(rule, "the receiver was stopped while the answer was read")
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
