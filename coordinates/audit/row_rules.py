"""One log_status row: ask the rules on it, family by family, then accept its values as baselines.

What a rule answers never changes what another is asked: where one needs to know that a value was
not accepted, the evidence says so. What is remembered for later rows is changed here alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tallystick.coordinates.audit.baselines import UNSETTLED_MAX
from tallystick.coordinates.audit.channel_evidence import (
    channel_evidence,
    listed_evidence,
    source_end_at,
    stored_evidence,
    thread_evidence,
    workers_evidence,
    workers_stored,
)
from tallystick.coordinates.audit.row_evidence import (
    executed_evidence,
    lag_evidence,
    position_evidence,
    purged_evidence,
    redo_evidence,
    unless_named,
)
from tallystick.coordinates.results import ObservationCode
from tallystick.coordinates.rules import observations
from tallystick.coordinates.rules.applied_groups import APPLIED_EXACTLY_ONCE
from tallystick.coordinates.rules.binlog_position import (
    PositionEvidence,
    snapshot_position_monotone,
    snapshot_position_on_group_boundary,
    snapshot_position_within_file,
)
from tallystick.coordinates.rules.channel import (
    GIVEN_UP,
    SOURCE_FILE_KEPT,
    ChannelEvidence,
    applied_relay_gtids_executed,
    channel_positions_monotone,
    exec_source_pos_within_read,
    retrieved_matches_relay,
)
from tallystick.coordinates.rules.columns import same_family
from tallystick.coordinates.rules.commit_lag import (
    SETTLE_US,
    LagEvidence,
    commit_lag_bounded,
    commit_lag_is_suffix,
)
from tallystick.coordinates.rules.executed_set import (
    COMMITS_BEHIND_LSN,
    ExecutedEvidence,
    executed_as_shown_before,
    executed_growth_explained,
    executed_monotone,
    executed_within_logged,
    owned_disjoint_from_executed,
    recovered_gtids_complete,
)
from tallystick.coordinates.rules.innodb import (
    RedoEvidence,
    checkpoint_age_within_capacity,
    lsn_block_offset,
    lsn_monotone,
    lsn_order,
)
from tallystick.coordinates.rules.listed_channels import ListedEvidence
from tallystick.coordinates.rules.logged_groups import PREVIOUS_GTIDS_CONTINUITY, head_is_purged
from tallystick.coordinates.rules.outcomes import Undecided
from tallystick.coordinates.rules.purged_set import (
    PurgedEvidence,
    purged_matches_oldest_file,
    purged_monotone,
    purged_within_executed,
)
from tallystick.coordinates.rules.registry import rules_on
from tallystick.coordinates.rules.relay_position import (
    applied_within_flushed,
    relay_position_on_written_boundary,
)
from tallystick.coordinates.rules.replication_info import StoredEvidence
from tallystick.coordinates.rules.replication_threads import THREAD_STOPPED, ThreadEvidence
from tallystick.coordinates.rules.worker_positions import WorkersEvidence
from tallystick.coordinates.values.binlog import parse_log_file_name
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from tallystick.coordinates.audit.baselines import ChannelBaselines
    from tallystick.coordinates.audit.reporter import Reporter
    from tallystick.coordinates.audit.row_evidence import Row
    from tallystick.coordinates.events.log_status import ChannelState
    from tallystick.coordinates.logs.relay_reader import RelayReader
    from tallystick.coordinates.rules.applied_groups import AppliedGroups
    from tallystick.coordinates.values.binlog import LogCoordinates

_POSITION, _EXECUTED = rules_on(PositionEvidence), rules_on(ExecutedEvidence)
_LAG, _PURGED = rules_on(LagEvidence), rules_on(PurgedEvidence)
_REDO, _CHANNEL = rules_on(RedoEvidence), rules_on(ChannelEvidence)
_STORED, _THREADS = rules_on(StoredEvidence), rules_on(ThreadEvidence)
_WORKERS = rules_on(WorkersEvidence)
_LISTED = rules_on(ListedEvidence)

_ON_EXECUTED = (
    executed_within_logged,
    commit_lag_bounded,
    commit_lag_is_suffix,
    owned_disjoint_from_executed,
    executed_growth_explained,
    recovered_gtids_complete,
)
"""A set that breaks one of these is wrong in more than having lost GTIDs."""


class RowEvidence(NamedTuple):
    """What the rules on an instance's row were asked about, for the cut."""

    position: PositionEvidence
    executed: ExecutedEvidence
    lag: LagEvidence
    purged: PurgedEvidence
    redo: RedoEvidence


