"""Evidence for the rules on a channel's row: its values, what the relay log shows, earlier rows.

Nothing is decided here and nothing is changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tallystick.coordinates.logs.event_window import (
    END,
    FILE,
    MARK,
    SOURCE_END,
    SOURCE_FILE,
    START,
    TYPE,
    Mark,
)
from tallystick.coordinates.logs.group_queue import (
    Q_END,
    Q_FILE,
    Q_GNO,
    Q_SID,
    Q_SOURCE_END,
    Q_SOURCE_FILE,
    Q_TYPE,
)
from tallystick.coordinates.rules.channel import (
    FORMER_RELAY,
    NO_RELAY,
    RELAY_MISSED,
    RELAY_OF_OTHER_NAME,
    ChannelEvidence,
    GroupEnd,
)
from tallystick.coordinates.rules.columns import NOT_REMEMBERED, log_with, same_family
from tallystick.coordinates.rules.listed_channels import ListedEvidence
from tallystick.coordinates.rules.outcomes import Undecided
from tallystick.coordinates.rules.replication_info import StoredEvidence
from tallystick.coordinates.rules.replication_threads import ThreadEvidence
from tallystick.coordinates.rules.worker_positions import WorkerPosition, WorkersEvidence
from tallystick.coordinates.values.binlog import MAGIC_LENGTH, WRAP, EventType, LogCoordinates
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    import numpy.typing as npt

    from tallystick.coordinates.audit.baselines import ChannelBaselines
    from tallystick.coordinates.audit.row_evidence import Row
    from tallystick.coordinates.events.log_status import ChannelState, StoredWorker
    from tallystick.coordinates.logs.relay_reader import RelayReader
    from tallystick.coordinates.rules.applied_groups import AppliedGroups

# Plain numbers: an array looks through a member's class for what it might do with arrays.
_XID, _ROTATE, _QUERY = int(EventType.XID), int(EventType.ROTATE), int(EventType.QUERY)
_NOTHING, _GROUP, _FRAMING = int(Mark.NOTHING), int(Mark.GROUP), int(Mark.FRAMING)
_NONE = GtidSet.EMPTY
_OF_SOURCE = np.zeros(len(Mark), dtype=bool)
"""By mark: whether the event is copied from the source's groups."""
_OF_SOURCE[[Mark.NOTHING, Mark.GROUP, Mark.UNKNOWN]] = True


def channel_evidence(
    row: Row, state: ChannelState, relay: RelayReader | None, history: ChannelBaselines
) -> ChannelEvidence:
    """Of one channel; ``relay`` is None where no event of its relay log was seen."""
    previous = {"relay": history.relay, "executed": history.executed}
    return ChannelEvidence(
        relay=state.relay,
        relay_is_empty=state.relay_is_empty,
        applied=state.applied,
        read=state.read,
        executed=state.executed,
        retrieved=state.retrieved,
        other_log=_other_log(row, state, state.relay),
        gtid_executed=row.state.executed,
        was_reset=relay is None or relay.source_base is None,
        auto_position=history.auto_position,
        is_gtid_only=state.is_gtid_only,
        received_before=history.received,
        stored=None if history.master_info is None else history.master_info.coordinates,
        sync_source_info=row.server.number("sync_source_info"),
        previous={name: value for name, value in previous.items() if value is not None},
        fallen=dict(history.fallen),
        executes_former=history.former_until is not None,
        may_execute_former=history.may_execute_former,
        previous_may_be_former=history.executed_may_be_former,
        **({"doubt": Undecided(NO_RELAY)} if relay is None else _shown(row, state, relay, history)),
    )


def _other_log(row: Row, state: ChannelState, named: LogCoordinates | None) -> str | None:
    """Which other log of the server coordinates are in."""
    own = row.relays.get(state.channel)
    if named is None or (own is not None and own.base_name == named.base_name):
        return None
    return log_with(named.base_name, row.binlog, row.relays)


