"""The invariants: predicates with names, and the pure rules that judge them.

Importing this package registers all of them in `INVARIANTS`.
"""

from coordinates.invariants import fleet
from coordinates.invariants._registry import INVARIANTS, Invariant, Scope, register

__all__ = ["INVARIANTS", "Invariant", "Scope", "fleet", "register"]
