"""Tier 3: is replication info written at every moment that WL#2775 names?

The writes come from `info_write` records, the moments from `channel` records (docs/journal.md);
what is written is judged in `replication_info` and `info_repositories`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.families import Family
from tallystick.coordinates.rules.protocol_steps import (
    UNDECIDED_WHEN,
    report_missing,
    step_missing,
)
from tallystick.coordinates.rules.registry import Rule, register
from tallystick.coordinates.rules.statements import APPLIER_STORED, RECEIVER_STORED
from tallystick.coordinates.state_codec import COLLABORATOR, reset

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallystick.coordinates.audit.reporter import Reporter

INFO_WRITE_STEPS_COMPLETE = register(
    Rule(
        number=130,
        name="info_write_steps_complete",
        tier=3,
        scope="T",
        family=Family.INFO_TABLES,
        severity=Severity.ERROR,
        heals="data",
        claim=(
            "CHANGE REPLICATION SOURCE writes both repositories of the channel, a stop of the"
            " receiver that of the receiver, and a stop of the applier that of the applier."
        ),
        why=(
            "These moments are written whatever the options on synchronising say. A start goes on"
            " at what it reads there: with an old row it asks for events again, or for those of"
            " another source."
        ),
        undecided_when=UNDECIDED_WHEN
        + "; of a repository whose writes are not recorded none is demanded, and none of a stop"
        " of a thread that is not known to run",
        sources=("WL#2775, REQ-3 (ii) and (iii), REQ-5 (ii)",),
        remedy=(
            "Look into the error log for failed writes (a full disk, a lock on the table). Before"
            " the next restart compare the repository with SHOW REPLICA STATUS."
        ),
        verify=(RECEIVER_STORED, APPLIER_STORED),
        cases=step_missing("WL#2775, REQ-3 and REQ-5"),
    )
)

_MASTER: Final = "slave_master_info"
_RELAY: Final = "slave_relay_log_info"
_DEMANDED: Final = {
    "change_source": ((_MASTER, "change_source"), (_RELAY, "change_source")),
    "stop_receiver": ((_MASTER, "receiver_stop"),),
    "stop_applier": ((_RELAY, "applier_stop"),),
}
"""Channel's action to the writes, each with its reason, that belong to it."""
_BY_ITSELF: Final = frozenset({"reconnect", "relay_purge"})
"""Actions of the threads, not of a statement: they may come while one still writes."""
_ENDING: Final = frozenset({"reset", "reset_all"})
"""Actions after which the repositories are empty."""
_WRITES: Final = {_MASTER: "stop_receiver", _RELAY: "stop_applier"}
"""Table to the action that stops the thread which writes it."""
_LAST: Final = frozenset({"receiver_stop", "applier_stop"})
"""Reasons for which a thread writes when it ends."""
_STARTS: Final = {"start_receiver": "stop_receiver", "start_applier": "stop_applier"}
"""Action that starts a thread to the one that stops it."""


@dataclass(eq=False)
class InfoWriteSteps:
    """The writes that are still to come for each channel, and which repositories are recorded."""

    _reporter: Reporter = field(metadata=COLLABORATOR)
    _recorded: list[tuple[str, str]] = field(default_factory=list)
    """Table and channel."""
    _awaited: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """Channel to table and reason."""
    _since: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Channel to the action that demands them, and its moment."""
    _running: list[tuple[str, str]] = field(default_factory=list)
    """Channel, and the action that stops a thread which is known to run: of another it stops
    nothing, and nothing is written."""

    def written(self, body: Mapping[str, Any]) -> None:
        """Take one ``info_write`` record."""
        table, channel = body["table"], body["channel"]
        if (table, channel) not in self._recorded:
            self._recorded.append((table, channel))
        this = table, body["reason"]
        if this[1] != "change_source" and table in _WRITES:  # by the thread itself
            self._note(channel, _WRITES[table], is_running=this[1] not in _LAST)
        if channel in self._awaited:
            self._awaited[channel] = [one for one in self._awaited[channel] if one != this]

    def administered(self, channel: str, action: str, ts: int) -> None:
        """Take one ``channel`` record: what the previous one demanded has been written by now."""
        is_stop = action in _STARTS.values()
        if action in _BY_ITSELF or (is_stop and (channel, action) not in self._running):
            return
        if is_stop or action in _STARTS:
            self._note(channel, _STARTS.get(action, action), is_running=not is_stop)
        if action in _ENDING:
            self._awaited.pop(channel, None)
            return
        self._judge(channel)
        self._since[channel] = action, ts
        self._awaited[channel] = [
            (table, reason)
            for table, reason in _DEMANDED.get(action, ())
            if (table, channel) in self._recorded
        ]

    def _note(self, channel: str, stop: str, *, is_running: bool) -> None:
        others = [one for one in self._running if one != (channel, stop)]
        self._running = [*others, (channel, stop)] if is_running else others

    def passed(self, requested_at: object) -> None:
        """A row was read that was asked for then: statements from before have ended."""
        for channel in list(self._awaited):
            if isinstance(requested_at, int) and self._since[channel][1] < requested_at:
                self._judge(channel)

    def _judge(self, channel: str) -> None:
        awaited = self._awaited.pop(channel, [])
        if awaited:
            action, ts = self._since[channel]
            report_missing(
                self._reporter,
                INFO_WRITE_STEPS_COMPLETE,
                subject=f"Channel {channel!r}",
                step=f"the end of {action}",
                missing=[f"write of {table}" for table, _ in awaited],
                at=f"{action} of channel {channel!r} at {ts}",
                channel=channel,
            )

    def interrupted(self) -> None:
        """The server has ended, or records are missing: what was to be written is not known."""
        reset(self)