def _shown(
    row: Row, state: ChannelState, relay: RelayReader, history: ChannelBaselines
) -> dict[str, Any]:
    """What the relay log shows of a channel."""
    before = _relay_end_before(state.relay, relay)
    passed, unlogged = _passed(row, state.applied, relay, history)
    return {
        "is_followed": True,
        "relay_end": relay.end_coordinates,
        "group": _group_end(relay, state.applied, state.executed, state.read),
        "journal_relay": before,
        "doubt": _relay_doubt(state, before, relay),
        "journal_read": None
        if history.former_until is not None
        else _read_end(relay, state.executed),
        "journal_retrieved": relay.received.freeze() | relay.arriving()
        if relay.received_is_complete
        else None,
        "inherited": relay.inherited,
        "forgotten": relay.forgotten,
        "cut": relay.cut,
        "events_after": _events_between(state.relay, state.applied, relay),
        "passed": passed,
        "passed_unlogged": unlogged,
        **_beside_master_info(state.relay, relay, history),
    }


def _relay_end_before(flushed: LogCoordinates | None, relay: RelayReader) -> LogCoordinates | None:
    """The last end of an event, or start of a file, at or before the flushed coordinates."""
    if flushed is None or flushed.base_name != relay.base_name:
        return None
    number, offset = flushed.file_number, flushed.position
    is_written = (number, offset) <= (relay.file_number, relay.end)
    if is_written and (offset == MAGIC_LENGTH or relay.window.begins_at(number, offset)):
        return flushed
    last = relay.window.last_end_at_or_before(number, offset)
    return None if last is None else LogCoordinates(flushed.base_name, *last)


def _relay_doubt(
    state: ChannelState, before: LogCoordinates | None, relay: RelayReader
) -> Undecided | None:
    """Why the relay log does not decide on the flushed coordinates."""
    flushed = state.relay
    if flushed is None or relay.base_name is None:
        return Undecided(NO_RELAY)
    if flushed.base_name != relay.base_name:
        names = {"base_name": relay.base_name, "other": flushed.base_name}
        return Undecided(RELAY_OF_OTHER_NAME, **names)
    if relay.end < 0 or relay.offsets_doubtful:
        return Undecided(RELAY_MISSED)
    if flushed == before:
        return None
    if state.may_name_former:
        return Undecided(FORMER_RELAY)
    is_known = relay.window.covers(flushed.file_number, flushed.position)
    return None if is_known else Undecided(NOT_REMEMBERED)


def _beside_master_info(
    flushed: LogCoordinates | None, relay: RelayReader, history: ChannelBaselines
) -> dict[str, Any]:
    """The flushed coordinates in the source's log; the events between them and what is stored."""
    write = history.master_info
    if flushed is None or flushed.base_name != relay.base_name or write is None:
        return {}
    stored, rows = write.coordinates, relay.window.rows()
    is_later = _is_after(rows, flushed, FILE, END)
    before, after = rows[~is_later], rows[is_later]
    if relay.source_base != stored.base_name or not len(before) or before[-1, SOURCE_END] < 0:
        return {}
    values: dict[str, Any] = {"relay_read": _in_source(relay, before[-1])}
    unstored = before[_until_last(~_is_after(before, stored, SOURCE_FILE, SOURCE_END)) :]
    if not history.auto_position:
        unstored = unstored[: _until_last(unstored[:, MARK] == _GROUP)]
    values["events_unstored"] = int(_OF_SOURCE[unstored[:, MARK]].sum())
    following = after[_OF_SOURCE[after[:, MARK]]][:1]
    is_new = len(following) > 0 and write.steps_back == relay.steps_back
    if is_new and _in_source(relay, before[-1]) < _in_source(relay, following[0]) <= stored:
        values["lost"] = _in_source(relay, following[0])
    return values


def _until_last(is_one: npt.NDArray[np.bool_]) -> int:
    """How many rows there are up to the last one that is one; 0 without any."""
    return int(np.flatnonzero(is_one).max(initial=-1)) + 1


def _in_source(relay: RelayReader, event: npt.NDArray[np.int64]) -> LogCoordinates:
    """Where an event of a relay log ends in the source's log."""
    return LogCoordinates(str(relay.source_base), int(event[SOURCE_FILE]), int(event[SOURCE_END]))


def _is_after(
    rows: npt.NDArray[np.int64], coordinates: LogCoordinates, file: int, end: int
) -> npt.NDArray[np.bool_]:
    """Which events are after coordinates; ``file`` and ``end`` are columns of the window."""
    is_after: npt.NDArray[np.bool_] = (rows[:, file] > coordinates.file_number) | (
        (rows[:, file] == coordinates.file_number) & (rows[:, end] > coordinates.position)
    )
    return is_after


