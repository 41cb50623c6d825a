"""The checks in Bytewax: a stateful operator, keyed by instance.

State is the operator's own. Bytewax asks for a snapshot of it at the end of each epoch and keeps
it with the positions in Kafka in a recovery store (SQLite); results are written at least once.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from functools import partial
from pathlib import Path

import bytewax.operators as op
from bytewax.connectors.kafka import KafkaSink, KafkaSinkMessage, KafkaSource
from bytewax.dataflow import Dataflow
from bytewax.operators import StatefulBatchLogic
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.run import cli_main

from benchmarks.others.checks import CHECKPOINT_S
from benchmarks.others.kinds import KINDS, AnyChecks

Snapshot = tuple[str, bytes, list[bytes]]


class Instance(StatefulBatchLogic[tuple[str, bytes], bytes, Snapshot]):
    """The checks of one key."""

    def __init__(self, kind: str, resumed: Snapshot | None) -> None:
        self._kind = KINDS[kind]
        self._waiting: list[bytes] = []
        self._checks: AnyChecks | None = None
        self._name = ""
        if resumed is not None:
            self._name, saved, self._waiting = resumed
            self._checks = self._kind(self._name, saved, self._waiting)

    def on_batch(self, values: list[tuple[str, bytes]]) -> tuple[list[bytes], bool]:
        """What Bytewax has read of the key."""
        results = []
        for name, value in values:
            if self._checks is None:
                self._name, self._checks = name, self._kind(name)
            self._waiting.append(value)
            result = self._checks.take(value)
            if not self._checks.waiting:
                self._waiting.clear()
            if result is not None:
                results.append(result)
        return results, StatefulBatchLogic.RETAIN

    def snapshot(self) -> Snapshot:
        """What it goes on from after a crash."""
        assert self._checks is not None
        return self._name, self._checks.saved(), list(self._waiting)


def flow_of(servers: str, topic: str, results: str, kind: str) -> Dataflow:
    """From the history to the results."""
    flow = Dataflow("checks")
    source = KafkaSource([servers], [topic], batch_size=2_000)
    messages = op.input("history", flow, source)
    keyed = op.map("keyed", messages, lambda m: (m.key.decode(), (m.key.decode(), m.value)))
    found = op.stateful_batch("checks", keyed, partial(Instance, kind))
    out = op.map("message", found, lambda one: KafkaSinkMessage(None, one[1]))
    op.output("results", out, KafkaSink([servers], results))
    return flow


def main() -> None:
    """Run until it is stopped."""
    servers, topic, results, directory, kind = sys.argv[1:]
    recovery = Path(directory) / "recovery"
    recovery.mkdir()
    init_db_dir(recovery, 1)
    cli_main(
        flow_of(servers, topic, results, kind),
        epoch_interval=timedelta(seconds=CHECKPOINT_S),
        recovery_config=RecoveryConfig(recovery),
    )


if __name__ == "__main__":
    main()
