"""pandas and Spark give equal answers, row for row."""

from __future__ import annotations

import random
from dataclasses import replace

from cuts import SOURCE_UUID, collection_cuts

from tallystick.coordinates.results import Check, Outcome, Verdict
from tallystick.coordinates.rules.between import SOURCE_UNKNOWN
from tallystick.expectations.validate import CollectionValidator
from tests.support.results import checks

_CHANGES = (
    {"lsn": None, "relay_log_position": None},
    {"lsn": 2**62 + 3, "previous_lsn": 2**62 + 4},
    {"gtid_executed": f"{SOURCE_UUID}:1-5000"},
    {"gtid_executed": SOURCE_UUID.upper() + ":1-2:3-4", "retrieved_gtid_set": "?"},
    {"binary_log_position": 2**53 + 1},
    {"answer": "missing", "gtid_executed": None, "gtid_purged": None},
    {
        "answer": "empty",
        "verdict": "INCONSISTENT",
        "checks": checks(broken="snapshot_never_silently_empty"),
    },
    {
        # A reason that Spark's workers know, too.
        "checks": (
            *checks(broken="gtid_logged_once"),
            Check("no_errant_gtids", Outcome.UNDECIDED, SOURCE_UNKNOWN.code),
        )
    },
    {"exec_source_log_file": "binlog.1000000", "read_source_log_file": "binlog.999999"},
    {"instance_id": '<b>"é"</b>', "gtid_purged": None},
    {"instance_id": None},
)


def _shaken(seed):
    """So few that all broken rows are listed: a second pass would cost another 15 s on Spark."""
    chosen = random.Random(seed)
    cuts = [
        replace(cut, **chosen.choice(_CHANGES)) if chosen.random() < 0.5 else cut
        for cut in collection_cuts(2, 18)
    ]
    return [*cuts, cuts[-1], cuts[-3]]


def test_both_engines_answer_alike(spark):
    """The same outcomes, counts, rows and witnesses for a collection with every kind of trouble."""
    on_pandas = CollectionValidator(spark_rows_min=10**9, spark=spark)
    on_spark = CollectionValidator(spark_rows_min=1, spark=spark)
    cuts = _shaken(20)
    expected, found = on_pandas.validate(cuts), on_spark.validate(cuts)
    assert (expected.engine, found.engine) == ("pandas", "spark")
    assert expected.verdict is Verdict.INCONSISTENT
    broken = {result.rule for result in expected.failed}
    assert {"gtid_logged_once", "snapshot_never_silently_empty"} < broken
    assert expected.results == found.results
    assert spark.sparkContext._jsc.getPersistentRDDs().isEmpty()