def _read_end(relay: RelayReader, named: LogCoordinates | None) -> LogCoordinates | None:
    """The highest source coordinates that the relay log named, None when none yet.

    Also where it is not known whether it named these: after a gap the receiver may have connected
    anew, further back than it had been.
    """
    if relay.source_base is None or relay.has_unpositioned:
        return None
    read = LogCoordinates(relay.source_base, *relay.source_high)
    is_beyond = named is not None and same_family(named, read) and named > read
    return None if relay.has_missed and is_beyond else read


def _events_between(
    flushed: LogCoordinates | None, applied: LogCoordinates | None, relay: RelayReader
) -> int | None:
    """How many events end after the flushed coordinates, and at or before the applied ones."""
    if flushed is None or applied is None or not same_family(applied, flushed):
        return None
    if applied <= flushed:
        return 0
    if not relay.window.covers(flushed.file_number, flushed.position):
        return None
    rows = relay.window.after(flushed.file_number, flushed.position)
    between = rows[
        (rows[:, FILE] < applied.file_number)
        | ((rows[:, FILE] == applied.file_number) & (rows[:, END] <= applied.position))
    ]
    return int(_OF_SOURCE[between[:, MARK]].sum())


def _passed(
    row: Row, applied: LogCoordinates | None, relay: RelayReader, history: ChannelBaselines
) -> tuple[GtidSet | None, GtidSet]:
    """GTIDs before the applied coordinates that are not logged, and were not reported.

    Returns:
        Those that the row must have executed, None not known; and those that may still come.
    """
    if applied is None or relay.base_name != applied.base_name:
        return None, _NONE
    known = row.binlog.logged.freeze() | history.applied_lost
    groups = relay.queue.until(applied.file_number, applied.position)
    named = groups[groups[:, Q_SID] >= 0]
    if row.server.logs_everything:
        return GtidSet.from_groups(relay.sids, named[:, Q_SID], named[:, Q_GNO]) - known, _NONE
    is_late = named[:, Q_TYPE] != _XID
    before = history.applied
    if before is not None and before.base_name == applied.base_name:
        passed_before = relay.queue.count_until(before.file_number, before.position)
        is_late[: int((groups[:passed_before, Q_SID] >= 0).sum())] = False
    passed, late = (
        GtidSet.from_groups(relay.sids, some[:, Q_SID], some[:, Q_GNO]) - known
        for some in (named[~is_late], named[is_late])
    )
    return passed, late


def thread_evidence(row: Row, state: ChannelState) -> ThreadEvidence:
    """Of a channel's threads."""
    executed, retrieved = row.state.executed, state.retrieved
    missing = None if executed is None or retrieved is None else retrieved - executed
    if not missing and not state.auto_position and row.server.gtid_mode != "ON":
        missing = None  # groups without GTIDs are in neither set
    return ThreadEvidence(
        channel=state.channel,
        receiver=state.receiver,
        applier=state.applier,
        read=state.read,
        applied=state.applied,
        missing=missing,
    )


def listed_evidence(
    row: Row, state: ChannelState, relay: RelayReader | None, history: ChannelBaselines
) -> ListedEvidence:
    """Of where a channel is named."""
    return ListedEvidence(
        channel=state.channel,
        is_listed=state.is_listed if row.state.lists_channels else None,
        has_status=state.has_status if row.state.has_replica_status else None,
        is_followed=relay is not None,
        left_out_of=history.left_out_of if state.has_status and relay is not None else None,
    )


# The replication info repositories


def stored_evidence(
    row: Row,
    state: ChannelState,
    relay: RelayReader | None,
    history: ChannelBaselines,
    executed: AppliedGroups,
) -> StoredEvidence:
    """Of what the repositories hold of one channel."""
    asked_at = row.body["asked_at"]
    stored, before = state.stored_applied, _applied_before(state, history)
    values: dict[str, Any] = (
        {} if relay is None else _stored_in(row, state, relay, history, executed)
    )
    values.setdefault("is_compared", stored is not None and before is not None and before <= stored)
    return StoredEvidence(
        is_gtid_only=state.is_gtid_only,
        is_transactional=row.server.relay_log_info_is_transactional,
        is_followed=relay is not None,
        left_out_of=state.left_out_of,
        unused=state.unused,
        stored_read=state.stored_read,
        stored_applied=state.stored_applied,
        stored_executed=state.stored_executed,
        other_log=_other_log(row, state, state.stored_applied),
        read=state.read,
        applied=state.applied,
        stopped_at=history.receiver_stopped_at,
        receiver_runs=None if state.receiver is None else not state.receiver.is_stopped,
        requested_at=asked_at if isinstance(asked_at, int) else None,
        **values,
    )


