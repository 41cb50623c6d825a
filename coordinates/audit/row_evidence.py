"""Evidence for the rules on an instance's row: its values, what the logs show, and earlier rows.

Nothing is decided here and nothing is changed. Each function makes the evidence of one family.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tallystick.coordinates.logs.event_window import END, FILE, GNO, MARK, SID, Mark
from tallystick.coordinates.rules.binlog_position import (
    BINLOG_MISSED,
    GROUP_NOT_WHOLE,
    NO_BINLOG_SEEN,
    OFFSETS_DOUBTFUL,
    OTHER_BASE_NAME,
    PositionEvidence,
    snapshot_position_on_group_boundary,
)
from tallystick.coordinates.rules.columns import NOT_REMEMBERED
from tallystick.coordinates.rules.commit_lag import SETTLE_US, LagEvidence, LoggedGroups
from tallystick.coordinates.rules.executed_set import (
    ExecutedEvidence,
    Growth,
    executed_within_logged,
)
from tallystick.coordinates.rules.innodb import RedoEvidence
from tallystick.coordinates.rules.outcomes import Broken, Undecided
from tallystick.coordinates.rules.purged_set import PurgedEvidence
from tallystick.coordinates.values.binlog import LogCoordinates
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallystick.coordinates.audit.baselines import Baselines
    from tallystick.coordinates.audit.row_checks import RowChecks
    from tallystick.coordinates.audit.server import Server
    from tallystick.coordinates.events.log_status import ServerState
    from tallystick.coordinates.logs.binlog_reader import BinlogReader
    from tallystick.coordinates.logs.relay_reader import RelayReader
    from tallystick.coordinates.rules.registry import Rule

_BOUNDARY = np.zeros(len(Mark), dtype=bool)
_BOUNDARY[[Mark.GROUP, Mark.HEADER, Mark.FILE]] = True


@dataclass(slots=True)
class Row:
    """One log_status row, and what is known of the instance where its journal has reached it."""

    collection_id: str
    ts: int
    body: Mapping[str, Any]
    state: ServerState
    server: Server
    binlog: BinlogReader
    relays: Mapping[str, RelayReader]
    baselines: Baselines
    checks: RowChecks
    redo_capacity: int | None
    log_before: LogCoordinates | None

    @property
    def has_binlog(self) -> bool:
        """Whether the row is of a server that writes a binary log."""
        shown = self.state.has_binlog
        return self.server.log_bin if shown is None else shown


# The position


def position_evidence(row: Row) -> PositionEvidence:
    """Of the binary log coordinates."""
    position, binlog, history = row.state.position, row.binlog, row.baselines
    fallen: Any = history.fallen.get("position")
    is_timed = row.body["received_at"] is not None
    doubt = _binlog_doubt(position, binlog)
    if position is None or doubt is not None:
        return PositionEvidence(
            position=position,
            has_binlog=row.has_binlog,
            previous_position=history.position,
            fallen=fallen,
            log_before=row.log_before,
            is_timed=is_timed,
            relay_log_of=_relay_log_of(row, position),
            doubt=doubt,
        )
    mark = _mark_at(position, binlog)
    boundary_doubt = _boundary_doubt(position, mark, binlog)
    before = None
    if mark is not None and _BOUNDARY[mark]:
        before = position
    elif boundary_doubt is None:
        before = _boundary_before(position, binlog)
    return PositionEvidence(
        position=position,
        has_binlog=row.has_binlog,
        journal_position=before,
        previous_position=history.position,
        fallen=fallen,
        log_before=row.log_before,
        is_timed=is_timed,
        boundary_doubt=boundary_doubt,
        log_end=LogCoordinates(position.base_name, binlog.file_number, binlog.end),
        file_end=_file_end(position, binlog),
        is_event_end=mark is not None,
    )


def _binlog_doubt(position: LogCoordinates | None, binlog: BinlogReader) -> Undecided | None:
    """Why the log says nothing about a position."""
    if binlog.base_name is None:
        return Undecided(NO_BINLOG_SEEN)
    if position is not None and binlog.base_name != position.base_name:
        return Undecided(OTHER_BASE_NAME, base_name=binlog.base_name)
    if binlog.end < 0:
        return Undecided(BINLOG_MISSED)
    return Undecided(OFFSETS_DOUBTFUL) if binlog.offsets_doubtful else None


def _relay_log_of(row: Row, position: LogCoordinates | None) -> str | None:
    """Whose relay log the files of a position are, where the binary log has other names."""
    if position is None or row.binlog.base_name in (None, position.base_name):
        return None
    of_base = (n for n, relay in row.relays.items() if relay.base_name == position.base_name)
    return next(of_base, None)


def _file_end(position: LogCoordinates, binlog: BinlogReader) -> LogCoordinates | None:
    """Where the file of a position ends, None when no event of it is remembered."""
    if position.file_number == binlog.file_number:
        return LogCoordinates(position.base_name, binlog.file_number, binlog.end)
    rows = binlog.window.rows()
    ends = rows[rows[:, FILE] == position.file_number][:, END]
    if not len(ends):
        return None
    return LogCoordinates(position.base_name, position.file_number, int(ends[-1]))


def _mark_at(position: LogCoordinates, binlog: BinlogReader) -> int | None:
    """The mark of the event that ends at a position, None when none is remembered."""
    found = binlog.window.find_end(position.file_number, position.position)
    return None if found is None else int(binlog.window.rows()[found, MARK])


def _boundary_doubt(
    position: LogCoordinates, mark: int | None, binlog: BinlogReader
) -> Undecided | None:
    """Why it is not known whether a group ends at a position."""
    if mark is not None:
        return Undecided(GROUP_NOT_WHOLE) if mark == Mark.UNKNOWN else None
    end, window = (position.file_number, position.position), binlog.window
    is_written = end <= (binlog.file_number, binlog.end)
    if is_written and not window.knows(*end):
        return Undecided(NOT_REMEMBERED)
    return None


def _boundary_before(position: LogCoordinates, binlog: BinlogReader) -> LogCoordinates | None:
    """The last end of a group, header or file at or before a position."""
    rows = binlog.window.rows()
    ends = rows[_BOUNDARY[rows[:, MARK]]]
    earlier = ends[
        (ends[:, FILE] < position.file_number)
        | ((ends[:, FILE] == position.file_number) & (ends[:, END] <= position.position))
    ]
    if not len(earlier):
        return None
    last = earlier[-1]
    return LogCoordinates(position.base_name, int(last[FILE]), int(last[END]))


def _logged_up_to(row: Row, evidence: PositionEvidence) -> GtidSet | None:
    """What the binary log holds up to the row's position, None unknown."""
    if not row.has_binlog:
        return GtidSet.EMPTY
    position = row.state.position
    if position is None or evidence.doubt is not None:
        return None
    return row.binlog.logged_at(position.file_number, position.position)


