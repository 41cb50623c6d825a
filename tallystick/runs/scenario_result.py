"""What a demonstration showed, as a report tells it: each claim beside what the audit says of it.

Values only: what was seen comes from the scenario, the counts from the run's own tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of a requirement.

    Attributes:
        instance: Where.
        after_us: Virtual time since the fleet's first moment, microseconds.
        sentence: What, with its values.
    """

    instance: str
    after_us: int
    sentence: str


@dataclass(frozen=True, slots=True)
class Judged:
    """How often an invariant was judged in the run, and how.

    Attributes:
        invariant: Its name.
        held: On so many rows; 0 for one that is judged on events alone.
        broken: Findings.
        undecided: So often the evidence did not suffice.
        foretold: How many of the findings the document foretells.
    """

    rule: str
    held: int
    broken: int
    undecided: int
    foretold: int = 0


@dataclass(frozen=True, slots=True)
class ClaimShown:
    """A claim of the document; it is shown when something was seen of it.

    Attributes:
        requirement: As docs/designs.md labels it.
        text: The claim.
        seen: What was seen, in order of time; empty when it was not shown.
        judged: The invariants that audit it.
    """

    requirement: str
    text: str
    seen: tuple[Seen, ...]
    judged: tuple[Judged, ...]


@dataclass(frozen=True, slots=True)
class Foretold:
    """A finding that the document foretells for the unsafe way.

    Attributes:
        instance: Where it is to be found.
        invariant: What is broken there.
        why: Why the document warns of it.
        found: How many findings there are.
    """

    instance: str
    rule: str
    why: str
    found: int


@dataclass(frozen=True, slots=True)
class Demonstrated:
    """What a demonstration showed.

    Attributes:
        name: Of the demonstration.
        design: The document.
        title: The document's title.
        claims: In the order of the document.
        foretold: The findings that must be there.
        others: Every other finding: instance and invariant.
        is_complete: Whether the audit read the whole journal.
    """

    name: str
    design: str
    title: str
    claims: tuple[ClaimShown, ...]
    foretold: tuple[Foretold, ...] = ()
    others: tuple[tuple[str, str], ...] = ()
    is_complete: bool = True

    @property
    def is_shown(self) -> bool:
        """Every claim was seen, every foretold finding is there, and no other."""
        return (
            self.is_complete
            and all(claim.seen for claim in self.claims)
            and all(finding.found for finding in self.foretold)
            and not self.others
        )

    @property
    def counted(self) -> str:
        """How much of it was shown, in words."""
        return ", ".join(self._counts())

    def _counts(self) -> Iterator[str]:
        shown = sum(1 for claim in self.claims if claim.seen)
        yield f"{shown} of {len(self.claims)} claims shown"
        if self.foretold:
            found = sum(1 for finding in self.foretold if finding.found)
            yield f"{found} of {len(self.foretold)} foretold findings there"
        others = len(self.others)
        yield (
            (f"{others} other {'finding' if others == 1 else 'findings'}")
            if others
            else ("nothing else found")
        )
        if not self.is_complete:
            yield "the journal was not read to its end"

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {**asdict(self), "is_shown": self.is_shown}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Demonstrated:
        """Inverse of ``to_dict``.

        Raises:
            KeyError: A key is missing.
            TypeError: A value has another type than expected.
        """
        return cls(
            name=str(values["name"]),
            design=str(values["design"]),
            title=str(values["title"]),
            claims=tuple(
                ClaimShown(
                    requirement=str(claim["requirement"]),
                    text=str(claim["text"]),
                    seen=tuple(Seen(**seen) for seen in claim["seen"]),
                    judged=tuple(Judged(**judged) for judged in claim["judged"]),
                )
                for claim in values["claims"]
            ),
            foretold=tuple(Foretold(**foretold) for foretold in values["foretold"]),
            others=tuple((str(other[0]), str(other[1])) for other in values["others"]),
            is_complete=bool(values["is_complete"]),
        )


def seconds(after_us: int) -> str:
    """Virtual time since the fleet's first moment, to the millisecond."""
    return f"{after_us / 1_000_000:.3f} s"


def verdict_on(judged: Judged) -> str:
    """What the audit says of an invariant, in words."""
    parts = []
    unforeseen = judged.broken - judged.foretold
    if unforeseen:
        parts.append(f"broken {times(unforeseen)}")
    if judged.held:
        parts.append(f"held {times(judged.held)}")
    if judged.foretold:
        otherwise = "" if parts else ", else never"
        parts.append(f"broken {times(judged.foretold)} as foretold{otherwise}")
    if judged.undecided:
        parts.append(f"undecided {times(judged.undecided)}")
    return f"{judged.rule} {', '.join(parts) or 'never broken'}"


def times(number: int) -> str:
    """How often, in words."""
    return "once" if number == 1 else f"{number:,} times"
