"""Evidence for the rules on a row: the row's values, what the logs show there, and earlier rows.

Nothing is decided here and nothing is changed. Each function makes the evidence of one family.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tallystick.coordinates.logs.event_window import END, FILE, MARK, Mark
from tallystick.coordinates.logs.relay_reader import Q_GNO, Q_SID
from tallystick.coordinates.rules.channel import NO_RELAY, RELAY_MISSED, ChannelEvidence
from tallystick.coordinates.rules.columns import NOT_REMEMBERED, same_family
from tallystick.coordinates.rules.executed_set import ExecutedEvidence, Growth
from tallystick.coordinates.rules.innodb import RedoEvidence
from tallystick.coordinates.values.binlog import MAGIC_LENGTH, LogCoordinates
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallystick.coordinates.audit.baselines import Baselines, ChannelBaselines
    from tallystick.coordinates.audit.server import Server
    from tallystick.coordinates.events.log_status import ChannelState, ServerState
    from tallystick.coordinates.logs.binlog_reader import BinlogReader
    from tallystick.coordinates.logs.relay_reader import RelayReader
    from tallystick.coordinates.rules.judging.judgement import Judgement
    from tallystick.coordinates.rules.outcomes import Reason


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
    judgement: Judgement


# The executed set


def executed_evidence(row: Row, logged: GtidSet | None) -> ExecutedEvidence:
    """Of gtid_executed; ``logged`` is what the binary log holds up to the row's position."""
    state, history, server = row.state, row.baselines, row.server
    fallen: Any = history.fallen.get("executed")
    return ExecutedEvidence(
        gtid_executed=state.executed,
        gtid_purged=state.purged,
        gtid_owned=state.owned,
        server_uuid=server.server_uuid,
        position=state.position,
        has_binlog=server.log_bin and state.has_binlog is not False,
        journal_gtid_set=logged,
        logs_everything=server.logs_everything,
        previous_gtid_executed=history.executed,
        fallen=fallen,
        assigned=history.assigned,
        must_recover=history.must_recover,
        growth=_growth(row),
    )


def _growth(row: Row) -> Growth:
    state, history, server, binlog = row.state, row.baselines, row.server, row.binlog
    purged = GtidSet.EMPTY if state.purged is None else state.purged - binlog.grouped.freeze()
    received = (relay.received_ever.freeze() for relay in row.relays.values())
    return Growth(
        brought=(history.unexplained, history.assigned, binlog.local.freeze(), purged, *received),
        uuids=tuple(uuid for uuid in (server.server_uuid, server.group_uuid) if uuid is not None),
        has_anonymous=any(relay.has_anonymous for relay in row.relays.values()),
        is_complete=server.server_uuid is not None
        and not history.unseen_channel_left
        and all(_was_seen_completely(row.relays.get(name)) for name in state.channels),
    )


def _was_seen_completely(relay: RelayReader | None) -> bool:
    return relay is not None and relay.base_name is not None and relay.received_is_complete


# The redo log


def redo_evidence(row: Row, grown: tuple[GtidSet, GtidSet] | None) -> RedoEvidence:
    """Of the LSNs; ``grown``: the executed sets of the last accepted row and of this one."""
    state, history = row.state, row.baselines
    is_still = state.lsn is not None and state.lsn == history.numbers.get("LSN")
    return RedoEvidence(
        lsn=state.lsn,
        lsn_checkpoint=state.lsn_checkpoint,
        previous=history.numbers,
        innodb=state.innodb,
        fallen={
            name.removeprefix("lsn."): value
            for name, value in history.fallen.items()
            if name.startswith("lsn.")
        },
        capacity=row.server.number("innodb_redo_log_capacity"),
        has_other_engines=state.has_other_engines,
        commits=_commits(row.binlog, *grown) if grown is not None and is_still else None,
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


# A channel


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
        gtid_executed=row.state.executed,
        was_reset=relay is None or relay.source_base is None,
        auto_position=history.auto_position,
        is_gtid_only=state.is_gtid_only,
        received_before=history.received,
        previous={name: value for name, value in previous.items() if value is not None},
        fallen=history.fallen,
        **({"doubt": NO_RELAY} if relay is None else _shown(row, state, relay, history)),
    )


def _shown(
    row: Row, state: ChannelState, relay: RelayReader, history: ChannelBaselines
) -> dict[str, Any]:
    """What the relay log shows of a channel."""
    end = None
    if relay.base_name is not None and relay.end >= 0:
        end = LogCoordinates(relay.base_name, relay.file_number, relay.end)
    before = _relay_end_before(state.relay, relay)
    return {
        "is_followed": True,
        "relay_end": end,
        "journal_relay": before,
        "doubt": _relay_doubt(state.relay, before, relay),
        "journal_read": _read_end(relay),
        "journal_retrieved": relay.received.freeze() | relay.arriving()
        if relay.received_is_complete
        else None,
        "forgotten": relay.forgotten,
        "events_after": _events_between(state.relay, state.applied, relay),
        "passed": _passed(row, state.applied, relay, history),
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
    flushed: LogCoordinates | None, before: LogCoordinates | None, relay: RelayReader
) -> Reason | None:
    """Why the relay log does not decide on the flushed coordinates."""
    if flushed is None or flushed.base_name != relay.base_name:
        return NO_RELAY
    if relay.end < 0 or relay.offsets_doubtful:
        return RELAY_MISSED
    place = (flushed.file_number, flushed.position)
    is_known = (
        flushed == before or place > (relay.file_number, relay.end) or relay.window.covers(*place)
    )
    return None if is_known else NOT_REMEMBERED


def _read_end(relay: RelayReader) -> LogCoordinates | None:
    """The highest source coordinates that the relay log named; the start when none yet."""
    if relay.source_base is None:
        return None
    number, end = relay.source_high
    if number < 1:
        return LogCoordinates(relay.source_base, 1, 0)
    return LogCoordinates(relay.source_base, number, max(end, 0))


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
    return int(np.isin(between[:, MARK], (Mark.NOTHING, Mark.GROUP, Mark.UNKNOWN)).sum())


def _passed(
    row: Row, applied: LogCoordinates | None, relay: RelayReader, history: ChannelBaselines
) -> GtidSet | None:
    """GTIDs before the applied coordinates that are not logged, and were not reported."""
    if applied is None or relay.base_name != applied.base_name:
        return None
    groups = relay.applied_groups(applied.file_number, applied.position)
    named = groups[groups[:, Q_SID] >= 0]
    gtids = GtidSet.from_groups(relay.sids, named[:, Q_SID], named[:, Q_GNO])
    return gtids - row.binlog.logged.freeze() - history.applied_lost
