"""What Spark makes of a message's headers, the usual ones and all others."""

from __future__ import annotations

import pytest

from tallystick.coordinates.events._block_parts import CLUSTER, METADATA_KEYS
from tallystick.coordinates.events._field_checks import INSTANCE_BYTES_MAX
from tallystick.coordinates.events._message_headers import headers_json, headers_of_json

pytestmark = pytest.mark.spark

PLAIN = [(name, b"value of %d" % at) for at, name in enumerate(METADATA_KEYS)]
USUAL = [*PLAIN, (CLUSTER, b"east")]
CASES = {
    "usual": (USUAL, "east"),
    "without a cluster": (PLAIN, ""),
    "another order": (USUAL[::-1], "east"),
    "one is missing": (PLAIN[:-1], ""),
    "one twice": ([*PLAIN[:-1], PLAIN[0]], ""),
    "one more": ([*USUAL, ("traceparent", b"00")], "east"),
    "a NULL": ([("schema_version", None), *USUAL[1:]], "east"),
    "no cluster's name": ([*PLAIN, (CLUSTER, None)], ""),
    "a name that is no text": ([*PLAIN, (CLUSTER, b"\xff")], ""),
    "a name of no letters": ([*PLAIN, (CLUSTER, b"")], ""),
    "names as long as they may be": (
        [*[(name, b"x" * INSTANCE_BYTES_MAX) for name in METADATA_KEYS], (CLUSTER, b"y" * 255)],
        "y" * 255,
    ),
    "a name that is too long": ([*PLAIN, (CLUSTER, b"x" * 5_000)], ""),
    "two clusters": ([(CLUSTER, b"a"), (CLUSTER, b"b")], "a"),
    "names to be escaped": ([*PLAIN, ('cl\u00fcs"ter\n', b"x")], ""),
    "none": ([], ""),
}


@pytest.fixture(scope="module")
def read(spark):
    """The JSON and the cluster of each case, by its name."""
    from pyspark.sql import functions as F  # noqa: N812  the name that all of Spark's guides use

    from tallystick.streaming.source import _CLUSTER, _HEADERS

    schema = "name string, headers array<struct<key:string,value:binary>>"
    rows = [(name, headers) for name, (headers, _) in CASES.items()]
    rows += [("unknown", None), ("many", [(f"h{number}", b"v") for number in range(100)])]
    found = spark.createDataFrame(rows, schema).select("name", F.expr(_HEADERS), F.expr(_CLUSTER))
    return {name: (text, cluster) for name, text, cluster in found.collect()}


@pytest.mark.parametrize("name", CASES)
def test_headers_are_read_alike_whatever_they_are(read, name):
    """Those that the producers write, in their order, take a shorter way."""
    headers, cluster = CASES[name]
    assert read[name] == (headers_json(headers), cluster)


def test_headers_that_nobody_kept_and_too_many(read):
    """Of many the first are left, and their number."""
    assert read["unknown"] == ("[]", "")
    [cut, *left] = headers_of_json(read["many"][0])
    assert cut == ("tallystick.headers", b"100")
    assert left == [(f"h{number}", b"v") for number in range(32)]
