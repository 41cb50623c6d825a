"""How far the journal of a real server has come, and how that outlives the process.

The state is saved after blocks that the sink has acknowledged. What was published after the last
save is read back from the journal and noted here, so that a killed tail goes on exactly.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tallystick.coordinates.events.journal import ABSENT, Block, RecordType, Stream
from tallystick.coordinates.values.binlog import EventType, parse_log_file_name
from tallystick.coordinates.values.checksum import seal_document, unseal_document
from tallystick.coordinates.values.errors import AuditError
from tallystick.producers.mysql.relay_files import leads_on

FORMAT_VERSION = 2
OPENED_MAX = 64


class TailStateError(AuditError):
    """A saved state cannot be read."""


@dataclass(slots=True)
class TailState:
    """How far one server's journal has come.

    Attributes:
        epoch, next_sequence: The journal's next record.
        ts: Time of its last record, microseconds.
        server_uuid: As last recorded; None: nothing has been recorded yet.
        server_id, variables: As last recorded.
        boot_s: When the boot that was recorded last began, seconds of the server's clock.
        file, position: Start of the next event of the binary log; file "" before the first one.
        ended_by: Type of the event that closed the file, 0 while it is open.
        opened_s: Time in the FORMAT_DESCRIPTION of that file, and of those before it, as far as
            known.
        begun_in: The file that the server wrote when the journal began: a start that opened it,
            or an older one, was before that. "" after a RESET that no start has followed.
        oldest_file: The oldest file of the list as last recorded.
        relays: Of each channel's next relay log event base name, file number and position, and
            whether the event before it leads to the next file.
        unread_relays: Of each channel whose relay log could not be read, why; until it is read.
        channels: What the last row showed of each channel.
        clone: Which clone the server's data had come with when its boot was recorded; empty: with
            none; None: not known.
        uncloned_us: When it last showed that, and that nothing was being cloned, microseconds;
            None: never.
        saved_at_ms: When it was saved, milliseconds since 1970.
    """

    epoch: int = 0
    next_sequence: int = 0
    ts: int = 0
    server_uuid: str | None = None
    server_id: int | None = None
    variables: dict[str, Any] = field(default_factory=dict)
    boot_s: float | None = None
    file: str = ""
    position: int = 0
    ended_by: int = 0
    opened_s: dict[str, int] = field(default_factory=dict)
    begun_in: str = ""
    oldest_file: str | None = None
    relays: dict[str, tuple[str, int, int, bool]] = field(default_factory=dict)
    unread_relays: dict[str, str] = field(default_factory=dict)
    channels: dict[str, dict[str, Any]] = field(default_factory=dict)
    clone: str | None = None
    uncloned_us: int | None = None
    saved_at_ms: int = 0

    def logged(self, file: str, end: int, event_type: int) -> None:
        """An event of the binary log was recorded."""
        self.file, self.position = file, end
        is_last = event_type in (EventType.ROTATE, EventType.STOP)
        self.ended_by = event_type if is_last else 0

    def opened(self, opened_s: int) -> None:
        """The FORMAT_DESCRIPTION of the present file was recorded."""
        self.opened_s[self.file] = opened_s
        if len(self.opened_s) > OPENED_MAX:
            del self.opened_s[next(iter(self.opened_s))]

    def went_back(self, file: str, position: int) -> None:
        """The binary log is an older copy of itself, which ends here."""
        number = parse_log_file_name(file)[1]
        self.file, self.position, self.ended_by, self.begun_in = file, position, 0, ""
        self.opened_s = {
            name: opened_s
            for name, opened_s in self.opened_s.items()
            if parse_log_file_name(name)[1] <= number
        }

    def received(
        self, channel: str, file: str, end: int, event_type: int, text: str | None
    ) -> None:
        """An event of a relay log was recorded."""
        base_name, number = parse_log_file_name(file)
        goes_on = leads_on(base_name, event_type, text)
        self.relays[channel] = (base_name, number, end, goes_on)
        self.unread_relays.pop(channel, None)

    def note(self, block: Block) -> None:
        """Take in what was published after the save."""
        columns = {name: column.tolist() for name, column in block.columns.items()}
        for index in range(len(block)):
            self.ts = max(self.ts, columns["ts"][index])
            stream, record_type = columns["stream"][index], columns["type"][index]
            if stream == Stream.SERVER:
                self._note_server_record(block, index, record_type)
                continue
            file = columns["file"][index]
            if file == ABSENT:
                continue
            end = columns["start"][index] + columns["length"][index]
            if stream == Stream.BINLOG:
                self.logged(block.files[file], end, record_type)
            else:
                channel = block.channels[columns["channel"][index]]
                text = block.texts.get(index)
                self.received(channel, block.files[file], end, record_type, text)
        self.next_sequence = block.next_sequence

    def _note_server_record(self, block: Block, index: int, record_type: int) -> None:
        if record_type == RecordType.START:
            body = block.body(index)
            self.started(body, None)
            if body.get("data_lineage"):
                self.clone = None
        elif record_type == RecordType.VARIABLES:
            self.changed(block.body(index).get("variables", {}))
        elif record_type == RecordType.BINLOG_RESET:
            self.reset()
        elif record_type == RecordType.GAP:
            self._note_gap(block.body(index))
        elif record_type == RecordType.BINLOG_PURGE:
            self.oldest_file = block.body(index).get("to_file", self.oldest_file)

    def _note_gap(self, body: Mapping[str, Any]) -> None:
        channel, why = body.get("channel"), body.get("reason")
        if channel is not None and why is not None:
            self.relays.pop(channel, None)
            self.unread_relays[channel] = why

    def variable(self, name: str) -> Any:
        """A variable as last recorded."""
        return self.server_id if name == "server_id" else self.variables.get(name)

    def changed(self, variables: Mapping[str, Any]) -> None:
        """Other values of variables were recorded."""
        self.variables |= variables
        self.server_id = self.variables.pop("server_id", self.server_id)

    def started(self, body: Mapping[str, Any], boot_s: float | None) -> None:
        """A start of the server was recorded."""
        self.server_uuid = body.get("server_uuid", self.server_uuid)
        self.server_id = body.get("server_id", self.server_id)
        self.variables |= body.get("variables", {})
        self.boot_s = boot_s

    def reset(self) -> None:
        """The binary log began anew."""
        self.file, self.position, self.ended_by, self.begun_in = "", 0, 0, ""
        self.opened_s = {}
        self.oldest_file = None

    def save(self, path: Path) -> None:
        """Write it in one step: a reader finds the old one or the new one.

        Raises:
            OSError: It cannot be written.
        """
        self.saved_at_ms = time.time_ns() // 1_000_000
        document = {"format": FORMAT_VERSION, **asdict(self)}
        temporary = path.with_name(f"{path.name}.new")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(seal_document(document))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)

    @classmethod
    def load(cls, path: Path) -> TailState | None:
        """What was saved; None: nothing yet.

        Raises:
            TailStateError: It cannot be read.
        """
        try:
            document = unseal_document(path.read_bytes())
            if document.pop("format") != FORMAT_VERSION:
                raise TailStateError(f"{str(path)!r}: expected a state of format {FORMAT_VERSION}")
            state = cls(**document)
            state.relays = {
                str(channel): (str(base_name), int(number), int(position), bool(goes_on))
                for channel, (base_name, number, position, goes_on) in state.relays.items()
            }
        except FileNotFoundError:
            return None
        except OSError as error:
            raise TailStateError(f"{str(path)!r} cannot be read: {error.strerror}") from None
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise TailStateError(
                f"{str(path)!r} is damaged: {error}. To fix: remove it; the journal begins anew"
            ) from None
        return state
