"""All benchmarks in turn, each in a process of its own: `python -m benchmarks [NAME …]`.

Spark keeps the settings of a process's first session. Each is shorter here than by itself:
`python -m benchmarks.NAME` has the sizes that the documents name.
"""

from __future__ import annotations

import subprocess
import sys
import time

SHORT = {
    "pipeline": "--events 4000000 --json-events 300000",
    "latency": "--injected 20",
    "growth": "--instances 16 100",
    "heartbeats": "--instances 1000 --seconds 20",
    "collection": "--collections 2",
    "expectations": "--rounds 1 --sizes 100 1000 --runs 30",
    "audit": "--rounds 3",
    "campaign": "--seeds 20",
    "codec": "",
    "gtid_sets": "",
    "tail": "--rounds 3 --seconds 4",
    "report": "--days 90",
}
"""What the product is about first, its parts after it; and how each is made shorter."""


def main() -> int:
    """Run those that were named, or all; the first failure ends it."""
    chosen = sys.argv[1:] or SHORT
    for name in chosen:
        if name not in SHORT:
            sys.stderr.write(f"no benchmark {name!r}; there are: {', '.join(SHORT)}\n")
            return 2
    for name in chosen:
        arguments = SHORT[name].split()
        print(" ".join(["==", name, *arguments]), flush=True)
        begun = time.perf_counter()
        command = [sys.executable, "-m", f"benchmarks.{name}", *arguments]
        done = subprocess.run(command, check=False)
        if done.returncode:
            return done.returncode
        print(f"== {name} took {time.perf_counter() - begun:.0f} s\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
