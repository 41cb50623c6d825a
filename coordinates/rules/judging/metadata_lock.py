"""Judging that metadata stands still during a backup (invariant 81: WL#3576)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tallystick.coordinates.rules.judging.step_judge import StepJudge
from tallystick.coordinates.rules.online_backup import NO_METADATA_CHANGE_DURING_BACKUP

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallystick.coordinates.audit.reporter import Reporter


class MetadataLockProtocol(StepJudge):
    """The instance lock that a backup holds from its begin to its end."""

    def __init__(self, reporter: Reporter) -> None:
        super().__init__(reporter)
        self._holders: list[str] = []

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

    def dump(self) -> dict[str, Any]:
        """For the state bytes."""
        return {"metadata_lock_holders": self._holders}

    def load(self, document: Mapping[str, Any]) -> None:
        """Inverse of ``dump``; a state of 0.1.0 does not know of the lock."""
        self._holders = list(document.get("metadata_lock_holders", []))
