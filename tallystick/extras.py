"""The extras stream, tables, serve, metrics and mysql: what the bare install lacks."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

from tallystick.coordinates.values.errors import MissingExtraError

_TABLES = {"deltalake": "deltalake"}
_MYSQL = {"cryptography": "cryptography"}
_PAGE = {**_TABLES, "aiohttp": "aiohttp"}
_METRICS = {"prometheus_client": "prometheus-client"}
_STREAM = {
    **_TABLES,
    "pyspark": "pyspark",
    "great_expectations": "great-expectations",
    "pandas": "pandas",
    "google.protobuf": "protobuf",
    **_METRICS,
    "urllib3": "urllib3",
}
"""Modules, and the packages that bring them. confluent-kafka can be missing: there is a second."""


EXTRAS = {
    "stream": _STREAM,
    "tables": _TABLES,
    "serve": _PAGE,
    "metrics": _METRICS,
    "mysql": _MYSQL,
}


def missing_packages(extra: str) -> list[str]:
    """The packages of an extra that are not installed; imports nothing."""
    return [name for module, name in EXTRAS[extra].items() if not _is_installed(module)]


def missing_of_stream() -> str | None:
    """The first package of the extra that is not installed, None when all are; imports nothing."""
    return _first_missing(_STREAM)


def require_stream(what: str) -> None:
    """Return when the extra is installed.

    Args:
        what: What needs it: ``tallystick audit``.

    Raises:
        MissingExtraError: It is not.
    """
    missing = missing_of_stream()
    if missing is not None:
        raise MissingExtraError(f"{what} needs {missing}", "stream")


def require_tables(what: str) -> None:
    """Return when a run's tables can be read and written.

    Args:
        what: What needs it: ``tallystick report``.

    Raises:
        MissingExtraError: They cannot.
    """
    missing = _first_missing(_TABLES)
    if missing is not None:
        raise MissingExtraError(f"{what} needs {missing}", "tables")


def require_page(what: str) -> None:
    """Return when the page of a run can be served.

    Args:
        what: What serves it: ``tallystick serve``.

    Raises:
        MissingExtraError: It cannot.
    """
    missing = _first_missing(_PAGE)
    if missing is not None:
        raise MissingExtraError(f"{what} needs {missing}", "serve")


def require_metrics(what: str) -> None:
    """Return when metrics can be served.

    Args:
        what: What needs it: ``--metrics-port``.

    Raises:
        MissingExtraError: They cannot.
    """
    missing = _first_missing(_METRICS)
    if missing is not None:
        raise MissingExtraError(f"{what} needs {missing}", "metrics")


def _first_missing(packages: Mapping[str, str]) -> str | None:
    return next((name for module, name in packages.items() if not _is_installed(module)), None)


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package that holds it is missing
        return False