# The instance


def judge_instance(row: Row) -> RowEvidence:
    """Ask every rule on the instance's row; afterwards the state holds accepted values only."""
    checks = row.checks
    log_changed = _follow_log_bin(row)
    _follow_index(row)
    position = position_evidence(row)
    executed = executed_evidence(row, position, log_changed=log_changed)
    position = unless_named(position, executed)
    lag = lag_evidence(row, executed)
    purged = purged_evidence(row)
    checks.ask(_POSITION, position)
    checks.ask(_EXECUTED, executed)
    checks.ask(_LAG, lag)
    checks.ask(_PURGED, purged)
    if purged.gtid_purged is not None:
        answer = head_is_purged(row.binlog.table_only, purged.gtid_purged)
        checks.take(PREVIOUS_GTIDS_CONTINUITY, answer)
        row.binlog.table_only = GtidSet.EMPTY
    _note_tear(row, lag)
    _accept_position(row, position)
    _remember_lag(row, lag)
    grown = _accept_executed(row, executed)
    _accept_purged(row, purged)
    redo = redo_evidence(row, grown)
    checks.ask(_REDO, redo)
    _accept_redo(row, redo)
    return RowEvidence(position, executed, lag, purged, redo)


def _follow_log_bin(row: Row) -> bool:
    """Whether the binary log was switched off or on: then gtid_purged is computed anew."""
    history = row.baselines
    has_binlog = row.has_binlog and not row.state.may_lack_binlog
    before, history.had_binlog = history.had_binlog, has_binlog
    is_changed = history.log_bin_changed or before not in (None, has_binlog)
    if is_changed:
        history.purged = None
        history.log_bin_changed = False
        history.log_bin_was_off = True
    return is_changed


def _follow_index(row: Row) -> None:
    """With another log_bin a start begins an index of its own, and computes gtid_purged by that."""
    before, listed = row.baselines.oldest_file, row.state.binary_logs
    oldest = listed[0][0] if listed else next(iter(row.binlog.previous), None)
    if before is None or oldest is None:
        return
    if parse_log_file_name(before)[0] != parse_log_file_name(oldest)[0]:
        row.baselines.purged = row.baselines.oldest_file = None


def _note_tear(row: Row, lag: LagEvidence) -> None:
    missing = lag.missing
    if missing and not row.server.is_atomic:
        row.checks.reporter.note(
            ObservationCode.LOG_STATUS_TEAR,
            observations.ROW_TORN,
            at=row.collection_id,
            position=row.state.position,
            gtids=missing,
            count=missing.count(),
            collection_id=row.collection_id,
        )


def _accept_position(row: Row, evidence: PositionEvidence) -> None:
    history, position = row.baselines, evidence.position
    if position is None:
        return
    previous = evidence.previous_position
    _note_fall(
        history.fallen, "position", position, previous if same_family(previous, position) else None
    )
    if row.checks.is_broken(
        snapshot_position_within_file,
        snapshot_position_on_group_boundary,
        snapshot_position_monotone,
    ):
        row.state.position = None
    else:
        history.position = position


