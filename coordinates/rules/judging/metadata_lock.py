"""Judging that metadata stands still during a backup (invariant 81: WL#3576)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.rules.judging.step_judge import StepJudge
from tallystick.coordinates.rules.online_backup import NO_METADATA_CHANGE_DURING_BACKUP

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(eq=False)
class MetadataLockProtocol(StepJudge):
    """The instance lock that a backup holds from its begin to its end."""

    _holders: list[str] = field(default_factory=list)

    def lock(self, body: Mapping[str, Any]) -> None:
        """Take one ``backup_lock`` record."""
        if body.get("lock") != "instance":
            return
        session = str(body.get("session"))
        self._holders = [holder for holder in self._holders if holder != session]
        if body.get("step") == "lock":
            self._holders.append(session)

    def statement(self, body: Mapping[str, Any], ts: int) -> None:
        """Take one ``statement`` record."""
        if body.get("type") != "ddl" or not self._holders:
            return
        engine = body.get("engine", "a table")
        self.report(
            NO_METADATA_CHANGE_DURING_BACKUP,
            f"statement at {ts}",
            f"While session {self._holders[0]} held the instance lock of a backup, a DDL of "
            f"{engine} was executed.",
            f"DDL, {engine}",
            "no DDL from begin to end of the backup",
            "backup_lock instance",
        )

    def interrupted(self) -> None:
        """The server ended and its locks are gone, or they are not known any more."""
        self._holders = []
