"""One instance's answer to a collection becomes cuts, findings and a fleet event."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.audit.cut import Cut
from tallystick.coordinates.audit.fleet_events import FleetEventKind
from tallystick.coordinates.audit.reporter import shorten
from tallystick.coordinates.audit.row_checks import RowChecks
from tallystick.coordinates.audit.row_evidence import Row
from tallystick.coordinates.audit.row_rules import (
    judge_channels,
    judge_instance,
    name_applied_files,
    note_commits_in_doubt,
)
from tallystick.coordinates.events.log_status import ServerState
from tallystick.coordinates.results import ObservationCode, Outcome, Verdict
from tallystick.coordinates.rules import observations
from tallystick.coordinates.rules.applied_groups import (
    APPLIED_BEFORE,
    APPLIED_BY_TWO,
    CRASH_UNFOLLOWED,
    GOES_ROUND,
    PASSED_UNLOGGED,
    START_FORGOTTEN,
)
from tallystick.coordinates.rules.backup_coordinates import HeaderUnderLock
from tallystick.coordinates.rules.binlog_position import (
    ROW_MAY_BE_OLD,
    snapshot_position_on_group_boundary,
)
from tallystick.coordinates.rules.channel import RELAY_OF_OTHER_NAME
from tallystick.coordinates.rules.clone import CLONE_DROPPED_DATA, FAILED_CLONE_NOT_RESUMED
from tallystick.coordinates.rules.executed_set import (
    COMMITS_UNLOGGED,
    SENDER_UNSEEN,
    executed_within_logged,
)
from tallystick.coordinates.rules.gtid_table import GtidTable
from tallystick.coordinates.rules.innodb import RedoEvidence
from tallystick.coordinates.rules.listed_channels import LEFT_OUT, LEFT_OUT_UNSEEN, LISTED_ALONE
from tallystick.coordinates.rules.log_stream import BINLOG_LOG_POS_FIELD_AGREES
from tallystick.coordinates.rules.logged_groups import (
    GTID_MODE_RESPECTED,
    SEQUENCE_NUMBERS_VALID,
    TRANSACTION_LENGTH_AGREES,
)
from tallystick.coordinates.rules.observations import FIELD_NOT_GIVEN, GTID_MODE_NOT_KNOWN
from tallystick.coordinates.rules.outcomes import Broken, Undecided
from tallystick.coordinates.rules.protocol_steps import FORGOTTEN, HELD_LONG
from tallystick.coordinates.rules.purged_set import (
    PURGE_IN_DOUBT,
    binlog_files_form_range,
    purged_matches_oldest_file,
)
from tallystick.coordinates.rules.readable import (
    NO_ROW,
    NOT_REACHED,
    OF_ANOTHER_SERVER,
    SETTINGS_LOST,
    AnswerEvidence,
    snapshot_never_silently_empty,
)
from tallystick.coordinates.rules.redo_log import (
    FLUSHED_REDO_SURVIVES_START,
    without_evidence,
)
from tallystick.coordinates.rules.redo_positions import (
    LSN_NOT_ACCEPTED,
    ROW_LSN_AT_ITS_INSTANT,
    lost_at_start,
    row_at_its_instant,
)
from tallystick.coordinates.rules.registry import rules_on
from tallystick.coordinates.rules.replication_info import ROW_MISSING
from tallystick.coordinates.rules.replication_threads import DISTURBED
from tallystick.coordinates.values.binlog import parse_log_file_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tallystick.coordinates.audit.instance_state import InstanceState, WaitingRow
    from tallystick.coordinates.audit.row_rules import RowEvidence
    from tallystick.coordinates.audit.server import Server
    from tallystick.coordinates.events.log_status import ChannelState, Problem, ThreadState
    from tallystick.coordinates.logs.relay_reader import RelayReader
    from tallystick.coordinates.results import Check
    from tallystick.coordinates.rules.channel import ChannelEvidence
    from tallystick.coordinates.rules.executed_set import ExecutedEvidence
    from tallystick.coordinates.rules.outcomes import Reason, RowAnswer
    from tallystick.coordinates.values.binlog import LogCoordinates

REFUSED_CODES = frozenset({1142, 1227})
"""ER_TABLEACCESS_DENIED_ERROR, ER_SPECIFIC_ACCESS_DENIED_ERROR."""
READABLE = rules_on(AnswerEvidence)
_HEADER, _GTID_TABLE = rules_on(HeaderUnderLock), rules_on(GtidTable)
_REDO = rules_on(RedoEvidence)
_OF_FIELDS = {
    "log_pos": BINLOG_LOG_POS_FIELD_AGREES,
    "transaction_length": TRANSACTION_LENGTH_AGREES,
    "sequence_number": SEQUENCE_NUMBERS_VALID,
}
"""Rules of events that rest on a field which a journal need not carry."""
REQUIRED_FOR_CONSISTENT = (executed_within_logged, snapshot_position_on_group_boundary)
"""Without these two a row cannot be called consistent; others undecided are listed with it."""
NOT_CONSISTENT = DISTURBED | {
    SENDER_UNSEEN.code, LEFT_OUT.code, LEFT_OUT_UNSEEN.code, FORGOTTEN.code, HELD_LONG.code,
    START_FORGOTTEN.code, APPLIED_BEFORE.code, PASSED_UNLOGGED.code, RELAY_OF_OTHER_NAME.code,
    APPLIED_BY_TWO.code, GOES_ROUND.code, CRASH_UNFOLLOWED.code,
    ROW_MISSING.code, LISTED_ALONE.code, ROW_MAY_BE_OLD.code, CLONE_DROPPED_DATA.code,
}  # fmt: skip
"""Nor with one of these reasons: something keeps a channel from going on, or came by one that was
not seen, the row may lack a channel, list one that is gone, or name files of another relay log than
was observed, an info table lacks a channel, a limit dropped what may hide a breach, commits wait
for a lock for long, it may be an old one, a crash let an applier go on nobody knows where, or the
data are gone."""


def judge_answer(waiting: WaitingRow, audit: InstanceState, *, is_early: bool = False) -> list[Cut]:
    """Judge one answer and return its rows of the cut table.

    Args:
        waiting: The answer.
        audit: Everything read so far.
        is_early: Whether the journal ended before it reached the row's coordinates; then only what
            the row says by itself is judged.
    """
    reporter = audit.reporter
    reporter.position = (waiting.epoch, waiting.sequence, waiting.ts)
    collection_id = str(waiting.body.get("collection_id"))
    checks = RowChecks(reporter, collection_id)
    if waiting.state is None:
        return [_judge_no_row(waiting, audit, checks, collection_id)]
    state = waiting.state
    base = _server_side(waiting, audit, collection_id)
    if reporter.is_mute:
        return [_leave_undecided(audit, checks, base, SETTINGS_LOST)]
    _ask_readable(checks, state.problems)
    not_judged = _note_not_judged(state, audit, collection_id, is_early=is_early)
    if not_judged is not None:
        return [_leave_undecided(audit, checks, base, not_judged)]
    row = Row(
        collection_id=collection_id,
        ts=waiting.ts,
        body=waiting.body,
        state=state,
        server=audit.server,
        binlog=audit.binlog,
        relays=audit.relays,
        baselines=audit.baselines,
        checks=checks,
        redo_capacity=audit.redo.capacity_at(state.lsn, state.lsn_checkpoint),
        log_before=waiting.log_before,
    )
    name_applied_files(row)
    channels = {name: _channel_side(base, state, name) for name in state.channels}
    evidence = judge_instance(row)
    _leave_unseen_undecided(audit, checks)
    asked_at = waiting.body["asked_at"]
    surely_at = waiting.surely_at
    audit.persistence.table_read(state, surely_at, waiting.ts)
    _leave_steps_undecided(waiting, audit, checks)
    _compare_with_redo(waiting, audit, checks)
    _doubt_purge(audit, state, surely_at, collection_id)
    asked = judge_channels(row, audit.applied)
    is_backup_safe = audit.server.is_backup_safe and audit.server.log_bin
    locks = audit.backup_lock_freeze
    if is_backup_safe and locks.freezes_tables:
        checks.ask(_HEADER, HeaderUnderLock(state.trx_sys, locks.tables_locked_at))
    locks.row(state, asked_at, collection_id)
    table = audit.persistence.gtid_table(state, asked_at, surely_at, audit.binlog.previous)
    checks.ask(_GTID_TABLE, table)
    audit.persistence.row_read(state.position, waiting.ts)
    audit.baselines.has_row = True
    _emit_status(waiting, audit, collection_id, evidence.executed)
    instance = base | _journal_side(evidence, audit.server) | _previous_side(evidence)
    instance |= {
        "journal_written_lsn": waiting.redo.written,
        "journal_flushed_lsn": waiting.redo.flushed,
        "journal_checkpoint_lsn": waiting.redo.checkpoint,
    }
    instance |= {"scope": "instance", "event_findings": audit.event_findings}
    cuts = [Cut(**instance, **_checked(checks, None))]
    cuts += [
        Cut(
            **channels[name],
            **_channel_journal_side(asked[name]),
            filtered=audit.baselines.channel(name).leaves_out,
            **_checked(checks, name),
        )
        for name in sorted(channels)
    ]
    return cuts


def _doubt_purge(
    audit: InstanceState, state: ServerState, surely_at: int | None, collection_id: str
) -> None:
    """Files that a purge is said to have removed, and that are listed after it: named once."""
    file, logs = audit.binlog.oldest_file, state.binary_logs
    is_later = surely_at is not None and surely_at > audit.purged_ts
    if file is None or not logs or not is_later:
        return
    (listed_base, listed), (base_name, number) = map(parse_log_file_name, (logs[0][0], file))
    if listed_base != base_name or listed >= number:
        return
    audit.binlog.purge(logs[0][0])
    rules = (purged_matches_oldest_file, binlog_files_form_range)
    judged = tuple(rule for rule in rules if rule.name not in audit.reporter.disabled)
    if judged:
        audit.reporter.note(
            ObservationCode.COMPARISON_UNDECIDED,
            PURGE_IN_DOUBT,
            at=logs[0][0],
            rules=judged,
            is_undecided=True,
            collection_id=collection_id,
            listed=logs[0][0],
            file=file,
        )


def _compare_with_redo(waiting: WaitingRow, audit: InstanceState, checks: RowChecks) -> None:
    """The LSNs of a row, where no rule on them is broken, beside the redo log of its instant."""
    state, redo = waiting.state, waiting.redo
    assert state is not None
    if audit.redo.in_doubt is not None:
        goes_on_at, returned = audit.redo.in_doubt
        doubt = Undecided(COMMITS_UNLOGGED, lsn=goes_on_at, returned=returned)
        note_commits_in_doubt(audit.reporter, doubt)
        audit.redo.in_doubt = None
    answer: RowAnswer = Undecided(LSN_NOT_ACCEPTED)
    if not checks.is_broken(*_REDO):
        # Another LSN than that of the collection's own step has been found already.
        lsn = audit.collection_steps.lsn_of(checks.collection_id) or state.lsn
        seen = redo.for_row(waiting.surely_at)
        lost = lost_at_start(lsn, seen)
        if lost is not None:
            checks.take(FLUSHED_REDO_SURVIVES_START, lost)
            audit.redo.loss_was_shown()
        else:
            answer = row_at_its_instant(lsn, state.lsn_checkpoint, seen)
        is_accepted = not isinstance(answer, Broken)
        if is_accepted and lsn is not None and state.position is not None:
            audit.redo_positions.row(state.position, lsn)
    checks.take(ROW_LSN_AT_ITS_INSTANT, answer)


def _leave_steps_undecided(waiting: WaitingRow, audit: InstanceState, checks: RowChecks) -> None:
    """Rules of steps and of redo events that lack one. Of a rule's reasons the first counts."""
    for rule, undecided in audit.forgotten_steps():
        checks.take(rule, undecided)
    for one in sorted(audit.unended_steps(), key=attrgetter("stops", "since")):
        # The session of the row itself unlocks when it has read the row.
        if one.collection_id != checks.collection_id:
            checks.take(one.rule, one.undecided(waiting.ts))
    data = audit.clones.of_data(waiting.body)
    if data is not None:
        checks.take(FAILED_CLONE_NOT_RESUMED, data)
    if waiting.redo.written is not None:
        for rule, answer in without_evidence(audit.redo.lacking()):
            checks.take(rule, answer)


