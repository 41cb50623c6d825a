"""The two verdicts of a job that goes on, as a report of its tables has them.

They are part of the job's state: a job that begins anew knows what the period has seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tallystick.coordinates.results import IncidentState, ObservationCode, Verdict
from tallystick.coordinates.rules.observations import (
    TOPIC_MADE_ANEW,
    TOPIC_MESSAGES_GONE,
    TOPIC_PARTITION_GONE,
)
from tallystick.coordinates.state_codec import Bytes, encode, restore

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from tallystick.coordinates.audit.cut import Cut
    from tallystick.coordinates.results import Finding, Incident, Observation
    from tallystick.streaming.rounds import Round

_GONE = {each.code for each in (TOPIC_MADE_ANEW, TOPIC_MESSAGES_GONE, TOPIC_PARTITION_GONE)}


@dataclass(eq=False)
class Verdicts:
    """What is known of the period and of the newest collection that was closed.

    Attributes:
        gravest: The gravest verdict of anything seen.
        newest_ts: Of the newest closed collection; None: none was ever closed. One that is older
            may be closed after it, at its deadline.
        is_newest_undecided: A row of the newest closed collection, or its validation, is UNDECIDED.
        was_doubtful: An observation since the collection before it left something undecided.
        is_doubtful: An observation since it was closed did.
        has_unread: A block could not be read, or messages were gone: they may be the end of any
            instance's journal, as a key may be what was damaged.
    """

    gravest: Verdict = Verdict.CONSISTENT
    newest_ts: int | None = None
    is_newest_undecided: bool = False
    was_doubtful: bool = False
    is_doubtful: bool = False
    has_unread: bool = False

    def absorb(
        self,
        findings: Collection[Finding],
        observations: Sequence[Observation],
        cuts: Sequence[Cut],
        rounds: Sequence[Round],
        validations: Sequence[Verdict],
    ) -> None:
        """Take what one micro-batch brought.

        Args:
            findings: New ones.
            observations: New ones.
            cuts: New rows, also those of answers that are missing.
            rounds: Collections that were closed.
            validations: Their verdicts.
        """
        doubts = [Verdict.UNDECIDED for seen in observations if seen.is_undecided]
        broken = [Verdict.INCONSISTENT] if findings else []
        rows = [Verdict(cut.verdict) for cut in cuts]
        self.gravest = Verdict.merge((self.gravest, *rows, *validations, *doubts, *broken))
        self.has_unread = self.has_unread or any(
            seen.code is ObservationCode.BLOCK_UNREADABLE or seen.reason in _GONE
            for seen in observations
        )
        self.is_doubtful = self.is_doubtful or bool(doubts)
        closed = [
            (one, verdict)
            for one, verdict in zip(rounds, validations, strict=False)
            if not one.is_late and one.ts >= (self.newest_ts or 0)
        ]
        if closed:
            newest, verdict = max(closed, key=lambda pair: pair[0].ts)
            self.newest_ts = newest.ts
            of_rows = [Verdict(cut.verdict) for cut in newest.cuts]
            self.is_newest_undecided = Verdict.UNDECIDED in (*of_rows, verdict)
            self.was_doubtful, self.is_doubtful = self.is_doubtful, False

    @property
    def period(self) -> Verdict:
        """Of everything since the beginning."""
        is_known = self.newest_ts is not None or self.gravest is Verdict.INCONSISTENT
        return self.gravest if is_known else Verdict.UNDECIDED

    def now(self, incidents: Iterable[Incident]) -> Verdict:
        """Of the incidents that nobody has acknowledged, and of the newest evidence.

        Args:
            incidents: All that are not over.
        """
        if any(one.state is IncidentState.OPEN for one in incidents):
            return Verdict.INCONSISTENT
        is_known = self.newest_ts is not None and not (
            self.is_newest_undecided or self.was_doubtful or self.is_doubtful
        )
        return Verdict.CONSISTENT if is_known else Verdict.UNDECIDED

    def to_bytes(self) -> bytes:
        """The state."""
        return encode(Verdicts, self)

    def restore(self, data: Bytes) -> None:
        """Go on from the state that ``to_bytes`` gave.

        Raises:
            StateVersionError: Another version of tallystick has written the bytes.
            StateDamagedError: They are cut short, or have changed.
        """
        restore(self, data, "the verdicts")
