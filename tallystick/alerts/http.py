"""JSON by POST, for what is reached by HTTP."""

from __future__ import annotations

import email.utils
import json
import time
import urllib.request
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, final

import urllib3

from tallystick import __version__
from tallystick.alerts.sinks import SinkError
from tallystick.errors import MisuseError

CONNECT_S, READ_S = 5.0, 10.0
RETRY_AFTER_MAX_S = 3_600.0
_REASON_BYTES = 300
_FINAL = frozenset({400, 413, 414, 415, 422, 431})
"""Statuses that say that this alert, not the receiver or the way there, is at fault."""


def encoded(document: Any) -> bytes:
    """A document as JSON in ASCII."""
    return json.dumps(document, separators=(",", ":")).encode()


@final
class Endpoint:
    """A URL that takes JSON. Redirects are not followed: what is signed goes to nobody else.

    Args:
        url: With user and password, if any; never shown.
        what: The flag that names it, for messages.
        headers: Of each request.

    Raises:
        MisuseError: It is no URL of HTTP.
    """

    def __init__(
        self, url: str, what: str, headers: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        try:
            parts = urllib3.util.parse_url(url)
        except urllib3.exceptions.LocationParseError:
            parts = urllib3.util.Url()
        if parts.scheme not in ("http", "https") or not parts.host:
            raise MisuseError(f"{what}: expected the URL of http or https after =")
        self._headers = {
            "Content-Type": "application/json",
            "User-Agent": f"tallystick/{__version__}",
            **headers,
            **(urllib3.util.make_headers(basic_auth=parts.auth) if parts.auth else {}),
        }
        self._url = parts._replace(auth=None, fragment=None).url
        proxy = None
        if not urllib.request.proxy_bypass(parts.host):
            proxy = urllib.request.getproxies().get(parts.scheme)
        options: dict[str, Any] = {
            "timeout": urllib3.Timeout(connect=CONNECT_S, read=READ_S),
            "retries": False,
        }
        self._pool = (
            urllib3.ProxyManager(proxy, **options) if proxy else urllib3.PoolManager(**options)
        )

    def post(self, body: bytes, headers: Mapping[str, str]) -> None:
        """Send a body.

        Raises:
            SinkError: It was not taken.
        """
        try:
            answer = self._pool.request(
                "POST",
                self._url,
                body=body,
                headers={**self._headers, **headers},
                redirect=False,
                preload_content=False,
            )
            try:
                text = answer.read(_REASON_BYTES).decode("utf-8", "replace")
            finally:
                answer.close()
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise SinkError(_reason(error)) from error
        if 200 <= answer.status < 300:
            return
        raise SinkError(
            f"status {answer.status} {' '.join(text.split())}".rstrip(),
            retry_after_s=_seconds(answer.headers.get("Retry-After")),
            is_final=answer.status in _FINAL,
        )


def _reason(error: Exception) -> str:
    """What went wrong, without the URL, whose path may be a secret."""
    if isinstance(error, urllib3.exceptions.MaxRetryError) and error.reason is not None:
        return _reason(error.reason)
    if isinstance(error, urllib3.exceptions.NewConnectionError):
        return "no connection"
    if isinstance(error, urllib3.exceptions.TimeoutError):
        return "no answer in time"
    if isinstance(error, urllib3.exceptions.SSLError):
        return f"TLS: {error}"
    return type(error).__name__


def _seconds(text: str | None) -> float | None:
    """``Retry-After``: seconds, or a date; None where it is neither."""
    if text is None:
        return None
    try:
        if text.strip().isdecimal():
            seconds = float(text)
        else:
            seconds = email.utils.parsedate_to_datetime(text).timestamp() - time.time()
    except (ValueError, TypeError, OverflowError):
        return None
    return min(max(seconds, 0.0), RETRY_AFTER_MAX_S)
