"""Tier 3: do the replica positions in an image's summary agree (WL#3576, requirement 2)?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tallystick.coordinates.logs.group_queue import (
    Q_END,
    Q_FILE,
    Q_GNO,
    Q_SID,
    Q_SOURCE_END,
    Q_SOURCE_FILE,
    Q_TYPE,
)
from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.columns import log_with, same_family
from tallystick.coordinates.rules.families import Family, Lack
from tallystick.coordinates.rules.outcomes import HOLDS, Answer, Broken, Undecided
from tallystick.coordinates.rules.registry import Case, Rule, reason, register
from tallystick.coordinates.rules.statements import APPLIER_STORED, RECEIVER_STORED
from tallystick.coordinates.values.binlog import (
    MAGIC_LENGTH,
    WRAP,
    EventType,
    LogCoordinates,
    strip_directory,
)
from tallystick.coordinates.values.errors import CoordinateError
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallystick.coordinates.audit.baselines import ChannelBaselines
    from tallystick.coordinates.audit.server import Server
    from tallystick.coordinates.logs.binlog_reader import BinlogReader
    from tallystick.coordinates.logs.group_queue import Rows
    from tallystick.coordinates.logs.relay_reader import RelayReader

APPLIED_UNKNOWN = reason(
    "image_applied_unknown",
    "image {backup}: it does not say how far the applier is in the relay log (relay_log_file,"
    " relay_log_pos)",
    Lack.BACKUP,
)
IMAGE_RELAY_UNSEEN = reason(
    "image_relay_unseen",
    "image {backup}: the channel's relay log, or the one that it names, was not seen",
    Lack.BACKUP,
)
NO_RELAY_INFO = reason(
    "image_no_relay_info", "image {backup}: it does not have slave_relay_log_info", Lack.BACKUP
)
IMAGE_READ_UNSURE = reason(
    "image_read_unsure",
    "image {backup}: {executed} is beyond what it says was read, and may be of a former source, or"
    " of a connection before",
    Lack.BACKUP,
)
NO_SET = reason("image_no_set", "image {backup}: it has no GTID set", Lack.BACKUP)
NO_MASTER_INFO = reason(
    "image_no_master_info", "image {backup}: it does not have slave_master_info", Lack.BACKUP
)
NO_REPLICATION_STATE = reason(
    "image_no_replication_state",
    "image {backup}: its summary has no replication state of the channel",
    Lack.BACKUP,
)

BACKUP_REPLICA_POSITIONS_AGREE = register(
    Rule(
        number=85,
        name="backup_replica_positions_agree",
        tier=3,
        scope="T",
        family=Family.BACKUP_COORDINATES,
        severity=Severity.CRITICAL,
        heals="never",
        claim=(
            "The summary of a replica's image has the state of each channel; the positions read and"
            " executed are in no log of the replica's own; the executed position is not beyond the"
            " one that was read, neither info repository is beyond the position that it stores, a"
            " transactional slave_relay_log_info names the last transaction that was committed, and"
            " the GTID set holds every group that it and the executed position have passed."
        ),
        why=(
            "At the validity point no applier is inside a group, so the positions read and"
            " executed, both repositories and the data are one state. A server restored from the"
            " image goes on at these positions: a stale one repeats groups, one that leads"
            " loses them."
        ),
        undecided_when=(
            "the image has no replication state, no applied position, not both repositories or no"
            " GTID set, or the channel's relay log was not seen; an executed position beyond the"
            " one that was read may be of a former source, of what was read before a gap, or 4 GiB"
            " further on; of a repository that is not transactional, or a low-water mark of"
            " workers, it is not claimed that it names the last transaction"
        ),
        sources=(
            "WL#3576, requirement 2: replication state, slave position, master.info, relay.info",
            "WL#2775, REQ-5",
        ),
        remedy=(
            "Do not start replication of a restored server from the image's repositories: use its"
            " GTID set, or the executed position after comparing it with the data. Stop the applier"
            " before the next backup."
        ),
        verify=(APPLIER_STORED, RECEIVER_STORED),
        cases={
            "image_lacks_channel": Case(
                "The image {backup} has no replication state of channel {channel!r}.",
                "{stored:list}",
                "channels in the summary of the image",
                "also {witness}",
                "channels of the server",
            ),
            "image_source_position_of_own_log": Case(
                (
                    "The image {backup} has {stored} as a position of channel {channel!r} in its"
                    " source's log, but that is in a file of {log} of the replica itself."
                ),
                "{stored}",
                "summary of the image",
                "a file of the source's binary log",
                "logs of the server",
            ),
            "image_relay_info_beyond_executed": Case(
                (
                    "The positions of channel {channel!r} in the image {backup} do not agree:"
                    " slave_relay_log_info is beyond the executed position."
                ),
                "{stored}",
                "summary of the image",
                "at most {executed}",
                "relay log of the channel, and the summary itself",
            ),
            "image_executed_beyond_read": Case(
                (
                    "The positions of channel {channel!r} in the image {backup} do not agree:"
                    " the executed position is beyond the one that was read."
                ),
                "{executed}",
                "summary of the image",
                "at most {read}",
                "relay log of the channel, and the summary itself",
            ),
            "image_master_info_beyond_read": Case(
                (
                    "The positions of channel {channel!r} in the image {backup} do not agree:"
                    " slave_master_info is beyond the read position."
                ),
                "{stored}",
                "summary of the image",
                "at most {read}",
                "relay log of the channel, and the summary itself",
            ),
            "image_relay_info_stale": Case(
                (
                    "The positions of channel {channel!r} in the image {backup} do not agree:"
                    " slave_relay_log_info names {stored}, and a transaction after it has"
                    " committed."
                ),
                "{stored}",
                "summary of the image",
                "at least {committed}",
                "relay log of the channel, and the summary itself",
            ),
            "image_executed_ahead": Case(
                (
                    "The positions of channel {channel!r} in the image {backup} do not agree:"
                    " the executed position {position} is beyond {missing:gtids}, which its GTID"
                    " set lacks."
                ),
                "{executed:gtids}",
                "summary of the image",
                "at least {missing:gtids}, executed up to {position}",
                "relay log of the channel, and the summary itself",
            ),
            "image_relay_info_ahead": Case(
                (
                    "The positions of channel {channel!r} in the image {backup} do not agree:"
                    " slave_relay_log_info names {stored}, beyond {missing:gtids}."
                ),
                "{executed:gtids}",
                "summary of the image",
                "at least {missing:gtids}, applied up to {stored}",
                "relay log of the channel, and the summary itself",
            ),
        },
    )
)


def own_log_with(
    of_source: LogCoordinates | None,
    channel: str,
    baselines: ChannelBaselines,
    binlog: BinlogReader,
    relays: Mapping[str, RelayReader],
) -> str | None:
    """Which log of the server itself coordinates are in that an image has as the source's.

    None where they may be the source's: its files, or those of one that the channel had before, may
    be called like the server's own.
    """
    relay = relays.get(channel)
    if of_source is None or relay is None or relay.source_base == of_source.base_name:
        return None
    if not relay.is_of_one_base or baselines.is_left or baselines.former_until is not None:
        return None
    return log_with(of_source.base_name, binlog, relays)


def judge_positions(
    status: Mapping[str, Any],
    executed: GtidSet | None,
    server: Server,
    relay: RelayReader | None,
    baselines: ChannelBaselines,
) -> Answer:
    """Whether the positions of one channel in an image's summary agree."""
    rows = [status.get(name) or {} for name in ("slave_master_info", "slave_relay_log_info")]
    master, relay_info = rows
    executed_source = coordinates_of(status, *EXECUTED)
    stored_source = coordinates_of(relay_info, "Master_log_name", "Master_log_pos")
    if (
        executed_source is not None
        and stored_source is not None
        and same_family(executed_source, stored_source)
        and executed_source < stored_source
    ):
        return Broken(
            "image_relay_info_beyond_executed",
            witness=stored_source,
            stored=stored_source,
            executed=executed_source,
        )
    if relay is None or relay.base_name is None or relay.end < 0:
        return Undecided(IMAGE_RELAY_UNSEEN)
    read = coordinates_of(status, *READ)
    answer = _judge_executed_within(read, executed_source, relay, baselines)
    if answer is not HOLDS:
        return answer
    stored_read = coordinates_of(master, "Master_log_name", "Master_log_pos")
    answer = _judge_read(stored_read, read, relay)
    if answer is not HOLDS:
        return answer
    if server.logs_everything:  # else its GTID set may lag behind its positions
        answer = _judge_passed(executed_source, executed, relay)
        if answer is not HOLDS:
            return answer
    applied = coordinates_of(status, "relay_log_file", "relay_log_pos")
    stored = coordinates_of(relay_info, "Relay_log_name", "Relay_log_pos")
    if applied is None or applied.base_name != relay.base_name:
        return Undecided(APPLIED_UNKNOWN if applied is None else IMAGE_RELAY_UNSEEN)
    if stored is None:
        return Undecided(NO_RELAY_INFO)
    if stored.base_name == applied.base_name and server.relay_log_info_is_transactional:
        answer = _judge_stored(stored, applied, server, relay, baselines)
        if answer is not HOLDS:
            return answer
    answer = _judge_executed(stored, executed, relay)
    if answer is HOLDS and not master:
        return Undecided(NO_MASTER_INFO)
    return answer


