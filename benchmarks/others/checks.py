"""What every engine does with the messages of one instance: tallystick's own audit of it.

Imports the core alone, so it runs in the environment of any engine. A message is one JSON record;
`COLUMN_BLOCK` of them are judged at once. What an engine must keep to go on after a crash is the
audit as bytes (`saved`), and the messages that came since (`waiting`).
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

from benchmarks.json_records import add_record
from tallystick.coordinates.audit.instance import InstanceAudit
from tallystick.coordinates.events.journal import BlockBuilder

COLUMN_BLOCK = 4096
END = "end"
"""The kind of the message that ends the history of an instance; it is no record."""
CHECKPOINT_S = 5.0
"""How often each engine makes its state durable."""


class Checks:
    """The audit of one instance, one message at a time.

    Args:
        instance_id: The instance.
        saved: What `saved` gave; None at the beginning.
        waiting: The messages that came after that.
    """

    def __init__(
        self, instance_id: str, saved: bytes | None = None, waiting: Iterable[bytes | str] = ()
    ) -> None:
        # The clock of the whole machine: the times of several processes can be compared.
        self._begun = time.monotonic()
        self._audit = InstanceAudit(instance_id)
        self._builder = BlockBuilder(instance_id)
        self._findings: list[str] = []
        self._checks: Counter[str] = Counter()
        if saved is not None:
            head, _, audit = saved.partition(b"\n")
            self._begun, next_sequence, self._findings, checks = json.loads(head)
            self._checks.update(checks)
            self._audit = InstanceAudit.from_bytes(audit, instance_id)
            self._builder = BlockBuilder(instance_id, first_sequence=next_sequence)
        for value in waiting:
            self.take(value)

    @property
    def next_sequence(self) -> int:
        """Of the first message that is not in `saved` yet."""
        return self._builder.next_sequence

    @property
    def waiting(self) -> int:
        """How many of the last messages are not in `saved` yet."""
        return len(self._builder)

    def take(self, value: bytes | str) -> bytes | None:
        """Read the next message.

        Returns:
            The result, where it was the last one.
        """
        record = json.loads(value)
        if record["kind"] == END:
            self._judge()
            return result_of(
                self._audit.instance_id, self.next_sequence, self._findings, self._checks,
                self._begun,
            )  # fmt: skip
        add_record(self._builder, record)
        if len(self._builder) >= COLUMN_BLOCK:
            self._judge()
        return None

    def saved(self) -> bytes:
        """The state after the last whole block."""
        head = self._begun, self._builder.next_sequence, self._findings, self._checks
        return json.dumps(head).encode() + b"\n" + self._audit.to_bytes()

    def _judge(self) -> None:
        output = self._audit.absorb(self._builder.build())
        self._findings += [f"{one.rule} {one.finding_id}" for one in output.findings]
        self._checks.update(
            f"{check.rule} {check.outcome.value}" for cut in output.cuts for check in cut.checks
        )


def result_of(
    instance_id: str, records: int, findings: list[str], checks: Counter[str], begun: float
) -> bytes:
    """What an engine writes of an instance at the end."""
    result: dict[str, Any] = {
        "instance": instance_id,
        "records": records,
        "findings": sorted(findings),
        "checks": dict(sorted(checks.items())),
        "begun": begun,
        "ended": time.monotonic(),
    }
    return json.dumps(result).encode()