def _remember_lag(row: Row, evidence: LagEvidence) -> None:
    history, executed, missing = row.baselines, evidence.gtid_executed, evidence.missing
    if executed is None or missing is None:
        return
    history.known_holes = history.known_holes - executed
    if row.checks.is_broken(commit_lag_is_suffix):
        history.known_holes = history.known_holes | evidence.holes()[0]
    history.lost = history.lost | evidence.never_executed()[0]
    history.unsettled = [(ts, g) for ts, g in history.unsettled if row.ts - ts < SETTLE_US]
    pending = missing - history.lost
    if pending and len(history.unsettled) < UNSETTLED_MAX:
        history.unsettled.append((row.ts, pending))


def _accept_executed(row: Row, evidence: ExecutedEvidence) -> tuple[GtidSet, GtidSet] | None:
    """Accept gtid_executed; returns the set accepted before and this one, if both are."""
    state, history, checks = row.state, row.baselines, row.checks
    executed, previous = evidence.gtid_executed, history.executed
    if executed is None:
        return None
    _note_fall(history.fallen, "executed", executed, previous)
    if checks.is_broken(executed_growth_explained):
        history.unexplained = history.unexplained | evidence.unexplained()
    history.unseen_channel_left = False
    history.must_recover = None
    if checks.is_broken(*_ON_EXECUTED):
        state.executed = None
        return None
    if checks.is_broken(executed_monotone):
        state.fallen, state.executed = executed, None
        return None
    if checks.is_broken(executed_as_shown_before):
        state.executed = None
        return None
    _note_free_gnos(row, executed)
    history.executed = executed
    return None if previous is None else (previous, executed)


def _note_free_gnos(row: Row, executed: GtidSet) -> None:
    """Own numbers that are neither logged nor executed are worth a note; they break no rule.

    GTID_NEXT has skipped them, or a session had them and gave them back.
    """
    free, owned, history = row.binlog.free_own_gnos(), row.state.owned, row.baselines
    if free is None or owned is None or not (free or history.free_gnos) or _receives_own(row):
        return
    free = free - executed - owned - (row.state.purged or GtidSet.EMPTY)
    fresh, history.free_gnos = free - history.free_gnos, free
    if fresh:
        row.checks.reporter.note(
            ObservationCode.GNO_FREE,
            observations.GNO_FREE,
            at=str(fresh.first(1)),
            collection_id=row.collection_id,
            gtids=fresh,
            count=fresh.count(),
        )


def _receives_own(row: Row) -> bool:
    """Whether GTIDs of the own UUID come through a channel: then their order is not ours."""
    own = row.server.server_uuid
    received = [relay.received_ever.freeze() for relay in row.relays.values()]
    received += [c.retrieved for c in row.state.channels.values() if c.retrieved is not None]
    return own is not None and any(gtids.restrict(own) for gtids in received)


def _accept_purged(row: Row, evidence: PurgedEvidence) -> None:
    state, history, purged = row.state, row.baselines, evidence.gtid_purged
    if purged is None:
        return
    _note_fall(history.fallen, "purged", purged, evidence.previous_gtid_purged)
    is_known = evidence.has_binlog and evidence.oldest_previous is not None
    if is_known and not evidence.lost_from_log and not evidence.list_changed:
        history.oldest_file = evidence.oldest_file
    if row.checks.is_broken(purged_within_executed, purged_matches_oldest_file, purged_monotone):
        state.purged = None
    else:
        history.purged = purged
        history.assigned = GtidSet.EMPTY


def _accept_redo(row: Row, evidence: RedoEvidence) -> None:
    history, numbers = row.baselines, evidence.numbers()
    if evidence.lsn is not None:
        if row.binlog.xid_groups:
            history.note_logged()
        row.binlog.xid_groups = []
        history.redo_was_disabled = row.server.redo_is_disabled
        history.logged_without_flush = not row.server.flushes_before_logging
        _follow_lsn_over_crash(row, evidence.lsn)
        for name, value in numbers.items():
            _note_fall(history.fallen, name, value, history.numbers.get(name))
    if not row.checks.is_broken(
        lsn_order, lsn_block_offset, lsn_monotone, checkpoint_age_within_capacity
    ):
        history.numbers.update(numbers)


