"""Measure the validation of one collection, on pandas and on Spark side by side, once warm.

A round validates the same cuts on both engines one after the other, so that a busy machine slows
both. Figures are medians over rounds. The last lines show that a run's cost does not grow with the
runs before it, and what Data Docs of the kept runs cost apart from it.

Run with: python -m benchmarks.expectations [--rounds N] [--sizes N ...] [--runs N]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from tallystick.coordinates.audit.collection_checks import CollectionChecks, rows_with_checks
from tallystick.coordinates.audit.cut import Cut
from tallystick.coordinates.results import Check, Outcome, Verdict
from tallystick.coordinates.rules.catalogue import RULES
from tallystick.expectations.validate import CollectionValidator
from tallystick.streaming.session import SessionSettings, start_session

SIZES = (1, 10, 100, 1000)
KEPT = 20
UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def held(scope: str) -> tuple[Check, ...]:
    """The checks of a healthy row."""
    return tuple(
        Check(rule.name, Outcome.HOLDS)
        for rule in RULES.values()
        if rule.evidence is not None and rule.evidence.scope in (scope, None)
    )


def cuts(instances: int, collection: int = 2) -> list[Cut]:
    """Make healthy rows: every instance with two channels, so three rows an instance."""
    made = []
    for number in range(instances):
        name = f"db-{number:05}"
        executed = f"{UUID}:1-{collection * 1000}:{collection * 1000 + 5}-9000000000"
        made.append(
            Cut(
                collection_id=f"c-{collection:06}",
                instance_id=name,
                scope="instance",
                ts=collection * 10_000_000,
                verdict="CONSISTENT",
                checks=held("instance"),
                binary_log_file="binlog.000042",
                binary_log_position=5_000_000_000 + collection,
                gtid_executed=executed,
                gtid_purged=f"{UUID}:1-50",
                gtid_owned="",
                lsn=8204 + 51_200 * collection,
                lsn_checkpoint=8204,
                journal_binary_log_file="binlog.000042",
                journal_binary_log_position=5_000_000_000 + collection,
                journal_gtid_set=executed,
                commit_lag_max=155,
                previous_binary_log_file="binlog.000041",
                previous_binary_log_position=1_073_741_824,
                previous_gtid_executed=f"{UUID}:1-900",
                previous_gtid_purged=f"{UUID}:1-50",
                previous_lsn=8204,
            )
        )
        made += [
            Cut(
                collection_id=f"c-{collection:06}",
                instance_id=name,
                scope="channel",
                channel=channel,
                ts=collection * 10_000_000,
                verdict="CONSISTENT",
                checks=held("channel"),
                relay_log_file="relay.000009",
                relay_log_position=700_000,
                read_source_log_file="binlog.1000000",
                read_source_log_pos=4711,
                exec_source_log_file="binlog.999999",
                exec_source_log_pos=90_000,
                retrieved_gtid_set=executed,
                journal_relay_log_file="relay.000009",
                journal_relay_log_position=700_000,
                journal_retrieved_gtid_set=executed,
            )
            for channel in ("", "second")
        ]
    return rows_with_checks(made, CollectionChecks().of(made))


def with_breach(cut: Cut) -> Cut:
    """A row whose redo log contradicts itself, as the audit shows it."""
    kept = (check for check in cut.checks if check.rule != "lsn_order")
    check = Check("lsn_order", Outcome.BROKEN, "out_of_order", {"witness": str(2**62)})
    return replace(cut, lsn_checkpoint=2**62, checks=(*kept, check))


def seconds(
    function: Callable[[], object], clock: Callable[[], float] = time.perf_counter
) -> float:
    """Time one call."""
    began = clock()
    function()
    return clock() - began


def validated(validator: CollectionValidator, rows: list[Cut], expected: Verdict) -> None:
    """Validate and insist on the answer: a fast wrong one would be worth nothing."""
    found = validator.validate(rows)
    assert found.verdict is expected, found


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="instances")
    parser.add_argument("--runs", type=int, default=100, help="kept on disk, in each of two parts")
    options = parser.parse_args()
    rounds, runs = options.rounds, options.runs
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        spark = start_session(SessionSettings(jars=(), log_file=root / "spark.log"))
        on_pandas = CollectionValidator()
        on_spark = CollectionValidator(spark=spark, spark_rows_min=1)
        print(f"one collection, seconds, medians of {rounds} rounds")
        print(f"{'instances':>10}{'rows':>8}{'':>16}{'pandas':>10}{'spark':>10}")
        for instances in options.sizes:
            healthy = cuts(instances)
            failing = [with_breach(healthy[0]), *healthy[1:]]
            for name, rows, verdict in (
                ("healthy", healthy, Verdict.CONSISTENT),
                ("failing", failing, Verdict.INCONSISTENT),
            ):
                validated(on_pandas, rows, verdict)
                validated(on_spark, rows, verdict)
                pairs = [
                    (
                        seconds(partial(validated, on_pandas, rows, verdict)),
                        seconds(partial(validated, on_spark, rows, verdict)),
                    )
                    for _ in range(rounds)
                ]
                medians = [statistics.median(column) for column in zip(*pairs, strict=True)]
                print(
                    f"{instances:>10}{len(rows):>8}{name:>16}{medians[0]:>10.3f}{medians[1]:>10.3f}"
                )
        spark.stop()
        print(f"\n100 instances, results on disk, the last {KEPT} kept, pandas, CPU seconds")
        kept = CollectionValidator(root / "docs", keep_runs=KEPT)
        for first in (1, 1 + runs):
            times = [
                seconds(
                    partial(validated, kept, cuts(100, number), Verdict.CONSISTENT),
                    time.process_time,
                )
                for number in range(first, first + runs)
            ]
            print(f"  runs {first:>3} to {first + runs - 1:<4}{statistics.median(times):>10.3f}")
        print(f"  Data Docs of {KEPT:<6}{seconds(kept.build_data_docs):>10.3f}")


if __name__ == "__main__":
    main()
