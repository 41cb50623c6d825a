"""Judging the replica positions in an image's summary (invariant 85: WL#3576, requirement 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tallystick.coordinates.logs.relay_reader import Q_END, Q_FILE, Q_GNO, Q_SID, Q_TYPE
from tallystick.coordinates.values.binlog import EventType, LogCoordinates, strip_directory
from tallystick.coordinates.values.errors import CoordinateError
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallystick.coordinates.audit.baselines import ChannelBaselines
    from tallystick.coordinates.audit.server import Server
    from tallystick.coordinates.logs.relay_reader import RelayReader

Wrong = tuple[str, str, str]
"""What is wrong, what was observed, what was expected."""

NOT_TOLD = "it does not tell how far the applier is"
NO_RELAY = "the channel's relay log was not seen"


def judge_positions(
    told: Mapping[str, Any],
    executed: GtidSet | None,
    server: Server,
    relay: RelayReader | None,
    baselines: ChannelBaselines,
) -> Wrong | str | None:
    """What is wrong with what an image tells of one channel, or as text why that is not known."""
    rows = [told.get(name) or {} for name in ("slave_master_info", "slave_relay_log_info")]
    master, relay_info = rows
    executed_place = _place(told, "exec_source_log_file", "exec_source_log_pos")
    stored_source = _place(relay_info, "Master_log_name", "Master_log_pos")
    if executed_place is not None and stored_source is not None and executed_place < stored_source:
        what = "its slave_relay_log_info is beyond its executed position"
        return what, str(stored_source), f"at most {executed_place}"
    if relay is None or relay.base_name is None or relay.end < 0:
        return NO_RELAY
    stored_read = _place(master, "Master_log_name", "Master_log_pos")
    wrong = _read_too_far(stored_read, _place(told, *_READ), relay)
    if wrong is not None:
        return wrong
    applied = _place(told, "relay_log_file", "relay_log_pos")
    stored = _place(relay_info, "Relay_log_name", "Relay_log_pos")
    if applied is None or stored is None or applied.base_name != relay.base_name:
        return NOT_TOLD
    if stored.base_name == applied.base_name and server.relay_log_info_is_transactional:
        wrong = _stale(stored, applied, server, relay, baselines)
        if wrong is not None:
            return wrong
    return _not_executed(stored, executed, relay)


_READ = ("read_source_log_file", "read_source_log_pos")


def _place(row: Mapping[str, Any], file: str, position: str) -> LogCoordinates | None:
    """A coordinate of a row, None where it has none."""
    name, offset = row.get(file), row.get(position)
    if not isinstance(name, str) or not name or not isinstance(offset, int):
        return None
    try:
        return LogCoordinates.of_file(strip_directory(name), offset)
    except CoordinateError:
        return None


def _read_too_far(
    stored: LogCoordinates | None, read: LogCoordinates | None, relay: RelayReader
) -> Wrong | None:
    """Whether the stored read position is beyond everything that was received."""
    if stored is None or relay.source_base != stored.base_name:
        return None
    if (stored.file_number, stored.position) <= relay.source_high:
        return None
    # Skipped groups move the receiver without leaving relay events.
    if read is None or read.base_name != stored.base_name or stored <= read:
        return None
    return "its slave_master_info is beyond its read position", str(stored), f"at most {read}"


def _stale(
    stored: LogCoordinates,
    applied: LogCoordinates,
    server: Server,
    relay: RelayReader,
    baselines: ChannelBaselines,
) -> Wrong | None:
    """Whether a transaction between the stored and the applied place left the row as it was."""
    if server.workers:
        return None  # the row is a low-water mark
    groups = relay.applied_groups(applied.file_number, applied.position)
    for group in groups[::-1]:
        place = LogCoordinates(stored.base_name, int(group[Q_FILE]), int(group[Q_END]))
        if place <= stored:
            return None
        # A group that was executed before, and by another channel, is skipped without a commit.
        may_be_skipped = group[Q_SID] >= 0 and not baselines.auto_position
        if group[Q_TYPE] == EventType.XID and not may_be_skipped:
            what = f"its slave_relay_log_info names {stored}, behind which a transaction committed"
            return what, str(stored), f"at least {place}"
    return None


def _not_executed(
    stored: LogCoordinates, executed: GtidSet | None, relay: RelayReader
) -> Wrong | str | None:
    """Whether the image's GTID set lacks what the stored place has passed."""
    if executed is None:
        return "it has no GTID set"
    groups = relay.applied_groups(stored.file_number, stored.position)
    groups = groups[groups[:, Q_SID] >= 0]
    missing = GtidSet.from_groups(relay.sids, groups[:, Q_SID], groups[:, Q_GNO]) - executed
    if not missing:
        return None
    what = f"its slave_relay_log_info names {stored}, beyond {missing.first(3)}"
    return what, str(executed), f"at least {missing.first(3)}, applied up to {stored}"
