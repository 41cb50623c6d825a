"""What the steps of a protocol demand of each other: which must have been taken before which.

Each protocol of the design documents is declared once, beside the machine that follows it. A step
is demanded only in a run whose beginning was recorded, and only by a step that was reached: a run
that ended with an error, with its server, or where records are missing, was broken off and is not
incomplete.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tallystick.coordinates.results import ObservationCode
from tallystick.coordinates.rules.families import Lack
from tallystick.coordinates.rules.outcomes import Broken
from tallystick.coordinates.rules.registry import Case, reason

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tallystick.coordinates.audit.reporter import Reporter
    from tallystick.coordinates.rules.registry import Rule

UNDECIDED_WHEN = (
    "the first step of the run was not observed, the journal has a gap in it or ends before the"
    " step that demands another, or the run was broken off by an error, a kill or the server's end"
)


FORGOTTEN = reason(
    "steps_forgotten",
    "there are more than {kept} {what}: the oldest are not remembered, and what follows of them is"
    " not judged",
    Lack.MEMORY,
)


@dataclass(frozen=True, slots=True)
class Protocol:
    """The steps of one protocol.

    Attributes:
        needs: Step to those that must be in force when it is taken.
        ends: Step to those that are in force no more after it.
    """

    needs: Mapping[str, Sequence[str]]
    ends: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def take(self, taken: list[str], step: str) -> list[str]:
        """Take a step in a run.

        Args:
            taken: The steps in force; changed in place. What is missing counts as taken from now
                on, so that it is reported once.
            step: The step.

        Returns:
            What it needs and is not in force.
        """
        missing = [need for need in self.needs.get(step, ()) if need not in taken]
        ended = self.ends.get(step, ())
        taken[:] = [one for one in (*taken, *missing) if one not in ended and one != step]
        taken.append(step)
        return missing


def step_missing(in_: str) -> dict[str, Case]:
    """The case of a rule on completeness; ``in_`` the section of the document."""
    return {
        "step_missing": Case(
            "{subject} reached step {step} without {missing:list}.",
            "step {step}",
            "journal",
            "{missing:list} before it",
            in_,
        )
    }


def report_missing(
    reporter: Reporter,
    rule: Rule,
    *,
    subject: str,
    step: str,
    missing: Sequence[str],
    at: str,
    channel: str | None = None,
    collection_id: str | None = None,
) -> None:
    """Report steps that were left out, if there are any."""
    if not missing:
        return
    reporter.broken(
        rule,
        Broken(
            "step_missing",
            witness=", ".join(missing),
            at=at,
            subject=subject,
            step=step,
            missing=list(missing),
        ),
        channel=channel,
        collection_id=collection_id,
    )


def note_forgotten(
    reporter: Reporter,
    *rules: Rule,
    what: str,
    kept: int,
    at: str,
    collection_id: str | None = None,
) -> None:
    """Leave rules undecided of which something is forgotten that a later step may show broken.

    Args:
        reporter: Where it is noted.
        rules: The rules.
        what: Of what there are too many.
        kept: How many are remembered.
        at: What is forgotten, or what would be judged by it.
        collection_id: The collection that it is of.
    """
    judged = tuple(rule for rule in rules if rule.name not in reporter.disabled)
    if judged:
        reporter.note(
            ObservationCode.COMPARISON_UNDECIDED,
            FORGOTTEN,
            at=at,
            rules=judged,
            is_undecided=True,
            collection_id=collection_id,
            what=what,
            kept=kept,
        )
