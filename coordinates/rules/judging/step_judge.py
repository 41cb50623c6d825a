"""What judges of a server's protocols share: how they tell a finding of the journal's steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tallystick.coordinates.state_codec import COLLABORATOR

if TYPE_CHECKING:
    from tallystick.coordinates.audit.reporter import Reporter
    from tallystick.coordinates.rules.registry import Rule


@dataclass(eq=False)
class StepJudge:
    """Judges a protocol by the steps that the journal shows of it.

    Args:
        reporter: Where findings go.
    """

    _reporter: Reporter = field(metadata=COLLABORATOR)

    def report(
        self,
        rule: Rule,
        at: str,
        sentence: str,
        *halves: str,
    ) -> None:
        """Tell a finding; ``halves``: observed, expected, and where that is written."""
        observed, expected, expected_in = halves
        self._reporter.prose(
            rule,
            at=at,
            sentence=sentence,
            observed=observed,
            observed_in="journal",
            expected=expected,
            expected_in=expected_in,
            witness=observed,
        )
