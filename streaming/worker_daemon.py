"""The process that Spark forks its Python workers from.

Spark's own daemon imports next to nothing, so each forked worker would spend most of a second on
numpy, pandas, pyarrow and the audit. Imported here once, they are shared by every fork.
"""

from __future__ import annotations

import gc

import pandas as pd  # noqa: F401  imported for the forks
import pyarrow as pa  # noqa: F401
from pyspark.daemon import manager
from pyspark.sql.pandas import serializers  # noqa: F401
from pyspark.sql.streaming import stateful_processor_api_client  # noqa: F401

import tallystick.streaming.auditor  # noqa: F401

if __name__ == "__main__":
    # Spark's loop collects garbage after every task. What was imported is no garbage: without this,
    # each task walked all of it, and copied its pages into the fork.
    gc.freeze()
    manager()  # type: ignore[no-untyped-call]
