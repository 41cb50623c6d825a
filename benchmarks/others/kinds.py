"""What an engine may run: by name, as its processes get it."""

from __future__ import annotations

from benchmarks.others.checks import Checks
from benchmarks.others.continuity import Continuity

KINDS = {"audit": Checks, "continuity": Continuity}
AnyChecks = Checks | Continuity