def _leave_unseen_undecided(audit: InstanceState, checks: RowChecks) -> None:
    """Rules of events that need what the journal does not carry."""
    for name in sorted(audit.event_fields.lacking):
        checks.take(_OF_FIELDS[name], Undecided(FIELD_NOT_GIVEN, field=name))
    if audit.server.gtid_mode is None and audit.binlog.base_name is not None:
        checks.take(GTID_MODE_RESPECTED, Undecided(GTID_MODE_NOT_KNOWN))


# Answers without a row


def _judge_no_row(
    waiting: WaitingRow, audit: InstanceState, checks: RowChecks, collection_id: str
) -> Cut:
    reporter, error = audit.reporter, waiting.body.get("error")
    values: dict[str, Any] = {
        "collection_id": collection_id,
        "instance_id": audit.instance_id,
        "scope": "instance",
        "ts": waiting.ts,
        "epoch": waiting.epoch,
        "sequence": waiting.sequence,
        "profile": audit.server.profile,
        "server_uuid": audit.server.server_uuid,
        "cluster": audit.server.cluster,
        "event_findings": audit.event_findings,
    }
    if not isinstance(error, dict) or not error:
        values["answer"] = "empty"
    else:
        values |= _refusal(error)
        reporter.note(
            {
                "refused": ObservationCode.LOG_STATUS_REFUSED,
                "failed": ObservationCode.LOG_STATUS_FAILED,
            }.get(values["answer"], ObservationCode.LOG_STATUS_MISSING),
            observations.NO_ROW,
            at=collection_id,
            error=shorten(str(values["error_text"])),
            is_undecided=True,
            collection_id=collection_id,
        )
    checks.ask(
        (snapshot_never_silently_empty,),
        AnswerEvidence(collection_id=collection_id, answer=values["answer"]),
    )
    reporter.fleet_event(
        FleetEventKind.NO_STATUS, {"collection_id": collection_id, "reason": values["answer"]}
    )
    return Cut(**values, **_undecided(checks, NO_ROW[values["answer"]]))


