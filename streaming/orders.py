"""What the operator must know of a micro-batch and only the driver does.

It is a function of what was written down before the micro-batch was run: the offsets that Spark has
planned, and the driver's state. So a micro-batch that is run again has the same orders. They reach
the tasks as a local property of Spark's.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

PROPERTY = "tallystick.orders"


@dataclass(frozen=True, slots=True)
class Orders:
    """What holds for one micro-batch, or the end of a run.

    Attributes:
        at: What the step is called in observations.
        is_caught_up: Whether all that was there is read with it: only then deadlines pass.
        retired: Instances that are no members of the fleet until they start after this time,
            microseconds of their journal.
        away: The clusters of the instances that were of another one before: there they are no
            members any more.
    """

    at: str
    is_caught_up: bool = True
    retired: Mapping[str, int] = field(default_factory=dict)
    away: Mapping[str, str] = field(default_factory=dict)

    def to_text(self) -> str:
        """As a property's value."""
        return json.dumps(asdict(self))

    @classmethod
    def of_text(cls, text: str) -> Orders:
        """Inverse of ``to_text``."""
        return cls(**json.loads(text))
