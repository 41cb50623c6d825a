"""The relay log of a channel: its files and the events that the receiver puts into them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick.coordinates.events.journal import FLAG_ARTIFICIAL, FLAG_RELAY_LOG, Stream
from tallystick.coordinates.values.binlog import (
    ROTATE_EVENT_LENGTH_MIN,
    STOP_EVENT_LENGTH,
    WRAP,
    EventType,
    format_log_file_name,
)
from tallystick.producers.simulator.server.binary_log import (
    FLAG_IGNORABLE,
    format_description_length,
    gtid_event_type,
    previous_gtids_length,
)
from tallystick.producers.simulator.server.channels import (
    Applier,
    QueuedFraming,
    QueuedGroup,
    Receiver,
    RelayFile,
    RelayLog,
)

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.world import World
    from tallystick.producers.simulator.server.channels import Channel

SERVER_ID_NEVER_IGNORED = 0
"""The server id of ROTATE events that a receiver writes for positions without content."""


def open_file(fleet: World, channel: Channel, number: int) -> None:
    """Begin a relay file with its own FORMAT_DESCRIPTION and PREVIOUS_GTIDS."""
    gtids, log = channel[Receiver].retrieved.copy(), channel[RelayLog]
    log.files.append(RelayFile(log.base_name, number, gtids))
    log.events_since_sync = 0
    server_id = channel.replica.server_id
    _write(
        fleet,
        channel,
        EventType.FORMAT_DESCRIPTION,
        format_description_length(channel.replica),
        flags=FLAG_RELAY_LOG,
        server_id=server_id,
    )
    _write(
        fleet,
        channel,
        EventType.PREVIOUS_GTIDS,
        previous_gtids_length(gtids),
        flags=FLAG_RELAY_LOG | FLAG_IGNORABLE,
        server_id=server_id,
        text=gtids.text(),
    )
    # The file before was synced when it was closed, this one when it was created.
    log.synced = (number, log.files[-1].end)


def rotate(fleet: World, channel: Channel, *, with_source_format: bool) -> None:
    """Close the active relay file with ROTATE and open the next.

    Args:
        fleet: The fleet.
        channel: The channel.
        with_source_format: Whether the new file repeats the source's FORMAT_DESCRIPTION, as it does
            when the rotation is not the source's own.
    """
    number = channel[RelayLog].files[-1].number + 1
    name = format_log_file_name(channel[RelayLog].base_name, number)
    _write(
        fleet,
        channel,
        EventType.ROTATE,
        ROTATE_EVENT_LENGTH_MIN + len(name),
        flags=FLAG_RELAY_LOG,
        server_id=channel.replica.server_id,
        text=name,
        next_position=4,
    )
    open_file(fleet, channel, number)
    if with_source_format:
        write_source_format(fleet, channel, log_pos=0)


def write_stop(fleet: World, channel: Channel) -> None:
    """A clean shutdown ends the relay file with STOP."""
    _write(
        fleet,
        channel,
        EventType.STOP,
        STOP_EVENT_LENGTH,
        flags=0,
        server_id=channel.replica.server_id,
    )


def write_source_format(fleet: World, channel: Channel, log_pos: int) -> None:
    """Copy the source's FORMAT_DESCRIPTION; its field is 0 unless the dump began at it."""
    _write(
        fleet,
        channel,
        EventType.FORMAT_DESCRIPTION,
        format_description_length(channel.source),
        flags=0 if log_pos else FLAG_ARTIFICIAL,
        server_id=channel.source.server_id,
        log_pos=log_pos,
    )


def write_artificial_rotate(fleet: World, channel: Channel, file: str, position: int) -> None:
    """The ROTATE that a dump begins every file with."""
    _write(
        fleet,
        channel,
        EventType.ROTATE,
        ROTATE_EVENT_LENGTH_MIN + len(file),
        flags=FLAG_ARTIFICIAL,
        server_id=channel.source.server_id,
        log_pos=0,
        text=file,
        next_position=position,
    )
    _expect_framing(channel, (file, position))


def write_source_rotate(
    fleet: World, channel: Channel, source_end: int, checksum: int, next_file: str
) -> None:
    """Copy the ROTATE that ends a binary log file of the source."""
    _write(
        fleet,
        channel,
        EventType.ROTATE,
        ROTATE_EVENT_LENGTH_MIN + len(next_file),
        flags=0,
        server_id=channel.source.server_id,
        log_pos=source_end % WRAP,
        checksum=checksum,
        text=next_file,
        next_position=4,
    )
    _expect_framing(channel, (next_file, 4))


