"""The checks in Quix Streams: a stateful function, keyed by instance.

State is in RocksDB, with its changes in a topic, as Quix Streams does it by itself. Each message is
put there; the audit is held in memory and put there after each whole block, as it is read back only
after a crash. Quix Streams commits state and positions together; at least once.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from quixstreams import Application, State

from benchmarks.others.checks import CHECKPOINT_S, COLUMN_BLOCK
from benchmarks.others.kinds import KINDS, AnyChecks

AUDIT = "audit"


class Instances:
    """The checks of all instances that this process has."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._held: dict[bytes, AnyChecks] = {}

    def take(self, value: bytes, key: bytes, _ts: int, _headers: Any, state: State) -> bytes | None:
        """Put the next message of an instance into its state, and check it."""
        checks = self._held.get(key)
        if checks is None:
            checks = self._held[key] = restored(self._kind, key.decode(), state)
        number = checks.waiting
        result = checks.take(value)
        if checks.waiting:
            # Numbered within the block: the next block's take the places of this one's.
            state.set_bytes(str(number), value)
        else:
            state.set_bytes(AUDIT, checks.saved())
        return result


def restored(kind: str, name: str, state: State) -> AnyChecks:
    """The checks of an instance from what is in its state."""
    checks = KINDS[kind](name, state.get_bytes(AUDIT))
    first = checks.next_sequence
    for number in range(COLUMN_BLOCK):
        value = state.get_bytes(str(number))
        if value is None or json.loads(value).get("sequence") != first + number:
            break
        checks.take(value)
    return checks


def main() -> None:
    """Run until it is stopped."""
    servers, topic, results, directory, kind = sys.argv[1:]
    app = Application(
        servers,
        consumer_group=results,
        auto_offset_reset="earliest",
        commit_interval=CHECKPOINT_S,
        state_dir=Path(directory) / "state",
        processing_guarantee="at-least-once",
        loglevel="WARNING",
    )
    history = app.topic(topic, value_deserializer="bytes")
    frame = app.dataframe(history)
    frame = frame.apply(Instances(kind).take, stateful=True, metadata=True)
    frame = frame.filter(lambda value: value is not None)
    frame.to_topic(app.topic(results, value_serializer="bytes"))
    app.run(collect=False)


if __name__ == "__main__":
    main()
