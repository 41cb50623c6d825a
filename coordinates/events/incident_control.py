"""What operators ask of incidents: the messages of the control topic."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from tallystick.coordinates.events.collect_request import REQUEST_BYTES_MAX, shorten
from tallystick.coordinates.values.errors import AuditError

TEXT_MAX = 1_000


class IncidentControlError(AuditError, ValueError):
    """A message of the control topic that is none."""


class ControlAction(str, Enum):
    """What is asked for: to acknowledge, to take that back, or to give up an instance."""

    ACK = "ack"
    UNACK = "unack"
    RETIRE = "retire"


@dataclass(frozen=True, slots=True)
class IncidentControl:
    """One message of the control topic.

    Attributes:
        action: What is asked for.
        target: The ``incident_id``; of RETIRE the instance.
        by: Who asks.
        why: The reason that is given.
        ts: When, microseconds since 1970 of the asking side's clock.
        until_ts: When an acknowledgement runs out, microseconds; None: never.
    """

    action: ControlAction
    target: str
    by: str
    why: str
    ts: int
    until_ts: int | None = None


def parse_control(value: bytes | None) -> IncidentControl:
    """Read the value of a message; keys that are not known are left for later versions.

    Raises:
        IncidentControlError: It is no message of the control topic.
    """
    if value is None or len(value) > REQUEST_BYTES_MAX:
        size = "no value" if value is None else f"{len(value)} bytes"
        raise IncidentControlError(f"expected at most {REQUEST_BYTES_MAX} bytes: {size}")
    try:
        body = json.loads(value.decode())
    except (ValueError, RecursionError) as error:
        raise IncidentControlError(
            f"expected a JSON object ({shorten(str(error))}), got {shorten(value)}"
        ) from None
    if not isinstance(body, dict):
        raise IncidentControlError(f"expected a JSON object, got {shorten(value)}")
    try:
        action = ControlAction(body.get("action"))
    except ValueError:
        expected = ", ".join(one.value for one in ControlAction)
        raise IncidentControlError(
            f"expected action as one of {expected}, got {shorten(body.get('action'))}"
        ) from None
    until = None if body.get("until_ts") is None else _time(body, "until_ts")
    return IncidentControl(
        action,
        _text(body, "target"),
        _text(body, "by"),
        _text(body, "why"),
        _time(body, "ts"),
        until,
    )


def encode_control(control: IncidentControl) -> bytes:
    """The value of a message."""
    body = {**asdict(control), "action": control.action.value}
    return json.dumps(body, separators=(",", ":")).encode()


def _text(body: dict[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not value.strip() or len(value) > TEXT_MAX:
        raise IncidentControlError(
            f"expected {name} as text of 1 to {TEXT_MAX} characters, got {shorten(value)}"
        )
    return value


def _time(body: dict[str, Any], name: str) -> int:
    value = body.get(name)
    if type(value) is not int or not 0 <= value < 2**63:
        raise IncidentControlError(f"expected {name} as microseconds, got {shorten(value)}")
    return value
