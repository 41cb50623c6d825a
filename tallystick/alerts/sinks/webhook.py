"""A POST with an alert as JSON, signed as the Standard Webhooks specification says."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Sequence
from typing import final

from tallystick.alerts.alert import Alert
from tallystick.alerts.http import Endpoint, encoded
from tallystick.alerts.sinks import Context


def signature(secret: bytes, message_id: str, timestamp: int, body: bytes) -> str:
    """HMAC-SHA256 of id, time and body: the value of the header ``webhook-signature``."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()


@final
class Webhook:
    """Sends each alert by itself; its id is the message's, so a receiver can drop a repetition."""

    repeat_s = None

    def __init__(self, endpoint: Endpoint, secret: bytes | None) -> None:
        self._endpoint = endpoint
        self._secret = secret

    def send(self, alerts: Sequence[Alert], attempt: int) -> None:
        """POST it."""
        for alert in alerts:
            body, name, now = encoded(alert), alert["alert_id"], int(time.time())
            headers = {
                "webhook-id": name,
                "webhook-timestamp": str(now),
                "Idempotency-Key": name,
                "Tallystick-Attempt": str(attempt),
            }
            if self._secret is not None:
                headers["webhook-signature"] = signature(self._secret, name, now, body)
            self._endpoint.post(body, headers)

    def close(self) -> None:
        """Nothing runs beside a POST, which has a time-out."""


def open_sink(target: str, context: Context) -> Webhook:
    """Where the target is a URL."""
    return Webhook(Endpoint(target, "--alert webhook"), context.secret)