def write_position(fleet: World, channel: Channel, file: str, position: int) -> None:
    """A ROTATE that the receiver writes where the source's position moved without content."""
    _write(
        fleet,
        channel,
        EventType.ROTATE,
        ROTATE_EVENT_LENGTH_MIN + len(file),
        flags=0,
        server_id=SERVER_ID_NEVER_IGNORED,
        log_pos=0,
        text=file,
        next_position=position,
    )
    _expect_framing(channel, (file, position))


def write_group_events(channel: Channel, queued: QueuedGroup, up_to: int) -> None:
    """Append the next events of a group until ``up_to`` of them are in the relay log."""
    relay_file = queued.relay_file
    logged = queued.logged
    group = logged.group
    journal = channel.replica.journal
    ts = journal.moment()
    name = relay_file.name
    channel_name = channel.name
    index = queued.events_received
    if index == 0:
        journal.log_event(
            Stream.RELAY,
            gtid_event_type(group),
            channel=channel_name,
            file=name,
            start=queued.start,
            length=logged.gtid_length,
            ts=ts,
            log_pos=(logged.start + logged.gtid_length) % WRAP,
            server_id=group.server_id,
            checksum=logged.gtid_checksum,
            sid=group.sid,
            gno=group.gno,
            last_committed=logged.last_committed,
            sequence_number=logged.sequence_number,
            transaction_length=logged.transaction_length,
            original_commit_timestamp=group.original_commit_timestamp,
        )
        relay_file.end = queued.start + logged.gtid_length
        relay_file.event_ends.append(relay_file.end)
        index = 1
    offset = relay_file.end
    body = group.body[index - 1 : up_to - 1]
    journal.group_events(
        Stream.RELAY,
        body,
        channel=channel_name,
        file=name,
        start=offset,
        ts=ts,
        server_id=group.server_id,
        shift=queued.start - logged.start,
    )
    for _, _, length, _ in body:
        offset += length
        relay_file.event_ends.append(offset)
    relay_file.end = offset
    queued.end = offset
    _sync_by_period(channel, up_to - queued.events_received)
    queued.events_received = up_to


def _sync_by_period(channel: Channel, events: int) -> None:
    """sync_relay_log: the relay log is on disk after every so many events."""
    log = channel[RelayLog]
    log.events_since_sync += events
    period = int(channel.replica.variables.get("sync_relay_log", 0))
    if period and log.events_since_sync >= period:
        log.synced = (log.files[-1].number, log.files[-1].end)
        log.events_since_sync = 0


def purge_applied(channel: Channel) -> None:
    """relay_log_purge: remove the files before the one that the applier reads."""
    log, applied_file = channel[RelayLog], channel[Applier].applied[0]
    for number, file in enumerate(log.files):
        if file.name == applied_file:
            if not number:
                return
            log.files = log.files[number:]
            channel.record("relay_purge", to_file=file.name)
            return


def end(channel: Channel) -> tuple[str, int]:
    """The end of the relay log, or nothing after RESET REPLICA."""
    files = channel[RelayLog].files
    return (files[-1].name, files[-1].end) if files else ("", 0)


def _expect_framing(channel: Channel, source: tuple[str, int]) -> None:
    file = channel[RelayLog].files[-1]
    framing = QueuedFraming(file, file.end, source, channel[RelayLog].is_left_open)
    file.framings.append(framing)
    channel.pending.append(framing)


def _write(
    fleet: World,
    channel: Channel,
    event_type: EventType,
    length: int,
    *,
    flags: int,
    server_id: int,
    log_pos: int | None = None,
    checksum: int | None = None,
    text: str | None = None,
    next_position: int = -1,
) -> None:
    file = channel[RelayLog].files[-1]
    journal = channel.replica.journal
    start = file.end
    file.end = start + length
    file.event_ends.append(file.end)
    journal.log_event(
        Stream.RELAY,
        event_type,
        channel=channel.name,
        file=file.name,
        start=start,
        length=length,
        ts=journal.moment(),
        log_pos=file.end % WRAP if log_pos is None else log_pos,
        flags=flags,
        server_id=server_id,
        checksum=fleet.rng.getrandbits(32) if checksum is None else checksum,
        value=next_position,
        text=text,
    )