# The executed set


def executed_evidence(
    row: Row, position: PositionEvidence, *, log_changed: bool
) -> ExecutedEvidence:
    """Of gtid_executed, and what the binary log holds up to the row's position."""
    state, history, server = row.state, row.baselines, row.server
    fallen: Any = history.fallen.get("executed")
    return ExecutedEvidence(
        gtid_executed=state.executed,
        gtid_purged=state.purged,
        gtid_owned=state.owned,
        server_uuid=server.server_uuid,
        position=state.position,
        has_binlog=server.log_bin and row.has_binlog,
        journal_gtid_set=_logged_up_to(row, position),
        logs_everything=server.logs_everything,
        previous_gtid_executed=history.executed,
        fallen=fallen,
        assigned=history.assigned,
        must_recover=history.must_recover,
        growth=_growth(row, position.doubt),
        read_before=(state.executed_first or GtidSet.EMPTY) | state.executed_in_status,
        log_was_off=history.log_bin_was_off,
        log_changed=log_changed,
    )


def unless_named(position: PositionEvidence, executed: ExecutedEvidence) -> PositionEvidence:
    """Of a position that another rule finds wrong at any time nobody asks whether it is old."""
    if position.log_before is None:
        return position
    is_named = _breaks(snapshot_position_on_group_boundary, position)
    if is_named or _breaks(executed_within_logged, executed):
        return replace(position, log_before=None)
    return position


