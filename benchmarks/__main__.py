"""All benchmarks in turn, each in a process of its own: `python -m benchmarks [NAME …]`.

Spark keeps the settings of a process's first session.
"""

from __future__ import annotations

import subprocess
import sys

NAMES = (
    "pipeline", "growth", "expectations", "audit", "campaign", "codec", "gtid_sets", "tail",
    "report",
)  # fmt: skip
"""What the product is about first, its parts after it."""


def main() -> int:
    """Run those that were named, or all; the first failure ends it."""
    chosen = sys.argv[1:] or NAMES
    for name in chosen:
        if name not in NAMES:
            sys.stderr.write(f"no benchmark {name!r}; there are: {', '.join(NAMES)}\n")
            return 2
    for name in chosen:
        print(f"== {name}", flush=True)
        done = subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=False)
        if done.returncode:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
