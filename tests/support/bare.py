"""The command where the packages of the extras are not installed."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]
STREAM = (
    "deltalake",
    "pyspark",
    "great_expectations",
    "pandas",
    "google",
    "prometheus_client",
    "urllib3",
)
"""The modules that only the extra stream brings, without the Kafka client."""
EXTRAS = (*STREAM, "aiohttp", "confluent_kafka", "cryptography", "py4j", "scipy")
ALL_BUT_TABLES = tuple(name for name in EXTRAS if name != "deltalake")
"""The modules that are missing where only the extra tables is installed."""
_PROGRAM = """\
import sys
sys.path[:0] = sys.argv.pop(1).split(":")
from tallystick.cli import main
main()
"""


def link_packages(to: Path, without: Iterable[str]) -> None:
    """Make a directory of links to all that is installed, without some modules."""
    left_out = set(without)
    to.mkdir()
    for path in filter(lambda path: path.endswith("site-packages"), sys.path):
        for entry in Path(path).iterdir():
            if entry.name.partition(".")[0] not in left_out and not (to / entry.name).exists():
                (to / entry.name).symlink_to(entry)


def command_in(packages: Path, *arguments: str) -> list[str]:
    """The command line of this checkout, with the packages of a directory and no others."""
    return [sys.executable, "-S", "-c", _PROGRAM, f"{ROOT}:{packages}", *arguments]
