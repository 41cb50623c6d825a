"""The command where the packages of the extras are not installed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

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
_EACH = """\
import json, os, sys
root, cases = sys.argv[1], json.loads(sys.argv[2])
sys.path[:0] = [root, cases[0][0]]
from tallystick.cli import main
codes = []
for packages, arguments, *outputs in cases:
    child = os.fork()
    if not child:
        sys.path[1] = packages
        sys.argv[1:] = arguments
        for number, name in enumerate(outputs, 1):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT), number)
        main()
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(json.dumps(codes))
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


def run_each(
    cases: Sequence[tuple[Path, Sequence[str]]], outputs: Path, **options: Any
) -> list[subprocess.CompletedProcess[str]]:
    """Run command lines one after another, each with the packages of its directory.

    Each has a process of its own, which begins where the command has been imported: that takes as
    long as most of what is to be seen of it.
    """
    lines = [
        (str(packages), arguments, str(outputs / f"{number}.out"), str(outputs / f"{number}.err"))
        for number, (packages, arguments) in enumerate(cases)
    ]
    done = subprocess.run(
        [sys.executable, "-S", "-c", _EACH, str(ROOT), json.dumps(lines)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        **options,
    )
    return [
        subprocess.CompletedProcess(arguments, code, *(Path(name).read_text() for name in written))
        for code, (_, arguments, *written) in zip(json.loads(done.stdout), lines, strict=True)
    ]
