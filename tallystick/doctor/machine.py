"""Checks of this machine: what ``preflight`` asks, extras, jars, state directory, ports."""

from __future__ import annotations

import platform
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tallystick.commands.serve import LISTEN
from tallystick.deploy import preflight
from tallystick.deploy.class_archives import SPARK, with_archive
from tallystick.deploy.jars import BROKER, SPARK_KAFKA, missing_jars, set_directory
from tallystick.doctor.checks import Answer, Place, failed, passed, warning
from tallystick.extras import EXTRAS, missing_packages
from tallystick.page_server.address import Address
from tallystick.settings import Settings
from tallystick.streaming.errors import TableError
from tallystick.streaming.tables import require_place

_NEEDED_BY = {
    "stream": "audit and demo",
    "tables": "report and --output tables",
    "serve": "serve and audit --serve",
    "metrics": "--metrics-port",
    "mysql": "servers that offer no TLS, for accounts with caching_sha2_password",
}
_ARCHIVES_FIX = "python -m tallystick.runs.class_archives"


def check_machine(place: Place, settings: Settings | None, roles: frozenset[str]) -> None:
    """Check what the roles need of this machine.

    Args:
        place: Takes the checks.
        settings: None: they cannot be read.
        roles: Of ``check``, ``tail``, ``audit``: those that this machine shall play.
    """
    system, python = platform.system(), sys.version_info[:2]
    place.try_("system", lambda: _unless(preflight.platform_problem(system), system))
    place.try_(
        "python", lambda: _unless(preflight.python_problem(python), platform.python_version())
    )
    for name in EXTRAS:
        if name != "stream" or "audit" in roles:
            place.try_(f"extra {name}", lambda name=name: _extra(name))  # type: ignore[misc]
    if "audit" in roles:
        place.try_("java", lambda: _unless(preflight.java_problem(), str(preflight.java_command())))
        place.try_("jars", _jars)
        place.try_("class archives", _archives, needs="jars")
    if settings is None or roles == {"check"}:
        return
    directory = settings.directory.absolute()
    place.try_("state directory", lambda: _writable(directory))
    place.try_("disk space", lambda: _space(directory))
    if "audit" in roles:
        place.try_("tables", lambda: _tables(directory))
        place.try_("alerts", lambda: _sinks(settings), fix="docs/alerts.md")
        page = Address.of(LISTEN)
        place.try_("page port", lambda: _port(page.port, page.host, warning))
        if settings.metrics_port is not None:
            host, port = settings.metrics_host, settings.metrics_port
            place.try_("metrics port", lambda: _port(port, host, failed))


def _unless(problem: preflight.Problem | None, seen: str) -> Answer:
    return passed(seen) if problem is None else failed(problem.sentence, problem.fix)


def _extra(name: str) -> Answer:
    missing = missing_packages(name)
    if not missing:
        return passed("installed")
    fix = f"in a clone of tallystick: pip install '.[{name}]'"
    answer = failed if name == "stream" else warning
    return answer(f"{', '.join(missing)} not installed, which {_NEEDED_BY[name]} need", fix)


def _jars() -> Answer:
    missing = [jar.file_name for name in (SPARK_KAFKA, BROKER) for jar in missing_jars(name)]
    if not missing:
        return passed(f"whole, in {set_directory(SPARK_KAFKA).parent}")
    more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
    return warning(
        f"{missing[0]}{more} not there: fetched by the first command that needs them",
        "python -m tallystick.deploy.jars, where there is a network",
    )


def _archives() -> Answer:
    if with_archive(SPARK):
        return passed("made for these jars and this pyspark")
    return warning("none for these jars and this pyspark: Spark starts more slowly", _ARCHIVES_FIX)


def _writable(directory: Path) -> Answer:
    existing = preflight.nearest_existing(directory)
    try:
        tempfile.TemporaryFile(dir=existing).close()
    except OSError as error:
        return failed(
            f"{str(existing)!r} cannot be written: {error.strerror}",
            "set directory (TALLYSTICK_DIRECTORY) to one of this user's",
        )
    return passed(f"{directory}" if existing == directory else f"{directory}, to be made")


def _tables(directory: Path) -> Answer:
    try:
        require_place(directory)
    except TableError as error:
        return failed(str(error), "set directory (TALLYSTICK_DIRECTORY) to another one")
    return passed("can be in the state directory")


def _space(directory: Path) -> Answer:
    existing = preflight.nearest_existing(directory)
    free = shutil.disk_usage(existing).free / preflight.GIB
    return _unless(preflight.disk_problem(directory, preflight.RUN_BYTES), f"{free:.1f} GiB free")


def _sinks(settings: Settings) -> Answer:
    from tallystick.alerts.service import sinks_of

    if not settings.alerts:
        return passed("no sinks are set")
    sinks_of(settings, lambda _: None)
    return passed(f"{len(settings.alerts)} sinks, to which nothing was sent")


def _port(port: int, host: str, answer: Callable[[str, str], Answer]) -> Answer:
    problem = preflight.port_problem(port, host)
    if problem is None:
        return passed(f"{host}:{port} is free")
    return answer(problem.sentence, f"{problem.fix}; an audit that runs here listens itself")
