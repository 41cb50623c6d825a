"""The extras stream, tables, serve, metrics and mysql: what the bare install lacks."""

from __future__ import annotations

from importlib.util import find_spec

from tallystick.coordinates.values.errors import MissingExtraError

_TABLES = {"deltalake": "deltalake"}
_METRICS = {"prometheus_client": "prometheus-client"}
EXTRAS = {
    "stream": {
        **_TABLES,
        "pyspark": "pyspark",
        "great_expectations": "great-expectations",
        "pandas": "pandas",
        "google.protobuf": "protobuf",
        **_METRICS,
        "urllib3": "urllib3",
    },
    "tables": _TABLES,
    "serve": {**_TABLES, "aiohttp": "aiohttp"},
    "metrics": _METRICS,
    "mysql": {"cryptography": "cryptography"},
}
"""Modules, and the packages that bring them. confluent-kafka can be missing: there is a second."""


def missing_packages(extra: str) -> list[str]:
    """The packages of an extra that are not installed; imports nothing."""
    return [name for module, name in EXTRAS[extra].items() if not _is_installed(module)]


def require_extra(extra: str, what: str) -> None:
    """Return when an extra is installed.

    Args:
        extra: The extra.
        what: What needs it: ``tallystick audit``, ``--metrics-port``.

    Raises:
        MissingExtraError: It is not.
    """
    missing = missing_packages(extra)
    if missing:
        raise MissingExtraError(f"{what} needs {missing[0]}", extra)


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package that holds it is missing
        return False