def _refusal(error: Mapping[str, Any]) -> dict[str, Any]:
    code = error.get("code")
    code = code if isinstance(code, int) and not isinstance(code, bool) else None
    if error.get("timed_out"):
        answer, text = "missing", "the query timed out"
    elif error.get("unreachable"):
        answer, text = "missing", "the server was not reachable"
    elif code in REFUSED_CODES:
        answer, text = "refused", "access denied"
    else:
        answer, text = "failed", f"error {code}"
    if error.get("message"):
        text = f"{text}: {error['message']}"
    if error.get("column"):
        text = f"{text} (column {error['column']})"
    return {"answer": answer, "error_code": code, "error_text": text}


def _note_not_judged(
    state: ServerState, audit: InstanceState, collection_id: str, *, is_early: bool
) -> Reason | None:
    """Why a row cannot be judged by the journal: it is of another server, or beyond the end."""
    own = audit.server.server_uuid = audit.server.server_uuid or state.server_uuid
    if state.server_uuid not in (None, own):
        audit.reporter.note(
            ObservationCode.LOG_STATUS_MISSING,
            observations.ROW_NAMES_ANOTHER_SERVER,
            at=collection_id,
            found=state.server_uuid,
            expected=own,
            is_undecided=True,
            collection_id=collection_id,
        )
        return OF_ANOTHER_SERVER
    if is_early:
        audit.reporter.note(
            ObservationCode.LOG_STATUS_EARLY,
            NOT_REACHED,
            at=collection_id,
            is_undecided=True,
            collection_id=collection_id,
        )
        return NOT_REACHED
    return None