def workers_stored(
    state: ChannelState, relay: RelayReader | None, history: ChannelBaselines
) -> dict[str, str]:
    """What is remembered of each worker's row, by its number, for the next collection.

    One that was written since the last one, and is beyond the relay log, is judged by the next one:
    what was not flushed when log_status was read comes later.
    """
    return {
        str(stored.number): f"beyond {_worker_text(stored)}"
        if relay is not None and _is_fresh(stored, history) and _is_beyond(stored, relay)
        else _worker_text(stored)
        for stored in state.workers
    }


def _worker_text(stored: StoredWorker) -> str:
    return f"{stored.relay} {stored.source}"


def _is_fresh(stored: StoredWorker, history: ChannelBaselines) -> bool:
    before = history.workers
    return before is not None and before.get(str(stored.number)) != _worker_text(stored)


def _is_beyond(stored: StoredWorker, relay: RelayReader) -> bool:
    at = stored.relay
    if at is None or at.base_name != relay.base_name or relay.end < 0:
        return False
    return (at.file_number, at.position) > (relay.file_number, relay.end)


def workers_evidence(
    row: Row, state: ChannelState, relay: RelayReader | None, history: ChannelBaselines
) -> WorkersEvidence:
    """Of what the workers of a channel's applier have stored."""
    may_be_former = history.former_until is not None or history.may_execute_former
    return WorkersEvidence(
        workers=tuple(
            WorkerPosition(
                number=stored.number,
                relay=stored.relay,
                source=stored.source,
                checkpoint=stored.checkpoint,
                other_log=_other_log(row, state, stored.relay),
                **({} if relay is None else _worker_in(stored, relay, history)),
            )
            for stored in state.workers
        ),
        is_gtid_only=state.is_gtid_only,
        read=state.read,
        journal_read=None if relay is None or not state.workers else _read_end(relay, None),
        may_be_former=may_be_former,
    )


def _worker_in(
    stored: StoredWorker, relay: RelayReader, history: ChannelBaselines
) -> dict[str, Any]:
    """What the relay log shows of coordinates that a worker has stored."""
    at, source = stored.relay, stored.source
    is_fresh = _is_fresh(stored, history)
    if not is_fresh or at is None or source is None or relay.base_name != at.base_name:
        return {"is_fresh": is_fresh}
    values: dict[str, Any] = {"is_fresh": True}
    if relay.end < 0 or relay.offsets_doubtful or relay.has_missed:
        return values
    if _is_beyond(stored, relay):
        before = (history.workers or {}).get(str(stored.number))
        is_again = before == f"beyond {_worker_text(stored)}"
        values["relay_end"] = relay.end_coordinates if is_again else None
    elif relay.window.knows(at.file_number, at.position):
        found = relay.window.find_end(at.file_number, at.position)
        mark = _NOTHING if found is None else int(relay.window.rows()[found][MARK])
        values["ends_no_group"] = mark == _NOTHING
    is_of_other = relay.source_base != source.base_name
    if relay.source_base is None or (is_of_other and not relay.is_of_one_base):
        return values
    groups = relay.queue.rows()
    is_there = (groups[:, Q_FILE] == at.file_number) & (groups[:, Q_END] == at.position)
    is_known = groups[:, Q_SOURCE_END] >= 0
    is_it = is_known & (groups[:, Q_SOURCE_FILE] == source.file_number) & (not is_of_other)
    is_it &= (groups[:, Q_SOURCE_END] - source.position) % WRAP == 0
    shown = is_there & is_known
    if shown.any() and not (is_there & is_it).any():
        group = groups[shown][0]
        values["others"] = (
            LogCoordinates(at.base_name, int(group[Q_FILE]), int(group[Q_END])),
            LogCoordinates(relay.source_base, int(group[Q_SOURCE_FILE]), int(group[Q_SOURCE_END])),
        )
    return values


