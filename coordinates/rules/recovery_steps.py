"""Is a recovery recorded from the restore to the end of each replay (WL#3576)?

The steps come from `backup` records (docs/journal.md); what they do is judged in `recovery` and
`recovered_data`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tallystick.coordinates.rules.protocol_steps import Unended, note_begin_unseen
from tallystick.coordinates.rules.recovered_data import recovered_data_equal_source
from tallystick.coordinates.rules.recovery import (
    recovery_reaches_stop_point,
    replay_continues_image,
)
from tallystick.coordinates.state_codec import COLLABORATOR, reset

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tallystick.coordinates.audit.reporter import Reporter

_RULES: Final = (
    replay_continues_image,
    recovery_reaches_stop_point,
    recovered_data_equal_source,
)


@dataclass(eq=False)
class RecoverySteps:
    """What the records of one instance show of its point-in-time recovery."""

    _reporter: Reporter = field(metadata=COLLABORATOR)
    _is_restored: bool = False
    """Whether the image is recorded that its data are of."""
    _replay: tuple[str, int] | None = None
    """Whose log is being replayed, and since when."""

    def step(self, body: Mapping[str, Any], ts: int) -> None:
        """Take one ``backup`` record."""
        step = body["step"]
        if step == "restore":
            self._is_restored, self._replay = True, None
        elif step == "replay":
            if not self._is_restored:
                self._note_unbegun(body, f"the recovery from image {body['backup_id']}")
            self._replay = body["peer"], ts
        elif step == "replayed":
            if self._replay is None:
                self._note_unbegun(body, f"the replay of the log of {body['peer']}")
            self._replay = None

    def _note_unbegun(self, body: Mapping[str, Any], what: str) -> None:
        at = f"recovery from image {body['backup_id']}"
        note_begin_unseen(self._reporter, *_RULES, what=what, step=body["step"], at=at)

    def unended(self) -> Iterator[Unended]:
        """The replay that goes on; one that was broken off may go on after a start."""
        if self._replay is not None:
            peer, since = self._replay
            yield Unended(replay_continues_image, f"the replay of the log of {peer}", since)

    def begin_data_lineage(self) -> None:
        """The data were replaced: what was recovered is gone."""
        reset(self)
