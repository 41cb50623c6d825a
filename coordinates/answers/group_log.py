"""Where and when each group was logged and received, read from a journal as it passes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tallystick.coordinates.events.journal import RecordType, Stream
from tallystick.coordinates.values.binlog import EventType, parse_log_file_name
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tallystick.coordinates.events.journal import Block

    Integers = NDArray[np.int64]

_BREAKING = (RecordType.BINLOG_RESET, RecordType.START, RecordType.GAP)
_OPENING = (EventType.GTID, EventType.GTID_TAGGED, EventType.ANONYMOUS_GTID)


class Group(NamedTuple):
    """A group at a position of a binary log.

    Attributes:
        gtid: Its GTID; empty: it has none.
        start: Where it begins.
        end: Where it ends; -1: not known.
    """

    gtid: str
    start: int
    end: int


@dataclass(eq=False)
class GroupLog:
    """The groups of all journals that were absorbed.

    Attributes:
        times: GNOs and times of the events that open groups, by instance, channel (None: its
            binary log) and counter.
        files: Start, end, GNO and number of the counter (-1: no GTID) of each group of a binary
            log file, in the order of the journal, by instance and file.
        sids: The counters, by number.
        epochs: The newest one of each instance.
    """

    times: dict[tuple[str, str | None, str], list[tuple[Integers, Integers]]] = field(
        default_factory=dict
    )
    files: dict[tuple[str, str], list[Integers]] = field(default_factory=dict)
    sids: dict[str, int] = field(default_factory=dict)
    epochs: dict[str, int] = field(default_factory=dict)

    def absorb(self, block: Block) -> None:
        """Take a block; each instance's in order."""
        columns, name = block.columns, block.instance_id
        stream, kind = columns["stream"], columns["type"]
        opens = np.isin(kind, _OPENING) & ((stream == Stream.BINLOG) | (stream == Stream.RELAY))
        self._note_times(block, opens)
        if self.epochs.setdefault(name, block.epoch) != block.epoch:
            self.epochs[name] = block.epoch
            self._forget(name)
        numbers = np.arange(len(opens))
        opens &= stream == Stream.BINLOG
        first = 0
        breaks = (stream == Stream.SERVER) & np.isin(kind, _BREAKING)
        for index in np.flatnonzero(breaks).tolist():
            self._note_positions(block, opens & (numbers >= first) & (numbers < index))
            self._break(block, index)
            first = index
        self._note_positions(block, opens & (numbers >= first))

    def _break(self, block: Block, index: int) -> None:
        """Forget the positions that may be of another log from here on."""
        body, kind = block.body(index), block.columns["type"][index]
        recovered = body.get("recovered")
        if kind == RecordType.START and not body.get("data_lineage"):
            if isinstance(recovered, dict):
                self._truncate(block.instance_id, recovered["file"], recovered["position"])
        elif kind != RecordType.GAP or not body.get("channel"):
            self._forget(block.instance_id)

    def _forget(self, name: str) -> None:
        self.files = {key: parts for key, parts in self.files.items() if key[0] != name}

    def _truncate(self, name: str, file: str, end: int) -> None:
        """After a crash what is beyond the recovered end never was."""
        base_name, last = parse_log_file_name(file)
        for key in [key for key in self.files if key[0] == name]:
            base, number = parse_log_file_name(key[1])
            if base == base_name and number > last:
                del self.files[key]
        parts = self.files.get((name, file))
        if parts is not None:
            self.files[name, file] = [part[:, part[0] < end] for part in parts]

    def _note_times(self, block: Block, opens: NDArray[np.bool_]) -> None:
        columns = block.columns
        is_relay = columns["stream"] == Stream.RELAY
        named = opens & (columns["sid"] >= 0)
        for number, sid in enumerate(block.sids):
            of_sid = named & (columns["sid"] == number)
            self._add_times(block, None, sid, of_sid & ~is_relay)
            for channel_number, channel in enumerate(block.channels):
                of_channel = of_sid & is_relay & (columns["channel"] == channel_number)
                self._add_times(block, channel, sid, of_channel)

    def _add_times(
        self, block: Block, channel: str | None, sid: str, which: NDArray[np.bool_]
    ) -> None:
        if which.any():
            found = block.columns["gno"][which], block.columns["ts"][which]
            self.times.setdefault((block.instance_id, channel, sid), []).append(found)

    def _note_positions(self, block: Block, opens: NDArray[np.bool_]) -> None:
        columns = block.columns
        numbers = [self.sids.setdefault(sid, len(self.sids)) for sid in block.sids]
        numbered = np.array([*numbers, -1], np.int64)[columns["sid"]]
        length = columns["transaction_length"]
        end = np.where(length > 0, columns["start"] + length, -1)
        for number, file in enumerate(block.files):
            which = opens & (columns["file"] == number)
            if which.any():
                rows = np.stack(
                    [one[which] for one in (columns["start"], end, columns["gno"], numbered)]
                )
                self.files.setdefault((block.instance_id, file), []).append(rows)

    def when(self, instance_id: str, channel: str | None, gtids: GtidSet) -> tuple[int, int] | None:
        """When the first and the last of some GTIDs were seen; None: none of them was.

        Args:
            instance_id: By whose journal.
            channel: Received by which channel; None: in the binary log.
            gtids: Which.
        """
        found = []
        for sid in gtids.sids():
            for gnos, times in self.times.get((instance_id, channel, sid), ()):
                found.append(times[gtids.contains_gnos(sid, gnos)])
        seen = np.concatenate(found) if found else np.empty(0, np.int64)
        return (int(seen.min()), int(seen.max())) if len(seen) else None

    def logged_after(self, instance_id: str, gtids: GtidSet, ts: int) -> GtidSet:
        """Those of some GTIDs that came into an instance's binary log after a time."""
        found = GtidSet.EMPTY
        for sid in gtids.sids():
            for gnos, times in self.times.get((instance_id, None, sid), ()):
                later = gnos[gtids.contains_gnos(sid, gnos) & (times > ts)]
                if len(later):
                    found = found | GtidSet.from_gnos(sid, later)
        return found

    def files_of(self, instance_id: str) -> list[str]:
        """The binary log files of an instance of which groups are known."""
        return sorted(file for name, file in self.files if name == instance_id)

    def has_unnamed(self, instance_id: str) -> bool:
        """Whether the binary log of an instance has groups without GTIDs."""
        return any(
            (sid < 0).any()
            for (name, _), parts in self.files.items()
            if name == instance_id
            for _, _, _, sid in parts
        )

    def at(self, instance_id: str, file: str, position: int) -> list[Group]:
        """The group that a position is in; at a boundary the one before it and the one after it.

        Empty: no group is known there.
        """
        parts = self.files.get((instance_id, file))
        if parts is None:
            return []
        rows = np.concatenate(parts, axis=1)
        # Read again, or written anew from there on: what was at or after it before counts no more.
        later = np.minimum.accumulate(rows[0, ::-1])[::-1]
        is_kept = np.ones(rows.shape[1], np.bool_)
        is_kept[:-1] = rows[0, :-1] < later[1:]
        rows = rows[:, is_kept]
        start, end, gno, sid = rows
        following = np.append(start[1:], -1)[: len(start)]
        end = np.where(end < 0, following, end)
        inside = (start < position) & (position < end)
        wanted = inside if inside.any() else (start == position) | (end == position)
        names = list(self.sids)
        return [
            Group(
                f"{names[sid[at]]}:{gno[at]}" if sid[at] >= 0 else "", int(start[at]), int(end[at])
            )
            for at in np.flatnonzero(wanted).tolist()
        ]