def _stored_in(
    row: Row,
    state: ChannelState,
    relay: RelayReader,
    history: ChannelBaselines,
    executed: AppliedGroups,
) -> dict[str, Any]:
    """What the relay log shows of stored coordinates."""
    stored, applied = state.stored_applied, state.applied
    read = _read_end(relay, state.stored_read) if relay.source_high[0] >= 1 else None
    values: dict[str, Any] = {"relay_read": read, "relay_base": relay.base_name}
    if stored is None or relay.base_name != stored.base_name:
        return values
    values["group"] = _group_end(relay, stored, state.stored_executed, state.read)
    if applied is not None and same_family(stored, applied):
        before = _applied_before(state, history)
        is_older = before is not None and stored < before
        is_known = _knows_groups_after(relay, min(stored, applied))
        is_known &= not (relay.queue.is_full and stored > applied)
        has_commit, unlogged = _commits_between(
            relay, stored, before if is_older else applied, executed, row.binlog.local.freeze()
        )
        if is_older:
            values["previous_applied"] = before if has_commit else None
            values["unlogged"] = unlogged
        values["committed"] = _committed_after(row, state, relay, history)
        shows_commits = _tells_commits(row, state, history)
        is_looked_for = is_older or shows_commits or stored > applied
        values["has_forgotten"] = is_looked_for and not is_known
        if is_known:
            has_none = not (has_commit or unlogged)
            values["is_compared"] = before is not None or shows_commits or has_none
        values["is_next_group"] = _is_next_group(relay, stored, applied)
    return values


def written_group(
    relay: RelayReader, applied: LogCoordinates | None, source: LogCoordinates | None
) -> GroupEnd | None:
    """What ends at relay coordinates that are written to a repository beside source coordinates."""
    return _group_end(relay, applied, source, None)


def _group_end(
    relay: RelayReader,
    applied: LogCoordinates | None,
    executed: LogCoordinates | None,
    read: LogCoordinates | None,
) -> GroupEnd | None:
    """What ends at relay coordinates, beside which are source coordinates; ``read``: the channel's.

    None where nothing that ends there is remembered, or the relay log may be of another source.
    """
    if applied is None or relay.base_name != applied.base_name or relay.source_base is None:
        return None
    is_of_other = executed is not None and relay.source_base != executed.base_name
    if executed is None or (is_of_other and not relay.is_of_one_base):
        return None
    found = source_end_at(relay, applied)
    if found is None:
        return None
    number, position = found
    if position < 0:
        return GroupEnd(None, has_moved_on=False)
    if number != executed.file_number and not relay.file_names.is_known(applied):
        return None
    end = LogCoordinates(relay.source_base, number, position)
    if is_of_other:
        return GroupEnd(end, has_moved_on=False)
    if number == executed.file_number and (position - executed.position) % WRAP == 0:
        return GroupEnd(executed, has_moved_on=False)
    return GroupEnd(end, _has_moved_on(relay, applied, executed, read, end))


def source_end_at(relay: RelayReader, stored: LogCoordinates) -> tuple[int, int] | None:
    """File number and position in the source's log of what ends at relay coordinates."""
    group = relay.queue.at(stored.file_number, stored.position)
    if group is not None:
        return group[Q_SOURCE_FILE], group[Q_SOURCE_END]
    found = relay.window.find_end(stored.file_number, stored.position)
    if found is None:
        return None
    row = relay.window.rows()[found]
    if row[MARK] != _FRAMING or row[TYPE] != _ROTATE:
        return None
    return int(row[SOURCE_FILE]), int(row[SOURCE_END])


def _has_moved_on(
    relay: RelayReader,
    applied: LogCoordinates,
    executed: LogCoordinates,
    read: LogCoordinates | None,
    end: LogCoordinates,
) -> bool:
    """Whether the applier may have gone on from a source position to another without a group.

    What the receiver ignores, in a ring the replica's own groups, leaves nothing in the relay log.
    """
    if executed.file_number != end.file_number or executed < end:
        return False
    applied_to = (applied.file_number, applied.position)
    group = relay.queue.first_after(*applied_to)
    if (
        group is not None
        and group[Q_SOURCE_FILE] == end.file_number
        and end.position < group[Q_SOURCE_END] <= executed.position
    ):
        return False
    rows = relay.window.after(*applied_to)
    rows = rows[_OF_SOURCE[rows[:, MARK]]]
    if len(rows) and rows[0, SOURCE_FILE] == end.file_number and rows[0, SOURCE_END] > end.position:
        return executed.position <= int(rows[0, SOURCE_END] - (rows[0, END] - rows[0, START]))
    # Nothing of that file comes after it, or a new connection began at an earlier position.
    is_back = (relay.source_number, relay.source_end) < (end.file_number, end.position)
    return is_back or read is None or not same_family(read, executed) or executed <= read