def _breaks(rule: Rule, evidence: Any) -> bool:
    assert rule.judge is not None
    return isinstance(rule.judge(evidence), Broken)


def _growth(row: Row, binlog_doubt: Undecided | None) -> Growth:
    state, history, server, binlog = row.state, row.baselines, row.server, row.binlog
    logged = binlog.grouped.freeze()
    purged = GtidSet.EMPTY if state.purged is None else state.purged - logged
    received = tuple(relay.received_ever.freeze() for relay in row.relays.values())
    return Growth(
        brought=(history.unexplained, history.assigned, binlog.local.freeze(), purged, *received),
        uuids=tuple(uuid for uuid in (server.server_uuid, server.group_uuid) if uuid is not None),
        doubtful=binlog.of_unknown_writer.freeze(),
        received=received,
        logged=logged,
        writes_doubt=binlog_doubt if server.log_bin and row.has_binlog else None,
        has_anonymous=any(relay.has_anonymous for relay in row.relays.values()),
        is_complete=server.has_started
        and server.server_uuid is not None
        and not history.unseen_channel_left
        and all(_was_seen_completely(row.relays.get(name)) for name in state.channels),
    )


def _was_seen_completely(relay: RelayReader | None) -> bool:
    return relay is not None and relay.base_name is not None and relay.received_is_complete


# The commit lag


def lag_evidence(row: Row, executed: ExecutedEvidence) -> LagEvidence:
    """Of what is logged and not executed."""
    history, server = row.baselines, row.server
    gtids, logged = executed.gtid_executed, executed.journal_gtid_set
    recovered = executed.must_recover
    due = GtidSet.EMPTY
    for ts, unsettled in history.unsettled:
        if row.ts - ts >= SETTLE_US:
            due = due | unsettled
    is_behind = gtids is not None and logged is not None and not logged <= gtids
    evidence = LagEvidence(
        gtid_executed=gtids,
        journal_gtid_set=logged,
        commit_lag_max=server.commit_lag_max,
        knows_commit_lag_max=server.knows_commit_lag_max,
        commits_are_ordered=server.commits_are_ordered,
        groups=_groups(row) if is_behind else None,
        known_holes=history.known_holes,
        late_recovered=GtidSet.EMPTY if recovered is None or gtids is None else recovered - gtids,
        due=due,
        lost=history.lost,
    )
    if (
        server.is_atomic
        and server.number("commit_lag_max") is None
        and not _is_named(executed, evidence)
    ):
        # The row is one instant: nothing is between the log and gtid_executed.
        return replace(evidence, commit_lag_max=0, knows_commit_lag_max=True)
    return evidence


def _is_named(executed: ExecutedEvidence, evidence: LagEvidence) -> bool:
    """Whether another rule says of what is missing that it is: a set that fell, or a hole."""
    gtids, previous = executed.gtid_executed, executed.previous_gtid_executed
    has_fallen = gtids is not None and previous is not None and not previous <= gtids
    missing = evidence.missing or GtidSet.EMPTY
    known = evidence.known_holes | evidence.late_recovered | evidence.lost
    return has_fallen or not missing.isdisjoint(known | evidence.holes()[0])


def _groups(row: Row) -> LoggedGroups | None:
    position, binlog = row.state.position, row.binlog
    if position is None:
        return None
    groups = binlog.groups_up_to(position.file_number, position.position)
    return LoggedGroups(binlog.sids, groups[:, SID], groups[:, GNO])


# The purged set, and the files


