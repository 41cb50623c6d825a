"""A whole job in a process of its own, for tests that kill it.

Arguments: the settings as one JSON object. Writes one line a micro-batch to standard output.
"""

from __future__ import annotations

import json
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from tallystick.coordinates.results import Verdict
from tallystick.deploy.class_archives import SPARK, with_archive
from tallystick.streaming.errors import StreamingError
from tallystick.streaming.runner import JobSettings, run_job, stopping_on_signals
from tallystick.streaming.session import SessionSettings


@dataclass
class Answer:
    verdict: Verdict = Verdict.CONSISTENT


def main() -> int:
    given = json.loads(sys.argv[1])
    jars = [Path(jar) for jar in given.pop("jars")]
    log_file = Path(given.pop("log_file"))
    for name in ("checkpoint", "output"):
        given[name] = Path(given[name])
    said = None

    def report(metrics) -> None:
        nonlocal said
        if (metrics["micro_batches"], metrics["outages"]) != said:
            said = metrics["micro_batches"], metrics["outages"]
            print(json.dumps(dict(metrics)), flush=True)  # noqa: T201

    stop = threading.Event()
    with stopping_on_signals(stop):
        try:
            run_job(
                JobSettings(**given),
                SessionSettings(
                    jars=jars,
                    log_file=log_file,
                    shuffle_partitions=2,
                    java_options=with_archive(SPARK),
                ),
                stop=stop,
                validate=lambda _: Answer(),
                report=report,
            )
        except StreamingError as error:
            print(error, file=sys.stderr)  # noqa: T201
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
