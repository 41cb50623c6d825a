"""Processes killed at every step, and what happens to messages and states: no promise is broken.

``python -m tests.streaming.test_chaos FIRST END`` runs more seeds.
"""

from __future__ import annotations

import sys
from collections import Counter

import pytest

from tests.support.chaos import ChaosResult, run_chaos
from tests.support.chaos_journal import LOSSES

# fmt: off
SEEDS = (
    0, 2, 5, 7, 8, 11, 14, 18, 20, 21, 22, 23, 24, 25, 26, 28, 29, 31, 34, 35, 36, 37, 46, 47,
    53, 54, 58, 61, 62, 63, 64, 65, 66, 67, 69, 70, 71,
)
# fmt: on
"""The cheapest of the first 72 in which each way to be killed, and to lose something, is at least
half as often as in all of them, and three times where it is that often."""
STEPS = {
    "committed",
    "dead letters published",
    "findings published",
    "fleet state written",
    "incidents published",
    "judged",
    "planned",
    "producer acknowledged",
    "producer built",
    "producer saved",
    "producer sent",
    "states written",
    *(f"table {name} written" for name in ("checks", "cuts", "findings", "incidents")),
    *(f"table {name} written" for name in ("observations", "validations")),
}
"""Where a process can be killed."""


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_disturbed_is_found_as_if_it_were_not(seed):
    """Nothing lost: everything equal. Else nothing false, nothing twice, and never CONSISTENT."""
    assert [] == run_chaos(seed).problems


def sweep(first: int, end: int) -> int:
    """Run the seeds of a range; returns how many broke a promise."""
    crashes, lost, wrong = Counter[str](), Counter[str](), list[ChaosResult]()
    for seed in range(first, end):
        result = run_chaos(seed)
        crashes += result.crashes
        lost += result.lost
        if result.problems:
            wrong.append(result)
            command = f"python -m tests.streaming.test_chaos {seed} {seed + 1}"
            sys.stdout.write("\n".join((*result.problems, f"again: {command}", "")))
            sys.stdout.flush()
    sys.stdout.write(f"{end - first} seeds, {len(wrong)} wrong\n")
    for what, counted in (("killed after", crashes), ("lost", lost)):
        sys.stdout.writelines(f"  {what} {name}: {n}\n" for name, n in sorted(counted.items()))
    missing = sorted({*STEPS, *LOSSES} - crashes.keys() - lost.keys())
    sys.stdout.write(f"  never: {', '.join(missing) or '-'}\n")
    return len(wrong)


if __name__ == "__main__":
    sys.exit(bool(sweep(int(sys.argv[1]), int(sys.argv[2]))))