def _follow_lsn_over_crash(row: Row, lsn: int) -> None:
    doubtful, row.baselines.doubtful_lsn = row.baselines.doubtful_lsn, None
    if doubtful is not None and lsn < doubtful[0]:
        before, policy = doubtful
        doubt = Undecided(COMMITS_BEHIND_LSN, policy=policy, before=before, lsn=lsn)
        note_commits_in_doubt(row.checks.reporter, doubt)


def note_commits_in_doubt(reporter: Reporter, doubt: Undecided) -> None:
    """Name why InnoDB may lack what the server counts as executed, since a crash."""
    if recovered_gtids_complete.name not in reporter.disabled:
        reporter.note(
            ObservationCode.COMPARISON_UNDECIDED,
            doubt.reason,
            at="the start after the crash",
            rules=(recovered_gtids_complete,),
            is_undecided=True,
            **doubt.data,
        )


# Channels


def judge_channels(row: Row, applied: AppliedGroups) -> dict[str, ChannelEvidence]:
    """Ask every rule on each channel that the row, or what was read beside it, names."""
    asked = {}
    _forget_removed(row)
    if row.state.executed is not None:
        for name, left in row.baselines.still_given_up(row.state.executed).items():
            note_given_up(row.checks.reporter, name, left, row.collection_id)
    for name, state in row.state.channels.items():
        relay = row.relays.get(name)
        if relay is not None and relay.base_name is None:
            relay = None
        history = row.baselines.channel(name)
        _follow_relay(row, state, relay, history)
        history.read_filters(state.is_filtered, state.ignores_servers)
        listed = listed_evidence(row, state, relay, history)
        row.checks.ask(_LISTED, listed, name)
        is_held_against = listed.is_left_out() and listed.is_followed
        history.left_out_of = row.collection_id if is_held_against else None
        threads = thread_evidence(row, state)
        row.checks.ask(_THREADS, threads, name)
        _note_stopped(row, threads, history)
        row.checks.ask(_WORKERS, workers_evidence(row, state, relay, history), name)
        asked[name] = evidence = channel_evidence(row, state, relay, history)
        row.checks.ask(_CHANNEL, evidence, name)
        _remember_channel(evidence, relay, history)
        row.checks.ask(_STORED, stored_evidence(row, state, relay, history, applied), name)
        answer = applied.judge(
            name,
            state.executed,
            logs_everything=row.server.logs_everything,
            is_seen=relay is not None,
            is_filtered=history.is_filtered,
            others_are_filtered=any(one.is_filtered for one in row.baselines.channels.values()),
        )
        row.checks.take(APPLIED_EXACTLY_ONCE, answer, name)
        _accept_channel(row, state, history)
    return asked


def note_given_up(
    reporter: Reporter, channel: str, gtids: GtidSet, collection_id: str | None = None
) -> None:
    """Name what was lost with a channel: whoever removed it may have wanted that, or not."""
    if applied_relay_gtids_executed.name not in reporter.disabled:
        reporter.note(
            ObservationCode.COMPARISON_UNDECIDED,
            GIVEN_UP,
            at=str(gtids.first(3)),
            rules=(applied_relay_gtids_executed,),
            is_undecided=True,
            channel=channel,
            collection_id=collection_id,
            missing=gtids,
        )


def _forget_removed(row: Row) -> None:
    """A channel that the status does not show has gone, whatever it was before."""
    if not row.state.has_replica_status:
        return
    for name, history in row.baselines.channels.items():
        state = row.state.channels.get(name)
        if state is None or not state.has_status:
            history.left_out_of = None


def _note_stopped(row: Row, threads: ThreadEvidence, history: ChannelBaselines) -> None:
    """A thread that a command stopped is legal: it is reported when a row first shows it."""
    stopped = threads.stopped()
    for thread in stopped:
        if thread not in history.stopped:
            row.checks.reporter.note(
                ObservationCode.THREAD_STOPPED,
                THREAD_STOPPED,
                at=f"{row.collection_id} {thread}",
                channel=threads.channel,
                collection_id=row.collection_id,
                thread=thread,
                missing="unknown" if threads.missing is None else str(threads.missing) or "nothing",
            )
    history.stopped = stopped


