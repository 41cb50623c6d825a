"""Tokens for kafka-python's OAUTHBEARER; librdkafka and Java have this themselves.

OAuth 2.0's client credentials grant (RFC 6749, section 4.4), by librdkafka's properties of
``sasl.oauthbearer.method=oidc``.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import ClassVar, Final, final

from kafka.net.sasl.oauth import AbstractTokenProvider

from tallystick.producers.kafka_clients.errors import KafkaPropertyError
from tallystick.producers.kafka_clients.properties import KafkaProperties

TIMEOUT_S = 10.0
ANSWER_BYTES_MAX = 1_000_000
_KEPT: Final = 0.8
"""Share of a token's time for which it is used."""
_SCHEMES = ("https", "http")


@final
class ClientCredentials(AbstractTokenProvider):  # type: ignore[misc]  # it has no types
    """Fetches a token, and keeps it for most of its time.

    Args:
        properties: With the token's endpoint, the client's id and secret.

    Raises:
        KafkaPropertyError: One is missing, or the method is another.
    """

    PROPERTIES: ClassVar = frozenset(
        {
            *("sasl.oauthbearer.method", "sasl.oauthbearer.token.endpoint.url"),
            *("sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret"),
            *("sasl.oauthbearer.scope", "sasl.oauthbearer.extensions", "https.ca.location"),
        }
    )

    def __init__(self, properties: KafkaProperties) -> None:
        super().__init__()
        if properties.get("sasl.oauthbearer.method", "").lower() != "oidc":
            raise KafkaPropertyError("sasl.oauthbearer.method", "expected oidc")
        for name in ("token.endpoint.url", "client.id", "client.secret"):
            if f"sasl.oauthbearer.{name}" not in properties:
                raise KafkaPropertyError(f"sasl.oauthbearer.{name}", "OAUTHBEARER needs it")
        self._url = properties["sasl.oauthbearer.token.endpoint.url"]
        if urllib.parse.urlsplit(self._url).scheme not in _SCHEMES:
            raise KafkaPropertyError("sasl.oauthbearer.token.endpoint.url", "expected https://…")
        self._properties = properties
        self._lock = threading.Lock()
        self._token = ""
        self._until = 0.0

    def token(self) -> str:
        """The token, a new one when the last has lived for most of its time."""
        with self._lock:
            if time.monotonic() >= self._until:
                asked = time.monotonic()
                self._token, lifetime_s = self._fetch()
                self._until = asked + _KEPT * lifetime_s
            return self._token

    def extensions(self) -> dict[str, str]:
        """``name=value``, comma-separated, as librdkafka has them."""
        text = self._properties.get("sasl.oauthbearer.extensions", "")
        return dict(pair.split("=", 1) for pair in text.split(",") if "=" in pair)

    def _fetch(self) -> tuple[str, float]:
        given = self._properties
        # Not encoded before base64, as librdkafka and Java send them.
        user = given["sasl.oauthbearer.client.id"]
        secret = given["sasl.oauthbearer.client.secret"]
        form = {"grant_type": "client_credentials"}
        if "sasl.oauthbearer.scope" in given:
            form["scope"] = given["sasl.oauthbearer.scope"]
        request = urllib.request.Request(  # noqa: S310  the scheme was checked
            self._url,
            urllib.parse.urlencode(form).encode(),
            {"Authorization": f"Basic {base64.b64encode(f'{user}:{secret}'.encode()).decode()}"},
        )
        context = ssl.create_default_context(cafile=given.get("https.ca.location"))
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S, context=context) as answer:  # noqa: S310
                document = json.loads(answer.read(ANSWER_BYTES_MAX))
            return str(document["access_token"]), float(document.get("expires_in", 0))
        except (OSError, ValueError, KeyError, TypeError) as error:
            reason = getattr(error, "reason", None) or type(error).__name__
            raise KafkaPropertyError(
                "sasl.oauthbearer.token.endpoint.url", f"no token comes from there: {reason}"
            ) from None