READ = ("read_source_log_file", "read_source_log_pos")
EXECUTED = ("exec_source_log_file", "exec_source_log_pos")


def coordinates_of(row: Mapping[str, Any], file: str, position: str) -> LogCoordinates | None:
    """A coordinate of a row, None where it has none."""
    name, offset = row.get(file), row.get(position)
    if not isinstance(name, str) or not name or not isinstance(offset, int):
        return None
    try:
        return LogCoordinates.of_file(strip_directory(name), offset)
    except CoordinateError:
        return None


def _judge_executed_within(
    read: LogCoordinates | None,
    executed: LogCoordinates | None,
    relay: RelayReader,
    baselines: ChannelBaselines,
) -> Answer:
    """Whether what was executed had been read, now or by a connection before."""
    if read is None or executed is None or not same_family(executed, read) or executed <= read:
        return HOLDS
    if relay.source_base not in (None, executed.base_name):
        return HOLDS
    if (executed.file_number, executed.position) <= relay.source_high:
        return HOLDS
    is_seen = relay.source_base is not None and not (relay.has_missed or relay.has_unpositioned)
    is_former = baselines.is_left or baselines.former_until is not None
    is_former |= baselines.may_execute_former and not relay.is_of_one_source
    if not is_seen or is_former or executed.position >= WRAP:
        return Undecided(IMAGE_READ_UNSURE, executed=executed)
    return Broken("image_executed_beyond_read", witness=executed, executed=executed, read=read)