def _follow_relay(
    row: Row, state: ChannelState, relay: RelayReader | None, history: ChannelBaselines
) -> None:
    """Forget baselines that do not bound what the row says."""
    if relay is not None and relay.lineage != history.lineage:
        row.baselines.begin_channel_lineage(state.channel, relay.lineage)
    if state.relay_is_empty:
        history.relay = history.executed = None
    if relay is not None and relay.steps_back_until(history.applied, state.applied):
        # A new connection by GTID set begins at an earlier file, and Exec_Source_Log_Pos follows
        # when the applier comes there.
        history.executed = None
    _follow_source(state, relay, history)
    if history.former_until is not None:
        history.executed = None
        if not same_family(history.former_until, state.relay):
            history.former_until = None
        elif state.applied is not None and history.former_until <= state.applied:
            history.began_at, history.passed_with = history.former_until, None
            history.may_execute_former, history.former_until = True, None
    if relay is not None and relay.is_of_one_source:
        history.may_execute_former = False
    _follow_unseen(state, history)
    if relay is not None:
        _follow_taken_over(state, relay, history)


def name_applied_files(row: Row) -> None:
    """Put what appliers show beside a name that they keep into the file that they have come to."""
    for name, state in row.state.channels.items():
        relay = row.relays.get(name)
        if relay is not None and relay.base_name is not None:
            _name_applied_file(row, state, relay, row.baselines.channel(name))


def _name_applied_file(
    row: Row, state: ChannelState, relay: RelayReader, history: ChannelBaselines
) -> None:
    at, stored = (
        None if at is None or at.base_name != relay.base_name else at
        for at in (state.applied, state.stored_applied)
    )
    names, shown = relay.file_names, state.executed
    if stored is not None and state.stored_executed is not None:
        state.stored_executed = names.in_its_file(stored, state.stored_executed)
    if at is None or shown is None:
        return
    state.executed = names.in_its_file(at, shown)
    kept = None if shown == state.executed else shown.file_name
    if kept not in (None, history.kept_name):
        row.checks.reporter.note(
            ObservationCode.SOURCE_FILE_KEPT,
            SOURCE_FILE_KEPT,
            at=f"{row.collection_id} {shown}",
            channel=state.channel,
            collection_id=row.collection_id,
            shown=str(shown),
            executed=str(state.executed),
        )
    history.kept_name = kept


def _follow_taken_over(state: ChannelState, relay: RelayReader, history: ChannelBaselines) -> None:
    """Learn from the row whether the applier names the file that it is in, where that is open."""
    at, names = state.applied, relay.file_names
    if at is None or state.executed is None or at.base_name != relay.base_name:
        return
    end = None if names.is_known(at) else source_end_at(relay, at)
    if end is not None and end[0] == state.executed.file_number:
        names.take_over(at)
    elif end is not None:
        history.may_execute_former = True


def _follow_source(
    state: ChannelState, relay: RelayReader | None, history: ChannelBaselines
) -> None:
    """Note up to where the relay log is of the source that the channel had before."""
    if None not in (history.source_uuid, state.source_uuid) and (
        history.source_uuid != state.source_uuid
    ):
        # Behind the address, or after an automatic failover: the instance that was named is not it.
        history.source_instance = None
        history.is_left, history.left_at = True, history.relay
        if relay is not None:
            relay.is_of_one_source = False
    if history.is_left and relay is not None and relay.is_of_one_source:
        # A recorded change, after which the relay log was seen to begin anew.
        history.is_left, history.left_at = False, None
    if history.is_left:
        # The receiver alone may be pointed elsewhere: then the relay log goes on, and the applier
        # is in what the source before has sent.
        if relay is not None:
            relay.is_of_one_source = False
        left_at, relay_at = history.left_at, state.relay
        if relay_at is not None and (
            left_at is None or left_at.base_name != relay_at.base_name or left_at <= relay_at
        ):
            history.former_until = relay_at
        history.is_left, history.left_at = False, None


