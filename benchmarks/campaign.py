"""Measure the campaign: seeds that are simulated and audited a second of one processor.

Prints one JSON object: the median over rounds that all run the same seeds, in CPU seconds:

    python -m benchmarks.campaign [--seeds 60] [--rounds 5]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

from tallystick.campaign import run_campaign


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    records, seconds = 0, []
    for _ in range(options.rounds):
        begun = time.process_time()
        records = run_campaign(range(options.seeds)).records
        seconds.append(time.process_time() - begun)
    median = statistics.median(seconds)
    print(
        json.dumps(
            {
                "seeds": options.seeds,
                "records": records,
                "seeds_per_s": round(options.seeds / median, 1),
                "records_per_s": round(records / median),
            }
        )
    )


if __name__ == "__main__":
    main()