def _judge_read(
    stored: LogCoordinates | None, read: LogCoordinates | None, relay: RelayReader
) -> Answer:
    """Whether the stored read position is within what was received."""
    if stored is None or relay.source_base != stored.base_name:
        return HOLDS
    if relay.has_missed or (stored.file_number, stored.position) <= relay.source_high:
        return HOLDS
    # Skipped groups move the receiver without leaving relay events.
    if read is None or read.base_name != stored.base_name or stored <= read:
        return HOLDS
    return Broken("image_master_info_beyond_read", witness=stored, stored=stored, read=read)


def _judge_stored(
    stored: LogCoordinates,
    applied: LogCoordinates,
    server: Server,
    relay: RelayReader,
    baselines: ChannelBaselines,
) -> Answer:
    """Whether no transaction between the stored and the applied position left the row as it was."""
    if server.workers:
        return HOLDS  # the row is a low-water mark
    groups = relay.queue.until(applied.file_number, applied.position)
    for group in groups[::-1]:
        end = LogCoordinates(stored.base_name, int(group[Q_FILE]), int(group[Q_END]))
        if end <= stored:
            return HOLDS
        # A group that was executed before, and by another channel, is skipped without a commit.
        may_be_skipped = group[Q_SID] >= 0 and not baselines.auto_position
        if group[Q_TYPE] == EventType.XID and not may_be_skipped:
            return Broken("image_relay_info_stale", witness=stored, stored=stored, committed=end)
    return HOLDS


def _judge_passed(
    passed: LogCoordinates | None, executed: GtidSet | None, relay: RelayReader
) -> Answer:
    """Whether the image's GTID set has what its executed position in the source has passed."""
    if passed is None or executed is None or relay.source_base != passed.base_name:
        return HOLDS
    if passed.position >= WRAP:
        return HOLDS  # relay logs name positions modulo 4 GiB
    groups = relay.queue.rows()
    file, end = groups[:, Q_SOURCE_FILE], groups[:, Q_SOURCE_END]
    is_back = (file[1:] < file[:-1]) | ((file[1:] == file[:-1]) & (end[1:] < end[:-1]))
    if is_back.any() or (end < 0).any():
        return HOLDS  # of another server's files, or received again: not all before it is passed
    number, position = passed.file_number, passed.position
    if position != MAGIC_LENGTH and not ((file == number) & (end == position)).any():
        return HOLDS  # it may be inside of a group, and so be none of the source's at all
    is_passed = (file < number) | ((file == number) & (end <= position))
    missing = _gtids(groups[is_passed], relay) - executed
    if not missing:
        return HOLDS
    return Broken(
        "image_executed_ahead", witness=passed, executed=executed, missing=missing, position=passed
    )


def _judge_executed(stored: LogCoordinates, executed: GtidSet | None, relay: RelayReader) -> Answer:
    """Whether the image's GTID set has what the stored position has passed."""
    if executed is None:
        return Undecided(NO_SET)
    missing = _gtids(relay.queue.until(stored.file_number, stored.position), relay) - executed
    if not missing:
        return HOLDS
    return Broken(
        "image_relay_info_ahead",
        witness=executed,
        executed=executed,
        missing=missing,
        stored=stored,
    )


def _gtids(groups: Rows, relay: RelayReader) -> GtidSet:
    """Those that the groups have; an anonymous one has none."""
    groups = groups[groups[:, Q_SID] >= 0]
    return GtidSet.from_groups(relay.sids, groups[:, Q_SID], groups[:, Q_GNO])