def _applied_before(state: ChannelState, history: ChannelBaselines) -> LogCoordinates | None:
    """Where the applier was at the row before, if it went on from there to where it is."""
    before, applied = history.applied, state.applied
    if before is None or applied is None or not same_family(before, applied) or before > applied:
        return None
    return before


def _knows_groups_after(relay: RelayReader, stored: LogCoordinates) -> bool:
    """Whether all groups are remembered that end after the coordinates."""
    at = stored.file_number, stored.position
    if at < relay.queue.dropped:
        return False
    first = relay.window.rows()[:1, [FILE, START]].tolist()
    return relay.queue.count_until(*at) > 0 or bool(first and tuple(first[0]) <= at)


def _commits_between(
    relay: RelayReader,
    first: LogCoordinates,
    last: LogCoordinates | None,
    executed: AppliedGroups,
    own: GtidSet,
) -> tuple[bool, int]:
    """What is remembered of the XIDs after the first coordinates and not after the last.

    Returns:
        Whether one of them has committed, and how many groups without a GTID are not known to have.
    """
    if last is None:
        return False, 0
    groups = relay.queue.until(last.file_number, last.position)
    between = groups[relay.queue.count_until(first.file_number, first.position) :]
    commits = between[between[:, Q_TYPE] == _XID]
    if own:  # The applier passes over a group whose GTID a session of the replica has executed.
        commits = commits[[one[Q_SID] < 0 or not _gtid_of(relay, one) <= own for one in commits]]
    anonymous = commits[commits[:, Q_SID] < 0]
    unlogged = len(anonymous) and executed.count_unlogged(
        (relay.source_base, file, end)
        for file, end in anonymous[:, [Q_SOURCE_FILE, Q_SOURCE_END]].tolist()
    )
    return len(commits) > unlogged, unlogged


def _gtid_of(relay: RelayReader, group: Any) -> GtidSet:
    """The GTID of one group of the queue that has one."""
    return GtidSet.from_gnos(relay.sids[int(group[Q_SID])], group[Q_GNO : Q_GNO + 1])


def _is_next_group(relay: RelayReader, stored: LogCoordinates, applied: LogCoordinates) -> bool:
    """Whether the stored coordinates end the one group after the applied ones, which moves them."""
    groups = relay.queue.until(stored.file_number, stored.position)
    more = len(groups) - relay.queue.count_until(applied.file_number, applied.position)
    return more == 1 and int(groups[-1][Q_TYPE]) in {_QUERY, _XID}


def _tells_commits(row: Row, state: ChannelState, history: ChannelBaselines) -> bool:
    """Whether the row shows which groups were committed before its stored position was read."""
    is_known = row.state.executed_first is not None and state.applied is not None
    return is_known and not row.server.workers and bool(history.auto_position)


def _committed_after(
    row: Row, state: ChannelState, relay: RelayReader, history: ChannelBaselines
) -> LogCoordinates | None:
    """End of a group after the stored coordinates that was committed before the row was read."""
    stored, applied, first = state.stored_applied, state.applied, row.state.executed_first
    if stored is None or applied is None or first is None:
        return None
    if not _tells_commits(row, state, history):
        return None
    # The applier passes over a group whose GTID a session of the replica has executed.
    others = row.binlog.local.freeze()
    for name, other in row.relays.items():
        if name != state.channel:
            others = others | other.received_ever.freeze()
    groups = relay.queue.until(applied.file_number, applied.position)
    for group in groups[::-1]:
        end = LogCoordinates(stored.base_name, int(group[Q_FILE]), int(group[Q_END]))
        if end <= stored:
            return None
        if group[Q_SID] < 0 or group[Q_TYPE] != _XID:
            continue
        gtid = _gtid_of(relay, group)
        if not gtid <= first or not gtid.isdisjoint(others):
            continue
        # One that was received twice is passed over the second time, and commits nothing.
        is_same = (groups[:, Q_SID] == group[Q_SID]) & (groups[:, Q_GNO] == group[Q_GNO])
        if np.count_nonzero(is_same) == 1:
            return end
    return None