def _leave_undecided(
    audit: InstanceState, checks: RowChecks, base: dict[str, Any], why: Reason
) -> Cut:
    """A row that cannot be judged by the journal: no baseline, and nothing for the fleet."""
    audit.reporter.fleet_event(
        FleetEventKind.NO_STATUS,
        {"collection_id": checks.collection_id, "reason": "undecided"},
    )
    return Cut(
        **base,
        scope="instance",
        event_findings=audit.event_findings,
        **_undecided(checks, why),
    )


# Tier 0


def _ask_readable(checks: RowChecks, problems: Sequence[Problem]) -> None:
    """Ask about the answer as a whole, then about each datum that could not be read."""
    whole = AnswerEvidence(collection_id=checks.collection_id)
    checks.ask(READABLE, whole)
    seen = set()
    for problem in problems:
        if (problem.kind, problem.datum) not in seen:
            seen.add((problem.kind, problem.datum))
            checks.ask(READABLE, replace(whole, problems=(problem,)))


# The sides of the cut


def _server_side(waiting: WaitingRow, audit: InstanceState, collection_id: str) -> dict[str, Any]:
    state = waiting.state or ServerState()
    return {
        "collection_id": collection_id,
        "instance_id": audit.instance_id,
        "ts": waiting.ts,
        "epoch": waiting.epoch,
        "sequence": waiting.sequence,
        "server_uuid": state.server_uuid,
        "cluster": audit.server.cluster,
        "profile": audit.server.profile,
        "gtid_executed": _text(state.executed),
        "gtid_purged": _text(state.purged),
        "gtid_owned": _text(state.owned),
        "lsn": state.lsn,
        "lsn_checkpoint": state.lsn_checkpoint,
        **_log_coordinates("binary_log_file", "binary_log_position", state.position),
    }


