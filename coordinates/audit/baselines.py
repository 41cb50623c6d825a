"""What the audit remembers of an instance's accepted rows: the baselines of tier 3."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.values.binlog import LogCoordinates
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from collections.abc import Mapping

SETTLE_US = 10_000_000
"""T_settle: after this long a logged group must be executed."""
UNSETTLED_MAX = 64


@dataclass(slots=True)
class ChannelBaselines:
    """Accepted values of one channel in its present lineage."""

    lineage: int = 0
    relay: LogCoordinates | None = None
    executed: LogCoordinates | None = None
    applied: LogCoordinates | None = None
    received: GtidSet | None = None
    """Q at the row before."""
    applied_lost: GtidSet = GtidSet.EMPTY
    """Reported as passed by the applier but never executed."""
    fallen: dict[str, LogCoordinates] = field(default_factory=dict)
    steps_back: int = 0
    source_uuid: str | None = None
    auto_position: bool | None = None
    is_filtered: bool = False
    source_instance: str | None = None
    receiver_stopped_at: int | None = None
    """Moment of the last STOP; None: the receiver runs, or was not seen to stop."""
    has_reset: bool = False


class Baselines:
    """Accepted values of one instance; each lineage clears its own."""

    def __init__(self) -> None:
        self.position: LogCoordinates | None = None
        self.executed: GtidSet | None = None
        self.purged: GtidSet | None = None
        self.numbers: dict[str, int] = {}
        self.fallen: dict[str, Any] = {}
        self.unsettled: list[tuple[int, GtidSet]] = []
        self.known_holes = GtidSet.EMPTY
        self.assigned = GtidSet.EMPTY
        """Added by SET gtid_purged since the row before."""
        self.lost = GtidSet.EMPTY
        """Reported as logged but never executed."""
        self.unexplained = GtidSet.EMPTY
        """Reported as executed without receipt."""
        self.must_recover: GtidSet | None = None
        self.late_recovered = GtidSet.EMPTY
        self.unseen_channel_left = False
        """A channel was removed since the row before whose relay log was not seen completely."""
        """Reported by the row being judged as not recovered."""
        self.grown: tuple[GtidSet, GtidSet] | None = None
        """Executed sets of the accepted row before and of the row being judged."""
        self.log_bin_changed = False
        self.log_bin_was_off = False
        """Whether the binary log was seen to be switched off or on in its lineage."""
        self.had_binlog: bool | None = None
        """Whether the row before named a binary log file."""
        self.oldest_file: int | None = None
        """Number of the oldest binary log file at the row before."""
        self.channels: dict[str, ChannelBaselines] = {}
        self.has_row = False

    def channel(self, name: str) -> ChannelBaselines:
        """The channel's history, begun when new."""
        return self.channels.setdefault(name, ChannelBaselines())

    def begin_binlog_lineage(self) -> None:
        """RESET, clone, restore: positions and sets begin anew."""
        self.position = None
        self.executed = None
        self.purged = None
        self.oldest_file = None
        self.log_bin_was_off = False
        for name in ("position", "executed", "purged"):
            self.fallen.pop(name, None)
        self.unsettled = []
        self.known_holes = GtidSet.EMPTY
        self.assigned = GtidSet.EMPTY
        self.lost = GtidSet.EMPTY
        self.unexplained = GtidSet.EMPTY
        self.must_recover = None

    def begin_data_lineage(self) -> None:
        """Clone, restore: everything begins anew."""
        self.begin_binlog_lineage()
        self.numbers = {}
        self.fallen = {}
        self.channels = {}

    def forget_rows(self) -> None:
        """Records are missing: no value of before bounds what comes; settings are kept."""
        self.begin_binlog_lineage()
        self.numbers = {}
        self.fallen = {}
        for name, channel in self.channels.items():
            self.begin_channel_lineage(name, channel.lineage)
            channel.receiver_stopped_at = None

    def lose_redo(self) -> None:
        """A crash: redo that was not on disk yet is gone, only what was flushed stays a bound.

        Nor does Ex bound what comes: it is read back from a repository that groups without a
        transaction, or any group where the repository is a file, leave behind.
        """
        for channel in self.channels.values():
            channel.executed = None
        on_disk = [self.numbers[n] for n in ("flushed", "LSN_checkpoint") if n in self.numbers]
        self.numbers.pop("LSN", None)
        self.fallen.pop("lsn.LSN", None)
        if on_disk:
            self.numbers["LSN"] = max(on_disk)

    def begin_channel_lineage(self, name: str, lineage: int) -> None:
        """RESET REPLICA, CHANGE SOURCE, relay log recovery."""
        channel = self.channel(name)
        channel.lineage = lineage
        channel.relay = None
        channel.executed = None
        channel.applied = None
        channel.received = None
        channel.applied_lost = GtidSet.EMPTY
        channel.fallen = {}

    def dump(self) -> dict[str, Any]:
        """For the state bytes."""
        return {
            "position": _place(self.position),
            "executed": _text(self.executed),
            "purged": _text(self.purged),
            "numbers": self.numbers,
            "fallen": {
                name: _place(v)
                if isinstance(v, LogCoordinates)
                else v
                if isinstance(v, int)
                else str(v)
                for name, v in self.fallen.items()
            },
            "unsettled": [[ts, str(gtids)] for ts, gtids in self.unsettled],
            "known_holes": str(self.known_holes),
            "assigned": str(self.assigned),
            "lost": str(self.lost),
            "unexplained": str(self.unexplained),
            "must_recover": _text(self.must_recover),
            "unseen_channel_left": self.unseen_channel_left,
            "log_bin_changed": self.log_bin_changed,
            "log_bin_was_off": self.log_bin_was_off,
            "had_binlog": self.had_binlog,
            "oldest_file": self.oldest_file,
            "has_row": self.has_row,
            "channels": {
                name: {
                    "lineage": c.lineage,
                    "relay": _place(c.relay),
                    "executed": _place(c.executed),
                    "applied": _place(c.applied),
                    "received": _text(c.received),
                    "applied_lost": str(c.applied_lost),
                    "fallen": {n: _place(v) for n, v in c.fallen.items()},
                    "steps_back": c.steps_back,
                    "source_uuid": c.source_uuid,
                    "auto_position": c.auto_position,
                    "is_filtered": c.is_filtered,
                    "source_instance": c.source_instance,
                    "receiver_stopped_at": c.receiver_stopped_at,
                    "has_reset": c.has_reset,
                }
                for name, c in self.channels.items()
            },
        }

    def load(self, document: Mapping[str, Any]) -> None:
        """Inverse of ``dump``."""
        self.position = _coordinates(document["position"])
        self.executed = _set(document["executed"])
        self.purged = _set(document["purged"])
        self.numbers = dict(document["numbers"])
        self.fallen = {
            name: v
            if isinstance(v, int)
            else _coordinates(v)
            if isinstance(v, list)
            else GtidSet.parse(v)
            for name, v in document["fallen"].items()
        }
        self.unsettled = [(ts, GtidSet.parse(text)) for ts, text in document["unsettled"]]
        self.known_holes = GtidSet.parse(document["known_holes"])
        self.assigned = GtidSet.parse(document["assigned"])
        self.lost = GtidSet.parse(document["lost"])
        self.unexplained = GtidSet.parse(document["unexplained"])
        self.must_recover = _set(document["must_recover"])
        self.unseen_channel_left = document.get("unseen_channel_left", False)
        self.log_bin_changed = document["log_bin_changed"]
        self.log_bin_was_off = document.get("log_bin_was_off", False)
        self.had_binlog = document["had_binlog"]
        self.oldest_file = document["oldest_file"]
        self.has_row = document["has_row"]
        for name, c in document["channels"].items():
            channel = self.channel(name)
            channel.lineage = c["lineage"]
            channel.relay = _coordinates(c["relay"])
            channel.executed = _coordinates(c["executed"])
            channel.applied = _coordinates(c["applied"])
            channel.received = _set(c["received"])
            channel.applied_lost = GtidSet.parse(c["applied_lost"])
            channel.fallen = {
                n: place for n, v in c["fallen"].items() if (place := _coordinates(v)) is not None
            }
            channel.steps_back = c["steps_back"]
            channel.source_uuid = c["source_uuid"]
            channel.auto_position = c["auto_position"]
            channel.is_filtered = c["is_filtered"]
            channel.source_instance = c["source_instance"]
            channel.receiver_stopped_at = c.get("receiver_stopped_at")
            channel.has_reset = c["has_reset"]


def _place(value: LogCoordinates | None) -> list[Any] | None:
    return None if value is None else [value.base_name, value.file_number, value.position]


def _coordinates(value: list[Any] | None) -> LogCoordinates | None:
    return None if value is None else LogCoordinates(*value)


def _text(value: GtidSet | None) -> str | None:
    return None if value is None else str(value)


def _set(value: str | None) -> GtidSet | None:
    return None if value is None else GtidSet.parse(value)
