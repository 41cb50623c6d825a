"""A request for one collection: what the collect topic carries to every producer."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from tallystick.coordinates.values.errors import AuditError

REQUEST_BYTES_MAX = 2**20
_SHOWN_MAX = 120


class CollectRequestError(AuditError, ValueError):
    """A message of the collect topic that is no request."""


@dataclass(frozen=True, slots=True)
class CollectRequest:
    """Ask for one log_status row of each instance.

    Attributes:
        collection_id: Goes back with each row.
        requested_at: Microseconds since 1970 of the asking side's clock.
        instances: Who is asked; None: everybody.
        has_waited: Whether it may have been in the topic for a while before it was read, so that
            its receipt shows nothing of clocks.
    """

    collection_id: str
    requested_at: int
    instances: frozenset[str] | None = None
    has_waited: bool = field(default=False, compare=False)

    def concerns(self, instance_id: str) -> bool:
        """Whether the instance is asked."""
        return self.instances is None or instance_id in self.instances


def parse_request(value: bytes | None) -> CollectRequest:
    """Read the value of a message; keys that are not known are left for later versions.

    Raises:
        CollectRequestError: It is no request.
    """
    if value is None or len(value) > REQUEST_BYTES_MAX:
        size = "no value" if value is None else f"{len(value)} bytes"
        raise CollectRequestError(
            f"expected a request of at most {REQUEST_BYTES_MAX} bytes: {size}"
        )
    try:
        request = json.loads(value.decode())
    except (ValueError, RecursionError) as error:
        raise CollectRequestError(
            f"expected a JSON object ({shorten(str(error))}), got {shorten(value)}"
        ) from None
    if not isinstance(request, dict):
        raise CollectRequestError(f"expected a JSON object, got {shorten(value)}")
    collection_id = request.get("collection_id")
    if not isinstance(collection_id, str) or not collection_id:
        raise CollectRequestError(f"expected collection_id as text, got {shorten(collection_id)}")
    requested_at = request.get("requested_at")
    if type(requested_at) is not int or not 0 <= requested_at < 2**63:
        raise CollectRequestError(
            f"expected requested_at as microseconds, got {shorten(requested_at)}"
        )
    instances = request.get("instances")
    if instances is None:
        return CollectRequest(collection_id, requested_at)
    if not isinstance(instances, list) or not all(isinstance(name, str) for name in instances):
        raise CollectRequestError(f"expected instances as a list of text, got {shorten(instances)}")
    return CollectRequest(collection_id, requested_at, frozenset(instances))


def encode_request(request: CollectRequest) -> bytes:
    """The value of a request's message."""
    body: dict[str, Any] = {
        "collection_id": request.collection_id,
        "requested_at": request.requested_at,
    }
    if request.instances is not None:
        body["instances"] = sorted(request.instances)
    return json.dumps(body, separators=(",", ":")).encode()


def shorten(value: object) -> str:
    """A value that came from outside, for a message."""
    shown = repr(value)
    return shown if len(shown) <= _SHOWN_MAX else f"{shown[:_SHOWN_MAX]}…"