def purged_evidence(row: Row) -> PurgedEvidence:
    """Of gtid_purged, the list of binary logs, and mysql.gtid_executed."""
    state, history, binlog = row.state, row.baselines, row.binlog
    fallen: Any = history.fallen.get("purged")
    oldest = binlog.oldest_file
    if state.binary_logs:
        oldest = state.binary_logs[0][0]
    return PurgedEvidence(
        gtid_purged=state.purged,
        gtid_executed=state.executed,
        previous_gtid_purged=history.purged,
        fallen=fallen,
        has_binlog=row.has_binlog and not row.state.may_lack_binlog,
        is_off=row.server.is_log_bin_off,
        logged=binlog.logged.freeze(),
        grouped=binlog.grouped.freeze(),
        lost_from_log=_lost_from_log(row),
        oldest_file=oldest,
        oldest_previous=None if oldest is None else binlog.previous.get(oldest),
        is_oldest_as_before=oldest == history.oldest_file,
        binary_logs=state.binary_logs,
        seen=binlog.previous,
        followed=binlog.followed,
        closed=binlog.closed,
        open_end=_open_end(row),
        list_changed=state.binary_logs_changed,
        list_confirmed=state.binary_logs_confirmed,
        gtid_table=state.gtid_table,
        gtid_owned=state.owned,
        prepared_xa=state.prepared_xa,
        executed_first=state.executed_first,
    )


def _open_end(row: Row) -> int | None:
    """Where the last file of the list ends by now; it was read before the row."""
    state, binlog = row.state, row.binlog
    if not state.binary_logs or row.baselines.position is None:
        return None
    last = state.binary_logs[-1][0]
    if binlog.file_name != last:
        return binlog.closed.get(last)
    # In one that was closed a server goes on only by the breach of another rule.
    is_known = binlog.end >= 0 and not binlog.offsets_doubtful and last not in binlog.closed
    return binlog.end if is_known else None


def _lost_from_log(row: Row) -> GtidSet:
    """GTIDs that became purged and are not in the log: a crash took them out, or so the log shows.

    Files are purged from the oldest on: of its own GTIDs the log has no older ones then. At a start
    the server counts as purged what InnoDB has committed and the log does not hold. What was purged
    before is that of its data: a server that was restored numbers on in the holes of its image.
    """
    own, binlog, purged = row.server.server_uuid, row.binlog, row.state.purged
    before = row.baselines.purged
    if purged is None or own is None or before is None:
        return GtidSet.EMPTY
    if not binlog.logged_is_complete or row.baselines.log_bin_was_off:
        return GtidSet.EMPTY
    logged = binlog.logged.freeze()
    lost = purged - before - logged - row.baselines.assigned
    if not lost:
        return lost
    kept = (logged - purged).restrict(own)
    oldest = {sid: first for sid, first, _ in reversed(list(kept))}
    behind_kept = GtidSet.from_bounds(
        {
            sid: [first, last + 1]
            for sid, first, last in lost.restrict(own)
            if first > oldest.get(sid, last)
        }
    )
    return behind_kept | (lost & binlog.torn_off if row.server.logs_everything else GtidSet.EMPTY)


# The redo log


def redo_evidence(row: Row, grown: tuple[GtidSet, GtidSet] | None) -> RedoEvidence:
    """Of the LSNs; ``grown``: the executed sets of the last accepted row and of this one."""
    state, history = row.state, row.baselines
    is_still = state.lsn is not None and state.lsn == history.numbers.get("LSN")
    return RedoEvidence(
        lsn=state.lsn,
        lsn_checkpoint=state.lsn_checkpoint,
        previous=dict(history.numbers),
        innodb=state.innodb,
        fallen=dict(history.fallen),
        capacity=row.redo_capacity,
        has_other_engines=state.has_other_engines,
        redo_was_disabled=history.redo_was_disabled or row.server.redo_is_disabled,
        commits=_commits(row.binlog, *grown) if grown is not None and is_still else None,
        has_anonymous=is_still and any(number < 0 for number, _ in row.binlog.xid_groups),
    )


def _commits(binlog: BinlogReader, before: GtidSet, after: GtidSet) -> list[str]:
    """GTIDs of InnoDB's commits since the last row that became executed since."""
    commits = []
    for number, gno in binlog.xid_groups:
        if number >= 0:
            gnos = np.array([gno], dtype=np.int64)
            sid = binlog.sids[number]
            if after.contains_gnos(sid, gnos)[0] and not before.contains_gnos(sid, gnos)[0]:
                commits.append(f"{sid}:{gno}")
    return commits
