"""The process that Spark forks its Python workers from.

Spark's own daemon imports next to nothing, so each forked worker would spend most of a second on
numpy, pandas, pyarrow and the audit. Imported and compiled here once, they are shared by every
fork. And Spark's has each worker look for garbage in all that it holds after every task.
"""

from __future__ import annotations

import gc
import sys
from zipimport import zipimporter

# For each task pyspark has Python forget what it knows of the path, and then the directories of all
# archives on it are read anew: 0.2 s for those of pyspark and of Spark, which are installed beside.
sys.path[:] = [path for path in sys.path if not path.endswith((".zip", ".jar"))]
for _path, _finder in [*sys.path_importer_cache.items()]:
    if isinstance(_finder, zipimporter):
        del sys.path_importer_cache[_path]

# ruff: noqa: E402  only now are they found where they are installed
import pandas as pd  # noqa: F401  imported for the forks
import pyarrow as pa  # noqa: F401
from pyspark import daemon
from pyspark.sql.pandas import serializers  # noqa: F401
from pyspark.sql.streaming import stateful_processor_api_client  # noqa: F401

from tallystick.coordinates.audit.finding_collector import FleetOutput
from tallystick.coordinates.audit.fleet import FleetAudit
from tallystick.coordinates.audit.fleet_events import encode_fleet_events
from tallystick.coordinates.audit.instance import InstanceAudit
from tallystick.coordinates.state_codec import encode
from tallystick.streaming import auditor  # noqa: F401
from tallystick.streaming.garbage import GarbageOfTasks

if __name__ == "__main__":
    # The codecs of states, fleet events and results are compiled at their first use.
    encode_fleet_events([])
    encode(FleetOutput, FleetOutput())
    FleetAudit.from_bytes(FleetAudit().to_bytes())
    InstanceAudit.from_bytes(InstanceAudit("").to_bytes())
    # What was imported is no garbage either: to walk it would copy its pages into the fork.
    gc.freeze()
    gc.disable()
    daemon.gc = GarbageOfTasks()  # type: ignore[assignment, attr-defined]
    daemon.manager()  # type: ignore[no-untyped-call]