def _follow_unseen(state: ChannelState, history: ChannelBaselines) -> None:
    """The receiver alone may have been pointed elsewhere before the journal shows the channel.

    What the applier has passed then says so: the relay log holds what both sources have sent. A
    receiver that has not connected since names nothing that was read.
    """
    if not history.may_execute_former or state.executed is None:
        return
    has_read = state.read is not None or state.relay_is_empty
    if history.began_at is None and has_read:
        history.began_at = state.relay
    began_at = history.began_at
    history.may_execute_former = not (
        state.relay_is_empty
        or (began_at is not None and not same_family(began_at, state.relay))
        or _has_executed_after(state, began_at, history.passed_with)
    )
    if began_at is not None and state.applied is not None and began_at <= state.applied:
        history.passed_with = history.passed_with or state.executed


def _has_executed_after(
    state: ChannelState, began_at: LogCoordinates | None, passed_with: LogCoordinates | None
) -> bool:
    """Whether something after relay log coordinates was executed.

    A start opens the next file, and relay log recovery leaves out what is not executed: the applier
    then passes by the number of the file what it has not executed, and Exec_Source_Log_Pos goes on
    when something of the present source is.
    """
    if passed_with is not None:
        return state.executed != passed_with
    if began_at is None or state.applied is None or not same_family(began_at, state.applied):
        return False
    return began_at.file_number == state.applied.file_number and began_at < state.applied


def _remember_channel(
    evidence: ChannelEvidence, relay: RelayReader | None, history: ChannelBaselines
) -> None:
    """What was reported, and what the next row is compared with."""
    for name, value in evidence.monotone().items():
        previous = evidence.previous.get(name)
        if not same_family(previous, value):
            previous = None
        if _note_fall(history.fallen, name, value, previous):
            break
    if relay is None:
        return
    applied = evidence.applied
    if applied is not None and evidence.passed is not None and evidence.gtid_executed is not None:
        history.applied_lost = history.applied_lost | evidence.not_executed()
        relay.queue.drop_until(applied.file_number, applied.position)
    if evidence.retrieved is not None and relay.received_is_complete:
        history.received = relay.received.freeze()


def _accept_channel(row: Row, state: ChannelState, history: ChannelBaselines) -> None:
    def is_broken(*rules: Any) -> bool:
        return row.checks.is_broken(*rules, channel=state.channel)

    is_of_now = state.relay is not None and not state.may_name_former
    if is_of_now and not is_broken(
        relay_position_on_written_boundary, applied_within_flushed, channel_positions_monotone
    ):
        history.relay = state.relay
    if is_broken(applied_within_flushed, applied_relay_gtids_executed):
        state.applied = None
    elif state.applied is not None:
        history.applied = state.applied
    if is_broken(exec_source_pos_within_read, channel_positions_monotone):
        state.executed = None
    elif state.executed is not None:
        history.executed = state.executed
        history.executed_may_be_former = history.may_execute_former
    if is_broken(retrieved_matches_relay):
        state.retrieved = None
    if row.state.has_workers:
        history.workers = workers_stored(state, row.relays.get(state.channel), history)
    if state.source_uuid is not None:
        history.source_uuid = state.source_uuid
    if state.auto_position is not None:
        history.auto_position = state.auto_position


def _note_fall(fallen: dict[str, Any], name: str, value: Any, previous: Any) -> bool:
    """Remember a value that fell until one is accepted again; returns whether it fell."""
    if previous is None or previous <= value:
        fallen.pop(name, None)
        return False
    has_fallen = name not in fallen or not fallen[name] <= value
    fallen[name] = value  # also where it goes on from there: another rule may not accept it
    return has_fallen
