"""The files of one log of one instance, with the events that frame them."""

from __future__ import annotations

from dataclasses import dataclass, field

from tallystick.coordinates.events.journal import FLAG_RELAY_LOG, BlockBuilder, Stream
from tallystick.coordinates.values.binlog import (
    FLAG_IN_USE,
    PREVIOUS_GTIDS_LENGTH_MIN,
    PREVIOUS_GTIDS_LENGTH_PER_INTERVAL,
    PREVIOUS_GTIDS_LENGTH_PER_SID,
    ROTATE_EVENT_LENGTH_MIN,
    EventType,
    format_log_file_name,
    log_pos_field,
)

CHANNEL = ""
"""Every replica has one channel, the default one."""
FORMAT_DESCRIPTION_LENGTH = 122


@dataclass(slots=True)
class LogFile:
    """A log file being written, or one that was.

    Attributes:
        name: Its name.
        end: Offset after its last event.
        gtids_before: How many of the source's GTIDs its PREVIOUS_GTIDS has.
        transactions: How many transactions are in it.
    """

    name: str
    end: int = 4
    gtids_before: int = 0
    transactions: int = 0


@dataclass(slots=True)
class Log:
    """One log: its files from the oldest kept to the active one."""

    stream: Stream
    base_name: str
    files: list[LogFile] = field(default_factory=list)
    number: int = 0

    @property
    def file(self) -> LogFile:
        """The active file."""
        return self.files[-1]

    @property
    def channel(self) -> str | None:
        """The channel of a relay log."""
        return CHANNEL if self.stream is Stream.RELAY else None

    def write(
        self,
        builder: BlockBuilder,
        event_type: EventType,
        length: int,
        ts: int,
        *,
        server_id: int,
        flags: int = 0,
        log_pos: int | None = None,
        value: int = -1,
        text: str | None = None,
    ) -> None:
        """Add one framing event."""
        file = self.file
        start, file.end = file.end, file.end + length
        builder.log_event(
            self.stream,
            event_type,
            channel=self.channel,
            file=file.name,
            start=start,
            length=length,
            ts=ts,
            flags=flags,
            server_id=server_id,
            log_pos=log_pos_field(file.end) if log_pos is None else log_pos,
            value=value,
            text=text,
        )

    def open_file(
        self, builder: BlockBuilder, ts: int, server_id: int, sid: str, gtids_before: int
    ) -> None:
        """Close the present file with ROTATE if there is one, and begin the next."""
        own = FLAG_RELAY_LOG if self.stream is Stream.RELAY else 0
        self.number += 1
        name = format_log_file_name(self.base_name, self.number)
        if self.files:
            self.write(
                builder, EventType.ROTATE, ROTATE_EVENT_LENGTH_MIN + len(name), ts,
                server_id=server_id, flags=own, value=4, text=name,
            )  # fmt: skip
        self.files.append(LogFile(name, gtids_before=gtids_before))
        self.write(
            builder, EventType.FORMAT_DESCRIPTION, FORMAT_DESCRIPTION_LENGTH, ts,
            server_id=server_id, flags=own or FLAG_IN_USE,
        )  # fmt: skip
        length = PREVIOUS_GTIDS_LENGTH_MIN
        if gtids_before:
            length += PREVIOUS_GTIDS_LENGTH_PER_SID + PREVIOUS_GTIDS_LENGTH_PER_INTERVAL
        self.write(
            builder, EventType.PREVIOUS_GTIDS, length, ts,
            server_id=server_id, flags=own, text=gtid_set_of(sid, gtids_before),
        )  # fmt: skip


def gtid_set_of(sid: str, count: int) -> str:
    """The set of a source's first GTIDs, as servers print it."""
    if not count:
        return ""
    return f"{sid}:1" if count == 1 else f"{sid}:1-{count}"
