"""What the running job shows of itself, as values, to whoever watches it.

The job knows no metrics system: a watcher makes of these values what it serves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tallystick.coordinates.results import Finding, Incident, Verdict
    from tallystick.streaming.answers import Member
    from tallystick.streaming.rounds import Round


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReport:
    """What one micro-batch brought, and what is so after it.

    Attributes:
        delivered_us: When its findings were delivered, microseconds of the job's clock.
        findings: New ones.
        incidents: All that are not over, acknowledged or not.
        rounds: Collections that were closed, oldest first.
        validations: Their verdicts.
        members: Instances that must answer, by name.
        verdict_now: Of what is open and not acknowledged, and of the newest collection.
        verdict_period: Of everything since the beginning.
    """

    delivered_us: int
    findings: Sequence[Finding]
    incidents: Sequence[Incident]
    rounds: Sequence[Round]
    validations: Sequence[Verdict]
    members: Mapping[str, Member]
    verdict_now: Verdict
    verdict_period: Verdict


class Watcher(Protocol):
    """Takes reports of the job; each call is quick, and what it raises is dropped."""

    def started(self) -> None:
        """The queries run."""
        ...

    def stepped(self, report: StepReport) -> None:
        """A micro-batch is delivered."""
        ...

    def progressed(self, lag_blocks: Mapping[int, int] | None, duration_s: float | None) -> None:
        """The auditor query has come to the end of a micro-batch, or of a poll that found nothing.

        Args:
            lag_blocks: Blocks of the journal topic that are not read yet, by partition; None: not
                known.
            duration_s: Of the micro-batch; None: the poll found nothing.
        """
        ...

    def waits(self, sentence: str | None) -> None:
        """The broker is away, or a process of Spark's was lost; None: that is over."""
        ...

    def ended(self) -> None:
        """A query has ended by itself, or the job is to stop."""
        ...