def _channel_side(base: Mapping[str, Any], state: ServerState, name: str) -> dict[str, Any]:
    channel = state.channels[name]
    kept = (
        *("collection_id", "instance_id", "ts", "epoch", "sequence"),
        *("server_uuid", "cluster", "profile"),
    )
    return {
        **{key: base[key] for key in kept},
        "scope": "channel",
        "channel": name,
        "source_uuid": channel.source_uuid,
        "retrieved_gtid_set": _text(channel.retrieved),
        "auto_position": channel.auto_position,
        "receiver": _thread(channel.receiver),
        "applier": _thread(channel.applier),
        **(
            {"relay_log_file": "", "relay_log_position": 0}
            if channel.relay_is_empty
            else _log_coordinates("relay_log_file", "relay_log_position", channel.relay)
        ),
        **_log_coordinates("applied_relay_log_file", "applied_relay_log_position", channel.applied),
        **_log_coordinates("read_source_log_file", "read_source_log_pos", channel.read),
        **_log_coordinates("exec_source_log_file", "exec_source_log_pos", channel.executed),
    }


def _thread(thread: ThreadState | None) -> str | None:
    if thread is None:
        return None
    return "stopped" if thread.is_stopped else "connecting" if thread.is_connecting else "running"


def _channel_journal_side(evidence: ChannelEvidence) -> dict[str, Any]:
    return {
        "journal_retrieved_gtid_set": _text(evidence.journal_retrieved),
        **_log_coordinates(
            "journal_relay_log_file", "journal_relay_log_position", evidence.journal_relay
        ),
        **_log_coordinates(
            "journal_read_source_log_file", "journal_read_source_log_pos", evidence.journal_read
        ),
    }


def _journal_side(evidence: RowEvidence, server: Server) -> dict[str, Any]:
    missing = evidence.lag.missing
    return {
        "journal_gtid_set": _text(evidence.lag.journal_gtid_set),
        "commit_lag": None if missing is None else missing.count(),
        "commit_lag_max": evidence.lag.commit_lag_max,
        "commits_are_ordered": server.commits_are_ordered,
        "logs_everything": server.logs_everything,
        **_log_coordinates(
            "journal_binary_log_file",
            "journal_binary_log_position",
            evidence.position.journal_position,
        ),
    }


def _previous_side(evidence: RowEvidence) -> dict[str, Any]:
    """What this row was compared with; nothing where a fall has been reported already."""
    position, executed, _, purged, redo = evidence
    has_lsn = "LSN" not in redo.fallen
    return {
        "previous_gtid_executed": None
        if executed.fallen is not None
        else _text(executed.previous_gtid_executed),
        "previous_gtid_purged": None
        if purged.fallen is not None
        else _text(purged.previous_gtid_purged),
        "previous_lsn": redo.previous.get("LSN") if has_lsn else None,
        **_log_coordinates(
            "previous_binary_log_file",
            "previous_binary_log_position",
            None if position.fallen is not None else position.previous_position,
        ),
    }


def _checked(checks: RowChecks, channel: str | None) -> dict[str, Any]:
    found = checks.of(channel)
    outcomes = {check.outcome for check in found}
    verdict = Verdict.CONSISTENT
    if Outcome.BROKEN in outcomes:
        verdict = Verdict.INCONSISTENT
    elif (
        Outcome.HOLDS not in outcomes
        or checks.is_undecided(*REQUIRED_FOR_CONSISTENT, channel=channel)
        or not NOT_CONSISTENT.isdisjoint([check.reason for check in found])
    ):
        verdict = Verdict.UNDECIDED
    return {"verdict": verdict.value, "checks": found}


def decisive(cut: Cut) -> list[Check]:
    """The undecided checks for which a row is undecided; all of them, where nothing was judged."""
    required = {rule.name for rule in REQUIRED_FOR_CONSISTENT}
    found = [one for one in cut.undecided if one.reason in NOT_CONSISTENT or one.rule in required]
    return found or list(cut.undecided)


