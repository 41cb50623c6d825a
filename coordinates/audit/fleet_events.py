"""Fleet events: what one instance's audit hands to the fleet's audit, in journal order.

Checks across instances need less than the journal: where groups and events end, which GTIDs they
carry and who wrote them first, and what each log_status row said. Fleet events carry
just that, as arrays.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tallystick.coordinates.state_codec import decode, encode

if TYPE_CHECKING:
    from collections.abc import Sequence


class FleetEventKind(str, Enum):
    """What a fleet event is about; body keys and arrays of each are given beside it."""

    BOOT = "boot"
    """body: ``server_uuid``, ``server_id``, ``version``, ``cluster`` (None unknown), ``variables``
    (dict), ``data_lineage`` (int, ours: how many data directories the instance has had) and
    ``binlog_lineage`` (int)."""
    LOGGED = "logged"
    """A run of contiguous binary log events of one file. body: ``binlog_lineage``, ``base_name``,
    ``file_number``, ``start`` (offset of the first event), ``sids`` (list), ``first_ts`` (time of
    the first event) and ``first_count`` (how many from it on have that time). Arrays:
    ``event_ends`` (int64, ascending), ``group_event`` (int32, index of the event that ends each
    complete group), ``group_sid`` (int32 into ``sids``; -1 anonymous), ``group_gno``,
    ``group_server_id``, ``group_commit_ts`` (int64; original_commit_timestamp, -1 unknown),
    ``group_is_empty`` (bool: GTID, BEGIN and COMMIT, no change)."""
    PREVIOUS = "previous"
    """PREVIOUS_GTIDS of a binary log file. body: ``binlog_lineage``, ``base_name``,
    ``file_number``, ``gtid_set``."""
    FILE_END = "file_end"
    """A binary log file is complete. body: ``binlog_lineage``, ``base_name``, ``file_number``,
    ``end`` and ``next_number``, of the file after it (None unknown); after a crash ``end`` is the
    recovered end, groups and events beyond it never were."""
    PURGED = "purged"
    """body: ``binlog_lineage``, ``base_name``, ``file_number`` of the oldest file kept."""
    LINEAGE = "lineage"
    """A new binlog lineage began (RESET, clone, restore), or files of another base name did
    (``renamed``). body: ``binlog_lineage``, ``reason``."""
    RECEIVED = "received"
    """Complete groups queued in a relay log. body: ``channel``, ``channel_lineage``,
    ``source_base_name``, ``source_file_number``, ``sender_server_id`` (None unknown: of the server
    that the receiver was connected to), ``follows_hole`` (bool: part of the relay log is
    missing before the first of them), ``sids``. Arrays: ``group_source_end`` (int64, the source
    position after the group, -1 unknown), ``group_sid``, ``group_gno``, ``group_server_id``,
    ``group_commit_ts`` and ``group_is_empty`` as in LOGGED, ``group_type`` (int32, the event that
    ends the group)."""
    CHANNEL = "channel"
    """Channel administration: body as the journal's ``channel`` record plus
    ``channel_lineage`` (int) after it."""
    GTID_PURGED = "gtid_purged"
    """SET gtid_purged. body: ``added``."""
    STATUS = "status"
    """An accepted log_status row. body: ``collection_id``, ``requested_at``, ``received_at`` (None
    unknown), ``behind_us`` (by how much the journal's time had fallen behind the request),
    ``server_uuid``, ``server_id`` (None unknown), ``binlog_lineage``,
    ``binary_log_file``, ``binary_log_position``, ``gtid_executed``, ``gtid_purged`` (None unknown),
    ``gtid_purged_named`` (what SET gtid_purged has added since the row before, without a record of
    it), ``clone_status`` (row or None), ``logs_everything`` (bool: log_bin and
    log_replica_updates) and ``channels``: list of {``channel``, ``channel_lineage``,
    ``source_uuid``, ``source_instance`` and ``source_server_id`` (None unknown), ``auto_position``
    (bool), ``filtered`` (bool: leaves groups of its source out, or may), ``ignores_servers`` (bool:
    by its receiver), ``retrieved_gtid_set``, ``read_source_log_file``, ``read_source_log_pos``,
    ``exec_source_log_file``, ``exec_source_log_pos``,
    ``executes_former`` (bool: the last two may be of the source that the channel had before),
    ``may_execute_former`` (bool: or of one that it may have had, while nothing of the present
    one is known to be executed)}; a value that is missing, or that failed a check of tier 0 to 3,
    is None."""
    NO_STATUS = "no_status"
    """A collection that brought no row. body: ``collection_id``, ``reason``."""
    CLONE = "clone"
    """body: the journal's ``clone`` record."""
    BACKUP = "backup"
    """body: the journal's ``backup`` record plus ``binlog_lineage``."""
    OBSERVER = "observer"
    """Another observer writes the journal from here on. body: ``clock``, the name of its clock;
    None: the times in the journal are not those of a clock."""
    OBSERVER_ENDED = "observer_ended"
    """The whole observation ends here: what other journals show was before. body: empty."""
    TIME = "time"
    """Nothing but ``ts``: the journal of the instance is known up to it (heartbeat)."""
    GAP = "gap"
    """Events are missing before this: what was logged in between is unknown until the next
    PREVIOUS. body: ``binlog_lineage``. A new one: records of the journal are missing, and nothing
    from before bounds what follows."""
    BEGUN_ANEW = "begun_anew"
    """The instance's audit begins anew, lineage numbers too: its state could not be read, or
    another producer writes its journal. What was known of it is forgotten. body: empty."""


@dataclass(frozen=True, slots=True, eq=False)
class FleetEvent:
    """A fleet event at its position in the journal of ``instance_id``; ``ts`` in microseconds."""

    kind: FleetEventKind
    instance_id: str
    epoch: int
    sequence: int
    ts: int
    body: dict[str, Any]
    arrays: dict[str, npt.NDArray[np.generic]] = field(default_factory=dict)


def encode_fleet_events(fleet_events: Sequence[FleetEvent]) -> bytes:
    """Fleet events as bytes, for the row that leaves the stateful operator."""
    return encode(list[FleetEvent], fleet_events)


def decode_fleet_events(data: bytes) -> list[FleetEvent]:
    """Inverse of ``encode_fleet_events``.

    Raises:
        StateError: The bytes are no fleet events of this version, or are damaged.
    """
    fleet_events: list[FleetEvent] = decode(list[FleetEvent], data, "the fleet events")
    return fleet_events
