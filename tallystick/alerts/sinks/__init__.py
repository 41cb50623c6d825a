"""Where alerts go: each module of this package is a kind of sink, found by its name.

A sink is a module with a function ``open_sink(target, context)``. The target is what comes after
``NAME=``: a URL, a path. A new one is a new module here and its test; nothing lists them. Modules
whose names begin with an underscore are shared by several.
"""

from __future__ import annotations

import hashlib
import importlib
import pkgutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

from tallystick.alerts.alert import Alert
from tallystick.errors import MisuseError
from tallystick.names import suggestion

NAMES = sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))


class SinkError(Exception):
    """A sink did not take an alert.

    Attributes:
        retry_after_s: So long it wants to be left alone; None: it did not say.
        is_final: It will never take this alert.
    """

    def __init__(
        self, reason: str, *, retry_after_s: float | None = None, is_final: bool = False
    ) -> None:
        super().__init__(reason)
        self.retry_after_s = retry_after_s
        self.is_final = is_final


class Sink(Protocol):
    """Takes one alert after the other, in a thread of its own.

    Attributes:
        repeat_s: Alerts that fire are sent again after so many seconds, together; None: never. Such
            a sink keeps an alert's state, so it is also told that one was acknowledged.
    """

    repeat_s: float | None

    def send(self, alerts: Sequence[Alert], attempt: int) -> None:
        """Deliver alerts: one, or what is repeated.

        Args:
            alerts: Their documents.
            attempt: 1, or more when an earlier attempt failed or its end was not seen.

        Raises:
            SinkError: They were not taken.
        """
        ...

    def close(self) -> None:
        """End what runs."""
        ...


class Request(NamedTuple):
    """A sink that is asked for.

    Attributes:
        name: Its kind.
        target: Where it is; may be a secret.
        label: How it is named to people and in metrics: nothing in it is secret.
        key: How it is known to the queue.
    """

    name: str
    target: str
    label: str
    key: str


@dataclass(frozen=True)
class Context:
    """What sinks are opened with.

    Attributes:
        notice: Shows a line to whoever runs the audit.
        secret: Signs what a webhook gets; None: it is not signed.
    """

    notice: Callable[[str], None]
    secret: bytes | None = None


def requests_of(texts: Sequence[str]) -> list[Request]:
    """Read ``NAME`` or ``NAME=TARGET`` each.

    Raises:
        MisuseError: A name is not known, or a target cannot be one.
    """
    for text in texts:
        if text.endswith("=") and text[:-1] in NAMES:
            raise MisuseError(f"alerts: {text!r}: expected a target after =")
    asked = [(name, target) for name, _, target in (text.partition("=") for text in texts)]
    labels = Counter(map(_label, *zip(*asked, strict=True))) if asked else Counter()
    requests = {}
    for name, target in asked:
        if name not in NAMES:
            hint = suggestion(name, dict.fromkeys(NAMES)) or f": expected {', '.join(NAMES)}"
            raise MisuseError(f"no sink of alerts has the name {name[:80]!r}{hint}")
        key = hashlib.sha256(f"{name}={target}".encode("utf-8", "surrogatepass")).hexdigest()[:16]
        label = _label(name, target)
        label = label if labels[label] == 1 else f"{label} {key[:4]}"
        requests[key] = Request(name, target, label, key)
    return list(requests.values())


def open_sink(request: Request, context: Context) -> Sink:
    """The sink that is asked for.

    Raises:
        MisuseError: Its target is not one, or not there.
    """
    module = importlib.import_module(f"{__name__}.{request.name}")
    sink: Sink = module.open_sink(request.target, context)
    return sink


def has_credentials(text: str) -> bool:
    """Whether a target names a user or a password."""
    return "@" in _netloc(text.partition("=")[2])


def shown(text: str) -> str:
    """``NAME=TARGET`` without what may be a secret: a URL's path is one at many services."""
    name, _, target = text.partition("=")
    netloc = _netloc(target)
    if netloc:
        return f"{name}={target.partition('://')[0]}://{netloc.rpartition('@')[2]}/…"
    return text


def _label(name: str, target: str) -> str:
    where = _netloc(target).rpartition("@")[2] or target
    return f"{name} {where}" if where else name


def _netloc(target: str) -> str:
    try:
        return urlsplit(target).netloc
    except ValueError:
        return target.partition("://")[2].partition("/")[0]