def _undecided(checks: RowChecks, why: Reason) -> dict[str, Any]:
    """A row that could not be judged: undecided as a whole, unless it is broken by itself."""
    checked = _checked(checks, None)
    if checked["verdict"] != Verdict.INCONSISTENT.value:
        checked |= {"verdict": Verdict.UNDECIDED.value, "reason": why.code}
    return checked


def _log_coordinates(
    file: str, position: str, coordinates: LogCoordinates | None
) -> dict[str, Any]:
    if coordinates is None:
        return {}
    return {file: coordinates.file_name, position: coordinates.position}


def _text(value: object) -> str | None:
    return None if value is None else str(value)


# For the fleet


def _own_pending(state: ServerState, audit: InstanceState) -> str | None:
    """What its binary log has of the server's own GTIDs and gtid_executed has not.

    None where that is not known: without the whole log, or after a RESET, or what may hide one.
    """
    binlog, executed = audit.binlog, state.executed
    may_be_reset = audit.reset_ts >= 0 or audit.has_lost_records
    is_whole = binlog.logged_is_complete and binlog.base_name is not None and not may_be_reset
    if executed is None or state.server_uuid is None or not is_whole:
        return None
    logged = binlog.logged.freeze()
    return "" if logged <= executed else str((logged - executed).restrict(state.server_uuid))


def _retrieved(channel: ChannelState, relay: RelayReader | None) -> str | None:
    """What the channel has received: the status says so, and without a status the relay log."""
    if channel.has_status or relay is None or not relay.received_is_complete:
        return _text(channel.retrieved)
    return None if relay.base_name is None else str(relay.received.freeze())


def _emit_status(
    waiting: WaitingRow, audit: InstanceState, collection_id: str, evidence: ExecutedEvidence
) -> None:
    """Hand the accepted values of the row to the fleet; the judges have taken out the others."""
    state = waiting.state
    assert state is not None
    is_accepted = state.executed is not None and state.purged is not None
    position = state.position
    channels = []
    for name, channel in state.channels.items():
        history = audit.baselines.channel(name)
        read = channel.read if not channel.is_gtid_only else None
        executed = channel.executed if not channel.is_gtid_only else None
        relay = audit.relays.get(name)
        is_followed = relay is not None and relay.base_name is not None
        channels.append(
            {
                "channel": name,
                "channel_lineage": history.lineage,
                "source_uuid": history.source_uuid,
                "source_instance": history.source_instance,
                "source_server_id": channel.source_server_id,
                "auto_position": bool(history.auto_position),
                "filtered": history.is_filtered,
                "ignores_servers": history.ignores_servers is not False,
                "retrieved_gtid_set": _retrieved(channel, audit.relays.get(name)),
                "read_source_log_file": read.file_name if read else None,
                "read_source_log_pos": read.position if read else None,
                "exec_source_log_file": executed.file_name if executed else None,
                "exec_source_log_pos": executed.position if executed else None,
                "executes_former": history.former_until is not None,
                "may_execute_former": history.may_execute_former,
                "shows_progress": (channel.shows_applied and is_followed)
                or (channel.shows_executed and not channel.is_gtid_only),
                "is_connected": channel.receiver is not None and channel.receiver.is_running,
                "is_held_back": audit.backup_lock_freeze.held_receivers,
                "relay_log_file": channel.relay.file_name if channel.relay else None,
                "relay_log_pos": channel.relay.position if channel.relay else None,
            }
        )
    audit.reporter.fleet_event(
        FleetEventKind.STATUS,
        {
            "collection_id": collection_id,
            "requested_at": waiting.body.get("requested_at"),
            "received_at": waiting.body["received_at"],
            "behind_us": waiting.body["behind_us"],
            "server_uuid": state.server_uuid,
            "server_id": audit.server.server_id,
            "binlog_lineage": audit.binlog.lineage,
            "binary_log_file": position.file_name if position else None,
            "binary_log_position": position.position if position else None,
            "gtid_executed": _text(state.executed),
            "gtid_executed_fallen": _text(state.fallen),
            "gtid_purged": _text(state.purged),
            "gtid_purged_named": _text(evidence.named()) if is_accepted else "",
            "clone_status": state.clone_status,
            "logs_everything": audit.server.logs_everything,
            "own_pending": _own_pending(state, audit) if channels else None,
            "channels": channels,
        },
    )
